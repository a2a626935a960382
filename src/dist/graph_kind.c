/* Runs of one kind: cut up once, and told to the tasks that take part. */
#include "base/mem.h"
#include "base/proto.h"
#include "dist/graph_cluster.h"
#include "dist/graph_protocol.h"

void run_kind_destroy(run_kind *k, int n_tasks) {
  if (!k) return;
  for (int t = 0; t < n_tasks && k->parts; t++) {
    free(k->parts[t].feeds.items);
    free(k->parts[t].parts);
    wire_values_fini(&k->parts[t].results);
  }
  for (int i = 0; i < k->n_feeds && k->staged; i++) shoal_tensor_fini(&k->staged[i]);
  free(k->fetches);
  free(k->feed_values);
  free(k->feed_shapes);
  free(k->parts);
  free(k->owner);
  free(k->place);
  free(k->staged);
  free(k);
}

static void put_value(proto *p, int field, const partition *part, int id) {
  size_t inside = proto_begin(p, field);
  proto_int(p, VALUE_ID, id);
  for (int i = 0; i < part->shapes[id].rank; i++) proto_int(p, VALUE_DIM, part->shapes[id].dim[i]);
  proto_end(p, inside);
}

static void put_numbers(proto *p, int field, const int_list *l) {
  for (size_t i = 0; i < l->n; i++) proto_int(p, field, l->items[i]);
}

static void put_values(proto *p, int field, const partition *part, const int_list *l) {
  for (size_t i = 0; i < l->n; i++) put_value(p, field, part, l->items[i]);
}

static shoal_status add_once(int_list *l, int item) {
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i] == item) return NULL;
  TRY(mem_grow((void **)&l->items, &l->capacity, l->n + 1, sizeof *l->items));
  l->items[l->n++] = item;
  return NULL;
}

static void put_segment(proto *p, const partition *part, const part_segment *s, const int *place_of,
                        const run_kind *k) {
  size_t inside = proto_begin(p, PROGRAM_SEGMENT);
  for (size_t i = 0; i < s->messages.n; i++) proto_int(p, SEGMENT_MESSAGE, place_of[s->messages.items[i]]);
  put_numbers(p, SEGMENT_RECEIVED, &s->received);
  put_values(p, SEGMENT_CARRIED, part, &s->carried);
  for (size_t i = 0; i < s->feeds.n; i++) proto_int(p, SEGMENT_FEED, value_id(k->feed_values[s->feeds.items[i]]));
  put_values(p, SEGMENT_SHAPE, part, &s->shapes);
  put_numbers(p, SEGMENT_FETCH, &s->fetches);
  put_numbers(p, SEGMENT_FETCH, &s->effects);
  for (size_t i = 0; i < s->sends.n; i++) {
    const part_message *m = &part->messages[s->sends.items[i]];
    size_t send = proto_begin(p, SEGMENT_SEND);
    proto_int(p, SEND_NUMBER, s->sends.items[i]);
    proto_int(p, SEND_TO, m->to);
    put_numbers(p, SEND_VALUE, &m->values);
    proto_end(p, send);
  }
  proto_end(p, inside);
}

/* The program of one task. */
static shoal_status put_program(cluster_session *c, const partition *part, run_kind *k, int task, proto *p) {
  task_part *own = &k->parts[task];
  int *place_of = calloc(part->n_messages + 1, sizeof *place_of), in = 0;
  if (!place_of) return status_no_memory();
  for (size_t i = 0; i < part->n_messages; i++) {
    const part_message *m = &part->messages[i];
    if (m->to != task) continue;
    place_of[i] = in++;
    size_t inside = proto_begin(p, PROGRAM_IN);
    proto_int(p, IN_NUMBER, (int64_t)i);
    proto_int(p, IN_FROM, m->from);
    put_values(p, IN_VALUE, part, &m->values);
    proto_end(p, inside);
  }
  for (size_t i = 0; i < own->feeds.n; i++)
    put_value(p, PROGRAM_FEED, part, value_id(k->feed_values[own->feeds.items[i]]));
  for (size_t i = 0; i < own->results.n; i++) put_value(p, PROGRAM_RESULT, part, own->results.ids[i]);
  for (size_t i = 0; i < part->n_segments; i++)
    if (part->segments[i].task == task) put_segment(p, part, &part->segments[i], place_of, k);
  free(place_of);
  return p->failed ? status_no_memory() : NULL;
}

/* Which task gets and gives what. */
static shoal_status share_out(cluster_session *c, const partition *part, run_kind *k) {
  for (size_t i = 0; i < part->n_segments; i++) {
    task_part *own = &k->parts[part->segments[i].task];
    k->takers += !own->takes_part;
    own->takes_part = true;
    for (size_t f = 0; f < part->segments[i].feeds.n; f++) TRY(add_once(&own->feeds, part->segments[i].feeds.items[f]));
  }
  for (int i = 0; i < k->n_fetches; i++) {
    const shoal_value *v = k->fetches[i];
    k->owner[i] = part->owner[i];
    if (k->owner[i] < 0) {
      while (k->feed_values[k->place[i]] != v) k->place[i]++;
      continue;
    }
    wire_values *w = &k->parts[k->owner[i]].results;
    size_t at = 0;
    while (at < w->n && w->ids[at] != value_id(v)) at++;
    k->place[i] = (int)at;
    if (at == w->n) TRY(wire_values_add(w, value_id(v), v->dtype, &part->shapes[value_id(v)]));
  }
  for (int t = 0; t < c->n_tasks; t++) {
    TRY(wire_values_allocate(&k->parts[t].results));
    k->parts[t].parts = calloc(1 + 2 * k->parts[t].feeds.n, sizeof *k->parts[t].parts);
    if (!k->parts[t].parts) return status_no_memory();
  }
  for (size_t i = 0; i < part->n_messages; i++) {
    k->messages++;
    for (size_t v = 0; v < part->messages[i].values.n; v++) {
      int id = part->messages[i].values.items[v];
      shoal_tensor t = shoal_tensor_view(partition_value(c->graph, id)->dtype, part->shapes[id], NULL);
      k->data_bytes += shoal_tensor_bytes(&t);
    }
  }
  return NULL;
}

static shoal_status prepare(cluster_session *c, const partition *part, run_kind *k) {
  TRY(share_out(c, part, k));
  shoal_status status = NULL;
  k->number = c->programs++;
  proto p = {0};
  for (int t = 0; t < c->n_tasks && !status; t++) {
    if (!k->parts[t].takes_part) continue;
    proto_clear(&p);
    status = put_program(c, part, k, t, &p);
    if (!status) status = cluster_ask(c, t, GRAPH_PREPARE, k->number, &(net_part){p.bytes, p.length}, 1);
  }
  proto_fini(&p);
  return cluster_await(c, GRAPH_PREPARE, NULL, NULL, c->options.step_seconds, status);
}

/* The kind longest unused makes room, here and at the tasks. */
static shoal_status forget_oldest(cluster_session *c) {
  size_t oldest = 0;
  for (size_t i = 1; i < c->n_kinds; i++)
    if (c->kinds[i]->last_used < c->kinds[oldest]->last_used) oldest = i;
  run_kind *k = c->kinds[oldest];
  c->kinds[oldest] = c->kinds[--c->n_kinds];
  shoal_status status = NULL;
  for (int t = 0; t < c->n_tasks && !status; t++)
    if (k->parts[t].takes_part) status = cluster_ask(c, t, GRAPH_FORGET, k->number, NULL, 0);
  run_kind_destroy(k, c->n_tasks);
  return cluster_await(c, GRAPH_FORGET, NULL, NULL, c->options.step_seconds, status);
}

shoal_status run_kind_make(cluster_session *c, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                           int n_fetches, run_kind **out) {
  if (c->n_kinds == CLUSTER_KINDS) TRY(forget_oldest(c));
  run_kind *k = calloc(1, sizeof *k);
  if (!k) return status_no_memory();
  partition part = {0};
  shoal_status status = NULL;
  k->n_fetches = n_fetches;
  k->n_feeds = n_feeds;
  k->fetches = calloc((size_t)n_fetches + 1, sizeof *k->fetches);
  k->feed_values = calloc((size_t)n_feeds + 1, sizeof *k->feed_values);
  k->feed_shapes = calloc((size_t)n_feeds + 1, sizeof *k->feed_shapes);
  k->parts = calloc((size_t)c->n_tasks, sizeof *k->parts);
  k->owner = calloc((size_t)n_fetches + 1, sizeof *k->owner);
  k->place = calloc((size_t)n_fetches + 1, sizeof *k->place);
  k->staged = calloc((size_t)n_feeds + 1, sizeof *k->staged);
  if (!k->fetches || !k->feed_values || !k->feed_shapes || !k->parts || !k->owner || !k->place || !k->staged)
    TRY_GOTO(status, status_no_memory(), failed);
  TRY_GOTO(status, partition_make(c->graph, c->choices, c->n_tasks, feeds, n_feeds, fetches, n_fetches, &part), failed);
  for (int i = 0; i < n_fetches; i++) k->fetches[i] = fetches[i];
  for (int i = 0; i < n_feeds; i++) {
    k->feed_values[i] = feeds[i].value;
    k->feed_shapes[i] = feeds[i].tensor.shape;
  }
  TRY_GOTO(status, prepare(c, &part, k), failed);
  TRY_GOTO(status, mem_grow((void **)&c->kinds, &c->cap_kinds, c->n_kinds + 1, sizeof(run_kind *)), failed);
  c->kinds[c->n_kinds++] = k;
  partition_fini(&part);
  *out = k;
  return NULL;
failed:
  partition_fini(&part);
  run_kind_destroy(k, c->n_tasks);
  return status;
}

bool run_kind_fits(const run_kind *k, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                   int n_fetches) {
  if (k->n_feeds != n_feeds || k->n_fetches != n_fetches) return false;
  for (int i = 0; i < n_fetches; i++)
    if (k->fetches[i] != fetches[i]) return false;
  for (int i = 0; i < n_feeds; i++)
    if (k->feed_values[i] != feeds[i].value || feeds[i].tensor.dtype != feeds[i].value->dtype ||
        !shoal_shape_equal(&k->feed_shapes[i], &feeds[i].tensor.shape))
      return false;
  return true;
}
