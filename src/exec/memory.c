/* Where each value lives: one block of memory for the plan, one for each thread, laid out so that values that are never
 * needed at the same time share bytes. Also the ready-made calls that point there. */
#include "exec/plan.h"

#include "base/mem.h"

#include <string.h>

/* A piece of memory to be placed: needed from step `first` to `last`, inclusive. */
typedef struct {
  int value;
  size_t bytes, offset;
  int first, last;
} piece;

size_t plan_value_bytes(const plan_value *v, int64_t rows) {
  size_t bytes = shoal_dtype_size(v->dtype);
  for (int i = plan_batched(v) ? 1 : 0; i < v->shape.rank; i++) bytes = mem_times(bytes, (size_t)v->shape.dim[i]);
  if (!plan_batched(v)) return bytes;
  if (v->order == LAYOUT_LANES) rows = (rows + LANES - 1) / LANES * LANES;
  return mem_times(bytes, (size_t)rows);
}

static int larger_first(const void *a, const void *b) {
  const piece *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return (x->value > y->value) - (x->value < y->value);
}

static int by_offset(const void *a, const void *b) {
  const piece *x = *(piece *const *)a, *y = *(piece *const *)b;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Largest first, each at the lowest offset where it meets no other piece alive at the same time. */
static shoal_status pack(piece *pieces, size_t n, size_t *total) {
  piece **alive = calloc(n + 1, sizeof *alive);
  if (!alive) return status_no_memory();
  qsort(pieces, n, sizeof *pieces, larger_first);
  *total = 0;
  for (size_t i = 0; i < n; i++) {
    size_t m = 0, at = 0;
    for (size_t k = 0; k < i; k++)
      if (pieces[k].first <= pieces[i].last && pieces[i].first <= pieces[k].last) alive[m++] = &pieces[k];
    qsort(alive, m, sizeof *alive, by_offset);
    for (size_t k = 0; k < m; k++) {
      if (mem_plus(at, pieces[i].bytes) <= alive[k]->offset) break;
      at = MAX_OF(at, mem_plus(alive[k]->offset, alive[k]->bytes));
    }
    pieces[i].offset = at;
    *total = MAX_OF(*total, mem_plus(at, pieces[i].bytes));
  }
  free(alive);
  return NULL;
}

typedef struct {
  int made, last;             /* positions in the order; -1: not in it */
  int made_phase, last_phase; /* of the same */
  bool leaves;                /* read outside the phase that makes it, or fetched */
} life;

static void live_through(const plan *p, life *lives) {
  for (size_t i = 0; i < p->n_values; i++) lives[i] = (life){-1, -1, -1, -1, false};
  for (int at = 0; at < p->n_order; at++) {
    const plan_node *n = &p->nodes[p->order[at]];
    for (int k = 0; k < n->outs; k++) {
      life *l = &lives[p->values[n->out[k]].root];
      if (l->made < 0) {
        l->made = at;
        l->made_phase = n->phase;
      }
      l->last = at;
      l->last_phase = n->phase;
    }
    for (int k = 0; k < n->ins; k++) {
      life *l = &lives[p->values[n->in[k]].root];
      if (op_shape_only(n->op, k)) continue;
      l->last = at;
      l->last_phase = n->phase;
      if (l->made_phase != n->phase) l->leaves = true;
    }
  }
  for (size_t i = 0; i < p->n_values; i++)
    if (p->values[i].fetched || (int)i == p->guard) {
      life *l = &lives[p->values[i].root];
      l->leaves = true;
      l->last_phase = p->n_phases;
    }
}

static shoal_status place_values(plan *p) {
  life *lives = calloc(p->n_values + 1, sizeof *lives);
  piece *shared = calloc(p->n_values + 1, sizeof *shared);
  piece *local = calloc(p->n_values + 1, sizeof *local);
  size_t n_shared = 0, n_local = 0;
  shoal_status status = NULL;
  if (!lives || !shared || !local) {
    status = status_no_memory();
    goto done;
  }
  live_through(p, lives);
  for (size_t i = 0; i < p->n_values; i++) {
    plan_value *v = &p->values[i];
    const life *l = &lives[i];
    if (v->root != (int)i || v->store != STORE_NONE || l->made < 0) continue;
    const plan_node *maker = &p->nodes[p->order[l->made]];
    const plan_phase *phase = &p->phases[l->made_phase];
    piece next = {.value = (int)i};
    if (phase->split && maker->batch != BATCH_SUM && !l->leaves && plan_batched(v)) {
      v->store = STORE_LOCAL;
      next.bytes = mem_round_up(plan_value_bytes(v, phase->strip), MEM_ALIGN);
      next.first = l->made;
      next.last = l->last;
      local[n_local++] = next;
      continue;
    }
    bool sum = phase->split && maker->batch == BATCH_SUM;
    v->store = sum ? STORE_SUM : STORE_SHARED;
    next.bytes = mem_round_up(plan_value_bytes(v, plan_batched(v) ? v->shape.dim[0] : 0), MEM_ALIGN);
    if (sum) next.bytes = mem_times(next.bytes, (size_t)phase->threads);
    next.first = l->made_phase;
    next.last = l->last_phase;
    shared[n_shared++] = next;
  }
  TRY_GOTO(status, pack(shared, n_shared, &p->shared_bytes), done);
  TRY_GOTO(status, pack(local, n_local, &p->local_bytes), done);
  for (size_t i = 0; i < n_shared; i++) p->values[shared[i].value].offset = shared[i].offset;
  for (size_t i = 0; i < n_local; i++) p->values[local[i].value].offset = local[i].offset;
done:
  free(lives);
  free(shared);
  free(local);
  return status;
}

/* The address of a value that never moves; NULL for feeds and what depends on the strip. */
static void *fixed_address(const plan *p, const plan_value *root, int thread) {
  switch (root->store) {
    case STORE_VARIABLE: return p->session->variables[root->source->id].data;
    case STORE_CONSTANT: return root->data.data;
    case STORE_SHARED: return p->shared + root->offset;
    case STORE_LOCAL: return p->threads[thread].local + root->offset;
    case STORE_SUM: {
      size_t bytes = mem_round_up(plan_value_bytes(root, 0), MEM_ALIGN);
      return p->shared + root->offset + (size_t)thread * bytes;
    }
    default: return NULL;
  }
}

static void bind_operand(const plan *p, int value, int thread, shoal_tensor *t) {
  const plan_value *v = &p->values[value];
  int copy = p->values[v->root].store == STORE_SUM ? thread : 0;
  if (p->values[v->root].store == STORE_LOCAL) copy = thread;
  *t = shoal_tensor_view(v->dtype, v->shape, fixed_address(p, &p->values[v->root], copy));
}

/* Every operand that a run or a strip must set anew, phase by phase. */
static shoal_status list_patches(plan *p) {
  size_t capacity = 0;
  int count = 0;
  p->phase_patches = calloc((size_t)p->n_phases + 1, sizeof *p->phase_patches);
  if (!p->phase_patches) return status_no_memory();
  for (int i = 0; i < p->n_phases; i++) {
    const plan_phase *phase = &p->phases[i];
    p->phase_patches[i] = count;
    for (int at = phase->first; at < phase->first + phase->count; at++) {
      const plan_node *n = &p->nodes[p->order[at]];
      for (int k = 0; k < n->ins + n->outs; k++) {
        int value = k < n->ins ? n->in[k] : n->out[k - n->ins];
        const plan_value *v = &p->values[value];
        bool feed = p->values[v->root].store == STORE_FEED;
        if (!feed && v->ragged < 0 && !(phase->split && plan_batched(v))) continue;
        TRY(mem_grow((void **)&p->patches, &capacity, (size_t)count + 1, sizeof *p->patches));
        p->patches[count++] = (plan_patch){p->operand_at[at] + k, value};
      }
    }
  }
  p->phase_patches[p->n_phases] = count;
  for (size_t i = 0; i < p->n_values; i++)
    if (plan_batched(&p->values[i])) p->values[i].row_bytes = plan_value_bytes(&p->values[i], LANES) / LANES;
  return NULL;
}

static shoal_status prepare_thread(plan *p, int t) {
  plan_thread *thread = &p->threads[t];
  TRY(mem_aligned(p->local_bytes, (void **)&thread->local));
  TRY(mem_aligned(p->scratch_bytes, &thread->scratch));
  thread->calls = calloc((size_t)p->n_order + 1, sizeof *thread->calls);
  thread->operands = calloc((size_t)p->operand_at[p->n_order] + 1, sizeof *thread->operands);
  if (!thread->calls || !thread->operands) return status_no_memory();
  for (int at = 0; at < p->n_order; at++) {
    const plan_node *n = &p->nodes[p->order[at]];
    const plan_phase *phase = &p->phases[n->phase];
    shoal_tensor *operands = thread->operands + p->operand_at[at];
    for (int k = 0; k < n->ins; k++) bind_operand(p, n->in[k], phase->split ? t : 0, &operands[k]);
    for (int k = 0; k < n->outs; k++) bind_operand(p, n->out[k], phase->split ? t : 0, &operands[n->ins + k]);
    /* A sum read after its phase is complete in the first copy, unless it stays apart. */
    for (int k = 0; k < n->ins; k++) {
      const plan_value *root = &p->values[p->values[n->in[k]].root];
      if (root->store == STORE_SUM) bind_operand(p, n->in[k], root->apart ? t : 0, &operands[k]);
    }
    thread->calls[at] = (kernel_call){.in = operands,
                                      .out = operands + n->ins,
                                      .ins = n->ins,
                                      .outs = n->outs,
                                      .attr = n->attr,
                                      .scratch = thread->scratch,
                                      .threads = phase->split ? NULL : p->session->threads,
                                      .racing = p->session->racing,
                                      .all_rows = phase->split ? phase->rows : 0,
                                      .seed = p->session->seed,
                                      .stream = n->origin ? n->origin->stream : 0,
                                      .print = p->session->print,
                                      .print_sink = p->session->print_sink,
                                      .nested = n->nested};
  }
  return NULL;
}

shoal_status plan_place(plan *p) {
  TRY(place_values(p));
  p->operand_at = calloc((size_t)p->n_order + 1, sizeof *p->operand_at);
  if (!p->operand_at) return status_no_memory();
  for (int at = 0; at < p->n_order; at++) {
    const plan_node *n = &p->nodes[p->order[at]];
    p->operand_at[at + 1] = p->operand_at[at] + n->ins + n->outs;
    p->scratch_bytes = MAX_OF(p->scratch_bytes, n->scratch);
  }
  p->n_threads = 1;
  for (int i = 0; i < p->n_phases; i++) p->n_threads = MAX_OF(p->n_threads, p->phases[i].threads);
  size_t a_thread = mem_plus(p->local_bytes, p->scratch_bytes);
  TRY(plan_charge(p, mem_plus(p->shared_bytes, mem_times((size_t)p->n_threads, a_thread)), "the values of a run"));
  TRY(mem_aligned(p->shared_bytes, (void **)&p->shared));
  p->threads = calloc((size_t)p->n_threads, sizeof *p->threads);
  if (!p->threads) return status_no_memory();
  for (int t = 0; t < p->n_threads; t++) TRY(prepare_thread(p, t));
  return list_patches(p);
}
