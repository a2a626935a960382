#include "observe/sampler.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define SHORTEST 0.02 /* seconds: a last sample over less would be a matter of the scheduler's ticks */

struct sampler {
  sampler_options options;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool started, stopped; /* the thread */
  double start, last;    /* clock */
  proc_self self_start, self_last;
  proc_host *host_start, *host_last, *host_now; /* NULL: the machine is not sampled */
  double (*cores)[2];
  int64_t sent, received;           /* noted */
  int64_t last_sent, last_received; /* at the last sample */
  shoal_times times;
  int samples;
  double peak, host_peak;   /* CPU */
  double rss_sum, used_sum; /* byte seconds */
  int64_t used_peak;
};

static double cpu_of(const proc_self *p) { return p->user_seconds + p->system_seconds; }

/* The lock is held. */
static void sample_task(sampler *s, double now, double interval, sampler_task *out) {
  proc_self p;
  proc_read_self(&p);
  const proc_self *last = &s->self_last;
  *out = (sampler_task){.seconds = now - s->start,
                        .interval = interval,
                        .user_percent = 100 * (p.user_seconds - last->user_seconds) / interval,
                        .system_percent = 100 * (p.system_seconds - last->system_seconds) / interval,
                        .rss_bytes = p.rss_bytes,
                        .threads = p.threads,
                        .net_sent = (double)(s->sent - s->last_sent) / interval,
                        .net_received = (double)(s->received - s->last_received) / interval,
                        .disk_read = (double)(p.disk_read_bytes - last->disk_read_bytes) / interval,
                        .disk_written = (double)(p.disk_written_bytes - last->disk_written_bytes) / interval,
                        .times = s->times};
  s->peak = MAX_OF(s->peak, out->user_percent + out->system_percent);
  s->rss_sum += (double)p.rss_bytes * interval;
  s->samples++;
  s->self_last = p;
  s->last_sent = s->sent;
  s->last_received = s->received;
}

static void core_share(const proc_core *now, const proc_core *last, double out[2]) {
  double user = now->user - last->user, system = now->system - last->system, idle = now->idle - last->idle;
  double all = user + system + idle; /* ticks that were counted: at most 1 / 100 s off the clock */
  out[0] = all > 0 ? 100 * MAX_OF(user, 0) / all : 0;
  out[1] = all > 0 ? 100 * MAX_OF(system, 0) / all : 0;
}

static const proc_interface *same_interface(const proc_host *h, const char *name) {
  for (int i = 0; i < h->n_interfaces; i++)
    if (!strcmp(h->interfaces[i].name, name)) return &h->interfaces[i];
  return NULL;
}

static void sample_host(sampler *s, double interval, sampler_host *out) {
  proc_host *h = s->host_now, *last = s->host_last;
  proc_read_host(h);
  double all[2];
  core_share(&h->all, &last->all, all);
  *out = (sampler_host){.interval = interval,
                        .user_percent = all[0],
                        .system_percent = all[1],
                        .idle_percent = MAX_OF(100 - all[0] - all[1], 0),
                        .n_cores = MIN_OF(h->n_cores, last->n_cores),
                        .cores = (const double(*)[2])s->cores,
                        .memory_used_bytes = h->memory_bytes - h->memory_free_bytes,
                        .memory_free_bytes = h->memory_free_bytes,
                        .disk_read = (double)(h->disk_read_bytes - last->disk_read_bytes) / interval,
                        .disk_written = (double)(h->disk_written_bytes - last->disk_written_bytes) / interval};
  for (int i = 0; i < out->n_cores; i++) core_share(&h->cores[i], &last->cores[i], s->cores[i]);
  for (int i = 0; i < h->n_interfaces; i++) {
    const proc_interface *now = &h->interfaces[i], *before = same_interface(last, now->name);
    if (!before) continue;
    sampler_interface *to = &out->interfaces[out->n_interfaces++];
    strcpy(to->name, now->name);
    to->sent = (double)(now->sent_bytes - before->sent_bytes) / interval;
    to->received = (double)(now->received_bytes - before->received_bytes) / interval;
  }
  s->host_peak = MAX_OF(s->host_peak, all[0] + all[1]);
  s->used_sum += (double)out->memory_used_bytes * interval;
  s->used_peak = MAX_OF(s->used_peak, out->memory_used_bytes);
  s->host_now = last;
  s->host_last = h;
}

/* The lock is held; it is not while the callbacks run. */
static void sample(sampler *s) {
  double now = clock_seconds(), interval = now - s->last;
  if (interval < SHORTEST) return;
  sampler_task task;
  sampler_host host;
  sample_task(s, now, interval, &task);
  bool with_host = s->host_last != NULL;
  if (with_host) sample_host(s, interval, &host);
  s->last = now;
  pthread_mutex_unlock(&s->lock);
  s->options.on_task(s->options.context, &task);
  if (with_host && s->options.on_host) s->options.on_host(s->options.context, &host);
  pthread_mutex_lock(&s->lock);
}

static void *run(void *context) {
  sampler *s = context;
  pthread_mutex_lock(&s->lock);
  while (!s->stopped) {
    double next = s->last + s->options.every;
    struct timespec until = {.tv_sec = (time_t)next, .tv_nsec = (long)((next - (double)(time_t)next) * 1e9)};
    if (pthread_cond_timedwait(&s->wake, &s->lock, &until) == ETIMEDOUT && !s->stopped) sample(s);
  }
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

static void release(sampler *s) {
  pthread_cond_destroy(&s->wake);
  pthread_mutex_destroy(&s->lock);
  free(s->host_start);
  free(s->host_last);
  free(s->host_now);
  free(s->cores);
  free(s);
}

shoal_status sampler_start(const sampler_options *options, sampler **out) {
  sampler *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  pthread_mutex_init(&s->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&s->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  if (options->host) {
    s->host_start = calloc(1, sizeof *s->host_start);
    s->host_last = calloc(1, sizeof *s->host_last);
    s->host_now = calloc(1, sizeof *s->host_now);
    s->cores = calloc(PROC_CORES_MAX, sizeof *s->cores);
    if (!s->host_start || !s->host_last || !s->host_now || !s->cores) {
      release(s);
      return status_no_memory();
    }
    proc_read_host(s->host_start);
    *s->host_last = *s->host_start;
  }
  proc_read_self(&s->self_start);
  s->self_last = s->self_start;
  s->start = s->last = clock_seconds();
  int error = pthread_create(&s->thread, NULL, run, s);
  if (error) {
    release(s);
    return status_errno(error, "cannot start a thread that samples the machine");
  }
  s->started = true;
  *out = s;
  return NULL;
}

void sampler_note(sampler *s, int64_t net_sent_bytes, int64_t net_received_bytes, const shoal_times *times) {
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  s->sent = net_sent_bytes;
  s->received = net_received_bytes;
  if (times) s->times = *times;
  pthread_mutex_unlock(&s->lock);
}

void sampler_stop(sampler *s) {
  if (!s || s->stopped) return;
  pthread_mutex_lock(&s->lock);
  s->stopped = true;
  pthread_cond_signal(&s->wake);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_mutex_lock(&s->lock);
  sample(s);
  pthread_mutex_unlock(&s->lock);
}

void sampler_read(sampler *s, shoal_usage *out) {
  *out = (shoal_usage){0};
  if (!s) return;
  pthread_mutex_lock(&s->lock);
  proc_self life, now = s->self_last;
  proc_read_self(&life);
  double end = s->last;
  if (!s->stopped || !s->samples) {
    now = life;
    end = clock_seconds();
  }
  double seconds = end - s->start, cpu = cpu_of(&now) - cpu_of(&s->self_start);
  out->samples = s->samples;
  out->cpu_percent_mean = seconds > 0 ? 100 * cpu / seconds : 0;
  out->cpu_percent_peak = MAX_OF(s->peak, out->cpu_percent_mean);
  out->cpu_user_seconds = now.user_seconds - s->self_start.user_seconds;
  out->cpu_system_seconds = now.system_seconds - s->self_start.system_seconds;
  out->rss_peak_bytes = life.rss_peak_bytes;
  out->rss_mean_bytes = s->samples ? (int64_t)(s->rss_sum / (s->last - s->start)) : now.rss_bytes;
  out->disk_read_bytes = life.disk_read_bytes;
  out->disk_written_bytes = life.disk_written_bytes;
  if (s->host_last && s->samples) {
    const proc_host *h = s->host_last, *first = s->host_start;
    double all[2];
    core_share(&h->all, &first->all, all);
    out->host.known = true;
    out->host.cores = h->n_cores;
    out->host.memory_bytes = h->memory_bytes;
    out->host.cpu_percent_mean = all[0] + all[1];
    out->host.cpu_percent_peak = MAX_OF(s->host_peak, out->host.cpu_percent_mean);
    out->host.memory_used_mean_bytes = (int64_t)(s->used_sum / (s->last - s->start));
    out->host.memory_used_peak_bytes = s->used_peak;
    for (int i = 0; i < h->n_interfaces; i++) {
      const proc_interface *at = &h->interfaces[i], *before = same_interface(first, at->name);
      if (!before || !strcmp(at->name, "lo")) continue;
      out->host.net_sent_bytes += at->sent_bytes - before->sent_bytes;
      out->host.net_received_bytes += at->received_bytes - before->received_bytes;
    }
    out->host.disk_read_bytes = h->disk_read_bytes - first->disk_read_bytes;
    out->host.disk_written_bytes = h->disk_written_bytes - first->disk_written_bytes;
  }
  pthread_mutex_unlock(&s->lock);
}

void sampler_destroy(sampler *s) {
  if (!s) return;
  sampler_stop(s);
  release(s);
}
