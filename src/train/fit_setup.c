/* Before the first step: what the options and the data make of it. */
#include "exec/session.h"
#include "train/fit_loop.h"
#include "train/split.h"

#include <math.h>

#define STANDARD_BATCH 32
#define ACCUMULATE_MAX 65536
#define CHUNK_ROWS 1024 /* of sparse rows: what fits into a second-level cache */

shoal_status fit_trace_label(fit_loop *l) {
  static const event_label all[FIT_LABELS] = {[FIT_STEP] = {EVENT_STEP, .name = "step"},
                                              [FIT_INPUT] = {EVENT_WAIT, .name = "wait for input"},
                                              [FIT_EXCHANGE] = {EVENT_STEP, .name = "exchange gradients"},
                                              [FIT_SAVE] = {EVENT_STEP, .name = "checkpoint"},
                                              [FIT_TEST] = {EVENT_STEP, .name = "validation"}};
  events *e = l->model->session->events;
  if (!e) return NULL;
  l->labels = e->n_labels;
  uint32_t ignored; /* they follow each other */
  for (int i = 0; i < FIT_LABELS; i++) TRY(events_label(e, &all[i], &ignored));
  l->events = e;
  return NULL;
}

shoal_status fit_check_options(const shoal_fit_options *o, bool has_data) {
  if (o->epochs < 0 || o->steps < 0 || (!o->epochs && !o->steps))
    return status_make(SHOAL_ERR_ARGUMENT, "fit: %lld epochs, %lld steps: give one of them, above 0",
                       (long long)o->epochs, (long long)o->steps);
  if (o->batch_size < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: a batch size of %lld: expected at least 1", (long long)o->batch_size);
  if (o->accumulate < 0 || o->accumulate > ACCUMULATE_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: gradients of %lld batches: accumulate is from 1 to %d",
                       (long long)o->accumulate, ACCUMULATE_MAX);
  if (!(o->validation_split >= 0 && o->validation_split < 1))
    return status_make(SHOAL_ERR_ARGUMENT, "fit: a validation split of %g: expected at least 0 and below 1",
                       o->validation_split);
  if (o->validation && o->validation_split > 0)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: give validation data or a validation split, not both");
  if ((o->stream != NULL) == (has_data != false))
    return status_make(SHOAL_ERR_ARGUMENT, "fit: give data in memory or a stream, one of the two");
  bool validates = o->validation || o->validation_split > 0;
  if ((o->patience > 0 || o->keep_best || o->restore_best) && !validates)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: %s needs validation data or a validation split",
                       o->patience > 0 ? "patience"
                       : o->keep_best  ? "keep_best"
                                       : "restore_best");
  if ((o->resume || o->keep_best) && !o->checkpoint_dir)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: %s needs a folder for checkpoints",
                       o->resume ? "resume" : "keep_best");
  if (o->stream && o->validation_split > 0)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: rows that are streamed cannot be split: give validation data");
  if (o->patience < 0 || o->checkpoint_every < 0 || o->keep < 0 || o->callbacks.every_steps < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: patience, checkpoint_every, keep and every_steps cannot be negative");
  return NULL;
}

/* Splits off the rows to validate on. */
static shoal_status hold_out(fit_loop *l, int64_t n) {
  const shoal_model *m = l->model;
  const double share = l->options->validation_split;
  const int32_t *index = l->data->features.rows; /* what the data calls its rows */
  l->split = calloc((size_t)n, sizeof *l->split);
  if (!l->split) return status_no_memory();
  TRY(status_wrap(split_rows(l->data, (int)m->classes, share, m->options.seed, l->split, &l->rows), "fit"));
  for (int64_t i = 0; index && i < n; i++) l->split[i] = index[l->split[i]];
  l->held_out = *l->data;
  l->held_out.features = model_rows(&l->data->features, l->split, l->rows, n - l->rows);
  l->held_out.labels = model_rows(&l->data->labels, l->split, l->rows, n - l->rows);
  l->held_out.weights = (shoal_tensor){0}; /* every row counts the same when a model is measured */
  l->validation = &l->held_out;
  return NULL;
}

/* What a worker computes for an update: several batches, where their gradients are accumulated or it makes steps by
 * itself. */
static shoal_status set_batch(fit_loop *l) {
  const shoal_fit_options *o = l->options;
  l->batch = o->batch_size ? o->batch_size : STANDARD_BATCH;
  l->accumulate = MAX_OF(o->accumulate, 1);
  if (l->batch > INT64_MAX / 4 / l->accumulate || o->global_batch > INT64_MAX / 4 / l->accumulate)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: gradients of %lld batches of %lld are too many",
                       (long long)l->accumulate, (long long)l->batch);
  l->batch *= l->accumulate;
  const int64_t local_steps = MAX_OF(l->strategy->local_steps, 1);
  if (local_steps > 1 && l->accumulate > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: local steps do not accumulate gradients: leave out one of the two");
  if (l->batch > INT64_MAX / 4 / local_steps)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: %lld local steps of batches of %lld are too many",
                       (long long)local_steps, (long long)l->batch);
  l->batch *= local_steps;
  return NULL;
}

shoal_status fit_cut(fit_loop *l) {
  const shoal_fit_options *o = l->options;
  int64_t n = l->data->features.shape.dim[0];
  if (n > INT32_MAX) return status_make(SHOAL_ERR_ARGUMENT, "fit: at most %d examples are possible", INT32_MAX);
  l->rows = n;
  l->validation = o->validation;
  if (o->validation_split > 0) TRY(hold_out(l, n));
  TRY(set_batch(l));
  const int64_t workers = l->strategy->workers;
  if (l->batch > INT64_MAX / 2 / workers)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: a batch of %lld on %lld workers is too large", (long long)l->batch,
                       (long long)workers);
  const bool rounds = l->strategy->rounds;
  l->round = rounds && o->global_batch ? o->global_batch * l->accumulate : l->batch * workers;
  l->usable = o->drop_short ? l->rows / l->round * l->round : l->rows;
  if (!l->usable)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "fit: %lld examples do not fill one batch of %lld, and short ones are "
                       "dropped",
                       (long long)l->rows, (long long)l->round);
  if (!rounds && l->usable <= (workers - 1) * l->batch)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "fit: %lld examples in batches of %lld leave some of the %lld workers with none: use fewer "
                       "workers or smaller batches",
                       (long long)l->usable, (long long)l->batch, (long long)workers);
  int64_t an_update = l->strategy->sync ? l->round : l->batch; /* rows */
  l->steps_per_epoch = (l->usable + an_update - 1) / an_update;
  if (o->epochs && o->epochs > INT64_MAX / l->steps_per_epoch / workers)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: %lld epochs are too many", (long long)o->epochs);
  l->steps = o->epochs * l->steps_per_epoch;
  if (o->steps) l->steps = o->epochs ? MIN_OF(l->steps, o->steps) : o->steps;
  l->plan = (strategy_plan){.batches = {.batch = l->batch, .rows = l->usable, .end = INT64_MAX},
                            .end_step = o->steps ? o->steps : INT64_MAX}; /* if workers die, epochs have more */
  if (rounds) {
    l->plan.batches.round = l->round;
    l->plan.batches.parts = (int)workers;
  }
  if (o->epochs) l->plan.batches.end = o->epochs * lease_plan_epoch_batches(&l->plan.batches);
  if (!l->strategy->sync) l->plan.batches.end = l->steps;
  return NULL;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Steps on sparse rows are so short that many are run in one go; something may be due only between two goes. */
static int64_t steps_together(const fit_loop *l) {
  const shoal_fit_options *o = l->options;
  int64_t most = MAX_OF(CHUNK_ROWS / l->batch, 1), due = 0;
  due = common_divisor(due, o->steps);
  due = common_divisor(due, o->checkpoint_dir ? o->checkpoint_every : 0);
  due = common_divisor(due, o->callbacks.every_steps);
  due = common_divisor(due, o->eval_every % l->batch ? 0 : o->eval_every / l->batch);
  while (due && due % most) most--;
  return most;
}

/* A round's rows are cut among the workers by their place in the epoch, so that has to have an end. */
static shoal_status cut_counted(fit_loop *l) {
  const shoal_fit_options *o = l->options;
  if (o->stream->skip_bad_rows)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "fit: deterministic steps on parameter servers are cut by the rows of the files: bad ones cannot "
        "be skipped");
  shoal_pipeline_options p = *o->stream;
  if (l->model->sparse) p.features = model_features(l->model);
  TRY(status_wrap(pipeline_count_rows(&p, &l->rows), "counting the rows"));
  l->usable = o->drop_short ? l->rows / l->round * l->round : l->rows;
  if (!l->usable)
    return status_make(SHOAL_ERR_INPUT, "fit: the files have %lld rows, too few for a step of %lld", (long long)l->rows,
                       (long long)l->round);
  l->steps_per_epoch = (l->usable + l->round - 1) / l->round;
  if (o->epochs) l->steps = MIN_OF(l->steps, o->epochs * l->steps_per_epoch);
  l->plan.batches =
      (lease_plan){.batch = l->batch, .rows = l->usable, .round = l->round, .parts = l->strategy->workers};
  l->plan.batches.end = o->epochs ? o->epochs * lease_plan_epoch_batches(&l->plan.batches) : INT64_MAX;
  return NULL;
}

/* How long an epoch is, is not known before its end, unless the rows are counted. */
shoal_status fit_cut_stream(fit_loop *l) {
  const shoal_fit_options *o = l->options;
  const shoal_strategy *s = l->strategy;
  const bool counted = l->model->sparse && l->model->features && s->rounds && s->leases;
  if (l->model->sparse && s->rounds && !counted)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "fit: the strategy %s does not support sparse rows; use single or "
                       "parameter servers",
                       s->kind->name);
  if (s->rounds && s->leases && !counted)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: deterministic steps on parameter servers need the data in memory");
  l->validation = o->validation;
  TRY(set_batch(l));
  if (l->model->sparse && l->accumulate > 1)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "fit: gradients are accumulated of dense rows: for sparse rows, give a larger batch size");
  l->round = s->rounds && o->global_batch ? o->global_batch * l->accumulate : l->batch * s->workers;
  l->steps = o->steps ? o->steps : INT64_MAX;
  l->plan = (strategy_plan){.batches = {.batch = l->batch, .end = o->epochs}, .end_step = l->steps};
  l->chunk = s->rounds ? l->round : l->batch;
  if (l->model->sparse && !o->drop_short && s->updates && !l->model->ids) l->chunk = l->batch * steps_together(l);
  return counted ? cut_counted(l) : NULL;
}

static shoal_status open_pipeline(const fit_loop *l, int64_t shard, const char *position, bool probe,
                                  shoal_pipeline **out) {
  const shoal_fit_options *o = l->options;
  shoal_pipeline_options p = *o->stream;
  p.batch_size = l->chunk;
  p.epochs = o->epochs;
  p.seed = l->model->options.seed;
  p.drop_short = o->drop_short;
  p.classes = (int)l->model->classes;
  if (l->model->class_names) p.class_names = l->model->class_names;
  if (l->model->preprocessing) p.preprocessing = l->model->preprocessing;
  if (l->model->sparse) p.features = model_features(l->model);
  if (o->keep_order || probe) p.shuffle_rows = 0;
  if (probe) p.batch_size = p.prefetch = 1;
  p.position = position;
  if (l->strategy->leases && !fit_counted(l)) { /* with others every worker walks through all rows */
    p.shard = (int)shard;
    p.shards = l->strategy->workers;
  }
  return shoal_pipeline_create(&p, out);
}

static void note(void *context, const char *line) { fit_note(context, line); }

static shoal_status open_shard(void *context, int64_t shard, const char *position, shoal_pipeline **out) {
  return open_pipeline(context, shard, position, false, out);
}

shoal_status fit_make_source(fit_loop *l) {
  const shoal_fit_options *o = l->options;
  batch_source_options options = {.model = l->model,
                                  .data = l->data,
                                  .rows = l->rows,
                                  .split = l->split,
                                  .usable = l->usable,
                                  .shuffled = !o->keep_order,
                                  .epochs = o->epochs,
                                  .steps = l->steps,
                                  .round = l->round,
                                  .plan = l->plan,
                                  .context = l,
                                  .open = open_shard,
                                  .position = l->state.step || fit_counted(l) ? l->state.input : NULL,
                                  .features = l->tower->features,
                                  .epochs_done = l->state.epoch};
  TRY(batch_source_create(&options, l->strategy->leases, &l->source));
  l->setup = (strategy_setup){.compute = &l->compute,
                              .example = l->source->example,
                              .batch = l->batch,
                              .accumulate = l->accumulate,
                              .chunk = l->chunk,
                              .round = l->round,
                              .plan = l->plan,
                              .position = l->state.input,
                              .stream = &l->saved.stream,
                              .shared = &l->state,
                              .shared_bytes = sizeof l->state,
                              .describe = fit_describe,
                              .context = l,
                              .restore = fit_go_back,
                              .note = note};
  if (!l->data) return NULL;
  l->setup.round = MIN_OF(l->round, l->usable);
  l->setup.last = l->usable > l->round ? l->usable % l->round : 0;
  return NULL;
}

shoal_status fit_stream_tower(fit_loop *l) {
  shoal_pipeline *p;
  TRY(open_pipeline(l, 0, NULL, true, &p));
  rows_schema s;
  pipeline_schema(p, &s);
  shoal_status named = model_adopt_class_names(l->model, shoal_pipeline_class_names(p));
  if (!named) named = model_adopt_preprocessing(l->model, shoal_pipeline_preprocessing(p));
  shoal_pipeline_destroy(p);
  TRY(named);
  const shoal_shape *input = &l->model->input;
  char have[SHOAL_SHAPE_TEXT], one[SHOAL_SHAPE_TEXT];
  if (l->model->sparse && s.kind == ROWS_SPARSE && !s.fields && model_needs_fields(l->model))
    return status_make(SHOAL_ERR_ARGUMENT, "fit: " MODEL_NO_FIELDS);
  if (l->model->sparse && s.kind == ROWS_SPARSE && s.ids != model_has_ids(l->model))
    return status_make(SHOAL_ERR_ARGUMENT,
                       s.ids ? "fit: the rows have growing ids, the model a feature space of fixed size"
                             : "fit: the model has growing ids, the rows do not: set growing_ids of the pipeline");
  if (l->model->sparse && s.kind == ROWS_SPARSE && !s.real_labels)
    return model_tower(l->model, SHOAL_F32, SHOAL_I32, s.weighted, &l->tower);
  if (l->model->sparse)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: the model takes sparse rows with classes as labels; the stream has %s",
                       s.kind != ROWS_SPARSE ? "others" : "numbers as labels");
  if (s.kind != ROWS_DENSE)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: the model takes dense rows, the stream has %s ones",
                       s.kind == ROWS_SPARSE ? "sparse" : "encoded");
  if (shoal_shape_count(&s.shape) != shoal_shape_count(input))
    return status_make(SHOAL_ERR_ARGUMENT, "fit: rows of the stream are %s, but the model takes examples of %s",
                       shoal_shape_text(&s.shape, have), shoal_shape_text(input, one));
  const loss_kind *loss = l->model->loss;
  if (s.real_labels != loss->targets)
    return status_make(SHOAL_ERR_ARGUMENT, "fit: the stream's labels are %s; for the loss %s they must be %s",
                       s.real_labels ? "numbers" : "classes", loss_name(loss), loss->targets ? "numbers" : "classes");
  if (loss->targets && l->model->targets != rows_targets(&s))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "fit: rows of the stream have %lld numbers to be predicted, the model has %lld",
                       (long long)rows_targets(&s), (long long)l->model->targets);
  float scale = s.dtype == SHOAL_U8 ? 1 / 255.0f : 1;
  if (s.scale != 0 && fabsf(s.scale - scale) > 1e-6f)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "fit: the stream asks for features times %g; u8 is taken times 1/255 and "
                       "f32 as it is",
                       (double)s.scale);
  return model_tower(l->model, s.dtype, loss->targets ? SHOAL_F32 : SHOAL_I32, s.weighted, &l->tower);
}

shoal_status fit_write_settings(fit_loop *l) {
  const shoal_fit_options *o = l->options;
  const bool rounds = l->strategy->rounds;
  /* Where the rows of an update are cut among the workers by the strategy, their number changes nothing. */
  text_add(&l->settings, "seed=%llu batch_size=%lld order=%s short_batches=%s",
           (unsigned long long)l->model->options.seed, (long long)(rounds ? l->round : l->batch),
           o->keep_order ? "kept" : "shuffled", o->drop_short ? "dropped" : "kept");
  if (o->stream)
    text_add(&l->settings, " examples=streamed shuffle_rows=%lld", (long long)o->stream->shuffle_rows);
  else
    text_add(&l->settings, " examples=%lld", (long long)l->rows);
  if (!l->strategy->updates && !rounds)
    text_add(&l->settings, " workers=%d mode=%s", l->strategy->workers, l->strategy->sync ? "sync" : "async");
  if (l->strategy->local_steps > 1) text_add(&l->settings, " local_steps=%lld", (long long)l->strategy->local_steps);
  if (l->accumulate > 1) text_add(&l->settings, " accumulate=%lld", (long long)l->accumulate);
  if (o->settings) text_add(&l->settings, "\n%s", o->settings);
  return l->settings.failed ? status_no_memory() : NULL;
}
