#include "train/checkpoint.h"

#include "base/mem.h"
#include "base/text.h"
#include "shoal/version.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDING ".safetensors"
#define TEMPORARY ENDING ".tmp"
#define BEST "best" ENDING

/* ---- names */

/* Is `name` "step-", 12 or more digits, and `ending`? */
static bool parse_name(const char *name, const char *ending, uint64_t *step) {
  if (strncmp(name, "step-", 5)) return false;
  const char *digits = name + 5;
  size_t count = strspn(digits, "0123456789");
  if (count < 12 || count > 20 || strcmp(digits + count, ending)) return false;
  errno = 0;
  uint64_t value = strtoull(digits, NULL, 10);
  if (errno) return false;
  *step = value;
  return true;
}

static bool is_temporary(const char *name) {
  uint64_t step;
  return parse_name(name, TEMPORARY, &step) || !strcmp(name, BEST ".tmp");
}

static int newest_first(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x > y ? -1 : x < y;
}

/* The steps that have a checkpoint, newest first; the caller frees *steps. A folder that is not there has none. */
static shoal_status list_steps(const char *dir, uint64_t **steps, size_t *count) {
  uint64_t *found = NULL;
  size_t n = 0, capacity = 0;
  DIR *folder = opendir(dir);
  if (!folder && errno != ENOENT) return status_errno(errno, "%s: cannot list the checkpoints", dir);
  shoal_status status = NULL;
  for (struct dirent *e; !status && folder && (e = readdir(folder));) {
    uint64_t step;
    if (!parse_name(e->d_name, ENDING, &step)) continue;
    status = mem_grow((void **)&found, &capacity, n + 1, sizeof *found);
    if (!status) found[n++] = step;
  }
  if (folder) closedir(folder);
  if (status) {
    free(found);
    return status;
  }
  if (n) qsort(found, n, sizeof *found, newest_first);
  *steps = found;
  *count = n;
  return NULL;
}

static char *step_path(const char *dir, uint64_t step) {
  char *path;
  return asprintf(&path, "%s/step-%012" PRIu64 ENDING, dir, step) < 0 ? NULL : path;
}

/* ---- writing */

static shoal_status make_folder(const char *dir) {
  if (!*dir) return status_make(SHOAL_ERR_ARGUMENT, "the name of the checkpoint folder is empty");
  char *path = strdup(dir);
  if (!path) return status_no_memory();
  shoal_status status = NULL;
  for (char *end = path + 1; !status; end++) {
    if (*end != '/' && *end) continue;
    char kept = *end;
    *end = 0;
    if (*path && mkdir(path, 0777) && errno != EEXIST)
      status = status_errno(errno, "%s: cannot create the folder for checkpoints", path);
    *end = kept;
    if (!kept) break;
  }
  free(path);
  return status;
}

/* What a kill in the middle of an earlier write left. Failing to remove it harms nothing. */
static void remove_leftovers(const char *dir) {
  DIR *folder = opendir(dir);
  if (!folder) return;
  for (struct dirent *e; (e = readdir(folder));)
    if (is_temporary(e->d_name)) unlinkat(dirfd(folder), e->d_name, 0);
  closedir(folder);
}

/* So that the rename outlives a power cut. */
static shoal_status sync_folder(const char *dir) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return status_errno(errno, "%s: cannot open the folder", dir);
  shoal_status status = NULL;
  /* EINVAL: a file system that cannot sync folders; there is nothing more to do then. */
  if (fsync(fd) && errno != EINVAL) status = status_errno(errno, "%s: cannot sync the folder", dir);
  close(fd);
  return status;
}

static void file_fini(checkpoint_file *f) {
  if (f->fd >= 0) close(f->fd);
  free(f->path);
  free(f->temporary);
  *f = (checkpoint_file){.fd = -1};
}

/* What every file says of itself, beside what it was given; the caller releases it. NULL: no memory. */
static json_t *signed_metadata(const json_t *metadata) {
  json_t *all = metadata ? json_copy((json_t *)metadata) : json_object();
  if (!all || json_object_set_new(all, SAFETENSORS_WRITTEN_BY, json_sprintf("shoal %s", shoal_version())) ||
      json_object_set_new(all, SAFETENSORS_CHECKSUM, json_string(SAFETENSORS_NO_CHECKSUM))) {
    json_decref(all);
    return NULL;
  }
  return all;
}

static shoal_status begin_file(const char *path, const checkpoint_entry *entries, int n, const json_t *metadata,
                               checkpoint_file *out) {
  checkpoint_file f = {.fd = -1, .path = strdup(path)};
  shoal_status status = NULL;
  if (!f.path || asprintf(&f.temporary, "%s.tmp", path) < 0) {
    f.temporary = NULL;
    status = status_no_memory();
  }
  if (!status && (f.fd = open(f.temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
    status = status_errno(errno, "%s: cannot create", f.temporary);
  json_t *all = status ? NULL : signed_metadata(metadata);
  if (!status) status = all ? safetensors_write(f.fd, f.temporary, entries, n, all) : status_no_memory();
  json_decref(all);
  if (status) {
    if (f.fd >= 0) unlink(f.temporary);
    file_fini(&f);
    return status;
  }
  *out = f;
  return NULL;
}

static shoal_status make_safe(checkpoint_file *f) {
  if (fsync(f->fd)) return status_errno(errno, "%s: cannot sync", f->temporary);
  int fd = f->fd;
  f->fd = -1;
  if (close(fd)) return status_errno(errno, "%s: cannot close", f->temporary);
  if (rename(f->temporary, f->path)) return status_errno(errno, "%s: cannot rename to %s", f->temporary, f->path);
  return NULL;
}

static shoal_status finish_file(checkpoint_file *f) {
  const char *slash = strrchr(f->path, '/');
  char *dir = !slash ? strdup(".") : slash == f->path ? strdup("/") : strndup(f->path, (size_t)(slash - f->path));
  shoal_status status = dir ? make_safe(f) : status_no_memory();
  if (status)
    unlink(f->temporary);
  else
    status = sync_folder(dir);
  free(dir);
  return status;
}

shoal_status checkpoint_write_path(const char *path, const checkpoint_entry *entries, int n, const json_t *metadata) {
  checkpoint_file f;
  TRY(begin_file(path, entries, n, metadata, &f));
  shoal_status status = finish_file(&f);
  file_fini(&f);
  return status;
}

shoal_status checkpoint_base(const char *path, char **out) {
  json_t *metadata;
  int64_t step;
  *out = NULL;
  TRY(checkpoint_metadata(path, &metadata));
  const char *base = json_string_value(json_object_get(metadata, CHECKPOINT_BASE)), *slash = strrchr(path, '/');
  shoal_status status = NULL;
  if (base && (!text_to_int(base, &step) || step < 0))
    status = status_make(SHOAL_ERR_INPUT, "%s: the step of its base is '%s'", path, base);
  else if (base &&
           asprintf(out, "%.*sstep-%012" PRIu64 ENDING, slash ? (int)(slash - path + 1) : 0, path, (uint64_t)step) < 0)
    *out = NULL, status = status_no_memory();
  json_decref(metadata);
  return status;
}

/* Whether a file that stays has `path` for its base; if that cannot be told: yes. */
static bool is_needed(const char *dir, const uint64_t *kept, int n, const char *path) {
  bool needed = false;
  for (int i = 0; i < n && !needed; i++) {
    char *one = step_path(dir, kept[i]), *base = NULL;
    shoal_status status = one ? checkpoint_base(one, &base) : status_no_memory();
    needed = status || (base && !strcmp(base, path));
    shoal_status_free(status);
    free(base);
    free(one);
  }
  return needed;
}

/* The new checkpoint is safe by now, so nothing here is worth an error: one that stays is tried again next time. */
static void remove_older(const char *dir, uint64_t step, int keep) {
  uint64_t *steps = NULL;
  size_t count = 0;
  shoal_status_free(list_steps(dir, &steps, &count));
  int kept = 0;
  size_t first = 0;
  for (size_t i = 0; i < count; i++) {
    /* Later steps are another life of this run: not ours to remove. */
    if (steps[i] > step) first = i + 1;
    if (steps[i] > step || kept++ < keep) continue;
    char *path = step_path(dir, steps[i]);
    if (path && !is_needed(dir, steps + first, keep, path)) unlink(path);
    free(path);
  }
  free(steps);
}

shoal_status checkpoint_begin(const char *dir, uint64_t step, const checkpoint_entry *entries, int n,
                              const json_t *metadata, checkpoint_file *out) {
  TRY(make_folder(dir));
  remove_leftovers(dir);
  char *path = step_path(dir, step);
  if (!path) return status_no_memory();
  shoal_status status = begin_file(path, entries, n, metadata, out);
  free(path);
  if (!status) out->step = step;
  return status;
}

shoal_status checkpoint_finish(checkpoint_file *f, const char *dir, int keep, char **path_out) {
  shoal_status status = finish_file(f);
  if (!status && keep > 0) remove_older(dir, f->step, keep);
  if (!status && path_out) {
    *path_out = f->path;
    f->path = NULL;
  }
  file_fini(f);
  return status;
}

shoal_status checkpoint_write(const char *dir, uint64_t step, const checkpoint_entry *entries, int n,
                              const json_t *metadata, int keep, char **path_out) {
  checkpoint_file f;
  TRY(checkpoint_begin(dir, step, entries, n, metadata, &f));
  return checkpoint_finish(&f, dir, keep, path_out);
}

shoal_status checkpoint_write_best(const char *dir, const checkpoint_entry *entries, int n, const json_t *metadata,
                                   char **path_out) {
  TRY(make_folder(dir));
  remove_leftovers(dir);
  char *path;
  if (asprintf(&path, "%s/" BEST, dir) < 0) return status_no_memory();
  shoal_status status = checkpoint_write_path(path, entries, n, metadata);
  if (status || !path_out)
    free(path);
  else
    *path_out = path;
  return status;
}

shoal_status checkpoint_clear(const char *dir) {
  DIR *folder = opendir(dir);
  if (!folder) return errno == ENOENT ? NULL : status_errno(errno, "%s: cannot list the checkpoints", dir);
  shoal_status status = NULL;
  for (struct dirent *e; (e = readdir(folder));) {
    uint64_t step;
    if (!parse_name(e->d_name, ENDING, &step) && strcmp(e->d_name, BEST) && !is_temporary(e->d_name)) continue;
    if (unlinkat(dirfd(folder), e->d_name, 0) && !status)
      status = status_errno(errno, "%s/%s: cannot remove", dir, e->d_name);
  }
  closedir(folder);
  return status;
}

/* ---- reading */

/* What is not there is as bad as what is damaged. */
static shoal_status verify_base(const char *path) {
  char *base;
  safetensors *file;
  TRY(checkpoint_base(path, &base));
  if (!base) return NULL;
  shoal_status status = safetensors_open(base, &file);
  if (!status) {
    status = safetensors_verify(file);
    safetensors_close(file);
  }
  shoal_status bad = NULL;
  if (status) bad = status_make(SHOAL_ERR_INPUT, "%s, which needs another: %s", path, shoal_status_message(status));
  shoal_status_free(status);
  free(base);
  return bad;
}

shoal_status checkpoint_latest(const char *dir, char **path_out, char **note) {
  uint64_t *steps;
  size_t count;
  TRY(list_steps(dir, &steps, &count));
  text passed = {0};
  char *path = NULL;
  shoal_status status = NULL;
  bool found = false;
  for (size_t i = 0; i < count && !found && !status; i++) {
    safetensors *file;
    path = step_path(dir, steps[i]);
    shoal_status problem = path ? safetensors_open(path, &file) : status_no_memory();
    if (!problem) {
      problem = safetensors_verify(file);
      safetensors_close(file);
    }
    if (!problem) problem = verify_base(path);
    if (!problem) {
      found = true;
    } else if (shoal_status_code(problem) == SHOAL_ERR_INPUT) {
      text_add(&passed, "%spassed over %s", passed.length ? "; " : "", shoal_status_message(problem));
      shoal_status_free(problem);
    } else {
      status = problem;
    }
    if (!found) {
      free(path);
      path = NULL;
    }
  }
  free(steps);
  if (!status && passed.failed) status = status_no_memory();
  if (status) {
    free(path);
    text_fini(&passed);
    return status;
  }
  *path_out = path;
  if (note)
    *note = passed.data;
  else
    text_fini(&passed);
  return NULL;
}

/* Names of entries that the file lacks, or of tensors that no entry asks for. */
static shoal_status check_names(const char *path, const safetensors *file, const checkpoint_entry *entries, int n,
                                bool extra_allowed) {
  enum { NAMED_MAX = 5 };
  text missing = {0}, extra = {0};
  int missing_count = 0, extra_count = 0;
  for (int i = 0; i < n; i++)
    if (!safetensors_find(file, entries[i].name) && missing_count++ < NAMED_MAX)
      text_add(&missing, " '%s'", entries[i].name);
  for (size_t i = 0; !extra_allowed && i < safetensors_count(file); i++) {
    const char *name = safetensors_at(file, i)->name;
    bool asked = false;
    for (int j = 0; j < n && !asked; j++) asked = !strcmp(entries[j].name, name);
    if (!asked && extra_count++ < NAMED_MAX) text_add(&extra, " '%s'", name);
  }
  shoal_status status = NULL;
  if (missing_count || extra_count) {
    text all = {0};
    if (missing_count)
      text_add(&all, "%d tensor%s missing:%s%s", missing_count, missing_count > 1 ? "s are" : " is",
               missing.data ? missing.data : "", missing_count > NAMED_MAX ? " ..." : "");
    if (extra_count)
      text_add(&all, "%s%d too many:%s%s", missing_count ? "; " : "", extra_count, extra.data ? extra.data : "",
               extra_count > NAMED_MAX ? " ..." : "");
    status = status_make(SHOAL_ERR_INPUT, "%s: the checkpoint belongs to another model or optimizer: %s", path,
                         all.data ? all.data : "");
    text_fini(&all);
  }
  text_fini(&missing);
  text_fini(&extra);
  return status;
}

static shoal_status read_file(const char *path, checkpoint_entry *entries, int n, bool extra_allowed,
                              json_t **metadata) {
  safetensors *file;
  json_t *copy = NULL;
  TRY(safetensors_open(path, &file));
  shoal_status status;
  TRY_GOTO(status, check_names(path, file, entries, n, extra_allowed), done);
  for (int i = 0; i < n; i++) TRY_GOTO(status, safetensors_check(file, entries[i].name, &entries[i].tensor), done);
  if (metadata) {
    const json_t *found = safetensors_metadata(file);
    copy = found ? json_deep_copy(found) : json_object();
    if (!copy) {
      status = status_no_memory();
      goto done;
    }
    json_object_del(copy, SAFETENSORS_CHECKSUM);
    json_object_del(copy, SAFETENSORS_WRITTEN_BY);
  }
  if (n) TRY_GOTO(status, safetensors_verify(file), done);
  for (int i = 0; i < n; i++)
    if (!entries[i].read) TRY_GOTO(status, safetensors_read(file, entries[i].name, &entries[i].tensor), done);
  if (metadata) {
    *metadata = copy;
    copy = NULL;
  }
done:
  json_decref(copy);
  safetensors_close(file);
  return status;
}

shoal_status checkpoint_read(const char *path, checkpoint_entry *entries, int n, json_t **metadata) {
  return read_file(path, entries, n, false, metadata);
}

shoal_status checkpoint_read_some(const char *path, checkpoint_entry *entries, int n, json_t **metadata) {
  return read_file(path, entries, n, true, metadata);
}

shoal_status checkpoint_metadata(const char *path, json_t **metadata) {
  return read_file(path, NULL, 0, true, metadata);
}
