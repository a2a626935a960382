/* Device scopes, control dependencies, feeds of any value, and graphs written down and read again. */
#include "base/random.h"
#include "graph/device.h"
#include "graph/graphdef.h"
#include "shoal/shoal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ok(shoal_status status) {
  if (!status) return;
  print_error("%s\n", shoal_status_message(status));
  shoal_status_free(status);
  fail();
}

static void refused(shoal_status status, shoal_code code, const char *words) {
  assert_non_null(status);
  if (shoal_status_code(status) != code || !strstr(shoal_status_message(status), words)) {
    print_error("expected '%s', got %s: %s\n", words, shoal_code_name(shoal_status_code(status)),
                shoal_status_message(status));
    fail();
  }
  shoal_status_free(status);
}

static void device_scopes(void **state) {
  (void)state;
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_device_push(g, "/job:worker");
  shoal_device_push(g, "/task:2");
  shoal_value *both = shoal_scalar(g, SHOAL_F32, 1);
  shoal_device_push(g, "/job:ps");
  shoal_value *other_job = shoal_scalar(g, SHOAL_F32, 1);
  shoal_device_pop(g);
  shoal_device_push(g, NULL);
  shoal_value *unchanged = shoal_scalar(g, SHOAL_F32, 1);
  shoal_device_pop(g);
  shoal_device_pop(g);
  shoal_value *outer = shoal_scalar(g, SHOAL_F32, 1);
  shoal_device_pop(g);
  shoal_value *none = shoal_scalar(g, SHOAL_F32, 1);
  ok(shoal_graph_status(g));
  assert_string_equal(shoal_value_device(both), "/job:worker/task:2");
  assert_string_equal(shoal_value_device(other_job), "/job:ps");
  assert_string_equal(shoal_value_device(unchanged), "/job:worker/task:2");
  assert_string_equal(shoal_value_device(outer), "/job:worker");
  assert_null(shoal_value_device(none));
  shoal_device_pop(g);
  refused(shoal_graph_status(g), SHOAL_ERR_ARGUMENT, "without shoal_device_push");
  shoal_graph_destroy(g);

  static const char *const wrong[] = {"worker",   "/job:",  "/task:x",          "/job:a b",
                                      "/task:-1", "/gpu:0", "/task:99999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    device d;
    refused(device_parse(wrong[i], &d), SHOAL_ERR_ARGUMENT, "/job:worker/task:2");
  }
  device d;
  ok(device_parse("/job:worker/replica:0/task:3/device:CPU:0", &d));
  assert_string_equal(d.job, "worker");
  assert_int_equal(d.task, 3);
}

static float fetch_scalar(shoal_session *s, const shoal_feed *feeds, int n, shoal_value *v) {
  shoal_tensor out;
  ok(shoal_session_run(s, feeds, n, &v, 1, &out));
  return (float)shoal_tensor_get(&out, 0);
}

/* Without the scope a reader sees the variable before the step, with it what the update left. */
static void control_dependencies(void **state) {
  (void)state;
  shoal_graph *g;
  shoal_session *s;
  ok(shoal_graph_create(&g));
  shoal_value *v = shoal_variable(g, "v", shoal_scalar(g, SHOAL_F32, 1));
  shoal_value *update = shoal_assign_add(g, v, shoal_scalar(g, SHOAL_F32, 10));
  shoal_value *before = shoal_scale(g, v, 2);
  shoal_control_push(g, &update, 1);
  shoal_value *after = shoal_scale(g, v, 2), *copy = shoal_identity(g, v), *constant = shoal_scalar(g, SHOAL_F32, 7);
  shoal_value *folded = shoal_add(g, constant, constant);
  shoal_control_pop(g);
  ok(shoal_session_create(g, NULL, &s));
  assert_float_equal(fetch_scalar(s, NULL, 0, before), 2, 0);
  assert_float_equal(fetch_scalar(s, NULL, 0, after), 22, 0);
  assert_float_equal(fetch_scalar(s, NULL, 0, copy), 21, 0);
  assert_float_equal(fetch_scalar(s, NULL, 0, folded), 14, 0);
  assert_float_equal(fetch_scalar(s, NULL, 0, v), 31, 0); /* fetching it ran the update */
  shoal_value *two[] = {before, after};
  shoal_tensor got[2];
  ok(shoal_session_run(s, NULL, 0, two, 2, got));
  assert_float_equal(shoal_tensor_get(&got[0], 0), 62, 0);
  assert_float_equal(shoal_tensor_get(&got[1], 0), 82, 0);
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
}

static void feeds_of_any_value(void **state) {
  (void)state;
  shoal_graph *g;
  shoal_session *s;
  ok(shoal_graph_create(&g));
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 3));
  shoal_value *hidden = shoal_relu(g, x), *parts = shoal_split(g, hidden, 3, 1);
  shoal_value *y = shoal_reduce_sum(g, shoal_mul(g, parts, shoal_value_output(parts, 2)), SHOAL_SCALAR, false);
  shoal_value *v = shoal_variable(g, "v", shoal_scalar(g, SHOAL_F32, 4)), *update = shoal_assign_add(g, v, y);
  ok(shoal_session_create(g, NULL, &s));
  float rows[] = {1, -2, 3, 4, 5, -6}, column[] = {10, 20};
  shoal_feed whole = {x, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 3), rows)};
  shoal_feed inner = {hidden, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 3), rows)};
  shoal_feed third[] = {whole, {shoal_value_output(parts, 2), shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 1), column)}};
  shoal_feed both[] = {{parts, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 1), rows)}, third[1]};
  assert_float_equal(fetch_scalar(s, &whole, 1, y), 3, 0);
  assert_float_equal(fetch_scalar(s, &inner, 1, y), 3 - 24, 0); /* no relu */
  assert_float_equal(fetch_scalar(s, third, 2, y), 10 + 80, 0);
  assert_float_equal(fetch_scalar(s, both, 2, y), 10 - 40, 0);
  float seven = 7;
  shoal_feed number = {y, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &seven)};
  assert_float_equal(fetch_scalar(s, &number, 1, y), 7, 0);
  assert_float_equal(fetch_scalar(s, &number, 1, update), 11, 0);
  shoal_tensor out;
  shoal_feed changed[] = {number, {v, number.tensor}};
  refused(shoal_session_run(s, changed, 2, &update, 1, &out), SHOAL_ERR_ARGUMENT, "which is fed");
  inner.tensor.shape = SHOAL_SHAPE(3, 2);
  refused(shoal_session_run(s, &inner, 1, &y, 1, &out), SHOAL_ERR_ARGUMENT, "relu 'relu' is f32[?,3]");
  shoal_session_destroy(s);
  shoal_graph_destroy(g);
}

/* A bit of everything that a node can carry. */
static shoal_graph *sample(void) {
  shoal_graph *g;
  ok(shoal_graph_create(&g));
  shoal_device_push(g, "/job:ps");
  int64_t list[] = {3, 1, 2};
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_U8, SHOAL_SHAPE(SHOAL_UNKNOWN, 4));
  shoal_value *w = shoal_variable(g, "w", shoal_random_uniform(g, SHOAL_SHAPE(4, 6), -1.0 / 3, 0.1));
  shoal_device_pop(g);
  shoal_value *y = shoal_matmul(g, shoal_scale(g, shoal_cast(g, x, SHOAL_F32), 1.0 / 255), w, false, false);
  shoal_value *part = shoal_value_output(shoal_split(g, y, 3, 1), 1);
  shoal_value *picked = shoal_gather(g, w, shoal_constant(g, &(shoal_tensor){SHOAL_I64, SHOAL_SHAPE(3), list, NULL}));
  shoal_control_push(g, &picked, 1);
  shoal_value *named = shoal_check_numerics(g, part, "the middle");
  shoal_control_pop(g);
  shoal_name_next(g, "loss");
  shoal_value *loss = shoal_add(g, shoal_reduce_sum(g, named, SHOAL_SHAPE(0, 1), false), shoal_l2_loss(g, picked));
  shoal_gradient d;
  ok(shoal_gradients(g, loss, &w, 1, &d));
  shoal_name_next(g, "update");
  shoal_assign_add(g, w, shoal_scale(g, d.value, -0.01));
  ok(shoal_graph_status(g));
  return g;
}

static void written_and_read(void **state) {
  (void)state;
  shoal_graph *g = sample(), *again;
  proto first = {0}, second = {0}, half = {0};
  ok(graphdef_write(g, 0, &first));
  ok(shoal_graph_create(&again));
  ok(graphdef_read(again, first.bytes, first.length));
  ok(graphdef_write(again, 0, &second));
  assert_int_equal(first.length, second.length);
  assert_memory_equal(first.bytes, second.bytes, first.length);

  uint8_t rows[] = {1, 2, 3, 4, 250, 0, 9, 8};
  float result[2][24];
  for (int i = 0; i < 2; i++) {
    shoal_graph *which = i ? again : g;
    shoal_session *s;
    shoal_tensor out[2];
    shoal_value *fetches[] = {shoal_graph_find(which, "loss"), shoal_graph_find(which, "update")};
    shoal_feed feed = {shoal_graph_find(which, "x"), shoal_tensor_view(SHOAL_U8, SHOAL_SHAPE(2, 4), rows)};
    ok(shoal_session_create(which, &(shoal_session_options){.threads = 1, .seed = 9}, &s));
    for (int step = 0; step < 3; step++) ok(shoal_session_run(s, &feed, 1, fetches, 2, out));
    memcpy(result[i], out[1].data, sizeof result[i]);
    shoal_session_destroy(s);
  }
  assert_memory_equal(result[0], result[1], sizeof result[0]);
  shoal_graph_destroy(again);

  /* In two pieces, as a graph that grows is sent. */
  ok(shoal_graph_create(&again));
  proto_reader r = proto_read(first.bytes, first.length);
  const uint8_t *middle = first.bytes;
  for (int i = 0; i < 5 && proto_next(&r); i++) middle = r.at;
  ok(graphdef_read(again, first.bytes, (size_t)(middle - first.bytes)));
  ok(graphdef_write(g, 5, &half));
  ok(graphdef_read(again, half.bytes, half.length));
  proto_clear(&second);
  ok(graphdef_write(again, 0, &second));
  assert_int_equal(first.length, second.length);
  assert_memory_equal(first.bytes, second.bytes, first.length);
  shoal_graph_destroy(again);
  proto_fini(&first);
  proto_fini(&second);
  proto_fini(&half);
  shoal_graph_destroy(g);
}

/* Whatever the bytes are, it is an error or a graph; never more. */
static void damaged_bytes(void **state) {
  (void)state;
  shoal_graph *g = sample(), *again;
  proto good = {0};
  ok(graphdef_write(g, 0, &good));
  random_stream numbers = random_stream_make(1, 2);
  int refusals = 0;
  for (int round = 0; round < 3000; round++) {
    uint8_t *bytes = malloc(good.length);
    memcpy(bytes, good.bytes, good.length);
    size_t n = good.length;
    if (round % 3 == 0) n = (size_t)random_below(&numbers, 3 * (uint64_t)round, good.length);
    bytes[random_below(&numbers, 3 * (uint64_t)round + 1, good.length)] ^=
        (uint8_t)(1 + random_below(&numbers, 3 * (uint64_t)round + 2, 255));
    ok(shoal_graph_create(&again));
    shoal_status status = graphdef_read(again, bytes, n);
    refusals += status != NULL;
    if (status) assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
    shoal_status_free(status);
    shoal_graph_destroy(again);
    free(bytes);
  }
  assert_true(refusals > 1000);
  proto_fini(&good);
  shoal_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(device_scopes),    cmocka_unit_test(control_dependencies), cmocka_unit_test(feeds_of_any_value),
      cmocka_unit_test(written_and_read), cmocka_unit_test(damaged_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
