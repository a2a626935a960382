#include "run/run_dir.h"

#include "shoal/run.h"

#include "base/json_read.h"
#include "shoal/version.h"
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char *join(const char *folder, const char *name) {
  char *path;
  return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

shoal_status run_dir_init(const char *path, run_dir *out) {
  run_dir r = {strdup(path),
               join(path, "checkpoints"),
               join(path, "summary.json"),
               join(path, "metrics.jsonl"),
               join(path, "settings.json"),
               join(path, "model.safetensors"),
               join(path, "trace.json"),
               join(path, RUN_MODEL),
               join(path, "lock"),
               0};
  if (!r.holder || !r.path || !r.checkpoints || !r.summary || !r.metrics || !r.settings || !r.weights || !r.trace ||
      !r.model) {
    run_dir_fini(&r);
    return status_no_memory();
  }
  *out = r;
  return NULL;
}

void run_dir_fini(run_dir *r) {
  if (r->lock) {
    unlink(r->holder); /* while it is still ours */
    close(r->lock - 1);
  }
  free(r->holder);
  free(r->path);
  free(r->checkpoints);
  free(r->summary);
  free(r->metrics);
  free(r->settings);
  free(r->weights);
  free(r->trace);
  free(r->model);
  *r = (run_dir){0};
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

char *shoal_run_dir_name(const char *model) {
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  char stamp[32];
  strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
  for (int i = 1;; i++) {
    char *path;
    int n = i == 1 ? asprintf(&path, "runs/%s-%s", model, stamp) : asprintf(&path, "runs/%s-%s-%d", model, stamp, i);
    if (n < 0) return NULL;
    if (!exists(path)) return path;
    free(path);
  }
}

bool run_dir_used(const run_dir *r) {
  return exists(r->settings) || exists(r->summary) || exists(r->metrics) || exists(r->checkpoints) ||
         exists(r->weights);
}

shoal_status run_dir_make(const char *folder) {
  char *path = strdup(folder);
  if (!path) return status_no_memory();
  shoal_status status = NULL;
  for (char *p = path + 1; !status; p++) {
    if (*p && *p != '/') continue;
    char kept = *p;
    *p = 0;
    if (mkdir(path, 0777) && errno != EEXIST) status = status_errno(errno, "cannot create the folder %s", path);
    *p = kept;
    if (!kept) break;
  }
  struct stat st;
  if (!status && (stat(folder, &st) || !S_ISDIR(st.st_mode)))
    status = status_make(SHOAL_ERR_ARGUMENT, "`run_dir`: %s exists but is not a folder", folder);
  free(path);
  return status;
}

shoal_status run_dir_refuse(const run_dir *r) {
  char who[256] = "";
  FILE *f = fopen(r->holder, "re");
  if (f && !fgets(who, sizeof who, f)) *who = 0;
  if (f) fclose(f);
  who[strcspn(who, "\n")] = 0;
  return status_make(SHOAL_ERR_ARGUMENT,
                     "%s: another run is using this folder (%s): wait until it ends, or choose another "
                     "`run_dir`",
                     r->path, *who ? who : "by an unknown process");
}

static void say_who(const run_dir *r) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  FILE *f = fopen(r->holder, "we");
  if (!f) return; /* the lock holds all the same */
  fprintf(f, "process %d on %s\n", (int)getpid(), host);
  fclose(f);
}

static void remove_temporary_in(const char *path) {
  DIR *folder = opendir(path);
  for (const struct dirent *e; folder && (e = readdir(folder));) {
    const size_t n = strlen(e->d_name);
    if (n > 4 && !strcmp(e->d_name + n - 4, ".tmp")) unlinkat(dirfd(folder), e->d_name, 0);
  }
  if (folder) closedir(folder);
}

void run_dir_remove_temporary(const run_dir *r) {
  if (!run_dir_taken(r)) return;
  remove_temporary_in(r->path);
  remove_temporary_in(r->checkpoints);
  char *logs;
  if (asprintf(&logs, "%s/logs", r->path) < 0) return; /* the next run there finds it, too */
  remove_temporary_in(logs);
  free(logs);
}

shoal_status run_dir_take(run_dir *r) {
  TRY(run_dir_make(r->path));
  const int fd = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return status_errno(errno, "cannot open the folder %s", r->path);
  if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
    close(fd);
    return run_dir_refuse(r);
  }
  r->lock = fd + 1;
  run_dir_remove_temporary(r);
  say_who(r);
  return NULL;
}

bool run_dir_taken(const run_dir *r) { return r->lock > 0; }

shoal_status run_dir_check(const run_dir *r) {
  struct stat taken, there;
  if (!r->lock || fstat(r->lock - 1, &taken)) return NULL;
  if (!stat(r->path, &there) && there.st_dev == taken.st_dev && there.st_ino == taken.st_ino) return NULL;
  return status_make(
      SHOAL_ERR_SYSTEM,
      "%s was removed or replaced while the run trained: its settings, metrics and checkpoints are lost; a "
      "model that is there now lacks them",
      r->path);
}

bool run_dir_busy(const run_dir *r) {
  const int fd = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool busy = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
  close(fd);
  return busy;
}

/* So that the new name is on the disk too. */
static void sync_folder_of(const char *path) {
  char *copy = strdup(path);
  if (!copy) return;
  int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(copy);
}

shoal_status json_write_atomically(const json_t *value, const char *path) {
  char *temporary;
  if (asprintf(&temporary, "%s.%d.tmp", path, (int)getpid()) < 0) return status_no_memory();
  shoal_status status = NULL;
  errno = 0;
  FILE *f = fopen(temporary, "we");
  if (!f) {
    status = status_errno(errno, "cannot write %s", temporary);
    goto done;
  }
  bool good = json_dumpf(value, f, JSON_INDENT(2)) == 0 && fputc('\n', f) != EOF && fflush(f) == 0 && !ferror(f) &&
              fsync(fileno(f)) == 0;
  int error = errno;
  if (fclose(f) && good) {
    good = false;
    error = errno;
  }
  if (good && rename(temporary, path)) {
    good = false;
    error = errno;
  }
  if (good) {
    sync_folder_of(path);
  } else {
    status = status_errno(error ? error : EIO, "cannot write %s", path);
    unlink(temporary);
  }
done:
  free(temporary);
  return status;
}

shoal_status run_dir_write_settings(const run_dir *r, json_t *settings) {
  if (json_object_set_new(settings, "shoal_version", json_string(shoal_version()))) return status_no_memory();
  return json_write_atomically(settings, r->settings);
}

shoal_status run_dir_read_settings(const char *path, json_t **out) {
  json_error_t error;
  json_t *object = json_read_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!object)
    return status_make(SHOAL_ERR_INPUT, "%s: line %d: %s; expected the settings of a run", path, error.line,
                       error.text);
  if (!json_is_string(json_object_get(object, "model")) || !json_is_object(json_object_get(object, "flags"))) {
    json_decref(object);
    return status_make(SHOAL_ERR_INPUT, "%s: expected an object with \"model\" (text) and \"flags\" (an object)", path);
  }
  *out = object;
  return NULL;
}

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* DIR/settings.json for DIR/model.safetensors, DIR/checkpoints/step-N.safetensors and the folder of the latter. */
static char *settings_near(const char *folder) {
  char *beside = join(folder, "settings.json"), *above = join(folder, "../settings.json");
  char *found = NULL;
  if (beside && exists(beside)) {
    found = beside;
    beside = NULL;
  } else if (above && exists(above)) {
    found = above;
    above = NULL;
  }
  free(beside);
  free(above);
  return found;
}

/* Whether the folder's model is what training has come to: a run that was resumed has checkpoints beyond the end that
 * its summary tells of, or, if it failed then, younger ones. */
static bool model_is_current(const run_dir *r, const char *newest) {
  long long step = 0;
  const char *name = strrchr(newest, '/');
  struct stat model, checkpoint;
  if (sscanf(name ? name + 1 : newest, "step-%lld", &step) != 1) return true;
  json_t *summary = json_read_file(r->summary, 0, NULL);
  const char *status = json_string_value(json_object_get(summary, "status"));
  bool beyond = status && step > json_integer_value(json_object_get(summary, "steps"));
  if (status && !strcmp(status, "failed") && !stat(r->weights, &model) && !stat(newest, &checkpoint))
    beyond = checkpoint.st_mtime > model.st_mtime;
  json_decref(summary);
  return !beyond;
}

static shoal_status weights_of(const char *folder, char **out) {
  run_dir r;
  TRY(run_dir_init(folder, &r));
  char *path = NULL;
  shoal_status status = checkpoint_latest(exists(r.checkpoints) ? r.checkpoints : folder, &path, NULL);
  if (exists(r.weights) && (status || !path || model_is_current(&r, path))) {
    shoal_status_free(status);
    status = NULL;
    free(path);
    path = r.weights;
    r.weights = NULL;
  }
  if (!status && !path)
    status = status_make(SHOAL_ERR_INPUT,
                         "%s: no weights there; expected model.safetensors or checkpoints/step-*.safetensors", folder);
  run_dir_fini(&r);
  if (!status) *out = path;
  return status;
}

/* Adds the model file that lies beside the settings. */
static shoal_status add_model(const char *settings_path, json_t *settings) {
  char *copy = strdup(settings_path), *path = copy ? join(dirname(copy), RUN_MODEL) : NULL;
  json_error_t error = {0};
  json_t *model = path && exists(path) ? json_read_file(path, JSON_REJECT_DUPLICATES, &error) : NULL;
  shoal_status status = NULL;
  if (!path || (model && json_object_set_new(settings, "model_file", model)))
    status = status_no_memory();
  else if (*error.text)
    status = status_make(SHOAL_ERR_INPUT, "%s: line %d: %s", path, error.line, error.text);
  free(path);
  free(copy);
  return status;
}

shoal_status run_dir_resolve(const char *target, char **weights, json_t **settings) {
  if (!exists(target)) return status_errno(errno, "%s", target);
  bool folder = is_folder(target);
  char *path = NULL, *copy = strdup(target);
  json_t *object = NULL;
  if (!copy) return status_no_memory();
  shoal_status status = NULL;
  char *near = settings_near(folder ? copy : dirname(copy));
  if (folder)
    TRY_GOTO(status, weights_of(target, &path), done);
  else if (!(path = strdup(target)))
    TRY_GOTO(status, status_no_memory(), done);
  if (near) TRY_GOTO(status, run_dir_read_settings(near, &object), done);
  if (near) TRY_GOTO(status, add_model(near, object), done);
  *weights = path;
  *settings = object;
done:
  if (status) {
    free(path);
    json_decref(object);
  }
  free(near);
  free(copy);
  return status;
}

/* ---- for programs */

bool shoal_run_dir_used(const char *path) {
  run_dir r;
  shoal_status status = run_dir_init(path, &r);
  const bool used = !status && run_dir_used(&r);
  shoal_status_free(status);
  if (!status) run_dir_fini(&r);
  return used;
}

shoal_status shoal_run_dir_clear(const char *path) {
  run_dir r;
  TRY(run_dir_init(path, &r));
  const char *const left[] = {r.summary, r.settings, r.metrics, r.weights, r.model};
  shoal_status status = NULL;
  for (size_t i = 0; i < sizeof left / sizeof *left && !status; i++)
    if (unlink(left[i]) && errno != ENOENT) status = status_errno(errno, "cannot remove %s", left[i]);
  run_dir_fini(&r);
  return status;
}
