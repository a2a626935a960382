/* The format "image-folder": DIR/CLASS/FILE, images of any kind. A class is called as its folder; unless the caller has
 * numbered them, classes are numbered in the order of their names. The rows are the files in the order of folders and
 * names, still encoded. Hidden files, and files beside the class folders, count for nothing; any other file in a class
 * folder must be an image. */
#include "base/mem.h"
#include "base/text.h"
#include "data/format.h"
#include "data/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX (1 << 30) /* of one file */

typedef struct {
  int32_t label;
  size_t name; /* offset in `names` of "class/file" */
} image_file;

typedef struct {
  file_reader base;
  text names;
  image_file *files;
  size_t count, capacity;
  const class_names *classes; /* the options', or: */
  class_names own;
  int class_count; /* as --classes says, or as many as have names */
  int64_t next;
} folder_reader;

extern const format format_image_folder;

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

/* By bytes, so that the order does not depend on the user's language. */
static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void free_entries(struct dirent **entries, int n) {
  for (int i = 0; i < n; i++) free(entries[i]);
  free(entries);
}

static bool image_name(const char *name) {
  static const char *const endings[] = {".jpg", ".jpeg", ".png", ".bmp", ".webp"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; dot && i < COUNT_OF(endings); i++)
    if (!strcasecmp(dot, endings[i])) return true;
  return false;
}

/* Does DIR/CLASS hold a file that is called like an image? */
static bool holds_image(const char *path, const char *class) {
  char *inner;
  if (asprintf(&inner, "%s/%s", path, class) < 0) return false;
  DIR *folder = opendir(inner);
  free(inner);
  bool found = false;
  if (!folder) return false;
  for (struct dirent *e; !found && (e = readdir(folder));) found = image_name(e->d_name);
  closedir(folder);
  return found;
}

static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  DIR *classes = folder ? opendir(path) : NULL;
  if (!classes) return false;
  bool found = false;
  for (struct dirent *e; !found && (e = readdir(classes));) found = visible(e) && holds_image(path, e->d_name);
  closedir(classes);
  return found;
}

static void close_reader(file_reader *base) {
  folder_reader *r = (folder_reader *)base;
  if (!r) return;
  text_fini(&r->names);
  free(r->files);
  class_names_fini(&r->own);
  free(base->path);
  free(r);
}

static shoal_status add_file(folder_reader *r, const char *class, int32_t label, const char *name) {
  void *files = r->files;
  shoal_status status = mem_grow(&files, &r->capacity, r->count + 1, sizeof *r->files);
  r->files = files;
  if (status) return status;
  r->files[r->count++] = (image_file){label, r->names.length};
  text_add(&r->names, "%s/%s", class, name);
  text_add_bytes(&r->names, "", 1);
  return r->names.failed ? status_no_memory() : NULL;
}

/* The number of the class with that name; `path` is its folder, of n files. */
static shoal_status find_class(folder_reader *r, const char *name, const char *path, int n, int32_t *out) {
  if (r->classes == &r->own) TRY(class_names_add(&r->own, name));
  *out = class_names_find(r->classes, name);
  if (*out >= 0 || !n) return NULL;
  char known[CLASS_NAMES_TEXT];
  return status_make(SHOAL_ERR_INPUT, "%s: '%s' is not among the %d classes: %s: rename the folder, or move it away",
                     path, name, r->classes->count,
                     class_names_describe((const char *const *)r->classes->names, known));
}

/* The files of one class; what is no folder is passed over. */
static shoal_status scan_class(folder_reader *r, const char *class) {
  char *path;
  struct dirent **entries;
  struct stat info;
  if (asprintf(&path, "%s/%s", r->base.path, class) < 0) return status_no_memory();
  if (stat(path, &info) || !S_ISDIR(info.st_mode)) {
    free(path);
    return NULL;
  }
  int n = scandir(path, &entries, visible, by_name);
  int32_t label = -1;
  shoal_status status = NULL;
  if (n < 0)
    status = status_make(SHOAL_ERR_INPUT, "%s: cannot read the folder: %s", path, strerror(errno));
  else
    status = find_class(r, class, path, n, &label);
  for (int i = 0; i < n && !status; i++) {
    if (entries[i]->d_type == DT_DIR)
      status = status_make(SHOAL_ERR_INPUT,
                           "%s/%s: expected images in the folder of a class, found a folder: move its "
                           "images up, or give another folder",
                           path, entries[i]->d_name);
    else
      status = add_file(r, class, label, entries[i]->d_name);
  }
  if (n >= 0) free_entries(entries, n);
  free(path);
  return status;
}

static shoal_status scan(folder_reader *r) {
  struct dirent **entries;
  int n = scandir(r->base.path, &entries, visible, by_name);
  if (n < 0) return status_make(SHOAL_ERR_INPUT, "%s: cannot read the folder: %s", r->base.path, strerror(errno));
  shoal_status status = NULL;
  for (int i = 0; i < n && !status; i++) status = scan_class(r, entries[i]->d_name);
  free_entries(entries, n);
  if (!status && !r->count)
    status = status_make(SHOAL_ERR_INPUT,
                         "%s: no images found; expected a folder for each class with JPEG or PNG "
                         "files in it",
                         r->base.path);
  return status;
}

static shoal_status open_reader(const char *path, const format_options *options, file_reader **out) {
  folder_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = &format_image_folder;
  r->base.path = strdup(path);
  r->classes = options->names ? options->names : &r->own;
  shoal_status status = r->base.path ? scan(r) : status_no_memory();
  if (!status && options->classes && r->classes->count > options->classes)
    status = status_make(SHOAL_ERR_INPUT, "%s: has %d folders of classes, but there are %d classes", path,
                         r->classes->count, options->classes);
  r->class_count = options->classes ? options->classes : r->classes->count;
  if (status)
    close_reader(&r->base);
  else
    *out = &r->base;
  return status;
}

static void schema(const file_reader *base, rows_schema *out) {
  *out = (rows_schema){.kind = ROWS_BYTES, .scale = 1, .classes = ((const folder_reader *)base)->class_count};
}

static const class_names *names(const file_reader *base) { return ((const folder_reader *)base)->classes; }

static shoal_status fill(int fd, uint8_t *out, size_t n, size_t *got) {
  for (*got = 0; *got < n;) {
    ssize_t more = read(fd, out + *got, n - *got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return status_make(SHOAL_ERR_INPUT, "cannot read: %s", strerror(errno));
    if (!more) break;
    *got += (size_t)more;
  }
  return NULL;
}

/* The content of an open file as the next row of `into`; not counted yet. */
static shoal_status append(int fd, rows_block *into) {
  struct stat info;
  if (fstat(fd, &info) || !S_ISREG(info.st_mode)) return status_make(SHOAL_ERR_INPUT, "is not a regular file");
  if (info.st_size > BYTES_MAX)
    return status_make(SHOAL_ERR_INPUT, "has %lld bytes, at most %d are read", (long long)info.st_size, BYTES_MAX);
  TRY(rows_reserve(into, 1, info.st_size));
  uint8_t *place = into->bytes + into->offsets[into->count];
  size_t got = 0;
  TRY(fill(fd, place, (size_t)info.st_size, &got));
  if (!image_is_known(place, got))
    return status_make(SHOAL_ERR_INPUT, got ? "expected a JPEG, PNG, BMP or WebP image, found something else: remove it"
                                            : "the file is empty, expected an image: remove it");
  into->offsets[into->count + 1] = into->offsets[into->count] + (int64_t)got;
  return NULL;
}

static shoal_status read_one(folder_reader *r, rows_block *into) {
  const image_file *f = &r->files[r->next];
  const char *name = r->names.data + f->name;
  char *path;
  if (asprintf(&path, "%s/%s", r->base.path, name) < 0) return status_no_memory();
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  free(path);
  shoal_status status = fd < 0 ? status_make(SHOAL_ERR_INPUT, "cannot open: %s", strerror(errno)) : append(fd, into);
  if (fd >= 0) close(fd);
  if (!status) {
    into->labels[into->count++] = f->label;
  } else {
    r->base.can_go_on = shoal_status_code(status) == SHOAL_ERR_INPUT;
    status = status_wrap(status, "%s/%s: record %lld at byte 0", r->base.path, name, (long long)r->next);
  }
  r->next++;
  return status;
}

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  folder_reader *r = (folder_reader *)base;
  base->can_go_on = false;
  for (*got = 0; *got < most && r->next < (int64_t)r->count; ++*got) TRY(read_one(r, into));
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  folder_reader *r = (folder_reader *)base;
  *got = MIN_OF(rows, (int64_t)r->count - r->next);
  r->next += *got;
  return NULL;
}

static void tell(const file_reader *base, file_position *out) {
  *out = (file_position){((const folder_reader *)base)->next, 0};
}

static shoal_status seek(file_reader *base, const file_position *to) {
  folder_reader *r = (folder_reader *)base;
  if (to->record < 0 || to->record > (int64_t)r->count)
    return status_make(SHOAL_ERR_INPUT, "%s: image %lld was requested, but there are %zu: the folder has changed",
                       base->path, (long long)to->record, r->count);
  r->next = to->record;
  return NULL;
}

static const char *row_name(const file_reader *base, int64_t record) {
  const folder_reader *r = (const folder_reader *)base;
  return record >= 0 && record < (int64_t)r->count ? r->names.data + r->files[record].name : "";
}

const format format_image_folder = {
    .name = "image-folder",
    .summary = "a folder with a folder of JPEG, PNG, BMP or WebP images for each class",
    .detect = detect,
    .open = open_reader,
    .schema = schema,
    .read = read_rows,
    .skip = skip,
    .tell = tell,
    .seek = seek,
    .close = close_reader,
    .names = names,
    .row_name = row_name,
};
