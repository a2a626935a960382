/* Rows in columns: what readers fill, the pipeline hands on and the engine is fed with, without a further copy.
 *
 * A row is a label and one of
 *   ROWS_DENSE   numbers of one shape                    features [count, shape...]
 *   ROWS_SPARSE  pairs of index and value                entries offsets[i] .. offsets[i + 1] of (indices, values, and
 *                                                        fields and ids, if they have some)
 *   ROWS_BYTES   an encoded thing, e.g. a JPEG image     bytes offsets[i] .. offsets[i + 1]
 * Memory grows when it must and is kept when a block is emptied, so that a block used again allocates nothing. */
#ifndef SHOAL_DATA_ROWS_H
#define SHOAL_DATA_ROWS_H

#include "base/status.h"
#include "shoal/tensor.h"

typedef enum { ROWS_DENSE, ROWS_SPARSE, ROWS_BYTES } rows_kind;

typedef struct {
  rows_kind kind;
  shoal_dtype dtype; /* ROWS_DENSE: SHOAL_U8 or SHOAL_F32 */
  shoal_shape shape; /* ROWS_DENSE: of one row */
  float scale;       /* ROWS_DENSE: what to multiply with: 1/255 for u8 pixels, else 1 */
  int64_t features;  /* ROWS_SPARSE: indices are in [0, features); 0: not known beforehand */
  int classes;       /* labels are in [0, classes); 0: not known beforehand. Binary labels -1/+1 become 0/1. */
  bool fields;       /* ROWS_SPARSE: each entry has a field, a number from 0 on */
  bool ids;          /* ROWS_SPARSE: entries have 64-bit ids, any number; indices mean nothing */
  int fields_end;    /* fields are below it; 0: not known beforehand */
  bool real_labels;  /* labels are numbers (regression): `targets` counts, not `labels` */
  int64_t targets;   /* with it: numbers to be predicted for each row; 0: one */
  bool weighted;     /* rows say how much they count in the loss */
} rows_schema;

#define WEIGHT_END 1e30f /* weights of rows are from 0 to below it */

typedef struct {
  rows_schema schema;
  int64_t count;
  int32_t *labels;                     /* [count] */
  float *targets;                      /* [count, rows_targets] when schema.real_labels, else NULL */
  float *weights;                      /* [count] when schema.weighted, else NULL */
  void *features;                      /* ROWS_DENSE */
  int64_t *offsets;                    /* [count + 1], offsets[0] is 0: ROWS_SPARSE, ROWS_BYTES */
  int32_t *indices;                    /* ROWS_SPARSE */
  float *values;                       /* ROWS_SPARSE */
  int32_t *fields;                     /* ROWS_SPARSE with schema.fields, else NULL */
  int64_t *ids;                        /* ROWS_SPARSE with schema.ids, else NULL */
  uint8_t *bytes;                      /* ROWS_BYTES */
  size_t row_capacity, entry_capacity; /* entries or bytes */
} rows_block;

/* Zeroes it and sets the schema; allocates nothing. */
void rows_init(rows_block *b, const rows_schema *schema);
void rows_fini(rows_block *b);
/* No rows; the memory stays. */
void rows_clear(rows_block *b);
/* Room for `rows` more rows and `entries` more entries (ROWS_SPARSE) or bytes (ROWS_BYTES). A new row is written by
 * filling its place in each column and counting `count` up (offsets[count] is kept right by the writer). */
SHOAL_CHECKED shoal_status rows_reserve(rows_block *b, int64_t rows, int64_t entries);
/* Appends row i of `from`, which has the same kind (and, if dense, type and shape). */
SHOAL_CHECKED shoal_status rows_append(rows_block *to, const rows_block *from, int64_t i);
/* ROWS_SPARSE: leaves out entries with an index from `features` on; returns how many there were. */
int64_t rows_drop_beyond(rows_block *b, int64_t features);
/* Numbers to be predicted for a row. */
static inline int64_t rows_targets(const rows_schema *schema) { return schema->targets > 1 ? schema->targets : 1; }
/* Bytes of one dense row. */
size_t rows_dense_bytes(const rows_schema *schema);

#endif
