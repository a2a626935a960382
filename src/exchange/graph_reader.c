/* What readers of other programs' graphs share: values by name, nodes with attributes, files. */
#include "exchange/graph_reader.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BYTES_MAX ((size_t)8 << 30) /* of a file */

shoal_status reader_wrong(const char *format, ...) {
  va_list args;
  va_start(args, format);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, format, args);
  va_end(args);
  return status;
}

/* ---- values by name */

shoal_status reader_keep(graph_reader *r, char *name, shoal_value *value, const shoal_tensor *known, bool trained) {
  shoal_status status =
      name ? mem_grow((void **)&r->values, &r->cap_values, r->n_values + 1, sizeof *r->values) : status_no_memory();
  if (status) {
    free(name);
    return status;
  }
  r->values[r->n_values++] = (reader_value){name, value, known ? *known : (shoal_tensor){0}, trained, false, false};
  return NULL;
}

reader_value *reader_find(const graph_reader *r, const char *name) {
  for (size_t i = r->n_values; i-- > 0;)
    if (!strcmp(r->values[i].name, name)) return &r->values[i];
  return NULL;
}

shoal_status reader_give(graph_reader *r, const reader_node *n, size_t i, shoal_value *value) {
  if (i >= n->n_outputs || !*n->outputs[i]) return NULL;
  TRY(shoal_graph_status(r->graph));
  return reader_keep(r, strdup(n->outputs[i]), value, NULL, false);
}

shoal_status reader_give_constant(graph_reader *r, const reader_node *n, shoal_tensor *t) {
  shoal_status status = reader_keep(r, strdup(n->outputs[0]), NULL, t, false);
  if (status) shoal_tensor_fini(t);
  return status;
}

/* The value of an input; constants become part of the graph when somebody asks for them. */
static shoal_status input_of(graph_reader *r, const reader_node *n, size_t i, bool trained, shoal_value **out) {
  if (i >= n->n_inputs || !*n->inputs[i]) return reader_wrong("input %zu is missing", i);
  reader_value *v = reader_find(r, n->inputs[i]);
  if (!v) return reader_wrong("input '%s' is not the output of an earlier node", n->inputs[i]);
  if (v->open) return reader_wrong("computing with the number of rows is not supported");
  if (!v->value) {
    const shoal_tensor *t = &v->known;
    v->value = shoal_constant(r->graph, t);
    if (trained && v->weight && t->dtype == SHOAL_F32 && t->shape.rank > 0)
      v->value = shoal_variable(r->graph, v->name, v->value);
    TRY(shoal_graph_status(r->graph));
  }
  *out = v->value;
  return NULL;
}

shoal_status reader_input(graph_reader *r, const reader_node *n, size_t i, shoal_value **out) {
  return input_of(r, n, i, true, out);
}

shoal_status reader_fixed_input(graph_reader *r, const reader_node *n, size_t i, shoal_value **out) {
  return input_of(r, n, i, false, out);
}

bool reader_has(const reader_node *n, size_t i) { return i < n->n_inputs && *n->inputs[i]; }

/* Numbers that must be known when the graph is made. */
shoal_status reader_numbers(const graph_reader *r, const reader_node *n, size_t i, const shoal_tensor **out) {
  const reader_value *v = reader_has(n, i) ? reader_find(r, n->inputs[i]) : NULL;
  if (!v || !v->known.data)
    return reader_wrong("input %zu must be a constant: simplify the model first (onnxsim, or grappler of TensorFlow)",
                        i);
  *out = &v->known;
  return NULL;
}

/* Not by way of a double, in which the largest whole number, ONNX's word for the end, is beyond all of 64 bits. */
static int64_t whole_number(const shoal_tensor *t, int64_t i) {
  if (t->dtype == SHOAL_I64) return ((const int64_t *)t->data)[i];
  const double value = shoal_tensor_get(t, i);
  return value >= 0x1p62 ? INT64_MAX : value <= -0x1p62 ? INT64_MIN : (int64_t)value;
}

shoal_status reader_list(const graph_reader *r, const reader_node *n, size_t i, shoal_shape *out) {
  const shoal_tensor *t;
  TRY(reader_numbers(r, n, i, &t));
  const int64_t count = shoal_tensor_count(t);
  if (count > SHOAL_MAX_RANK)
    return reader_wrong("input %zu has %lld numbers, more than a shape has", i, (long long)count);
  out->rank = (int)count;
  for (int k = 0; k < out->rank; k++) out->dim[k] = whole_number(t, k);
  return NULL;
}

/* ---- attributes */

const reader_attribute *reader_attribute_of(const reader_node *n, const char *name) {
  for (size_t i = 0; i < n->n_attributes; i++)
    if (!strcmp(n->attributes[i].name, name)) return &n->attributes[i];
  return NULL;
}

int64_t reader_int_of(const reader_node *n, const char *name, int64_t standard) {
  const reader_attribute *a = reader_attribute_of(n, name);
  return a ? a->i : standard;
}
double reader_float_of(const reader_node *n, const char *name, double standard) {
  const reader_attribute *a = reader_attribute_of(n, name);
  return a ? a->f : standard;
}
const char *reader_text_of(const reader_node *n, const char *name) {
  const reader_attribute *a = reader_attribute_of(n, name);
  return a ? a->s : NULL;
}
bool reader_list_of(const reader_node *n, const char *name, shoal_shape *out) {
  const reader_attribute *a = reader_attribute_of(n, name);
  if (a) *out = a->list;
  return a != NULL;
}
const shoal_tensor *reader_tensor_of(const reader_node *n, const char *name) {
  const reader_attribute *a = reader_attribute_of(n, name);
  return a && a->tensor.data ? &a->tensor : NULL;
}

/* ---- parts of messages */

shoal_status reader_words(const proto_reader *r, char **out) {
  char *words = proto_as_text(r);
  if (!words) return reader_wrong("a name is not valid text");
  free(*out);
  *out = words;
  return NULL;
}

shoal_status reader_add_number(shoal_shape *list, int64_t number) {
  if (list->rank == SHOAL_MAX_RANK) return reader_wrong("a list of more than %d numbers", SHOAL_MAX_RANK);
  list->dim[list->rank++] = number;
  return NULL;
}

shoal_status reader_add_word(const proto_reader *r, char ***list, size_t *n, size_t *cap) {
  TRY(mem_grow((void **)list, cap, *n + 1, sizeof **list));
  (*list)[*n] = proto_as_text(r);
  if (!(*list)[*n]) return reader_wrong("a name is not valid text");
  ++*n;
  return NULL;
}

void reader_node_fini(reader_node *n) {
  for (size_t i = 0; i < n->n_inputs; i++) free(n->inputs[i]);
  for (size_t i = 0; i < n->n_outputs; i++) free(n->outputs[i]);
  for (size_t i = 0; i < n->n_attributes; i++) {
    free(n->attributes[i].name);
    free(n->attributes[i].s);
    if (n->attributes[i].tensor.data) shoal_tensor_fini(&n->attributes[i].tensor);
  }
  free(n->inputs);
  free(n->outputs);
  free(n->attributes);
  free(n->op);
  free(n->name);
  free(n->domain);
}

/* ---- files */

static shoal_status read_bytes(const char *path, uint8_t **bytes, size_t *n) {
  FILE *f = fopen(path, "rbe");
  if (!f) return reader_wrong("cannot open it: %s", strerror(errno));
  size_t capacity = 0, length = 0, got = 1;
  shoal_status status = NULL;
  while (!status && got && length < BYTES_MAX) {
    status = mem_grow((void **)bytes, &capacity, length + (1 << 20), 1);
    if (!status) length += got = fread(*bytes + length, 1, 1 << 20, f);
  }
  if (!status && ferror(f)) status = reader_wrong("cannot read it");
  fclose(f);
  *n = length;
  return status;
}

static shoal_status make_network(const uint8_t *bytes, size_t n, reader_function read, shoal_network *network) {
  graph_reader r = {.network = network};
  shoal_status status = shoal_graph_create(&network->graph);
  r.graph = network->graph;
  if (!status) status = read(&r, bytes, n);
  if (!status) status = network_start(network);
  for (size_t i = 0; i < r.n_values; i++) {
    free(r.values[i].name);
    if (r.values[i].known.data) shoal_tensor_fini(&r.values[i].known);
  }
  free(r.values);
  return status;
}

shoal_status reader_import(const char *path, reader_function read, shoal_network **out) {
  uint8_t *bytes = NULL;
  size_t n = 0;
  shoal_network *network = NULL;
  shoal_status status = read_bytes(path, &bytes, &n);
  if (!status) status = network_create(&network);
  if (!status) status = make_network(bytes, n, read, network);
  free(bytes);
  if (!status) {
    *out = network;
    return NULL;
  }
  shoal_network_destroy(network);
  /* The shape rules say ARGUMENT, as for a program; here it is the file. */
  shoal_status input = shoal_status_code(status) == SHOAL_ERR_ARGUMENT
                           ? status_make(SHOAL_ERR_INPUT, "%s: %s", path, shoal_status_message(status))
                           : NULL;
  if (!input) return status_wrap(status, "%s", path);
  shoal_status_free(status);
  return input;
}
