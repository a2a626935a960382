/* Safetensors files: named tensors behind a JSON header.
 *
 *   8 bytes   length of the header, little-endian
 *   header    {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ..., "__metadata__": {string: string}}
 *   data      the tensors, little-endian, row-major, without holes
 *
 * A file may carry a checksum of itself: "checksum": "crc32c:" and eight hexadecimal digits in its metadata, over all bytes
 * of the file with zeros in place of the digits. Beside it stands "written_by", so that a flipped bit in the key itself
 * shows, too.
 *
 * Opening checks everything but the numbers: lengths, JSON, types, shapes, that each size fits its shape, that the
 * tensors neither overlap nor leave holes and end where the file ends. So a file that is cut short does not open. */
#ifndef SHOAL_DATA_SAFETENSORS_H
#define SHOAL_DATA_SAFETENSORS_H

#include "base/status.h"
#include "shoal/tensor.h"

#include <jansson.h>

#define SAFETENSORS_MAX_HEADER 100000000 /* bytes */
#define SAFETENSORS_CHECKSUM "checksum"  /* keys of the metadata */
#define SAFETENSORS_WRITTEN_BY "written_by"
#define SAFETENSORS_NO_CHECKSUM "crc32c:00000000" /* what safetensors_write replaces */

typedef struct safetensors safetensors; /* an open file; used by one thread at a time */

typedef struct {
  const char *name;
  const char *type; /* as in the file: "F32", "BF16" ... */
  bool supported;   /* false: Shoal has no such type; dtype says nothing and it cannot be read */
  shoal_dtype dtype;
  shoal_shape shape;
  uint64_t offset; /* of its first byte in the file */
  uint64_t bytes;
} safetensors_entry;

SHOAL_CHECKED shoal_status safetensors_open(const char *path, safetensors **out);
/* Borrows the bytes until closed; `name` stands for the path in messages. */
SHOAL_CHECKED shoal_status safetensors_open_memory(const uint8_t *bytes, size_t n, const char *name, safetensors **out);
/* NULL is fine. */
void safetensors_close(safetensors *file);

/* In the order of the data. Entries live as long as the file is open. */
size_t safetensors_count(const safetensors *file);
const safetensors_entry *safetensors_at(const safetensors *file, size_t i);
/* NULL: no such tensor. */
const safetensors_entry *safetensors_find(const safetensors *file, const char *name);
/* The string map, or NULL when the file has none. Borrowed. */
json_t *safetensors_metadata(const safetensors *file);

/* Is there a tensor `name` of this type and shape? The error says what is there instead. */
SHOAL_CHECKED shoal_status safetensors_check(const safetensors *file, const char *name, const shoal_tensor *like);
/* Fills the caller's memory. Type and shape must be those in the file. When reading fails midway the memory holds
 * part of the data. */
SHOAL_CHECKED shoal_status safetensors_read(safetensors *file, const char *name, shoal_tensor *into);

/* Bytes [first, first + bytes) of a tensor, counted by its elements. */
SHOAL_CHECKED shoal_status safetensors_read_part(safetensors *file, const char *name, uint64_t first, size_t bytes,
                                                 void *into);

/* Reads the whole file. SHOAL_ERR_INPUT: it does not have the checksum it says, or says none though who wrote it always
 * does. A file of another program, without one, is fine. */
SHOAL_CHECKED shoal_status safetensors_verify(const safetensors *file);

typedef struct {
  const char *name;
  shoal_tensor tensor; /* without data: it is written piece by piece, as `read` gives them */
  shoal_status (*read)(void *source, uint64_t first, size_t bytes, void *into);
  void *source;
} safetensors_item;

/* Writes a whole file to fd from its present position; `name` stands for it in messages. The tensors stand in the
 * given order, but those of larger elements first, so that each is aligned when the file is mapped. metadata: an object
 * of strings, or NULL; a checksum in it that is SAFETENSORS_NO_CHECKSUM becomes that of the file, which fd must be able to
 * seek in. On failure part of the file may have been written. */
SHOAL_CHECKED shoal_status safetensors_write(int fd, const char *name, const safetensors_item *items, int n,
                                             const json_t *metadata);

#endif
