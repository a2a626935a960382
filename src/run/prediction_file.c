/* Predictions as a file: CSV, lines of JSON, or an array of NumPy, by its ending. */
#include "base/mem.h"
#include "data/npy.h"
#include "run/trained.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct shoal_prediction_file {
  shoal_trained *model;
  char *path, *temporary;
  FILE *lines;       /* NULL: an array */
  npy_writer *array; /* from the first row on */
  bool json, begun;
};

static bool ends_with(const char *path, const char *ending) {
  const size_t n = strlen(path), k = strlen(ending);
  return n > k && !strcmp(path + n - k, ending);
}

static void destroy(shoal_prediction_file *f) {
  if (f->lines) fclose(f->lines);
  npy_writer_abandon(f->array);
  if (f->temporary) unlink(f->temporary);
  free(f->path);
  free(f->temporary);
  free(f);
}

shoal_status shoal_prediction_file_open(shoal_trained *t, const char *path, shoal_prediction_file **out) {
  const bool csv = ends_with(path, ".csv"), json = ends_with(path, ".jsonl"), array = ends_with(path, ".npy");
  if (!csv && !json && !array)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: predictions are written to a file that ends in .csv, .jsonl or .npy",
                       path);
  shoal_prediction_file *f = calloc(1, sizeof *f);
  if (!f) return status_no_memory();
  f->model = t;
  f->json = json;
  f->path = strdup(path);
  shoal_status status = f->path ? NULL : status_no_memory();
  if (!status && asprintf(&f->temporary, "%s.%d.tmp", path, (int)getpid()) < 0) {
    f->temporary = NULL;
    status = status_no_memory();
  }
  if (!status && !array && !(f->lines = fopen(f->temporary, "we")))
    status = status_errno(errno, "cannot write %s", f->temporary);
  if (status)
    destroy(f);
  else
    *out = f;
  return status;
}

/* With quotes where CSV needs them. */
static void put_text(FILE *to, const char *words) {
  if (!strpbrk(words, ",\"\n\r")) {
    fputs(words, to);
    return;
  }
  putc('"', to);
  for (; *words; words++) {
    if (*words == '"') putc('"', to);
    putc(*words, to);
  }
  putc('"', to);
}

static void put_head(const shoal_prediction_file *f, const shoal_prediction *p) {
  const shoal_model *m = shoal_trained_model(f->model);
  const char *const *names = shoal_model_class_names(m);
  char number[SHOAL_CLASS_NAME_TEXT];
  fputs(shoal_model_classes(m) && p->count > 1 ? "input,label,class,probability" : "input,label", f->lines);
  for (int i = 0; i < p->count; i++) {
    putc(',', f->lines);
    if (!shoal_model_classes(m))
      fprintf(f->lines, "value%s%.0d", p->count > 1 ? "_" : "", p->count > 1 ? i + 1 : 0);
    else if (p->count == 1)
      fputs("probability", f->lines);
    else
      put_text(f->lines, shoal_class_name(names, i, number));
  }
  putc('\n', f->lines);
}

static void put_row(const shoal_prediction_file *f, const shoal_prediction *p) {
  const shoal_model *m = shoal_trained_model(f->model);
  const char *const *names = shoal_model_class_names(m);
  char number[SHOAL_CLASS_NAME_TEXT];
  put_text(f->lines, p->input);
  putc(',', f->lines);
  if (p->label >= 0) put_text(f->lines, shoal_class_name(names, p->label, number));
  if (isfinite(p->target)) fprintf(f->lines, "%.9g", p->target);
  if (shoal_model_classes(m) && p->count > 1) {
    const int best = shoal_prediction_class(p);
    putc(',', f->lines);
    put_text(f->lines, shoal_class_name(names, best, number));
    fprintf(f->lines, ",%.9g", (double)p->values[best]);
  }
  for (int i = 0; i < p->count; i++) fprintf(f->lines, ",%.9g", (double)p->values[i]);
  putc('\n', f->lines);
}

shoal_status shoal_prediction_file_take(void *file, const shoal_prediction *p) {
  shoal_prediction_file *f = file;
  if (!f->lines) {
    const shoal_shape row = SHOAL_SHAPE(p->count);
    if (!f->array) TRY(npy_writer_open(f->temporary, SHOAL_F32, &row, &f->array));
    return npy_write(f->array, p->values, 1);
  }
  if (f->json) {
    char *words;
    TRY(shoal_prediction_json(f->model, p, &words));
    fprintf(f->lines, "%s\n", words);
    free(words);
  } else {
    if (!f->begun) put_head(f, p);
    put_row(f, p);
  }
  f->begun = true;
  return NULL;
}

shoal_status shoal_prediction_file_close(shoal_prediction_file *f, bool keep) {
  shoal_status status = NULL;
  if (!f) return NULL;
  if (keep && !f->lines && !f->array) {
    const shoal_shape row = SHOAL_SHAPE(shoal_model_outputs(shoal_trained_model(f->model)));
    status = npy_writer_open(f->temporary, SHOAL_F32, &row, &f->array);
  }
  if (keep && f->array) {
    status = npy_writer_close(f->array);
    f->array = NULL;
  }
  if (f->lines) {
    const bool bad = ferror(f->lines) | fclose(f->lines);
    f->lines = NULL;
    if (keep && bad) status = status_errno(errno ? errno : EIO, "cannot write %s", f->path);
  }
  if (keep && !status && rename(f->temporary, f->path)) status = status_errno(errno, "cannot write %s", f->path);
  destroy(f);
  return status;
}
