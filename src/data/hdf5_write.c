/* One object after the other: a dataset's header and numbers, or a group's header, which lists what is in it by name and
 * place. Groups come after what they hold, the root last. */
#include "base/mem.h"
#include "data/hdf5.h"

#include <string.h>

enum {
  MESSAGE_SPACE = 1,
  MESSAGE_LINK_INFO = 2,
  MESSAGE_TYPE = 3,
  MESSAGE_FILL = 5,
  MESSAGE_LINK = 6,
  MESSAGE_LAYOUT = 8,
  MESSAGE_GROUP_INFO = 10,
  SUPERBLOCK_BYTES = 96,
  NAME_MAX_BYTES = 1024
};

/* A growing block of bytes; `failed` sticks. */
typedef struct {
  uint8_t *bytes;
  size_t length, capacity;
  bool failed;
} block;

static void put(block *b, const void *bytes, size_t n) {
  if (b->failed) return;
  shoal_status status = mem_grow((void **)&b->bytes, &b->capacity, b->length + n, 1);
  if (status) {
    shoal_status_free(status);
    b->failed = true;
    return;
  }
  if (n) memcpy(b->bytes + b->length, bytes, n);
  b->length += n;
}

static void put_number(block *b, uint64_t value, size_t bytes) { put(b, &value, bytes); }

static void align(block *b) {
  static const uint8_t zeros[8] = {0};
  put(b, zeros, (8 - b->length % 8) % 8);
}

/* A header is built apart: its length comes first. */
typedef struct {
  block body;
  int messages;
} header;

static void add_message(header *h, int kind, const block *content) {
  size_t length = mem_round_up(content->length, 8);
  put_number(&h->body, (uint64_t)kind, 2);
  put_number(&h->body, length, 2);
  put_number(&h->body, 0, 4);
  put(&h->body, content->bytes, content->length);
  align(&h->body);
  h->messages++;
}

/* Where it is, from the beginning of the file. */
static uint64_t put_header(block *to, header *h) {
  align(to);
  uint64_t at = to->length;
  put_number(to, 1, 2);
  put_number(to, (uint64_t)h->messages, 2);
  put_number(to, 1, 4); /* one link to it */
  put_number(to, h->body.length, 8);
  put(to, h->body.bytes, h->body.length);
  if (h->body.failed) to->failed = true;
  free(h->body.bytes);
  return at;
}

static void add_space(header *h, const shoal_shape *shape) {
  block m = {0};
  put_number(&m, 1, 1);
  put_number(&m, (uint64_t)shape->rank, 1);
  put_number(&m, 0, 6);
  for (int i = 0; i < shape->rank; i++) put_number(&m, (uint64_t)shape->dim[i], 8);
  add_message(h, MESSAGE_SPACE, &m);
  free(m.bytes);
}

static void add_type(header *h, shoal_dtype dtype) {
  const size_t size = shoal_dtype_size(dtype);
  const bool real = dtype == SHOAL_F32 || dtype == SHOAL_F64, wide = dtype == SHOAL_F64;
  const bool is_signed = dtype == SHOAL_I32 || dtype == SHOAL_I64;
  block m = {0};
  put_number(&m, real ? 0x11 : 0x10, 1);
  /* Floats: padding, an implied leading 1, and where the sign is. */
  put_number(&m, real ? (uint64_t)0x20 | (uint64_t)(size * 8 - 1) << 8 : is_signed ? 8 : 0, 3);
  put_number(&m, size, 4);
  put_number(&m, 0, 2);
  put_number(&m, size * 8, 2);
  if (real) {
    put_number(&m, wide ? 52 : 23, 1);
    put_number(&m, wide ? 11 : 8, 1);
    put_number(&m, 0, 1);
    put_number(&m, wide ? 52 : 23, 1);
    put_number(&m, wide ? 1023 : 127, 4);
  }
  add_message(h, MESSAGE_TYPE, &m);
  free(m.bytes);
}

static void add_layout(header *h, uint64_t at, uint64_t bytes) {
  block m = {0};
  put_number(&m, 2, 1); /* the fill value: allocated early or late, none is written */
  put_number(&m, 2, 1);
  put_number(&m, 2, 1);
  put_number(&m, 0, 1);
  add_message(h, MESSAGE_FILL, &m);
  m.length = 0;
  put_number(&m, 3, 1);
  put_number(&m, 1, 1); /* in one piece */
  put_number(&m, bytes ? at : UINT64_MAX, 8);
  put_number(&m, bytes, 8);
  add_message(h, MESSAGE_LAYOUT, &m);
  free(m.bytes);
}

static uint64_t put_dataset(block *to, const shoal_tensor *t) {
  header h = {0};
  align(to);
  uint64_t at = to->length;
  put(to, t->data, shoal_tensor_bytes(t));
  add_space(&h, &t->shape);
  add_type(&h, t->dtype);
  add_layout(&h, at, shoal_tensor_bytes(t));
  return put_header(to, &h);
}

static void add_link(header *h, const char *name, size_t length, uint64_t at) {
  block m = {0};
  put_number(&m, 1, 1);
  put_number(&m, 1, 1); /* the name's length in two bytes */
  put_number(&m, length, 2);
  put(&m, name, length);
  put_number(&m, at, 8);
  add_message(h, MESSAGE_LINK, &m);
  free(m.bytes);
}

static void begin_group(header *h) {
  block m = {0};
  put_number(&m, 0, 2);
  put_number(&m, UINT64_MAX, 8);
  put_number(&m, UINT64_MAX, 8);
  add_message(h, MESSAGE_LINK_INFO, &m);
  m.length = 0;
  put_number(&m, 0, 2);
  add_message(h, MESSAGE_GROUP_INFO, &m);
  free(m.bytes);
}

/* items [n]: sorted, all with the same `skip` bytes before the names in this group. */
static shoal_status put_group(block *to, const hdf5_item *const *items, size_t n, size_t skip, uint64_t *at) {
  header h = {0};
  begin_group(&h);
  shoal_status status = NULL;
  for (size_t i = 0; i < n && !status;) {
    const char *name = items[i]->path + skip;
    size_t length = strcspn(name, "/"), same = 1;
    if (!length) { /* the group itself */
      i++;
      continue;
    }
    if (length > NAME_MAX_BYTES) status = status_make(SHOAL_ERR_ARGUMENT, "'%s': the name is too long", items[i]->path);
    uint64_t where = 0;
    while (i + same < n && !strncmp(items[i + same]->path + skip, name, length) &&
           (items[i + same]->path[skip + length] == '/' || !items[i + same]->path[skip + length]))
      same++;
    if (!status && !name[length] && items[i]->tensor.data)
      where = put_dataset(to, &items[i]->tensor);
    else if (!status)
      status =
          put_group(to, items + i, same, skip + length + (items[i + same - 1]->path[skip + length] == '/'), &where);
    add_link(&h, name, length, where);
    i += same;
  }
  *at = put_header(to, &h);
  return status;
}

static void put_superblock(uint8_t out[SUPERBLOCK_BYTES], uint64_t end, uint64_t root) {
  static const uint8_t sign[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  block b = {0};
  put(&b, sign, sizeof sign);
  put_number(&b, 0, 5);
  put_number(&b, 8, 1);
  put_number(&b, 8, 2);
  put_number(&b, 4, 2);
  put_number(&b, 16, 2);
  put_number(&b, 0, 4);
  put_number(&b, 0, 8);
  put_number(&b, UINT64_MAX, 8);
  put_number(&b, end, 8);
  put_number(&b, UINT64_MAX, 8);
  put_number(&b, 0, 8);
  put_number(&b, root, 8);
  if (!b.failed) memcpy(out, b.bytes, b.length);
  free(b.bytes);
}

static int by_path(const void *a, const void *b) {
  /* '/' before every other character, so that what is in a group stands together. */
  const char *x = (*(const hdf5_item *const *)a)->path, *y = (*(const hdf5_item *const *)b)->path;
  for (; *x && *x == *y; x++) y++;
  int p = *x == '/' ? 1 : (uint8_t)*x, q = *y == '/' ? 1 : (uint8_t)*y;
  return p - q;
}

shoal_status hdf5_write(const hdf5_item *items, size_t n, uint8_t **bytes, size_t *length) {
  const hdf5_item **sorted = calloc(n + 1, sizeof *sorted);
  block b = {0};
  uint8_t superblock[SUPERBLOCK_BYTES] = {0};
  if (!sorted) return status_no_memory();
  for (size_t i = 0; i < n; i++) sorted[i] = &items[i];
  qsort(sorted, n, sizeof *sorted, by_path);
  put(&b, superblock, sizeof superblock);
  uint64_t root = 0;
  shoal_status status = put_group(&b, sorted, n, 0, &root);
  free(sorted);
  if (!status && b.failed) status = status_no_memory();
  if (status) {
    free(b.bytes);
    return status;
  }
  put_superblock(superblock, b.length, root);
  memcpy(b.bytes, superblock, sizeof superblock);
  *bytes = b.bytes;
  *length = b.length;
  return NULL;
}
