#include "exchange/drawing.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* Sizes in pixels: of a line, of a box, and between boxes; letters that fit into its columns. */
enum { LINE = 22, PAD = 7, WIDE = 500, GAP = 34, BESIDE = 36, LANE = 14, NAME_LETTERS = 25, KIND_LETTERS = 21 };
enum { AT_NAME = 14, AT_KIND = 216, AT_SHAPE = 428, AT_COUNT = 490 };

drawing_item *drawing_add(drawing_items *items, int n_inputs) {
  int *inputs = calloc((size_t)n_inputs + 1, sizeof *inputs);
  shoal_status status = mem_grow((void **)&items->list, &items->cap, (size_t)items->n + 1, sizeof *items->list);
  if (status || !inputs) {
    shoal_status_free(status);
    free(inputs);
    return NULL;
  }
  drawing_item *item = &items->list[items->n++];
  *item = (drawing_item){.name = "", .kind = "", .detail = "", .inputs = inputs};
  return item;
}

void drawing_fini(drawing_items *items) {
  for (int i = 0; i < items->n; i++) free(items->list[i].inputs);
  free(items->list);
}

/* ---- boxes */

typedef struct {
  int first, last, lines; /* items, which follow one another by `next` */
  int row, x, y;
  double pull; /* middle of those that it uses */
} box;

typedef struct {
  const drawing_items *items;
  int *uses;   /* by item: how often it is used */
  int *next;   /* by item: the next one in its box; -1: none */
  int *box_of; /* by item */
  box *boxes;
  int n_boxes, n_rows;
  int *row_width, *row_top; /* by row, and one more: the end */
  int width, height, lanes;
  int *lane_end; /* by lane: the last row that it is taken for */
} layout;

/* An item goes into the box of the one it uses if neither has another neighbour. */
static void make_boxes(layout *l) {
  const drawing_items *items = l->items;
  for (int i = 0; i < items->n; i++)
    for (int k = 0; k < items->list[i].n_inputs; k++) l->uses[items->list[i].inputs[k]]++;
  for (int i = 0; i < items->n; i++) {
    const drawing_item *item = &items->list[i];
    l->next[i] = -1;
    if (item->n_inputs == 1 && l->uses[item->inputs[0]] == 1) {
      box *b = &l->boxes[l->box_of[i] = l->box_of[item->inputs[0]]];
      l->next[b->last] = i;
      b->last = i;
      b->lines++;
    } else {
      l->boxes[l->box_of[i] = l->n_boxes++] = (box){.first = i, .last = i, .lines = 1};
    }
  }
}

static int height_of(const box *b) { return 2 * PAD + LINE * b->lines; }

/* Rows from the top: the longest way from an input. Boxes come after those that they use. */
static void make_rows(layout *l) {
  for (int i = 0; i < l->n_boxes; i++) {
    const drawing_item *item = &l->items->list[l->boxes[i].first];
    for (int k = 0; k < item->n_inputs; k++)
      l->boxes[i].row = MAX_OF(l->boxes[i].row, l->boxes[l->box_of[item->inputs[k]]].row + 1);
    l->n_rows = MAX_OF(l->n_rows, l->boxes[i].row + 1);
    l->row_width[l->boxes[i].row] += WIDE + BESIDE;
  }
  for (int r = 0; r < l->n_rows; r++) l->width = MAX_OF(l->width, l->row_width[r] + BESIDE);
}

/* From left to right under the middle of what each uses. */
static void place_row(layout *l, int row, box **some) {
  int n = 0, tallest = 0;
  for (int i = 0; i < l->n_boxes; i++) {
    box *b = &l->boxes[i];
    if (b->row != row) continue;
    const drawing_item *item = &l->items->list[b->first];
    for (int k = 0; k < item->n_inputs; k++) b->pull += l->boxes[l->box_of[item->inputs[k]]].x;
    if (item->n_inputs) b->pull /= item->n_inputs;
    int at = n++;
    for (; at > 0 && some[at - 1]->pull > b->pull; at--) some[at] = some[at - 1];
    some[at] = b;
    tallest = MAX_OF(tallest, height_of(b));
  }
  int x = (l->width - l->row_width[row] + BESIDE) / 2;
  for (int i = 0; i < n; i++, x += WIDE + BESIDE) {
    some[i]->x = x;
    some[i]->y = l->row_top[row];
  }
  l->row_top[row + 1] = l->row_top[row] + tallest + GAP;
}

/* ---- writing */

/* Text with what SVG cannot have replaced, cut to fit. */
static void put_text(text *t, int x, int y, const char *class, const char *words, size_t most) {
  const size_t length = strlen(words), from = length > most ? length - most + 1 : 0;
  text_add(t, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s", x, y, class, from ? "…" : "");
  for (const char *c = words + from; *c; c++) {
    if (*c == '<' || *c == '>' || *c == '&' || *c == '"')
      text_add(t, "&#%d;", *c);
    else if ((unsigned char)*c >= ' ')
      text_add(t, "%c", *c);
  }
  text_add(t, "</text>");
}

static void put_count(char *out, size_t room, int64_t n) {
  char plain[32];
  snprintf(plain, sizeof plain, "%lld", (long long)n);
  const size_t length = strlen(plain);
  size_t at = 0;
  for (size_t i = 0; i < length && at + 2 < room; i++) {
    if (i && (length - i) % 3 == 0) out[at++] = ',';
    out[at++] = plain[i];
  }
  out[at] = 0;
}

/* What kind a layer is of, for the colour of its mark. */
static const char *family(const char *kind) {
  static const struct {
    const char *part, *class;
  } families[] = {{"padding", "f7"}, {"conv", "f1"},   {"norm", "f3"},   {"pool", "f4"},  {"dense", "f2"},
                  {"matmul", "f2"},  {"lstm", "f5"},   {"gru", "f5"},    {"rnn", "f5"},   {"attent", "f5"},
                  {"embed", "f2"},   {"add", "f6"},    {"concat", "f6"}, {"multi", "f6"}, {"mul", "f6"},
                  {"input", "f0"},   {"placeh", "f0"}, {"graph", "f2"}};
  for (size_t i = 0; i < COUNT_OF(families); i++)
    if (strstr(kind, families[i].part)) return families[i].class;
  return "f7";
}

static void put_box(text *t, const layout *l, const box *b) {
  char shape[SHOAL_SHAPE_TEXT], count[40], kind[96];
  int y = b->y + PAD;
  text_add(t, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"7\" class=\"box\"/>\n", b->x, b->y, WIDE,
           height_of(b));
  for (int i = b->first; i >= 0; i = l->next[i], y += LINE) {
    const drawing_item *item = &l->items->list[i];
    text_add(t, "<rect x=\"%d\" y=\"%d\" width=\"4\" height=\"%d\" rx=\"2\" class=\"%s\"/>", b->x + 5, y + 4, LINE - 8,
             family(item->kind));
    put_text(t, b->x + AT_NAME, y + 15, "name", item->name, NAME_LETTERS);
    snprintf(kind, sizeof kind, "%.60s%s%.30s", item->kind, *item->detail ? " · " : "", item->detail);
    put_text(t, b->x + AT_KIND, y + 15, "kind", kind, KIND_LETTERS);
    put_text(t, b->x + AT_SHAPE, y + 15, "end", shoal_shape_text(&item->shape, shape), NAME_LETTERS);
    put_count(count, sizeof count, item->parameters);
    if (item->parameters) put_text(t, b->x + AT_COUNT, y + 15, "end count", count, NAME_LETTERS);
    text_add(t, "\n");
  }
}

/* To a row further below than the next: beside all boxes, on a lane that no other edge of these rows has. */
static void put_long_edge(text *t, layout *l, const box *from, const box *to) {
  enum { R = 8 };
  int lane = 0;
  while (lane < l->lanes && l->lane_end[lane] > from->row) lane++;
  if (lane == l->lanes) l->lanes++;
  l->lane_end[lane] = to->row;
  const int x1 = from->x + WIDE * 3 / 4, y1 = from->y + height_of(from), x2 = to->x + WIDE * 3 / 4, y2 = to->y;
  const int x = l->width + lane * LANE, out = y1 + GAP / 3, in = y2 - GAP / 3;
  text_add(t,
           "<path d=\"M%d %dV%dQ%d %d %d %dH%dQ%d %d %d %dV%dQ%d %d %d %dH%dQ%d %d %d %dV%d\" class=\"edge\" "
           "marker-end=\"url(#to)\"/>\n",
           x1, y1, out - R, x1, out, x1 + R, out, x - R, x, out, x, out + R, in - R, x, in, x - R, in, x2 + R, x2, in,
           x2, in + R, y2);
}

static void put_edge(text *t, layout *l, const box *from, const box *to) {
  if (to->row > from->row + 1) {
    put_long_edge(t, l, from, to);
    return;
  }
  const int x1 = from->x + WIDE / 2, y1 = from->y + height_of(from), x2 = to->x + WIDE / 2, y2 = to->y;
  text_add(t, "<path d=\"M%d %dC%d %d %d %d %d %d\" class=\"edge\" marker-end=\"url(#to)\"/>\n", x1, y1, x1,
           (y1 + y2) / 2, x2, (y1 + y2) / 2, x2, y2);
}

static const char style[] =
    "<style>svg{--g:#f5f6f8;--b:#fff;--l:#cfd4dc;--t:#1b2129;--s:#5b6675;--e:#8a94a3;--f0:#8a94a3;--f1:#2a78c8;"
    "--f2:#1f9a7a;--f3:#7a62cf;--f4:#d9722a;--f5:#b8498f;--f6:#8c8a1f;--f7:#cfd4dc}\n"
    "@media (prefers-color-scheme: dark){svg{--g:#0d1015;--b:#14181f;--l:#37414e;--t:#e4e8ee;--s:#9aa5b4;--e:#6c7786;"
    "--f0:#6c7786;--f1:#5aa2e6;--f2:#45bd9c;--f3:#a492ef;--f4:#ee9352;--f5:#dc78b6;--f6:#bdba4e;--f7:#37414e}}\n"
    ".ground{fill:var(--g)}.box{fill:var(--b);stroke:var(--l)}.edge{fill:none;stroke:var(--e);stroke-width:1.4}"
    ".tip{fill:var(--e)}text{font:12px system-ui,sans-serif;fill:var(--s)}.name{font-weight:600;fill:var(--t)}"
    ".end{text-anchor:end;font-variant-numeric:tabular-nums}.count{fill:var(--t)}"
    ".f0{fill:var(--f0)}.f1{fill:var(--f1)}.f2{fill:var(--f2)}.f3{fill:var(--f3)}.f4{fill:var(--f4)}.f5{fill:var(--f5)}"
    ".f6{fill:var(--f6)}.f7{fill:var(--f7)}</style>\n"
    "<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" "
    "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" class=\"tip\"/></marker></defs>\n";

static void put_all(text *out, layout *l) {
  text body = {0};
  for (int i = 0; i < l->n_boxes; i++) {
    const drawing_item *item = &l->items->list[l->boxes[i].first];
    for (int k = 0; k < item->n_inputs; k++) put_edge(&body, l, &l->boxes[l->box_of[item->inputs[k]]], &l->boxes[i]);
  }
  for (int i = 0; i < l->n_boxes; i++) put_box(&body, l, &l->boxes[i]);
  const int width = l->width + (l->lanes ? l->lanes * LANE + BESIDE / 2 : 0);
  text_add(out,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" "
           "aria-label=\"layers of the model\">\n%s<rect class=\"ground\" width=\"100%%\" height=\"100%%\"/>\n",
           width, l->height, width, l->height, style);
  if (body.data) text_add_bytes(out, body.data, body.length);
  text_add(out, "</svg>\n");
  if (body.failed) out->failed = true;
  text_fini(&body);
}

shoal_status drawing_write(const drawing_items *items, text *out) {
  const size_t n = (size_t)items->n + 1;
  size_t edges = 1;
  for (int i = 0; i < items->n; i++) edges += (size_t)items->list[i].n_inputs;
  layout l = {.items = items,
              .uses = calloc(n, sizeof *l.uses),
              .next = calloc(n, sizeof *l.next),
              .box_of = calloc(n, sizeof *l.box_of),
              .boxes = calloc(n, sizeof *l.boxes),
              .row_width = calloc(n, sizeof *l.row_width),
              .row_top = calloc(n + 1, sizeof *l.row_top),
              .lane_end = calloc(edges, sizeof *l.lane_end)};
  box **some = calloc(n, sizeof(box *));
  const bool room = l.uses && l.next && l.box_of && l.boxes && l.row_width && l.row_top && l.lane_end && some;
  if (room) {
    make_boxes(&l);
    make_rows(&l);
    l.row_top[0] = GAP / 2;
    for (int r = 0; r < l.n_rows; r++) place_row(&l, r, some);
    l.height = l.row_top[l.n_rows] - GAP / 2;
    put_all(out, &l);
  }
  free(l.uses);
  free(l.next);
  free(l.box_of);
  free(l.boxes);
  free(l.row_width);
  free(l.row_top);
  free(l.lane_end);
  free(some);
  return room && !out->failed ? NULL : status_no_memory();
}
