/* Walks the operator table: every row is checked by the same code, and a row that cannot be checked fails.
 *
 *  1. Each row has test cases, a shape rule, a kernel, and a gradient or the reason why not.
 *  2. The reference kernel: f32 against f64, and against an independent definition where there is one (op_naive.c).
 *     Operators that the planner makes are f32 only, and may leave parts of an output open.
 *  3. Each tuned kernel that this machine can run against the reference, whole and cut in two. SHOAL_TEST_TIMES=1
 *     prints how long they take.
 *  4. What the batch rule promises: a batch cut in two gives what the whole gives.
 *  5. Kernels that follow a list of rows: the same as on rows in that order.
 *  6. Gradients against central differences in f64.
 *
 * SHOAL_TEST_OP=name walks that operator alone. */
#include "op_case.h"
#include "op_evaluate.h"
#include "op_naive.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- walking and comparing */

static int failures; /* of the test that is running: all rows are walked before it fails */

static void complain(const op_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void complain(const op_case *c, const char *format, ...) {
  va_list args;
  char message[512];
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  print_error("%s \"%s\": %s\n", c->row->name, c->text, message);
  failures++;
}

static const op_row *row_at(size_t i, bool *skip) {
  const op_row *row = op_at(i);
  const char *only = getenv("SHOAL_TEST_OP");
  *skip = row && ((row->flags & (OP_SOURCE | OP_NESTED)) || (only && strcmp(only, row->name)));
  return row;
}

static void walk(void (*visit)(const op_case *c)) {
  failures = 0;
  bool skip;
  const op_row *row;
  for (size_t i = 0; (row = row_at(i, &skip)); i++)
    if (!skip && row->cases && row->kernel)
      for (const char *const *line = row->cases; *line; line++) {
        op_case c;
        case_parse(row, *line, &c);
        visit(&c);
        case_fini(&c);
      }
  assert_int_equal(failures, 0);
}

/* The largest difference, in units of the largest expected magnitude (at least 0.01). Where `other`, a second run from
 * other garbage, has something else than `expected`, the element is left open and does not count. */
static double difference(const shoal_tensor *got, const shoal_tensor *expected, const shoal_tensor *other) {
  size_t size = shoal_dtype_size(expected->dtype);
  int64_t n = shoal_tensor_count(expected);
  double worst = 0, scale = 0.01;
  for (int64_t i = 0; i < n; i++) {
    double a = shoal_tensor_get(got, i), b = shoal_tensor_get(expected, i);
    if (other && memcmp((char *)expected->data + (size_t)i * size, (char *)other->data + (size_t)i * size, size))
      continue;
    if (isfinite(b)) scale = fmax(scale, fabs(b));
    if (a == b) continue;
    double d = fabs(a - b);
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d; /* a NaN is as wrong as can be */
  }
  return worst / scale;
}

static void compare(const op_case *c, const char *what, const shoal_tensor *got, const shoal_tensor *expected,
                    const shoal_tensor *other, double tolerance) {
  double d = difference(got, expected, other);
  if (!(d <= tolerance)) complain(c, "%s differs by %.3g of its magnitude; %.1g is allowed", what, d, tolerance);
}

/* What a kernel should give: of the reference kernel in f64, or of two runs of an f32 one from different garbage. */
typedef struct {
  case_memory first, second;
} expectation;

/* All outputs, and all inputs that are changed in place. */
static void compare_all(const op_case *c, const char *what, const case_memory *got, const expectation *e,
                        double tolerance) {
  char name[96];
  for (int i = 0; i < c->outs; i++) {
    snprintf(name, sizeof name, "%s: output %d", what, i);
    compare(c, name, &got->out[i], &e->first.out[i], e->second.ins ? &e->second.out[i] : NULL, tolerance);
  }
  for (int i = 1; i < c->ins; i++)
    if (op_updates(c->row, i)) {
      snprintf(name, sizeof name, "%s: updated input %d", what, i);
      compare(c, name, &got->in[i], &e->first.in[i], NULL, tolerance);
    }
}

/* ---- running kernels on all rows or some */

typedef struct {
  bool in[CASE_INPUTS], out[OP_MAX_OUTPUTS];
  op_batch rule;
  int64_t rows; /* of the batch; 0: the case has none */
} batch_marks;

static batch_marks marks_of(const op_case *c) {
  batch_marks m = {0};
  case_shapes built;
  case_infer(c, SHOAL_F32, true, &built);
  for (int i = 0; i < c->ins; i++) {
    m.in[i] = c->in[i].batched;
    if (m.in[i] && !m.rows) m.rows = c->in[i].shape.dim[0];
  }
  for (int i = 0; i < c->outs; i++) m.out[i] = built.out[i].rank && built.out[i].dim[0] == SHOAL_UNKNOWN;
  m.rule = m.rows && c->row->batch ? c->row->batch(&built.s) : BATCH_WHOLE;
  return m;
}

/* The view of `rows` rows from `first` on. In LANES layout `first` is a multiple of 16, and the offset is the same. */
static shoal_tensor part_of(shoal_tensor t, int64_t first, int64_t rows) {
  int64_t all = t.shape.dim[0];
  t.data = (char *)t.data + (all ? (size_t)(shoal_tensor_count(&t) / all * first) : 0) * shoal_dtype_size(t.dtype);
  t.shape.dim[0] = rows;
  return t;
}

static void run_rows(const op_case *c, kernel_fn run, case_memory *m, const batch_marks *marks, int64_t first,
                     int64_t rows, bool accumulate, void *scratch, const char *what) {
  shoal_tensor in[CASE_INPUTS], out[OP_MAX_OUTPUTS];
  bool part = marks->rows && rows < marks->rows;
  for (int i = 0; i < c->ins; i++) {
    in[i] = part && marks->in[i] ? part_of(m->in[i], first, rows) : m->in[i];
    if (op_shape_only(c->row, i)) in[i].data = NULL;
  }
  for (int i = 0; i < c->outs; i++) out[i] = part && marks->out[i] ? part_of(m->out[i], first, rows) : m->out[i];
  kernel_call call = case_call(c, m);
  call.in = in;
  call.out = out;
  call.first_row = first;
  call.accumulate = accumulate;
  call.scratch = scratch;
  shoal_status status = run(&call);
  if (status) complain(c, "%s: %s", what, shoal_status_message(status));
  shoal_status_free(status);
}

static void run_whole(const op_case *c, kernel_fn run, case_memory *m, const batch_marks *marks, void *scratch,
                      const char *what) {
  run_rows(c, run, m, marks, 0, marks->rows, false, scratch, what);
}

static void run_in_two(const op_case *c, kernel_fn run, case_memory *m, const batch_marks *marks, int64_t cut,
                       void *scratch, const char *what) {
  run_rows(c, run, m, marks, 0, cut, false, scratch, what);
  run_rows(c, run, m, marks, cut, marks->rows - cut, marks->rule == BATCH_SUM, scratch, what);
}

static case_memory fresh(const op_case *c, shoal_dtype real) {
  case_shapes shapes;
  case_memory m;
  case_infer(c, real, false, &shapes);
  case_memory_init(c, &shapes, real, &m);
  return m;
}

/* New memory with the reference kernel's results for the real type. */
static case_memory reference(const op_case *c, shoal_dtype real, const batch_marks *marks) {
  case_memory m = fresh(c, real);
  run_whole(c, c->row->kernel, &m, marks, NULL, "reference kernel");
  return m;
}

static bool is_internal(const op_case *c) { return c->row->flags & OP_INTERNAL; }
/* The widest type the reference kernel takes. */
static shoal_dtype widest(const op_case *c) { return is_internal(c) ? SHOAL_F32 : SHOAL_F64; }

static expectation expect(const op_case *c, const batch_marks *marks) {
  expectation e = {.first = reference(c, widest(c), marks)};
  if (!is_internal(c)) return e;
  e.second = fresh(c, SHOAL_F32);
  for (int i = e.second.aliased; i < c->outs; i++)
    memset(e.second.out[i].data, 0x11, shoal_tensor_bytes(&e.second.out[i]));
  run_whole(c, c->row->kernel, &e.second, marks, NULL, "reference kernel");
  return e;
}

static void expectation_fini(expectation *e) {
  case_memory_fini(&e->first);
  case_memory_fini(&e->second);
}

/* ---- 1. the table itself */

static void test_rows_are_complete(void **state) {
  failures = 0;
  bool skip;
  const op_row *row;
  for (size_t i = 0; (row = row_at(i, &skip)); i++) {
    if (skip) continue;
    op_case c = {.row = row, .text = ""};
    if (!row->cases || !row->cases[0]) complain(&c, "has no test cases");
    if (!row->kernel) complain(&c, "has no kernel");
    if (!row->shape) complain(&c, "has no shape rule");
    if (!row->gradient && !(row->flags & (OP_NO_GRADIENT | OP_GRADIENT_ONLY | OP_INTERNAL)))
      complain(&c, "has no gradient, and no flag that says why");
    if (op_find(row->name) != row) complain(&c, "is not the only one of that name");
  }
  assert_int_equal(failures, 0);
}

/* ---- 2. shapes and the reference kernel */

static void check_shapes(const op_case *c) {
  case_shapes built, fed;
  case_infer(c, SHOAL_F32, true, &built);
  case_infer(c, SHOAL_F32, false, &fed);
  for (int i = 0; i < c->outs; i++) {
    bool fits = built.out[i].rank == fed.out[i].rank && built.out_dtype[i] == fed.out_dtype[i];
    for (int d = 0; fits && d < fed.out[i].rank; d++)
      fits =
          fed.out[i].dim[d] >= 0 && (built.out[i].dim[d] == SHOAL_UNKNOWN || built.out[i].dim[d] == fed.out[i].dim[d]);
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    if (!fits)
      complain(c, "output %d is %s %s with an unknown batch, but %s %s with a known one", i,
               shoal_dtype_name(built.out_dtype[i]), shoal_shape_text(&built.out[i], a),
               shoal_dtype_name(fed.out_dtype[i]), shoal_shape_text(&fed.out[i], b));
  }
}

static void test_shapes(void **state) { walk(check_shapes); }

static void check_reference(const op_case *c) {
  batch_marks marks = marks_of(c);
  case_memory narrow = reference(c, SHOAL_F32, &marks);
  expectation wide = expect(c, &marks);
  compare_all(c, "f32 against f64", &narrow, &wide, 1e-4);
  case_memory_fini(&narrow);
  expectation_fini(&wide);
}

static void test_reference_kernels(void **state) { walk(check_reference); }

static void check_naive(const op_case *c) {
  naive_fn naive = naive_find(c->row->name);
  if (!naive) return;
  batch_marks marks = marks_of(c);
  case_memory got = reference(c, widest(c), &marks), inputs = fresh(c, widest(c));
  shoal_tensor expected = case_tensor(SHOAL_F64, got.out[0].shape, true);
  naive(c, &inputs, expected.data);
  compare(c, "against its definition", &got.out[0], &expected, NULL, is_internal(c) ? 1e-5 : 1e-12);
  shoal_tensor_fini(&expected);
  case_memory_fini(&inputs);
  case_memory_fini(&got);
}

static void test_definitions(void **state) { walk(check_naive); }

/* ---- 3. tuned kernels */

/* Rows [n, f] to [ceil(n/16)][f][16]. Numbers beyond the last row are `pad`. */
static shoal_tensor pack(const shoal_tensor *rows, double pad) {
  int64_t features = lanes_features(rows), blocks = lanes_blocks(rows), n = rows->shape.dim[0];
  shoal_tensor t = case_tensor(rows->dtype, SHOAL_SHAPE(blocks, features, LANES), false);
  for (int64_t i = 0; i < blocks * LANES; i++)
    for (int64_t f = 0; f < features; f++)
      shoal_tensor_set(&t, (i / LANES * features + f) * LANES + i % LANES,
                       i < n ? shoal_tensor_get(rows, i * features + f) : pad);
  t.shape = rows->shape;
  return t;
}

static void unpack(const shoal_tensor *packed, shoal_tensor *rows) {
  int64_t features = lanes_features(rows), n = rows->shape.dim[0];
  shoal_tensor flat = *packed;
  flat.shape = SHOAL_SHAPE(lanes_blocks(rows) * features * LANES);
  for (int64_t i = 0; i < n; i++)
    for (int64_t f = 0; f < features; f++)
      shoal_tensor_set(rows, i * features + f, shoal_tensor_get(&flat, (i / LANES * features + f) * LANES + i % LANES));
}

/* A sum over the batch relies on its gradient, which is input 1 (or the only one), being zero where rows only pad. */
static double padding_of(const op_case *c, const batch_marks *marks, int i) {
  int gradient = c->ins > 1 && marks->in[1] ? 1 : 0;
  return c->in[i].real && !(marks->rule == BATCH_SUM && i == gradient) ? 0.5 : 0;
}

/* Runs the variant on its own layouts, from fresh inputs; *m holds rows before and after. cut 0: in one piece. */
static void run_variant(const op_case *c, const op_variant *v, const batch_marks *marks, case_memory *m, int64_t cut,
                        void *scratch, double *seconds) {
  case_memory own = *m;
  for (int i = 0; i < c->ins; i++)
    if (marks->in[i] && v->lanes_in >> i & 1) own.in[i] = pack(&m->in[i], padding_of(c, marks, i));
  for (int i = 0; i < c->outs; i++)
    if (marks->out[i] && v->lanes_out >> i & 1) {
      own.out[i] =
          case_tensor(m->out[i].dtype, SHOAL_SHAPE(lanes_blocks(&m->out[i]), lanes_features(&m->out[i]), LANES), true);
      own.out[i].shape = m->out[i].shape;
    }
  if (cut)
    run_in_two(c, v->run, &own, marks, cut, scratch, v->name);
  else
    run_whole(c, v->run, &own, marks, scratch, v->name);
  for (int k = 0; seconds && k < 20; k++) {
    double start = clock_seconds();
    run_whole(c, v->run, &own, marks, scratch, v->name);
    *seconds = fmin(*seconds, clock_seconds() - start);
  }
  for (int i = 0; i < c->outs; i++)
    if (own.out[i].data != m->out[i].data) {
      unpack(&own.out[i], &m->out[i]);
      shoal_tensor_fini(&own.out[i]);
    }
  for (int i = 0; i < c->ins; i++)
    if (own.in[i].data != m->in[i].data) shoal_tensor_fini(&own.in[i]);
}

static double time_reference(const op_case *c, const batch_marks *marks) {
  case_memory m = reference(c, SHOAL_F32, marks);
  double best = INFINITY;
  for (int k = 0; k < 20; k++) {
    double start = clock_seconds();
    run_whole(c, c->row->kernel, &m, marks, NULL, "reference kernel");
    best = fmin(best, clock_seconds() - start);
  }
  case_memory_fini(&m);
  return best;
}

/* LANES is the layout of phases that are split over the batch. */
static bool can_run(const op_variant *v, const op_shapes *s, const batch_marks *marks) {
  bool lanes = v->lanes_in || v->lanes_out;
  return v->needs <= cpu_best() && !(lanes && marks->rule == BATCH_WHOLE) && (!v->fits || v->fits(s));
}

static void check_variants(const op_case *c) {
  case_shapes shapes;
  case_infer(c, SHOAL_F32, false, &shapes);
  for (int i = 0; i < c->ins; i++)
    if (shapes.in_dtype[i] == SHOAL_F64) return; /* tuned kernels are f32 */
  batch_marks marks = marks_of(c);
  bool timed = getenv("SHOAL_TEST_TIMES") && !c->row->updates;
  for (const op_variant *v = c->row->variants; v && v->name; v++) {
    if (!can_run(v, &shapes.s, &marks)) continue;
    expectation expected = expect(c, &marks);
    void *scratch = NULL;
    shoal_status status = mem_aligned(v->scratch ? v->scratch(&shapes.s) : 0, &scratch);
    assert_null(status);
    for (int64_t cut = 0; cut <= LANES; cut += LANES) {
      if (cut && (marks.rule == BATCH_WHOLE || v->whole || marks.rows <= cut)) continue;
      double seconds = INFINITY;
      case_memory m = fresh(c, SHOAL_F32);
      run_variant(c, v, &marks, &m, cut, scratch, timed && !cut ? &seconds : NULL);
      compare_all(c, v->name, &m, &expected, 1e-4);
      case_memory_fini(&m);
      if (timed && !cut)
        print_message("%-28s %-50s %-16s %10.0f ns, reference %10.0f ns\n", c->row->name, c->text, v->name,
                      seconds * 1e9, time_reference(c, &marks) * 1e9);
    }
    free(scratch);
    expectation_fini(&expected);
  }
}

static void test_variants(void **state) { walk(check_variants); }

/* ---- 4. batch rules */

static void check_batch(const op_case *c) {
  batch_marks marks = marks_of(c);
  if (marks.rule == BATCH_WHOLE) return;
  for (int i = 0; i < c->outs; i++)
    if (marks.out[i] != (marks.rule == BATCH_MAP)) complain(c, "output %d contradicts the batch rule", i);
  if (marks.rows < 2) return;
  expectation whole = expect(c, &marks);
  case_memory parts = fresh(c, widest(c));
  run_in_two(c, c->row->kernel, &parts, &marks, marks.rows / 2, NULL, "in two parts");
  compare_all(c, "in two parts", &parts, &whole, is_internal(c) ? 1e-5 : 1e-12);
  expectation_fini(&whole);
  case_memory_fini(&parts);
}

static void test_batch_rules(void **state) { walk(check_batch); }

/* ---- 5. lists of rows */

/* Each kernel on input 0 given backwards, with a list that puts it right again, gives what it gives on plain rows. */
static void check_row_list(const op_case *c) {
  batch_marks marks = marks_of(c);
  if (!(c->row->flags & OP_TAKES_ROWS) || !marks.in[0]) return;
  case_shapes shapes;
  case_infer(c, SHOAL_F32, false, &shapes);
  expectation expected = expect(c, &marks);
  const op_variant reference_kernel[] = {{.name = "reference kernel", .run = c->row->kernel}, {0}};
  for (int tuned = 0; tuned < 2; tuned++)
    for (const op_variant *v = tuned ? c->row->variants : reference_kernel; v && v->name; v++) {
      if (!can_run(v, &shapes.s, &marks)) continue;
      case_memory m = fresh(c, SHOAL_F32);
      int32_t *list = calloc((size_t)marks.rows, sizeof *list);
      size_t row = shoal_tensor_bytes(&m.in[0]) / (size_t)marks.rows;
      shoal_tensor backwards = case_tensor(m.in[0].dtype, m.in[0].shape, false);
      void *scratch = NULL;
      assert_null(mem_aligned(v->scratch ? v->scratch(&shapes.s) : 0, &scratch));
      assert_non_null(list);
      for (int64_t i = 0; i < marks.rows; i++) {
        list[i] = (int32_t)(marks.rows - 1 - i);
        memcpy((char *)backwards.data + (size_t)list[i] * row, (char *)m.in[0].data + (size_t)i * row, row);
      }
      memcpy(m.in[0].data, backwards.data, shoal_tensor_bytes(&backwards));
      m.in[0].rows = list;
      run_variant(c, v, &marks, &m, 0, scratch, NULL);
      m.in[0].rows = NULL;
      compare_all(c, v->name, &m, &expected, 1e-4);
      shoal_tensor_fini(&backwards);
      free(scratch);
      free(list);
      case_memory_fini(&m);
    }
  expectation_fini(&expected);
}

static void test_row_lists(void **state) { walk(check_row_list); }

/* ---- 6. gradients */

typedef struct {
  shoal_graph *graph;
  shoal_value *x[CASE_INPUTS], *loss; /* the sum of all real outputs, each element with its own random weight */
  evaluate_feed feeds[CASE_INPUTS + OP_MAX_OUTPUTS];
  int n_feeds;
} gradient_setup;

static shoal_value *placeholder_for(gradient_setup *s, const char *name, shoal_shape built, shoal_tensor tensor) {
  shoal_value *v = shoal_placeholder(s->graph, name, tensor.dtype, built);
  s->feeds[s->n_feeds++] = (evaluate_feed){v, tensor};
  return v;
}

static void build_loss(const op_case *c, gradient_setup *s) {
  case_shapes built, fed;
  case_infer(c, SHOAL_F64, true, &built);
  case_infer(c, SHOAL_F64, false, &fed);
  *s = (gradient_setup){0};
  assert_null(shoal_graph_create(&s->graph));
  for (int i = 0; i < c->ins; i++) s->x[i] = placeholder_for(s, "x", built.in[i], case_fill(c, i, SHOAL_F64));
  shoal_value *y = graph_add(s->graph, c->row, s->x, c->ins, c->attr);
  for (int i = 0; i < c->outs; i++) {
    if (fed.out_dtype[i] != SHOAL_F64 || c->row->saved >> i & 1) continue;
    op_case weights = {.row = c->row, .ins = 1, .in = {{.real = true, .shape = fed.out[i], .values = VALUES_POSITIVE}}};
    shoal_value *w = placeholder_for(s, "weights", built.out[i], case_fill(&weights, 0, SHOAL_F64));
    shoal_value *sum =
        shoal_reduce_sum(s->graph, shoal_mul(s->graph, shoal_value_output(y, i), w), (shoal_shape){0}, false);
    s->loss = s->loss ? shoal_add(s->graph, s->loss, sum) : sum;
  }
}

static double loss_at(const op_case *c, const gradient_setup *s) {
  evaluation e;
  evaluate(s->graph, s->loss->maker->id, s->feeds, s->n_feeds, c->row->name, &e);
  double value = shoal_tensor_get(evaluation_of(&e, s->loss), 0);
  evaluation_fini(&e);
  return value;
}

/* A dense copy of a gradient with respect to an input of that shape; zero where there is none. */
static shoal_tensor densified(const op_case *c, const evaluation *e, shoal_gradient gradient, shoal_shape shape) {
  shoal_tensor t = case_tensor(SHOAL_F64, shape, false);
  if (!gradient.value) return t;
  const shoal_tensor *value = evaluation_of(e, gradient.value);
  if (!gradient.indices) {
    if (!shoal_shape_equal(&value->shape, &shape))
      complain(c, "a gradient has another shape than its input");
    else
      memcpy(t.data, value->data, shoal_tensor_bytes(value));
    return t;
  }
  const shoal_tensor *indices = evaluation_of(e, gradient.indices);
  int64_t n = shoal_tensor_count(indices), width = shoal_shape_count(&shape) / shape.dim[0];
  for (int64_t i = 0; i < n * width; i++) {
    int64_t place = (int64_t)shoal_tensor_get(indices, i / width) * width + i % width;
    shoal_tensor_set(&t, place, shoal_tensor_get(&t, place) + shoal_tensor_get(value, i));
  }
  return t;
}

/* Against central differences, for some forty elements of the input. */
static void check_differences(const op_case *c, const gradient_setup *s, int input, const shoal_tensor *gradient) {
  double *x = s->feeds[input].tensor.data; /* [n] */
  int64_t n = shoal_tensor_count(gradient), step = n > 40 ? n / 40 | 1 : 1;
  double worst = 0, scale = 0.01, h = 1e-5;
  for (int64_t i = 0; i < n; i += step) {
    double kept = x[i];
    x[i] = kept + h;
    double up = loss_at(c, s);
    x[i] = kept - h;
    double down = loss_at(c, s), slope = (up - down) / (2 * h), d = fabs(shoal_tensor_get(gradient, i) - slope);
    x[i] = kept;
    scale = fmax(scale, fabs(slope));
    if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
  }
  if (!(worst / scale <= 1e-5))
    complain(c, "gradient %d is off by %.3g of its magnitude from central differences", input, worst / scale);
}

static void check_gradient(const op_case *c) {
  if (c->row->flags & (OP_NO_GRADIENT | OP_GRADIENT_ONLY | OP_INTERNAL)) return;
  gradient_setup s;
  build_loss(c, &s);
  shoal_value *asked[CASE_INPUTS];
  int places[CASE_INPUTS], n = 0;
  for (int i = 0; i < c->ins; i++)
    if (c->in[i].real) {
      asked[n] = s.x[i];
      places[n++] = i;
    }
  shoal_status status = shoal_graph_status(s.graph);
  shoal_gradient gradients[CASE_INPUTS] = {{0}};
  if (!status && s.loss && n) status = shoal_gradients(s.graph, s.loss, asked, n, gradients);
  if (status)
    complain(c, "%s", shoal_status_message(status));
  else if (s.loss && n) {
    evaluation e;
    evaluate(s.graph, (int)s.graph->count - 1, s.feeds, s.n_feeds, c->row->name, &e);
    for (int i = 0; i < n; i++) {
      shoal_tensor gradient = densified(c, &e, gradients[i], c->in[places[i]].shape);
      check_differences(c, &s, places[i], &gradient);
      shoal_tensor_fini(&gradient);
    }
    evaluation_fini(&e);
  }
  shoal_status_free(status);
  for (int i = 0; i < s.n_feeds; i++) shoal_tensor_fini(&s.feeds[i].tensor);
  shoal_graph_destroy(s.graph);
}

static void test_gradients(void **state) { walk(check_gradient); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_are_complete), cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_reference_kernels), cmocka_unit_test(test_definitions),
      cmocka_unit_test(test_variants),          cmocka_unit_test(test_batch_rules),
      cmocka_unit_test(test_row_lists),         cmocka_unit_test(test_gradients),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
