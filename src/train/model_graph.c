/* Models of graphs that a program has made itself. Whenever a branch of a tower is built, the nodes between the inputs and the
 * outputs are copied into the model's graph: as one layer, which gives an output each time it is applied. Variables are made
 * the first time, and are the model's weights. */
#include "train/model_graph.h"

#include "base/base64.h"
#include "base/mem.h"
#include "base/options.h"
#include "graph/graph.h"
#include "graph/graphdef.h"
#include "train/layer.h"

#include <string.h>

struct graph_source {
  shoal_graph *graph; /* the program's, or, of a layer in a model file, its own: */
  bool owns_graph;
  shoal_value **inputs;  /* [n_inputs] */
  shoal_value **outputs; /* [n_outputs] */
  int n_inputs, n_outputs;
  shoal_value *labels, *loss; /* NULL: a loss by name */
  /* while a branch is built */
  uint64_t branch;
  int next;           /* output */
  shoal_value **made; /* by value_id: the copies; NULL: not copied yet */
  bool training;
};

void graph_source_destroy(graph_source *s) {
  if (!s) return;
  free(s->inputs);
  free(s->outputs);
  free(s->made);
  if (s->owns_graph) shoal_graph_destroy(s->graph);
  free(s);
}

/* ---- copying */

static shoal_status refuse(const node *n, const char *why) {
  return status_make(SHOAL_ERR_ARGUMENT, "model of a graph: node '%s' (%s): %s", n->name, n->op->name, why);
}

/* Marks what a value needs, variables' first values included. Nodes come after their inputs, so one pass from the end is
 * enough. */
static void mark(const shoal_graph *g, const shoal_value *v, bool *needed) {
  needed[v->maker->id] = true;
  for (size_t i = g->count; i-- > 0;) {
    const node *n = g->nodes[i];
    for (int k = 0; needed[i] && k < n->ins; k++) needed[n->in[k]->maker->id] = true;
    if (needed[i] && n->initial) needed[n->initial->maker->id] = true;
  }
}

/* A variable of the program's graph as a weight of the model. */
static shoal_status copy_variable(shoal_model *m, layer *owner, const node *n, shoal_value *initial,
                                  shoal_value **out) {
  for (size_t i = 0; i < m->n_weights; i++)
    if (!strcmp(shoal_value_name(m->weights[i].variable), n->name)) {
      if (m->weights[i].owner != owner) return refuse(n, "another layer has a weight of this name");
      *out = m->weights[i].variable;
      return NULL;
    }
  TRY(mem_grow((void **)&m->weights, &m->cap_weights, m->n_weights + 1, sizeof *m->weights));
  char none[1] = "", *scope = m->graph->scope; /* called as there, whatever the branch */
  m->graph->scope = none;
  shoal_value *v = shoal_variable(m->graph, n->name, initial);
  m->graph->scope = scope;
  TRY(shoal_graph_status(m->graph));
  const weight_role role = n->out[0].dtype == SHOAL_F32 && !owner->frozen ? WEIGHT_TRAINED : WEIGHT_FROZEN;
  m->weights[m->n_weights++] =
      (weight){.variable = v, .owner = owner, .role = role, .decayed = role == WEIGHT_TRAINED && v->shape.rank > 1};
  *out = v;
  return NULL;
}

static shoal_status copy_node(graph_source *s, shoal_model *m, layer *owner, const node *n) {
  shoal_value **made = s->made + n->first_value;
  if (*made) return NULL;
  if (!strcmp(n->op->name, "placeholder")) return refuse(n, "it is neither one of the inputs nor the labels");
  if (n->n_after) return refuse(n, "it waits for another one, which a model cannot keep");
  if (n->initial) return copy_variable(m, owner, n, s->made[value_id(n->initial)], made);
  if (n->op->flags & OP_STATEFUL) return refuse(n, "it changes something, which is left to the optimizer");
  if (!s->training && !strcmp(n->op->name, "dropout")) {
    *made = s->made[value_id(n->in[0])];
    return NULL;
  }
  shoal_value **in = calloc((size_t)n->ins + 1, sizeof(shoal_value *));
  if (!in) return status_no_memory();
  for (int k = 0; k < n->ins; k++) in[k] = s->made[value_id(n->in[k])];
  shoal_name_next(m->graph, n->name);
  shoal_value *v = graph_add(m->graph, n->op, in, n->ins, n->attr);
  free(in);
  for (int k = 0; v && k < n->outs; k++) made[k] = &v->maker->out[k];
  return shoal_graph_status(m->graph);
}

/* All that the value needs, in the order in which it was made. */
static shoal_status copy(graph_source *s, shoal_model *m, layer *owner, const shoal_value *v) {
  bool *needed = calloc(s->graph->count + 1, sizeof *needed);
  if (!needed) return status_no_memory();
  mark(s->graph, v, needed);
  for (int i = 0; i < s->n_inputs; i++) needed[s->inputs[i]->maker->id] = false; /* they are there */
  if (s->labels) needed[s->labels->maker->id] = false;
  shoal_status status = NULL;
  for (size_t i = 0; i < s->graph->count && !status; i++)
    if (needed[i]) status = copy_node(s, m, owner, s->graph->nodes[i]);
  free(needed);
  return status;
}

static void begin_branch(graph_source *s, const branch *b, const layer_io *io) {
  memset(s->made, 0, (size_t)s->graph->n_values * sizeof *s->made);
  s->branch = b->number;
  s->next = 0;
  s->training = b->training;
  for (int i = 0; i < s->n_inputs; i++) {
    shoal_value *x = io->x[i];
    if (s->inputs[i]->dtype != x->dtype) x = shoal_cast(b->model->graph, x, s->inputs[i]->dtype);
    s->made[value_id(s->inputs[i])] = x;
  }
}

static shoal_value *graph_apply(branch *b, layer *l, layer_io *io) {
  graph_source *s = b->model->source;
  if (s->branch != b->number) begin_branch(s, b, io);
  const shoal_value *wanted = s->outputs[s->next++];
  shoal_status status = copy(s, b->model, l, wanted);
  if (status && !b->model->graph->error)
    graph_fail(b->model->graph, status);
  else
    shoal_status_free(status);
  return b->model->graph->error ? NULL : s->made[value_id(wanted)];
}

static const layer_kind graph_kind = {"graph", "nodes of the program's own", NULL, 1, LAYER_INPUTS_MAX, graph_apply};

/* ---- layers of model files: operators of another program's model (docs/exchange.md) */

/* The attribute `graph`: a GraphDef of our operators whose placeholders are the layer's inputs, in their order, and whose
 * last node is what it gives. */
static shoal_status read_source(layer *l, graph_source *s) {
  uint8_t *bytes;
  size_t n;
  if (!base64_decode(layer_text(l, "graph"), &bytes, &n))
    return status_make(SHOAL_ERR_ARGUMENT, "graph: expected a GraphDef in base64");
  s->owns_graph = true;
  shoal_status status = shoal_graph_create(&s->graph);
  if (!status) status = graphdef_read(s->graph, bytes, n);
  free(bytes);
  if (status) return status_wrap(status, "graph");
  const size_t count = s->graph->count;
  s->inputs = calloc(count + 1, sizeof(shoal_value *));
  s->outputs = calloc(1, sizeof(shoal_value *));
  s->made = calloc((size_t)s->graph->n_values + 1, sizeof(shoal_value *));
  if (!s->inputs || !s->outputs || !s->made) return status_no_memory();
  for (size_t i = 0; i < count; i++)
    if (!strcmp(s->graph->nodes[i]->op->name, "placeholder")) s->inputs[s->n_inputs++] = &s->graph->nodes[i]->out[0];
  if (!count || !s->n_inputs || !s->graph->nodes[count - 1]->outs)
    return status_make(SHOAL_ERR_ARGUMENT, "graph: expected placeholders, and a result as its last node");
  s->outputs[s->n_outputs++] = &s->graph->nodes[count - 1]->out[0];
  return NULL;
}

static shoal_value *graph_layer_apply(branch *b, layer *l, layer_io *io) {
  graph_source *s = l->source;
  shoal_graph *g = b->model->graph;
  shoal_status status = NULL;
  if (!s) {
    if (!(s = calloc(1, sizeof *s))) status = status_no_memory();
    if (!status) status = read_source(l, s);
    if (status) {
      graph_source_destroy(s);
      graph_fail(g, status_wrap(status, "layer %s", l->name));
      return NULL;
    }
    l->source = s;
  }
  if (s->n_inputs != io->n) return layer_refuse(b, l, "its graph takes %d inputs, not %d", s->n_inputs, io->n);
  for (int i = 0; i < io->n; i++)
    if (s->inputs[i]->shape.rank != io->x[i]->shape.rank)
      return layer_refuse(b, l, "input %d of its graph has %d axes, not %d", i, s->inputs[i]->shape.rank,
                          io->x[i]->shape.rank);
  begin_branch(s, b, io);
  io->mask = NULL;
  status = copy(s, b->model, l, s->outputs[0]);
  if (status && !g->error)
    graph_fail(g, status);
  else
    shoal_status_free(status);
  return g->error ? NULL : s->made[value_id(s->outputs[0])];
}

static const layer_attr graph_attrs[] = {ATTR("graph", TEXT, NULL), ATTR("activation", ACTIVATION, "null"), {0}};

const layer_kind layers_graph[] = {
    {"graph", "operators of another program's model, which `shoal train model.onnx` writes down", graph_attrs, 1,
     LAYER_INPUTS_MAX, graph_layer_apply},
    {0},
};

/* ---- the loss */

/* One number for all rows is that of each. */
static shoal_value *of_each_row(shoal_graph *g, shoal_value *loss, shoal_value *labels) {
  shoal_value *rows = shoal_cast(g, labels, SHOAL_F32);
  if (rows && rows->shape.rank > 1) rows = shoal_reduce_sum(g, rows, SHOAL_SHAPE(1), false);
  return shoal_add(g, shoal_fill_like(g, rows, 0), loss);
}

static shoal_value *source_loss(void *context, shoal_graph *g, shoal_value *outputs, shoal_value *labels) {
  shoal_model *m = context;
  graph_source *s = m->source;
  shoal_value *y = labels;
  if (y && y->dtype != s->labels->dtype) y = shoal_cast(g, y, s->labels->dtype);
  if (y && y->shape.rank == 2 && s->labels->shape.rank == 1) y = shoal_reshape(g, y, SHOAL_SHAPE(SHOAL_UNKNOWN));
  s->made[value_id(s->labels)] = y;
  shoal_status status = y ? copy(s, m, m->layers[0], s->loss) : NULL;
  if (status && !g->error)
    graph_fail(g, status);
  else
    shoal_status_free(status);
  if (g->error || !y) return NULL;
  shoal_value *loss = s->made[value_id(s->loss)];
  return loss->shape.rank == 0 ? of_each_row(g, loss, labels) : loss;
}

void graph_source_set_loss(shoal_model *m, shoal_compile_options *o) {
  const graph_source *s = m->source;
  if (!s || !s->loss || o->loss || o->own_loss) return;
  o->own_loss = source_loss;
  o->own_context = m;
  o->own_targets = s->labels->dtype == SHOAL_F32;
  o->own_labels = s->labels->shape.rank == 2 ? s->labels->shape.dim[1] : 1;
}

/* ---- making one */

static shoal_status check_placeholder(const shoal_graph *g, const shoal_value *v, const char *what, int i) {
  char have[SHOAL_SHAPE_TEXT];
  const char *wrong = NULL;
  if (!v || (size_t)v->maker->id >= g->count || g->nodes[v->maker->id] != v->maker)
    return status_make(SHOAL_ERR_ARGUMENT, "model of a graph: %s %d is not of this graph", what, i);
  if (strcmp(v->maker->op->name, "placeholder")) wrong = "it is no placeholder";
  if (!wrong && v->dtype != SHOAL_F32 && v->dtype != SHOAL_I32) wrong = "f32 or i32 is expected";
  if (!wrong && (v->shape.rank < 1 || v->shape.dim[0] != SHOAL_UNKNOWN))
    wrong = "its first axis is the batch, of any size";
  for (int k = 1; !wrong && k < v->shape.rank; k++)
    if (v->shape.dim[k] < 1) wrong = "only the batch may be of any size";
  if (!wrong) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "model of a graph: %s '%s' is %s%s: %s", what, shoal_value_name(v),
                     shoal_dtype_name(v->dtype), shoal_shape_text(&v->shape, have), wrong);
}

static shoal_status check_parts(const shoal_graph *g, const shoal_graph_parts *p) {
  if (p->n_inputs < 1 || p->n_inputs > LAYER_INPUTS_MAX || p->n_outputs < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "model of a graph: expected 1 to %d inputs and at least one output",
                       LAYER_INPUTS_MAX);
  if (!p->labels != !p->loss)
    return status_make(SHOAL_ERR_ARGUMENT, "model of a graph: a loss goes with the placeholder of the labels");
  if (p->loss && p->n_outputs > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "model of a graph: with a loss of its own it has one output");
  for (int i = 0; i < p->n_inputs; i++) {
    TRY(check_placeholder(g, p->inputs[i], "input", i));
    if (p->inputs[i]->shape.rank < 2)
      return status_make(SHOAL_ERR_ARGUMENT, "model of a graph: input '%s' is [batch]; expected [batch, numbers]",
                         shoal_value_name(p->inputs[i]));
  }
  if (!p->labels) return NULL;
  TRY(check_placeholder(g, p->labels, "labels", 0));
  if (p->labels->shape.rank > 2 || (p->labels->dtype == SHOAL_I32 && p->labels->shape.rank != 1))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "model of a graph: labels are classes, i32 [batch], or numbers, f32 [batch, n]");
  if (p->loss->shape.rank > 1 || p->loss->dtype != SHOAL_F32)
    return status_make(SHOAL_ERR_ARGUMENT, "model of a graph: the loss is f32: a number for each row, [batch], or one");
  return NULL;
}

static shoal_shape one_of(const shoal_value *v) { return shoal_shape_make(v->shape.rank - 1, v->shape.dim + 1); }

/* The only layer, which is no row of the table. */
static shoal_status add_graph_layer(shoal_model *m, layer **out) {
  TRY(mem_grow((void **)&m->layers, &m->cap_layers, m->n_layers + 1, sizeof *m->layers));
  layer *l = calloc(1, sizeof *l);
  if (!l) return status_no_memory();
  l->kind = &graph_kind;
  l->name = strdup("graph");
  l->config = json_object();
  *out = m->layers[m->n_layers++] = l;
  return l->name && l->config ? NULL : status_no_memory();
}

static shoal_status wire(shoal_model *m, const shoal_graph_parts *p) {
  graph_source *s = m->source;
  shoal_output *inputs[LAYER_INPUTS_MAX], *out;
  layer *l;
  s->inputs = calloc((size_t)p->n_inputs, sizeof(shoal_value *));
  s->outputs = calloc((size_t)p->n_outputs, sizeof(shoal_value *));
  s->made = calloc((size_t)s->graph->n_values + 1, sizeof(shoal_value *));
  if (!s->inputs || !s->outputs || !s->made) return status_no_memory();
  memcpy(s->inputs, p->inputs, (size_t)p->n_inputs * sizeof(shoal_value *));
  memcpy(s->outputs, p->outputs, (size_t)p->n_outputs * sizeof(shoal_value *));
  s->n_inputs = p->n_inputs;
  s->n_outputs = p->n_outputs;
  for (int i = 0; i < p->n_inputs; i++) {
    const shoal_value *v = p->inputs[i];
    TRY(model_set_input(m, i, shoal_value_name(v), one_of(v), v->dtype == SHOAL_I32));
    inputs[i] = m->calls[i];
  }
  TRY(add_graph_layer(m, &l));
  for (int i = 0; i < p->n_outputs; i++) {
    TRY(model_call(m, l, inputs, p->n_inputs, &out));
    TRY(model_add_result(m, out, shoal_value_name(p->outputs[i]), NULL, 1));
  }
  return NULL;
}

shoal_status shoal_model_from_graph(shoal_graph *g, const shoal_graph_parts *parts, shoal_model **out) {
  shoal_graph_parts p;
  shoal_model *m;
  TRY(OPTIONS_TAKE(&p, parts));
  TRY(shoal_graph_status(g));
  TRY(check_parts(g, &p));
  TRY(shoal_model_create(one_of(p.inputs[0]), &m));
  shoal_status status = NULL;
  if (!(m->source = calloc(1, sizeof *m->source))) status = status_no_memory();
  if (!status) {
    m->source->graph = g;
    m->source->labels = p.labels;
    m->source->loss = p.loss;
    status = wire(m, &p);
  }
  if (status)
    shoal_model_destroy(m);
  else
    *out = m;
  return status;
}
