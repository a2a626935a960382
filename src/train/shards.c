#include "train/shards.h"

#include "base/mem.h"
#include "exec/session.h"

#include <math.h>

enum { SHARE_GRAIN = 16 }; /* numbers: a cache line */

typedef struct {
  shoal_session *session;
  shoal_tensor *got;    /* [n_fetches] */
  tree_source *sources; /* [TREE_NODES_MAX + threads] */
  int64_t rows;         /* of the leaf under way */
  shoal_status error;
} replica;

struct shards {
  const strategy_setup *setup;
  int worker, workers, parts;
  bool deterministic;
  int64_t most_leaves; /* of a step */
  int vectors;
  int n_weights;
  int64_t *offsets; /* [n_weights + 1] */
  replica *replicas;
  int n;
  pool *threads; /* the model's; as many as there are replicas */
  /* of the step under way */
  const train_batch *step;
  shard_cut cut;
  int64_t at;  /* first leaf of those under way */
  int running; /* how many */
  tree_node stack[TREE_NODES_MAX];
  int depth;
  int kept; /* nodes at the stack's bottom that the leaves under way do not change */
  bool whole;
  float *const *into;
};

/* ---- one leaf */

static int64_t rows_of(const shards *s, int64_t leaf) {
  return MIN_OF(s->cut.size, s->step->rows - leaf * s->cut.size);
}

static void run_leaf(void *context, int thread, int threads) {
  shards *s = context;
  replica *r = &s->replicas[thread];
  if (thread >= s->running) return;
  const int64_t leaf = s->at + thread;
  float rate = 0;
  const compute *c = s->setup->compute;
  shoal_feed feeds[DENSE_FEEDS];
  r->rows = rows_of(s, leaf);
  const int n = compute_feed(c, s->step, leaf * s->cut.size, r->rows, &rate, feeds);
  /* No two leaves draw the same numbers, and none other ones because of how many workers there are. */
  shoal_session_set_step(r->session, (uint64_t)(s->step->number * s->most_leaves + leaf));
  r->error = shoal_session_run(r->session, feeds, n, c->fetches, c->n_fetches, r->got);
}

/* ---- adding up */

/* A thread's part of each weight: what is on the stack and changes, then the leaves. */
static void add_share(void *context, int thread, int threads) {
  shards *s = context;
  tree_source *sources = s->replicas[thread].sources;
  for (int w = 0; w < s->n_weights; w++) {
    const int64_t start = s->offsets[w];
    int64_t first, last;
    pool_share(s->offsets[w + 1] - start, SHARE_GRAIN, thread, threads, &first, &last);
    if (first == last) continue;
    int n = 0;
    float *into[TREE_NODES_MAX];
    for (int k = s->kept; k < s->depth; k++)
      sources[n++] = (tree_source){.node = s->stack[k], .data = s->into[k] + start + first, .scale = 1};
    for (int k = 0; k < s->running; k++) {
      const replica *r = &s->replicas[k];
      sources[n++] = (tree_source){.node = {s->at + k, 0},
                                   .data = (const float *)r->got[s->setup->compute->first_gradient + w].data + first,
                                   .scale = (float)((double)r->rows / (double)s->step->rows)};
    }
    for (int k = s->kept; k < s->vectors; k++) into[k - s->kept] = s->into[k] + start + first;
    tree_sum(sources, n, s->whole, into, last - first);
  }
}

/* Puts the leaves under way on the stack and their numbers where they belong. */
static void add_up(shards *s, bool whole) {
  tree_node stack[TREE_NODES_MAX];
  int depth = 0, low = s->depth;
  for (; depth < s->depth; depth++) stack[depth] = s->stack[depth];
  for (int k = 0; k < s->running; k++) {
    tree_push(stack, &depth, (tree_node){s->at + k, 0});
    low = MIN_OF(low, depth - 1);
  }
  s->kept = whole ? 0 : low;
  s->whole = whole;
  pool_run(s->threads, add_share, s);
  for (int k = 0; k < depth; k++) s->stack[k] = stack[k];
  s->depth = depth;
}

static shoal_status take_results(shards *s, shards_sum *sum) {
  shoal_status status = NULL;
  for (int k = 0; k < s->running; k++) {
    replica *r = &s->replicas[k];
    if (status)
      shoal_status_free(r->error); /* one cause is enough */
    else
      status = r->error;
    r->error = NULL;
    if (status) continue;
    double loss = *(const float *)r->got[0].data, n = (double)r->rows;
    if (!isfinite(loss)) status = status_make(SHOAL_ERR_NUMERIC, "the loss is %f", loss);
    sum->loss += loss * n;
    sum->hits += s->setup->compute->first_gradient > 1 ? *(const float *)r->got[1].data * n : NAN;
    sum->examples += r->rows;
  }
  return status;
}

static shoal_status make_plans(shards *s, int64_t rows);

shoal_status shards_run(shards *s, const train_batch *step, bool whole, float *const *vectors, shards_sum *out) {
  int64_t first, last;
  shards_sum sum = {0};
  const strategy_setup *setup = s->setup;
  if (step->rows != setup->round && step->rows != setup->last) TRY(make_plans(s, step->rows)); /* end of a stream */
  s->step = step;
  s->cut = shard_cut_rows(step->rows, s->parts, s->deterministic);
  s->into = vectors;
  s->depth = 0;
  tree_share(s->cut.leaves, s->worker, s->workers, &first, &last);
  for (s->at = first; s->at < last; s->at += s->running) {
    s->running = (int)MIN_OF((int64_t)s->n, last - s->at);
    pool_run(s->threads, run_leaf, s);
    TRY(take_results(s, &sum));
    add_up(s, whole && s->at + s->running == last);
  }
  *out = sum;
  return NULL;
}

void shards_take(shards *s, int worker) { s->worker = worker; }
int shards_vectors(const shards *s) { return s->vectors; }

/* ---- setting up */

/* How deep a worker's stack gets in a step of so many leaves. */
static int deepest(const shards *s, int worker, int64_t leaves) {
  int64_t first, last;
  tree_node stack[TREE_NODES_MAX];
  int depth = 0, most = 1;
  tree_share(leaves, worker, s->workers, &first, &last);
  for (int64_t at = first; at < last; at++) {
    tree_push(stack, &depth, (tree_node){at, 0});
    if ((at + 1 - first) % s->n == 0 || at + 1 == last) most = MAX_OF(most, depth);
  }
  return most;
}

static void make_room(shards *s, int64_t leaves) {
  for (int w = 0; w < s->workers; w++)
    if (s->worker < 0 || s->worker == w) s->vectors = MAX_OF(s->vectors, deepest(s, w, leaves));
}

static void find_deepest(shards *s) {
  for (int64_t leaves = 1; leaves < s->most_leaves; leaves++) make_room(s, leaves);
}

/* Plans for the leaves of a step of so many rows, on each replica. */
static shoal_status make_plans(shards *s, int64_t rows) {
  shard_cut cut = shard_cut_rows(rows, s->parts, s->deterministic);
  int64_t sizes[] = {MIN_OF(cut.size, rows), rows % cut.size};
  s->most_leaves = MAX_OF(s->most_leaves, cut.leaves);
  make_room(s, cut.leaves);
  for (int k = 0; k < s->n; k++)
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
      TRY(compute_plan(s->setup->compute, s->replicas[k].session, &s->setup->example, sizes[i]));
  return NULL;
}

static shoal_status create(shards *s) {
  const strategy_setup *setup = s->setup;
  const compute *c = setup->compute;
  s->n_weights = c->n_fetches - c->first_gradient;
  s->offsets = calloc((size_t)s->n_weights + 1, sizeof *s->offsets);
  s->replicas = calloc((size_t)s->n, sizeof *s->replicas);
  if (!s->offsets || !s->replicas) return status_no_memory();
  for (int w = 0; w < s->n_weights; w++) {
    shoal_shape shape = shoal_value_shape(c->fetches[c->first_gradient + w]);
    s->offsets[w + 1] = s->offsets[w] + shoal_shape_count(&shape);
  }
  for (int k = 0; k < s->n; k++) {
    replica *r = &s->replicas[k];
    r->got = calloc((size_t)c->n_fetches, sizeof *r->got);
    r->sources = calloc((size_t)(TREE_NODES_MAX + s->n), sizeof *r->sources);
    if (!r->got || !r->sources) return status_no_memory();
    TRY(session_create_sharing(setup->compute->model->session, &r->session));
    events *e = setup->compute->model->session->events;
    if (e) TRY(session_trace(r->session, e, k)); /* it runs on thread k */
  }
  TRY(make_plans(s, setup->round));
  if (setup->last) TRY(make_plans(s, setup->last));
  if (!setup->plan.batches.rows)
    find_deepest(s); /* of a stream: the last step of an epoch may have any number of rows */
  return NULL;
}

shoal_status shards_create(const strategy_setup *setup, int worker, int workers, int parts, bool deterministic,
                           shards **out) {
  shards *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->setup = setup;
  s->worker = worker;
  s->workers = workers;
  s->parts = parts;
  s->deterministic = deterministic;
  s->threads = setup->compute->model->session->threads;
  s->n = pool_threads(s->threads);
  shoal_status status = create(s);
  if (status)
    shards_destroy(s);
  else
    *out = s;
  return status;
}

void shards_destroy(shards *s) {
  if (!s) return;
  for (int k = 0; s->replicas && k < s->n; k++) {
    shoal_session_destroy(s->replicas[k].session);
    free(s->replicas[k].got);
    free(s->replicas[k].sources);
  }
  free(s->replicas);
  free(s->offsets);
  free(s);
}
