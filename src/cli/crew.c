#include "cli/crew.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cluster_job.h"
#include "cli/data_notes.h"
#include "cli/log_view.h"
#include "cli/membership.h"
#include "cli/record.h"
#include "cli/say.h"
#include "cli/table.h"
#include "cluster/launch.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_SECONDS 0.1
#define CAUSE_SECONDS 0.3  /* a death pulls others after it: how long the first cause is looked for */
#define STOP_SECONDS 30.0  /* for a clean stop */
#define END_SECONDS 20.0   /* for the others to end once worker 0 has */
#define GRACE_SECONDS 1.0  /* between asking to end and making it */
#define STANDARD_RESTARTS 3 /* of each task */
#define TAIL_LINES 5
#define TAIL_BYTES 2048

typedef struct {
  bool ended;
  bool lost; /* for good: the job goes on without it */
  int restarts;
  int status;       /* as from waitpid */
  json_t *result;   /* NULL: none yet */
  char *error;      /* what it said itself; NULL: nothing */
  shoal_code code;
} member;

typedef struct {
  crew *crew;
  cluster_job job;
  char *logs; /* folder */
  log_view *view; /* NULL: the logs are not shown */
  char *job_path;
  launch *tasks;
  member *members; /* servers first, then workers, then the evaluator */
  int servers, count;
  double failed_at, stop_at, chief_at; /* clock; 0: not yet */
  bool alone; /* those that still run were told that worker 0 and the servers have ended */
} watch;

/* The last one, if there is one: nobody waits for it, and training goes on without it. */
static bool is_evaluator(const watch *w, int task) { return task == w->servers + (int)w->crew->base->flags.workers; }

static bool ended_badly(const member *m) { return m->ended && !m->lost && (m->status != 0 || !m->result); }

/* ---- starting */

/* again: once more, after it died. */
static shoal_status start_task(watch *w, int task, bool again) {
  bool server = task < w->servers, evaluator = is_evaluator(w, task);
  const char *role = server ? "ps" : evaluator ? "evaluator" : "worker";
  int index = server ? task : evaluator ? 0 : task - w->servers;
  char name[64], flag[64], *log;
  snprintf(name, sizeof name, "%s/%d", role, index);
  snprintf(flag, sizeof flag, "%s:%d", role, index);
  const char *argv[] = {"shoal", "train", w->crew->base->kind->name, "--task", flag, "--job", w->job_path,
                        again ? "--resume" : NULL, NULL};
  if (again) return launch_again(w->tasks, task, (char *const *)argv);
  if (asprintf(&log, "%s/%s-%d.log", w->logs, role, index) < 0) return status_no_memory();
  shoal_status status = launch_start(w->tasks, name, (char *const *)argv, log);
  free(log);
  return status;
}

static shoal_status start(watch *w) {
  if (mkdir(w->logs, 0777) && errno != EEXIST) return status_errno(errno, "cannot make the folder %s", w->logs);
  if (asprintf(&w->job_path, "%s/job.json", w->logs) < 0) {
    w->job_path = NULL;
    return status_no_memory();
  }
  TRY(cluster_job_write(&w->job, w->job_path));
  TRY(launch_create(&w->tasks));
  for (int i = 0; i < w->count; i++) TRY(start_task(w, i, false));
  return NULL;
}

/* ---- what tasks say */

void crew_announce(crew *c, const json_t *ready) {
  const training *b = c->base;
  run_report *r = c->report;
  r->parameters = json_integer_value(json_object_get(ready, "parameters"));
  r->threads = (int)json_integer_value(json_object_get(ready, "threads"));
  if (b->flags.quiet) return;
  char rows[COUNTED_TEXT], parameters[COUNTED_TEXT], workers[COUNTED_TEXT], batch[GROUPED_TEXT], threads[COUNTED_TEXT],
      servers[COUNTED_TEXT];
  int64_t n = json_integer_value(json_object_get(ready, "rows"));
  say(stdout, "%s: %s, %s of %s, %s with batch %s and %s, %s, %s\n", b->kind->name,
      counted_text(r->parameters, "parameter", parameters), n ? counted_text(n, "training row", rows) : "streamed rows",
      b->flags.data, counted_text(b->flags.workers, "worker", workers), grouped_text(b->flags.batch_size, batch),
      counted_text(r->threads, "thread", threads), counted_text(b->flags.ps, "parameter server", servers),
      b->flags.mode);
  if (job_rate_is_rough(&b->flags, b->kind))
    say(stdout, "Note: with --mode async gradients come late, and a constant rate of %g may end less accurate than "
        "with --mode sync; --schedule cosine or a smaller --lr helps.\n", b->flags.lr);
  fflush(stdout);
}

void crew_show(crew *c, const json_t *o) {
  const char *kind = json_string_value(json_object_get(o, "kind"));
  record_from_json(progress_record, o, c->last);
  if (!isfinite(c->report->startup_seconds) || !c->report->startup_seconds)
    c->report->startup_seconds = clock_seconds() - c->started - c->last->seconds;
  if (kind && !strcmp(kind, "epoch"))
    progress_epoch(c->screen, c->last);
  else
    progress_step(c->screen, c->last);
}

void crew_show_test(crew *c, const json_t *tested) {
  shoal_progress p = *c->last;
  shoal_evaluation e = {0};
  record_from_json(progress_record, json_object_get(tested, "progress"), &p);
  record_from_json(evaluation_record, json_object_get(tested, "test"), &e);
  progress_test(c->screen, json_integer_value(json_object_get(tested, "rows")), &p, &e);
}

static void on_line(watch *w, int task, const char *line) {
  member *m = &w->members[task];
  json_t *o = json_loads(line, 0, NULL), *value;
  if ((value = json_object_get(o, "progress"))) {
    crew_show(w->crew, value);
  } else if ((value = json_object_get(o, "tested"))) {
    crew_show_test(w->crew, value);
  } else if ((value = json_object_get(o, "note")) && json_is_string(value)) {
    progress_note(w->crew->screen, json_string_value(value));
  } else if ((value = json_object_get(o, "ready"))) {
    crew_announce(w->crew, value);
  } else if ((value = json_object_get(o, "membership"))) {
    membership_note(w->crew->report, json_incref(value));
  } else if ((value = json_object_get(o, "trace"))) {
    summary_add_trace(w->crew->report, json_incref(value));
  } else if ((value = json_object_get(o, "result")) && !m->result) {
    m->result = json_incref(value);
  } else if ((value = json_object_get(o, "error")) && !m->error) {
    const char *message = json_string_value(json_object_get(value, "message"));
    m->error = strdup(message ? message : "an error without a message");
    m->code = (shoal_code)json_integer_value(json_object_get(value, "code"));
  }
  json_decref(o);
}

/* ---- when it goes wrong */

/* The likeliest first cause: killed, then its own error, then a server that misses somebody, then who came first. */
static int first_cause(const watch *w) {
  int best = -1, best_rank = 0;
  for (int i = 0; i < w->count; i++) {
    const member *m = &w->members[i];
    if ((!ended_badly(m) && !m->error) || is_evaluator(w, i)) continue;
    int rank = m->ended && WIFSIGNALED(m->status)        ? 5
               : m->ended && !m->error                   ? 4
               : m->error && m->code != SHOAL_ERR_PEER && m->code != SHOAL_ERR_CANCELLED ? 3
               : i < w->servers                          ? 2
                                                         : 1;
    if (rank > best_rank) {
      best_rank = rank;
      best = i;
    }
  }
  return best;
}

/* The last lines of the log, for the terminal. */
static void show_tail(watch *w, int task) {
  FILE *f = fopen(launch_log(w->tasks, task), "re");
  if (!f) return;
  char bytes[TAIL_BYTES + 1];
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  fseek(f, size > TAIL_BYTES ? size - TAIL_BYTES : 0, SEEK_SET);
  size_t n = fread(bytes, 1, TAIL_BYTES, f);
  fclose(f);
  while (n && bytes[n - 1] == '\n') n--;
  bytes[n] = 0;
  if (!n) return;
  char *from = bytes + n;
  for (int lines = 0; from > bytes; from--)
    if (from[-1] == '\n' && ++lines == TAIL_LINES) break;
  text all = {0};
  text_add(&all, "%s ends with:", launch_log(w->tasks, task));
  for (char *line; (line = strsep(&from, "\n"));) text_add(&all, "\n  %s", line);
  if (!all.failed) progress_note(w->crew->screen, all.data);
  text_fini(&all);
}

static shoal_status failure(watch *w) {
  int i = first_cause(w);
  const member *chief = &w->members[w->servers];
  if (w->stop_at && chief->ended && WIFSIGNALED(chief->status) && WTERMSIG(chief->status) == SIGTERM)
    return status_make(SHOAL_ERR_CANCELLED, "stopped before training began"); /* it could not listen yet */
  if (i < 0) return status_make(SHOAL_ERR_INTERNAL, "a task failed, but none can be named");
  const member *m = &w->members[i];
  const char *name = launch_name(w->tasks, i), *log = launch_log(w->tasks, i);
  long long step = (long long)w->crew->last->step;
  int pid = (int)launch_pid(w->tasks, i);
  if (m->ended && WIFSIGNALED(m->status)) {
    show_tail(w, i);
    int number = WTERMSIG(m->status);
    return status_make(SHOAL_ERR_PEER, "%s (pid %d) was killed by signal %d (%s) around step %lld, and the job cannot "
                       "go on without it; its log is %s", name, pid, number, strsignal(number), step, log);
  }
  if (m->error) return status_make(m->code, "%s: %s (log: %s)", name, m->error, log);
  show_tail(w, i);
  return status_make(SHOAL_ERR_PEER, "%s (pid %d) ended with exit status %d around step %lld without a result; its log "
                     "is %s", name, pid, WEXITSTATUS(m->status), step, log);
}

/* "worker/0, worker/2": those that still run. */
static shoal_status late(watch *w, double seconds, const char *after) {
  text names = {0};
  for (int i = 0; i < w->count; i++)
    if (!w->members[i].ended) text_add(&names, "%s%s", names.length ? ", " : "", launch_name(w->tasks, i));
  shoal_status status = status_make(SHOAL_ERR_PEER, "%s did not end within %g s %s", names.data ? names.data : "?",
                                    seconds, after);
  text_fini(&names);
  return status;
}

/* ---- when it goes on */

static bool servers_are_up(const watch *w) {
  for (int i = 0; i < w->servers; i++)
    if (w->members[i].ended) return false;
  return true;
}

/* A server that comes back needs a checkpoint to begin from, a worker the servers. */
static bool may_start_again(const watch *w, int task) {
  const job_flags *f = &w->crew->base->flags;
  const member *m = &w->members[task];
  if (!WIFSIGNALED(m->status) || m->restarts >= f->max_restarts || w->stop_at || w->failed_at || w->chief_at)
    return false;
  return task < w->servers ? !f->no_checkpoints : servers_are_up(w);
}

/* A task has died. If the job can go on, it does. */
static shoal_status take_loss(watch *w, int task) {
  member *m = &w->members[task];
  bool again = may_start_again(w, task), killed = WIFSIGNALED(m->status);
  if (!again && (task <= w->servers || !(killed || w->alone))) {
    if (!w->failed_at) w->failed_at = clock_seconds();
    return NULL;
  }
  text line = {0};
  text_add(&line, "%s (pid %d) ", launch_name(w->tasks, task), (int)launch_pid(w->tasks, task));
  if (killed)
    text_add(&line, "was killed by signal %d (%s) around step %lld: ", WTERMSIG(m->status),
             strsignal(WTERMSIG(m->status)), (long long)w->crew->last->step);
  if (again)
    text_add(&line, "it is started again (%d of %lld)", m->restarts + 1, (long long)w->crew->base->flags.max_restarts);
  else
    text_add(&line, w->alone ? "was not back when the job ended" : "the job goes on without it");
  if (!line.failed) progress_note(w->crew->screen, line.data);
  text_fini(&line);
  m->lost = !again;
  if (!again) return NULL;
  free(m->error);
  m->error = NULL;
  m->ended = false;
  m->restarts++;
  w->crew->report->restarts++;
  return start_task(w, task, true);
}

/* Worker 0 and the servers have ended well: one that still looks for them, since it or they were started again, is told
 * to stop. One that evaluates is not disturbed by that. */
static void end_latecomers(watch *w) {
  if (w->alone || !w->crew->report->restarts) return;
  for (int i = 0; i < w->servers; i++)
    if (!w->members[i].ended) return;
  w->alone = true;
  for (int i = w->servers + 1; i < w->count; i++)
    if (!is_evaluator(w, i)) launch_signal(w->tasks, i, SIGTERM);
}

/* ---- watching */

/* Everything that has a deadline. */
static shoal_status check_time(watch *w) {
  double now = clock_seconds();
  if (w->failed_at && now - w->failed_at > CAUSE_SECONDS) return failure(w);
  if (w->stop_at && now - w->stop_at > STOP_SECONDS) return late(w, STOP_SECONDS, "of being asked to stop");
  if (w->chief_at && now - w->chief_at > END_SECONDS) return late(w, END_SECONDS, "of worker/0");
  if (w->chief_at && !w->failed_at) end_latecomers(w);
  if (!w->stop_at && __atomic_load_n(w->crew->stop, __ATOMIC_ACQUIRE)) {
    w->stop_at = now;
    launch_signal(w->tasks, w->servers, SIGTERM);
  }
  return NULL;
}

static void tell_evaluator_failed(watch *w, int task) {
  text words = {0};
  text_add(&words, "warning: the evaluator failed, the training goes on: %s (log: %s)",
           w->members[task].error ? w->members[task].error : "without a word", launch_log(w->tasks, task));
  if (!words.failed) progress_note(w->crew->screen, words.data);
  text_fini(&words);
}

static bool all_ended(const watch *w) {
  for (int i = 0; i < w->count; i++)
    if (!w->members[i].ended) return false;
  return true;
}

static shoal_status watch_all(watch *w) {
  while (!all_ended(w) || w->failed_at) {
    launch_event e;
    TRY(launch_wait(w->tasks, WAIT_SECONDS, &e));
    if (e.kind == LAUNCH_LINE) on_line(w, e.task, e.line);
    if (e.kind == LAUNCH_ENDED) {
      member *m = &w->members[e.task];
      m->ended = true;
      m->status = e.status;
      if (ended_badly(m) && is_evaluator(w, e.task))
        tell_evaluator_failed(w, e.task);
      else if (ended_badly(m))
        TRY(take_loss(w, e.task));
      if (e.task == w->servers && m->ended) w->chief_at = clock_seconds();
    }
    log_view_look(w->view, w->tasks, false);
    TRY(check_time(w));
  }
  return NULL;
}

/* ---- the result */

static shoal_status collect(watch *w) {
  run_report *r = w->crew->report;
  r->tasks = json_array();
  for (int i = 0; i < w->count; i++) {
    json_t *task = json_object_get(w->members[i].result, "task");
    if (task && json_array_append(r->tasks, task)) return status_no_memory();
  }
  const json_t *chief = w->members[w->servers].result;
  record_from_json(fit_record, json_object_get(chief, "fit"), &r->fit);
  record_from_json(evaluation_record, json_object_get(chief, "test"), &r->test);
  r->confusion = json_incref(json_object_get(chief, "confusion"));
  return NULL;
}

shoal_status crew_check(const crew *c) {
  const job_flags *f = &c->base->flags;
  const run_report *r = c->report;
  TRY(membership_check(r));
  size_t k;
  json_t *task;
  json_array_foreach(r->tasks, k, task) {
    const bool regression = isfinite(r->test.rmse);
    const json_t *score = json_object_get(task, regression ? "test_rmse" : "test_accuracy");
    const double expected = regression ? r->test.rmse : r->test.accuracy;
    if (!job_is_together(f) || !json_is_number(score)) continue; /* without test rows there is none */
    if (json_number_value(score) == expected) continue;
    return status_make(SHOAL_ERR_PEER, "%s measures %s of %.6g, the chief %.6g: in sync mode they must agree",
                       summary_task_name(task), regression ? "an RMSE" : "an accuracy", json_number_value(score),
                       expected);
  }
  return NULL;
}

/* Of each worker, unless the user says so. */
static int64_t fair_threads(int64_t workers) { return MAX_OF(sysconf(_SC_NPROCESSORS_ONLN) / (long)workers, 1); }

/* Looks at the data once: all tasks are told the same. */
static shoal_status prepare(watch *w) {
  training *b = w->crew->base;
  TRY(training_load(b));
  TRY(notes_say(b, w->crew->screen));
  int classes = b->train.classes;
  int64_t rows = b->rows;
  if (!rows) TRY(training_fill_schedule(b, rows)); /* servers do not open the files */
  job_close_rows(&b->train);
  job_close_rows(&b->test);
  if (!b->flags.threads) {
    b->flags.threads = fair_threads(b->flags.workers);
    w->crew->report->next_threads = (int)fair_threads(b->flags.workers + 1);
  }
  if (b->flags.max_restarts < 0) b->flags.max_restarts = STANDARD_RESTARTS;
  TRY(run_dir_make(&b->dir));
  TRY(metrics_repair(b->dir.metrics));
  TRY(cluster_job_make(b, classes, rows, &w->job));
  if (asprintf(&w->logs, "%s/logs", b->dir.path) < 0) {
    w->logs = NULL;
    return status_no_memory();
  }
  w->servers = (int)b->flags.ps;
  w->count = w->servers + (int)b->flags.workers + b->flags.evaluator;
  w->members = calloc((size_t)w->count, sizeof *w->members);
  return w->members ? NULL : status_no_memory();
}

shoal_status crew_run(crew *c) {
  watch w = {.crew = c};
  shoal_status status = prepare(&w);
  if (!status) status = start(&w);
  if (!status && c->base->flags.follow_logs) status = log_view_create(c->screen, &w.view);
  if (!status) status = watch_all(&w);
  log_view_look(w.view, w.tasks, true);
  log_view_destroy(w.view);
  progress_clear(c->screen);
  launch_destroy(w.tasks, GRACE_SECONDS);
  if (!status) status = collect(&w);
  if (!status) status = crew_check(c);
  for (int i = 0; w.members && i < w.count; i++) {
    json_decref(w.members[i].result);
    free(w.members[i].error);
  }
  free(w.members);
  free(w.logs);
  free(w.job_path);
  cluster_job_fini(&w.job);
  return status;
}
