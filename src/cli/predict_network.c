#include "cli/predict_network.h"

#include "cli/say.h"
#include "shoal/data.h"
#include "shoal/exchange.h"

#include <stdlib.h>
#include <string.h>

#define MIN_ROWS(n) ((n) < ROWS_AT_ONCE ? (n) : ROWS_AT_ONCE)

enum { ROWS_AT_ONCE = 256, SHOWN_MAX = 16 /* numbers of a row that are printed */ };

static bool ends_with(const char *path, const char *ending) {
  const size_t length = strlen(path), n = strlen(ending);
  return length > n && !strcmp(path + length - n, ending);
}

bool path_has_ending(const char *path, const char *const *endings) {
  for (; *endings; endings++)
    if (ends_with(path, *endings)) return true;
  return false;
}

/* Which input a word is for, and the file. */
static shoal_status take_word(const shoal_network *n, const char *word, const char **files) {
  const char *equals = strchr(word, '=');
  const int inputs = shoal_network_inputs(n);
  for (int i = 0; i < inputs && equals; i++) {
    const char *name = shoal_network_input_name(n, i);
    if (strlen(name) != (size_t)(equals - word) || strncmp(name, word, strlen(name))) continue;
    if (files[i]) return status_make(SHOAL_ERR_ARGUMENT, "the input '%s' is given twice", name);
    files[i] = equals + 1;
    return NULL;
  }
  if (inputs == 1 && !files[0]) {
    files[0] = word;
    return NULL;
  }
  shoal_text names = {0};
  for (int i = 0; i < inputs; i++) shoal_text_add(&names, "%s%s", i ? ", " : "", shoal_network_input_name(n, i));
  shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "'%s' is for no input: expected NAME=FILE.npy for each of %s",
                                    word, names.data ? names.data : "them");
  shoal_text_fini(&names);
  return status;
}

static shoal_status read_inputs(const shoal_network *n, const char *const *files, shoal_tensor *inputs) {
  for (int i = 0; i < shoal_network_inputs(n); i++) {
    if (!files[i])
      return status_make(SHOAL_ERR_ARGUMENT, "expected rows for the input '%s': %s=FILE.npy",
                         shoal_network_input_name(n, i), shoal_network_input_name(n, i));
    TRY(shoal_tensor_read_npy(files[i], SHOAL_F32, &inputs[i]));
    if (!inputs[i].shape.rank || inputs[i].shape.dim[0] != inputs[0].shape.dim[0])
      return status_make(SHOAL_ERR_INPUT, "%s: expected as many rows as in %s", files[i], files[0]);
  }
  return NULL;
}

/* Rows [first, first + count). */
static shoal_tensor rows_of(const shoal_tensor *t, int64_t first, int64_t count) {
  shoal_tensor part = *t;
  const size_t row = t->shape.dim[0] ? shoal_tensor_bytes(t) / (size_t)t->shape.dim[0] : 0;
  part.data = (char *)t->data + (size_t)first * row;
  part.shape.dim[0] = count;
  return part;
}

static shoal_status keep_rows(const shoal_tensor *part, int64_t first, int64_t all, shoal_tensor *whole) {
  if (!part->shape.rank || (part->shape.dim[0] != MIN_ROWS(all - first)))
    return status_make(SHOAL_ERR_ARGUMENT, "an output does not have a row for each row of the inputs");
  if (!whole->data) {
    shoal_shape shape = part->shape;
    shape.dim[0] = all;
    TRY(shoal_tensor_create(part->dtype, shape, whole));
  }
  shoal_tensor into = rows_of(whole, first, part->shape.dim[0]);
  memcpy(into.data, part->data, shoal_tensor_bytes(part));
  return NULL;
}

static shoal_status run_all(shoal_network *n, const shoal_tensor *inputs, shoal_tensor *outputs) {
  const int ins = shoal_network_inputs(n), outs = shoal_network_outputs(n);
  const int64_t rows = inputs[0].shape.dim[0];
  shoal_tensor *some = calloc((size_t)ins + 1, sizeof *some), *parts = calloc((size_t)outs + 1, sizeof *parts);
  shoal_status status = some && parts ? NULL : shoal_status_no_memory();
  for (int64_t first = 0; first < rows && !status; first += ROWS_AT_ONCE) {
    for (int i = 0; i < ins; i++) some[i] = rows_of(&inputs[i], first, MIN_ROWS(rows - first));
    status = shoal_network_run(n, some, parts);
    for (int i = 0; i < outs && !status; i++) status = keep_rows(&parts[i], first, rows, &outputs[i]);
  }
  free(some);
  free(parts);
  return status;
}

static void print_rows(const char *name, const shoal_tensor *t) {
  const int64_t rows = t->shape.dim[0], each = rows ? shoal_tensor_count(t) / rows : 0;
  for (int64_t r = 0; r < rows; r++) {
    printf("%s%s%lld:", name, *name ? " " : "", (long long)r);
    for (int64_t k = 0; k < each && k < SHOWN_MAX; k++) printf(" %.6g", shoal_tensor_get(t, r * each + k));
    puts(each > SHOWN_MAX ? " ..." : "");
  }
}

/* Of several outputs each goes to a file of its own: y.npy becomes y-NAME.npy. */
static shoal_status write_output(const shoal_network *n, int i, const shoal_tensor *t, const char *out) {
  const char *name = shoal_network_output_name(n, i);
  if (!out) {
    print_rows(shoal_network_outputs(n) > 1 ? name : "", t);
    return NULL;
  }
  if (shoal_network_outputs(n) == 1) return shoal_tensor_write_npy(out, t);
  shoal_text path = {0};
  const int stem = (int)(strlen(out) - (ends_with(out, ".npy") ? 4 : 0));
  shoal_text_add(&path, "%.*s-", stem, out);
  for (const char *c = name; *c; c++) shoal_text_add(&path, "%c", *c == '/' ? '-' : *c);
  shoal_text_add(&path, ".npy");
  shoal_status status = path.data ? shoal_tensor_write_npy(path.data, t) : shoal_status_no_memory();
  shoal_text_fini(&path);
  return status;
}

static shoal_status predict_arrays(shoal_network *n, const char *const *words, int count, const char *out) {
  const int ins = shoal_network_inputs(n), outs = shoal_network_outputs(n);
  const char **files = calloc((size_t)ins + 1, sizeof *files);
  shoal_tensor *inputs = calloc((size_t)ins + 1, sizeof *inputs), *outputs = calloc((size_t)outs + 1, sizeof *outputs);
  shoal_status status = files && inputs && outputs ? NULL : shoal_status_no_memory();
  for (int i = 0; i < count && !status; i++) status = take_word(n, words[i], files);
  if (!status) status = read_inputs(n, files, inputs);
  if (!status) status = run_all(n, inputs, outputs);
  for (int i = 0; i < outs && !status; i++)
    if (outputs[i].data) status = write_output(n, i, &outputs[i], out);
  for (int i = 0; inputs && i < ins; i++) shoal_tensor_fini(&inputs[i]);
  for (int i = 0; outputs && i < outs; i++) shoal_tensor_fini(&outputs[i]);
  free(files);
  free(inputs);
  free(outputs);
  return status;
}

shoal_status predict_network_file(const char *path, const char *const *words, int n, const char *out) {
  shoal_network *net;
  TRY(shoal_network_load(path, &net));
  if (*shoal_network_notes(net)) say(stderr, "%s", shoal_network_notes(net));
  shoal_status status = predict_arrays(net, words, n, out);
  shoal_network_destroy(net);
  return status;
}
