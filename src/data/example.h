/* tf.train.Example, read in place from its wire form without an allocation, and written.
 *
 * An Example is a map from names to features, each a list of bytes, of floats or of int64s. */
#ifndef SHOAL_DATA_EXAMPLE_H
#define SHOAL_DATA_EXAMPLE_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { EXAMPLE_NONE, EXAMPLE_BYTES, EXAMPLE_FLOATS, EXAMPLE_INTS } example_kind; /* numbers as on the wire */

/* Borrows the record. */
typedef struct {
  const char *name; /* not NUL-terminated */
  size_t name_length;
  example_kind kind;   /* EXAMPLE_NONE: a feature without a list */
  const uint8_t *list; /* the list's message, still encoded: `bytes` bytes */
  size_t bytes;
} example_feature;

/* Walks through the features of one record. */
typedef struct {
  const uint8_t *start, *at, *end; /* of the record */
  const uint8_t *map_end;          /* `at` stands inside the map until here */
  const char *problem;             /* what is wrong with the wire data, after EXAMPLE_BAD */
} example_cursor;

typedef enum { EXAMPLE_BAD = -1, EXAMPLE_END = 0, EXAMPLE_FEATURE = 1 } example_step;

void example_begin(example_cursor *c, const uint8_t *record, size_t n);
example_step example_next(example_cursor *c, example_feature *out);
/* Bytes from the start of the record to where the cursor stands, for messages. */
static inline size_t example_offset(const example_cursor *c) { return (size_t)(c->at - c->start); }

bool example_named(const example_feature *f, const char *name);
/* "bytes", "float", "int64", "empty" */
const char *example_kind_name(example_kind kind);
/* Finds one feature: EXAMPLE_END when there is none of that name. */
example_step example_find(const uint8_t *record, size_t n, const char *name, example_feature *out,
                          const char **problem);

/* Lists. All return the number of elements, or -1 when the wire data is malformed (or the feature is of another kind);
 * `room` bounds what is written, and the count may be larger. */
int64_t example_count(const example_feature *f);
int64_t example_ints(const example_feature *f, int64_t *out, size_t room);
int64_t example_floats(const example_feature *f, float *out, size_t room);
/* The i-th bytes element; -1 when there is none, else its length. */
int64_t example_bytes(const example_feature *f, size_t i, const uint8_t **out);

/* Ints that should be ascending, without duplicates and in [0, limit): straight into an int32 column. Returns their
 * number, or -1 when anything at all is unusual: example_ints then tells what. `room` elements fit; f->bytes are always
 * enough. Loads whole words: STREAM_SLACK bytes behind the record must be readable, as tfrecord_next gives them. */
int64_t example_ascending(const example_feature *f, int64_t limit, int32_t *out, size_t room);

/* "index int64 x 33, value float x 33, label int64 x 1" for messages and `inspect`. */
SHOAL_CHECKED shoal_status example_describe(const uint8_t *record, size_t n, text *out);

/* Writing: features are appended to `out` behind one another, and example_finish puts the frame around them. */
typedef struct {
  uint8_t *bytes; /* owned; room for the frame is kept in front */
  size_t length, capacity;
  bool failed; /* out of memory: example_finish says so */
} example_writer;

void example_clear(example_writer *w);
void example_add_ints(example_writer *w, const char *name, const int64_t *values, size_t n);
void example_add_indices(example_writer *w, const char *name, const int32_t *values, size_t n);
void example_add_floats(example_writer *w, const char *name, const float *values, size_t n);
void example_add_bytes(example_writer *w, const char *name, const void *bytes, size_t n);
/* *record is valid until the next call. */
SHOAL_CHECKED shoal_status example_finish(example_writer *w, const uint8_t **record, size_t *n);
void example_writer_fini(example_writer *w);

#endif
