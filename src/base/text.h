/* What shoal/text.h has, by short names. */
#ifndef SHOAL_BASE_TEXT_H
#define SHOAL_BASE_TEXT_H

#include "base/status.h"
#include "shoal/text.h"

#define text_nearest shoal_nearest_name
#define text_to_int shoal_parse_int
#define text_to_double shoal_parse_double
#define grouped_text shoal_group_digits
#define GROUPED_TEXT SHOAL_DIGITS_TEXT

typedef shoal_text text;
#define text_add shoal_text_add
#define text_add_bytes shoal_text_add_bytes
#define text_fini shoal_text_fini
#define text_write_file shoal_text_write

/* ARGUMENT: "unknown optimizer 'adm': did you mean 'adam'? Known: sgd, adam, ...". what: "optimizer". */
SHOAL_CHECKED shoal_status status_unknown(const char *what, const char *name, const char *const *known, size_t count);

#endif
