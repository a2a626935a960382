/* .npz archives, NumPy's way to keep several arrays in one file: which of them are rows, and which their labels and, if there
 * are some, weights (sample_weight, sample_weight_train). The
 * rows of a split are FILE.npz:train or FILE.npz:test; FILE.npz alone means the train split, or all there is. */
#ifndef SHOAL_DATA_NPZ_H
#define SHOAL_DATA_NPZ_H

#include "data/stream.h"

typedef struct {
  char *file;          /* the archive, owned */
  char *rows, *labels; /* for messages: "FILE.npz:x_train", owned */
  char *weights;       /* the same; NULL: rows have none */
  stream_part rows_part, labels_part, weights_part;
} npz_pair;

/* Is it FILE.npz:train or FILE.npz:test of a file that is there? */
bool npz_is_split_name(const char *path);
/* Has the archive rows of this split apart from others? False for what is no archive. */
bool npz_has_split(const char *path, const char *split);
/* INPUT error that lists the arrays when there is no pair of rows and labels, or more than one. */
SHOAL_CHECKED shoal_status npz_find_pair(const char *path, npz_pair *out);
void npz_pair_fini(npz_pair *p);

#endif
