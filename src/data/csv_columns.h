/* Which column of a CSV or TSV file is what.
 *
 * The description is a list of words, separated by commas, in any order:
 *   label=COLUMN     the class; without it (and without target=) the column that a header line calls label, target,
 *                    class or y, or else the last one
 *   label=A|B|C      columns of which one is 1 and the others 0 (one-hot): the class is the column that has the 1; also
 *                    label=4-6, by number
 *   target=COLUMN    a number to be predicted (regression) in place of a class
 *   weight=COLUMN    what a row counts in the loss of training, a number of at least 0
 *   skip=COLUMN      a column to leave out; may be given several times
 *   missing=WHAT     what a missing value (csv_is_missing) of a feature becomes: error (the standard) stops and names
 *                    the place; a number; or mean, that of the column in the training rows. Of text, no category
 *   separator=WHAT   tab, semicolon, pipe, comma, blank or the character; without it found out from the first lines
 *   categories=COLUMN  one number a word, 1 for the word that is there: also for numbers that stand for categories
 *   hash=COLUMN[:N]  the same with N (CSV_HASH_WIDTH) numbers, each for the words that fall to it
 *   ids=COLUMN       one number: 1 for the first word of the training rows in the order of their bytes, 2 for the next ...,
 *                    0 for all others (text_ids.h)
 *   bucket=COLUMN:N  one number below N, by a hash of the word (text_ids.h)
 *   numbers=COLUMN   numbers, whatever most of the column looks like
 *   header=yes|no    whether the first line holds names; without it, it does when none of its fields is a number, or
 *                    when one is called label, target, class or y
 *   classes=A|B|C    the words of the label column in the order of their numbers
 *   field=...        rows are sparse, and this is one of their fields: csv_fields.h
 * A COLUMN is a number, counted from 0, or a name in the header line. All other columns are features, in their order.
 *
 * Labels: whole numbers from 0 on stay what they are; in a file with -1 and +1 those become 0 and 1; words are numbered
 * in the order of their bytes, over all files of the data set (class_names.h). */
#ifndef SHOAL_DATA_CSV_COLUMNS_H
#define SHOAL_DATA_CSV_COLUMNS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CSV_HOT: one of several label columns */
typedef enum { CSV_FEATURE, CSV_LABEL, CSV_HOT, CSV_SKIP, CSV_WEIGHT } csv_role;
typedef enum { CSV_FOUND_OUT, CSV_NUMBER, CSV_CATEGORIES, CSV_HASH, CSV_IDS } csv_kind;
typedef enum { CSV_MISSING_ERROR, CSV_MISSING_VALUE, CSV_MISSING_MEAN } csv_missing;

enum {
  CSV_CATEGORIES_MAX = 64, /* words of a column that is text; of more it is hashed, unless asked for */
  CSV_HASH_WIDTH = 64,
  CSV_WIDTH_MAX = 1 << 16 /* numbers that a column may become */
};

/* Fields of sparse rows. CSV_FIELD_WORDS: one word, several (`separator`), or those of two columns (`with`). */
typedef enum {
  CSV_FIELD_WORDS,
  CSV_FIELD_NUMBER,
  CSV_FIELD_LOG,
  CSV_FIELD_STANDARDISE,
  CSV_FIELD_BUCKETS
} csv_field_kind;

typedef struct {
  char *column, *with;
  csv_field_kind kind;
  char separator;
  float *bounds; /* [n_bounds] ascending; owned */
  int n_bounds;
} csv_field_asked;

/* What the description says a column is. */
typedef struct {
  char *column;
  csv_kind kind;
  int width; /* CSV_HASH; CSV_IDS: buckets, 0: by the words */
} csv_kind_asked;

typedef struct {
  char *text;   /* owned; the words below point into it */
  char *label;  /* NULL: the standard */
  bool target;  /* it is a number to be predicted */
  char *weight; /* NULL: rows have none */
  char **skip;
  size_t skip_count, skip_capacity;
  csv_kind_asked *kinds;
  size_t kind_count, kind_capacity;
  csv_field_asked *fields;
  size_t field_count, field_capacity;
  csv_missing missing;
  float missing_value; /* CSV_MISSING_VALUE */
  char separator;      /* 0: to be found out */
  int header;          /* 1 yes, 0 no, -1 to be found out */
  char **classes;
  size_t class_count, class_capacity;
} csv_columns;

/* Whether labels must be there. */
typedef struct {
  bool optional;    /* the label's column, or what is in it, may be missing */
  int64_t row_size; /* then: columns of features, from which it shows that it is missing; 0: not known */
} csv_labels;

/* text: NULL is the standard. ARGUMENT error that says what is wrong. */
SHOAL_CHECKED shoal_status csv_columns_parse(const char *text, csv_columns *out);
void csv_columns_fini(csv_columns *c);

/* Is it what a label column is called? Upper or lower case. */
bool csv_label_name(const char *name);

/* What columns are said to be: kinds [n], and widths [n] of those that are CSV_HASH or CSV_IDS; others are left alone. */
SHOAL_CHECKED shoal_status csv_columns_kinds(const csv_columns *c, char *const *names, size_t n, csv_kind *kinds,
                                             int *widths);
/* out [2 * fields]: the column of each field, and the one that it is crossed with (else the same). */
SHOAL_CHECKED shoal_status csv_columns_fields(const csv_columns *c, char *const *names, size_t n, size_t *out);
/* roles [n]; names [n] or NULL without a header line. labelled: one of them is the label, or several are. */
SHOAL_CHECKED shoal_status csv_columns_assign(const csv_columns *c, char *const *names, size_t n, bool labelled,
                                              csv_role *roles);

#endif
