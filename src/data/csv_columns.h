/* Which column of a CSV or TSV file is what.
 *
 * The description is a list of words, separated by commas, in any order:
 *   label=COLUMN     the class; without it (and without target=) the column that a header line calls label, target,
 *                    class or y, or else the last one
 *   target=COLUMN    a number to be predicted (regression) in place of a class
 *   skip=COLUMN      a column to leave out; may be given several times
 *   missing=NUMBER   what an empty field counts as; without it an empty field is an error
 *   header=yes|no    whether the first line holds names; without it, it does when none of its fields is a number, or
 *                    when one is called label, target, class or y
 *   classes=A|B|C    the words of the label column in the order of their numbers
 * A COLUMN is a number, counted from 0, or a name in the header line. All other columns are features, in their order.
 *
 * Labels: whole numbers from 0 on stay what they are; in a file with -1 and +1 those become 0 and 1; words are numbered
 * in the order of their bytes, over all files of the data set (class_names.h). */
#ifndef SHOAL_DATA_CSV_COLUMNS_H
#define SHOAL_DATA_CSV_COLUMNS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum { CSV_FEATURE, CSV_LABEL, CSV_SKIP } csv_role;

typedef struct {
  char *text;   /* owned; the words below point into it */
  char *label;  /* NULL: the standard */
  bool target;  /* it is a number to be predicted */
  char **skip;
  size_t skip_count, skip_capacity;
  bool has_missing;
  float missing;
  int header;   /* 1 yes, 0 no, -1 to be found out */
  char **classes;
  size_t class_count, class_capacity;
} csv_columns;

/* text: NULL is the standard. ARGUMENT error that says what is wrong. */
SHOAL_CHECKED shoal_status csv_columns_parse(const char *text, csv_columns *out);
void csv_columns_fini(csv_columns *c);

/* Is it what a label column is called? Upper or lower case. */
bool csv_label_name(const char *name);

/* roles [n]; names [n] or NULL without a header line. */
SHOAL_CHECKED shoal_status csv_columns_assign(const csv_columns *c, char *const *names, size_t n, csv_role *roles);

#endif
