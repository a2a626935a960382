/* A model as a picture (SVG): a line for each layer, a box for each row of layers that follow one another without a branch,
 * boxes under those that they use. */
#ifndef SHOAL_EXCHANGE_DRAWING_H
#define SHOAL_EXCHANGE_DRAWING_H

#include "base/text.h"
#include "exchange/network.h"

/* One layer, or one operator, after those that it uses. */
typedef struct {
  const char *name, *kind, *detail; /* detail: its activation, or "" */
  shoal_shape shape;
  int64_t parameters;
  int *inputs; /* [n_inputs] numbers of items; owned */
  int n_inputs;
} drawing_item;

typedef struct {
  drawing_item *list;
  int n;
  size_t cap;
} drawing_items;

/* A new item at the end, with room for so many inputs, none of which is set; NULL: no memory. */
drawing_item *drawing_add(drawing_items *items, int n_inputs);
void drawing_fini(drawing_items *items);
/* Draws them: appends the whole <svg> element. */
SHOAL_CHECKED shoal_status drawing_write(const drawing_items *items, text *out);

/* The layers of a compiled model. */
SHOAL_CHECKED shoal_status drawing_of_model(const shoal_model *m, drawing_items *out);
/* The operators of a network that has no layers. */
SHOAL_CHECKED shoal_status drawing_of_graph(const shoal_network *n, drawing_items *out);

#endif
