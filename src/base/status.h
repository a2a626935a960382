/* Errors by short names: inside the library nearly every function makes or passes on one. */
#ifndef SHOAL_BASE_STATUS_H
#define SHOAL_BASE_STATUS_H

#include "shoal/status.h"

#define status_make shoal_status_make
#define status_make_v shoal_status_make_v
#define status_errno shoal_status_from_errno
#define status_wrap shoal_status_wrap
#define status_no_memory shoal_status_no_memory
#define TRY SHOAL_TRY
#define TRY_GOTO SHOAL_TRY_GOTO

#endif
