/* The settings of a training job (shoal_job), and the model and rows they describe. f: the resolved settings; asked: as the
 * user said them. */
#ifndef SHOAL_RUN_JOB_H
#define SHOAL_RUN_JOB_H

#include "base/text.h"
#include "models/model_file.h"
#include "run/settings.h"

/* Nothing is said. */
shoal_job job_unset(void);
/* What a program says, in the struct that this library knows. */
SHOAL_CHECKED shoal_status job_take(const shoal_job *said, shoal_job *out);
/* Whether the user has said that setting. */
bool job_said(const shoal_job *asked, const char *name);

#define WORKERS_MAX 1024
#define SERVERS_MAX 256
#define RANK_RESTARTS 3 /* of each, unless the job says otherwise */
#define JOB_DEADLINE 60 /* seconds, where none was said */

extern const shoal_setting job_table[];

/* Once filled: is it more than one process? Do its workers step together? Rows that go into one update. */
bool job_is_cluster(const shoal_job *f);
/* The strategies allreduce, and mirrored. */
bool job_is_ranks(const shoal_job *f);
bool job_is_mirrored(const shoal_job *f);
/* Of ranks without MPI: whether they may come and go. */
bool job_is_elastic(const shoal_job *f);
bool job_is_sync(const shoal_job *f);
int64_t job_global_batch(const shoal_job *f);
/* Gradients come late and the rate, not below the model's own, stays up to the end: the weights are left wherever the
 * last gradients threw them. Of softmax at 0.5, 91.0 to 92.4 % after the same training, six seeds; with a falling rate
 * 92.5 to 92.6. */
bool job_rate_is_rough(const shoal_job *f, const shoal_model_kind *kind);
/* Rows of the table of a process that has only those that a batch may touch. */
int64_t job_table_room(const shoal_job *f);
/* The weights are a table on servers, of which workers see what their batches touch. */
bool job_has_table(const shoal_job *f, const shoal_model_kind *kind);
/* What scale_lr multiplies rates by: as many workers as go into one update. */
double job_rate_scale(const shoal_job *f);

/* Choices. */
const char *const *job_kernel_names(void);
const char *const *job_activation_names(void);
const char *const *job_pool_names(void);

/* The model called `name`, or of the file of that name: *owned, which the caller destroys, has it. Otherwise
 * SHOAL_ERR_ARGUMENT with the nearest. notes: lines about what a file has that is left out; NULL: nobody asks. */
SHOAL_CHECKED shoal_status job_find_kind(const char *name, text *notes, const shoal_model_kind **out,
                                         model_file **owned);
/* Fills what neither the user nor the settings of a resumed run said. */
void job_fill(shoal_job *f, const shoal_job *asked, const shoal_model_kind *kind);
/* The settings of a run that is resumed, where nothing else is said now. */
void job_take_kept(shoal_job *job, const shoal_job *kept);
/* Fills and checks. */
SHOAL_CHECKED shoal_status job_resolve(shoal_job *job, const shoal_job *asked, const shoal_model_kind *kind);
/* Settings that contradict each other. */
SHOAL_CHECKED shoal_status job_check(const shoal_job *f, const shoal_job *asked, const shoal_model_kind *kind);
/* It predicts numbers, instead of telling classes apart. */
bool job_is_regression(const shoal_model_kind *kind);
/* One example, as the model takes it; f->input has been checked. */
shoal_shape job_input(const shoal_job *f, const shoal_model_kind *kind);
/* The layers, not compiled yet. classes: of the data. */
shoal_model_options job_model_options(const shoal_job *f, int classes);
SHOAL_CHECKED shoal_status job_build(const shoal_model_kind *kind, const shoal_job *f, int classes, shoal_model **out);

/* Which optimizer, as the settings say. */
shoal_optimizer_options job_optimizer(const shoal_job *f);

/* `pieces`: "1000:0.05,2000:0.01". */
#define PIECES_MAX 32
typedef struct {
  int64_t boundaries[PIECES_MAX];
  double rates[PIECES_MAX];
  int count;
} job_pieces;
SHOAL_CHECKED shoal_status job_read_pieces(const char *words, job_pieces *out);

#endif
