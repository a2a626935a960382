/* All types of layers. A new one is a row in the array of its family; a new family one line here. */
#include "base/mem.h"
#include "base/text.h"
#include "train/layer.h"

#include <string.h>

#define TYPES_MAX 160

static const layer_kind *const families[] = {layers_core,     layers_window, layers_norm,    layers_shape,
                                             layers_sequence, layers_merge,  layers_product, layers_noise,
                                             layers_wrap,     layers_sparse, layers_graph};

const layer_kind *layer_kind_at(int at) {
  for (size_t i = 0; i < COUNT_OF(families); i++)
    for (const layer_kind *k = families[i]; k->name; k++)
      if (at-- == 0) return k;
  return NULL;
}

const layer_kind *layer_kind_find(const char *name) {
  const layer_kind *kind;
  for (int i = 0; (kind = layer_kind_at(i)); i++)
    if (!strcmp(kind->name, name)) return kind;
  return NULL;
}

shoal_status layer_kind_lookup(const char *name, const layer_kind **out) {
  const layer_kind *kind = layer_kind_find(name);
  if (kind) {
    *out = kind;
    return NULL;
  }
  const char *names[TYPES_MAX];
  size_t n = 0;
  for (int i = 0; n < TYPES_MAX && (kind = layer_kind_at(i)); i++) names[n++] = kind->name;
  const char *near = text_nearest(name, names, n);
  return status_make(SHOAL_ERR_ARGUMENT, "unknown layer type '%s'; docs/model-files.md lists them%s%s%s", name,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}
