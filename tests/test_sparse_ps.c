/* Tables of rows on parameter servers: keys on the wire, what servers refuse, and the same learning as one process.
 * Tasks are threads here, over the real transport; tests/cli/test_sparse_ps.py has them as processes. */
#include "train_data.h"

#include "base/mem.h"
#include "dist/sparse_keys.h"
#include "dist/sparse_set.h"
#include "train/optimizer.h"
#include "train/ps.h"

#include <math.h>
#include <pthread.h>

enum { MOST = 4, ROWS = 413, FEATURES = 5000, ROOM = 400, BATCH = 10 };

static uint32_t draw(uint64_t *state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(*state >> 33);
}

/* ---- keys */

/* Sets of all sizes, of gaps from none to the whole space. */
static void keys_come_back(void **state) {
  enum { SIZE = 3000 };
  static int32_t keys[SIZE], back[SIZE];
  static uint8_t bytes[SIZE * 5];
  uint64_t seed = 1;
  for (int round = 0; round < 400; round++) {
    const int32_t base = round % 3 ? 0 : 1000;
    const uint32_t spread = 1u << round % 20;
    int64_t n = 0, most = draw(&seed) % SIZE, key = base + draw(&seed) % spread;
    for (; n < most && key < INT32_MAX; n++) {
      keys[n] = (int32_t)key;
      key += 1 + (draw(&seed) % 8 ? draw(&seed) % spread : 0);
    }
    const size_t length = sparse_keys_encode(keys, n, base, bytes);
    assert_true(length <= sparse_keys_max(n));
    const int64_t limit = n ? keys[n - 1] - base + 1 : 0;
    assert_null(sparse_keys_decode(bytes, length, n, limit, back));
    for (int64_t i = 0; i < n; i++) assert_int_equal(back[i] + base, keys[i]);
    if (!n) continue;
    assert_non_null(sparse_keys_decode(bytes, length, n, limit - 1, back));
    assert_non_null(sparse_keys_decode(bytes, length - 1, n, limit, back));
    assert_non_null(sparse_keys_decode(bytes, length, n + 8, limit + 100, back));
  }
  const int32_t ends[] = {0, INT32_MAX};
  const size_t length = sparse_keys_encode(ends, 2, 0, bytes);
  assert_null(sparse_keys_decode(bytes, length, 2, (int64_t)INT32_MAX + 1, back));
  assert_int_equal(back[1], INT32_MAX);
}

/* Whatever comes: no key beyond the table, each above the one before, nothing read or written beyond its end. */
static void any_bytes_are_safe(void **state) {
  uint64_t seed = 2;
  for (int round = 0; round < 20000; round++) {
    const size_t length = draw(&seed) % 100;
    const int64_t n = draw(&seed) % 60;
    uint8_t *bytes = malloc(length + 1);
    int32_t *keys = malloc((size_t)n * sizeof *keys + 1);
    for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t)(draw(&seed) % (round % 2 ? 256 : 12));
    if (!sparse_keys_decode(bytes, length, n, 1000, keys))
      for (int64_t i = 0; i < n; i++) assert_true(keys[i] >= 0 && keys[i] < 1000 && (!i || keys[i] > keys[i - 1]));
    free(bytes);
    free(keys);
  }
}

static void sets_are_ascending_and_whole(void **state) {
  sparse_set set = {0};
  uint64_t seed = 3;
  for (int round = 0; round < 200; round++) {
    const int64_t entries = draw(&seed) % 4000;
    const uint32_t space = 1 + draw(&seed) % (round % 2 ? 50 : INT32_MAX);
    int32_t *indices = calloc((size_t)entries + 1, sizeof *indices);
    for (int64_t e = 0; e < entries; e++) indices[e] = (int32_t)(draw(&seed) % space);
    assert_ok(sparse_set_make(&set, indices, entries));
    uint8_t *named = calloc((size_t)set.n + 1, 1);
    for (int64_t e = 0; e < entries; e++) {
      assert_true(set.places[e] >= 0 && set.places[e] < set.n);
      assert_int_equal(set.keys[set.places[e]], indices[e]);
      named[set.places[e]] = 1;
    }
    for (int64_t i = 0; i < set.n; i++) assert_true(named[i] && (!i || set.keys[i] > set.keys[i - 1]));
    free(named);
    free(indices);
  }
  sparse_set_fini(&set);
}

/* ---- the same learning */

typedef struct {
  int workers, servers;
  bool sync, bias;
  int64_t cached; /* rows that a worker keeps */
  shoal_compile_options compile;
  shoal_fit_options fit;
  const char *weights; /* where worker 0 saves them */
} job;

typedef struct {
  const job *of;
  const char *const *addresses;
  int index;
  pthread_t thread;
  shoal_status status;
  shoal_model *model;
  shoal_fit_result fit;
  shoal_evaluation test;
  ps_server_result served;
} task;

/* Rows of 0 to 12 features, some of them frequent; the label hangs on whether the even ones prevail. */
static void write_rows(const char *path, int rows, uint64_t seed) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  for (int r = 0; r < rows; r++) {
    int indices[13], n = 0, at = 0, sum = 0;
    const int most = (int)(draw(&seed) % 13);
    while (n < most && at < FEATURES - 2) {
      at += 1 + (int)(draw(&seed) % (n < 6 ? 5 : FEATURES / 5));
      if (at < FEATURES) indices[n++] = at;
    }
    for (int i = 0; i < n; i++) sum += indices[i] % 2 ? -1 : 1;
    fprintf(f, "%d", sum > 0 ? 1 : -1);
    for (int i = 0; i < n; i++) fprintf(f, " %d:%g", indices[i], i % 3 ? 1.0 : 0.25 * (1 + draw(&seed) % 4));
    fputc('\n', f);
  }
  fclose(f);
}

static shoal_model *make_model(const job *j, bool shrunk) {
  shoal_model *m;
  assert_ok(shoal_model_create_sparse(FEATURES, &m));
  shoal_model_sparse_dense(m, 1, j->bias, "sigmoid");
  if (shrunk) model_shrink_table(m, ROOM);
  assert_ok(shoal_model_compile(m, &j->compile));
  return m;
}

static ps_options options_of(const task *t) {
  return (ps_options){
      .terms = {.workers = t->of->workers, .servers = t->of->servers, .sync = t->of->sync, .staleness = -1},
      .task = {.net = {.job = 78}, .deadline = 10},
      .worker = t->index,
      .table = true,
      .cache = {.rows = t->of->cached, .staleness = 3},
      .addresses = t->addresses};
}

static void *run_server(void *context) {
  task *t = context;
  const ps_options o = options_of(t);
  const ps_server_options server = {.index = t->index,
                                    .address = t->addresses[t->index],
                                    .terms = {.workers = o.terms.workers, .servers = o.terms.servers},
                                    .task = o.task};
  t->status = ps_serve(&server, &t->served);
  return NULL;
}

static shoal_status work(task *t, shoal_strategy *s) {
  shoal_fit_options fit = t->of->fit;
  fit.strategy = s;
  if (t->index) fit.checkpoint_dir = NULL;
  if (t->index) fit.resume = false;
  TRY(shoal_model_fit(t->model, NULL, &fit, &t->fit));
  if (t->index == 0) TRY(shoal_model_evaluate_stream(t->model, fit.stream, NULL, NULL, &t->test));
  if (t->index == 0 && t->of->weights) TRY(shoal_model_save(t->model, t->of->weights));
  return ps_strategy_close(s);
}

static void *run_worker(void *context) {
  task *t = context;
  ps_options o = options_of(t);
  shoal_strategy *s = NULL;
  t->status = ps_strategy_create(&o, t->model, &s);
  if (!t->status) t->status = work(t, s);
  strategy_destroy(s);
  return NULL;
}

static void run(const job *j, task *workers) {
  static int runs; /* addresses are used once */
  char names[MOST][64];
  const char *addresses[MOST];
  task servers[MOST];
  runs++;
  for (int i = 0; i < j->servers; i++) {
    snprintf(names[i], sizeof names[i], "shm:/shoal-table-%d-%d-%d", (int)getpid(), runs, i);
    addresses[i] = names[i];
  }
  for (int i = 0; i < j->servers; i++) {
    servers[i] = (task){.of = j, .addresses = addresses, .index = i};
    assert_int_equal(pthread_create(&servers[i].thread, NULL, run_server, &servers[i]), 0);
  }
  for (int i = 0; i < j->workers; i++) {
    workers[i] = (task){.of = j, .addresses = addresses, .index = i, .model = make_model(j, true)};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
  }
  for (int i = 0; i < j->workers; i++) pthread_join(workers[i].thread, NULL);
  for (int i = 0; i < j->servers; i++) pthread_join(servers[i].thread, NULL);
  for (int i = 0; i < j->workers; i++) {
    assert_ok(workers[i].status);
    shoal_model_destroy(workers[i].model);
  }
  for (int i = 0; i < j->servers; i++) {
    assert_ok(servers[i].status);
    free(servers[i].served.workers);
  }
}

static void assert_near(const job *j, const char *a, const char *b, float tolerance) {
  const char *const paths[] = {a, b};
  shoal_model *m[2];
  shoal_tensor w[2];
  for (int i = 0; i < 2; i++) {
    shoal_value **weights;
    int n;
    m[i] = make_model(j, false);
    assert_ok(shoal_model_load(m[i], paths[i]));
    assert_ok(model_weights(m[i], true, &weights, &n));
    assert_int_equal(n, 1 + j->bias);
    assert_ok(shoal_session_variable(m[i]->session, weights[0], &w[i]));
    free(weights);
  }
  float moved = 0;
  for (int64_t k = 0; k < FEATURES; k++) {
    const float x = ((float *)w[0].data)[k], y = ((float *)w[1].data)[k];
    if (!(fabsf(x - y) <= tolerance)) fail_msg("weight %lld: %g, %g", (long long)k, (double)x, (double)y);
    moved = MAX_OF(moved, fabsf(x));
  }
  assert_true(moved > 0.01f);
  for (int i = 0; i < 2; i++) shoal_model_destroy(m[i]);
}

static shoal_compile_options compile_for(const char *optimizer) {
  return (shoal_compile_options){.optimizer = {.name = optimizer, .l1 = !strcmp(optimizer, "ftrl") ? 0.001 : 0},
                                 .schedule = {.name = "staircase", .rate = 0.2, .factor = 0.5, .every = 7},
                                 .threads = 1,
                                 .seed = 1};
}

/* The rows of a file go to the workers in turn, so a step has the same rows as one of a single process with the global
 * batch; at the end of each epoch the shares are uneven. */
static void together_is_as_alone(void **state) {
  static const char *const optimizers[] = {"sgd", "adagrad", "ftrl", "adam"};
  char dir[FILES_PATH], data[FILES_PATH + 16], alone[FILES_PATH + 16], shared[FILES_PATH + 16];
  files_make_folder(dir);
  snprintf(data, sizeof data, "%s/rows.libsvm", dir);
  snprintf(alone, sizeof alone, "%s/alone", dir);
  snprintf(shared, sizeof shared, "%s/shared", dir);
  write_rows(data, ROWS, 7);
  shoal_pipeline_options stream = {.files = data, .features = FEATURES};
  int round = 0;
  for (int workers = 1; workers <= 3; workers++)
    for (int servers = 1; servers <= 2; servers++, round++) {
      job j = {.workers = workers, .servers = servers, .sync = true, .bias = round % 2, .weights = shared};
      j.compile = compile_for(optimizers[round % 4]);
      if (round == 3) j.compile.l2 = 0.01;
      j.fit = (shoal_fit_options){
          .epochs = workers == 3 ? 1 : 2, .batch_size = BATCH, .keep_order = true, .stream = &stream};
      task tasks[MOST];
      run(&j, tasks);
      shoal_model *m = make_model(&j, false);
      shoal_fit_options fit = j.fit;
      fit.batch_size = BATCH * workers;
      shoal_fit_result result;
      shoal_evaluation test;
      assert_ok(shoal_model_fit(m, NULL, &fit, &result));
      assert_ok(shoal_model_evaluate_stream(m, &stream, NULL, NULL, &test));
      assert_ok(shoal_model_save(m, alone));
      shoal_model_destroy(m);
      assert_near(&j, alone, shared, 2e-5f);
      assert_int_equal(tasks[0].fit.updates, result.updates);
      assert_int_equal(tasks[0].fit.examples, result.examples);
      assert_true(fabs(tasks[0].test.loss - test.loss) < 1e-5);
      assert_true(fabs(tasks[0].test.auc - test.auc) < 1e-3);
    }
  files_remove_folder(dir);
}

/* Stopped by --steps and resumed from a checkpoint that was fetched in pieces: the same as in one go. */
static void resuming_continues(void **state) {
  char dir[FILES_PATH], data[FILES_PATH + 16], whole[FILES_PATH + 16], parts[FILES_PATH + 16];
  char saved[FILES_PATH];
  files_make_folder(dir);
  files_make_folder(saved);
  snprintf(data, sizeof data, "%s/rows.libsvm", dir);
  snprintf(whole, sizeof whole, "%s/whole", dir);
  snprintf(parts, sizeof parts, "%s/parts", dir);
  write_rows(data, ROWS, 8);
  shoal_pipeline_options stream = {.files = data, .features = FEATURES, .shuffle_rows = 50};
  job j = {.workers = 2, .servers = 2, .sync = true, .bias = true, .weights = whole};
  j.compile = compile_for("adagrad");
  j.fit = (shoal_fit_options){.epochs = 3, .batch_size = BATCH, .stream = &stream};
  task tasks[MOST];
  run(&j, tasks);
  const int64_t steps = tasks[0].fit.steps;
  j.weights = parts;
  j.fit.checkpoint_dir = saved;
  j.fit.steps = 25;
  run(&j, tasks);
  assert_int_equal(tasks[0].fit.steps, 25);
  j.fit.steps = 0;
  j.fit.resume = true;
  run(&j, tasks);
  assert_int_equal(tasks[0].fit.resumed_from, 25);
  assert_int_equal(tasks[0].fit.steps, steps);
  assert_int_equal(tasks[0].fit.examples, 3 * ROWS);
  assert_near(&j, whole, parts, 0); /* bit by bit */
  files_remove_folder(dir);
  files_remove_folder(saved);
}

/* Shares of very different length: a file for each worker. */
static void apart_learns(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 16];
  files_make_folder(dir);
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%d.libsvm", dir, i);
    write_rows(path, i ? 37 * i : 3000, 9 + (uint64_t)i);
  }
  shoal_pipeline_options stream = {.files = dir, .format = "libsvm", .features = FEATURES};
  for (int round = 0; round < 3; round++) { /* async, sync, and async with hot rows that are kept */
    job j = {.workers = 3, .servers = 2, .sync = round == 1, .cached = round == 2 ? 16 : 0};
    j.compile = compile_for("adagrad");
    j.compile.schedule = (shoal_schedule){.rate = 0.3};
    j.fit = (shoal_fit_options){.epochs = 3, .batch_size = BATCH, .stream = &stream};
    task tasks[MOST];
    run(&j, tasks);
    int64_t rows = 0;
    for (int i = 0; i < 3; i++) rows += tasks[i].fit.worker_examples;
    assert_int_equal(rows, 3 * (3000 + 37 + 74)); /* each row once an epoch */
    assert_int_equal(tasks[0].fit.examples, rows);
    if (!(tasks[0].test.accuracy > 0.85)) fail_msg("accuracy %g", tasks[0].test.accuracy);
  }
  files_remove_folder(dir);
}

/* ---- what a server refuses */

static shoal_status build_sgd(const ps_terms *terms, shoal_graph *g, shoal_value *variable,
                              const shoal_gradient *gradient, shoal_value *rate, shoal_value **update) {
  return optimizer_apply_rows(g, &(shoal_optimizer_options){.name = "sgd"}, variable, gradient,
                              (optimizer_plain_rows){0}, rate, update);
}

static double rate_one(const ps_terms *terms, int64_t update) { return 1; }

/* One server for messages made by hand. `of`: workers, and whether their mode is sync. */
static void *serve(void *context) {
  task *t = context;
  ps_server_options o = {.index = t->index,
                         .address = t->addresses[0],
                         .terms = {.workers = t->of->workers, .servers = 1},
                         .task = {.net = {.job = 79}, .deadline = 10, .returns = true},
                         .build = build_sgd,
                         .rate_at = rate_one};
  t->status = ps_server_run(&o, &t->served);
  return NULL;
}

static void begin_serving(task *t, const job *j, int index, char address[64], const char **addresses) {
  static int runs;
  snprintf(address, 64, "shm:/shoal-by-hand-%d-%d", (int)getpid(), runs++);
  *addresses = address;
  *t = (task){.of = j, .index = index, .addresses = addresses};
  assert_int_equal(pthread_create(&t->thread, NULL, serve, t), 0);
}

static void end_serving(task *t, int64_t updates) {
  pthread_join(t->thread, NULL);
  assert_ok(t->status);
  assert_int_equal(t->served.updates, updates);
  free(t->served.workers);
}

/* Sends a message and takes the answer; *values: what follows its head. */
static uint16_t ask(net_client *c, net_header h, const net_part *parts, int n, float *values) {
  net_message m;
  assert_ok(net_send(c, &h, parts, n, 5));
  assert_ok(net_await(c, 5, &m));
  const uint16_t flags = m.header.flags;
  if (values && !(flags & PS_REFUSED)) memcpy(values, m.payload + sizeof(ps_head), m.bytes - sizeof(ps_head));
  net_release_client(c, &m);
  return flags;
}

/* The same with marks before the keys. */
static uint16_t send_marked(net_client *c, net_header h, ps_head head, const float *gradients, uint8_t marks,
                            const int32_t *keys, float *values) {
  uint8_t code[64], bits[16] = {marks};
  const size_t bytes = head.keys > 0 ? sparse_keys_encode(keys, head.keys, 0, code) : 0;
  net_part parts[] = {{&head, sizeof head},
                      {gradients, (size_t)head.gradients * sizeof *gradients},
                      {bits, ps_marks_bytes(head.marked)},
                      {code, bytes}};
  return ask(c, h, parts, 4, values);
}

/* head.keys: of `keys`; cut: bytes left out at the end. */
static uint16_t send_keys(net_client *c, net_header h, ps_head head, const float *gradients, const int32_t *keys,
                          size_t cut, float *values) {
  uint8_t code[4096];
  size_t bytes = head.keys > 0 && keys ? sparse_keys_encode(keys, head.keys, 0, code) - cut : 0;
  net_part parts[] = {{&head, sizeof head}, {gradients, (size_t)head.gradients * sizeof *gradients}, {code, bytes}};
  return ask(c, h, parts, 3, values);
}

/* Connects as that worker. */
static net_client *come(const char *address, const job *j, int worker) {
  const ps_terms terms = {.workers = j->workers,
                          .servers = 1,
                          .sync = j->sync,
                          .staleness = -1,
                          .in_flight = 1,
                          .elements = 1000,
                          .touched = 50,
                          .width = 1,
                          .columns = {{.width = 1}},
                          .tables = 1,
                          .optimizer = {.name = "sgd"},
                          .schedule = {.name = "constant", .rate = 1}};
  net_client *c;
  net_options net = {.largest = ps_largest(&terms), .job = 79, .from = (uint32_t)worker};
  text words = {0};
  assert_ok(ps_terms_write(&terms, &words));
  net_part hello = {words.data, words.length};
  assert_ok(net_connect(address, &net, 5, &c));
  uint16_t flags = ask(c, (net_header){.kind = PS_HELLO, .from = (uint32_t)worker}, &hello, 1, NULL);
  assert_int_equal(flags & ~PS_UNDER_WAY, 0);
  text_fini(&words);
  return c;
}

static void bad_messages_are_refused(void **state) {
  char address[64];
  const char *addresses;
  const job j = {.workers = 1};
  task t;
  begin_serving(&t, &j, 0, address, &addresses);
  net_client *c = come(address, &j, 0);
  float got[64];
  ps_start start = {.batch = 1, .end_step = 100};
  net_part plan = {&start, sizeof start};
  assert_int_equal(ask(c, (net_header){.kind = PS_START, .generation = 1}, &plan, 1, NULL), 0);
  const net_header rows = {.kind = PS_ROWS, .number = 1}, push = {.kind = PS_PUSH, .number = 2};
  const int32_t good[] = {3, 4, 999}, beyond[] = {3, 4, 1000};
  const float gradients[] = {1, 2, 3, 4};
  const ps_head three = {.keys = 3}, full = {.keys = 3, .gradients = 3, .examples = 2};
  int32_t many[60];
  for (int i = 0; i < 60; i++) many[i] = i;
  assert_true(send_keys(c, rows, three, NULL, beyond, 0, NULL) & PS_REFUSED);
  assert_true(send_keys(c, rows, three, NULL, good, 1, NULL) & PS_REFUSED);
  assert_true(send_keys(c, rows, (ps_head){.keys = 60}, NULL, many, 0, NULL) & PS_REFUSED);
  assert_true(send_keys(c, rows, (ps_head){.keys = -7}, NULL, NULL, 0, NULL) & PS_REFUSED);
  assert_true(send_keys(c, push, full, gradients, good, 0, NULL) & PS_REFUSED); /* of rows never asked for */
  assert_int_equal(send_keys(c, rows, three, NULL, good, 0, got), 0);
  assert_true(send_keys(c, push, (ps_head){.keys = 3}, NULL, good, 0, NULL) & PS_REFUSED);
  assert_true(send_keys(c, push, (ps_head){.keys = 3, .gradients = 4}, gradients, good, 0, NULL) & PS_REFUSED);
  assert_true(send_keys(c, push, full, gradients, beyond, 0, NULL) & PS_REFUSED);
  const ps_piece pieces[] = {{.which = 0, .first = 990, .count = 11},
                             {.which = 1, .count = 1},
                             {.which = 0, .count = -1},
                             {.which = 0, .first = -1, .count = 2},
                             {.count = PS_PIECE_MAX + 1}};
  for (size_t i = 0; i < COUNT_OF(pieces); i++) {
    net_part part = {&pieces[i], sizeof pieces[i]};
    assert_true(ask(c, (net_header){.kind = PS_READ}, &part, 1, NULL) & PS_REFUSED);
  }
  /* None of them has changed anything; then the same set once more, without its keys. */
  assert_int_equal(send_keys(c, push, full, gradients, good, 0, got), 0);
  for (int i = 0; i < 3; i++) assert_true(got[i] == -gradients[i]);
  ps_head same = full;
  same.keys = PS_SAME;
  same.gradients = 3;
  assert_int_equal(send_keys(c, push, same, gradients, NULL, 0, got), 0); /* of the same batch once more: not used */
  for (int i = 0; i < 3; i++) assert_true(got[i] == -gradients[i]);
  same.batch = 2;
  assert_true(send_keys(c, push, same, gradients, NULL, 0, NULL) & PS_REFUSED); /* of one that is to come */
  same.shard = 1;
  assert_true(send_keys(c, push, same, gradients, NULL, 0, NULL) & PS_REFUSED); /* of a shard that there is not */
  same.shard = -1;
  assert_true(send_keys(c, push, same, gradients, NULL, 0, NULL) & PS_REFUSED); /* of none */
  same.shard = 0;
  same.batch = 1;
  assert_int_equal(send_keys(c, push, same, gradients, NULL, 0, got), 0);
  for (int i = 0; i < 3; i++) assert_true(got[i] == -2 * gradients[i]);
  /* Rows with a mark are not sent, and are trained like the others. */
  ps_head marked = full;
  marked.batch = 2;
  const int bad[] = {-1, 4, 8, 51};
  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    marked.marked = bad[i];
    assert_true(send_marked(c, push, marked, gradients, 0, good, NULL) & PS_REFUSED);
  }
  marked.marked = 2;
  got[1] = 0;
  assert_int_equal(send_marked(c, push, marked, gradients, 1, good, got), 0);
  assert_true(got[0] == -3 * gradients[1] && got[1] == -3 * gradients[2]);
  marked.batch = 3;
  marked.keys = PS_SAME;
  marked.marked = 3;
  assert_int_equal(send_marked(c, push, marked, gradients, 6, NULL, got), 0);
  assert_true(got[0] == -4 * gradients[0]);
  assert_int_equal(ask(c, (net_header){.kind = PS_DONE}, NULL, 0, NULL), 0);
  assert_int_equal(ask(c, (net_header){.kind = PS_QUIT}, NULL, 0, NULL), 0);
  net_client_close(c);
  end_serving(&t, 4);
}

/* ---- shards by hand */

/* What the leader says to do next. */
typedef struct {
  uint16_t flags;
  int64_t shard, index, epochs, updates, running;
  char words[2000]; /* behind the head, or the whole of FIND's */
} order;

static order await_order(net_client *c) {
  net_message m;
  order o = {0};
  ps_head head = {0};
  assert_ok(net_await(c, 5, &m));
  if (m.header.flags & PS_REFUSED) fail_msg("refused: %.*s", (int)m.bytes, (const char *)m.payload);
  size_t skip = m.header.kind == PS_FIND ? 0 : sizeof head;
  if (skip) memcpy(&head, m.payload, sizeof head);
  o = (order){m.header.flags, (int64_t)m.header.number, head.index, head.epochs, head.updates, head.running, ""};
  memcpy(o.words, m.payload + skip, MIN_OF(m.bytes - skip, sizeof o.words - 1));
  net_release_client(c, &m);
  return o;
}

static void send(net_client *c, net_header h, const void *payload, size_t bytes) {
  net_part part = {payload, bytes};
  assert_ok(net_send(c, &h, &part, bytes ? 1 : 0, 5));
}

static order say(net_client *c, int worker, int kind, int64_t number, const void *payload, size_t bytes) {
  send(c, (net_header){.kind = (uint16_t)kind, .from = (uint32_t)worker, .number = (uint64_t)number}, payload, bytes);
  return await_order(c);
}

/* A batch of two rows that touches row 7 of the table, gradient 1; rows 0: an empty one. */
static void send_batch(net_client *c, int worker, int64_t shard, int64_t batch, int64_t epochs, int rows,
                       int64_t step) {
  const int32_t key = 7;
  const float gradient = 1;
  uint8_t code[16];
  ps_head head = {
      .examples = rows, .gradients = rows > 0, .keys = 1, .shard = shard, .batch = batch, .shard_epochs = epochs};
  net_header h = {.kind = PS_PUSH, .from = (uint32_t)worker, .number = (uint64_t)rows, .step = (uint64_t)step};
  net_part parts[] = {
      {&head, sizeof head}, {&gradient, rows ? sizeof gradient : 0}, {code, sparse_keys_encode(&key, 1, 0, code)}};
  assert_ok(net_send(c, &h, parts, 3, 5));
}

static order push_batch(net_client *c, int worker, int64_t shard, int64_t batch, int64_t epochs, int rows) {
  send_batch(c, worker, shard, batch, epochs, rows, 0);
  return await_order(c);
}

static void ask_for_seven(net_client *c, int worker) {
  const int32_t key = 7;
  uint8_t code[16];
  ps_head head = {.keys = 1};
  net_header h = {.kind = PS_ROWS, .number = 1, .from = (uint32_t)worker};
  net_part parts[] = {{&head, sizeof head}, {code, sparse_keys_encode(&key, 1, 0, code)}};
  assert_int_equal(ask(c, h, parts, 2, NULL), 0);
}

static void assert_order(order o, int flags, int64_t shard, int64_t index, int64_t epochs) {
  assert_int_equal(o.flags, flags);
  assert_int_equal(o.shard, shard);
  assert_int_equal(o.index, index);
  assert_int_equal(o.epochs, epochs);
}

/* Apart: who dies leaves its shard where it stood; who has none waits; nothing changes while worker 0 saves. */
static void shards_are_handed_on(void **state) {
  char address[64];
  const char *addresses;
  const job j = {.workers = 2};
  task t;
  begin_serving(&t, &j, 0, address, &addresses);
  net_client *c = come(address, &j, 0), *d = come(address, &j, 1);
  const ps_start start = {.batch = 2, .end = 1, .end_step = 1000};
  send(d, (net_header){.kind = PS_PULL, .from = 1}, NULL, 0);
  send(c, (net_header){.kind = PS_START, .generation = 1}, &start, sizeof start);
  assert_order(await_order(c), 0, 0, 0, 0);
  assert_order(await_order(d), 0, 1, 0, 0);
  ask_for_seven(c, 0);
  ask_for_seven(d, 1);
  send(d, (net_header){.kind = PS_MARK, .from = 1, .number = 1, .step = 1}, "here", 4);
  assert_order(push_batch(d, 1, 1, 0, 0, 2), 0, 1, 1, 0);
  send(d, (net_header){.kind = PS_MARK, .from = 1, .number = 1, .step = 2}, "there", 5);
  net_client_close(d); /* batch 1 is under way */
  assert_order(push_batch(c, 0, 0, 0, 0, 2), 0, 0, 1, 0);
  order next = push_batch(c, 0, 0, 1, 1, 2); /* its own shard is at the end: goes on with the other */
  if (next.flags & PS_IDLE) next = say(c, 0, PS_PULL, 0, NULL, 0); /* the server may not have seen yet that d is gone */
  assert_order(next, 0, 1, 1, 0);
  ask_for_seven(c, 0); /* the rows of its first batch */
  send(c, (net_header){.kind = PS_FIND, .number = 1, .step = 1}, NULL, 0);
  order found = await_order(c);
  assert_int_equal(found.shard, 1);
  assert_string_equal(found.words, "here");
  d = come(address, &j, 1);
  assert_order(say(d, 1, PS_PULL, 0, NULL, 0), PS_IDLE, PS_NO_BATCH, 0, 0); /* nothing is free */
  assert_order(push_batch(c, 0, 1, 1, 0, 2), 0, 1, 2, 0);
  order held = say(c, 0, PS_HOLD, 0, NULL, 0);
  assert_string_equal(held.words, "done=2 epochs=1 mark=0 \ndone=2 epochs=0 mark=1 here\n");
  assert_int_equal(held.updates, 4);
  send(d, (net_header){.kind = PS_PULL, .from = 1}, NULL, 0);
  assert_order(push_batch(c, 0, 1, 2, 1, 0), 0, PS_END, 0, 1); /* no row was left */
  assert_order(await_order(d), 0, PS_END, 0, 1);
  for (int w = 1; w >= 0; w--) say(w ? d : c, w, PS_DONE, 0, NULL, 0);
  say(c, 0, PS_QUIT, 0, NULL, 0);
  net_client_close(c);
  net_client_close(d);
  end_serving(&t, 4);
  assert_int_equal(t.served.handed_on, 2);
}

/* A server that hands out nothing: what it has had from one worker it does not take from another. It says what it lacks
 * of a worker that died. */
static void no_batch_is_used_twice(void **state) {
  char address[64];
  const char *addresses;
  const job j = {.workers = 2, .sync = true};
  task t;
  begin_serving(&t, &j, 1, address, &addresses);
  net_client *c = come(address, &j, 0), *d = come(address, &j, 1);
  const ps_start start = {.batch = 2, .end = 9, .end_step = 1000};
  send(c, (net_header){.kind = PS_START, .generation = 1}, &start, sizeof start);
  await_order(c);
  say(d, 1, PS_PULL, 0, NULL, 0);
  ask_for_seven(c, 0);
  ask_for_seven(d, 1);
  send_batch(d, 1, 1, 0, 0, 2, 0); /* held until worker 0 brings its own */
  send_batch(c, 0, 0, 0, 0, 2, 0);
  assert_int_equal(await_order(c).updates, 1);
  send_batch(d, 1, 1, 1, 0, 2, 1);
  net_client_close(d);
  while (say(c, 0, PS_HOLD, 0, NULL, 0).running > 1) {} /* until the server knows */
  send_batch(c, 0, 0, 1, 0, 2, 1);
  assert_int_equal(await_order(c).updates, 2);
  order held = say(c, 0, PS_HOLD, 0, NULL, 0);
  assert_string_equal(held.words, "done=2 epochs=0 mark=0 \ndone=1 epochs=0 mark=0 \n");
  send_batch(c, 0, 1, 0, 0, 2, 2); /* it has had that one */
  assert_int_equal(await_order(c).updates, 2);
  send_batch(c, 0, 1, 1, 0, 2, 2); /* but not this one */
  assert_int_equal(await_order(c).updates, 3);
  say(c, 0, PS_DONE, 0, NULL, 0);
  say(c, 0, PS_QUIT, 0, NULL, 0);
  net_client_close(c);
  end_serving(&t, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_come_back),
      cmocka_unit_test(any_bytes_are_safe),
      cmocka_unit_test(sets_are_ascending_and_whole),
      cmocka_unit_test(together_is_as_alone),
      cmocka_unit_test(resuming_continues),
      cmocka_unit_test(apart_learns),
      cmocka_unit_test(bad_messages_are_refused),
      cmocka_unit_test(shards_are_handed_on),
      cmocka_unit_test(no_batch_is_used_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
