/** @file
 * Which Shoal this is. */
#ifndef SHOAL_VERSION_H
#define SHOAL_VERSION_H

#include "shoal/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The version of the library that is loaded, as "0.1.0": major, minor, patch. Constant text. Any thread. */
SHOAL_API const char *shoal_version(void);

#ifdef __cplusplus
}
#endif
#endif
