/** @file
 * What a fallible call returns.
 *
 * A shoal_status is NULL on success, otherwise an error object that the caller owns and must pass on or free.
 * The code says what kind of thing broke; the message says where and what to do, and gains context on its way up.
 *
 * Callbacks and programs of one's own make errors of the same kind:
 *
 *     shoal_status load(const char *path) {
 *       if (access(path, R_OK)) return shoal_status_from_errno(errno, "%s", path);
 *       SHOAL_TRY(shoal_status_wrap(parse(path), "%s", path));
 *       return NULL;
 *     }
 *
 * All functions here may be called by any thread; one status is used by one thread at a time. */
#ifndef SHOAL_STATUS_H
#define SHOAL_STATUS_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/** On every function that the library exports. */
#define SHOAL_API __attribute__((visibility("default")))
/** On every function whose status must be looked at. */
#define SHOAL_CHECKED __attribute__((warn_unused_result))

/** What kind of thing broke. */
typedef enum {
  SHOAL_OK = 0,
  SHOAL_ERR_ARGUMENT,  /**< the call: wrong use, shapes that do not fit, unknown name */
  SHOAL_ERR_INPUT,     /**< the data: a file that is missing, truncated or garbage */
  SHOAL_ERR_PEER,      /**< another task: lost, late or speaking nonsense */
  SHOAL_ERR_REFUSED,   /**< another task that will never have us: other keys, another version */
  SHOAL_ERR_SYSTEM,    /**< the machine: memory, disk, a system call */
  SHOAL_ERR_NUMERIC,   /**< the job: a loss that is no number */
  SHOAL_ERR_CANCELLED, /**< somebody asked to stop */
  SHOAL_ERR_INTERNAL,  /**< Shoal itself: please report it */
  SHOAL_ERR_REPORTED   /**< another process of the job, which has said why itself */
} shoal_code;

/** NULL on success, otherwise an error that the caller owns: pass it on, or free it with shoal_status_free. */
typedef struct shoal_error *shoal_status;

/** SHOAL_OK for NULL. */
SHOAL_API shoal_code shoal_status_code(const struct shoal_error *status);
/** One line without a newline; "ok" for NULL. Borrowed: lives as long as the status. */
SHOAL_API const char *shoal_status_message(const struct shoal_error *status);
/** "argument", "input", ... */
SHOAL_API const char *shoal_code_name(shoal_code code);
/** NULL is fine. */
SHOAL_API void shoal_status_free(shoal_status status);

/* ---- making errors */
/** An error with a message of one line, as printf writes it. Never NULL: where memory is short, the error says that. */
SHOAL_API shoal_status shoal_status_make(shoal_code code, const char *format, ...) SHOAL_CHECKED
    __attribute__((format(printf, 2, 3), returns_nonnull));
/** The same with the arguments of a function of one's own that takes them as printf does. */
SHOAL_API shoal_status shoal_status_make_v(shoal_code code, const char *format, va_list args) SHOAL_CHECKED
    __attribute__((format(printf, 2, 0), returns_nonnull));
/** SHOAL_ERR_SYSTEM, with ": " and what strerror says of `error` after the message. Never NULL. */
SHOAL_API shoal_status shoal_status_from_errno(int error, const char *format, ...) SHOAL_CHECKED
    __attribute__((format(printf, 2, 3), returns_nonnull));
/** "out of memory", for which none is needed. Never NULL. */
SHOAL_API shoal_status shoal_status_no_memory(void) SHOAL_CHECKED __attribute__((returns_nonnull));
/** Puts "context: " before the message; the code stays. Takes `status` and returns it; NULL stays NULL. */
SHOAL_API shoal_status shoal_status_wrap(shoal_status status, const char *format, ...) SHOAL_CHECKED
    __attribute__((format(printf, 2, 3)));

/** In a function that returns a shoal_status: returns what `call` gave, unless that is success. */
#define SHOAL_TRY(call)                              \
  do {                                               \
    shoal_status shoal_try_status_ = (call);         \
    if (shoal_try_status_) return shoal_try_status_; \
  } while (0)
/** Sets `status` to what `call` gave and jumps to the label that cleans up, unless that is success. */
#define SHOAL_TRY_GOTO(status, call, label) \
  do {                                      \
    (status) = (call);                      \
    if (status) goto label;                 \
  } while (0)

#ifdef __cplusplus
}
#endif
#endif
