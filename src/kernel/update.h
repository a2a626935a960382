/* The optimizers' formulas for one element, written once for the update operators and for kernels that update in
 * passing. Each changes var[i] and the slots a[i], b[i] by the gradient g at the rate lr; the names of its constants
 * are declared by its ..._CONSTANTS from the operator's attributes. `real` is the type; include <tgmath.h>. */
#ifndef SHOAL_KERNEL_UPDATE_H
#define SHOAL_KERNEL_UPDATE_H

#include "kernel/kernel.h"

/* Inputs as of the operators apply_X, f32. */
#define UPDATE_KERNELS(isa)                               \
  shoal_status update_sgd_##isa(const kernel_call *);     \
  shoal_status update_adagrad_##isa(const kernel_call *); \
  shoal_status update_adam_##isa(const kernel_call *);

EACH_ISA(UPDATE_KERNELS)

/* l2 * w added to the gradient is what l2 * sum(w^2) / 2 in the loss would give, for what is updated. */
#define UPDATE_WITH_L2 \
  if (l2 != 0) g += l2 * var[i]

#define SGD_CONSTANTS const real l2 = (real)attr[0].f
#define SGD_ELEMENT   \
  {                   \
    UPDATE_WITH_L2;   \
    var[i] -= lr * g; \
  }

/* a: sum of squares */
#define ADAGRAD_CONSTANTS               \
  const real epsilon = (real)attr[0].f; \
  const real l2 = (real)attr[1].f
#define ADAGRAD_ELEMENT                        \
  {                                            \
    UPDATE_WITH_L2;                            \
    a[i] += g * g;                             \
    var[i] -= lr * g / (sqrt(a[i]) + epsilon); \
  }

/* A row w [width] by its gradient; sum: of the means of squares, one number. */
#define ROWWISE_ADAGRAD_ROW(w, sum, gradient)                                                \
  {                                                                                          \
    real squares = 0;                                                                        \
    for (int64_t i = 0; i < width; i++) {                                                    \
      (w)[i] *= shrink;                                                                      \
      const real g = (gradient)[i] + l2 * (w)[i];                                            \
      squares += g * g;                                                                      \
    }                                                                                        \
    (sum) += squares / (real)width;                                                          \
    const real step = sqrt(sum) + epsilon;                                                   \
    for (int64_t i = 0; i < width; i++) (w)[i] -= lr * ((gradient)[i] + l2 * (w)[i]) / step; \
  }

/* a: z, b: n. FTRL-proximal, McMahan et al. 2013; the variable is zero where |z| <= l1. The usual power is a square
 * root. */
#define FTRL_CONSTANTS                 \
  const real l1 = (real)attr[0].f;     \
  const real l2 = (real)attr[1].f;     \
  const real beta = (real)attr[2].f;   \
  const real power = (real)attr[3].f;  \
  const bool half = attr[3].f == -0.5; \
  const real slower = 1 / lr
#define FTRL_POWER(n) (half ? sqrt(n) : pow((n), -power))
#define FTRL_ELEMENT                                                                       \
  {                                                                                        \
    real more = b[i] + g * g;                                                              \
    real root = FTRL_POWER(more);                                                          \
    real z = a[i] + g - (root - FTRL_POWER(b[i])) * slower * var[i];                       \
    a[i] = z;                                                                              \
    b[i] = more;                                                                           \
    var[i] = fabs(z) <= l1 ? 0 : ((z < 0 ? -l1 : l1) - z) / ((beta + root) * slower + l2); \
  }

/* a: first moment, b: second moment. Kingma and Ba, algorithm 1; t, a double, counts from 1. */
#define ADAM_CONSTANTS                                  \
  const real beta1 = (real)attr[0].f;                   \
  const real beta2 = (real)attr[1].f;                   \
  const real epsilon = (real)attr[2].f;                 \
  const real rate = lr / (real)(1 - pow(attr[0].f, t)); \
  const real whole = (real)(1 / sqrt(1 - pow(attr[1].f, t)))
#define ADAM_ELEMENT                                        \
  {                                                         \
    a[i] = beta1 * a[i] + (1 - beta1) * g;                  \
    b[i] = beta2 * b[i] + (1 - beta2) * g * g;              \
    var[i] -= rate * a[i] / (sqrt(b[i]) * whole + epsilon); \
  }

#endif
