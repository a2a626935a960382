/* What stands at the end of a Parquet file: its columns, and where the values of each group of rows lie. */
#ifndef SHOAL_DATA_PARQUET_FOOTER_H
#define SHOAL_DATA_PARQUET_FOOTER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
  PARQUET_BOOLEAN,
  PARQUET_INT32,
  PARQUET_INT64,
  PARQUET_INT96,
  PARQUET_FLOAT,
  PARQUET_DOUBLE,
  PARQUET_BYTES,
  PARQUET_FIXED_BYTES,
  PARQUET_TYPES
} parquet_type;

typedef struct {
  char *name; /* owned */
  parquet_type type;
  int32_t length;     /* PARQUET_FIXED_BYTES */
  bool optional;      /* values may be missing */
  bool is_unsigned;   /* PARQUET_INT32, PARQUET_INT64 */
  int decimal_digits; /* PARQUET_INT32, PARQUET_INT64: behind the point */
} parquet_column;

/* The values of one column in one group of rows. */
typedef struct {
  uint64_t offset, bytes; /* in the file */
  int32_t codec;
  int64_t values;
} parquet_chunk;

typedef struct {
  int64_t rows;
  parquet_chunk *chunks; /* [columns] */
} parquet_group;

typedef struct {
  parquet_column *columns; /* [n_columns] */
  size_t n_columns;
  parquet_group *groups; /* [n_groups] */
  size_t n_groups;
} parquet_footer;

/* bytes: the footer alone, without its length. file_size: what offsets must stay below. INPUT error that names `name`:
 * it is damaged, or holds what cannot be read, such as columns of lists. */
SHOAL_CHECKED shoal_status parquet_footer_read(const uint8_t *bytes, size_t n, uint64_t file_size, const char *name,
                                               parquet_footer *out);
void parquet_footer_fini(parquet_footer *f);

#endif
