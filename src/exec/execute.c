/* Runs a plan. Nothing here allocates, unless something fails. */
#include "exec/packed.h"

#include "base/denormals.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The part of `count` elements that is a thread's: always the same, so what it has written it finds in its cache. */
static void plan_share(int64_t count, int thread, int threads, int64_t *first, int64_t *last) {
  pool_share(count, LANES, thread, threads, first, last);
}

/* Points the operands of a phase at rows [first, first + rows) of the batch. */
static void aim(const plan *p, int phase, int thread, int64_t first, int64_t rows) {
  plan_thread *t = &p->threads[thread];
  bool split = p->phases[phase].split;
  for (int i = p->phase_patches[phase]; i < p->phase_patches[phase + 1]; i++) {
    shoal_tensor *operand = &t->operands[p->patches[i].operand];
    const plan_value *v = &p->values[p->patches[i].value];
    const plan_value *root = &p->values[v->root];
    bool batched = split && plan_batched(v);
    if (batched) operand->shape.dim[0] = rows;
    if (v->ragged >= 0) operand->shape.dim[0] = plan_entries(&p->feeds[v->ragged].tensor);
    /* The rows of this view, of which the root may have more or fewer. LANES: first is a multiple of it */
    size_t skip = batched ? (size_t)first * v->row_bytes : 0;
    if (root->store == STORE_FEED) {
      const shoal_tensor *fed = &p->feeds[root->feed].tensor;
      operand->rows = fed->rows ? fed->rows + (batched ? first : 0) : NULL;
      operand->data = fed->rows ? fed->data : (char *)fed->data + skip;
    } else if (root->store == STORE_SHARED && batched) {
      operand->data = p->shared + root->offset + skip;
    } else if (root->store == STORE_CONSTANT && batched) {
      operand->data = (char *)root->data.data + skip;
    }
  }
}

static bool run_call(plan *p, int thread, int at) {
  const plan_node *n = &p->nodes[p->order[at]];
  plan_thread *t = &p->threads[thread];
  shoal_status status = n->run(&t->calls[at]);
  if (__builtin_expect(status != NULL, 0)) {
    t->error = status;
    t->failed = at;
    return false;
  }
  return true;
}

static void run_share(void *context, int thread, int threads) {
  plan *p = context;
  const plan_phase *phase = &p->phases[p->running];
  if (thread >= phase->threads) return;
  plan_thread *t = &p->threads[thread];
  int64_t first, last;
  events *watched = events_on(p->session->events) ? p->session->events : NULL;
  uint64_t now = watched ? events_now() : 0;
  pool_share(phase->rows, phase->grain, thread, phase->threads, &first, &last);
  for (int64_t at = first; at < last; at += phase->strip) {
    int64_t rows = MIN_OF(phase->strip, last - at);
    aim(p, p->running, thread, at, rows);
    for (int i = phase->first; i < phase->first + phase->count; i++) {
      kernel_call *call = &t->calls[i];
      call->first_row = at;
      call->accumulate = at > first && p->nodes[p->order[i]].batch == BATCH_SUM;
      call->step = p->session->step;
      if (!run_call(p, thread, i)) return;
      if (__builtin_expect(watched != NULL, 0))
        now = events_add(watched, p->session->track + thread, p->labels[i], now, events_now(),
                         (double)rows / (double)phase->rows);
    }
  }
  t->done = now;
}

/* Elements [first, last) of a sum: the threads' sums added up in their order, put into one thread's copy. */
#define ADD_UP(type)                                                                                                   \
  static void add_up_##type(const plan_thread *threads, int n, int at, int k, int64_t first, int64_t last, int into) { \
    enum { PIECE = 256 }; /* stays in the first cache */                                                               \
    for (int64_t from = first; from < last; from += PIECE) {                                                           \
      const int64_t count = MIN_OF(last - from, (int64_t)PIECE);                                                       \
      type sum[PIECE];                                                                                                 \
      memcpy(sum, (const type *)threads[0].calls[at].out[k].data + from, (size_t)count * sizeof *sum);                 \
      for (int t = 1; t < n; t++) {                                                                                    \
        const type *other = (const type *)threads[t].calls[at].out[k].data + from;                                     \
        for (int64_t e = 0; e < count; e++) sum[e] += other[e];                                                        \
      }                                                                                                                \
      memcpy((type *)threads[into].calls[at].out[k].data + from, sum, (size_t)count * sizeof *sum);                    \
    }                                                                                                                  \
  }
ADD_UP(float)
ADD_UP(double)

/* Adds up either the small sums of a phase, whole, or this thread's part of each large one. */
static void add_sums(const plan *p, const plan_phase *phase, bool large, int thread, int threads) {
  for (int i = phase->first; i < phase->first + phase->count; i++) {
    const plan_node *n = &p->nodes[p->order[i]];
    if (n->batch != BATCH_SUM) continue;
    for (int k = 0; k < n->outs; k++) {
      const plan_value *v = &p->values[n->out[k]];
      int64_t count = shoal_shape_count(&v->shape), first = 0, last = count;
      if ((count >= PLAN_WORTH_CUTTING) != large) continue;
      if (large) plan_share(count, thread, threads, &first, &last);
      (v->dtype == SHOAL_F32 ? add_up_float : add_up_double)(p->threads, phase->threads, i, k, first, last,
                                                             v->apart ? thread : 0);
    }
  }
}

/* A part of a node's elements: operands as long as the result are cut, the others are scalars. */
static void run_part(plan *p, int phase, int thread, int threads) {
  const int at = p->phases[phase].first;
  plan_thread *t = &p->threads[thread];
  aim(p, phase, thread, 0, 0);
  kernel_call call = t->calls[at];
  const int64_t count = shoal_tensor_count(&call.out[0]);
  shoal_tensor operands[OP_MAX_OUTPUTS + PLAN_CUT_INPUTS_MAX];
  int64_t first, last;
  events *watched = events_on(p->session->events) ? p->session->events : NULL;
  uint64_t begun = watched ? events_now() : 0;
  plan_share(count, thread, threads, &first, &last);
  for (int k = 0; k < call.ins + call.outs; k++) {
    operands[k] = k < call.ins ? call.in[k] : call.out[k - call.ins];
    if (shoal_tensor_count(&operands[k]) != count) continue;
    operands[k].data = (char *)operands[k].data + (size_t)first * shoal_dtype_size(operands[k].dtype);
    operands[k].shape = SHOAL_SHAPE(last - first);
  }
  call.in = operands;
  call.out = operands + call.ins;
  call.threads = NULL;
  call.among_threads = threads > 1;
  call.step = p->session->step;
  t->error = p->nodes[p->order[at]].run(&call);
  t->failed = at;
  if (watched)
    t->done = events_add(watched, p->session->track + thread, p->labels[at], begun, events_now(),
                         (double)(last - first) / (double)count);
}

/* What one meeting of the threads brings about: sums of a split phase, then parts of the nodes that follow. */
static void finish_share(void *context, int thread, int threads) {
  plan *p = context;
  const plan_phase *phase = &p->phases[p->running];
  events *watched = events_on(p->session->events) ? p->session->events : NULL;
  uint64_t begun = watched ? events_now() : 0;
  if (phase->split) add_sums(p, phase, true, thread, threads);
  if (watched)
    p->threads[thread].done =
        events_add(watched, p->session->track + thread, p->session->sums_label, begun, events_now(), 0);
  const int first = p->running + phase->split;
  for (int i = first; i < first + phase->tail && !p->threads[thread].error; i++) run_part(p, i, thread, threads);
}

enum { SHAPES_TEXT = 400 };

/* " of f32[64,784], f32[784,10]"; returns buffer. */
static const char *input_shapes(const plan *p, const plan_node *n, char buffer[SHAPES_TEXT]) {
  int at = 0;
  for (int k = 0; k < n->ins && k < 3; k++) {
    const plan_value *v = &p->values[n->in[k]];
    char shape[SHOAL_SHAPE_TEXT];
    at += snprintf(buffer + at, (size_t)(SHAPES_TEXT - at), "%s %s%s", k ? "," : " of", shoal_dtype_name(v->dtype),
                   shoal_shape_text(&v->shape, shape));
  }
  return buffer;
}

static shoal_status first_error(plan *p) {
  for (int t = 0; t < p->n_threads; t++) {
    plan_thread *thread = &p->threads[t];
    if (!thread->error) continue;
    shoal_status status = thread->error;
    thread->error = NULL;
    const plan_node *n = &p->nodes[p->order[thread->failed]];
    for (int other = t + 1; other < p->n_threads; other++) { /* one cause is enough */
      shoal_status_free(p->threads[other].error);
      p->threads[other].error = NULL;
    }
    return status_wrap(status, "%s '%s'%s", n->op->name, n->origin ? n->origin->name : "",
                       input_shapes(p, n, (char[SHAPES_TEXT]){0}));
  }
  return NULL;
}

static bool all_finite(const shoal_tensor *t, double *worst) {
  if (t->dtype != SHOAL_F32 && t->dtype != SHOAL_F64) return true;
  int64_t count = shoal_tensor_count(t);
  for (int64_t i = 0; i < count; i++) {
    double x = shoal_tensor_get(t, i);
    if (!isfinite(x)) {
      *worst = x;
      return false;
    }
  }
  return true;
}

static shoal_status check_guard(const plan *p) {
  const plan_value *v = &p->values[p->guard], *root = &p->values[v->root];
  if (root->store != STORE_SHARED && root->store != STORE_SUM) return NULL;
  shoal_tensor t = shoal_tensor_view(v->dtype, v->shape, p->shared + root->offset);
  double bad;
  if (all_finite(&t, &bad)) return NULL;
  return status_make(SHOAL_ERR_NUMERIC, "the loss is %f", bad);
}

/* "conv2d 'conv2d/conv2d' f32[64,28,28,6] gives nan": of a node just run. */
static shoal_status check_results(const plan *p, int at) {
  const plan_node *n = &p->nodes[p->order[at]];
  for (int k = 0; k < n->outs; k++) {
    double bad;
    const shoal_tensor *t = &p->threads[0].calls[at].out[k];
    if (all_finite(t, &bad)) continue;
    char shape[SHOAL_SHAPE_TEXT];
    const char *because = "";
    for (int j = 0; j < n->ins && !*because; j++)
      if (!all_finite(&p->threads[0].calls[at].in[j], &bad)) because = " (from an input that is not finite either)";
    return status_make(SHOAL_ERR_NUMERIC, "%s '%s' %s gives %f%s", n->op->name, n->origin ? n->origin->name : "",
                       shoal_shape_text(&t->shape, shape), bad, because);
  }
  return NULL;
}

/* The first thread has met the others: what it waited for them. */
static void note_sync(const plan *p) {
  events *e = p->session->events;
  if (events_on(e)) events_add(e, p->session->track, p->session->sync_label, p->threads[0].done, events_now(), 0);
}

/* Sums, and the nodes cut among the threads that follow: all in one meeting. */
static shoal_status finish_phase(plan *p, const plan_phase *phase) {
  const plan_phase *first = phase + phase->split;
  if (phase->split) add_sums(p, phase, false, 0, 1);
  for (const plan_phase *next = first; next < first + phase->tail; next++)
    if (next->check_guard) TRY(check_guard(p));
  pool_run(p->session->threads, finish_share, p);
  note_sync(p);
  return first_error(p);
}

/* A node that is not split, in the timeline if there is one. */
static shoal_status run_alone(plan *p, int at) {
  events *watched = events_on(p->session->events) ? p->session->events : NULL;
  uint64_t begun = watched ? events_now() : 0;
  if (!run_call(p, 0, at)) return first_error(p);
  if (watched) events_add(watched, p->session->track, p->labels[at], begun, events_now(), 1);
  return NULL;
}

static shoal_status run_phase(plan *p, int i) {
  const plan_phase *phase = &p->phases[i];
  p->running = i;
  if (phase->split) {
    if (phase->threads == 1) {
      run_share(p, 0, 1);
      return first_error(p);
    }
    pool_run(p->session->threads, run_share, p);
    note_sync(p);
    TRY(first_error(p));
    return finish_phase(p, phase);
  }
  if (phase->tail) return finish_phase(p, phase);
  if (phase->check_guard) TRY(check_guard(p));
  aim(p, i, 0, 0, 0);
  p->threads[0].calls[phase->first].step = p->session->step;
  TRY(run_alone(p, phase->first));
  return p->check_each ? check_results(p, phase->first) : NULL;
}

/* Each ragged feed must have as many entries as its offsets say; kernels rely on it. */
static shoal_status check_ragged(const plan *p) {
  for (int i = 0; i < p->n_feeds; i++) {
    if (p->feed_offsets[i] < 0) continue;
    int64_t have = p->feeds[i].tensor.shape.dim[0], said = plan_entries(&p->feeds[p->feed_offsets[i]].tensor);
    if (have != said)
      return status_make(SHOAL_ERR_INPUT, "'%s' has %lld entries, but its offsets say %lld",
                         shoal_value_name(p->feed_values[i]), (long long)have, (long long)said);
  }
  return NULL;
}

/* Where fetch i stands. */
static shoal_tensor fetched_view(const plan *p, int i) {
  const plan_value *v = &p->values[p->fetch_of[i]], *root = &p->values[v->root];
  shoal_tensor t = shoal_tensor_view(v->dtype, v->shape, NULL);
  if (v->ragged >= 0) t.shape.dim[0] = plan_entries(&p->feeds[v->ragged].tensor);
  switch (root->store) {
    case STORE_FEED:
      t.data = p->feeds[root->feed].tensor.data;
      t.rows = p->feeds[root->feed].tensor.rows;
      break;
    case STORE_VARIABLE: t.data = p->session->variables[root->source->id].data; break;
    case STORE_CONSTANT: t.data = root->data.data; break;
    default: t.data = p->shared + root->offset;
  }
  return t;
}

static void fetch(const plan *p, shoal_tensor *fetched) {
  for (int i = 0; fetched && i < p->n_fetches; i++) fetched[i] = fetched_view(p, i);
}

/* Phases [first, last) are done. */
static void tell_watcher(const plan *p, int first, int last) {
  const session_watcher *w = &p->session->watcher;
  for (int i = 0; i < p->n_fetches; i++) {
    int maker = p->values[p->values[p->fetch_of[i]].root].maker;
    if (maker < 0 || p->nodes[maker].phase < first || p->nodes[maker].phase >= last) continue;
    shoal_tensor t = fetched_view(p, i);
    w->ready(w->context, i, &t);
  }
  w->phase(w->context);
}

static shoal_status run_phases(plan *p) {
  for (int i = 0, next; i < p->n_phases; i = next) {
    next = p->phases[i].next;
    if (p->session->look) TRY(p->session->look(p->session->look_context));
    TRY(run_phase(p, i));
    if (p->session->watcher.ready) tell_watcher(p, i, next);
  }
  return NULL;
}

shoal_status plan_run(plan *p, const shoal_feed *feeds, shoal_tensor *fetched) {
  p->feeds = feeds;
  TRY(check_ragged(p));
  TRY(packed_prepare(p));
  unsigned mode = denormals_off();
  shoal_status status = run_phases(p);
  denormals_restore(mode);
  if (!status) fetch(p, fetched);
  return status;
}

bool plan_makes_steps(const plan *p) {
  return p->n_order == 1 && (p->nodes[p->order[0]].op->flags & OP_STEPS) && !p->check_each;
}

/* Operands that are fed get the shape of what is fed; the plan's own has the rows of one step. */
static void shape_feeds(plan *p, bool as_fed) {
  for (int i = p->phase_patches[0]; i < p->phase_patches[1]; i++) {
    const plan_value *v = &p->values[p->patches[i].value];
    if (v->store == STORE_FEED)
      p->threads[0].operands[p->patches[i].operand].shape = as_fed ? p->feeds[v->feed].tensor.shape : v->shape;
  }
}

shoal_status plan_run_steps(plan *p, const shoal_feed *feeds, int64_t step_rows, shoal_tensor *fetched) {
  p->feeds = feeds;
  TRY(check_ragged(p));
  TRY(packed_prepare(p));
  aim(p, 0, 0, 0, 0);
  shape_feeds(p, true);
  kernel_call *call = &p->threads[0].calls[0];
  call->step = p->session->step;
  call->step_rows = step_rows;
  shoal_status status = run_alone(p, 0);
  call->step_rows = 0;
  shape_feeds(p, false);
  TRY(status);
  fetch(p, fetched);
  return NULL;
}
