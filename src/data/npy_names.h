/* What arrays of rows and of labels are called, as files or inside of an .npz archive: X and y, X_train and y_train,
 * train_images and train_labels, data and target, NAME and NAME-labels. A name is made of words between '_', '-' and
 * '.'; folder and ending are no part of it. */
#ifndef SHOAL_DATA_NPY_NAMES_H
#define SHOAL_DATA_NPY_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum { NPY_NAME = 256 };

/* Does the name say that these are labels? */
bool npy_is_labels(const char *name);
/* The name that the labels of `rows` have: the first that may be and for which `there` says yes; false: none. */
bool npy_labels_of(const char *rows, bool (*there)(void *context, const char *name), void *context, char out[NPY_NAME]);
/* Is it about this split: "train" (also what names no split) or "test" (also val, validation)? */
bool npy_in_split(const char *name, const char *split);
/* Does it name a split at all? */
bool npy_names_split(const char *name);

#endif
