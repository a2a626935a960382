#include "dist/ps_view.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_alive(const ps_member *m, uint64_t life) { return m->heard && !m->silent && m->said.life == life; }
static bool has_ended(const ps_member *m, uint64_t life) { return m->heard && m->said.life != life; }

static ps_view with(const ps_view *last, int primary, uint64_t primary_life, int backup, uint64_t backup_life) {
  return (ps_view){.term = last->term + 1,
                   .primary = primary,
                   .primary_life = primary_life,
                   .backup = backup,
                   .backup_life = backup_life};
}

/* Nothing is left, or was there yet: a member that holds nothing begins, the first if possible. */
static bool begin_anew(const ps_view *last, const ps_member *members, bool patient, ps_view *out) {
  for (int m = 0; m < (patient ? 1 : PS_MEMBERS); m++)
    if (members[m].heard && !members[m].silent && members[m].said.role == PS_BLANK) {
      *out = with(last, m, members[m].said.life, -1, 0);
      out->anew = 1;
      return true;
    }
  return false;
}

bool ps_view_next(const ps_view *last, const ps_member members[PS_MEMBERS], bool patient, ps_view *out) {
  if (!last->term) return begin_anew(last, members, patient, out);
  const int p = last->primary, b = last->backup, other = 1 - p;
  const ps_member *primary = &members[p];
  const bool serves = is_alive(primary, last->primary_life),
             follows = b >= 0 && is_alive(&members[b], last->backup_life);
  if (!serves && follows) {
    *out = with(last, b, last->backup_life, -1, 0);
    return true;
  }
  if (serves && b >= 0 && (!follows || (primary->said.term == last->term && primary->said.cut_off))) {
    *out = with(last, p, last->primary_life, -1, 0);
    return true;
  }
  if (serves && b < 0 && primary->said.term == last->term && primary->said.awaits) {
    const bool there = is_alive(&members[other], primary->said.awaits) && !primary->said.cut_off;
    *out = with(last, p, last->primary_life, there ? other : -1, there ? primary->said.awaits : 0);
    return true;
  }
  const bool lost = has_ended(primary, last->primary_life) && (b < 0 || has_ended(&members[b], last->backup_life));
  return lost && begin_anew(last, members, false, out);
}

uint64_t ps_view_to_fill(const ps_view *v, const ps_member members[PS_MEMBERS], int *member) {
  if (!v->term || v->backup >= 0 || !is_alive(&members[v->primary], v->primary_life)) return 0;
  const ps_member *other = &members[1 - v->primary];
  if (!other->heard || other->silent) return 0;
  *member = 1 - v->primary;
  return other->said.life;
}

void ps_view_write(const ps_view *v, text *out) {
  text_add(out, "term=%" PRIu64 " primary=%d:%" PRIu64 " backup=%d:%" PRIu64 " anew=%d\n", v->term, v->primary,
           v->primary_life, v->backup, v->backup_life, v->anew);
}

bool ps_view_read(const char *words, ps_view *out) {
  ps_view v = {0};
  if (sscanf(words, "term=%" SCNu64 " primary=%d:%" SCNu64 " backup=%d:%" SCNu64 " anew=%d", &v.term, &v.primary,
             &v.primary_life, &v.backup, &v.backup_life, &v.anew) != 6)
    return false;
  if (v.primary < 0 || v.primary >= PS_MEMBERS || v.backup < -1 || v.backup >= PS_MEMBERS || !v.term) return false;
  *out = v;
  return true;
}
