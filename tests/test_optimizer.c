/* Optimizers against their formulas worked out by hand, dense and by rows; schedules; initializers. */
#include "shoal/train.h"
#include "files.h"
#include "kernel/cpu.h"

#include <math.h>

#define SIZE 3
#define RATE 0.1

static const float start[SIZE] = {1, -2, 0.5f};
static const float goal[SIZE] = {0.25f, 1, -3};

/* The reference: one number's state and its update, in double. */
typedef struct {
  double w, a, b; /* the number, two slots */
} reference;

static void sgd_step(reference *r, double g, int t) { r->w -= RATE * g; }

static void momentum_step(reference *r, double g, int t) {
  r->a = 0.8 * r->a + g;
  r->w -= RATE * r->a;
}

static void nesterov_step(reference *r, double g, int t) {
  r->a = 0.8 * r->a + g;
  r->w -= RATE * (g + 0.8 * r->a);
}

static void adagrad_step(reference *r, double g, int t) {
  if (t == 1) r->a = 0.1;
  r->a += g * g;
  r->w -= RATE * g / (sqrt(r->a) + 1e-7);
}

static void adagrad_low_step(reference *r, double g, int t) {
  if (t == 1) r->a = 0.001;
  r->a += g * g;
  r->w -= RATE * g / (sqrt(r->a) + 1e-7);
}

static void rmsprop_step(reference *r, double g, int t) {
  r->a = 0.9 * r->a + 0.1 * g * g;
  r->b = 0.5 * r->b + RATE * g / sqrt(r->a + 1e-7);
  r->w -= r->b;
}

static void adam_step(reference *r, double g, int t) {
  r->a = 0.9 * r->a + 0.1 * g;
  r->b = 0.999 * r->b + 0.001 * g * g;
  double m = r->a / (1 - pow(0.9, t)), v = r->b / (1 - pow(0.999, t));
  r->w -= RATE * m / (sqrt(v) + 1e-7);
}

static void ftrl_step(reference *r, double g, int t) {
  double n = r->b + g * g, sigma = (sqrt(n) - sqrt(r->b)) / RATE;
  r->a += g - sigma * r->w;
  r->b = n;
  double l1 = 0.01, l2 = 0.02, beta = 1;
  r->w = fabs(r->a) <= l1 ? 0 : -(r->a - copysign(l1, r->a)) / ((beta + sqrt(n)) / RATE + l2);
}

static void adamw_step(reference *r, double g, int t) {
  r->w -= RATE * 0.004 * r->w;
  adam_step(r, g, t);
}

static void decay_step(reference *r, double g, int t) { r->w -= RATE * (0.5 * r->w + g); }

static void nadam_step(reference *r, double g, int t) {
  double product = 1, next = 0.9 * (1 - 0.5 * pow(0.96, t + 1)), now = 0.9 * (1 - 0.5 * pow(0.96, t));
  for (int i = 1; i <= t; i++) product *= 0.9 * (1 - 0.5 * pow(0.96, i));
  r->a = 0.9 * r->a + 0.1 * g;
  r->b = 0.999 * r->b + 0.001 * g * g;
  const double m = next * r->a / (1 - product * next) + (1 - now) * g / (1 - product);
  r->w -= RATE * m / (sqrt(r->b / (1 - pow(0.999, t))) + 1e-7);
}

static void lion_step(reference *r, double g, int t) {
  const double mean = 0.9 * r->a + 0.1 * g;
  r->w -= RATE * ((mean > 0) - (mean < 0));
  r->a = 0.99 * r->a + 0.01 * g;
}

static void clipped_step(reference *r, double g, int t) { r->w -= RATE * fmin(fmax(g, -0.5), 0.5); }

/* The norm of the first step's gradient is that of start - goal; of the second it is 0.1 less of 2. */
static void clipped_norm_step(reference *r, double g, int t) {
  double squares = 0;
  for (int i = 0; i < SIZE; i++) squares += (double)(start[i] - goal[i]) * (double)(start[i] - goal[i]);
  r->w -= RATE * g * 2 / (sqrt(squares) - (t - 1) * RATE * 2);
}

static const struct {
  shoal_optimizer_options options;
  void (*step)(reference *r, double g, int t);
} optimizers[] = {
    {{.name = NULL}, sgd_step},
    {{.name = "sgd"}, sgd_step},
    {{.name = "momentum", .momentum = 0.8}, momentum_step},
    {{.name = "momentum", .momentum = 0.8, .nesterov = true}, nesterov_step},
    {{.name = "adagrad"}, adagrad_step},
    {{.name = "adagrad", .accumulator = 0.001}, adagrad_low_step},
    {{.name = "rmsprop", .momentum = 0.5}, rmsprop_step},
    {{.name = "adam"}, adam_step},
    {{.name = "ftrl", .l1 = 0.01, .l2 = 0.02}, ftrl_step},
    {{.name = "adamw"}, adamw_step},
    {{.name = "adamw", .weight_decay = -1}, adam_step},
    {{.name = "sgd", .weight_decay = 0.5}, decay_step},
    {{.name = "nadam"}, nadam_step},
    {{.name = "lion"}, lion_step},
    {{.name = "sgd", .average = 0.5}, sgd_step},
    {{.name = "sgd", .clip_value = 0.5}, clipped_step},
    {{.name = "sgd", .clip_norm = 2}, clipped_norm_step},
    {{.name = "sgd", .clip_global_norm = 2}, clipped_norm_step},
};

/* Loss sum((w - goal)^2) / 2: the gradient is w - goal. */
static void check_optimizer(size_t which, shoal_dtype dtype) {
  shoal_graph *g;
  shoal_session *session;
  assert_ok(shoal_graph_create(&g));
  float first[SIZE], towards[SIZE];
  memcpy(first, start, sizeof first);
  memcpy(towards, goal, sizeof towards);
  shoal_tensor a = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(SIZE), first);
  shoal_tensor b = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(SIZE), towards);
  shoal_value *w = shoal_variable(g, "w", shoal_cast(g, shoal_constant(g, &a), dtype));
  shoal_value *loss = shoal_l2_loss(g, shoal_sub(g, w, shoal_cast(g, shoal_constant(g, &b), dtype)));
  shoal_value *rate = shoal_scalar(g, SHOAL_F32, RATE), *update;
  assert_ok(shoal_minimize(g, &optimizers[which].options, loss, &w, 1, rate, &update));
  assert_ok(shoal_session_create(g, &(shoal_session_options){.threads = 1}, &session));

  reference r[SIZE];
  for (int i = 0; i < SIZE; i++) r[i] = (reference){start[i], 0, 0};
  double loss_first = 0, loss_last = 0;
  shoal_tensor now;
  assert_ok(shoal_session_variable(session, w, &now));
  for (int t = 1; t <= 200; t++) {
    shoal_tensor got[2];
    shoal_value *fetches[] = {loss, update};
    assert_ok(shoal_session_run(session, NULL, 0, fetches, 2, got));
    loss_last = shoal_tensor_get(&got[0], 0);
    if (t == 1) loss_first = loss_last;
    if (t > 2) continue;
    for (int i = 0; i < SIZE; i++) {
      optimizers[which].step(&r[i], r[i].w - goal[i], t);
      double have = shoal_tensor_get(&now, i);
      if (!(fabs(have - r[i].w) < 2e-6 * (1 + fabs(r[i].w))))
        fail_msg("%s, step %d, number %d: %.9g instead of %.9g", optimizers[which].options.name, t, i, have, r[i].w);
    }
  }
  if (!(loss_last < 0.6 * loss_first))
    fail_msg("%s: loss from %g to %g", optimizers[which].options.name, loss_first, loss_last);
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

static void test_optimizers(void **state) {
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
    check_optimizer(i, SHOAL_F32);
    check_optimizer(i, SHOAL_F64);
  }
}

/* A table [4, 2] of which rows 1, 3 and again 1 are used: the update of those rows is the dense one's, with the two
 * uses of row 1 summed; rows 0 and 2 stay as they are to the bit. */
static void check_rows(const char *name) {
  shoal_graph *g;
  shoal_session *session;
  assert_ok(shoal_graph_create(&g));
  float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t rows[3] = {1, 3, 1};
  shoal_tensor first = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(4, 2), table);
  shoal_tensor used = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(3), rows);
  shoal_value *index = shoal_constant(g, &used), *rate = shoal_scalar(g, SHOAL_F32, 0.125), *update[2], *w[2];
  w[0] = shoal_variable(g, "sparse", shoal_constant(g, &first));
  w[1] = shoal_variable(g, "dense", shoal_constant(g, &first));
  shoal_optimizer_options options = {.name = name};
  assert_ok(shoal_minimize(g, &options, shoal_l2_loss(g, shoal_gather(g, w[0], index)), &w[0], 1, rate, &update[0]));
  /* The same loss with a dense gradient: weight 2 on row 1, 1 on row 3, 0 elsewhere. */
  float weights[8] = {0, 0, 1.41421356f, 1.41421356f, 0, 0, 1, 1};
  shoal_tensor weight = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(4, 2), weights);
  shoal_value *loss = shoal_l2_loss(g, shoal_mul(g, w[1], shoal_constant(g, &weight)));
  assert_ok(shoal_minimize(g, &options, loss, &w[1], 1, rate, &update[1]));
  assert_ok(shoal_session_create(g, &(shoal_session_options){.threads = 1}, &session));
  for (int t = 0; t < 3; t++)
    for (int k = 0; k < 2; k++) assert_ok(shoal_session_run(session, NULL, 0, &update[k], 1, NULL));
  shoal_tensor sparse, dense;
  assert_ok(shoal_session_variable(session, w[0], &sparse));
  assert_ok(shoal_session_variable(session, w[1], &dense));
  for (int i = 0; i < 8; i++) {
    double a = shoal_tensor_get(&sparse, i), b = shoal_tensor_get(&dense, i);
    bool touched = i / 2 == 1 || i / 2 == 3;
    if (touched ? !(fabs(a - b) < 1e-5) : a != table[i]) fail_msg("%s: element %d is %g, dense %g", name, i, a, b);
    if (touched) assert_true(a != table[i]);
  }
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

static void test_rows(void **state) {
  for (const char *const *name = shoal_optimizer_names(); *name; name++)
    if (!strstr(*name, "adam") && *name[0] != 'l' && strcmp(*name, "rowwise_adagrad"))
      check_rows(*name); /* whose step counter the two updates would share */
  check_rows("lion");
}

/* A matrix and a row of biases, by the papers' formulas over whole variables. */
static void check_trust(const char *name, double decay) {
  enum { MATRIX = 6, ROW = 3, ALL = MATRIX + ROW };
  float first[ALL] = {1, -2, 0.5f, 3, 0.25f, -1, 0.5f, 2, -1}, target[ALL] = {0};
  double w[ALL], m[ALL] = {0}, v[ALL] = {0};
  shoal_graph *g;
  shoal_session *session;
  assert_ok(shoal_graph_create(&g));
  shoal_tensor a = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(2, 3), first);
  shoal_tensor b = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(ROW), first + MATRIX);
  shoal_value *variables[] = {shoal_variable(g, "a", shoal_constant(g, &a)),
                              shoal_variable(g, "b", shoal_constant(g, &b))};
  shoal_value *loss = shoal_add(g, shoal_l2_loss(g, variables[0]), shoal_l2_loss(g, variables[1])), *update;
  const shoal_optimizer_options o = {.name = name, .weight_decay = decay};
  assert_ok(shoal_minimize(g, &o, loss, variables, 2, shoal_scalar(g, SHOAL_F32, RATE), &update));
  assert_ok(shoal_session_create(g, &(shoal_session_options){.threads = 2}, &session));
  for (int i = 0; i < ALL; i++) w[i] = (double)(first[i] - target[i]);
  for (int t = 1; t <= 3; t++) {
    assert_ok(shoal_session_run(session, NULL, 0, &update, 1, NULL));
    for (int k = 0; k < 2; k++) {
      const int from = k ? MATRIX : 0, to = k ? ALL : MATRIX;
      double own = 0, gradient = 0, step = 0, r[ALL];
      for (int i = from; i < to; i++) {
        own += w[i] * w[i];
        gradient += w[i] * w[i];
        m[i] = !strcmp(name, "lamb") ? 0.9 * m[i] + 0.1 * w[i] : m[i];
        v[i] = 0.999 * v[i] + 0.001 * w[i] * w[i];
        r[i] = m[i] / (1 - pow(0.9, t)) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-7) + decay * w[i];
        step += r[i] * r[i];
      }
      for (int i = from; i < to; i++)
        if (!strcmp(name, "lamb")) {
          w[i] -= RATE * sqrt(own / step) * r[i];
        } else {
          const double rate = k ? RATE : RATE * 0.001 * sqrt(own) / (sqrt(gradient) + decay * sqrt(own));
          m[i] = 0.9 * m[i] + rate * (w[i] + (k ? 0 : decay * w[i]));
          w[i] -= m[i];
        }
    }
  }
  for (int i = 0; i < ALL; i++) {
    shoal_tensor now;
    assert_ok(shoal_session_variable(session, variables[i >= MATRIX], &now));
    const double have = shoal_tensor_get(&now, i < MATRIX ? i : i - MATRIX);
    if (!(fabs(have - w[i]) < 1e-5))
      fail_msg("%s, decay %g, number %d: %.9g instead of %.9g", name, decay, i, have, w[i]);
  }
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

static void test_trust_ratios(void **state) {
  for (int k = 0; k < 2; k++) {
    check_trust("lamb", k ? 0.1 : 0);
    check_trust("lars", k ? 0.1 : 0);
  }
}

/* ---- a variable that threads cut among them, each writing its part past the caches */

enum { LARGE = 300001, LARGE_STEPS = 3 };

static float large_start(int64_t i) { return (float)(i % 1013 - 506) / 400; }

/* Steps towards 0, whose gradient is the variable itself. */
static void run_large(const char *name, const char *kernels, int threads, float *end) {
  static float first[LARGE];
  for (int64_t i = 0; i < LARGE; i++) first[i] = large_start(i);
  shoal_graph *g;
  shoal_session *session;
  assert_ok(shoal_graph_create(&g));
  const shoal_tensor t = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(LARGE), first);
  shoal_value *w = shoal_variable(g, "w", shoal_constant(g, &t)), *update;
  const shoal_optimizer_options o = {.name = name};
  assert_ok(shoal_minimize(g, &o, shoal_l2_loss(g, w), &w, 1, shoal_scalar(g, SHOAL_F32, RATE), &update));
  assert_ok(shoal_session_create(g, &(shoal_session_options){.threads = threads, .kernels = kernels}, &session));
  for (int k = 0; k < LARGE_STEPS; k++) assert_ok(shoal_session_run(session, NULL, 0, &update, 1, NULL));
  shoal_tensor now;
  assert_ok(shoal_session_variable(session, w, &now));
  memcpy(end, now.data, LARGE * sizeof *end);
  shoal_session_destroy(session);
  shoal_graph_destroy(g);
}

static void check_large(const char *name, void (*step)(reference *, double, int), const char *kernels) {
  static float one[LARGE], several[LARGE];
  run_large(name, kernels, 1, one);
  for (int64_t i = 0; i < LARGE; i++) {
    reference r = {.w = (double)large_start(i)};
    for (int k = 1; k <= LARGE_STEPS; k++) step(&r, r.w, k);
    if (!(fabs((double)one[i] - r.w) < 1e-5))
      fail_msg("%s, %s: number %d is %.9g instead of %.9g", name, kernels, (int)i, (double)one[i], r.w);
  }
  for (int threads = 2; threads <= 3; threads++) {
    run_large(name, kernels, threads, several);
    assert_memory_equal(one, several, sizeof one);
  }
}

static void test_large_variables(void **state) {
  for (cpu_level level = CPU_GENERIC; level <= cpu_best(); level++) {
    check_large("sgd", sgd_step, cpu_level_name(level));
    check_large("adagrad", adagrad_step, cpu_level_name(level));
    check_large("adam", adam_step, cpu_level_name(level));
  }
}

static void test_minimize_errors(void **state) {
  shoal_graph *g;
  assert_ok(shoal_graph_create(&g));
  shoal_value *w = shoal_variable(g, "w", shoal_scalar(g, SHOAL_F32, 1));
  shoal_value *v = shoal_variable(g, "v", shoal_scalar(g, SHOAL_F32, 1));
  shoal_value *loss = shoal_square(g, w), *rate = shoal_scalar(g, SHOAL_F32, 1), *update;
  assert_fails(shoal_minimize(g, &(shoal_optimizer_options){.name = "adm"}, loss, &w, 1, rate, &update),
               SHOAL_ERR_ARGUMENT, "did you mean 'adam'");
  assert_fails(
      shoal_minimize(g, &(shoal_optimizer_options){.name = "momentum", .momentum = 1.5}, loss, &w, 1, rate, &update),
      SHOAL_ERR_ARGUMENT, "momentum is 1.5");
  assert_fails(
      shoal_minimize(g, &(shoal_optimizer_options){.clip_norm = 1, .clip_value = 1}, loss, &w, 1, rate, &update),
      SHOAL_ERR_ARGUMENT, "one of them at most");
  assert_fails(shoal_minimize(g, NULL, loss, &v, 1, rate, &update), SHOAL_ERR_ARGUMENT, "depends on none");
  shoal_graph_destroy(g);
}

/* ---- schedules */

static void check_schedule(const shoal_schedule *s, int64_t step, double expected) {
  assert_ok(shoal_schedule_check(s));
  double have = shoal_schedule_at(s, step);
  if (!(fabs(have - expected) < 1e-12)) fail_msg("%s at %lld: %g, not %g", s->name, (long long)step, have, expected);
}

static void test_schedules(void **state) {
  shoal_schedule constant = {.rate = 0.5};
  check_schedule(&constant, 0, 0.5);
  check_schedule(&constant, 1000000, 0.5);
  shoal_schedule warm = {.name = "constant", .rate = 1, .warmup = 4};
  check_schedule(&warm, 0, 0.2);
  check_schedule(&warm, 3, 0.8);
  check_schedule(&warm, 4, 1);
  shoal_schedule staircase = {.name = "staircase", .rate = 0.8, .factor = 0.5, .every = 10, .warmup = 5};
  check_schedule(&staircase, 5, 0.8);
  check_schedule(&staircase, 14, 0.8);
  check_schedule(&staircase, 15, 0.4);
  check_schedule(&staircase, 25, 0.2);
  shoal_schedule exponential = {.name = "exponential", .rate = 1, .factor = 0.25, .every = 10};
  check_schedule(&exponential, 0, 1);
  check_schedule(&exponential, 5, 0.5);
  check_schedule(&exponential, 10, 0.25);
  shoal_schedule cosine = {.name = "cosine", .rate = 1, .final_rate = 0.2, .every = 100};
  check_schedule(&cosine, 0, 1);
  check_schedule(&cosine, 50, 0.6);
  check_schedule(&cosine, 100, 0.2);
  check_schedule(&cosine, 5000, 0.2);
  shoal_schedule piecewise = {
      .name = "piecewise", .rate = 1, .boundaries = (int64_t[]){10, 20}, .rates = (double[]){0.1, 0.01}, .pieces = 2};
  check_schedule(&piecewise, 9, 1);
  check_schedule(&piecewise, 10, 0.1);
  check_schedule(&piecewise, 20, 0.01);
  int known = 0;
  for (const char *const *name = shoal_schedule_names(); *name; name++) known++;
  assert_int_equal(known, 5);
}

static void test_schedule_errors(void **state) {
  assert_fails(shoal_schedule_check(&(shoal_schedule){.name = "cosin", .rate = 1}), SHOAL_ERR_ARGUMENT,
               "did you mean 'cosine'");
  assert_fails(shoal_schedule_check(&(shoal_schedule){.rate = NAN}), SHOAL_ERR_ARGUMENT, "learning rate");
  assert_fails(shoal_schedule_check(&(shoal_schedule){.rate = 1, .warmup = -1}), SHOAL_ERR_ARGUMENT, "warmup");
  assert_fails(shoal_schedule_check(&(shoal_schedule){.name = "staircase", .rate = 1, .factor = 0.5}),
               SHOAL_ERR_ARGUMENT, "every");
  assert_fails(shoal_schedule_check(&(shoal_schedule){.name = "exponential", .rate = 1, .every = 3}),
               SHOAL_ERR_ARGUMENT, "factor");
  assert_fails(
      shoal_schedule_check(&(shoal_schedule){
          .name = "piecewise", .rate = 1, .boundaries = (int64_t[]){5, 5}, .rates = (double[]){1, 1}, .pieces = 2}),
      SHOAL_ERR_ARGUMENT, "boundaries[1]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_optimizers),      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_trust_ratios),    cmocka_unit_test(test_large_variables),
      cmocka_unit_test(test_minimize_errors), cmocka_unit_test(test_schedules),
      cmocka_unit_test(test_schedule_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
