#include "data/npy.h"

#include "base/mem.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
  HEADER_MAX = 1 << 20, /* bytes of text; NumPy's own is below 200 */
  WRITTEN_HEADER = 256  /* what the writer leaves for it: enough for any shape; a multiple of 64, as NumPy has it */
};

static const char magic[6] = "\x93NUMPY";

/* ---- the header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } */

typedef struct {
  const char *at, *end;
} parser;

static void blanks(parser *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')) p->at++;
}

static bool take(parser *p, const char *literal) {
  size_t n = strlen(literal);
  blanks(p);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, literal, n)) return false;
  p->at += n;
  return true;
}

/* 'text' or "text" */
static bool take_string(parser *p, char *out, size_t room) {
  blanks(p);
  if (p->at == p->end || (*p->at != '\'' && *p->at != '"')) return false;
  char quote = *p->at++;
  const char *close = memchr(p->at, quote, (size_t)(p->end - p->at));
  if (!close || (size_t)(close - p->at) >= room) return false;
  memcpy(out, p->at, (size_t)(close - p->at));
  out[close - p->at] = 0;
  p->at = close + 1;
  return true;
}

static bool take_number(parser *p, int64_t *out) {
  blanks(p);
  int64_t n = 0;
  const char *start = p->at;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
    if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p->at - '0', &n)) return false;
  *out = n;
  return p->at > start;
}

/* (), (3,), (3, 4) */
static bool take_shape(parser *p, shoal_shape *out) {
  *out = (shoal_shape){0};
  if (!take(p, "(")) return false;
  while (!take(p, ")")) {
    if (out->rank == SHOAL_MAX_RANK || !take_number(p, &out->dim[out->rank])) return false;
    out->rank++;
    if (!take(p, ",")) return out->rank > 1 && take(p, ")");
  }
  return true;
}

/* '<f4': byte order, kind, bytes. */
static bool take_type(const char *type, npy_header *h) {
  static const struct {
    char kind;
    const char *sizes;
  } kinds[] = {{'b', "1"}, {'u', "1248"}, {'i', "1248"}, {'f', "248"}};
  if (strlen(type) != 3 || !strchr("<>|=", type[0])) return false;
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (type[1] == kinds[i].kind && strchr(kinds[i].sizes, type[2])) {
      h->kind = type[1];
      h->size = type[2] - '0';
      h->big_endian = type[0] == '>' && h->size > 1;
      return true;
    }
  return false;
}

/* NULL: all is right; else what was expected. */
static const char *parse(const char *header, size_t n, npy_header *h) {
  parser p = {header, header + n};
  char key[32], type[32] = "";
  bool have_type = false, have_order = false, have_shape = false;
  if (!take(&p, "{")) return "expected a header like {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
  while (!take(&p, "}")) {
    if (!take_string(&p, key, sizeof key) || !take(&p, ":")) return "expected 'descr', 'fortran_order' or 'shape'";
    if (!strcmp(key, "descr") && !have_type) {
      if (!take_string(&p, type, sizeof type)) return "expected a simple type: arrays of records are not read";
      have_type = true;
    } else if (!strcmp(key, "fortran_order") && !have_order) {
      h->by_columns = take(&p, "True");
      if (!h->by_columns && !take(&p, "False")) return "expected True or False for 'fortran_order'";
      have_order = true;
    } else if (!strcmp(key, "shape") && !have_shape) {
      if (!take_shape(&p, &h->shape)) return "expected a 'shape' like (3, 4), of at most 6 dimensions";
      have_shape = true;
    } else {
      return "expected each of 'descr', 'fortran_order' and 'shape' once";
    }
    if (!take(&p, ",")) {
      if (!take(&p, "}")) return "expected a comma or the closing brace";
      break;
    }
  }
  blanks(&p);
  if (p.at != p.end) return "expected nothing but blanks behind the closing brace";
  if (!have_type || !have_order || !have_shape) return "expected each of 'descr', 'fortran_order' and 'shape' once";
  h->single = !h->shape.rank;
  if (h->single) h->shape = SHOAL_SHAPE(1);
  int wide = 0; /* axes behind the first with more than one element */
  for (int i = 1; i < h->shape.rank; i++) wide += h->shape.dim[i] != 1;
  if (!wide) h->by_columns = false; /* the same either way */
  if (take_type(type, h)) return NULL;
  return "expected numbers or bools, such as '<f4' or '|u1': convert it with x.astype('<f4')";
}

static shoal_status cut_short(const char *name, uint64_t at) {
  return status_make(SHOAL_ERR_INPUT, "%s: byte %llu: the file ends inside the header of a .npy file: create it again",
                     name, (unsigned long long)at);
}

static shoal_status check_size(const stream *s, const char *name, npy_header *h) {
  char shape[SHOAL_SHAPE_TEXT];
  uint64_t row = (uint64_t)h->size, total;
  bool overflow = false;
  for (int i = 1; i < h->shape.rank; i++) {
    overflow |= __builtin_mul_overflow(row, (uint64_t)h->shape.dim[i], &row);
    overflow |= row > NPY_ROW_MAX;
  }
  overflow |= __builtin_mul_overflow(row, (uint64_t)h->shape.dim[0], &total) || total > INT64_MAX / 2;
  shoal_shape_text(&h->shape, shape);
  if (overflow || (!row && h->shape.dim[0]))
    return status_make(SHOAL_ERR_INPUT, "%s: byte 10: the shape %s is %s: the file is corrupted", name, shape,
                       overflow ? "more than can be read" : "one of rows without numbers");
  uint64_t have = stream_size(s), want = h->data_offset + total;
  if (have != UINT64_MAX && have < want)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: byte %llu: the file ends here, but its header declares %s, %llu bytes in "
                       "all: it is cut short, create it again",
                       name, (unsigned long long)have, shape, (unsigned long long)want);
  if (have != UINT64_MAX && have > want)
    return status_make(SHOAL_ERR_INPUT, "%s: byte %llu: the array %s ends here, but the file goes on: create it again",
                       name, (unsigned long long)want, shape);
  h->row_bytes = row;
  return NULL;
}

shoal_status npy_read_header(stream *s, const char *name, npy_header *out) {
  const uint8_t *at;
  size_t have;
  npy_header h = {0};
  TRY(stream_fill(s, 12, &at, &have));
  if (have >= sizeof magic && memcmp(at, magic, sizeof magic))
    return status_make(SHOAL_ERR_INPUT,
                       "%s: byte 0: expected a .npy file, which starts with 93 'NUMPY', found %02x "
                       "%02x: save it with numpy.save",
                       name, at[0], at[1]);
  if (have < 12) return cut_short(name, have);
  int version = at[6];
  if (version < 1 || version > 3 || at[7])
    return status_make(SHOAL_ERR_INPUT,
                       "%s: byte 6: expected version 1.0, 2.0 or 3.0, found %d.%d: save it with "
                       "numpy.save",
                       name, version, at[7]);
  size_t start = version == 1 ? 10 : 12, length = (size_t)at[8] | (size_t)at[9] << 8;
  if (version > 1) length |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
  if (length > HEADER_MAX)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: byte 8: its header claims %zu bytes, at most %d are read: the file "
                       "is corrupted",
                       name, length, HEADER_MAX);
  TRY(stream_fill(s, start + length, &at, &have));
  if (have < start + length) return cut_short(name, have);
  const char *problem = parse((const char *)at + start, length, &h);
  if (problem) return status_make(SHOAL_ERR_INPUT, "%s: byte %zu: in the header: %s", name, start, problem);
  h.data_offset = start + length;
  TRY(check_size(s, name, &h));
  stream_advance(s, start + length);
  *out = h;
  return NULL;
}

/* Half precision: a sign, 5 bits of exponent, 10 of fraction. */
static double half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(fraction + 1024, exponent - 25);
  return bits >> 15 ? -value : value;
}

double npy_element(const npy_header *h, const uint8_t *from, size_t i) {
  const uint8_t *p = from + i * (size_t)h->size;
  uint64_t bits = 0;
  for (int k = 0; k < h->size; k++) bits |= (uint64_t)p[h->big_endian ? h->size - 1 - k : k] << 8 * k;
  if (h->kind == 'i') {
    int unused = 64 - 8 * h->size;
    return (double)((int64_t)(bits << unused) >> unused);
  }
  if (h->kind != 'f') return (double)bits;
  if (h->size == 2) return half_value((uint16_t)bits);
  float f4;
  double f8;
  uint32_t low = (uint32_t)bits;
  if (h->size == 4) return memcpy(&f4, &low, 4), f4;
  return memcpy(&f8, &bits, 8), f8;
}

/* ---- writing */

struct npy_writer {
  FILE *file;
  char *path;
  shoal_dtype dtype;
  shoal_shape row;
  size_t row_bytes;
  int64_t rows;
};

static shoal_status write_failed(const npy_writer *w) {
  return status_make(SHOAL_ERR_SYSTEM, "%s: cannot write: %s", w->path, strerror(errno));
}

static shoal_status write_header(npy_writer *w) {
  static const char *const names[SHOAL_DTYPE_COUNT] = {
      [SHOAL_F32] = "<f4", [SHOAL_F64] = "<f8", [SHOAL_I32] = "<i4", [SHOAL_I64] = "<i8", [SHOAL_U8] = "|u1"};
  char header[WRITTEN_HEADER];
  int length = WRITTEN_HEADER - 10;
  memcpy(header, magic, sizeof magic);
  header[6] = 1;
  header[7] = 0;
  header[8] = (char)length;
  header[9] = 0;
  memset(header + 10, ' ', (size_t)length);
  int n = 10 + snprintf(header + 10, (size_t)length, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,",
                        names[w->dtype], (long long)w->rows);
  for (int i = 0; i < w->row.rank; i++)
    n += snprintf(header + n, (size_t)(WRITTEN_HEADER - n), " %lld%s", (long long)w->row.dim[i],
                  i + 1 < w->row.rank ? "," : "");
  n += snprintf(header + n, (size_t)(WRITTEN_HEADER - n), "), }");
  header[n] = ' '; /* in place of the NUL */
  header[WRITTEN_HEADER - 1] = '\n';
  return fwrite(header, 1, sizeof header, w->file) == sizeof header ? NULL : write_failed(w);
}

static void release(npy_writer *w) {
  if (w->file) fclose(w->file);
  free(w->path);
  free(w);
}

shoal_status npy_writer_open(const char *path, shoal_dtype dtype, const shoal_shape *row, npy_writer **out) {
  if (dtype == SHOAL_BOOL || row->rank >= SHOAL_MAX_RANK)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: rows of %s with %d dimensions cannot be written as .npy", path,
                       shoal_dtype_name(dtype), row->rank);
  npy_writer *w = calloc(1, sizeof *w);
  if (!w) return status_no_memory();
  shoal_status status = NULL;
  w->dtype = dtype;
  w->row = *row;
  w->row_bytes = (size_t)shoal_shape_count(row) * shoal_dtype_size(dtype);
  w->path = strdup(path);
  if (!w->path) status = status_no_memory();
  if (!status) {
    w->file = fopen(path, "wbe");
    status = w->file ? write_header(w)
                     : status_make(SHOAL_ERR_SYSTEM, "%s: cannot create the file: %s", path, strerror(errno));
  }
  if (status)
    release(w);
  else
    *out = w;
  return status;
}

shoal_status npy_write(npy_writer *w, const void *rows, int64_t count) {
  if (count && fwrite(rows, w->row_bytes, (size_t)count, w->file) != (size_t)count) return write_failed(w);
  w->rows += count;
  return NULL;
}

shoal_status npy_writer_close(npy_writer *w) {
  shoal_status status = fseek(w->file, 0, SEEK_SET) ? write_failed(w) : write_header(w);
  FILE *file = w->file;
  w->file = NULL;
  if (fclose(file) && !status) status = write_failed(w);
  release(w);
  return status;
}

void npy_writer_abandon(npy_writer *w) {
  if (!w) return;
  unlink(w->path);
  release(w);
}
