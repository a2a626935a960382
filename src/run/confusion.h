/* How often rows of each class were taken for each other one. */
#ifndef SHOAL_RUN_CONFUSION_H
#define SHOAL_RUN_CONFUSION_H

#include "base/status.h"
#include "shoal/run.h"

#include <jansson.h>

#define CONFUSION_CLASSES 20 /* up to so many it is counted unasked */

SHOAL_CHECKED shoal_status confusion_init(shoal_confusion *c, int classes);
void confusion_fini(shoal_confusion *c);
/* label below 0: the row has none, and does not count. */
void confusion_add(shoal_confusion *c, int64_t label, int64_t predicted);
/* All rows of a data set, as the model takes them. */
SHOAL_CHECKED shoal_status confusion_add_rows(shoal_confusion *c, shoal_model *m, const shoal_dataset *data);

/* [[...], ...] a list for each class; null when nothing was counted. NULL: no memory. */
json_t *confusion_to_json(const shoal_confusion *c);
/* null and NULL: nothing was counted. */
SHOAL_CHECKED shoal_status confusion_from_json(const json_t *list, shoal_confusion *out);

#endif
