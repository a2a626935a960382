#include "observe/report_metrics.h"

#include "base/json_read.h"
#include "base/mem.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (1 << 18)          /* read at once */
#define LINE_BYTES_MAX (1 << 16) /* a longer line is passed over */
#define COLUMN_NAME_MAX 64

/* Keys that are no curve, or that another one says already. */
static const char *const ignored[] = {"epoch", "interval", "threads"};
static const char *const wide_names[] = {"step", "examples", "seconds", "time"};

static bool is_one_of(const char *name, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(name, list[i])) return true;
  return false;
}

/* ---- tracks and columns */

static void track_destroy(report_track *t) {
  if (!t) return;
  for (int i = 0; i < t->count; i++) {
    free(t->columns[i].name);
    free(t->columns[i].at);
  }
  free(t->kind);
  free(t->task);
  free(t);
}

void report_metrics_fini(report_metrics *m) {
  for (size_t i = 0; i < m->count; i++) track_destroy(m->tracks[i]);
  free(m->tracks);
  *m = (report_metrics){0};
}

static size_t column_size(const report_column *c) { return c->wide ? sizeof(double) : sizeof(float); }

size_t report_metrics_bytes(const report_metrics *m) {
  size_t bytes = 0;
  for (size_t i = 0; i < m->count; i++)
    for (int k = 0; k < m->tracks[i]->count; k++) bytes += m->tracks[i]->rows * column_size(&m->tracks[i]->columns[k]);
  return bytes;
}

/* The chief first: chief/0, or worker/0 where there is none. */
static int rank_of(const char *task) { return !strcmp(task, "chief/0") ? 0 : !strcmp(task, "worker/0") ? 1 : 2; }

static shoal_status track_of(report_metrics *m, const char *kind, const char *task, report_track **out) {
  for (size_t i = 0; i < m->count; i++)
    if (!strcmp(m->tracks[i]->kind, kind) && !strcmp(m->tracks[i]->task, task)) {
      *out = m->tracks[i];
      return NULL;
    }
  *out = NULL;
  if (m->count == REPORT_TRACKS_MAX) return NULL; /* more than anybody can look at */
  TRY(mem_grow((void **)&m->tracks, &m->capacity, m->count + 1, sizeof *m->tracks));
  report_track *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->kind = strdup(kind);
  t->task = strdup(task);
  if (!t->kind || !t->task) {
    track_destroy(t);
    return status_no_memory();
  }
  size_t at = m->count;
  while (at > 0 && rank_of(m->tracks[at - 1]->task) > rank_of(task)) at--;
  memmove(m->tracks + at + 1, m->tracks + at, (m->count++ - at) * sizeof *m->tracks);
  m->tracks[at] = t;
  *out = t;
  return NULL;
}

static double column_get(const report_column *c, size_t row) { return c->wide ? c->wide_at[row] : (double)c->at[row]; }

static void column_set(report_column *c, size_t row, double value) {
  if (c->wide)
    c->wide_at[row] = value;
  else
    c->at[row] = (float)value;
}

static report_column *column_find(const report_track *t, const char *name) {
  for (int i = 0; i < t->count; i++)
    if (!strcmp(t->columns[i].name, name)) return (report_column *)&t->columns[i];
  return NULL;
}

/* NULL in *out: one too many. The rows before it are NaN. likely: where it stands if this line is like the last. */
static shoal_status column_of(report_track *t, const char *name, int likely, report_column **out) {
  bool hit = likely < t->count && !strcmp(t->columns[likely].name, name);
  *out = hit ? &t->columns[likely] : column_find(t, name);
  if (*out || t->count == REPORT_COLUMNS_MAX) return NULL;
  report_column c = {.name = strdup(name), .wide = is_one_of(name, wide_names, COUNT_OF(wide_names))};
  c.at = malloc((t->capacity ? t->capacity : 1) * column_size(&c));
  if (!c.name || !c.at) {
    free(c.name);
    free(c.at);
    return status_no_memory();
  }
  for (size_t i = 0; i < t->rows; i++) column_set(&c, i, NAN);
  t->columns[t->count] = c;
  *out = &t->columns[t->count++];
  return NULL;
}

/* Each four rows become the two with the least and the greatest of the first value. */
static void halve(report_track *t) {
  const report_column *measure = NULL;
  for (int i = 0; i < t->count && !measure; i++)
    if (!t->columns[i].wide) measure = &t->columns[i];
  size_t kept = 0;
  for (size_t at = 0; at < t->rows; at += 4) {
    size_t end = MIN_OF(at + 4, t->rows), least = at, most = end - 1;
    for (size_t i = at; measure && i < end; i++) {
      if (column_get(measure, i) < column_get(measure, least)) least = i;
      if (column_get(measure, i) > column_get(measure, most)) most = i;
    }
    size_t pick[2] = {MIN_OF(least, most), MAX_OF(least, most)};
    for (int p = 0; p < (pick[0] == pick[1] ? 1 : 2); p++, kept++)
      for (int i = 0; i < t->count; i++) column_set(&t->columns[i], kept, column_get(&t->columns[i], pick[p]));
  }
  t->rows = kept;
}

static shoal_status make_room(report_track *t) {
  if (t->rows == REPORT_ROWS_MAX) halve(t);
  if (t->rows < t->capacity) return NULL;
  size_t capacity = t->capacity ? 2 * t->capacity : 64;
  for (int i = 0; i < t->count; i++) {
    void *grown = realloc(t->columns[i].at, capacity * column_size(&t->columns[i]));
    if (!grown) return status_no_memory();
    t->columns[i].at = grown;
  }
  t->capacity = capacity;
  return NULL;
}

/* A run that was killed and resumed says some steps twice: the later line counts. */
static void forget_from(report_track *t, double step) {
  const report_column *c = column_find(t, "step");
  while (c && t->rows && c->wide_at[t->rows - 1] >= step) t->rows--;
}

/* ---- lines */

typedef struct {
  char kind[COLUMN_NAME_MAX], task[COLUMN_NAME_MAX];
  struct {
    char name[COLUMN_NAME_MAX];
    double value; /* NaN: null */
  } pairs[REPORT_COLUMNS_MAX];
  int count;
} record;

static void record_clear(record *r) {
  r->count = 0;
  r->kind[0] = r->task[0] = 0;
}

static void record_add(record *r, const char *name, double value) {
  if (r->count == REPORT_COLUMNS_MAX || is_one_of(name, ignored, COUNT_OF(ignored))) return;
  size_t n = strnlen(name, COLUMN_NAME_MAX - 1);
  memcpy(r->pairs[r->count].name, name, n);
  r->pairs[r->count].name[n] = 0;
  r->pairs[r->count++].value = value;
}

static void skip_blanks(const char **at) {
  while (**at == ' ' || **at == '\t') (*at)++;
}

/* A string without escapes, shorter than COLUMN_NAME_MAX. */
static bool take_plain(const char **at, char out[COLUMN_NAME_MAX]) {
  if (*(*at)++ != '"') return false;
  int n = 0;
  while (**at != '"') {
    if (!**at || **at == '\\' || n == COLUMN_NAME_MAX - 1) return false;
    out[n++] = *(*at)++;
  }
  out[n] = 0;
  (*at)++;
  return true;
}

/* As strtod of a JSON number, to within a few units of the last place, and several times as fast. */
static bool take_number(const char **at, double *out) {
  static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *p = *at;
  bool minus = *p == '-';
  p += minus;
  if (*p < '0' || *p > '9') return false;
  uint64_t digits = 0;
  int point = 0, n = 0; /* digits after the point; digits kept */
  for (; *p >= '0' && *p <= '9'; p++) {
    if (n < 18)
      digits = 10 * digits + (uint64_t)(*p - '0'), n += digits > 0;
    else
      point--;
  }
  if (*p == '.')
    for (p++; *p >= '0' && *p <= '9'; p++)
      if (n < 18) digits = 10 * digits + (uint64_t)(*p - '0'), n += digits > 0, point++;
  int exponent = 0;
  if (*p == 'e' || *p == 'E') {
    bool down = *++p == '-';
    if (*p == '-' || *p == '+') p++;
    if (*p < '0' || *p > '9') return false;
    for (; *p >= '0' && *p <= '9'; p++)
      if (exponent < 10000) exponent = 10 * exponent + (*p - '0');
    if (down) exponent = -exponent;
  }
  exponent -= point;
  double value = (double)digits;
  if (exponent < 0)
    value = exponent >= -22 ? value / tens[-exponent] : value * pow(10, exponent);
  else
    value = exponent <= 22 ? value * tens[exponent] : value * pow(10, exponent);
  *out = minus ? -value : value;
  *at = p;
  return true;
}

/* Most lines are flat objects of numbers and short strings: a million of them are read in a second. False: not such a
 * line, for the library to read. */
static bool read_flat(const char *line, record *out) {
  const char *at = line;
  char name[COLUMN_NAME_MAX], words[COLUMN_NAME_MAX];
  skip_blanks(&at);
  if (*at++ != '{') return false;
  for (;;) {
    skip_blanks(&at);
    if (!take_plain(&at, name)) return false;
    skip_blanks(&at);
    if (*at++ != ':') return false;
    skip_blanks(&at);
    double value;
    if (*at == '"') {
      if (!take_plain(&at, words)) return false;
      if (!strcmp(name, "kind")) memcpy(out->kind, words, sizeof words);
      if (!strcmp(name, "task")) memcpy(out->task, words, sizeof words);
    } else if (!strncmp(at, "null", 4)) {
      at += 4;
      record_add(out, name, NAN);
    } else {
      if (!take_number(&at, &value)) return false;
      record_add(out, name, value);
    }
    skip_blanks(&at);
    if (*at == '}') break;
    if (*at++ != ',') return false;
  }
  at++;
  skip_blanks(&at);
  return !*at;
}

/* Of a host's line: {NAME: [sent, received], ...}; all but the loopback added up. */
static void add_interfaces(const json_t *interfaces, record *out) {
  double sent = 0, received = 0;
  const char *name;
  json_t *pair;
  json_object_foreach ((json_t *)interfaces, name, pair) {
    if (!strcmp(name, "lo")) continue;
    sent += json_number_value(json_array_get(pair, 0));
    received += json_number_value(json_array_get(pair, 1));
  }
  record_add(out, "net_sent_bytes_per_second", sent);
  record_add(out, "net_received_bytes_per_second", received);
}

static bool read_any(const char *line, record *out) {
  json_t *o = json_read_words(line, 0, NULL), *value;
  const char *name, *host = json_string_value(json_object_get(o, "host"));
  json_object_foreach (o, name, value) {
    if (json_is_number(value)) record_add(out, name, json_number_value(value));
    if (json_is_null(value)) record_add(out, name, NAN);
    if (!strcmp(name, "interfaces")) add_interfaces(value, out);
    if (!strcmp(name, "kind") && json_is_string(value))
      snprintf(out->kind, COLUMN_NAME_MAX, "%s", json_string_value(value));
    if (!strcmp(name, "task") && json_is_string(value))
      snprintf(out->task, COLUMN_NAME_MAX, "%s", json_string_value(value));
  }
  if (host && !strcmp(out->kind, "host")) snprintf(out->task, COLUMN_NAME_MAX, "%s", host);
  json_decref(o);
  return o != NULL;
}

static shoal_status add_line(report_metrics *m, const char *line) {
  record r; /* large, and read only as far as it is filled */
  record_clear(&r);
  if (!read_flat(line, &r)) {
    record_clear(&r);
    if (!read_any(line, &r)) return NULL;
  }
  if (!*r.kind) return NULL;
  report_track *t;
  TRY(track_of(m, r.kind, r.task, &t));
  if (!t) return NULL;
  for (int i = 0; i < r.count; i++)
    if (!strcmp(r.pairs[i].name, "step")) forget_from(t, r.pairs[i].value);
  TRY(make_room(t));
  size_t row = t->rows;
  t->lines++;
  for (int i = 0; i < t->count; i++) column_set(&t->columns[i], row, NAN);
  for (int i = 0; i < r.count; i++) {
    report_column *c;
    TRY(column_of(t, r.pairs[i].name, i, &c));
    if (c) column_set(c, row, r.pairs[i].value);
  }
  t->rows++;
  return NULL;
}

/* Hands whole lines on; returns how many bytes they took. */
static shoal_status add_lines(report_metrics *m, char *bytes, size_t n, size_t *used) {
  size_t at = 0;
  for (char *end; (end = memchr(bytes + at, '\n', n - at)); at = (size_t)(end - bytes) + 1) {
    *end = 0;
    if ((size_t)(end - bytes) - at < LINE_BYTES_MAX) TRY(add_line(m, bytes + at));
  }
  *used = at;
  return NULL;
}

static shoal_status read_on(report_metrics *m, int fd) {
  char *bytes = malloc(PIECE);
  if (!bytes) return status_no_memory();
  shoal_status status = NULL;
  for (;;) {
    ssize_t n = pread(fd, bytes, PIECE, m->offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = status_errno(errno, "cannot read");
    if (n <= 0) break;
    size_t used;
    status = add_lines(m, bytes, (size_t)n, &used);
    if (status) break;
    if (!used && n < PIECE) break;                 /* half a line: the rest is still to come */
    m->offset += (off_t)(used ? used : (size_t)n); /* a line longer than a piece is passed over piece by piece */
  }
  free(bytes);
  return status;
}

shoal_status report_metrics_read(report_metrics *m, int fd) {
  if (fd < 0) {
    report_metrics_fini(m);
    return NULL;
  }
  struct stat st;
  if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
    close(fd);
    return NULL;
  }
  if (st.st_ino != m->inode || st.st_size < m->offset) report_metrics_fini(m);
  m->inode = st.st_ino;
  shoal_status status = st.st_size > m->offset ? read_on(m, fd) : NULL;
  close(fd);
  return status;
}

/* ---- tests */

/* The training's rows nearest to a step. */
typedef struct {
  double step[2], value[2]; /* at or before it; at or after it. NaN: none */
} bracket;

static void find_bracket(const report_track *t, const char *name, double step, bracket *b) {
  const report_column *steps = column_find(t, "step"), *values = column_find(t, name);
  if (!steps || !values) return;
  size_t low = 0, high = t->rows;
  while (low < high) { /* the first at or after the step */
    size_t middle = (low + high) / 2;
    if (steps->wide_at[middle] < step)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < t->rows && !(steps->wide_at[low] >= b->step[1])) {
    b->step[1] = steps->wide_at[low];
    b->value[1] = values->wide_at[low];
  }
  if (low < t->rows && steps->wide_at[low] == step) low++;
  if (low > 0 && !(steps->wide_at[low - 1] <= b->step[0])) {
    b->step[0] = steps->wide_at[low - 1];
    b->value[0] = values->wide_at[low - 1];
  }
}

/* What the chief had of that at a step; NaN: not known. */
static double value_at_step(const report_metrics *training, const char *name, double step) {
  bracket b = {{NAN, NAN}, {NAN, NAN}};
  const char *task = NULL;
  for (size_t i = 0; i < training->count; i++) {
    const report_track *t = training->tracks[i];
    if (strcmp(t->kind, "step") && strcmp(t->kind, "epoch")) continue;
    if (task && strcmp(t->task, task)) break;
    task = t->task;
    find_bracket(t, name, step, &b);
  }
  if (isnan(b.value[0])) return b.value[1];
  if (isnan(b.value[1]) || b.step[1] <= b.step[0]) return b.value[0];
  return b.value[0] + (step - b.step[0]) / (b.step[1] - b.step[0]) * (b.value[1] - b.value[0]);
}

shoal_status report_metrics_place_tests(report_metrics *m, const report_metrics *training) {
  static const char *const axes[] = {"seconds", "examples"};
  for (size_t i = 0; i < m->count; i++) {
    report_track *t = m->tracks[i];
    const report_column *steps = column_find(t, "step");
    if (!steps || (strcmp(t->kind, "eval") && strcmp(t->kind, "checkpoint"))) continue;
    for (size_t k = 0; k < COUNT_OF(axes); k++) {
      report_column *c;
      TRY(column_of(t, axes[k], 0, &c));
      for (size_t row = 0; c && row < t->rows; row++)
        column_set(c, row, value_at_step(training, axes[k], column_get(column_find(t, "step"), row)));
    }
  }
  return NULL;
}
