/* Functions that stop in the middle and go on later, in one thread: each has a stack of its own. */
#ifndef SHOAL_BASE_COROUTINE_H
#define SHOAL_BASE_COROUTINE_H

#include "base/status.h"

#include <stdbool.h>

typedef struct coroutine coroutine;

/* run begins with the first coroutine_resume. */
SHOAL_CHECKED shoal_status coroutine_create(void (*run)(void *context), void *context, coroutine **out);
/* Not while it runs. What `run` holds when it has not ended is lost. */
void coroutine_destroy(coroutine *c);
/* Runs until it stops or has ended. */
void coroutine_resume(coroutine *c);
/* Called in it: goes back to who resumed it. */
void coroutine_stop(coroutine *c);
bool coroutine_ended(const coroutine *c);

#endif
