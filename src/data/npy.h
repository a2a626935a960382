/* .npy files, NumPy's arrays: versions 1 to 3, of bools, whole numbers and floats of 2 to 8 bytes, either byte order,
 * row by row or column by column (Fortran's order).
 *
 * The format "npy" reads rows from NAME.npy and their labels from the file whose name goes with it (npy_names.h);
 * "npz" finds both in one archive (npz.h). u1 stays u8, all else becomes f32. Labels of whole numbers are classes,
 * those of floats are numbers to be predicted. */
#ifndef SHOAL_DATA_NPY_H
#define SHOAL_DATA_NPY_H

#include "data/stream.h"
#include "shoal/tensor.h"

typedef struct {
  char kind; /* 'b' (bool), 'u', 'i' or 'f' */
  int size;  /* of an element, bytes */
  bool big_endian;
  bool by_columns;      /* Fortran's order: elements of the first axis lie side by side */
  shoal_shape shape;    /* rank 1 to SHOAL_MAX_RANK */
  bool single;          /* a number without axes; shape is [1] */
  uint64_t data_offset; /* of the first element */
  uint64_t row_bytes;   /* of one index of the first axis: at most NPY_ROW_MAX */
} npy_header;

#define NPY_ROW_MAX (1u << 30)

/* The stream stands at its start, and behind the header afterwards. `name` opens messages. Also checks that the file is
 * as long as the header says, where the stream knows. */
SHOAL_CHECKED shoal_status npy_read_header(stream *s, const char *name, npy_header *out);
/* Element i of `from`, elements of the header's type, as a number. */
double npy_element(const npy_header *h, const uint8_t *from, size_t i);

typedef struct npy_writer npy_writer;

/* Makes (or replaces) a file of rows of the given type (SHOAL_U8, I32, I64, F32 or F64) and shape; SHOAL_SCALAR for a
 * row of one number. The number of rows need not be known. */
SHOAL_CHECKED shoal_status npy_writer_open(const char *path, shoal_dtype dtype, const shoal_shape *row,
                                           npy_writer **out);
/* rows: [count, row...] */
SHOAL_CHECKED shoal_status npy_write(npy_writer *w, const void *rows, int64_t count);
/* Completes the header and closes. Frees w whatever happens. */
SHOAL_CHECKED shoal_status npy_writer_close(npy_writer *w);
/* Gives up: the file is removed. NULL is fine. */
void npy_writer_abandon(npy_writer *w);

#endif
