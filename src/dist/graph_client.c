/* A session over a cluster: places the graph, hands it to the servers, and asks them for runs. See graph_protocol.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/random.h"
#include "dist/graph_program.h"
#include "dist/graph_protocol.h"
#include "dist/graph_server.h"
#include "dist/partition.h"
#include "exec/session.h"
#include "graph/graphdef.h"
#include "net/key_ring.h"
#include "shoal/placed.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define CONNECT_SECONDS 10.0
#define STEP_SECONDS 600.0
#define SLICE 0.02     /* seconds of waiting for one task before the others are looked at */
#define GRACE 5.0      /* seconds for an answer to ABORT, to CLOSE and beyond the time that a run was given */

/* One task's part in runs of one kind. */
typedef struct {
  bool takes_part;
  int_list feeds;      /* which of the caller's */
  wire_values results; /* as they come back */
  net_part *parts;     /* [1 + 2 feeds] */
} task_part;

/* Runs of one kind: these fetches, these feeds and shapes. */
typedef struct {
  shoal_value **fetches;
  int n_fetches;
  shoal_value **feed_values;
  shoal_shape *feed_shapes;
  int n_feeds;
  uint32_t number;   /* of the programs, the same at all servers */
  task_part *parts;  /* [n_tasks] */
  int *owner, *place; /* [n_fetches] task (-1: a feed) and place in its results (or among the feeds) */
  shoal_tensor *staged; /* [n_feeds] room for a feed with a row index; data NULL: not needed so far */
  uint64_t messages, data_bytes; /* between tasks, a run */
} run_kind;

typedef struct {
  net_client *link; /* NULL: lost */
  char *name, *address;
  bool waiting;      /* for an answer */
  uint64_t wire_bytes; /* it has sent to other tasks */
} cluster_task;

typedef struct {
  shoal_graph *graph;
  shoal_cluster_options options;
  key_ring ring;
  cluster_task *tasks; /* [n_tasks] */
  device *devices;
  int n_tasks;
  uint64_t id, run;
  placer_choice *choices; /* [placed] */
  size_t placed;          /* nodes that the servers know */
  run_kind **kinds;
  size_t n_kinds, cap_kinds;
  uint32_t programs; /* numbers given so far */
  uint64_t messages, data_bytes;
} cluster_session;

static shoal_status named(const cluster_session *c, int task, shoal_status status) {
  return status_wrap(status, "%s (%s)", c->tasks[task].name, c->tasks[task].address);
}

/* ---- asking */

static void lose(cluster_session *c, int task) {
  net_client_close(c->tasks[task].link);
  c->tasks[task].link = NULL;
}

static shoal_status ask(cluster_session *c, int task, uint16_t kind, uint64_t number, const net_part *parts, int n) {
  cluster_task *t = &c->tasks[task];
  if (!t->link)
    return status_make(SHOAL_ERR_PEER, "%s (%s) was lost; make a new session when it is back", t->name, t->address);
  net_header h = {.kind = kind, .generation = c->id, .step = c->run, .number = number};
  shoal_status status = net_send(t->link, &h, parts, n, c->options.step_seconds);
  if (status) {
    lose(c, task);
    return named(c, task, status);
  }
  t->waiting = kind != GRAPH_ABORT;
  return NULL;
}

/* An answer of that kind: its error, or its payload copied. */
static shoal_status take_answer(cluster_session *c, int task, const net_message *m, uint16_t kind,
                                wire_values *results) {
  if (m->header.kind != kind)
    return named(c, task,
                 status_make(SHOAL_ERR_PEER, "an answer of kind %u came, %u was expected", m->header.kind, kind));
  if (m->header.flags & GRAPH_FAILED) {
    uint64_t code = m->header.number;
    if (code < SHOAL_ERR_ARGUMENT || code > SHOAL_ERR_INTERNAL) code = SHOAL_ERR_PEER;
    shoal_status status =
        status_make((shoal_code)code, "%.*s", (int)MIN_OF(m->bytes, (size_t)4000), (const char *)m->payload);
    return kind == GRAPH_RUN ? status : named(c, task, status); /* of a run the task names itself */
  }
  size_t expected = results ? results->bytes : 0;
  if (m->bytes != expected)
    return named(c, task, status_make(SHOAL_ERR_PEER, "%zu bytes came, %zu were expected", m->bytes, expected));
  if (expected) memcpy(results->block, m->payload, expected);
  if (kind == GRAPH_RUN) c->tasks[task].wire_bytes = m->header.number;
  return NULL;
}

/* One look at a task that is waited for. *status: what it answered, once it did, or why it never will. */
static void look_at(cluster_session *c, int task, uint16_t kind, run_kind *k, shoal_status *status) {
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
      *status = named(c, task, waited);
    } else {
      shoal_status_free(waited);
    }
    return;
  }
  t->waiting = false;
  *status = take_answer(c, task, &m, kind, k ? &k->parts[task].results : NULL);
  net_release_client(t->link, &m);
}

/* The error that says most: what a task was told by others says least. */
static void keep_first(shoal_status *kept, shoal_status more) {
  if (!more) return;
  bool better = !*kept || (shoal_status_code(*kept) == SHOAL_ERR_CANCELLED &&
                           shoal_status_code(more) != SHOAL_ERR_CANCELLED);
  /* A task that lost another says whom; the other's own link says that it is true, and where it was. */
  shoal_status_free(better ? *kept : more);
  if (better) *kept = more;
}

/* Waits until all tasks asked have answered. After the first failure the others are told to stop. */
static shoal_status await_all(cluster_session *c, uint16_t kind, run_kind *k, double seconds, shoal_status failure) {
  double until = clock_seconds() + seconds;
  bool told = false;
  for (;;) {
    int waiting = 0, late = -1;
    for (int t = 0; t < c->n_tasks; t++) {
      if (!c->tasks[t].waiting) continue;
      shoal_status status;
      look_at(c, t, kind, k, &status);
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
          shoal_status_free(ask(c, t, GRAPH_ABORT, 0, NULL, 0));
          c->tasks[t].waiting = c->tasks[t].link != NULL;
        }
    }
    if (now < until) continue;
    /* Too late: what they may still answer would be taken for the answer to another question. */
    keep_first(&failure, named(c, late, status_make(SHOAL_ERR_PEER, "no answer in %g s", seconds)));
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
    if (!status) status = ask(c, t, opening ? GRAPH_OPEN : GRAPH_EXTEND, 0, parts, 2);
  }
  proto_fini(&shared);
  proto_fini(&own);
  TRY(await_all(c, opening ? GRAPH_OPEN : GRAPH_EXTEND, NULL, c->options.step_seconds, status));
  c->placed = g->count;
  return NULL;
}

/* ---- kinds of runs */

static void kind_destroy(run_kind *k, int n_tasks) {
  if (!k) return;
  for (int t = 0; t < n_tasks && k->parts; t++) {
    free(k->parts[t].feeds.items);
    free(k->parts[t].parts);
    wire_values_fini(&k->parts[t].results);
  }
  for (int i = 0; i < k->n_feeds && k->staged; i++) shoal_tensor_fini(&k->staged[i]);
  free(k->fetches);
  free(k->feed_values);
  free(k->feed_shapes);
  free(k->parts);
  free(k->owner);
  free(k->place);
  free(k->staged);
  free(k);
}

static void put_value(proto *p, int field, const partition *part, int id) {
  size_t inside = proto_begin(p, field);
  proto_int(p, VALUE_ID, id);
  for (int i = 0; i < part->shapes[id].rank; i++) proto_int(p, VALUE_DIM, part->shapes[id].dim[i]);
  proto_end(p, inside);
}

static void put_numbers(proto *p, int field, const int_list *l) {
  for (size_t i = 0; i < l->n; i++) proto_int(p, field, l->items[i]);
}

static void put_values(proto *p, int field, const partition *part, const int_list *l) {
  for (size_t i = 0; i < l->n; i++) put_value(p, field, part, l->items[i]);
}

static shoal_status add_once(int_list *l, int item) {
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i] == item) return NULL;
  TRY(mem_grow((void **)&l->items, &l->capacity, l->n + 1, sizeof *l->items));
  l->items[l->n++] = item;
  return NULL;
}

static void put_segment(proto *p, const partition *part, const part_segment *s, const int *place_of,
                        const run_kind *k) {
  size_t inside = proto_begin(p, PROGRAM_SEGMENT);
  for (size_t i = 0; i < s->messages.n; i++) proto_int(p, SEGMENT_MESSAGE, place_of[s->messages.items[i]]);
  put_numbers(p, SEGMENT_RECEIVED, &s->received);
  put_values(p, SEGMENT_CARRIED, part, &s->carried);
  for (size_t i = 0; i < s->feeds.n; i++) proto_int(p, SEGMENT_FEED, value_id(k->feed_values[s->feeds.items[i]]));
  put_values(p, SEGMENT_SHAPE, part, &s->shapes);
  put_numbers(p, SEGMENT_FETCH, &s->fetches);
  put_numbers(p, SEGMENT_FETCH, &s->effects);
  for (size_t i = 0; i < s->sends.n; i++) {
    const part_message *m = &part->messages[s->sends.items[i]];
    size_t send = proto_begin(p, SEGMENT_SEND);
    proto_int(p, SEND_NUMBER, s->sends.items[i]);
    proto_int(p, SEND_TO, m->to);
    put_numbers(p, SEND_VALUE, &m->values);
    proto_end(p, send);
  }
  proto_end(p, inside);
}

/* The program of one task. */
static shoal_status put_program(cluster_session *c, const partition *part, run_kind *k, int task, proto *p) {
  task_part *own = &k->parts[task];
  int *place_of = calloc(part->n_messages + 1, sizeof *place_of), in = 0;
  if (!place_of) return status_no_memory();
  for (size_t i = 0; i < part->n_messages; i++) {
    const part_message *m = &part->messages[i];
    if (m->to != task) continue;
    place_of[i] = in++;
    size_t inside = proto_begin(p, PROGRAM_IN);
    proto_int(p, IN_NUMBER, (int64_t)i);
    proto_int(p, IN_FROM, m->from);
    put_values(p, IN_VALUE, part, &m->values);
    proto_end(p, inside);
  }
  for (size_t i = 0; i < own->feeds.n; i++)
    put_value(p, PROGRAM_FEED, part, value_id(k->feed_values[own->feeds.items[i]]));
  for (size_t i = 0; i < own->results.n; i++) put_value(p, PROGRAM_RESULT, part, own->results.ids[i]);
  for (size_t i = 0; i < part->n_segments; i++)
    if (part->segments[i].task == task) put_segment(p, part, &part->segments[i], place_of, k);
  free(place_of);
  return p->failed ? status_no_memory() : NULL;
}

/* Which task gets and gives what. */
static shoal_status share_out(cluster_session *c, const partition *part, run_kind *k) {
  for (size_t i = 0; i < part->n_segments; i++) {
    task_part *own = &k->parts[part->segments[i].task];
    own->takes_part = true;
    for (size_t f = 0; f < part->segments[i].feeds.n; f++) TRY(add_once(&own->feeds, part->segments[i].feeds.items[f]));
  }
  for (int i = 0; i < k->n_fetches; i++) {
    const shoal_value *v = k->fetches[i];
    k->owner[i] = part->owner[i];
    if (k->owner[i] < 0) {
      while (k->feed_values[k->place[i]] != v) k->place[i]++;
      continue;
    }
    wire_values *w = &k->parts[k->owner[i]].results;
    size_t at = 0;
    while (at < w->n && w->ids[at] != value_id(v)) at++;
    k->place[i] = (int)at;
    if (at == w->n) TRY(wire_values_add(w, value_id(v), v->dtype, &part->shapes[value_id(v)]));
  }
  for (int t = 0; t < c->n_tasks; t++) {
    TRY(wire_values_allocate(&k->parts[t].results));
    k->parts[t].parts = calloc(1 + 2 * k->parts[t].feeds.n, sizeof *k->parts[t].parts);
    if (!k->parts[t].parts) return status_no_memory();
  }
  for (size_t i = 0; i < part->n_messages; i++) {
    k->messages++;
    for (size_t v = 0; v < part->messages[i].values.n; v++) {
      int id = part->messages[i].values.items[v];
      shoal_tensor t = shoal_tensor_view(partition_value(c->graph, id)->dtype, part->shapes[id], NULL);
      k->data_bytes += shoal_tensor_bytes(&t);
    }
  }
  return NULL;
}

static shoal_status prepare(cluster_session *c, const partition *part, run_kind *k) {
  TRY(share_out(c, part, k));
  shoal_status status = NULL;
  k->number = c->programs++;
  proto p = {0};
  for (int t = 0; t < c->n_tasks && !status; t++) {
    if (!k->parts[t].takes_part) continue;
    proto_clear(&p);
    status = put_program(c, part, k, t, &p);
    if (!status) status = ask(c, t, GRAPH_PREPARE, k->number, &(net_part){p.bytes, p.length}, 1);
  }
  proto_fini(&p);
  return await_all(c, GRAPH_PREPARE, NULL, c->options.step_seconds, status);
}

static shoal_status make_kind(cluster_session *c, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                              int n_fetches, run_kind **out) {
  run_kind *k = calloc(1, sizeof *k);
  if (!k) return status_no_memory();
  partition part = {0};
  shoal_status status = NULL;
  k->n_fetches = n_fetches;
  k->n_feeds = n_feeds;
  k->fetches = calloc((size_t)n_fetches + 1, sizeof *k->fetches);
  k->feed_values = calloc((size_t)n_feeds + 1, sizeof *k->feed_values);
  k->feed_shapes = calloc((size_t)n_feeds + 1, sizeof *k->feed_shapes);
  k->parts = calloc((size_t)c->n_tasks, sizeof *k->parts);
  k->owner = calloc((size_t)n_fetches + 1, sizeof *k->owner);
  k->place = calloc((size_t)n_fetches + 1, sizeof *k->place);
  k->staged = calloc((size_t)n_feeds + 1, sizeof *k->staged);
  if (!k->fetches || !k->feed_values || !k->feed_shapes || !k->parts || !k->owner || !k->place || !k->staged)
    TRY_GOTO(status, status_no_memory(), failed);
  TRY_GOTO(status, partition_make(c->graph, c->choices, c->n_tasks, feeds, n_feeds, fetches, n_fetches, &part), failed);
  for (int i = 0; i < n_fetches; i++) k->fetches[i] = fetches[i];
  for (int i = 0; i < n_feeds; i++) {
    k->feed_values[i] = feeds[i].value;
    k->feed_shapes[i] = feeds[i].tensor.shape;
  }
  TRY_GOTO(status, prepare(c, &part, k), failed);
  TRY_GOTO(status, mem_grow((void **)&c->kinds, &c->cap_kinds, c->n_kinds + 1, sizeof(run_kind *)), failed);
  c->kinds[c->n_kinds++] = k;
  partition_fini(&part);
  *out = k;
  return NULL;
failed:
  partition_fini(&part);
  kind_destroy(k, c->n_tasks);
  return status;
}

static bool kind_fits(const run_kind *k, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                      int n_fetches) {
  if (k->n_feeds != n_feeds || k->n_fetches != n_fetches) return false;
  for (int i = 0; i < n_fetches; i++)
    if (k->fetches[i] != fetches[i]) return false;
  for (int i = 0; i < n_feeds; i++)
    if (k->feed_values[i] != feeds[i].value || feeds[i].tensor.dtype != feeds[i].value->dtype ||
        !shoal_shape_equal(&k->feed_shapes[i], &feeds[i].tensor.shape))
      return false;
  return true;
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
  graph_run_head head = {.step = step, .seconds = c->options.step_seconds};
  int n = 0;
  own->parts[n++] = (net_part){&head, sizeof head};
  for (size_t i = 0; i < own->feeds.n; i++) {
    shoal_tensor t;
    TRY(in_order(k, feeds, own->feeds.items[i], &t));
    n += wire_part(&t, own->parts + n);
  }
  return ask(c, task, GRAPH_RUN, k->number, own->parts, n);
}

static shoal_status run(void *remote, uint64_t step, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                        int n_fetches, shoal_tensor *fetched) {
  cluster_session *c = remote;
  TRY(check_feeds(feeds, n_feeds));
  TRY(hand_over(c));
  run_kind *k = NULL;
  for (size_t i = 0; i < c->n_kinds && !k; i++)
    if (kind_fits(c->kinds[i], feeds, n_feeds, fetches, n_fetches)) k = c->kinds[i];
  if (!k) TRY(make_kind(c, feeds, n_feeds, fetches, n_fetches, &k));
  c->run++;
  shoal_status status = NULL;
  for (int t = 0; t < c->n_tasks && !status; t++)
    if (k->parts[t].takes_part) status = start(c, k, t, step, feeds);
  status = await_all(c, GRAPH_RUN, k, c->options.step_seconds + GRACE, status);
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
      shoal_status_free(ask(c, t, GRAPH_CLOSE, 0, NULL, 0));
      open = true;
    }
  if (open) shoal_status_free(await_all(c, GRAPH_CLOSE, NULL, GRACE, NULL));
  for (int t = 0; t < c->n_tasks; t++) {
    net_client_close(c->tasks[t].link);
    free(c->tasks[t].name);
    free(c->tasks[t].address);
  }
  for (size_t i = 0; i < c->n_kinds; i++) kind_destroy(c->kinds[i], c->n_tasks);
  key_ring_fini(&c->ring);
  free(c->tasks);
  free(c->devices);
  free(c->choices);
  free(c->kinds);
  free(c);
}

static const session_remote over_cluster = {.destroy = destroy, .run = run};

static shoal_status read_tasks(const shoal_task *tasks, int n, device *out) {
  if (n < 1 || n > PLACER_TASKS_MOST)
    return status_make(SHOAL_ERR_ARGUMENT, "a cluster has 1 to %d tasks, not %d", PLACER_TASKS_MOST, n);
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
  net_options net = {.largest = GRAPH_LARGEST, .from = GRAPH_CLIENT, .job = c->options.job,
                     .insecure = c->options.insecure};
  if (c->options.keys) TRY(key_ring_read(c->options.keys, false, &c->ring, &net));
  for (int t = 0; t < c->n_tasks; t++) {
    char buffer[DEVICE_TEXT];
    c->tasks[t].name = strdup(device_text(&c->devices[t], buffer));
    c->tasks[t].address = strdup(tasks[t].address ? tasks[t].address : "");
    if (!c->tasks[t].name || !c->tasks[t].address) return status_no_memory();
  }
  for (int t = 0; t < c->n_tasks; t++)
    TRY(named(c, t, net_connect(tasks[t].address, &net, c->options.connect_seconds, &c->tasks[t].link)));
  return hand_over(c);
}

shoal_status shoal_session_connect(shoal_graph *g, const shoal_cluster_options *options, shoal_session **out) {
  device devices[PLACER_TASKS_MOST];
  TRY(read_tasks(options->tasks, options->n_tasks, devices));
  cluster_session *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->graph = g;
  c->options = *options;
  if (!(c->options.connect_seconds > 0)) c->options.connect_seconds = CONNECT_SECONDS;
  if (!(c->options.step_seconds > 0)) c->options.step_seconds = STEP_SECONDS;
  size_t n = (size_t)options->n_tasks;
  c->tasks = calloc(n, sizeof *c->tasks);
  c->devices = calloc(n, sizeof *c->devices);
  shoal_status status = NULL;
  if (!c->tasks || !c->devices)
    status = status_no_memory();
  else if (getrandom(&c->id, sizeof c->id, 0) != sizeof c->id)
    status = status_make(SHOAL_ERR_SYSTEM, "no random numbers from the system");
  if (!status) {
    c->n_tasks = options->n_tasks;
    memcpy(c->devices, devices, n * sizeof *devices);
    status = connect_all(c, options->tasks);
  }
  if (status) {
    destroy(c);
    return status;
  }
  return session_create_remote(g, &over_cluster, c, out);
}

shoal_status shoal_placement_explain(shoal_graph *g, const shoal_task *tasks, int n_tasks, char **out) {
  device devices[PLACER_TASKS_MOST];
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

void shoal_session_stats(const shoal_session *s, shoal_cluster_stats *out) {
  *out = (shoal_cluster_stats){0};
  if (s->remote != &over_cluster) return;
  const cluster_session *c = s->remote_state;
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

shoal_status shoal_server_run(const shoal_server_options *options) {
  key_ring ring = {0};
  graph_server_options o = {.address = options->address,
                            .net = {.job = options->job, .insecure = options->insecure},
                            .threads = options->threads,
                            .kernels = options->kernels,
                            .stop = options->stop};
  shoal_status status = options->keys ? key_ring_read(options->keys, true, &ring, &o.net) : NULL;
  if (!status) status = graph_server_run(&o);
  key_ring_fini(&ring);
  return status;
}
