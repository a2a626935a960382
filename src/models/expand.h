/* From a model file's layers to a flat list: parameters put in, blocks and repetitions written out, names given, inputs
 * resolved, each call behind those it uses. */
#ifndef SHOAL_MODELS_EXPAND_H
#define SHOAL_MODELS_EXPAND_H

#include "base/status.h"

#include <jansson.h>

/* file: a model file whose keys are checked. values: of all parameters, those included that are always there.
 * *out: {"layers": [{"name", "type", "trainable", "attributes": {}}], "calls": [{"layer": NAME, "result": NAME,
 * "inputs": [RESULT, ...]}]}: results are called as their layers, with ":1" and so on of further calls; inputs of the
 * model by their names, `inputs` [n_inputs]. ARGUMENT errors name the layer. */
SHOAL_CHECKED shoal_status expand_layers(const json_t *file, const json_t *values, const char *const *inputs,
                                         int n_inputs, json_t **out);
/* A copy of `value` with every text "$NAME" replaced by the parameter; also inside lists and objects. */
SHOAL_CHECKED shoal_status expand_parameters(const json_t *value, const json_t *values, json_t **out);
/* ARGUMENT error with the nearest name if the object has a key that is none of `keys`, ended by NULL; "comment" is always
 * allowed. what: opens the message. */
SHOAL_CHECKED shoal_status expand_check_keys(const json_t *object, const char *const *keys, const char *what);

#endif
