/* shoal predict: the class a trained model sees in pictures and rows; how likely sparse rows are of class 1. */
#include "cli/command.h"
#include "cli/predict_network.h"
#include "cli/say.h"
#include "cli/trained_flags.h"
#include "shoal/exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  shoal_trained_options model;
  const char *index, *split, *out;
  bool json;
} predict_flags;

static const flag_row predict_table[] = {
    TRAINED_FLAGS(offsetof(predict_flags, model)),
    {"index", FLAG_TEXT, offsetof(predict_flags, index), "A[-B]", "rows of the data set instead of files", .marks = 0},
    {"split", FLAG_CHOICE, offsetof(predict_flags, split), "NAME", "which rows of the data", "test",
     .choices = trained_split_names},
    {"json", FLAG_BOOL, offsetof(predict_flags, json), NULL, "print one JSON array", .marks = 0},
    {"out", FLAG_TEXT, offsetof(predict_flags, out), "FILE",
     "of a model file: write its outputs as an array of NumPy, of several outputs FILE-NAME.npy; also -o",
     .complete = COMPLETE_FILE},
    {0},
};

/* Collects or prints the results. */
typedef struct {
  json_t *list;             /* NULL: print lines */
  const char *const *names; /* of the classes, borrowed; NULL: they are numbers */
} output;

static shoal_status take_class(void *context, const shoal_prediction *row) {
  const output *out = context;
  const float *p = row->values;
  const int classes = row->count;
  const int64_t label = row->label;
  const char *name = row->input;
  int best = 0;
  char number[SHOAL_CLASS_NAME_TEXT], other[SHOAL_CLASS_NAME_TEXT];
  for (int i = 1; i < classes; i++)
    if (p[i] > p[best]) best = i;
  const char *best_name = shoal_class_name(out->names, best, number);
  const char *label_name = label < 0 ? NULL : shoal_class_name(out->names, label, other);
  if (!out->list) {
    printf("%s: %s  %.2f %%", name, best_name, 100 * (double)p[best]);
    if (label == best)
      printf("  (right)");
    else if (label_name)
      printf("  (labelled %s)", label_name);
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

/* Of a regression. */
static shoal_status take_numbers(void *context, const shoal_prediction *row) {
  const output *out = context;
  const bool known = isfinite(row->target);
  if (!out->list) {
    printf("%s:", row->input);
    for (int k = 0; k < row->count; k++) printf(" %.6g", (double)row->values[k]);
    if (known) printf("  (labelled %.6g)", row->target);
    putchar('\n');
    return NULL;
  }
  json_t *all = json_array();
  for (int k = 0; k < row->count; k++) json_array_append_new(all, json_real((double)row->values[k]));
  json_t *o = json_pack("{s:s, s:f, s:o}", "input", row->input, "value", (double)row->values[0], "values", all);
  if (o && known) json_object_set_new(o, "label", json_real(row->target));
  return !o || json_array_append_new(out->list, o) ? status_no_memory() : NULL;
}

/* A line a row: the probability of class 1, or with --json an array of them. */
static shoal_status take_score(void *context, const shoal_prediction *row) {
  const output *out = context;
  if (!out->list)
    printf("%.7g\n", (double)*row->values);
  else if (json_array_append_new(out->list, json_real((double)*row->values)))
    return status_no_memory();
  return NULL;
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

static shoal_status predict_with(shoal_trained *t, const flags_parsed *words, const predict_flags *f) {
  shoal_model *m = shoal_trained_model(t);
  output out = {f->json ? json_array() : NULL, shoal_model_class_names(m)};
  const shoal_prediction_taker take = !shoal_model_classes(m)    ? take_numbers
                                      : shoal_model_is_sparse(m) ? take_score
                                                                 : take_class;
  int64_t first, last, unknown = 0;
  shoal_status status = NULL;
  if (f->index) status = read_range(f->index, &first, &last);
  if (!status && f->index)
    status = shoal_trained_predict_range(t, f->split, first, last, take, &out);
  else if (!status)
    status = shoal_trained_predict(t, words->words + 1, words->count - 1, f->split, take, &out, &unknown);
  if (!status && out.list) {
    json_dumpf(out.list, stdout, JSON_INDENT(2));
    putchar('\n');
  }
  json_decref(out.list);
  char count[COUNTED_TEXT];
  if (!status && unknown)
    say(stderr, "Left out: %s of the rows with an index that the model does not know.\n",
        counted_text(unknown, "value", count));
  return status;
}

static shoal_status predict(const flags_parsed *words, const predict_flags *f) {
  if (!words->count) return status_make(SHOAL_ERR_ARGUMENT, "expected a run's folder or a safetensors file");
  if (path_has_ending(words->words[0], shoal_import_endings()))
    return predict_network_file(words->words[0], words->words + 1, words->count - 1, f->out);
  if (f->out)
    return status_make(SHOAL_ERR_ARGUMENT, "--out is for model files: %s is a run or its weights", words->words[0]);
  if (words->count > 1 && f->index)
    return status_make(SHOAL_ERR_ARGUMENT, "expected either files, or --index with rows of the data set");
  shoal_trained *t;
  TRY(shoal_trained_open(words->words[0], &f->model, &t));
  shoal_status status = NULL;
  if (words->count == 1 && !f->index && !f->model.data && !shoal_model_is_sparse(shoal_trained_model(t)))
    status = status_make(SHOAL_ERR_ARGUMENT, "expected files, --data, or --index with rows of the data set");
  if (!status) status = predict_with(t, words, f);
  shoal_trained_close(t);
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
    .arguments = "RUN_DIR|FILE [PICTURE|ROWS|[NAME=]ARRAY...]",
    .summary = "the class, or the number, that a trained model predicts for pictures and rows",
    .details =
        "A picture is a PNG or JPEG of any size, or a raw file of height x width bytes\n"
        "(28x28 for the MNIST models), white on black. ROWS is a file, folder or glob in\n"
        "any format that 'shoal train' takes; labels may be missing. Without files,\n"
        "--data names rows, and --index some of them. Of sparse-lr: one probability of\n"
        "class 1 a line, for each row in order; values with an index that the model does\n"
        "not know are left out and counted.\n"
        "\n"
        "A model of another program (.keras, .onnx) is given arrays of NumPy, of several\n"
        "inputs NAME=FILE.npy, and gives its outputs as they are.\n"
        "\n"
        "Examples:\n"
        "  shoal predict runs/first digit.png\n"
        "  shoal predict runs/flowers new.csv\n"
        "  shoal predict runs/first --index 0-9\n"
        "  shoal predict runs/clicks day-22.tfrecord > scores.txt\n"
        "  shoal predict model.keras x.npy -o y.npy\n",
    .flags = predict_table,
    .run = run_predict,
};
