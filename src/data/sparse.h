/* The formats of sparse rows, opened over bytes in memory (borrowed until close), for tests and fuzzers. */
#ifndef SHOAL_DATA_SPARSE_H
#define SHOAL_DATA_SPARSE_H

#include "data/format.h"

extern const format format_tfrecord, format_libsvm, format_libffm, format_criteo;

SHOAL_CHECKED shoal_status tfrecord_rows_open_memory(const uint8_t *bytes, size_t n, const char *name,
                                                     const format_options *options, file_reader **out);
SHOAL_CHECKED shoal_status libsvm_open_memory(const uint8_t *bytes, size_t n, const char *name,
                                              const format_options *options, file_reader **out);
SHOAL_CHECKED shoal_status libffm_open_memory(const uint8_t *bytes, size_t n, const char *name,
                                              const format_options *options, file_reader **out);
SHOAL_CHECKED shoal_status criteo_open_memory(const uint8_t *bytes, size_t n, const char *name,
                                              const format_options *options, file_reader **out);

/* Places of a row of the click log, shared with the generator: numbers are indices 1 .. CRITEO_NUMBERS, words are
 * hashed to [CRITEO_NUMBERS + 1, features). */
enum { CRITEO_NUMBERS = 13, CRITEO_WORDS = 26, CRITEO_FEATURES = 33762578 };
/* column: 1 .. CRITEO_WORDS; word: the column's hexadecimal number. */
int32_t criteo_index(int column, uint64_t word, int64_t features);

#endif
