/* The page as it was built from web/: HTML in two parts, between which the data goes. */
#ifndef SHOAL_OBSERVE_REPORT_PAGE_H
#define SHOAL_OBSERVE_REPORT_PAGE_H

#include "base/status.h"
#include "observe/report_run.h"

typedef struct {
  const unsigned char *head, *tail;
  size_t head_length, tail_length;
  const char *policy;  /* Content-Security-Policy: scripts and styles by their hashes, nothing from elsewhere */
  const char *missing; /* why this build has no page; NULL: it has one */
} report_page;

/* Made at build time. */
extern const report_page report_page_built;

/* SHOAL_ERR_SYSTEM with what to do when this build has none. */
SHOAL_CHECKED shoal_status report_page_check(void);
/* The whole file for the runs of a set. points: at most so many a curve, fewer when there are many runs. */
SHOAL_CHECKED shoal_status report_page_write(report_set *s, int points, const char *version, text *out);

#endif
