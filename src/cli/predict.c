/* shoal predict: the class a trained model sees in pictures and rows; how likely sparse rows are of class 1. */
#include "cli/command.h"
#include "cli/saved.h"
#include "cli/say.h"
#include "data/class_names.h"
#include "data/format.h"
#include "data/image.h"
#include "data/transform.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PICTURE_MOST (256 << 20) /* bytes of an encoded one */
#define BATCH 256                /* rows at a time */

typedef struct {
  saved_options saved;
  const char *index, *split;
  bool json;
} predict_flags;

static const char *const *split_names(void) {
  static const char *const names[] = {"test", "train", NULL};
  return names;
}

static const flag_row predict_table[] = {
    SAVED_FLAGS(offsetof(predict_flags, saved)),
    {.name = "index", .kind = FLAG_TEXT, .offset = offsetof(predict_flags, index), .value = "A[-B]",
     .help = "rows of the data set instead of files"},
    {.name = "split", .kind = FLAG_CHOICE, .offset = offsetof(predict_flags, split), .value = "NAME",
     .help = "which rows of the data", .standard = "test", .choices = split_names},
    {.name = "json", .kind = FLAG_BOOL, .offset = offsetof(predict_flags, json), .help = "print one JSON array"},
    {0},
};

/* Collects or prints the results. */
typedef struct {
  json_t *list; /* NULL: print lines */
  const char *const *names; /* of the classes, borrowed; NULL: they are numbers */
} output;

/* p: [n] numbers predicted. labels: NULL, or what is known of row i of them. */
static shoal_status report_numbers(output *out, const char *name, const float *p, int64_t n, const shoal_tensor *labels,
                                   int64_t i) {
  const bool known = labels && labels->dtype == SHOAL_F32 && isfinite(shoal_tensor_get(labels, i));
  if (!out->list) {
    printf("%s:", name);
    for (int64_t k = 0; k < n; k++) printf(" %.6g", (double)p[k]);
    if (known) printf("  (labelled %.6g)", shoal_tensor_get(labels, i));
    putchar('\n');
    return NULL;
  }
  json_t *all = json_array();
  for (int64_t k = 0; k < n; k++) json_array_append_new(all, json_real((double)p[k]));
  json_t *o = json_pack("{s:s, s:f, s:o}", "input", name, "value", (double)p[0], "values", all);
  if (o && known) json_object_set_new(o, "label", json_real(shoal_tensor_get(labels, i)));
  return !o || json_array_append_new(out->list, o) ? status_no_memory() : NULL;
}

static shoal_status report(output *out, const char *name, int64_t label, const float *p, int classes) {
  int best = 0;
  char number[CLASS_NAME_TEXT], other[CLASS_NAME_TEXT];
  for (int i = 1; i < classes; i++)
    if (p[i] > p[best]) best = i;
  const char *best_name = class_names_at(out->names, best, number);
  const char *label_name = label < 0 ? NULL : class_names_at(out->names, label, other);
  if (!out->list) {
    printf("%s: %s  %.2f %%", name, best_name, 100 * (double)p[best]);
    if (label == best) printf("  (right)");
    else if (label_name) printf("  (labelled %s)", label_name);
    putchar('\n');
    return NULL;
  }
  json_t *all = json_array();
  for (int i = 0; i < classes; i++) json_array_append_new(all, json_real((double)p[i]));
  json_t *o = json_pack("{s:s, s:i, s:f, s:o}", "input", name, "class", best, "probability", (double)p[best],
                        "probabilities", all);
  if (o && label >= 0) json_object_set_new(o, "label", json_integer(label));
  if (o && out->names) json_object_set_new(o, "class_name", json_string(best_name));
  if (o && out->names && label_name) json_object_set_new(o, "label_name", json_string(label_name));
  return !o || json_array_append_new(out->list, o) ? status_no_memory() : NULL;
}

/* One batch of one or more rows, called `name` (a single one) or by their numbers from `first` on, behind `file` unless
 * that is NULL. */
static shoal_status predict_rows(saved_model *s, const shoal_tensor *features, const char *name, const char *file,
                                 int64_t first, const shoal_tensor *labels, output *out) {
  const int64_t n = features->shape.dim[0], outputs = shoal_model_outputs(s->model);
  shoal_tensor p;
  TRY(shoal_tensor_create(SHOAL_F32, SHOAL_SHAPE(n, outputs), &p));
  shoal_status status = shoal_model_predict(s->model, features, &p);
  for (int64_t i = 0; !status && i < n; i++) {
    char row[PATH_MAX + 32];
    snprintf(row, sizeof row, "%s%s%lld", file ? file : "", file ? ":" : "", (long long)(first + i));
    const float *one = (const float *)p.data + i * outputs;
    if (!s->classes) {
      status = report_numbers(out, name ? name : row, one, outputs, labels, i);
      continue;
    }
    int64_t label = labels ? (int64_t)shoal_tensor_get(labels, i) : -1;
    status = report(out, name ? name : row, label, one, s->classes);
  }
  shoal_tensor_fini(&p);
  return status;
}

/* The file's bytes become the one row of `into`. */
static shoal_status read_bytes(const char *path, rows_block *into) {
  struct stat info;
  FILE *file = fopen(path, "rbe");
  if (!file) return status_errno(errno, "cannot open it");
  shoal_status status = NULL;
  if (fstat(fileno(file), &info) || !S_ISREG(info.st_mode) || info.st_size > PICTURE_MOST)
    status = status_make(SHOAL_ERR_INPUT, "is no file of at most %d bytes: give the path of a picture",
                         PICTURE_MOST);
  if (!status) status = rows_reserve(into, 1, info.st_size);
  if (!status && fread(into->bytes, 1, (size_t)info.st_size, file) != (size_t)info.st_size)
    status = status_make(SHOAL_ERR_INPUT, "cannot read its %lld bytes", (long long)info.st_size);
  if (!status) {
    into->labels[0] = 0;
    into->offsets[0] = 0;
    into->offsets[1] = info.st_size;
    into->count = 1;
  }
  fclose(file);
  return status;
}

/* A picture, as rows of such pictures were made to fit when the model was trained. */
static shoal_status predict_colour(saved_model *s, const char *path, output *out) {
  const shoal_shape input = job_input(&s->job, s->kind), *in = &input;
  const char *own = s->kind->transform ? s->kind->transform : "", *given = s->job.transform ? s->job.transform : own;
  char *steps = NULL;
  const bool sized = strstr(given, "resize=") || strstr(given, "fit="); /* else the rows had the size already */
  if (asprintf(&steps, "resize=%lldx%lld,colour%s%s", (long long)in->dim[0], (long long)in->dim[1], *given ? "," : "",
               given) < 0)
    return status_no_memory();
  rows_block file, picture = {0};
  rows_init(&file, &(rows_schema){.kind = ROWS_BYTES, .classes = s->classes});
  transform *t = NULL;
  shoal_status status = NULL;
  TRY_GOTO(status, read_bytes(path, &file), done);
  TRY_GOTO(status, transform_create(sized ? given : steps, &file.schema, 0, NULL, &t), done);
  rows_schema schema;
  transform_schema(t, &schema);
  rows_init(&picture, &schema);
  if (shoal_shape_count(&schema.shape) != shoal_shape_count(in))
    TRY_GOTO(status, status_make(SHOAL_ERR_INPUT, "--transform %s does not make the model's input of it", given), done);
  TRY_GOTO(status, transform_row(t, &file, 0, 0, 0, &picture), done);
  shoal_tensor row = shoal_tensor_view(schema.dtype, SHOAL_SHAPE(1, in->dim[0], in->dim[1], in->dim[2]),
                                       picture.features);
  status = predict_rows(s, &row, path, NULL, 0, NULL, out);
done:
  transform_destroy(t);
  free(steps);
  rows_fini(&picture);
  rows_fini(&file);
  return status_wrap(status, "%s", path);
}

static shoal_status predict_file(saved_model *s, const char *path, output *out) {
  const shoal_shape input = job_input(&s->job, s->kind), *in = &input;
  if (in->rank == 3 && in->dim[2] > 1) return predict_colour(s, path, out);
  if (in->rank != 3)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: the model takes rows of %lld numbers, no pictures; give a file of "
                       "rows, or --index", path, (long long)shoal_shape_count(in));
  shoal_tensor picture;
  TRY(image_read_gray(path, (int)in->dim[0], (int)in->dim[1], &picture));
  picture.shape.rank = in->rank + 1;
  for (int i = 0; i < in->rank; i++) picture.shape.dim[i + 1] = in->dim[i];
  shoal_status status = predict_rows(s, &picture, path, NULL, 0, NULL, out);
  shoal_tensor_fini(&picture);
  return status_wrap(status, "%s", path);
}

/* "3" or "0-9". */
static shoal_status read_range(const char *words, int64_t *first, int64_t *last) {
  char *copy = strdup(words);
  if (!copy) return status_no_memory();
  char *dash = strchr(copy, '-');
  if (dash) *dash = 0;
  int64_t a = 0, b = 0;
  bool good = shoal_parse_int(copy, &a) && (dash ? shoal_parse_int(dash + 1, &b) : (b = a, true)) && a >= 0 && b >= a;
  free(copy);
  if (!good) return status_make(SHOAL_ERR_ARGUMENT, "--index: expected a row or a range like 0-9, not '%s'", words);
  *first = a;
  *last = b;
  return NULL;
}

static shoal_status predict_index(saved_model *s, const predict_flags *f, output *out) {
  int64_t first, last;
  TRY(read_range(f->index, &first, &last));
  job_rows loaded;
  const job_rows_options which = {
      .split = saved_split(s, &f->saved, f->split), .known = job_learned_of(s->model), .scored = true};
  TRY(job_open_rows(&s->job, s->kind, &which, &loaded));
  const shoal_dataset *data = loaded.data;
  shoal_status status = NULL;
  shoal_dataset rows;
  if (last >= shoal_dataset_rows(data))
    TRY_GOTO(status,
             status_make(SHOAL_ERR_ARGUMENT, "--index: row %lld is past the last of %s, %lld", (long long)last,
                         s->job.data, (long long)shoal_dataset_rows(data) - 1),
             done);
  TRY_GOTO(status, shoal_dataset_view(data, first, last - first + 1, &rows), done);
  status = predict_rows(s, &rows.features, NULL, NULL, first, &rows.labels, out);
done:
  job_close_rows(&loaded);
  return status;
}

/* A line a row: the probability of class 1, or with --json an array of them. */
static shoal_status take_scores(void *context, const float *scores, const int32_t *labels, int64_t n) {
  output *out = context;
  for (int64_t i = 0; i < n; i++)
    if (!out->list)
      printf("%.7g\n", (double)scores[i]);
    else if (json_array_append_new(out->list, json_real((double)scores[i])))
      return status_no_memory();
  return NULL;
}

/* Rows to predict, which need no labels. */
static shoal_status open_unlabelled(saved_model *s, const predict_flags *f, const char *path, job_rows *out) {
  saved_options given = f->saved;
  if (path) {
    s->job.data = given.data = path;
    s->job.test_data = NULL;
    s->job.format = given.format;
  }
  const job_rows_options which = {.split = saved_split(s, &given, f->split),
                                  .known = job_learned_of(s->model),
                                  .scored = true,
                                  .labels_optional = true};
  return job_open_rows(&s->job, s->kind, &which, out);
}

static shoal_status predict_sparse(saved_model *s, const predict_flags *f, const flags_parsed *words, output *out) {
  if (words->count > 2 || f->index)
    return status_make(SHOAL_ERR_ARGUMENT, "%s takes one file, folder or glob of rows, or --data", s->kind->name);
  job_rows rows;
  shoal_evaluation e;
  TRY(open_unlabelled(s, f, words->count == 2 ? words->words[1] : NULL, &rows));
  shoal_status status = shoal_model_evaluate_stream(s->model, &rows.stream, take_scores, out, &e);
  job_close_rows(&rows);
  char count[COUNTED_TEXT];
  if (!status && e.unknown_entries)
    say(stderr, "Left out: %s of the rows with an index that the model does not know.\n",
        counted_text(e.unknown_entries, "value", count));
  return status;
}

static shoal_status predict_batches(saved_model *s, shoal_pipeline *p, const char *file, output *out) {
  const shoal_shape input = job_input(&s->job, s->kind), *in = &input;
  for (int64_t first = 0;;) {
    const shoal_batch *b;
    TRY(shoal_pipeline_next(p, &b));
    if (!b) return NULL;
    if (!b->count) continue;
    shoal_tensor features = b->features; /* as many numbers as the model takes, in its shape */
    features.shape.rank = in->rank + 1;
    memcpy(features.shape.dim + 1, in->dim, (size_t)in->rank * sizeof *in->dim);
    if (shoal_tensor_count(&features) != shoal_tensor_count(&b->features)) features = b->features;
    TRY(predict_rows(s, &features, NULL, file, first, b->targets.data ? &b->targets : &b->labels, out));
    first += b->count;
  }
}

/* path: NULL: --data, or the run's test rows. named: rows are to be told from those of other files. */
static shoal_status predict_data(saved_model *s, const predict_flags *f, const char *path, bool named, output *out) {
  job_rows rows;
  TRY(open_unlabelled(s, f, path, &rows));
  shoal_pipeline_options o = rows.stream;
  o.epochs = 1;
  o.batch_size = BATCH;
  shoal_pipeline *p;
  shoal_status status = shoal_pipeline_create(&o, &p);
  if (!status) {
    status = predict_batches(s, p, named ? path : NULL, out);
    shoal_pipeline_destroy(p);
  }
  job_close_rows(&rows);
  return status;
}

/* Files of rows, rather than a picture? What is neither is taken for a picture, whose errors say so. */
static bool holds_rows(const saved_model *s, const char *path) {
  const shoal_shape in = job_input(&s->job, s->kind);
  struct stat info;
  uint8_t head[64];
  if (stat(path, &info)) return strpbrk(path, "*?[,") != NULL;
  FILE *file = S_ISREG(info.st_mode) ? fopen(path, "rbe") : NULL;
  size_t n = file ? fread(head, 1, sizeof head, file) : 0;
  if (file) fclose(file);
  if (image_is_known(head, n) || (file && info.st_size == shoal_shape_count(&in))) return false;
  const format *found;
  shoal_status status = format_detect(path, &found);
  bool rows = !status;
  shoal_status_free(status);
  return rows;
}

static shoal_status predict_dense(saved_model *s, const predict_flags *f, const flags_parsed *words, output *out) {
  if (f->index) return predict_index(s, f, out);
  if (words->count == 1 && f->saved.data) return predict_data(s, f, NULL, false, out);
  if (words->count == 1)
    return status_make(SHOAL_ERR_ARGUMENT, "expected files, --data, or --index with rows of the data set");
  for (int i = 1; i < words->count; i++) {
    const char *path = words->words[i];
    TRY(holds_rows(s, path) ? predict_data(s, f, path, words->count > 2, out) : predict_file(s, path, out));
  }
  return NULL;
}

static shoal_status predict(const flags_parsed *words, const predict_flags *f) {
  if (!words->count) return status_make(SHOAL_ERR_ARGUMENT, "expected a run's folder or a safetensors file");
  if (words->count > 1 && f->index)
    return status_make(SHOAL_ERR_ARGUMENT, "expected either files, or --index with rows of the data set");
  saved_model s;
  TRY(saved_model_load(words->words[0], &f->saved, &s));
  output out = {f->json ? json_array() : NULL, shoal_model_class_names(s.model)};
  shoal_status status = s.kind->sparse ? predict_sparse(&s, f, words, &out) : predict_dense(&s, f, words, &out);
  if (!status && out.list) {
    json_dumpf(out.list, stdout, JSON_INDENT(2));
    putchar('\n');
  }
  json_decref(out.list);
  saved_model_fini(&s);
  return status;
}

static int run_predict(int argc, char **argv) {
  predict_flags f = {0};
  flags_parsed parsed;
  shoal_status status = flags_parse(predict_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_predict, stdout);
    return EXIT_GOOD;
  }
  if (!status) status = predict(&parsed, &f);
  return status ? command_fail(&command_predict, status) : EXIT_GOOD;
}

const command command_predict = {
    .name = "predict",
    .arguments = "RUN_DIR|FILE [PICTURE|ROWS...]",
    .summary = "the class, or the number, that a trained model predicts for pictures and rows",
    .details = "A picture is a PNG or JPEG of any size, or a raw file of height x width bytes\n"
               "(28x28 for the MNIST models), white on black. ROWS is a file, folder or glob in\n"
               "any format that 'shoal train' takes; labels may be missing. Without files,\n"
               "--data names rows, and --index some of them. Of sparse-lr: one probability of\n"
               "class 1 a line, for each row in order; values with an index that the model does\n"
               "not know are left out and counted.\n"
               "\n"
               "Examples:\n"
               "  shoal predict runs/first digit.png\n"
               "  shoal predict runs/flowers new.csv\n"
               "  shoal predict runs/first --index 0-9\n"
               "  shoal predict runs/clicks day-22.tfrecord > scores.txt\n",
    .flags = predict_table,
    .run = run_predict,
};
