/* A trained model that programs have opened (shoal/run.h). */
#ifndef SHOAL_RUN_TRAINED_H
#define SHOAL_RUN_TRAINED_H

#include "run/saved.h"

struct shoal_trained {
  saved_model saved;
  shoal_trained_options options;
};

#endif
