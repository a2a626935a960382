/* The graph of its own that a model may be made of: shoal_model_from_graph. */
#ifndef SHOAL_TRAIN_MODEL_GRAPH_H
#define SHOAL_TRAIN_MODEL_GRAPH_H

#include "train/model.h"

/* NULL is fine. */
void graph_source_destroy(graph_source *s);
/* Its loss, unless the options name another or the model is of layers. */
void graph_source_set_loss(shoal_model *m, shoal_compile_options *options);

#endif
