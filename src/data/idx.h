/* IDX files, the format of MNIST: a type, the dimensions, big-endian numbers; plain or gzipped, told apart by content.
 *
 * u8 stays u8, i8 and i16 become i32; i32, f32 and f64 keep their type. Between 1 and SHOAL_MAX_RANK dimensions.
 * Peak memory is the decoded tensor and less than 200 KB. A file that is cut short, too long, corrupted or no IDX at
 * all gives SHOAL_ERR_INPUT with the byte where it went wrong; memory is asked for only once the size is plausible. */
#ifndef SHOAL_DATA_IDX_H
#define SHOAL_DATA_IDX_H

#include "base/status.h"
#include "shoal/tensor.h"

/* *out is the caller's, to be released with shoal_tensor_fini. */
SHOAL_CHECKED shoal_status idx_read(const char *path, shoal_tensor *out);
/* The same for bytes in memory (borrowed); `name` stands for the path in messages. */
SHOAL_CHECKED shoal_status idx_read_memory(const uint8_t *bytes, size_t n, const char *name, shoal_tensor *out);

#endif
