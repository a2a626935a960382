/* Logistic regression on sparse rows: score, loss, gradients and update -> sparse_logistic_X.
 *
 *   sparse_matmul (bias_add) -> sigmoid_cross_entropy -> reduce_mean
 *                            -> sigmoid_cross_entropy_grad -> sparse_matmul_grad_rows (unique_rows) -> sparse_apply_X
 *                                                          -> (bias_add_grad -> apply_X)
 *                            -> (sign, relu, equal, cast, reduce_mean: the share of rows right)
 *
 * with X one of sgd, adagrad, ftrl. Taken only when nobody else wants what disappears. */
#include "exec/fuse.h"

#include "base/mem.h"
#include "kernel/sparse.h"

/* The nodes of the group; -1 where there is none. */
typedef struct {
  int product, bias_add, loss, mean, grad, rows, unique, update, bias_grad, bias_update;
  int sign, relu, equal, to_number, share, to_label;
} group;

/* The nth node that reads a value of this memory, under whatever shape; -1: none. */
static int root_reader(const plan *p, int root, int nth) {
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    bool reads = false;
    for (int k = 0; k < n->ins && !n->dead; k++) reads |= p->values[n->in[k]].root == root && !op_shape_only(n->op, k);
    if (reads && nth-- == 0) return (int)i;
  }
  return -1;
}

static int root_of(const plan *p, int value) { return p->values[value].root; }

static bool leaves(const plan *p, int root) {
  for (size_t i = 0; i < p->n_values; i++)
    if (p->values[i].root == root && (p->values[i].fetched || p->guard == (int)i)) return true;
  return false;
}

/* The one node that reads what node `id` makes, if it is that operator and nobody outside wants the value; else -1. */
static int only_next(const plan *p, int id, const char *op) {
  int root = root_of(p, p->nodes[id].out[0]), next = root_reader(p, root, 0);
  if (next < 0 || leaves(p, root) || root_reader(p, root, 1) >= 0 || !is(&p->nodes[next], op)) return -1;
  return next;
}

/* Puts the readers of what node `id` makes into the places given for their operators; false: there are others. */
typedef struct {
  const char *op;
  int *place;
} expected;

static bool sort_readers(const plan *p, int id, const expected *wanted, int n_wanted) {
  int root = root_of(p, p->nodes[id].out[0]);
  if (leaves(p, root)) return false;
  for (int nth = 0;; nth++) {
    int r = root_reader(p, root, nth), k = 0;
    if (r < 0) return true;
    while (k < n_wanted && (!is(&p->nodes[r], wanted[k].op) || *wanted[k].place >= 0)) k++;
    if (k == n_wanted) return false;
    *wanted[k].place = r;
  }
}

static bool is_fed(const plan *p, int value) { return p->values[value].store == STORE_FEED; }

/* Is every weight of the loss's gradient 1 / rows? */
static bool is_mean(const plan *p, int value) {
  const plan_value *v = &p->values[value], *root = &p->values[v->root];
  if (root->store != STORE_CONSTANT || v->dtype != SHOAL_F32) return false;
  int64_t n = shoal_shape_count(&v->shape);
  const float *weight = root->data.data, share = 1.0f / (float)n;
  for (int64_t i = 0; i < n; i++)
    if (weight[i] != share) return false;
  return true;
}

static const char *const rules[] = {[SPARSE_SGD] = "sgd", [SPARSE_ADAGRAD] = "adagrad", [SPARSE_FTRL] = "ftrl"};

/* The optimizer of an update whose name is prefix + NAME; -1: none of those. */
static int rule_of(const plan_node *n, const char *prefix) {
  size_t length = strlen(prefix);
  for (size_t i = 0; i < COUNT_OF(rules); i++)
    if (!strncmp(n->op->name, prefix, length) && !strcmp(n->op->name + length, rules[i])) return (int)i;
  return -1;
}

static bool match_score(const plan *p, group *g) {
  const plan_node *product = &p->nodes[g->product];
  const plan_value *w = &p->values[product->in[3]];
  if (!is(product, "sparse_matmul") || w->store != STORE_VARIABLE || w->dtype != SHOAL_F32 || w->shape.dim[1] != 1 ||
      p->values[product->in[1]].dtype != SHOAL_I32)
    return false;
  for (int k = 0; k < 3; k++)
    if (!is_fed(p, product->in[k])) return false;
  g->bias_add = only_next(p, g->product, "bias_add");
  if (g->bias_add >= 0 && p->values[p->nodes[g->bias_add].in[1]].store != STORE_VARIABLE) return false;
  return sort_readers(
             p, g->bias_add >= 0 ? g->bias_add : g->product,
             (expected[]){
                 {"sigmoid_cross_entropy", &g->loss}, {"sigmoid_cross_entropy_grad", &g->grad}, {"sign", &g->sign}},
             3) &&
         g->loss >= 0 && g->grad >= 0;
}

static bool match_labels(const plan *p, group *g) {
  int label = p->nodes[g->loss].in[1];
  g->to_label = p->values[label].maker;
  if (g->to_label < 0 || !is(&p->nodes[g->to_label], "cast")) return false;
  const plan_node *cast = &p->nodes[g->to_label];
  if (!is_fed(p, cast->in[0]) || p->values[cast->in[0]].dtype != SHOAL_I32 || p->nodes[g->grad].in[1] != label)
    return false;
  int loss = -1, grad = -1;
  return sort_readers(
             p, g->to_label,
             (expected[]){
                 {"sigmoid_cross_entropy", &loss}, {"sigmoid_cross_entropy_grad", &grad}, {"equal", &g->equal}},
             3) &&
         loss == g->loss && grad == g->grad;
}

/* The share of rows right, if anybody asked for it. */
static bool match_share(const plan *p, group *g) {
  if (g->sign < 0) return g->equal < 0;
  g->relu = only_next(p, g->sign, "relu");
  if (g->relu < 0 || only_next(p, g->relu, "equal") != g->equal || g->equal < 0) return false;
  g->to_number = only_next(p, g->equal, "cast");
  if (g->to_number < 0) return false;
  g->share = only_next(p, g->to_number, "reduce_mean");
  return g->share >= 0;
}

/* The update shrinks the weights, which the fused operator does not. */
static bool decays(const plan_node *update) {
  const op_attr *attr = update->op->attrs;
  for (int i = 0; i < OP_MAX_ATTRS && attr[i].name; i++)
    if (!strcmp(attr[i].name, "weight_decay")) return update->attr[i].f != 0;
  return false;
}

static bool match_update(const plan *p, group *g) {
  if (!is_mean(p, p->nodes[g->grad].in[2])) return false;
  if (!sort_readers(p, g->grad, (expected[]){{"sparse_matmul_grad_rows", &g->rows}, {"bias_add_grad", &g->bias_grad}},
                    2) ||
      g->rows < 0 || (g->bias_add >= 0) != (g->bias_grad >= 0))
    return false;
  const plan_node *product = &p->nodes[g->product], *rows = &p->nodes[g->rows];
  if (rows->in[0] != product->in[0] || rows->in[1] != product->in[2]) return false;
  g->unique = only_next(p, g->rows, "unique_rows");
  int made = root_of(p, p->nodes[g->unique >= 0 ? g->unique : g->rows].out[g->unique >= 0]);
  g->update = root_reader(p, made, 0);
  if (g->update < 0 || leaves(p, made) || root_reader(p, made, 1) >= 0) return false;
  const plan_node *update = &p->nodes[g->update];
  int rule = rule_of(update, "sparse_apply_"), slots = rule;
  if (rule >= 0 && decays(update)) return false;
  if (rule < 0 || update->in[0] != product->in[3] || update->ins != slots + 4) return false;
  int indices = update->in[slots + 1];
  if (g->unique >= 0 ? indices != p->nodes[g->unique].out[0] || p->nodes[g->unique].in[0] != product->in[1]
                     : indices != product->in[1])
    return false;
  if (!is_fed(p, update->in[slots + 3])) return false; /* the rate */
  if (g->bias_grad < 0) return true;
  char name[32] = "apply_";
  g->bias_update = only_next(p, g->bias_grad, strcat(name, rules[rule]));
  if (g->bias_update < 0) return false;
  const plan_node *bias = &p->nodes[g->bias_update];
  return bias->in[0] == p->nodes[g->bias_add].in[1] && bias->in[slots + 2] == update->in[slots + 3] &&
         /* Zeroed before they are set. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
         !memcmp(bias->attr, update->attr, sizeof bias->attr);
}

/* Nobody but the group reads the weights or the bias. */
static bool reads_alone(const plan *p, int variable, int a, int b) {
  for (int nth = 0;; nth++) {
    int r = root_reader(p, root_of(p, variable), nth);
    if (r < 0) return true;
    if (r == a || r == b) continue;
    bool before = true; /* readers of the updated variable, such as the group of updates, may stay */
    for (int k = 0; k < p->nodes[r].ins; k++)
      if (p->nodes[r].in[k] == variable) before = false;
    if (!before) return false;
  }
}

shoal_status fuse_sparse(plan *p, int id) {
  group g = {id, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  if (!is(&p->nodes[id], "sparse_matmul") || !match_score(p, &g) || !match_labels(p, &g) || !match_share(p, &g))
    return NULL;
  g.mean = only_next(p, g.loss, "reduce_mean");
  if (g.mean < 0 || !match_update(p, &g)) return NULL;
  const plan_node product = p->nodes[g.product], update = p->nodes[g.update];
  if (!reads_alone(p, product.in[3], g.product, g.update)) return NULL;
  if (g.bias_add >= 0 && !reads_alone(p, p->nodes[g.bias_add].in[1], g.bias_add, g.bias_update)) return NULL;
  const int rule = rule_of(&update, "sparse_apply_"), slots = rule;
  int in[2 * SPARSE_SLOTS_MAX + SPARSE_BIAS + 1], ins = 0, made;
  for (int k = 0; k <= slots; k++) in[ins++] = update.in[k];
  for (int k = 0; k < 3; k++) in[ins++] = product.in[k];
  in[ins++] = p->nodes[g.to_label].in[0];
  in[ins++] = update.in[slots + 3];
  for (int k = 0; g.bias_add >= 0 && k <= slots; k++) in[ins++] = p->nodes[g.bias_update].in[k];
  char name[32] = "sparse_logistic_";
  strcat(name, rules[rule]);
  int share = g.share >= 0 ? p->nodes[g.share].out[0] : -1;
  TRY(take_over(p, name, update.origin, in, ins, update.attr, (int[]){-1, p->nodes[g.mean].out[0], share}, &made));
  plan_replace(p, update.out[0], p->nodes[made].out[0]);
  if (g.bias_update >= 0) plan_replace(p, p->nodes[g.bias_update].out[0], p->nodes[made].out[0]);
  const int dead[] = {g.product,   g.bias_add,    g.loss, g.mean, g.grad,  g.rows,      g.unique, g.update,
                      g.bias_grad, g.bias_update, g.sign, g.relu, g.equal, g.to_number, g.share,  g.to_label};
  for (size_t i = 0; i < COUNT_OF(dead); i++) kill(p, dead[i]);
  return NULL;
}

/* A group of things that one node does is that node: its value, 0, is a constant. */
shoal_status fuse_group(plan *p, int id) {
  const plan_node *n = &p->nodes[id];
  if (!is(n, "group") || !n->ins) return NULL;
  for (int k = 0; k < n->ins; k++) {
    int maker = p->values[n->in[k]].maker;
    if (maker < 0 || maker != p->values[n->in[0]].maker || !(p->nodes[maker].op->flags & OP_STATEFUL)) return NULL;
  }
  plan_value *v = &p->values[n->out[0]];
  TRY(shoal_tensor_create(v->dtype, v->shape, &v->data));
  v->owned = true;
  v->store = STORE_CONSTANT;
  v->maker = -1;
  kill(p, id);
  return NULL;
}
