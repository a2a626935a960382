/* Local SGD and DiLoCo (Douillard et al. 2023) on parameter servers: a worker makes H steps by itself, with its own
 * optimizer, and pushes how far it came in place of a gradient; the servers make one update by it, SGD with Nesterov
 * momentum (rate 1 without momentum: the mean of all workers' parameters).
 *
 * 1. A batch that a worker is given has the rows of its H steps, so what is done of an epoch, who takes over from whom and
 *    when the training ends are the servers' affair as ever; they know no local steps. An update is one exchange.
 * 2. The worker has the parameters of the servers again before it sends anything.
 * 3. Slots of the workers' optimizers never travel: a checkpoint has those of worker 0. The servers' momentum is not in
 *    checkpoints: it begins with zeros after a resume, but moves with the parameters to other servers. */
#ifndef SHOAL_TRAIN_PS_LOCAL_H
#define SHOAL_TRAIN_PS_LOCAL_H

#include "train/compute.h"
#include "train/ps.h"

typedef struct ps_local ps_local;

/* What the servers do with what comes. */
void ps_local_terms(const ps_options *o, ps_terms *terms);
/* values: [n] where the model's weights are, the first n_trained of them trained; borrowed. gradients: [n] become what is
 * pushed. slots: [n] become memory for the servers' momentum. */
SHOAL_CHECKED shoal_status ps_local_create(shoal_model *m, float *const *values, int n_trained, float **gradients,
                                           float **slots, ps_local **out);
void ps_local_destroy(ps_local *l);

typedef struct {
  int64_t steps; /* H */
  int64_t batch; /* rows of each */
  int64_t done;  /* steps before, as the schedule counts them */
} ps_local_plan;

/* The steps that the rows of b make; *out: their losses, *rate: of the last. */
SHOAL_CHECKED shoal_status ps_local_compute(ps_local *l, compute *c, const train_batch *b, const ps_local_plan *plan,
                                            ps_head *out, double *rate);

#endif
