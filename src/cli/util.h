/* What every file of the command uses, on top of the public headers alone: errors by short names, the clock, text that
 * grows. */
#ifndef SHOAL_CLI_UTIL_H
#define SHOAL_CLI_UTIL_H

#include "shoal/status.h"
#include "shoal/text.h"

#include <stdio.h>
#include <stdlib.h>

#define status_make shoal_status_make
#define status_errno shoal_status_from_errno
#define status_wrap shoal_status_wrap
#define status_no_memory shoal_status_no_memory
#define TRY SHOAL_TRY

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

#define grouped_text shoal_group_digits
#define GROUPED_TEXT SHOAL_DIGITS_TEXT
typedef shoal_text text;
#define text_add shoal_text_add
#define text_add_bytes shoal_text_add_bytes
#define text_fini shoal_text_fini

/* Seconds since an arbitrary start; never goes back. */
double seconds_now(void);

/* The folder and those above it, unless they are there. */
SHOAL_CHECKED shoal_status make_folders(const char *path);

#endif
