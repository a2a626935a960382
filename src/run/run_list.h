/* Runs of the command, one after the other (shoal/sweep.h): what sweeps and experiments are made of. */
#ifndef SHOAL_RUN_RUN_LIST_H
#define SHOAL_RUN_RUN_LIST_H

#include "base/status.h"
#include "base/text.h"
#include "shoal/sweep.h"

#include <jansson.h>

/* Of run i, borrowed; NULL: it has none yet. */
const json_t *run_list_summary(const shoal_run_list *l, size_t i);
/* FOLDER/name, the caller's; NULL: no memory. */
char *run_list_path(const shoal_run_list *l, const char *name);
/* Writes FOLDER/name; content is freed, whatever happens. */
SHOAL_CHECKED shoal_status run_list_write(const shoal_run_list *l, const char *name, text *content);
/* One command, words ended by NULL, to its end, for what runs need. `log`: its file; the last line there is in the
 * message when it fails. */
SHOAL_CHECKED shoal_status run_list_command(const char *name, const char *const *words, const char *log,
                                            const shoal_run_list_options *options);

#endif
