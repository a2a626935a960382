#include "observe/tracking.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SERVICES_MAX = 4, QUEUE = 512, BATCH = 100 };
#define REQUEST_SECONDS 5.0
#define AGAIN_SECONDS 5.0 /* between a failure and the next try */
#define END_SECONDS 10.0  /* for what is left when the job has ended */

static const tracking_kind *const kinds[] = {&tracking_mlflow, &tracking_otlp};

typedef struct {
  const tracking_kind *kind;
  char *target;
  tracked_run run;
  void *state; /* NULL: not begun */
  pthread_t thread;
  bool started;
  pthread_mutex_t lock; /* of all below */
  pthread_cond_t wake;
  json_t *queue[QUEUE]; /* a ring */
  size_t first, count;
  int64_t dropped;
  bool ends, finished, stopped;
  char *failure; /* not told yet */
  bool failed;   /* once: all later ones are not told */
} service;

struct tracking {
  service services[SERVICES_MAX];
  int count;
  char *folder, *model;
  json_t *settings;
};

double tracking_seconds(const tracked_run *run) {
  double until;
  __atomic_load(&run->until, &until, __ATOMIC_RELAXED);
  const double left = until > 0 ? until - clock_seconds() : REQUEST_SECONDS;
  return MAX_OF(MIN_OF(left, REQUEST_SECONDS), 0.1);
}

const char *tracking_variable(const char *name) {
  const char *said = getenv(name);
  return said && *said ? said : NULL;
}

void tracking_numbers(const json_t *line, void *context, void (*f)(void *context, const char *name, double value)) {
  static const char *const left_out[] = {"time", "step"}; /* where the others stand */
  const char *kind = json_string_value(json_object_get(line, "kind")), *key;
  const char *prefix = !kind ? "" : !strcmp(kind, "epoch") ? "epoch_" : !strcmp(kind, "eval") ? "test_" : "";
  json_t *value;
  json_object_foreach ((json_t *)line, key, value) {
    char name[128];
    bool placed = false;
    for (size_t i = 0; i < COUNT_OF(left_out); i++) placed |= !strcmp(key, left_out[i]);
    if (placed || !json_is_number(value)) continue;
    snprintf(name, sizeof name, "%s%s", prefix, key);
    f(context, name, json_number_value(value));
  }
}

/* ---- one service */

static void note_failure(service *s, shoal_status status) {
  pthread_mutex_lock(&s->lock);
  char *words = NULL;
  if (!s->failed && asprintf(&words, "`sink` %s: %s; training goes on, and it is tried again", s->kind->name,
                             shoal_status_message(status)) >= 0)
    s->failure = words;
  s->failed = true;
  pthread_mutex_unlock(&s->lock);
  shoal_status_free(status);
}

/* Waits for lines or the end; *n of them are the caller's then. False: it is the end, and nothing is left. */
static bool take(service *s, json_t *lines[BATCH], size_t *n) {
  pthread_mutex_lock(&s->lock);
  while (!s->count && !s->ends) pthread_cond_wait(&s->wake, &s->lock);
  for (*n = 0; *n < BATCH && s->count; s->count--) {
    lines[(*n)++] = s->queue[s->first];
    s->first = (s->first + 1) % QUEUE;
  }
  const bool more = *n || !s->ends;
  pthread_mutex_unlock(&s->lock);
  return more;
}

/* Until it may be tried again, or the job ends. */
static void pause_service(service *s) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)AGAIN_SECONDS;
  pthread_mutex_lock(&s->lock);
  while (!s->ends && pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT) {}
  pthread_mutex_unlock(&s->lock);
}

static bool is_over(const service *s) {
  double until;
  __atomic_load(&s->run.until, &until, __ATOMIC_RELAXED);
  return until > 0 && clock_seconds() > until;
}

static shoal_status send_lines(service *s, json_t *const *lines, size_t n) {
  if (!s->state) TRY(s->kind->begin(&s->run, &s->state));
  return n ? s->kind->send(s->state, &s->run, lines, n) : NULL;
}

static void *serve(void *context) {
  service *s = context;
  json_t *lines[BATCH];
  size_t n;
  shoal_status status = send_lines(s, NULL, 0); /* so that the run is there from its beginning */
  if (status) note_failure(s, status);
  while (take(s, lines, &n)) {
    const bool over = is_over(s);
    status = over ? NULL : send_lines(s, lines, n);
    for (size_t i = 0; i < n; i++) json_decref(lines[i]);
    if (status) {
      note_failure(s, status);
      pause_service(s);
    }
  }
  if (s->state && !is_over(s)) {
    status = s->kind->end(s->state, &s->run, s->finished, s->stopped);
    if (status) note_failure(s, status);
  }
  return NULL;
}

static shoal_status start(service *s) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&s->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&s->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  const int error = pthread_create(&s->thread, NULL, serve, s);
  if (error) {
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    return status_errno(error, "`sink`: cannot start a thread");
  }
  s->started = true;
  return NULL;
}

static void add(service *s, json_t *line) {
  pthread_mutex_lock(&s->lock);
  if (s->count == QUEUE) {
    json_decref(s->queue[s->first]);
    s->first = (s->first + 1) % QUEUE;
    s->count--;
    s->dropped++;
  }
  s->queue[(s->first + s->count++) % QUEUE] = json_incref(line);
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
}

static void ask_to_end(service *s, bool finished, bool stopped) {
  pthread_mutex_lock(&s->lock);
  s->ends = true;
  s->finished = finished;
  s->stopped = stopped;
  double until = clock_seconds() + END_SECONDS;
  __atomic_store(&s->run.until, &until, __ATOMIC_RELAXED);
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
}

static void fini(service *s) {
  if (s->started) {
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
  }
  for (size_t i = 0; i < s->count; i++) json_decref(s->queue[(s->first + i) % QUEUE]);
  if (s->state) s->kind->destroy(s->state);
  free(s->failure);
  free(s->target);
}

/* ---- all of them */

/* One of the list: "mlflow:runs"; the caller frees *target. */
static shoal_status read_one(const char *words, const tracking_kind **kind, char **target) {
  const size_t n = strcspn(words, ":");
  const tracking_kind *found = NULL;
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (strlen(kinds[i]->name) == n && !strncmp(kinds[i]->name, words, n)) found = kinds[i];
  if (!found)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`sink`: expected mlflow:DIR, mlflow:http://HOST:PORT or otlp:http://HOST:PORT, not '%s'",
                       words);
  const char *said = words[n] ? words + n + 1 : getenv(found->variable);
  if (!said || !*said)
    return status_make(SHOAL_ERR_ARGUMENT, "`sink` %s: expected %s:TARGET, or the environment variable %s", found->name,
                       found->name, found->variable);
  TRY(status_wrap(found->check(said), "`sink` %s", found->name));
  *target = strdup(said);
  *kind = found;
  return *target ? NULL : status_no_memory();
}

static shoal_status read_all(const char *sinks, tracking *t) {
  char *copy = strdup(sinks), *rest = copy, *one;
  shoal_status status = copy ? NULL : status_no_memory();
  while (!status && (one = strsep(&rest, ","))) {
    if (t->count == SERVICES_MAX)
      status = status_make(SHOAL_ERR_ARGUMENT, "`sink`: more than %d", SERVICES_MAX);
    else
      status = read_one(one, &t->services[t->count].kind, &t->services[t->count].target);
    if (!status) t->count++;
  }
  free(copy);
  return status;
}

shoal_status tracking_check(const char *sinks) {
  tracking *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  shoal_status status = read_all(sinks, t);
  tracking_destroy(t);
  return status;
}

shoal_status tracking_open(const char *sinks, const char *folder, const char *model, const json_t *settings,
                           tracking **out) {
  tracking *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  shoal_status status = read_all(sinks, t);
  t->folder = strdup(folder);
  t->model = strdup(model);
  t->settings = json_deep_copy(settings);
  if (!status && (!t->folder || !t->model || !t->settings)) status = status_no_memory();
  for (int i = 0; i < t->count && !status; i++) {
    service *s = &t->services[i];
    s->run = (tracked_run){s->target, t->folder, t->model, t->settings, 0};
    status = start(s);
  }
  if (status) {
    tracking_end(t, false, false);
    tracking_destroy(t);
    return status;
  }
  *out = t;
  return NULL;
}

void tracking_add(tracking *t, json_t *line) {
  for (int i = 0; t && i < t->count; i++) add(&t->services[i], line);
}

char *tracking_failure(tracking *t) {
  char *found = NULL;
  for (int i = 0; t && !found && i < t->count; i++) {
    service *s = &t->services[i];
    pthread_mutex_lock(&s->lock);
    found = s->failure;
    s->failure = NULL;
    pthread_mutex_unlock(&s->lock);
  }
  return found;
}

void tracking_end(tracking *t, bool finished, bool stopped) {
  for (int i = 0; t && i < t->count; i++)
    if (t->services[i].started && !t->services[i].ends) ask_to_end(&t->services[i], finished, stopped);
  for (int i = 0; t && i < t->count; i++) {
    service *s = &t->services[i];
    if (s->started && s->thread) pthread_join(s->thread, NULL);
    s->thread = 0;
  }
}

void tracking_destroy(tracking *t) {
  if (!t) return;
  for (int i = 0; i < t->count; i++) fini(&t->services[i]);
  free(t->folder);
  free(t->model);
  json_decref(t->settings);
  free(t);
}
