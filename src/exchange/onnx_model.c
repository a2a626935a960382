/* A model as an ONNX file: the graph that predicts. */
#include "base/text.h"
#include "exchange/formats.h"
#include "exchange/network.h"
#include "exchange/onnx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static onnx_port *ports_of(const network_ports *p) {
  onnx_port *list = calloc((size_t)p->n + 1, sizeof *list);
  for (int i = 0; list && i < p->n; i++) list[i] = (onnx_port){p->list[i].value, p->list[i].name};
  return list;
}

shoal_status onnx_export(shoal_network *n, const char *path, const shoal_export_options *options) {
  onnx_port *inputs = ports_of(&n->inputs), *outputs = ports_of(&n->outputs);
  const onnx_model model = {.name = options->name ? options->name : "shoal",
                            .graph = n->graph,
                            .inputs = inputs,
                            .n_inputs = n->inputs.n,
                            .outputs = outputs,
                            .n_outputs = n->outputs.n,
                            .session = n->session};
  proto p = {0};
  shoal_status status = inputs && outputs ? onnx_write(&model, &p) : status_no_memory();
  if (!status) status = write_file(path, &p);
  proto_fini(&p);
  free(inputs);
  free(outputs);
  return status;
}
