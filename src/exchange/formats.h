/* Formats of models, by the endings of their files: a format is one file of code and one row of the table. */
#ifndef SHOAL_EXCHANGE_FORMATS_H
#define SHOAL_EXCHANGE_FORMATS_H

#include "base/text.h"
#include "models/model_file.h"
#include "shoal/exchange.h"

typedef struct {
  const char *ending;                                          /* ".onnx" */
  shoal_status (*read)(const char *path, shoal_network **out); /* NULL: it is only written */
  /* NULL: it is only read */
  shoal_status (*write)(shoal_network *n, const char *path, const shoal_export_options *options);
} model_format;

SHOAL_CHECKED shoal_status keras_import(const char *path, shoal_network **out);
SHOAL_CHECKED shoal_status keras_json_import(const char *path, shoal_network **out);
/* Either what model.to_json() gives or a model file of ours; both have random weights. */
SHOAL_CHECKED shoal_status json_import(const char *path, shoal_network **out);
/* The model of an archive or a JSON, to be trained; what is left out is added to notes, a line each. */
SHOAL_CHECKED shoal_status keras_model_file(const char *path, text *notes, model_file **out);
/* The weights of an archive, into a compiled model. */
SHOAL_CHECKED shoal_status keras_load_weights(const char *path, shoal_model *m);
/* The same of a model that is a graph of operators: ONNX, GraphDef. */
SHOAL_CHECKED shoal_status graph_model_file(const char *path, text *notes, model_file **out);
SHOAL_CHECKED shoal_status graph_load_weights(const char *path, shoal_model *m);
SHOAL_CHECKED shoal_status keras_export(shoal_network *n, const char *path, const shoal_export_options *options);
SHOAL_CHECKED shoal_status safetensors_export(shoal_network *n, const char *path, const shoal_export_options *options);
SHOAL_CHECKED shoal_status svg_export(shoal_network *n, const char *path, const shoal_export_options *options);
/* The picture of a compiled model, appended. */
SHOAL_CHECKED shoal_status svg_of_model(const shoal_model *m, text *out);
SHOAL_CHECKED shoal_status onnx_import(const char *path, shoal_network **out);
SHOAL_CHECKED shoal_status onnx_export(shoal_network *n, const char *path, const shoal_export_options *options);
SHOAL_CHECKED shoal_status tensorflow_import(const char *path, shoal_network **out);
SHOAL_CHECKED shoal_status tensorflow_export(shoal_network *n, const char *path, const shoal_export_options *options);

/* A model to be trained: one that comes with Shoal, a model file, or a file of another program. */
SHOAL_CHECKED shoal_status import_model_file(const char *name, text *notes, model_file **out);
/* Whether the word names a file, rather than a model that comes with Shoal; whether that file has weights, too. */
bool import_is_path(const char *name);
bool import_has_weights(const char *name);

#endif
