#include "observe/report_run.h"

#include "base/json_read.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 5 /* folders below the root */
#define RUNS_MAX 20000
#define FILE_BYTES_MAX (8 << 20) /* of a JSON file that is embedded */
#define LISTED_MAX (16 << 10)    /* bytes of a summary that are kept for the next list */

static const struct {
  const char *folder, *name; /* folder: inside the run's, or NULL */
} places[REPORT_FILES] = {
    [REPORT_SUMMARY] = {NULL, "summary.json"},  [REPORT_SETTINGS] = {NULL, "settings.json"},
    [REPORT_GRAPH] = {NULL, "graph.json"},      [REPORT_SWEEP] = {NULL, "sweep.json"},
    [REPORT_TRACE] = {NULL, "trace.json"},      [REPORT_COMPARISON] = {NULL, "comparison.json"},
    [REPORT_METRICS] = {NULL, "metrics.jsonl"}, [REPORT_TESTS] = {"eval", "metrics.jsonl"},
};
/* Folders inside a run, where no other run lies. */
static const char *const inner[] = {"checkpoints", "logs", "eval"};

/* ---- the set */

static void run_destroy(report_run *r) {
  if (!r) return;
  report_metrics_fini(&r->metrics);
  report_metrics_fini(&r->tests);
  text_fini(&r->listed);
  free(r->name);
  free(r->path);
  free(r);
}

void report_set_fini(report_set *s) {
  for (size_t i = 0; i < s->count; i++) run_destroy(s->runs[i]);
  free(s->runs);
  free(s->root);
  *s = (report_set){0};
}

report_run *report_set_find(report_set *s, int id) {
  for (size_t i = 0; i < s->count; i++)
    if (s->runs[i]->id == id) return s->runs[i];
  return NULL;
}

static report_run *find_path(report_set *s, const char *path) {
  for (size_t i = 0; i < s->count; i++)
    if (!strcmp(s->runs[i]->path, path)) return s->runs[i];
  return NULL;
}

static shoal_status add_run(report_set *s, const char *path, const char *name, report_run **out) {
  TRY(mem_grow((void **)&s->runs, &s->capacity, s->count + 1, sizeof *s->runs));
  report_run *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->id = s->next_id++;
  r->path = strdup(path);
  r->name = strdup(name);
  for (int i = 0; i < REPORT_FILES; i++) r->files[i].size = -1;
  if (!r->path || !r->name) {
    run_destroy(r);
    return status_no_memory();
  }
  s->runs[s->count++] = r;
  *out = r;
  return NULL;
}

/* ---- searching */

/* The folder inside that of the run, `run`, that such a file lies in: a descriptor of its own, or -1. */
static int open_place(int run, report_file which) {
  return openat(run, places[which].folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* -1: not there. */
static int open_file(const report_run *r, report_file which) {
  int run = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int folder = run < 0 || !places[which].folder ? run : open_place(run, which);
  int fd = folder < 0 ? -1 : openat(folder, places[which].name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (folder >= 0 && folder != run) close(folder);
  if (run >= 0) close(run);
  return fd;
}

/* What is there, as far as it is a regular file. */
static void look_at(int run, int64_t size[REPORT_FILES], int64_t changed[REPORT_FILES]) {
  for (int i = 0; i < REPORT_FILES; i++) {
    struct stat st;
    int folder = places[i].folder ? open_place(run, (report_file)i) : run;
    bool there = folder >= 0 && !fstatat(folder, places[i].name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode);
    if (folder >= 0 && folder != run) close(folder);
    size[i] = there ? st.st_size : -1;
    changed[i] = there ? (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec : 0;
  }
}

static shoal_status note(report_set *s, int folder, const char *path, const char *name, bool *changed) {
  int64_t size[REPORT_FILES], when[REPORT_FILES];
  look_at(folder, size, when);
  bool is_run = size[REPORT_SUMMARY] >= 0 || size[REPORT_SETTINGS] >= 0 || size[REPORT_METRICS] >= 0;
  bool is_sweep = size[REPORT_SWEEP] >= 0 || size[REPORT_COMPARISON] >= 0;
  report_run *r = find_path(s, path);
  if (!is_run && !is_sweep) return NULL;
  if (!r && s->count == RUNS_MAX) return NULL;
  if (!r) TRY(add_run(s, path, name, &r));
  bool differs = !r->revision;
  for (int i = 0; i < REPORT_FILES; i++) {
    differs |= r->files[i].size != size[i] || r->files[i].changed != when[i];
    r->files[i].size = size[i];
    r->files[i].changed = when[i];
  }
  r->is_run = is_run;
  r->is_sweep = is_sweep;
  r->seen = true;
  if (differs) {
    r->revision = ++s->clock;
    *changed = true;
  }
  return NULL;
}

static bool is_inner(const char *name) {
  for (size_t i = 0; i < COUNT_OF(inner); i++)
    if (!strcmp(inner[i], name)) return true;
  return name[0] == '.';
}

/* Takes the descriptor. name: "" at the root. */
static shoal_status walk(report_set *s, int fd, const char *path, const char *name, int depth, bool *changed) {
  shoal_status status = note(s, fd, path, *name ? name : basename((char *)path), changed);
  DIR *d = status || depth == DEPTH_MAX ? NULL : fdopendir(fd);
  if (!d) {
    close(fd);
    return status;
  }
  for (struct dirent *e; !status && (e = readdir(d));) {
    if (is_inner(e->d_name) || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN)) continue;
    int below = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) continue;
    char *p = NULL, *n = NULL;
    if (asprintf(&p, "%s/%s", path, e->d_name) < 0 || asprintf(&n, "%s%s%s", name, *name ? "/" : "", e->d_name) < 0) {
      close(below);
      status = status_no_memory();
    } else {
      status = walk(s, below, p, n, depth + 1, changed);
    }
    free(p);
    free(n);
  }
  closedir(d);
  return status;
}

static int by_name(const void *a, const void *b) {
  return strverscmp((*(report_run *const *)a)->name, (*(report_run *const *)b)->name);
}

shoal_status report_set_search(report_set *s, bool *changed) {
  *changed = false;
  for (size_t i = 0; i < s->count; i++) s->runs[i]->seen = false;
  int fd = open(s->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) TRY(walk(s, fd, s->root, "", 0, changed));
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (s->runs[i]->seen) {
      s->runs[kept++] = s->runs[i];
      continue;
    }
    run_destroy(s->runs[i]);
    *changed = true;
  }
  s->count = kept;
  if (s->count) qsort(s->runs, s->count, sizeof *s->runs, by_name);
  return NULL;
}

shoal_status report_set_add(report_set *s, const char *path) {
  char *trimmed = strdup(path);
  if (!trimmed) return status_no_memory();
  for (size_t n = strlen(trimmed); n > 1 && trimmed[n - 1] == '/'; n--) trimmed[n - 1] = 0;
  size_t before = s->count;
  bool changed;
  int fd = open(trimmed, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  shoal_status status = fd < 0 ? status_errno(errno, "%s", trimmed) : walk(s, fd, trimmed, "", 0, &changed);
  if (!status && s->count == before && !find_path(s, trimmed))
    status = status_make(
        SHOAL_ERR_INPUT,
        "%s: no run found; expected a folder with summary.json or metrics.jsonl, or one that contains such folders",
        trimmed);
  if (s->count > before) /* arguments stay in their order */
    qsort(s->runs + before, s->count - before, sizeof *s->runs, by_name);
  free(trimmed);
  return status;
}

/* ---- writing */

/* The file's JSON value; NULL: not there, too large or no JSON. */
static json_t *load(const report_run *r, report_file which) {
  if (r->files[which].size < 0 || r->files[which].size > FILE_BYTES_MAX) return NULL;
  int fd = open_file(r, which);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
  json_t *value = f ? json_read_stream(f, 0, NULL) : NULL;
  if (f)
    fclose(f);
  else if (fd >= 0)
    close(fd);
  return value;
}

/* Inside an HTML script element no '<' may stand; in JSON it stands in strings only. */
static int add_safely(const char *bytes, size_t n, void *context) {
  text *out = context;
  size_t from = 0;
  for (size_t i = 0; i < n; i++) {
    if (bytes[i] != '<' && bytes[i] != '>' && bytes[i] != '&') continue;
    text_add_bytes(out, bytes + from, i - from);
    text_add(out, "\\u%04x", bytes[i]);
    from = i + 1;
  }
  text_add_bytes(out, bytes + from, n - from);
  return 0;
}

static void write_value(text *out, const char *key, const json_t *value) {
  text_add(out, ",\"%s\":", key);
  if (!value || json_dump_callback(value, add_safely, out, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)))
    text_add(out, "null");
}

static void write_file(text *out, const char *key, const report_run *r, report_file which) {
  json_t *value = load(r, which);
  write_value(out, key, value);
  json_decref(value);
}

static void write_head(text *out, const report_run *r) {
  text_add(out, "{\"id\":%d,\"name\":", r->id);
  report_write_string(out, r->name);
  text_add(out, ",\"revision\":%llu", (unsigned long long)r->revision);
}

/* Others' metrics, the longest unused first, until all fit. */
static void give_up_memory(report_set *s, const report_run *keep) {
  for (;;) {
    size_t bytes = 0;
    report_run *oldest = NULL;
    for (size_t i = 0; i < s->count; i++) {
      report_run *r = s->runs[i];
      size_t own = report_metrics_bytes(&r->metrics) + report_metrics_bytes(&r->tests);
      bytes += own;
      if (own && r != keep && (!oldest || r->used < oldest->used)) oldest = r;
    }
    if (bytes <= REPORT_MEMORY_MAX || !oldest) return;
    report_metrics_fini(&oldest->metrics);
    report_metrics_fini(&oldest->tests);
  }
}

static void write_tracks(const report_metrics *m, const report_range *range, bool *first, text *out) {
  for (size_t i = 0; i < m->count; i++, *first = false) {
    if (!*first) text_add_bytes(out, ",", 1);
    report_track_write(m->tracks[i], range, out);
  }
}

shoal_status report_run_write(report_set *s, report_run *r, const report_range *range, text *out) {
  r->used = ++s->clock;
  TRY(status_wrap(report_metrics_read(&r->metrics, open_file(r, REPORT_METRICS)), "%s/metrics.jsonl", r->path));
  TRY(status_wrap(report_metrics_read(&r->tests, open_file(r, REPORT_TESTS)), "%s/eval/metrics.jsonl", r->path));
  TRY(report_metrics_place_tests(&r->metrics, &r->metrics));
  TRY(report_metrics_place_tests(&r->tests, &r->metrics));
  give_up_memory(s, r);
  write_head(out, r);
  if (!range->by) { /* a part is asked for by who has the rest */
    write_file(out, "summary", r, REPORT_SUMMARY);
    write_file(out, "settings", r, REPORT_SETTINGS);
    write_file(out, "graph", r, REPORT_GRAPH);
    text_add(out, ",\"traced\":%s", r->files[REPORT_TRACE].size > 0 ? "true" : "false");
  }
  text_add(out, ",\"tracks\":[");
  bool first = true;
  write_tracks(&r->metrics, range, &first, out);
  write_tracks(&r->tests, range, &first, out);
  text_add(out, "]}");
  return out->failed ? status_no_memory() : NULL;
}

/* Only what has changed is read again: there may be thousands of runs. */
static void write_summary(text *out, report_run *r) {
  if (r->listed_at != r->revision || !r->listed.length) {
    text_fini(&r->listed);
    write_file(&r->listed, "summary", r, REPORT_SUMMARY);
    r->listed_at = r->revision;
  }
  out->failed |= r->listed.failed;
  if (!r->listed.failed) text_add_bytes(out, r->listed.data, r->listed.length);
  if (r->listed.failed || r->listed.length > LISTED_MAX) text_fini(&r->listed);
}

shoal_status report_set_write_list(report_set *s, text *out) {
  text_add(out, "[");
  for (size_t i = 0; i < s->count; i++) {
    report_run *r = s->runs[i];
    if (i) text_add_bytes(out, ",", 1);
    write_head(out, r);
    text_add(out, ",\"run\":%s,\"sweep\":%s", r->is_run ? "true" : "false", r->is_sweep ? "true" : "false");
    write_summary(out, r);
    text_add_bytes(out, "}", 1);
  }
  text_add(out, "]");
  return out->failed ? status_no_memory() : NULL;
}

shoal_status report_sweep_write(const report_run *r, text *out) {
  write_head(out, r);
  write_file(out, "sweep", r, REPORT_SWEEP);
  write_file(out, "comparison", r, REPORT_COMPARISON);
  text_add(out, "}");
  return out->failed ? status_no_memory() : NULL;
}
