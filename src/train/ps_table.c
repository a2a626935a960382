#include "train/ps_table.h"

#include "base/mem.h"
#include "dist/sparse_set.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "train/optimizer.h"

#include <stdio.h>
#include <string.h>

enum { WEIGHTS_MAX = 2 }; /* the features' and the bias */

/* One variable as it is saved: a piece of one of the servers' vectors. */
typedef struct {
  ps_table *table;
  char *name;
  shoal_shape shape; /* of the whole */
  int which;         /* vector */
  int64_t first;     /* row */
} part;

struct ps_table {
  shoal_model *model;
  ps_client *client;
  model_elsewhere elsewhere;
  sparse_set batch; /* the one fetched last; its keys end with the bias, if there is one */
  int64_t room;     /* rows of the session's table, one of them kept for the bias on its way */
  float *weights;   /* [room], the session's */
  float *bias;      /* [1], the session's; NULL: none */
  float *gradients; /* [room] sums */
  part parts[WEIGHTS_MAX * (1 + OPTIMIZER_SLOTS_MAX)];
  int n_parts;
  bool kept; /* see ps_table_kept */
};

shoal_status ps_table_rows(const shoal_model *m, int64_t *out) {
  shoal_value **weights;
  int n;
  TRY(model_weights(m, true, &weights, &n));
  bool fits = n >= 1 && n <= WEIGHTS_MAX && weights[0]->dtype == SHOAL_F32 && weights[0]->shape.rank == 2 &&
              weights[0]->shape.dim[1] == 1 && (n == 1 || shoal_shape_count(&weights[1]->shape) == 1);
  free(weights);
  if (!fits)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "parameter servers hold tables of one f32 weight per feature and one bias; "
                       "train this model by a single process");
  *out = model_features(m) + (n == WEIGHTS_MAX);
  return NULL;
}

/* ---- saving */

static shoal_status read_part(void *source, uint64_t first, size_t bytes, void *into) {
  const part *p = source;
  return ps_client_read(p->table->client, p->which, p->first + (int64_t)(first / sizeof(float)),
                        (int64_t)(bytes / sizeof(float)), into);
}

static bool entry_of(void *context, const char *name, safetensors_item *out) {
  ps_table *t = context;
  for (int i = 0; i < t->n_parts; i++) {
    part *p = &t->parts[i];
    if (strcmp(p->name, name)) continue;
    *out = (safetensors_item){
        .name = p->name, .tensor = shoal_tensor_view(SHOAL_F32, p->shape, NULL), .read = read_part, .source = p};
    return true;
  }
  return false;
}

static shoal_status fetch_to_look(void *context, const shoal_batch *b, shoal_tensor *indices) {
  return ps_table_fetch(context, b, false, indices);
}

static void forget_model(void *context) { ((ps_table *)context)->model = NULL; }

static shoal_status add_part(ps_table *t, const shoal_value *of, const char *slot, int which, int64_t first) {
  part *p = &t->parts[t->n_parts];
  *p = (part){.table = t, .shape = of->shape, .which = which, .first = first};
  if (!first) p->shape.dim[0] = model_features(t->model);
  if (asprintf(&p->name, "%s%s%s", shoal_value_name(of), slot ? "/" : "", slot ? slot : "") < 0)
    return status_no_memory();
  t->n_parts++;
  return NULL;
}

static shoal_status list_parts(ps_table *t, shoal_value **weights, int n) {
  const char *slots[OPTIMIZER_SLOTS_MAX];
  int n_slots = optimizer_slots(&t->model->options.optimizer, slots);
  for (int i = 0; i < n; i++)
    for (int k = 0; k <= n_slots; k++)
      TRY(add_part(t, weights[i], k ? slots[k - 1] : NULL, k, i ? model_features(t->model) : 0));
  return NULL;
}

shoal_status ps_table_restore(ps_table *t, const char *path) {
  safetensors *file;
  float *piece = malloc((size_t)PS_PIECE_MAX * sizeof *piece);
  if (!piece) return status_no_memory();
  shoal_status status = safetensors_open(path, &file);
  if (status) {
    free(piece);
    return status;
  }
  for (int i = 0; i < t->n_parts && !status; i++) {
    const part *p = &t->parts[i];
    const int64_t count = shoal_shape_count(&p->shape);
    for (int64_t at = 0; at < count && !status; at += PS_PIECE_MAX) {
      int64_t n = MIN_OF(PS_PIECE_MAX, count - at);
      status = safetensors_read_part(file, p->name, (uint64_t)at * sizeof *piece, (size_t)n * sizeof *piece, piece);
      if (!status) status = ps_client_write(t->client, p->which, p->first + at, n, piece);
    }
  }
  safetensors_close(file);
  free(piece);
  return status;
}

/* ---- making it */

static shoal_status find_variables(ps_table *t) {
  shoal_value **weights;
  int n;
  TRY(model_weights(t->model, true, &weights, &n));
  shoal_tensor v;
  shoal_status status = shoal_session_variable(t->model->session, weights[0], &v);
  if (!status) {
    t->weights = v.data;
    t->room = v.shape.dim[0];
    if (n > 1) status = shoal_session_variable(t->model->session, weights[1], &v);
    if (!status && n > 1) t->bias = v.data;
  }
  if (!status) status = list_parts(t, weights, n);
  free(weights);
  if (status) return status;
  t->gradients = calloc((size_t)t->room, sizeof *t->gradients);
  return t->gradients ? NULL : status_no_memory();
}

shoal_status ps_table_create(shoal_model *m, ps_client *client, ps_table **out) {
  ps_table *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->model = m;
  t->client = client;
  shoal_status status = find_variables(t);
  if (status) {
    ps_table_destroy(t);
    return status;
  }
  t->elsewhere = (model_elsewhere){.context = t, .fetch = fetch_to_look, .entry = entry_of, .detach = forget_model};
  m->elsewhere = &t->elsewhere;
  *out = t;
  return NULL;
}

void ps_table_destroy(ps_table *t) {
  if (!t) return;
  if (t->model && t->model->elsewhere == &t->elsewhere) t->model->elsewhere = NULL;
  for (int i = 0; i < t->n_parts; i++) free(t->parts[i].name);
  sparse_set_fini(&t->batch);
  free(t->gradients);
  free(t);
}

/* ---- batches */

bool ps_table_kept(const ps_table *t) { return t->kept; }
void ps_table_forget(ps_table *t) { t->kept = false; }
int64_t ps_table_touched(const ps_table *t) { return t->batch.n; }

/* Finds the rows a batch touches. */
static shoal_status number(ps_table *t, const shoal_batch *b, shoal_tensor *indices) {
  sparse_set *set = &t->batch;
  const int64_t entries = b ? b->indices.shape.dim[0] : 0;
  TRY(sparse_set_make(set, b ? b->indices.data : NULL, entries));
  if (set->n >= t->room)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "a batch touches %lld features; a worker has room for %lld: use a smaller "
                       "--batch-size",
                       (long long)set->n, (long long)t->room - 1);
  if (t->bias) set->keys[set->n++] = (int32_t)model_features(t->model);
  *indices = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(entries), set->places);
  return NULL;
}

static ps_keys keys_of(const ps_table *t) { return (ps_keys){t->batch.keys, t->batch.n}; }

/* All rows have come to the session's table; the last one may be the bias. */
static void take_bias(ps_table *t) {
  if (t->bias && t->batch.n) *t->bias = t->weights[t->batch.n - 1];
}

shoal_status ps_table_fetch(ps_table *t, const shoal_batch *b, bool keep, shoal_tensor *indices) {
  TRY(number(t, b, indices));
  t->kept = false;
  TRY(ps_client_rows(t->client, keys_of(t), keep, t->weights));
  t->kept = keep;
  take_bias(t);
  return NULL;
}

/* What each row's entries have come to, in the entries' order. */
static void sum_up(ps_table *t, const shoal_tensor *gradients) {
  const float *of_entries = gradients[0].data; /* [entries, 1] */
  const int64_t entries = gradients[0].shape.dim[0];
  memset(t->gradients, 0, (size_t)t->batch.n * sizeof *t->gradients);
  for (int64_t e = 0; e < entries; e++) t->gradients[t->batch.places[e]] += of_entries[e];
  if (t->bias) t->gradients[t->batch.n - 1] = *(const float *)gradients[1].data;
}

shoal_status ps_table_push(ps_table *t, const shoal_tensor *gradients, const shoal_batch *next, ps_head *head,
                           shoal_tensor *indices, ps_answer *out) {
  if (head->examples) sum_up(t, gradients);
  t->kept = false;
  TRY(number(t, next, indices));
  TRY(ps_client_push_rows(t->client, t->gradients, keys_of(t), t->weights, head, out));
  t->kept = next != NULL;
  take_bias(t);
  return NULL;
}
