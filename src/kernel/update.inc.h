/* Updates of whole variables, f32, by the formulas of kernel/update.h. Included by the files lanes_*.c.
 *
 *  1. A number is computed in a vector of its own place's neighbours, also at the end of a variable, where some of them
 *     are not real: so it has the same bits however the variable is cut among threads.
 *  2. Where several threads change a large variable at once, each its part, and all of them read it afterwards, it is
 *     written past the caches. An ordinary store waits until the other processor has given up its copy of the line: between
 *     two virtual processors 8 nanoseconds a line in most runs, and 50 in some, six times as long as all the rest. */

enum {
  UPDATE_PIECE = 256,           /* numbers that are worked on at a time; they stay in the first cache */
  UPDATE_PAST_CACHES = 1 << 16, /* numbers of a thread's part from which on fact 2 pays */
  UPDATE_SLOTS_MAX = 2
};

/* Numbers [first, first + n) of a variable, its slots and its gradient: where they lie, or copies. */
typedef struct {
  float *var, *slot[UPDATE_SLOTS_MAX];
  const float *grad;
  int64_t first, n, whole; /* whole: n, and up to a full vector */
  bool past_caches;
  float room[2 + UPDATE_SLOTS_MAX][UPDATE_PIECE] __attribute__((aligned(64)));
} update_piece;

/* A copy of n numbers; those up to `whole` are 1, with which no formula is slow. */
INLINE float *update_copy(float *to, const float *from, int64_t n, int64_t whole) {
  memcpy(to, from, (size_t)n * sizeof *to);
  for (int64_t i = n; i < whole; i++) to[i] = 1;
  return to;
}

/* Fact 2. */
INLINE bool update_passes_caches(const kernel_call *call, int64_t count) {
  return call->among_threads && count >= UPDATE_PAST_CACHES;
}

INLINE void update_begin(const kernel_call *call, int slots, int64_t first, int64_t count, update_piece *p) {
  p->first = first;
  p->n = MIN_OF(count - first, (int64_t)UPDATE_PIECE);
  p->whole = (p->n + VW - 1) / VW * VW;
  p->var = (float *)call->in[0].data + first;
  p->grad = (const float *)call->in[1 + slots].data + first;
  for (int k = 0; k < slots; k++) p->slot[k] = (float *)call->in[1 + k].data + first;
  const bool part = p->n < p->whole;
  p->past_caches = update_passes_caches(call, count) && !part && (uintptr_t)p->var % sizeof(vf) == 0;
  if (part || p->past_caches) p->var = update_copy(p->room[0], p->var, p->n, p->whole);
  if (!part) return;
  p->grad = update_copy(p->room[1], p->grad, p->n, p->whole);
  for (int k = 0; k < slots; k++) p->slot[k] = update_copy(p->room[2 + k], p->slot[k], p->n, p->whole);
}

/* What was copied goes back. */
INLINE void update_end(const kernel_call *call, int slots, const update_piece *p) {
  float *var = (float *)call->in[0].data + p->first;
  if (p->past_caches)
    for (int64_t i = 0; i < p->n; i += VW) v_store_past(var + i, v_load(p->room[0] + i));
  if (p->n == p->whole) return;
  memcpy(var, p->room[0], (size_t)p->n * sizeof *var);
  for (int k = 0; k < slots; k++)
    memcpy((float *)call->in[1 + k].data + p->first, p->room[2 + k], (size_t)p->n * sizeof *var);
}

/* Inputs as of apply_NAME: variable, slots, gradient, rate, [t]. decays: the attribute weight_decay. */
#define UPDATE_WHOLE(name, slots, decays, constants, element)                      \
  shoal_status ISA_NAME(update_##name)(const kernel_call *call) {                  \
    typedef float real;                                                            \
    const attr_value *attr = call->attr;                                           \
    const int64_t count = shoal_tensor_count(&call->in[0]);                        \
    const float lr = (float)shoal_tensor_get(&call->in[(slots) + 2], 0);           \
    const double t __attribute__((unused)) =                                       \
        call->ins > (slots) + 3 ? shoal_tensor_get(&call->in[(slots) + 3], 0) : 1; \
    const float shrink = (float)(1 - (double)lr * attr[decays].f);                 \
    constants;                                                                     \
    update_piece p;                                                                \
    for (int64_t first = 0; first < count; first += UPDATE_PIECE) {                \
      update_begin(call, slots, first, count, &p);                                 \
      float *restrict var = p.var;                                                 \
      float *restrict a __attribute__((unused)) = p.slot[0];                       \
      float *restrict b __attribute__((unused)) = p.slot[1];                       \
      const float *restrict grad = p.grad;                                         \
      const int64_t n = p.whole / VW * VW; /* a multiple, the compiler sees */     \
      for (int64_t i = 0; i < n; i++) {                                            \
        float g = grad[i];                                                         \
        var[i] *= shrink;                                                          \
        element;                                                                   \
      }                                                                            \
      update_end(call, slots, &p);                                                 \
    }                                                                              \
    if (update_passes_caches(call, count)) v_fence();                              \
    return NULL;                                                                   \
  }

UPDATE_WHOLE(sgd, 0, 1, SGD_CONSTANTS, SGD_ELEMENT)
UPDATE_WHOLE(adagrad, 1, 2, ADAGRAD_CONSTANTS, ADAGRAD_ELEMENT)
UPDATE_WHOLE(adam, 2, 3, ADAM_CONSTANTS, ADAM_ELEMENT)
