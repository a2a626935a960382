#include "exec/packed.h"

#include <string.h>

/* Smaller tables are in a cache anyway. A piece is a huge page of each array. */
enum { PACKED_LEAST = 1 << 20, PACKED_PIECE = 1 << 19 }; /* numbers of one array */

static size_t block_bytes(const packed_table *t) { return (size_t)(t->rows * t->row) * sizeof(float); }

/* ---- moving the numbers */

typedef struct {
  shoal_session *session;
  packed_table *table;
} mover;

static void move_rows(const mover *m, int64_t first, int64_t rows, bool pack) {
  const packed_table *t = m->table;
  const int64_t width = t->width, row = t->row;
  for (int k = 0; k < t->arrays; k++) {
    float *own = (float *)m->session->variables[t->ids[k]].data + first * width;
    float *packed = t->block + first * row + k * width;
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < width; j++)
        if (pack)
          packed[i * row + j] = own[i * width + j];
        else
          own[i * width + j] = packed[i * row + j];
  }
}

static void move_part(void *context, int thread, int threads) {
  const mover *m = context;
  packed_table *t = m->table;
  const int64_t piece = PACKED_PIECE / t->width > 0 ? PACKED_PIECE / t->width : 1;
  int64_t first, last;
  pool_share(t->rows, piece, thread, threads, &first, &last);
  for (int64_t at = first; at < last; at += piece) {
    const int64_t rows = at + piece < last ? piece : last - at;
    move_rows(m, at, rows, !t->packed);
    if (t->packed) {
      mem_forget(t->block + at * t->row, (size_t)(rows * t->row) * sizeof(float));
      continue;
    }
    for (int k = 0; k < t->arrays; k++)
      mem_forget((float *)m->session->variables[t->ids[k]].data + at * t->width,
                 (size_t)(rows * t->width) * sizeof(float));
  }
}

/* From where the numbers are to the other place. */
static void move(shoal_session *s, packed_table *t) {
  pool_run(s->threads, move_part, &(mover){s, t});
  t->packed = !t->packed;
}

/* ---- which */

static int table_of(const shoal_session *s, int id) {
  for (size_t i = 0; i < s->n_packed; i++)
    for (int k = 0; k < s->packed[i].arrays; k++)
      if (s->packed[i].ids[k] == id) return (int)i;
  return -1;
}

/* The table that a value is of; -1: none. */
static int table_of_value(const plan *p, int value) {
  const plan_value *root = &p->values[p->values[value].root];
  return root->store == STORE_VARIABLE ? table_of(p->session, root->source->id) : -1;
}

/* A node that updates a table with slots: they are one from now on. */
static shoal_status find_table(const plan *p, const plan_node *n) {
  shoal_session *s = p->session;
  packed_table t = {0};
  if (!n->variant || !n->variant->packs || p->phases[n->phase].split) return NULL;
  for (int k = 0; k < n->ins && op_updates(n->op, k); k++) {
    const plan_value *v = &p->values[n->in[k]];
    if (k == PACKED_ARRAYS_MAX || v->store != STORE_VARIABLE || v->dtype != SHOAL_F32 || v->shape.rank != 2 ||
        !shoal_shape_equal(&v->shape, &p->values[n->in[0]].shape))
      return NULL;
    t.ids[t.arrays++] = v->source->id;
    t.rows = v->shape.dim[0];
    t.width = v->shape.dim[1];
  }
  if (t.arrays < 2 || t.rows * t.width < PACKED_LEAST) return NULL;
  t.row = t.width * t.arrays == 3 ? 4 : t.width * t.arrays;
  for (int k = 0; k < t.arrays; k++) {
    if (table_of(s, t.ids[k]) >= 0) return NULL;
    t.fixed |= (size_t)t.ids[k] < s->n_given_away && s->given_away[t.ids[k]];
  }
  TRY(mem_grow((void **)&s->packed, &s->cap_packed, s->n_packed + 1, sizeof *s->packed));
  s->packed[s->n_packed++] = t;
  return NULL;
}

static shoal_status look(plan *p) {
  shoal_session *s = p->session;
  for (int at = 0; at < p->n_order; at++) TRY(find_table(p, &p->nodes[p->order[at]]));
  if (!p->packed_at && !(p->packed_at = calloc((size_t)p->n_order + 1, sizeof *p->packed_at)))
    return status_no_memory();
  for (int at = 0; at < p->n_order; at++) {
    const plan_node *n = &p->nodes[p->order[at]];
    p->packed_at[at] = -1;
    if (!n->variant || !n->variant->packs || p->phases[n->phase].split) continue;
    for (int k = 0; k < n->ins && p->packed_at[at] < 0; k++) p->packed_at[at] = table_of_value(p, n->in[k]);
  }
  p->n_packed = s->n_packed;
  return NULL;
}

/* Whether all nodes that touch a table can take it packed, and whether one updates it. */
static void touches(const plan *p, int table, bool *any, bool *able, bool *update) {
  *any = *update = false;
  *able = true;
  for (int at = 0; at < p->n_order; at++) {
    const plan_node *n = &p->nodes[p->order[at]];
    for (int k = 0; k < n->ins; k++) {
      if (op_shape_only(n->op, k) || table_of_value(p, n->in[k]) != table) continue;
      *any = true;
      *able &= p->packed_at[at] == table;
      *update |= op_updates(n->op, k);
    }
  }
  for (int i = 0; i < p->n_fetches; i++)
    if (table_of_value(p, p->fetch_of[i]) == table) *any = true, *able = false;
}

static shoal_status prepare(plan *p, int i) {
  shoal_session *s = p->session;
  packed_table *t = &s->packed[i];
  bool any, able, update;
  touches(p, i, &any, &able, &update);
  if (!any) return NULL;
  if (!able && t->packed) move(s, t);
  if (!able || !update || t->packed || t->fixed) return NULL;
  if (!t->block) {
    shoal_status status = mem_reserve(block_bytes(t), (void **)&t->block);
    t->fixed = status != NULL; /* slower, but nothing else */
    shoal_status_free(status);
    if (t->fixed) return NULL;
  }
  move(s, t);
  return NULL;
}

shoal_status packed_prepare(plan *p) {
  shoal_session *s = p->session;
  if (s->never_packs || s->budget) return NULL;
  if (!p->packed_at || p->n_packed != s->n_packed) TRY(look(p));
  for (size_t i = 0; i < s->n_packed; i++) TRY(prepare(p, (int)i));
  for (int at = 0; at < p->n_order; at++) {
    const packed_table *t = p->packed_at[at] < 0 ? NULL : &s->packed[p->packed_at[at]];
    kernel_call *call = &p->threads[0].calls[at];
    call->packed = t && t->packed ? t->block : NULL;
    call->packed_row = t ? t->row : 0;
  }
  return NULL;
}

void packed_release(shoal_session *s, int id, bool for_good) {
  const int i = table_of(s, id);
  if (i >= 0 && s->packed[i].packed) move(s, &s->packed[i]);
  if (!for_good) return;
  if (i >= 0) s->packed[i].fixed = true;
  if ((size_t)id < s->n_given_away) {
    s->given_away[id] = true;
    return;
  }
  const size_t n = s->n_variables;
  bool *grown = realloc(s->given_away, n * sizeof *grown);
  if (!grown) {
    packed_never(s);
    return;
  }
  memset(grown + s->n_given_away, 0, (n - s->n_given_away) * sizeof *grown);
  grown[id] = true;
  s->given_away = grown;
  s->n_given_away = n;
}

void session_settle(shoal_session *s) {
  for (size_t i = 0; i < s->n_packed; i++)
    if (s->packed[i].packed) move(s, &s->packed[i]);
}

void packed_never(shoal_session *s) {
  session_settle(s);
  s->never_packs = true;
}

void packed_destroy(shoal_session *s) {
  for (size_t i = 0; i < s->n_packed; i++) mem_unreserve(s->packed[i].block, block_bytes(&s->packed[i]));
  free(s->packed);
  free(s->given_away);
}
