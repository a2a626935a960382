#include "data/parquet_pages.h"

#include "base/build_config.h" /* made by Meson */
#include "base/mem.h"
#include "data/snappy.h"
#include "data/thrift.h"

#include <string.h>
#include <zlib.h>
#ifdef SHOAL_ZSTD
#include <zstd.h>
#endif

enum { PAGE_MAX = 1 << 28, HEADER_MAX = 1 << 16 };
enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };
enum { PLAIN, PLAIN_DICTIONARY = 2, RLE = 3, RLE_DICTIONARY = 8 };
enum { UNCOMPRESSED, SNAPPY, GZIP, ZSTD = 6 };

typedef struct {
  int64_t type, bytes, packed_bytes;
  int64_t values, encoding;
  int64_t level_bytes, repeat_bytes; /* DATA_PAGE_V2: before the values, never compressed */
  bool packed;
} page_header;

static const uint8_t zero, one = 1;

static shoal_status damaged(const parquet_cursor *c, const char *what) {
  return status_make(SHOAL_ERR_INPUT, "%s: column '%s', byte %llu: %s: write the file again", c->file->name,
                     c->column->name, (unsigned long long)c->chunk.offset, what);
}

static uint32_t u32_at(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- runs */

static parquet_runs runs_over(const uint8_t *at, const uint8_t *end, int bits) {
  return (parquet_runs){.at = at, .end = end, .bits = bits};
}

/* The head of the next run; false: there is none, or it is damaged. */
static bool next_run(parquet_runs *r) {
  thrift t = {r->at, r->end, false};
  const uint64_t head = thrift_varint(&t);
  if (t.failed || !(head >> 1)) return false;
  const size_t have = (size_t)(t.end - t.at), bytes = (size_t)(r->bits + 7) / 8;
  r->packed = head & 1;
  if (r->packed) {
    if (head >> 1 > have) return false; /* groups of eight numbers, of at least a byte unless they have no bits */
    r->left = (head >> 1) * 8;
    r->group = t.at;
    r->done = 0;
    /* The last group of a page may be cut short. */
    const uint64_t needed = (head >> 1) * (uint64_t)r->bits;
    r->at = t.at + MIN_OF(needed, (uint64_t)have);
  } else {
    if (bytes > have) return false;
    r->left = head >> 1;
    r->value = 0;
    for (size_t i = 0; i < bytes; i++) r->value |= (uint32_t)t.at[i] << (8 * i);
    r->at = t.at + bytes;
  }
  return true;
}

static bool next_number(parquet_runs *r, uint32_t *out) {
  if (!r->bits) { /* a dictionary of one word: all indices are 0 */
    *out = 0;
    return true;
  }
  if (!r->left && !next_run(r)) return false;
  r->left--;
  if (!r->packed) {
    *out = r->value;
    return true;
  }
  const uint64_t bit = r->done++ * (uint64_t)r->bits;
  const uint8_t *from = r->group + bit / 8;
  uint64_t word = 0;
  const int need = (int)(bit % 8) + r->bits;
  for (int i = 0; 8 * i < need; i++) {
    if (from + i >= r->end) return false;
    word |= (uint64_t)from[i] << (8 * i);
  }
  *out = (uint32_t)(word >> bit % 8 & ((UINT64_C(1) << r->bits) - 1));
  return true;
}

/* ---- pages */

static void read_data_header(thrift *t, page_header *h) {
  for (thrift_field f = {0}; thrift_next(t, &f);)
    if (f.id == 1)
      h->values = thrift_int(t);
    else if (f.id == 2)
      h->encoding = thrift_int(t);
    else
      thrift_skip(t, f.type, false, 0);
}

static void read_second_header(thrift *t, page_header *h) {
  for (thrift_field f = {0}; thrift_next(t, &f);) switch (f.id) {
      case 1: h->values = thrift_int(t); break;
      case 4: h->encoding = thrift_int(t); break;
      case 5: h->level_bytes = thrift_int(t); break;
      case 6: h->repeat_bytes = thrift_int(t); break;
      case 7: h->packed = f.type == THRIFT_TRUE; break;
      default: thrift_skip(t, f.type, false, 0);
    }
}

/* *used: bytes that the header takes. */
static bool read_header(const uint8_t *bytes, size_t n, page_header *h, size_t *used) {
  thrift t = {bytes, bytes + n, false};
  *h = (page_header){.type = -1, .bytes = -1, .packed_bytes = -1, .values = -1, .encoding = -1, .packed = true};
  for (thrift_field f = {0}; thrift_next(&t, &f);) switch (f.id) {
      case 1: h->type = thrift_int(&t); break;
      case 2: h->bytes = thrift_int(&t); break;
      case 3: h->packed_bytes = thrift_int(&t); break;
      case 5:
      case 7: read_data_header(&t, h); break;
      case 8: read_second_header(&t, h); break;
      default: thrift_skip(&t, f.type, false, 0);
    }
  *used = (size_t)(t.at - bytes);
  return !t.failed && h->bytes >= 0 && h->packed_bytes >= 0 && h->bytes <= PAGE_MAX && h->packed_bytes <= PAGE_MAX;
}

static bool inflate_all(const uint8_t *in, size_t n, uint8_t *out, size_t size) {
  z_stream z = {.next_in = (Bytef *)in, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)size};
  if (inflateInit2(&z, MAX_WBITS + 32) != Z_OK) return false;
  const int result = inflate(&z, Z_FINISH);
  inflateEnd(&z);
  return result == Z_STREAM_END && !z.avail_out;
}

static shoal_status decompress(parquet_cursor *c, const uint8_t *in, size_t n, uint8_t *out, size_t size) {
  bool good = false;
  switch (c->chunk.codec) {
    case UNCOMPRESSED:
      good = n == size;
      if (good && n) memcpy(out, in, n);
      break;
    case SNAPPY: good = snappy_decompress(in, n, out, size); break;
    case GZIP: good = inflate_all(in, n, out, size); break;
#ifdef SHOAL_ZSTD
    case ZSTD: good = ZSTD_decompress(out, size, in, n) == size; break;
#endif
    default:
      return status_make(SHOAL_ERR_INPUT,
                         "%s: column '%s' is compressed in a way that is not read here (codec %d): write the file with "
                         "snappy or gzip",
                         c->file->name, c->column->name, c->chunk.codec);
  }
  return good ? NULL : damaged(c, "a page does not decompress");
}

static shoal_status reserve(uint8_t **buffer, size_t *room, size_t n) {
  if (n <= *room) return NULL;
  free(*buffer);
  *buffer = NULL;
  *room = 0;
  if (!(*buffer = malloc(n))) return status_no_memory();
  *room = n;
  return NULL;
}

/* The header of the next page; the chunk then begins with its bytes. */
static shoal_status next_header(parquet_cursor *c, page_header *h) {
  const size_t n = (size_t)MIN_OF(c->chunk.bytes, (uint64_t)HEADER_MAX);
  size_t used;
  TRY(reserve(&c->packed, &c->packed_room, HEADER_MAX));
  /* Most headers are short: statistics alone make them long. */
  for (size_t look = MIN_OF(n, (size_t)256);; look = n) {
    TRY(c->file->read(c->file->context, c->chunk.offset, look, c->packed));
    if (read_header(c->packed, look, h, &used)) break;
    if (look == n) return damaged(c, "the header of a page is damaged");
  }
  c->chunk.offset += used;
  c->chunk.bytes -= used;
  if ((uint64_t)h->packed_bytes > c->chunk.bytes) return damaged(c, "a page is cut short");
  return NULL;
}

/* Its bytes as they are in the file. */
static shoal_status read_packed(parquet_cursor *c, const page_header *h) {
  TRY(reserve(&c->packed, &c->packed_room, (size_t)MAX_OF(h->packed_bytes, (int64_t)1)));
  TRY(c->file->read(c->file->context, c->chunk.offset, (size_t)h->packed_bytes, c->packed));
  c->chunk.offset += (uint64_t)h->packed_bytes;
  c->chunk.bytes -= (uint64_t)h->packed_bytes;
  return NULL;
}

/* A value as PLAIN encoding has it. */
static bool take_plain(const parquet_column *column, const uint8_t **at, const uint8_t *end, parquet_slice *out) {
  static const uint8_t sizes[PARQUET_TYPES] = {
      [PARQUET_INT32] = 4, [PARQUET_INT64] = 8, [PARQUET_FLOAT] = 4, [PARQUET_DOUBLE] = 8};
  size_t n = column->type == PARQUET_FIXED_BYTES ? (size_t)column->length : sizes[column->type];
  if (column->type == PARQUET_BYTES) {
    if (end - *at < 4) return false;
    n = u32_at(*at);
    *at += 4;
  }
  if (n > (size_t)(end - *at)) return false;
  *out = (parquet_slice){*at, n};
  *at += n;
  return true;
}

static shoal_status read_dictionary(parquet_cursor *c, const page_header *h) {
  TRY(read_packed(c, h));
  if (h->values < 0 || h->values > h->bytes + 1 || c->column->type == PARQUET_BOOLEAN)
    return damaged(c, "the dictionary is damaged");
  free(c->words);
  free(c->dictionary);
  c->dictionary_count = 0;
  c->dictionary = NULL;
  if (!(c->words = malloc((size_t)h->bytes + 1))) return status_no_memory();
  if (!(c->dictionary = calloc((size_t)h->values + 1, sizeof *c->dictionary))) return status_no_memory();
  TRY(decompress(c, c->packed, (size_t)h->packed_bytes, c->words, (size_t)h->bytes));
  const uint8_t *at = c->words, *end = c->words + h->bytes;
  for (; c->dictionary_count < h->values; c->dictionary_count++)
    if (!take_plain(c->column, &at, end, &c->dictionary[c->dictionary_count]))
      return damaged(c, "the dictionary is cut short");
  return NULL;
}

/* Sets up the values that begin at `at`. */
static shoal_status begin_values(parquet_cursor *c, const uint8_t *at, const uint8_t *end) {
  c->at = at;
  c->end = end;
  c->bit = 0;
  switch (c->encoding) {
    case PLAIN: return NULL;
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY:
      if (at >= end || *at > 32)
        return at >= end && !c->page_left ? NULL : damaged(c, "the indices of a page are damaged");
      c->indices = runs_over(at + 1, end, *at);
      return NULL;
    case RLE: /* truth values of newer files */
      if (c->column->type != PARQUET_BOOLEAN || end - at < 4) break;
      c->indices = runs_over(at + 4, end, 1);
      return NULL;
    default: break;
  }
  return status_make(SHOAL_ERR_INPUT,
                     "%s: column '%s' is written in an encoding that is not read here (%d): write the file with "
                     "dictionaries or plain values",
                     c->file->name, c->column->name, c->encoding);
}

static shoal_status begin_data(parquet_cursor *c, const page_header *h) {
  if (h->values < 0) return damaged(c, "the header of a page is damaged");
  TRY(read_packed(c, h));
  const bool second = h->type == DATA_PAGE_V2;
  const int64_t before = second ? h->level_bytes + h->repeat_bytes : 0;
  if (h->level_bytes < 0 || h->repeat_bytes < 0 || before > h->packed_bytes || before > h->bytes)
    return damaged(c, "the header of a page is damaged");
  TRY(reserve(&c->page, &c->page_room, (size_t)h->bytes + 1));
  if (before) memcpy(c->page, c->packed, (size_t)before);
  const size_t packed = (size_t)(h->packed_bytes - before), bytes = (size_t)(h->bytes - before);
  if (second && !h->packed) {
    if (packed != bytes) return damaged(c, "a page is cut short");
    memcpy(c->page + before, c->packed + before, packed);
  } else if (packed || bytes) {
    TRY(decompress(c, c->packed + before, packed, c->page + before, bytes));
  }
  const uint8_t *at = c->page, *end = c->page + h->bytes;
  c->page_left = h->values;
  c->encoding = (int)h->encoding;
  c->has_levels = c->column->optional;
  if (second) {
    at += h->repeat_bytes;
    c->levels = runs_over(at, at + h->level_bytes, 1);
    at += h->level_bytes;
  } else if (c->has_levels) {
    if (end - at < 4 || u32_at(at) > (size_t)(end - at - 4)) return damaged(c, "the levels of a page are damaged");
    const uint32_t n = u32_at(at);
    c->levels = runs_over(at + 4, at + 4 + n, 1);
    at += 4 + n;
  }
  return begin_values(c, at, end);
}

static shoal_status next_page(parquet_cursor *c) {
  while (!c->page_left) {
    page_header h;
    if (!c->chunk.bytes) return damaged(c, "the column ends before its last value");
    TRY(next_header(c, &h));
    if (h.type == DICTIONARY_PAGE) {
      TRY(read_dictionary(c, &h));
    } else if (h.type == DATA_PAGE || h.type == DATA_PAGE_V2) {
      TRY(begin_data(c, &h));
    } else {
      c->chunk.offset += (uint64_t)h.packed_bytes;
      c->chunk.bytes -= (uint64_t)h.packed_bytes;
    }
  }
  return NULL;
}

/* ---- values */

void parquet_cursor_begin(parquet_cursor *c, const parquet_bytes *file, const parquet_column *column,
                          const parquet_chunk *chunk) {
  parquet_cursor_fini(c);
  c->file = file;
  c->column = column;
  c->chunk = *chunk;
}

static shoal_status take_value(parquet_cursor *c, parquet_slice *out) {
  uint32_t number;
  if (c->encoding == PLAIN && c->column->type == PARQUET_BOOLEAN) {
    if (c->bit / 8 >= c->end - c->at) return damaged(c, "a page is cut short");
    *out = (parquet_slice){c->at[c->bit / 8] >> c->bit % 8 & 1 ? &one : &zero, 1};
    c->bit++;
    return NULL;
  }
  if (c->encoding == PLAIN)
    return take_plain(c->column, &c->at, c->end, out) ? NULL : damaged(c, "a page is cut short");
  if (!next_number(&c->indices, &number)) return damaged(c, "the indices of a page are cut short");
  if (c->encoding == RLE) {
    *out = (parquet_slice){number ? &one : &zero, 1};
    return NULL;
  }
  if (number >= c->dictionary_count) return damaged(c, "an index is beyond the dictionary");
  *out = c->dictionary[number];
  return NULL;
}

shoal_status parquet_cursor_next(parquet_cursor *c, parquet_slice *out) {
  TRY(next_page(c));
  c->page_left--;
  uint32_t there = 1;
  if (c->has_levels && !next_number(&c->levels, &there)) return damaged(c, "the levels of a page are cut short");
  if (there) return take_value(c, out);
  *out = (parquet_slice){0};
  return NULL;
}

void parquet_cursor_fini(parquet_cursor *c) {
  free(c->packed);
  free(c->page);
  free(c->words);
  free(c->dictionary);
  *c = (parquet_cursor){0};
}
