/** @file
 * What a fallible call returns.
 *
 * A shoal_status is NULL on success, otherwise an error object that the caller owns and must pass on or free.
 * The code says what kind of thing broke; the message says where and what to do, and gains context on its way up. */
#ifndef SHOAL_STATUS_H
#define SHOAL_STATUS_H

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
  SHOAL_ERR_INTERNAL   /**< Shoal itself: please report it */
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

#ifdef __cplusplus
}
#endif
#endif
