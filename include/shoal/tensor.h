/** @file
 * Types, shapes and tensors.
 *
 * A shoal_tensor is a view: a type, a shape and a pointer. It owns nothing unless it came from shoal_tensor_create. */
#ifndef SHOAL_TENSOR_H
#define SHOAL_TENSOR_H

#include "shoal/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Types of elements: floats of 32 and 64 bits, signed integers of 32 and 64, bytes, truth values (a byte each). */
typedef enum { SHOAL_F32, SHOAL_F64, SHOAL_I32, SHOAL_I64, SHOAL_U8, SHOAL_BOOL, SHOAL_DTYPE_COUNT } shoal_dtype;

/** Dimensions that a shape can have. */
#define SHOAL_MAX_RANK 6
#define SHOAL_UNKNOWN (-1) /**< a dimension known only when a batch is fed */

/** How many dimensions, and their sizes. */
typedef struct {
  int rank;                    /**< 0 is a scalar */
  int64_t dim[SHOAL_MAX_RANK]; /**< sizes, the slowest axis first */
} shoal_shape;

/** SHOAL_SHAPE(28, 28, 1) */
#define SHOAL_SHAPE(...) \
  shoal_shape_make((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
/** The shape of one number. */
#define SHOAL_SCALAR ((shoal_shape){0, {0}})

/** A view of numbers in memory. */
typedef struct {
  shoal_dtype dtype; /**< of each element */
  shoal_shape shape; /**< in elements */
  void *data;        /**< row-major, last axis fastest */
  /** When not NULL, row i of this tensor is row rows[i] of `data`: a shuffled batch is fed without being copied. */
  const int32_t *rows;
} shoal_tensor;

/** Bytes of one element. */
SHOAL_API size_t shoal_dtype_size(shoal_dtype dtype);
SHOAL_API const char *shoal_dtype_name(shoal_dtype dtype); /**< "f32" ... */
/** False when no type has that name. */
SHOAL_API bool shoal_dtype_parse(const char *name, shoal_dtype *out);

/** A shape of `rank` dimensions, copied from `dims`; more than SHOAL_MAX_RANK are cut off. */
SHOAL_API shoal_shape shoal_shape_make(int rank, const int64_t *dims);
/** SHOAL_UNKNOWN when a dimension is. */
SHOAL_API int64_t shoal_shape_count(const shoal_shape *shape);
/** Whether rank and all dimensions are the same. */
SHOAL_API bool shoal_shape_equal(const shoal_shape *a, const shoal_shape *b);
/** "[64,28,28,1]", "?" for an unknown dimension. Returns `buffer`. */
#define SHOAL_SHAPE_TEXT 128
/** "[64,28,28,1]", "?" for an unknown dimension, in `buffer`, which it returns. */
SHOAL_API const char *shoal_shape_text(const shoal_shape *shape, char buffer[SHOAL_SHAPE_TEXT]);

/** A view of the caller's memory. */
SHOAL_API shoal_tensor shoal_tensor_view(shoal_dtype dtype, shoal_shape shape, void *data);
/** Zeroed memory owned by *out until shoal_tensor_fini. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_tensor_create(shoal_dtype dtype, shoal_shape shape, shoal_tensor *out);
/** Frees what shoal_tensor_create made. Not for views. */
SHOAL_API void shoal_tensor_fini(shoal_tensor *tensor);
/** Elements; SHOAL_UNKNOWN when a dimension is. */
SHOAL_API int64_t shoal_tensor_count(const shoal_tensor *tensor);
/** Bytes of all elements. */
SHOAL_API size_t shoal_tensor_bytes(const shoal_tensor *tensor);
/** Element i as a double, whatever the type; and back, with the type's rounding. */
SHOAL_API double shoal_tensor_get(const shoal_tensor *tensor, int64_t i);
/** Sets element i, with the rounding of the type. */
SHOAL_API void shoal_tensor_set(shoal_tensor *tensor, int64_t i, double value);

#ifdef __cplusplus
}
#endif
#endif
