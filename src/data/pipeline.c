#include "data/pipeline.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/options.h"
#include "data/shuffle.h"
#include "data/statistics.h"
#include "data/transform.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define STANDARD_BATCH 32
#define STANDARD_PREFETCH 4
#define STANDARD_MEMORY (256ll << 20)
#define THREADS_MAX 64
#define FEWEST_SLOTS 3 /* one at the caller, one held back until it is known whether it is the last, one being filled */

/* A batch on its way. */
typedef struct {
  rows_block raw;       /* as read */
  rows_block mapped;    /* transformed; not used without a transform */
  int64_t epoch, first; /* first: number in the epoch of its first row */
  bool last;
  bool ready;                    /* for the caller */
  shoal_status status;           /* of the transform */
  int64_t rejected_by_transform; /* rows the transform found bad and passed over */
  char *rejected_message;        /* of the last of them, or NULL */
  pipeline_position after;       /* of the row behind it */
} slot;

struct shoal_pipeline {
  source source;
  shuffler rows;
  transform *transform; /* NULL: none */
  rows_schema schema;   /* of what comes out */
  int64_t batch, epochs, shuffle_rows, memory;
  uint64_t seed;
  bool drop_short, skip_bad;
  pipeline_place place;
  char *texts[2];                 /* copies of the options' */
  preprocessing learned;          /* the options', and statistics learned here */
  char *preprocessing;            /* all that was learned, as a text; NULL: nothing */
  const char *const *class_names; /* NULL: labels are numbers */

  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* below: under the lock, but for the content of slots, which belongs to whom the numbers say */
  slot *ring;
  int64_t slots, allowed; /* allowed: of them in use at most, because of the memory */
  int64_t filled;         /* batches begun by the reader */
  int64_t published;      /* of them handed on */
  int64_t claimed;        /* of them taken by a thread that transforms */
  int64_t consumed;       /* given back by the caller */
  bool stop;              /* everybody is to end */
  bool ended;             /* nothing comes after `published` */
  shoal_status failed;    /* comes after `published` */
  int64_t dropped;

  /* the caller's */
  bool holding; /* slot `consumed` is at the caller */
  pipeline_position position;
  int64_t delivered, rejected_by_transform;
  int64_t known_features, unknown_entries; /* known_features: entries beyond are left out; 0: none are */
  double wait_seconds;
  shoal_batch view;

  pthread_t reader, *mappers;
  int n_mappers;
  bool reading;
};

/* ---- the thread that reads */

/* Waits for a slot to fill; NULL: to end. */
static slot *claim_empty(shoal_pipeline *p) {
  pthread_mutex_lock(&p->lock);
  while (!p->stop && p->filled - p->consumed >= p->allowed) pthread_cond_wait(&p->changed, &p->lock);
  slot *s = p->stop ? NULL : &p->ring[p->filled % p->slots];
  pthread_mutex_unlock(&p->lock);
  return s;
}

/* Hands on all slots that are filled. */
static void publish(shoal_pipeline *p, int64_t until) {
  pthread_mutex_lock(&p->lock);
  for (; p->published < until; p->published++)
    if (!p->transform) p->ring[p->published % p->slots].ready = true;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
}

static void finish(shoal_pipeline *p, shoal_status failed) {
  publish(p, p->filled);
  pthread_mutex_lock(&p->lock);
  p->ended = true;
  p->failed = failed;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
}

/* Large batches: fewer of them at a time. */
static void mind_memory(shoal_pipeline *p, const slot *s) {
  int64_t bytes = (int64_t)shuffle_content_bytes(&s->raw) + 1;
  if (p->transform && p->schema.kind == ROWS_DENSE) bytes += s->raw.count * (int64_t)rows_dense_bytes(&p->schema);
  int64_t fit = p->memory / 2 / bytes;
  if (fit < p->allowed) p->allowed = MAX_OF(fit, FEWEST_SLOTS);
}

static shoal_status no_rows(const shoal_pipeline *p, int64_t rows) {
  if (!rows)
    return status_make(SHOAL_ERR_INPUT, "%s: there are no rows for worker %d of %d", p->source.files.paths[0],
                       p->source.shard, p->source.shards);
  return status_make(SHOAL_ERR_ARGUMENT, "%lld rows do not fill one batch of %lld, and short ones are dropped",
                     (long long)rows, (long long)p->batch);
}

/* Fills one batch after the other until an epoch is over. *filled: batches of it. */
static shoal_status read_epoch(shoal_pipeline *p, int64_t epoch, int64_t *filled, int64_t *rows) {
  for (bool ended = false; !ended;) {
    slot *s = claim_empty(p);
    if (!s) return status_make(SHOAL_ERR_CANCELLED, "the pipeline is closed");
    rows_clear(&s->raw);
    s->ready = s->last = false;
    s->epoch = epoch;
    int64_t got = 0;
    shoal_status status = shuffler_take(&p->rows, p->batch, &s->raw, &got, &s->first, &ended);
    *rows += got;
    shuffler_tell(&p->rows, &s->after);
    bool wanted = got > 0 && (got == p->batch || !p->drop_short || status);
    pthread_mutex_lock(&p->lock);
    slot *held = p->filled > p->published ? &p->ring[p->published % p->slots] : NULL;
    if (!wanted) p->dropped += got;
    if (wanted) {
      mind_memory(p, s);
      p->filled++;
      ++*filled;
      s->last = ended;
    } else if (held && ended) {
      held->last = true;
      held->after = s->after;
    }
    int64_t until = wanted && !ended && !status ? p->filled - 1 : p->filled; /* a full one may be the last */
    pthread_mutex_unlock(&p->lock);
    publish(p, until);
    TRY(status);
  }
  return NULL;
}

static shoal_status read_all(shoal_pipeline *p) {
  pipeline_position from = p->position;
  if (p->epochs && from.source.epoch >= p->epochs) return NULL;
  TRY(shuffler_init(&p->rows, &p->source, p->shuffle_rows, p->epochs, p->memory / 4, p->seed, &p->stop, &from));
  bool begun = from.rows + from.done > 0;
  for (int64_t epoch = from.source.epoch; !p->epochs || epoch < p->epochs; epoch++) {
    int64_t filled = 0, rows = 0;
    TRY(read_epoch(p, epoch, &filled, &rows));
    bool endless = !p->epochs || p->drop_short;
    if (!filled && !begun && endless) return no_rows(p, rows);
    begun = false;
  }
  return NULL;
}

static void *read_thread(void *context) {
  shoal_pipeline *p = context;
  finish(p, read_all(p));
  return NULL;
}

/* ---- the threads that transform */

/* Says where the row came from. Takes `status`. */
static shoal_status place_error(shoal_pipeline *p, const slot *s, int64_t i, shoal_status status) {
  text where = {0};
  shoal_status_free(source_find_row(&p->source, &s->raw, i, &where)); /* without it the number has to do */
  if (where.length && !where.failed)
    status = status_wrap(status, "%s", where.data);
  else
    status = status_wrap(status, "row %lld of epoch %lld", (long long)(s->first + i), (long long)s->epoch);
  text_fini(&where);
  return status;
}

static shoal_status map_slot(shoal_pipeline *p, slot *s) {
  rows_clear(&s->mapped);
  TRY(rows_reserve(&s->mapped, s->raw.count, 0));
  for (int64_t i = 0; i < s->raw.count; i++) {
    uint64_t row = (uint64_t)(s->first + i) * (uint64_t)p->source.shards + (uint64_t)p->source.shard;
    shoal_status status = transform_row(p->transform, &s->raw, i, (uint64_t)s->epoch, row, &s->mapped);
    if (!status) continue;
    if (!p->skip_bad || shoal_status_code(status) != SHOAL_ERR_INPUT) return place_error(p, s, i, status);
    s->rejected_by_transform++;
    free(s->rejected_message);
    s->rejected_message = strdup(shoal_status_message(status));
    shoal_status_free(status);
  }
  return NULL;
}

static void *map_thread(void *context) {
  shoal_pipeline *p = context;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->stop && p->claimed == p->published) pthread_cond_wait(&p->changed, &p->lock);
    if (p->stop) break;
    slot *s = &p->ring[p->claimed++ % p->slots];
    pthread_mutex_unlock(&p->lock);
    shoal_status status = map_slot(p, s);
    pthread_mutex_lock(&p->lock);
    s->status = status;
    s->ready = true;
    pthread_cond_broadcast(&p->changed);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

/* ---- the caller */

/* Waits until slot `consumed` is ready or nothing comes any more. */
static slot *wait_ready(shoal_pipeline *p) {
  slot *s = &p->ring[p->consumed % p->slots];
  bool waited = false;
  double start = 0;
  for (;;) {
    if (p->consumed < p->published && s->ready) break;
    if (p->ended && p->consumed == p->published) {
      s = NULL;
      break;
    }
    if (!waited) start = clock_seconds();
    waited = true;
    pthread_cond_wait(&p->changed, &p->lock);
  }
  if (waited) p->wait_seconds += clock_seconds() - start;
  return s;
}

static shoal_status check_rejected(const shoal_pipeline *p, const slot *s) {
  int64_t bad = p->rejected_by_transform + s->after.source.bad, seen = s->after.source.seen;
  bool enough = seen >= BAD_ROWS_FROM || s->last;
  if (!s->rejected_by_transform || !enough || !source_too_bad(seen, bad)) return NULL;
  return status_make(SHOAL_ERR_INPUT, "%lld of %lld rows are bad, more than 1 %%, so the run stops; the last one: %s",
                     (long long)bad, (long long)seen, s->rejected_message ? s->rejected_message : "not known");
}

/* Gives the batch before back, and waits for the next. */
static shoal_status next_slot(shoal_pipeline *p, slot **out) {
  pthread_mutex_lock(&p->lock);
  if (p->holding) {
    p->consumed++;
    pthread_cond_broadcast(&p->changed);
  }
  p->holding = false;
  slot *s = wait_ready(p);
  shoal_status status = s ? s->status : p->failed;
  if (s)
    s->status = NULL;
  else
    p->failed = NULL;
  p->holding = s != NULL;
  pthread_mutex_unlock(&p->lock);
  *out = s;
  return status;
}

shoal_status pipeline_next(shoal_pipeline *p, const rows_block **out, int64_t *epoch, bool *last) {
  for (;;) {
    slot *s;
    TRY(next_slot(p, &s));
    if (!s) {
      *out = NULL;
      return NULL;
    }
    rows_block *rows = p->transform ? &s->mapped : &s->raw;
    if (p->known_features && rows->schema.kind == ROWS_SPARSE)
      p->unknown_entries += rows_drop_beyond(rows, p->known_features);
    p->rejected_by_transform += s->rejected_by_transform;
    TRY(check_rejected(p, s));
    s->rejected_by_transform = 0;
    p->position = s->after;
    p->position.rejected_by_transform = p->rejected_by_transform;
    p->delivered += rows->count;
    if (!rows->count && !s->last) continue; /* all rows of it were bad */
    if (epoch) *epoch = s->epoch;
    if (last) *last = s->last;
    *out = rows;
    return NULL;
  }
}

static shoal_tensor view_of(shoal_dtype dtype, shoal_shape shape, void *data) {
  return data ? shoal_tensor_view(dtype, shape, data) : (shoal_tensor){.dtype = dtype};
}

shoal_status shoal_pipeline_next(shoal_pipeline *p, const shoal_batch **out) {
  const rows_block *b;
  shoal_batch v = {0};
  TRY(pipeline_next(p, &b, &v.epoch, &v.last));
  if (!b) {
    *out = NULL;
    return NULL;
  }
  const rows_schema *s = &b->schema;
  int64_t entries = s->kind == ROWS_SPARSE ? b->offsets[b->count] : 0;
  v.count = b->count;
  v.scale = s->scale;
  v.labels = view_of(SHOAL_I32, SHOAL_SHAPE(b->count), b->labels);
  v.targets =
      view_of(SHOAL_F32, s->targets > 1 ? SHOAL_SHAPE(b->count, s->targets) : SHOAL_SHAPE(b->count), b->targets);
  v.weights = view_of(SHOAL_F32, SHOAL_SHAPE(b->count), b->weights);
  if (s->kind == ROWS_DENSE) {
    shoal_shape shape = {.rank = s->shape.rank + 1, .dim = {b->count}};
    memcpy(shape.dim + 1, s->shape.dim, (size_t)s->shape.rank * sizeof *shape.dim);
    v.features = view_of(s->dtype, shape, b->features);
  } else {
    v.offsets = view_of(SHOAL_I64, SHOAL_SHAPE(b->count + 1), b->offsets);
    v.indices = view_of(SHOAL_I32, SHOAL_SHAPE(entries), b->indices);
    v.values = view_of(SHOAL_F32, SHOAL_SHAPE(entries), b->values);
    v.fields = view_of(SHOAL_I32, SHOAL_SHAPE(entries), b->fields);
    v.ids = view_of(SHOAL_I64, SHOAL_SHAPE(entries), b->ids);
  }
  p->view = v;
  *out = &p->view;
  return NULL;
}

const char *shoal_pipeline_position(const shoal_pipeline *p, char buffer[SHOAL_POSITION_TEXT]) {
  position_write(&p->position, &p->place, buffer);
  return buffer;
}

void shoal_pipeline_count(const shoal_pipeline *p, shoal_pipeline_statistics *out) {
  pthread_mutex_t *lock = (pthread_mutex_t *)&p->lock;
  pthread_mutex_lock(lock);
  *out = (shoal_pipeline_statistics){.rows = p->delivered,
                                     .seen = p->position.source.seen,
                                     .bad_rows = p->position.source.bad + p->rejected_by_transform,
                                     .unknown_entries = p->unknown_entries,
                                     .dropped_rows = p->dropped,
                                     .wait_seconds = p->wait_seconds};
  pthread_mutex_unlock(lock);
}

const char *const *shoal_pipeline_class_names(const shoal_pipeline *p) { return p->class_names; }

const char *shoal_pipeline_preprocessing(const shoal_pipeline *p) { return p->preprocessing; }

void pipeline_schema(const shoal_pipeline *p, rows_schema *out) { *out = p->schema; }
const files_list *pipeline_files(const shoal_pipeline *p) { return &p->source.files; }
const format *pipeline_format(const shoal_pipeline *p) { return p->source.first_format; }
double pipeline_wait_seconds(const shoal_pipeline *p) { return p->wait_seconds; }

/* ---- making and ending */

static shoal_status check_options(const shoal_pipeline_options *o) {
  if (o->shuffle_rows < 0 || o->shuffle_rows > INT32_MAX || o->epochs < 0 || o->batch_size < 0 || o->threads < 0 ||
      o->threads > THREADS_MAX || o->prefetch < 0 || o->prefetch > 100000 || o->memory_limit < 0)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "pipeline: rows to shuffle, epochs, batch size, prefetch and memory cannot "
                       "be negative, and at most %d threads transform",
                       THREADS_MAX);
  return NULL;
}

/* Copies a text that must live as long as the pipeline. */
static shoal_status keep_text(shoal_pipeline *p, int i, const char **word) {
  if (!*word) return NULL;
  p->texts[i] = strdup(*word);
  *word = p->texts[i];
  return p->texts[i] ? NULL : status_no_memory();
}

static source_options source_options_of(const shoal_pipeline_options *o) {
  return (source_options){.files = o->files,
                          .format = o->format,
                          .options = {.features = o->features,
                                      .classes = o->classes,
                                      .labels_optional = o->labels_optional,
                                      .real_labels = o->real_labels,
                                      .any_index = o->ignore_unknown,
                                      .ids = o->growing_ids,
                                      .row_size = o->row_size,
                                      .columns = o->columns,
                                      .lookups = o->lookups,
                                      .fields = o->fields,
                                      .no_checksums = o->no_checksums,
                                      .source = o->source},
                          .names = o->class_names,
                          .shard = o->shard,
                          .shards = o->shards,
                          .shuffle = o->shuffle_rows > 0,
                          .seed = o->seed,
                          .skip_bad = o->skip_bad_rows};
}

/* Sets what is learned already. */
static void use_learned(const preprocessing *learned, source_options *o) {
  if (learned->table.count) o->options.learned = learned;
}

shoal_status pipeline_count_rows(const shoal_pipeline_options *options, int64_t *rows) {
  source_options o = source_options_of(options);
  preprocessing learned;
  source s;
  TRY(preprocessing_parse(options->preprocessing, &learned));
  use_learned(&learned, &o);
  shoal_status status = source_init(&s, &o);
  if (!status) {
    status = source_count(&s, rows);
    source_fini(&s);
  }
  preprocessing_fini(&learned);
  return status;
}

/* The transform, with statistics of all rows of the files unless the caller has those of others. */
static shoal_status open_transform(shoal_pipeline *p, const shoal_pipeline_options *o, const source_options *from) {
  if (!o->transform) return NULL;
  const char *step = transform_statistics(o->transform, &p->source.schema);
  if (step && !p->learned.features.step) {
    source_options all = *from;
    all.options.learned = p->source.options.learned;
    TRY(statistics_learn(&all, step, &p->learned.features));
  }
  TRY(transform_create(o->transform, &p->source.schema, o->seed, &p->learned.features, &p->transform));
  transform_schema(p->transform, &p->schema);
  return NULL;
}

static shoal_status open_source(shoal_pipeline *p, const shoal_pipeline_options *o) {
  source_options from = source_options_of(o);
  TRY(keep_text(p, 0, &from.options.columns));
  TRY(keep_text(p, 1, &from.options.fields));
  TRY(preprocessing_parse(o->preprocessing, &p->learned));
  use_learned(&p->learned, &from);
  TRY(source_init(&p->source, &from));
  p->schema = p->source.schema;
  TRY(class_names_copy((const char *const *)p->source.names.names, &p->class_names));
  TRY(open_transform(p, o, &from));
  preprocessing all = {.features = p->learned.features};
  if (p->source.options.learned) all.table = p->source.options.learned->table;
  return preprocessing_write(&all, &p->preprocessing);
}

static shoal_status make_ring(shoal_pipeline *p, const shoal_pipeline_options *o) {
  p->slots = (o->prefetch ? o->prefetch : STANDARD_PREFETCH) + 2;
  if (p->transform) p->slots += p->n_mappers;
  p->slots = p->allowed = MAX_OF(p->slots, FEWEST_SLOTS);
  p->ring = calloc((size_t)p->slots, sizeof *p->ring);
  if (!p->ring) return status_no_memory();
  for (int64_t i = 0; i < p->slots; i++) {
    rows_init(&p->ring[i].raw, &p->source.schema);
    rows_init(&p->ring[i].mapped, &p->schema);
  }
  return NULL;
}

static shoal_status start_threads(shoal_pipeline *p) {
  int wanted = p->n_mappers;
  p->n_mappers = 0;
  p->mappers = calloc((size_t)MAX_OF(wanted, 1), sizeof *p->mappers);
  if (!p->mappers) return status_no_memory();
  int error = pthread_create(&p->reader, NULL, read_thread, p);
  p->reading = !error;
  for (; !error && p->n_mappers < wanted; p->n_mappers += !error)
    error = pthread_create(&p->mappers[p->n_mappers], NULL, map_thread, p);
  return error ? status_errno(error, "cannot start a thread that reads") : NULL;
}

static shoal_status start(shoal_pipeline *p, const shoal_pipeline_options *o) {
  TRY(check_options(o));
  TRY(open_source(p, o));
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  p->n_mappers = !p->transform ? 0 : o->threads ? o->threads : (int)MAX_OF(1, MIN_OF(processors, 8));
  p->place = (pipeline_place){
      (int64_t)p->source.files.count, p->source.shard, p->source.shards, (int64_t)o->seed, o->shuffle_rows, p->memory};
  if (o->position) TRY(position_read(o->position, &p->place, &p->position));
  p->rejected_by_transform = p->position.rejected_by_transform;
  TRY(make_ring(p, o));
  return start_threads(p);
}

shoal_status shoal_pipeline_create(const shoal_pipeline_options *options, shoal_pipeline **out) {
  shoal_pipeline_options given;
  const shoal_pipeline_options *o = &given;
  TRY(OPTIONS_TAKE(&given, options));
  shoal_pipeline *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  p->batch = o->batch_size ? o->batch_size : STANDARD_BATCH;
  p->epochs = o->epochs;
  p->shuffle_rows = o->shuffle_rows;
  p->memory = o->memory_limit ? o->memory_limit : STANDARD_MEMORY;
  p->seed = o->seed;
  p->drop_short = o->drop_short;
  p->skip_bad = o->skip_bad_rows;
  p->known_features = o->ignore_unknown && !o->growing_ids ? o->features : 0;
  shoal_status status = start(p, o);
  if (status)
    shoal_pipeline_destroy(p);
  else
    *out = p;
  return status;
}

void shoal_pipeline_destroy(shoal_pipeline *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  __atomic_store_n(&p->stop, true, __ATOMIC_RELAXED); /* also read without the lock, between two reads of rows */
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
  if (p->reading) pthread_join(p->reader, NULL);
  for (int i = 0; i < p->n_mappers; i++) pthread_join(p->mappers[i], NULL);
  for (int64_t i = 0; p->ring && i < p->slots; i++) {
    rows_fini(&p->ring[i].raw);
    rows_fini(&p->ring[i].mapped);
    shoal_status_free(p->ring[i].status);
    free(p->ring[i].rejected_message);
  }
  free(p->ring);
  free(p->mappers);
  shuffler_fini(&p->rows);
  source_fini(&p->source);
  transform_destroy(p->transform);
  shoal_status_free(p->failed);
  for (size_t i = 0; i < COUNT_OF(p->texts); i++) free(p->texts[i]);
  free((void *)p->class_names);
  free(p->preprocessing);
  preprocessing_fini(&p->learned);
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->changed);
  free(p);
}

shoal_status pipeline_create_once(const shoal_pipeline_options *options, int64_t batch, int64_t batch_encoded,
                                  shoal_pipeline **out) {
  shoal_pipeline_options o;
  TRY(OPTIONS_TAKE(&o, options));
  o.epochs = 1;
  o.shuffle_rows = 0;
  o.position = NULL;
  o.prefetch = 2;
  o.batch_size = o.transform ? batch_encoded : batch;
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&o, &p));
  rows_schema schema;
  pipeline_schema(p, &schema);
  if (schema.kind == ROWS_BYTES && o.batch_size > batch_encoded) {
    shoal_pipeline_destroy(p);
    o.batch_size = batch_encoded;
    return shoal_pipeline_create(&o, out);
  }
  *out = p;
  return NULL;
}
