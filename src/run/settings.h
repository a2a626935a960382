/* Tables of settings (shoal/run.h): reading values, keeping them in JSON, and telling what was said. */
#ifndef SHOAL_RUN_SETTINGS_H
#define SHOAL_RUN_SETTINGS_H

#include "base/status.h"
#include "base/text.h"
#include "shoal/run.h"

#include <jansson.h>

/* The row called so; dashes and underscores are the same. NULL: none. */
const shoal_setting *setting_find(const shoal_setting *table, const char *name);
/* Whether the field differs from that of `unset`. */
bool setting_is_said(const shoal_setting *row, const void *fields, const void *unset);
/* The value as shoal_setting_set reads it; the caller frees it. NULL: no memory. */
char *setting_to_text(const shoal_setting *row, const void *fields);
void setting_copy(const shoal_setting *row, const void *from, void *to);

/* The kept settings as an object; NULL: no memory. The caller owns it. */
json_t *settings_to_json(const shoal_setting *table, const void *fields);
/* Sets the kept settings that the object has; it must outlive `fields`. `file` is for messages. */
SHOAL_CHECKED shoal_status settings_from_json(const shoal_setting *table, const json_t *object, const char *file,
                                              void *fields);
/* "name=value" lines of the settings that decide what is learned. */
void settings_to_lines(const shoal_setting *table, const void *fields, text *out);

/* "a, b or c" */
void text_add_names(const char *const *names, text *out);

#endif
