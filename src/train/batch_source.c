#include "train/batch_source.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "data/pipeline.h"
#include "train/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK_BATCHES 64              /* after so many, and at the end of an epoch, it is told where a shard stands */
#define ORDER_STREAM 0x6f72646572ull /* names the random numbers that shuffle */

typedef struct {
  batch_source base;
  batch_source_options options;
  /* memory */
  int32_t *order;  /* [rows] of the epoch under way; NULL: as they are */
  int64_t ordered; /* epoch that `order` is for; -1: none yet */
  /* stream */
  shoal_tensor features, labels;    /* of the batch, in the model's shape; at first those of the example ... */
  shoal_tensor weights;             /* ... and what its rows count, if they count differently */
  int64_t epochs;                   /* of the stream that are over */
  char before[SHOAL_POSITION_TEXT]; /* walked: where the batch read last begins ... */
  int64_t read_for;                 /* ... and for which step it is; -1: none */
  const shoal_batch *now;           /* read last; NULL: none, or it is at its end */
  int64_t shard, index;             /* leased: of `now` */
  char marks[2][SHOAL_POSITION_TEXT];
  shoal_batch part; /* of a round: rows of `now` */
  int64_t *offsets; /* [rows of it + 1] */
  size_t cap_offsets;
  double past_seconds; /* waited for pipelines before this one */
} rows_source;

/* ---- data in memory */

/* The order of an epoch comes from the seed and its number. */
static void shuffle(rows_source *s, int64_t epoch) {
  const batch_source_options *o = &s->options;
  if (!s->order || s->ordered == epoch) return;
  double start = clock_seconds();
  random_stream stream = random_stream_make(o->model->options.seed, random_mix(ORDER_STREAM, (uint64_t)epoch));
  if (o->shuffled) random_permutation(&stream, s->order, o->rows);
  for (int64_t i = 0; !o->shuffled && i < o->rows; i++) s->order[i] = (int32_t)i;
  const int32_t *index = o->split ? o->split : o->data->features.rows; /* what the data calls its rows */
  for (int64_t i = 0; index && i < o->rows; i++) s->order[i] = index[s->order[i]];
  s->ordered = epoch;
  s->base.wait_seconds += clock_seconds() - start;
}

static void fill(const rows_source *s, int64_t first, int64_t rows, int64_t number, train_batch *out) {
  out->rows = rows;
  out->first = first;
  out->order = s->order;
  out->features = &s->options.data->features;
  out->labels = &s->options.data->labels;
  out->weights = s->options.data->weights.data ? &s->options.data->weights : NULL;
  out->number = number;
}

/* Every worker walks through all rows, a round at a time. */
static shoal_status walk(batch_source *base, const strategy_place *place, train_batch *out, bool *more) {
  rows_source *s = (rows_source *)base;
  const batch_source_options *o = &s->options;
  const int64_t epoch = place->rows / o->usable, position = place->rows % o->usable;
  *more = place->updates < o->steps;
  if (!*more) return NULL;
  shuffle(s, epoch);
  fill(s, position, MIN_OF(o->round, o->usable - position), place->updates, out);
  return NULL;
}

/* Batches are handed out; no two draw the same random numbers. */
static shoal_status lease(batch_source *base, const strategy_place *place, train_batch *out, bool *more) {
  rows_source *s = (rows_source *)base;
  const lease_plan *plan = &s->options.plan.batches;
  *more = place->next != STRATEGY_END;
  if (place->next < 0) {
    out->rows = 0;
    return NULL;
  }
  shuffle(s, lease_plan_epoch(plan, place->next));
  out->span = lease_plan_span(plan, place->next);
  fill(s, out->span.first, out->span.rows, plan->parts ? out->span.number : place->next, out);
  return NULL;
}

/* ---- a stream */

static shoal_status check_targets(const shoal_model *m, const shoal_batch *b, int64_t step) {
  const float *targets = b->targets.data; /* [count, targets] */
  for (int64_t i = 0; i < b->count; i++)
    TRY(status_wrap(results_check_targets(m, targets + i * m->targets), "step %lld", (long long)step));
  return NULL;
}

static shoal_status check_labels(const rows_source *s, const shoal_batch *b, int64_t step) {
  const int32_t *labels = b->labels.data; /* [count] */
  const int64_t classes = s->options.model->classes;
  if (!classes) return check_targets(s->options.model, b, step);
  for (int64_t i = 0; i < b->count; i++)
    if (labels[i] < 0 || labels[i] >= classes)
      return status_make(SHOAL_ERR_INPUT, "step %lld: a label is %d, but the model has %lld classes, 0 to %lld",
                         (long long)step, labels[i], (long long)classes, (long long)classes - 1);
  return NULL;
}

static shoal_shape rows_of(const shoal_shape *input, int64_t n) {
  shoal_shape shape = {.rank = input->rank + 1, .dim = {n}};
  memcpy(shape.dim + 1, input->dim, (size_t)input->rank * sizeof *input->dim);
  return shape;
}

/* So that plans can be made before the first rows are read. */
static void make_example(rows_source *s) {
  const batch_source_options *o = &s->options;
  s->features = shoal_tensor_view(o->features, rows_of(&o->model->input, o->round), NULL);
  const int64_t n = o->model->targets;
  const shoal_shape labels = n > 1 ? SHOAL_SHAPE(o->round, n) : SHOAL_SHAPE(o->round);
  s->labels = shoal_tensor_view(o->model->loss->targets ? SHOAL_F32 : SHOAL_I32, labels, NULL);
  s->weights = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(o->round), NULL);
  s->base.example =
      (train_batch){.rows = o->round, .features = &s->features, .labels = &s->labels, .weights = &s->weights};
}

static void fill_streamed(rows_source *s, int64_t number, train_batch *out) {
  const shoal_batch *b = s->now;
  *out = (train_batch){.rows = b->count, .number = number, .last = b->last, .epoch = b->epoch};
  out->labels = s->options.model->loss->targets ? &b->targets : &b->labels;
  out->weights = b->weights.data ? &b->weights : NULL;
  if (s->options.model->sparse) {
    out->sparse = b;
    return;
  }
  const shoal_shape *input = &s->options.model->input;
  s->features = b->features; /* [count, numbers] as [count, input] */
  s->features.shape = rows_of(input, b->count);
  out->features = &s->features;
}

static shoal_status open_stream(rows_source *s, int64_t shard, const char *position) {
  batch_source *base = &s->base;
  s->past_seconds = base->wait_seconds;
  shoal_pipeline_destroy(base->pipeline);
  base->pipeline = NULL;
  s->now = NULL;
  return s->options.open(s->options.context, shard, position && *position ? position : NULL, &base->pipeline);
}

static shoal_status read_batch(rows_source *s, int64_t step) {
  TRY(status_wrap(shoal_pipeline_next(s->base.pipeline, &s->now), "step %lld", (long long)step));
  s->base.wait_seconds = s->past_seconds + pipeline_wait_seconds(s->base.pipeline);
  return s->now ? check_labels(s, s->now, step) : NULL;
}

static const batch_source_kind rounds_kind;
static void write_round(const rows_source *s, char out[SHOAL_POSITION_TEXT]);

/* One process, or every worker, reads the whole of it. */
static shoal_status read_on(batch_source *base, const strategy_place *place, train_batch *out, bool *more) {
  rows_source *s = (rows_source *)base;
  const batch_source_options *o = &s->options;
  *more = place->updates < o->steps && (!o->epochs || s->epochs < o->epochs);
  if (!*more) return NULL;
  shoal_pipeline_position(base->pipeline, s->before);
  s->read_for = place->updates;
  TRY(read_batch(s, place->updates));
  if (!s->now) return status_make(SHOAL_ERR_INPUT, "epoch %lld has no rows", (long long)s->epochs);
  s->epochs += s->now->last;
  fill_streamed(s, place->updates, out);
  return NULL;
}

void batch_source_position(const batch_source *s, char out[SHOAL_POSITION_TEXT]) {
  *out = 0;
  if (s->walked) shoal_pipeline_position(s->pipeline, out);
  if (s->kind == &rounds_kind) write_round((const rows_source *)s, out);
}

void batch_source_start(const batch_source *base, int64_t step, char out[SHOAL_POSITION_TEXT]) {
  const rows_source *s = (const rows_source *)base;
  if (base->walked && s->read_for == step)
    memcpy(out, s->before, sizeof s->before);
  else
    batch_source_position(base, out);
}

shoal_status batch_source_go_to(batch_source *base, const char *position, int64_t epochs) {
  rows_source *s = (rows_source *)base;
  s->epochs = epochs;
  s->read_for = -1;
  return open_stream(s, 0, position);
}

/* ---- a stream whose shards are handed out (dist/stream_leases.h) */

/* The next batch with rows, if the shard has one. */
static shoal_status read_with_rows(rows_source *s, int64_t step) {
  do {
    TRY(read_batch(s, step));
  } while (s->now && !s->now->count);
  s->index++;
  return NULL;
}

/* At the last mark of whoever read the shard before, or at its beginning; passes over what is done. */
static shoal_status open_shard(rows_source *s, const strategy_place *place) {
  s->shard = place->next;
  s->index = (place->mark ? place->marked : 0) - 1;
  TRY(open_stream(s, s->shard, place->mark));
  do {
    TRY(read_with_rows(s, place->updates));
  } while (s->now && s->index < place->index);
  if (s->index < place->index)
    return status_make(SHOAL_ERR_INPUT,
                       "shard %lld of the stream ends after %lld batches, but %lld were trained on: "
                       "the files have changed since",
                       (long long)s->shard, (long long)s->index, (long long)place->index);
  return NULL;
}

/* Where the batch after this one begins, for who takes the shard over. Two batches are looked at at a time. */
static const char *mark(rows_source *s) {
  if (!s->now->last && s->index % MARK_BATCHES != 0) return NULL;
  return shoal_pipeline_position(s->base.pipeline, s->marks[s->index & 1]);
}

static shoal_status lease_shard(batch_source *base, const strategy_place *place, train_batch *out, bool *more) {
  rows_source *s = (rows_source *)base;
  *more = place->next != STRATEGY_END;
  if (place->next < 0) {
    s->shard = STRATEGY_NOTHING;
    *out = (train_batch){.shard = STRATEGY_NOTHING};
    return NULL;
  }
  const bool follows = place->next == s->shard && place->index == s->index + 1 && s->now;
  if (follows)
    TRY(read_with_rows(s, place->updates));
  else if (place->next != s->shard || place->index != s->index)
    TRY(open_shard(s, place));
  if (s->now)
    fill_streamed(s, place->updates, out);
  else
    *out = (train_batch){.epoch = s->options.epochs};
  out->shard = s->shard;
  out->index = s->index;
  if (s->now) out->mark = mark(s);
  return NULL;
}

/* ---- a stream of sparse rows whose rounds are cut among the workers: every worker reads all of them */

/* A place in the stream is "number of the round:position where it begins". */
static void write_round(const rows_source *s, char out[SHOAL_POSITION_TEXT]) {
  const int n = s->now ? snprintf(out, SHOAL_POSITION_TEXT, "%lld:%s", (long long)s->index, s->before) : 0;
  if (n <= 0 || n >= SHOAL_POSITION_TEXT) *out = 0;
}

/* The place, if it is not behind that round; otherwise the stream's beginning. */
static int64_t read_round(const char *place, int64_t number, const char **position) {
  char *end;
  *position = NULL;
  if (!place || !*place) return 0;
  const long long found = strtoll(place, &end, 10);
  if (*end != ':' || found < 0 || found > number) return 0;
  *position = end + 1;
  return found;
}

static shoal_status go_to_round(rows_source *s, const strategy_place *place, int64_t number) {
  if (!s->base.pipeline || number < s->index) {
    const char *own, *told;
    const int64_t one = read_round(s->options.position, number, &own), other = read_round(place->mark, number, &told);
    TRY(open_stream(s, 0, one >= other ? own : told));
    s->index = MAX_OF(one, other) - 1;
  }
  while (s->index < number) {
    shoal_pipeline_position(s->base.pipeline, s->before);
    TRY(read_with_rows(s, place->updates));
    if (!s->now) return status_make(SHOAL_ERR_INPUT, "the files have fewer rows than were counted: they have changed");
  }
  return NULL;
}

/* Elements [first, first + n) of a list; a list that is not there stays so. */
static shoal_tensor slice(const shoal_tensor *t, int64_t first, int64_t n) {
  shoal_tensor out = *t;
  if (!t->data) return out;
  out.shape = SHOAL_SHAPE(n);
  out.data = (char *)t->data + (size_t)first * shoal_dtype_size(t->dtype);
  return out;
}

shoal_batch batch_cut(const shoal_batch *b, int64_t first, int64_t n, int64_t *offsets) {
  const int64_t *all = (const int64_t *)b->offsets.data + first, begin = all[0], entries = all[n] - begin;
  for (int64_t i = 0; i <= n; i++) offsets[i] = all[i] - begin;
  return (shoal_batch){.count = n,
                       .labels = slice(&b->labels, first, n),
                       .offsets = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(n + 1), offsets),
                       .indices = slice(&b->indices, begin, entries),
                       .values = slice(&b->values, begin, entries),
                       .fields = slice(&b->fields, begin, entries),
                       .weights = slice(&b->weights, first, n),
                       .ids = slice(&b->ids, begin, entries),
                       .scale = b->scale,
                       .epoch = b->epoch};
}

static shoal_status lease_round(batch_source *base, const strategy_place *place, train_batch *out, bool *more) {
  rows_source *s = (rows_source *)base;
  *more = place->next != STRATEGY_END;
  *out = (train_batch){.shard = STRATEGY_NOTHING};
  if (place->next < 0) return NULL;
  const lease_span span = lease_plan_span(&s->options.plan.batches, place->next);
  TRY(go_to_round(s, place, span.number));
  if (s->now->count != span.round_rows)
    return status_make(SHOAL_ERR_INPUT, "round %lld has %lld rows, %lld were counted: the files have changed",
                       (long long)span.number, (long long)s->now->count, (long long)span.round_rows);
  TRY(mem_grow((void **)&s->offsets, &s->cap_offsets, (size_t)span.rows + 1, sizeof *s->offsets));
  s->part = batch_cut(s->now, span.first - span.round, span.rows, s->offsets);
  *out = (train_batch){.rows = span.rows,
                       .span = span,
                       .number = span.number,
                       .shard = place->next,
                       .sparse = span.rows ? &s->part : NULL,
                       .labels = &s->part.labels};
  if (span.number % MARK_BATCHES == 0) {
    write_round(s, s->marks[0]);
    out->mark = s->marks[0];
  }
  return NULL;
}

/* ---- making one */

static void destroy(batch_source *base) {
  shoal_pipeline_destroy(base->pipeline);
  free(((rows_source *)base)->offsets);
  free(((rows_source *)base)->order);
  free(base);
}

/* By [stream][leased]. */
static const batch_source_kind kinds[2][2] = {{{walk, destroy}, {lease, destroy}},
                                              {{read_on, destroy}, {lease_shard, destroy}}};
static const batch_source_kind rounds_kind = {lease_round, destroy};

shoal_status batch_source_create(const batch_source_options *options, bool leased, batch_source **out) {
  const bool streams = !options->data;
  rows_source *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base.kind = streams && leased && options->plan.batches.parts ? &rounds_kind : &kinds[streams][leased];
  s->base.walked = streams && !leased;
  s->options = *options;
  s->ordered = s->shard = s->read_for = -1;
  s->epochs = options->epochs_done;
  shoal_status status = NULL;
  if (!streams && (options->shuffled || options->split)) {
    s->order = calloc((size_t)options->rows, sizeof *s->order);
    if (!s->order) status = status_no_memory();
  }
  if (streams && !leased) status = open_stream(s, 0, options->position);
  if (status) {
    destroy(&s->base);
    return status;
  }
  if (!streams)
    fill(s, 0, options->usable, 0, &s->base.example);
  else if (!options->model->sparse)
    make_example(s);
  *out = &s->base;
  return NULL;
}
