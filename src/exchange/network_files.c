/* Predictions of a network from files of NumPy, and to them. */
#include "base/mem.h"
#include "base/text.h"
#include "exchange/network.h"
#include "shoal/data.h"
#include "shoal/exchange.h"

#include <string.h>

enum { ROWS_AT_ONCE = 256 };

/* ---- rows in, rows out */

/* Rows [first, first + count). */
static shoal_tensor rows_of(const shoal_tensor *t, int64_t first, int64_t count) {
  shoal_tensor part = *t;
  const size_t row = t->shape.dim[0] ? shoal_tensor_bytes(t) / (size_t)t->shape.dim[0] : 0;
  part.data = (char *)t->data + (size_t)first * row;
  part.shape.dim[0] = count;
  return part;
}

static shoal_status keep_rows(const shoal_tensor *part, int64_t first, int64_t all, shoal_tensor *whole) {
  if (!part->shape.rank || part->shape.dim[0] != MIN_OF(all - first, ROWS_AT_ONCE))
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

shoal_status shoal_network_predict(shoal_network *n, const shoal_tensor *inputs, shoal_tensor *outputs) {
  const int ins = n->inputs.n, outs = n->outputs.n;
  const int64_t rows = inputs[0].shape.rank ? inputs[0].shape.dim[0] : 0;
  for (int i = 0; i < ins; i++)
    if (!inputs[i].shape.rank || inputs[i].shape.dim[0] != rows)
      return status_make(SHOAL_ERR_ARGUMENT, "the inputs '%s' and '%s' differ in their number of rows",
                         n->inputs.list[0].name, n->inputs.list[i].name);
  shoal_tensor *some = calloc((size_t)ins + 1, sizeof *some), *parts = calloc((size_t)outs + 1, sizeof *parts);
  shoal_status status = some && parts ? NULL : status_no_memory();
  memset(outputs, 0, (size_t)outs * sizeof *outputs);
  for (int64_t first = 0; first < rows && !status; first += ROWS_AT_ONCE) {
    for (int i = 0; i < ins; i++) some[i] = rows_of(&inputs[i], first, MIN_OF(rows - first, ROWS_AT_ONCE));
    status = shoal_network_run(n, some, parts);
    for (int i = 0; i < outs && !status; i++) status = keep_rows(&parts[i], first, rows, &outputs[i]);
  }
  for (int i = 0; i < outs && status; i++) shoal_tensor_fini(&outputs[i]);
  free(some);
  free(parts);
  return status;
}

/* ---- files */

/* Which input a word is for, and the file. */
static shoal_status take_word(const shoal_network *n, const char *word, const char **files) {
  const char *equals = strchr(word, '=');
  for (int i = 0; i < n->inputs.n && equals; i++) {
    const char *name = n->inputs.list[i].name;
    if (strlen(name) != (size_t)(equals - word) || strncmp(name, word, strlen(name))) continue;
    if (files[i]) return status_make(SHOAL_ERR_ARGUMENT, "the input '%s' is given twice", name);
    files[i] = equals + 1;
    return NULL;
  }
  if (n->inputs.n == 1 && !files[0]) {
    files[0] = word;
    return NULL;
  }
  text names = {0};
  for (int i = 0; i < n->inputs.n; i++) text_add(&names, "%s%s", i ? ", " : "", n->inputs.list[i].name);
  shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "'%s' names no input: expected NAME=FILE.npy for each of %s",
                                    word, names.data ? names.data : "them");
  text_fini(&names);
  return status;
}

static shoal_status read_files(const shoal_network *n, const char *const *files, shoal_tensor *inputs) {
  for (int i = 0; i < n->inputs.n; i++) {
    const char *name = n->inputs.list[i].name;
    if (!files[i]) return status_make(SHOAL_ERR_ARGUMENT, "expected rows for the input '%s': %s=FILE.npy", name, name);
    TRY(shoal_tensor_read_npy(files[i], SHOAL_F32, &inputs[i]));
    if (!inputs[i].shape.rank || inputs[i].shape.dim[0] != inputs[0].shape.dim[0])
      return status_make(SHOAL_ERR_INPUT, "%s: expected as many rows as in %s", files[i], files[0]);
  }
  return NULL;
}

shoal_status shoal_network_read_inputs(const shoal_network *n, const char *const *words, int count,
                                       shoal_tensor *inputs) {
  const char **files = calloc((size_t)n->inputs.n + 1, sizeof *files);
  shoal_status status = files ? NULL : status_no_memory();
  memset(inputs, 0, (size_t)n->inputs.n * sizeof *inputs);
  for (int i = 0; i < count && !status; i++) status = take_word(n, words[i], files);
  if (!status) status = read_files(n, files, inputs);
  for (int i = 0; i < n->inputs.n && status; i++) shoal_tensor_fini(&inputs[i]);
  free(files);
  return status;
}

shoal_status shoal_network_write_output(const shoal_network *n, int i, const shoal_tensor *t, const char *path) {
  if (n->outputs.n == 1) return shoal_tensor_write_npy(path, t);
  text own = {0};
  const size_t length = strlen(path);
  const bool npy = length > 4 && !strcmp(path + length - 4, ".npy");
  text_add(&own, "%.*s-", (int)(length - (npy ? 4 : 0)), path);
  for (const char *c = n->outputs.list[i].name; *c; c++) text_add(&own, "%c", *c == '/' ? '-' : *c);
  text_add(&own, ".npy");
  shoal_status status = own.failed ? status_no_memory() : shoal_tensor_write_npy(own.data, t);
  text_fini(&own);
  return status;
}
