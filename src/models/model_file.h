/* Models that are described by a file: docs/model-files.md has the format. */
#ifndef SHOAL_MODELS_MODEL_FILE_H
#define SHOAL_MODELS_MODEL_FILE_H

#include "shoal/models.h"

#include <jansson.h>

/* A description that was read: what everybody knows of a model, and the file. */
typedef struct {
  shoal_model_kind kind; /* its texts point into `file` or `name` */
  json_t *file;          /* as it was read, or with the values in force */
  char *name;
} model_file;

/* The file behind a kind; NULL: it is made by a program. */
const model_file *model_file_of(const shoal_model_kind *kind);

/* `where` opens messages: the file's path. name: what the model is called unless the file says. */
SHOAL_CHECKED shoal_status model_file_parse(const char *text, size_t length, const char *where, const char *name,
                                            model_file **out);
SHOAL_CHECKED shoal_status model_file_load(const char *path, model_file **out);
/* From a value, which is shared. */
SHOAL_CHECKED shoal_status model_file_from_json(json_t *file, const char *where, const char *name, model_file **out);
/* By its name, of those that come with Shoal, or by its path. */
SHOAL_CHECKED shoal_status model_file_find(const char *name, model_file **out);
/* Whether the word names a file rather than a model that comes with Shoal. */
bool model_file_is_path(const char *word);
void model_file_destroy(model_file *f);

/* Whether "training" may hold it for the job alone, as a number or true or false; *update: it is of the optimizer. */
bool model_file_job_key(const char *key, bool *update);
/* ARGUMENT error: the options name parameters that the file does not have, or values of another kind. */
SHOAL_CHECKED shoal_status model_file_check(const model_file *f, const shoal_model_options *options);
/* The file with the parameters' values in force in place of the usual ones: what a run keeps. classes: 0: not known. */
SHOAL_CHECKED shoal_status model_file_resolve(const model_file *f, const shoal_model_options *options, json_t **out);
/* Adds the inputs, layers and outputs to a model that was made for the file's input. */
SHOAL_CHECKED shoal_status model_file_build(const model_file *f, shoal_model *m, const shoal_model_options *options);

#endif
