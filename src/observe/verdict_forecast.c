/* What one more worker would bring. See verdict.h, 5. */
#include "observe/verdict_internal.h"

#include "base/mem.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>

#define LOADED 0.15 /* share of a machine's processors in use by others, from which on nothing is foretold */
#define FULL 0.9    /* share of a server's time from which on it is what limits the speed */
#define SAME 0.05   /* a speed-up that is none */
#define CROWDED 2   /* workers a processor, beyond which what they lose by taking turns is not known */

/* Means of the workers' steps, in seconds. */
typedef struct {
  int workers, threads; /* threads: of each */
  double step;          /* from one to the next */
  double compute;       /* of it */
  double exchange;      /* of it: messages and the servers' work */
  double cpu;           /* processor time of a worker */
  double gradient;      /* of the busiest server's time, for one of its gradients */
  double all_cpu;       /* processor time of all tasks, for one gradient */
} pace;

static bool measure(const verdict_facts *f, pace *out) {
  const verdict_task *server = verdict_busiest(f);
  pace p = {0};
  double steps = 0, cpu = 0;
  for (const verdict_task *t = NULL; (t = verdict_next_worker(f, t));) {
    p.workers++;
    p.step += verdict_time(&t->times);
    p.compute += t->times.compute;
    p.exchange += t->times.network + t->times.server;
    p.threads = MAX_OF(p.threads, t->threads);
    cpu += t->cpu_percent / 100 * t->seconds;
    steps += (double)t->steps;
  }
  if (!p.workers || !p.threads || !f->next_threads || !(steps > 0) || !(p.step > 0)) return false;
  if (!server || !server->served || !(f->examples_per_second > 0)) return false;
  p.step /= steps;
  p.compute /= steps;
  p.exchange /= steps;
  p.cpu = cpu / steps;
  p.gradient = server->busy_seconds / (double)server->served;
  for (int k = 0; k < f->n_tasks; k++) p.all_cpu += f->tasks[k].cpu_percent / 100 * f->tasks[k].seconds / steps;
  *out = p;
  return true;
}

/* Whether the model knows enough; otherwise next_text says why not, if that is of use. */
static bool may_foretell(const verdict_facts *f, const pace *p, shoal_verdict *v) {
  const int next = p->workers + 1, wanted = next * f->next_threads;
  if (!f->n_hosts || f->seconds < VERDICT_SHORT) return false;
  for (int i = 0; i < f->n_hosts; i++) {
    const verdict_host *h = &f->hosts[i];
    if (h->cores <= 0) return false;
    if (h->others <= LOADED * h->cores) continue;
    snprintf(v->next_text, sizeof v->next_text,
             "No forecast for %d workers: other programs were using %.1f of the %d processors%s%s.", next, h->others,
             h->cores, f->n_hosts > 1 ? " of " : "", f->n_hosts > 1 ? h->name : "");
    return false;
  }
  const bool crowded = next > CROWDED * f->hosts[0].cores;
  if (f->n_hosts > 1 || wanted <= f->hosts[0].cores || (!f->sync && f->next_threads == 1 && !crowded)) return true;
  snprintf(v->next_text, sizeof v->next_text,
           "No forecast for %d workers: with %d thread%s each they would have to share %d processor%s; do not expect "
           "more examples/s.",
           next, f->next_threads, f->next_threads == 1 ? "" : "s", f->hosts[0].cores,
           f->hosts[0].cores == 1 ? "" : "s");
  return false;
}

/* Seconds of a step's computing with another number of threads. What is lost between threads is not in processor
 * time as far as they sleep meanwhile. */
static double compute_next(const verdict_facts *f, const pace *p) {
  if (f->next_threads == p->threads) return p->compute;
  return MIN_OF(p->threads * p->compute, p->cpu) / f->next_threads;
}

void verdict_forecast(const verdict_facts *f, shoal_verdict *v) {
  pace p;
  if (!measure(f, &p) || !may_foretell(f, &p, v)) return;
  const verdict_host *host = &f->hosts[0];
  double now = p.workers / p.step;
  double next = (p.workers + 1) / (p.step - p.compute + compute_next(f, &p) + p.gradient); /* gradients a second */
  char limit[96] = "";
  if (next * p.gradient > FULL) {
    next = MIN_OF(next, 1 / p.gradient);
    snprintf(limit, sizeof limit, ", since %s cannot take in more gradients", verdict_busiest(f)->name);
  }
  double possible = (host->cores - host->others) / p.all_cpu;
  if (f->n_hosts == 1 && !f->sync && next > possible) {
    next = MIN_OF(next, possible);
    snprintf(limit, sizeof limit, ", since the %d processors have no time left", host->cores);
  }
  v->has_next = true;
  v->speedup = next / now;
  v->next_examples_per_second = v->speedup * f->examples_per_second;
  double unit = pow(10, floor(log10(v->next_examples_per_second)) - 2); /* three digits are more than the model knows */
  char times[32] = "about as", speed[GROUPED_TEXT];
  if (fabs(v->speedup - 1) > SAME) snprintf(times, sizeof times, "%.2f times as", v->speedup);
  snprintf(
      v->next_text, sizeof v->next_text, "With %d workers%s about %s examples/s, %s many as with %d%s.", p.workers + 1,
      f->n_hosts > 1 ? ", the new one on a machine of its own," : "",
      grouped_text(llround(unit >= 1 ? round(v->next_examples_per_second / unit) * unit : v->next_examples_per_second),
                   speed),
      times, p.workers, limit);
}
