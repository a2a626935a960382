/* What the files of the verdict share: verdict.c, which finds the cause and the warnings, and verdict_forecast.c, which
 * says what one more worker would bring. For those two files only. */
#ifndef SHOAL_OBSERVE_VERDICT_INTERNAL_H
#define SHOAL_OBSERVE_VERDICT_INTERNAL_H

#include "observe/verdict.h"

#define VERDICT_SHORT 1.0 /* seconds: figures of a shorter run are about starting up as much as about training */

static inline double verdict_time(const shoal_times *t) {
  return t->compute + t->network + t->barrier + t->server + t->input;
}

/* The worker behind that one in `tasks`; NULL: the first one, and where there is none. */
const verdict_task *verdict_next_worker(const verdict_facts *f, const verdict_task *after);
/* The parameter server that was at work for longest, or NULL. */
const verdict_task *verdict_busiest(const verdict_facts *f);

void verdict_forecast(const verdict_facts *f, shoal_verdict *v);

#endif
