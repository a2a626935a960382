/* shoal predict: the class a trained model sees in pictures and rows; how likely sparse rows are of class 1. */
#include "cli/command.h"
#include "cli/say.h"
#include "cli/trained_flags.h"
#include "shoal/exchange.h"

#include <math.h>

enum { SHOWN_MAX = 16 }; /* numbers of a row that are printed */

typedef struct {
  shoal_trained_options model;
  const char *index, *split, *out;
  bool json;
} predict_flags;

static const flag_row predict_table[] = {
    TRAINED_FLAGS(offsetof(predict_flags, model)),
    {"index", FLAG_TEXT, offsetof(predict_flags, index), "A[-B]", "rows of the data set instead of files", .marks = 0},
    {"split", FLAG_CHOICE, offsetof(predict_flags, split), "NAME", "which split of the data", "test",
     .choices = trained_split_names},
    {"json", FLAG_BOOL, offsetof(predict_flags, json), NULL, "print one JSON array", .marks = 0},
    {"out", FLAG_TEXT, offsetof(predict_flags, out), "FILE",
     "write to FILE.csv, FILE.jsonl or FILE.npy; for model files: FILE.npy, several outputs go to FILE-NAME.npy; also "
     "-o",
     .complete = COMPLETE_FILE},
    {0},
};

typedef struct {
  shoal_trained *model;
  const char *const *names; /* of the classes, borrowed; NULL: they are numbers */
  int64_t count;            /* of rows so far */
} output;

static shoal_status take_class(void *context, const shoal_prediction *row) {
  const output *out = context;
  const int best = shoal_prediction_class(row);
  char number[SHOAL_CLASS_NAME_TEXT];
  printf("%s: %s  %.2f %%", row->input, shoal_class_name(out->names, best, number), 100 * (double)row->values[best]);
  if (row->label == best)
    printf("  (correct)");
  else if (row->label >= 0)
    printf("  (label: %s)", shoal_class_name(out->names, row->label, number));
  putchar('\n');
  return NULL;
}

/* Of a regression. */
static shoal_status take_numbers(void *context, const shoal_prediction *row) {
  printf("%s:", row->input);
  for (int k = 0; k < row->count; k++) printf(" %.6g", (double)row->values[k]);
  if (isfinite(row->target)) printf("  (label: %.6g)", row->target);
  putchar('\n');
  return NULL;
}

/* The probability of class 1. */
static shoal_status take_score(void *context, const shoal_prediction *row) {
  printf("%.7g\n", (double)*row->values);
  return NULL;
}

static shoal_status take_json(void *context, const shoal_prediction *row) {
  output *out = context;
  char *json;
  TRY(shoal_prediction_json(out->model, row, &json));
  printf("%s\n  %s", out->count++ ? "," : "[", json);
  free(json);
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
  output out = {t, shoal_model_class_names(m), 0};
  const shoal_prediction_taker take = f->json                    ? take_json
                                      : !shoal_model_classes(m)  ? take_numbers
                                      : shoal_model_is_sparse(m) ? take_score
                                                                 : take_class;
  int64_t first = 0, last = 0, unknown = 0;
  shoal_status status = NULL;
  shoal_prediction_file *file = NULL;
  if (f->index) status = read_range(f->index, &first, &last);
  if (!status && f->out) status = shoal_prediction_file_open(t, f->out, &file);
  const shoal_prediction_taker taker = file ? shoal_prediction_file_take : take;
  void *context = file ? (void *)file : &out;
  if (!status && f->index)
    status = shoal_trained_predict_range(t, f->split, first, last, taker, context);
  else if (!status)
    status = shoal_trained_predict(t, words->words + 1, words->count - 1, f->split, taker, context, &unknown);
  shoal_status written = shoal_prediction_file_close(file, !status);
  if (status)
    shoal_status_free(written);
  else
    status = written;
  if (f->json && !file && !status) puts(out.count ? "\n]" : "[]");
  char count[COUNTED_TEXT];
  if (!status && unknown)
    say(stderr, "Ignored: %s with a feature index that the model does not have.\n",
        counted_text(unknown, "value", count));
  return status;
}

/* ---- models of other programs */

static void print_rows(const char *name, const shoal_tensor *t) {
  const int64_t rows = t->data ? t->shape.dim[0] : 0, each = rows ? shoal_tensor_count(t) / rows : 0;
  for (int64_t r = 0; r < rows; r++) {
    printf("%s%s%lld:", name, *name ? " " : "", (long long)r);
    for (int64_t k = 0; k < each && k < SHOWN_MAX; k++) printf(" %.6g", shoal_tensor_get(t, r * each + k));
    puts(each > SHOWN_MAX ? " ..." : "");
  }
}

static shoal_status predict_network(shoal_network *n, const flags_parsed *words, const char *out) {
  const int ins = shoal_network_inputs(n), outs = shoal_network_outputs(n);
  shoal_tensor *inputs = calloc((size_t)ins + 1, sizeof *inputs), *outputs = calloc((size_t)outs + 1, sizeof *outputs);
  shoal_status status = inputs && outputs ? NULL : status_no_memory();
  if (!status) status = shoal_network_read_inputs(n, words->words + 1, words->count - 1, inputs);
  if (!status) status = shoal_network_predict(n, inputs, outputs);
  for (int i = 0; i < outs && !status; i++) {
    if (!out) print_rows(outs > 1 ? shoal_network_output_name(n, i) : "", &outputs[i]);
    if (out && outputs[i].data) status = shoal_network_write_output(n, i, &outputs[i], out);
  }
  for (int i = 0; inputs && i < ins; i++) shoal_tensor_fini(&inputs[i]);
  for (int i = 0; outputs && i < outs; i++) shoal_tensor_fini(&outputs[i]);
  free(inputs);
  free(outputs);
  return status;
}

static shoal_status predict_file(const flags_parsed *words, const char *out) {
  shoal_network *n;
  TRY(shoal_network_load(words->words[0], &n));
  if (*shoal_network_notes(n)) say(stderr, "%s", shoal_network_notes(n));
  shoal_status status = predict_network(n, words, out);
  shoal_network_destroy(n);
  return status;
}

static shoal_status predict(command_call *call) {
  const flags_parsed *words = call->words;
  const predict_flags *f = call->flags;
  if (shoal_has_ending(words->words[0], shoal_import_endings())) return predict_file(words, f->out);
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

const command command_predict = {
    .name = "predict",
    .arguments = "RUN_DIR|FILE [PICTURE|ROWS|[NAME=]ARRAY...]",
    .summary = "predict classes or numbers with a trained model",
    .details =
        "PICTURE is a PNG or JPEG of any size, or a raw file of height x width bytes\n"
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
        "  shoal predict runs/flowers new.csv -o predicted.csv\n"
        "  shoal predict runs/first --index 0-9\n"
        "  shoal predict runs/clicks day-22.tfrecord > scores.txt\n"
        "  shoal predict model.keras x.npy -o y.npy\n",
    .flags = predict_table,
    .fields = sizeof(predict_flags),
    .words_min = 1,
    .words_max = ANY_NUMBER,
    .expected = "a run folder or a safetensors file",
    .action = predict,
};
