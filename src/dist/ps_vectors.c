#include "dist/ps_vectors.h"

#include "base/mem.h"
#include "dist/ps_protocol.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "kernel/table.h"

#include <string.h>
#include <unistd.h>

#define SLOTS_MAX 8
#define STANDARD_BLOCK ((int64_t)1 << 22) /* elements: 16 MB */
#define BLOCKS_MAX 12                     /* of trained parameters; each has a plan, and a session keeps 16 */
#define START_ROWS 1024                   /* of a table that are made at a time */
#define STRIP 1024                        /* elements summed at a time: the sums stay in the first cache */
#define LARGE ((int64_t)1 << 22)          /* elements: from so many on several threads pay; 16 MB */
#define THREADS_MAX 16                    /* unless told otherwise: memory is what limits more */

/* A part of the vector with an update of its own. */
typedef struct {
  int64_t first, count; /* elements */
  shoal_value *gradient, *update;
  float *vectors[1 + SLOTS_MAX]; /* [count] each: parameters, slots; the session's */
} block;

struct ps_vectors {
  const ps_server_options *options;
  const ps_terms *terms;
  shoal_graph *graph;
  shoal_session *session;
  shoal_value *rate;
  shoal_value *offsets, *keys; /* of a table: how many rows are touched, and which */
  block *blocks;
  int n_blocks, n_vectors;
  int64_t *counter;     /* the session's */
  float *sum;           /* [elements of the largest block]; NULL: one gradient at a time */
  tree_source *sources; /* [most nodes of a round]; NULL: there are no rounds */
};

/* ---- the small graph that updates */

/* Of a table of wide rows [rows, width]. */
static shoal_shape shape_of(const ps_terms *t, int64_t count) {
  return t->width > 1 ? SHOAL_SHAPE(count / t->width, t->width) : SHOAL_SHAPE(count);
}

/* Adds block k to the graph: its variable first, then what the optimizer keeps for it. */
static shoal_status build_block(ps_vectors *v, int k) {
  const ps_terms *t = v->terms;
  block *b = &v->blocks[k];
  shoal_graph *g = v->graph;
  const int64_t trained = t->elements - t->averages, blocks = v->n_blocks - (t->averages > 0);
  const bool averages = k == blocks;
  b->first = averages ? trained : trained * k / blocks;
  b->count = averages ? t->averages : trained * (k + 1) / blocks - b->first;
  shoal_shape shape = shape_of(t, b->count);
  shoal_value *parameters = shoal_variable(g, "parameters", shoal_fill(g, SHOAL_F32, shape, 0));
  if (t->touched) {
    v->offsets = shoal_placeholder(g, "offsets", SHOAL_I64, SHOAL_SHAPE(SHOAL_UNKNOWN));
    v->keys = shoal_placeholder_ragged(g, "keys", SHOAL_I32, v->offsets);
    b->gradient = placeholder_ragged_rows(g, "gradient", SHOAL_F32, v->offsets, t->width);
  } else {
    b->gradient = shoal_placeholder(g, "gradient", SHOAL_F32, shape);
  }
  TRY(shoal_graph_status(g));
  shoal_gradient gradient = {.value = b->gradient, .indices = v->keys};
  return v->options->build(t, g, parameters, &gradient, averages ? NULL : v->rate, &b->update);
}

/* Finds the memory of the variables that nodes first .. last - 1 of the graph made for block b. */
static shoal_status find_vectors(ps_vectors *v, block *b, size_t first, size_t last) {
  shoal_shape shape = shape_of(v->terms, b->count);
  int n = 0;
  for (size_t i = first; i < last; i++) {
    const node *variable = v->graph->nodes[i];
    if (!variable->initial) continue;
    shoal_tensor t;
    TRY(shoal_session_variable(v->session, &variable->out[0], &t));
    if (t.dtype == SHOAL_I64 && t.shape.rank == 0 && !v->counter)
      v->counter = t.data;
    else if (t.dtype == SHOAL_F32 && n <= SLOTS_MAX &&
             (v->terms->row_slots && n ? shoal_shape_count(&t.shape) == ps_vector_elements(v->terms, n)
                                       : shoal_shape_equal(&t.shape, &shape)))
      b->vectors[n++] = t.data;
    else
      return status_make(SHOAL_ERR_INTERNAL, "the optimizer has the slot '%s', which a parameter server cannot hold",
                         variable->name);
  }
  v->n_vectors = n;
  return NULL;
}

/* Columns [column, column + c->width) of rows that begin with numbers by the seed; piece: START_ROWS of them. */
static void start_columns(const ps_terms *t, const ps_columns *c, int64_t column, int64_t rows, float *piece,
                          float *out) {
  const table_start start = {.seed = t->seed, .width = c->width, .zeros = c->zeros, .limit = (float)c->limit};
  for (int64_t first = 0; first < rows; first += START_ROWS) {
    const int64_t n = MIN_OF((int64_t)START_ROWS, rows - first);
    if (t->servers == 1) table_initial(&start, first * c->width, n * c->width, piece);
    for (int64_t r = 0; t->servers > 1 && r < n; r++)
      table_initial(&start, (t->first_row + (first + r) * t->servers) * c->width, c->width, piece + r * c->width);
    for (int64_t r = 0; r < n; r++)
      memcpy(out + (first + r) * t->width + column, piece + r * c->width, (size_t)c->width * sizeof *piece);
  }
}

/* This server's share of the tables that do not begin with zeros. */
static shoal_status start_table(ps_vectors *v) {
  const ps_terms *t = v->terms;
  const int64_t rows = MIN_OF(t->elements / t->width, (t->started - t->first_row + t->servers - 1) / t->servers);
  float *piece = malloc((size_t)(START_ROWS * t->width) * sizeof *piece);
  if (!piece) return status_no_memory();
  for (int64_t i = 0, column = 0; i < t->tables; column += t->columns[i++].width)
    if (t->columns[i].limit > 0)
      start_columns(t, &t->columns[i], column, rows, piece, v->blocks[0].vectors[PS_PARAMETERS]);
  free(piece);
  return NULL;
}

/* Sums and updates go by elements: their bits do not depend on it. */
static int threads_of(const ps_vectors *v) {
  if (v->terms->touched) return 1;
  if (v->options->threads > 0) return v->options->threads;
  return v->terms->elements >= LARGE ? (int)MIN_OF(MAX_OF(sysconf(_SC_NPROCESSORS_ONLN), 1), THREADS_MAX) : 1;
}

static shoal_status build(ps_vectors *v) {
  const ps_server_options *o = v->options;
  int64_t most = o->block > 0 ? o->block : STANDARD_BLOCK;
  const int64_t trained = v->terms->elements - v->terms->averages;
  const bool one = v->terms->touched || v->terms->optimizer.clip_global_norm > 0; /* the norm is of all at once */
  v->n_blocks = one ? 1 : (int)MIN_OF((trained + most - 1) / most, BLOCKS_MAX);
  v->n_blocks += v->terms->averages > 0;
  v->blocks = calloc((size_t)v->n_blocks, sizeof *v->blocks);
  size_t *ends = calloc((size_t)v->n_blocks + 1, sizeof *ends);
  shoal_status status = v->blocks && ends ? shoal_graph_create(&v->graph) : status_no_memory();
  if (!status) {
    v->rate = shoal_placeholder(v->graph, "rate", SHOAL_F32, SHOAL_SCALAR);
    ends[0] = v->graph->count;
  }
  for (int k = 0; k < v->n_blocks && !status; k++) {
    status = build_block(v, k);
    ends[k + 1] = v->graph->count;
  }
  shoal_session_options session = {.threads = threads_of(v), .kernels = o->kernels};
  if (!status) status = shoal_session_create(v->graph, &session, &v->session);
  for (int k = 0; k < v->n_blocks && !status; k++) status = find_vectors(v, &v->blocks[k], ends[k], ends[k + 1]);
  free(ends);
  if (!status && v->terms->touched) status = start_table(v);
  return status;
}

shoal_status ps_vectors_create(const ps_server_options *options, const ps_terms *terms, ps_vectors **out) {
  const bool mean = terms->sync && (terms->workers > 1 || terms->round) && !terms->touched;
  ps_vectors *v = calloc(1, sizeof *v);
  if (!v) return status_no_memory();
  v->options = options;
  v->terms = terms;
  shoal_status status = build(v);
  if (!status && mean) {
    int64_t largest = 0;
    for (int k = 0; k < v->n_blocks; k++) largest = MAX_OF(largest, v->blocks[k].count);
    status = mem_aligned((size_t)largest * sizeof(float), (void **)&v->sum);
  }
  if (!status && terms->round) {
    size_t most = (size_t)ps_nodes_max(terms->round, terms->workers) * (size_t)terms->workers;
    v->sources = calloc(most, sizeof *v->sources);
    if (!v->sources) status = status_no_memory();
  }
  if (status) {
    ps_vectors_destroy(v);
    return status;
  }
  *out = v;
  return NULL;
}

void ps_vectors_destroy(ps_vectors *v) {
  if (!v) return;
  shoal_session_destroy(v->session);
  shoal_graph_destroy(v->graph);
  free(v->blocks);
  free(v->sum);
  free(v->sources);
  free(v);
}

int ps_vectors_count(const ps_vectors *v) { return v->n_vectors; }
int ps_vectors_n_parts(const ps_vectors *v) { return v->n_blocks; }
pool *ps_vectors_pool(const ps_vectors *v) { return v->session->threads; }
int64_t *ps_vectors_counter(ps_vectors *v) { return v->counter; }

/* Numbers of a block of vector `which`; a table is one block. */
static int64_t count_of(const ps_vectors *v, const block *b, int which) {
  return v->terms->row_slots ? ps_vector_elements(v->terms, which) : b->count;
}

void ps_vectors_parts(const ps_vectors *v, int which, net_part *out) {
  for (int k = 0; k < v->n_blocks; k++)
    out[k] = (net_part){v->blocks[k].vectors[which], (size_t)count_of(v, &v->blocks[k], which) * sizeof(float)};
}

void ps_vectors_set(ps_vectors *v, int which, int64_t first, int64_t count, const float *from) {
  for (int k = 0; k < v->n_blocks; k++) {
    const block *b = &v->blocks[k];
    const int64_t begin = MAX_OF(first, b->first), end = MIN_OF(first + count, b->first + count_of(v, b, which));
    if (begin < end)
      memcpy(b->vectors[which] + begin - b->first, from + begin - first, (size_t)(end - begin) * sizeof *from);
  }
}

const float *ps_vectors_run(const ps_vectors *v, int which, int64_t first, int64_t *count) {
  const block *b = v->blocks;
  while (first >= b->first + b->count) b++;
  *count = b->first + b->count - first;
  return b->vectors[which] + first - b->first;
}

float *ps_vectors_table(const ps_vectors *v, int which) { return v->blocks[0].vectors[which]; }

/* ---- updates */

static bool holds_averages(const ps_vectors *v, const block *b) {
  return b->first == v->terms->elements - v->terms->averages;
}

/* gradient [b->count]: borrowed. */
static shoal_status apply_block(ps_vectors *v, const block *b, const float *gradient, float rate) {
  shoal_feed feeds[] = {{b->gradient, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(b->count), (void *)gradient)},
                        {v->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &rate)}};
  return shoal_session_run(v->session, feeds, holds_averages(v, b) ? 1 : 2, &b->update, 1, NULL); /* or without rate */
}

/* A block whose gradients are added up by several threads. */
typedef struct {
  ps_vectors *v;
  const block *b;
  const ps_gradient *gradients; /* [n] */
  int n;
  double examples;
} summing;

static void combine_share(void *context, int thread, int threads) {
  const summing *s = context;
  int64_t first, last;
  pool_share(s->b->count, STRIP, thread, threads, &first, &last);
  for (int64_t at = first; at < last; at += STRIP) {
    int64_t length = MIN_OF(STRIP, last - at);
    float *to = s->v->sum + at;
    memset(to, 0, (size_t)length * sizeof *to);
    for (int g = 0; g < s->n; g++) {
      float weight = (float)((double)s->gradients[g].examples / s->examples);
      const float *from = s->gradients[g].values + s->b->first + at;
      for (int64_t i = 0; i < length; i++) to[i] += weight * from[i];
    }
  }
}

/* The mean over a block of the gradients. One gradient needs no mean. */
static const float *combine(summing *s) {
  if (s->n == 1) return s->gradients[0].values + s->b->first;
  pool_run(s->v->session->threads, combine_share, s);
  return s->v->sum;
}

bool ps_gradients_make_round(const ps_gradient *gradients, int n) {
  int64_t next = 0;
  if (!n) return false;
  for (int g = 0; g < n; g++) {
    if (gradients[g].first_leaf != next || gradients[g].round_rows != gradients[0].round_rows) return false;
    next = gradients[g].last_leaf;
  }
  return next == tree_leaves(gradients[0].round_rows);
}

/* Fills v->sources; returns how many. Parts of several rounds, or of less than one, make no tree: they are weighted by
 * what there is of rows. */
static int list_nodes(ps_vectors *v, const ps_gradient *gradients, int n, double examples, bool whole) {
  int count = 0;
  for (int g = 0; g < n; g++) {
    const ps_gradient *one = &gradients[g];
    tree_node nodes[TREE_NODES_MAX];
    int its = tree_nodes(one->first_leaf, one->last_leaf, nodes);
    for (int i = 0; i < its; i++, count++)
      v->sources[count] = (tree_source){.node = whole ? nodes[i] : (tree_node){count, 0},
                                        .data = one->values + i * v->terms->elements,
                                        .scale = whole ? 1 : (float)((double)one->round_rows / examples)};
  }
  return count;
}

static void add_share(void *context, int thread, int threads) {
  const summing *s = context;
  int64_t first, last;
  pool_share(s->b->count, STRIP, thread, threads, &first, &last);
  tree_sum_part(s->v->sources, s->n, true, &s->v->sum, first, last);
}

/* The sum over a block of the nodes. */
static const float *add_nodes(ps_vectors *v, const block *b, int n) {
  for (int i = 0; i < n; i++) v->sources[i].data += b->first;
  pool_run(v->session->threads, add_share, &(summing){.v = v, .b = b, .n = n});
  for (int i = 0; i < n; i++) v->sources[i].data -= b->first;
  return v->sum;
}

shoal_status ps_vectors_apply(ps_vectors *v, const ps_gradient *gradients, int n, double rate, bool *uneven) {
  int64_t count = v->counter ? *v->counter : 0;
  double examples = 0;
  for (int g = 0; g < n; g++) examples += (double)gradients[g].examples;
  *uneven = v->sources && !ps_gradients_make_round(gradients, n);
  int nodes = v->sources ? list_nodes(v, gradients, n, examples, !*uneven) : 0;
  for (int k = 0; k < v->n_blocks; k++) {
    const block *b = &v->blocks[k];
    if (v->counter && !holds_averages(v, b)) *v->counter = count; /* each block's update counts, but it is one */
    summing all = {v, b, gradients, n, examples};
    const float *mean = v->sources ? add_nodes(v, b, nodes) : combine(&all);
    TRY(apply_block(v, b, mean, (float)rate));
  }
  return NULL;
}

shoal_status ps_vectors_apply_rows(ps_vectors *v, const int32_t *keys, const float *gradients, int64_t n, double rate) {
  const block *b = &v->blocks[0];
  int64_t offsets[] = {0, n};
  float rate32 = (float)rate;
  const int64_t width = v->terms->width;
  for (int64_t i = 0; i < n && width == 1; i++) /* each is a cache miss; they are on their way all at once */
    for (int k = 0; k < v->n_vectors; k++) __builtin_prefetch(b->vectors[k] + keys[i], 1, 2);
  shoal_feed feeds[] = {{v->offsets, shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(2), offsets)},
                        {v->keys, shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(n), (void *)keys)},
                        {b->gradient, shoal_tensor_view(SHOAL_F32, width > 1 ? SHOAL_SHAPE(n, width) : SHOAL_SHAPE(n),
                                                        (void *)gradients)},
                        {v->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &rate32)}};
  return shoal_session_run(v->session, feeds, 4, &b->update, 1, NULL);
}
