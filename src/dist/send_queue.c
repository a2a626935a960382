#include "dist/send_queue.h"

#include "base/mem.h"

#include <pthread.h>
#include <string.h>

enum {
  SMALL = 128 << 10,  /* bytes of a message that may go out at once */
  IN_FLIGHT = 1 << 20 /* bytes of those to one task in one run: a quarter of what shared memory holds */
};

typedef struct {
  int task;
  bool connect;
  net_header header;
  net_part *parts;
  int n;
  bool traced;
} job;

struct send_queue {
  send_queue_options options;
  net_client **links; /* [tasks] */
  bool *asked;        /* [tasks] to be connected */
  size_t *in_flight;  /* [tasks] bytes sent at once in this run */
  pthread_t thread;
  bool running;
  pthread_mutex_t lock; /* of all below, and of the links while the thread does not work */
  pthread_cond_t come;
  job *jobs; /* [n_jobs], in a ring from first_job on */
  size_t first_job, n_jobs, cap_jobs;
  bool working, ending;
  shoal_status failure;
  events *events;         /* NULL: no timeline */
  const uint32_t *labels; /* [tasks] */
  int track;
};

static shoal_status do_job(send_queue *c, const job *j) {
  const send_queue_options *o = &c->options;
  if (j->connect) {
    net_client *link;
    TRY(status_wrap(net_connect(o->addresses[j->task], &o->net, o->seconds, &link), "%s", o->names[j->task]));
    c->links[j->task] = link;
    return status_wrap(net_send(link, &o->hello, NULL, 0, o->seconds), "%s", o->names[j->task]);
  }
  if (!c->links[j->task]) return status_make(SHOAL_ERR_PEER, "%s could not be reached", o->names[j->task]);
  return status_wrap(net_send(c->links[j->task], &j->header, j->parts, j->n, o->seconds), "%s", o->names[j->task]);
}

static void keep_failure(send_queue *c, shoal_status status) {
  if (c->failure)
    shoal_status_free(status);
  else
    c->failure = status;
}

/* With the lock held. */
static void note_sent(send_queue *c, const job *j, int track, uint64_t begun, uint64_t ended) {
  double bytes = 0;
  if (!j->traced) return;
  for (int i = 0; i < j->n; i++) bytes += (double)j->parts[i].bytes;
  events_add(c->events, track, c->labels[j->task], begun, ended, bytes);
}

static void *work(void *context) {
  send_queue *c = context;
  pthread_mutex_lock(&c->lock);
  for (;;) {
    while (!c->n_jobs && !c->ending) pthread_cond_wait(&c->come, &c->lock);
    if (c->ending) break;
    job j = c->jobs[c->first_job];
    c->first_job = (c->first_job + 1) % c->cap_jobs;
    c->n_jobs--;
    c->working = true;
    pthread_mutex_unlock(&c->lock);
    uint64_t begun = j.traced ? events_now() : 0;
    shoal_status status = do_job(c, &j);
    uint64_t ended = j.traced ? events_now() : 0;
    pthread_mutex_lock(&c->lock);
    note_sent(c, &j, c->track, begun, ended);
    free(j.parts);
    c->working = false;
    keep_failure(c, status);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

shoal_status send_queue_create(const send_queue_options *options, send_queue **out) {
  send_queue *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  size_t n = (size_t)options->tasks;
  c->options = *options;
  c->links = calloc(n, sizeof(net_client *));
  c->asked = calloc(n, sizeof *c->asked);
  c->in_flight = calloc(n, sizeof *c->in_flight);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->come, NULL);
  shoal_status status = c->links && c->asked && c->in_flight ? NULL : status_no_memory();
  if (!status) {
    int error = pthread_create(&c->thread, NULL, work, c);
    if (error) status = status_errno(error, "starting a thread");
    c->running = !error;
  }
  if (status) {
    send_queue_destroy(c);
    return status;
  }
  *out = c;
  return NULL;
}

void send_queue_destroy(send_queue *c) {
  if (!c) return;
  pthread_mutex_lock(&c->lock);
  c->ending = true;
  pthread_cond_signal(&c->come);
  pthread_mutex_unlock(&c->lock);
  if (c->running) pthread_join(c->thread, NULL);
  for (size_t i = 0; i < c->n_jobs; i++) free(c->jobs[(c->first_job + i) % c->cap_jobs].parts);
  for (int i = 0; c->links && i < c->options.tasks; i++)
    if (c->links[i]) net_client_close(c->links[i]);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->come);
  shoal_status_free(c->failure);
  free(c->links);
  free(c->asked);
  free(c->in_flight);
  free(c->jobs);
  free(c);
}

/* With the lock held. */
static shoal_status add_job(send_queue *c, const job *j) {
  if (c->n_jobs == c->cap_jobs) {
    size_t capacity = MAX_OF(2 * c->cap_jobs, (size_t)16);
    job *jobs = calloc(capacity, sizeof *jobs);
    if (!jobs) return status_no_memory();
    for (size_t i = 0; i < c->n_jobs; i++) jobs[i] = c->jobs[(c->first_job + i) % c->cap_jobs];
    free(c->jobs);
    c->jobs = jobs;
    c->cap_jobs = capacity;
    c->first_job = 0;
  }
  c->jobs[(c->first_job + c->n_jobs++) % c->cap_jobs] = *j;
  pthread_cond_signal(&c->come);
  return NULL;
}

shoal_status send_queue_connect(send_queue *c, int task) {
  pthread_mutex_lock(&c->lock);
  shoal_status status = c->asked[task] ? NULL : add_job(c, &(job){.task = task, .connect = true});
  c->asked[task] = true;
  pthread_mutex_unlock(&c->lock);
  return status;
}

shoal_status send_queue_send(send_queue *c, int task, const net_header *header, const net_part *parts, int n) {
  size_t bytes = 0;
  for (int i = 0; i < n; i++) bytes += parts[i].bytes;
  shoal_status status = NULL;
  pthread_mutex_lock(&c->lock);
  job j = {.task = task, .header = *header, .parts = (net_part *)parts, .n = n, .traced = events_on(c->events)};
  if (!c->n_jobs && !c->working && bytes <= SMALL && c->in_flight[task] + bytes <= IN_FLIGHT) {
    c->in_flight[task] += bytes;
    uint64_t begun = j.traced ? events_now() : 0;
    status = do_job(c, &j);
    note_sent(c, &j, 0, begun, j.traced ? events_now() : 0);
  } else {
    j.parts = calloc((size_t)n + 1, sizeof *j.parts);
    if (!j.parts) {
      status = status_no_memory();
    } else {
      memcpy(j.parts, parts, (size_t)n * sizeof *parts);
      status = add_job(c, &j);
    }
  }
  pthread_mutex_unlock(&c->lock);
  return status;
}

void send_queue_next_run(send_queue *c) { memset(c->in_flight, 0, (size_t)c->options.tasks * sizeof *c->in_flight); }

bool send_queue_busy(send_queue *c) {
  pthread_mutex_lock(&c->lock);
  bool busy = c->n_jobs || c->working;
  pthread_mutex_unlock(&c->lock);
  return busy;
}

shoal_status send_queue_failure(send_queue *c) {
  pthread_mutex_lock(&c->lock);
  shoal_status status = c->failure;
  c->failure = NULL;
  pthread_mutex_unlock(&c->lock);
  return status;
}

void send_queue_trace(send_queue *c, events *e, const uint32_t *labels, int track) {
  pthread_mutex_lock(&c->lock);
  c->events = e;
  c->labels = labels;
  c->track = track;
  pthread_mutex_unlock(&c->lock);
}

void send_queue_stats(send_queue *c, net_stats *out) {
  *out = (net_stats){0};
  pthread_mutex_lock(&c->lock);
  for (int i = 0; i < c->options.tasks; i++) {
    net_stats one = {0};
    if (c->links[i]) net_client_stats(c->links[i], &one);
    out->sent_messages += one.sent_messages;
    out->sent_bytes += one.sent_bytes;
  }
  pthread_mutex_unlock(&c->lock);
}
