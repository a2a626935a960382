/* A session over a cluster: places the graph, hands it to the servers, and asks them for runs. See graph_protocol.h. */
#include "base/clock.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/proto.h"
#include "base/random.h"
#include "dist/graph_cluster.h"
#include "dist/graph_protocol.h"
#include "dist/graph_server.h"
#include "dist/graph_trace.h"
#include "graph/graphdef.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define CONNECT_SECONDS 10.0
#define LEAST_SECONDS 0.1 /* for a server when the others have taken all the time to connect */
#define STEP_SECONDS 600.0
#define SLICE 0.02 /* seconds of waiting for one task before the others are looked at */
#define GRACE 5.0  /* seconds for an answer to ABORT, to CLOSE and beyond the time that a run was given */

shoal_status cluster_named(const cluster_session *c, int task, shoal_status status) {
  return status_wrap(status, "%s (%s)", c->tasks[task].name, c->tasks[task].address);
}

/* ---- asking */

static void lose(cluster_session *c, int task) {
  net_client_close(c->tasks[task].link);
  c->tasks[task].link = NULL;
}

shoal_status cluster_ask(cluster_session *c, int task, uint16_t kind, uint64_t number, const net_part *parts, int n) {
  cluster_task *t = &c->tasks[task];
  if (!t->link)
    return status_make(SHOAL_ERR_PEER, "%s (%s) was lost; make a new session when it is back", t->name, t->address);
  net_header h = {.kind = kind, .generation = c->id, .step = c->run, .number = number};
  shoal_status status = net_send(t->link, &h, parts, n, c->options.step_seconds);
  if (status) {
    lose(c, task);
    return cluster_named(c, task, status);
  }
  t->waiting = kind != GRAPH_ABORT;
  return NULL;
}

/* An answer of that kind: its error, or what it holds. */
static shoal_status take_answer(cluster_session *c, int task, const net_message *m, uint16_t kind, answer_taker take,
                                void *context) {
  if (m->header.kind != kind)
    return cluster_named(c, task,
                         status_make(SHOAL_ERR_PEER, "got an answer of kind %u, expected %u", m->header.kind, kind));
  if (m->header.flags & GRAPH_FAILED) {
    uint64_t code = m->header.number;
    if (code < SHOAL_ERR_ARGUMENT || code > SHOAL_ERR_INTERNAL) code = SHOAL_ERR_PEER;
    shoal_status status =
        status_make((shoal_code)code, "%.*s", (int)MIN_OF(m->bytes, (size_t)4000), (const char *)m->payload);
    return kind == GRAPH_RUN ? status : cluster_named(c, task, status); /* of a run the task names itself */
  }
  return take ? cluster_named(c, task, take(c, task, m, context)) : NULL;
}

/* One look at a task that is waited for. *status: what it answered, once it did, or why it never will. */
static void look_at(cluster_session *c, int task, uint16_t kind, answer_taker take, void *context,
                    shoal_status *status) {
  cluster_task *t = &c->tasks[task];
  net_message m;
  double start = clock_seconds();
  shoal_status waited = net_await(t->link, SLICE, &m);
  *status = NULL;
  if (waited) {
    /* Too early for the time to be up: it has gone. */
    if (clock_seconds() - start < SLICE * 0.5 || shoal_status_code(waited) != SHOAL_ERR_PEER) {
      t->waiting = false;
      lose(c, task);
      *status = cluster_named(c, task, waited);
    } else {
      shoal_status_free(waited);
    }
    return;
  }
  t->waiting = false;
  *status = take_answer(c, task, &m, kind, take, context);
  net_release_client(t->link, &m);
}

/* The error that says most: what a task was told by others says least. */
static void keep_first(shoal_status *kept, shoal_status more) {
  if (!more) return;
  bool better =
      !*kept || (shoal_status_code(*kept) == SHOAL_ERR_CANCELLED && shoal_status_code(more) != SHOAL_ERR_CANCELLED);
  /* A task that lost another says whom; the other's own link says that it is true, and where it was. */
  shoal_status_free(better ? *kept : more);
  if (better) *kept = more;
}

shoal_status cluster_await(cluster_session *c, uint16_t kind, answer_taker take, void *context, double seconds,
                           shoal_status failure) {
  double until = clock_seconds() + seconds;
  bool told = false;
  for (;;) {
    int waiting = 0, late = -1;
    for (int t = 0; t < c->n_tasks; t++) {
      if (!c->tasks[t].waiting) continue;
      shoal_status status;
      look_at(c, t, kind, take, context, &status);
      keep_first(&failure, status);
      if (!c->tasks[t].waiting) continue;
      waiting++;
      if (late < 0) late = t;
    }
    if (!waiting) return failure;
    double now = clock_seconds();
    if (failure && !told) {
      told = true;
      until = now + GRACE;
      for (int t = 0; t < c->n_tasks && kind == GRAPH_RUN; t++)
        if (c->tasks[t].waiting) {
          shoal_status_free(cluster_ask(c, t, GRAPH_ABORT, 0, NULL, 0));
          c->tasks[t].waiting = c->tasks[t].link != NULL;
        }
    }
    if (now < until) continue;
    /* Too late: what they may still answer would be taken for the answer to another question. */
    keep_first(&failure, cluster_named(c, late, status_make(SHOAL_ERR_PEER, "no answer in %g s", seconds)));
    for (int t = 0; t < c->n_tasks; t++)
      if (c->tasks[t].waiting) {
        c->tasks[t].waiting = false;
        lose(c, t);
      }
    return failure;
  }
}

/* ---- the graph */

static void put_nodes(cluster_session *c, size_t first, proto *p, shoal_status *status) {
  proto nodes = {0};
  *status = graphdef_write(c->graph, first, &nodes);
  if (!*status) proto_bytes(p, OPEN_GRAPH, nodes.bytes, nodes.length);
  proto_fini(&nodes);
  for (size_t i = first; i < c->graph->count; i++) proto_int(p, OPEN_TASKS, c->choices[i].task);
}

/* Places what the graph has gained and tells all servers. */
static shoal_status hand_over(cluster_session *c) {
  const shoal_graph *g = c->graph;
  TRY(shoal_graph_status(g));
  if (c->run && c->placed == g->count) return NULL;
  size_t first = c->placed, capacity = c->placed;
  TRY(mem_grow((void **)&c->choices, &capacity, g->count + 1, sizeof *c->choices));
  TRY(placer_place(g, c->devices, c->n_tasks, first, c->choices));
  proto shared = {0}, own = {0};
  shoal_status status;
  put_nodes(c, first, &shared, &status);
  bool opening = c->run == 0;
  c->run++;
  for (int t = 0; t < c->n_tasks && opening; t++) {
    proto_text(&shared, OPEN_NAME, c->tasks[t].name);
    proto_text(&shared, OPEN_ADDRESS, c->tasks[t].address);
  }
  if (opening) {
    proto_int(&shared, OPEN_SEED, (int64_t)c->options.seed);
    proto_int(&shared, OPEN_THREADS, c->options.threads);
    proto_int(&shared, OPEN_NO_FUSION, c->options.no_fusion);
  }
  for (int t = 0; t < c->n_tasks && !status; t++) {
    proto_clear(&own);
    proto_int(&own, OPEN_OWN, t);
    if (shared.failed || own.failed) status = status_no_memory();
    net_part parts[] = {{own.bytes, own.length}, {shared.bytes, shared.length}};
    if (!status) status = cluster_ask(c, t, opening ? GRAPH_OPEN : GRAPH_EXTEND, 0, parts, 2);
  }
  proto_fini(&shared);
  proto_fini(&own);
  TRY(cluster_await(c, opening ? GRAPH_OPEN : GRAPH_EXTEND, NULL, NULL, c->options.step_seconds, status));
  c->placed = g->count;
  return NULL;
}

/* ---- running */

static shoal_status check_feeds(const shoal_feed *feeds, int n_feeds) {
  for (int i = 0; i < n_feeds; i++) {
    const shoal_value *v = feeds[i].value;
    const shoal_tensor *t = &feeds[i].tensor;
    if (!v) return status_make(SHOAL_ERR_ARGUMENT, "feed %d names no value", i);
    bool fits = t->dtype == v->dtype && t->shape.rank == v->shape.rank;
    for (int d = 0; fits && d < v->shape.rank; d++)
      fits = v->shape.dim[d] == SHOAL_UNKNOWN ? t->shape.dim[d] >= 0 : t->shape.dim[d] == v->shape.dim[d];
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    if (!fits)
      return status_make(SHOAL_ERR_ARGUMENT, "%s '%s' is %s%s, but %s%s is fed", v->maker->op->name, v->maker->name,
                         shoal_dtype_name(v->dtype), shoal_shape_text(&v->shape, a), shoal_dtype_name(t->dtype),
                         shoal_shape_text(&t->shape, b));
  }
  return NULL;
}

/* A shuffled batch travels in its order. */
static shoal_status in_order(run_kind *k, const shoal_feed *feeds, int i, shoal_tensor *out) {
  const shoal_tensor *t = &feeds[i].tensor;
  *out = *t;
  if (!t->rows) return NULL;
  if (!k->staged[i].data) TRY(shoal_tensor_create(t->dtype, t->shape, &k->staged[i]));
  int64_t rows = t->shape.dim[0];
  size_t row = rows ? shoal_tensor_bytes(t) / (size_t)rows : 0;
  for (int64_t r = 0; r < rows; r++)
    memcpy((char *)k->staged[i].data + (size_t)r * row, (const char *)t->data + (size_t)t->rows[r] * row, row);
  *out = k->staged[i];
  return NULL;
}

static shoal_status start(cluster_session *c, run_kind *k, int task, uint64_t step, const shoal_feed *feeds) {
  task_part *own = &k->parts[task];
  graph_run_head head = {.step = step, .seconds = c->options.step_seconds, .tasks = k->takers};
  int n = 0;
  uint64_t begun = cluster_trace_now(c), bytes = 0;
  own->parts[n++] = (net_part){&head, sizeof head};
  for (size_t i = 0; i < own->feeds.n; i++) {
    shoal_tensor t;
    TRY(in_order(k, feeds, own->feeds.items[i], &t));
    n += wire_part(&t, own->parts + n);
  }
  for (int i = 0; i < n && begun; i++) bytes += own->parts[i].bytes;
  TRY(cluster_ask(c, task, GRAPH_RUN, k->number, own->parts, n));
  net_client_eager(c->tasks[task].link, GRAPH_EAGER);
  cluster_trace_sent(c, task, begun, bytes);
  return NULL;
}

static shoal_status take_results(cluster_session *c, int task, const net_message *m, void *context) {
  wire_values *w = &((run_kind *)context)->parts[task].results;
  if (m->bytes != w->bytes) return status_make(SHOAL_ERR_PEER, "got %zu bytes, expected %zu", m->bytes, w->bytes);
  if (w->bytes) memcpy(w->block, m->payload, w->bytes);
  c->tasks[task].wire_bytes = m->header.number;
  return NULL;
}

static shoal_status run(void *remote, uint64_t step, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                        int n_fetches, shoal_tensor *fetched) {
  cluster_session *c = remote;
  TRY(check_feeds(feeds, n_feeds));
  TRY(hand_over(c));
  run_kind *k = NULL;
  for (size_t i = 0; i < c->n_kinds && !k; i++)
    if (run_kind_fits(c->kinds[i], feeds, n_feeds, fetches, n_fetches)) k = c->kinds[i];
  if (!k) TRY(run_kind_make(c, feeds, n_feeds, fetches, n_fetches, &k));
  k->last_used = ++c->run;
  shoal_status status = NULL;
  uint64_t begun = cluster_trace_now(c);
  for (int t = 0; t < c->n_tasks && !status; t++)
    if (k->parts[t].takes_part) status = start(c, k, t, step, feeds);
  uint64_t sent = cluster_trace_now(c);
  status = cluster_await(c, GRAPH_RUN, take_results, k, c->options.step_seconds + GRACE, status);
  cluster_trace_ran(c, begun, sent, step);
  if (status) return status_wrap(status, "run %llu", (unsigned long long)step);
  c->messages += k->messages;
  c->data_bytes += k->data_bytes;
  for (int i = 0; i < n_fetches && fetched; i++)
    fetched[i] = k->owner[i] < 0 ? feeds[k->place[i]].tensor : k->parts[k->owner[i]].results.tensors[k->place[i]];
  return NULL;
}

/* ---- making and ending */

static void destroy(void *remote) {
  cluster_session *c = remote;
  bool open = false;
  for (int t = 0; t < c->n_tasks; t++)
    if (c->tasks[t].link && c->run) {
      shoal_status_free(cluster_ask(c, t, GRAPH_CLOSE, 0, NULL, 0));
      open = true;
    }
  if (open) shoal_status_free(cluster_await(c, GRAPH_CLOSE, NULL, NULL, GRACE, NULL));
  for (int t = 0; t < c->n_tasks; t++) {
    net_client_close(c->tasks[t].link);
    free(c->tasks[t].name);
    free(c->tasks[t].address);
  }
  for (size_t i = 0; i < c->n_kinds; i++) run_kind_destroy(c->kinds[i], c->n_tasks);
  key_ring_fini(&c->ring);
  cluster_trace_destroy(c->trace);
  free(c->tasks);
  free(c->devices);
  free(c->choices);
  free(c->kinds);
  free(c);
}

static const session_remote over_cluster = {.destroy = destroy, .run = run};

static shoal_status read_tasks(const shoal_task *tasks, int n, device *out) {
  if (n < 1 || n > PLACER_TASKS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "a cluster has 1 to %d tasks, not %d", PLACER_TASKS_MAX, n);
  for (int i = 0; i < n; i++) {
    TRY(device_parse(tasks[i].name, &out[i]));
    if (!*out[i].job || out[i].task < 0)
      return status_make(SHOAL_ERR_ARGUMENT, "task '%s': expected a whole name such as /job:worker/task:0",
                         tasks[i].name ? tasks[i].name : "");
    for (int k = 0; k < i; k++)
      if (out[k].task == out[i].task && !strcmp(out[k].job, out[i].job))
        return status_make(SHOAL_ERR_ARGUMENT, "two tasks are called %s", tasks[i].name);
  }
  return NULL;
}

static shoal_status connect_all(cluster_session *c, const shoal_task *tasks) {
  net_options net = {
      .largest = GRAPH_LARGEST, .from = GRAPH_CLIENT, .job = c->options.job, .insecure = c->options.insecure};
  if (c->options.keys) TRY(key_ring_read(c->options.keys, false, &c->ring, &net));
  for (int t = 0; t < c->n_tasks; t++) {
    char buffer[DEVICE_TEXT];
    c->tasks[t].name = strdup(device_text(&c->devices[t], buffer));
    c->tasks[t].address = strdup(tasks[t].address ? tasks[t].address : "");
    if (!c->tasks[t].name || !c->tasks[t].address) return status_no_memory();
  }
  const double until = clock_seconds() + c->options.connect_seconds; /* for all of them */
  for (int t = 0; t < c->n_tasks; t++) {
    double left = MAX_OF(until - clock_seconds(), LEAST_SECONDS);
    TRY(cluster_named(c, t, net_connect(tasks[t].address, &net, left, &c->tasks[t].link)));
    net.beside = c->tasks[0].link;
  }
  return hand_over(c);
}

shoal_status shoal_session_connect(shoal_graph *g, const shoal_cluster_options *options, shoal_session **out) {
  device devices[PLACER_TASKS_MAX];
  shoal_cluster_options given;
  TRY(OPTIONS_TAKE(&given, options));
  TRY(read_tasks(given.tasks, given.n_tasks, devices));
  cluster_session *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->graph = g;
  c->options = given;
  if (!(c->options.connect_seconds > 0)) c->options.connect_seconds = CONNECT_SECONDS;
  if (!(c->options.step_seconds > 0)) c->options.step_seconds = STEP_SECONDS;
  size_t n = (size_t)given.n_tasks;
  c->tasks = calloc(n, sizeof *c->tasks);
  c->devices = calloc(n, sizeof *c->devices);
  shoal_status status = NULL;
  if (!c->tasks || !c->devices)
    status = status_no_memory();
  else if (getrandom(&c->id, sizeof c->id, 0) != sizeof c->id)
    status = status_make(SHOAL_ERR_SYSTEM, "no random numbers from the system");
  if (!status) {
    c->n_tasks = given.n_tasks;
    memcpy(c->devices, devices, n * sizeof *devices);
    status = connect_all(c, given.tasks);
  }
  if (status) {
    destroy(c);
    return status;
  }
  return session_create_remote(g, &over_cluster, c, out);
}

shoal_status shoal_placement_explain(shoal_graph *g, const shoal_task *tasks, int n_tasks, char **out) {
  device devices[PLACER_TASKS_MAX];
  TRY(shoal_graph_status(g));
  TRY(read_tasks(tasks, n_tasks, devices));
  placer_choice *choices = calloc(g->count + 1, sizeof *choices);
  if (!choices) return status_no_memory();
  shoal_status status = placer_place(g, devices, n_tasks, 0, choices);
  char *words = status ? NULL : placer_explain(g, devices, n_tasks, choices);
  free(choices);
  TRY(status);
  if (!words) return status_no_memory();
  *out = words;
  return NULL;
}

cluster_session *cluster_of(const shoal_session *s) { return s->remote == &over_cluster ? s->remote_state : NULL; }

void shoal_session_stats(const shoal_session *s, shoal_cluster_stats *out) {
  *out = (shoal_cluster_stats){0};
  const cluster_session *c = cluster_of(s);
  if (!c) return;
  out->runs = s->step;
  out->messages = c->messages;
  out->data_bytes = c->data_bytes;
  for (int t = 0; t < c->n_tasks; t++) {
    net_stats one = {0};
    out->wire_bytes += c->tasks[t].wire_bytes;
    if (c->tasks[t].link) net_client_stats(c->tasks[t].link, &one);
    out->sent_bytes += one.sent_bytes;
    out->received_bytes += one.received_bytes;
  }
}

/* Bytes that a session may take where nobody says how many. */
static size_t standard_memory(void) { return machine_memory() / 4 * 3; }

shoal_status shoal_server_run(const shoal_server_options *given) {
  shoal_server_options own;
  const shoal_server_options *options = &own;
  TRY(OPTIONS_TAKE(&own, given));
  key_ring ring = {0};
  graph_server_options o = {.address = options->address,
                            .net = {.job = options->job, .insecure = options->insecure},
                            .threads = options->threads,
                            .memory = options->client_memory ? options->client_memory : standard_memory(),
                            .seconds = options->client_seconds,
                            .kernels = options->kernels,
                            .stop = options->stop};
  shoal_status status = options->keys ? key_ring_read(options->keys, true, &ring, &o.net) : NULL;
  if (!status) status = graph_server_run(&o);
  key_ring_fini(&ring);
  return status;
}
