/* What writers of graphs for other programs share: names of values, constants, and the way through the nodes. */
#include "exchange/graph_writer.h"

#include "base/mem.h"
#include "exchange/network.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void writer_fail(graph_writer *w, shoal_status status) {
  if (!w->error)
    w->error = status;
  else
    shoal_status_free(status);
}

const char *writer_keep(graph_writer *w, char *name) {
  shoal_status status =
      name ? mem_grow((void **)&w->names, &w->cap_names, w->n_names + 1, sizeof *w->names) : status_no_memory();
  if (status) {
    free(name);
    writer_fail(w, status);
    return "";
  }
  return w->names[w->n_names++] = name;
}

/* The same of one that may have letters that the format does not take. */
static const char *keep_clean(graph_writer *w, char *name) {
  if (name && w->format->clean) w->format->clean(name);
  return writer_keep(w, name);
}

const char *writer_name(graph_writer *w) {
  char *name = NULL;
  if (asprintf(&name, "%s.%d", w->node ? w->node->name : "model", w->made++) < 0) name = NULL;
  return keep_clean(w, name);
}

void writer_bind(graph_writer *w, const shoal_value *v, const char *name) { w->values[value_id(v)] = name; }

bool writer_uses(const graph_writer *w, const shoal_value *v) {
  for (size_t i = (size_t)v->maker->id + 1; i < w->graph_nodes->count; i++) {
    const node *other = w->graph_nodes->nodes[i];
    for (int k = 0; w->needed[i] && k < other->ins; k++)
      if (other->in[k] == v) return true;
  }
  return false;
}

/* ---- constants */

const char *writer_tensor(graph_writer *w, const shoal_tensor *t) {
  const char *name = writer_name(w);
  w->format->put_tensor(w, name, t, false);
  return name;
}

const char *writer_scalar(graph_writer *w, shoal_dtype dtype, double value) {
  uint64_t memory[1] = {0};
  shoal_tensor t = shoal_tensor_view(dtype, SHOAL_SCALAR, memory);
  shoal_tensor_set(&t, 0, value);
  return writer_tensor(w, &t);
}

const char *writer_ints(graph_writer *w, const shoal_shape *list) {
  shoal_tensor t = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(list->rank), (void *)list->dim);
  return writer_tensor(w, &t);
}

const char *writer_int(graph_writer *w, int64_t value) {
  shoal_tensor t = shoal_tensor_view(SHOAL_I64, SHOAL_SCALAR, &value);
  return writer_tensor(w, &t);
}

bool writer_known(const graph_writer *w, const shoal_value *v, shoal_tensor *out) {
  if (!strcmp(v->maker->op->name, "constant")) {
    *out = v->maker->attr[0].data;
    return true;
  }
  if (strcmp(v->maker->op->name, "variable")) return false;
  shoal_status status = shoal_session_variable(w->model->session, v, out);
  bool known = !status;
  shoal_status_free(status);
  return known;
}

/* Whether training changes it: of a model the weights that it does not hold fixed, of a graph all variables. */
static bool is_trained(const graph_writer *w, const shoal_value *v) {
  const shoal_model *m = w->model->weights_of;
  if (strcmp(v->maker->op->name, "variable")) return false;
  for (size_t i = 0; m && i < m->n_weights; i++)
    if (m->weights[i].variable == v) return m->weights[i].role == WEIGHT_TRAINED;
  return true;
}

/* As the variable is called, the first time that it is written; its numbers may be needed in another order, too. */
static const char *weight_name(graph_writer *w, const shoal_value *v) {
  if (w->named[value_id(v)]) return writer_name(w);
  w->named[value_id(v)] = true;
  return keep_clean(w, strdup(v->maker->name));
}

/* Constants are written when they are first asked for: of some only a transposed copy is. */
const char *writer_of(graph_writer *w, const shoal_value *v) {
  const char **name = &w->values[value_id(v)];
  shoal_tensor known;
  if (!*name && writer_known(w, v, &known)) {
    *name = weight_name(w, v);
    w->format->put_tensor(w, *name, &known, !is_trained(w, v));
  }
  return *name ? *name : "";
}

const char *writer_transposed(graph_writer *w, const shoal_value *v, shoal_shape order) {
  shoal_tensor known, turned;
  if (!writer_known(w, v, &known)) return NULL;
  shoal_shape shape = {.rank = order.rank};
  int64_t stride[SHOAL_MAX_RANK], step = 1, place[SHOAL_MAX_RANK] = {0};
  for (int i = known.shape.rank - 1; i >= 0; i--) {
    stride[i] = step;
    step *= known.shape.dim[i];
  }
  for (int i = 0; i < order.rank; i++) shape.dim[i] = known.shape.dim[order.dim[i]];
  shoal_status status = shoal_tensor_create(known.dtype, shape, &turned);
  if (status) {
    writer_fail(w, status);
    return "";
  }
  const size_t size = shoal_dtype_size(known.dtype);
  const int64_t count = shoal_tensor_count(&turned);
  for (int64_t i = 0; i < count; i++) {
    int64_t from = 0;
    for (int k = 0; k < order.rank; k++) from += place[k] * stride[order.dim[k]];
    memcpy((char *)turned.data + (size_t)i * size, (const char *)known.data + (size_t)from * size, size);
    for (int k = order.rank - 1; k >= 0 && ++place[k] == shape.dim[k]; k--) place[k] = 0;
  }
  const char *name = weight_name(w, v);
  w->format->put_tensor(w, name, &turned, !is_trained(w, v));
  shoal_tensor_fini(&turned);
  return name;
}

/* ---- the graph */

/* Marks what the value needs. Nodes come after their inputs, so one pass from the end is enough. */
static void mark_needed(const shoal_graph *g, bool *needed) {
  for (size_t i = g->count; i-- > 0;) {
    const node *n = g->nodes[i];
    for (int k = 0; needed[i] && k < n->ins; k++) needed[n->in[k]->maker->id] = true;
  }
}

static shoal_status write_nodes(graph_writer *w, const shoal_graph *g, const bool *needed) {
  for (size_t i = 0; i < g->count && !w->error; i++) {
    const node *n = g->nodes[i];
    if (!needed[i] || w->values[n->first_value]) continue;
    shoal_tensor known;
    w->node = n;
    w->made = 0;
    if (writer_known(w, &n->out[0], &known)) continue;
    if (!strcmp(n->op->name, "placeholder"))
      writer_fail(w, status_make(SHOAL_ERR_INTERNAL, "'%s' is fed but is not an input of the model", n->name));
    else if (!w->format->write_node(w, n) && !w->error)
      writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': %s has no operator for %s: %s", n->name, w->format->name,
                                 n->op->name, w->format->instead));
  }
  w->node = NULL;
  return w->error;
}

static shoal_status write_all(graph_writer *w, const writer_model *m, bool *needed) {
  w->needed = needed;
  for (int i = 0; i < m->n_inputs; i++) {
    writer_bind(w, m->inputs[i].value, keep_clean(w, strdup(m->inputs[i].name)));
    w->format->put_input(w, &m->inputs[i]);
  }
  for (int i = 0; i < m->n_outputs; i++) needed[m->outputs[i].value->maker->id] = true;
  mark_needed(m->graph, needed);
  shoal_status status = write_nodes(w, m->graph, needed);
  w->error = NULL;
  for (int i = 0; i < m->n_outputs && !status; i++) {
    w->format->put_output(w, &m->outputs[i]);
    status = w->error;
    w->error = NULL;
  }
  return status;
}

shoal_status writer_run(graph_writer *w, const writer_model *m) {
  const shoal_graph *g = m->graph;
  bool *needed = calloc(g->count + 1, sizeof *needed);
  w->values = calloc((size_t)g->n_values + 1, sizeof *w->values);
  w->named = calloc((size_t)g->n_values + 1, sizeof *w->named);
  w->graph_nodes = g;
  w->model = m;
  shoal_status status = needed && w->values && w->named ? write_all(w, m, needed) : status_no_memory();
  free(needed);
  w->needed = NULL;
  return !status && w->graph.failed ? status_no_memory() : status;
}

void writer_fini(graph_writer *w) {
  proto_fini(&w->graph);
  for (size_t i = 0; i < w->n_names; i++) free(w->names[i]);
  free(w->names);
  free((void *)w->values);
  free(w->named);
}

/* ---- files */

static shoal_status write_file(const char *path, const proto *p) {
  FILE *f = fopen(path, "wbe");
  if (!f) return status_errno(errno, "cannot write it");
  bool good = fwrite(p->bytes, 1, p->length, f) == p->length;
  if (fclose(f) || !good) {
    shoal_status status = status_errno(errno, "cannot write it");
    remove(path);
    return status;
  }
  return NULL;
}

static writer_port *ports_of(const network_ports *p) {
  writer_port *list = calloc((size_t)p->n + 1, sizeof *list);
  for (int i = 0; list && i < p->n; i++) list[i] = (writer_port){p->list[i].value, p->list[i].name};
  return list;
}

shoal_status writer_export(shoal_network *n, const char *path, const shoal_export_options *options,
                           writer_function write) {
  writer_port *inputs = ports_of(&n->inputs), *outputs = ports_of(&n->outputs);
  const writer_model model = {.name = options->name ? options->name : "shoal",
                              .graph = n->graph,
                              .inputs = inputs,
                              .n_inputs = n->inputs.n,
                              .outputs = outputs,
                              .n_outputs = n->outputs.n,
                              .session = n->session,
                              .weights_of = n->model};
  proto p = {0};
  shoal_status status = inputs && outputs ? write(&model, &p) : status_no_memory();
  if (!status) status = write_file(path, &p);
  proto_fini(&p);
  free(inputs);
  free(outputs);
  return status;
}
