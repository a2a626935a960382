#include "shoal/tensor.h"

#include "base/mem.h"
#include "tensor/convert.h"
#include "tensor/limits.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  size_t size;
} dtypes[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F32] = {"f32", 4}, [SHOAL_F64] = {"f64", 8}, [SHOAL_I32] = {"i32", 4},
    [SHOAL_I64] = {"i64", 8}, [SHOAL_U8] = {"u8", 1},   [SHOAL_BOOL] = {"bool", 1},
};

size_t shoal_dtype_size(shoal_dtype dtype) { return dtypes[dtype].size; }

const char *shoal_dtype_name(shoal_dtype dtype) {
  return (unsigned)dtype < SHOAL_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

bool shoal_dtype_parse(const char *name, shoal_dtype *out) {
  for (int i = 0; i < SHOAL_DTYPE_COUNT; i++)
    if (!strcmp(name, dtypes[i].name)) {
      *out = (shoal_dtype)i;
      return true;
    }
  return false;
}

shoal_shape shoal_shape_make(int rank, const int64_t *dims) {
  shoal_shape shape = {.rank = rank < SHOAL_MAX_RANK ? rank : SHOAL_MAX_RANK};
  for (int i = 0; i < shape.rank; i++) shape.dim[i] = dims[i];
  return shape;
}

int64_t shoal_shape_count(const shoal_shape *shape) {
  int64_t count = 1;
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dim[i] < 0) return SHOAL_UNKNOWN;
    count = count_times(count, shape->dim[i]);
  }
  return count;
}

shoal_status tensor_check(shoal_dtype dtype, const shoal_shape *shape) {
  char text[SHOAL_SHAPE_TEXT];
  if (shape->rank < 0 || shape->rank > SHOAL_MAX_RANK)
    return status_make(SHOAL_ERR_ARGUMENT, "a shape has 0 to %d dimensions, not %d", SHOAL_MAX_RANK, shape->rank);
  int64_t bytes = (int64_t)shoal_dtype_size(dtype);
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dim[i] < SHOAL_UNKNOWN)
      return status_make(SHOAL_ERR_ARGUMENT, "dimension %d of %s is negative", i, shoal_shape_text(shape, text));
    bytes = count_times(bytes, MAX_OF(shape->dim[i], 1));
  }
  if (bytes <= TENSOR_MAX_BYTES) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "a tensor %s%s is too large: at most %lld bytes are possible",
                     shoal_dtype_name(dtype), shoal_shape_text(shape, text), (long long)TENSOR_MAX_BYTES);
}

bool shoal_shape_equal(const shoal_shape *a, const shoal_shape *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

const char *shoal_shape_text(const shoal_shape *shape, char buffer[SHOAL_SHAPE_TEXT]) {
  size_t at = 0;
  buffer[at++] = '[';
  for (int i = 0; i < shape->rank; i++) {
    const char *comma = i ? "," : "";
    int n = shape->dim[i] < 0 ? snprintf(buffer + at, SHOAL_SHAPE_TEXT - at, "%s?", comma)
                              : snprintf(buffer + at, SHOAL_SHAPE_TEXT - at, "%s%lld", comma, (long long)shape->dim[i]);
    if (n > 0) at += (size_t)n;
    if (at >= SHOAL_SHAPE_TEXT - 2) at = SHOAL_SHAPE_TEXT - 2;
  }
  buffer[at] = ']';
  buffer[at + 1] = 0;
  return buffer;
}

shoal_tensor shoal_tensor_view(shoal_dtype dtype, shoal_shape shape, void *data) {
  return (shoal_tensor){.dtype = dtype, .shape = shape, .data = data};
}

shoal_status shoal_tensor_create(shoal_dtype dtype, shoal_shape shape, shoal_tensor *out) {
  char text[SHOAL_SHAPE_TEXT];
  TRY(tensor_check(dtype, &shape));
  int64_t count = shoal_shape_count(&shape);
  if (count == SHOAL_UNKNOWN)
    return status_make(SHOAL_ERR_ARGUMENT, "a tensor of shape %s cannot be made: a dimension is unknown",
                       shoal_shape_text(&shape, text));
  void *data;
  TRY(mem_aligned((size_t)count * shoal_dtype_size(dtype), &data));
  *out = shoal_tensor_view(dtype, shape, data);
  return NULL;
}

void shoal_tensor_fini(shoal_tensor *tensor) {
  free(tensor->data);
  tensor->data = NULL;
}

int64_t shoal_tensor_count(const shoal_tensor *tensor) { return shoal_shape_count(&tensor->shape); }

size_t shoal_tensor_bytes(const shoal_tensor *tensor) {
  int64_t count = shoal_tensor_count(tensor);
  return count < 0 ? 0 : mem_times((size_t)count, shoal_dtype_size(tensor->dtype));
}

double shoal_tensor_get(const shoal_tensor *tensor, int64_t i) {
  if (tensor->rows && tensor->shape.rank > 0) {
    int64_t row = shoal_tensor_count(tensor) / tensor->shape.dim[0];
    i = tensor->rows[i / row] * row + i % row;
  }
  switch (tensor->dtype) {
    case SHOAL_F32: return ((const float *)tensor->data)[i];
    case SHOAL_F64: return ((const double *)tensor->data)[i];
    case SHOAL_I32: return ((const int32_t *)tensor->data)[i];
    case SHOAL_I64: return (double)((const int64_t *)tensor->data)[i];
    case SHOAL_U8: return ((const uint8_t *)tensor->data)[i];
    case SHOAL_BOOL: return ((const uint8_t *)tensor->data)[i] != 0;
    default: return 0;
  }
}

void shoal_tensor_set(shoal_tensor *tensor, int64_t i, double value) {
  switch (tensor->dtype) {
    case SHOAL_F32: ((float *)tensor->data)[i] = (float)value; break;
    case SHOAL_F64: ((double *)tensor->data)[i] = value; break;
    case SHOAL_I32: ((int32_t *)tensor->data)[i] = float_to_int32_t(value); break;
    case SHOAL_I64: ((int64_t *)tensor->data)[i] = float_to_int64_t(value); break;
    case SHOAL_U8: ((uint8_t *)tensor->data)[i] = float_to_uint8_t(value); break;
    case SHOAL_BOOL: ((uint8_t *)tensor->data)[i] = value != 0; break;
    default: break;
  }
}
