/* What workers and parameter servers say to each other.
 *
 * 1. A server holds one vector of parameters and, of the same length, the optimizer's slots; it knows no variables.
 * 2. Every request gets exactly one answer of the same kind. PS_REFUSED in its flags: the payload is a sentence, why.
 * 3. HELLO comes first; its payload is the settings, word for word the server's own, or the worker is refused.
 * 4. Worker 0 brings the vectors (SET), then START, which is answered when all workers have said HELLO; the others'
 *    PULLs wait for that, too.
 * 5. A PUSH carries the version of the parameters its gradient was computed with (header.step) and its examples
 *    (header.number); its answer carries the fresh parameters and their version.
 * 6. PS_STOPPED in the flags of an answer to a PUSH: the gradient was not used and none will be any more.
 * 7. Payloads of PUSH, SET, and of the answers to PUSH, PULL and GET begin with a ps_head of 64 bytes; the vector
 *    follows, as f32 in the byte order of the machine: all supported ones are little-endian. */
#ifndef SHOAL_DIST_PS_PROTOCOL_H
#define SHOAL_DIST_PS_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vectors travel in little-endian order");

enum {
  PS_HELLO = 1,
  PS_SET,   /* number: which vector (0: parameters, k: slot k - 1); payload: head and vector */
  PS_START, /* step: rounds done, number: updates so far; payload: head with the counter */
  PS_PULL,  /* answer: head and parameters; number: rounds done when training started */
  PS_PUSH,
  PS_GET,   /* number: as in SET */
  PS_STOP,
  PS_DONE,  /* no more gradients from this worker; answer: head only. May be repeated, to ask who still runs */
  PS_REPORT,  /* payload: text, what the worker has to say at the end; kept by the server */
  PS_COLLECT, /* number: a worker, or the number of workers for the server's own text; answer: the text or nothing */
  PS_QUIT   /* worker 0, when all are done: the server ends */
};

#define PS_REPORT_MOST (1 << 16) /* bytes of a report */

enum { PS_REFUSED = 1, PS_STOPPED = 2 };

typedef struct {
  double loss, hits;     /* sums over `examples`; to the server: of this gradient, from it: of the step */
  int64_t examples;
  double rate;           /* applied last */
  int64_t updates;       /* = version of the parameters */
  int64_t all_examples;  /* of all workers since START */
  int64_t counter;       /* the optimizer's own count of updates, 0: it has none */
  int32_t running;       /* workers not done */
  int32_t unused;
} ps_head;
/* Payload bytes of the largest message with a server of so many elements. */
static inline size_t ps_largest(size_t elements, size_t settings) {
  size_t bytes = elements * sizeof(float);
  if (bytes < settings) bytes = settings;
  if (bytes < PS_REPORT_MOST) bytes = PS_REPORT_MOST;
  return sizeof(ps_head) + bytes;
}

_Static_assert(sizeof(ps_head) == 64, "a cache line, so that the vector after it is aligned");

#endif
