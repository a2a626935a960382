/* Replaces groups of operators by one that does the same in fewer passes over memory.
 *
 * A pattern is matched on the finished plan, gradients included, so it does not matter how a graph came to be. A value
 * inside a group disappears with it; so a group is taken only if nobody outside it reads such a value. */
#include "exec/fuse.h"

#include "kernel/lanes.h"
#include "kernel/skip.h"

#include <string.h>

/* Bytes to numbers, and a factor: cast, scale -> widen_u8. */
static shoal_status fuse_widen(plan *p, int id) {
  const plan_node cast = p->nodes[id];
  if (!is(&cast, "cast") || p->values[cast.in[0]].dtype != SHOAL_U8 || !f32(p, cast.out[0]) ||
      !plan_batched(&p->values[cast.in[0]]))
    return NULL;
  int scale = only_reader(p, cast.out[0], "scale"), made;
  attr_value attr[OP_MAX_ATTRS] = {ATTR_F(scale >= 0 ? p->nodes[scale].attr[0].f : 1)};
  int out = scale >= 0 ? p->nodes[scale].out[0] : cast.out[0];
  const node *origin = scale >= 0 ? p->nodes[scale].origin : cast.origin;
  TRY(take_over(p, "widen_u8", origin, cast.in, 1, attr, &out, &made));
  kill(p, id);
  kill(p, scale);
  return NULL;
}

static activation activation_of(const plan_node *n) {
  return is(n, "relu") ? ACT_RELU : is(n, "tanh") ? ACT_TANH : is(n, "sigmoid") ? ACT_SIGMOID : ACT_LINEAR;
}

static const char *gradient_name(activation act) {
  static const char *const names[] = {NULL, "relu_grad", "tanh_grad", "sigmoid_grad"};
  return names[act];
}

/* Does the value's readers include an activation? Then that node. */
static int activation_reader(const plan *p, int value) {
  for (int k = 0;; k++) {
    int r = reader(p, value, k);
    if (r < 0) return -1;
    if (activation_of(&p->nodes[r]) != ACT_LINEAR) return r;
  }
}

/* A pool of 2 x 2 windows that do not overlap. */
static pooling pooling_of(const plan_node *n) {
  pooling kind = is(n, "max_pool") ? POOL_MAX : is(n, "avg_pool") ? POOL_AVG : POOL_NONE;
  for (int k = 0; k < 8; k++)
    if (n->attr[k].i != (k < 4 ? 2 : 0)) return POOL_NONE;
  return kind;
}

/* The nodes of a convolution block; -1 where there is none. */
typedef struct {
  int conv, bias, act, pool; /* forward */
  int pool_grad, act_grad;   /* backward, outermost first */
  int bias_grad, weight_grad, image_grad;
  activation how;
  pooling kind;
} conv_group;

/* Sorts the readers of the value before pooling; false when somebody else reads it. */
static bool sort_inner_readers(const plan *p, conv_group *g, int inner) {
  for (int k = 0;; k++) {
    int r = reader(p, inner, k);
    if (r < 0) return true;
    const plan_node *n = &p->nodes[r];
    if (r == g->pool) continue;
    if (is(n, g->kind == POOL_MAX ? "max_pool_grad" : "avg_pool_grad") && n->in[1] == inner && g->pool_grad < 0)
      g->pool_grad = r;
    else if (g->how != ACT_LINEAR && is(n, gradient_name(g->how)) && n->in[1] == inner && g->act_grad < 0)
      g->act_grad = r;
    else
      return false;
  }
}

/* Sorts the readers of the gradient before activation. */
static bool sort_gradient_readers(const plan *p, conv_group *g, int gradient) {
  const plan_node *conv = &p->nodes[g->conv];
  for (int k = 0;; k++) {
    int r = reader(p, gradient, k);
    if (r < 0) break;
    const plan_node *n = &p->nodes[r];
    if (is(n, "bias_add_grad") && g->bias_grad < 0)
      g->bias_grad = r;
    else if (is(n, "conv2d_grad_w") && n->in[0] == conv->in[0] && n->in[1] == gradient && g->weight_grad < 0)
      g->weight_grad = r;
    else if (is(n, "conv2d_grad_x") && n->in[1] == conv->in[1] && n->in[0] == gradient && g->image_grad < 0)
      g->image_grad = r;
    else
      return false;
  }
  return g->bias_grad >= 0 && g->weight_grad >= 0;
}

/* Can the whole group, backward part included, be replaced? */
static bool match_pooled(const plan *p, conv_group *g, int inner) {
  if (needed_elsewhere(p, inner) || !sort_inner_readers(p, g, inner)) return false;
  /* avg_pool_grad wants only the shape of its input, so it is found by what it hands on. */
  if (g->kind == POOL_AVG && g->pool_grad < 0 && g->act_grad >= 0) {
    int maker = p->values[p->nodes[g->act_grad].in[0]].maker;
    if (maker >= 0 && is(&p->nodes[maker], "avg_pool_grad")) g->pool_grad = maker;
  }
  if (g->pool_grad < 0) {
    /* Either there is no gradient, or (linear, average) its consumer is not to be told apart: then leave it. */
    return g->act_grad < 0 && !(g->kind == POOL_AVG && g->how == ACT_LINEAR);
  }
  int gradient = p->nodes[g->pool_grad].out[0];
  if (g->how != ACT_LINEAR) {
    if (g->act_grad < 0 || p->nodes[g->act_grad].in[0] != gradient || reader(p, gradient, 1) >= 0 ||
        needed_elsewhere(p, gradient))
      return false;
    gradient = p->nodes[g->act_grad].out[0];
  }
  if (needed_elsewhere(p, gradient)) return false;
  if (g->kind == POOL_MAX && p->nodes[g->pool_grad].in[2] != p->nodes[g->pool].out[0]) return false;
  return sort_gradient_readers(p, g, gradient);
}

static shoal_status replace_group(plan *p, const conv_group *g) {
  const plan_node conv = p->nodes[g->conv], bias = p->nodes[g->bias];
  int result = g->kind != POOL_NONE ? p->nodes[g->pool].out[0] : g->act >= 0 ? p->nodes[g->act].out[0] : bias.out[0];
  const node *origin = p->nodes[g->kind != POOL_NONE ? g->pool : g->act >= 0 ? g->act : g->bias].origin;
  attr_value attr[OP_MAX_ATTRS];
  memcpy(attr, conv.attr, sizeof attr);
  attr[CONV_ACT] = ATTR_I(g->how);
  attr[CONV_POOL] = ATTR_I(g->kind);
  int made, x = conv.in[0], w = conv.in[1];
  TRY(take_over(p, "conv_block", origin, (int[]){x, w, bias.in[1]}, 3, attr, (int[]){result, -1}, &made));
  int aux = p->nodes[made].out[1];
  if (g->pool_grad >= 0) {
    int dy = p->nodes[g->pool_grad].in[0];
    int dw = p->nodes[g->weight_grad].out[0], db = p->nodes[g->bias_grad].out[0];
    TRY(take_over(p, "conv_block_grad_w", p->nodes[g->weight_grad].origin, (int[]){x, dy, result, aux, w}, 5, attr,
                  (int[]){dw, db}, &made));
    if (g->image_grad >= 0) {
      int dx = p->nodes[g->image_grad].out[0];
      TRY(take_over(p, "conv_block_grad_x", p->nodes[g->image_grad].origin, (int[]){dy, w, x, result, aux}, 5, attr,
                    &dx, &made));
    }
  }
  kill(p, g->conv);
  kill(p, g->bias);
  kill(p, g->act);
  kill(p, g->pool);
  kill(p, g->pool_grad);
  kill(p, g->act_grad);
  kill(p, g->bias_grad);
  kill(p, g->weight_grad);
  kill(p, g->image_grad);
  return NULL;
}

/* conv2d, bias_add, an activation and a pool, with their gradients -> conv_block and its gradients. */
static shoal_status fuse_conv(plan *p, int id) {
  conv_group g = {id, -1, -1, -1, -1, -1, -1, -1, -1, ACT_LINEAR, POOL_NONE};
  if (!is(&p->nodes[id], "conv2d") || !conv_plain(p->nodes[id].attr) || !f32(p, p->nodes[id].out[0]) ||
      !plan_batched(&p->values[p->nodes[id].out[0]]))
    return NULL;
  g.bias = only_reader(p, p->nodes[id].out[0], "bias_add");
  if (g.bias < 0) return NULL;
  int inner = p->nodes[g.bias].out[0];
  int act = activation_reader(p, inner);
  if (act >= 0 && reader(p, inner, 1) < 0 && !needed_elsewhere(p, inner)) {
    g.act = act;
    g.how = activation_of(&p->nodes[act]);
    inner = p->nodes[act].out[0];
  }
  for (int k = 0; g.pool < 0; k++) {
    int r = reader(p, inner, k);
    if (r < 0) break;
    g.kind = pooling_of(&p->nodes[r]);
    if (g.kind != POOL_NONE) g.pool = r;
  }
  conv_group pooled = g;
  if (g.pool >= 0 && match_pooled(p, &pooled, inner)) return replace_group(p, &pooled);
  g.pool = -1;
  g.kind = POOL_NONE;
  return replace_group(p, &g);
}

/* matmul, or batch_matmul by one matrix, bias_add and an activation -> dense_block. */
static shoal_status fuse_dense(plan *p, int id) {
  const plan_node product = p->nodes[id];
  if ((!is(&product, "matmul") && !is(&product, "batch_matmul")) || p->values[product.in[0]].shape.rank < 2 ||
      p->values[product.in[1]].shape.rank != 2 || product.attr[0].i || product.attr[1].i || !f32(p, product.out[0]) ||
      !plan_batched(&p->values[product.in[0]]) || plan_batched(&p->values[product.in[1]]))
    return NULL;
  int bias = only_reader(p, product.out[0], "bias_add");
  if (bias < 0) return NULL;
  int out = p->nodes[bias].out[0], act = activation_reader(p, out), made;
  if (act >= 0 && (reader(p, out, 1) >= 0 || needed_elsewhere(p, out))) act = -1;
  const node *origin = p->nodes[act >= 0 ? act : bias].origin;
  attr_value attr[OP_MAX_ATTRS] = {ATTR_I(act >= 0 ? activation_of(&p->nodes[act]) : ACT_LINEAR)};
  if (act >= 0) out = p->nodes[act].out[0];
  TRY(take_over(p, "dense_block", origin, (int[]){product.in[0], product.in[1], p->nodes[bias].in[1]}, 3, attr, &out,
                &made));
  kill(p, id);
  kill(p, bias);
  kill(p, act);
  return NULL;
}

/* A cross-entropy and its gradient from the same logits, when the gradient's weights are known beforehand. */
static shoal_status fuse_cross_entropy(plan *p, int id) {
  const plan_node loss = p->nodes[id];
  if (!is(&loss, "sparse_softmax_cross_entropy") || !f32(p, loss.in[0])) return NULL;
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node grad = p->nodes[i];
    if (!is(&grad, "sparse_softmax_cross_entropy_grad") || grad.in[0] != loss.in[0] || grad.in[1] != loss.in[1] ||
        p->values[p->values[grad.in[2]].root].store != STORE_CONSTANT)
      continue;
    int made;
    TRY(take_over(p, "cross_entropy_pair", loss.origin, grad.in, 3, NULL, (int[]){loss.out[0], grad.out[0]}, &made));
    kill(p, id);
    kill(p, (int)i);
    return NULL;
  }
  return NULL;
}

static bool split_over_threads(const plan *p, int64_t rows) {
  return pool_threads(p->session->threads) > 1 && rows > LANES;
}

/* A dense layer of few outputs straight on bytes: images are mostly zero, so only the others are visited. */
static shoal_status fuse_skip(plan *p, int id) {
  const plan_node dense = p->nodes[id];
  if (!is(&dense, "dense_block") || dense.attr[0].i != ACT_LINEAR) return NULL;
  const plan_value *x = &p->values[dense.in[0]];
  const shoal_shape *w = &p->values[dense.in[1]].shape;
  if (x->maker < 0 || x->shape.rank != 2 || w->dim[1] > SKIP_CLASSES_MAX || w->dim[0] > SKIP_FEATURES_MAX) return NULL;
  int widen = x->maker, sum = -1, root = x->root;
  const int64_t rows = x->shape.dim[0];
  if (!is(&p->nodes[widen], "widen_u8")) return NULL;
  for (size_t i = 0; i < p->n_values; i++) { /* the bytes may be seen as an image or as a row: all readers count */
    if (p->values[i].root != root) continue;
    if (p->values[i].fetched) return NULL;
    for (int k = 0;; k++) {
      int r = reader(p, (int)i, k);
      if (r < 0) break;
      const plan_node *n = &p->nodes[r];
      if (r == id) continue;
      if (!is(n, "matmul") || !n->attr[0].i || n->attr[1].i || n->in[0] != dense.in[0] || sum >= 0) return NULL;
      sum = r;
    }
  }
  const plan_node bytes = p->nodes[widen];
  int made, update = -1;
  TRY(take_over(p, "skip_compress", bytes.origin, bytes.in, 1, bytes.attr, (int[]){-1}, &made));
  int lists = p->nodes[made].out[0];
  TRY(take_over(p, "skip_matmul", dense.origin, (int[]){lists, dense.in[1], dense.in[2]}, 3, NULL, dense.out, &made));
  if (sum >= 0) {
    const plan_node product = p->nodes[sum];
    /* On one thread the update goes straight into the weights. Several would fight for their cache lines: each sums up
     * its own rows, and the sums are applied. */
    update = split_over_threads(p, rows) ? -1 : only_reader(p, product.out[0], "apply_sgd");
    if (update >= 0 && p->nodes[update].in[0] == dense.in[1]) {
      const plan_node sgd = p->nodes[update];
      TRY(take_over(p, "skip_sgd", sgd.origin, (int[]){sgd.in[0], lists, product.in[1], sgd.in[2]}, 4, NULL,
                    (int[]){-1}, &made));
      plan_replace(p, sgd.out[0], p->nodes[made].out[0]);
    } else {
      update = -1;
      TRY(take_over(p, "skip_sum", product.origin, (int[]){lists, product.in[1], dense.in[1]}, 3, NULL, product.out,
                    &made));
    }
  }
  kill(p, id);
  kill(p, widen);
  kill(p, sum);
  kill(p, update);
  return NULL;
}

/* Is `value`, which only a sum reads, the variable times a number known beforehand? Then that number. */
static bool times_number(const plan *p, int value, int variable, double *number) {
  int maker = p->values[value].maker;
  if (maker < 0 || !is(&p->nodes[maker], "mul") || only_reader(p, value, "add") < 0) return false;
  const plan_node *mul = &p->nodes[maker];
  for (int k = 0; k < 2; k++) {
    const plan_value *factor = &p->values[mul->in[1 - k]], *root = &p->values[factor->root];
    if (p->values[mul->in[k]].root != variable || !f32(p, mul->in[1 - k]) || shoal_shape_count(&factor->shape) != 1 ||
        root->store != STORE_CONSTANT)
      continue;
    *number = shoal_tensor_get(&root->data, 0);
    return true;
  }
  return false;
}

/* An update by gradient + l2 * variable, as an L2 term in the loss gives it -> the update adds it in passing: weights
 * that fit no cache are read once less, and no second gradient is kept. */
static shoal_status fuse_decay(plan *p, int id) {
  plan_node *update = &p->nodes[id];
  const bool momentum = is(update, "apply_momentum");
  if (!momentum && !is(update, "apply_sgd")) return NULL;
  const int at = momentum ? 2 : 1, sum = p->values[update->in[at]].maker;
  attr_value *l2 = &update->attr[momentum ? 2 : 0];
  if (sum < 0 || !is(&p->nodes[sum], "add") || l2->f != 0 || only_reader(p, update->in[at], update->op->name) != id)
    return NULL;
  for (int k = 0; k < 2; k++) {
    const int term = p->nodes[sum].in[k], rest = p->nodes[sum].in[1 - k];
    if (term == rest || !shoal_shape_equal(&p->values[rest].shape, &p->values[update->in[0]].shape) ||
        !times_number(p, term, p->values[update->in[0]].root, &l2->f))
      continue;
    kill(p, p->values[term].maker);
    kill(p, sum);
    update->in[at] = rest;
    return NULL;
  }
  return NULL;
}

shoal_status plan_fuse(plan *p) {
  typedef shoal_status (*rule)(plan *, int);
  static const rule rules[] = {fuse_widen, fuse_conv,  fuse_dense,  fuse_cross_entropy,
                               fuse_skip,  fuse_decay, fuse_sparse, fuse_group};
  for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
    size_t nodes = p->n_nodes; /* those a rule adds are not looked at again by the same rule */
    for (size_t i = 0; i < nodes; i++)
      if (!p->nodes[i].dead) TRY(rules[r](p, (int)i));
  }
  return NULL;
}
