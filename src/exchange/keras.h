/* Keras 3: archives (.keras), and what model.to_json() gives. Both are read and written.
 *
 * A config becomes a model description (docs/model-files.md): most layers are called as in Keras, with the same
 * attributes; what differs is in the table of keras_layers.c. Nothing in a file is executed: classes are names to be
 * looked up, and those that are not in the table are refused by the layer's name. */
#ifndef SHOAL_EXCHANGE_KERAS_H
#define SHOAL_EXCHANGE_KERAS_H

#include "base/text.h"
#include "data/hdf5.h"
#include "shoal/train.h"

#include <jansson.h>

/* A weight of a model, and where it is in model.weights.h5. */
typedef struct {
  char *name; /* "dense/kernel" */
  char *path; /* "layers/dense/vars/0" */
  int row;    /* of the dataset's first axis; -1: all of it */
} keras_weight;

typedef struct {
  keras_weight *list;
  size_t n, cap;
} keras_weights;

void keras_weights_fini(keras_weights *w);
SHOAL_CHECKED shoal_status keras_weight_add(keras_weights *w, char *name, char *path, int row); /* takes both texts */

/* One class of Keras. */
typedef struct {
  const char *type; /* of a layer, in descriptions */
  const char *name; /* the class */
  const char
      *weights;     /* in Keras' order: "PATH/NAME?IF ..."; each is there unless the attribute IF is false. A+B: the two
                        * rows of one dataset. NULL: none */
  const char *drop; /* attributes of ours that Keras has not, or calls otherwise, in blanks: " a b " */
} keras_class;

/* NULL: there is none. */
const keras_class *keras_class_of(const char *name);
const keras_class *keras_class_of_type(const char *type);
/* "Conv2DTranspose" -> "conv2d_transpose", as Keras does it; out has room for the name and as many underscores. */
#define KERAS_NAME 256
const char *keras_snake_case(const char *name, char out[KERAS_NAME]);

/* The attributes of a layer of this class, as a new object in *out; what cannot be taken over is an INPUT error. Remarks
 * about what changes training alone are added to `notes`, a line each. */
SHOAL_CHECKED shoal_status keras_attributes(const keras_class *c, const char *layer, const json_t *config, text *notes,
                                            json_t **out);
/* Names of the weights of a layer that is called `name` and lies at `path`. */
SHOAL_CHECKED shoal_status keras_layer_weights(const keras_class *c, const json_t *attributes, const char *name,
                                               const char *path, keras_weights *out);

/* An operation of keras.ops in a functional model as a layer: its description without name and inputs. args: what it was
 * called with, tensors and other values. INPUT error: there is no layer that does it. */
SHOAL_CHECKED shoal_status keras_operation(const char *name, const char *layer, const json_t *config,
                                           const json_t *args, const json_t *kwargs, json_t **description);
/* A layer that makes whole numbers of words or of numbers as one of ours; *description NULL: it is of another class. *lookup: of
 * words, that of the input that it is applied to (docs/model-files.md); else NULL. lines: its vocabulary, where the config has
 * none; NULL: there is none. */
SHOAL_CHECKED shoal_status keras_lookup(const char *class, const char *layer, const json_t *config, const json_t *lines,
                                        json_t **description, json_t **lookup);
/* The top of a config, in which the reader of an archive keeps those lines: path of a layer -> array of lines. */
#define KERAS_ASSETS "shoal_assets"
/* The shape of a tensor in a call; NULL: it is none. */
const json_t *keras_tensor(const json_t *value);

/* A config (of Sequential or Functional) as a description, with its weights' places. file: their numbers, for those that
 * become attributes; NULL: there are none. */
SHOAL_CHECKED shoal_status keras_describe(const json_t *config, const hdf5_file *file, text *notes,
                                          json_t **description, keras_weights *weights);
/* What compile() was told, if it was called: "training" of the description, and the losses of its outputs. */
SHOAL_CHECKED shoal_status keras_training(const json_t *config, json_t *description, text *notes);
/* What compile() is to be told of a model whose losses are known; NULL: there is something that Keras has not. */
json_t *keras_compile_json(const shoal_model *m, const shoal_compile_options *options);

#endif
