#include "dist/partition.h"

#include "base/mem.h"
#include "graph/infer.h"

#include <string.h>

typedef struct {
  const shoal_graph *graph;
  const placer_choice *tasks;
  int n_tasks;
  const shoal_feed *feeds;
  int n_feeds;
  partition *out;
  bool *needed;    /* [nodes] */
  bool *fed;       /* [values] */
  int *depth;      /* [nodes] */
  int *segment_of; /* [n_tasks * (deepest + 1)] or -1 */
  int deepest;
  /* by value: which variable's memory it shows, or -1 */
  int *variable; /* [values] node id */
} cutter;

static shoal_status list_add(int_list *l, int item) {
  for (size_t i = l->n; i-- > 0;)
    if (l->items[i] == item) return NULL;
  TRY(mem_grow((void **)&l->items, &l->capacity, l->n + 1, sizeof *l->items));
  l->items[l->n++] = item;
  return NULL;
}

const shoal_value *partition_value(const shoal_graph *g, int id) {
  size_t low = 0, high = g->count;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (g->nodes[middle]->first_value <= id)
      low = middle;
    else
      high = middle;
  }
  return &g->nodes[low]->out[id - g->nodes[low]->first_value];
}

static int task_of(const cutter *c, const node *n) { return c->tasks[n->id].task; }
static bool is_source(const node *n) { return n->op->flags & OP_SOURCE; }
/* Seen anew wherever it is used; one that waits for others is a copy. */
static bool is_view(const node *n) { return (n->op->flags & OP_VIEW) && !n->n_after; }

/* ---- depths */

static bool raise(int *depth, int least) {
  if (*depth >= least) return false;
  *depth = least;
  return true;
}

static bool raise_by_inputs(cutter *c, const node *n) {
  bool raised = false;
  for (int k = 0; k < n->ins; k++) {
    const node *maker = n->in[k]->maker;
    if (c->fed[value_id(n->in[k])] || edge_of(n, k) == EDGE_SHAPE || placer_everywhere(maker)) continue;
    raised |= raise(&c->depth[n->id], c->depth[maker->id] + (task_of(c, maker) != task_of(c, n)));
  }
  for (int k = 0; k < n->n_after; k++)
    raised |= raise(&c->depth[n->id], c->depth[n->after[k]->id] + (task_of(c, n->after[k]) != task_of(c, n)));
  return raised;
}

static int shown_variable(const cutter *c, const shoal_value *v) { return c->variable[value_id(v)]; }

/* An update against one node that reads something of the variable: invariant 2. */
static bool raise_by_reader(cutter *c, const node *update, const node *reader, int variable) {
  bool raised = false;
  if (reader == update) return false;
  for (int k = 0; k < reader->ins; k++) {
    if (c->fed[value_id(reader->in[k])] || shown_variable(c, reader->in[k]) != variable ||
        edge_of(reader, k) != EDGE_DATA)
      continue;
    if (op_updates(reader->op, k)) { /* several updates: in the order in which they were built */
      if (reader->id < update->id) raised |= raise(&c->depth[update->id], c->depth[reader->id]);
    } else if (task_of(c, reader) == task_of(c, update)) {
      raised |= raise(&c->depth[update->id], c->depth[reader->id]);
    } else {
      raised |= raise(&c->depth[update->id], c->depth[reader->in[k]->maker->id] + 1);
    }
  }
  return raised;
}

/* Whether a node waits for another without using it; it then reads what that one leaves behind. */
static bool waits_for(const node *n, const node *other) {
  for (int k = 0; k < n->n_after; k++)
    if (n->after[k] == other || (n->after[k]->id > other->id && waits_for(n->after[k], other))) return true;
  return false;
}

static bool raise_update(cutter *c, const node *update) {
  bool raised = false;
  for (int k = 0; k < update->ins && k < 32; k++) {
    if (!op_updates(update->op, k)) continue;
    int variable = update->in[k]->maker->id;
    for (size_t r = 0; r < c->graph->count; r++)
      if (c->needed[r] && !waits_for(c->graph->nodes[r], update))
        raised |= raise_by_reader(c, update, c->graph->nodes[r], variable);
  }
  return raised;
}

static shoal_status find_depths(cutter *c) {
  const shoal_graph *g = c->graph;
  for (size_t i = 0; i < g->count; i++) {
    const node *n = g->nodes[i];
    for (int k = 0; k < n->outs; k++) c->variable[n->first_value + k] = -1;
    if (n->initial) c->variable[n->first_value] = (int)i;
    if (is_view(n)) c->variable[n->first_value] = c->variable[value_id(n->in[0])];
  }
  for (size_t round = 0;; round++) {
    bool raised = false;
    for (size_t i = 0; i < g->count; i++) {
      if (!c->needed[i]) continue;
      raised |= raise_by_inputs(c, g->nodes[i]);
      if (g->nodes[i]->op->updates) raised |= raise_update(c, g->nodes[i]);
    }
    if (!raised) break;
    if (round > g->count)
      return status_make(SHOAL_ERR_ARGUMENT,
                         "a variable is read both before and after the same update, in a cycle over several tasks; use "
                         "the result of the update instead");
  }
  for (size_t i = 0; i < g->count; i++)
    if (c->needed[i]) c->deepest = MAX_OF(c->deepest, c->depth[i]);
  return NULL;
}

/* ---- segments and messages */

static shoal_status segment_at(cutter *c, int task, int depth, int *out) {
  partition *p = c->out;
  int *at = &c->segment_of[task * (c->deepest + 1) + depth];
  if (*at < 0) {
    TRY(mem_grow((void **)&p->segments, &p->cap_segments, p->n_segments + 1, sizeof *p->segments));
    p->segments[p->n_segments] = (part_segment){.task = task, .depth = depth};
    *at = (int)p->n_segments++;
  }
  *out = *at;
  return NULL;
}

static shoal_status message_at(cutter *c, int from, int depth, int to, int *out) {
  partition *p = c->out;
  int segment;
  TRY(segment_at(c, from, depth, &segment));
  for (size_t i = 0; i < p->segments[segment].sends.n; i++) {
    *out = p->segments[segment].sends.items[i];
    if (p->messages[*out].to == to) return NULL;
  }
  TRY(mem_grow((void **)&p->messages, &p->cap_messages, p->n_messages + 1, sizeof *p->messages));
  *out = (int)p->n_messages++;
  p->messages[*out] = (part_message){.from = from, .to = to, .depth = depth};
  return list_add(&p->segments[segment].sends, *out);
}

/* A value made on another task. */
static shoal_status receive(cutter *c, int segment, const shoal_value *v, edge_kind kind) {
  partition *p = c->out;
  const node *maker = v->maker;
  int message, sender;
  TRY(message_at(c, task_of(c, maker), c->depth[maker->id], p->segments[segment].task, &message));
  TRY(segment_at(c, task_of(c, maker), c->depth[maker->id], &sender));
  TRY(list_add(&p->segments[segment].messages, message));
  if (kind == EDGE_DATA) {
    TRY(list_add(&p->messages[message].values, value_id(v)));
    TRY(list_add(&p->segments[sender].fetches, value_id(v)));
    return list_add(&p->segments[segment].received, value_id(v));
  }
  TRY(list_add(&p->messages[message].empty, value_id(v)));
  TRY(list_add(&p->segments[sender].effects, value_id(v)));
  return list_add(&p->segments[segment].shapes, value_id(v));
}

static shoal_status add_client_feed(cutter *c, int segment, const shoal_value *v) {
  int feed = 0;
  while (c->feeds[feed].value != v) feed++;
  TRY(list_add(&c->out->segments[segment].feeds, feed));
  const shoal_value *offsets = v->maker->offsets; /* what is ragged comes with them */
  return offsets && c->fed[value_id(offsets)] ? add_client_feed(c, segment, offsets) : NULL;
}

/* What a segment has to be given so that its plan can use v. */
static shoal_status provide(cutter *c, int segment, const shoal_value *v, edge_kind kind) {
  partition *p = c->out;
  const node *maker = v->maker;
  int task = p->segments[segment].task, depth = p->segments[segment].depth;
  if (c->fed[value_id(v)]) return add_client_feed(c, segment, v);
  if (placer_everywhere(maker)) return NULL;
  if (task_of(c, maker) != task) {
    if (kind != EDGE_SHAPE) return receive(c, segment, v, kind);
    return list_add(&p->segments[segment].shapes, value_id(v));
  }
  if (is_source(maker)) return NULL;
  if (is_view(maker)) return provide(c, segment, maker->in[0], kind);
  if (c->depth[maker->id] == depth) return NULL;
  /* Of the same task and another depth. A shape may come from a later segment, too. */
  if (kind == EDGE_SHAPE) return list_add(&p->segments[segment].shapes, value_id(v));
  int earlier;
  TRY(segment_at(c, task, c->depth[maker->id], &earlier));
  TRY(list_add(&p->segments[earlier].fetches, value_id(v)));
  return list_add(&p->segments[segment].carried, value_id(v));
}

static shoal_status provide_control(cutter *c, int segment, const node *before) {
  partition *p = c->out;
  if (is_source(before)) return NULL;
  if (task_of(c, before) != p->segments[segment].task) return receive(c, segment, &before->out[0], EDGE_WAIT);
  if (c->depth[before->id] == p->segments[segment].depth) return NULL; /* the plan sees to it */
  int earlier;
  TRY(segment_at(c, task_of(c, before), c->depth[before->id], &earlier));
  TRY(list_add(&p->segments[segment].shapes, value_id(&before->out[0])));
  return list_add(&p->segments[earlier].effects, value_id(&before->out[0]));
}

static shoal_status cut_node(cutter *c, const node *n) {
  int segment;
  if (is_source(n)) return NULL;
  TRY(segment_at(c, task_of(c, n), c->depth[n->id], &segment));
  for (int k = 0; k < n->ins; k++) TRY(provide(c, segment, n->in[k], edge_of(n, k)));
  for (int k = 0; k < n->n_after; k++) TRY(provide_control(c, segment, n->after[k]));
  return NULL;
}

/* A variable that is fetched is fetched where it is not changed any more. */
static shoal_status cut_fetch(cutter *c, shoal_value *v, int *owner) {
  int segment;
  *owner = -1;
  if (c->fed[value_id(v)]) return NULL;
  *owner = task_of(c, v->maker);
  int depth = shown_variable(c, v) >= 0 ? c->deepest : c->depth[v->maker->id];
  TRY(segment_at(c, *owner, depth, &segment));
  if (shown_variable(c, v) >= 0) TRY(provide(c, segment, v, EDGE_DATA));
  return list_add(&c->out->segments[segment].fetches, value_id(v));
}

static int by_task_and_depth(const void *a, const void *b) {
  const part_segment *x = a, *y = b;
  return x->task != y->task ? x->task - y->task : x->depth - y->depth;
}

static shoal_status cut_all(cutter *c, shoal_value *const *fetches, int n_fetches) {
  const shoal_graph *g = c->graph;
  TRY(graph_mark(g, fetches, n_fetches, c->out->shapes, c->needed));
  TRY(graph_infer(g, c->needed, c->out->shapes));
  TRY(find_depths(c));
  size_t places = (size_t)c->n_tasks * ((size_t)c->deepest + 1);
  c->segment_of = malloc(places * sizeof *c->segment_of);
  if (!c->segment_of) return status_no_memory();
  for (size_t i = 0; i < places; i++) c->segment_of[i] = -1;
  for (size_t i = 0; i < g->count; i++)
    if (c->needed[i]) TRY(cut_node(c, g->nodes[i]));
  for (int i = 0; i < n_fetches; i++) TRY(cut_fetch(c, fetches[i], &c->out->owner[i]));
  qsort(c->out->segments, c->out->n_segments, sizeof *c->out->segments, by_task_and_depth);
  return NULL;
}

shoal_status partition_make(const shoal_graph *g, const placer_choice *tasks, int n_tasks, const shoal_feed *feeds,
                            int n_feeds, shoal_value *const *fetches, int n_fetches, partition *out) {
  partition p = {0};
  cutter c = {.graph = g, .tasks = tasks, .n_tasks = n_tasks, .feeds = feeds, .n_feeds = n_feeds, .out = &p};
  size_t nodes = g->count + 1, values = (size_t)g->n_values + 1;
  p.shapes = malloc(values * sizeof *p.shapes);
  p.owner = calloc((size_t)n_fetches + 1, sizeof *p.owner);
  c.needed = calloc(nodes, sizeof *c.needed);
  c.fed = calloc(values, sizeof *c.fed);
  c.depth = calloc(nodes, sizeof *c.depth);
  c.variable = calloc(values, sizeof *c.variable);
  bool room = p.shapes && p.owner && c.needed && c.fed && c.depth && c.variable;
  shoal_status status = room ? NULL : status_no_memory();
  for (size_t i = 0; i < values && room; i++) p.shapes[i] = SHAPE_NOT_KNOWN;
  for (int i = 0; i < n_feeds && !status; i++) {
    if (!feeds[i].value) status = status_make(SHOAL_ERR_ARGUMENT, "feed %d names no value", i);
    if (status) break;
    p.shapes[value_id(feeds[i].value)] = feeds[i].tensor.shape;
    c.fed[value_id(feeds[i].value)] = true;
  }
  if (!status) status = cut_all(&c, fetches, n_fetches);
  free(c.needed);
  free(c.fed);
  free(c.depth);
  free(c.segment_of);
  free(c.variable);
  if (status) {
    partition_fini(&p);
    return status;
  }
  *out = p;
  return NULL;
}

void partition_fini(partition *p) {
  for (size_t i = 0; i < p->n_segments; i++) {
    part_segment *s = &p->segments[i];
    int_list *lists[] = {&s->messages, &s->received, &s->carried, &s->shapes,
                         &s->feeds,    &s->fetches,  &s->effects, &s->sends};
    for (size_t k = 0; k < COUNT_OF(lists); k++) free(lists[k]->items);
  }
  for (size_t i = 0; i < p->n_messages; i++) {
    free(p->messages[i].values.items);
    free(p->messages[i].empty.items);
  }
  free(p->segments);
  free(p->messages);
  free(p->shapes);
  free(p->owner);
  *p = (partition){0};
}
