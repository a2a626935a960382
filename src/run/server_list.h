/* Which parameter servers count, in a cluster on this machine: those of the job file (job_file.h). Others take over when the
 * process that started the tasks has written a second job file beside it and worker 0 has renamed that to the first one: one
 * call, before which the old ones count and behind which the new ones do (train/ps_move.h). */
#ifndef SHOAL_RUN_SERVER_LIST_H
#define SHOAL_RUN_SERVER_LIST_H

#include "run/job_file.h"

#include <sys/types.h>

/* One job file's: addresses point into it. Kept to the end, for whoever still talks to them. */
typedef struct server_file {
  struct server_file *before;
  json_t *file;
  const char *addresses[SERVERS_MAX];
} server_file;

typedef struct {
  char *path, *next_path;
  ino_t inode; /* of the file that was read */
  server_file *files;
  ps_servers now, later;
} server_list;

/* "logs/job.json": the file of those that are to take over; the caller frees it. */
SHOAL_CHECKED shoal_status server_list_next_path(const char *path, char **out);
/* What the file says now. path: of the job file. */
SHOAL_CHECKED shoal_status server_list_open(server_list *l, const char *path);
void server_list_close(server_list *l);
/* Whether others count than those in l->now. */
bool server_list_changed(const server_list *l);
/* Takes those that count now into l->now. */
SHOAL_CHECKED shoal_status server_list_read(server_list *l);
/* Whether others are to take over, which l->later then says. */
bool server_list_has_next(server_list *l);
/* They count from now on. An error: they do not, and the request was withdrawn. */
SHOAL_CHECKED shoal_status server_list_settle(server_list *l);
/* They will not take over. */
void server_list_give_up(server_list *l);

#endif
