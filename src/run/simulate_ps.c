/* Parameter servers and their workers in a simulation. Servers (ps_server_run) and the workers' end of them (ps_client)
 * are those of a real job, with vectors of one number a server in place of long ones; a worker's steps are those of
 * train/ps.c without a model. */
#include "base/clock.h"
#include "base/mem.h"
#include "dist/ps_client.h"
#include "run/simulation.h"
#include "train/ps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEADLINE 1e6      /* seconds: nobody is lost but those whom the simulation lets fail */
#define POLL_SECONDS 0.01 /* between two looks whether the others are done */
#define LATER 0.1         /* seconds that other workers begin after worker 0, which tells servers what the job is */
#define WINDOW 4e6        /* bytes: what a socket keeps */
#define ADDRESS 16
#define PAIR 1536 /* bytes that a worker and a server keep for each other, about */

typedef struct cluster cluster;

typedef struct {
  cluster *of;
  int index;
  ps_server_result result;
} server_task;

struct cluster {
  simulation *of;
  ps_terms terms;
  ps_task task;
  placement place;
  ps_start plan;
  char (*names)[ADDRESS];
  const char **addresses;
  server_task *servers;
  bool over;     /* worker 0 has ended the job */
  float *values; /* of all workers: what is in them does not matter */
};

/* A worker while it is there. */
typedef struct {
  cluster *of;
  simulated_worker *me;
  ps_client *client;
  float *values; /* [servers] */
  int64_t batches[PS_FLIGHT_MAX + 1];
  int n_batches, in_flight;
  double since;  /* clock: its step began */
  double waited; /* of it */
  bool over;
} life;

/* ---- servers */

/* Called once for each update. */
static double rate_at(const ps_terms *t, int64_t update) {
  sim *world = sim_here();
  server_task *task = sim_task(world);
  simulation *s = task->of->of;
  if (!task->index) simulation_note_update(s);
  sim_work(world, s->update * s->parameters / s->servers);
  return shoal_schedule_at(&t->schedule, update);
}

static void run_server(void *context) {
  server_task *t = context;
  const ps_server_options options = {.index = t->index,
                                     .address = t->of->addresses[t->index],
                                     .terms = {.workers = t->of->terms.workers, .servers = t->of->terms.servers},
                                     .task = t->of->task,
                                     .rate_at = rate_at};
  shoal_status status = ps_serve(&options, &t->result);
  if (status) simulation_fail(t->of->of, status);
}

/* ---- workers */

static shoal_status open_client(life *l) {
  const cluster *c = l->of;
  return ps_client_create(&(ps_client_options){.terms = c->terms,
                                               .task = c->task,
                                               .worker = l->me->index,
                                               .addresses = c->addresses,
                                               .place = &c->place,
                                               .variables = 1,
                                               .trained = 1},
                          &l->client);
}

static void give_batch(life *l, int64_t batch) {
  if (batch >= 0) l->batches[l->n_batches++] = batch;
}

static void note_place(life *l, const ps_answer *a) {
  l->over = l->over || a->stopped || a->next == PS_END;
  if (!a->stopped) give_batch(l, a->next);
}

static shoal_status join(life *l) {
  bool under_way;
  ps_answer answer = {0};
  l->n_batches = l->in_flight = 0;
  TRY(open_client(l));
  TRY(ps_client_connect(l->client, &under_way));
  if (!l->me->index) {
    TRY(ps_client_set(l->client, 0, &l->values));
    TRY(ps_client_start(l->client, 0, &l->of->plan, NULL, &answer));
    sim_stats_reset(sim_here());
  } else {
    TRY(ps_client_pull(l->client, &l->values, &answer));
  }
  note_place(l, &answer);
  if (l->of->terms.in_flight > 1) give_batch(l, answer.head.also);
  return NULL;
}

static void note_answer(life *l, const ps_answer *a) {
  simulated_worker *me = l->me;
  simulation *s = me->of;
  note_place(l, a);
  me->barrier += a->waited;
  me->server += a->worked;
  l->waited += a->waited + a->worked;
  me->late += a->late;
  if (s->sync || a->late) return;
  s->staleness_sum += (double)a->head.behind;
  s->stalest = MAX_OF(s->stalest, a->head.behind);
  s->stale++;
}

static shoal_status take_answer(life *l) {
  ps_answer answer = {0};
  TRY(ps_client_take(l->client, &l->values, &answer));
  l->in_flight--;
  note_answer(l, &answer);
  return NULL;
}

/* As in train/ps.c: hands on a gradient, and takes answers until there is a batch to go on with, or none any more. */
static shoal_status push(life *l, int64_t rows) {
  const ps_head head = {.examples = rows};
  if (l->of->terms.in_flight == 1) {
    ps_answer answer = {0};
    TRY(ps_client_push(l->client, &l->values, &l->values, &head, &answer));
    note_answer(l, &answer);
    return NULL;
  }
  TRY(ps_client_send(l->client, &l->values, &head));
  l->in_flight++;
  while (l->in_flight && (l->in_flight == l->of->terms.in_flight || !l->n_batches)) TRY(take_answer(l));
  return NULL;
}

/* A worker that fails is gone at once, and comes back with nothing. */
static shoal_status fail_if_due(life *l) {
  simulated_worker *me = l->me;
  const simulation *s = me->of;
  if (!s->failures || !me->index || clock_seconds() < me->fails_at) return NULL;
  const random_stream luck = random_stream_make((uint64_t)s->options->seed, random_mix(2, (uint64_t)me->index));
  ps_client_destroy(l->client);
  l->client = NULL;
  me->failures++;
  me->ended = clock_seconds();
  clock_sleep(s->restart);
  me->fails_at = clock_seconds() - s->failures * log1p(-random_uniform_at(&luck, (uint64_t)me->failures));
  return join(l);
}

static shoal_status make_step(life *l) {
  simulated_worker *me = l->me;
  simulation *s = me->of;
  const double begun = clock_seconds();
  const bool has_batch = l->n_batches > 0;
  if (has_batch) {
    const double seconds = simulation_compute(s, me->index, me->steps);
    sim_work(s->sim, seconds);
    me->compute += seconds;
    l->n_batches--;
    for (int i = 0; i < l->n_batches; i++) l->batches[i] = l->batches[i + 1];
  }
  const double computed = clock_seconds();
  l->waited = 0;
  if (has_batch || s->sync)
    TRY(push(l, has_batch));
  else
    while (l->in_flight) TRY(take_answer(l));
  me->network += MAX_OF(clock_seconds() - computed - l->waited, 0);
  me->steps += has_batch;
  if (has_batch) simulation_note_step(s, clock_seconds() - begun);
  return NULL;
}

/* Worker 0 ends the servers when all have said that they are done. */
static shoal_status finish(life *l) {
  ps_head head = {.running = 1};
  while (l->in_flight) TRY(take_answer(l));
  l->me->ended = clock_seconds();
  TRY(ps_client_done(l->client, &head));
  if (l->me->index) return NULL;
  while (head.running) {
    clock_sleep(POLL_SECONDS);
    TRY(ps_client_done(l->client, &head));
  }
  l->of->over = true;
  return ps_client_quit(l->client);
}

static shoal_status live(life *l) {
  TRY(join(l));
  l->me->began = clock_seconds();
  while (!l->over || l->n_batches) {
    TRY(make_step(l));
    TRY(fail_if_due(l));
  }
  return finish(l);
}

static void run_worker(void *context) {
  simulated_worker *me = context;
  cluster *c = me->of->tasks;
  life l = {.of = c, .me = me, .values = c->values};
  shoal_status status = live(&l);
  ps_client_destroy(l.client);
  if (status && c->over && me->failures) { /* it came back when all was done */
    shoal_status_free(status);
    return;
  }
  if (status) simulation_fail(me->of, status);
}

/* ---- the whole */

/* Vectors weigh as much as those that they stand for. */
static double weigh(void *context, const net_header *h, size_t bytes) {
  const simulation *s = context;
  const bool vector = h->kind == PS_PUSH || h->kind == PS_PULL || h->kind == PS_SET || h->kind == PS_GET;
  if (!vector || bytes <= sizeof(ps_head)) return simulation_frame((double)bytes);
  return simulation_frame(sizeof(ps_head) + (double)(bytes - sizeof(ps_head)) * s->scale);
}

static shoal_status add_tasks(simulation *s, cluster *c) {
  const sim_costs costs = {s->message, s->byte};
  char name[32];
  for (int i = 0; i < s->servers; i++) {
    c->servers[i] = (server_task){.of = c, .index = i};
    snprintf(name, sizeof name, "ps/%d", i);
    TRY(sim_add(s->sim, name, 0, &costs, SIM_SERVERS, run_server, &c->servers[i], &s->server_hosts[i]));
    snprintf(c->names[i], sizeof c->names[i], "sim:%d", s->server_hosts[i]);
    c->addresses[i] = c->names[i];
  }
  for (int w = 0; w < s->workers; w++) {
    simulated_worker *me = &s->all[w];
    const random_stream luck = random_stream_make((uint64_t)s->options->seed, random_mix(2, (uint64_t)w));
    me->fails_at = SIMULATED_START - s->failures * log1p(-random_uniform_at(&luck, 0));
    snprintf(name, sizeof name, "worker/%d", w);
    TRY(sim_add(s->sim, name, SIMULATED_START + (w ? LATER : 0), &costs, SIM_CLIENTS, run_worker, me, &me->host));
  }
  return NULL;
}

/* One number for each server: the real cut (placement_make) is as even. */
static shoal_status place(int servers, placement *out) {
  const size_t n = (size_t)servers;
  *out = (placement){.slices = calloc(n, sizeof *out->slices),
                     .n_slices = servers,
                     .servers = servers,
                     .elements = calloc(n, sizeof *out->elements),
                     .begin = calloc(n + 1, sizeof *out->begin)};
  if (!out->slices || !out->elements || !out->begin) return status_no_memory();
  for (int i = 0; i < servers; i++) {
    out->slices[i] = (placement_slice){.server = i, .first = i, .count = 1};
    out->elements[i] = 1;
    out->begin[i + 1] = i + 1;
  }
  return NULL;
}

static shoal_status set_up(simulation *s, cluster *c) {
  const shoal_simulate_options *o = s->options;
  const int64_t batches = s->steps * s->workers;
  const size_t servers = (size_t)s->servers;
  s->scale = s->parameters / s->servers;
  c->of = s;
  c->terms = (ps_terms){.workers = s->workers,
                        .servers = s->servers,
                        .sync = s->sync,
                        .staleness = o->staleness ? o->staleness : -1,
                        .in_flight = s->sync ? 1 : (int)MAX_OF(o->in_flight, 1),
                        .backups = (int)o->backup_workers,
                        .optimizer = {.name = "sgd"},
                        .schedule = {.name = "constant", .rate = 0.1}};
  c->task = (ps_task){.net = {.job = 1, .heartbeat = 1}, .deadline = DEADLINE, .returns = false};
  c->plan = (ps_start){.batch = 1, .rows = batches, .end = batches, .end_step = s->steps};
  c->names = calloc(servers, sizeof *c->names);
  c->addresses = calloc(servers, sizeof *c->addresses);
  c->servers = calloc(servers, sizeof *c->servers);
  c->values = calloc(servers, sizeof *c->values);
  if (!c->names || !c->addresses || !c->servers || !c->values) return status_no_memory();
  TRY(place(s->servers, &c->place));
  TRY(sim_create(&(sim_options){.rate = s->rate, .delay = s->delay, .window = WINDOW, .weigh = weigh, .context = s},
                 &s->sim));
  return add_tasks(s, c);
}

shoal_status simulate_ps(simulation *s) {
  cluster c = {0};
  s->tasks = &c;
  mem_heap_ahead((size_t)s->workers * (size_t)s->servers * PAIR);
  shoal_status status = set_up(s, &c);
  if (!status) status = sim_run(s->sim);
  for (int i = 0; c.servers && i < s->servers; i++) free(c.servers[i].result.workers);
  free(c.names);
  free(c.addresses);
  free(c.servers);
  free(c.values);
  placement_fini(&c.place);
  return status;
}
