/* What the walk over the operator table cannot see: ties, duplicates, rows left alone, input that must be refused. */
#include "op_case.h"

#include "graph/graph.h"
#include "kernel/cpu.h"
#include "kernel/lanes.h"
#include "kernel/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static shoal_tensor view(shoal_dtype dtype, shoal_shape shape, void *data) {
  return shoal_tensor_view(dtype, shape, data);
}

/* Runs an operator's reference kernel; attributes as in a test case. */
static shoal_status run(const char *op, const char *attrs, shoal_tensor *in, int ins, shoal_tensor *out, int outs) {
  const op_row *row = op_find(op);
  assert_non_null(row);
  op_row any = *row; /* the case has attributes only */
  any.ins_min = 0;
  op_case c;
  case_parse(&any, attrs, &c);
  kernel_call call = {.in = in, .out = out, .ins = ins, .outs = outs, .attr = c.attr};
  shoal_status status = row->kernel(&call);
  case_fini(&c);
  return status;
}

static void expect_error(shoal_status status, shoal_code code, const char *message) {
  assert_non_null(status);
  assert_int_equal(shoal_status_code(status), code);
  if (!strstr(shoal_status_message(status), message))
    fail_msg("\"%s\" does not say \"%s\"", shoal_status_message(status), message);
  shoal_status_free(status);
}

static void test_max_pool_ties(void **state) {
  double x[4] = {2, 2, 2, 1}, y[1] = {2}, dy[1] = {5}, dx[4];
  shoal_shape image = SHOAL_SHAPE(1, 2, 2, 1), pooled = SHOAL_SHAPE(1, 1, 1, 1);
  shoal_tensor in[] = {view(SHOAL_F64, pooled, dy), view(SHOAL_F64, image, x), view(SHOAL_F64, pooled, y)};
  shoal_tensor out = view(SHOAL_F64, image, dx);
  assert_null(run("max_pool_grad", "", in, 3, &out, 1));
  assert_memory_equal(dx, ((double[]){5, 0, 0, 0}), sizeof dx);
}

/* Of equal logits the first is the larger, and a row with a NaN is never a hit: by the reference and by every kernel
 * that runs here. */
static void test_in_top_k_ties(void **state) {
  enum { ROWS = 8, CLASSES = 4 };
  float logits[ROWS][CLASSES] = {{1, 3, 3, 0}, {1, 3, 3, 0},   {1, 3, 3, 4},   {0, 0, 0, 0},
                                 {0, 0, 0, 0}, {NAN, 0, 1, 2}, {3, 2, 1, NAN}, {NAN, NAN, NAN, NAN}};
  int32_t labels[ROWS] = {1, 2, 1, 0, 3, 3, 0, 0};
  const float top_1[ROWS] = {1, 0, 0, 1, 0, 0, 0, 0}, top_2[ROWS] = {1, 1, 1, 1, 0, 0, 0, 0};
  float hit[LANES], packed[CLASSES][LANES] = {{0}};
  for (int i = 0; i < ROWS; i++)
    for (int c = 0; c < CLASSES; c++) packed[c][i] = logits[i][c];
  shoal_shape shape = SHOAL_SHAPE(ROWS, CLASSES);
  shoal_tensor in[] = {view(SHOAL_F32, shape, logits), view(SHOAL_I32, SHOAL_SHAPE(ROWS), labels)};
  shoal_tensor out = view(SHOAL_F32, SHOAL_SHAPE(ROWS), hit);
  assert_null(run("in_top_k", "k=2", in, 2, &out, 1));
  assert_memory_equal(hit, top_2, sizeof top_2);
  assert_null(run("in_top_k", "k=1", in, 2, &out, 1));
  assert_memory_equal(hit, top_1, sizeof top_1);
  in[0] = view(SHOAL_F32, shape, packed);
  attr_value k[OP_MAX_ATTRS] = {{.i = 1}};
  for (const op_variant *v = op_find("in_top_k")->variants; v->name; v++) {
    if (v->needs > cpu_best()) continue;
    memset(hit, 0x55, sizeof hit);
    assert_int_equal(v->lanes_in, 1);
    assert_null(v->run(&(kernel_call){.in = in, .out = &out, .ins = 2, .outs = 1, .attr = k}));
    if (memcmp(hit, top_1, sizeof top_1)) fail_msg("%s counts ties or NaN otherwise than the reference", v->name);
  }
}

/* Widths that are less than, equal to and above what a sorted place takes, in both types. */
static void check_unique(shoal_dtype dtype, int64_t width) {
  enum { N = 7 };
  int64_t index[N] = {4, 1, 4, -1, 0, 1, 4}, unique[N];
  shoal_shape shape = SHOAL_SHAPE(N, width);
  shoal_tensor rows = case_tensor(dtype, shape, false), sums = case_tensor(dtype, shape, true);
  for (int64_t i = 0; i < N * width; i++) shoal_tensor_set(&rows, i, (double)(i + 1));
  shoal_tensor in[] = {view(SHOAL_I64, SHOAL_SHAPE(N), index), rows};
  shoal_tensor out[] = {view(SHOAL_I64, SHOAL_SHAPE(N), unique), sums};
  assert_null(run("unique_rows", "", in, 2, out, 2));
  assert_memory_equal(unique, ((int64_t[]){0, 1, 4, -1, -1, -1, -1}), sizeof unique);
  for (int64_t i = 0; i < N; i++)
    for (int64_t k = 0; k < width; k++) {
      double expected = 0;
      for (int64_t j = 0; j < N && unique[i] >= 0; j++)
        if (index[j] == unique[i]) expected += shoal_tensor_get(&rows, j * width + k);
      assert_true(shoal_tensor_get(&sums, i * width + k) == expected);
    }
  shoal_tensor_fini(&rows);
  shoal_tensor_fini(&sums);
}

static void test_unique_rows(void **state) {
  for (int64_t width = 1; width <= 5; width++) {
    check_unique(SHOAL_F32, width);
    check_unique(SHOAL_F64, width);
  }
}

/* sparse_apply_X on some rows is apply_X on those rows alone; the others stay. */
static void check_sparse_update(const op_case *c, const op_row *dense, shoal_dtype indices) {
  int slots = 0;
  while (c->row->updates >> (slots + 1) & 1) slots++;
  int at = 1 + slots; /* of the indices */
  case_shapes shapes;
  case_memory before, after;
  case_infer(c, SHOAL_F64, false, &shapes);
  case_memory_init(c, &shapes, SHOAL_F64, &before);
  case_memory_init(c, &shapes, SHOAL_F64, &after);
  int64_t n = c->in[at].shape.dim[0], rows = c->in[0].shape.dim[0];
  size_t row = shoal_tensor_bytes(&before.in[0]) / (size_t)rows;
  int64_t *index = before.in[at].data;
  shoal_tensor_fini(&after.in[at]);
  after.in[at] = case_tensor(indices, SHOAL_SHAPE(n), false);
  for (int64_t k = 0; k < n; k++) shoal_tensor_set(&after.in[at], k, (double)index[k]);
  shoal_tensor_set(&after.in[at], n - 1, -1); /* to be skipped */
  kernel_call call = case_call(c, &after);
  assert_null(c->row->kernel(&call));

  /* The touched rows of variable and slots, side by side, with the gradient's rows that count. */
  shoal_tensor in[CASE_INPUTS], out;
  int ins = 0;
  for (int i = 0; i < c->ins; i++) {
    if (i == at) continue;
    in[ins] = before.in[i];
    if (i <= slots) {
      shoal_shape part = c->in[i].shape;
      part.dim[0] = n - 1;
      in[ins] = case_tensor(SHOAL_F64, part, false);
      for (int64_t k = 0; k < n - 1; k++)
        memcpy((char *)in[ins].data + (size_t)k * row, (char *)before.in[i].data + (size_t)index[k] * row, row);
    } else if (i == at + 1)
      in[ins].shape.dim[0] = n - 1;
    ins++;
  }
  out = in[0];
  call = (kernel_call){.in = in, .out = &out, .ins = ins, .outs = 1, .attr = c->attr};
  assert_null(dense->kernel(&call));
  for (int i = 0; i <= slots; i++) {
    for (int64_t k = 0; k < n - 1; k++)
      memcpy((char *)before.in[i].data + (size_t)index[k] * row, (char *)in[i].data + (size_t)k * row, row);
    if (memcmp(before.in[i].data, after.in[i].data, shoal_tensor_bytes(&before.in[i])))
      fail_msg("%s \"%s\": input %d is not what %s gives", c->row->name, c->text, i, dense->name);
    shoal_tensor_fini(&in[i]);
  }

  /* A row that is not there: refused, and nothing has changed. */
  shoal_tensor_set(&after.in[at], n - 1, (double)rows);
  call = case_call(c, &after);
  expect_error(c->row->kernel(&call), SHOAL_ERR_INPUT, "there are");
  assert_memory_equal(before.in[0].data, after.in[0].data, shoal_tensor_bytes(&before.in[0]));
  case_memory_fini(&before);
  case_memory_fini(&after);
}

static void test_sparse_updates(void **state) {
  int checked = 0;
  const op_row *row;
  for (size_t i = 0; (row = op_at(i)); i++) {
    if (strncmp(row->name, "sparse_apply_", 13) || strstr(row->name, "rowwise")) continue; /* it has no dense one */
    const op_row *dense = op_find(row->name + strlen("sparse_"));
    assert_non_null(dense);
    for (const char *const *line = row->cases; *line; line++) {
      op_case c;
      case_parse(row, *line, &c);
      int at = 1;
      while (op_updates(row, at)) at++;
      c.in[at].values = VALUES_DISTINCT; /* also for plain SGD, which takes duplicates */
      check_sparse_update(&c, dense, SHOAL_I64);
      check_sparse_update(&c, dense, SHOAL_I32);
      case_fini(&c);
      checked++;
    }
  }
  assert_true(checked >= 6);
}

/* Of rows of one number it is Adagrad; of wider ones a row that is named, and its sum, move alone. */
static void test_rowwise_adagrad(void **state) {
  double var[2][3] = {{1, -2, 3}, {1, -2, 3}}, sum[2][3] = {{0.1, 0.2, 0.3}, {0.1, 0.2, 0.3}}, grad[2] = {0.5, -4};
  double lr[1] = {0.5}, wide[4] = {1, 2, 3, 4}, sums[2] = {0.5, 0.25}, grads[2] = {1, 2};
  int64_t index[2] = {2, 0}, one[1] = {1}, none[1] = {2};
  static const char *const ops[] = {"sparse_apply_adagrad", "sparse_apply_rowwise_adagrad"};
  for (int i = 0; i < 2; i++) {
    shoal_tensor in[] = {view(SHOAL_F64, SHOAL_SHAPE(3), var[i]), view(SHOAL_F64, SHOAL_SHAPE(3), sum[i]),
                         view(SHOAL_I64, SHOAL_SHAPE(2), index), view(SHOAL_F64, SHOAL_SHAPE(2), grad),
                         view(SHOAL_F64, SHOAL_SCALAR, lr)};
    assert_null(run(ops[i], "", in, 5, in, 1));
  }
  assert_memory_equal(var[0], var[1], sizeof var[0]);
  assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
  shoal_tensor in[] = {view(SHOAL_F64, SHOAL_SHAPE(2, 2), wide), view(SHOAL_F64, SHOAL_SHAPE(2), sums),
                       view(SHOAL_I64, SHOAL_SHAPE(1), one), view(SHOAL_F64, SHOAL_SHAPE(1, 2), grads),
                       view(SHOAL_F64, SHOAL_SCALAR, lr)};
  assert_null(run(ops[1], "", in, 5, in, 1));
  assert_true(wide[0] == 1 && wide[1] == 2 && sums[0] == 0.5 && sums[1] == 0.25 + 2.5);
  in[2] = view(SHOAL_I64, SHOAL_SHAPE(1), none);
  expect_error(run(ops[1], "", in, 5, in, 1), SHOAL_ERR_INPUT, "there are 2 rows");
  assert_true(sums[1] == 2.75);
}

static void test_sgd_takes_duplicates(void **state) {
  double var[3] = {1, 1, 1}, grad[3] = {1, 2, 4}, lr[1] = {0.5};
  int64_t index[3] = {2, 0, 2};
  shoal_shape three = SHOAL_SHAPE(3);
  shoal_tensor in[] = {view(SHOAL_F64, three, var), view(SHOAL_I64, three, index), view(SHOAL_F64, three, grad),
                       view(SHOAL_F64, SHOAL_SCALAR, lr)};
  assert_null(run("sparse_apply_sgd", "", in, 4, in, 1));
  assert_memory_equal(var, ((double[]){0, 1, -1.5}), sizeof var);
}

static void test_bad_labels(void **state) {
  float logits[8] = {0}, loss[2], dloss[2] = {1, 1}, dx[8];
  int32_t labels[2] = {3, 4};
  uint8_t bytes[2] = {255, 0};
  int64_t negative[2] = {0, -1};
  shoal_shape two = SHOAL_SHAPE(2), matrix = SHOAL_SHAPE(2, 4);
  shoal_tensor in[] = {view(SHOAL_F32, matrix, logits), view(SHOAL_I32, two, labels), view(SHOAL_F32, two, dloss)};
  shoal_tensor out = view(SHOAL_F32, two, loss), gradient = view(SHOAL_F32, matrix, dx);
  const char *message = "label 4 in row 1 is out of range: there are 4 classes";
  expect_error(run("sparse_softmax_cross_entropy", "", in, 2, &out, 1), SHOAL_ERR_INPUT, message);
  expect_error(run("sparse_softmax_cross_entropy_grad", "", in, 3, &gradient, 1), SHOAL_ERR_INPUT, message);
  expect_error(run("in_top_k", "", in, 2, &out, 1), SHOAL_ERR_INPUT, message);
  in[1] = view(SHOAL_U8, two, bytes);
  expect_error(run("in_top_k", "", in, 2, &out, 1), SHOAL_ERR_INPUT, "label 255 in row 0");
  in[1] = view(SHOAL_I64, two, negative);
  expect_error(run("in_top_k", "", in, 2, &out, 1), SHOAL_ERR_INPUT, "label -1 in row 1");
}

static void test_bad_indices(void **state) {
  float params[6] = {0}, picked[4], sums[6], values[4] = {0}, products[2];
  int64_t index[2] = {1, 3}, offsets[3] = {0, 2, 1}, beyond[3] = {0, 1, 5}, fine[3] = {0, 1, 2};
  shoal_shape two = SHOAL_SHAPE(2), three = SHOAL_SHAPE(3), rows = SHOAL_SHAPE(3, 2), pair = SHOAL_SHAPE(2, 2);
  shoal_tensor in[] = {view(SHOAL_F32, rows, params), view(SHOAL_I64, two, index)};
  shoal_tensor out = view(SHOAL_F32, pair, picked);
  const char *message = "index 3 at position 1 is out of range: there are 3 rows";
  expect_error(run("gather", "", in, 2, &out, 1), SHOAL_ERR_INPUT, message);
  shoal_tensor add[] = {view(SHOAL_I64, two, index), view(SHOAL_F32, pair, values)};
  shoal_tensor sum = view(SHOAL_F32, rows, sums);
  expect_error(run("scatter_add", "rows=3", add, 2, &sum, 1), SHOAL_ERR_INPUT, message);
  shoal_tensor sparse[] = {view(SHOAL_I64, three, offsets), view(SHOAL_I64, two, index), view(SHOAL_F32, two, values),
                           view(SHOAL_F32, SHOAL_SHAPE(3, 1), params)};
  shoal_tensor product = view(SHOAL_F32, SHOAL_SHAPE(2, 1), products);
  index[1] = 2;
  expect_error(run("sparse_matmul", "", sparse, 4, &product, 1), SHOAL_ERR_INPUT, "offsets must ascend");
  sparse[0].data = beyond;
  expect_error(run("sparse_matmul", "", sparse, 4, &product, 1), SHOAL_ERR_INPUT, "offsets must ascend");
  sparse[0].data = fine;
  index[0] = -1;
  expect_error(run("sparse_matmul", "", sparse, 4, &product, 1), SHOAL_ERR_INPUT, "index -1 at position 0");
  expect_error(run("embedding_bag", "", sparse, 4, &product, 1), SHOAL_ERR_INPUT, "index -1 at position 0");
  float machine[2];
  shoal_tensor scores[] = {product, view(SHOAL_F32, SHOAL_SHAPE(2, 1), machine)};
  expect_error(run("fm", "", sparse, 4, scores, 2), SHOAL_ERR_INPUT, "index -1 at position 0");
  int32_t fields[2] = {0, 3};
  index[0] = 0;
  shoal_tensor by_field[] = {sparse[0], sparse[1], sparse[2], sparse[3], view(SHOAL_I32, two, fields)};
  expect_error(run("embedding_bag", "fields=1 first=2", by_field, 5, &product, 1), SHOAL_ERR_INPUT,
               "field 3 at position 1 is out of range: there are 3 fields");
}

/* What a table begins with hangs on the place of a number alone, however it is cut. */
static void test_table_start(void **state) {
  enum { ROWS = 50, WIDTH = 7 };
  const table_start start = {.seed = 5, .width = WIDTH, .zeros = 2, .limit = 0.5f};
  float all[ROWS * WIDTH], parts[ROWS * WIDTH];
  table_initial(&start, 0, ROWS * WIDTH, all);
  for (int64_t first = 0, n; first < ROWS * WIDTH; first += n) {
    n = 1 + first % 13;
    if (n > ROWS * WIDTH - first) n = ROWS * WIDTH - first;
    table_initial(&start, first, n, parts + first);
  }
  assert_memory_equal(all, parts, sizeof all);
  int above = 0;
  for (int i = 0; i < ROWS * WIDTH; i++) {
    assert_true(i % WIDTH < 2 ? all[i] == 0 : all[i] > -0.5f && all[i] < 0.5f);
    above += all[i] > 0;
  }
  assert_in_range(above, 80, 170); /* of 250 */
}

/* Large logits neither overflow nor lose the loss. */
static void test_large_logits(void **state) {
  float logits[3] = {1000, 999, -1000}, loss[1], dloss[1] = {1}, dx[3];
  uint8_t label[1] = {1};
  shoal_tensor in[] = {view(SHOAL_F32, SHOAL_SHAPE(1, 3), logits), view(SHOAL_U8, SHOAL_SHAPE(1), label),
                       view(SHOAL_F32, SHOAL_SHAPE(1), dloss)};
  shoal_tensor out = view(SHOAL_F32, SHOAL_SHAPE(1), loss), gradient = view(SHOAL_F32, SHOAL_SHAPE(1, 3), dx);
  assert_null(run("sparse_softmax_cross_entropy", "", in, 2, &out, 1));
  assert_float_equal(loss[0], 1.3132617f, 1e-4f);
  assert_null(run("sparse_softmax_cross_entropy_grad", "", in, 3, &gradient, 1));
  assert_float_equal(dx[0], 0.7310586f, 1e-6f);
  assert_float_equal(dx[1], -0.7310586f, 1e-6f);
}

/* ---- building */

static shoal_graph *new_graph(void) {
  shoal_graph *g = NULL;
  assert_null(shoal_graph_create(&g));
  return g;
}

static void expect_refused(shoal_graph *g, const shoal_value *v, const char *message) {
  assert_null(v);
  expect_error(shoal_graph_status(g), SHOAL_ERR_ARGUMENT, message);
  shoal_graph_destroy(g);
}

static void test_same_padding(void **state) {
  static const struct {
    int64_t size, filter, stride, out, before, after;
  } cases[] = {{28, 5, 1, 28, 2, 2}, {28, 2, 2, 14, 0, 0}, {7, 3, 2, 4, 1, 1}, {6, 3, 2, 3, 0, 1}, {5, 1, 3, 2, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    shoal_graph *g = new_graph();
    shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, cases[i].size, cases[i].size, 3));
    shoal_value *w = shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(cases[i].filter, cases[i].filter, 3, 4), 0);
    shoal_value *y[] = {shoal_conv2d(g, x, w, (int)cases[i].stride, SHOAL_SAME),
                        shoal_max_pool(g, x, (int)cases[i].filter, (int)cases[i].stride, SHOAL_SAME),
                        shoal_avg_pool(g, x, (int)cases[i].filter, (int)cases[i].stride, SHOAL_SAME)};
    for (int k = 0; k < 3; k++) {
      assert_non_null(y[k]);
      shoal_shape shape = shoal_value_shape(y[k]), expected = SHOAL_SHAPE(-1, cases[i].out, cases[i].out, k ? 3 : 4);
      const attr_value *pads = y[k]->maker->attr + (k ? 4 : 2); /* top, left, bottom, right */
      assert_true(shoal_shape_equal(&shape, &expected));
      assert_int_equal(pads[0].i, cases[i].before);
      assert_int_equal(pads[1].i, cases[i].before);
      assert_int_equal(pads[2].i, cases[i].after);
      assert_int_equal(pads[3].i, cases[i].after);
    }
    shoal_graph_destroy(g);
  }
}

static void test_shapes_that_do_not_fit(void **state) {
  shoal_graph *g = new_graph();
  shoal_value *x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(64, 784));
  shoal_value *w = shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(100, 10), 0);
  expect_refused(g, shoal_matmul(g, x, w, false, false), "a [64,784] has 784 columns, b [100,10] has 100 rows");

  g = new_graph();
  x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(-1, 8, 8, 3));
  w = shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(3, 3, 1, 4), 0);
  expect_refused(g, shoal_conv2d(g, x, w, 1, SHOAL_VALID), "x [?,8,8,3] has 3 channels, filter [3,3,1,4] takes 1");

  g = new_graph();
  x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(-1, 4, 4, 3));
  expect_refused(g, shoal_max_pool(g, x, 5, 1, SHOAL_VALID), "height 4, padded by 0, is less than the window's 5");

  g = new_graph();
  x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(-1, -1, 4, 3));
  expect_refused(g, shoal_avg_pool(g, x, 2, 2, SHOAL_SAME), "SAME padding needs an image");

  g = new_graph();
  x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(-1, 10));
  expect_refused(g, shoal_bias_add(g, x, shoal_fill(g, SHOAL_F32, SHOAL_SHAPE(9), 0)), "10 channels, bias [9] has 9");

  g = new_graph();
  x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(-1, 10));
  expect_refused(g, shoal_dropout(g, x, 0), "keep is 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_max_pool_ties),        cmocka_unit_test(test_in_top_k_ties),
      cmocka_unit_test(test_unique_rows),          cmocka_unit_test(test_sparse_updates),
      cmocka_unit_test(test_table_start),          cmocka_unit_test(test_rowwise_adagrad),
      cmocka_unit_test(test_sgd_takes_duplicates), cmocka_unit_test(test_bad_labels),
      cmocka_unit_test(test_bad_indices),          cmocka_unit_test(test_large_logits),
      cmocka_unit_test(test_same_padding),         cmocka_unit_test(test_shapes_that_do_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
