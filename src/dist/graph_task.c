#include "dist/graph_task.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proto.h"
#include "dist/graph_protocol.h"
#include "dist/graph_trace.h"
#include "dist/placer.h"
#include "graph/graphdef.h"

#include <string.h>

#define THREADS_MAX 1024   /* that a client may ask for */
#define REACH_SECONDS 20.0 /* to reach another server, and for it to take a message */

struct graph_task {
  graph_task_options options;
  shoal_graph *graph;
  int *tasks; /* [graph->count] where each node runs */
  size_t cap_tasks;
  int own, n_tasks;
  char **names, **addresses; /* [n_tasks] */
  size_t cap_names, cap_addresses, n_addresses;
  uint64_t *peers;    /* [n_tasks] that said hello ... */
  bool *known, *lost; /* ... and whether; and which have gone since */
  shoal_session *session;
  shoal_session_options session_options;
  send_queue *send_queue;
  program **programs;
  size_t n_programs, cap_programs;
  bool preparing;     /* an answer to PREPARE is due when the send_queue is done ... */
  bool collecting;    /* ... and one to TRACE ... */
  program *forgotten; /* ... and, when this is set, one to FORGET: no longer among the programs */
  bool broken;        /* the nodes are not all placed: an extension failed */
  mem_budget budget;
  task_trace trace;
  proto collected; /* what that answer holds */
  net_part collected_part;
  /* the run under way */
  bool running;
  program *current;
  size_t segment;
  uint64_t run;
  double started, seconds;
  shoal_status stopped; /* by somebody else */
};

uint64_t graph_task_id(const graph_task *t) { return t->options.id; }
uint64_t graph_task_client(const graph_task *t) { return t->options.client; }

static shoal_status nonsense(const char *what) { return status_make(SHOAL_ERR_PEER, "%s is invalid", what); }

/* ---- opening */

static shoal_status add_text(const proto_reader *r, char ***list, size_t *capacity, size_t n) {
  TRY(mem_grow((void **)list, capacity, n + 1, sizeof **list));
  (*list)[n] = proto_as_text(r);
  return (*list)[n] ? NULL : nonsense("a name");
}

/* The nodes, and where each of them runs. */
static shoal_status read_open(graph_task *t, proto_reader r) {
  size_t n_tasks = 0, placed = t->graph->count;
  while (proto_next(&r)) {
    switch (r.field) {
      case OPEN_GRAPH: TRY(graphdef_read(t->graph, r.bytes, r.length)); break;
      case OPEN_TASKS:
        TRY(mem_grow((void **)&t->tasks, &t->cap_tasks, placed + 1, sizeof *t->tasks));
        t->tasks[placed++] = (int)r.number;
        break;
      case OPEN_OWN: t->own = (int)r.number; break;
      case OPEN_NAME:
        TRY(add_text(&r, &t->names, &t->cap_names, n_tasks++));
        t->n_tasks = (int)n_tasks;
        break;
      case OPEN_ADDRESS:
        TRY(add_text(&r, &t->addresses, &t->cap_addresses, t->n_addresses));
        t->n_addresses++;
        break;
      case OPEN_SEED: t->session_options.seed = r.number; break;
      case OPEN_THREADS:
        if (r.number > THREADS_MAX) return nonsense("a number of threads");
        t->session_options.threads = (int)r.number;
        break;
      case OPEN_NO_FUSION: t->session_options.no_fusion = r.number != 0; break;
      default: break;
    }
  }
  if (r.wrong || placed != t->graph->count) return nonsense("a graph");
  if (t->n_tasks < 1 || t->n_tasks > PLACER_TASKS_MAX || (size_t)t->n_tasks != t->n_addresses || t->own < 0 ||
      t->own >= t->n_tasks)
    return nonsense("a cluster");
  return NULL;
}

static bool owns(void *context, const node *variable) {
  const graph_task *t = context;
  return t->tasks[variable->id] == t->own;
}

static shoal_status open_task(graph_task *t, const void *payload, size_t n) {
  t->budget.limit = t->options.memory;
  TRY(mem_charge(&t->budget, n, "the graph"));
  TRY(shoal_graph_create(&t->graph));
  TRY(read_open(t, proto_read(payload, n)));
  t->peers = calloc((size_t)t->n_tasks, sizeof *t->peers);
  t->known = calloc((size_t)t->n_tasks, sizeof *t->known);
  t->lost = calloc((size_t)t->n_tasks, sizeof *t->lost);
  if (!t->peers || !t->known || !t->lost) return status_no_memory();
  t->session_options.kernels = t->options.kernels;
  if (!t->session_options.threads) t->session_options.threads = t->options.threads;
  TRY(session_create_part(t->graph, &t->session_options, owns, t, &t->budget, &t->session));
  t->session->look = t->options.look;
  t->session->look_context = t->options.context;
  send_queue_options c = {.tasks = t->n_tasks,
                          .names = (const char *const *)t->names,
                          .addresses = (const char *const *)t->addresses,
                          .net = t->options.net,
                          .hello = {.kind = GRAPH_HELLO, .generation = t->options.id, .number = (uint64_t)t->own},
                          .seconds = REACH_SECONDS};
  c.net.from = (uint32_t)t->own;
  c.net.largest = GRAPH_LARGEST;
  return send_queue_create(&c, &t->send_queue);
}

shoal_status graph_task_create(const graph_task_options *options, const void *payload, size_t n, graph_task **out) {
  graph_task *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->options = *options;
  shoal_status status = open_task(t, payload, n);
  if (status) {
    graph_task_destroy(t);
    return status;
  }
  *out = t;
  return NULL;
}

void graph_task_destroy(graph_task *t) {
  if (!t) return;
  send_queue_destroy(t->send_queue);
  for (size_t i = 0; i < t->n_programs; i++) program_destroy(t->programs[i]);
  program_destroy(t->forgotten);
  shoal_session_destroy(t->session);
  shoal_graph_destroy(t->graph);
  task_trace_fini(&t->trace);
  proto_fini(&t->collected);
  for (int i = 0; i < t->n_tasks; i++) free(t->names[i]);
  for (size_t i = 0; i < t->n_addresses; i++) free(t->addresses[i]);
  shoal_status_free(t->stopped);
  free(t->names);
  free(t->addresses);
  free(t->peers);
  free(t->known);
  free(t->lost);
  free(t->tasks);
  free(t->programs);
  free(t);
}

/* What changes the graph or the programs does not happen during a run, which uses both: a plan that computes looks at
 * messages in between. Nor once the graph is only half there. */
static shoal_status check_idle(const graph_task *t) {
  if (t->running) return status_make(SHOAL_ERR_PEER, "a run is in progress: wait until it ends");
  if (t->broken) return status_make(SHOAL_ERR_PEER, "an earlier change of the graph failed here; make a new session");
  return NULL;
}

static shoal_status extend(graph_task *t, const void *payload, size_t n) {
  size_t placed = t->graph->count;
  TRY(mem_charge(&t->budget, n, "the graph"));
  proto_reader r = proto_read(payload, n);
  while (proto_next(&r)) {
    if (r.field == OPEN_GRAPH) TRY(graphdef_read(t->graph, r.bytes, r.length));
    if (r.field != OPEN_TASKS) continue;
    TRY(mem_grow((void **)&t->tasks, &t->cap_tasks, placed + 1, sizeof *t->tasks));
    t->tasks[placed++] = (int)r.number;
  }
  if (r.wrong || placed != t->graph->count) return nonsense("a graph");
  return session_adopt(t->session);
}

shoal_status graph_task_extend(graph_task *t, const void *payload, size_t n) {
  TRY(check_idle(t));
  shoal_status status = extend(t, payload, n);
  t->broken = status != NULL;
  return status;
}

static program *find_program(const graph_task *t, uint64_t number) {
  for (size_t i = t->n_programs; i-- > 0;)
    if (t->programs[i]->number == number) return t->programs[i];
  return NULL;
}

/* Whether all tasks it names are there. */
static shoal_status check_tasks(const graph_task *t, const program *p) {
  for (size_t i = 0; i < p->n_in; i++)
    if (p->in[i].from < 0 || p->in[i].from >= t->n_tasks) return nonsense("a task");
  for (size_t i = 0; i < p->n_segments; i++)
    for (size_t k = 0; k < p->segments[i].n_sends; k++) {
      int to = p->segments[i].sends[k].to;
      if (to < 0 || to >= t->n_tasks || to == t->own) return nonsense("a task");
    }
  return NULL;
}

shoal_status graph_task_prepare(graph_task *t, const net_message *m, bool *waits) {
  TRY(check_idle(t));
  if (m->header.number > UINT32_MAX || find_program(t, m->header.number)) return nonsense("the number of a program");
  TRY(mem_grow((void **)&t->programs, &t->cap_programs, t->n_programs + 1, sizeof *t->programs));
  program *p;
  TRY(program_create(t->session, m->payload, m->bytes, &p));
  shoal_status status = check_tasks(t, p);
  if (status) {
    program_destroy(p);
    return status;
  }
  p->number = (uint32_t)m->header.number;
  t->programs[t->n_programs++] = p;
  *waits = false;
  for (size_t i = 0; i < p->n_segments; i++)
    for (size_t k = 0; k < p->segments[i].n_sends; k++) {
      TRY(send_queue_connect(t->send_queue, p->segments[i].sends[k].to));
      *waits = true;
    }
  t->preparing = *waits;
  return NULL;
}

shoal_status graph_task_forget(graph_task *t, uint64_t number) {
  TRY(check_idle(t));
  size_t i = 0;
  while (i < t->n_programs && t->programs[i]->number != number) i++;
  if (t->forgotten || i == t->n_programs) return nonsense("the number of a program");
  t->forgotten = t->programs[i];
  t->programs[i] = t->programs[--t->n_programs];
  return NULL;
}

shoal_status graph_task_trace(graph_task *t, bool on) {
  TRY(check_idle(t));
  t->collecting = !on;
  if (!on) return NULL;
  TRY(task_trace_begin(&t->trace, t->session, t->send_queue, t->names, t->n_tasks));
  for (size_t i = 0; i < t->n_programs; i++)
    for (size_t k = 0; k < t->programs[i]->n_segments; k++) TRY(plan_label(t->programs[i]->segments[k].plan));
  return NULL;
}

/* ---- running */

shoal_status graph_task_start(graph_task *t, const net_message *m, graph_run_head *head) {
  TRY(check_idle(t));
  program *p = find_program(t, m->header.number);
  if (!p || m->bytes < sizeof *head || !m->header.step) return nonsense("a run");
  memcpy(head, m->payload, sizeof *head);
  TRY(program_take_feeds(p, m->payload + sizeof *head, m->bytes - sizeof *head));
  shoal_status_free(send_queue_failure(t->send_queue)); /* of a run that has failed anyway */
  t->current = p;
  t->segment = 0;
  t->run = m->header.step;
  t->session->step = head->step;
  t->started = clock_seconds();
  t->seconds = head->seconds;
  if (t->options.seconds > 0 && !(t->seconds < t->options.seconds)) t->seconds = t->options.seconds;
  t->running = true;
  task_trace_run_begins(&t->trace, head->step);
  return NULL;
}

void graph_task_data(graph_task *t, const net_message *m) {
  program *p = find_program(t, m->header.number >> 32);
  if (m->header.step < t->run || (m->header.step == t->run && !t->running) || !p) return;
  uint64_t begun = m->header.from < (uint32_t)t->n_tasks ? task_trace_now(&t->trace) : 0;
  shoal_status status = program_take(p, (uint32_t)m->header.number, m->header.step, m->payload, m->bytes);
  task_trace_took(&t->trace, m->header.from, begun, m->bytes);
  if (status) graph_task_abort(t, m->header.step, status);
}

void graph_task_abort(graph_task *t, uint64_t run, shoal_status why) {
  if (!t->running || t->stopped || (run && run != t->run))
    shoal_status_free(why);
  else
    t->stopped = why;
}

shoal_status graph_task_told_to_stop(const graph_task *t) {
  if (t->stopped) return status_make(SHOAL_ERR_CANCELLED, "stopped");
  if (!(clock_seconds() - t->started > t->seconds)) return NULL;
  return status_make(SHOAL_ERR_PEER, "the run took more than the %g s it was given", t->seconds);
}

void graph_task_hello(graph_task *t, int task, uint64_t peer) {
  if (task < 0 || task >= t->n_tasks) return;
  t->peers[task] = peer;
  t->known[task] = true;
}

void graph_task_lost(graph_task *t, uint64_t peer) {
  for (int i = 0; i < t->n_tasks; i++)
    if (t->known[i] && t->peers[i] == peer) t->lost[i] = true;
}

static shoal_status send_messages(graph_task *t, size_t segment) {
  program_segment *s = &t->current->segments[segment];
  for (size_t i = 0; i < s->n_sends; i++) {
    const net_part *parts;
    int n = program_parts(t->current, segment, i, &parts);
    net_header h = {.kind = GRAPH_DATA,
                    .generation = t->options.id,
                    .step = t->run,
                    .number = (uint64_t)t->current->number << 32 | s->sends[i].number};
    TRY(send_queue_send(t->send_queue, s->sends[i].to, &h, parts, n));
  }
  return NULL;
}

/* Whether the next segment has to wait, and for what; or the error that it cannot come to pass. */
static shoal_status look_ahead(graph_task *t, task_state *state) {
  *state = TASK_IDLE;
  const program_in *in = program_awaits(t->current, t->segment, t->run);
  task_trace_awaits(&t->trace, in ? in->from : -1);
  if (in && t->lost[in->from]) return status_make(SHOAL_ERR_PEER, "%s disconnected", t->names[in->from]);
  if (in && clock_seconds() - t->started > t->seconds)
    return status_make(SHOAL_ERR_PEER, "no message from %s in %g s", t->names[in->from], t->seconds);
  if (in) *state = TASK_WAITS;
  /* What is still being sent must not change: memory of the run before, or variables. */
  else if ((t->segment == 0 || t->current->segments[t->segment].changes) && send_queue_busy(t->send_queue))
    *state = TASK_WAITS_SHORT;
  return NULL;
}

static shoal_status go_on(graph_task *t, task_state *state) {
  *state = TASK_IDLE;
  while (t->segment < t->current->n_segments) {
    if (t->stopped) {
      shoal_status status = t->stopped;
      t->stopped = NULL;
      return status;
    }
    TRY(send_queue_failure(t->send_queue));
    TRY(look_ahead(t, state));
    if (*state != TASK_IDLE) return NULL;
    if (t->segment == 0) send_queue_next_run(t->send_queue);
    shoal_status status = program_run(t->current, t->segment);
    if (status && t->stopped) { /* it was told to: the reason counts */
      shoal_status_free(status);
      status = t->stopped;
      t->stopped = NULL;
    }
    TRY(status);
    TRY(send_messages(t, t->segment));
    t->segment++;
  }
  return NULL;
}

task_state graph_task_advance(graph_task *t, net_header *header, const net_part **parts, int *n,
                              shoal_status *failure) {
  task_state state = TASK_IDLE;
  *failure = NULL;
  *parts = NULL;
  *n = 0;
  if (t->preparing) {
    if (send_queue_busy(t->send_queue)) return TASK_WAITS_SHORT;
    t->preparing = false;
    *header = (net_header){.kind = GRAPH_PREPARE, .generation = t->options.id};
    *failure = send_queue_failure(t->send_queue);
  } else if (t->forgotten) {
    if (send_queue_busy(t->send_queue)) return TASK_WAITS_SHORT;
    program_destroy(t->forgotten);
    t->forgotten = NULL;
    *header = (net_header){.kind = GRAPH_FORGET, .generation = t->options.id};
  } else if (t->collecting) {
    if (send_queue_busy(t->send_queue)) return TASK_WAITS_SHORT;
    t->collecting = false;
    proto_clear(&t->collected);
    *header = (net_header){.kind = GRAPH_TRACE, .generation = t->options.id};
    *failure = task_trace_end(&t->trace, &t->collected);
    t->collected_part = (net_part){t->collected.bytes, t->collected.length};
    *parts = &t->collected_part;
    *n = 1;
  } else if (t->running) {
    *failure = go_on(t, &state);
    if (!*failure && state != TASK_IDLE) return state;
    t->running = false;
    task_trace_run_ends(&t->trace);
    shoal_status_free(t->stopped);
    t->stopped = NULL;
    net_stats sent;
    send_queue_stats(t->send_queue, &sent);
    *header = (net_header){.kind = GRAPH_RUN, .generation = t->options.id, .step = t->run, .number = sent.sent_bytes};
    if (!*failure) *n = program_results(t->current, parts);
  } else {
    return TASK_IDLE;
  }
  if (*failure) *failure = status_wrap(*failure, "%s", t->names[t->own]);
  return TASK_ANSWERS;
}
