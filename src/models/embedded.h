/* The model files that are compiled into the library: models/meson.build lists them, tools/embed_models.py makes this
 * table of them. */
#ifndef SHOAL_MODELS_EMBEDDED_H
#define SHOAL_MODELS_EMBEDDED_H

#include "shoal/models.h"

typedef struct {
  shoal_model_kind kind; /* as reading the file gives it */
  const char *text;      /* the file */
} embedded_model;

/* Ended by a row without a name. */
extern const embedded_model embedded_models[];

/* Adds the layers of the model called `name`; errors stick to the model. */
void embedded_build(const char *name, shoal_model *m, const shoal_model_options *options);

#endif
