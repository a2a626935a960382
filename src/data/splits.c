/* Where the train and the test rows of a data set lie. */
#include "base/mem.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/files.h"
#include "data/npz.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>

/* What may hold a split in a folder, in the order in which they are looked for. */
static const struct {
  const char *split, *pattern;
  bool folder;
} places[] = {
    {"train", "train-images*", false},
    {"test", "t10k-images*", false},
    {"train", "data_batch_*", false},
    {"test", "test_batch*", false},
    {"train", "train", true},
    {"test", "test", true},
    {"test", "val", true},
    {"test", "validation", true},
    {"train", "train[-._]*", false},
    {"test", "test[-._]*", false},
    {"test", "val[-._]*", false},
    {"test", "validation[-._]*", false},
    {"train", "*[-_]train.npy", false},
    {"test", "*[-_]test.npy", false},
    {"test", "*[-_]val.npy", false},
};

/* Adds what matches as a list a,b,c; false: nothing does. */
static bool add_matches(const char *folder, const char *pattern, bool folders, text *out) {
  text all = {0};
  glob_t found = {0};
  text_add(&all, "%s/%s", folder, pattern);
  size_t before = out->length;
  if (!all.failed && !glob(all.data, 0, NULL, &found))
    for (size_t i = 0; i < found.gl_pathc; i++) {
      struct stat info;
      const char *slash = strrchr(found.gl_pathv[i], '/');
      if (stat(found.gl_pathv[i], &info) || files_is_beside(slash + 1)) continue;
      if (folders ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode)) continue;
      text_add(out, "%s%s", out->length ? "," : "", found.gl_pathv[i]);
    }
  globfree(&found);
  text_fini(&all);
  return out->length > before;
}

static bool is_folder(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISDIR(info.st_mode);
}

static bool is_known(const char *name) {
  const char *const *names = shoal_dataset_names();
  for (size_t i = 0; names[i]; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

static shoal_status find_split(const char *path, const char *split, text *out) {
  bool found = false, others = false;
  for (size_t i = 0; is_folder(path) && !found && i < COUNT_OF(places); i++) {
    text none = {0};
    if (!strcmp(places[i].split, split))
      found = add_matches(path, places[i].pattern, places[i].folder, out);
    else
      others |= add_matches(path, places[i].pattern, places[i].folder, &none);
    text_fini(&none);
  }
  if (!found && npz_has_split(path, split)) {
    text_add(out, "%s:%s", path, split);
    found = true;
  }
  if (!found && !strcmp(split, "train")) text_add(out, "%s", path);
  if (out->failed) return status_no_memory();
  if (found || !strcmp(split, "train")) return NULL;
  return status_make(SHOAL_ERR_INPUT, "%s: no %s rows are there apart from the others%s", path, split,
                     others
                         ? ""
                         : ": expected folders train and test, files train.* and test.*, X_train.npy and X_test.npy, "
                           "or x_train and x_test in one .npz");
}

shoal_status shoal_dataset_files(const char *name_or_path, const char *split, char **out) {
  text files = {0};
  TRY(dataset_files(name_or_path, split, &files));
  *out = files.data;
  return NULL;
}

shoal_status dataset_files(const char *name_or_path, const char *split, text *out) {
  text path = {0}, files = {0};
  struct stat info;
  bool a_word = !strpbrk(name_or_path, "/*?[,:."), there = !stat(name_or_path, &info);
  if (!there && (a_word || is_known(name_or_path)))
    TRY(dataset_path(name_or_path, &path)); /* which says so when no set is called that */
  else
    text_add(&path, "%s", name_or_path);
  shoal_status status = path.failed ? status_no_memory() : find_split(path.data, split, &files);
  text_fini(&path);
  if (status)
    text_fini(&files);
  else
    *out = files;
  return status;
}
