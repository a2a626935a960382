#include "run/local_cluster_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "run/data_notes.h"
#include "run/membership.h"
#include "run/scale.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_SECONDS 0.1
#define CAUSE_SECONDS 0.3    /* a death pulls others after it: how long the first cause is looked for */
#define STOP_SECONDS 30.0    /* for a clean stop */
#define END_SECONDS 20.0     /* for the others to end once worker 0 has */
#define STOPPED_HEARTBEATS 2 /* for which worker 0 or a server may be stopped before it is taken for dead */
#define GRACE_SECONDS 1.0    /* between asking to end and making it */
#define TAIL_LINES 5
#define TAIL_BYTES 2048

/* The last one, if there is one: nobody waits for it, and training goes on without it. */
static bool is_evaluator(const local_cluster *w, int task) {
  const shoal_job *f = &w->state->base.job;
  return f->evaluator && task == w->chief + (int)f->workers;
}

static bool ended_badly(const member *m) {
  return m->ended && !m->lost && !m->retired && (m->status != 0 || !m->end.has_result);
}

/* ---- starting */

/* again: once more, after it died. */
shoal_status cluster_start_task(local_cluster *w, int task, bool again) {
  const bool moving = is_moving(w, task), server = moving || is_server(w, task), evaluator = is_evaluator(w, task);
  const char *role = server ? "ps" : evaluator ? "evaluator" : "worker";
  const int first = moving ? w->move.first : server ? w->first_server : w->chief, index = evaluator ? 0 : task - first;
  char name[64], flag[64], turn[32] = "", *log;
  snprintf(name, sizeof name, "%s/%d", role, index);
  snprintf(flag, sizeof flag, "%s:%d", role, index);
  const char *argv[] = {"shoal", "train", w->state->base.kind->name,           "--task",
                        flag,    "--job", moving ? w->move.path : w->job_path, again ? "--resume" : NULL,
                        NULL};
  if (again) return launch_again(w->tasks, task, (char *const *)argv);
  if (moving) snprintf(turn, sizeof turn, ".%d", w->moves + 1);
  if (asprintf(&log, "%s/%s-%d%s.log", w->logs, role, index, turn) < 0) return status_no_memory();
  shoal_status status = launch_start(w->tasks, name, (char *const *)argv, log);
  free(log);
  return status;
}

static shoal_status start(local_cluster *w) {
  if (mkdir(w->logs, 0777) && errno != EEXIST) return status_errno(errno, "cannot create the folder %s", w->logs);
  if (asprintf(&w->job_path, "%s/job.json", w->logs) < 0) {
    w->job_path = NULL;
    return status_no_memory();
  }
  TRY(job_file_write(&w->job, w->job_path));
  TRY(launch_create(&w->tasks));
  launch_program(w->tasks, w->state->options->program ? w->state->options->program : "shoal");
  for (int i = 0; i < w->count; i++) TRY(cluster_start_task(w, i, false));
  return NULL;
}

/* ---- when it goes wrong */

/* The likeliest first cause: killed, then its own error, then a server that misses somebody, then who came first. */
static int first_cause(const local_cluster *w) {
  int best = -1, best_rank = 0;
  for (int i = 0; i < w->count; i++) {
    const member *m = &w->members[i];
    if ((!ended_badly(m) && !m->end.error) || is_evaluator(w, i) || m->retired || is_moving(w, i)) continue;
    int rank = m->ended && WIFSIGNALED(m->status)                                                    ? 5
               : m->ended && !m->end.error                                                           ? 4
               : m->end.error && m->end.code != SHOAL_ERR_PEER && m->end.code != SHOAL_ERR_CANCELLED ? 3
               : is_server(w, i)                                                                     ? 2
                                                                                                     : 1;
    if (rank > best_rank) {
      best_rank = rank;
      best = i;
    }
  }
  return best;
}

/* The last lines of the log, for the terminal. */
static void show_tail(local_cluster *w, int task) {
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
  if (!all.failed) run_state_note(w->state, all.data);
  text_fini(&all);
}

static shoal_status failure(local_cluster *w) {
  int i = first_cause(w);
  const member *chief = &w->members[w->chief];
  if (w->stop_at && chief->ended && WIFSIGNALED(chief->status) && WTERMSIG(chief->status) == SIGTERM)
    return status_make(SHOAL_ERR_CANCELLED, "stopped before training began"); /* it could not listen yet */
  if (i < 0) return status_make(SHOAL_ERR_INTERNAL, "a task failed, but it is not known which one");
  const member *m = &w->members[i];
  const char *name = launch_name(w->tasks, i), *log = launch_log(w->tasks, i);
  long long step = (long long)w->state->last.step;
  int pid = (int)launch_pid(w->tasks, i);
  if (m->ended && WIFSIGNALED(m->status)) {
    show_tail(w, i);
    int number = WTERMSIG(m->status);
    return status_make(SHOAL_ERR_PEER,
                       "%s (pid %d) was killed by signal %d (%s) around step %lld, and the job cannot "
                       "go on without it; its log is %s",
                       name, pid, number, strsignal(number), step, log);
  }
  if (m->end.error) return status_make(m->end.code, "%s: %s (log: %s)", name, m->end.error, log);
  show_tail(w, i);
  return status_make(SHOAL_ERR_PEER,
                     "%s (pid %d) ended with exit status %d around step %lld without a result; its log "
                     "is %s",
                     name, pid, WEXITSTATUS(m->status), step, log);
}

/* "worker/0, worker/2": those that still run. */
static shoal_status late(local_cluster *w, double seconds, const char *after) {
  text names = {0};
  for (int i = 0; i < w->count; i++)
    if (!w->members[i].ended) text_add(&names, "%s%s", names.length ? ", " : "", launch_name(w->tasks, i));
  shoal_status status =
      status_make(SHOAL_ERR_PEER, "%s did not end within %g s %s", names.data ? names.data : "?", seconds, after);
  text_fini(&names);
  return status;
}

/* ---- when it goes on */

/* With `replicas`: the other process that holds what this server holds runs, or has ended well. */
static bool has_backup(const local_cluster *w, int server) {
  const int ps = (int)w->state->base.job.ps;
  for (int i = w->first_server + (server - w->first_server) % ps; is_server(w, i); i += ps)
    if (i != server && (!w->members[i].ended || w->members[i].end.has_result)) return true;
  return false;
}

static bool servers_are_up(const local_cluster *w) {
  for (int i = w->first_server; is_server(w, i); i++)
    if (w->members[i].ended && !has_backup(w, i)) return false;
  return true;
}

/* A server that comes back needs a checkpoint to begin from, a worker the servers. */
static bool may_start_again(const local_cluster *w, int task) {
  const shoal_job *f = &w->state->base.job;
  const member *m = &w->members[task];
  if (!WIFSIGNALED(m->status) || m->restarts >= f->max_restarts || w->stop_at || w->failed_at || w->chief_at)
    return false;
  return is_server(w, task) ? !f->no_checkpoints || has_backup(w, task) : servers_are_up(w);
}

/* A task has died. If the job can go on, it does. */
static shoal_status take_loss(local_cluster *w, int task) {
  member *m = &w->members[task];
  bool again = may_start_again(w, task), killed = WIFSIGNALED(m->status);
  const bool needed = task == w->chief || (is_server(w, task) && !has_backup(w, task));
  if (!again && (needed || !(killed || w->alone))) {
    if (!w->failed_at) w->failed_at = clock_seconds();
    return NULL;
  }
  text line = {0};
  text_add(&line, "%s (pid %d) ", launch_name(w->tasks, task), (int)launch_pid(w->tasks, task));
  if (killed)
    text_add(&line, "was killed by signal %d (%s) around step %lld: ", WTERMSIG(m->status),
             strsignal(WTERMSIG(m->status)), (long long)w->state->last.step);
  if (again)
    text_add(&line, "it is started again (%d of %lld)", m->restarts + 1, (long long)w->state->base.job.max_restarts);
  else
    text_add(&line, w->alone ? "was not back when the job ended" : "the job goes on without it");
  if (!line.failed) run_state_note(w->state, line.data);
  text_fini(&line);
  m->lost = !again;
  if (!again) return NULL;
  task_end_fini(&m->end);
  m->ended = false;
  m->restarts++;
  w->state->report.restarts++;
  return cluster_start_task(w, task, true);
}

/* Worker 0 and the servers have ended well, and the model is saved: a worker that still looks for them, since it came
 * late, was silent or was started again, is told to stop. One that evaluates is not disturbed by that. */
static void end_latecomers(local_cluster *w) {
  if (w->alone) return;
  for (int i = w->first_server; is_server(w, i); i++)
    if (!w->members[i].ended) return;
  w->alone = true;
  for (int i = w->chief + 1; i < w->count; i++)
    if (!is_evaluator(w, i) && !w->members[i].end.has_result) launch_signal(w->tasks, i, SIGTERM);
}

/* A server whose backup has served to the end may be stopped, or not know that the job has ended. */
static void kill_replaced(local_cluster *w) {
  const int ps = (int)w->state->base.job.ps;
  for (int i = 0; i < w->servers && w->servers > ps; i++) { /* those of replicas do not move */
    const member *other = &w->members[(i + ps) % w->servers];
    if (!w->members[i].ended && other->ended && other->end.has_result &&
        other->end.result.task.updates >= 0) /* it was no backup at its end */
      launch_signal(w->tasks, i, SIGKILL);
  }
}

/* Those that do not end even so, such as one that is stopped, take nothing from a result that is there. */
static shoal_status kill_latecomers(local_cluster *w) {
  w->killed = true;
  for (int i = w->chief + 1; i < w->count; i++)
    if (!w->members[i].ended) launch_signal(w->tasks, i, SIGKILL);
  return NULL;
}

/* ---- watching */

/* Without worker 0 and the servers nobody goes on: one that is stopped is killed, and then started again like any other
 * that was. The servers leave out other workers by themselves. */
static void kill_stopped(local_cluster *w, double seconds) {
  const double patience = STOPPED_HEARTBEATS * w->state->base.job.heartbeat;
  for (int i = 0; i < w->count && patience > 0; i++) {
    member *m = &w->members[i];
    if (i != w->chief && !is_server(w, i)) continue;
    m->stopped = !m->ended && launch_stopped(w->tasks, i) ? m->stopped + MIN_OF(seconds, 2 * WAIT_SECONDS) : 0;
    if (m->stopped <= patience) continue;
    m->stopped = 0;
    text line = {0};
    text_add(&line, "%s (pid %d) has been stopped for %g s: it is killed", launch_name(w->tasks, i),
             (int)launch_pid(w->tasks, i), patience);
    if (!line.failed) run_state_note(w->state, line.data);
    text_fini(&line);
    launch_signal(w->tasks, i, SIGKILL);
  }
}

/* If that cannot be, the job goes on as it is. */
static void begin_move(local_cluster *w, int64_t servers) {
  shoal_status status = move_begin(w, servers);
  if (!status) return;
  text line = {0};
  text_add(&line, "ps: not %lld servers: %s", (long long)servers, shoal_status_message(status));
  if (!line.failed) run_state_note(w->state, line.data);
  text_fini(&line);
  shoal_status_free(status);
  move_give_up(w);
}

/* Somebody asks for another number of servers. */
static void look_for_request(local_cluster *w, double now) {
  int64_t servers;
  char words[128];
  const shoal_job *f = &w->state->base.job;
  if (!scale_take(&w->state->base.dir, SCALE_SERVERS, &servers)) return;
  const char *wrong = scale_objection(f, servers, words, sizeof words);
  text line = {0};
  if (wrong)
    text_add(&line, "ps: not %lld servers: %s", (long long)servers, wrong);
  else
    text_add(&line, "ps: from %lld to %lld servers at the next update", (long long)f->ps, (long long)servers);
  if (!line.failed) run_state_note(w->state, line.data);
  text_fini(&line);
  if (wrong) return;
  if (scale_is_live(f)) {
    begin_move(w, servers);
    return;
  }
  w->scale_to = servers;
  w->scale_at = now;
}

/* Worker 0 may have died before it said QUIT to them. */
static void kill_retired(local_cluster *w) {
  w->retired_at = 0;
  for (int i = 0; i < w->count; i++)
    if (w->members[i].retired && !w->members[i].ended) launch_signal(w->tasks, i, SIGKILL);
}

/* Everything that has a deadline. */
static shoal_status check_time(local_cluster *w) {
  double now = clock_seconds();
  if (now - w->looked_at >= WAIT_SECONDS) {
    kill_stopped(w, now - w->looked_at);
    w->looked_at = now;
  }
  if (w->failed_at && now - w->failed_at > CAUSE_SECONDS) return failure(w);
  if (w->stop_at && now - w->stop_at > STOP_SECONDS) return late(w, STOP_SECONDS, "of being asked to stop");
  if (w->chief_at && now - w->chief_at > END_SECONDS && !w->killed)
    return w->alone ? kill_latecomers(w) : late(w, END_SECONDS, "of worker/0");
  if (w->chief_at && !w->failed_at && now - w->chief_at > GRACE_SECONDS) kill_replaced(w);
  if (w->chief_at && !w->failed_at) end_latecomers(w);
  if (w->move.path && (w->chief_at || w->failed_at)) move_give_up(w);
  if (w->move.path) move_look(w);
  if (w->retired_at && now - w->retired_at > GRACE_SECONDS) kill_retired(w);
  const bool trains = w->state->last.step && !w->scale_from && !w->failed_at && !w->chief_at && !w->move.path;
  if (!w->stop_at && trains) look_for_request(w, now);
  if (!w->stop_at && (w->scale_to || run_state_asked(w->state))) {
    w->stop_at = now;
    launch_signal(w->tasks, w->chief, SIGTERM);
  }
  return NULL;
}

/* The first sign of progress with other servers. */
static void note_scaled(local_cluster *w) {
  const shoal_membership_event e =
      membership_scaled(w->scale_from, w->state->base.job.ps, w->scale_step, clock_seconds() - w->scale_at);
  text line = {0};
  w->scale_from = 0;
  w->sink.on_membership(w->sink.context, &e);
  membership_describe(&e, NULL, &line);
  if (!line.failed) run_state_note(w->state, line.data);
  text_fini(&line);
}

static void take_line(local_cluster *w, int task, const char *line) {
  const shoal_progress before = w->state->last;
  report_pipe_read(line, &w->sink, &w->members[task].end);
  const shoal_progress *now = &w->state->last;
  if (w->scale_from && (now->step != before.step || now->seconds != before.seconds)) note_scaled(w);
}

static void note_evaluator_failed(local_cluster *w, int task) {
  text words = {0};
  text_add(&words, "warning: the evaluator failed, the training goes on: %s (log: %s)",
           w->members[task].end.error ? w->members[task].end.error : "without a word", launch_log(w->tasks, task));
  if (!words.failed) run_state_note(w->state, words.data);
  text_fini(&words);
}

static bool all_ended(const local_cluster *w) {
  for (int i = 0; i < w->count; i++)
    if (!w->members[i].ended) return false;
  return true;
}

static shoal_status watch_all(local_cluster *w) {
  while (!all_ended(w) || w->failed_at) {
    launch_event e;
    TRY(launch_wait(w->tasks, WAIT_SECONDS, &e));
    if (e.kind == LAUNCH_LINE) take_line(w, e.task, e.line);
    if (e.kind == LAUNCH_ENDED) {
      member *m = &w->members[e.task];
      m->ended = true;
      /* One that was told to stop right after it had sent its result may have died of that. */
      const bool told = w->alone && m->end.has_result && WIFSIGNALED(e.status) && WTERMSIG(e.status) == SIGTERM;
      m->status = told ? 0 : e.status;
      if (w->move.path) move_look(w); /* this may be the end of one whose place was taken */
      if (is_moving(w, e.task))
        move_give_up(w);
      else if (ended_badly(m) && is_evaluator(w, e.task))
        note_evaluator_failed(w, e.task);
      else if (ended_badly(m))
        TRY(take_loss(w, e.task));
      if (e.task == w->chief && m->ended) w->chief_at = clock_seconds();
    }
    log_view_look(w->view, w->tasks, false);
    TRY(check_time(w));
  }
  return NULL;
}

/* ---- the result */

static shoal_status collect_task(local_cluster *w, int i) {
  task_end *e = &w->members[i].end;
  if (!e->has_result) return NULL;
  if (i == w->chief) run_state_take_result(w->state, &e->result);
  if (i > w->chief && w->state->report.fit.restored) /* of its last weights: the best ones the chief alone has */
    e->result.task.test_accuracy = e->result.task.test_rmse = e->result.task.test_r2 = NAN;
  return run_state_add_task(w->state, &e->result.task);
}

/* Servers first. Of those whose place others have taken only what is counted over the whole job. */
static shoal_status collect(local_cluster *w) {
  for (int i = w->first_server; is_server(w, i); i++) TRY(collect_task(w, i));
  for (int i = 0; i < w->count; i++) {
    const member *m = &w->members[i];
    if (m->retired)
      w->uneven += m->end.has_result && !m->end.result.task.index ? m->end.result.task.uneven_updates : 0;
    else if (!is_server(w, i))
      TRY(collect_task(w, i));
  }
  return NULL;
}

shoal_status cluster_check(const shoal_run_report *r) {
  TRY(membership_check(r));
  const bool regression = isfinite(r->test.rmse);
  const double expected = regression ? r->test.rmse : r->test.accuracy;
  for (int i = 0; i < r->n_tasks; i++) {
    const shoal_task_report *t = &r->tasks[i];
    const double score = regression ? t->test_rmse : t->test_accuracy;
    if (!job_is_sync(&r->job) || t->steps < 0 || isnan(score)) continue; /* without test rows there is none */
    if (r->fit.restored) continue; /* the chief's is of the best weights, which it alone has */
    if (score == expected) continue;
    return status_make(SHOAL_ERR_PEER, "%s measures %s of %.6g, the chief %.6g: in sync mode they must agree", t->name,
                       regression ? "an RMSE" : "an accuracy", score, expected);
  }
  return NULL;
}

/* Of each worker, unless the user says so. */
static int64_t fair_threads(int64_t workers) { return MAX_OF(sysconf(_SC_NPROCESSORS_ONLN) / (long)workers, 1); }

/* Looks at the data once: all tasks are told the same. */
static shoal_status prepare(local_cluster *w) {
  training *b = &w->state->base;
  TRY(training_load(b));
  training_fit_batch(b);
  TRY(notes_say(b, &w->sink));
  int classes = b->train.classes;
  int64_t rows = b->rows;
  if (!rows) TRY(training_fill_schedule(b, rows)); /* once, for all workers */
  job_close_rows(&b->train);
  job_close_rows(&b->validation);
  job_close_rows(&b->test);
  if (!b->job.threads) {
    b->job.threads = fair_threads(b->job.workers);
    w->state->next_threads = (int)fair_threads(b->job.workers + 1);
  }
  if (b->job.max_restarts < 0) b->job.max_restarts = CLUSTER_RESTARTS;
  TRY(run_dir_take(&b->dir));
  w->classes = classes;
  w->rows = rows;
  int64_t stale;
  (void)scale_take(&b->dir, SCALE_SERVERS, &stale); /* of somebody who asked when nobody was there */
  if (asprintf(&w->logs, "%s/logs", b->dir.path) < 0) {
    w->logs = NULL;
    return status_no_memory();
  }
  return NULL;
}

/* Room for the tasks that the job has now. */
static shoal_status prepare_tasks(local_cluster *w) {
  const training *b = &w->state->base;
  TRY(metrics_repair(b->dir.metrics));
  TRY(job_file_make(b, w->classes, w->rows, NULL, &w->job));
  w->first_server = w->moves = 0;
  w->servers = w->chief = (int)(b->job.ps * (1 + b->job.replicas));
  w->count = w->servers + (int)b->job.workers + b->job.evaluator;
  w->members = calloc((size_t)w->count, sizeof *w->members);
  return w->members ? NULL : status_no_memory();
}

static void forget_tasks(local_cluster *w) {
  launch_destroy(w->tasks, GRACE_SECONDS);
  w->tasks = NULL;
  for (int i = 0; w->members && i < w->count; i++) task_end_fini(&w->members[i].end);
  free(w->members);
  w->members = NULL;
  move_give_up(w);
  free(w->job_path);
  w->job_path = NULL;
  job_file_fini(&w->job);
  w->failed_at = w->stop_at = w->chief_at = w->looked_at = w->retired_at = 0;
  w->alone = w->killed = false;
}

/* ---- another number of servers */

/* Of tasks that go on: people have been told of the job. */
static void is_known(void *context, int64_t parameters, int threads, int64_t rows) {}

/* Whether it goes on, with other servers. What the tasks before have counted goes into the result. */
static bool begins_again(local_cluster *w) {
  run_state *s = w->state;
  if (!w->scale_to || !s->report.fit.stopped || run_state_asked(s)) return false;
  int64_t uneven = 0;
  for (size_t i = 0; i < s->tasks.count; i++) uneven = MAX_OF(uneven, s->tasks.tasks[i].uneven_updates);
  w->uneven += uneven;
  w->lost_steps += s->report.fit.lost_steps;
  task_reports_fini(&s->tasks);
  s->report.tasks = NULL;
  s->report.n_tasks = 0;
  s->report.trained = false;
  w->sink.on_ready = is_known;
  w->scale_step = s->report.fit.updates;
  w->scale_from = s->base.job.ps;
  s->base.job.ps = w->scale_to;
  s->base.job.resume = true;
  w->scale_to = 0;
  return true;
}

static shoal_status run_tasks(local_cluster *w) {
  shoal_status status = prepare_tasks(w);
  if (!status) status = start(w);
  if (!status && w->state->base.job.follow_logs) status = log_view_create(&w->state->options->listener, &w->view);
  if (!status) status = watch_all(w);
  log_view_look(w->view, w->tasks, true);
  log_view_destroy(w->view);
  w->view = NULL;
  launch_destroy(w->tasks, GRACE_SECONDS);
  w->tasks = NULL;
  run_dir_remove_temporary(&w->state->base.dir);
  if (!status) status = collect(w);
  forget_tasks(w);
  return status;
}

shoal_status local_cluster_run(run_state *state) {
  local_cluster w = {.state = state, .sink = run_state_sink(state)};
  shoal_status status = prepare(&w);
  if (!status) status = run_tasks(&w);
  while (!status && begins_again(&w)) status = run_tasks(&w);
  state->report.fit.lost_steps += w.lost_steps;
  for (size_t i = 0; i < state->tasks.count; i++)
    if (state->tasks.tasks[i].updates >= 0) state->tasks.tasks[i].uneven_updates += w.uneven;
  state->report.job = state->base.job;
  if (!status) status = cluster_check(&state->report);
  free(w.logs);
  return status;
}
