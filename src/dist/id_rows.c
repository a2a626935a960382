#include "dist/id_rows.h"

#include "base/mem.h"
#include "dist/sparse_rows.h"
#include "kernel/table.h"

#include <string.h>

typedef struct {
  uint64_t *ids; /* [touched] */
  int64_t n;
  bool others;
} id_list;

struct id_rows {
  const ps_terms *terms;
  id_table *table;
  int vectors;
  int64_t width, touched, others; /* of this server */
  int64_t numbers;                /* of a row, all vectors */
  float *blank;                   /* [numbers] weights 0, slots as they begin */
  float *begun;                   /* [numbers] room */
  struct asked_ids {
    id_list now, next;
  } * asked; /* [workers] */
  /* of the update under way */
  uint64_t *all; /* [n_all] */
  int64_t n_all;
  int64_t *at;      /* [workers] how far each list is merged */
  int32_t *rows;    /* [n_all] */
  int32_t *keys;    /* [ID_ROWS_AT_ONCE] places in the vectors */
  int32_t *first;   /* [others] the first ones */
  float *gradients; /* [ID_ROWS_AT_ONCE, width] */
  /* reading */
  bool some;               /* of those that have changed; otherwise of all that are not free */
  int64_t ordinal, row;    /* the row with that number among them */
  int64_t place;           /* rows of the base before it */
  uint8_t *in_base;        /* [base_rows bits] rows that were not free then */
  int64_t base_rows, base; /* base: its number, -1: there is none */
  int64_t *waiting;        /* [2, waiting] ids, then how often; NULL: not listed */
  int64_t n_waiting;
  void *piece; /* [PS_PIECE_MAX f32] */
};

/* Of vector k: numbers of a row, and how many are before them. */
static int64_t width_of(const id_rows *r, int64_t k) { return ps_vector_width(r->terms, k); }
static int64_t first_of(const id_rows *r, int64_t k) { return k ? r->width + (k - 1) * width_of(r, k) : 0; }

/* The row of the vectors that rows of ids are updated in, behind those of other parameters. */
static float *window(const id_rows *r, const ps_vectors *v, int k, int64_t row) {
  return ps_vectors_table(v, k) + r->others * r->width + row * width_of(r, k);
}

/* ---- making it */

static void begin_row(void *context, uint64_t id, float *row) {
  const id_rows *r = context;
  const ps_terms *t = r->terms;
  memcpy(row, r->blank, (size_t)r->numbers * sizeof *row);
  for (int64_t i = 0, column = 0; i < t->tables; column += t->columns[i++].width) {
    const ps_columns *c = &t->columns[i];
    const table_start start = {.seed = t->seed, .width = c->width, .zeros = c->zeros, .limit = (float)c->limit};
    /* As in a process alone (train/model_ids.c). */
    const int64_t first = (int64_t)(id % (uint64_t)(INT64_MAX / c->width)) * c->width;
    if (c->limit > 0) table_initial(&start, first, c->width, row + column);
  }
}

static shoal_status make_lists(id_rows *r, int workers) {
  const size_t most = (size_t)r->touched + 1, width = (size_t)r->width;
  r->asked = calloc((size_t)workers, sizeof *r->asked);
  if (!r->asked) return status_no_memory();
  for (int w = 0; w < workers; w++) { /* pages come when they are touched */
    r->asked[w].now.ids = calloc(most, sizeof(uint64_t));
    r->asked[w].next.ids = calloc(most, sizeof(uint64_t));
    if (!r->asked[w].now.ids || !r->asked[w].next.ids) return status_no_memory();
  }
  r->all = calloc((size_t)workers * most, sizeof *r->all);
  r->rows = calloc((size_t)workers * most, sizeof *r->rows);
  r->at = calloc((size_t)workers, sizeof *r->at);
  r->keys = calloc(ID_ROWS_AT_ONCE, sizeof *r->keys);
  r->first = calloc((size_t)r->others + 1, sizeof *r->first);
  r->gradients = calloc(ID_ROWS_AT_ONCE * width, sizeof *r->gradients);
  r->piece = calloc((size_t)PS_PIECE_MAX, sizeof(float));
  return r->all && r->rows && r->at && r->keys && r->first && r->gradients && r->piece ? NULL : status_no_memory();
}

static shoal_status create(id_rows *r, const ps_vectors *v) {
  const ps_terms *t = r->terms;
  if (t->elements / t->width < r->others + ID_ROWS_AT_ONCE)
    return status_make(SHOAL_ERR_PEER, "a table of growing ids on a server of %lld rows", (long long)t->elements);
  TRY(make_lists(r, t->workers));
  for (int32_t i = 0; i < ID_ROWS_AT_ONCE; i++) r->keys[i] = (int32_t)r->others + i;
  for (int32_t i = 0; i < r->others; i++) r->first[i] = i;
  r->blank = calloc((size_t)r->numbers, sizeof *r->blank);
  r->begun = calloc((size_t)r->numbers, sizeof *r->begun);
  if (!r->blank || !r->begun) return status_no_memory();
  for (int k = 1; k < r->vectors; k++) /* all rows of a slot begin alike */
    memcpy(r->blank + first_of(r, k), window(r, v, k, 0), (size_t)width_of(r, k) * sizeof(float));
  return id_table_create(&(id_table_options){.width = r->numbers,
                                             .memory = t->ids_memory,
                                             .admit = t->ids_admit,
                                             .evict_after = t->ids_evict_after,
                                             .begin = begin_row,
                                             .context = r},
                         &r->table);
}

shoal_status id_rows_create(const ps_terms *terms, const ps_vectors *v, id_rows **out) {
  id_rows *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->terms = terms;
  r->base = -1;
  r->vectors = ps_vectors_count(v);
  r->width = terms->width;
  r->touched = terms->touched;
  r->numbers = first_of(r, r->vectors);
  r->others = MAX_OF((terms->other_rows - terms->first_row + terms->servers - 1) / terms->servers, 0);
  shoal_status status = create(r, v);
  if (status)
    id_rows_destroy(r);
  else
    *out = r;
  return status;
}

void id_rows_destroy(id_rows *r) {
  if (!r) return;
  for (int w = 0; r->asked && w < r->terms->workers; w++) {
    free(r->asked[w].now.ids);
    free(r->asked[w].next.ids);
  }
  id_table_destroy(r->table);
  free(r->asked);
  free(r->blank);
  free(r->begun);
  free(r->all);
  free(r->at);
  free(r->rows);
  free(r->keys);
  free(r->first);
  free(r->gradients);
  free(r->waiting);
  free(r->in_base);
  free(r->piece);
  free(r);
}

/* ---- what workers ask for */

static int64_t rows_of(const id_rows *r, const id_list *l) { return l->n + (l->others ? r->others : 0); }

void id_rows_forget(id_rows *r, int worker) {
  r->asked[worker].now.n = r->asked[worker].next.n = 0;
  r->asked[worker].now.others = r->asked[worker].next.others = false;
}

int64_t id_rows_given(const id_rows *r, int worker) { return rows_of(r, &r->asked[worker].now); }

const char *id_rows_ask(id_rows *r, int worker, const uint8_t *bytes, size_t length, int64_t n, bool others) {
  id_list *now = &r->asked[worker].now, *next = &r->asked[worker].next;
  if (n == PS_SAME) {
    if (length) return "unexpected bytes after its gradients";
    memcpy(next->ids, now->ids, (size_t)now->n * sizeof *now->ids);
    next->n = now->n;
    next->others = now->others;
    return NULL;
  }
  if (n < 0 || n > r->touched - r->others) return "it asks for more rows than the limit of a batch";
  const char *wrong = sparse_ids_decode(bytes, length, n, next->ids);
  next->n = wrong ? 0 : n;
  next->others = others;
  return wrong;
}

const uint64_t *id_rows_asked(const id_rows *r, int worker, int64_t *n) {
  *n = r->asked[worker].next.n;
  return r->asked[worker].next.ids;
}

/* trains: ids that would get a row have the numbers it would begin with. Rows with a mark are left out. */
static int64_t gather(id_rows *r, const id_list *l, const ps_vectors *v, bool trains, const ps_marks *marks,
                      float *values) {
  enum { SOME = 64 };
  const size_t bytes = (size_t)r->width * sizeof *values;
  float *to = values;
  int32_t rows[SOME];
  for (int64_t at = 0; at < l->n; at += SOME) {
    const int64_t n = MIN_OF((int64_t)SOME, l->n - at);
    id_table_find(r->table, l->ids + at, n, rows);
    for (int64_t i = 0; i < n; i++) {
      if (ps_is_marked(marks, at + i)) continue;
      if (rows[i] >= 0) {
        memcpy(to, id_table_row(r->table, rows[i]), bytes);
      } else if (trains && id_table_admits(r->table, l->ids[at + i])) {
        begin_row(r, l->ids[at + i], r->begun);
        memcpy(to, r->begun, bytes);
      } else {
        memset(to, 0, bytes);
      }
      to += r->width;
    }
  }
  if (l->others) memcpy(to, ps_vectors_table(v, PS_PARAMETERS), (size_t)r->others * bytes);
  return (to - values) / r->width + (l->others ? r->others : 0);
}

int64_t id_rows_repeat(id_rows *r, int worker, const ps_vectors *v, const ps_marks *marks, float *values) {
  return gather(r, &r->asked[worker].now, v, true, marks, values);
}

int64_t id_rows_answer(id_rows *r, int worker, const ps_vectors *v, bool keep, const ps_marks *marks, float *values) {
  struct asked_ids *a = &r->asked[worker];
  const int64_t n = gather(r, &a->next, v, keep, marks, values);
  if (keep) {
    const id_list now = a->now;
    a->now = a->next;
    a->next = now;
  }
  a->next.n = 0;
  a->next.others = false;
  return n;
}

/* ---- updates */

/* The least id that is left; false: none is. */
static bool next_id(const id_rows *r, const ps_gradient *gradients, int n, uint64_t *out) {
  bool found = false;
  for (int g = 0; g < n; g++) {
    const id_list *l = &r->asked[gradients[g].worker].now;
    if (r->at[g] == l->n || (found && l->ids[r->at[g]] >= *out)) continue;
    *out = l->ids[r->at[g]];
    found = true;
  }
  return found;
}

void id_rows_join(id_rows *r, const ps_gradient *gradients, int n, int32_t *const *keys) {
  uint64_t id = 0;
  for (int g = 0; g < n; g++) r->at[g] = 0;
  for (r->n_all = 0; next_id(r, gradients, n, &id); r->n_all++) {
    r->all[r->n_all] = id;
    for (int g = 0; g < n; g++) {
      const id_list *l = &r->asked[gradients[g].worker].now;
      if (r->at[g] < l->n && l->ids[r->at[g]] == id) keys[g][r->at[g]++] = (int32_t)r->n_all;
    }
  }
  for (int g = 0; g < n; g++) {
    const id_list *l = &r->asked[gradients[g].worker].now;
    for (int64_t i = 0; l->others && i < r->others; i++) keys[g][l->n + i] = (int32_t)(r->n_all + i);
  }
}

/* The first `n` rows behind the others, from and to the table. */
static void move_rows(const id_rows *r, const ps_vectors *v, const int32_t *rows, int64_t n, bool back) {
  for (int64_t i = 0; i < n; i++) {
    float *row = id_table_row(r->table, rows[i]);
    for (int k = 0; k < r->vectors; k++) {
      float *own = row + first_of(r, k), *there = window(r, v, k, i);
      memcpy(back ? own : there, back ? there : own, (size_t)width_of(r, k) * sizeof(float));
    }
  }
}

/* Each run counts as an update, but all of them are one. */
static shoal_status run(ps_vectors *v, const int32_t *keys, const float *gradients, int64_t n, int64_t count,
                        double rate) {
  if (ps_vectors_counter(v)) *ps_vectors_counter(v) = count;
  return ps_vectors_apply_rows(v, keys, gradients, n, rate);
}

shoal_status id_rows_update(id_rows *r, ps_vectors *v, const float *sums, int64_t step, double rate) {
  const int64_t count = ps_vectors_counter(v) ? *ps_vectors_counter(v) : 0;
  TRY(id_table_use(r->table, step, r->all, r->n_all, r->rows));
  if (r->others) TRY(run(v, r->first, sums + r->n_all * r->width, r->others, count, rate));
  for (int64_t at = 0; at < r->n_all;) {
    int32_t rows[ID_ROWS_AT_ONCE];
    int64_t n = 0;
    for (; at < r->n_all && n < ID_ROWS_AT_ONCE; at++) {
      if (r->rows[at] < 0) continue; /* it has none yet */
      memcpy(r->gradients + n * r->width, sums + at * r->width, (size_t)r->width * sizeof *sums);
      rows[n++] = r->rows[at];
    }
    if (!n) break;
    move_rows(r, v, rows, n, false);
    TRY(run(v, r->keys, r->gradients, n, count, rate));
    move_rows(r, v, rows, n, true);
  }
  if (ps_vectors_counter(v)) *ps_vectors_counter(v) = count + 1; /* also when no id has a row yet */
  return id_table_advance(r->table, step + 1);
}

/* ---- saving and restoring */

static shoal_status list_waiting(id_rows *r) {
  free(r->waiting);
  r->n_waiting = id_table_waiting(r->table, NULL, NULL);
  r->waiting = calloc((size_t)(2 * r->n_waiting) + 1, sizeof *r->waiting);
  int32_t *seen = calloc((size_t)r->n_waiting + 1, sizeof *seen);
  if (r->waiting && seen) {
    id_table_waiting(r->table, r->waiting, seen);
    for (int64_t i = 0; i < r->n_waiting; i++) r->waiting[r->n_waiting + i] = seen[i];
  }
  free(seen);
  return r->waiting && seen ? NULL : status_no_memory();
}

static bool was_in_base(const id_rows *r, int64_t row) {
  return row < r->base_rows && r->in_base[row / 8] >> row % 8 & 1;
}

/* Whether a row is among those that are read. */
static bool is_read(const id_rows *r, bool some, int64_t row) {
  const bool live = id_table_at(r->table, row).used;
  return some ? id_table_changed(r->table, row) && (live || was_in_base(r, row)) : live;
}

/* Rows are asked for in their order, most of the time. False: there are not so many. */
static bool go_to(id_rows *r, bool some, int64_t ordinal) {
  id_table_state s;
  id_table_state_of(r->table, &s);
  if (ordinal < r->ordinal || !ordinal || some != r->some) r->ordinal = r->row = r->place = 0;
  r->some = some;
  for (; r->row < s.rows; r->row++) {
    if (is_read(r, some, r->row)) {
      if (r->ordinal == ordinal) return true;
      r->ordinal++;
    }
    r->place += was_in_base(r, r->row);
  }
  r->ordinal = INT64_MAX; /* whatever is asked for next begins anew */
  return false;
}

/* All rows are saved as they are: from now on, those that change are known. */
static shoal_status begin_base(id_rows *r, int64_t number) {
  id_table_state s;
  id_table_state_of(r->table, &s);
  uint8_t *bits = calloc((size_t)s.rows / 8 + 1, sizeof *bits);
  r->base = -1;
  if (!bits) return status_no_memory();
  free(r->in_base);
  r->in_base = bits;
  for (int64_t i = 0; i < s.rows; i++) bits[i / 8] |= (uint8_t)((id_table_at(r->table, i).used > 0) << i % 8);
  r->base_rows = s.rows;
  r->base = number;
  id_table_clean(r->table);
  return NULL;
}

static int64_t count_changed(const id_rows *r) {
  id_table_state s;
  int64_t n = 0;
  id_table_state_of(r->table, &s);
  for (int64_t i = 0; r->base >= 0 && i < s.rows; i++) n += is_read(r, true, i);
  return n;
}

/* which: without PS_IDS_SOME. */
static const char *read_rows(id_rows *r, const ps_piece *p, int64_t which, bool some) {
  const int64_t k = which - PS_IDS_VECTOR, width = width_of(r, k);
  for (int64_t i = 0; i < p->count; i++) {
    if (!go_to(r, some, p->first + i)) return "this server has not so many ids";
    const id_table_place at = id_table_at(r->table, r->row);
    if (k >= 0)
      memcpy((float *)r->piece + i * width, id_table_row(r->table, r->row) + first_of(r, k),
             (size_t)width * sizeof(float));
    else
      ((int64_t *)r->piece)[i] = which == PS_IDS_PLACE ? (was_in_base(r, r->row) ? r->place : -1)
                                 : which == PS_IDS     ? at.id
                                                       : at.used;
  }
  return NULL;
}

static const char *read_state(id_rows *r, net_part *out) {
  id_table_state s;
  id_table_counts c;
  shoal_status status = list_waiting(r);
  shoal_status_free(status);
  if (!r->waiting) return "the server has no memory left";
  id_table_state_of(r->table, &s);
  id_table_count(r->table, &c);
  r->ordinal = r->row = r->place = 0; /* rows may be others than those that were read before */
  const id_rows_state state = {s.ids, s.admitted, s.evicted, s.step, r->n_waiting, c.bytes, r->base, count_changed(r)};
  memcpy(r->piece, &state, sizeof state);
  *out = (net_part){r->piece, sizeof state};
  return NULL;
}

const char *id_rows_read(id_rows *r, const ps_piece *p, net_part *out) {
  id_table_counts c;
  const bool some = p->which & PS_IDS_SOME;
  const int64_t which = p->which & ~(int64_t)PS_IDS_SOME;
  const bool vector = which >= PS_IDS_VECTOR && which < PS_IDS_VECTOR + r->vectors;
  const bool list = which == PS_IDS || which == PS_IDS_USED || (some && which == PS_IDS_PLACE);
  const bool waits = !some && (which == PS_IDS_WAITING || which == PS_IDS_SEEN);
  const int64_t each = vector ? width_of(r, which - PS_IDS_VECTOR) : 2; /* words of 4 bytes */
  id_table_count(r->table, &c);
  if (p->which == PS_IDS_BASE) {
    shoal_status status = p->first >= 0 ? begin_base(r, p->first) : NULL;
    const bool failed = status || p->first < 0;
    shoal_status_free(status);
    if (failed) return "the server cannot keep track of rows that change";
  }
  if (p->which == PS_IDS_STATE || p->which == PS_IDS_BASE) return read_state(r, out);
  if ((!vector && !list && !waits) || p->first < 0 || p->count < 1 || p->count > PS_PIECE_MAX / each)
    return "this server has no such part of a table";
  if (!some && p->count > (waits ? r->n_waiting : c.ids) - p->first) return "this server has not so many ids";
  *out = (net_part){r->piece, (size_t)(p->count * each) * sizeof(float)};
  if (waits)
    memcpy(r->piece, r->waiting + (which == PS_IDS_SEEN ? r->n_waiting : 0) + p->first,
           (size_t)p->count * sizeof *r->waiting);
  else
    return read_rows(r, p, which, some);
  return NULL;
}

static shoal_status write_state(id_rows *r, const uint8_t *bytes) {
  id_rows_state s;
  id_table_state now;
  memcpy(&s, bytes, sizeof s);
  id_table_state_of(r->table, &now);
  return id_table_finish(r->table, &(id_table_state){.rows = now.rows,
                                                     .free_row = -1,
                                                     .ids = now.rows,
                                                     .admitted = s.admitted,
                                                     .evicted = s.evicted,
                                                     .step = s.step});
}

/* One record; rows follow each other. */
static shoal_status write_record(id_rows *r, const ps_piece *p, const uint8_t *bytes) {
  id_rows_record one;
  memcpy(&one, bytes, sizeof one);
  if (p->which == PS_IDS_WAITING) return id_table_put_waiting(r->table, one.id, (int32_t)one.used);
  id_table_state now;
  float *row;
  id_table_state_of(r->table, &now);
  TRY(id_table_put(r->table, now.rows, (id_table_place){one.id, one.used}, &row));
  memcpy(row, bytes + sizeof one, (size_t)r->numbers * sizeof *row);
  return NULL;
}

shoal_status id_rows_write(id_rows *r, const ps_piece *p, const uint8_t *bytes, size_t length, const char **wrong) {
  size_t each = sizeof(id_rows_record);
  if (p->which == PS_IDS) each += (size_t)r->numbers * sizeof(float);
  if (p->which == PS_IDS_STATE) each = sizeof(id_rows_state);
  *wrong = "this server has no such part of a table";
  if ((p->which != PS_IDS && p->which != PS_IDS_WAITING && p->which != PS_IDS_STATE) || p->count < 0 ||
      p->count > PS_PIECE_MAX || length != (size_t)p->count * each || (p->which == PS_IDS_STATE && p->count != 1))
    return NULL;
  *wrong = NULL;
  if (p->which == PS_IDS_STATE) return write_state(r, bytes);
  for (int64_t i = 0; i < p->count; i++) TRY(write_record(r, p, bytes + (size_t)i * each));
  return NULL;
}
