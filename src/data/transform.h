/* What is done to each row on its way: decoding, resizing, cropping, flipping, standardising, scaling.
 *
 * A transform is written as words separated by commas, and done in their order:
 *   resize=HxW        to height x width, bilinear; the mean over areas where it shrinks by more than 2
 *   crop=HxW          the middle part of that size
 *   fit=HxW           the middle part, or black around it: whatever the size becomes HxW
 *   gray, colour      to one channel, to three
 *   flip              left and right exchanged, for half of the images, chosen by seed, epoch and row
 *   standardise       to f32 with mean 0 and variance 1 (at least one part in the root of the number of values)
 * Encoded images (ROWS_BYTES) are decoded first, in colour unless gray is asked for, and need one of resize and fit,
 * since each may be of another size. Dense u8 rows [height, width] or [height, width, channels] are images, too.
 *
 * Rows of numbers, f32 or u8 [n], take one of
 *   standardise       each number with mean 0 and variance 1 over the training rows (also: standardize)
 *   minmax            each number from 0 to 1 over the training rows
 *   scale=X           multiplied with X, a number or a fraction such as 1/255 */
#ifndef SHOAL_DATA_TRANSFORM_H
#define SHOAL_DATA_TRANSFORM_H

#include "data/preprocessing.h"
#include "data/rows.h"

typedef struct transform transform;

/* in: of the rows to come. learned: the statistics of transform_statistics, borrowed; else NULL. ARGUMENT error when the
 * text is wrong or does not fit them. */
SHOAL_CHECKED shoal_status transform_create(const char *text, const rows_schema *in, uint64_t seed,
                                            const feature_scaling *learned, transform **out);
/* The step that needs statistics of the training rows; NULL: none does. */
const char *transform_statistics(const char *text, const rows_schema *in);
/* NULL is fine. */
void transform_destroy(transform *t);
/* Of the rows that come out. */
void transform_schema(const transform *t, rows_schema *out);
/* Appends row i of `from`, transformed, to `into`. epoch and row (its number in the epoch) choose what is chosen by
 * chance. Any number of threads may call it at once, each with its own `into`. In the steady state it allocates nothing
 * but what the codecs do. A damaged image: INPUT error. */
SHOAL_CHECKED shoal_status transform_row(transform *t, const rows_block *from, int64_t i, uint64_t epoch, uint64_t row,
                                         rows_block *into);

#endif
