/* A graph server and a client that says what no session would: messages at the wrong time, programs that lie, graphs
 * that take too much memory. The server refuses them, and goes on. */
#include "placed_case.h"

#include "base/proto.h"
#include "dist/graph_protocol.h"
#include "graph/graph.h"
#include "graph/graphdef.h"
#include "net/transport.h"

enum { SESSION = 5, MEMORY = 48 << 20 };

typedef struct {
  pid_t pid;
  net_client *link;
  shoal_graph *graph;
} client;

static client begin(void) {
  static int used;
  char address[64];
  client c = {.pid = -1};
  pid_t parent = getpid();
  snprintf(address, sizeof address, "shm:/graph-server-%d-%d", (int)parent, used++);
  c.pid = fork();
  assert_true(c.pid >= 0);
  if (!c.pid) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    _exit(shoal_server_run(&(shoal_server_options){
              .address = address, .job = CASE_JOB, .threads = 1, .client_memory = MEMORY}) != NULL);
  }
  net_options net = {.largest = GRAPH_LARGEST, .from = GRAPH_CLIENT, .job = CASE_JOB};
  ok(net_connect(address, &net, 10, &c.link));
  ok(shoal_graph_create(&c.graph));
  return c;
}

static void tell(client *c, uint16_t kind, uint64_t step, uint64_t number, const void *bytes, size_t n) {
  net_header h = {.kind = kind, .generation = SESSION, .step = step, .number = number};
  ok(net_send(c->link, &h, &(net_part){bytes, n}, 1, 5));
}

/* The next answer must be of that kind; words NULL: a good one, otherwise a failure that says so. */
static void hear(client *c, uint16_t kind, const char *words) {
  net_message m;
  ok(net_await(c->link, 10, &m));
  char text[400];
  const bool failed = m.header.flags & GRAPH_FAILED;
  snprintf(text, sizeof text, "%.*s", failed ? (int)m.bytes : 0, (const char *)m.payload);
  if (m.header.kind != kind || failed != (words != NULL) || (words && !strstr(text, words)))
    fail_msg("expected an answer of kind %u %s, got one of kind %u '%s'", kind, words ? words : "", m.header.kind,
             text);
  net_release_client(c->link, &m);
}

static void ask(client *c, uint16_t kind, uint64_t step, uint64_t number, proto *p, const char *words) {
  tell(c, kind, step, number, p ? p->bytes : NULL, p ? p->length : 0);
  hear(c, kind, words);
  if (p) proto_fini(p);
}

/* It is still there and does what it should. */
static void end(client *c) {
  ask(c, GRAPH_CLOCK, 0, 0, NULL, NULL);
  assert_int_equal(waitpid(c->pid, NULL, WNOHANG), 0);
  kill(c->pid, SIGKILL);
  waitpid(c->pid, NULL, 0);
  net_client_close(c->link);
  shoal_graph_destroy(c->graph);
}

/* The graph as it is, all of it on task 0 of two. */
static proto opening(client *c) {
  proto p = {0}, nodes = {0};
  ok(shoal_graph_status(c->graph));
  ok(graphdef_write(c->graph, 0, &nodes));
  proto_bytes(&p, OPEN_GRAPH, nodes.bytes, nodes.length);
  proto_fini(&nodes);
  for (size_t i = 0; i < c->graph->count; i++) proto_int(&p, OPEN_TASKS, 0);
  proto_int(&p, OPEN_OWN, 0);
  for (int i = 0; i < 2; i++) {
    proto_text(&p, OPEN_NAME, i ? "/job:worker/task:1" : "/job:worker/task:0");
    proto_text(&p, OPEN_ADDRESS, "shm:/nobody");
  }
  proto_int(&p, OPEN_THREADS, 1);
  return p;
}

static void put_value(proto *p, int field, const shoal_value *v, int64_t n) {
  size_t inside = proto_begin(p, field);
  proto_int(p, VALUE_ID, value_id(v));
  proto_int(p, VALUE_DIM, n);
  proto_end(p, inside);
}

/* Awaits v [4] of task `from` and gives w [4]. */
static proto waiting_program(const shoal_value *v, const shoal_value *w, int from) {
  proto p = {0};
  size_t in = proto_begin(&p, PROGRAM_IN);
  proto_int(&p, IN_NUMBER, 0);
  proto_int(&p, IN_FROM, from);
  put_value(&p, IN_VALUE, v, 4);
  proto_end(&p, in);
  put_value(&p, PROGRAM_RESULT, w, 4);
  size_t segment = proto_begin(&p, PROGRAM_SEGMENT);
  proto_int(&p, SEGMENT_MESSAGE, 0);
  proto_int(&p, SEGMENT_RECEIVED, value_id(v));
  proto_int(&p, SEGMENT_FETCH, value_id(w));
  proto_end(&p, segment);
  return p;
}

static const graph_run_head run_head = {.step = 1, .seconds = 60, .tasks = 1};

/* A program whose run awaits data is not forgotten, and nothing else is changed under it. */
static void a_run_is_left_alone(void **state) {
  (void)state;
  client c = begin();
  shoal_value *v = shoal_placeholder(c.graph, "v", SHOAL_F32, SHOAL_SHAPE(4)), *w = shoal_tanh(c.graph, v);
  proto p = opening(&c);
  ask(&c, GRAPH_OPEN, 0, 0, &p, NULL);
  p = waiting_program(v, w, 1);
  ask(&c, GRAPH_PREPARE, 0, 7, &p, NULL);
  tell(&c, GRAPH_RUN, 1, 7, &run_head, sizeof run_head);
  for (uint16_t kind = GRAPH_EXTEND; kind <= GRAPH_RUN; kind++) ask(&c, kind, 2, 8, NULL, "a run is in progress");
  ask(&c, GRAPH_TRACE, 0, 0, NULL, "a run is in progress");
  ask(&c, GRAPH_FORGET, 0, 7, NULL, "a run is in progress");
  ask(&c, GRAPH_CLOCK, 0, 0, NULL, NULL); /* and not a second answer to what was refused */
  float numbers[16] = {1, 2, 3, 4};
  tell(&c, GRAPH_DATA, 1, (uint64_t)7 << 32, numbers, sizeof numbers);
  hear(&c, GRAPH_RUN, NULL);
  ask(&c, GRAPH_FORGET, 0, 7, NULL, NULL);
  ask(&c, GRAPH_FORGET, 0, 7, NULL, "invalid");
  tell(&c, GRAPH_RUN, 2, 7, &run_head, sizeof run_head);
  hear(&c, GRAPH_RUN, "invalid");
  end(&c);
}

/* Programs that would read what is not there. */
static void programs_that_lie(void **state) {
  (void)state;
  client c = begin();
  shoal_value *v = shoal_placeholder(c.graph, "v", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_value *w = shoal_tanh(c.graph, v), *x = shoal_exp(c.graph, w);
  proto p = opening(&c);
  ask(&c, GRAPH_OPEN, 0, 0, &p, NULL);
  p = waiting_program(v, w, 1000); /* of a task that does not exist */
  ask(&c, GRAPH_PREPARE, 0, 1, &p, "a task");
  tell(&c, GRAPH_RUN, 1, 1, &run_head, sizeof run_head);
  hear(&c, GRAPH_RUN, "invalid");
  p = (proto){0}; /* reads numbers of which only the shape is told */
  size_t segment = proto_begin(&p, PROGRAM_SEGMENT);
  put_value(&p, SEGMENT_SHAPE, v, 4);
  proto_int(&p, SEGMENT_FETCH, value_id(w));
  proto_end(&p, segment);
  ask(&c, GRAPH_PREPARE, 0, 2, &p, "invalid");
  p = (proto){0}; /* says that four numbers are a million */
  put_value(&p, PROGRAM_FEED, v, 4);
  segment = proto_begin(&p, PROGRAM_SEGMENT);
  proto_int(&p, SEGMENT_FEED, value_id(v));
  proto_int(&p, SEGMENT_FETCH, value_id(w));
  proto_end(&p, segment);
  segment = proto_begin(&p, PROGRAM_SEGMENT);
  put_value(&p, SEGMENT_CARRIED, w, 1000000);
  proto_int(&p, SEGMENT_FETCH, value_id(x));
  proto_end(&p, segment);
  ask(&c, GRAPH_PREPARE, 0, 3, &p, NULL);
  char fed[128] = {0};
  memcpy(fed, &run_head, sizeof run_head);
  tell(&c, GRAPH_RUN, 2, 3, fed, sizeof fed);
  hear(&c, GRAPH_RUN, "invalid");
  p = (proto){0}; /* is fed, and has nothing to run */
  put_value(&p, PROGRAM_FEED, v, 4);
  ask(&c, GRAPH_PREPARE, 0, 4, &p, NULL);
  tell(&c, GRAPH_RUN, 3, 4, fed, sizeof fed);
  hear(&c, GRAPH_RUN, NULL);
  end(&c);
}

/* Nodes without a place: the session cannot be used any more, but does no harm. */
static void half_a_graph(void **state) {
  (void)state;
  client c = begin();
  shoal_scalar(c.graph, SHOAL_F32, 1);
  proto p = opening(&c);
  ask(&c, GRAPH_OPEN, 0, 0, &p, NULL);
  const size_t first = c.graph->count;
  for (int i = 0; i < 1000; i++) shoal_variable(c.graph, NULL, shoal_scalar(c.graph, SHOAL_F32, 1));
  proto nodes = {0};
  ok(graphdef_write(c.graph, first, &nodes));
  proto_bytes(&p, OPEN_GRAPH, nodes.bytes, nodes.length);
  proto_fini(&nodes);
  ask(&c, GRAPH_EXTEND, 0, 0, &p, "invalid");
  ask(&c, GRAPH_EXTEND, 0, 0, NULL, "make a new session");
  end(&c);
}

/* A client has so much memory and no more: variables, values of a run, values that come in. */
static void memory_has_a_limit(void **state) {
  (void)state;
  client c = begin();
  shoal_value *v = shoal_placeholder(c.graph, "v", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN));
  shoal_value *large = shoal_random_uniform(c.graph, SHOAL_SHAPE(1 << 24), 0, 1), *w = shoal_tanh(c.graph, v);
  proto p = opening(&c);
  ask(&c, GRAPH_OPEN, 0, 0, &p, NULL);
  size_t segment = proto_begin(&p, PROGRAM_SEGMENT);
  proto_int(&p, SEGMENT_FETCH, value_id(large));
  proto_end(&p, segment);
  ask(&c, GRAPH_PREPARE, 0, 1, &p, "--client-memory");
  put_value(&p, PROGRAM_FEED, v, 1 << 24);
  segment = proto_begin(&p, PROGRAM_SEGMENT);
  proto_int(&p, SEGMENT_FEED, value_id(v));
  proto_int(&p, SEGMENT_FETCH, value_id(w));
  proto_end(&p, segment);
  ask(&c, GRAPH_PREPARE, 0, 1, &p, "--client-memory");
  for (uint64_t i = 2; i < 12; i++) { /* what is forgotten is given back: ten times a fifth of the limit */
    put_value(&p, PROGRAM_FEED, v, MEMORY / 5 / 4 / 2);
    segment = proto_begin(&p, PROGRAM_SEGMENT);
    proto_int(&p, SEGMENT_FEED, value_id(v));
    proto_int(&p, SEGMENT_FETCH, value_id(w));
    proto_end(&p, segment);
    ask(&c, GRAPH_PREPARE, 0, i, &p, NULL);
    ask(&c, GRAPH_FORGET, 0, i, NULL, NULL);
  }
  shoal_variable(c.graph, "table", shoal_fill(c.graph, SHOAL_F32, SHOAL_SHAPE(1 << 24), 1));
  ask(&c, GRAPH_CLOSE, 0, 0, NULL, NULL);
  p = opening(&c);
  ask(&c, GRAPH_OPEN, 0, 0, &p, "table needs 67.1 MB");
  end(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_is_left_alone), cmocka_unit_test(programs_that_lie),
                                     cmocka_unit_test(half_a_graph), cmocka_unit_test(memory_has_a_limit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
