/* How often rows of each class were taken for each other one. */
#ifndef SHOAL_CLI_CONFUSION_H
#define SHOAL_CLI_CONFUSION_H

#include "shoal/train.h"

#include <jansson.h>
#include <stdio.h>

#define CONFUSION_CLASSES 20 /* up to so many it is counted unasked */

typedef struct {
  int classes;
  int64_t *counts; /* [classes, classes] rows of class i that were taken for class j; owned. NULL: not counted */
} confusion;

SHOAL_CHECKED shoal_status confusion_init(confusion *c, int classes);
void confusion_fini(confusion *c);
/* label below 0: the row has none, and does not count. */
void confusion_add(confusion *c, int64_t label, int64_t predicted);
/* All rows of a data set, as the model takes them. */
SHOAL_CHECKED shoal_status confusion_add_rows(confusion *c, shoal_model *m, const shoal_dataset *data);

/* [[...], ...] a list for each class; null when nothing was counted. NULL: no memory. */
json_t *confusion_json(const confusion *c);
/* A row for each class, by name or number, with the share that was right. */
SHOAL_CHECKED shoal_status confusion_print(const confusion *c, const char *const *names, FILE *to);

#endif
