/* Options from programs that may have been compiled with other headers (shoal/options.h). */
#ifndef SHOAL_BASE_OPTIONS_H
#define SHOAL_BASE_OPTIONS_H

#include "base/status.h"

#include <stddef.h>

/* Makes *own of what is given: zero where the program's struct ends before it; NULL: zero everywhere. own->size becomes
 * that of this library's own struct. ARGUMENT: the program's struct is larger, and it uses what is beyond. */
#define OPTIONS_TAKE(own, given) options_take(#given, (own), sizeof *(own), (given), (given) ? (given)->size : 0)
SHOAL_CHECKED shoal_status options_take(const char *what, void *own, size_t bytes, const void *given, size_t size);

#endif
