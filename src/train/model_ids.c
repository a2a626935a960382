#include "train/model_ids.h"

#include "base/mem.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "kernel/table.h"
#include "train/optimizer.h"

#include <stdio.h>
#include <string.h>

enum {
  ARRAYS_MAX = 1 + OPTIMIZER_SLOTS_MAX,
  NAME_TEXT = 256,
  PIECE = 1 << 16, /* numbers read from a file at a time */
  STATE = 6        /* numbers of id_table_state */
};

/* The table's variable, or a slot of it: a part of each row. */
typedef struct {
  char name[NAME_TEXT];
  const shoal_value *variable;
  float *session;       /* [room, width] */
  int64_t first, width; /* of a row */
  shoal_shape shape;    /* the variable's; dim[0] is the room */
} array;

/* Reads one array, or the ids, of rows in their order. */
typedef struct {
  model_ids *table;
  int array;            /* -1: the ids; -2: the steps they were used in */
  bool live;            /* free rows do not count */
  int64_t ordinal, row; /* where the last piece ended: so many rows that count, and the row that follows */
} reader;

struct model_ids {
  shoal_model *model;
  model_elsewhere elsewhere;
  id_table *table;
  table_start start;
  array arrays[ARRAYS_MAX];
  int n_arrays;
  int64_t width, room; /* numbers of a row of the table, rows of the session's */
  float *blank;        /* [width] weights 0, slots as they begin */
  /* the batch */
  uint64_t *ids;   /* [n] each once */
  int32_t *rows;   /* [n] */
  int32_t *places; /* [entries] */
  uint32_t *hash;  /* [1 << hash_bits] 1 + number of an id */
  int64_t n;
  size_t cap_ids, cap_rows, cap_places, cap_hash;
  int64_t unknown;
  /* what is saved */
  reader readers[MODEL_IDS_ITEMS];
  char names[MODEL_IDS_ITEMS][NAME_TEXT + 16];
  int64_t state[STATE];
  void *copies[MODEL_IDS_ITEMS];
};

/* ---- making it */

static void begin_row(void *context, uint64_t id, float *row) {
  const model_ids *t = context;
  memcpy(row, t->blank, (size_t)t->width * sizeof *row);
  /* Ids beyond what the generator counts share its numbers with others, but not their rows. */
  const int64_t width = t->start.width, first = (int64_t)(id % (uint64_t)(INT64_MAX / width)) * width;
  if (t->start.limit > 0) table_initial(&t->start, first, width, row);
}

static shoal_status add_array(model_ids *t, const shoal_value *v) {
  array *a = &t->arrays[t->n_arrays];
  shoal_tensor now;
  TRY(shoal_session_variable(t->model->session, v, &now));
  *a = (array){.variable = v, .session = now.data, .first = t->width, .shape = now.shape};
  a->width = shoal_shape_count(&now.shape) / now.shape.dim[0];
  if (snprintf(a->name, sizeof a->name, "%s", shoal_value_name(v)) >= (int)sizeof a->name || now.dtype != SHOAL_F32)
    return status_make(SHOAL_ERR_ARGUMENT, "'%s' cannot have growing ids", shoal_value_name(v));
  t->width += a->width;
  t->n_arrays++;
  return NULL;
}

static shoal_status find_arrays(model_ids *t) {
  const shoal_model *m = t->model;
  const weight *table = NULL;
  int tables = 0;
  for (size_t i = 0; i < m->n_weights; i++)
    if (m->weights[i].table) table = &m->weights[i], tables++;
  if (tables != 1)
    return status_make(SHOAL_ERR_ARGUMENT, "growing ids need a model with one table of features; this one has %d",
                       tables);
  const json_t *config = table->owner->config, *begin = json_object_get(config, "embeddings_initializer");
  double limit;
  if (!begin) begin = json_object_get(config, "kernel_initializer");
  if (!initializer_of_table(begin, &t->start.zeros, &limit))
    return status_make(SHOAL_ERR_ARGUMENT, "growing ids: '%s' must begin with the initializer 0 or table",
                       shoal_value_name(table->variable));
  t->start.limit = (float)limit;
  t->start.seed = m->options.seed;
  t->start.width = table->variable->shape.dim[1];
  t->room = table->variable->shape.dim[0];
  TRY(add_array(t, table->variable));
  const char *slots[OPTIMIZER_SLOTS_MAX];
  const int n = optimizer_slots(&m->options.optimizer, slots);
  for (int i = 0; i < n; i++) {
    char name[NAME_TEXT];
    snprintf(name, sizeof name, "%s/%s", shoal_value_name(table->variable), slots[i]);
    const shoal_value *slot = shoal_graph_find(m->graph, name);
    if (slot) TRY(add_array(t, slot));
  }
  t->blank = calloc((size_t)t->width, sizeof *t->blank);
  if (!t->blank) return status_no_memory();
  for (int i = 1; i < t->n_arrays; i++) /* all rows of a slot begin alike */
    memcpy(t->blank + t->arrays[i].first, t->arrays[i].session, (size_t)t->arrays[i].width * sizeof *t->blank);
  return NULL;
}

static shoal_status fetch_to_look(void *context, const shoal_batch *b, shoal_tensor *indices);
static bool no_entry(void *context, const char *name, safetensors_item *out) { return false; }
static void detach(void *context) { ((model_ids *)context)->model->elsewhere = NULL; }

static shoal_status make_table(model_ids *t) {
  const shoal_compile_options *o = &t->model->options;
  id_table_destroy(t->table);
  t->table = NULL;
  return id_table_create(&(id_table_options){.width = t->width,
                                             .memory = o->ids_memory,
                                             .admit = o->ids_admit,
                                             .evict_after = o->ids_evict_after,
                                             .begin = begin_row,
                                             .context = t},
                         &t->table);
}

shoal_status model_ids_create(shoal_model *m) {
  model_ids *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->model = m;
  shoal_status status = find_arrays(t);
  if (!status) status = make_table(t);
  if (status) {
    model_ids_destroy(t);
    return status;
  }
  t->elsewhere = (model_elsewhere){.context = t, .fetch = fetch_to_look, .entry = no_entry, .detach = detach};
  m->elsewhere = &t->elsewhere;
  m->ids = t;
  return NULL;
}

static void drop_copies(model_ids *t) {
  for (int i = 0; i < MODEL_IDS_ITEMS; i++) {
    free(t->copies[i]);
    t->copies[i] = NULL;
  }
}

void model_ids_destroy(model_ids *t) {
  if (!t) return;
  id_table_destroy(t->table);
  drop_copies(t);
  free(t->blank);
  free(t->ids);
  free(t->rows);
  free(t->places);
  free(t->hash);
  free(t);
}

/* ---- batches */

static shoal_status number(model_ids *t, const shoal_batch *b, shoal_tensor *indices) {
  const int64_t entries = b->values.shape.dim[0];
  const int64_t *ids = b->ids.data;
  if (!ids && entries)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the model has growing ids, but the rows have none: give LIBSVM, LIBFFM or TFRecord files, or a "
                       "click log, to a pipeline with growing_ids");
  int bits = 4;
  while ((int64_t)1 << bits < 2 * entries) bits++;
  const size_t places = (size_t)1 << bits, mask = places - 1;
  TRY(mem_grow((void **)&t->ids, &t->cap_ids, (size_t)entries + 1, sizeof *t->ids));
  TRY(mem_grow((void **)&t->rows, &t->cap_rows, (size_t)entries + 1, sizeof *t->rows));
  TRY(mem_grow((void **)&t->places, &t->cap_places, (size_t)entries + 1, sizeof *t->places));
  TRY(mem_grow((void **)&t->hash, &t->cap_hash, places, sizeof *t->hash));
  memset(t->hash, 0, places * sizeof *t->hash);
  t->n = 0;
  for (int64_t e = 0; e < entries; e++) {
    const uint64_t id = (uint64_t)ids[e];
    size_t at = (size_t)(id * 0x9e3779b97f4a7c15u >> (64 - bits));
    while (t->hash[at] && t->ids[t->hash[at] - 1] != id) at = (at + 1) & mask;
    if (!t->hash[at]) {
      t->ids[t->n] = id;
      t->hash[at] = (uint32_t)++t->n;
    }
    t->places[e] = (int32_t)t->hash[at] - 1;
  }
  if (t->n > t->room)
    return status_make(SHOAL_ERR_ARGUMENT, "a batch has %lld ids; there is room for %lld: use a smaller `batch_size`",
                       (long long)t->n, (long long)t->room);
  *indices = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(entries), t->places);
  return NULL;
}

/* The rows of the batch, from the table to the session. */
static void copy_rows(model_ids *t, int arrays) {
  for (int64_t i = 0; i < t->n; i++) {
    if (i + 8 < t->n && t->rows[i + 8] >= 0) __builtin_prefetch(id_table_row(t->table, t->rows[i + 8]), 0, 2);
    const float *row = t->rows[i] >= 0 ? id_table_row(t->table, t->rows[i]) : t->blank;
    for (int k = 0; k < arrays; k++) {
      const array *a = &t->arrays[k];
      memcpy(a->session + i * a->width, row + a->first, (size_t)a->width * sizeof *row);
    }
  }
}

shoal_status model_ids_take(model_ids *t, const shoal_batch *b, int64_t step, shoal_tensor *indices) {
  TRY(number(t, b, indices));
  TRY(id_table_use(t->table, step, t->ids, t->n, t->rows));
  copy_rows(t, t->n_arrays);
  return NULL;
}

void model_ids_put_back(model_ids *t) {
  for (int64_t i = 0; i < t->n; i++) {
    if (t->rows[i] < 0) continue;
    float *row = id_table_row(t->table, t->rows[i]);
    for (int k = 0; k < t->n_arrays; k++) {
      const array *a = &t->arrays[k];
      memcpy(row + a->first, a->session + i * a->width, (size_t)a->width * sizeof *row);
    }
  }
}

static shoal_status fetch_to_look(void *context, const shoal_batch *b, shoal_tensor *indices) {
  model_ids *t = context;
  TRY(number(t, b, indices));
  id_table_find(t->table, t->ids, t->n, t->rows);
  copy_rows(t, 1);
  for (int64_t e = 0; e < indices->shape.dim[0]; e++) t->unknown += t->rows[t->places[e]] < 0;
  return NULL;
}

int64_t model_ids_unknown(model_ids *t) {
  const int64_t unknown = t->unknown;
  t->unknown = 0;
  return unknown;
}

void model_ids_count(const model_ids *t, id_table_counts *out) { id_table_count(t->table, out); }

bool model_ids_next(const model_ids *t, int64_t *row, int64_t *id, const float **weights) {
  id_table_state s;
  id_table_state_of(t->table, &s);
  while (*row < s.rows && !id_table_at(t->table, *row).used) ++*row;
  if (*row >= s.rows) return false;
  *id = id_table_at(t->table, *row).id;
  *weights = id_table_row(t->table, (*row)++);
  return true;
}

bool model_ids_has(const model_ids *t, const shoal_value *variable) {
  for (int i = 0; i < t->n_arrays; i++)
    if (t->arrays[i].variable == variable) return true;
  return false;
}

bool model_grows_in(const shoal_model *m, const shoal_value *variable) {
  if (m->ids) return model_ids_has(m->ids, variable);
  return m->grows && m->elsewhere && m->elsewhere->has(m->elsewhere->context, variable);
}

/* ---- saving */

/* Elements of what a reader gives of one row: i64 or f32. */
static size_t element_bytes(const reader *r) { return r->array < 0 ? sizeof(int64_t) : sizeof(float); }
static int64_t elements(const reader *r) { return r->array < 0 ? 1 : r->table->arrays[r->array].width; }

static void read_row(const reader *r, int64_t row, void *into) {
  const id_table_place p = id_table_at(r->table->table, row);
  if (r->array < 0) {
    memcpy(into, r->array == -1 ? &p.id : &p.used, sizeof(int64_t));
    return;
  }
  const array *a = &r->table->arrays[r->array];
  memcpy(into, id_table_row(r->table->table, row) + a->first, (size_t)a->width * sizeof(float));
}

/* Pieces come one after the other; each begins and ends anywhere. */
static shoal_status read_piece(void *source, uint64_t first, size_t bytes, void *into) {
  reader *r = source;
  const size_t each = (size_t)elements(r) * element_bytes(r);
  char *to = into;
  int64_t ordinal = (int64_t)(first / each);
  size_t skip = (size_t)(first % each);
  if (ordinal < r->ordinal) r->ordinal = r->row = 0;
  char *one = malloc(each);
  if (!one) return status_no_memory();
  while (bytes) {
    while (r->live && !id_table_at(r->table->table, r->row).used) r->row++;
    if (r->ordinal == ordinal) {
      const size_t n = MIN_OF(each - skip, bytes);
      read_row(r, r->row, one);
      memcpy(to, one + skip, n);
      to += n;
      bytes -= n;
      if (skip + n < each) break; /* the next piece begins in this row */
      skip = 0;
      ordinal++;
    }
    r->row++;
    r->ordinal++;
  }
  free(one);
  return NULL;
}

static const char *name_of(model_ids *t, int i, const char *what) {
  snprintf(t->names[i], sizeof t->names[i], "%s%s%s", t->arrays[0].name, what ? "/" : "", what ? what : "");
  return t->names[i];
}

static void add_item(model_ids *t, safetensors_item *out, int *n, int which, const char *name, bool live,
                     int64_t rows) {
  reader *r = &t->readers[*n];
  *r = (reader){.table = t, .array = which, .live = live};
  shoal_shape shape = SHOAL_SHAPE(rows);
  if (which >= 0) {
    shape = t->arrays[which].shape;
    shape.dim[0] = rows;
  }
  out[(*n)++] = (safetensors_item){.name = name,
                                   .tensor = shoal_tensor_view(which < 0 ? SHOAL_I64 : SHOAL_F32, shape, NULL),
                                   .read = read_piece,
                                   .source = r};
}

int model_ids_weights(model_ids *t, safetensors_item out[MODEL_IDS_ITEMS]) {
  id_table_counts c;
  int n = 0;
  id_table_count(t->table, &c);
  add_item(t, out, &n, 0, t->arrays[0].name, true, c.ids);
  add_item(t, out, &n, -1, name_of(t, n, "ids"), true, c.ids);
  return n;
}

/* An array in memory, [rows] of the item's width; freed with the next one. */
static shoal_status copy_item(model_ids *t, safetensors_item *item, int i, const int64_t *rows, int64_t n) {
  const reader *r = item->source;
  const size_t each = (size_t)elements(r) * element_bytes(r);
  char *copy = malloc((size_t)n * each + 1);
  if (!copy) return status_no_memory();
  t->copies[i] = copy;
  for (int64_t k = 0; k < n; k++) read_row(r, rows[k], copy + (size_t)k * each);
  item->tensor.data = copy;
  item->tensor.shape.dim[0] = n;
  item->read = NULL;
  return NULL;
}

/* Numbers of the rows that changed; *n of them. */
static shoal_status list_changed(const model_ids *t, int64_t rows, int64_t **out, int64_t *n) {
  int64_t count = 0;
  for (int64_t i = 0; i < rows; i++) count += id_table_changed(t->table, i);
  int64_t *list = malloc((size_t)(count + 1) * sizeof *list);
  if (!list) return status_no_memory();
  *n = 0;
  for (int64_t i = 0; i < rows; i++)
    if (id_table_changed(t->table, i)) list[(*n)++] = i;
  *out = list;
  return NULL;
}

static shoal_status add_waiting(model_ids *t, safetensors_item *out, int *n) {
  const int64_t count = id_table_waiting(t->table, NULL, NULL);
  int64_t *ids = t->copies[*n] = malloc((size_t)count * sizeof *ids + 1);
  int32_t *seen = t->copies[*n + 1] = malloc((size_t)count * sizeof *seen + 1);
  if (!ids || !seen) return status_no_memory();
  id_table_waiting(t->table, ids, seen);
  out[*n] = (safetensors_item){.name = name_of(t, *n, "waiting"),
                               .tensor = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(count), ids)};
  out[*n + 1] = (safetensors_item){.name = name_of(t, *n + 1, "seen"),
                                   .tensor = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(count), seen)};
  *n += 2;
  return NULL;
}

shoal_status model_ids_saved(model_ids *t, bool some, safetensors_item out[MODEL_IDS_ITEMS], int *n) {
  id_table_state s;
  *n = 0;
  drop_copies(t);
  id_table_state_of(t->table, &s);
  for (int i = 0; i < t->n_arrays; i++) add_item(t, out, n, i, t->arrays[i].name, false, s.rows);
  add_item(t, out, n, -1, name_of(t, *n, "ids"), false, s.rows);
  add_item(t, out, n, -2, name_of(t, *n, "used"), false, s.rows);
  if (some) {
    int64_t *rows, count;
    TRY(list_changed(t, s.rows, &rows, &count));
    t->copies[*n] = rows;
    for (int i = 0; i < *n; i++) TRY(copy_item(t, &out[i], i, rows, count));
    out[*n] = (safetensors_item){.name = name_of(t, *n, "rows"),
                                 .tensor = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(count), rows)};
    ++*n;
  }
  TRY(add_waiting(t, out, n));
  const int64_t state[STATE] = {s.rows, s.free_row, s.ids, s.admitted, s.evicted, s.step};
  memcpy(t->state, state, sizeof state);
  out[*n] = (safetensors_item){.name = name_of(t, *n, "state"),
                               .tensor = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(STATE), t->state)};
  ++*n;
  return NULL;
}

double model_ids_changed(const model_ids *t) {
  id_table_state s;
  int64_t count = 0;
  id_table_state_of(t->table, &s);
  for (int64_t i = 0; i < s.rows; i++) count += id_table_changed(t->table, i);
  return s.rows ? (double)count / (double)s.rows : 0;
}

void model_ids_clean(model_ids *t) { id_table_clean(t->table); }

/* ---- loading */

typedef struct {
  safetensors *file;
  model_ids *table;
  const char *path;
  int64_t n;      /* rows that it has */
  bool placed;    /* rows have numbers of their own (a checkpoint with some) */
  bool full;      /* it is a checkpoint: steps, slots and state are there */
  int64_t *where; /* [PIECE] room */
  int64_t *ids, *used;
  float *numbers;
} loading;

static const safetensors_entry *find_item(const loading *l, const char *what) {
  char name[NAME_TEXT + 16];
  snprintf(name, sizeof name, "%s/%s", l->table->arrays[0].name, what);
  return safetensors_find(l->file, name);
}

static shoal_status read_numbers(const loading *l, const char *what, int64_t first, int64_t n, size_t size,
                                 void *into) {
  char name[NAME_TEXT + 16];
  snprintf(name, sizeof name, "%s/%s", l->table->arrays[0].name, what);
  return safetensors_read_part(l->file, name, (uint64_t)first * size, (size_t)n * size, into);
}

static shoal_status check_item(const loading *l, const char *name, shoal_dtype dtype, shoal_shape shape) {
  const shoal_tensor like = shoal_tensor_view(dtype, shape, NULL);
  return safetensors_check(l->file, name, &like);
}

/* What it has, and whether all of it is as long. */
static shoal_status look(loading *l) {
  const model_ids *t = l->table;
  const safetensors_entry *ids = find_item(l, "ids");
  if (!ids || ids->shape.rank != 1 || ids->dtype != SHOAL_I64)
    return status_make(SHOAL_ERR_INPUT, "%s: its table has no ids: it was trained without growing ids", l->path);
  l->n = ids->shape.dim[0];
  l->placed = find_item(l, "rows") != NULL;
  l->full = find_item(l, "state") != NULL;
  char name[NAME_TEXT + 16];
  const char *const lists[] = {"rows", "used"};
  for (int i = l->placed ? 0 : 1; i < (l->full ? 2 : 1); i++) {
    snprintf(name, sizeof name, "%s/%s", t->arrays[0].name, lists[i]);
    TRY(check_item(l, name, SHOAL_I64, SHOAL_SHAPE(l->n)));
  }
  for (int k = 0; k < (l->full ? t->n_arrays : 1); k++) {
    shoal_shape shape = t->arrays[k].shape;
    shape.dim[0] = l->n;
    TRY(check_item(l, t->arrays[k].name, SHOAL_F32, shape));
  }
  return NULL;
}

/* Rows [first, first + n) of the file. */
static shoal_status load_rows(loading *l, int64_t first, int64_t n) {
  model_ids *t = l->table;
  TRY(read_numbers(l, "ids", first, n, sizeof *l->ids, l->ids));
  if (l->full) TRY(read_numbers(l, "used", first, n, sizeof *l->used, l->used));
  if (l->placed) TRY(read_numbers(l, "rows", first, n, sizeof *l->where, l->where));
  for (int k = 0; k < (l->full ? t->n_arrays : 1); k++) {
    const array *a = &t->arrays[k];
    TRY(safetensors_read_part(l->file, a->name, (uint64_t)(first * a->width) * sizeof(float),
                              (size_t)(n * a->width) * sizeof(float), l->numbers));
    for (int64_t i = 0; i < n; i++) {
      const id_table_place p = {l->ids[i], l->full ? l->used[i] : 1};
      float *row;
      TRY(id_table_put(t->table, l->placed ? l->where[i] : first + i, p, &row));
      if (k == 0 && !l->full) memcpy(row, t->blank, (size_t)t->width * sizeof *row);
      memcpy(row + a->first, l->numbers + i * a->width, (size_t)a->width * sizeof *row);
    }
  }
  return NULL;
}

static shoal_status load_waiting(const loading *l) {
  const safetensors_entry *ids = find_item(l, "waiting");
  const int64_t n = ids && ids->shape.rank == 1 ? ids->shape.dim[0] : 0;
  int32_t *seen = malloc((size_t)PIECE * sizeof *seen);
  shoal_status status = seen ? NULL : status_no_memory();
  for (int64_t at = 0; at < n && !status; at += PIECE) {
    const int64_t some = MIN_OF(PIECE, n - at);
    status = read_numbers(l, "waiting", at, some, sizeof *l->ids, l->ids);
    if (!status) status = read_numbers(l, "seen", at, some, sizeof *seen, seen);
    for (int64_t i = 0; i < some && !status; i++) status = id_table_put_waiting(l->table->table, l->ids[i], seen[i]);
  }
  free(seen);
  return status;
}

static shoal_status load_file(loading *l, bool last) {
  TRY(safetensors_verify(l->file));
  TRY(look(l));
  int64_t state[STATE] = {l->n, -1, l->n, l->n, 0, 1};
  const int64_t each = MAX_OF(PIECE / l->table->width, 1);
  for (int64_t at = 0; at < l->n; at += each) TRY(load_rows(l, at, MIN_OF(each, l->n - at)));
  if (!last) return NULL;
  if (l->full && l->table->model->options.ids_admit > 1) TRY(load_waiting(l));
  if (l->full) TRY(read_numbers(l, "state", 0, STATE, sizeof *state, state));
  return id_table_finish(l->table->table, &(id_table_state){.rows = state[0],
                                                            .free_row = state[1],
                                                            .ids = state[2],
                                                            .admitted = state[3],
                                                            .evicted = state[4],
                                                            .step = state[5]});
}

static shoal_status load_path(model_ids *t, const char *path, bool last) {
  loading l = {.table = t, .path = path};
  shoal_status status = safetensors_open(path, &l.file);
  if (status) return status;
  l.where = malloc((size_t)PIECE * sizeof *l.where);
  l.ids = malloc((size_t)PIECE * sizeof *l.ids);
  l.used = malloc((size_t)PIECE * sizeof *l.used);
  l.numbers = malloc(((size_t)PIECE + (size_t)t->width) * sizeof *l.numbers);
  status = l.where && l.ids && l.used && l.numbers ? load_file(&l, last) : status_no_memory();
  free(l.where);
  free(l.ids);
  free(l.used);
  free(l.numbers);
  safetensors_close(l.file);
  return status_wrap(status, "%s", path);
}

shoal_status model_ids_load(model_ids *t, const char *base, const char *path) {
  TRY(make_table(t));
  shoal_status status = base ? load_path(t, base, false) : NULL;
  id_table_clean(t->table);
  if (!status) status = load_path(t, path, true);
  if (!status && !base) id_table_clean(t->table);
  if (!status) return NULL;
  shoal_status_free(make_table(t)); /* half of it is no table */
  return status;
}
