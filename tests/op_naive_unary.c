/* Functions of one number once more, by other formulas than the kernels'. */
#include "op_naive.h"

#include <math.h>
#include <string.h>

typedef double (*function)(double x, double alpha);

static double sigmoid(double x) { return 0.5 * (1 + tanh(x / 2)); }
static double relu6(double x, double alpha) { return fmin(fmax(x, 0), 6); }
static double leaky_relu(double x, double alpha) { return fmax(x, 0) + alpha * fmin(x, 0); }
static double elu(double x, double alpha) { return x > 0 ? x : alpha * (exp(x) - 1); }
static double selu(double x, double alpha) { return 1.05070098735548 * elu(x, 1.67326324235438); }
static double gelu(double x, double alpha) { return 0.5 * x * (1 + erf(x / sqrt(2))); }
static double gelu_tanh(double x, double alpha) {
  return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * pow(x, 3))));
}
static double silu(double x, double alpha) { return x * sigmoid(x); }
static double softplus(double x, double alpha) { return log(1 + exp(x)); }
static double softsign(double x, double alpha) { return x > 0 ? x / (1 + x) : x / (1 - x); }
static double hard_sigmoid(double x, double alpha) { return relu6(x + 3, 0) / 6; }
static double hard_swish(double x, double alpha) { return x * relu6(x + 3, 0) / 6; }
static double hard_tanh(double x, double alpha) { return fmin(fmax(x, -1), 1); }
static double mish(double x, double alpha) { return x * tanh(log(1 + exp(x))); }
static double error_function(double x, double alpha) { return 1 - erfc(x); }
static double sine(double x, double alpha) { return cos(x - M_PI / 2); }
static double cosine(double x, double alpha) { return 2 * cos(x / 2) * cos(x / 2) - 1; }
static double tangent(double x, double alpha) { return sin(x) / cos(x); }
static double arc_tangent(double x, double alpha) { return atan2(x, 1); }
static double expm1_(double x, double alpha) { return exp(x) - 1; }
static double log1p_(double x, double alpha) { return log(1 + x); }
static double reciprocal(double x, double alpha) { return pow(x, -1); }
static double rsqrt(double x, double alpha) { return pow(x, -0.5); }

static const struct {
  const char *name;
  function f;
} table[] = {
    {"relu6", relu6},
    {"leaky_relu", leaky_relu},
    {"elu", elu},
    {"selu", selu},
    {"gelu", gelu},
    {"gelu_tanh", gelu_tanh},
    {"silu", silu},
    {"softplus", softplus},
    {"softsign", softsign},
    {"hard_sigmoid", hard_sigmoid},
    {"hard_swish", hard_swish},
    {"hard_tanh", hard_tanh},
    {"mish", mish},
    {"erf", error_function},
    {"sin", sine},
    {"cos", cosine},
    {"tan", tangent},
    {"atan", arc_tangent},
    {"expm1", expm1_},
    {"log1p", log1p_},
    {"reciprocal", reciprocal},
    {"rsqrt", rsqrt},
};

static function find(const char *op) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, op)) return table[i].f;
  return NULL;
}

static void each(const op_case *c, const case_memory *m, double *expected) {
  for (int64_t i = 0; i < shoal_tensor_count(&m->in[0]); i++)
    expected[i] = find(c->row->name)(shoal_tensor_get(&m->in[0], i), c->attr[0].f);
}

naive_fn naive_find_unary(const char *op) { return find(op) ? each : NULL; }
