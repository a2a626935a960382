/* Making errors and adding context to them. */
#ifndef SHOAL_BASE_STATUS_H
#define SHOAL_BASE_STATUS_H

#include "shoal/status.h"

#include <stdarg.h>

/* Never returns NULL: when memory is short it returns a static error that says so. */
shoal_status status_make(shoal_code code, const char *format, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));
shoal_status status_make_v(shoal_code code, const char *format, va_list args) __attribute__((returns_nonnull));
/* As status_make, with ": strerror(error)" appended. */
shoal_status status_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3), returns_nonnull));
/* Puts "context: " before the message. Takes `status`; NULL stays NULL. */
shoal_status status_wrap(shoal_status status, const char *format, ...)
    SHOAL_CHECKED __attribute__((format(printf, 2, 3)));
shoal_status status_no_memory(void) __attribute__((returns_nonnull));

/* Returns from the calling function when `call` fails. */
#define TRY(call)                       \
  do {                                  \
    shoal_status try_status_ = (call);  \
    if (try_status_) return try_status_; \
  } while (0)

/* Jumps to a clean-up label with `status` set when `call` fails. */
#define TRY_GOTO(status, call, label)   \
  do {                                  \
    (status) = (call);                  \
    if (status) goto label;             \
  } while (0)

#endif
