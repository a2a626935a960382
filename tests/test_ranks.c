/* All-reduce between real ranks: mpirun starts this program several times, or it does so itself. */
#include "base/mem.h"
#include "dist/collective.h"
#include "dist/rank_place.h"
#include "graph/graph.h"
#include "train/compress.h"
#include "train/mirrored.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "batch_norm_case.h"

static collective_place place;

static void ignore(void *context, int rank) {}

/* What rank r has for number i in a step. */
static float number(int rank, int part, int64_t i, int step) {
  return (float)((i * 7 + rank * 13 + part * 5 + step) % 101) / 8;
}

/* Several buckets: small ones together, one that is cut in two; pieces and sums travel; steps of two kinds. */
static void add_up(const char *wire) {
  const bool rounded = strcmp(wire, "f32") != 0;
  const int64_t counts[] = {900000, 10, 300000, 17};
  const int64_t all = 900000 + 10 + 300000 + 17;
  /* Leaves: the ranks' shares give them up to two nodes each. */
  collective_options options = {.counts = counts,
                                .tensors = 4,
                                .leaves = {2 * place.ranks + 1, 2},
                                .wire = wire_format_find(wire),
                                .patience = 20,
                                .on_peer_exit = ignore};
  collective *c;
  assert_ok(collective_create(&place, &options, &c));
  collective_head heads[16];
  for (int step = 0; step < 4; step++) {
    int64_t leaves = options.leaves[step % 2];
    tree_node nodes[TREE_NODES_MAX];
    int have[16];
    for (int r = 0; r < place.ranks; r++) {
      int64_t first, last;
      tree_share(leaves, r, place.ranks, &first, &last);
      have[r] = tree_nodes(first, last, nodes);
    }
    assert_true(have[place.rank] <= collective_parts(c));
    assert_ok(collective_begin(c, leaves));
    for (int t = 3; t >= 0; t--) {
      int64_t from = 0;
      for (int k = 0; k < t; k++) from += counts[k];
      for (int k = 0; k < have[place.rank]; k++)
        for (int64_t i = from; i < from + counts[t]; i++) collective_part(c, k)[i] = number(place.rank, k, i, step);
      assert_ok(collective_ready(c, t));
      assert_ok(collective_move(c));
    }
    assert_ok(collective_finish(c, &(collective_head){.examples = place.rank + 1, .stop = step == 3}, heads));
    for (int r = 0; r < place.ranks; r++) {
      assert_int_equal(heads[r].examples, r + 1);
      assert_int_equal(heads[r].stop, step == 3);
    }
    for (int64_t i = 0; i < all; i += 97) {
      float expected = 0;
      for (int r = 0; r < place.ranks; r++)
        for (int k = 0; k < have[r]; k++) expected += number(r, k, i, step);
      float got = collective_part(c, 0)[i];
      if (fabsf(got - expected) > (rounded ? expected / 64 + (strcmp(wire, "int8") ? 0 : 1.5F) : 0))
        fail_msg("%lld: %g, not %g", (long long)i, got, expected);
    }
  }
  collective_stats stats;
  collective_stats_read(c, &stats);
  assert_true(stats.sent_bytes > 0 && stats.received_bytes > 0);
  char *words[16] = {0}, own[32];
  snprintf(own, sizeof own, "I am %d", place.rank);
  assert_ok(collective_gather(c, own, words));
  for (int r = 0; r < place.ranks && !place.rank; r++) {
    snprintf(own, sizeof own, "I am %d", r);
    assert_string_equal(words[r], own);
    free(words[r]);
  }
  collective_part_ways(c);
  assert_ok(collective_meet(c, &(collective_head){0}, heads));
  collective_destroy(c);
}

static void test_sums(void **state) { add_up("f32"); }
static void test_sums_bf16(void **state) { add_up("bf16"); }
static void test_sums_int8(void **state) { add_up("int8"); }

/* One step in that format, of numbers(i); they become their sum over the ranks. left: NULL, or gets what was left out. */
static void one_step(const char *wire, float *numbers, int64_t count, float *left) {
  collective_options options = {.counts = &count,
                                .tensors = 1,
                                .leaves = {place.ranks},
                                .wire = wire_format_find(wire),
                                .patience = 20,
                                .on_peer_exit = ignore};
  collective *c;
  collective_head heads[16];
  assert_ok(collective_create(&place, &options, &c));
  assert_ok(collective_begin(c, place.ranks));
  memcpy(collective_part(c, 0), numbers, (size_t)count * sizeof *numbers);
  assert_ok(collective_ready(c, 0));
  assert_ok(collective_finish(c, &(collective_head){0}, heads));
  memcpy(numbers, collective_part(c, 0), (size_t)count * sizeof *numbers);
  if (left) collective_add_left(c, left);
  collective_part_ways(c);
  assert_ok(collective_meet(c, &(collective_head){0}, heads));
  collective_destroy(c);
}

/* What a format leaves out is all that is missing, wherever it is kept: another one can go on with it. */
static void test_left_is_carried(void **state) {
  enum { N = 300000 };
  float *numbers = calloc(N, sizeof *numbers), *left = calloc(N, sizeof *left);
  static const char *const wires[] = {"fp16", "int8", "topk"};
  for (size_t w = 0; w < COUNT_OF(wires); w++) {
    for (int64_t i = 0; i < N; i++) numbers[i] = number(place.rank, 0, i, 1);
    memset(left, 0, N * sizeof *left);
    one_step(wires[w], numbers, N, left);
    one_step("f32", left, N, NULL);
    for (int64_t i = 0; i < N; i++) {
      float expected = 0;
      for (int r = 0; r < place.ranks; r++) expected += number(r, 0, i, 1);
      if (fabsf(numbers[i] + left[i] - expected) > 1e-4F * (1 + expected))
        fail_msg("%s, %lld: %g and %g, not %g", wires[w], (long long)i, numbers[i], left[i], expected);
    }
  }
  free(numbers);
  free(left);
}

/* ---- ranks that drift apart */

typedef struct {
  shoal_model *model;
  int rank;
} culprit;

static bool damage(void *context, const shoal_progress *p) {
  culprit *c = context;
  if (place.rank != c->rank || p->step != 5) return false;
  const shoal_graph *g = shoal_model_graph(c->model);
  for (size_t i = 0; i < g->count; i++) {
    if (!g->nodes[i]->initial) continue;
    shoal_tensor t;
    assert_ok(shoal_session_variable(shoal_model_session(c->model), &g->nodes[i]->out[0], &t));
    ((uint8_t *)t.data)[1] ^= 1;
    return false;
  }
  return false;
}

/* culprit -1: none. Returns how training ended. */
static shoal_status train_with(int rank, int64_t check_every, int64_t steps) {
  shoal_dataset data;
  data_make_xor(90, 3, &data);
  shoal_model *m = model_make_xor(&(shoal_compile_options){.schedule = {.rate = 0.1}, .threads = 1, .seed = 5});
  shoal_strategy *s;
  assert_ok(allreduce_create(
      &(allreduce_options){.place = &place, .check_every = check_every, .patience = 20, .on_peer_exit = ignore}, &s));
  culprit c = {m, rank};
  shoal_fit_options options = {.steps = steps,
                               .batch_size = 10,
                               .strategy = s,
                               .callbacks = {.context = &c, .on_step = damage, .every_steps = 1}};
  shoal_status status = shoal_model_fit(m, &data, &options, NULL);
  strategy_destroy(s);
  shoal_model_destroy(m);
  data_free(&data);
  return status;
}

static void expect_difference(shoal_status status, const char *step) {
  assert_non_null(status);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_PEER);
  assert_non_null(strstr(shoal_status_message(status), "the parameters of rank 1 ("));
  assert_non_null(strstr(shoal_status_message(status), step));
  shoal_status_free(status);
}

static void test_a_replica_that_differs_is_named(void **state) {
  assert_ok(train_with(-1, 2, 20));
  expect_difference(train_with(1, 2, 20), "step 6");
  expect_difference(train_with(1, 0, 20), "");
}

/* ---- batch normalization */

static shoal_model *train_normed(const shoal_dataset *d, bool deterministic, const shoal_fit_options *options) {
  shoal_strategy *s;
  assert_ok(allreduce_create(
      &(allreduce_options){
          .place = &place, .deterministic = deterministic, .check_every = 1, .patience = 20, .on_peer_exit = ignore},
      &s));
  shoal_model *m = model_make_normed("momentum", 0.05);
  shoal_fit_options o = *options;
  o.strategy = s;
  assert_ok(shoal_model_fit(m, d, &o, NULL)); /* in each step the averages are found to be the same on all ranks */
  strategy_destroy(s);
  return m;
}

static void test_moving_averages(void **state) {
  shoal_dataset d;
  data_make_columns(&d);
  const shoal_fit_options one = {.steps = 1, .global_batch = NORM_ROWS, .keep_order = true};
  shoal_model *m = train_normed(&d, false, &one);
  check_one_step(m, &d, place.ranks);
  shoal_model_destroy(m);
  m = train_normed(&d, true, &one);
  check_one_step(m, &d, NORM_ROWS / TREE_LEAF_ROWS);
  shoal_model_destroy(m);
  data_free(&d);
}

/* The bits of one process with --deterministic. */
static void test_deterministic_averages(void **state) {
  shoal_dataset d;
  shoal_strategy *s;
  data_make_columns(&d);
  shoal_fit_options o = {.epochs = 2, .global_batch = 80};
  shoal_model *here = train_normed(&d, true, &o), *alone = model_make_normed("momentum", 0.05);
  assert_ok(mirrored_create(&(mirrored_options){.workers = 1, .deterministic = true}, &s));
  o.strategy = s;
  assert_ok(shoal_model_fit(alone, &d, &o, NULL));
  assert_same_bits(here, alone);
  strategy_destroy(s);
  shoal_model_destroy(here);
  shoal_model_destroy(alone);
  data_free(&d);
}

/* ---- exchanging less */

static shoal_model *train_apart(const shoal_dataset *d, const char *how, int64_t every, double momentum, int64_t steps,
                                const shoal_callbacks *callbacks, shoal_fit_result *out) {
  shoal_strategy *s;
  assert_ok(compress_create(how,
                            &(local_steps_options){.ranks = {.place = &place,
                                                             .wire = wire_format_find("f32"),
                                                             .check_every = 1,
                                                             .patience = 20,
                                                             .on_peer_exit = ignore},
                                                   .every = every,
                                                   .rate = 1,
                                                   .momentum = momentum,
                                                   .rank = 4},
                            &s));
  shoal_model *m = model_make_xor(&(shoal_compile_options){.schedule = {.rate = 0.1}, .threads = 1, .seed = 5});
  shoal_fit_options options = {.steps = steps, .batch_size = 10, .strategy = s, .keep_order = true};
  if (callbacks) options.callbacks = *callbacks;
  assert_ok(shoal_model_fit(m, d, &options, out));
  strategy_destroy(s);
  return m;
}

/* A worker's rows alone, trained for as many steps as there are between two exchanges, and the mean over the workers. */
static void test_local_steps_are_averaged(void **state) {
  enum { STEPS = 3, BATCH = 10 };
  shoal_dataset all, own;
  data_make_xor(BATCH * STEPS * place.ranks, 3, &all);
  data_make_xor(BATCH * STEPS, 3, &own);
  const size_t row = shoal_tensor_bytes(&all.features) / (size_t)(BATCH * STEPS * place.ranks);
  const size_t label = shoal_tensor_bytes(&all.labels) / (size_t)(BATCH * STEPS * place.ranks);
  shoal_model *together = train_apart(&all, "none", STEPS, 0, STEPS, NULL, NULL);
  const shoal_graph *g = shoal_model_graph(together);
  for (size_t i = 0; i < g->count; i++) {
    if (!g->nodes[i]->initial) continue;
    shoal_tensor got;
    assert_ok(shoal_session_variable(shoal_model_session(together), &g->nodes[i]->out[0], &got));
    const int64_t n = shoal_shape_count(&got.shape);
    double *mean = calloc((size_t)n, sizeof *mean);
    for (int r = 0; r < place.ranks; r++) {
      for (int t = 0; t < STEPS; t++) {
        const size_t from = (size_t)(t * place.ranks + r) * BATCH, to = (size_t)t * BATCH;
        memcpy((char *)own.features.data + to * row, (char *)all.features.data + from * row, BATCH * row);
        memcpy((char *)own.labels.data + to * label, (char *)all.labels.data + from * label, BATCH * label);
      }
      shoal_model *alone = model_make_xor(&(shoal_compile_options){.schedule = {.rate = 0.1}, .threads = 1, .seed = 5});
      assert_ok(shoal_model_fit(alone, &own,
                                &(shoal_fit_options){.steps = STEPS, .batch_size = BATCH, .keep_order = true}, NULL));
      shoal_tensor t;
      shoal_value *same = shoal_graph_find(shoal_model_graph(alone), shoal_value_name(&g->nodes[i]->out[0]));
      assert_ok(shoal_session_variable(shoal_model_session(alone), same, &t));
      for (int64_t k = 0; k < n; k++) mean[k] += (double)((const float *)t.data)[k] / place.ranks;
      shoal_model_destroy(alone);
    }
    for (int64_t k = 0; k < n; k++) assert_true(fabs(mean[k] - (double)((const float *)got.data)[k]) < 1e-5);
    free(mean);
  }
  shoal_model_destroy(together);
  data_free(&all);
  data_free(&own);
}

/* With small tensors only, PowerSGD adds up what the plain exchange does. */
static void test_small_tensors_travel_whole(void **state) {
  shoal_dataset d;
  data_make_xor(90, 3, &d);
  shoal_model *plain = train_apart(&d, "none", 1, 0, 12, NULL, NULL);
  shoal_model *factored = train_apart(&d, "powersgd", 1, 0, 12, NULL, NULL);
  shoal_model *chosen = train_apart(&d, "auto", 1, 0, 30, NULL, NULL);
  assert_same_bits(plain, factored);
  shoal_model_destroy(plain);
  shoal_model_destroy(factored);
  shoal_model_destroy(chosen);
  data_free(&d);
}

static bool stop_at_six(void *context, const shoal_progress *p) { return place.rank == 1 && p->step == 6; }

/* Whoever stops between two exchanges takes all back to the last one. */
static void test_stop_between_exchanges(void **state) {
  shoal_dataset d;
  data_make_xor(300 * place.ranks, 3, &d);
  shoal_fit_result result;
  const shoal_callbacks stop = {.on_step = stop_at_six, .every_steps = 1};
  shoal_model *stopped = train_apart(&d, "none", 4, 0.5, 20, &stop, &result);
  assert_int_equal(result.steps, 4);
  shoal_model *four = train_apart(&d, "none", 4, 0.5, 4, NULL, NULL);
  assert_same_bits(stopped, four);
  shoal_model_destroy(stopped);
  shoal_model_destroy(four);
  data_free(&d);
}

/* Ranks that share memory, or are connected by TCP. */
static int start_ranks(char **argv) {
  enum { RANKS = 3 };
  char name[64], *addresses, *word;
  pid_t pids[RANKS];
  int failed = 0;
  snprintf(name, sizeof name, "shoal-test-ranks-%d", (int)getpid());
  if (rank_place_make(argv[1], RANKS, name, &addresses)) return 1;
  for (int r = 0; r < RANKS; r++) {
    pids[r] = fork();
    if (pids[r]) continue;
    if (asprintf(&word, "%d %d%s", r, RANKS, addresses) > 0) setenv(RANK_PLACE, word, 1);
    execl("/proc/self/exe", argv[0], (char *)NULL);
    _exit(1);
  }
  for (int r = 0; r < RANKS; r++) {
    int how = 1;
    waitpid(pids[r], &how, 0);
    failed |= how;
  }
  free(addresses);
  return failed != 0;
}

static shoal_status join(void) {
  if (rank_place_given() < 0) return collective_join("mpi", &place);
  rank_place start;
  shoal_status status = rank_place_read(&start);
  if (!status) status = rank_place_arm(&start, &(rank_place_options){.patience = 60});
  if (!status) status = collective_join_own(&start.mesh, &place);
  rank_place_fini(&start);
  return status;
}

int main(int argc, char **argv) {
  if (argc > 1) return start_ranks(argv);
  shoal_status status = join();
  if (status) return fprintf(stderr, "%s\n", shoal_status_message(status)), 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums),
                                     cmocka_unit_test(test_sums_bf16),
                                     cmocka_unit_test(test_sums_int8),
                                     cmocka_unit_test(test_left_is_carried),
                                     cmocka_unit_test(test_a_replica_that_differs_is_named),
                                     cmocka_unit_test(test_moving_averages),
                                     cmocka_unit_test(test_deterministic_averages),
                                     cmocka_unit_test(test_local_steps_are_averaged),
                                     cmocka_unit_test(test_small_tensors_travel_whole),
                                     cmocka_unit_test(test_stop_between_exchanges)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  if (failed) collective_abort(&place, 1);
  status = collective_leave(&place);
  return status != NULL;
}
