#include "exchange/network.h"

#include "base/mem.h"
#include "train/layer.h"
#include "train/results.h"

#include <string.h>

shoal_status network_create(shoal_network **out) {
  shoal_network *n = calloc(1, sizeof *n);
  if (!n) return status_no_memory();
  *out = n;
  return NULL;
}

static void ports_fini(network_ports *p) {
  for (int i = 0; i < p->n; i++) free(p->list[i].name);
  free(p->list);
}

void shoal_network_destroy(shoal_network *n) {
  if (!n) return;
  if (n->owns_session) shoal_session_destroy(n->session);
  if (n->owns_model)
    shoal_model_destroy(n->model);
  else if (!n->model)
    shoal_graph_destroy(n->graph);
  shoal_model_kind_destroy(n->kind);
  ports_fini(&n->inputs);
  ports_fini(&n->outputs);
  text_fini(&n->notes);
  free(n->name);
  free(n);
}

shoal_status network_add(network_ports *p, const char *name, shoal_value *value) {
  network_port *more = realloc(p->list, (size_t)(p->n + 1) * sizeof *more);
  char *copy = strdup(name);
  if (more) p->list = more;
  if (!more || !copy) {
    free(copy);
    return status_no_memory();
  }
  p->list[p->n++] = (network_port){copy, value};
  return NULL;
}

shoal_status network_start(shoal_network *n) {
  TRY(shoal_graph_status(n->graph));
  TRY(shoal_session_create(n->graph, NULL, &n->session));
  n->owns_session = true;
  return NULL;
}

static shoal_shape with_batch(const shoal_shape *one) {
  shoal_shape s = {one->rank + 1, {SHOAL_UNKNOWN}};
  memcpy(s.dim + 1, one->dim, (size_t)one->rank * sizeof *s.dim);
  return s;
}

/* The nodes of all layers, as they are when nothing is trained. */
static shoal_status apply_all(shoal_network *n) {
  shoal_model *m = n->model;
  const tower floats = {.features = SHOAL_F32, .labels = SHOAL_F32};
  branch b = {.model = m, .tower = &floats, .number = ++m->n_branches};
  for (size_t i = 0; i < m->n_calls; i++) {
    shoal_output *c = m->calls[i];
    if (c->layer) {
      call_apply(&b, c, NULL);
    } else {
      const model_input *in = &m->inputs[c->number];
      c->value = shoal_placeholder(m->graph, in->name, SHOAL_F32, with_batch(&in->shape));
      c->mask = NULL;
      TRY(network_add(&n->inputs, in->name, c->value));
    }
    TRY(shoal_graph_status(m->graph));
  }
  return NULL;
}

shoal_status network_build(shoal_network *n, shoal_output *const *outputs, const char *const *names, int n_outputs) {
  n->graph = n->model->graph;
  shoal_scope_push(n->graph, "predict");
  shoal_status status = apply_all(n);
  shoal_scope_pop(n->graph);
  for (int i = 0; i < n_outputs && !status; i++) status = network_add(&n->outputs, names[i], outputs[i]->value);
  if (!status && !n_outputs) status = network_add(&n->outputs, "output", model_last(n->model)->value);
  if (status) return status;
  if (!n->model->compiled) return network_start(n);
  n->session = n->model->session;
  return NULL;
}

shoal_status shoal_network_of(shoal_model *m, shoal_network **out) {
  TRY(model_ready(m));
  if (m->sparse)
    return status_make(SHOAL_ERR_ARGUMENT, "a model of sparse rows cannot be a network: its rows have no fixed shape");
  shoal_network *n;
  TRY(network_create(&n));
  n->model = m;
  shoal_output **outputs = calloc(m->n_results + 1, sizeof(shoal_output *));
  const char **names = calloc(m->n_results + 1, sizeof *names);
  shoal_status status = outputs && names ? NULL : status_no_memory();
  for (size_t i = 0; i < m->n_results && !status; i++) {
    outputs[i] = m->results[i].from;
    names[i] = m->n_results > 1 ? result_name(&m->results[i]) : "output";
  }
  if (!status) status = network_build(n, outputs, names, (int)m->n_results);
  free(outputs);
  free(names);
  if (status)
    shoal_network_destroy(n);
  else
    *out = n;
  return status;
}

/* ---- what is in it */

int shoal_network_inputs(const shoal_network *n) { return n->inputs.n; }
int shoal_network_outputs(const shoal_network *n) { return n->outputs.n; }
static const network_port *port(const network_ports *p, int i) { return i >= 0 && i < p->n ? &p->list[i] : NULL; }
const char *shoal_network_input_name(const shoal_network *n, int i) {
  return port(&n->inputs, i) ? n->inputs.list[i].name : NULL;
}
const char *shoal_network_output_name(const shoal_network *n, int i) {
  return port(&n->outputs, i) ? n->outputs.list[i].name : NULL;
}
shoal_shape shoal_network_input_shape(const shoal_network *n, int i) {
  return port(&n->inputs, i) ? shoal_value_shape(n->inputs.list[i].value) : SHOAL_SCALAR;
}
shoal_shape shoal_network_output_shape(const shoal_network *n, int i) {
  return port(&n->outputs, i) ? shoal_value_shape(n->outputs.list[i].value) : SHOAL_SCALAR;
}
const char *shoal_network_notes(const shoal_network *n) { return n->notes.data ? n->notes.data : ""; }

/* ---- predicting */

/* The tensor in the type of the input; *own: to be freed. Shapes with as many numbers a row are fine. */
static shoal_status convert(const network_port *p, const shoal_tensor *given, shoal_tensor *out, bool *own) {
  char want[SHOAL_SHAPE_TEXT], have[SHOAL_SHAPE_TEXT];
  shoal_shape shape = p->value->shape;
  int64_t row = 1, count = shoal_tensor_count(given);
  for (int i = 0; i < shape.rank; i++)
    if (shape.dim[i] != SHOAL_UNKNOWN) row *= shape.dim[i];
  bool fits = given->shape.rank > 0 && (shape.rank == 0 || count == row * given->shape.dim[0]);
  for (int i = 0; fits && i < shape.rank; i++)
    if (shape.dim[i] == SHOAL_UNKNOWN) shape.dim[i] = i < given->shape.rank ? given->shape.dim[i] : -1;
  if (!fits || shoal_shape_count(&shape) != count)
    return status_make(SHOAL_ERR_INPUT, "input '%s' takes %s, not %s", p->name,
                       shoal_shape_text(&p->value->shape, want), shoal_shape_text(&given->shape, have));
  *own = given->dtype != p->value->dtype;
  if (!*own) {
    *out = shoal_tensor_view(given->dtype, shape, given->data);
    return NULL;
  }
  TRY(shoal_tensor_create(p->value->dtype, shape, out));
  for (int64_t i = 0; i < count; i++) shoal_tensor_set(out, i, shoal_tensor_get(given, i));
  return NULL;
}

shoal_status shoal_network_run(shoal_network *n, const shoal_tensor *inputs, shoal_tensor *outputs) {
  shoal_feed *feeds = calloc((size_t)n->inputs.n + 1, sizeof *feeds);
  bool *own = calloc((size_t)n->inputs.n + 1, sizeof *own);
  shoal_value **fetches = calloc((size_t)n->outputs.n + 1, sizeof *fetches);
  shoal_status status = feeds && own && fetches ? NULL : status_no_memory();
  for (int i = 0; i < n->inputs.n && !status; i++) {
    feeds[i].value = n->inputs.list[i].value;
    status = convert(&n->inputs.list[i], &inputs[i], &feeds[i].tensor, &own[i]);
  }
  for (int i = 0; i < n->outputs.n && !status; i++) fetches[i] = n->outputs.list[i].value;
  if (!status) status = shoal_session_run(n->session, feeds, n->inputs.n, fetches, n->outputs.n, outputs);
  for (int i = 0; own && i < n->inputs.n; i++)
    if (own[i]) shoal_tensor_fini(&feeds[i].tensor);
  free(feeds);
  free(own);
  free(fetches);
  return status;
}
