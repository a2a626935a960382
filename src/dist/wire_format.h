/* How gradients travel between ranks, or to parameter servers and parameters back: a table of formats. In all but f32
 * numbers are encoded before they leave and decoded where they are added up.
 *
 * bf16, fp16: rounded to two bytes. fp16 has three bits more, but nothing above 65,504 or below 2^-24.
 * int8: each block of WIRE_GRAIN numbers has a scale, its largest magnitude / 127, and a byte a number.
 * topk: of each block the WIRE_KEPT largest by magnitude travel, each as a byte (where) and a bf16.
 *
 * What the last three leave out of a step is kept and added to the next one (error feedback), so nothing is lost, only late. */
#ifndef SHOAL_DIST_WIRE_FORMAT_H
#define SHOAL_DIST_WIRE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

enum { WIRE_GRAIN = 256 }; /* numbers that are encoded together */
enum { WIRE_KEPT = 8 };    /* topk: numbers of a block that travel */

typedef struct {
  const char *name;
  int64_t grain; /* numbers; what is cut is cut at its multiples */
  bool feedback; /* what rounding takes away is added to the next step */
  /* Of so many numbers. Those from a multiple of the grain on stand behind as many bytes as there are before. */
  int64_t (*bytes)(int64_t count);
  void (*encode)(const float *from, void *to, int64_t count); /* NULL: as they are, f32 */
  void (*decode)(const void *from, float *to, int64_t count);
} wire_format;

/* "f32", "bf16", "fp16", "int8", "topk"; NULL: there is no such format. */
const wire_format *wire_format_find(const char *name);
const char *const *wire_format_names(void); /* ended by NULL */
/* As messages name them: 0 is f32. NULL: there is none of that number. */
const wire_format *wire_format_at(int number);
int wire_format_number(const wire_format *f);

/* Encodes from + left, and leaves in `left` what the rounding took away. from becomes what was encoded. */
void wire_format_feed(const wire_format *f, float *from, float *left, void *to, int64_t count, float *scratch);

#endif
