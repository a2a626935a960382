/* Values as they travel: one after the other, each at a multiple of 64 bytes. */
#include "dist/graph_program.h"

#include "base/mem.h"
#include "dist/graph_protocol.h"

#include <string.h>

shoal_status wire_values_add(wire_values *w, int id, shoal_dtype dtype, const shoal_shape *shape) {
  TRY(mem_grow((void **)&w->tensors, &w->capacity, w->n + 1, sizeof *w->tensors));
  TRY(mem_grow((void **)&w->ids, &w->cap_ids, w->n + 1, sizeof *w->ids));
  TRY(mem_grow((void **)&w->offsets, &w->cap_offsets, w->n + 1, sizeof *w->offsets));
  shoal_tensor t = shoal_tensor_view(dtype, *shape, NULL);
  size_t bytes = graph_aligned(shoal_tensor_bytes(&t));
  if (bytes > GRAPH_LARGEST || w->bytes + bytes > GRAPH_LARGEST - sizeof(graph_run_head))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "values of more than %zu bytes would have to be sent in one message; place the nodes that use "
                       "them on the task that computes them",
                       GRAPH_LARGEST);
  w->tensors[w->n] = t;
  w->ids[w->n] = id;
  w->offsets[w->n++] = w->bytes;
  w->bytes += bytes;
  return NULL;
}

shoal_status wire_values_allocate(wire_values *w) {
  TRY(mem_aligned(w->bytes, (void **)&w->block));
  for (size_t i = 0; i < w->n; i++) w->tensors[i].data = w->block + w->offsets[i];
  return NULL;
}

void wire_values_fini(wire_values *w) {
  free(w->tensors);
  free(w->ids);
  free(w->offsets);
  free(w->block);
  *w = (wire_values){0};
}

int wire_part(const shoal_tensor *t, net_part *parts) {
  static const char filling[64];
  int n = 0;
  size_t bytes = shoal_tensor_bytes(t), room = graph_aligned(bytes) - bytes;
  if (bytes) parts[n++] = (net_part){t->data, bytes};
  if (room) parts[n++] = (net_part){filling, room};
  return n;
}
