#include "run/serve_rows.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "data/sparse.h"
#include "data/format.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  serve_type type;
} types[] = {
    {"application/json", SERVE_JSON},
    {"text/plain", SERVE_TEXT},
    {"application/octet-stream", SERVE_BINARY},
    {"application/x-www-form-urlencoded", SERVE_JSON}, /* what curl -d says unless it is told otherwise */
};

bool serve_type_find(const char *content_type, serve_type *out) {
  *out = SERVE_JSON;
  if (!content_type) return true;
  size_t n = strcspn(content_type, "; \t");
  for (size_t i = 0; i < COUNT_OF(types); i++)
    if (strlen(types[i].name) == n && !strncasecmp(types[i].name, content_type, n)) {
      *out = types[i].type;
      return true;
    }
  return false;
}

const char *serve_type_name(serve_type t) {
  for (size_t i = 0; i < COUNT_OF(types); i++)
    if (types[i].type == t) return types[i].name;
  return "";
}

static shoal_status check_count(const rows_block *b, int64_t more, int64_t rows_max) {
  if (more > rows_max - b->count)
    return status_make(SHOAL_ERR_INPUT, "expected at most %lld rows in a request", (long long)rows_max);
  return NULL;
}

/* ---- JSON */

#define bad_row(i, ...) status_make(SHOAL_ERR_INPUT, "instance %zu: " __VA_ARGS__)

static shoal_status read_number(const json_t *from, size_t row, float *out) {
  if (!json_is_number(from)) return bad_row(row, "expected numbers", row);
  double value = json_number_value(from);
  if (!(fabs(value) <= (double)__FLT_MAX__)) return bad_row(row, "%g is no number of 32 bits", row, value);
  *out = (float)value;
  return NULL;
}

/* Appends the numbers of an array, nested or not; *n counts them. */
static shoal_status flatten(const json_t *from, size_t row, int depth, float *out, int64_t *n, int64_t max) {
  if (!json_is_array(from)) {
    if (*n >= max) return bad_row(row, "expected %lld numbers, found more", row, (long long)max);
    return read_number(from, row, &out[(*n)++]);
  }
  if (depth > SHOAL_MAX_RANK) return bad_row(row, "arrays are nested too deep", row);
  for (size_t i = 0; i < json_array_size(from); i++) TRY(flatten(json_array_get(from, i), row, depth + 1, out, n, max));
  return NULL;
}

static shoal_status read_dense(const json_t *from, size_t row, rows_block *into) {
  const int64_t numbers = shoal_shape_count(&into->schema.shape);
  int64_t n = 0;
  TRY(flatten(from, row, 0, (float *)into->features + into->count * numbers, &n, numbers));
  if (n != numbers) return bad_row(row, "expected %lld numbers, found %lld", row, (long long)numbers, (long long)n);
  return NULL;
}

/* The field of each entry from `start` on, for models that go by them. */
static shoal_status read_fields(const json_t *from, size_t row, size_t n, rows_block *into, int64_t start) {
  const json_t *fields = json_object_get(from, "fields");
  if (!json_is_array(fields) || json_array_size(fields) != n)
    return bad_row(row, "the model goes by fields: expected \"fields\": [...] with one for each index", row);
  for (size_t i = 0; i < n; i++) {
    const json_t *field = json_array_get(fields, i);
    const json_int_t number = json_integer_value(field);
    if (!json_is_integer(field) || number < 0 || number >= into->schema.fields_end)
      return bad_row(row, "expected fields from 0 to %d", row, into->schema.fields_end - 1);
    into->fields[start + (int64_t)i] = (int32_t)number;
  }
  return NULL;
}

static shoal_status read_sparse(const json_t *from, size_t row, rows_block *into) {
  const json_t *indices = json_object_get(from, "indices"), *values = json_object_get(from, "values");
  if (!json_is_array(indices) || (values && !json_is_array(values)))
    return bad_row(row, "expected {\"indices\": [...], \"values\": [...]}", row);
  const size_t n = json_array_size(indices);
  if (values && json_array_size(values) != n)
    return bad_row(row, "expected as many values as indices, found %zu and %zu", row, json_array_size(values), n);
  TRY(rows_reserve(into, 1, (int64_t)n));
  const int64_t start = into->offsets[into->count];
  const int64_t most = into->ids ? INT64_MAX - 1 : INT32_MAX;
  int64_t previous = -1;
  for (size_t i = 0; i < n; i++) {
    const json_t *index = json_array_get(indices, i);
    const json_int_t number = json_integer_value(index);
    if (!json_is_integer(index) || number < 0 || number > most)
      return bad_row(row, "expected indices from 0 to %lld", row, (long long)most);
    if (number <= previous)
      return bad_row(row, "expected ascending indices without duplicates, found %lld after %lld", row,
                     (long long)number, (long long)previous);
    previous = number;
    if (into->ids) into->ids[start + (int64_t)i] = number;
    into->indices[start + (int64_t)i] = into->ids ? 0 : (int32_t)number;
    into->values[start + (int64_t)i] = 1;
    if (values) TRY(read_number(json_array_get(values, i), row, &into->values[start + (int64_t)i]));
  }
  if (into->schema.fields) TRY(read_fields(from, row, n, into, start));
  into->offsets[into->count + 1] = start + (int64_t)n;
  return NULL;
}

static shoal_status read_instances(const json_t *body, int64_t rows_max, rows_block *into) {
  const json_t *instances = json_object_get(body, "instances");
  if (!json_is_array(instances)) return status_make(SHOAL_ERR_INPUT, "expected {\"instances\": [ROW, ...]}");
  const size_t n = json_array_size(instances);
  TRY(check_count(into, (int64_t)n, rows_max));
  TRY(rows_reserve(into, (int64_t)n, 0));
  for (size_t i = 0; i < n; i++) {
    const json_t *row = json_array_get(instances, i);
    TRY(into->schema.kind == ROWS_SPARSE ? read_sparse(row, i, into) : read_dense(row, i, into));
    into->labels[into->count++] = -1;
  }
  return NULL;
}

static shoal_status read_json(const void *body, size_t n, int64_t rows_max, rows_block *into) {
  json_error_t error;
  json_t *root = json_read(body, n, 0, &error);
  if (!root)
    return status_make(SHOAL_ERR_INPUT, "the body is not valid JSON: %s at byte %d", error.text, error.position);
  shoal_status status = read_instances(root, rows_max, into);
  json_decref(root);
  return status;
}

/* ---- lines of LIBSVM */

static shoal_status read_lines(const void *body, size_t n, int64_t rows_max, rows_block *into) {
  if (into->schema.kind != ROWS_SPARSE)
    return status_make(SHOAL_ERR_INPUT, "text/plain is for models of sparse rows; send JSON or binary rows");
  if (into->schema.fields)
    return status_make(SHOAL_ERR_INPUT, "the model goes by fields, which lines of text/plain do not have; send JSON");
  const format_options options = {.classes = 2, .labels_optional = true, .any_index = true, .ids = into->schema.ids};
  file_reader *reader;
  TRY(libsvm_open_memory(body, n, "the body", &options, &reader));
  int64_t got = 0;
  shoal_status status;
  do { /* one more than are allowed shows that there are too many */
    status = reader->format->read(reader, rows_max + 1 - into->count, into, &got);
  } while (!status && got && into->count <= rows_max);
  reader->format->close(reader);
  if (!status && into->count > rows_max) status = check_count(into, 1, rows_max);
  return status;
}

/* ---- binary */

static uint32_t u32_at(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static shoal_status read_floats(const uint8_t *from, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i++) {
    const uint32_t bits = u32_at(from + 4 * i);
    memcpy(&out[i], &bits, sizeof bits);
    if (!isfinite(out[i])) return status_make(SHOAL_ERR_INPUT, "number %lld of the body is not finite", (long long)i);
  }
  return NULL;
}

static shoal_status wrong_length(size_t expected, size_t found) {
  return status_make(SHOAL_ERR_INPUT, "expected a body of %zu bytes by its head, found %zu", expected, found);
}

static shoal_status read_binary_sparse(const uint8_t *body, size_t n, int64_t rows, rows_block *into) {
  size_t entries = 0, head = 4 + 4 * (size_t)rows, each = into->schema.fields ? 12 : 8;
  if (n < head) return wrong_length(head, n);
  for (int64_t i = 0; i < rows; i++) entries += u32_at(body + 4 + 4 * i);
  if (n != mem_plus(head, mem_times(entries, each))) return wrong_length(mem_plus(head, mem_times(entries, each)), n);
  TRY(rows_reserve(into, rows, (int64_t)entries));
  int64_t at = into->offsets[into->count];
  const uint8_t *index = body + head;
  if (entries) TRY(read_floats(index + 4 * entries, (int64_t)entries, into->values + at));
  for (size_t e = 0; into->schema.fields && e < entries; e++) {
    const uint32_t field = u32_at(index + 4 * (2 * entries + e));
    if (field >= (uint32_t)into->schema.fields_end)
      return status_make(SHOAL_ERR_INPUT, "field %u: 0 to %d is expected", field, into->schema.fields_end - 1);
    into->fields[at + (int64_t)e] = (int32_t)field;
  }
  for (int64_t i = 0; i < rows; i++) {
    int64_t previous = -1;
    for (uint32_t left = u32_at(body + 4 + 4 * i); left; left--, index += 4, at++) {
      const int64_t number = u32_at(index);
      if (number > INT32_MAX || number <= previous)
        return status_make(SHOAL_ERR_INPUT, "row %lld: expected ascending indices up to %d, found %lld after %lld",
                           (long long)i, INT32_MAX, (long long)number, (long long)previous);
      if (into->ids) into->ids[at] = number; /* longer ones travel as JSON or text */
      into->indices[at] = (int32_t)number;
      previous = number;
    }
    into->labels[into->count] = -1;
    into->offsets[++into->count] = at;
  }
  return NULL;
}

static shoal_status read_binary(const uint8_t *body, size_t n, int64_t rows_max, rows_block *into) {
  if (n < 4) return wrong_length(4, n);
  const int64_t rows = u32_at(body), numbers = shoal_shape_count(&into->schema.shape);
  TRY(check_count(into, rows, rows_max));
  if (into->schema.kind == ROWS_SPARSE) return read_binary_sparse(body, n, rows, into);
  const size_t expected = mem_plus(4, mem_times(4, mem_times((size_t)rows, (size_t)numbers)));
  if (n != expected) return wrong_length(expected, n);
  TRY(rows_reserve(into, rows, 0));
  if (rows) TRY(read_floats(body + 4, rows * numbers, (float *)into->features + into->count * numbers));
  for (int64_t i = 0; i < rows; i++) into->labels[into->count++] = -1;
  return NULL;
}

/* ---- all */

shoal_status serve_rows_read(serve_type type, const void *body, size_t n, int64_t rows_max, rows_block *into) {
  if (!n) return status_make(SHOAL_ERR_INPUT, "the body is empty; expected rows");
  switch (type) {
    case SERVE_JSON: return read_json(body, n, rows_max, into);
    case SERVE_TEXT: return read_lines(body, n, rows_max, into);
    case SERVE_BINARY: return read_binary(body, n, rows_max, into);
  }
  return status_make(SHOAL_ERR_INTERNAL, "no such type of body");
}

static void write_json(const float *values, int64_t rows, int outputs, int first, text *out) {
  text_add(out, "{\"predictions\":[");
  for (int64_t i = 0; i < rows; i++) {
    text_add(out, i ? "," : "");
    if (outputs - first > 1) text_add(out, "[");
    for (int k = first; k < outputs; k++)
      text_add(out, "%s%.7g", k > first ? "," : "", (double)values[i * outputs + k]);
    if (outputs - first > 1) text_add(out, "]");
  }
  text_add(out, "]}\n");
}

static void write_lines(const float *values, int64_t rows, int outputs, int first, text *out) {
  for (int64_t i = 0; i < rows; i++)
    for (int k = first; k < outputs; k++)
      text_add(out, "%.7g%c", (double)values[i * outputs + k], k + 1 < outputs ? ' ' : '\n');
}

static void write_binary(const float *values, int64_t rows, int outputs, int first, text *out) {
  for (int64_t i = 0; i < rows; i++)
    text_add_bytes(out, (const char *)&values[i * outputs + first], (size_t)(outputs - first) * sizeof *values);
}

void serve_rows_write(serve_type type, const float *values, int64_t rows, int outputs, int first, text *out) {
  void (*const write[])(const float *, int64_t, int, int, text *) = {write_json, write_lines, write_binary};
  write[type](values, rows, outputs, first, out);
}
