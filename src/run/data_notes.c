#include "run/data_notes.h"

#include "base/mem.h"
#include "data/preprocessing.h"

#include <math.h>

enum {
  COLUMNS_SHOWN = 12,
  ROWS_LOOKED_AT = 2000,
  LARGE = 10, /* numbers beyond make the usual learning rates too high */
  PIXELS_MIN = 16,
  PIXEL_BRIGHT = 64, /* the brightest is above */
  PIXEL_MAX = 255,
  UPDATES_MIN = 2, /* of an epoch: with fewer, the usual number of epochs is too few */
  UPDATES_GOOD = 10,
  CLASSES_FEW = 20, /* up to here nobody wonders */
  ROWS_A_CLASS = 4  /* with fewer, labels look like numbers */
};

/* The largest number, and whether all are whole and from 0 to 255; false: rows of another kind. */
static bool look_at_rows(const shoal_dataset *d, float *most, bool *pixels) {
  const shoal_tensor *x = &d->features;
  int64_t rows = MIN_OF(shoal_dataset_rows(d), (int64_t)ROWS_LOOKED_AT);
  if (x->dtype != SHOAL_F32 || x->rows || !rows) return false;
  int64_t a_row = shoal_tensor_count(x) / shoal_dataset_rows(d);
  const float *values = x->data;
  *most = 0;
  *pixels = a_row >= PIXELS_MIN;
  for (int64_t i = 0; i < rows * a_row; i++) {
    *most = fmaxf(*most, fabsf(values[i]));
    *pixels &= values[i] >= 0 && values[i] <= PIXEL_MAX && values[i] == truncf(values[i]);
  }
  return true;
}

static void note_scale(const training *t, text *out) {
  float most;
  bool pixels;
  if (t->job.transform || t->train.transform || !t->train.data || !look_at_rows(t->train.data, &most, &pixels) ||
      most <= LARGE)
    return;
  if (pixels && most > PIXEL_BRIGHT)
    text_add(out,
             "The rows are whole numbers from 0 to %.0f, like pixels, and are used unscaled: `transform` "
             "scale=1/255 makes them 0 to 1.\n",
             (double)most);
  else
    text_add(out,
             "The rows hold numbers as large as %.6g and are used unscaled: `transform` standardise usually "
             "trains better.\n",
             (double)most);
}

/* The model's own batch is for large data. */
static void note_batch(const training *t, text *out) {
  const int64_t batch = job_global_batch(&t->job),
                rows = t->rows - (int64_t)((double)t->rows * t->job.validation_split);
  if (!rows || t->kind->sparse || t->job.batch_size != t->kind->batch_size || rows >= UPDATES_MIN * batch) return;
  text_add(out,
           "%lld rows in batches of %lld make %lld update%s an epoch: a smaller `batch_size`, such as %lld, usually "
           "learns more.\n",
           (long long)rows, (long long)batch, (long long)((rows + batch - 1) / batch), rows > batch ? "s" : "",
           (long long)MAX_OF(rows / UPDATES_GOOD / t->job.workers, 1));
}

/* A column of whole numbers may be one of numbers to be predicted. */
static void note_classes(const training *t, text *out) {
  const int classes = t->train.classes;
  if (!t->rows || t->class_names || classes <= CLASSES_FEW || t->rows >= (int64_t)classes * ROWS_A_CLASS) return;
  text_add(
      out,
      "%lld rows have labels of %d classes: if the label is a number to be predicted, train the model linear, with "
      "`columns` target=COLUMN.\n",
      (long long)t->rows, classes);
}

shoal_status notes_say(const training *t, const run_sink *sink) {
  text notes = {0};
  if (t->job.quiet) return NULL;
  TRY(preprocessing_describe(t->preprocessing, "  ", COLUMNS_SHOWN, &notes));
  note_scale(t, &notes);
  note_batch(t, &notes);
  note_classes(t, &notes);
  if (notes.length && !notes.failed) {
    notes.data[notes.length - 1] = 0; /* the last line's end */
    sink->on_note(sink->context, notes.data);
  }
  text_fini(&notes);
  return NULL;
}
