#include "dist/wire_format.h"

#include "base/mem.h"
#include "dist/tree.h"

#include <math.h>
#include <string.h>

static int64_t f32_bytes(int64_t count) { return count * (int64_t)sizeof(float); }
static int64_t bf16_bytes(int64_t count) { return count * (int64_t)sizeof(uint16_t); }
static void to_bf16(const float *from, void *to, int64_t count) { tree_to_bf16(from, to, count); }
static void from_bf16(const void *from, float *to, int64_t count) { tree_from_bf16(from, to, count); }

/* ---- IEEE half precision, without an instruction for it: loops that compilers make vectors of */

#define HALF_LIMIT 0x477ff000U /* bits of 65,520: from there on the largest half is sent, and the rest is fed back */
#define HALF_LARGEST 0x7bffU
#define HALF_NORMAL 0x38800000U /* of 2^-14: below it halves are multiples of 2^-24, */
#define HALF_ALIGN 0x3f000000U  /* as f32 is from 0.5 on */
#define HALF_INFINITY 0x7c00U
#define F32_INFINITY 0x7f800000U
enum { MANTISSA_SHIFT = 13, EXPONENTS_APART = 112 << 10 };

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint16_t half_of(float x) {
  const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000U, size = bits & INT32_MAX;
  const uint32_t even = size >> MANTISSA_SHIFT & 1; /* halfway, to the even one */
  const uint32_t normal = ((size + 0xfffU + even) >> MANTISSA_SHIFT) - EXPONENTS_APART;
  const uint32_t small = bits_of(float_of(size) + float_of(HALF_ALIGN)) - HALF_ALIGN;
  const uint32_t large = size < F32_INFINITY ? HALF_LARGEST : HALF_INFINITY | (size > F32_INFINITY ? 0x200U : 0);
  return (uint16_t)(sign | (size >= HALF_LIMIT ? large : size < HALF_NORMAL ? small : normal));
}

static float float_of_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000U) << 16, size = half & 0x7fffU;
  const uint32_t normal = (size + EXPONENTS_APART) << MANTISSA_SHIFT;
  const uint32_t small = bits_of(float_of(size + HALF_ALIGN) - float_of(HALF_ALIGN));
  const uint32_t large = F32_INFINITY | (size & 0x3ffU) << MANTISSA_SHIFT;
  return float_of(sign | (size >= HALF_INFINITY ? large : size < 0x400U ? small : normal));
}

static void to_fp16(const float *from, void *to, int64_t count) {
  uint16_t *halves = to;
  for (int64_t i = 0; i < count; i++) halves[i] = half_of(from[i]);
}

static void from_fp16(const void *from, float *to, int64_t count) {
  const uint16_t *halves = from;
  for (int64_t i = 0; i < count; i++) to[i] = float_of_half(halves[i]);
}

/* ---- a block: its scale, then a byte a number */

enum { LEVELS = 127, BLOCK_BYTES = WIRE_GRAIN + sizeof(float) };
#define ROUND_TO_INTEGER 12582912.0f /* 1.5 * 2^23: what is added to it is rounded to an integer, in its lowest bits */

static int64_t int8_bytes(int64_t count) {
  return count + (count + WIRE_GRAIN - 1) / WIRE_GRAIN * (int64_t)sizeof(float);
}

static void encode_block(const float *from, uint8_t *to, int n) {
  float most = 0;
  for (int i = 0; i < n; i++) {
    const float size = fabsf(from[i]);
    most = size > most || isnan(size) ? size : most;
  }
  const float scale = most / LEVELS, inverse = scale > 0 ? 1 / scale : 0;
  memcpy(to, &scale, sizeof scale);
  to += sizeof scale;
  if (!isfinite(inverse)) { /* below all that f32 can divide by; or the scale says that it is no number */
    memset(to, 0, (size_t)n);
    return;
  }
  for (int i = 0; i < n; i++) {
    const float rounded = from[i] * inverse + ROUND_TO_INTEGER;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    to[i] = (uint8_t)bits;
  }
}

static void decode_block(const uint8_t *from, float *to, int n) {
  float scale;
  memcpy(&scale, from, sizeof scale);
  from += sizeof scale;
  for (int i = 0; i < n; i++) to[i] = (float)(int8_t)from[i] * scale;
}

static void to_int8(const float *from, void *to, int64_t count) {
  uint8_t *bytes = to;
  for (int64_t i = 0; i < count; i += WIRE_GRAIN, bytes += BLOCK_BYTES)
    encode_block(from + i, bytes, (int)MIN_OF(count - i, WIRE_GRAIN));
}

static void from_int8(const void *from, float *to, int64_t count) {
  const uint8_t *bytes = from;
  for (int64_t i = 0; i < count; i += WIRE_GRAIN, bytes += BLOCK_BYTES)
    decode_block(bytes, to + i, (int)MIN_OF(count - i, WIRE_GRAIN));
}

/* ---- the largest of a block: where it is and its bf16 each */

enum { KEPT_BYTES = 1 + sizeof(uint16_t), TOPK_BYTES = WIRE_KEPT * KEPT_BYTES };
enum { CLASS_SHIFT = 21, CLASSES = 64 }; /* magnitudes are told apart by exponent and two bits of their mantissa */

static int64_t topk_bytes(int64_t count) {
  return count / WIRE_GRAIN * TOPK_BYTES + MIN_OF(count % WIRE_GRAIN, WIRE_KEPT) * KEPT_BYTES;
}

/* 0: like the largest magnitude of the block; more: smaller. */
static int class_of(uint32_t magnitude, uint32_t most) {
  return (int)MIN_OF((most >> CLASS_SHIFT) - (magnitude >> CLASS_SHIFT), CLASSES - 1);
}

/* Counts how many there are of each class instead of sorting: three passes. Of those in the last class that is reached,
 * which differ by less than a quarter, the first ones are taken. */
static void encode_largest(const float *from, uint8_t *to, int n) {
  uint32_t magnitudes[WIRE_GRAIN], most = 0;
  memcpy(magnitudes, from, (size_t)n * sizeof *magnitudes);
  for (int i = 0; i < n; i++) {
    magnitudes[i] &= INT32_MAX;
    most = MAX_OF(most, magnitudes[i]);
  }
  int counts[CLASSES] = {0}, left = MIN_OF(n, WIRE_KEPT), last = 0;
  for (int i = 0; i < n; i++) counts[class_of(magnitudes[i], most)]++;
  for (int above = 0; above + counts[last] < left; last++) above += counts[last];
  int spare = left; /* of the last class */
  for (int c = 0; c < last; c++) spare -= counts[c];
  for (int i = 0; i < n && left; i++) {
    const int c = class_of(magnitudes[i], most);
    if (c > last || (c == last && spare-- <= 0)) continue;
    uint16_t half;
    tree_to_bf16(&from[i], &half, 1);
    *to = (uint8_t)i;
    memcpy(to + 1, &half, sizeof half);
    to += KEPT_BYTES;
    left--;
  }
}

static void decode_largest(const uint8_t *from, float *to, int n) {
  memset(to, 0, (size_t)n * sizeof *to);
  for (int k = 0; k < MIN_OF(n, WIRE_KEPT); k++, from += KEPT_BYTES) {
    uint16_t half;
    memcpy(&half, from + 1, sizeof half);
    if (*from < n) tree_from_bf16(&half, &to[*from], 1); /* a peer may send anything */
  }
}

static void to_topk(const float *from, void *to, int64_t count) {
  uint8_t *bytes = to;
  for (int64_t i = 0; i < count; i += WIRE_GRAIN, bytes += TOPK_BYTES)
    encode_largest(from + i, bytes, (int)MIN_OF(count - i, WIRE_GRAIN));
}

static void from_topk(const void *from, float *to, int64_t count) {
  const uint8_t *bytes = from;
  for (int64_t i = 0; i < count; i += WIRE_GRAIN, bytes += TOPK_BYTES)
    decode_largest(bytes, to + i, (int)MIN_OF(count - i, WIRE_GRAIN));
}

/* ---- the table */

static const wire_format formats[] = {
    {.name = "f32", .grain = WIRE_GRAIN, .bytes = f32_bytes},
    {.name = "bf16", .grain = WIRE_GRAIN, .bytes = bf16_bytes, .encode = to_bf16, .decode = from_bf16},
    {.name = "int8",
     .grain = WIRE_GRAIN,
     .feedback = true,
     .bytes = int8_bytes,
     .encode = to_int8,
     .decode = from_int8},
    {.name = "topk",
     .grain = WIRE_GRAIN,
     .feedback = true,
     .bytes = topk_bytes,
     .encode = to_topk,
     .decode = from_topk},
    {.name = "fp16",
     .grain = WIRE_GRAIN,
     .feedback = true,
     .bytes = bf16_bytes,
     .encode = to_fp16,
     .decode = from_fp16},
};

const wire_format *wire_format_at(int number) {
  return number >= 0 && number < (int)COUNT_OF(formats) ? &formats[number] : NULL;
}

int wire_format_number(const wire_format *f) { return (int)(f - formats); }

const wire_format *wire_format_find(const char *name) {
  for (size_t i = 0; i < COUNT_OF(formats); i++)
    if (!strcmp(formats[i].name, name)) return &formats[i];
  return NULL;
}

const char *const *wire_format_names(void) {
  static const char *const names[] = {"f32", "bf16", "fp16", "int8", "topk", NULL};
  return names;
}

void wire_format_feed(const wire_format *f, float *from, float *left, void *to, int64_t count, float *scratch) {
  for (int64_t i = 0; i < count; i++) from[i] += left[i];
  f->encode(from, to, count);
  f->decode(to, scratch, count);
  for (int64_t i = 0; i < count; i++) left[i] = from[i] - scratch[i];
}
