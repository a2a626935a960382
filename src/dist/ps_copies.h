/* The parameters that workers have, as far as a server knows: what it sends them in a format that leaves something out
 * (rule 26 of ps_protocol.h) is the difference to these.
 *
 * 1. A copy is what a worker has after the last answer. In sync mode all workers share one, so that a difference is
 *    encoded once a step and all workers compute with the same parameters; in async mode each has its own.
 * 2. What the format leaves out of a difference stays in the next one: it is late, not lost.
 * 3. Who is not known to have the copy gets it whole, as f32: after PULL and GET, which bring the parameters themselves,
 *    and after a backup has become primary. */
#ifndef SHOAL_DIST_PS_COPIES_H
#define SHOAL_DIST_PS_COPIES_H

#include "dist/ps_vectors.h"
#include "dist/wire_format.h"

typedef struct ps_copies ps_copies;

/* Borrows both. Room is made when a format needs it. */
SHOAL_CHECKED shoal_status ps_copies_create(const ps_terms *terms, ps_vectors *vectors, ps_copies **out);
void ps_copies_destroy(ps_copies *c);
/* The parameters of that version for a worker, which has asked for them in format f: *out, empty if it has them, in format
 * *as. */
SHOAL_CHECKED shoal_status ps_copies_answer(ps_copies *c, int worker, int64_t version, const wire_format *f,
                                            net_part *out, const wire_format **as);
/* The worker has parameters that were not sent by the above. */
void ps_copies_forget(ps_copies *c, int worker);
/* The same of all: a training begins, which counts versions anew. */
void ps_copies_reset(ps_copies *c);
/* count numbers of a gradient, by all threads of the vectors. */
void ps_copies_decode(ps_copies *c, const wire_format *f, const void *from, int64_t count, float *to);

#endif
