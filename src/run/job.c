#include "run/job.h"

#include "base/mem.h"
#include "exchange/formats.h"
#include "train/optimizer.h"
#include "train/strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

shoal_status job_find_kind(const char *name, text *notes, const shoal_model_kind **out, model_file **owned) {
  text unused = {0};
  shoal_status status = import_model_file(name, notes ? notes : &unused, owned);
  text_fini(&unused);
  TRY(status);
  *out = &(*owned)->kind;
  return NULL;
}

shoal_job job_unset(void) {
  return (shoal_job){.size = sizeof(shoal_job),
                     .lr = NAN,
                     .l2 = NAN,
                     .bias_rate = NAN,
                     .weight_decay = NAN,
                     .final_lr = NAN,
                     .outer_lr = NAN,
                     .outer_momentum = NAN,
                     .seed = -1,
                     .staleness = -2,
                     .max_restarts = -1,
                     .shuffle_rows = -1};
}

void shoal_job_init(shoal_job *job, size_t size) {
  const shoal_job unset = job_unset();
  memcpy(job, &unset, MIN_OF(size, sizeof unset));
  if (size > sizeof unset) memset((char *)job + sizeof unset, 0, size - sizeof unset);
  job->size = size;
}

shoal_status job_take(const shoal_job *said, shoal_job *out) {
  *out = job_unset();
  if (!said->size) return status_make(SHOAL_ERR_ARGUMENT, "a job begins with shoal_job_init");
  memcpy(out, said, MIN_OF(said->size, sizeof *out));
  out->size = sizeof *out;
  return NULL;
}

const shoal_setting *shoal_job_settings(void) { return job_table; }

shoal_status shoal_job_set(shoal_job *job, const char *name, const char *value) {
  const shoal_setting *row;
  if (!strcmp(name, "model")) {
    job->model = value;
    return NULL;
  }
  TRY(shoal_setting_find(job_table, name, &row));
  return shoal_setting_set(row, value, job);
}

bool job_said(const shoal_job *asked, const char *name) {
  const shoal_job unset = job_unset();
  const shoal_setting *row = setting_find(job_table, name);
  return row && setting_is_said(row, asked, &unset);
}

void job_take_kept(shoal_job *job, const shoal_job *kept) {
  const shoal_job unset = job_unset();
  for (const shoal_setting *row = job_table; row->name; row++)
    if (row->marks & SHOAL_SETTING_KEPT && !setting_is_said(row, job, &unset)) setting_copy(row, kept, job);
}

shoal_status job_resolve(shoal_job *job, const shoal_job *asked, const shoal_model_kind *kind) {
  job_fill(job, asked, kind);
  return job_check(job, asked, kind);
}

shoal_status shoal_job_resolve(const shoal_job *job, shoal_job *out) {
  const shoal_model_kind *kind = NULL;
  shoal_job said, resolved;
  TRY(job_take(job, &said));
  if (!said.model) return status_make(SHOAL_ERR_ARGUMENT, "which `model`?");
  model_file *file;
  TRY(job_find_kind(said.model, NULL, &kind, &file));
  resolved = said;
  shoal_status status = job_resolve(&resolved, &said, kind);
  if (file && !said.data) resolved.data = NULL; /* a text of the file */
  model_file_destroy(file);
  if (!status) *out = resolved;
  return status;
}

static bool is(const char *a, const char *b) { return !strcmp(a, b); }

bool job_is_ranks(const shoal_job *f) { return is(f->strategy, "allreduce"); }
bool job_is_mirrored(const shoal_job *f) { return is(f->strategy, "mirrored"); }

/* The model's own, whatever the mode: runs that differ in it alone can be compared. */
static void fill_schedule(shoal_job *f, const shoal_model_kind *kind) {
  if (!f->schedule) {
    f->schedule = kind->schedule ? kind->schedule : "constant";
    if (isnan(f->final_lr)) f->final_lr = f->lr * kind->final_share;
  }
  if (isnan(f->final_lr)) f->final_lr = 0;
}

bool job_rate_is_rough(const shoal_job *f, const shoal_model_kind *kind) {
  const bool late = job_is_cluster(f) && !job_is_sync(f) && (f->workers > 1 || f->in_flight > 1);
  return late && !kind->sparse && is(f->schedule, "constant") && f->lr >= kind->rate;
}

double job_rate_scale(const shoal_job *f) { return f->scale_lr ? f->rate_scale : 1; }

/* Where the strategy cuts it among the workers, a run that is resumed with another number of them keeps its global
 * batch, so it goes on as it began. */
static void fill_global_batch(shoal_job *f, const shoal_job *asked) {
  if (!job_is_ranks(f) && !job_is_mirrored(f) && !(job_is_cluster(f) && f->deterministic)) {
    if (!job_said(asked, "global-batch")) f->global_batch = 0;
    return;
  }
  bool batch = job_said(asked, "batch-size"), all = job_said(asked, "global-batch");
  if (!f->global_batch || (batch && !all)) f->global_batch = f->batch_size * f->workers;
  if (!batch) f->batch_size = (f->global_batch + f->workers - 1) / f->workers;
}

/* Settings that the model's file has for the job, where neither the user nor a run that goes on says otherwise.
 * own: the optimizer is the model's. */
static void fill_from_file(shoal_job *f, const shoal_model_kind *kind, bool own) {
  const model_file *file = model_file_of(kind);
  const shoal_job unset = job_unset();
  const char *key;
  json_t *v;
  if (!file) return;
  json_object_foreach (json_object_get(file->file, "training"), key, v) {
    char name[64];
    bool update;
    if (!model_file_job_key(key, &update) || (update && !own)) continue;
    snprintf(name, sizeof name, "%s", key);
    for (char *c = name; *c; c++)
      if (*c == '_') *c = '-';
    const shoal_setting *row = setting_find(job_table, name);
    if (!row || setting_is_said(row, f, &unset)) continue;
    void *field = (char *)f + row->offset;
    if (row->kind == SHOAL_SETTING_NUMBER && json_is_number(v)) *(double *)field = json_number_value(v);
    if (row->kind == SHOAL_SETTING_INT && json_is_number(v)) *(int64_t *)field = (int64_t)json_number_value(v);
    if (row->kind == SHOAL_SETTING_BOOL && json_is_boolean(v)) *(bool *)field = json_is_true(v);
    if (row->kind == SHOAL_SETTING_TEXT && json_is_string(v)) *(const char **)field = json_string_value(v);
  }
}

void job_fill(shoal_job *f, const shoal_job *asked, const shoal_model_kind *kind) {
  bool epochs = job_said(asked, "epochs"), steps = job_said(asked, "steps");
  if (steps && !epochs) f->epochs = 0; /* what is said now counts, not what a resumed run had */
  if (epochs && !steps) f->steps = 0;
  if (f->seed < 0) f->seed = 1;
  if (f->staleness < -1) f->staleness = -1;
  if (!f->data) f->data = kind->data;
  if (!f->epochs && !f->steps) f->epochs = kind->epochs;
  if (!f->batch_size) f->batch_size = kind->batch_size;
  const char *optimizer = kind->optimizer ? kind->optimizer : "sgd";
  if (!f->optimizer) f->optimizer = optimizer;
  fill_from_file(f, kind, is(f->optimizer, optimizer));
  if (isnan(f->lr)) f->lr = is(f->optimizer, optimizer) ? kind->rate : shoal_optimizer_rate(f->optimizer);
  if (isnan(f->l2)) f->l2 = kind->l2;
  if (isnan(f->weight_decay)) f->weight_decay = optimizer_usual_decay(f->optimizer);
  bool one_rate = strcmp(f->optimizer, "sgd") && strcmp(f->optimizer, "momentum");
  if (isnan(f->bias_rate)) f->bias_rate = kind->bias_rate == 0 || one_rate ? 1 : kind->bias_rate;
  if (!f->top_k) f->top_k = kind->top_k;
  if (!f->loss) f->loss = kind->loss;
  if (!f->kernels) f->kernels = "auto";
  if (!f->strategy) f->strategy = f->workers > 1 || f->ps ? "ps" : "single";
  if (!f->workers) f->workers = 1;
  fill_global_batch(f, asked);
  if (f->rate_scale == 0) f->rate_scale = (double)f->workers; /* of a resumed run: as it was */
  if (job_is_mirrored(f) && (f->threads == 1 || !job_said(asked, "threads"))) f->threads = f->workers;
  if (!f->wire) f->wire = "f32";
  if (!f->compress) f->compress = "none";
  if (!f->compress_rank) f->compress_rank = 4;
  if (!f->local_steps) f->local_steps = 1;
  if (!f->mode) f->mode = "sync";
  if (isnan(f->outer_momentum)) f->outer_momentum = 0;
  if (isnan(f->outer_lr))
    f->outer_lr = strategy_outer_rate(f->outer_momentum, job_is_cluster(f) && !job_is_sync(f) ? (int)f->workers : 1);
  if (!f->check_replicas) f->check_replicas = 100;
  if (!f->ps && !strcmp(f->strategy, "ps")) f->ps = 1;
  fill_schedule(f, kind);
  if (!f->transport) f->transport = "auto";
  if (!f->transfer) f->transfer = "sparse";
  if (f->deadline == 0) f->deadline = JOB_DEADLINE;
  if (f->heartbeat == 0) f->heartbeat = 5;
  if (!f->keep) f->keep = 3;
  if (f->sample_every == 0) f->sample_every = 1;
  if (!f->memory_limit) f->memory_limit = 1024;
  if (f->shuffle_rows < 0) f->shuffle_rows = 10000;
  if (f->max_restarts < 0 && is(f->strategy, "allreduce")) f->max_restarts = RANK_RESTARTS;
  if (f->max_restarts < 0 && !is(f->strategy, "ps")) f->max_restarts = 0; /* whoever starts tasks knows otherwise */
}

int64_t job_table_room(const shoal_job *f) {
  enum { LEAST = 1 << 16, MOST = 1 << 22, A_ROW = 512 };
  return MIN_OF(MAX_OF(f->batch_size * A_ROW, LEAST), MOST);
}

bool job_has_table(const shoal_job *f, const shoal_model_kind *kind) {
  return kind->sparse && job_is_cluster(f) && is(f->transfer, "sparse");
}

bool job_is_cluster(const shoal_job *f) { return is(f->strategy, "ps"); }
bool job_is_elastic(const shoal_job *f) { return is(f->compress, "none") && f->local_steps <= 1; }
bool job_is_sync(const shoal_job *f) { return is(f->mode, "sync"); }
int64_t job_global_batch(const shoal_job *f) {
  const int64_t once = f->global_batch ? f->global_batch : f->batch_size * (job_is_sync(f) ? f->workers : 1);
  return once * MAX_OF(f->accumulate, 1);
}

shoal_optimizer_options job_optimizer(const shoal_job *f) {
  return (shoal_optimizer_options){.name = f->optimizer,
                                   .momentum = f->momentum,
                                   .nesterov = f->nesterov,
                                   .decay = f->rho,
                                   .beta1 = f->beta1,
                                   .beta2 = f->beta2,
                                   .epsilon = f->epsilon,
                                   .accumulator = f->accumulator,
                                   .l1 = f->l1,
                                   .weight_decay = f->weight_decay > 0 ? f->weight_decay : -1,
                                   .average = f->average,
                                   .clip_value = f->clip_value,
                                   .clip_norm = f->clip_norm,
                                   .clip_global_norm = f->clip_global_norm};
}

shoal_status job_read_pieces(const char *words, job_pieces *out) {
  job_pieces pieces = {0};
  char *copy = strdup(words), *rest = copy, *item;
  if (!copy) return status_no_memory();
  shoal_status status = NULL;
  while (!status && (item = strsep(&rest, ","))) {
    char *colon = strchr(item, ':');
    int64_t step;
    double rate;
    if (colon) *colon = 0;
    if (!colon || !shoal_parse_int(item, &step) || !shoal_parse_double(colon + 1, &rate) || step < 0 || !(rate > 0) ||
        !isfinite(rate) || (pieces.count && step <= pieces.boundaries[pieces.count - 1]))
      status =
          status_make(SHOAL_ERR_ARGUMENT,
                      "`pieces`: expected rising steps with rates above 0, like 1000:0.05,2000:0.01, not '%s'", words);
    else if (pieces.count == PIECES_MAX)
      status = status_make(SHOAL_ERR_ARGUMENT, "`pieces`: at most %d pieces", PIECES_MAX);
    else {
      pieces.boundaries[pieces.count] = step;
      pieces.rates[pieces.count++] = rate;
    }
  }
  free(copy);
  if (!status) *out = pieces;
  return status;
}

shoal_status job_build(const shoal_model_kind *kind, const shoal_job *f, int classes, shoal_model **out) {
  const shoal_model_options options = job_model_options(f, classes);
  const int64_t features = f->growing_ids ? job_table_room(f) : f->features ? f->features : kind->input.dim[0];
  const shoal_shape input = kind->sparse ? SHOAL_SHAPE(features) : job_input(f, kind);
  return shoal_model_kind_build(kind, &input, &options, out);
}

shoal_model_options job_model_options(const shoal_job *f, int classes) {
  return (shoal_model_options){
      .classes = classes, .activation = f->activation, .pool = f->pool, .bias = f->bias, .set = f->set};
}
