/* Raw outputs of a model for arrays: `shoal predict MODEL x.npy -o y.npy`. */
#ifndef SHOAL_CLI_PREDICT_NETWORK_H
#define SHOAL_CLI_PREDICT_NETWORK_H

#include "cli/flags.h"

/* Does it end in one of these, a list ended by NULL? */
bool path_has_ending(const char *path, const char *const *endings);
/* words: what was said behind the model, n of them: FILE.npy, of several inputs NAME=FILE.npy. out: where the result goes;
 * NULL: it is printed. */
SHOAL_CHECKED shoal_status predict_network_file(const char *path, const char *const *words, int n, const char *out);

#endif
