/* The layers of a model, or the operators of a graph, as a picture. */
#include "base/mem.h"
#include "exchange/drawing.h"
#include "exchange/formats.h"
#include "graph/graph.h"
#include "train/layer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- layers */

static int index_of(const shoal_model *m, const shoal_output *c) {
  int i = 0;
  while (m->calls[i] != c) i++;
  return i;
}

shoal_status drawing_of_model(const shoal_model *m, drawing_items *out) {
  for (size_t i = 0; i < m->n_calls; i++) {
    const shoal_output *c = m->calls[i];
    drawing_item *item = drawing_add(out, c->n_inputs);
    if (!item) return status_no_memory();
    item->name = c->layer ? c->layer->name : m->inputs[c->number].name;
    item->kind = c->layer ? c->layer->kind->name : "input";
    item->detail = c->layer ? layer_activation(c->layer) : "";
    if (!item->detail || !strcmp(item->detail, item->kind)) item->detail = "";
    item->shape = c->shape;
    if (c->layer && c->number == 0) item->parameters = model_count_parameters(m, c->layer);
    for (int k = 0; k < c->n_inputs; k++) item->inputs[item->n_inputs++] = index_of(m, c->inputs[k]);
  }
  return NULL;
}

/* ---- operators */

typedef struct {
  const shoal_graph *graph;
  bool *needed, *fed;  /* by node: the outputs use it; it depends on what is fed */
  int *item;           /* by node */
  int64_t *parameters; /* by node that is not fed: numbers of the variables behind it, unless they have been counted */
} operators;

/* Numbers of the variables behind what is the same for all rows; each counts once, for whoever uses it first. */
static int64_t take_parameters(const operators *o, const node *n) {
  int64_t all = 0;
  for (int i = 0; i < n->ins; i++) {
    int64_t *behind = &o->parameters[n->in[i]->maker->id];
    all += *behind;
    *behind = 0;
  }
  return all;
}

static shoal_status add_operators(const shoal_network *net, const operators *o, drawing_items *out) {
  const shoal_graph *g = o->graph;
  for (int i = 0; i < net->outputs.n; i++) o->needed[net->outputs.list[i].value->maker->id] = true;
  for (size_t i = g->count; i-- > 0;)
    for (int k = 0; o->needed[i] && k < g->nodes[i]->ins; k++) o->needed[g->nodes[i]->in[k]->maker->id] = true;
  for (size_t i = 0; i < g->count; i++) {
    const node *n = g->nodes[i];
    o->fed[i] = !strcmp(n->op->name, "placeholder");
    for (int k = 0; k < n->ins; k++) o->fed[i] = o->fed[i] || o->fed[n->in[k]->maker->id];
    if (!o->fed[i] && o->needed[i])
      o->parameters[i] = n->initial ? shoal_shape_count(&n->out[0].shape) : take_parameters(o, n);
    if (!o->fed[i] || !o->needed[i]) continue;
    drawing_item *item = drawing_add(out, n->ins);
    if (!item) return status_no_memory();
    o->item[i] = out->n - 1;
    item->name = n->name;
    item->kind = n->op->name;
    item->shape = n->out[0].shape;
    item->parameters = take_parameters(o, n);
    for (int k = 0; k < n->ins; k++)
      if (o->fed[n->in[k]->maker->id]) item->inputs[item->n_inputs++] = o->item[n->in[k]->maker->id];
  }
  return NULL;
}

shoal_status drawing_of_graph(const shoal_network *n, drawing_items *out) {
  const size_t count = n->graph->count + 1;
  const operators o = {.graph = n->graph,
                       .needed = calloc(count, sizeof *o.needed),
                       .fed = calloc(count, sizeof *o.fed),
                       .item = calloc(count, sizeof *o.item),
                       .parameters = calloc(count, sizeof *o.parameters)};
  shoal_status status = o.needed && o.fed && o.item && o.parameters ? add_operators(n, &o, out) : status_no_memory();
  free(o.needed);
  free(o.fed);
  free(o.item);
  free(o.parameters);
  return status;
}

/* ---- as text */

static shoal_status items_of(const shoal_network *n, drawing_items *items) {
  return n->model ? drawing_of_model(n->model, items) : drawing_of_graph(n, items);
}

char *shoal_network_describe(const shoal_network *n) {
  drawing_items items = {0};
  text t = {0};
  char shape[SHOAL_SHAPE_TEXT];
  int64_t all = 0;
  shoal_status status = items_of(n, &items);
  text_add(&t, "%-40s %-20s %-22s %12s\n", n->model ? "layer" : "node", n->model ? "type" : "operator", "output",
           "parameters");
  for (int i = 0; i < items.n; i++) {
    const drawing_item *item = &items.list[i];
    all += item->parameters;
    text_add(&t, "%-40s %-20s %-22s %12lld\n", item->name, item->kind, shoal_shape_text(&item->shape, shape),
             (long long)item->parameters);
  }
  text_add(&t, "%-40s %-20s %-22s %12lld\n", "total", "", "", (long long)all);
  for (int i = 0; i < n->inputs.n; i++) text_add(&t, "%s%s", i ? ", " : "inputs: ", n->inputs.list[i].name);
  for (int i = 0; i < n->outputs.n; i++) text_add(&t, "%s%s", i ? ", " : "; outputs: ", n->outputs.list[i].name);
  text_add(&t, "\n");
  drawing_fini(&items);
  if (!status && !t.failed) return t.data;
  shoal_status_free(status);
  text_fini(&t);
  return NULL;
}

/* ---- files */

shoal_status svg_of_model(const shoal_model *m, text *out) {
  drawing_items items = {0};
  shoal_status status = drawing_of_model(m, &items);
  if (!status) status = drawing_write(&items, out);
  drawing_fini(&items);
  return status;
}

/* Takes the text and the status that making it had. */
static shoal_status write_svg(text *t, shoal_status status, const char *path) {
  FILE *f = status ? NULL : fopen(path, "we");
  if (!status && !f) status = status_errno(errno, "cannot write it");
  if (f && (fwrite(t->data, 1, t->length, f) != t->length) | fclose(f)) status = status_errno(errno, "cannot write it");
  text_fini(t);
  return status;
}

shoal_status svg_export(shoal_network *n, const char *path, const shoal_export_options *options) {
  text t = {0};
  drawing_items items = {0};
  shoal_status status = items_of(n, &items);
  if (!status) status = drawing_write(&items, &t);
  drawing_fini(&items);
  return write_svg(&t, status, path);
}

shoal_status shoal_model_draw(const shoal_model *m, const char *path) {
  text t = {0};
  TRY(model_ready(m));
  return status_wrap(write_svg(&t, svg_of_model(m, &t), path), "%s", path);
}
