/* The graph: names, errors that stick, shapes, gradients. Values are computed node by node, by reference kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static shoal_graph *graph(void) {
  shoal_graph *g = NULL;
  assert_null(shoal_graph_create(&g));
  return g;
}

static void assert_error(shoal_status status, const char *part) {
  assert_non_null(status);
  if (!strstr(shoal_status_message(status), part))
    fail_msg("\"%s\" does not say \"%s\"", shoal_status_message(status), part);
  shoal_status_free(status);
}

static void assert_good(const shoal_graph *g) {
  shoal_status status = shoal_graph_status(g);
  if (status) fail_msg("%s", shoal_status_message(status));
}

static shoal_value *numbers(shoal_graph *g, shoal_shape shape, const double *data) {
  shoal_tensor t = shoal_tensor_view(SHOAL_F64, shape, (void *)data);
  return shoal_constant(g, &t);
}

/* ---- a small interpreter: every node up to `last`, no feeds; variables are their initial values */

typedef struct {
  shoal_graph *graph;
  int count;
  shoal_tensor (*out)[OP_MAX_OUTPUTS]; /* [count] */
} values;

static values evaluate(shoal_graph *g, const shoal_value *last) {
  assert_good(g);
  assert_non_null(last);
  values v = {g, last->maker->id + 1, calloc((size_t)last->maker->id + 1, sizeof *v.out)};
  for (int id = 0; id < v.count; id++) {
    const node *n = g->nodes[id];
    shoal_tensor in[16];
    assert_true(n->ins <= 16);
    for (int i = 0; i < n->ins; i++) in[i] = v.out[n->in[i]->maker->id][n->in[i]->index];
    for (int i = 0; i < n->outs; i++) assert_null(shoal_tensor_create(n->out[i].dtype, n->out[i].shape, &v.out[id][i]));
    kernel_call call = {
        .in = in, .out = v.out[id], .ins = n->ins, .outs = n->outs, .attr = n->attr, .stream = n->stream};
    const void *data = n->attr[0].data.data;
    if (n->initial) data = v.out[n->initial->maker->id][n->initial->index].data;
    if (n->op->kernel)
      assert_null(n->op->kernel(&call));
    else
      memcpy(v.out[id][0].data, data, shoal_tensor_bytes(&v.out[id][0]));
  }
  return v;
}

static void values_fini(values *v) {
  for (int id = 0; id < v->count; id++)
    for (int i = 0; i < v->graph->nodes[id]->outs; i++) shoal_tensor_fini(&v->out[id][i]);
  free(v->out);
}

static void assert_value(shoal_graph *g, const shoal_value *x, int n, const double *expected) {
  values v = evaluate(g, x);
  const shoal_tensor *t = &v.out[x->maker->id][x->index];
  assert_int_equal(shoal_tensor_count(t), n);
  for (int i = 0; i < n; i++)
    if (!(fabs(shoal_tensor_get(t, i) - expected[i]) <= 1e-9))
      fail_msg("%s[%d] is %.12g, not %.12g", shoal_value_name(x), i, shoal_tensor_get(t, i), expected[i]);
  values_fini(&v);
}
#define ASSERT_VALUE(g, x, ...) \
  assert_value(g, x, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]){__VA_ARGS__})

/* ---- names */

static void names_and_scopes(void **state) {
  shoal_graph *g = graph();
  shoal_value *a = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 4));
  shoal_value *b = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(4));
  assert_string_equal(shoal_value_name(a), "x");
  assert_string_equal(shoal_value_name(b), "x_1");
  shoal_scope_push(g, "outer");
  shoal_scope_push(g, "inner");
  shoal_value *c = shoal_add(g, a, b);
  shoal_value *d = shoal_add(g, a, b);
  shoal_scope_pop(g);
  shoal_name_next(g, "sum");
  shoal_device_set(g, "/job:worker/task:1");
  shoal_value *e = shoal_add(g, c, d);
  shoal_scope_pop(g);
  shoal_device_set(g, NULL);
  shoal_value *f = shoal_relu(g, e);
  assert_good(g);
  assert_string_equal(shoal_value_name(c), "outer/inner/add");
  assert_string_equal(shoal_value_name(d), "outer/inner/add_1");
  assert_string_equal(shoal_value_name(e), "outer/sum");
  assert_string_equal(shoal_value_device(e), "/job:worker/task:1");
  assert_string_equal(shoal_value_name(f), "relu");
  assert_null(shoal_value_device(f));
  assert_string_equal(shoal_value_operator(f), "relu");
  assert_ptr_equal(shoal_graph_find(g, "outer/sum"), e);
  assert_null(shoal_graph_find(g, "sum"));
  shoal_scope_pop(g);
  assert_error(shoal_graph_status(g), "shoal_scope_push");
  shoal_graph_destroy(g);
}

/* ---- errors */

static void first_error_sticks(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  assert_null(shoal_reshape(g, x, SHOAL_SHAPE(7)));
  assert_null(shoal_add(g, x, NULL));
  assert_null(shoal_relu(g, x));
  shoal_gradient out;
  assert_error(shoal_gradients(g, x, &x, 1, &out), "[2,3] cannot become [7]");
  assert_error(shoal_graph_status(g), "[2,3] cannot become [7]");
  shoal_graph_destroy(g);
}

static void shape_errors_name_both_sides(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = shoal_placeholder(g, "images", SHOAL_F32, SHOAL_SHAPE(64, 3));
  shoal_value *w = shoal_placeholder(g, "weights", SHOAL_F32, SHOAL_SHAPE(64, 4));
  shoal_name_next(g, "score");
  assert_null(shoal_mul(g, x, w));
  shoal_status status = shoal_graph_status(g);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_ARGUMENT);
  for (int i = 0; i < 3; i++)
    assert_non_null(strstr(shoal_status_message(status),
                           ((const char *[]){"'score'", "'images' f32[64,3]", "'weights' f32[64,4]"})[i]));
  shoal_status_free(status);
  shoal_graph_destroy(g);

  g = graph();
  x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(3));
  w = shoal_placeholder(g, "labels", SHOAL_I64, SHOAL_SHAPE(3));
  assert_null(shoal_add(g, x, w));
  assert_error(shoal_graph_status(g), "types differ: f32 and i64; add a cast");
  shoal_graph_destroy(g);
}

/* Sizes whose product wraps are refused where they are made, whoever makes them. */
static void sizes_do_not_wrap(void **state) {
  enum { CASES = 9 };
  const int64_t huge = ((int64_t)1 << 61) + 1;
  for (int i = 0; i < CASES; i++) {
    shoal_graph *g = graph();
    shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 4));
    shoal_value *image = shoal_placeholder(g, "image", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 1 << 20, 1 << 20, 1));
    shoal_value *wide = shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(1, 1 << 25), 1);
    attr_value attr[OP_MAX_ATTRS] = {ATTR_L(SHOAL_SHAPE(INT64_MAX - 1, 0))};
    assert_good(g);
    switch (i) {
      case 0: shoal_random_uniform(g, SHOAL_SHAPE(huge, 8), 0, 1); break;
      case 1: shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(0, huge, 8), 0); break;
      case 2: shoal_reshape(g, x, SHOAL_SHAPE((int64_t)1 << 32, (int64_t)1 << 32, -1)); break;
      case 3: shoal_mul(g, shoal_transpose(g, wide, SHOAL_SHAPE(1, 0)), wide); break; /* [2^25, 2^25] */
      case 4: shoal_matmul(g, wide, wide, true, false); break;
      case 5: shoal_conv2d(g, image, shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(1, 1, 1, 1 << 20), 1), 1, SHOAL_VALID); break;
      case 6: graph_op(g, "slice_grad", (shoal_value *[]){x, x}, 2, attr); break;
      case 7: shoal_slice(g, x, SHOAL_SHAPE(0, 0), SHOAL_SHAPE(INT64_MAX, 1)); break;
      case 8: shoal_random_block(g, SHOAL_SHAPE(1, 2), 5, 0, INT64_MAX - 1); break;
    }
    shoal_status status = shoal_graph_status(g);
    if (!status) fail_msg("case %d was taken", i);
    shoal_status_free(status);
    shoal_graph_destroy(g);
  }
  const shoal_shape shape = SHOAL_SHAPE(huge, 8);
  assert_true(shoal_shape_count(&shape) == INT64_MAX);
  shoal_tensor t;
  assert_error(shoal_tensor_create(SHOAL_F32, shape, &t), "too large");
}

static void numbers_that_do_not_fit_are_the_nearest(void **state) {
  int32_t room[2];
  shoal_tensor t = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(2), room);
  shoal_tensor_set(&t, 0, 1e30);
  shoal_tensor_set(&t, 1, -1e30);
  assert_int_equal(room[0], INT32_MAX);
  assert_int_equal(room[1], INT32_MIN);
  t = shoal_tensor_view(SHOAL_U8, SHOAL_SHAPE(2), room);
  shoal_tensor_set(&t, 0, -1);
  shoal_tensor_set(&t, 1, NAN);
  assert_true(shoal_tensor_get(&t, 0) == 0 && shoal_tensor_get(&t, 1) == 0);
}

static void unknown_operator_gets_a_suggestion(void **state) {
  shoal_graph *g = graph();
  assert_null(graph_op(g, "reduce_sun", NULL, 0, NULL));
  assert_error(shoal_graph_status(g), "did you mean reduce_sum");
  shoal_graph_destroy(g);
}

static void only_variables_can_be_changed(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(2), 1);
  assert_null(shoal_assign(g, x, x));
  assert_error(shoal_graph_status(g), "only a variable");
  shoal_graph_destroy(g);
}

static void initial_values_need_no_feed(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(2));
  shoal_value *good = shoal_variable(g, "good", shoal_random_normal(g, SHOAL_SHAPE(2), 0, 1));
  assert_non_null(good);
  assert_null(shoal_variable(g, "bad", shoal_add(g, x, good)));
  assert_error(shoal_graph_status(g), "placeholder 'x'");
  shoal_graph_destroy(g);
}

/* ---- shapes with an unknown batch */

static void unknown_batch_flows(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, 4, 6));
  shoal_value *bias = shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(6), 0.5);
  struct {
    shoal_value *value;
    shoal_shape shape;
  } all[] = {
      {shoal_add(g, x, bias), SHOAL_SHAPE(-1, 4, 6)},
      {shoal_flatten(g, x), SHOAL_SHAPE(-1, 24)},
      {shoal_reduce_mean(g, x, SHOAL_SHAPE(0), false), SHOAL_SHAPE(4, 6)},
      {shoal_reduce_sum(g, x, SHOAL_SHAPE(1, -1), true), SHOAL_SHAPE(-1, 1, 1)},
      {shoal_argmax(g, x, 2), SHOAL_SHAPE(-1, 4)},
      {shoal_transpose(g, x, SHOAL_SHAPE(0, 2, 1)), SHOAL_SHAPE(-1, 6, 4)},
      {shoal_concat(g, (shoal_value *[]){x, x}, 2, -1), SHOAL_SHAPE(-1, 4, 12)},
      {shoal_slice(g, x, SHOAL_SHAPE(0, 1, 0), SHOAL_SHAPE(-1, 2, -1)), SHOAL_SHAPE(-1, 2, 6)},
      {shoal_value_output(shoal_split(g, x, 3, 2), 2), SHOAL_SHAPE(-1, 4, 2)},
      {shoal_fill_like(g, x, 1), SHOAL_SHAPE(-1, 4, 6)},
  };
  assert_good(g);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!shoal_shape_equal(&all[i].value->shape, &all[i].shape)) {
      char buffer[VALUE_TEXT];
      fail_msg("%s has the wrong shape", value_text(all[i].value, buffer));
    }
  shoal_graph_destroy(g);
}

/* ---- gradients */

static void gradients_accumulate(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = numbers(g, SHOAL_SHAPE(3), (double[]){1, -2, 3});
  /* x^2 + 3x + x * sum(x): d sum(y) / dx = 2x + 3 + 2 sum(x) */
  shoal_value *sum = shoal_reduce_sum(g, x, SHOAL_SCALAR, false);
  shoal_value *y = shoal_add(g, shoal_add(g, shoal_square(g, x), shoal_scale(g, x, 3)), shoal_mul(g, x, sum));
  shoal_gradient d[2];
  assert_null(shoal_gradients(g, y, (shoal_value *[]){x, sum}, 2, d));
  assert_null(d[0].indices);
  ASSERT_VALUE(g, d[0].value, 2 + 3 + 4, -4 + 3 + 4, 6 + 3 + 4);
  ASSERT_VALUE(g, d[1].value, 2);
  assert_memory_equal(shoal_value_name(d[0].value), "gradients/", 10);
  shoal_graph_destroy(g);
}

static void broadcast_operands_get_sums(void **state) {
  shoal_graph *g = graph();
  shoal_value *a = numbers(g, SHOAL_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6});
  shoal_value *b = numbers(g, SHOAL_SHAPE(3), (double[]){1, 10, 100});
  shoal_value *c = numbers(g, SHOAL_SHAPE(2, 1), (double[]){7, 8});
  shoal_value *y = shoal_mul(g, shoal_mul(g, a, b), c);
  shoal_gradient d[3];
  assert_null(shoal_gradients(g, y, (shoal_value *[]){a, b, c}, 3, d));
  ASSERT_VALUE(g, d[0].value, 7, 70, 700, 8, 80, 800);
  ASSERT_VALUE(g, d[1].value, 7 * 1 + 8 * 4, 7 * 2 + 8 * 5, 7 * 3 + 8 * 6);
  ASSERT_VALUE(g, d[2].value, 321, 654);
  shoal_graph_destroy(g);
}

static void unused_pieces_count_as_zero(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = numbers(g, SHOAL_SHAPE(4), (double[]){1, 2, 3, 4});
  shoal_value *second = shoal_value_output(shoal_split(g, x, 2, 0), 1);
  shoal_gradient d;
  assert_null(shoal_gradients(g, shoal_square(g, second), &x, 1, &d));
  ASSERT_VALUE(g, d.value, 0, 0, 6, 8);
  shoal_graph_destroy(g);
}

static void largest_elements_share(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = numbers(g, SHOAL_SHAPE(2, 3), (double[]){1, 5, 5, 7, 2, 3});
  shoal_gradient d;
  assert_null(shoal_gradients(g, shoal_reduce_max(g, x, SHOAL_SHAPE(1), false), &x, 1, &d));
  ASSERT_VALUE(g, d.value, 0, 0.5, 0.5, 1, 0, 0);
  shoal_graph_destroy(g);
}

static void gradient_stops(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = numbers(g, SHOAL_SHAPE(2), (double[]){3, 4});
  shoal_value *other = numbers(g, SHOAL_SHAPE(2), (double[]){1, 1});
  shoal_value *y = shoal_mul(g, x, shoal_stop_gradient(g, x));
  shoal_gradient d[2];
  assert_null(shoal_gradients(g, y, (shoal_value *[]){x, other}, 2, d));
  ASSERT_VALUE(g, d[0].value, 3, 4);
  assert_null(d[1].value);
  /* Nothing flows through an argmax, and asking is no mistake. */
  shoal_value *index = shoal_cast(g, shoal_argmax(g, x, 0), SHOAL_F64);
  assert_null(shoal_gradients(g, index, &x, 1, d));
  assert_null(d[0].value);
  shoal_graph_destroy(g);
}

static void gradient_with_respect_to_itself(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = numbers(g, SHOAL_SHAPE(2), (double[]){3, 4});
  shoal_value *later;
  shoal_gradient d[2];
  shoal_value *y = shoal_square(g, x);
  later = shoal_square(g, y);
  assert_null(shoal_gradients(g, y, (shoal_value *[]){y, later}, 2, d));
  ASSERT_VALUE(g, d[0].value, 1, 1);
  assert_null(d[1].value);
  shoal_graph_destroy(g);
}

static void missing_gradient_is_named(void **state) {
  shoal_graph *g = graph();
  shoal_value *x = numbers(g, SHOAL_SHAPE(2), (double[]){3, 4});
  shoal_gradient d;
  assert_null(shoal_gradients(g, shoal_tanh(g, x), &x, 1, &d));
  /* The second derivative would go through tanh_grad, whose own gradient is not defined. */
  assert_error(shoal_gradients(g, d.value, &x, 1, &d), "tanh_grad, which has no gradient");
  assert_good(g);
  shoal_graph_destroy(g);
}

static void scope_and_device_come_back(void **state) {
  shoal_graph *g = graph();
  shoal_scope_push(g, "model");
  shoal_device_set(g, "/job:ps/task:0");
  shoal_value *x = numbers(g, SHOAL_SHAPE(2), (double[]){3, 4});
  shoal_value *y = shoal_square(g, x);
  shoal_device_set(g, "/job:worker/task:0");
  shoal_name_next(g, "after");
  shoal_gradient d;
  assert_null(shoal_gradients(g, y, &x, 1, &d));
  assert_memory_equal(shoal_value_name(d.value), "gradients/model/square/", 23);
  assert_string_equal(shoal_value_device(d.value), "/job:ps/task:0");
  shoal_value *z = shoal_neg(g, x);
  assert_string_equal(shoal_value_name(z), "model/after");
  assert_string_equal(shoal_value_device(z), "/job:worker/task:0");
  shoal_graph_destroy(g);
}

/* ---- row-sparse gradients */

static shoal_value *indices(shoal_graph *g, int n, const int64_t *data) {
  shoal_tensor t = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(n), (void *)data);
  return shoal_constant(g, &t);
}

static void gather_gives_rows(void **state) {
  shoal_graph *g = graph();
  shoal_value *table = shoal_variable(g, "table", numbers(g, SHOAL_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6}));
  shoal_value *a = shoal_gather(g, table, indices(g, 2, (int64_t[]){2, 2}));
  shoal_value *b = shoal_scale(g, shoal_gather(g, table, indices(g, 1, (int64_t[]){0})), 10);
  shoal_value *y = shoal_add(g, shoal_reduce_sum(g, shoal_square(g, a), SHOAL_SCALAR, false),
                             shoal_reduce_sum(g, b, SHOAL_SCALAR, false));
  size_t before = g->count;
  shoal_gradient d;
  assert_null(shoal_gradients(g, y, &table, 1, &d));
  assert_non_null(d.indices);
  /* Never a dense one on the way. */
  for (size_t i = before; i < g->count; i++) assert_string_not_equal(g->nodes[i]->op->name, "scatter_add");
  assert_value(g, shoal_reduce_sum(g, d.value, SHOAL_SCALAR, false), 1, (double[]){2 * (10 + 12) + 20});
  ASSERT_VALUE(g, shoal_scatter_add(g, d.indices, d.value, 3), 10, 10, 0, 0, 20, 24);

  /* Meeting a dense gradient, or an operator before the gather, makes it dense. */
  shoal_value *z = shoal_add(g, y, shoal_l2_loss(g, table));
  assert_null(shoal_gradients(g, z, &table, 1, &d));
  assert_null(d.indices);
  ASSERT_VALUE(g, d.value, 11, 12, 3, 4, 25, 30);
  shoal_value *doubled = shoal_scale(g, table, 2);
  assert_null(shoal_gradients(g, shoal_gather(g, doubled, indices(g, 1, (int64_t[]){1})), &table, 1, &d));
  assert_null(d.indices);
  ASSERT_VALUE(g, d.value, 0, 0, 2, 2, 0, 0);
  shoal_graph_destroy(g);
}

/* ---- kernels with side effects */

static void numerics_are_checked(void **state) {
  const op_row *row = op_find("check_numerics");
  float data[6] = {1, 2, 3, (float)NAN, 5, (float)INFINITY}, room[6];
  shoal_tensor in = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(3, 2), data);
  shoal_tensor out = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(3, 2), room);
  attr_value attr[OP_MAX_ATTRS] = {{.s = "loss"}};
  kernel_call call = {.in = &in, .out = &out, .ins = 1, .outs = 1, .attr = attr, .first_row = 10};
  shoal_status status = row->kernel(&call);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_NUMERIC);
  assert_error(status, "loss: 2 of 6 elements are not finite, the first (nan) at index 23");
  data[3] = data[5] = 0;
  assert_null(row->kernel(&call));
  assert_memory_equal(room, data, sizeof data);
}

static void keep_line(void *sink, const char *line) { snprintf(sink, 100, "%s", line); }

static void print_goes_to_its_sink(void **state) {
  char line[100] = "";
  int64_t data[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, room[9];
  shoal_tensor in = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(9), data);
  shoal_tensor out = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(9), room);
  attr_value attr[OP_MAX_ATTRS] = {{.s = "step"}};
  kernel_call call = {
      .in = &in, .out = &out, .ins = 1, .outs = 1, .attr = attr, .print = keep_line, .print_sink = line};
  assert_null(op_find("print")->kernel(&call));
  assert_string_equal(line, "step: i64[9] 1 2 3 4 5 6 7 8 ...");
  attr[0].s = "\x1b[2Jred\r\xc2\x9b\x7f"; /* a graph may be somebody else's: nothing that steers a terminal */
  assert_null(op_find("print")->kernel(&call));
  for (const unsigned char *c = (const unsigned char *)line; *c; c++) assert_true(*c >= ' ' && *c != 0x7f);
  assert_non_null(strstr(line, "?[2Jred?"));
}

/* A batch cut in two gives what the whole gives. */
static void sums_run_in_pieces(void **state) {
  const op_row *row = op_find("reduce_mean");
  double data[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, mean[2] = {99, 99};
  attr_value attr[OP_MAX_ATTRS] = {{.list = SHOAL_SHAPE(0)}};
  shoal_tensor out = shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(2), mean);
  shoal_tensor parts[] = {shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(2, 2), data),
                          shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(3, 2), data + 4)};
  for (int i = 0; i < 2; i++) {
    kernel_call call = {.in = &parts[i],
                        .out = &out,
                        .ins = 1,
                        .outs = 1,
                        .attr = attr,
                        .first_row = 2 * i,
                        .all_rows = 5,
                        .accumulate = i > 0};
    assert_null(row->kernel(&call));
  }
  assert_float_equal(mean[0], 5, 1e-12);
  assert_float_equal(mean[1], 6, 1e-12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_scopes),
      cmocka_unit_test(first_error_sticks),
      cmocka_unit_test(shape_errors_name_both_sides),
      cmocka_unit_test(sizes_do_not_wrap),
      cmocka_unit_test(numbers_that_do_not_fit_are_the_nearest),
      cmocka_unit_test(unknown_operator_gets_a_suggestion),
      cmocka_unit_test(only_variables_can_be_changed),
      cmocka_unit_test(initial_values_need_no_feed),
      cmocka_unit_test(unknown_batch_flows),
      cmocka_unit_test(gradients_accumulate),
      cmocka_unit_test(broadcast_operands_get_sums),
      cmocka_unit_test(unused_pieces_count_as_zero),
      cmocka_unit_test(largest_elements_share),
      cmocka_unit_test(gradient_stops),
      cmocka_unit_test(gradient_with_respect_to_itself),
      cmocka_unit_test(missing_gradient_is_named),
      cmocka_unit_test(scope_and_device_come_back),
      cmocka_unit_test(gather_gives_rows),
      cmocka_unit_test(numerics_are_checked),
      cmocka_unit_test(print_goes_to_its_sink),
      cmocka_unit_test(sums_run_in_pieces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
