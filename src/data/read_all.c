/* A whole data set into memory, through a pipeline. */
#include "base/mem.h"
#include "base/options.h"
#include "data/dataset.h"
#include "data/pipeline.h"

#include <string.h>

#define FIRST_ROWS 1024
_Static_assert(sizeof(int32_t) == sizeof(float), "classes and targets take the same room");

/* Columns that grow. */
typedef struct {
  char *features; /* [rows, row bytes] */
  void *labels;   /* [rows] classes, i32, or [rows, ...] targets, f32 */
  void *weights;  /* [rows] f32; NULL: there are none */
  bool weighted;
  int64_t rows, capacity, limit;
  size_t row;   /* bytes of one row's features ... */
  size_t label; /* ... and of its label or targets */
  int32_t largest;
} collected;

static shoal_status grow(void **block, size_t used, size_t bytes) {
  void *larger;
  TRY(mem_aligned(bytes, &larger));
  if (used) memcpy(larger, *block, used);
  free(*block);
  *block = larger;
  return NULL;
}

/* Makes room for `more` rows; *fits false: the limit does not allow it. */
static shoal_status reserve(collected *c, int64_t more, bool *fits) {
  int64_t need = c->rows + more, one = (int64_t)(c->row + c->label + (c->weighted ? sizeof(float) : 0));
  *fits = need <= c->limit / one && need <= INT32_MAX;
  if (!*fits || need <= c->capacity) return NULL;
  int64_t capacity = MAX_OF(MAX_OF(c->capacity * 2, need), FIRST_ROWS);
  TRY(grow((void **)&c->features, (size_t)c->rows * c->row, (size_t)capacity * c->row));
  TRY(grow(&c->labels, (size_t)c->rows * c->label, (size_t)capacity * c->label));
  if (c->weighted) TRY(grow(&c->weights, (size_t)c->rows * sizeof(float), (size_t)capacity * sizeof(float)));
  c->capacity = capacity;
  return NULL;
}

static shoal_status collect(shoal_pipeline *p, collected *c, bool *fits) {
  for (;;) {
    const rows_block *b;
    TRY(pipeline_next(p, &b, NULL, NULL));
    if (!b) return NULL;
    TRY(reserve(c, b->count, fits));
    if (!*fits) return NULL;
    memcpy(c->features + (size_t)c->rows * c->row, b->features, (size_t)b->count * c->row);
    const void *labels = b->targets ? (const void *)b->targets : b->labels;
    memcpy((char *)c->labels + (size_t)c->rows * c->label, labels, (size_t)b->count * c->label);
    if (c->weighted) memcpy((float *)c->weights + c->rows, b->weights, (size_t)b->count * sizeof *b->weights);
    for (int64_t i = 0; i < b->count; i++) c->largest = MAX_OF(c->largest, b->labels[i]);
    c->rows += b->count;
  }
}

static shoal_status read_rows(shoal_pipeline *p, const char *files, int64_t limit, shoal_dataset *out, bool *fits) {
  rows_schema s;
  pipeline_schema(p, &s);
  if (s.kind != ROWS_DENSE)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: dense rows are expected, these are %s", files,
                       s.kind == ROWS_SPARSE ? "sparse rows" : "encoded images: give a transform");
  const int64_t targets = s.real_labels ? rows_targets(&s) : 1;
  collected c = {.limit = limit ? limit : INT64_MAX,
                 .row = rows_dense_bytes(&s),
                 .label = (size_t)targets * sizeof(float),
                 .weighted = s.weighted,
                 .largest = -1};
  *fits = true;
  shoal_status status = collect(p, &c, fits);
  if (!status && *fits && !c.rows) status = status_make(SHOAL_ERR_INPUT, "%s: no rows found", files);
  const char *const *names = NULL;
  const char *learned = shoal_pipeline_preprocessing(p);
  char *copy = NULL;
  if (!status && *fits && learned && !(copy = strdup(learned))) status = status_no_memory();
  if (!status && *fits) status = class_names_copy(shoal_pipeline_class_names(p), &names);
  if (status || !*fits) {
    free(copy);
    free(c.features);
    free(c.labels);
    free(c.weights);
    return status;
  }
  shoal_shape shape = {.rank = s.shape.rank + 1, .dim = {c.rows}};
  memcpy(shape.dim + 1, s.shape.dim, (size_t)s.shape.rank * sizeof *shape.dim);
  const shoal_shape labels = targets > 1 ? SHOAL_SHAPE(c.rows, targets) : SHOAL_SHAPE(c.rows);
  *out = (shoal_dataset){.features = shoal_tensor_view(s.dtype, shape, c.features),
                         .labels = shoal_tensor_view(s.real_labels ? SHOAL_F32 : SHOAL_I32, labels, c.labels),
                         .classes = s.real_labels ? 0
                                    : s.classes   ? s.classes
                                                  : c.largest + 1,
                         .scale = s.scale,
                         .class_names = names,
                         .preprocessing = copy};
  if (c.weights) out->weights = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(c.rows), c.weights);
  return NULL;
}

shoal_status shoal_dataset_read(const shoal_pipeline_options *options, int64_t limit, shoal_dataset **out) {
  shoal_pipeline_options o;
  TRY(OPTIONS_TAKE(&o, options));
  o.epochs = 1;
  o.shuffle_rows = 0;
  o.position = NULL;
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&o, &p));
  shoal_dataset *data = calloc(1, sizeof *data);
  bool fits = true;
  shoal_status status = data ? read_rows(p, o.files, limit, data, &fits) : status_no_memory();
  shoal_pipeline_destroy(p);
  if (status || !fits) {
    free(data);
    data = NULL;
  }
  if (!status) *out = data;
  return status;
}
