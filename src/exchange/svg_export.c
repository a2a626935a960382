/* The layers of a model as a picture (SVG): a box for each call, under those that it uses. */
#include "base/mem.h"
#include "base/text.h"
#include "exchange/formats.h"
#include "exchange/network.h"
#include "train/layer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { WIDE = 220, HIGH = 46, GAP = 34, BESIDE = 24, LETTERS = 30 };

typedef struct {
  int row, column; /* rows from the top: longest way from an input */
} place;

static size_t index_of(const shoal_model *m, const shoal_output *c) {
  size_t i = 0;
  while (m->calls[i] != c) i++;
  return i;
}

/* Text with what SVG cannot have replaced, cut to fit the box. */
static void put_text(text *t, const char *words, size_t most) {
  for (size_t i = 0; words[i] && i < most; i++) {
    const char c = words[i];
    if (c == '<' || c == '>' || c == '&' || c == '"')
      text_add(t, "&#%d;", c);
    else
      text_add(t, "%c", c);
  }
  if (strlen(words) > most) text_add(t, "...");
}

static void place_calls(const shoal_model *m, place *at, int *rows, int *columns) {
  *rows = *columns = 0;
  for (size_t i = 0; i < m->n_calls; i++) {
    const shoal_output *c = m->calls[i];
    at[i] = (place){0};
    for (int k = 0; k < c->n_inputs; k++) at[i].row = MAX_OF(at[i].row, at[index_of(m, c->inputs[k])].row + 1);
    for (size_t k = 0; k < i; k++) at[i].column += at[k].row == at[i].row;
    *rows = MAX_OF(*rows, at[i].row + 1);
    *columns = MAX_OF(*columns, at[i].column + 1);
  }
}

static int left_of(const place *p) { return BESIDE + p->column * (WIDE + BESIDE); }
static int top_of(const place *p) { return GAP + p->row * (HIGH + GAP); }

/* A line from the lower edge of one box to the upper edge of another; past boxes between them it bends aside. */
static void put_edge(text *t, const place *from, const place *to) {
  const int x1 = left_of(from) + WIDE / 2, y1 = top_of(from) + HIGH, x2 = left_of(to) + WIDE / 2, y2 = top_of(to);
  const int bend = from->column == to->column && to->row - from->row > 1 ? WIDE / 2 + BESIDE / 2 : 0;
  text_add(t, "<path d=\"M%d %d C%d %d %d %d %d %d\" marker-end=\"url(#to)\"/>\n", x1, y1, x1 + 2 * bend, y1 + GAP,
           x2 + 2 * bend, y2 - GAP, x2, y2);
}

static void put_box(text *t, const shoal_model *m, const shoal_output *c, const place *p) {
  char shape[SHOAL_SHAPE_TEXT], line[160];
  const char *name = c->layer ? c->layer->name : m->inputs[c->number].name,
             *kind = c->layer ? c->layer->kind->name : "input";
  const char *activation = c->layer ? layer_activation(c->layer) : "";
  text_add(t, "<g class=\"%s\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n",
           c->layer ? "layer" : "input", left_of(p), top_of(p), WIDE, HIGH);
  text_add(t, "<text x=\"%d\" y=\"%d\" class=\"name\">", left_of(p) + 10, top_of(p) + 19);
  put_text(t, name, LETTERS);
  snprintf(line, sizeof line, "%s%s%s  %s", kind, *activation ? " " : "", activation,
           shoal_shape_text(&c->shape, shape));
  text_add(t, "</text>\n<text x=\"%d\" y=\"%d\">", left_of(p) + 10, top_of(p) + 36);
  put_text(t, line, LETTERS + 8);
  text_add(t, "</text></g>\n");
}

static void draw(text *t, const shoal_model *m, const place *at, int rows, int columns) {
  const int width = BESIDE + columns * (WIDE + BESIDE), height = GAP + rows * (HIGH + GAP);
  text_add(
      t,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n"
      "<style>rect{fill:#eef3f8;stroke:#4a6785}.input rect{fill:#f6efe2;stroke:#8a6d3b}path{fill:none;stroke:#4a6785}"
      "text{font:11px sans-serif;fill:#333}.name{font-weight:bold;font-size:13px}</style>\n"
      "<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" "
      "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" style=\"fill:#4a6785\"/></marker></defs>\n",
      width, height, width, height);
  for (size_t i = 0; i < m->n_calls; i++)
    for (int k = 0; k < m->calls[i]->n_inputs; k++) put_edge(t, &at[index_of(m, m->calls[i]->inputs[k])], &at[i]);
  for (size_t i = 0; i < m->n_calls; i++) put_box(t, m, m->calls[i], &at[i]);
  text_add(t, "</svg>\n");
}

shoal_status svg_export(shoal_network *n, const char *path, const shoal_export_options *options) {
  if (!n->model)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "the model is a graph of operators, not of layers: there is no picture of it");
  place *at = calloc(n->model->n_calls + 1, sizeof *at);
  text t = {0};
  int rows, columns;
  if (!at) return status_no_memory();
  place_calls(n->model, at, &rows, &columns);
  draw(&t, n->model, at, rows, columns);
  free(at);
  FILE *f = t.failed ? NULL : fopen(path, "we");
  shoal_status status = t.failed ? status_no_memory() : f ? NULL : status_errno(errno, "cannot write it");
  if (f && (fwrite(t.data, 1, t.length, f) != t.length) | fclose(f)) status = status_errno(errno, "cannot write it");
  text_fini(&t);
  return status;
}
