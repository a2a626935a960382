/* Gradients that come in pieces: the same learning as whole ones, and what a server refuses; parts of rounds, which
 * servers add up in the order of a tree. Tasks are threads here, over the real transport. */
#include "ps_tasks.h"

#include "train/optimizer.h"

/* ---- learning */

enum { WIDE = 300 }; /* of the dense layer: 256 x 300 weights, more than are sent at a time on few servers */

static void run_wide(job *j, const shoal_dataset *data, int pieces, task workers[MOST], task servers[MOST]) {
  j->width = WIDE;
  j->pieces = pieces;
  run(j, data, workers, servers);
}

static void pieces_change_nothing(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int s = 1; s <= 2; s++) {
    job j = {.workers = 3, .servers = s, .sync = true, .staleness = -1, .compile = compile_for("adam")};
    j.fit = (shoal_fit_options){.epochs = 2, .batch_size = 20};
    j.block = s == 2 ? 5000 : 0;
    task whole[MOST], cut[MOST], servers[MOST], others[MOST];
    run_wide(&j, &data, -1, whole, servers);
    run_wide(&j, &data, 1, cut, others);
    for (int w = 0; w < j.workers; w++) {
      assert_same_bits(whole[0].model, cut[w].model);
      assert_int_equal(whole[w].fit.steps, cut[w].fit.steps);
      assert_true(cut[w].net.sent_messages > whole[w].net.sent_messages + (uint64_t)cut[w].fit.steps / 2);
      assert_true(cut[w].net.sent_bytes < 1.01 * (double)whole[w].net.sent_bytes);
    }
    run_fini(&j, whole, servers);
    run_fini(&j, cut, others);
  }
  data_free(&data);
}

static void pieces_in_all_modes(void **state) {
  static const struct {
    bool sync;
    int64_t staleness;
    int backups, in_flight;
  } modes[] = {{true, -1, 1, 1}, {false, -1, 0, 1}, {false, -1, 0, 2}, {false, 1, 0, 2}};
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (size_t m = 0; m < COUNT_OF(modes); m++) {
    job j = {.workers = 3, .servers = 2, .sync = modes[m].sync, .staleness = modes[m].staleness};
    j.backups = modes[m].backups;
    j.in_flight = modes[m].in_flight;
    j.compile = compile_for("momentum");
    j.fit = (shoal_fit_options){.epochs = 2, .batch_size = 10};
    task workers[MOST], servers[MOST];
    run_wide(&j, &data, 1, workers, servers);
    int64_t examples = 0;
    for (int w = 0; w < j.workers; w++) examples += servers[1].served.workers[w].examples;
    assert_int_equal(examples, 2 * ROWS);
    run_fini(&j, workers, servers);
  }
  data_free(&data);
}

/* ---- what a server refuses */

enum { ELEMENTS = 100, PEERS = 2 };

static shoal_status build_sgd(const ps_terms *terms, shoal_graph *g, shoal_value *variable,
                              const shoal_gradient *gradient, shoal_value *rate, shoal_value **update) {
  return optimizer_apply(g, &(shoal_optimizer_options){.name = "sgd"}, &variable, gradient, 1, rate, update);
}

static double rate_one(const ps_terms *terms, int64_t update) { return 1; }

typedef struct {
  const char *address;
  bool sync;
  int64_t round; /* 0: no rounds */
  pthread_t thread;
  shoal_status status;
  ps_server_result served;
} one_server;

static void *serve(void *context) {
  one_server *t = context;
  ps_server_options o = {.address = t->address,
                         .terms = {.workers = PEERS, .servers = 1},
                         .task = {.net = {.job = 80}, .deadline = 10, .returns = true},
                         .build = build_sgd,
                         .rate_at = rate_one};
  t->status = ps_server_run(&o, &t->served);
  return NULL;
}

/* The answer's flags; values: what follows its head. */
static uint16_t take(net_client *c, float *values) {
  net_message m;
  assert_ok(net_await(c, 5, &m));
  const uint16_t flags = m.header.flags;
  if (values && !(flags & PS_REFUSED)) {
    assert_int_equal(m.bytes, sizeof(ps_head) + ELEMENTS * sizeof *values);
    memcpy(values, m.payload + sizeof(ps_head), ELEMENTS * sizeof *values);
  }
  net_release_client(c, &m);
  return flags;
}

static uint16_t ask(net_client *c, net_header h, const void *payload, size_t bytes) {
  assert_ok(net_send(c, &h, &(net_part){payload, bytes}, 1, 5));
  return take(c, NULL);
}

/* `sent` elements of the gradient, said to be [first, first + count). */
static void send_piece(net_client *c, const float *gradient, uint64_t first, uint64_t count, size_t sent) {
  net_header h = {.kind = PS_PIECE, .step = first, .number = count};
  assert_ok(net_send(c, &h, &(net_part){gradient + (first < ELEMENTS ? first : 0), sent * sizeof *gradient}, 1, 5));
}

static void push(net_client *c, const float *gradient, uint64_t version, size_t rest) {
  ps_head head = {.examples = 1};
  net_part parts[] = {{&head, sizeof head}, {gradient, rest * sizeof *gradient}};
  assert_ok(net_send(c, &(net_header){.kind = PS_PUSH, .step = version, .number = 1}, parts, 2, 5));
}

static void join(const one_server *t, int number, net_client **out) {
  const ps_terms terms = {.workers = PEERS,
                          .servers = 1,
                          .sync = t->sync,
                          .staleness = -1,
                          .in_flight = 1,
                          .round = t->round,
                          .elements = ELEMENTS,
                          .optimizer = {.name = "sgd"},
                          .schedule = {.name = "constant", .rate = 1}};
  net_options net = {.largest = ps_largest(&terms), .job = 80, .from = (uint32_t)number};
  text words = {0};
  assert_ok(ps_terms_write(&terms, &words));
  assert_ok(net_connect(t->address, &net, 5, out));
  assert_int_equal(ask(*out, (net_header){.kind = PS_HELLO}, words.data, words.length) & ~PS_UNDER_WAY, 0);
  text_fini(&words);
}

static void assert_all(const float *values, float expected) {
  for (int i = 0; i < ELEMENTS; i++)
    if (values[i] != expected) fail_msg("element %d is %g, %g was expected", i, values[i], expected);
}

static void start(one_server *t, bool sync, int64_t round, char address[64], net_client *clients[PEERS]) {
  static int runs;
  snprintf(address, 64, "shm:/shoal-pieces-%d-%d", (int)getpid(), runs++);
  *t = (one_server){.address = address, .sync = sync, .round = round};
  assert_int_equal(pthread_create(&t->thread, NULL, serve, t), 0);
  for (int i = 0; i < PEERS; i++) join(t, i, &clients[i]);
  ps_start plan = {.batch = 1, .rows = 1000, .end = 1000, .end_step = 100, .round = round};
  net_header h = {.kind = PS_START, .generation = 1};
  assert_ok(net_send(clients[0], &h, &(net_part){&plan, sizeof plan}, 1, 5));
  assert_ok(net_send(clients[1], &(net_header){.kind = PS_PULL}, NULL, 0, 5));
  assert_int_equal(take(clients[0], NULL), 0);
  assert_int_equal(take(clients[1], NULL), 0);
}

static void finish(one_server *t, net_client *clients[PEERS]) {
  assert_int_equal(ask(clients[0], (net_header){.kind = PS_QUIT}, NULL, 0), 0);
  for (int i = 0; i < PEERS; i++) net_client_close(clients[i]);
  pthread_join(t->thread, NULL);
  assert_ok(t->status);
  free(t->served.workers);
}

static void bad_pieces_are_refused(void **state) {
  static const struct {
    const char *what;
    uint64_t first, count;
    size_t sent;
  } bad[] = {{"not at the end", 10, 20, 20},
             {"beyond the end", 90, 20, 10},
             {"fewer bytes than said", 60, 40, 39},
             {"more bytes than said", 60, 40, 41},
             {"empty", 100, 0, 0},
             {"overflowing", (uint64_t)-20, 120, 20},
             {"of all that can be counted", 0, (uint64_t)-1, 100}};
  one_server t;
  char address[64];
  net_client *clients[PEERS], *c;
  float gradient[ELEMENTS + 1], got[ELEMENTS];
  for (int i = 0; i <= ELEMENTS; i++) gradient[i] = 1;
  start(&t, false, 0, address, clients);
  c = clients[0];
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    send_piece(c, gradient, bad[i].first, bad[i].count, bad[i].sent);
    push(c, gradient, 0, ELEMENTS);
    if (!(take(c, NULL) & PS_REFUSED)) fail_msg("a piece %s was taken", bad[i].what);
  }
  send_piece(c, gradient, 60, 40, 40);
  send_piece(c, gradient, 60, 40, 40); /* the same once more */
  push(c, gradient, 0, 60);
  assert_true(take(c, NULL) & PS_REFUSED);
  send_piece(c, gradient, 60, 40, 40);
  send_piece(c, gradient, 20, 30, 30); /* a gap */
  push(c, gradient, 0, 20);
  assert_true(take(c, NULL) & PS_REFUSED);
  send_piece(c, gradient, 60, 40, 40);
  push(c, gradient, 0, ELEMENTS); /* the rest is not what is left */
  assert_true(take(c, NULL) & PS_REFUSED);
  /* None of them has changed anything; nor do they stand in the way of what is right. */
  send_piece(c, gradient, 60, 40, 40);
  send_piece(c, gradient, 5, 55, 55);
  push(c, gradient, 0, 5);
  assert_int_equal(take(c, got), 0);
  assert_all(got, -1);
  push(c, gradient, 1, ELEMENTS);
  assert_int_equal(take(c, got), 0);
  assert_all(got, -2);
  finish(&t, clients);
}

/* A gradient that is not what its format says is refused, and changes nothing; one that is counts. */
static void bad_codes_are_refused(void **state) {
  static const struct {
    uint16_t format;
    size_t bytes;
  } bad[] = {{5, 4 * ELEMENTS},
             {15, 4 * ELEMENTS},
             {1, 4 * ELEMENTS},
             {1, 2 * ELEMENTS - 2},
             {2, ELEMENTS},
             {3, 4 * ELEMENTS},
             {3, 0},
             {0, 2 * ELEMENTS}};
  uint8_t bytes[4 * ELEMENTS] = {0};
  one_server t;
  char address[64];
  net_client *clients[PEERS];
  float ones[ELEMENTS], got[ELEMENTS];
  ps_head head = {.examples = 1};
  for (int i = 0; i < ELEMENTS; i++) ones[i] = 1;
  start(&t, false, 0, address, clients);
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    net_header h = {.kind = PS_PUSH, .number = 1, .flags = (uint16_t)(bad[i].format << PS_WIRE_SHIFT)};
    net_part parts[] = {{&head, sizeof head}, {bytes, bad[i].bytes}};
    assert_ok(net_send(clients[0], &h, parts, 2, 5));
    if (!(take(clients[0], NULL) & PS_REFUSED)) fail_msg("%zu bytes as format %d", bad[i].bytes, bad[i].format);
  }
  const wire_format *f = wire_format_find("int8");
  f->encode(ones, bytes, ELEMENTS);
  net_header h = {.kind = PS_PUSH, .number = 1, .flags = ps_wire_flags(f)};
  net_part parts[] = {{&head, sizeof head}, {bytes, (size_t)f->bytes(ELEMENTS)}};
  assert_ok(net_send(clients[0], &h, parts, 2, 5));
  assert_int_equal(take(clients[0], got), 0); /* the first parameters come whole */
  assert_all(got, -1);
  /* Pieces, too; and numbers of the largest that point nowhere are nothing. */
  memset(bytes, 255, sizeof bytes);
  const wire_format *largest = wire_format_find("topk");
  h.flags = ps_wire_flags(largest);
  h.kind = PS_PIECE;
  h.step = 40;
  h.number = 60;
  assert_ok(net_send(clients[1], &h, &(net_part){bytes, (size_t)largest->bytes(60)}, 1, 5));
  h = (net_header){.kind = PS_PUSH, .number = 1, .step = 1, .flags = ps_wire_flags(largest)};
  parts[1].bytes = (size_t)largest->bytes(40);
  assert_ok(net_send(clients[1], &h, parts, 2, 5));
  assert_int_equal(take(clients[1], got), 0);
  assert_all(got, -1);
  finish(&t, clients);
}

/* Of a worker that dies halfway nothing is used, and pieces of another one do not mix with its. */
static void half_a_gradient_is_nothing(void **state) {
  one_server t;
  char address[64];
  net_client *clients[PEERS];
  float one[ELEMENTS], nine[ELEMENTS], got[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++) {
    one[i] = 1;
    nine[i] = 9;
  }
  start(&t, true, 0, address, clients);
  send_piece(clients[1], nine, 50, 50, 50);
  send_piece(clients[0], one, 70, 30, 30);
  send_piece(clients[1], nine, 10, 40, 40);
  push(clients[0], one, 0, 70);
  send_piece(clients[0], nine, 70, 30, 30); /* while its gradient is held: must not change it */
  net_client_close(clients[1]);
  assert_int_equal(take(clients[0], got), 0);
  assert_all(got, -1);
  push(clients[0], one, 1, 70);
  assert_true(take(clients[0], NULL) & PS_REFUSED);
  send_piece(clients[0], one, 70, 30, 30); /* then an empty gradient: there is nothing it could be the rest of */
  ps_head none = {0};
  assert_true(ask(clients[0], (net_header){.kind = PS_PUSH, .step = 1}, &none, sizeof none) & PS_REFUSED);
  /* It comes back, and begins anew. */
  join(&t, 1, &clients[1]);
  assert_ok(net_send(clients[1], &(net_header){.kind = PS_PULL, .step = 1}, NULL, 0, 5));
  assert_int_equal(take(clients[1], got), 0);
  assert_all(got, -1);
  push(clients[0], one, 1, ELEMENTS);
  send_piece(clients[1], nine, 90, 10, 10);
  push(clients[1], nine, 1, 90);
  for (int i = 0; i < PEERS; i++) {
    assert_int_equal(take(clients[i], got), 0);
    assert_all(got, -6);
  }
  finish(&t, clients);
}

/* ---- rounds */

enum { ROUND = 48 }; /* rows: leaf 0 is worker 0's, 1 and 2 are worker 1's, which make no node together */

/* Vectors of so many nodes, all numbers of node i being nodes[i]. */
static void push_part(net_client *c, const ps_head *head, uint64_t version, const float *nodes, int n) {
  float vectors[4][ELEMENTS];
  for (int i = 0; i < n; i++)
    for (int e = 0; e < ELEMENTS; e++) vectors[i][e] = nodes[i];
  net_header h = {.kind = PS_PUSH, .step = version, .number = (uint64_t)head->examples};
  net_part parts[] = {{head, sizeof *head}, {vectors, (size_t)n * sizeof *vectors}};
  assert_ok(net_send(c, &h, parts, 2, 5));
}

static const ps_head first_part = {.examples = 16, .first_leaf = 0, .last_leaf = 1, .round_rows = ROUND};
static const ps_head second_part = {.examples = 32, .first_leaf = 1, .last_leaf = 3, .round_rows = ROUND};

static void bad_parts_are_refused(void **state) {
  static const struct {
    const char *what;
    ps_head head;
    int nodes;
  } bad[] = {{"of fewer nodes", {.examples = 32, .first_leaf = 1, .last_leaf = 3, .round_rows = ROUND}, 1},
             {"of more nodes", {.examples = 32, .first_leaf = 1, .last_leaf = 3, .round_rows = ROUND}, 3},
             {"of no leaves", {.examples = 32, .first_leaf = 1, .last_leaf = 1, .round_rows = ROUND}, 1},
             {"below the first leaf", {.examples = 32, .first_leaf = -1, .last_leaf = 1, .round_rows = ROUND}, 2},
             {"beyond the last leaf", {.examples = 32, .first_leaf = 2, .last_leaf = 4, .round_rows = ROUND}, 1},
             {"of a larger round", {.examples = 32, .first_leaf = 1, .last_leaf = 3, .round_rows = 2 * ROUND}, 2},
             {"of no round", {.examples = 32, .first_leaf = 1, .last_leaf = 3}, 2},
             {"of other rows", {.examples = 16, .first_leaf = 1, .last_leaf = 3, .round_rows = ROUND}, 2}};
  one_server t;
  char address[64];
  net_client *clients[PEERS];
  const float ones[4] = {1, 1, 1, 1};
  float got[ELEMENTS];
  start(&t, true, ROUND, address, clients);
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    push_part(clients[1], &bad[i].head, 0, ones, bad[i].nodes);
    if (!(take(clients[1], NULL) & PS_REFUSED)) fail_msg("a part %s was taken", bad[i].what);
  }
  push_part(clients[1], &second_part, 0, ones, 2);
  push_part(clients[0], &first_part, 0, ones, 1);
  for (int i = 0; i < PEERS; i++) {
    assert_int_equal(take(clients[i], got), 0);
    assert_all(got, -3);
  }
  finish(&t, clients);
}

/* In the order of the leaves, also when one that died comes back for its part; f32 forgets a 1 beside 1e8. */
static void parts_are_added_in_their_order(void **state) {
  const float first[] = {1e8f}, second[] = {-1e8f, 1};
  one_server t;
  char address[64];
  net_client *clients[PEERS];
  float got[ELEMENTS];
  start(&t, true, ROUND, address, clients);
  push_part(clients[1], &second_part, 0, second, 2);
  push_part(clients[0], &first_part, 0, first, 1);
  for (int i = 0; i < PEERS; i++) {
    assert_int_equal(take(clients[i], got), 0);
    assert_all(got, -1);
  }
  ps_head one = first_part, other = second_part;
  one.updates = other.updates = 1;
  push_part(clients[0], &one, 1, first, 1);
  net_client_close(clients[1]);
  join(&t, 1, &clients[1]);
  assert_ok(net_send(clients[1], &(net_header){.kind = PS_PULL, .step = 1}, NULL, 0, 5));
  assert_int_equal(take(clients[1], got), 0);
  assert_all(got, -1); /* the round has waited */
  push_part(clients[1], &other, 1, second, 2);
  for (int i = 0; i < PEERS; i++) {
    assert_int_equal(take(clients[i], got), 0);
    assert_all(got, -2);
  }
  finish(&t, clients);
  assert_int_equal(t.served.updates, 2);
  assert_int_equal(t.served.uneven, 0);
}

/* Computed with parameters of two versions: used, but counted. */
static void mixed_versions_are_counted(void **state) {
  const float ones[4] = {1, 1, 1, 1};
  one_server t;
  char address[64];
  net_client *clients[PEERS];
  float got[ELEMENTS];
  start(&t, true, ROUND, address, clients);
  ps_head ahead = second_part;
  ahead.updates = 1;
  push_part(clients[1], &ahead, 0, ones, 2);
  push_part(clients[0], &first_part, 0, ones, 1);
  for (int i = 0; i < PEERS; i++) assert_int_equal(take(clients[i], got), 0);
  finish(&t, clients);
  assert_int_equal(t.served.uneven, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_change_nothing),          cmocka_unit_test(pieces_in_all_modes),
      cmocka_unit_test(bad_pieces_are_refused),         cmocka_unit_test(bad_codes_are_refused),
      cmocka_unit_test(half_a_gradient_is_nothing),     cmocka_unit_test(bad_parts_are_refused),
      cmocka_unit_test(parts_are_added_in_their_order), cmocka_unit_test(mixed_versions_are_counted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
