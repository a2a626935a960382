#include "observe/verdict_internal.h"

#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORTEST 0.2 /* seconds */
#define SLOW 1.5     /* times the middle one */
#define WAITS 0.25   /* share of the others' time */
#define BUSY 0.7     /* share of a server's time */
#define STARVES 0.2  /* share of a worker's time */
#define FEW 0.5      /* of the middle worker's gradients */
#define CROWDED 0.95 /* of a machine's processors are in use */
#define OTHERS 0.25  /* of them by other programs, from which on these are named */

const char *const verdict_cause_names[VERDICT_CAUSES] = {"none", "computing", "network", "barrier", "input", "server"};

__attribute__((format(printf, 4, 5))) static void warn(shoal_verdict *v, const char *kind, const char *task,
                                                       const char *format, ...) {
  if (v->n_warnings == SHOAL_VERDICT_WARNINGS) return;
  shoal_verdict_warning *w = &v->warnings[v->n_warnings++];
  w->kind = kind;
  snprintf(w->task, sizeof w->task, "%s", task);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(w->text, sizeof w->text, format, arguments);
  va_end(arguments);
}

const verdict_task *verdict_next_worker(const verdict_facts *f, const verdict_task *after) {
  for (const verdict_task *t = after ? after + 1 : f->tasks; t < f->tasks + f->n_tasks; t++)
    if (!t->server) return t;
  return NULL;
}

static int count_workers(const verdict_facts *f) {
  int n = 0;
  for (const verdict_task *t = NULL; (t = verdict_next_worker(f, t));) n++;
  return n;
}

/* A worker's own part of a step, in seconds: what others may have to wait for. */
static double own_part(const verdict_task *t) {
  return t->steps > 0 ? (t->times.compute + t->times.input) / (double)t->steps : 0;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Of all workers but `but`; 0: there is none. */
static double median_without(const verdict_facts *f, const verdict_task *but, double (*value)(const verdict_task *)) {
  double *all = calloc((size_t)f->n_tasks + 1, sizeof *all);
  int n = 0;
  if (!all) return 0;
  for (const verdict_task *t = NULL; (t = verdict_next_worker(f, t));)
    if (t != but) all[n++] = value(t);
  qsort(all, (size_t)n, sizeof *all, by_value);
  double middle = n ? all[n / 2] : 0;
  free(all);
  return middle;
}

static const verdict_task *slowest_of(const verdict_facts *f) {
  const verdict_task *slowest = NULL;
  for (const verdict_task *t = NULL; (t = verdict_next_worker(f, t));)
    if (!slowest || own_part(t) > own_part(slowest)) slowest = t;
  return slowest;
}

static double barrier_share(const verdict_task *t) {
  double all = verdict_time(&t->times);
  return all > 0 ? t->times.barrier / all : 0;
}

const verdict_task *verdict_busiest(const verdict_facts *f) {
  const verdict_task *busiest = NULL;
  for (int k = 0; k < f->n_tasks; k++)
    if (f->tasks[k].server && (!busiest || f->tasks[k].busy_seconds > busiest->busy_seconds)) busiest = &f->tasks[k];
  return busiest;
}

static void add_shares(const verdict_facts *f, shoal_verdict *v) {
  shoal_times all = {0};
  for (const verdict_task *t = NULL; (t = verdict_next_worker(f, t));) {
    all.compute += t->times.compute;
    all.network += t->times.network;
    all.barrier += t->times.barrier;
    all.server += t->times.server;
    all.input += t->times.input;
  }
  double sum = verdict_time(&all);
  if (!(sum > 0)) return;
  v->compute = all.compute / sum;
  v->network = all.network / sum;
  v->barrier = all.barrier / sum;
  v->server = all.server / sum;
  v->input = all.input / sum;
}

/* ---- the cause */

/* The worker that all others wait for, or NULL. */
static const verdict_task *awaited_of(const verdict_facts *f) {
  const verdict_task *slowest = slowest_of(f);
  if (!f->sync || count_workers(f) < 2 || !slowest) return NULL;
  double middle = median_without(f, slowest, own_part), waits = median_without(f, slowest, barrier_share);
  return middle > 0 && own_part(slowest) >= SLOW * middle && waits >= WAITS ? slowest : NULL;
}

static void name_barrier(const verdict_facts *f, const verdict_task *slow, shoal_verdict *v) {
  double middle = median_without(f, slow, own_part);
  bool reads = slow->times.input > slow->times.compute;
  snprintf(v->text, sizeof v->text,
           "The workers wait for %s: it takes %.3g ms for its part of a step (%s), the others %.3g ms, and they spend "
           "%.0f %% of their time at the barrier.",
           slow->name, 1e3 * own_part(slow), reads ? "reading data" : "computing", 1e3 * middle,
           100 * median_without(f, slow, barrier_share));
}

static void find_cause(const verdict_facts *f, shoal_verdict *v) {
  const verdict_task *slow = awaited_of(f), *server = verdict_busiest(f);
  double busy = server && server->seconds > 0 ? server->busy_seconds / server->seconds : 0;
  double away = v->network + v->server;
  if (slow) {
    v->cause = VERDICT_BARRIER;
    name_barrier(f, slow, v);
  } else if (v->compute >= 0.5) {
    v->cause = VERDICT_COMPUTING;
    snprintf(v->text, sizeof v->text, "Computing takes %.0f %% of the workers' time: that is the bottleneck.",
             100 * v->compute);
  } else if (v->input >= away && v->input >= v->barrier && v->input >= v->compute) {
    v->cause = VERDICT_INPUT;
    snprintf(v->text, sizeof v->text,
             "The workers wait for data %.0f %% of their time and compute %.0f %%: reading and decoding data is the "
             "bottleneck.",
             100 * v->input, 100 * v->compute);
  } else if (away >= v->barrier && away >= v->compute) {
    v->cause = busy >= BUSY || v->server > v->network ? VERDICT_SERVER : VERDICT_NETWORK;
    if (v->cause == VERDICT_SERVER)
      snprintf(v->text, sizeof v->text,
               "%s is busy %.0f %% of the time, and the workers wait for the servers %.0f %% of "
               "theirs: more servers (--ps) would help.",
               server ? server->name : "a server", 100 * busy, 100 * away);
    else
      snprintf(v->text, sizeof v->text,
               "The workers spend %.0f %% of their time sending and receiving messages and "
               "%.0f %% computing: a larger --batch-size sends fewer bytes per example.",
               100 * v->network, 100 * v->compute);
  } else if (v->barrier >= v->compute) {
    v->cause = VERDICT_BARRIER;
    if (f->sync)
      snprintf(v->text, sizeof v->text,
               "The workers wait for each other%s %.0f %% of their time, none of them much slower than the rest; they "
               "compute %.0f %%. %s",
               f->servers ? "" : " and for messages", 100 * v->barrier, 100 * v->compute,
               f->servers
                   ? "With --mode async they do not wait."
                   : "A larger --batch-size sends fewer bytes per example, --compress auto tries smaller messages, "
                     "--local-steps 8 sends one in eight steps.");
    else
      snprintf(v->text, sizeof v->text,
               "The workers wait %.0f %% of their time where all meet: at the end of an epoch or of their rows, "
               "while worker 0 saves and tests; they compute %.0f %%.",
               100 * v->barrier, 100 * v->compute);
  } else {
    v->cause = VERDICT_COMPUTING;
    snprintf(v->text, sizeof v->text,
             "Computing takes %.0f %% of the workers' time, more than any wait: messages %.0f %%, "
             "the barrier %.0f %%, data %.0f %%.",
             100 * v->compute, 100 * away, 100 * v->barrier, 100 * v->input);
  }
}

/* ---- warnings */

static double gradients_of(const verdict_task *t) { return (double)t->gradients; }

static void warn_about_tasks(const verdict_facts *f, shoal_verdict *v) {
  const verdict_task *slow = slowest_of(f);
  for (const verdict_task *t = NULL; (t = verdict_next_worker(f, t));) {
    double all = verdict_time(&t->times);
    if (all > 0 && t->times.input / all >= STARVES)
      warn(v, "input_starves", t->name,
           "%s waits for data %.0f %% of its time: more --threads, a faster disk, or data that is cheaper to decode "
           "would help.",
           t->name, 100 * t->times.input / all);
    if (t->gradients < 0 || f->servers == 0) continue;
    double usual = median_without(f, t, gradients_of);
    char own[GROUPED_TEXT], others[GROUPED_TEXT];
    if (!t->gradients)
      warn(v, "silent_worker", t->name, "%s never contributed: none of its gradients reached every server.", t->name);
    else if (usual > 0 && (double)t->gradients < FEW * usual)
      warn(v, "slow_task", t->name, "%s contributed %s gradient%s, the others about %s.", t->name,
           grouped_text(t->gradients, own), t->gradients == 1 ? "" : "s", grouped_text(llround(usual), others));
  }
  double middle = slow ? median_without(f, slow, own_part) : 0;
  if (middle > 0 && own_part(slow) >= SLOW * middle)
    warn(v, "slow_task", slow->name,
         "%s takes %.1f times as long as the others for its part of a step: %.3g ms, the others %.3g ms.", slow->name,
         own_part(slow) / middle, 1e3 * own_part(slow), 1e3 * middle);
}

static void warn_about_rate(const verdict_facts *f, shoal_verdict *v) {
  if (!f->sync || f->workers < 2 || !(f->usual_rate > 0) || fabs(f->rate / f->usual_rate - 1) > 1e-6) return;
  char one[GROUPED_TEXT], all[GROUPED_TEXT];
  warn(v, "batch_grew", "",
       "Each update averages over %d x %s = %s examples, but the learning rate %.4g is the default for %s, and "
       "an epoch has 1/%d as many updates. To learn as fast as one worker, try --scale-lr: a rate of %.4g.",
       f->workers, grouped_text(f->batch, one), grouped_text(f->workers * f->batch, all), f->rate, one, f->workers,
       f->rate * f->workers);
}

/* Threads of workers, and servers, on a machine. */
static int wanted_on(const verdict_facts *f, int host) {
  int n = 0;
  for (int k = 0; k < f->n_tasks; k++)
    if (f->tasks[k].host == host) n += f->tasks[k].server ? 1 : f->tasks[k].threads;
  return n;
}

static void warn_about_host(const verdict_facts *f, int host, shoal_verdict *v) {
  const verdict_host *h = &f->hosts[host];
  const char *on = f->n_hosts > 1 ? " on " : "", *name = f->n_hosts > 1 ? h->name : "";
  int wanted = wanted_on(f, host);
  if (h->others > OTHERS * h->cores && h->own + h->others >= CROWDED * h->cores)
    warn(v, "busy_host", "",
         "Other programs used %.1f of the %d processors%s%s, this run %.1f: they slow it down, and part of its waiting "
         "is for them.",
         h->others, h->cores, on, name, h->own);
  else if (wanted > h->cores && f->servers)
    warn(v, "busy_host", "",
         "The workers' threads and the servers, %d in all, share %d processor%s%s%s: part of the waiting is for a "
         "processor.",
         wanted, h->cores, h->cores == 1 ? "" : "s", on, name);
}

void verdict_make(const verdict_facts *f, shoal_verdict *out) {
  shoal_verdict *v = out;
  *v = (shoal_verdict){0};
  add_shares(f, v);
  warn_about_tasks(f, v);
  warn_about_rate(f, v);
  for (int i = 0; i < f->n_hosts; i++) warn_about_host(f, i, v);
  if (f->seconds < SHORTEST || !(v->compute + v->network + v->barrier + v->server + v->input > 0)) {
    snprintf(v->text, sizeof v->text, "The run was too short to tell what limits it.");
    return;
  }
  if (f->seconds < VERDICT_SHORT)
    warn(v, "short_run", "", "The run took only %.2f s: its figures reflect start-up as much as training.", f->seconds);
  find_cause(f, v);
  verdict_forecast(f, v);
}
