/* How often rows of each class were taken for each other one, as a table. */
#ifndef SHOAL_CLI_CONFUSION_H
#define SHOAL_CLI_CONFUSION_H

#include "shoal/run.h"

#include <stdio.h>

/* A row for each class, by name or number, with the share that was right. */
SHOAL_CHECKED shoal_status confusion_print(const shoal_confusion *c, const char *const *names, FILE *to);

#endif
