/* An order of execution that keeps the plan's invariants, cut into phases. */
#include "exec/plan.h"

#include "base/mem.h"

#include <string.h>

enum {
  STRIP_ROWS = 64,       /* four blocks: enough to reuse each weight from a register, small enough for the L2 cache */
  STRIP_BYTES = 4 << 20, /* what one node should touch of a strip at most, twice the L2 cache: shorter strips would be
                            paid for by copying weights into panels more often */
  WORTH_THREADS = 200 * 1000 /* floating-point operations below which waking a thread costs more than it brings */
};

/* Edges beyond those of the data: before[i] must run before after[i]. */
typedef struct {
  int *before, *after;
  size_t count, cap_before, cap_after;
} extra_edges;

static shoal_status add_edge(extra_edges *e, int before, int after) {
  TRY(mem_grow((void **)&e->before, &e->cap_before, e->count + 1, sizeof *e->before));
  TRY(mem_grow((void **)&e->after, &e->cap_after, e->count + 1, sizeof *e->after));
  e->before[e->count] = before;
  e->after[e->count++] = after;
  return NULL;
}

static bool reads_value(const plan_node *n, int k) { return !op_shape_only(n->op, k); }

/* Whether node `late` must wait for node `early`, through data or control. */
static bool comes_after(const plan *p, int late, int early, bool *seen) {
  if (late == early) return true;
  if (seen[late]) return false;
  seen[late] = true;
  for (int k = 0; k < p->nodes[late].ins; k++) {
    int maker = p->values[p->nodes[late].in[k]].maker;
    if (maker >= 0 && comes_after(p, maker, early, seen)) return true;
  }
  for (size_t i = 0; i < p->n_controls; i++)
    if (p->controls[i].after == late && comes_after(p, p->controls[i].before, early, seen)) return true;
  return false;
}

/* A reader that was told to wait for an update reads what the update left behind. */
static shoal_status told_to_wait(const plan *p, int reader, int update, bool *out) {
  *out = false;
  if (!p->n_controls) return NULL;
  bool *seen = calloc(p->n_nodes + 1, sizeof *seen);
  if (!seen) return status_no_memory();
  *out = comes_after(p, reader, update, seen);
  free(seen);
  return NULL;
}

static shoal_status order_controls(const plan *p, extra_edges *e) {
  for (size_t i = 0; i < p->n_controls; i++)
    if (!p->nodes[p->controls[i].before].dead && !p->nodes[p->controls[i].after].dead)
      TRY(add_edge(e, p->controls[i].before, p->controls[i].after));
  return NULL;
}

/* Readers of a variable as it was before the step come before what changes it. A reader that takes the changed one
 * has it as another value (the update's output), and the data edge orders it. Several updates of one variable run in
 * the order in which they were built. */
static shoal_status order_updates(const plan *p, extra_edges *e) {
  for (size_t u = 0; u < p->n_nodes; u++) {
    const plan_node *update = &p->nodes[u];
    if (update->dead || !update->op->updates) continue;
    for (int k = 0; k < update->ins; k++) {
      if (!op_updates(update->op, k)) continue;
      int root = p->values[update->in[k]].root;
      for (size_t r = 0; r < p->n_nodes; r++) {
        const plan_node *reader = &p->nodes[r];
        if (reader->dead || r == u) continue;
        bool also_updates = false, reads = false, after = false;
        for (int j = 0; j < reader->ins; j++) {
          const plan_value *v = &p->values[reader->in[j]];
          if (v->root != root || !reads_value(reader, j)) continue;
          if (v->maker >= 0 && p->nodes[v->maker].op->updates)
            after = true;
          else
            reads = true;
          also_updates |= op_updates(reader->op, j);
        }
        if (!reads || after) continue;
        TRY(told_to_wait(p, (int)r, (int)u, &after));
        if (after) continue;
        if (also_updates ? r < u : true) TRY(add_edge(e, (int)r, (int)u));
      }
    }
    if (p->guard >= 0 && p->values[p->guard].maker >= 0 && p->values[p->guard].maker != (int)u &&
        (update->op->flags & OP_STATEFUL))
      TRY(add_edge(e, p->values[p->guard].maker, (int)u));
  }
  return NULL;
}

/* Rows of the batch that a split node works on: those of its first batched operand. */
static int64_t rows_of(const plan *p, const plan_node *n) {
  for (int k = 0; k < n->ins; k++)
    if (reads_value(n, k) && plan_batched(&p->values[n->in[k]])) return p->values[n->in[k]].shape.dim[0];
  for (int k = 0; k < n->outs; k++)
    if (plan_batched(&p->values[n->out[k]])) return p->values[n->out[k]].shape.dim[0];
  return 0;
}

/* A node can be split when all its batched operands have the same rows. */
static bool splittable(const plan *p, const plan_node *n) {
  if (n->batch == BATCH_WHOLE || n->op->updates) return false;
  int64_t rows = rows_of(p, n);
  if (rows <= 0) return false;
  for (int k = 0; k < n->ins; k++)
    if (reads_value(n, k) && plan_batched(&p->values[n->in[k]]) && p->values[n->in[k]].shape.dim[0] != rows)
      return false;
  return true;
}

static double node_cost(const plan *p, const plan_node *n) {
  shoal_shape in[PLAN_INPUTS_MAX], out[OP_MAX_OUTPUTS];
  shoal_dtype in_dtype[PLAN_INPUTS_MAX], out_dtype[OP_MAX_OUTPUTS];
  op_shapes s;
  plan_shapes(p, n, false, in, in_dtype, out, out_dtype, &s);
  double flops = 0;
  if (n->op->cost)
    n->op->cost(&s, &flops);
  else
    for (int k = 0; k < n->outs; k++) flops += (double)shoal_shape_count(&out[k]);
  return flops;
}

typedef struct {
  plan *p;
  extra_edges edges;
  int *waits; /* by node: unmet dependencies */
  bool *done;
} scheduler;

static void count_waits(scheduler *s) {
  const plan *p = s->p;
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    if (n->dead) continue;
    for (int k = 0; k < n->ins; k++)
      if (reads_value(n, k) && p->values[n->in[k]].maker >= 0) s->waits[i]++;
  }
  for (size_t i = 0; i < s->edges.count; i++) s->waits[s->edges.after[i]]++;
}

static void finish(scheduler *s, int id) {
  const plan *p = s->p;
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    if (n->dead) continue;
    for (int k = 0; k < n->ins; k++)
      if (reads_value(n, k) && p->values[n->in[k]].maker == id) s->waits[i]--;
  }
  for (size_t i = 0; i < s->edges.count; i++)
    if (s->edges.before[i] == id) s->waits[s->edges.after[i]]--;
}

/* Within the phase under way a sum is not complete, so nobody may read it yet. */
static bool reads_unfinished_sum(const plan *p, const plan_node *n, int phase) {
  for (int k = 0; k < n->ins; k++) {
    int maker = p->values[n->in[k]].maker;
    if (maker >= 0 && reads_value(n, k) && p->nodes[maker].batch == BATCH_SUM && p->nodes[maker].phase == phase)
      return true;
  }
  return false;
}

static bool worth_cutting(const plan *p, const plan_node *n) {
  return (n->op->flags & OP_ELEMENTS) && n->ins <= PLAN_CUT_INPUTS_MAX && pool_threads(p->session->threads) > 1 &&
         !p->check_each && shoal_shape_count(&p->values[n->out[0]].shape) >= PLAN_WORTH_CUTTING;
}

/* Whether a cut phase may share a meeting with the cut phases from `first` up to it: all of them change variables, and
 * none reads the whole of what another has changed, of which its thread knows only a part. */
static bool fits_tail(const plan *p, int phase, int first) {
  const plan_node *n = &p->nodes[p->order[p->phases[phase].first]];
  if (!p->phases[phase].cut || !n->op->updates) return false;
  int64_t count = shoal_shape_count(&p->values[n->out[0]].shape);
  for (int k = 0; k < n->ins; k++) {
    const plan_value *v = &p->values[n->in[k]];
    if (v->maker >= 0 && p->nodes[v->maker].phase >= first && shoal_shape_count(&v->shape) != count) return false;
  }
  return true;
}

/* Whether the parts of a sum may stay with the threads that add them up: it is read only in the meeting of its own
 * phase, by nodes cut as it is. */
static bool stays_apart(const plan *p, const plan_phase *phase, int value) {
  const int64_t count = shoal_shape_count(&p->values[value].shape);
  const int first = (int)(phase - p->phases) + 1;
  if (count < PLAN_WORTH_CUTTING || phase->threads != pool_threads(p->session->threads)) return false;
  for (size_t i = 0; i < p->n_values; i++)
    if (p->values[i].root == value && (p->values[i].fetched || (int)i == p->guard)) return false;
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    for (int k = 0; k < n->ins && !n->dead; k++) {
      if (p->values[n->in[k]].root != value) continue;
      if (n->phase < first || n->phase >= first + phase->tail) return false;
      if (shoal_shape_count(&p->values[n->out[0]].shape) != count) return false;
    }
  }
  return true;
}

static void keep_sums_apart(plan *p) {
  for (int i = 0; i < p->n_phases; i++) {
    const plan_phase *phase = &p->phases[i];
    for (int at = phase->first; phase->split && at < phase->first + phase->count; at++) {
      const plan_node *n = &p->nodes[p->order[at]];
      for (int k = 0; k < n->outs && n->batch == BATCH_SUM; k++)
        p->values[n->out[k]].apart = stays_apart(p, phase, n->out[k]);
    }
  }
}

/* Which whole phases are cut, and which of them share a meeting. */
static void join_phases(plan *p) {
  for (int i = 0; i < p->n_phases; i++) {
    plan_phase *phase = &p->phases[i];
    phase->next = i + 1;
    phase->cut = !phase->split && worth_cutting(p, &p->nodes[p->order[phase->first]]);
    if (phase->cut) phase->threads = pool_threads(p->session->threads);
  }
  for (int i = 0; i < p->n_phases; i = p->phases[i].next) {
    plan_phase *phase = &p->phases[i];
    if (phase->split ? phase->threads == 1 : !phase->cut) continue;
    int first = i + phase->split, last = first;
    while (last < p->n_phases && fits_tail(p, last, first)) last++;
    if (phase->cut && last == first) last++; /* changes no variable: alone */
    phase->tail = last - first;
    phase->next = last;
  }
}

/* A node for the split phase under way. */
static int next_split(const scheduler *s, int64_t rows, int phase) {
  const plan *p = s->p;
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    if (n->dead || s->done[i] || s->waits[i] || !splittable(p, n)) continue;
    if (rows_of(p, n) == rows && !reads_unfinished_sum(p, n, phase)) return (int)i;
  }
  return -1;
}

static int next_whole(const scheduler *s, bool cut) {
  const plan *p = s->p;
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    if (n->dead || s->done[i] || s->waits[i] || splittable(p, n)) continue;
    if (!cut || worth_cutting(p, n)) return (int)i;
  }
  return -1;
}

static shoal_status new_phase(plan *p, size_t *capacity, bool split, int64_t rows) {
  TRY(mem_grow((void **)&p->phases, capacity, (size_t)p->n_phases + 1, sizeof *p->phases));
  p->phases[p->n_phases++] = (plan_phase){.split = split, .first = p->n_order, .rows = rows};
  return NULL;
}

static void take(scheduler *s, int id) {
  plan *p = s->p;
  p->nodes[id].phase = p->n_phases - 1;
  if (!p->phases[p->n_phases - 1].split) p->nodes[id].batch = BATCH_WHOLE;
  p->phases[p->n_phases - 1].count++;
  p->order[p->n_order++] = id;
  s->done[id] = true;
  finish(s, id);
}

static bool uses_lanes(const plan *p, const plan_node *n) {
  for (int k = 0; k < n->ins + n->outs; k++)
    if (p->values[p->values[k < n->ins ? n->in[k] : n->out[k - n->ins]].root].order == LAYOUT_LANES) return true;
  return false;
}

/* What the node reads and writes of one row of the batch. */
static size_t row_bytes(const plan *p, const plan_node *n) {
  size_t bytes = 0;
  for (int k = 0; k < n->ins + n->outs; k++) {
    const plan_value *v = &p->values[k < n->ins ? n->in[k] : n->out[k - n->ins]];
    if ((k < n->ins && !reads_value(n, k)) || !plan_batched(v) || !v->shape.dim[0]) continue;
    bytes += (size_t)(shoal_shape_count(&v->shape) / v->shape.dim[0]) * shoal_dtype_size(v->dtype);
  }
  return bytes;
}

/* Rows of a strip at most. Where most of the work is on LANES, blocks that share a weight bring more than the cache. */
static int64_t strip_rows(const plan *p, const plan_phase *phase) {
  size_t most = 1;
  double lanes = 0, others = 0;
  for (int i = 0; i < phase->count; i++) {
    const plan_node *n = &p->nodes[p->order[phase->first + i]];
    *(uses_lanes(p, n) ? &lanes : &others) += node_cost(p, n);
    most = MAX_OF(most, row_bytes(p, n));
  }
  return lanes > others ? STRIP_ROWS : MIN_OF((int64_t)STRIP_ROWS, MAX_OF((int64_t)(STRIP_BYTES / most), phase->grain));
}

static void size_phase(plan *p, plan_phase *phase) {
  phase->threads = 1;
  if (!phase->split) return;
  double flops = 0;
  for (int i = 0; i < phase->count; i++) flops += node_cost(p, &p->nodes[p->order[phase->first + i]]);
  phase->grain = 1;
  for (int i = 0; i < phase->count; i++)
    if (uses_lanes(p, &p->nodes[p->order[phase->first + i]])) phase->grain = LANES;
  int64_t units = (phase->rows + phase->grain - 1) / phase->grain;
  if (flops >= WORTH_THREADS) phase->threads = (int)MIN_OF((int64_t)pool_threads(p->session->threads), units);
  int64_t share = (units + phase->threads - 1) / phase->threads;
  /* Strips of equal size, so that the last is not a straggler. */
  const int64_t most = strip_rows(p, phase), strips = (share * phase->grain + most - 1) / most;
  phase->strip = (share + strips - 1) / strips * phase->grain;
}

static shoal_status run_scheduler(scheduler *s) {
  plan *p = s->p;
  size_t capacity = 0;
  count_waits(s);
  for (;;) {
    /* Splittable work first, as much of it as is ready: it is what one synchronisation pays for. */
    int id = -1;
    for (size_t i = 0; i < p->n_nodes && id < 0; i++)
      if (!p->nodes[i].dead && !s->done[i] && !s->waits[i] && splittable(p, &p->nodes[i])) id = (int)i;
    if (id >= 0) {
      int64_t rows = rows_of(p, &p->nodes[id]);
      TRY(new_phase(p, &capacity, true, rows));
      while ((id = next_split(s, rows, p->n_phases - 1)) >= 0) take(s, id);
      continue;
    }
    /* Cut nodes one after the other, and right after the sums that they use. */
    id = next_whole(s, true);
    if (id < 0) id = next_whole(s, false);
    if (id < 0) break;
    TRY(new_phase(p, &capacity, false, 0));
    take(s, id);
  }
  for (size_t i = 0; i < p->n_nodes; i++)
    if (!p->nodes[i].dead && !s->done[i])
      return status_make(SHOAL_ERR_INTERNAL, "'%s' could not be ordered: its updates and reads form a cycle",
                         p->nodes[i].origin ? p->nodes[i].origin->name : p->nodes[i].op->name);
  /* A node that makes the guard and updates sees to it itself. */
  bool guarded = p->guard >= 0 && !(p->values[p->guard].maker >= 0 && p->nodes[p->values[p->guard].maker].op->updates);
  for (int i = 0; i < p->n_phases; i++) {
    size_phase(p, &p->phases[i]);
    if (guarded && !p->phases[i].split && p->nodes[p->order[p->phases[i].first]].op->updates) {
      p->phases[i].check_guard = true;
      guarded = false;
    }
  }
  join_phases(p);
  keep_sums_apart(p);
  return NULL;
}

shoal_status plan_schedule(plan *p, bool reference) {
  if (reference)
    for (size_t i = 0; i < p->n_nodes; i++) p->nodes[i].batch = BATCH_WHOLE;
  scheduler s = {.p = p};
  p->order = calloc(p->n_nodes + 1, sizeof *p->order);
  s.waits = calloc(p->n_nodes + 1, sizeof *s.waits);
  s.done = calloc(p->n_nodes + 1, sizeof *s.done);
  shoal_status status = p->order && s.waits && s.done ? NULL : status_no_memory();
  if (!status) status = order_updates(p, &s.edges);
  if (!status) status = order_controls(p, &s.edges);
  if (!status) status = run_scheduler(&s);
  free(s.waits);
  free(s.done);
  free(s.edges.before);
  free(s.edges.after);
  return status;
}
