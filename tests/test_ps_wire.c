/* Fewer bytes between workers and servers: formats of gradients and parameters, which leave out nothing for good, and
 * steps that workers make by themselves. Tasks are threads here, over the real transport. */
#include "ps_tasks.h"

#include "train/ps_advice.h"

enum { EPOCHS = 8 };

static job job_of(int workers, int servers, bool sync, const char *wire) {
  return (job){.workers = workers,
               .servers = servers,
               .sync = sync,
               .staleness = -1,
               .in_flight = 1,
               .wire = wire,
               .compile = compile_for("sgd"),
               .fit = {.epochs = EPOCHS, .batch_size = 20}};
}

static double accuracy(task *worker) {
  shoal_evaluation e;
  assert_ok(shoal_model_evaluate(worker->model, worker->data, &e));
  return e.accuracy;
}

static void assert_all_rows(const job *j, const task *server, int64_t epochs) {
  int64_t examples = 0;
  for (int w = 0; w < j->workers; w++) examples += server->served.workers[w].examples;
  assert_int_equal(examples, epochs * ROWS);
}

/* ---- formats */

static const char *const formats[] = {"f32", "bf16", "fp16", "int8", "topk"};

/* Bytes that a worker sends in so many gradients, and is sent, where the first parameters come whole. */
static double predicted(const job *j, const wire_format *f, int64_t elements, int64_t gradients) {
  return (double)gradients * (double)((int64_t)j->servers * (int64_t)(sizeof(ps_head) + 64) + f->bytes(elements));
}

/* As good as f32, with the bytes that the format promises; all workers of a sync step end with the same. */
static void formats_learn_alike(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int sync = 0; sync < 2; sync++)
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
      const int64_t elements = 40 + 4112 + 68;
      job j = job_of(3, 1 + (int)i % 2, sync, formats[i]);
      task workers[MOST], servers[MOST];
      j.compile.schedule = (shoal_schedule){.name = "constant", .rate = 0.1};
      run(&j, &data, workers, servers);
      assert_all_rows(&j, &servers[0], EPOCHS);
      const double got = accuracy(&workers[0]);
      if (got < 0.97) fail_msg("%s, %s: %.3f right", formats[i], sync ? "sync" : "async", got);
      for (int w = 1; sync && w < 3; w++) assert_same_bits(workers[0].model, workers[w].model);
      const int64_t steps = workers[0].fit.worker_steps;
      const double sent = predicted(&j, wire_format_find(formats[i]), elements, steps), whole = 4.0 * (double)elements;
      assert_true((double)workers[0].net.sent_bytes < 1.05 * sent + 2 * whole + 4096);     /* it uploads once */
      assert_true((double)workers[0].net.received_bytes < 1.05 * sent + 3 * whole + 4096); /* and gathers in the end */
      run_fini(&j, workers, servers);
    }
  data_free(&data);
}

static void formats_in_all_modes(void **state) {
  static const struct {
    bool sync;
    int64_t staleness;
    int backups, in_flight, pieces;
  } modes[] = {{true, -1, 1, 1, -1}, {true, -1, 0, 1, 1},  {false, -1, 0, 1, 1},
               {false, -1, 0, 2, 1}, {false, 1, 0, 2, -1}, {false, 0, 0, 1, -1}};
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (size_t m = 0; m < COUNT_OF(modes); m++)
    for (size_t i = 1; i < COUNT_OF(formats); i++) {
      job j = job_of(3, 2, modes[m].sync, formats[i]);
      j.staleness = modes[m].staleness;
      j.backups = modes[m].backups;
      j.in_flight = modes[m].in_flight;
      j.pieces = modes[m].pieces;
      j.width = modes[m].pieces > 0 ? 300 : 0; /* more than is sent at a time */
      j.block = m == 1 ? 5000 : 0;
      j.fit.epochs = 2;
      task workers[MOST], servers[MOST];
      run(&j, &data, workers, servers);
      assert_all_rows(&j, &servers[0], 2);
      assert_int_equal(servers[1].served.updates, servers[0].served.updates);
      for (int w = 1; modes[m].sync && !modes[m].backups && w < 3; w++)
        assert_same_bits(workers[0].model, workers[w].model);
      run_fini(&j, workers, servers);
    }
  data_free(&data);
}

/* A stop in the middle and a checkpoint leave exact parameters: those of the servers, not a worker's. */
static void stopped_runs_end_alike(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  job j = job_of(2, 1, true, "topk");
  j.stop_after = 9;
  task workers[MOST], servers[MOST];
  run(&j, &data, workers, servers);
  assert_true(servers[0].served.stopped);
  assert_same_bits(workers[0].model, workers[1].model);
  run_fini(&j, workers, servers);
  data_free(&data);
}

/* ---- what one client and one server say */

enum { ELEMENTS = 5000 };

static shoal_status build_sgd(const ps_terms *t, shoal_graph *g, shoal_value *variable, const shoal_gradient *gradient,
                              shoal_value *rate, shoal_value **update) {
  *update = shoal_assign_add(g, variable, shoal_scale(g, gradient->value, -1));
  return shoal_graph_status(g);
}

static double rate_one(const ps_terms *terms, int64_t update) { return 1; }

typedef struct {
  char address[64];
  bool sync;
  pthread_t thread;
  shoal_status status;
  ps_server_result served;
  ps_client *client;
  placement place;
  float gradient[ELEMENTS], parameters[ELEMENTS];
  double given[ELEMENTS];
} pair;

static void *serve(void *context) {
  pair *p = context;
  const ps_server_options o = {.address = p->address,
                               .terms = {.workers = 1, .servers = 1},
                               .task = {.net = {.job = 81}, .deadline = 10},
                               .build = build_sgd,
                               .rate_at = rate_one};
  p->status = ps_server_run(&o, &p->served);
  return NULL;
}

static void pair_start(pair *p, bool sync) {
  static int runs;
  const int64_t counts[] = {ELEMENTS};
  memset(p, 0, sizeof *p);
  snprintf(p->address, sizeof p->address, "shm:/shoal-wire-%d-%d", (int)getpid(), runs++);
  assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
  assert_ok(placement_make(counts, 1, 1, &p->place));
  static const char *addresses[1];
  addresses[0] = p->address;
  const ps_client_options o = {.terms = {.workers = 1,
                                         .servers = 1,
                                         .sync = sync,
                                         .staleness = -1,
                                         .in_flight = 1,
                                         .optimizer = {.name = "sgd"},
                                         .schedule = {.name = "constant", .rate = 1}},
                               .task = {.net = {.job = 81}, .deadline = 10},
                               .addresses = addresses,
                               .place = &p->place,
                               .variables = 1,
                               .trained = 1};
  bool under_way;
  ps_answer answer = {0};
  const ps_start plan = {.batch = 1, .rows = 1000, .end = 1000, .end_step = 1000};
  float *const values[] = {p->parameters};
  assert_ok(ps_client_create(&o, &p->client));
  assert_ok(ps_client_connect(p->client, &under_way));
  assert_ok(ps_client_set(p->client, 0, values));
  assert_ok(ps_client_start(p->client, 0, &plan, NULL, &answer));
}

static void pair_end(pair *p) {
  assert_ok(ps_client_quit(p->client));
  ps_client_destroy(p->client);
  placement_fini(&p->place);
  pthread_join(p->thread, NULL);
  assert_ok(p->status);
  free(p->served.workers);
}

static void pair_push(pair *p, int step) {
  ps_answer answer = {0};
  ps_head head = {.examples = 1};
  float *const gradients[] = {p->gradient}, *const parameters[] = {p->parameters};
  for (int i = 0; i < ELEMENTS; i++) {
    p->gradient[i] = (float)((i * 7 + step * 13) % 101 - 50) * (i % 97 ? 1e-3F : 1);
    p->given[i] += p->gradient[i];
  }
  assert_ok(ps_client_push(p->client, gradients, parameters, &head, &answer));
  assert_int_equal(answer.head.updates, step + 1);
}

/* The largest distance between the worker's parameters, or the server's, and what all gradients come to. */
static double pair_distance(pair *p, bool server) {
  float exact[ELEMENTS];
  ps_head head;
  float *const values[] = {exact};
  if (server) assert_ok(ps_client_get(p->client, 0, values, &head));
  double most = 0;
  for (int i = 0; i < ELEMENTS; i++) most = fmax(most, fabs((double)(server ? exact : p->parameters)[i] + p->given[i]));
  return most;
}

/* Once f32 follows, nothing is missing: neither of the gradients nor of the parameters. */
static void nothing_is_lost(void **state) {
  static const double bounds[] = {0, 2, 0.1, 0.5, 60}; /* while the format is used: of sums of about 20 */
  for (int sync = 0; sync < 2; sync++)
    for (size_t i = 1; i < COUNT_OF(formats); i++) {
      pair p;
      int step = 0;
      pair_start(&p, sync);
      assert_ok(ps_client_use_wire(p.client, wire_format_find(formats[i])));
      while (step < 40) pair_push(&p, step++);
      if (pair_distance(&p, false) > bounds[i]) fail_msg("%s: off by %g", formats[i], pair_distance(&p, false));
      if (i == 4) assert_true(pair_distance(&p, false) > 0); /* it has left something out */
      assert_ok(ps_client_use_wire(p.client, NULL));
      pair_push(&p, step++);
      if (wire_format_find(formats[i])->feedback) { /* bf16 rounds, and that is that */
        assert_true(pair_distance(&p, true) < 1e-3);
        assert_true(pair_distance(&p, false) < 1e-3);
      }
      /* Another format goes on with what is there; parameters that were fetched are what it adds to. */
      assert_ok(ps_client_use_wire(p.client, wire_format_find("int8")));
      pair_push(&p, step++);
      ps_head head;
      float *const values[] = {p.parameters};
      assert_ok(ps_client_get(p.client, 0, values, &head));
      while (step < 60) pair_push(&p, step++);
      float exact[ELEMENTS], *const into[] = {exact};
      assert_ok(ps_client_get(p.client, 0, into, &head));
      for (int k = 0; k < ELEMENTS; k++) assert_true(fabsf(exact[k] - p.parameters[k]) < 0.5F);
      pair_end(&p);
    }
}

/* ---- local steps */

/* One worker that averages with nobody goes as far as a process alone. */
static void one_worker_learns_as_if_alone(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int sync = 0; sync < 2; sync++) {
    job j = job_of(1, 1 + sync, sync, NULL);
    j.local_steps = 4;
    j.compile = compile_for("adam");
    j.fit.epochs = 2;
    task workers[MOST], servers[MOST];
    shoal_model *alone;
    run(&j, &data, workers, servers);
    assert_int_equal(servers[0].served.updates, 2 * 6); /* 410 rows: 5 times 80, and 10 */
    assert_all_rows(&j, &servers[0], 2);
    model_make(&j.compile, &alone);
    shoal_fit_result result;
    assert_ok(shoal_model_fit(alone, &data, &j.fit, &result));
    assert_int_equal(result.steps, 2 * 21);
    shoal_evaluation one, other;
    assert_ok(shoal_model_evaluate(alone, &data, &one));
    assert_ok(shoal_model_evaluate(workers[0].model, &data, &other));
    assert_true(fabs(one.loss - other.loss) < 1e-5);
    shoal_model_destroy(alone);
    run_fini(&j, workers, servers);
  }
  data_free(&data);
}

static void local_steps_learn(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int i = 0; i < 8; i++) {
    job j = job_of(3, 1 + i % 2, i & 1, i & 4 ? "int8" : NULL);
    j.local_steps = 4;
    j.outer_momentum = i & 2 ? 0.6 : 0;
    j.compile.schedule = (shoal_schedule){.name = "constant", .rate = 0.1};
    task workers[MOST], servers[MOST];
    run(&j, &data, workers, servers);
    assert_all_rows(&j, &servers[0], EPOCHS);
    if (accuracy(&workers[0]) < 0.95) fail_msg("way %d: %.3f right", i, accuracy(&workers[0]));
    for (int w = 1; j.sync && w < 3; w++) assert_same_bits(workers[0].model, workers[w].model);
    run_fini(&j, workers, servers);
  }
  data_free(&data);
}

/* ---- advice */

/* Steps of so many milliseconds, of which messages take a part that shrinks as they do; *say: the line. */
static const char *advise(int64_t elements, double computing, double messages, double kept, text *say) {
  ps_advice *a;
  const wire_format *f = NULL;
  assert_ok(ps_advice_create(elements, 1, &a));
  for (int step = 0; step < 20; step++) {
    const double waiting = messages * (f ? kept : 1);
    const ps_advice_step took = {.examples = 1, .seconds = computing + waiting, .waiting = waiting};
    f = ps_advice_take(a, &took, say);
  }
  ps_advice_destroy(a);
  return f ? f->name : "f32";
}

static void advice_holds(void **state) {
  text say = {0};
  assert_string_equal(advise(100000, 0.001, 0.02, 0.03, &say), "topk"); /* messages are what a step takes */
  assert_non_null(strstr(say.data, "compress auto: topk, "));
  text_fini(&say);
  assert_string_equal(advise(100000, 0.02, 0.0002, 0.03, &say), "f32"); /* there is nothing to gain */
  assert_non_null(strstr(say.data, "no format would pay"));
  text_fini(&say);
  assert_string_equal(advise(100000, 0.001, 0.02, 1, &say), "f32"); /* it was not the bytes */
  assert_non_null(strstr(say.data, "compress auto: f32, "));
  assert_non_null(strstr(say.data, "since topk took"));
  text_fini(&say);
  assert_string_equal(advise(200000000, 0, 0.01, 0.03, &say), "f32"); /* encoding takes longer than sending */
  text_fini(&say);
}

static void advised_runs_end(void **state) {
  shoal_dataset data;
  data_make_corners(ROWS, 1, &data);
  for (int sync = 0; sync < 2; sync++) {
    job j = job_of(2, 1, sync, NULL);
    j.advised = true;
    task workers[MOST], servers[MOST];
    run(&j, &data, workers, servers);
    assert_all_rows(&j, &servers[0], EPOCHS);
    run_fini(&j, workers, servers);
  }
  data_free(&data);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(formats_learn_alike),
                                     cmocka_unit_test(formats_in_all_modes),
                                     cmocka_unit_test(stopped_runs_end_alike),
                                     cmocka_unit_test(nothing_is_lost),
                                     cmocka_unit_test(one_worker_learns_as_if_alone),
                                     cmocka_unit_test(local_steps_learn),
                                     cmocka_unit_test(advice_holds),
                                     cmocka_unit_test(advised_runs_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
