/* Optimizers: one row each. A row names its update operator (src/graph/ops/update.c), the slots the operator keeps for
 * each variable, and how the options become the operator's attributes. Inputs of an update are, in this order: the
 * variable, its slots, the gradient (or the rows' indices and the rows), the rate, the step if the row asks for it. */
#include "base/mem.h"
#include "base/text.h"
#include "graph/graph.h"
#include "train/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLOTS_MAX (OPTIMIZER_SLOTS_MAX - 1) /* of a row */
#define INPUTS_MAX (SLOTS_MAX + 5)

typedef struct {
  const char *apply; /* operator for dense gradients; with "sparse_" before it: for rows */
  const char *rows;  /* another one for rows, with one number of each slot for a row; NULL: as above */
  struct {
    const char *name; /* NULL ends the list */
    double initial;
  } slots[SLOTS_MAX + 1];
  double rate;        /* the usual one: as in Keras; of ftrl, with its beta of 1, as in the paper below */
  bool takes_repeats; /* by rows: an index may come several times, unless there is an l2 */
  bool counts_steps;  /* takes the number of the update, from 1 */
  bool accumulates;   /* slots[0] begins with options->accumulator, if that is set */
  bool whole;         /* goes by the norm of whole variables: there is no update by rows, or of a part */
  double decay;       /* the usual weight_decay */
  void (*attributes)(const shoal_optimizer_options *o, attr_value *attr);
} optimizer_row;

static double or_usual(double given, double usual) { return given != 0 ? given : usual; }

static void sgd_attributes(const shoal_optimizer_options *o, attr_value *attr) { attr[0].f = o->l2; }
static const optimizer_row sgd = {
    .apply = "apply_sgd", .rate = 0.01, .takes_repeats = true, .attributes = sgd_attributes};

static void momentum_attributes(const shoal_optimizer_options *o, attr_value *attr) {
  attr[0].f = or_usual(o->momentum, 0.9);
  attr[1].i = o->nesterov;
  attr[2].f = o->l2;
}
static const optimizer_row momentum = {
    .apply = "apply_momentum", .rate = 0.01, .slots = {{"velocity", 0}}, .attributes = momentum_attributes};

/* The accumulator starts a little above 0, so that the first steps are not all of size `rate`. */
static void adagrad_attributes(const shoal_optimizer_options *o, attr_value *attr) {
  attr[0].f = or_usual(o->epsilon, 1e-7);
  attr[1].f = o->l2;
}
static const optimizer_row adagrad = {.apply = "apply_adagrad",
                                      .rate = 0.001,
                                      .slots = {{"accumulator", 0.1}},
                                      .accumulates = true,
                                      .attributes = adagrad_attributes};

/* Of gradients that are not by rows it is Adagrad. */
static const optimizer_row rowwise_adagrad = {.apply = "apply_adagrad",
                                              .rows = "sparse_apply_rowwise_adagrad",
                                              .rate = 0.001,
                                              .slots = {{"accumulator", 0.1}},
                                              .accumulates = true,
                                              .attributes = adagrad_attributes};

static void rmsprop_attributes(const shoal_optimizer_options *o, attr_value *attr) {
  attr[0].f = or_usual(o->decay, 0.9);
  attr[1].f = o->momentum;
  attr[2].f = or_usual(o->epsilon, 1e-7);
}
static const optimizer_row rmsprop = {.apply = "apply_rmsprop",
                                      .rate = 0.001,
                                      .slots = {{"mean_square", 0}, {"momentum", 0}},
                                      .attributes = rmsprop_attributes};

static void adam_attributes(const shoal_optimizer_options *o, attr_value *attr) {
  attr[0].f = or_usual(o->beta1, 0.9);
  attr[1].f = or_usual(o->beta2, 0.999);
  attr[2].f = or_usual(o->epsilon, 1e-7);
}
#define ADAM_ROW(name) \
  .apply = (name), .rate = 0.001, .slots = {{"m", 0}, {"v", 0}}, .counts_steps = true, .attributes = adam_attributes
static const optimizer_row adam = {ADAM_ROW("apply_adam")};
static const optimizer_row adamw = {ADAM_ROW("apply_adam"), .decay = 0.004};
static const optimizer_row nadam = {ADAM_ROW("apply_nadam")};
static const optimizer_row lamb = {ADAM_ROW("apply_lamb"), .whole = true};

static void lion_attributes(const shoal_optimizer_options *o, attr_value *attr) {
  attr[0].f = or_usual(o->beta1, 0.9);
  attr[1].f = or_usual(o->beta2, 0.99);
}
static const optimizer_row lion = {
    .apply = "apply_lion", .rate = 0.001, .slots = {{"m", 0}}, .attributes = lion_attributes};

static void lars_attributes(const shoal_optimizer_options *o, attr_value *attr) {
  attr[0].f = or_usual(o->momentum, 0.9);
  attr[1].f = 0.001; /* the paper's trust coefficient */
}
static const optimizer_row lars = {
    .apply = "apply_lars", .rate = 1, .slots = {{"velocity", 0}}, .whole = true, .attributes = lars_attributes};

static void ftrl_attributes(const shoal_optimizer_options *o, attr_value *attr) {
  attr[0].f = o->l1;
  attr[1].f = o->l2;
  attr[2].f = or_usual(o->beta, 1);
  attr[3].f = -0.5; /* the rate falls with the square root of the sum of squares (McMahan et al., 2013) */
}
static const optimizer_row ftrl = {
    .apply = "apply_ftrl", .rate = 0.1, .slots = {{"z", 0}, {"n", 0}}, .attributes = ftrl_attributes};

#define OPTIMIZERS(X) \
  X(sgd) X(momentum) X(adagrad) X(rmsprop) X(adam) X(ftrl) X(adamw) X(nadam) X(lion) X(lamb) X(lars) X(rowwise_adagrad)
#define AS_ROW(name) &name,
#define AS_NAME(name) #name,
static const optimizer_row *const optimizers[] = {OPTIMIZERS(AS_ROW)};
static const char *const names[] = {OPTIMIZERS(AS_NAME) NULL};

const char *const *shoal_optimizer_names(void) { return names; }

static shoal_status find(const char *name, const optimizer_row **out) {
  if (!name) name = names[0];
  for (size_t i = 0; i < COUNT_OF(optimizers); i++)
    if (!strcmp(names[i], name)) {
      *out = optimizers[i];
      return NULL;
    }
  return status_unknown("optimizer", name, names, COUNT_OF(optimizers));
}

double shoal_optimizer_rate(const char *name) {
  if (!name) name = names[0];
  for (size_t i = 0; i < COUNT_OF(optimizers); i++)
    if (!strcmp(names[i], name)) return optimizers[i]->rate;
  return NAN;
}

double optimizer_usual_decay(const char *name) {
  for (size_t i = 0; i < COUNT_OF(optimizers); i++)
    if (!strcmp(names[i], name)) return optimizers[i]->decay;
  return 0;
}

static shoal_status check(const shoal_optimizer_options *o) {
  const struct {
    const char *name;
    double value, least, below; /* least <= value < below */
  } ranges[] = {
      {"momentum", o->momentum, 0, 1},
      {"decay", o->decay, 0, 1},
      {"beta1", o->beta1, 0, 1},
      {"beta2", o->beta2, 0, 1},
      {"epsilon", o->epsilon, 0, 1e30},
      {"l1", o->l1, 0, 1e30},
      {"l2", o->l2, 0, 1e30},
      {"beta", o->beta, 0, 1e30},
      {"clip_value", o->clip_value, 0, 1e30},
      {"clip_norm", o->clip_norm, 0, 1e30},
      {"clip_global_norm", o->clip_global_norm, 0, 1e30},
      {"accumulator", o->accumulator, 0, 1e30},
      {"weight_decay", o->weight_decay, -1e30, 1e30},
      {"average", o->average, 0, 1},
  };
  for (size_t i = 0; i < COUNT_OF(ranges); i++)
    if (!(ranges[i].value >= ranges[i].least && ranges[i].value < ranges[i].below))
      return status_make(SHOAL_ERR_ARGUMENT, "optimizer: %s is %g; it must be at least %g and below %g", ranges[i].name,
                         ranges[i].value, ranges[i].least, ranges[i].below);
  if ((o->clip_value > 0) + (o->clip_norm > 0) + (o->clip_global_norm > 0) > 1)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "optimizer: clip_value, clip_norm and clip_global_norm: expected one of them at most");
  return NULL;
}

shoal_status optimizer_check_servers(const shoal_optimizer_options *options, int servers) {
  const optimizer_row *row = NULL;
  TRY(find(options->name, &row));
  if (row->whole || options->clip_norm > 0)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s uses the norm of whole variables, which parameter servers do not have: use the strategy "
                       "single, mirrored or allreduce",
                       row->whole ? options->name : "clip_norm");
  if (options->clip_global_norm > 0 && servers > 1)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "clip_global_norm uses the norm of all gradients, which none of %d parameter servers has: use one server",
        servers);
  return NULL;
}

/* A variable with exactly this name, whatever the scope; the one that is there if there is one, so that several updates
 * of the same variables share their slots. */
static shoal_value *shared_variable(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_shape shape,
                                    double initial) {
  shoal_value *have = shoal_graph_find(g, name);
  if (have && have->maker->initial) {
    if (have->dtype == dtype && shoal_shape_equal(&have->shape, &shape)) return have;
    char was[VALUE_TEXT], wanted[SHOAL_SHAPE_TEXT];
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT, "the optimizer's slot %s exists, but %s%s is needed",
                              value_text(have, was), shoal_dtype_name(dtype), shoal_shape_text(&shape, wanted)));
    return NULL;
  }
  char none[1] = "", *scope = g->scope;
  g->scope = none;
  shoal_value *v = shoal_variable(g, name, shoal_fill(g, dtype, shape, initial));
  g->scope = scope;
  return v;
}

static shoal_value *slot(shoal_graph *g, const shoal_value *variable, shoal_shape shape, const char *name,
                         double initial) {
  char *full;
  if (asprintf(&full, "%s/%s", shoal_value_name(variable), name) < 0) {
    graph_fail(g, status_no_memory());
    return NULL;
  }
  shoal_value *v = shared_variable(g, full, variable->dtype, shape, initial);
  free(full);
  return v;
}

/* The update of one variable. */
static shoal_value *apply(shoal_graph *g, const optimizer_row *row, const shoal_optimizer_options *options,
                          const attr_value *usual_attr, shoal_value *variable, const shoal_gradient *gradient,
                          optimizer_plain_rows plain, shoal_value *rate, shoal_value *step) {
  shoal_value *in[INPUTS_MAX];
  attr_value attr[OP_MAX_ATTRS];
  int n = 0;
  const bool by_rows = gradient->indices && row->rows;
  const int64_t rows = variable->shape.rank ? variable->shape.dim[0] : 1;
  const int64_t more = by_rows && rows ? plain.n * (shoal_shape_count(&variable->shape) / rows - 1) : 0;
  const shoal_shape shape = by_rows ? SHOAL_SHAPE(rows + more) : variable->shape;
  memcpy(attr, usual_attr, sizeof attr);
  if (by_rows) { /* behind those that it has in common with the optimizer of other gradients */
    attr[3].i = plain.n;
    attr[4].i = plain.first;
  }
  in[n++] = variable;
  for (int i = 0; row->slots[i].name; i++) {
    const double usual = row->slots[i].initial;
    in[n++] = slot(g, variable, shape, row->slots[i].name,
                   row->accumulates && i == 0 ? or_usual(options->accumulator, usual) : usual);
  }
  char name[64];
  snprintf(name, sizeof name, "%s%s", gradient->indices && !by_rows ? "sparse_" : "", by_rows ? row->rows : row->apply);
  if (gradient->indices) in[n++] = gradient->indices;
  in[n++] = gradient->value;
  in[n++] = rate;
  if (row->counts_steps) in[n++] = step;
  return graph_op(g, name, in, n, attr);
}

/* A row named twice is updated once, with the sum. */
static void add_up_rows(shoal_graph *g, shoal_gradient *gradient) {
  if (!gradient->indices) return;
  shoal_value *unique = GRAPH_BINARY(g, "unique_rows", gradient->indices, gradient->value, {0});
  gradient->indices = unique;
  gradient->value = unique ? shoal_value_output(unique, 1) : NULL;
}

/* What n gradients are multiplied by. */
static shoal_value *clip_scale(shoal_graph *g, shoal_value *const *values, int n, double norm) {
  return graph_op(g, "clip_scale", values, n, (attr_value[OP_MAX_ATTRS]){{.f = norm}});
}

static bool clips(const shoal_optimizer_options *o) {
  return o->clip_value > 0 || o->clip_norm > 0 || o->clip_global_norm > 0;
}

/* gradients: those that there are. room: for n values. */
static void clip(shoal_graph *g, const shoal_optimizer_options *o, shoal_gradient *gradients, int n,
                 shoal_value **room) {
  for (int i = 0; i < n; i++) room[i] = gradients[i].value;
  shoal_value *scale = o->clip_global_norm > 0 && n ? clip_scale(g, room, n, o->clip_global_norm) : NULL;
  for (int i = 0; i < n; i++) {
    shoal_value **value = &gradients[i].value;
    if (o->clip_norm > 0) scale = clip_scale(g, value, 1, o->clip_norm);
    if (scale)
      *value = shoal_mul(g, *value, scale);
    else
      *value = shoal_clip(g, *value, -o->clip_value, o->clip_value);
  }
}

/* updated: the variable after its update. */
static shoal_value *move_average(shoal_graph *g, const shoal_value *variable, shoal_value *updated, shoal_value *step,
                                 double kept) {
  shoal_value *in[] = {slot(g, variable, variable->shape, OPTIMIZER_AVERAGE, 0), updated, step};
  return graph_op(g, "apply_average", in, 3, (attr_value[OP_MAX_ATTRS]){{.f = kept}});
}

/* Every update operator has the attribute. */
static void set_decay(const optimizer_row *row, double decay, attr_value *attr) {
  const op_row *op = op_find(row->apply);
  for (int i = 0; op && i < OP_MAX_ATTRS && op->attrs[i].name; i++)
    if (!strcmp(op->attrs[i].name, "weight_decay")) attr[i].f = decay;
}

/* once: rows that are named several times must be added up first. */
static shoal_status apply_all(shoal_graph *g, const shoal_optimizer_options *options, shoal_value *const *variables,
                              const shoal_gradient *gradients, int n, bool once, optimizer_plain_rows plain,
                              shoal_value *rate, shoal_value **update) {
  TRY(shoal_graph_status(g));
  const optimizer_row *row = NULL;
  TRY(find(options->name, &row));
  TRY(check(options));
  attr_value attr[OP_MAX_ATTRS] = {0};
  if (row->attributes) row->attributes(options, attr);
  const double decay = MAX_OF(or_usual(options->weight_decay, row->decay), 0);
  set_decay(row, decay, attr);
  shoal_value **updates = calloc((size_t)n + 1, sizeof *updates);
  shoal_gradient *own = calloc((size_t)n + 1, sizeof *own); /* those that there are */
  int *which = calloc((size_t)n + 1, sizeof *which);        /* variable of each */
  shoal_status status = NULL;
  int count = 0, n_own = 0;
  shoal_value *step = NULL;
  if (!updates || !own || !which) TRY_GOTO(status, status_no_memory(), done);
  once = once && (!row->takes_repeats || options->l2 != 0 || decay != 0 || clips(options));
  for (int i = 0; i < n; i++) {
    if (!gradients[i].value) continue;
    if (row->whole && gradients[i].indices)
      TRY_GOTO(status,
               status_make(
                   SHOAL_ERR_ARGUMENT,
                   "the optimizer %s uses the norm of whole variables, but '%s' has a row-sparse gradient: use adamw",
                   options->name, shoal_value_name(variables[i])),
               done);
    which[n_own] = i;
    own[n_own] = gradients[i];
    if (once) add_up_rows(g, &own[n_own]);
    n_own++;
  }
  if (clips(options)) clip(g, options, own, n_own, updates);
  char name[OPTIMIZER_COUNTER];
  if (optimizer_counter(options, name)) step = shared_variable(g, name, SHOAL_I64, SHOAL_SCALAR, 1);
  for (int i = 0; i < n_own; i++) {
    shoal_value *variable = variables[which[i]];
    shoal_value *updated = apply(g, row, options, attr, variable, &own[i], plain, rate, step);
    updates[count++] = options->average > 0 ? move_average(g, variable, updated, step, options->average) : updated;
  }
  /* Reads of a run see the value before it, so every update of this run sees the old number. */
  if (step) updates[count++] = shoal_assign_add(g, step, shoal_scalar(g, SHOAL_I64, 1));
  shoal_value *group = shoal_group(g, updates, count);
  TRY_GOTO(status, shoal_graph_status(g), done);
  *update = group;
done:
  free(updates);
  free(own);
  free(which);
  return status;
}

shoal_status optimizer_apply(shoal_graph *g, const shoal_optimizer_options *options, shoal_value *const *variables,
                             const shoal_gradient *gradients, int n, shoal_value *rate, shoal_value **update) {
  return apply_all(g, options, variables, gradients, n, true, (optimizer_plain_rows){0}, rate, update);
}

shoal_status optimizer_apply_rows(shoal_graph *g, const shoal_optimizer_options *options, shoal_value *variable,
                                  const shoal_gradient *gradient, optimizer_plain_rows plain, shoal_value *rate,
                                  shoal_value **update) {
  return apply_all(g, options, &variable, gradient, 1, false, plain, rate, update);
}

shoal_status optimizer_gradients(shoal_graph *g, shoal_value *loss, shoal_value *const *variables, int n,
                                 shoal_gradient *out) {
  TRY(shoal_gradients(g, loss, variables, n, out));
  for (int i = 0; i < n; i++)
    if (out[i].value) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "the loss '%s' depends on none of the %d variables", shoal_value_name(loss),
                     n);
}

int optimizer_slots(const shoal_optimizer_options *options, const char *slots[OPTIMIZER_SLOTS_MAX]) {
  const optimizer_row *row = NULL;
  shoal_status status = find(options->name, &row);
  shoal_status_free(status); /* whoever made the updates has told about it */
  int n = 0;
  for (; row && row->slots[n].name; n++) slots[n] = row->slots[n].name;
  if (options->average > 0) slots[n++] = OPTIMIZER_AVERAGE;
  return n;
}

bool optimizer_by_rows(const shoal_optimizer_options *options) {
  const optimizer_row *row = NULL;
  shoal_status status = find(options->name, &row);
  shoal_status_free(status);
  return row && row->rows;
}

const char *optimizer_counter(const shoal_optimizer_options *options, char buffer[OPTIMIZER_COUNTER]) {
  const optimizer_row *row = NULL;
  shoal_status status = find(options->name, &row);
  shoal_status_free(status);
  if (!row || (!row->counts_steps && options->average == 0)) return NULL;
  snprintf(buffer, OPTIMIZER_COUNTER, "%s/step", options->name ? options->name : names[0]);
  return buffer;
}

shoal_status shoal_minimize(shoal_graph *g, const shoal_optimizer_options *options, shoal_value *loss,
                            shoal_value *const *variables, int n, shoal_value *rate, shoal_value **update) {
  static const shoal_optimizer_options standard;
  if (!options) options = &standard;
  TRY(shoal_graph_status(g));
  const optimizer_row *row = NULL;
  TRY(find(options->name, &row)); /* before the graph grows */
  TRY(check(options));
  if (!loss || !rate || n < 1) return status_make(SHOAL_ERR_ARGUMENT, "minimize needs a loss, a rate and variables");
  shoal_gradient *gradients = calloc((size_t)n, sizeof *gradients);
  if (!gradients) return status_no_memory();
  shoal_status status = optimizer_gradients(g, loss, variables, n, gradients);
  if (!status) status = optimizer_apply(g, options, variables, gradients, n, rate, update);
  free(gradients);
  return status;
}
