/** @file
 * Models from and for other programs: Keras, ONNX, TensorFlow.
 *
 * A shoal_network is what such a file holds: named inputs, named outputs, and the graph between them with its weights. It
 * predicts, and can be written in another format. Which format a file has, its ending says. */
#ifndef SHOAL_EXCHANGE_H
#define SHOAL_EXCHANGE_H

#include "shoal/models.h"
#include "shoal/options.h"
#include "shoal/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A model that predicts. Used by one thread at a time. */
typedef struct shoal_network shoal_network;

/** Reads `.keras`, what Keras' model.to_json() gives (`.json`; its weights are then random), `.onnx`, or `.pb`, a frozen
 * GraphDef of TensorFlow. Nothing in the file is executed. SHOAL_ERR_INPUT: the file is damaged, or has a layer that cannot be taken over, by its name. *out: destroy it
 * with shoal_network_destroy. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_network_load(const char *path, shoal_network **out);
/** What predicts in a compiled model, which it borrows: weights are the model's own. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_network_of(shoal_model *m, shoal_network **out);
/** NULL is fine. */
SHOAL_API void shoal_network_destroy(shoal_network *n);

/** How many inputs it takes. */
SHOAL_API int shoal_network_inputs(const shoal_network *n);
/** How many outputs it gives. */
SHOAL_API int shoal_network_outputs(const shoal_network *n);
/** Belongs to the network; NULL: there is no such input. */
SHOAL_API const char *shoal_network_input_name(const shoal_network *n, int i);
/** Belongs to the network; NULL: there is no such output. */
SHOAL_API const char *shoal_network_output_name(const shoal_network *n, int i);
/** With the batch first, which is SHOAL_UNKNOWN. */
SHOAL_API shoal_shape shoal_network_input_shape(const shoal_network *n, int i);
/** The same of an output. */
SHOAL_API shoal_shape shoal_network_output_shape(const shoal_network *n, int i);
/** Its inputs, its layers or operators with shapes and numbers of parameters, and its outputs, as lines; the caller frees it.
 * NULL: no memory. */
SHOAL_API char *shoal_network_describe(const shoal_network *n);
/** Lines about what was left out, each ended by a newline; "" if nothing was. Belongs to the network. */
SHOAL_API const char *shoal_network_notes(const shoal_network *n);
/** Computes all outputs from all inputs: tensors of any type, with as many rows each. outputs [shoal_network_outputs] become
 * views that are valid until the next run. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_network_run(shoal_network *n, const shoal_tensor *inputs,
                                                       shoal_tensor *outputs);

/** The same for any number of rows, some hundred at a time. outputs [shoal_network_outputs] get a row for each row of the
 * inputs and are the caller's: shoal_tensor_fini each. Without rows they stay empty (data is NULL). */
SHOAL_API SHOAL_CHECKED shoal_status shoal_network_predict(shoal_network *n, const shoal_tensor *inputs,
                                                           shoal_tensor *outputs);
/** Reads the inputs from files of NumPy. words: "NAME=FILE.npy" for each input, or "FILE.npy" if there is only one. inputs
 * [shoal_network_inputs] are the caller's: shoal_tensor_fini each. SHOAL_ERR_ARGUMENT: an input is missing, unknown or given
 * twice; SHOAL_ERR_INPUT: files that do not fit together. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_network_read_inputs(const shoal_network *n, const char *const *words,
                                                               int count, shoal_tensor *inputs);
/** Writes output i to a file of NumPy. If there are several outputs, each gets a file of its own: y.npy becomes
 * y-NAME.npy. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_network_write_output(const shoal_network *n, int i, const shoal_tensor *t,
                                                                const char *path);

/* ---- training */
/** As shoal_model_kind_load, also of models of Keras: `.keras`, or what model.to_json() gives. Its losses, optimizer and rate are
 * those that it was compiled with. Of `.onnx` and `.pb` with one output: one layer, `graph`, whose weights are those constants
 * of the file that have axes and are of f32 (shoal_model_import_weights has their numbers). *notes: lines about what was left out, which the caller frees; NULL: nobody asks. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_kind_import(const char *name, shoal_model_kind **out, char **notes);
/** Weights for a compiled model: of a `.keras`, `.onnx` or `.pb` file, by their names, or as shoal_model_load. SHOAL_ERR_INPUT: those that do not fit, with
 * their shapes. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_import_weights(shoal_model *m, const char *path);

/** How a model is written. */
typedef struct {
  size_t size;      /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *name; /**< of the model, in formats that have one; NULL: "shoal" */
  const char *
      layout; /**< of .safetensors: "shoal", or "torch": names and shapes as PyTorch's modules have them; NULL: "shoal" */
  const shoal_compile_options
      *compile; /**< .keras: the optimizer, its numbers and its rate that the model is compiled with
                                         * there, with the losses that it has; NULL: it is not compiled */
  const char
      *checkpoint; /**< .keras, with compile: a checkpoint, or weights beside the folder checkpoints of a run: the
                           * optimizer's state is taken from there, if it belongs to these weights; NULL: it begins anew */
} shoal_export_options;

/** Writes a network to a file whose ending names the format. options may be NULL. SHOAL_ERR_ARGUMENT: no such format, or
 * there is something that it cannot hold, by name. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_network_export(shoal_network *n, const char *path,
                                                          const shoal_export_options *options);
/** Draws the layers of a compiled model, of sparse rows, too, to an SVG file: a line for each layer with its shape and
 * parameters, a box for each row of layers without a branch. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_draw(const shoal_model *m, const char *path);
/** Whether the ending of `path` is one of `endings`, which end with NULL. */
SHOAL_API bool shoal_has_ending(const char *path, const char *const *endings);

/** Text formats for the weights of a linear model of sparse rows (`sparse-lr`). */
typedef enum {
  SHOAL_LINEAR_LIBLINEAR, /**< a model file for liblinear's predict */
  SHOAL_LINEAR_PAIRS      /**< a line "index weight" for each weight that is not 0 */
} shoal_linear_form;

/** Their names, in this order, ended by NULL. */
SHOAL_API const char *const *shoal_linear_form_names(void);
/** Writes the weights as text to an open file, which stays open. SHOAL_ERR_ARGUMENT: the model has no such weights;
 * SHOAL_ERR_INPUT: the format cannot hold them. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_linear_write(shoal_model *m, shoal_linear_form form, int fd);

/** Endings that models can be read by, such as ".keras", ended by NULL. */
SHOAL_API const char *const *shoal_import_endings(void);
/** Endings that models can be written with, ended by NULL. */
SHOAL_API const char *const *shoal_export_endings(void);

#ifdef __cplusplus
}
#endif
#endif
