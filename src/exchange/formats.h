/* Formats of models, by the endings of their files: a format is one file of code and one row of the table. */
#ifndef SHOAL_EXCHANGE_FORMATS_H
#define SHOAL_EXCHANGE_FORMATS_H

#include "shoal/exchange.h"

typedef struct {
  const char *ending;                                          /* ".onnx" */
  shoal_status (*read)(const char *path, shoal_network **out); /* NULL: it is only written */
  /* NULL: it is only read */
  shoal_status (*write)(shoal_network *n, const char *path, const shoal_export_options *options);
} model_format;

SHOAL_CHECKED shoal_status keras_import(const char *path, shoal_network **out);
SHOAL_CHECKED shoal_status keras_json_import(const char *path, shoal_network **out);
SHOAL_CHECKED shoal_status keras_export(shoal_network *n, const char *path, const shoal_export_options *options);
SHOAL_CHECKED shoal_status onnx_import(const char *path, shoal_network **out);
SHOAL_CHECKED shoal_status onnx_export(shoal_network *n, const char *path, const shoal_export_options *options);

#endif
