/* Parameter servers and workers as threads of a test, over the real transport. */
#ifndef SHOAL_TESTS_PS_TASKS_H
#define SHOAL_TESTS_PS_TASKS_H

#include "train_data.h"

#include "base/mem.h"
#include "train/ps.h"

#include <math.h>
#include <pthread.h>

enum { MOST = 4, ROWS = 410, SLOW_WORKER = 1 };

typedef struct {
  int workers, servers;
  bool sync;
  int64_t staleness;
  int in_flight;
  int pieces;    /* as in ps_options */
  int64_t width; /* of the model's dense layer; 0: 16 */
  int backups;
  shoal_compile_options compile;
  shoal_fit_options fit;
  int64_t block;      /* elements a server updates at a time; 0: the standard */
  int threads;        /* of a server; 0: the standard */
  int64_t stop_after; /* steps of worker 0; 0: never */
  int64_t slow_us;    /* that SLOW_WORKER waits after each step */
  const char *wire;   /* NULL: f32 */
  bool advised;       /* as in ps_options */
  int64_t local_steps;
  double outer_momentum;
} job;

typedef struct {
  const job *of;
  const shoal_dataset *data;
  const char *const *addresses;
  int index;
  pthread_t thread;
  shoal_status status;
  shoal_model *model;
  shoal_fit_result fit;
  ps_server_result served;
  net_stats net;
} task;

static void model_make_wide(const shoal_compile_options *options, int64_t width, shoal_model **out) {
  assert_ok(shoal_model_create(SHOAL_SHAPE(8, 8, 1), out));
  shoal_model_conv2d(*out, 4, 3, 1, SHOAL_SAME, "relu");
  shoal_model_flatten(*out);
  shoal_model_dense(*out, width ? width : 16, "tanh");
  shoal_model_dense(*out, 4, "softmax");
  assert_ok(shoal_model_compile(*out, options));
}

static inline void model_make(const shoal_compile_options *options, shoal_model **out) {
  model_make_wide(options, 0, out);
}

static ps_options options_of(const task *t) {
  return (ps_options){.terms = {.workers = t->of->workers,
                                .servers = t->of->servers,
                                .sync = t->of->sync,
                                .staleness = t->of->staleness,
                                .in_flight = t->of->in_flight,
                                .local_steps = t->of->local_steps,
                                .backups = t->of->backups},
                      .task = {.net = {.job = 77}, .deadline = 10},
                      .worker = t->index,
                      .pieces = t->of->pieces,
                      .wire = t->of->wire ? wire_format_find(t->of->wire) : NULL,
                      .advised = t->of->advised,
                      .outer_rate = strategy_outer_rate(t->of->outer_momentum, t->of->sync ? 1 : t->of->workers),
                      .outer_momentum = t->of->outer_momentum,
                      .addresses = t->addresses};
}

static void *run_server(void *context) {
  task *t = context;
  const ps_options o = options_of(t);
  const ps_server_options server = {.index = t->index,
                                    .address = t->addresses[t->index],
                                    .terms = {.workers = o.terms.workers, .servers = o.terms.servers},
                                    .task = o.task,
                                    .kernels = t->of->compile.kernels,
                                    .block = t->of->block,
                                    .threads = t->of->threads};
  t->status = ps_serve(&server, &t->served);
  return NULL;
}

static bool on_step(void *context, const shoal_progress *p) {
  task *t = context;
  if (t->index == SLOW_WORKER && t->of->slow_us) usleep((useconds_t)t->of->slow_us);
  return t->index == 0 && t->of->stop_after && p->step >= t->of->stop_after;
}

static void *run_worker(void *context) {
  task *t = context;
  ps_options o = options_of(t);
  shoal_strategy *s = NULL;
  t->status = ps_strategy_create(&o, t->model, &s);
  if (t->status) return NULL;
  shoal_fit_options fit = t->of->fit;
  fit.strategy = s;
  fit.callbacks = (shoal_callbacks){.context = t, .on_step = on_step, .every_steps = 1};
  t->status = shoal_model_fit(t->model, t->data, &fit, &t->fit);
  shoal_status closed = ps_strategy_close(s);
  if (!t->status)
    t->status = closed;
  else
    shoal_status_free(closed);
  ps_strategy_stats(s, &t->net);
  strategy_destroy(s);
  return NULL;
}

/* Runs all tasks; they stay for the caller to look at, until run_fini. */
static void run(const job *j, const shoal_dataset *data, task workers[MOST], task servers[MOST]) {
  static int runs;
  char names[MOST][64];
  const char *addresses[MOST];
  for (int i = 0; i < j->servers; i++) {
    snprintf(names[i], sizeof names[i], "shm:/shoal-test-%d-%d-%d", (int)getpid(), runs, i);
    addresses[i] = names[i];
  }
  runs++;
  for (int i = 0; i < j->servers; i++) {
    servers[i] = (task){.of = j, .data = data, .addresses = addresses, .index = i};
    assert_int_equal(pthread_create(&servers[i].thread, NULL, run_server, &servers[i]), 0);
  }
  for (int i = 0; i < j->workers; i++) {
    workers[i] = (task){.of = j, .data = data, .addresses = addresses, .index = i};
    model_make_wide(&j->compile, j->width, &workers[i].model);
    assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
  }
  for (int i = 0; i < j->workers; i++) pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < j->servers; i++) pthread_join(servers[i].thread, NULL);
  for (int i = 0; i < j->servers; i++) assert_ok(servers[i].status); /* first: a worker only tells of what it lacks */
  for (int i = 0; i < j->workers; i++) assert_ok(workers[i].status);
}

static void servers_fini(const job *j, task servers[MOST]) {
  for (int i = 0; i < j->servers; i++) free(servers[i].served.workers);
}

static void run_fini(const job *j, task workers[MOST], task servers[MOST]) {
  for (int i = 0; i < j->workers; i++) shoal_model_destroy(workers[i].model);
  servers_fini(j, servers);
}

static shoal_compile_options compile_for(const char *optimizer) {
  return (shoal_compile_options){.optimizer = {.name = optimizer},
                                 .schedule = {.name = "exponential", .rate = 0.02, .factor = 0.9, .every = 20},
                                 .l2 = 1e-3,
                                 .seed = 5,
                                 .threads = 1};
}

#endif
