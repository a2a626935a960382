/* Random graphs, each node on a random task of four: the result must be that of one process, step by step, updates of
 * variables included. Fixed seeds; a failing one is printed and can be run alone by SHOAL_TEST_SEED. */
#include "placed_case.h"

#include "base/random.h"

#include <math.h>

enum { GRAPHS = 60, MOST = 64, STEPS = 3, ROWS = 6, WIDTH = 5 };

typedef struct {
  random_stream numbers;
  uint64_t drawn;
  shoal_graph *graph;
  shoal_value *x;
  shoal_value *made[MOST]; /* f32 [?, WIDTH] */
  int n_made;
  shoal_value *variables[MOST], *updates[MOST];
  int n_variables, n_updates;
  shoal_value *fetches[MOST];
  int n_fetches;
} builder;

static int draw(builder *b, int bound) { return (int)random_below(&b->numbers, b->drawn++, (uint64_t)bound); }
static shoal_value *some(builder *b) { return b->made[draw(b, b->n_made)]; }

/* A task, a job, or nothing. */
static void somewhere(builder *b, bool placed) {
  char device[32];
  int which = draw(b, 6), asked = draw(b, 8);
  snprintf(device, sizeof device, which < 3 ? "/job:worker/task:%d" : which < 5 ? "/job:ps" : "/job:worker", which);
  shoal_device_set(b->graph, placed && asked ? device : NULL);
}

/* context: NULL, or the device that what is inside asks for. */
static void squash(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  shoal_device_push(g, context);
  out[0] = shoal_tanh(g, in[0]);
  shoal_device_pop(g);
}

static void blend(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  shoal_device_push(g, context);
  out[0] = shoal_scale(g, in[1], 0.1);
  shoal_device_pop(g);
  out[0] = shoal_add(g, in[0], out[0]);
}

static void is_large(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  out[0] = shoal_less(g, shoal_scalar(g, SHOAL_F32, 0.1), in[0]);
}

static void halve(shoal_graph *g, shoal_value *const *in, int n_in, shoal_value **out, int n_out, void *context) {
  shoal_device_push(g, context);
  out[0] = shoal_scale(g, in[0], 0.5);
  shoal_device_pop(g);
  out[1] = shoal_sub(g, in[1], shoal_scale(g, in[2], 0.25));
}

/* Of a condition or a loop: outside of it, as for any node, or by what is inside. */
static const char *inside(builder *b, bool placed) {
  static const char *const devices[] = {"/job:ps", "/job:worker/task:0", "/job:worker/task:2", "/task:1"};
  const char *chosen = devices[draw(b, 4)];
  if (!draw(b, 2) || !placed) return NULL;
  shoal_device_set(b->graph, NULL);
  return chosen;
}

static shoal_value *grow(builder *b, bool placed) {
  shoal_graph *g = b->graph;
  shoal_value *v = some(b), *w = some(b);
  switch (draw(b, 17)) {
    case 0: return shoal_tanh(g, v);
    case 1: return shoal_add(g, v, w);
    case 2: return shoal_sub(g, shoal_scale(g, v, 0.5), w);
    case 3: return shoal_mul(g, v, shoal_sigmoid(g, w));
    case 4: return shoal_identity(g, v);
    case 5: return shoal_sub(g, v, shoal_reduce_mean(g, w, SHOAL_SHAPE(0), true));
    case 6: return shoal_dropout(g, v, 0.7);
    case 7: return shoal_softmax(g, v);
    case 8:
      v = shoal_reshape(g, v, SHOAL_SHAPE(SHOAL_UNKNOWN, 1, WIDTH));
      return shoal_reshape(g, v, SHOAL_SHAPE(SHOAL_UNKNOWN, WIDTH));
    case 9: return shoal_mul(g, w, shoal_fill_like(g, v, 1.5));
    case 10: {
      shoal_value *parts[2] = {shoal_slice(g, v, SHOAL_SHAPE(0, 0), SHOAL_SHAPE(-1, 2)),
                               shoal_slice(g, w, SHOAL_SHAPE(0, 2), SHOAL_SHAPE(-1, 3))};
      return shoal_concat(g, parts, 2, 1);
    }
    case 11: /* reads a variable as it was, or as an update left it */
      if (b->n_updates && draw(b, 2)) return shoal_bias_add(g, v, b->updates[draw(b, b->n_updates)]);
      return shoal_bias_add(g, v, b->variables[draw(b, b->n_variables)]);
    case 12: { /* waits for something that it does not use */
      shoal_control_push(g, &w, 1);
      shoal_value *made = draw(b, 2) ? shoal_identity(g, v) : shoal_relu(g, v);
      shoal_control_pop(g);
      return made;
    }
    case 13: return shoal_add(g, v, shoal_random_normal(g, SHOAL_SHAPE(WIDTH), 0, 1));
    case 14: { /* tanh or a little more, by the sign of a sum */
      shoal_value *sum = shoal_reduce_sum(g, w, SHOAL_SCALAR, false);
      shoal_value *negative = shoal_less(g, sum, shoal_scalar(g, SHOAL_F32, 0)), *in[] = {v, w};
      return shoal_cond(g, negative, in, 2, squash, blend, 1, (void *)inside(b, placed));
    }
    case 15: { /* halved until it is small */
      shoal_value *vars[] = {shoal_reduce_mean(g, shoal_abs(g, w), SHOAL_SCALAR, false), v}, *fixed[] = {w};
      void *device = (void *)inside(b, placed);
      return shoal_value_output(shoal_while(g, vars, 2, fixed, 1, is_large, halve, 100, device), 1);
    }
    default: return shoal_relu(g, w);
  }
}

static void update(builder *b) {
  shoal_graph *g = b->graph;
  shoal_value *v = b->variables[draw(b, b->n_variables)];
  shoal_value *mean = shoal_reduce_mean(g, some(b), SHOAL_SHAPE(0), false);
  char name[32];
  snprintf(name, sizeof name, "%.3s_update", shoal_value_name(v));
  if (shoal_graph_find(g, name)) return; /* one each: several have no order that a user could name */
  shoal_device_set(g, NULL);
  shoal_value *step = shoal_scale(g, mean, -0.1);
  shoal_name_next(g, name);
  b->updates[b->n_updates++] = shoal_assign_add(g, v, step);
}

static void build(uint64_t seed, bool placed, builder *b) {
  *b = (builder){.numbers = random_stream_make(seed, 5)};
  ok(shoal_graph_create(&b->graph));
  shoal_graph *g = b->graph;
  b->x = shoal_placeholder(g, "x", SHOAL_F32, SHOAL_SHAPE(SHOAL_UNKNOWN, WIDTH));
  b->made[b->n_made++] = b->x;
  int variables = 1 + draw(b, 3), nodes = 5 + draw(b, 25);
  for (int i = 0; i < variables; i++) {
    char name[16];
    snprintf(name, sizeof name, "v%02d", i);
    somewhere(b, placed);
    b->variables[b->n_variables++] = shoal_variable(g, name, shoal_random_uniform(g, SHOAL_SHAPE(WIDTH), -1, 1));
  }
  for (int i = 0; i < nodes; i++) {
    somewhere(b, placed);
    shoal_value *next = grow(b, placed);
    b->made[b->n_made++] = next;
    ok(shoal_graph_status(g));
    if (!draw(b, 6)) update(b);
  }
  shoal_value *loss = shoal_reduce_mean(g, shoal_square(g, b->made[b->n_made - 1]), SHOAL_SCALAR, false);
  b->fetches[b->n_fetches++] = loss;
  shoal_gradient gradients[MOST];
  shoal_device_set(g, NULL);
  ok(shoal_gradients(g, loss, b->variables, b->n_variables, gradients));
  for (int i = 0; i < b->n_variables; i++)
    if (gradients[i].value && !gradients[i].indices) b->fetches[b->n_fetches++] = gradients[i].value;
  for (int i = 0; i < 3; i++) b->fetches[b->n_fetches++] = some(b);
  for (int i = 0; i < b->n_updates; i++) b->fetches[b->n_fetches++] = b->updates[i];
  shoal_value *all[] = {shoal_group(g, b->fetches, b->n_fetches)};
  b->fetches[b->n_fetches++] = all[0];
  ok(shoal_graph_status(g));
}

static void compare(uint64_t seed, int step, int fetch, const shoal_tensor *want, const shoal_tensor *got) {
  int64_t n = shoal_tensor_count(want);
  assert_int_equal(n, shoal_tensor_count(got));
  double most = 1e-2;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(shoal_tensor_get(want, i)));
  for (int64_t i = 0; i < n; i++) {
    double a = shoal_tensor_get(want, i), c = shoal_tensor_get(got, i);
    if (fabs(a - c) <= 1e-4 * most) continue;
    print_error("seed %llu, step %d: fetch %d, element %lld is %g, not %g\n", (unsigned long long)seed, step, fetch,
                (long long)i, c, a);
    fail();
  }
}

static void run_graph(const servers *s, uint64_t seed) {
  builder one, spread;
  build(seed, false, &one);
  build(seed, true, &spread);
  assert_int_equal(one.n_fetches, spread.n_fetches);
  shoal_session *local, *over = session_over(s, spread.graph, 11);
  ok(shoal_session_create(one.graph, &(shoal_session_options){.threads = 1, .seed = 11}, &local));
  float rows[ROWS * WIDTH];
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < ROWS * WIDTH; i++) rows[i] = (float)draw(&one, 200) / 100 - 1;
    int64_t n = 1 + draw(&one, ROWS);
    shoal_tensor want[MOST], got[MOST], fed = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(n, WIDTH), rows);
    ok(shoal_session_run(local, &(shoal_feed){one.x, fed}, 1, one.fetches, one.n_fetches, want));
    ok(shoal_session_run(over, &(shoal_feed){spread.x, fed}, 1, spread.fetches, spread.n_fetches, got));
    for (int i = 0; i < one.n_fetches; i++) compare(seed, step, i, &want[i], &got[i]);
  }
  shoal_session_destroy(local);
  shoal_session_destroy(over);
  shoal_graph_destroy(one.graph);
  shoal_graph_destroy(spread.graph);
}

static void spread_equals_one(void **state) {
  const char *only = getenv("SHOAL_TEST_SEED");
  if (only) {
    run_graph(*state, strtoull(only, NULL, 10));
    return;
  }
  for (uint64_t seed = 1; seed <= GRAPHS; seed++) run_graph(*state, seed);
}

static int start(void **state) {
  static servers s;
  servers_start(&s, false);
  *state = &s;
  return 0;
}

static int stop(void **state) {
  servers_stop(*state);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(spread_equals_one)};
  return cmocka_run_group_tests(tests, start, stop);
}
