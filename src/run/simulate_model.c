/* What computing a step of a model takes here. */
#include "base/clock.h"
#include "base/mem.h"
#include "run/simulation.h"
#include "train/model.h"

#include <math.h>
#include <string.h>

enum { STEPS = 6, WARM = 2 };

typedef struct {
  double last, best;
  int steps;
} stopwatch;

static bool on_step(void *context, const shoal_progress *p) {
  stopwatch *w = context;
  const double now = clock_seconds();
  if (w->steps++ >= WARM && (w->best == 0 || now - w->last < w->best)) w->best = now - w->last;
  w->last = now;
  return false;
}

/* Rows of zeros: how long they take does not hang on what is in them, but for softmax on pixels. */
static shoal_status make_rows(const shoal_model_kind *kind, int64_t rows, shoal_dataset *out) {
  const int64_t size = shoal_shape_count(&kind->input);
  float *features;
  int32_t *labels;
  shoal_shape shape = {.rank = kind->input.rank + 1};
  shape.dim[0] = rows;
  memcpy(shape.dim + 1, kind->input.dim, (size_t)kind->input.rank * sizeof *shape.dim);
  TRY(mem_aligned((size_t)(rows * size) * sizeof *features, (void **)&features));
  for (int64_t i = 0; i < rows * size; i++) features[i] = (float)(i % 17) / 17;
  shoal_status status = mem_aligned((size_t)rows * sizeof *labels, (void **)&labels);
  if (status) {
    free(features);
    return status;
  }
  *out = (shoal_dataset){.features = shoal_tensor_view(SHOAL_F32, shape, features),
                         .labels = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(rows), labels),
                         .classes = kind->classes,
                         .scale = 1};
  return NULL;
}

static shoal_status measure(shoal_model *m, const shoal_model_kind *kind, int64_t batch, double *out) {
  shoal_dataset data;
  stopwatch w = {0};
  TRY(make_rows(kind, STEPS * batch, &data));
  const shoal_fit_options fit = {
      .epochs = 1, .batch_size = batch, .callbacks = {.context = &w, .on_step = on_step, .every_steps = 1}};
  shoal_status status = shoal_model_fit(m, &data, &fit, NULL);
  free(data.features.data);
  free(data.labels.data);
  *out = w.best;
  return status;
}

/* Of all that ranks exchange: what PowerSGD factors. */
static shoal_status find_shapes(const shoal_model *m, simulation *s) {
  shoal_value **weights;
  int trained, n;
  TRY(model_exchanged(m, &weights, &trained, &n));
  s->shapes = calloc((size_t)n + 1, sizeof *s->shapes);
  s->tensors = n;
  for (int i = 0; s->shapes && i < n; i++) {
    const shoal_shape shape = shoal_value_shape(weights[i]);
    s->shapes[i] = low_rank_shape_of(&shape);
  }
  free(weights);
  return s->shapes ? NULL : status_no_memory();
}

shoal_status simulate_model(const char *name, int64_t batch, simulation *s) {
  shoal_model_kind *kind;
  shoal_model *m = NULL;
  TRY(shoal_model_kind_load(name, &kind));
  shoal_status status =
      kind->sparse || kind->input.rank < 1 || kind->classes < 2 || kind->loss
          ? status_make(SHOAL_ERR_ARGUMENT,
                        "`model`: %s cannot be measured alone; give `parameters` and `compute` in its place", name)
          : shoal_model_kind_build(kind, NULL, &(shoal_model_options){.classes = kind->classes}, &m);
  if (!status)
    status = shoal_model_compile(
        m, &(shoal_compile_options){.schedule = {.name = "constant", .rate = 1e-3}, .seed = 1, .threads = 1});
  if (!status && !s->compute) status = measure(m, kind, batch ? batch : MAX_OF(kind->batch_size, 1), &s->compute);
  if (!status && !s->parameters) s->parameters = (double)shoal_model_parameters(m);
  if (!status && s->options->compress) status = find_shapes(m, s);
  shoal_model_destroy(m);
  shoal_model_kind_destroy(kind);
  return status;
}
