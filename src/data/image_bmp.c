#include "base/mem.h"
#include "data/image_codecs.h"

#include <string.h>

enum {
  FILE_HEADER = 14,
  CORE_HEADER = 12, /* the oldest: 16 bits for the size, 3 bytes a colour */
  INFO_HEADER = 40,
  NOT_PACKED = 0,
  BIT_FIELDS = 3, /* masks say where red, green and blue are */
  SIDE_MAX = 1 << 20
};

typedef struct {
  const uint8_t *pixels; /* the first line as it lies in the file */
  size_t stride;         /* bytes of a line: a multiple of 4 */
  uint32_t width, height;
  bool from_top;           /* else the first line is the lowest */
  int bits;                /* of a pixel */
  uint8_t palette[256][3]; /* red, green, blue, up to 8 bits */
  uint32_t masks[3];       /* of red, green and blue, from 16 bits on */
} bitmap;

static uint32_t u16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32(const uint8_t *p) { return u16(p) | u16(p + 2) << 16; }

bool image_is_bmp(const uint8_t *bytes, size_t n) {
  if (n < FILE_HEADER + 4 || bytes[0] != 'B' || bytes[1] != 'M') return false;
  uint32_t header = u32(bytes + FILE_HEADER);
  return header == CORE_HEADER || (header >= INFO_HEADER && header <= 124);
}

static shoal_status corrupted(size_t at, const char *what) {
  return status_make(SHOAL_ERR_INPUT, "byte %zu of the image: %s: the BMP is corrupted or cut short, create it again",
                     at, what);
}

/* 16 and 32 bits: where the colours are. at: behind the first 40 bytes of the header. */
static shoal_status read_masks(const uint8_t *bytes, size_t n, uint32_t packing, bitmap *b) {
  static const uint32_t narrow[] = {0x7c00, 0x3e0, 0x1f}, wide[] = {0xff0000, 0xff00, 0xff};
  size_t at = FILE_HEADER + INFO_HEADER;
  memcpy(b->masks, b->bits == 16 ? narrow : wide, sizeof b->masks);
  if (packing != BIT_FIELDS) return NULL;
  if (n < at + 12) return corrupted(n, "it ends inside of its header");
  for (int i = 0; i < 3; i++) {
    b->masks[i] = u32(bytes + at + 4 * (size_t)i);
    if (!b->masks[i]) return corrupted(at, "a colour has no bits");
  }
  return NULL;
}

static shoal_status read_palette(const uint8_t *bytes, size_t n, uint32_t header, uint32_t colours, bitmap *b) {
  size_t entry = header == CORE_HEADER ? 3 : 4, at = FILE_HEADER + header, count = (size_t)1 << b->bits;
  if (colours && colours < count) count = colours;
  if (n < at + count * entry) return corrupted(n, "it ends inside of its palette");
  for (size_t i = 0; i < count; i++)
    for (int c = 0; c < 3; c++) b->palette[i][c] = bytes[at + i * entry + 2 - (size_t)c];
  return NULL;
}

static shoal_status read_header(const uint8_t *bytes, size_t n, bitmap *b) {
  uint32_t offset = u32(bytes + 10), header = u32(bytes + FILE_HEADER);
  const uint8_t *h = bytes + FILE_HEADER;
  if (n < FILE_HEADER + (size_t)header) return corrupted(n, "it ends inside of its header");
  bool core = header == CORE_HEADER;
  int32_t height = core ? (int32_t)u16(h + 6) : (int32_t)u32(h + 8);
  uint32_t packing = core ? NOT_PACKED : u32(h + 16), colours = core ? 0 : u32(h + 32);
  b->width = core ? u16(h + 4) : u32(h + 4);
  b->from_top = height < 0;
  b->height = b->from_top ? 0 - (uint32_t)height : (uint32_t)height;
  b->bits = (int)u16(h + (core ? 10 : 14));
  bool known = b->bits == 1 || b->bits == 4 || b->bits == 8 || b->bits == 16 || b->bits == 24 || b->bits == 32;
  if (!known || !(packing == NOT_PACKED || (packing == BIT_FIELDS && (b->bits == 16 || b->bits == 32))))
    return status_make(SHOAL_ERR_INPUT,
                       "byte %d of the image: a BMP of %d bits a pixel, packed in way %u, is not "
                       "read: save it as 24 bits or as PNG",
                       FILE_HEADER, b->bits, packing);
  if (b->width > SIDE_MAX || b->height > SIDE_MAX) return image_check_size(b->height, b->width, n, 1);
  TRY(image_check_size(b->height, b->width, n, 8));
  if (b->bits <= 8)
    TRY(read_palette(bytes, n, header, colours, b));
  else if (b->bits != 24)
    TRY(read_masks(bytes, n, packing, b));
  b->stride = ((size_t)b->width * (size_t)b->bits + 31) / 32 * 4;
  if (offset > n || b->stride * b->height > n - offset) return corrupted(n, "it ends inside of its pixels");
  b->pixels = bytes + offset;
  return NULL;
}

/* The bits of a mask, stretched to 0 .. 255. */
static unsigned masked(uint32_t word, uint32_t mask) {
  int low = __builtin_ctz(mask);
  uint64_t most = mask >> low, value = (word & mask) >> low;
  return (unsigned)(value * 255 / most);
}

static void pixel_at(const bitmap *b, const uint8_t *line, uint32_t x, unsigned rgb[3]) {
  if (b->bits == 24) {
    for (int c = 0; c < 3; c++) rgb[c] = line[3 * (size_t)x + 2 - (size_t)c];
  } else if (b->bits > 8) {
    uint32_t word = b->bits == 16 ? u16(line + 2 * (size_t)x) : u32(line + 4 * (size_t)x);
    for (int c = 0; c < 3; c++) rgb[c] = masked(word, b->masks[c]);
  } else {
    size_t bit = (size_t)x * (size_t)b->bits;
    unsigned index = line[bit / 8] >> (8 - (unsigned)b->bits - bit % 8) & ((1u << b->bits) - 1);
    for (int c = 0; c < 3; c++) rgb[c] = b->palette[index][c];
  }
}

shoal_status image_decode_bmp(const uint8_t *bytes, size_t n, int channels, image *out) {
  bitmap b = {0};
  TRY(read_header(bytes, n, &b));
  TRY(image_reshape(out, (int)b.height, (int)b.width, channels));
  uint8_t *to = out->pixels;
  for (uint32_t y = 0; y < b.height; y++) {
    const uint8_t *line = b.pixels + (size_t)(b.from_top ? y : b.height - 1 - y) * b.stride;
    for (uint32_t x = 0; x < b.width; x++) {
      unsigned rgb[3];
      pixel_at(&b, line, x, rgb);
      if (channels == 1)
        *to++ = image_gray(rgb[0], rgb[1], rgb[2]);
      else
        for (int c = 0; c < 3; c++) *to++ = (uint8_t)rgb[c];
    }
  }
  return NULL;
}
