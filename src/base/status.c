#include "shoal/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shoal_error {
  shoal_code code;
  char *message; /* owned, except in no_memory_error */
};

/* The one error that must not need memory. Never written to. */
static struct shoal_error no_memory_error = {SHOAL_ERR_SYSTEM, (char *)"out of memory"};

shoal_code shoal_status_code(const struct shoal_error *status) { return status ? status->code : SHOAL_OK; }

const char *shoal_status_message(const struct shoal_error *status) { return status ? status->message : "ok"; }

const char *shoal_code_name(shoal_code code) {
  static const char *const names[] = {"ok",     "argument", "input",     "peer",    "refused",
                                      "system", "numeric",  "cancelled", "internal"};
  return (unsigned)code < sizeof names / sizeof *names ? names[code] : "unknown";
}

void shoal_status_free(shoal_status status) {
  if (!status || status == &no_memory_error) return;
  free(status->message);
  free(status);
}

shoal_status shoal_status_no_memory(void) { return &no_memory_error; }

shoal_status shoal_status_make_v(shoal_code code, const char *format, va_list args) {
  struct shoal_error *error = malloc(sizeof *error);
  if (!error) return &no_memory_error;
  error->code = code;
  if (vasprintf(&error->message, format, args) < 0) {
    free(error);
    return &no_memory_error;
  }
  return error;
}

shoal_status shoal_status_make(shoal_code code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  shoal_status status = shoal_status_make_v(code, format, args);
  va_end(args);
  return status;
}

shoal_status shoal_status_wrap(shoal_status status, const char *format, ...) {
  if (!status || status == &no_memory_error) return status;
  char *context = NULL, *message = NULL;
  va_list args;
  va_start(args, format);
  int length = vasprintf(&context, format, args);
  va_end(args);
  if (length < 0) return status; /* better the bare error than none */
  if (asprintf(&message, "%s: %s", context, status->message) >= 0) {
    free(status->message);
    status->message = message;
  }
  free(context);
  return status;
}

shoal_status shoal_status_from_errno(int error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  shoal_status status = shoal_status_make_v(SHOAL_ERR_SYSTEM, format, args);
  va_end(args);
  if (status == &no_memory_error) return status;
  char *message = NULL;
  if (asprintf(&message, "%s: %s", status->message, strerror(error)) >= 0) {
    free(status->message);
    status->message = message;
  }
  return status;
}
