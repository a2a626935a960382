#include "data/safetensors.h"

#include "base/json_text.h"
#include "base/mem.h"
#include "base/crc32c.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied between memory and file as they are");

#define PIECE ((size_t)1 << 20) /* bytes */

static const char *const type_names[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F32] = "F32", [SHOAL_F64] = "F64", [SHOAL_I32] = "I32",
    [SHOAL_I64] = "I64", [SHOAL_U8] = "U8",   [SHOAL_BOOL] = "BOOL",
};

typedef struct {
  int fd;
  const char *name;
  uint32_t crc;   /* of what was written */
  off_t checksum; /* where its digits go in the file; below 0: nowhere */
} writer;

static shoal_status write_all(writer *w, const void *bytes, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t put = write(w->fd, (const char *)bytes + done, n - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return status_errno(errno, "%s: cannot write", w->name);
    if (put == 0) return status_errno(ENOSPC, "%s: cannot write", w->name);
    done += (size_t)put;
  }
  if (w->checksum >= 0) w->crc = crc32c(w->crc, bytes, n);
  return NULL;
}

/* Its place in the header that begins at the file's position, if it asks for one. */
static shoal_status place_checksum(writer *w, const char *header) {
  static const char wanted[] = "\"" SAFETENSORS_CHECKSUM "\":\"" SAFETENSORS_NO_CHECKSUM "\"";
  const char *found = strstr(header, wanted); /* inside of a string the quotes would be escaped */
  if (!found) return NULL;
  const off_t begin = lseek(w->fd, 0, SEEK_CUR);
  if (begin < 0) return status_errno(errno, "%s: a file with a checksum must be seekable", w->name);
  w->checksum = begin + 8 + (found - header) + (off_t)(sizeof wanted - 2 - 8);
  return NULL;
}

static shoal_status write_checksum(const writer *w) {
  char digits[9];
  if (w->checksum < 0) return NULL;
  snprintf(digits, sizeof digits, "%08x", (unsigned)w->crc);
  if (pwrite(w->fd, digits, 8, w->checksum) != 8) return status_errno(errno ? errno : EIO, "%s: cannot write", w->name);
  return NULL;
}

static shoal_status check_items(const safetensors_item *items, int n, const json_t *metadata) {
  for (int i = 0; i < n; i++) {
    if (!strcmp(items[i].name, "__metadata__"))
      return status_make(SHOAL_ERR_ARGUMENT, "a tensor cannot be called '__metadata__': safetensors reserves the name");
    if (items[i].tensor.rows)
      return status_make(SHOAL_ERR_ARGUMENT, "tensor '%s' is a view of picked rows: copy it before it is written",
                         items[i].name);
    if (shoal_tensor_count(&items[i].tensor) < 0)
      return status_make(SHOAL_ERR_ARGUMENT, "tensor '%s' has an unknown dimension", items[i].name);
  }
  if (!metadata) return NULL;
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) return status_make(SHOAL_ERR_ARGUMENT, "metadata must be an object of strings");
  json_object_foreach ((json_t *)metadata, key, value) {
    if (!json_is_string(value))
      return status_make(SHOAL_ERR_ARGUMENT, "metadata '%s' must be a string: the format allows nothing else", key);
  }
  return NULL;
}

/* order[0..n): indices of the items, larger elements first, otherwise as given. */
static void arrange(const safetensors_item *items, int n, int *order) {
  int at = 0;
  for (size_t size = 8; size; size /= 2)
    for (int i = 0; i < n; i++)
      if (shoal_dtype_size(items[i].tensor.dtype) == size) order[at++] = i;
}

static shoal_status add_row(json_t *header, const safetensors_item *item, uint64_t *offset) {
  if (json_object_get(header, item->name))
    return status_make(SHOAL_ERR_ARGUMENT, "two tensors are called '%s'", item->name);
  json_t *shape = json_array();
  for (int i = 0; i < item->tensor.shape.rank; i++)
    if (json_array_append_new(shape, json_integer(item->tensor.shape.dim[i]))) {
      json_decref(shape);
      return status_no_memory();
    }
  uint64_t end = *offset + shoal_tensor_bytes(&item->tensor);
  json_t *row = json_pack("{s:s, s:o, s:[I,I]}", "dtype", type_names[item->tensor.dtype], "shape", shape,
                          "data_offsets", (json_int_t)*offset, (json_int_t)end);
  if (!row) return status_no_memory();
  if (json_object_set_new(header, item->name, row))
    return status_make(SHOAL_ERR_ARGUMENT, "a tensor's name is not valid UTF-8, or memory is short");
  *offset = end;
  return NULL;
}

static shoal_status write_header(writer *w, const json_t *header) {
  shoal_status status;
  char *padded = NULL, *text = json_words(header, JSON_COMPACT);
  if (!text) return status_no_memory();
  size_t length = strlen(text), whole = mem_round_up(length, 8);
  if (whole > SAFETENSORS_MAX_HEADER) {
    status = status_make(SHOAL_ERR_ARGUMENT, "%s: the header would have %zu bytes, at most %d are allowed", w->name,
                         whole, SAFETENSORS_MAX_HEADER);
    goto done;
  }
  padded = malloc(8 + whole);
  if (!padded) {
    status = status_no_memory();
    goto done;
  }
  for (int i = 0; i < 8; i++) padded[i] = (char)(uint8_t)((uint64_t)whole >> (8 * i));
  memcpy(padded + 8, text, length);
  memset(padded + 8 + length, ' ', whole - length);
  TRY_GOTO(status, place_checksum(w, text), done);
  status = write_all(w, padded, 8 + whole);
done:
  free(padded);
  free(text);
  return status;
}

/* In pieces: it may not fit into memory. */
static shoal_status write_data(writer *w, const safetensors_item *item) {
  size_t bytes = shoal_tensor_bytes(&item->tensor);
  if (!item->read) return write_all(w, item->tensor.data, bytes);
  void *piece = malloc(PIECE);
  shoal_status status = piece ? NULL : status_no_memory();
  for (size_t done = 0; done < bytes && !status; done += PIECE) {
    size_t now = MIN_OF(PIECE, bytes - done);
    status = item->read(item->source, done, now, piece);
    if (!status) status = write_all(w, piece, now);
  }
  free(piece);
  return status;
}

shoal_status safetensors_write(int fd, const char *name, const safetensors_item *items, int n, const json_t *metadata) {
  TRY(check_items(items, n, metadata));
  shoal_status status = NULL;
  writer w = {.fd = fd, .name = name, .checksum = -1};
  json_t *header = json_object();
  int *order = calloc((size_t)n + 1, sizeof *order);
  if (!header || !order ||
      (metadata && json_object_size(metadata) && json_object_set(header, "__metadata__", (json_t *)metadata))) {
    status = status_no_memory();
    goto done;
  }
  arrange(items, n, order);
  uint64_t offset = 0;
  for (int i = 0; i < n; i++) TRY_GOTO(status, add_row(header, &items[order[i]], &offset), done);
  TRY_GOTO(status, write_header(&w, header), done);
  for (int i = 0; i < n; i++) TRY_GOTO(status, write_data(&w, &items[order[i]]), done);
  status = write_checksum(&w);
done:
  free(order);
  json_decref(header);
  return status;
}
