/* Ctrl-C (and the signals TERM and USR1, which launchers send): the first asks the job to stop cleanly, the second ends
 * the process at once.
 *
 * A thread of its own waits for the signals, so nothing runs inside a signal handler. Create it before any other
 * thread is started: threads inherit that the signals are blocked. */
#ifndef SHOAL_CLI_INTERRUPT_H
#define SHOAL_CLI_INTERRUPT_H

#include "cli/util.h"

typedef struct interrupt interrupt;

/* What is said on standard error after the first signal and after the second; both borrowed. NULL: nothing. */
SHOAL_CHECKED shoal_status interrupt_create(const char *first, const char *second, interrupt **out);
/* Signals go back to their usual meaning. */
void interrupt_destroy(interrupt *i);
/* Becomes the signal's number with the first signal; lives as long as the interrupt. */
const int *interrupt_flag(const interrupt *i);

#endif
