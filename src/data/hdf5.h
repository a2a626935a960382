/* HDF5 files: datasets of numbers in groups, as Keras keeps weights. Read are whole files in memory, of any version of
 * the format, with datasets that lie in one piece; written are files that every version of the library reads.
 *
 * The bytes come from outside: every offset is checked, groups inside groups end at a depth, and what is claimed costs
 * no more memory than the file has bytes. */
#ifndef SHOAL_DATA_HDF5_H
#define SHOAL_DATA_HDF5_H

#include "base/status.h"
#include "shoal/tensor.h"

typedef struct hdf5_file hdf5_file;

typedef enum { HDF5_FLOAT, HDF5_SIGNED, HDF5_UNSIGNED, HDF5_OTHER } hdf5_class;

typedef struct {
  char *path;          /* "layers/dense/vars/0", owned by the file */
  hdf5_class kind;     /* HDF5_OTHER: it cannot be read */
  int bytes;           /* of an element: 1, 2, 4 or 8 */
  bool bfloat;         /* HDF5_FLOAT of 2 bytes: eight of its bits are the exponent */
  shoal_shape shape;   /* rank -1: more dimensions than a tensor has */
  const char *refusal; /* why it cannot be read, NULL: it can */
  const uint8_t *data; /* in the file's bytes */
} hdf5_dataset;

/* Borrows the bytes until closed; `name` stands for the path in messages. What is no HDF5 file, or a damaged one, is an
 * INPUT error that names the byte. */
SHOAL_CHECKED shoal_status hdf5_open(const uint8_t *bytes, size_t n, const char *name, hdf5_file **out);
/* NULL is fine. */
void hdf5_close(hdf5_file *f);

size_t hdf5_count(const hdf5_file *f);
const hdf5_dataset *hdf5_at(const hdf5_file *f, size_t i);
/* NULL: none of this path. */
const hdf5_dataset *hdf5_find(const hdf5_file *f, const char *path);
/* A tensor of the dataset's shape that the caller frees: f32 of floats of any size, i64 of integers. INPUT error: it
 * cannot be read, with the reason. */
SHOAL_CHECKED shoal_status hdf5_read(const hdf5_file *f, const hdf5_dataset *d, shoal_tensor *out);

typedef struct {
  const char *path; /* groups are made for what is before each '/' */
  shoal_tensor tensor;
} hdf5_item;

/* A whole file as bytes that the caller frees. Paths without a tensor (data NULL) become empty groups. */
SHOAL_CHECKED shoal_status hdf5_write(const hdf5_item *items, size_t n, uint8_t **bytes, size_t *length);

#endif
