/* A Parquet file as text: what a CSV file of the same table would hold, its columns' names first, missing values empty. So
 * columns, words, missing values and positions are those of CSV. Flat columns only: truth values (0 and 1), whole numbers,
 * floating point, text; plain or by dictionary, uncompressed or by snappy, gzip or (where it is there) zstd. */
#ifndef SHOAL_DATA_PARQUET_H
#define SHOAL_DATA_PARQUET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct parquet_text parquet_text;

/* Do the first bytes of a file say that it is one? */
bool parquet_begins(const uint8_t *head, size_t n);
/* fd -1: bytes [size] in memory, borrowed. name: for messages, borrowed. */
SHOAL_CHECKED shoal_status parquet_text_open(int fd, const uint8_t *bytes, uint64_t size, const char *name,
                                             parquet_text **out);
/* The next bytes of text, up to n; *got is 0 only at the end. */
SHOAL_CHECKED shoal_status parquet_text_read(parquet_text *p, uint8_t *out, size_t n, size_t *got);
void parquet_text_rewind(parquet_text *p);
void parquet_text_close(parquet_text *p); /* NULL is fine */

#endif
