#include "train/ps_leaves.h"

#include "base/denormals.h"
#include "base/mem.h"
#include "dist/tree.h"
#include "exec/session.h"
#include "train/batch_source.h"

#include <math.h>

/* A thread's. */
typedef struct {
  shoal_session *session;
  shoal_tensor *got; /* [n_fetches] */
  int64_t offsets[TREE_LEAF_ROWS + 1];
  int64_t rows, first_entry; /* of the leaf under way */
  shoal_status error;
} replica;

struct ps_leaves {
  const strategy_setup *setup;
  const ps_table *table;
  int64_t round;
  replica *replicas; /* [n]; NULL: of whole batches */
  int n;
  pool *threads;
  float **vectors; /* [n_vectors][ps_table_most] */
  int n_vectors;
  tree_node stack[TREE_NODES_MAX + 1]; /* whose numbers stand in the first vectors */
  int depth;
  /* of the part under way */
  const train_batch *batch;
  const int32_t *places;
  int64_t at; /* first leaf of those that are computed, of the part */
  int running;
};

/* A leaf's rows as a batch of their own, whose indices are places among the part's. */
static shoal_batch cut(const ps_leaves *l, replica *r, int64_t leaf) {
  const shoal_batch *b = l->batch->sparse;
  const int64_t first = leaf * TREE_LEAF_ROWS;
  r->rows = MIN_OF((int64_t)TREE_LEAF_ROWS, b->count - first);
  r->first_entry = ((const int64_t *)b->offsets.data)[first];
  shoal_batch out = batch_cut(b, first, r->rows, r->offsets);
  out.indices = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(r->offsets[r->rows]), (void *)(l->places + r->first_entry));
  return out;
}

static void run_leaf(void *context, int thread, int threads) {
  ps_leaves *l = context;
  replica *r = &l->replicas[thread];
  if (thread >= l->running) return;
  const compute *c = l->setup->compute;
  const shoal_batch leaf = cut(l, r, l->at + thread);
  shoal_feed feeds[TOWER_FEEDS_MAX];
  const int n = tower_feed_sparse(c->tower, &leaf, feeds);
  /* No two leaves draw the same numbers, and none other ones because of how many workers there are. */
  const int64_t number = l->batch->span.first_leaf + l->at + thread;
  shoal_session_set_step(r->session, (uint64_t)(l->batch->number * tree_leaves(l->round) + number));
  r->error = shoal_session_run(r->session, feeds, n, c->fetches, c->n_fetches, r->got);
}

/* Puts the leaf on the stack: a vector of its own, which joins those that it is the right half of. */
static void add_leaf(ps_leaves *l, const replica *r, int64_t leaf) {
  const int64_t count = ps_table_numbers(l->table);
  const float share = (float)((double)r->rows / (double)l->batch->span.round_rows);
  int before = l->depth, at = l->depth;
  float *sum = l->vectors[at];
  ps_table_sum(l->table, r->got + l->setup->compute->first_gradient, r->first_entry, sum);
  for (int64_t i = 0; i < count; i++) sum[i] *= share;
  tree_push(l->stack, &l->depth, (tree_node){leaf, 0});
  for (; before >= l->depth; before--, at--) {
    float *restrict left = l->vectors[at - 1];
    const float *right = l->vectors[at];
    for (int64_t i = 0; i < count; i++) left[i] += right[i];
  }
}

static shoal_status take_results(ps_leaves *l, ps_head *head) {
  shoal_status status = NULL;
  for (int k = 0; k < l->running; k++) {
    replica *r = &l->replicas[k];
    if (status)
      shoal_status_free(r->error); /* one cause is enough */
    else
      status = r->error;
    r->error = NULL;
    if (status) continue;
    const double loss = *(const float *)r->got[GOT_LOSS].data, n = (double)r->rows;
    if (!isfinite(loss)) status = status_make(SHOAL_ERR_NUMERIC, "the loss is %f", loss);
    head->loss += loss * n;
    head->hits +=
        l->setup->compute->first_gradient > GOT_ACCURACY ? *(const float *)r->got[GOT_ACCURACY].data * n : NAN;
    head->examples += r->rows;
  }
  return status;
}

static shoal_status run_part(ps_leaves *l, const train_batch *b, const shoal_tensor *indices, ps_head *head) {
  const int64_t leaves = b->span.last_leaf - b->span.first_leaf;
  l->batch = b;
  l->places = indices->data;
  l->depth = 0;
  for (l->at = 0; l->at < leaves; l->at += l->running) {
    l->running = (int)MIN_OF((int64_t)l->n, leaves - l->at);
    pool_run(l->threads, run_leaf, l);
    TRY(take_results(l, head));
    const unsigned mode = denormals_off();
    for (int k = 0; k < l->running; k++) add_leaf(l, &l->replicas[k], b->span.first_leaf + l->at + k);
    denormals_restore(mode);
  }
  return NULL;
}

shoal_status ps_leaves_run(ps_leaves *l, const train_batch *b, const shoal_tensor *indices, ps_head *head) {
  compute *c = l->setup->compute;
  *head = (ps_head){0};
  if (l->replicas) {
    shoal_feed feeds[TOWER_FEEDS_MAX];
    const int n = tower_feed_sparse(c->tower, b->sparse, feeds);
    feeds[1].tensor = *indices;
    shoal_status status = run_part(l, b, indices, head);
    return status ? compute_explain_feeds(c, b, status, feeds, n) : NULL;
  }
  TRY(compute_run(c, b, indices, NULL));
  head->examples = b->rows;
  compute_losses(c, b->rows, &head->loss, &head->hits);
  ps_table_sum(l->table, compute_gradients(c), 0, l->vectors[0]);
  return NULL;
}

const float *const *ps_leaves_vectors(const ps_leaves *l) { return (const float *const *)l->vectors; }

static shoal_status make_replicas(ps_leaves *l) {
  const compute *c = l->setup->compute;
  l->threads = c->model->session->threads;
  l->n = pool_threads(l->threads);
  l->replicas = calloc((size_t)l->n, sizeof *l->replicas);
  if (!l->replicas) return status_no_memory();
  for (int k = 0; k < l->n; k++) {
    replica *r = &l->replicas[k];
    r->got = calloc((size_t)c->n_fetches, sizeof *r->got);
    if (!r->got) return status_no_memory();
    TRY(session_create_sharing(c->model->session, &r->session));
    events *e = c->model->session->events;
    if (e) TRY(session_trace(r->session, e, k)); /* it runs on thread k */
  }
  return NULL;
}

static shoal_status create(ps_leaves *l, int workers) {
  const int most = l->round ? tree_nodes_max(tree_leaves(l->round) / workers + 1) + 1 : 1;
  if (l->round) TRY(make_replicas(l));
  l->vectors = calloc((size_t)most, sizeof *l->vectors);
  if (!l->vectors) return status_no_memory();
  for (; l->n_vectors < most; l->n_vectors++)
    TRY(mem_aligned((size_t)ps_table_most(l->table) * sizeof **l->vectors, (void **)&l->vectors[l->n_vectors]));
  return NULL;
}

shoal_status ps_leaves_create(const strategy_setup *setup, const ps_table *table, int64_t round, int workers,
                              ps_leaves **out) {
  ps_leaves *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->setup = setup;
  l->table = table;
  l->round = round;
  shoal_status status = create(l, workers);
  if (status)
    ps_leaves_destroy(l);
  else
    *out = l;
  return status;
}

void ps_leaves_destroy(ps_leaves *l) {
  if (!l) return;
  for (int k = 0; l->replicas && k < l->n; k++) {
    shoal_session_destroy(l->replicas[k].session);
    free(l->replicas[k].got);
  }
  free(l->replicas);
  for (int k = 0; k < l->n_vectors; k++) free(l->vectors[k]);
  free(l->vectors);
  free(l);
}
