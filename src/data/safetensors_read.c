#include "data/safetensors.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied between file and memory as they are");

struct safetensors {
  char *name;
  int fd;                /* -1: memory */
  const uint8_t *memory; /* [size], borrowed */
  uint64_t size;         /* of the file */
  uint64_t data;         /* offset of the data: 8 + header */
  json_t *header;        /* owns names and types of the entries */
  safetensors_entry *entries;
  size_t count;
};

/* Types of the format. Those that are not ours are known by size, so that a file that has some can be opened. */
static const struct {
  const char *name;
  unsigned bits;
  int dtype; /* -1: not ours */
} types[] = {
    {"F32", 32, SHOAL_F32}, {"F64", 64, SHOAL_F64},  {"I32", 32, SHOAL_I32}, {"I64", 64, SHOAL_I64},
    {"U8", 8, SHOAL_U8},    {"BOOL", 8, SHOAL_BOOL}, {"F16", 16, -1},        {"BF16", 16, -1},
    {"I8", 8, -1},          {"I16", 16, -1},         {"U16", 16, -1},        {"U32", 32, -1},
    {"U64", 64, -1},        {"F8_E4M3", 8, -1},      {"F8_E5M2", 8, -1},     {"F8_E8M0", 8, -1},
    {"C64", 64, -1},
};

static shoal_status fail_at(const safetensors *f, uint64_t byte, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static shoal_status fail_at(const safetensors *f, uint64_t byte, const char *format, ...) {
  va_list args;
  va_start(args, format);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, format, args);
  va_end(args);
  return status_wrap(status, "%s: byte %llu", f->name, (unsigned long long)byte);
}

static shoal_status read_at(const safetensors *f, uint64_t offset, void *out, size_t bytes) {
  if (f->fd < 0) {
    if (bytes) memcpy(out, f->memory + offset, bytes);
    return NULL;
  }
  for (size_t done = 0; done < bytes;) {
    ssize_t got = pread(f->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return status_errno(errno, "%s: byte %llu: cannot read", f->name, (unsigned long long)(offset + done));
    if (got == 0) return fail_at(f, offset + done, "the file ends here: it shrank while it was read");
    done += (size_t)got;
  }
  return NULL;
}

static shoal_status load_header(safetensors *f) {
  uint8_t length_bytes[8];
  if (f->size < sizeof length_bytes)
    return fail_at(f, f->size,
                   "the file ends inside the 8 bytes that give the header's length: it is cut short or no "
                   "safetensors file");
  TRY(read_at(f, 0, length_bytes, sizeof length_bytes));
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | length_bytes[i];
  if (length > SAFETENSORS_MAX_HEADER)
    return fail_at(f, 0, "the header's length is given as %llu, at most %d is allowed: this is not a safetensors file",
                   (unsigned long long)length, SAFETENSORS_MAX_HEADER);
  if (length > f->size - 8)
    return fail_at(f, f->size,
                   "the file ends here, but its header alone should have %llu bytes: it is cut short or no "
                   "safetensors file",
                   (unsigned long long)length);
  char *json = malloc(length ? length : 1);
  if (!json) return status_no_memory();
  shoal_status status;
  TRY_GOTO(status, read_at(f, 8, json, length), done);
  if (!length || json[0] != '{') {
    status = fail_at(f, 8, "expected the header, which starts with '{': this is not a safetensors file");
    goto done;
  }
  json_error_t error;
  f->header = json_read(json, length, JSON_REJECT_DUPLICATES, &error);
  if (!f->header) {
    uint64_t where = 8 + (uint64_t)(error.position > 0 ? error.position : 0);
    status = fail_at(f, where, "the header is not valid JSON (%s): the file is corrupted", error.text);
    goto done;
  }
  f->data = 8 + length;
done:
  free(json);
  return status;
}

static shoal_status check_metadata(const safetensors *f, const json_t *map) {
  if (!json_is_object(map)) return fail_at(f, 8, "__metadata__ must be an object of strings: the file is corrupted");
  const char *key;
  json_t *value;
  json_object_foreach ((json_t *)map, key, value) {
    if (!json_is_string(value))
      return fail_at(f, 8, "__metadata__ '%.80s' must be a string: the file is corrupted", key);
  }
  return NULL;
}

static shoal_status parse_shape(const safetensors *f, const char *name, const json_t *list, unsigned bits,
                                safetensors_entry *e) {
  if (!json_is_array(list)) return fail_at(f, 8, "tensor '%.80s': expected \"shape\": [...]", name);
  size_t rank = json_array_size(list);
  if (rank > SHOAL_MAX_RANK)
    return fail_at(f, 8, "tensor '%.80s' has %zu dimensions, more than the %d supported", name, rank, SHOAL_MAX_RANK);
  uint64_t all_bits = bits;
  bool bad = false;
  e->shape.rank = (int)rank;
  for (size_t i = 0; i < rank; i++) {
    const json_t *n = json_array_get(list, i);
    bad |= !json_is_integer(n) || json_integer_value(n) < 0;
    e->shape.dim[i] = bad ? 0 : json_integer_value(n);
    bad |= __builtin_mul_overflow(all_bits, (uint64_t)e->shape.dim[i], &all_bits);
  }
  char shape[SHOAL_SHAPE_TEXT];
  if (bad || all_bits > INT64_MAX)
    return fail_at(f, 8, "tensor '%.80s': its shape must be a list of sizes that memory can hold", name);
  if (e->bytes != all_bits / 8)
    return fail_at(f, e->offset, "tensor '%.80s': %s %s takes %llu bytes, but data_offsets give it %llu", name, e->type,
                   shoal_shape_text(&e->shape, shape), (unsigned long long)(all_bits / 8),
                   (unsigned long long)e->bytes);
  return NULL;
}

static shoal_status parse_entry(const safetensors *f, const char *name, const json_t *row, safetensors_entry *e) {
  e->name = name;
  if (!json_is_object(row)) return fail_at(f, 8, "tensor '%.80s': expected an object: the file is corrupted", name);
  const char *key;
  json_t *value;
  json_object_foreach ((json_t *)row, key, value) {
    (void)value;
    if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
      return fail_at(f, 8, "tensor '%.80s': unknown field '%.80s'", name, key);
  }
  e->type = json_string_value(json_object_get(row, "dtype"));
  if (!e->type) return fail_at(f, 8, "tensor '%.80s': expected \"dtype\": a string", name);
  unsigned bits = 0;
  for (size_t i = 0; i < COUNT_OF(types); i++)
    if (!strcmp(types[i].name, e->type)) {
      bits = types[i].bits;
      e->supported = types[i].dtype >= 0;
      if (e->supported) e->dtype = (shoal_dtype)types[i].dtype;
    }
  if (!bits)
    return fail_at(f, 8, "tensor '%.80s': type '%.20s' is not supported; F32, F64, I32, I64, U8 and BOOL are", name,
                   e->type);

  const json_t *offsets = json_object_get(row, "data_offsets");
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
    return fail_at(f, 8, "tensor '%.80s': expected \"data_offsets\": [begin, end]", name);
  int64_t begin = json_integer_value(first), end = json_integer_value(last);
  uint64_t data = f->size - f->data;
  if (begin < 0 || end < begin || (uint64_t)end > data)
    return fail_at(f, f->size,
                   "tensor '%.80s' is declared at bytes %lld to %lld of the data, which has %llu bytes: "
                   "the file "
                   "is cut short or corrupted",
                   name, (long long)begin, (long long)end, (unsigned long long)data);
  e->offset = f->data + (uint64_t)begin;
  e->bytes = (uint64_t)(end - begin);
  return parse_shape(f, name, json_object_get(row, "shape"), bits, e);
}

static int by_offset(const void *a, const void *b) {
  const safetensors_entry *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; /* an empty one before the one that starts there */
  return strcmp(x->name, y->name);
}

static shoal_status check_cover(const safetensors *f) {
  uint64_t end = f->data;
  for (size_t i = 0; i < f->count; i++) {
    const safetensors_entry *e = &f->entries[i];
    if (e->offset < end)
      return fail_at(f, e->offset, "tensors '%.80s' and '%.80s' overlap: the file is corrupted", f->entries[i - 1].name,
                     e->name);
    if (e->offset > end)
      return fail_at(f, end, "%llu bytes before tensor '%.80s' belong to no tensor: the file is corrupted",
                     (unsigned long long)(e->offset - end), e->name);
    end += e->bytes;
  }
  if (end != f->size)
    return fail_at(f, end, "the last tensor ends here, but the file has %llu bytes more: it is corrupted",
                   (unsigned long long)(f->size - end));
  return NULL;
}

static shoal_status parse(safetensors *f) {
  TRY(load_header(f));
  f->entries = calloc(json_object_size(f->header) + 1, sizeof *f->entries);
  if (!f->entries) return status_no_memory();
  const char *name;
  json_t *row;
  json_object_foreach (f->header, name, row) {
    if (!strcmp(name, "__metadata__")) {
      TRY(check_metadata(f, row));
    } else {
      TRY(parse_entry(f, name, row, &f->entries[f->count]));
      f->count++;
    }
  }
  qsort(f->entries, f->count, sizeof *f->entries, by_offset);
  return check_cover(f);
}

/* NULL when memory is short. */
static safetensors *create(const char *name) {
  safetensors *f = calloc(1, sizeof *f);
  char *copy = strdup(name);
  if (!f || !copy) {
    free(copy);
    free(f);
    return NULL;
  }
  f->name = copy;
  f->fd = -1;
  return f;
}

shoal_status safetensors_open(const char *path, safetensors **out) {
  safetensors *f = create(path);
  if (!f) return status_no_memory();
  shoal_status status;
  struct stat info;
  f->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (f->fd < 0) {
    status = status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
  } else if (fstat(f->fd, &info)) {
    status = status_errno(errno, "%s: cannot find its size", path);
  } else if (!S_ISREG(info.st_mode)) {
    status = status_make(SHOAL_ERR_INPUT, "%s: is not a regular file: give the path of a safetensors file", path);
  } else {
    f->size = (uint64_t)info.st_size;
    status = parse(f);
  }
  if (status)
    safetensors_close(f);
  else
    *out = f;
  return status;
}

shoal_status safetensors_open_memory(const uint8_t *bytes, size_t n, const char *name, safetensors **out) {
  safetensors *f = create(name);
  if (!f) return status_no_memory();
  f->memory = bytes;
  f->size = n;
  shoal_status status = parse(f);
  if (status)
    safetensors_close(f);
  else
    *out = f;
  return status;
}

void safetensors_close(safetensors *file) {
  if (!file) return;
  if (file->fd >= 0) close(file->fd);
  json_decref(file->header);
  free(file->entries);
  free(file->name);
  free(file);
}

size_t safetensors_count(const safetensors *file) { return file->count; }

const safetensors_entry *safetensors_at(const safetensors *file, size_t i) {
  return i < file->count ? &file->entries[i] : NULL;
}

const safetensors_entry *safetensors_find(const safetensors *file, const char *name) {
  for (size_t i = 0; i < file->count; i++)
    if (!strcmp(file->entries[i].name, name)) return &file->entries[i];
  return NULL;
}

json_t *safetensors_metadata(const safetensors *file) { return json_object_get(file->header, "__metadata__"); }

static shoal_status no_such(const safetensors *f, const char *name) {
  const char **names = calloc(f->count + 1, sizeof *names);
  if (!names) return status_no_memory();
  for (size_t i = 0; i < f->count; i++) names[i] = f->entries[i].name;
  const char *nearest = text_nearest(name, names, f->count);
  shoal_status status = status_make(SHOAL_ERR_INPUT, "%s: no tensor '%s' among its %zu%s%s%s", f->name, name, f->count,
                                    nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
  free(names);
  return status;
}

shoal_status safetensors_check(const safetensors *file, const char *name, const shoal_tensor *like) {
  const safetensors_entry *e = safetensors_find(file, name);
  if (!e) return no_such(file, name);
  if (!e->supported)
    return fail_at(file, e->offset,
                   "tensor '%s' has type %s, which is not supported; F32, F64, I32, I64, U8 and BOOL "
                   "are",
                   name, e->type);
  char found[SHOAL_SHAPE_TEXT], wanted[SHOAL_SHAPE_TEXT];
  if (e->dtype != like->dtype || !shoal_shape_equal(&e->shape, &like->shape))
    return fail_at(file, e->offset, "tensor '%s' is %s %s, but %s %s is wanted: the file belongs to another model",
                   name, shoal_dtype_name(e->dtype), shoal_shape_text(&e->shape, found), shoal_dtype_name(like->dtype),
                   shoal_shape_text(&like->shape, wanted));
  return NULL;
}

shoal_status safetensors_read_part(safetensors *file, const char *name, uint64_t first, size_t bytes, void *into) {
  const safetensors_entry *e = safetensors_find(file, name);
  if (!e) return no_such(file, name);
  if (first > e->bytes || bytes > e->bytes - first)
    return fail_at(file, e->offset,
                   "tensor '%s' has %llu bytes; %llu from %llu on are wanted: the file belongs to "
                   "another model",
                   name, (unsigned long long)e->bytes, (unsigned long long)bytes, (unsigned long long)first);
  return status_wrap(read_at(file, e->offset + first, into, bytes), "tensor '%s'", name);
}

shoal_status safetensors_read(safetensors *file, const char *name, shoal_tensor *into) {
  if (into->rows) return status_make(SHOAL_ERR_ARGUMENT, "tensor '%s' cannot be read into a view of picked rows", name);
  TRY(safetensors_check(file, name, into));
  const safetensors_entry *e = safetensors_find(file, name);
  TRY(status_wrap(read_at(file, e->offset, into->data, e->bytes), "tensor '%s'", name));
  if (e->dtype == SHOAL_BOOL) {
    const uint8_t *bytes = into->data;
    for (uint64_t i = 0; i < e->bytes; i++)
      if (bytes[i] > 1)
        return fail_at(file, e->offset + i,
                       "tensor '%s' is bool, but holds %d where 0 or 1 is expected: the file is "
                       "corrupted",
                       name, bytes[i]);
  }
  return NULL;
}

/* ---- checksums */

#define PIECE ((size_t)1 << 20) /* bytes */

/* Where the digits stand in the file. */
static shoal_status find_digits(const safetensors *f, const char *said, uint64_t *out) {
  char wanted[64];
  const size_t length = f->data - 8;
  char *header = malloc(length + 1);
  if (!header) return status_no_memory();
  shoal_status status = read_at(f, 8, header, length);
  header[length] = 0;
  snprintf(wanted, sizeof wanted, "\"" SAFETENSORS_CHECKSUM "\":\"%.32s\"", said);
  const char *found = status ? NULL : strstr(header, wanted);
  if (!status &&
      (strlen(said) != strlen(SAFETENSORS_NO_CHECKSUM) || strncmp(said, SAFETENSORS_NO_CHECKSUM, 7) || !found))
    status = fail_at(f, 8, "the checksum in the metadata cannot be read: the file is corrupted");
  if (!status) *out = 8 + (uint64_t)(found - header) + strlen(wanted) - 1 - 8;
  free(header);
  return status;
}

/* Zeros in place of the digits that lie in bytes [from, from + n). */
static void blank_digits(uint8_t *piece, uint64_t from, size_t n, uint64_t digits) {
  for (uint64_t at = digits; at < digits + 8; at++)
    if (at >= from && at < from + n) piece[at - from] = '0';
}

static shoal_status sum_file(const safetensors *f, uint64_t digits, uint32_t *out) {
  uint8_t *piece = malloc(PIECE);
  shoal_status status = piece ? NULL : status_no_memory();
  uint32_t crc = 0;
  for (uint64_t at = 0; at < f->size && !status; at += PIECE) {
    const size_t n = MIN_OF((uint64_t)PIECE, f->size - at);
    status = read_at(f, at, piece, n);
    if (status) break;
    blank_digits(piece, at, n, digits);
    crc = crc32c(crc, piece, n);
  }
  free(piece);
  *out = crc;
  return status;
}

shoal_status safetensors_verify(const safetensors *f) {
  const json_t *metadata = safetensors_metadata(f);
  const char *said = json_string_value(json_object_get(metadata, SAFETENSORS_CHECKSUM));
  if (!said && json_object_get(metadata, SAFETENSORS_WRITTEN_BY))
    return fail_at(f, 8, "the checksum is missing: the file is corrupted");
  if (!said) return NULL;
  uint64_t digits;
  uint32_t crc;
  char expected[24];
  TRY(find_digits(f, said, &digits));
  TRY(sum_file(f, digits, &crc));
  snprintf(expected, sizeof expected, "crc32c:%08x", (unsigned)crc);
  if (!strcmp(expected, said)) return NULL;
  return status_make(SHOAL_ERR_INPUT, "%s: the file is corrupted: its checksum is %s, but it should be %s", f->name,
                     expected, said);
}
