/* What is learned from the columns of training files, to make numbers of them and of all other rows alike: which columns
 * are text, their words, and the means that missing values take. */
#ifndef SHOAL_DATA_CSV_FIT_H
#define SHOAL_DATA_CSV_FIT_H

#include "data/class_names.h"
#include "data/csv_columns.h"
#include "data/text_ids.h"

#include <jansson.h>

typedef struct {
  char *name; /* in the header line; NULL: there was none */
  csv_role role;
  csv_kind kind;     /* of a feature: CSV_NUMBER, CSV_CATEGORIES, CSV_HASH or CSV_IDS */
  bool asked;        /* the description says so: categories, however many */
  class_names words; /* CSV_CATEGORIES, in the order of their bytes */
  text_ids ids;      /* CSV_IDS */
  int width;         /* numbers that it becomes: 1, or one a word or bucket */
  int64_t offset;    /* of the first of them in the row */
  double mean;       /* CSV_NUMBER, of the values that are there */
  double spread;     /* their standard deviation, where a field asks for it; else 0 */
  int64_t missing;   /* values that are not, in the training rows; -1: not counted */
} csv_column;

typedef struct csv_fit {
  csv_column *columns;
  size_t count;
  int64_t width; /* of a row */
} csv_fit;

/* From all files, in their order. A column is text when most of its first thousand values are no numbers. The files are
 * read through only when there are words or means to be found. Lines that are bad count for nothing here. lookups: of columns
 * whose words have numbers already, a JSON object by their names (text_ids.h); NULL: there are none. */
SHOAL_CHECKED shoal_status csv_fit_learn(char *const *paths, size_t n, char separator, const char *description,
                                         const char *lookups, csv_labels labels, csv_fit *out);
void csv_fit_fini(csv_fit *fit);
/* Is there more to it than that all columns are numbers? */
bool csv_fit_matters(const csv_fit *fit);

/* The bucket of a word, in [0, width). */
int csv_bucket(const char *word, int width);

json_t *csv_fit_to_json(const csv_fit *fit); /* NULL: no memory */
/* INPUT error that says what was expected. */
SHOAL_CHECKED shoal_status csv_fit_from_json(const json_t *array, csv_fit *out);

#endif
