/* What a graph is fed with, from words: "NAME=FILE.npy" or "NAME=NUMBER". */
#include "base/status.h"
#include "shoal/data.h"
#include "shoal/text.h"

#include <stdlib.h>
#include <string.h>

/* A number that the type cannot hold is a mistake; a real one is rounded. */
static shoal_status make_scalar(shoal_dtype dtype, double number, const char *word, shoal_tensor *out) {
  TRY(shoal_tensor_create(dtype, SHOAL_SCALAR, out));
  shoal_tensor_set(out, 0, number);
  if (shoal_tensor_get(out, 0) == number || dtype == SHOAL_F32 || dtype == SHOAL_F64) return NULL;
  shoal_tensor_fini(out);
  return status_make(SHOAL_ERR_INPUT, "%s: %.9g cannot be %s", word, number, shoal_dtype_name(dtype));
}

/* A scalar takes a file of one number, and a row one without axes. */
static shoal_status read_file(const char *path, const shoal_value *v, shoal_tensor *out) {
  TRY(shoal_tensor_read_npy(path, shoal_value_dtype(v), out));
  const int rank = shoal_value_shape(v).rank;
  if (!rank && shoal_tensor_count(out) == 1) out->shape = SHOAL_SCALAR;
  if (rank == 1 && !out->shape.rank) out->shape = SHOAL_SHAPE(1);
  return NULL;
}

shoal_status shoal_feed_read(const shoal_graph *g, const char *word, shoal_feed *out) {
  const char *equals = strchr(word, '=');
  if (!equals) return status_make(SHOAL_ERR_ARGUMENT, "'%s': expected NAME=FILE.npy or NAME=NUMBER", word);
  char *name = strndup(word, (size_t)(equals - word));
  if (!name) return status_no_memory();
  shoal_feed f = {0};
  double number;
  shoal_status status = shoal_graph_lookup(g, name, &f.value);
  free(name);
  TRY(status);
  TRY(shoal_parse_double(equals + 1, &number) ? make_scalar(shoal_value_dtype(f.value), number, word, &f.tensor)
                                              : read_file(equals + 1, f.value, &f.tensor));
  *out = f;
  return NULL;
}
