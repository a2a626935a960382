#include "dist/ps_terms.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_TEXT 64  /* bytes of a value other than the pieces */
#define PIECES_MAX 256 /* of a schedule */

typedef enum { INT, INT64, UINT64, YES_NO, MODE, REAL, NAME, PIECES, COLUMNS } term_type;

/* Every term; the names are those of the command's flags where there is one. */
static const struct {
  const char *name;
  term_type type;
  size_t offset;
} table[] = {
    {"workers", INT, offsetof(ps_terms, workers)},
    {"ps", INT, offsetof(ps_terms, servers)},
    {"mode", MODE, offsetof(ps_terms, sync)},
    {"staleness", INT64, offsetof(ps_terms, staleness)},
    {"in-flight", INT, offsetof(ps_terms, in_flight)},
    {"backup-workers", INT, offsetof(ps_terms, backups)},
    {"deterministic-rows", INT64, offsetof(ps_terms, round)},
    {"local-steps", INT64, offsetof(ps_terms, local_steps)},
    {"parameters", INT64, offsetof(ps_terms, elements)},
    {"averages", INT64, offsetof(ps_terms, averages)},
    {"table-rows", INT64, offsetof(ps_terms, touched)},
    {"table-width", INT64, offsetof(ps_terms, width)},
    {"table-first", INT64, offsetof(ps_terms, first_row)},
    {"table-started", INT64, offsetof(ps_terms, started)},
    {"table-columns", COLUMNS, 0},
    {"table-row-slots", YES_NO, offsetof(ps_terms, row_slots)},
    {"growing-ids", YES_NO, offsetof(ps_terms, ids)},
    {"table-others", INT64, offsetof(ps_terms, other_rows)},
    {"ids-memory", INT64, offsetof(ps_terms, ids_memory)},
    {"admit", INT64, offsetof(ps_terms, ids_admit)},
    {"evict-after", INT64, offsetof(ps_terms, ids_evict_after)},
    {"optimizer", NAME, offsetof(ps_terms, optimizer.name)},
    {"momentum", REAL, offsetof(ps_terms, optimizer.momentum)},
    {"nesterov", YES_NO, offsetof(ps_terms, optimizer.nesterov)},
    {"decay", REAL, offsetof(ps_terms, optimizer.decay)},
    {"beta1", REAL, offsetof(ps_terms, optimizer.beta1)},
    {"beta2", REAL, offsetof(ps_terms, optimizer.beta2)},
    {"epsilon", REAL, offsetof(ps_terms, optimizer.epsilon)},
    {"l1", REAL, offsetof(ps_terms, optimizer.l1)},
    {"l2", REAL, offsetof(ps_terms, optimizer.l2)},
    {"beta", REAL, offsetof(ps_terms, optimizer.beta)},
    {"accumulator", REAL, offsetof(ps_terms, optimizer.accumulator)},
    {"weight-decay", REAL, offsetof(ps_terms, optimizer.weight_decay)},
    {"average", REAL, offsetof(ps_terms, optimizer.average)},
    {"clip-value", REAL, offsetof(ps_terms, optimizer.clip_value)},
    {"clip-global-norm", REAL, offsetof(ps_terms, optimizer.clip_global_norm)},
    {"schedule", NAME, offsetof(ps_terms, schedule.name)},
    {"lr", REAL, offsetof(ps_terms, schedule.rate)},
    {"decay-factor", REAL, offsetof(ps_terms, schedule.factor)},
    {"decay-every", INT64, offsetof(ps_terms, schedule.every)},
    {"final-lr", REAL, offsetof(ps_terms, schedule.final_rate)},
    {"pieces", PIECES, 0},
    {"warmup", INT64, offsetof(ps_terms, schedule.warmup)},
    {"seed", UINT64, offsetof(ps_terms, seed)},
};

/* ---- writing */

static const char *mode_name(bool sync) { return sync ? "sync" : "async"; }

/* exactly: reals bit by bit, for the other end; otherwise for people. */
static void write_value(const ps_terms *t, size_t row, bool exactly, text *out) {
  const void *at = (const char *)t + table[row].offset;
  const char *real = exactly ? "%a" : "%.9g";
  char number[VALUE_TEXT];
  switch (table[row].type) {
    case INT: text_add(out, "%d", *(const int *)at); break;
    case INT64: text_add(out, "%lld", (long long)*(const int64_t *)at); break;
    case UINT64: text_add(out, "%llu", (unsigned long long)*(const uint64_t *)at); break;
    case YES_NO: text_add(out, "%s", *(const bool *)at ? "yes" : "no"); break;
    case MODE: text_add(out, "%s", mode_name(*(const bool *)at)); break;
    case NAME: text_add(out, "%s", *(const char *const *)at); break;
    case REAL:
      snprintf(number, sizeof number, real, *(const double *)at);
      text_add(out, "%s", number);
      break;
    case PIECES:
      if (!t->schedule.pieces) text_add(out, "none");
      for (int i = 0; i < t->schedule.pieces; i++) {
        snprintf(number, sizeof number, real, t->schedule.rates[i]);
        text_add(out, "%s%lld:%s", i ? "," : "", (long long)t->schedule.boundaries[i], number);
      }
      break;
    case COLUMNS:
      if (!t->tables) text_add(out, "none");
      for (int i = 0; i < t->tables; i++) {
        const ps_columns *c = &t->columns[i];
        snprintf(number, sizeof number, real, c->limit);
        text_add(out, "%s%lld:%lld:%s", i ? "," : "", (long long)c->width, (long long)c->zeros, number);
      }
      break;
  }
}

shoal_status ps_terms_write(const ps_terms *t, text *out) {
  if (t->schedule.pieces > PIECES_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "a schedule of %d pieces: parameter servers take at most %d",
                       t->schedule.pieces, PIECES_MAX);
  for (size_t i = 0; i < COUNT_OF(table); i++) {
    text_add(out, "%s%s=", i ? " " : "", table[i].name);
    write_value(t, i, true, out);
  }
  return out->failed ? status_no_memory() : NULL;
}

int ps_terms_differ(const ps_terms *theirs, const ps_terms *ours, text *out) {
  int n = 0;
  for (size_t i = 0; i < COUNT_OF(table); i++) {
    text a = {0}, b = {0};
    write_value(theirs, i, true, &a);
    write_value(ours, i, true, &b);
    const bool same = !a.failed && !b.failed && !strcmp(a.data, b.data);
    text_fini(&a);
    text_fini(&b);
    if (same) continue;
    text_add(out, "%s%s is ", n++ ? "; " : "", table[i].name);
    write_value(theirs, i, false, out);
    text_add(out, " there, ");
    write_value(ours, i, false, out);
    text_add(out, " here");
  }
  return n;
}

/* ---- reading */

/* Boundaries, rates and texts of what is read; ps_terms.owned. */
typedef struct {
  int64_t boundaries[PIECES_MAX];
  double rates[PIECES_MAX];
  char words[];
} storage;

static bool read_pieces(char *value, ps_terms *t, storage *s) {
  int n = 0;
  if (!strcmp(value, "none")) return true;
  for (char *piece; (piece = strsep(&value, ",")); n++) {
    char *rate = strchr(piece, ':');
    if (!rate || n == PIECES_MAX) return false;
    *rate++ = 0;
    if (!text_to_int(piece, &s->boundaries[n]) || !text_to_double(rate, &s->rates[n])) return false;
  }
  t->schedule.boundaries = s->boundaries;
  t->schedule.rates = s->rates;
  t->schedule.pieces = n;
  return true;
}

static bool read_columns(char *value, ps_terms *t) {
  if (!strcmp(value, "none")) return true;
  for (char *piece; (piece = strsep(&value, ",")); t->tables++) {
    if (t->tables == PS_TABLES_MAX) return false;
    ps_columns *c = &t->columns[t->tables];
    char *width = strsep(&piece, ":"), *zeros = strsep(&piece, ":");
    if (!piece) return false;
    if (!text_to_int(width, &c->width) || !text_to_int(zeros, &c->zeros) || !text_to_double(piece, &c->limit))
      return false;
  }
  return true;
}

static bool read_value(char *value, size_t row, ps_terms *t, storage *s) {
  void *at = (char *)t + table[row].offset;
  int64_t number = 0;
  char *end;
  switch (table[row].type) {
    case INT:
      if (!text_to_int(value, &number) || number < INT32_MIN || number > INT32_MAX) return false;
      *(int *)at = (int)number;
      return true;
    case INT64: return text_to_int(value, at);
    case UINT64: *(uint64_t *)at = strtoull(value, &end, 10); return *value && !*end;
    case YES_NO: *(bool *)at = !strcmp(value, "yes"); return *(bool *)at || !strcmp(value, "no");
    case MODE: *(bool *)at = !strcmp(value, mode_name(true)); return *(bool *)at || !strcmp(value, mode_name(false));
    case REAL: return text_to_double(value, at);
    case NAME: *(const char **)at = value; return *value;
    case PIECES: return read_pieces(value, t, s);
    case COLUMNS: return read_columns(value, t);
  }
  return false;
}

shoal_status ps_terms_read(const char *words, size_t length, ps_terms *out) {
  if (length > PS_TERMS_TEXT) return status_make(SHOAL_ERR_PEER, "settings of %zu bytes", length);
  storage *s = calloc(1, sizeof *s + length + 1);
  if (!s) return status_no_memory();
  ps_terms t = {.owned = s};
  memcpy(s->words, words, length);
  char *rest = s->words;
  for (size_t i = 0; i < COUNT_OF(table); i++) {
    const size_t name = strlen(table[i].name);
    char *word = strsep(&rest, " ");
    const bool named = word && !strncmp(word, table[i].name, name) && word[name] == '=';
    if (named && read_value(word + name + 1, i, &t, s)) continue;
    shoal_status status = status_make(SHOAL_ERR_PEER,
                                      "settings with '%.60s' where %s=... is expected: do all tasks run "
                                      "the same version of Shoal?",
                                      word ? word : "nothing", table[i].name);
    free(s);
    return status;
  }
  *out = t;
  return NULL;
}

void ps_terms_fini(ps_terms *t) {
  free(t->owned);
  *t = (ps_terms){0};
}
