/* Graphs as files. */
#include "graph/graphdef.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FILE_MAX ((size_t)2 << 30)

shoal_status shoal_graph_save(const shoal_graph *g, const char *path) {
  proto bytes = {0};
  shoal_status status = graphdef_write(g, 0, &bytes);
  FILE *f = status ? NULL : fopen(path, "we");
  if (!status && !f) status = status_errno(errno, "cannot write %s", path);
  if (f) {
    bool good = fwrite(bytes.bytes, 1, bytes.length, f) == bytes.length;
    int error = errno;
    if (fclose(f) && good) {
      good = false;
      error = errno;
    }
    if (!good) status = status_errno(error, "cannot write %s", path);
  }
  proto_fini(&bytes);
  return status;
}

static shoal_status read_whole(const char *path, proto *out) {
  FILE *f = fopen(path, "re");
  if (!f) return status_make(SHOAL_ERR_INPUT, "%s cannot be read: %m", path);
  shoal_status status = NULL;
  size_t n;
  do {
    if (out->length + 65536 > out->capacity) {
      uint8_t *larger = realloc(out->bytes, 2 * out->capacity + 65536);
      if (!larger) {
        status = status_no_memory();
        break;
      }
      out->bytes = larger;
      out->capacity = 2 * out->capacity + 65536;
    }
    n = fread(out->bytes + out->length, 1, 65536, f);
    out->length += n;
  } while (n && out->length < FILE_MAX);
  if (!status && (ferror(f) || out->length >= FILE_MAX))
    status = status_make(SHOAL_ERR_INPUT, "%s cannot be read, or is larger than %zu bytes", path, FILE_MAX);
  fclose(f);
  return status;
}

shoal_status shoal_graph_load(const char *path, shoal_graph **out) {
  proto bytes = {0};
  shoal_graph *g = NULL;
  shoal_status status = read_whole(path, &bytes);
  if (!status) status = shoal_graph_create(&g);
  if (!status) status = status_wrap(graphdef_read(g, bytes.bytes, bytes.length), "%s", path);
  proto_fini(&bytes);
  if (status) {
    shoal_graph_destroy(g);
    return status;
  }
  *out = g;
  return NULL;
}
