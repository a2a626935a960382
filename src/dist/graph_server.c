/* 1. One thread runs at any time, and everything here belongs to it.
 * 2. A plan that has computed for a turn while there are other sessions is set aside: it keeps its thread, and the
 *    server goes on in a new one, which then gives a turn to each plan set aside and to each other session by and by.
 *    Turns are handed over by semaphores. A thread whose plan is done hands back the turn and ends, but for the first
 *    one, which waits for the server's end.
 * 3. While a plan runs, messages are taken between its phases (`look`): aborts and the end of the server end it there. */
#include "dist/graph_server.h"

#include "base/clock.h"
#include "base/events.h"
#include "base/mem.h"
#include "dist/graph_protocol.h"
#include "dist/graph_task.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#define TURN_SECONDS 0.02 /* of one plan, while other sessions wait */
#define LOOK_EVERY 0.002  /* seconds between looks at messages while a plan runs */
#define IDLE_WAIT 0.25    /* seconds between looks at the stop flag */
#define SHORT_WAIT 0.0005

typedef struct {
  graph_task *task;
  pthread_t thread;
  bool first; /* the thread that graph_server_run was called in */
  bool done;
  sem_t turn;
} set_aside;

typedef struct {
  graph_server_options options;
  net_server *net;
  graph_task **tasks; /* sessions */
  bool *closing;      /* [n_tasks] */
  size_t n_tasks, cap_tasks, cap_closing;
  graph_task *computing; /* the one whose plan runs */
  double looked, turn_began;
  long processors;
  set_aside **aside; /* plans that have begun and wait for their turn */
  size_t n_aside, cap_aside;
  sem_t back;  /* a plan set aside has had its turn */
  sem_t ended; /* the last thread of the server ends */
  pthread_t first, last;
  shoal_status status; /* the error that ends the server */
} server;

static void await(sem_t *s) {
  while (sem_wait(s) && errno == EINTR)
    ;
}

static size_t find_task(const server *s, uint64_t id) {
  size_t i = 0;
  while (i < s->n_tasks && (graph_task_id(s->tasks[i]) != id || s->closing[i])) i++;
  return i;
}

/* NULL: all is well. Takes `status`. */
static shoal_status answer(server *s, uint64_t peer, net_header h, const net_part *parts, int n, shoal_status failure) {
  net_part words;
  if (failure) {
    h.flags |= GRAPH_FAILED;
    h.number = (uint64_t)shoal_status_code(failure);
    words = (net_part){shoal_status_message(failure), strlen(shoal_status_message(failure))};
    parts = &words;
    n = 1;
  }
  shoal_status status = net_answer(s->net, peer, &h, parts, n);
  shoal_status_free(failure);
  return status;
}

static shoal_status look(void *context);

static shoal_status open_session(server *s, const net_message *m) {
  TRY(mem_grow((void **)&s->tasks, &s->cap_tasks, s->n_tasks + 1, sizeof(graph_task *)));
  TRY(mem_grow((void **)&s->closing, &s->cap_closing, s->n_tasks + 1, sizeof *s->closing));
  if (find_task(s, m->header.generation) < s->n_tasks)
    return status_make(SHOAL_ERR_PEER, "a session of that number is open");
  net_options net = s->options.net;
  net.server_key = net.public_key; /* all servers of a cluster have one key */
  net.allowed = NULL;
  graph_task_options o = {.id = m->header.generation,
                          .client = m->peer,
                          .net = net,
                          .kernels = s->options.kernels,
                          .threads = s->options.threads,
                          .memory = s->options.memory,
                          .seconds = s->options.seconds,
                          .context = s,
                          .look = look};
  graph_task *t;
  TRY(graph_task_create(&o, m->payload, m->bytes, &t));
  s->closing[s->n_tasks] = false;
  s->tasks[s->n_tasks++] = t;
  return NULL;
}

static void peer_gone(server *s, const net_message *m) {
  for (size_t i = 0; i < s->n_tasks; i++) {
    graph_task_lost(s->tasks[i], m->peer);
    if (graph_task_client(s->tasks[i]) != m->peer) continue;
    s->closing[i] = true;
    graph_task_abort(s->tasks[i], 0, status_make(SHOAL_ERR_CANCELLED, "the client disconnected"));
  }
}

/* What can be done while a plan runs, too: nothing here advances a run. */
static shoal_status handle(server *s, net_message *m) {
  const net_header *h = &m->header;
  size_t i = find_task(s, h->generation);
  graph_task *t = i < s->n_tasks ? s->tasks[i] : NULL;
  net_header reply = {.kind = h->kind, .generation = h->generation, .step = h->step};
  shoal_status failure = NULL;
  bool later = false;
  switch (h->kind) {
    case NET_GONE: peer_gone(s, m); return NULL;
    case GRAPH_DATA:
      if (t) graph_task_data(t, m);
      return NULL;
    case GRAPH_HELLO:
      if (t) graph_task_hello(t, (int)h->number, m->peer);
      return NULL;
    case GRAPH_ABORT:
      if (t) graph_task_abort(t, h->step, status_make(SHOAL_ERR_CANCELLED, "stopped because another task failed"));
      return NULL;
    case GRAPH_OPEN: failure = open_session(s, m); break;
    case GRAPH_CLOSE:
      if (t) s->closing[i] = true;
      if (t) graph_task_abort(t, 0, status_make(SHOAL_ERR_CANCELLED, "the session was closed"));
      break;
    case GRAPH_CLOCK: reply.number = events_now(); break;
    case GRAPH_EXTEND:
    case GRAPH_PREPARE:
    case GRAPH_RUN:
    case GRAPH_FORGET:
    case GRAPH_TRACE:
      if (!t)
        failure = status_make(SHOAL_ERR_PEER, "no such session is open: was the server restarted?");
      else if (h->kind == GRAPH_EXTEND)
        failure = graph_task_extend(t, m->payload, m->bytes);
      else if (h->kind == GRAPH_PREPARE)
        failure = graph_task_prepare(t, m, &later);
      else if (h->kind == GRAPH_FORGET) {
        failure = graph_task_forget(t, h->number);
        later = true;
      } else if (h->kind == GRAPH_TRACE) {
        failure = graph_task_trace(t, h->number == 1);
        later = h->number != 1;
      } else {
        graph_run_head head = {0};
        failure = graph_task_start(t, m, &head);
        later = true;
        net_server_eager(s->net, GRAPH_EAGER, head.tasks >= (uint64_t)s->processors);
      }
      break;
    default: failure = status_make(SHOAL_ERR_PEER, "a message of unknown kind %u", h->kind);
  }
  return later && !failure ? NULL : answer(s, m->peer, reply, NULL, 0, failure);
}

static shoal_status receive(server *s, double seconds, bool *got) {
  net_message m;
  TRY(net_receive(s->net, seconds, &m, got));
  if (!*got) return NULL;
  shoal_status status = handle(s, &m);
  net_release_server(s->net, &m);
  return status;
}

/* ---- turns */

static set_aside *find_aside(const server *s, const graph_task *t) {
  for (size_t i = 0; i < s->n_aside; i++)
    if (s->aside[i]->task == t) return s->aside[i];
  return NULL;
}

static void *go_on(void *context);

/* The server goes on in a thread of its own. NULL: it cannot, and the plan runs on. */
static set_aside *put_aside(server *s, graph_task *t) {
  pthread_t thread;
  set_aside *a = calloc(1, sizeof *a);
  shoal_status status = mem_grow((void **)&s->aside, &s->cap_aside, s->n_aside + 1, sizeof *s->aside);
  if (!a || status || sem_init(&a->turn, 0, 0)) {
    shoal_status_free(status);
    free(a);
    return NULL;
  }
  a->task = t;
  a->thread = pthread_self();
  a->first = pthread_equal(a->thread, s->first);
  s->aside[s->n_aside++] = a;
  s->computing = NULL;
  if (!pthread_create(&thread, NULL, go_on, s)) return a;
  s->n_aside--;
  sem_destroy(&a->turn);
  free(a);
  return NULL;
}

/* In the plan's thread: the others have their turn. */
static void give_turn(server *s, graph_task *t) {
  set_aside *a = find_aside(s, t);
  if (a)
    sem_post(&s->back);
  else
    a = put_aside(s, t);
  if (a) await(&a->turn);
  s->computing = t;
  s->looked = s->turn_began = clock_seconds();
}

/* In the server's thread: plan i set aside runs for a turn. */
static void take_turn(server *s, size_t i) {
  set_aside *a = s->aside[i];
  sem_post(&a->turn);
  await(&s->back);
  if (!a->done) return;
  if (!a->first) pthread_join(a->thread, NULL);
  s->aside[i] = s->aside[--s->n_aside];
  sem_destroy(&a->turn);
  free(a);
}

static bool ends(const server *s) {
  return s->status || (s->options.stop && __atomic_load_n(s->options.stop, __ATOMIC_RELAXED));
}

/* Between the phases of a plan: aborts are heard, data that comes early is taken. */
static shoal_status look(void *context) {
  server *s = context;
  graph_task *t = s->computing;
  double now = clock_seconds();
  if (now - s->looked < LOOK_EVERY) return NULL;
  s->looked = now;
  for (bool got = true; got;) TRY(receive(s, 0, &got));
  if (!t) return NULL;
  if (s->n_tasks > 1 && now - s->turn_began > TURN_SECONDS) give_turn(s, t);
  return ends(s) ? status_make(SHOAL_ERR_CANCELLED, "the server is shutting down") : graph_task_told_to_stop(t);
}

/* ---- the loop */

/* *wait: how long to wait for more; *aside: the task was set aside, and this thread is not the server's any more. */
static shoal_status advance_task(server *s, graph_task *t, double *wait, bool *aside) {
  net_header h;
  const net_part *parts;
  int n;
  shoal_status failure, status = NULL;
  s->computing = t;
  s->looked = s->turn_began = clock_seconds();
  task_state state = graph_task_advance(t, &h, &parts, &n, &failure);
  s->computing = NULL;
  if (state == TASK_WAITS_SHORT) *wait = SHORT_WAIT;
  if (state == TASK_ANSWERS) {
    status = answer(s, graph_task_client(t), h, parts, n, failure);
    *wait = 0;
  }
  set_aside *a = find_aside(s, t);
  *aside = a != NULL;
  if (!a) return status;
  if (status && s->status)
    shoal_status_free(status);
  else if (status)
    s->status = status;
  a->done = true;
  sem_post(&s->back);
  return NULL;
}

/* Does what can be done; *wait: how long to wait for more. */
static shoal_status advance(server *s, double *wait, bool *aside) {
  *wait = IDLE_WAIT;
  *aside = false;
  for (size_t i = 0; i < s->n_tasks; i++) {
    if (find_aside(s, s->tasks[i])) continue;
    TRY(advance_task(s, s->tasks[i], wait, aside));
    if (*aside) return NULL;
  }
  for (size_t i = s->n_aside; i-- > 0;) {
    take_turn(s, i);
    *wait = 0;
  }
  for (size_t i = s->n_tasks; i-- > 0;) {
    if (!s->closing[i] || find_aside(s, s->tasks[i])) continue;
    graph_task_destroy(s->tasks[i]);
    s->n_tasks--;
    s->tasks[i] = s->tasks[s->n_tasks];
    s->closing[i] = s->closing[s->n_tasks];
  }
  return NULL;
}

/* Serves in this thread until the server ends, or a plan in this thread is set aside and then done. */
static void *go_on(void *context) {
  server *s = context;
  double wait = 0;
  bool got, aside;
  while (!ends(s)) {
    shoal_status status = receive(s, wait, &got);
    if (!status && !got && wait > 0) net_server_eager(s->net, 0, false); /* until the next run */
    if (!status) status = advance(s, &wait, &aside);
    if (!status && aside) return NULL;
    if (status) s->status = status;
  }
  while (s->n_aside) take_turn(s, 0);
  s->last = pthread_self();
  sem_post(&s->ended);
  return NULL;
}

shoal_status graph_server_run(const graph_server_options *options) {
  server s = {.options = *options, .first = pthread_self()};
  s.options.net.largest = GRAPH_LARGEST;
  s.processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (sem_init(&s.back, 0, 0) || sem_init(&s.ended, 0, 0)) return status_errno(errno, "cannot create a semaphore");
  TRY(net_listen(options->address, &s.options.net, &s.net));
  if (options->ready) options->ready(options->context);
  go_on(&s);
  await(&s.ended);
  if (!pthread_equal(s.last, s.first)) pthread_join(s.last, NULL);
  for (size_t i = 0; i < s.n_tasks; i++) graph_task_destroy(s.tasks[i]);
  free(s.tasks);
  free(s.closing);
  free(s.aside);
  sem_destroy(&s.back);
  sem_destroy(&s.ended);
  net_server_close(s.net);
  return s.status;
}
