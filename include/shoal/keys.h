/** @file
 * Keys of tasks that talk across hosts (X25519): NAME.key holds the secret, NAME.pub what others may know. A folder of
 * them is what the options of clusters call `keys`: parameter and graph servers take server.key and let in whose .pub
 * files are there; the other tasks take client.key and trust server.pub. */
#ifndef SHOAL_KEYS_H
#define SHOAL_KEYS_H

#include "shoal/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a pair of keys and writes DIR/NAME.key, readable by its owner alone, and DIR/NAME.pub. DIR is made if it is
 * not there; keys that are there are not overwritten, which is SHOAL_ERR_ARGUMENT. Any thread. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_keys_make(const char *dir, const char *name);

/** The same for keys that are refused from `expires` on, in seconds since 1970; 0: never. Both files say so, and each side
 * goes by its own. Any thread. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_keys_make_until(const char *dir, const char *name, int64_t expires);

#ifdef __cplusplus
}
#endif
#endif
