/* The weights of a linear model of sparse rows as text. */
#include "base/status.h"
#include "shoal/exchange.h"
#include "train/model_ids.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

typedef struct {
  const float *w; /* [features] */
  int64_t features;
  const float *bias;        /* [1], or NULL */
  const model_ids *ids;     /* instead of `w`; NULL: features are numbered */
  const char *const *names; /* of the classes; NULL: they are -1 and 1 */
  int64_t last;             /* largest feature whose weight is not 0; 0: none */
} linear_model;

static shoal_status find_weights(shoal_model *model, linear_model *out) {
  linear_model m = {.names = shoal_model_class_names(model), .ids = model->ids};
  shoal_graph *g = shoal_model_graph(model);
  shoal_value *kernel = shoal_graph_find(g, "sparse_dense/kernel"), *bias = shoal_graph_find(g, "sparse_dense/bias");
  if (!kernel) return status_make(SHOAL_ERR_ARGUMENT, "not a linear model of sparse rows");
  shoal_tensor values;
  TRY(shoal_session_variable(shoal_model_session(model), kernel, &values));
  m.w = values.data;
  m.features = values.shape.dim[0];
  if (bias) {
    TRY(shoal_session_variable(shoal_model_session(model), bias, &values));
    m.bias = values.data;
  }
  for (int64_t i = 1; i < m.features; i++)
    if (m.w[i] != 0) m.last = i;
  *out = m;
  return NULL;
}

/* Features of that format count from 1; every one up to the last has its line. Class 1 comes first. */
static shoal_status write_liblinear(const linear_model *m, FILE *to) {
  if (m->ids) return status_make(SHOAL_ERR_ARGUMENT, "a model of growing ids is no list of features: use `as` pairs");
  if (m->w[0] != 0)
    return status_make(SHOAL_ERR_INPUT,
                       "feature 0 has the weight %g, but features of liblinear count from 1: use `as` pairs",
                       (double)m->w[0]);
  fprintf(to, "solver_type L2R_LR\nnr_class 2\nlabel %s %s\nnr_feature %lld\nbias %d\nw\n",
          m->names ? m->names[1] : "1", m->names ? m->names[0] : "-1", (long long)m->last, m->bias ? 1 : -1);
  for (int64_t i = 1; i <= m->last; i++)
    if (m->w[i] == 0)
      fputs("0 \n", to);
    else
      fprintf(to, "%.9g \n", (double)m->w[i]);
  if (m->bias) fprintf(to, "%.9g \n", (double)*m->bias);
  return NULL;
}

static shoal_status write_pairs(const linear_model *m, FILE *to) {
  int64_t row = 0, id;
  const float *one;
  while (m->ids && model_ids_next(m->ids, &row, &id, &one))
    if (*one != 0) fprintf(to, "%lld %.9g\n", (long long)id, (double)*one);
  for (int64_t i = 0; !m->ids && i < m->features; i++)
    if (m->w[i] != 0) fprintf(to, "%lld %.9g\n", (long long)i, (double)m->w[i]);
  if (m->bias) fprintf(to, "bias %.9g\n", (double)*m->bias);
  return NULL;
}

/* In the order of shoal_linear_form. */
static shoal_status (*const writers[])(const linear_model *m, FILE *to) = {write_liblinear, write_pairs};

const char *const *shoal_linear_form_names(void) {
  static const char *const names[] = {"liblinear", "pairs", NULL};
  return names;
}

shoal_status shoal_linear_write(shoal_model *model, shoal_linear_form form, int fd) {
  linear_model m;
  TRY(find_weights(model, &m));
  const int own = dup(fd);
  FILE *to = own < 0 ? NULL : fdopen(own, "w");
  if (!to) {
    shoal_status status = status_errno(errno, "cannot write the weights");
    if (own >= 0) close(own);
    return status;
  }
  shoal_status status = writers[form](&m, to);
  const bool bad = ferror(to), unwritten = fclose(to) != 0;
  return status || !(bad || unwritten) ? status : status_errno(errno, "cannot write the weights");
}
