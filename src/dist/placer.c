#include "dist/placer.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 10 }; /* of moving single groups; it settles in two or three */

typedef struct {
  int *nodes; /* [n] */
  int n;
} reader_list;

typedef struct {
  const shoal_graph *graph;
  const device *tasks;
  int n_tasks;
  size_t first;
  placer_choice *choices;
  int *group;           /* [nodes] the node that stands for those that must stay together */
  uint64_t *allow;      /* [nodes] tasks, by group */
  bool *asked;          /* [nodes] by group: a device was given */
  reader_list *readers; /* [values] */
  int *reader_room;
} placing;

bool placer_everywhere(const node *n) { return !strcmp(n->op->name, "constant"); }

static double value_bytes(const shoal_value *v) {
  double bytes = (double)shoal_dtype_size(v->dtype);
  for (int i = 0; i < v->shape.rank; i++)
    bytes *= v->shape.dim[i] == SHOAL_UNKNOWN ? PLACER_UNKNOWN_ROWS : (double)v->shape.dim[i];
  return bytes;
}

static int find_group(placing *p, int id) {
  while (p->group[id] != id) id = p->group[id] = p->group[p->group[id]];
  return id;
}

static void join(placing *p, int a, int b) {
  a = find_group(p, a);
  b = find_group(p, b);
  if (a == b) return;
  int keep = MIN_OF(a, b), gone = MAX_OF(a, b);
  p->group[gone] = keep;
  p->allow[keep] &= p->allow[gone];
  p->asked[keep] |= p->asked[gone];
}

/* "/job:ps (2 tasks), /job:worker (4 tasks)" */
static void list_jobs(const placing *p, text *out) {
  for (int i = 0; i < p->n_tasks; i++) {
    int count = 0, earlier = 0;
    for (int k = 0; k < p->n_tasks; k++)
      if (!strcmp(p->tasks[k].job, p->tasks[i].job)) {
        count++;
        earlier += k < i;
      }
    if (!earlier) text_add(out, "%s/job:%s (%d task%s)", i ? ", " : "", p->tasks[i].job, count, count == 1 ? "" : "s");
  }
}

/* The tasks that a node's own device allows; none is an error. */
static shoal_status tasks_allowed(const placing *p, const node *n, uint64_t *out) {
  device wanted;
  TRY(status_wrap(device_parse(n->device, &wanted), "'%s'", n->name));
  *out = 0;
  for (int t = 0; t < p->n_tasks; t++)
    if (device_allows(&wanted, &p->tasks[t])) *out |= 1ull << t;
  if (*out) return NULL;
  text jobs = {0};
  list_jobs(p, &jobs);
  shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "'%s' is placed on %s, but the cluster has %s", n->name,
                                    n->device, jobs.data ? jobs.data : "no such task");
  text_fini(&jobs);
  return status;
}

/* What the devices of the nodes inside a condition or a loop leave of the tasks for the whole of it; outer: that
 * operator. */
static shoal_status restrict_to_inside(placing *p, const node *outer, const node *n) {
  for (int a = 0; a < OP_MAX_ATTRS && n->op->attrs[a].name; a++) {
    const shoal_graph *f = n->op->attrs[a].kind == ATTR_GRAPH ? n->attr[a].graph : NULL;
    for (size_t i = 0; f && i < f->count; i++) {
      const node *inner = f->nodes[i];
      uint64_t allowed;
      TRY(status_wrap(tasks_allowed(p, inner, &allowed), "inside '%s'", outer->name));
      p->asked[outer->id] |= inner->device != NULL;
      if (!(p->allow[outer->id] & allowed))
        return status_make(SHOAL_ERR_ARGUMENT,
                           "%s '%s' runs as a whole on one task, but '%s' inside it is to run on %s, which %s does not "
                           "allow; give all that is inside one device, or compute what is elsewhere before and hand it "
                           "in",
                           outer->op->name, outer->name, inner->name, inner->device,
                           outer->device ? outer->device : "another node inside");
      p->allow[outer->id] &= allowed;
      TRY(restrict_to_inside(p, outer, inner));
    }
  }
  return NULL;
}

static shoal_status read_devices(placing *p) {
  for (size_t i = 0; i < p->graph->count; i++) {
    const node *n = p->graph->nodes[i];
    p->group[i] = (int)i;
    p->asked[i] = n->device != NULL;
    TRY(tasks_allowed(p, n, &p->allow[i]));
    if (i < p->first)
      p->allow[i] = 1ull << p->choices[i].task;
    else
      TRY(restrict_to_inside(p, n, n));
  }
  return NULL;
}

static shoal_status join_updates(placing *p) {
  for (size_t i = 0; i < p->graph->count; i++) {
    const node *n = p->graph->nodes[i];
    for (int k = 0; k < n->ins && k < 32; k++) {
      if (!op_updates(n->op, k)) continue;
      const node *variable = n->in[k]->maker;
      int a = find_group(p, (int)i), b = find_group(p, variable->id);
      if (!(p->allow[a] & p->allow[b]))
        return status_make(SHOAL_ERR_ARGUMENT,
                           "'%s' changes the variable '%s' (device %s), but is to run on %s: a variable is updated by "
                           "the task that holds it; give both the same device",
                           n->name, variable->name, variable->device ? variable->device : "of another update",
                           n->device ? n->device : "another task");
      join(p, a, b);
    }
  }
  return NULL;
}

static shoal_status list_readers(placing *p) {
  const shoal_graph *g = p->graph;
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < g->count; i++) {
      const node *n = g->nodes[i];
      for (int k = 0; k < n->ins; k++) {
        reader_list *list = &p->readers[value_id(n->in[k])];
        if (edge_of(n, k) != EDGE_DATA || placer_everywhere(n->in[k]->maker)) continue;
        if (!pass) {
          p->reader_room[value_id(n->in[k])]++;
          continue;
        }
        if (!list->nodes && !(list->nodes = calloc((size_t)p->reader_room[value_id(n->in[k])], sizeof(int))))
          return status_no_memory();
        list->nodes[list->n++] = (int)i;
      }
    }
  return NULL;
}

/* Tasks on which somebody outside of `group` reads the value. */
static uint64_t tasks_reading(placing *p, const shoal_value *v, int group) {
  const reader_list *list = &p->readers[value_id(v)];
  uint64_t mask = 0;
  for (int i = 0; i < list->n; i++) {
    int g = find_group(p, list->nodes[i]);
    if (g != group && p->choices[g].task >= 0) mask |= 1ull << p->choices[g].task;
  }
  return mask;
}

/* Bytes that would travel to and from a node if its group stood on each task. */
static void node_bytes(placing *p, const node *n, int group, double *bytes) {
  for (int k = 0; k < n->ins; k++) {
    const node *maker = n->in[k]->maker;
    int from = find_group(p, maker->id);
    if (edge_of(n, k) != EDGE_DATA || placer_everywhere(maker) || from == group || p->choices[from].task < 0) continue;
    uint64_t there = tasks_reading(p, n->in[k], group) | 1ull << p->choices[from].task;
    for (int t = 0; t < p->n_tasks; t++)
      if (!(there >> t & 1)) bytes[t] += value_bytes(n->in[k]);
  }
  for (int i = 0; i < n->outs; i++) {
    uint64_t readers = tasks_reading(p, &n->out[i], group);
    for (int t = 0; t < p->n_tasks; t++)
      bytes[t] += value_bytes(&n->out[i]) * __builtin_popcountll(readers & ~(1ull << t));
  }
}

/* Whether the nodes of a group have neighbours that stand somewhere. */
static bool has_neighbours(placing *p, const node *n, int group) {
  for (int k = 0; k < n->ins; k++) {
    int g = find_group(p, n->in[k]->maker->id);
    if (g != group && p->choices[g].task >= 0 && !placer_everywhere(n->in[k]->maker)) return true;
  }
  for (int i = 0; i < n->outs; i++)
    if (tasks_reading(p, &n->out[i], group)) return true;
  return false;
}

/* members: nodes of the group that `lead` leads, as a list through next[]. */
static bool improve(placing *p, int lead, const int *next) {
  double bytes[PLACER_TASKS_MAX] = {0};
  bool neighbours = false;
  for (int id = lead; id >= 0; id = next[id]) {
    node_bytes(p, p->graph->nodes[id], lead, bytes);
    neighbours |= has_neighbours(p, p->graph->nodes[id], lead);
  }
  placer_choice *c = &p->choices[lead];
  if (!neighbours) return false;
  int best = c->task;
  for (int t = 0; t < p->n_tasks; t++)
    if ((p->allow[lead] >> t & 1) && (best < 0 || bytes[t] < bytes[best])) best = t;
  double beside = -1;
  for (int t = 0; t < p->n_tasks; t++)
    if (t != best && (p->allow[lead] >> t & 1) && (beside < 0 || bytes[t] < beside)) beside = bytes[t];
  bool moved = best != c->task;
  *c = (placer_choice){.task = best, .why = PLACED_BYTES, .here = bytes[best], .beside = beside};
  return moved;
}

static bool is_settled(const placing *p, int lead) {
  return (p->allow[lead] & (p->allow[lead] - 1)) == 0 || p->choices[lead].why == PLACED_SPREAD;
}

static void settle_asked(placing *p) {
  for (size_t i = 0; i < p->graph->count; i++) {
    int lead = find_group(p, (int)i);
    placer_choice *c = &p->choices[lead];
    if ((int)i != lead || i < p->first) continue;
    *c = (placer_choice){.task = -1, .why = PLACED_FREE};
    if (!(p->allow[lead] & (p->allow[lead] - 1)))
      *c = (placer_choice){.task = __builtin_ctzll(p->allow[lead]), .why = p->asked[lead] ? PLACED_ASKED : PLACED_FREE};
  }
}

/* Variables of a job, each to the task that holds the fewest bytes so far. */
static void spread_variables(placing *p) {
  double load[PLACER_TASKS_MAX] = {0};
  for (size_t i = 0; i < p->graph->count; i++) {
    const node *n = p->graph->nodes[i];
    int lead = find_group(p, (int)i), best = -1;
    if (!n->initial) continue;
    if (p->choices[lead].task < 0 && p->asked[lead]) {
      for (int t = 0; t < p->n_tasks; t++)
        if ((p->allow[lead] >> t & 1) && (best < 0 || load[t] < load[best])) best = t;
      p->choices[lead] = (placer_choice){.task = best, .why = PLACED_SPREAD};
    }
    if (p->choices[lead].task >= 0) load[p->choices[lead].task] += value_bytes(&n->out[0]);
  }
}

static shoal_status settle_free(placing *p) {
  size_t count = p->graph->count;
  int *next = malloc((count + 1) * sizeof *next), *last = malloc((count + 1) * sizeof *last);
  if (!next || !last) {
    free(next);
    free(last);
    return status_no_memory();
  }
  for (size_t i = 0; i < count; i++) {
    int lead = find_group(p, (int)i);
    next[i] = -1;
    if (lead != (int)i) next[last[lead]] = (int)i;
    last[lead] = (int)i;
  }
  for (int round = 0; round < ROUNDS; round++) {
    bool moved = false;
    for (size_t i = p->first; i < count; i++)
      if (p->group[i] == (int)i && !is_settled(p, (int)i)) moved |= improve(p, (int)i, next);
    if (moved) continue;
    /* What hangs together with nothing that stands goes to the first task it may go to. */
    for (size_t i = p->first; i < count; i++)
      if (p->group[i] == (int)i && p->choices[i].task < 0) {
        p->choices[i].task = __builtin_ctzll(p->allow[i]);
        moved = true;
      }
    if (!moved) break;
  }
  free(next);
  free(last);
  return NULL;
}

static shoal_status place(placing *p) {
  TRY(read_devices(p));
  TRY(join_updates(p));
  TRY(list_readers(p));
  settle_asked(p);
  spread_variables(p);
  TRY(settle_free(p));
  for (size_t i = p->first; i < p->graph->count; i++) {
    int lead = find_group(p, (int)i);
    if (lead == (int)i) continue;
    p->choices[i] = (placer_choice){.task = p->choices[lead].task, .why = PLACED_WITH, .with = lead};
  }
  return NULL;
}

shoal_status placer_place(const shoal_graph *g, const device *tasks, int n_tasks, size_t first,
                          placer_choice *choices) {
  if (n_tasks < 1 || n_tasks > PLACER_TASKS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "a graph is placed on 1 to %d tasks, not %d", PLACER_TASKS_MAX, n_tasks);
  placing p = {.graph = g, .tasks = tasks, .n_tasks = n_tasks, .first = first, .choices = choices};
  size_t nodes = g->count + 1, values = (size_t)g->n_values + 1;
  p.group = calloc(nodes, sizeof *p.group);
  p.allow = calloc(nodes, sizeof *p.allow);
  p.asked = calloc(nodes, sizeof *p.asked);
  p.readers = calloc(values, sizeof *p.readers);
  p.reader_room = calloc(values, sizeof *p.reader_room);
  bool room = p.group && p.allow && p.asked && p.readers && p.reader_room;
  shoal_status status = room ? place(&p) : status_no_memory();
  for (size_t i = 0; i < values && p.readers; i++) free(p.readers[i].nodes);
  free(p.group);
  free(p.allow);
  free(p.asked);
  free(p.readers);
  free(p.reader_room);
  return status;
}

static void explain_choice(const shoal_graph *g, const placer_choice *c, text *out) {
  switch (c->why) {
    case PLACED_ASKED: text_add(out, "asked for"); break;
    case PLACED_WITH: text_add(out, "together with '%s'", g->nodes[c->with]->name); break;
    case PLACED_SPREAD: text_add(out, "variables of the job are spread by size"); break;
    case PLACED_FREE: text_add(out, "no preference"); break;
    case PLACED_BYTES:
      text_add(out, "fewest bytes: %.0f travel", c->here);
      if (c->beside >= 0) text_add(out, ", %.0f from the next best task", c->beside);
  }
}

char *placer_explain(const shoal_graph *g, const device *tasks, int n_tasks, const placer_choice *choices) {
  text t = {0};
  char buffer[DEVICE_TEXT];
  double *between = calloc((size_t)n_tasks * (size_t)n_tasks, sizeof *between);
  uint64_t *sent = calloc((size_t)g->n_values + 1, sizeof *sent);
  if (!between || !sent) t.failed = true;
  for (size_t i = 0; i < g->count && !t.failed; i++) {
    const node *n = g->nodes[i];
    if (placer_everywhere(n)) continue;
    text_add(&t, "%-40s %-20s %-22s ", n->name, n->op->name, device_text(&tasks[choices[i].task], buffer));
    explain_choice(g, &choices[i], &t);
    text_add(&t, "\n");
    for (int k = 0; k < n->ins; k++) {
      int from = choices[n->in[k]->maker->id].task, to = choices[i].task, v = value_id(n->in[k]);
      if (from == to || edge_of(n, k) != EDGE_DATA || placer_everywhere(n->in[k]->maker)) continue;
      if (sent[v] >> to & 1) continue;
      sent[v] |= 1ull << to;
      between[from * n_tasks + to] += value_bytes(n->in[k]);
    }
  }
  for (int from = 0; from < n_tasks && !t.failed; from++)
    for (int to = 0; to < n_tasks; to++) {
      if (!(between[from * n_tasks + to] > 0)) continue;
      text_add(&t, "%s to ", device_text(&tasks[from], buffer));
      text_add(&t, "%s: at most %.0f bytes a step (a batch of unknown size counted as %d rows)\n",
               device_text(&tasks[to], buffer), between[from * n_tasks + to], PLACER_UNKNOWN_ROWS);
    }
  free(between);
  free(sent);
  if (t.failed) {
    text_fini(&t);
    return NULL;
  }
  return t.data ? t.data : strdup("");
}
