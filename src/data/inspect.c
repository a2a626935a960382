/* What is in files of rows, in one pass and constant memory. */
#include "base/clock.h"
#include "base/mem.h"
#include "data/pipeline.h"
#include "data/preprocessing.h"
#include "shoal/data.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 2048
#define BATCH_ENCODED 16 /* images are large */
#define VALUES_MAX 64    /* of a dense row kept for showing */

/* ---- numbers */

static const shoal_spread nothing = {.min = INFINITY, .max = -INFINITY}; /* mean is the sum until spread_end */

static void spread_end(shoal_spread *s) { s->mean /= (double)MAX_OF(s->count, 1); }

static void add_floats(shoal_spread *s, const float *x, int64_t n) {
  enum { LANES = 16 };
  float low[LANES], high[LANES];
  double sum = 0;
  int64_t i = 0;
  for (int k = 0; k < LANES; k++) {
    low[k] = INFINITY;
    high[k] = -INFINITY;
  }
  for (; i + LANES <= n; i += LANES) {
    float part = 0;
    for (int k = 0; k < LANES; k++) {
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
      part += x[i + k];
    }
    sum += (double)part;
  }
  for (; i < n; i++) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
    sum += (double)x[i];
  }
  for (int k = 0; k < LANES; k++) {
    s->min = fmin(s->min, (double)low[k]);
    s->max = fmax(s->max, (double)high[k]);
  }
  s->mean += sum;
  s->count += n;
}

static void add_bytes(shoal_spread *s, const uint8_t *x, int64_t n) {
  uint8_t low = 255, high = 0;
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    sum += x[i];
  }
  if (!n) return;
  s->min = fmin(s->min, low);
  s->max = fmax(s->max, high);
  s->mean += (double)sum;
  s->count += n;
}

/* ---- batches */

static void add_sizes(shoal_data_summary *s, const rows_block *b) {
  int64_t least = INT64_MAX, most = -1;
  for (int64_t i = 0; i < b->count; i++) {
    int64_t n = b->offsets[i + 1] - b->offsets[i];
    least = n < least ? n : least;
    most = n > most ? n : most;
  }
  if (!b->count) return;
  s->sizes.min = fmin(s->sizes.min, (double)least);
  s->sizes.max = fmax(s->sizes.max, (double)most);
  s->sizes.mean += (double)b->offsets[b->count];
  s->sizes.count += b->count;
}

static void add_indices(shoal_data_summary *s, const int32_t *x, int64_t n) {
  int32_t least = INT32_MAX, most = -1;
  for (int64_t i = 0; i < n; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  if (!n) return;
  s->index_min = s->index_max < 0 ? least : MIN_OF(s->index_min, least);
  s->index_max = MAX_OF(s->index_max, most);
}

/* class_rows has room for CLASS_NAMES_MAX. */
static void add_labels(shoal_data_summary *s, const rows_block *b, int32_t *largest) {
  if (b->targets) {
    add_floats(&s->targets, b->targets, b->count);
    return;
  }
  for (int64_t i = 0; i < b->count; i++) {
    if ((uint32_t)b->labels[i] < CLASS_NAMES_MAX) s->class_rows[b->labels[i]]++;
    if (b->labels[i] > *largest) *largest = b->labels[i];
  }
}

static shoal_status keep_row(const rows_block *b, int64_t i, shoal_data_row *out) {
  const rows_schema *schema = &b->schema;
  const int64_t first = schema->kind == ROWS_DENSE ? 0 : b->offsets[i];
  const int64_t size = schema->kind == ROWS_DENSE ? shoal_shape_count(&schema->shape) : b->offsets[i + 1] - first;
  *out =
      (shoal_data_row){.label = b->targets ? -1 : b->labels[i], .target = b->targets ? b->targets[i] : 0, .size = size};
  if (schema->kind == ROWS_BYTES) return NULL;
  const int64_t n = schema->kind == ROWS_DENSE ? MIN_OF(size, (int64_t)VALUES_MAX) : size;
  out->values = calloc((size_t)n + 1, sizeof *out->values);
  if (schema->kind == ROWS_SPARSE) out->indices = calloc((size_t)n + 1, sizeof *out->indices);
  if (!out->values || (schema->kind == ROWS_SPARSE && !out->indices)) return status_no_memory();
  out->n_values = n;
  if (schema->kind == ROWS_DENSE) {
    shoal_tensor all = shoal_tensor_view(schema->dtype, SHOAL_SHAPE(b->count * size), b->features);
    for (int64_t k = 0; k < n; k++) out->values[k] = shoal_tensor_get(&all, i * size + k);
    return NULL;
  }
  for (int64_t k = 0; k < n; k++) {
    out->values[k] = (double)b->values[first + k];
    out->indices[k] = b->indices[first + k];
  }
  return NULL;
}

static shoal_status add_batch(shoal_data_summary *s, const rows_block *b, int64_t first, size_t *room,
                              int32_t *largest) {
  for (int64_t i = 0; i < b->count && s->n_first < first; i++) {
    void *rows = s->first;
    TRY(mem_grow(&rows, room, (size_t)s->n_first + 1, sizeof *s->first));
    s->first = rows;
    TRY(keep_row(b, i, &s->first[s->n_first++]));
  }
  add_labels(s, b, largest);
  if (b->schema.kind != ROWS_DENSE) add_sizes(s, b);
  if (b->schema.kind == ROWS_SPARSE) {
    add_indices(s, b->indices, b->offsets[b->count]);
    add_floats(&s->values, b->values, b->offsets[b->count]);
  } else if (b->schema.kind == ROWS_DENSE) {
    int64_t n = b->count * shoal_shape_count(&b->schema.shape);
    if (b->schema.dtype == SHOAL_U8)
      add_bytes(&s->values, b->features, n);
    else
      add_floats(&s->values, b->features, n);
  }
  s->rows += b->count;
  return NULL;
}

/* ---- the whole */

/* Bytes of the files; 0 for what is made, not read. */
static int64_t files_bytes(const files_list *files) {
  int64_t bytes = 0;
  for (size_t i = 0; i < files->count; i++) {
    struct stat info;
    char *file = strdup(files->paths[i]), *colon = file ? strrchr(file, ':') : NULL;
    if (colon && access(file, F_OK)) *colon = 0; /* a part of an archive */
    if (file && !stat(file, &info) && S_ISREG(info.st_mode)) bytes += info.st_size;
    free(file);
  }
  return bytes;
}

/* What is known before the first row. */
static shoal_status begin(shoal_data_summary *s, const shoal_pipeline *p, const char *files) {
  const char *learned = shoal_pipeline_preprocessing(p);
  s->files = strdup(files);
  if (learned) s->preprocessing = strdup(learned);
  if (!s->files || (learned && !s->preprocessing)) return status_no_memory();
  s->format = pipeline_format(p)->name;
  s->file_count = (int64_t)pipeline_files(p)->count;
  s->file_bytes = files_bytes(pipeline_files(p));
  TRY(class_names_copy(shoal_pipeline_class_names(p), &s->class_names));
  return preprocessing_columns(learned, &s->columns, &s->n_columns);
}

static void end(shoal_data_summary *s, shoal_pipeline *p, int32_t largest) {
  rows_schema schema;
  shoal_pipeline_statistics count;
  pipeline_schema(p, &schema);
  shoal_pipeline_count(p, &count);
  s->bad_rows = count.bad_rows;
  s->kind = (shoal_row_kind)schema.kind;
  s->dtype = schema.dtype;
  s->shape = schema.shape;
  s->features = schema.features ? schema.features : s->index_max + 1;
  s->real_labels = schema.real_labels;
  s->classes = schema.classes ? schema.classes : largest + 1;
  s->n_class_rows = MIN_OF(largest + 1, CLASS_NAMES_MAX);
  /* a folder has no size itself */
  if (!s->file_bytes && s->kind == SHOAL_ROWS_ENCODED) s->file_bytes = (int64_t)s->sizes.mean;
  spread_end(&s->sizes);
  spread_end(&s->values);
  spread_end(&s->targets);
}

static shoal_status read_through(shoal_pipeline *p, int64_t first, shoal_rows_progress progress, void *context,
                                 shoal_data_summary *s) {
  const double start = clock_seconds();
  const rows_block *b;
  size_t room = 0;
  int32_t largest = -1;
  for (;;) {
    TRY(pipeline_next(p, &b, NULL, NULL));
    if (!b) break;
    TRY(add_batch(s, b, first, &room, &largest));
    if (progress && !progress(context, s->rows, 0)) return status_make(SHOAL_ERR_CANCELLED, "interrupted");
  }
  s->seconds = clock_seconds() - start;
  end(s, p, largest);
  return NULL;
}

shoal_status shoal_data_inspect(const shoal_pipeline_options *options, int64_t first, shoal_rows_progress progress,
                                void *context, shoal_data_summary **out) {
  shoal_pipeline *p = NULL;
  shoal_data_summary *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  *s = (shoal_data_summary){.index_max = -1, .sizes = nothing, .values = nothing, .targets = nothing};
  s->class_rows = calloc(CLASS_NAMES_MAX, sizeof *s->class_rows);
  shoal_status status = s->class_rows ? NULL : status_no_memory();
  if (!status) status = pipeline_create_once(options, BATCH, BATCH_ENCODED, &p);
  if (!status) status = begin(s, p, options->files);
  if (!status) status = read_through(p, first, progress, context, s);
  shoal_pipeline_destroy(p);
  if (status)
    shoal_data_summary_destroy(s);
  else
    *out = s;
  return status;
}

void shoal_data_summary_destroy(shoal_data_summary *s) {
  if (!s) return;
  for (int64_t i = 0; i < s->n_first; i++) {
    free(s->first[i].values);
    free(s->first[i].indices);
  }
  free(s->first);
  free(s->class_rows);
  free(s->columns);
  free((void *)s->class_names);
  free((char *)s->preprocessing);
  free((char *)s->files);
  free(s);
}
