/* Which files are meant: a file, a folder, a glob or a comma-separated list of those. */
#ifndef SHOAL_DATA_FILES_H
#define SHOAL_DATA_FILES_H

#include "data/format.h"

typedef struct {
  char **paths; /* owned, as is each */
  size_t count, capacity;
} files_list;

/* The paths that `words` stands for, in a fixed order: the items of a comma-separated list as they are given (a path
 * with a comma in it may be given alone), each being
 *   a file,
 *   a glob (*, ?, [...]): the files that match, sorted by name,
 *   a folder that is a data set by itself (images in class folders, IDX files): the folder,
 *   any other folder: the files in it, sorted by name, without those that lie beside data (files_is_beside),
 *   data whose name is no path: made, as "fake:28x28x1:10", or a part of a file, as "digits.npz:test".
 * f: the format asked for, or NULL when it is to be found out. What is missing, empty or matches nothing is an INPUT
 * error that names it. A file named twice is an error too: its rows would count twice. */
SHOAL_CHECKED shoal_status files_find(const char *words, const format *f, files_list *out);
/* Is a file of this name not rows, but what lies beside them: hidden, labels (NAME-labels..., y.npy, y_train.npy, found
 * from the rows' file), notes (README, LICENSE, NOTICE, COPYING, *.md, *.json) or half written (*.part)? */
bool files_is_beside(const char *name);
void files_fini(files_list *list);
/* Takes nothing; copies the path. */
SHOAL_CHECKED shoal_status files_add(files_list *list, const char *path);

#endif
