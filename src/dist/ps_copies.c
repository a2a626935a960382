#include "dist/ps_copies.h"

#include "base/mem.h"
#include "base/pool.h"

#include <string.h>

enum { RUN = 16 * WIRE_GRAIN }; /* numbers at a time: they stay in the first cache */
enum { UNKNOWN = -1 };          /* in place of a version */

typedef struct {
  float *numbers; /* [elements]; NULL: none yet */
  int64_t version;
} copy;

struct ps_copies {
  const ps_terms *terms;
  ps_vectors *vectors;
  copy *copies;   /* [1], or of each worker */
  int64_t *known; /* [workers] version of its copy that the worker has, or UNKNOWN */
  /* What was encoded last: */
  uint8_t *code; /* [room] */
  size_t room;
  const wire_format *format; /* NULL: nothing */
  const copy *of;            /* the difference to it; NULL: the parameters themselves */
  int64_t base, version;     /* from that version of the copy to this one */
};

static int n_copies(const ps_copies *c) { return c->terms->sync ? 1 : c->terms->workers; }

shoal_status ps_copies_create(const ps_terms *terms, ps_vectors *vectors, ps_copies **out) {
  ps_copies *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->terms = terms;
  c->vectors = vectors;
  c->copies = calloc((size_t)n_copies(c), sizeof *c->copies);
  c->known = calloc((size_t)terms->workers, sizeof *c->known);
  if (!c->copies || !c->known) {
    ps_copies_destroy(c);
    return status_no_memory();
  }
  ps_copies_reset(c);
  *out = c;
  return NULL;
}

void ps_copies_destroy(ps_copies *c) {
  if (!c) return;
  for (int i = 0; c->copies && i < n_copies(c); i++) free(c->copies[i].numbers);
  free(c->copies);
  free(c->known);
  free(c->code);
  free(c);
}

void ps_copies_forget(ps_copies *c, int worker) { c->known[worker] = UNKNOWN; }

void ps_copies_reset(ps_copies *c) {
  for (int w = 0; w < c->terms->workers; w++) c->known[w] = UNKNOWN;
  for (int i = 0; i < n_copies(c); i++) c->copies[i].version = UNKNOWN;
  c->format = NULL;
}

/* ---- numbers, by several threads */

typedef struct {
  const ps_copies *c;
  const wire_format *format;
  float *numbers; /* of a copy, or of a gradient; NULL: the parameters are encoded as they are */
  const uint8_t *from;
  int64_t count;
} task;

static void read_parameters(const ps_copies *c, int64_t first, int64_t n, float *to) {
  while (n > 0) {
    int64_t count;
    const float *from = ps_vectors_run(c->vectors, PS_PARAMETERS, first, &count);
    count = MIN_OF(count, n);
    memcpy(to, from, (size_t)count * sizeof *to);
    first += count;
    to += count;
    n -= count;
  }
}

static void encode_share(void *context, int thread, int threads) {
  const task *t = context;
  float run[RUN], decoded[RUN];
  int64_t first, last;
  pool_share(t->count, RUN, thread, threads, &first, &last);
  for (int64_t at = first; at < last; at += RUN) {
    const int64_t n = MIN_OF(RUN, last - at);
    uint8_t *to = t->c->code + t->format->bytes(at);
    read_parameters(t->c, at, n, run);
    float *had = t->numbers ? t->numbers + at : NULL;
    for (int64_t i = 0; had && i < n; i++) run[i] -= had[i];
    t->format->encode(run, to, n);
    if (!had) continue;
    t->format->decode(to, decoded, n);
    for (int64_t i = 0; i < n; i++) had[i] += decoded[i];
  }
}

static void decode_share(void *context, int thread, int threads) {
  const task *t = context;
  int64_t first, last;
  pool_share(t->count, RUN, thread, threads, &first, &last);
  if (first < last) t->format->decode(t->from + t->format->bytes(first), t->numbers + first, last - first);
}

void ps_copies_decode(ps_copies *c, const wire_format *f, const void *from, int64_t count, float *to) {
  task t = {.c = c, .format = f, .numbers = to, .from = from, .count = count};
  pool_run(ps_vectors_pool(c->vectors), decode_share, &t);
}

/* of: becomes what a worker has that adds what is encoded; NULL: the parameters themselves are. */
static shoal_status encode(ps_copies *c, const wire_format *f, copy *of, int64_t version) {
  const size_t bytes = (size_t)f->bytes(c->terms->elements);
  c->format = NULL;
  if (c->room < bytes) {
    free(c->code);
    c->code = NULL;
    c->room = 0;
    TRY(mem_aligned(bytes, (void **)&c->code));
    c->room = bytes;
  }
  task t = {.c = c, .format = f, .numbers = of ? of->numbers : NULL, .count = c->terms->elements};
  pool_run(ps_vectors_pool(c->vectors), encode_share, &t);
  c->format = f;
  c->of = of;
  c->base = of ? of->version : 0;
  c->version = version;
  if (of) of->version = version;
  return NULL;
}

/* ---- answers */

static bool anybody_has(const ps_copies *c, const copy *one) {
  for (int w = 0; w < c->terms->workers; w++)
    if (&c->copies[c->terms->sync ? 0 : w] == one && c->known[w] == one->version) return true;
  return false;
}

/* The copy follows the parameters: by what a format can tell if somebody has the last one, otherwise all of it. */
static shoal_status bring_up(ps_copies *c, copy *one, int64_t version, const wire_format *f) {
  if (one->version == version) return NULL;
  if (one->version != UNKNOWN && anybody_has(c, one)) return encode(c, f, one, version);
  if (!one->numbers) TRY(mem_aligned((size_t)c->terms->elements * sizeof(float), (void **)&one->numbers));
  read_parameters(c, 0, c->terms->elements, one->numbers);
  one->version = version;
  if (c->of == one) c->format = NULL;
  return NULL;
}

shoal_status ps_copies_answer(ps_copies *c, int worker, int64_t version, const wire_format *f, net_part *out,
                              const wire_format **as) {
  const size_t bytes = (size_t)f->bytes(c->terms->elements);
  if (!f->feedback) {
    c->known[worker] = UNKNOWN;
    if (c->format != f || c->of || c->version != version) TRY(encode(c, f, NULL, version));
    *as = f;
    *out = (net_part){c->code, bytes};
    return NULL;
  }
  copy *one = &c->copies[c->terms->sync ? 0 : worker];
  TRY(bring_up(c, one, version, f));
  const int64_t had = c->known[worker];
  c->known[worker] = version;
  if (had == version) {
    *as = f;
    *out = (net_part){0};
  } else if (had != UNKNOWN && c->format && c->of == one && c->version == version && c->base == had) {
    *as = c->format; /* which another worker may have asked for */
    *out = (net_part){c->code, (size_t)c->format->bytes(c->terms->elements)};
  } else {
    *as = wire_format_at(0);
    *out = (net_part){one->numbers, (size_t)c->terms->elements * sizeof(float)};
  }
  return NULL;
}
