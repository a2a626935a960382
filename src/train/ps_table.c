#include "train/ps_table.h"

#include "base/mem.h"
#include "dist/id_rows.h"
#include "dist/id_set.h"
#include "dist/row_cache.h"
#include "dist/sparse_set.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"
#include "train/ps_table_ids.h"

#include <stdio.h>
#include <string.h>

/* One variable as it is saved: a piece of one of the servers' vectors. */
typedef struct {
  ps_table *table;
  char *name;
  shoal_shape shape; /* of the whole */
  int which;         /* vector */
  int64_t first;     /* element; of a table: column of the servers' rows */
  bool is_table;
} part;

/* A table of the model: some columns of the servers' rows. */
typedef struct {
  float *weights; /* [room, width], the session's */
  int gradient;   /* its number among the gradients */
  int64_t column, width;
} columns;

/* A weight that is not the table's: [count] numbers among those behind it. */
typedef struct {
  float *values; /* the session's */
  int gradient;  /* its number among the gradients */
  int64_t at, count;
} other_weight;

struct ps_table {
  shoal_model *model;
  ps_client *client;
  model_elsewhere elsewhere;
  ps_table_shape shape;
  sparse_set batch;      /* the one fetched last ... */
  id_set ids;            /* ... or, of growing ids, this is */
  int64_t n_batch;       /* rows that it touches */
  const int32_t *places; /* [entries] of its entries among them */
  ps_table_ids *saving;  /* of growing ids; otherwise NULL */
  int64_t room;          /* rows of the session's tables */
  columns tables[PS_TABLES_MAX];
  int32_t *at;   /* [room + other rows] where a row of the batch, or of the other weights, is among the keys */
  int32_t *keys; /* [room + other rows] of the batch fetched last, then of the other weights, if they were asked for */
  int64_t n_keys;
  bool with_others; /* rows of the other weights are among them */
  float *values;    /* [room + other rows, width] as they come */
  other_weight *others;
  int n_others;
  float *start; /* [other rows, width] what the other weights began with */
  part *parts;
  int n_parts, cap_parts;
  row_cache *cache; /* NULL: there is none */
  int32_t *cached;  /* [room] where it has the rows of the batch; -1: nowhere */
  bool *held;       /* [room + other rows] of the keys: their rows are taken from there */
  bool kept;        /* see ps_table_kept */
  bool fresh;       /* the other weights came since the last gradient went */
};

static bool is_table(const shoal_model *m, const shoal_value *v) {
  for (size_t i = 0; i < m->n_weights; i++)
    if (m->weights[i].variable == v) return m->weights[i].table;
  return false;
}

/* The first row of the other weights. */
static int64_t others_begin(const ps_table *t) { return t->model->grows ? 0 : model_features(t->model); }

bool ps_table_first(const shoal_model *m) { return m->n_weights && m->weights[0].table; }

/* How a table begins. */
static shoal_status find_start(const shoal_model *m, const shoal_value *v, ps_columns *out) {
  for (size_t i = 0; i < m->n_weights; i++) {
    if (m->weights[i].variable != v) continue;
    const json_t *config = m->weights[i].owner->config, *start = json_object_get(config, "embeddings_initializer");
    if (!start) start = json_object_get(config, "kernel_initializer");
    if (!initializer_of_table(start, &out->zeros, &out->limit))
      return status_make(SHOAL_ERR_ARGUMENT,
                         "'%s' begins in a way that parameter servers do not know: take the initializer 0 or table",
                         shoal_value_name(v));
  }
  return NULL;
}

shoal_status ps_table_find(const shoal_model *m, int servers, ps_table_shape *out) {
  shoal_value **weights;
  int n, n_trained;
  int64_t others = 0;
  bool floats = true;
  shoal_status status = NULL;
  ps_table_shape shape = {0};
  TRY(model_exchanged(m, &weights, &n_trained, &n));
  for (int i = 0; i < n; i++) {
    floats = floats && weights[i]->dtype == SHOAL_F32;
    if (!is_table(m, weights[i])) {
      others += shoal_shape_count(&weights[i]->shape);
      continue;
    }
    ps_columns c = {.width = weights[i]->shape.dim[1]};
    if (!status) status = find_start(m, weights[i], &c);
    if (shape.tables < PS_TABLES_MAX) shape.columns[shape.tables] = c;
    shape.tables++;
    shape.width += c.width;
  }
  free(weights);
  TRY(status);
  if (shape.tables < 1 || shape.tables > PS_TABLES_MAX || !floats || n != n_trained || shape.width > PS_WIDTH_MAX)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "parameter servers hold 1 to %d tables of f32 rows, of %d numbers together at most, beside other weights; this "
        "model has %d tables of %lld%s: train it by a single process",
        PS_TABLES_MAX, PS_WIDTH_MAX, shape.tables, (long long)shape.width,
        n != n_trained ? " and moving averages" : "");
  shape.row_slots = shape.width > 1 && optimizer_by_rows(&m->options.optimizer);
  if (shape.row_slots && (shape.tables > 1 || m->options.optimizer.average > 0))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the optimizer %s on parameter servers is for models with one table, and without averaged "
                       "weights: use adagrad, or a single process",
                       m->options.optimizer.name);
  if (m->grows && (shape.tables != 1 || m->options.optimizer.clip_global_norm > 0))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "growing ids on parameter servers are for models with one table, and without clip_global_norm");
  shape.other_rows = (others + shape.width - 1) / shape.width;
  shape.rows = m->grows ? shape.other_rows + (int64_t)ID_ROWS_AT_ONCE * servers : model_features(m) + shape.other_rows;
  if (shape.rows > INT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "%lld rows on parameter servers: at most %d are possible",
                       (long long)shape.rows, INT32_MAX);
  *out = shape;
  return NULL;
}

/* ---- saving */

/* Rows [first, first + n) of the servers' of one table, by way of all their columns. */
static shoal_status read_rows(const part *p, int64_t first, int64_t n, float *all, float *out) {
  const int64_t row = p->table->shape.width, width = p->shape.dim[1];
  TRY(ps_client_read(p->table->client, p->which, first * row, n * row, all));
  for (int64_t i = 0; i < n; i++) memcpy(out + i * width, all + i * row + p->first, (size_t)width * sizeof *out);
  return NULL;
}

/* Elements [first, first + n) of a table among others. */
static shoal_status read_columns(const part *p, int64_t first, int64_t n, float *into) {
  const int64_t width = p->shape.dim[1], most = PS_PIECE_MAX / p->table->shape.width, end = first + n;
  float *all = malloc(2 * (size_t)PS_PIECE_MAX * sizeof *all), *own = all ? all + PS_PIECE_MAX : NULL;
  shoal_status status = all ? NULL : status_no_memory();
  for (int64_t at = first; at < end && !status;) {
    const int64_t row = at / width, rows = MIN_OF(most, (end - 1) / width + 1 - row),
                  to = MIN_OF(end, (row + rows) * width);
    status = read_rows(p, row, rows, all, own);
    if (!status) memcpy(into + (at - first), own + (at - row * width), (size_t)(to - at) * sizeof *into);
    at = to;
  }
  free(all);
  return status;
}

static shoal_status read_part(void *source, uint64_t first, size_t bytes, void *into) {
  const part *p = source;
  if (p->is_table && p->table->shape.tables > 1)
    return read_columns(p, (int64_t)(first / sizeof(float)), (int64_t)(bytes / sizeof(float)), into);
  return ps_client_read(p->table->client, p->which, p->first + (int64_t)(first / sizeof(float)),
                        (int64_t)(bytes / sizeof(float)), into);
}

static bool entry_of(void *context, const char *name, safetensors_item *out) {
  ps_table *t = context;
  /* Tables of growing ids are not among them: see `has_ids`. */
  for (int i = 0; i < t->n_parts; i++) {
    part *p = &t->parts[i];
    if (strcmp(p->name, name) || (p->is_table && t->saving)) continue;
    *out = (safetensors_item){
        .name = p->name, .tensor = shoal_tensor_view(SHOAL_F32, p->shape, NULL), .read = read_part, .source = p};
    return true;
  }
  return false;
}

static shoal_status fetch_to_look(void *context, const shoal_batch *b, shoal_tensor *indices) {
  return ps_table_fetch(context, b, false, indices);
}

static bool has_ids(void *context, const shoal_value *variable) {
  const ps_table *t = context;
  for (int i = 0; i < t->n_parts; i++)
    if (t->parts[i].is_table && !strcmp(t->parts[i].name, shoal_value_name(variable))) return true;
  return false;
}

static shoal_status ids_items(void *context, model_ids_part of, safetensors_item *out, int *n) {
  ps_table *t = context;
  return ps_table_ids_items(t->saving, t->client, of, out, n);
}

static double ids_changed(void *context, int64_t step) {
  ps_table *t = context;
  return ps_table_ids_changed(t->saving, t->client, step);
}

static shoal_status ids_clean(void *context, int64_t step) {
  ps_table *t = context;
  return ps_table_ids_clean(t->saving, t->client, step);
}

static shoal_status count_ids(void *context, id_table_counts *out) {
  ps_table *t = context;
  return ps_table_ids_count(t->saving, t->client, out);
}

static void forget_model(void *context) { ((ps_table *)context)->model = NULL; }

/* Numbers of vector `which` for a row of features: all tables together. */
static int64_t row_of(const ps_table *t, int which) { return which && t->shape.row_slots ? 1 : t->shape.width; }

/* Numbers of vector `which` before the other weights. */
static int64_t others_at(const ps_table *t, int which) { return others_begin(t) * row_of(t, which); }

static shoal_status add_part(ps_table *t, const shoal_value *of, const char *slot, int which, int64_t first) {
  part *p = &t->parts[t->n_parts];
  *p = (part){.table = t, .shape = of->shape, .which = which, .first = first, .is_table = is_table(t->model, of)};
  if (p->is_table && slot && t->shape.row_slots) p->shape = SHOAL_SHAPE(0);
  if (p->is_table) p->shape.dim[0] = model_features(t->model);
  if (asprintf(&p->name, "%s%s%s", shoal_value_name(of), slot ? "/" : "", slot ? slot : "") < 0)
    return status_no_memory();
  t->n_parts++;
  return NULL;
}

/* The elements of each weight and its slots. */
static shoal_status list_parts(ps_table *t, shoal_value **weights, int n) {
  const char *slots[OPTIMIZER_SLOTS_MAX];
  int n_slots = optimizer_slots(&t->model->options.optimizer, slots);
  int64_t next = 0, column = 0;
  t->parts = calloc((size_t)n * (size_t)(1 + n_slots), sizeof *t->parts);
  if (!t->parts) return status_no_memory();
  for (int i = 0; i < n; i++) {
    const bool table = is_table(t->model, weights[i]);
    for (int k = 0; k <= n_slots; k++)
      TRY(add_part(t, weights[i], k ? slots[k - 1] : NULL, k, table ? column : others_at(t, k) + next));
    if (table)
      column += weights[i]->shape.dim[1];
    else
      next += shoal_shape_count(&weights[i]->shape);
  }
  return NULL;
}

shoal_status ps_table_upload(ps_table *t) {
  return ps_client_write(t->client, 0, others_begin(t) * t->shape.width, t->shape.other_rows * t->shape.width,
                         t->start);
}

/* A piece of PS_PIECE_MAX numbers at a time. */
static shoal_status copy_vector(ps_table *t, int which, int64_t count, float *piece, ps_client *to) {
  for (int64_t at = 0; at < count; at += PS_PIECE_MAX) {
    const int64_t n = MIN_OF(PS_PIECE_MAX, count - at);
    TRY(ps_client_read(t->client, which, at, n, piece));
    TRY(ps_client_write(to, which, at, n, piece));
  }
  return NULL;
}

shoal_status ps_table_copy(ps_table *t, ps_client *to) {
  if (t->saving)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "rows of growing ids stay with the servers that have them: stop the run, and resume "
                       "it with another number of servers");
  const char *slots[OPTIMIZER_SLOTS_MAX];
  const int vectors = 1 + optimizer_slots(&t->model->options.optimizer, slots);
  float *piece = malloc((size_t)PS_PIECE_MAX * sizeof *piece);
  if (!piece) return status_no_memory();
  shoal_status status = NULL;
  for (int k = 0; k < vectors && !status; k++)
    status = copy_vector(t, k, others_at(t, k) + t->shape.other_rows * t->shape.width, piece, to);
  free(piece);
  return status;
}

static shoal_status read_file(safetensors *file, const part *p, int64_t first, int64_t n, float *out) {
  return safetensors_read_part(file, p->name, (uint64_t)first * sizeof *out, (size_t)n * sizeof *out, out);
}

/* Whole rows of vector `which`: the columns of each table. piece has room for two pieces. */
static shoal_status restore_rows(ps_table *t, safetensors *file, int which, int64_t first, int64_t n, float *piece) {
  float *own = piece + PS_PIECE_MAX;
  const int64_t row = row_of(t, which);
  for (int i = 0; i < t->n_parts; i++) {
    const part *p = &t->parts[i];
    if (!p->is_table || p->which != which) continue;
    const int64_t width = p->shape.rank > 1 ? p->shape.dim[1] : 1;
    TRY(read_file(file, p, first * width, n * width, own));
    for (int64_t r = 0; r < n; r++) memcpy(piece + r * row + p->first, own + r * width, (size_t)width * sizeof *own);
  }
  return ps_client_write(t->client, which, first * row, n * row, piece);
}

static shoal_status restore_tables(ps_table *t, safetensors *file, float *piece) {
  const char *slots[OPTIMIZER_SLOTS_MAX];
  const int vectors = 1 + optimizer_slots(&t->model->options.optimizer, slots);
  const int64_t rows = model_features(t->model), most = PS_PIECE_MAX / t->shape.width;
  for (int k = 0; k < vectors; k++)
    for (int64_t at = 0; at < rows; at += most) TRY(restore_rows(t, file, k, at, MIN_OF(most, rows - at), piece));
  return NULL;
}

static shoal_status restore_other(ps_table *t, safetensors *file, const part *p, float *piece) {
  const int64_t count = shoal_shape_count(&p->shape);
  for (int64_t at = 0; at < count; at += PS_PIECE_MAX) {
    const int64_t n = MIN_OF(PS_PIECE_MAX, count - at);
    TRY(read_file(file, p, at, n, piece));
    TRY(ps_client_write(t->client, p->which, p->first + at, n, piece));
  }
  return NULL;
}

/* A checkpoint with the rows that changed is read together with the one that has all. */
static shoal_status restore_ids(ps_table *t, const char *path, safetensors *file) {
  char *name;
  safetensors *base = NULL;
  TRY(checkpoint_base(path, &name));
  shoal_status status = name ? safetensors_open(name, &base) : NULL;
  if (!status) status = ps_table_ids_restore(t->saving, t->client, base, file);
  safetensors_close(base);
  free(name);
  return status;
}

shoal_status ps_table_restore(ps_table *t, const char *path) {
  safetensors *file;
  float *piece = malloc(2 * (size_t)PS_PIECE_MAX * sizeof *piece);
  if (!piece) return status_no_memory();
  shoal_status status = safetensors_open(path, &file);
  if (status) {
    free(piece);
    return status;
  }
  status = t->saving ? restore_ids(t, path, file) : restore_tables(t, file, piece);
  for (int i = 0; i < t->n_parts && !status; i++)
    if (!t->parts[i].is_table) status = restore_other(t, file, &t->parts[i], piece);
  safetensors_close(file);
  free(piece);
  return status;
}

/* ---- making it */

static shoal_status find_weights(ps_table *t, shoal_value **weights, int n) {
  int64_t at = 0, column = 0;
  int tables = 0;
  t->others = calloc((size_t)n, sizeof *t->others);
  if (!t->others) return status_no_memory();
  for (int i = 0; i < n; i++) {
    shoal_tensor v;
    TRY(shoal_session_variable(t->model->session, weights[i], &v));
    if (is_table(t->model, weights[i])) {
      t->tables[tables++] = (columns){.weights = v.data, .gradient = i, .column = column, .width = v.shape.dim[1]};
      column += v.shape.dim[1];
      t->room = v.shape.dim[0];
      continue;
    }
    t->others[t->n_others++] =
        (other_weight){.values = v.data, .gradient = i, .at = at, .count = shoal_shape_count(&v.shape)};
    at += shoal_shape_count(&v.shape);
  }
  return list_parts(t, weights, n);
}

static shoal_status make_room(ps_table *t) {
  const size_t rows = (size_t)(t->room + t->shape.other_rows), width = (size_t)t->shape.width;
  t->keys = calloc(rows + 1, sizeof *t->keys);
  t->at = calloc(rows + 1, sizeof *t->at);
  t->values = calloc(rows * width + 1, sizeof *t->values);
  t->start = calloc((size_t)t->shape.other_rows * width + 1, sizeof *t->start);
  if (!t->keys || !t->at || !t->values || !t->start) return status_no_memory();
  for (int i = 0; i < t->n_others; i++) {
    const other_weight *o = &t->others[i];
    memcpy(t->start + o->at, o->values, (size_t)o->count * sizeof *o->values);
  }
  return NULL;
}

/* Names and widths of the table's vectors are those of its parts. */
static shoal_status make_saving(ps_table *t) {
  const char *names[1 + OPTIMIZER_SLOTS_MAX];
  int n = 0;
  for (int i = 0; i < t->n_parts; i++)
    if (t->parts[i].is_table) names[n++] = t->parts[i].name;
  return ps_table_ids_create(names, n, t->shape.width, row_of(t, 1), &t->saving);
}

static shoal_status find_variables(ps_table *t) {
  shoal_value **weights;
  int n;
  TRY(ps_table_find(t->model, ps_client_servers(t->client), &t->shape));
  TRY(model_weights(t->model, true, &weights, &n));
  shoal_status status = find_weights(t, weights, n);
  free(weights);
  if (!status && t->model->grows) status = make_saving(t);
  return status ? status : make_room(t);
}

static shoal_status make_cache(ps_table *t, const ps_table_cache *cache) {
  t->cached = calloc((size_t)t->room + 1, sizeof *t->cached);
  t->held = calloc((size_t)(t->room + t->shape.other_rows) + 1, sizeof *t->held);
  if (!t->cached || !t->held) return status_no_memory();
  const int64_t staleness = cache->staleness ? cache->staleness : PS_CACHE_STALENESS;
  return row_cache_create(cache->rows, t->shape.width, staleness, &t->cache);
}

shoal_status ps_table_create(shoal_model *m, ps_client *client, const ps_table_cache *cache, ps_table **out) {
  ps_table *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->model = m;
  t->client = client;
  shoal_status status = find_variables(t);
  if (!status && cache && cache->rows) status = make_cache(t, cache);
  if (status) {
    ps_table_destroy(t);
    return status;
  }
  t->elsewhere = (model_elsewhere){.context = t, .fetch = fetch_to_look, .entry = entry_of, .detach = forget_model};
  if (m->grows) {
    t->elsewhere.has = has_ids;
    t->elsewhere.items = ids_items;
    t->elsewhere.changed = ids_changed;
    t->elsewhere.clean = ids_clean;
    t->elsewhere.count = count_ids;
  }
  m->elsewhere = &t->elsewhere;
  *out = t;
  return NULL;
}

void ps_table_destroy(ps_table *t) {
  if (!t) return;
  if (t->model && t->model->elsewhere == &t->elsewhere) t->model->elsewhere = NULL;
  for (int i = 0; i < t->n_parts; i++) free(t->parts[i].name);
  sparse_set_fini(&t->batch);
  id_set_fini(&t->ids);
  ps_table_ids_destroy(t->saving);
  row_cache_destroy(t->cache);
  free(t->cached);
  free(t->held);
  free(t->parts);
  free(t->others);
  free(t->keys);
  free(t->at);
  free(t->values);
  free(t->start);
  free(t);
}

/* ---- batches */

bool ps_table_kept(const ps_table *t) { return t->kept; }

void ps_table_forget(ps_table *t) {
  t->kept = false;
  if (t->cache) row_cache_clear(t->cache);
}

void ps_table_use(ps_table *t, ps_client *client) {
  t->client = client;
  t->fresh = false;
  ps_table_forget(t);
}

int64_t ps_table_touched(const ps_table *t) { return t->n_batch; }

/* The keys of the batch and, if asked for, of the other weights, server by server. */
static void put_in_order(ps_table *t, bool others) {
  const int32_t servers = ps_client_servers(t->client);
  const int64_t features = others_begin(t);
  t->n_keys = 0;
  for (int32_t s = 0; s < servers; s++) {
    for (int64_t i = t->model->grows ? t->ids.first[s] : 0; t->model->grows && i < t->ids.first[s + 1]; i++)
      t->at[i] = (int32_t)t->n_keys++;
    for (int64_t i = 0; !t->model->grows && i < t->n_batch; i++) {
      if (servers > 1 && t->batch.keys[i] % servers != s) continue;
      t->at[i] = (int32_t)t->n_keys;
      t->keys[t->n_keys++] = t->batch.keys[i];
    }
    for (int64_t i = (s - features % servers + servers) % servers; others && i < t->shape.other_rows; i += servers) {
      t->at[t->n_batch + i] = (int32_t)t->n_keys;
      t->keys[t->n_keys++] = (int32_t)(features + i);
    }
  }
}

/* Finds the rows a batch touches; others: and those of the other weights. */
static shoal_status number(ps_table *t, const shoal_batch *b, bool others, shoal_tensor *indices) {
  const bool grows = t->model->grows;
  const int64_t entries = b ? b->values.shape.dim[0] : 0;
  if (grows && entries && !b->ids.data)
    return status_make(SHOAL_ERR_ARGUMENT, "the model has growing ids, but the rows have none");
  TRY(grows ? id_set_make(&t->ids, b ? b->ids.data : NULL, entries, ps_client_servers(t->client))
            : sparse_set_make(&t->batch, b ? b->indices.data : NULL, entries));
  t->n_batch = grows ? t->ids.n : t->batch.n;
  t->places = grows ? t->ids.places : t->batch.places;
  t->with_others = others;
  if (t->n_batch >= t->room)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "a batch touches %lld features; a worker has room for %lld: use a smaller "
                       "--batch-size",
                       (long long)t->n_batch, (long long)t->room - 1);
  put_in_order(t, others);
  *indices = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(entries), (void *)t->places);
  return NULL;
}

static ps_keys keys_of(const ps_table *t) {
  if (!t->model->grows) return (ps_keys){.keys = t->keys, .n = t->n_keys};
  return (ps_keys){.n = t->n_keys, .ids = t->ids.ids, .first = t->ids.first, .others = t->with_others};
}

/* Between another weight, or its gradient, and its part of the rows behind the features. gradient NULL: rows to the weight;
 * otherwise the gradient to rows. */
static void move_other(const ps_table *t, const other_weight *o, float *rows, const float *gradient) {
  const int64_t width = t->shape.width;
  for (int64_t done = 0, n; done < o->count; done += n) {
    const int64_t row = (o->at + done) / width, column = (o->at + done) % width;
    float *at = rows + t->at[t->n_batch + row] * width + column;
    n = MIN_OF(width - column, o->count - done);
    memcpy(gradient ? at : o->values + done, gradient ? gradient + done : at, (size_t)n * sizeof *at);
  }
}

/* All rows have come: they go to where the session has them. */
static void take_values(ps_table *t) {
  const int64_t width = t->shape.width;
  for (int i = 0; i < t->shape.tables; i++) {
    const columns *c = &t->tables[i];
    if (width == 1) { /* too short for calls */
      for (int64_t r = 0; r < t->n_batch; r++) c->weights[r] = t->values[t->at[r]];
      continue;
    }
    for (int64_t r = 0; r < t->n_batch; r++)
      memcpy(c->weights + r * c->width, t->values + t->at[r] * width + c->column, (size_t)c->width * sizeof *t->values);
  }
  for (int i = 0; t->n_keys > t->n_batch && i < t->n_others; i++) move_other(t, &t->others[i], t->values, NULL);
}

shoal_status ps_table_fetch(ps_table *t, const shoal_batch *b, bool keep, shoal_tensor *indices) {
  const bool others = keep || !t->fresh; /* in an evaluation they are asked for once */
  TRY(number(t, b, others, indices));
  t->kept = false;
  TRY(ps_client_rows(t->client, keys_of(t), keep, t->values));
  t->kept = keep;
  t->fresh = t->fresh || others;
  take_values(t);
  return NULL;
}

/* ---- rows that are kept here */

/* Which rows of the batch need not be sent. */
static void find_cached(ps_table *t) {
  row_cache_next_batch(t->cache);
  memset(t->held, 0, (size_t)t->n_keys * sizeof *t->held);
  for (int64_t r = 0; r < t->n_batch; r++) {
    const uint64_t key = t->model->grows ? t->ids.ids[r] : (uint64_t)t->batch.keys[r];
    t->cached[r] = row_cache_find(t->cache, key, &t->held[t->at[r]]);
  }
}

/* The others have come: puts together what the batch needs, and keeps what has a place. */
static void exchange_cached(ps_table *t) {
  const int64_t width = t->shape.width;
  for (int64_t r = 0; r < t->n_batch; r++) {
    float *row = t->values + t->at[r] * width;
    if (t->held[t->at[r]])
      memcpy(row, row_cache_row(t->cache, t->cached[r]), (size_t)width * sizeof *row);
    else if (t->cached[r] >= 0)
      row_cache_put(t->cache, t->cached[r], row);
  }
}

int64_t ps_table_numbers(const ps_table *t) { return t->n_keys * t->shape.width; }
int64_t ps_table_most(const ps_table *t) { return (t->room + t->shape.other_rows) * t->shape.width; }

/* One table of rows of one number. */
static void sum_numbers(const ps_table *t, const shoal_tensor *gradients, const int32_t *places, float *restrict out) {
  const shoal_tensor *g = &gradients[t->tables[0].gradient];
  const float *of_entries = g->data;
  for (int64_t r = 0; r < t->n_batch; r++) out[t->at[r]] = 0;
  for (int64_t e = 0; e < g->shape.dim[0]; e++) out[t->at[places[e]]] += of_entries[e];
}

static void sum_rows(const ps_table *t, const shoal_tensor *gradients, const int32_t *places, float *out) {
  const int64_t width = t->shape.width;
  for (int64_t r = 0; r < t->n_batch; r++) memset(out + t->at[r] * width, 0, (size_t)width * sizeof *out);
  for (int i = 0; i < t->shape.tables; i++) {
    const columns *c = &t->tables[i];
    const float *of_entries = gradients[c->gradient].data; /* [entries, c->width] */
    for (int64_t e = 0; e < gradients[c->gradient].shape.dim[0]; e++) {
      float *restrict sum = out + t->at[places[e]] * width + c->column;
      for (int64_t k = 0; k < c->width; k++) sum[k] += of_entries[e * c->width + k];
    }
  }
}

/* In the entries' order; then the other weights' gradients. */
void ps_table_sum(const ps_table *t, const shoal_tensor *gradients, int64_t first, float *out) {
  const int64_t width = t->shape.width;
  (width == 1 ? sum_numbers : sum_rows)(t, gradients, t->places + first, out);
  for (int i = 0; i < t->n_others; i++) move_other(t, &t->others[i], out, gradients[t->others[i].gradient].data);
  if (!t->n_others) return;
  const other_weight *last = &t->others[t->n_others - 1];
  const int64_t end = last->at + last->count, left = t->shape.other_rows * width - end; /* of the last row: zero */
  if (left) memset(out + t->at[t->n_batch + end / width] * width + end % width, 0, (size_t)left * sizeof *out);
}

shoal_status ps_table_push(ps_table *t, const float *const *gradients, const shoal_batch *next, ps_head *head,
                           shoal_tensor *indices, ps_answer *out) {
  t->kept = t->fresh = false;
  TRY(number(t, next, true, indices));
  ps_keys keys = keys_of(t);
  if (t->cache) {
    find_cached(t);
    keys.held = t->held;
  }
  TRY(ps_client_push_rows(t->client, gradients, keys, t->values, head, out));
  t->kept = next != NULL;
  t->fresh = true;
  if (t->cache && out->stopped) row_cache_clear(t->cache); /* there may be no rows in such an answer */
  if (t->cache && !out->stopped) exchange_cached(t);
  take_values(t);
  return NULL;
}
