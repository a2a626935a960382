#include "base/mem.h"
#include "base/text.h"
#include "data/hdf5.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as they lie");

enum {
  DEPTH_MAX = 32,         /* groups inside groups, blocks after blocks */
  DATASETS_MAX = 1 << 18, /* in a file */
  PATH_MAX_BYTES = 4096,
  WORD = 8 /* bytes of an offset or a length: files of other sizes are not read */
};
/* Kinds of messages in an object's header. */
enum {
  MESSAGE_SPACE = 1,
  MESSAGE_LINK_INFO = 2,
  MESSAGE_TYPE = 3,
  MESSAGE_LINK = 6,
  MESSAGE_LAYOUT = 8,
  MESSAGE_FILTERS = 11,
  MESSAGE_MORE = 16,
  MESSAGE_TABLE = 17
};
#define NOWHERE UINT64_MAX

struct hdf5_file {
  const char *name; /* for messages, borrowed */
  const uint8_t *bytes;
  size_t n;
  hdf5_dataset *datasets;
  size_t count, capacity;
  size_t steps; /* objects, messages and nodes so far: a file of n bytes has fewer, unless it goes round in circles */
};

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

static shoal_status damaged(const hdf5_file *f, uint64_t at, const char *what) {
  return status_make(SHOAL_ERR_INPUT, "%s: byte %llu: %s: the HDF5 file is damaged or cut short, save it again",
                     f->name, (unsigned long long)at, what);
}

static shoal_status not_read(const hdf5_file *f, const char *what) {
  return status_make(SHOAL_ERR_INPUT, "%s: %s: save the weights as Keras does (h5py with standard settings)", f->name,
                     what);
}

/* The bytes [at, at + n), or NULL. */
static const uint8_t *part(const hdf5_file *f, uint64_t at, uint64_t n) {
  return at <= f->n && n <= f->n - at ? f->bytes + at : NULL;
}

static shoal_status count_step(hdf5_file *f, uint64_t at) {
  return ++f->steps > f->n ? damaged(f, at, "groups that have no end") : NULL;
}

/* ---- an object: a group or a dataset, by the messages in its header */

typedef struct {
  hdf5_dataset dataset;
  bool has_space, has_type, has_layout;
  uint64_t data, bytes; /* of a dataset, in the file; data NOWHERE: never written */
  uint64_t tree, heap;  /* of a group with a table of names; NOWHERE: none */
  const char *path;     /* of the object */
  int depth;
} object;

static shoal_status read_object(hdf5_file *f, uint64_t at, const char *path, int depth);

static shoal_status read_link(hdf5_file *f, const object *o, const char *name, size_t length, uint64_t at) {
  char path[PATH_MAX_BYTES];
  int n = snprintf(path, sizeof path, "%s%s%.*s", o->path, *o->path ? "/" : "", (int)MIN_OF(length, sizeof path), name);
  if (n < 0 || (size_t)n >= sizeof path) return not_read(f, "a name is too long");
  return read_object(f, at, path, o->depth + 1);
}

static void read_space(object *o, const uint8_t *p, size_t n) {
  hdf5_dataset *d = &o->dataset;
  if (n < 4) return;
  int version = p[0], rank = p[1];
  size_t head = version == 1 ? 8 : 4;
  if ((version != 1 && version != 2) || n < head + (size_t)rank * WORD) return;
  o->has_space = true;
  d->shape.rank = rank > SHOAL_MAX_RANK ? -1 : rank;
  if (version == 2 && p[3] == 2) d->refusal = "it holds nothing";
  if (rank > SHOAL_MAX_RANK) d->refusal = "it has too many dimensions";
  for (int i = 0; i < d->shape.rank; i++) {
    uint64_t dim = u64(p + head + (size_t)i * WORD);
    d->shape.dim[i] = dim > INT64_MAX / 8 ? INT64_MAX / 8 : (int64_t)dim;
  }
}

static void read_type(object *o, const uint8_t *p, size_t n) {
  hdf5_dataset *d = &o->dataset;
  if (n < 8) return;
  int kind = p[0] & 15, big_endian = p[1] & 1;
  uint32_t size = u32(p + 4);
  o->has_type = true;
  d->kind = HDF5_OTHER;
  d->bytes = (int)MIN_OF(size, (uint32_t)INT32_MAX);
  if (size != 1 && size != 2 && size != 4 && size != 8) kind = -1;
  if (kind == 0) d->kind = p[1] & 8 ? HDF5_SIGNED : HDF5_UNSIGNED;
  if (kind == 1 && size > 1 && n >= 20) {
    d->kind = HDF5_FLOAT;
    int exponent = p[13];
    d->bfloat = size == 2 && exponent == 8;
    if (exponent != (size == 8 ? 11 : size == 4 || d->bfloat ? 8 : 5)) d->kind = HDF5_OTHER;
  }
  if (d->kind == HDF5_OTHER) d->refusal = "its elements are neither integers nor floats";
  if (big_endian && d->kind != HDF5_OTHER) d->refusal = "its numbers are big-endian";
}

static shoal_status read_layout(hdf5_file *f, object *o, const uint8_t *p, size_t n, uint64_t at) {
  hdf5_dataset *d = &o->dataset;
  o->has_layout = true;
  if (n < 2 || (p[0] != 3 && p[0] != 4) || p[1] > 1) {
    d->refusal = "it is stored in chunks";
    return NULL;
  }
  if (p[1] == 0) { /* in the header itself */
    if (n < 4 || n - 4 < u16(p + 2)) return damaged(f, at, "a dataset is cut short");
    o->bytes = u16(p + 2);
    o->data = at + 4;
  } else {
    if (n < 2 + 2 * WORD) return damaged(f, at, "a dataset is cut short");
    o->data = u64(p + 2);
    o->bytes = u64(p + 2 + WORD);
  }
  return NULL;
}

/* A name and where its object is; soft and external links lead nowhere. */
static shoal_status read_link_message(hdf5_file *f, const object *o, const uint8_t *p, size_t n, uint64_t at) {
  if (n < 2 || p[0] != 1) return damaged(f, at, "a link of an unknown version");
  int flags = p[1], kind = 0;
  size_t used = 2, width = (size_t)1 << (flags & 3);
  if (flags & 8) {
    if (n < used + 1) return damaged(f, at, "a link is cut short");
    kind = p[used++];
  }
  used += (flags & 4 ? 8 : 0) + (flags & 16 ? 1 : 0);
  if (n < used + width) return damaged(f, at, "a link is cut short");
  uint64_t length = 0;
  memcpy(&length, p + used, width);
  used += width;
  if (length > n - used || (kind == 0 && n - used - length < WORD)) return damaged(f, at, "a link is cut short");
  if (kind) return NULL;
  return read_link(f, o, (const char *)p + used, (size_t)length, u64(p + used + length));
}

static shoal_status read_message(hdf5_file *f, object *o, int kind, const uint8_t *p, size_t n) {
  uint64_t at = (uint64_t)(p - f->bytes);
  switch (kind) {
    case MESSAGE_SPACE: read_space(o, p, n); break;
    case MESSAGE_TYPE: read_type(o, p, n); break;
    case MESSAGE_LAYOUT: return read_layout(f, o, p, n, at);
    case MESSAGE_FILTERS: o->dataset.refusal = "it is compressed"; break;
    case MESSAGE_LINK: return read_link_message(f, o, p, n, at);
    case MESSAGE_LINK_INFO:
      if (n < 2 || n < 2 + 2 * WORD + (p[1] & 1 ? 8u : 0)) return damaged(f, at, "a group is cut short");
      if (u64(p + 2 + (p[1] & 1 ? 8 : 0)) != NOWHERE) return not_read(f, "a group keeps its names in a heap");
      break;
    case MESSAGE_TABLE:
      if (n < 2 * WORD) return damaged(f, at, "a group is cut short");
      o->tree = u64(p);
      o->heap = u64(p + WORD);
      break;
    default: break;
  }
  return NULL;
}

/* The messages of one block; where it says that there are more, those of the next. version: of the header. tracked:
 * messages have a number of two bytes. */
static shoal_status read_block(hdf5_file *f, object *o, uint64_t at, uint64_t n, int version, bool tracked,
                               int blocks) {
  const uint8_t *p = part(f, at, n), *end = p ? p + n : NULL;
  if (!p) return damaged(f, at, "a header lies behind the end of the file");
  if (blocks > DEPTH_MAX) return damaged(f, at, "a header has too many blocks");
  size_t head = version == 1 ? 8 : tracked ? 6 : 4;
  while ((size_t)(end - p) >= head) {
    TRY(count_step(f, at));
    int kind = version == 1 ? u16(p) : p[0];
    size_t length = version == 1 ? u16(p + 2) : u16(p + 1);
    bool shared = (version == 1 ? p[4] : p[3]) & 2;
    p += head;
    if (length > (size_t)(end - p)) return damaged(f, (uint64_t)(p - f->bytes), "a message is cut short");
    if (shared && (kind == MESSAGE_SPACE || kind == MESSAGE_TYPE)) return not_read(f, "a dataset shares its type");
    if (kind == MESSAGE_MORE) {
      if (length < 2 * WORD) return damaged(f, (uint64_t)(p - f->bytes), "a message is cut short");
      uint64_t next = u64(p), bytes = u64(p + WORD);
      if (version == 2) {
        const uint8_t *sign = part(f, next, bytes);
        if (!sign || bytes < 8 || memcmp(sign, "OCHK", 4)) return damaged(f, next, "expected more of a header");
        next += 4;
        bytes -= 8;
      }
      TRY(read_block(f, o, next, bytes, version, tracked, blocks + 1));
    } else {
      TRY(read_message(f, o, kind, p, length));
    }
    p += length;
  }
  return NULL;
}

static shoal_status read_header(hdf5_file *f, object *o, uint64_t at) {
  const uint8_t *p = part(f, at, 16);
  if (!p) return damaged(f, at, "an object lies behind the end of the file");
  if (p[0] == 1) return read_block(f, o, at + 16, u32(p + 8), 1, false, 0);
  if (memcmp(p, "OHDR", 4) || p[4] != 2) return damaged(f, at, "expected the header of an object");
  int flags = p[5];
  uint64_t used = 6 + (flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0), width = (uint64_t)1 << (flags & 3), bytes = 0;
  p = part(f, at + used, width);
  if (!p) return damaged(f, at, "an object's header is cut short");
  memcpy(&bytes, p, width);
  return read_block(f, o, at + used + width, bytes, 2, flags & 4, 0);
}

/* ---- groups with a table of names: a tree over nodes of names in a heap */

static shoal_status read_names(hdf5_file *f, const object *o, uint64_t at) {
  const uint8_t *node = part(f, at, 8), *heap = part(f, o->heap, 32);
  if (!node || memcmp(node, "SNOD", 4)) return damaged(f, at, "expected the names of a group");
  if (!heap || memcmp(heap, "HEAP", 4)) return damaged(f, o->heap, "expected the heap of a group");
  uint64_t room = u64(heap + 8);
  const char *words = (const char *)part(f, u64(heap + 24), room);
  if (!words) return damaged(f, o->heap, "a heap lies behind the end of the file");
  size_t count = u16(node + 6);
  const uint8_t *entry = part(f, at + 8, count * 40);
  if (!entry) return damaged(f, at, "the names of a group are cut short");
  for (size_t i = 0; i < count; i++, entry += 40) {
    uint64_t name = u64(entry);
    if (name >= room) return damaged(f, at, "a name lies outside of its heap");
    if (u32(entry + 16) == 2) continue; /* a soft link */
    TRY(read_link(f, o, words + name, strnlen(words + name, (size_t)(room - name)), u64(entry + 8)));
  }
  return NULL;
}

static shoal_status read_tree(hdf5_file *f, const object *o, uint64_t at, int depth) {
  const uint8_t *p = part(f, at, 24);
  if (!p || memcmp(p, "TREE", 4) || p[4]) return damaged(f, at, "expected the tree of a group");
  if (depth > DEPTH_MAX) return damaged(f, at, "a tree is too deep");
  size_t count = u16(p + 6);
  const uint8_t *child = part(f, at + 24, count * 2 * WORD + WORD);
  if (!child) return damaged(f, at, "the tree of a group is cut short");
  for (size_t i = 0; i < count; i++) {
    uint64_t next = u64(child + i * 2 * WORD + WORD);
    TRY(count_step(f, at));
    TRY(p[5] ? read_tree(f, o, next, depth + 1) : read_names(f, o, next));
  }
  return NULL;
}

/* Where its numbers are, now that all is known. */
static shoal_status find_data(const hdf5_file *f, object *o) {
  hdf5_dataset *d = &o->dataset;
  uint64_t needed = (uint64_t)d->bytes;
  if (d->refusal) return NULL;
  for (int i = 0; i < d->shape.rank; i++)
    if (__builtin_mul_overflow(needed, (uint64_t)d->shape.dim[i], &needed)) needed = NOWHERE;
  if (!needed) return NULL;
  if (o->data == NOWHERE) {
    d->refusal = "it was never written";
    return NULL;
  }
  d->data = part(f, o->data, o->bytes);
  if (!d->data) return damaged(f, o->data, "a dataset lies behind the end of the file");
  return needed > o->bytes ? damaged(f, o->data, "a dataset is shorter than its shape") : NULL;
}

static shoal_status keep_dataset(hdf5_file *f, object *o) {
  TRY(find_data(f, o));
  if (f->count == DATASETS_MAX) return not_read(f, "there are too many datasets");
  TRY(mem_grow((void **)&f->datasets, &f->capacity, f->count + 1, sizeof *f->datasets));
  o->dataset.path = strdup(o->path);
  if (!o->dataset.path) return status_no_memory();
  f->datasets[f->count++] = o->dataset;
  return NULL;
}

static shoal_status read_object(hdf5_file *f, uint64_t at, const char *path, int depth) {
  if (depth > DEPTH_MAX) return damaged(f, at, "groups are nested too deeply");
  TRY(count_step(f, at));
  object o = {.data = NOWHERE, .tree = NOWHERE, .heap = NOWHERE, .path = path, .depth = depth};
  TRY(read_header(f, &o, at));
  if (o.tree != NOWHERE) TRY(read_tree(f, &o, o.tree, 0));
  return o.has_layout && o.has_space && o.has_type ? keep_dataset(f, &o) : NULL;
}

/* Where the root group is. */
static shoal_status read_superblock(hdf5_file *f, uint64_t *root) {
  static const uint8_t sign[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  const uint8_t *p = part(f, 0, 48);
  if (!p || memcmp(p, sign, sizeof sign)) return status_make(SHOAL_ERR_INPUT, "%s: is not an HDF5 file", f->name);
  int version = p[8];
  if (version > 3) return not_read(f, "an HDF5 file of an unknown version");
  bool old = version < 2;
  if (p[old ? 13 : 9] != WORD || p[old ? 14 : 10] != WORD) return not_read(f, "offsets are not of eight bytes");
  size_t base = old ? version ? 28 : 24 : 12;
  p = part(f, 0, base + (old ? 6 : 4) * WORD);
  if (!p) return damaged(f, f->n, "the file ends here");
  if (u64(p + base)) return not_read(f, "the file does not begin at its first byte");
  *root = u64(p + base + (old ? 5 : 3) * WORD);
  return NULL;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const hdf5_dataset *)a)->path, ((const hdf5_dataset *)b)->path);
}

shoal_status hdf5_open(const uint8_t *bytes, size_t n, const char *name, hdf5_file **out) {
  hdf5_file *f = calloc(1, sizeof *f);
  if (!f) return status_no_memory();
  *f = (hdf5_file){.name = name, .bytes = bytes, .n = n};
  uint64_t root;
  shoal_status status = read_superblock(f, &root);
  if (!status) status = read_object(f, root, "", 0);
  if (status) {
    hdf5_close(f);
    return status;
  }
  if (f->count) qsort(f->datasets, f->count, sizeof *f->datasets, by_path);
  *out = f;
  return NULL;
}

void hdf5_close(hdf5_file *f) {
  if (!f) return;
  for (size_t i = 0; i < f->count; i++) free(f->datasets[i].path);
  free(f->datasets);
  free(f);
}

size_t hdf5_count(const hdf5_file *f) { return f->count; }
const hdf5_dataset *hdf5_at(const hdf5_file *f, size_t i) { return &f->datasets[i]; }

const hdf5_dataset *hdf5_find(const hdf5_file *f, const char *path) {
  const hdf5_dataset key = {.path = (char *)path};
  return f->count ? bsearch(&key, f->datasets, f->count, sizeof key, by_path) : NULL;
}

/* ---- numbers */

static float half_to_float(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
               : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                              : ldexpf((float)mantissa, -24);
  return h >> 15 ? -size : size;
}

static float float_at(const hdf5_dataset *d, const uint8_t *p) {
  uint32_t bits;
  float single;
  double wide;
  switch (d->bytes) {
    case 2:
      if (!d->bfloat) return half_to_float(u16(p));
      bits = (uint32_t)u16(p) << 16;
      memcpy(&single, &bits, sizeof single);
      return single;
    case 4: memcpy(&single, p, sizeof single); return single;
    default: memcpy(&wide, p, sizeof wide); return (float)wide;
  }
}

static int64_t integer_at(const hdf5_dataset *d, const uint8_t *p) {
  bool is_signed = d->kind == HDF5_SIGNED;
  switch (d->bytes) {
    case 1: return is_signed ? (int64_t)(int8_t)p[0] : p[0];
    case 2: return is_signed ? (int64_t)(int16_t)u16(p) : u16(p);
    case 4: return is_signed ? (int64_t)(int32_t)u32(p) : u32(p);
    default: return (int64_t)u64(p);
  }
}

shoal_status hdf5_read(const hdf5_file *f, const hdf5_dataset *d, shoal_tensor *out) {
  if (d->refusal)
    return status_make(SHOAL_ERR_INPUT, "%s: '%s' cannot be read: %s; save the weights as Keras does", f->name, d->path,
                       d->refusal);
  shoal_status status = shoal_tensor_create(d->kind == HDF5_FLOAT ? SHOAL_F32 : SHOAL_I64, d->shape, out);
  if (status && shoal_status_code(status) == SHOAL_ERR_ARGUMENT) { /* no elements, but sizes that no tensor has */
    shoal_status_free(status);
    return status_make(SHOAL_ERR_INPUT, "%s: '%s' has a shape that is too large: it is damaged", f->name, d->path);
  }
  TRY(status);
  int64_t count = shoal_tensor_count(out);
  for (int64_t i = 0; i < count; i++) {
    const uint8_t *p = d->data + i * d->bytes;
    if (d->kind == HDF5_FLOAT)
      ((float *)out->data)[i] = float_at(d, p);
    else
      ((int64_t *)out->data)[i] = integer_at(d, p);
  }
  return NULL;
}
