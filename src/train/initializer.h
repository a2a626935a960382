/* How weights start: random numbers whose spread follows from the layer's fan-in and fan-out, or is given. */
#ifndef SHOAL_TRAIN_INITIALIZER_H
#define SHOAL_TRAIN_INITIALIZER_H

#include "shoal/graph.h"

#include <jansson.h>

/* An initializer is described by its name, by a number (all elements alike), or by {"type": NAME, ...} with numbers of its
 * own. An unknown name or number is an error that suggests the nearest. */
SHOAL_CHECKED shoal_status initializer_check(const json_t *description);
/* A value to start a variable of that shape with; errors stick to the graph. NULL or null: glorot_uniform. */
shoal_value *initializer_make(shoal_graph *g, const json_t *description, shoal_shape shape, double fan_in,
                              double fan_out);

/* Of a table: how many of its first columns begin with 0, and the range of the others; all begin with 0 where that is 0.
 * false: the description is of another kind. */
bool initializer_of_table(const json_t *description, int64_t *zeros, double *limit);

#endif
