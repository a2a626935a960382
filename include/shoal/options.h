/** @file
 * Structs of options, and how they grow.
 *
 * Every struct of options that a function takes begins with `size`. Zero in every field is the usual, so
 *
 *     shoal_model_fit(m, data, &(shoal_fit_options){.epochs = 2}, NULL);
 *
 * is right for a program that is compiled and run with the same version of Shoal. A program that shall also run with
 * later versions, without being compiled again, says how large the struct is that it knows:
 *
 *     shoal_model_fit(m, data, &SHOAL_OPTIONS(shoal_fit_options, .epochs = 2), NULL);
 *
 * The library then reads no more than that; fields that it has and the program does not know take their usual value. A
 * program that sets a field which this library does not know yet is refused. */
#ifndef SHOAL_OPTIONS_H
#define SHOAL_OPTIONS_H

#include <stddef.h>

/** Options with their size: SHOAL_OPTIONS(shoal_fit_options, .epochs = 2). */
#define SHOAL_OPTIONS(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})

#endif
