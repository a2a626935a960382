/* One array of a file of NumPy, whole, as a tensor. */
#include "base/mem.h"
#include "data/npy.h"
#include "shoal/data.h"

#define PIECE ((size_t)1 << 16) /* bytes read at once */

/* A number that the type cannot hold is a mistake; a real one is rounded. */
static shoal_status set_element(shoal_tensor *t, int64_t i, double number, const char *path) {
  shoal_tensor_set(t, i, number);
  if (shoal_tensor_get(t, i) == number || t->dtype == SHOAL_F32 || t->dtype == SHOAL_F64) return NULL;
  return status_make(SHOAL_ERR_INPUT, "%s: %.9g at place %lld cannot be %s", path, number, (long long)i,
                     shoal_dtype_name(t->dtype));
}

/* Where element k stands in row-major order when the file has the first axis fastest. */
static int64_t from_columns(const shoal_shape *shape, int64_t k) {
  int64_t at = 0, below = shoal_shape_count(shape);
  for (int d = 0; d < shape->rank; d++) {
    below /= shape->dim[d];
    at += k % shape->dim[d] * below;
    k /= shape->dim[d];
  }
  return at;
}

static shoal_status read_elements(stream *s, const npy_header *h, const char *path, shoal_tensor *t) {
  const int64_t count = shoal_tensor_count(t);
  const size_t size = (size_t)h->size;
  for (int64_t done = 0, n; done < count; done += n) {
    const uint8_t *at;
    size_t have;
    TRY(stream_fill(s, MIN_OF((size_t)(count - done) * size, PIECE), &at, &have));
    n = MIN_OF((int64_t)(have / size), count - done);
    if (!n)
      return status_make(SHOAL_ERR_INPUT, "%s ends after %lld of %lld numbers", path, (long long)done,
                         (long long)count);
    for (int64_t i = 0; i < n; i++) {
      const int64_t place = h->by_columns ? from_columns(&t->shape, done + i) : done + i;
      TRY(set_element(t, place, npy_element(h, at, (size_t)i), path));
    }
    stream_advance(s, (size_t)n * size);
  }
  return NULL;
}

shoal_status shoal_tensor_read_npy(const char *path, shoal_dtype dtype, shoal_tensor *out) {
  stream *s;
  npy_header h;
  shoal_tensor t = {0};
  TRY(stream_open(path, &s));
  shoal_status status = npy_read_header(s, path, &h);
  if (!status) status = shoal_tensor_create(dtype, h.single ? SHOAL_SCALAR : h.shape, &t);
  if (!status) status = read_elements(s, &h, path, &t);
  stream_close(s);
  if (status)
    shoal_tensor_fini(&t);
  else
    *out = t;
  return status;
}

shoal_status shoal_tensor_write_npy(const char *path, const shoal_tensor *t) {
  shoal_shape row = {.rank = t->shape.rank ? t->shape.rank - 1 : 0};
  for (int i = 0; i < row.rank; i++) row.dim[i] = t->shape.dim[i + 1];
  npy_writer *w;
  if (t->rows) return status_make(SHOAL_ERR_ARGUMENT, "%s: a tensor with a row index is not written", path);
  TRY(npy_writer_open(path, t->dtype == SHOAL_BOOL ? SHOAL_U8 : t->dtype, &row, &w));
  shoal_status status = npy_write(w, t->data, t->shape.rank ? t->shape.dim[0] : 1);
  if (!status) return npy_writer_close(w);
  npy_writer_abandon(w);
  return status;
}
