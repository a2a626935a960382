#include "data/files.h"

#include "base/mem.h"
#include "base/text.h"
#include "data/npy_names.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void files_fini(files_list *list) {
  for (size_t i = 0; i < list->count; i++) free(list->paths[i]);
  free(list->paths);
  *list = (files_list){0};
}

shoal_status files_add(files_list *list, const char *path) {
  TRY(mem_grow((void **)&list->paths, &list->capacity, list->count + 1, sizeof *list->paths));
  char *copy = strdup(path);
  if (!copy) return status_no_memory();
  list->paths[list->count++] = copy;
  return NULL;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Is the folder a data set by itself, in the format asked for or in any? */
static bool folder_is_data(const char *path, const format *f) {
  if (f) return f->detect(path, NULL, 0, true);
  const format *any;
  for (size_t i = 0; (any = format_at(i)); i++)
    if (any->detect(path, NULL, 0, true)) return true;
  return false;
}

bool files_is_beside(const char *name) {
  static const char *const starts[] = {".", "README", "LICENSE", "NOTICE", "COPYING"};
  static const char *const endings[] = {".md", ".json", ".part"};
  static const char *const parts[] = {"-labels", "_labels"};
  size_t length = strlen(name);
  for (size_t i = 0; i < COUNT_OF(starts); i++)
    if (!strncmp(name, starts[i], strlen(starts[i]))) return true;
  for (size_t i = 0; i < COUNT_OF(endings); i++) {
    size_t n = strlen(endings[i]);
    if (length > n && !strcmp(name + length - n, endings[i])) return true;
  }
  for (size_t i = 0; i < COUNT_OF(parts); i++)
    if (strstr(name, parts[i])) return true;
  char stem[NPY_NAME];
  if (length < 5 || length - 4 >= NPY_NAME || strcmp(name + length - 4, ".npy")) return false;
  snprintf(stem, sizeof stem, "%.*s", (int)length - 4, name);
  return npy_is_labels(stem);
}

static shoal_status add_folder(const char *path, files_list *out) {
  DIR *folder = opendir(path);
  if (!folder) return status_make(SHOAL_ERR_INPUT, "%s: cannot open the folder: %s", path, strerror(errno));
  size_t first = out->count;
  shoal_status status = NULL;
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  for (struct dirent *e; !status && (e = readdir(folder));) {
    struct stat info;
    if (files_is_beside(e->d_name)) continue;
    if (fstatat(dirfd(folder), e->d_name, &info, 0) || !S_ISREG(info.st_mode)) continue;
    text file = {0};
    text_add(&file, "%.*s/%s", (int)length, path, e->d_name);
    status = file.failed ? status_no_memory() : files_add(out, file.data);
    text_fini(&file);
  }
  closedir(folder);
  TRY(status);
  if (out->count == first)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: no data files in this folder: give the folder, the files or a glob of the "
                       "data",
                       path);
  qsort(out->paths + first, out->count - first, sizeof *out->paths, by_name);
  return NULL;
}

static shoal_status add_glob(const char *pattern, files_list *out) {
  glob_t found = {0};
  int result = glob(pattern, GLOB_ERR, NULL, &found); /* sorted */
  shoal_status status = NULL;
  if (result == GLOB_NOSPACE)
    status = status_no_memory();
  else if (result == GLOB_ABORTED)
    status = status_make(SHOAL_ERR_INPUT, "%s: cannot list a folder of the path: %s", pattern, strerror(errno));
  else if (result || !found.gl_pathc)
    status = status_make(SHOAL_ERR_INPUT,
                         "%s: no file matches: check the pattern, and quote it so that the shell "
                         "leaves it alone",
                         pattern);
  size_t first = out->count;
  for (size_t i = 0; !status && i < found.gl_pathc; i++) {
    struct stat info;
    if (!stat(found.gl_pathv[i], &info) && S_ISREG(info.st_mode)) status = files_add(out, found.gl_pathv[i]);
  }
  if (!status && out->count == first)
    status = status_make(SHOAL_ERR_INPUT, "%s: only folders match; name the files in them", pattern);
  globfree(&found);
  return status;
}

static bool is_made_up(const char *item) {
  if (!strchr(item, ':')) return false;
  const format *f;
  shoal_status status = format_detect(item, &f);
  bool known = !status;
  shoal_status_free(status);
  return known;
}

static shoal_status add_item(const char *item, const format *f, files_list *out) {
  struct stat info;
  if (!*item) return status_make(SHOAL_ERR_INPUT, "a list of files has an empty item: expected a,b,c");
  if (!stat(item, &info)) {
    if (!S_ISDIR(info.st_mode) || folder_is_data(item, f)) return files_add(out, item);
    return add_folder(item, out);
  }
  int error = errno;
  if (is_made_up(item)) return files_add(out, item);
  if (strpbrk(item, "*?[")) return add_glob(item, out);
  return status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s: give a file, a folder, a glob or a list a,b,c", item,
                     strerror(error));
}

static shoal_status check_twice(const files_list *list) {
  if (list->count < 2) return NULL;
  char **sorted = malloc(list->count * sizeof *sorted);
  if (!sorted) return status_no_memory();
  memcpy(sorted, list->paths, list->count * sizeof *sorted);
  qsort(sorted, list->count, sizeof *sorted, by_name);
  shoal_status status = NULL;
  for (size_t i = 1; i < list->count && !status; i++)
    if (!strcmp(sorted[i - 1], sorted[i]))
      status =
          status_make(SHOAL_ERR_INPUT, "%s: listed twice, so its rows would be used twice: list it once", sorted[i]);
  free(sorted);
  return status;
}

static shoal_status add_items(const char *words, const format *f, files_list *out) {
  struct stat info;
  if (!strchr(words, ',') || !stat(words, &info)) return add_item(words, f, out);
  char *copy = strdup(words), *rest = copy, *item;
  if (!copy) return status_no_memory();
  shoal_status status = NULL;
  while (!status && (item = strsep(&rest, ","))) status = add_item(item, f, out);
  free(copy);
  return status ? status : check_twice(out);
}

shoal_status files_find(const char *words, const format *f, files_list *out) {
  files_list list = {0};
  if (!words || !*words) return status_make(SHOAL_ERR_ARGUMENT, "no files given: name a file, a folder or a glob");
  shoal_status status = add_items(words, f, &list);
  if (status)
    files_fini(&list);
  else
    *out = list;
  return status;
}
