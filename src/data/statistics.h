/* Statistics of the numbers of training rows, for the steps of a transform that need them. */
#ifndef SHOAL_DATA_STATISTICS_H
#define SHOAL_DATA_STATISTICS_H

#include "data/source.h"

/* One pass over all rows of the files, whatever shard the options are about. step: "standardise" (mean and deviation) or
 * "minmax" (least and most). A number that is the same in all rows is only shifted. */
SHOAL_CHECKED shoal_status statistics_learn(const source_options *options, const char *step, feature_scaling *out);
/* s: by which rows [.., s->count] were scaled; becomes what the rows `which` [n] of them alone would have taught. */
SHOAL_CHECKED shoal_status statistics_narrow(feature_scaling *s, const float *rows, const int32_t *which, int64_t n);

#endif
