/* How weights start: random numbers whose spread follows from the layer's fan-in and fan-out. */
#ifndef SHOAL_TRAIN_INITIALIZER_H
#define SHOAL_TRAIN_INITIALIZER_H

#include "shoal/graph.h"

typedef struct initializer initializer;

/* *out is a row of the table; an unknown name is an error that suggests the nearest. */
SHOAL_CHECKED shoal_status initializer_find(const char *name, const initializer **out);
/* A value to start a variable of that shape with; errors stick to the graph. */
shoal_value *initializer_make(shoal_graph *g, const initializer *how, shoal_shape shape, double fan_in, double fan_out);

#endif
