/* Removing runs. */
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "run/runs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DAY_SECONDS 86400.0

shoal_status shoal_parse_size(const char *words, int64_t *bytes) {
  static const struct {
    const char *name;
    double bytes;
  } units[] = {{"", 1},    {"b", 1},    {"kb", 1e3}, {"k", 1e3},   {"mb", 1e6},
               {"m", 1e6}, {"gb", 1e9}, {"g", 1e9},  {"tb", 1e12}, {"t", 1e12}};
  char *unit;
  const double value = strtod(words, &unit);
  while (isspace((unsigned char)*unit)) unit++;
  for (size_t i = 0; i < COUNT_OF(units); i++) {
    const double all = value * units[i].bytes;
    if (strcasecmp(unit, units[i].name) || !isdigit((unsigned char)*words) || !(all >= 0 && all < 9e18)) continue;
    *bytes = (int64_t)all;
    return NULL;
  }
  return status_make(SHOAL_ERR_ARGUMENT, "expected a size like 10GB or 500MB, not '%s'", words);
}

/* ---- which */

static bool may_go(const shoal_run_status *s, bool unfinished) {
  if (s->pid || s->part || !strcmp(s->state, "running")) return false;
  return unfinished || !strcmp(s->state, "finished") || !strcmp(s->state, "stopped early");
}

/* wanted [runs->count]. The runs are in order, the youngest first. */
static void choose(const shoal_runs *runs, const shoal_clean_options *o, bool *wanted) {
  const double now = (double)time(NULL);
  int64_t kept = 0, bytes = 0;
  for (size_t i = 0; i < runs->count; i++) {
    const shoal_run_status *s = &runs->runs[i];
    const bool old = o->older_days > 0 && now - s->changed > o->older_days * DAY_SECONDS;
    wanted[i] = may_go(s, o->unfinished) && (old || (o->keep > 0 && kept >= o->keep));
    if (may_go(s, o->unfinished) && !wanted[i]) kept++;
    if (!wanted[i]) bytes += s->bytes;
  }
  for (size_t i = runs->count; o->max_bytes > 0 && bytes > o->max_bytes && i-- > 0;) {
    if (wanted[i] || !may_go(&runs->runs[i], o->unfinished)) continue;
    wanted[i] = true;
    bytes -= runs->runs[i].bytes;
  }
}

/* ---- removing */

/* All in the folder; takes the descriptor. errno of what could not be removed, or 0. */
static int empty(int fd) {
  int error = 0;
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d) {
    error = errno;
    if (fd >= 0) close(fd);
    return error;
  }
  for (const struct dirent *e; (e = readdir(d));) {
    struct stat st;
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue;
    const bool folder = S_ISDIR(st.st_mode);
    int one = folder ? empty(openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) : 0;
    if (!one && unlinkat(dirfd(d), e->d_name, folder ? AT_REMOVEDIR : 0) && errno != ENOENT) one = errno;
    if (!error) error = one;
  }
  closedir(d);
  return error;
}

/* Its lock is held meanwhile: no job can begin there. */
static shoal_status remove_run(const char *path) {
  run_dir r;
  TRY(run_dir_init(path, &r));
  shoal_status status = run_dir_take(&r);
  if (!status) {
    int error = empty(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!error && rmdir(path)) error = errno;
    if (error) status = status_errno(error, "%s cannot be removed", path);
  }
  run_dir_fini(&r);
  return status;
}

shoal_status shoal_runs_clean(const char *folder, const shoal_clean_options *given, shoal_runs **removed) {
  shoal_clean_options o;
  shoal_runs *runs, *picked = NULL;
  TRY(OPTIONS_TAKE(&o, given));
  if (o.keep < 1 && !(o.older_days > 0) && o.max_bytes < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "expected `keep`, `older` or `max_size`: which runs are to go");
  TRY(shoal_runs_read(folder, &runs));
  bool *wanted = calloc(runs->count + 1, sizeof *wanted);
  if (!wanted) {
    shoal_runs_destroy(runs);
    return status_no_memory();
  }
  choose(runs, &o, wanted);
  shoal_status status = runs_pick(runs, wanted, &picked);
  free(wanted);
  for (size_t i = 0; !status && !o.dry_run && i < picked->count; i++) status = remove_run(picked->runs[i].path);
  if (status)
    shoal_runs_destroy(picked);
  else
    *removed = picked;
  return status;
}
