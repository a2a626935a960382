/* Gradients leave in a format of wire_format.h, and parameters come in it: rule 26 of ps_protocol.h. */
#include "dist/ps_client_internal.h"

#include "base/mem.h"

#include <string.h>

enum { RUN = 16 * WIRE_GRAIN }; /* numbers at a time: they stay in the first cache */

/* Numbers of the largest message: a gradient's first elements, or all of them. */
static int64_t largest(const ps_client *c) {
  int64_t most = 0;
  for (int s = 0; s < client_servers(c); s++) most = MAX_OF(most, c->options.place->elements[s]);
  return c->in_pieces ? MIN_OF(most, PS_PIECE_GRADIENT) : most;
}

static int64_t all_elements(const ps_client *c) {
  int64_t n = 0;
  for (int s = 0; s < client_servers(c); s++) n += c->options.place->elements[s];
  return n;
}

shoal_status ps_client_use_wire(ps_client *c, const wire_format *f) {
  if (!f) f = wire_format_at(0);
  c->wire = f->encode ? f : NULL;
  c->drains = !c->wire && c->left;
  if (!c->wire && !c->drains) return NULL;
  const size_t room = (size_t)f->bytes(largest(c));
  if (c->code_room < room) {
    free(c->code);
    c->code_room = 0;
    TRY(mem_aligned(room, (void **)&c->code));
    c->code_room = room;
  }
  if (f->feedback && !c->left) {
    c->left = calloc((size_t)all_elements(c), sizeof *c->left);
    if (!c->left) return status_no_memory();
  }
  return NULL;
}

void client_free_wire(ps_client *c) {
  free(c->code);
  free(c->left);
}

void client_forget_left(ps_client *c) {
  if (c->left) memset(c->left, 0, (size_t)all_elements(c) * sizeof *c->left);
}

/* Of [first, first + n) of the server's vector, what lies in a slice: where in the variable, and where in the run. */
static float *overlap(const placement_slice *slice, float *const *values, int64_t first, int64_t n, int64_t *at,
                      int64_t *count) {
  const int64_t from = MAX_OF(first, slice->offset), to = MIN_OF(first + n, slice->offset + slice->count);
  *at = from - first;
  *count = to - from;
  return *count > 0 ? values[slice->variable] + slice->first + from - slice->offset : NULL;
}

/* Numbers of servers before this one. */
static int64_t numbers_before(const ps_client *c, int server) {
  int64_t n = 0;
  for (int s = 0; s < server; s++) n += c->options.place->elements[s];
  return n;
}

/* Into `to`, with what was left out before; left: NULL, or of the same numbers. */
static void encode_run(const wire_format *f, float *run, float *left, uint8_t *to, int64_t n) {
  float decoded[RUN];
  if (!left) {
    f->encode(run, to, n);
  } else if (f) { /* also in a format that feeds nothing back: what another one has left goes out */
    wire_format_feed(f, run, left, to, n, decoded);
  } else {
    for (int64_t i = 0; i < n; i++) run[i] += left[i];
    memset(left, 0, (size_t)n * sizeof *left);
    memcpy(to, run, (size_t)n * sizeof *run);
  }
}

net_part client_encode(ps_client *c, int server, float *const *values, int64_t first, int64_t last) {
  const placement *p = c->options.place;
  const wire_format *f = c->wire;
  float run[RUN];
  uint8_t *to = c->code;
  float *left = c->left ? c->left + numbers_before(c, server) : NULL;
  for (int64_t at = first; at < last; at += RUN) {
    const int64_t n = MIN_OF(RUN, last - at);
    for (int i = p->begin[server]; i < p->begin[server + 1]; i++) {
      int64_t where, count;
      const float *from = overlap(&p->slices[i], values, at, n, &where, &count);
      if (from) memcpy(run + where, from, (size_t)count * sizeof *run);
    }
    encode_run(f, run, left ? left + at : NULL, to, n);
    to += (f ? f : wire_format_at(0))->bytes(n);
  }
  return (net_part){c->code, (size_t)(to - c->code)};
}

void client_decode(const ps_client *c, int server, const wire_format *f, const uint8_t *from, float *const *vectors) {
  const placement *p = c->options.place;
  float run[RUN];
  for (int64_t at = 0; at < p->elements[server]; at += RUN) {
    const int64_t n = MIN_OF(RUN, p->elements[server] - at);
    f->decode(from, run, n);
    from += f->bytes(n);
    for (int i = p->begin[server]; i < p->begin[server + 1]; i++) {
      int64_t where, count;
      float *to = overlap(&p->slices[i], vectors, at, n, &where, &count);
      if (!to) continue;
      for (int64_t k = 0; k < count; k++) to[k] = (f->feedback ? to[k] : 0) + run[where + k];
    }
  }
}
