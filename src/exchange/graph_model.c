/* Models that are graphs of operators, ONNX and GraphDef, to be trained: a model file with one layer, `graph`, which has the
 * nodes between inputs and output, and constants. The weights are the graph's variables; their numbers come from the file. */
#include "base/base64.h"
#include "base/mem.h"
#include "exchange/formats.h"
#include "exchange/network.h"
#include "graph/graphdef.h"
#include "train/loss.h"

#include <math.h>
#include <string.h>

#define GRAPH_MAX ((size_t)32 << 20) /* bytes of nodes and constants, without weights */

/* What is trained: the output without its activation, which is left to the loss. */
typedef struct {
  shoal_value *value;
  const char *activation; /* NULL: none */
  int64_t units;
} trained_output;

static bool made_by(const shoal_value *v, const char *op) { return !strcmp(v->maker->op->name, op); }

static shoal_status find_output(const shoal_network *n, trained_output *out) {
  char shape[SHOAL_SHAPE_TEXT];
  if (n->outputs.n != 1)
    return status_make(SHOAL_ERR_INPUT, "it has %d outputs: a graph is trained for one of them; save it with one",
                       n->outputs.n);
  trained_output o = {.value = n->outputs.list[0].value};
  while (made_by(o.value, "identity")) o.value = o.value->maker->in[0];
  const shoal_shape *s = &o.value->shape;
  if (o.value->dtype != SHOAL_F32 || s->rank < 2 || s->dim[0] != SHOAL_UNKNOWN || s->dim[s->rank - 1] < 1)
    return status_make(SHOAL_ERR_INPUT, "its output '%s' is %s%s: expected f32 [batch, ...]", n->outputs.list[0].name,
                       shoal_dtype_name(o.value->dtype), shoal_shape_text(s, shape));
  o.units = s->dim[s->rank - 1];
  const int64_t axis = made_by(o.value, "softmax") ? o.value->maker->attr[0].i : 0;
  if (made_by(o.value, "softmax") && s->rank == 2 && (axis == -1 || axis == 1)) o.activation = "softmax";
  if (made_by(o.value, "sigmoid")) o.activation = "sigmoid";
  if (o.activation) o.value = o.value->maker->in[0];
  *out = o;
  return NULL;
}

/* ---- the nodes, as a graph of their own */

/* What a weight begins with where the file with its numbers is gone: matrices at random, everything else as it is. */
static shoal_value *first_value(shoal_graph *g, const shoal_tensor *t) {
  const shoal_shape *s = &t->shape;
  if (s->rank < 2) return shoal_constant(g, t);
  const double count = (double)shoal_tensor_count(t), in = count / (double)MAX_OF(s->dim[0], 1),
               out = count / (double)MAX_OF(s->dim[1], 1), limit = sqrt(6 / (in + out));
  return shoal_random_uniform(g, *s, -limit, limit);
}

static shoal_status copy_node(shoal_network *net, shoal_graph *to, const node *n, shoal_value **made) {
  shoal_value **in = calloc((size_t)n->ins + 1, sizeof(shoal_value *)), *v;
  if (!in) return status_no_memory();
  for (int i = 0; i < n->ins; i++) in[i] = made[value_id(n->in[i])];
  if (n->initial) {
    shoal_tensor t;
    shoal_status status = shoal_session_variable(net->session, &n->out[0], &t);
    v = status ? NULL : shoal_variable(to, n->name, first_value(to, &t));
    if (status) graph_fail(to, status);
  } else {
    shoal_name_next(to, n->name);
    v = graph_add(to, n->op, in, n->ins, n->attr);
  }
  free(in);
  for (int i = 0; v && i < n->outs; i++) made[n->first_value + i] = &v->maker->out[i];
  return shoal_graph_status(to);
}

static void mark_needed(const shoal_graph *g, bool *needed) {
  for (size_t i = g->count; i-- > 0;)
    for (int k = 0; needed[i] && k < g->nodes[i]->ins; k++) needed[g->nodes[i]->in[k]->maker->id] = true;
}

/* Inputs in their order, then the nodes, the output last. */
static shoal_status copy_nodes(shoal_network *net, const shoal_value *output, shoal_graph *to) {
  const shoal_graph *g = net->graph;
  bool *needed = calloc(g->count + 1, sizeof *needed);
  shoal_value **made = calloc((size_t)g->n_values + 1, sizeof(shoal_value *));
  shoal_status status = needed && made ? NULL : status_no_memory();
  if (!status) {
    needed[output->maker->id] = true;
    mark_needed(g, needed);
  }
  for (int i = 0; i < net->inputs.n && !status; i++) {
    const shoal_value *x = net->inputs.list[i].value;
    needed[x->maker->id] = false;
    made[value_id(x)] = shoal_placeholder(to, net->inputs.list[i].name, x->dtype, x->shape);
    status = shoal_graph_status(to);
  }
  for (size_t i = 0; i < g->count && !status; i++)
    if (needed[i]) status = copy_node(net, to, g->nodes[i], made);
  if (!status) shoal_identity(to, made[value_id(output)]);
  if (!status) status = shoal_graph_status(to);
  free(needed);
  free(made);
  return status;
}

static shoal_status graph_text(shoal_network *n, const shoal_value *output, char **out) {
  shoal_graph *g;
  proto bytes = {0};
  TRY(shoal_graph_create(&g));
  shoal_status status = copy_nodes(n, output, g);
  if (!status) status = graphdef_write(g, 0, &bytes);
  if (!status && bytes.length > GRAPH_MAX)
    status = status_make(SHOAL_ERR_INPUT, "its constants, without weights, have more than %zu MB", GRAPH_MAX >> 20);
  if (!status && !(*out = base64_encode(bytes.bytes, bytes.length))) status = status_no_memory();
  proto_fini(&bytes);
  shoal_graph_destroy(g);
  return status;
}

/* ---- the description */

static json_t *input_json(const network_port *p, bool several) {
  json_t *shape = json_array(), *name;
  char *clean = strdup(several ? p->name : "input");
  for (char *c = clean; c && *c; c++)
    if (strchr("/:$", *c)) *c = '_';
  name = clean ? json_string(clean) : NULL;
  free(clean);
  for (int i = 1; i < p->value->shape.rank; i++) json_array_append_new(shape, json_integer(p->value->shape.dim[i]));
  const bool whole = p->value->dtype == SHOAL_I32 || p->value->dtype == SHOAL_I64;
  return json_pack("{s:o, s:o, s:s}", "name", name, "shape", shape, "dtype", whole ? "int" : "float");
}

/* Unless a flag says otherwise: one number is a class with a sigmoid and a target without, several are classes. */
static const char *usual_loss(const trained_output *o) {
  if (o->units > 1) return NULL;
  return o->activation && !strcmp(o->activation, "sigmoid") ? "sigmoid_cross_entropy" : "mse";
}

static shoal_status describe(shoal_network *n, text *notes, json_t **out) {
  trained_output o;
  char *graph = NULL;
  TRY(find_output(n, &o));
  for (int i = 0; i < n->inputs.n; i++)
    if (n->inputs.list[i].value->shape.rank < 2)
      return status_make(SHOAL_ERR_INPUT, "input '%s' is [batch]: expected [batch, numbers]", n->inputs.list[i].name);
  TRY(graph_text(n, o.value, &graph));
  json_t *inputs = json_array(), *names = json_array();
  for (int i = 0; i < n->inputs.n; i++) {
    json_t *one = input_json(&n->inputs.list[i], n->inputs.n > 1);
    json_array_append(names, json_object_get(one, "name"));
    json_array_append_new(inputs, one);
  }
  const char *loss = usual_loss(&o);
  json_t *output = json_pack("{s:s}", "layer", "graph");
  if (loss) json_object_set_new(output, "loss", json_string(loss));
  json_t *described =
      json_pack("{s:s, s:s, s:o, s:s}", "name", "graph", "type", "graph", "inputs", names, "graph", graph);
  if (o.activation) json_object_set_new(described, "activation", json_string(o.activation));
  free(graph);
  const json_int_t classes = o.units > 1 ? o.units : 2;
  *out = json_pack("{s:i, s:o, s:[o], s:[o], s:{s:I}}", "shoal_model", 1, "inputs", inputs, "layers", described,
                   "outputs", output, "parameters", "classes", classes);
  text_add(notes, "the loss is %s unless `loss` says otherwise\n", loss ? loss : "softmax_cross_entropy");
  return *out ? NULL : status_no_memory();
}

/* "models/my.onnx" is called my. */
static char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *name = strdup(slash ? slash + 1 : path), *dot = name ? strrchr(name, '.') : NULL;
  if (dot) *dot = 0;
  return name;
}

static shoal_status as_input(shoal_status status, const char *path) {
  if (shoal_status_code(status) != SHOAL_ERR_ARGUMENT) return status_wrap(status, "%s", path);
  shoal_status input = status_make(SHOAL_ERR_INPUT, "%s: %s", path, shoal_status_message(status));
  shoal_status_free(status);
  return input;
}

shoal_status graph_model_file(const char *path, text *notes, model_file **out) {
  shoal_network *n;
  json_t *description = NULL;
  TRY(shoal_network_load(path, &n));
  char *name = name_of(path);
  shoal_status status = as_input(name ? describe(n, notes, &description) : status_no_memory(), path);
  if (!status) status = model_file_from_json(description, path, name, out);
  json_decref(description);
  free(name);
  shoal_network_destroy(n);
  return status;
}

/* ---- the weights */

static shoal_status load_weight(shoal_network *n, shoal_model *m, const shoal_value *variable) {
  char have[SHOAL_SHAPE_TEXT], want[SHOAL_SHAPE_TEXT];
  const char *name = shoal_value_name(variable);
  const shoal_value *found = shoal_graph_find(n->graph, name);
  shoal_tensor from, to;
  if (!found || !found->maker->initial)
    return status_make(SHOAL_ERR_INPUT, "it has no weight '%s': it is another model", name);
  TRY(shoal_session_variable(n->session, found, &from));
  TRY(shoal_session_variable(m->session, variable, &to));
  if (from.dtype != to.dtype || !shoal_shape_equal(&from.shape, &to.shape))
    return status_make(SHOAL_ERR_INPUT, "the weight '%s' is %s; the model's is %s", name,
                       shoal_shape_text(&from.shape, have), shoal_shape_text(&to.shape, want));
  memcpy(to.data, from.data, shoal_tensor_bytes(&to));
  return NULL;
}

shoal_status graph_load_weights(const char *path, shoal_model *m) {
  shoal_network *n;
  shoal_status status = NULL;
  TRY(shoal_network_load(path, &n));
  for (size_t i = 0; i < m->n_weights && !status; i++) status = load_weight(n, m, m->weights[i].variable);
  shoal_network_destroy(n);
  return status_wrap(status, "%s", path);
}
