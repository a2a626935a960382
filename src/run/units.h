/* Numbers with units, as people write them: rates and times. */
#ifndef SHOAL_RUN_UNITS_H
#define SHOAL_RUN_UNITS_H

#include <stdbool.h>

/* "1.8gbit": bits a second; "100us": seconds. False: not so, or not above 0. */
bool units_rate(const char *words, double *out);
bool units_time(const char *words, double *out);

#endif
