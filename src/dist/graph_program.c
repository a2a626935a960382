#include "dist/graph_program.h"

#include "base/mem.h"
#include "base/proto.h"
#include "dist/graph_protocol.h"
#include "dist/partition.h"

#include <string.h>

static shoal_status nonsense(void) { return status_make(SHOAL_ERR_PEER, "an invalid program"); }

/* ---- reading a program; it comes from outside, so every number in it is checked */

static shoal_status value_named(const shoal_graph *g, uint64_t id, const shoal_value **out) {
  if (id >= (uint64_t)g->n_values) return nonsense();
  *out = partition_value(g, (int)id);
  return NULL;
}

static shoal_status read_value(const shoal_graph *g, proto_reader r, const shoal_value **value, shoal_shape *shape) {
  *shape = SHOAL_SCALAR;
  *value = NULL;
  size_t bytes = 8;
  while (proto_next(&r)) {
    if (r.field == VALUE_ID) TRY(value_named(g, r.number, value));
    if (r.field != VALUE_DIM) continue;
    int64_t dim = (int64_t)r.number;
    if (shape->rank == SHOAL_MAX_RANK || dim < 0 || (dim && __builtin_mul_overflow(bytes, (size_t)dim, &bytes)))
      return nonsense();
    shape->dim[shape->rank++] = dim;
  }
  return r.wrong || !*value ? nonsense() : NULL;
}

static shoal_status read_wire_value(const shoal_graph *g, proto_reader r, wire_values *to) {
  const shoal_value *v;
  shoal_shape shape;
  TRY(read_value(g, r, &v, &shape));
  return wire_values_add(to, value_id(v), v->dtype, &shape);
}

/* Room for what will come in. */
static shoal_status allocate(program *p, wire_values *w) {
  TRY(mem_charge(p->budget, w->bytes, "values that come from others"));
  p->charged += w->bytes;
  return wire_values_allocate(w);
}

static shoal_status read_in(program *p, const shoal_graph *g, proto_reader r) {
  TRY(mem_grow((void **)&p->in, &p->cap_in, p->n_in + 1, sizeof *p->in));
  program_in *in = &p->in[p->n_in++];
  while (proto_next(&r)) {
    if (r.field == IN_NUMBER) in->number = (uint32_t)r.number;
    if (r.field == IN_FROM) in->from = (int)r.number;
    if (r.field == IN_VALUE) TRY(read_wire_value(g, proto_inside(&r), &in->values));
  }
  if (r.wrong) return nonsense();
  return allocate(p, &in->values);
}

static bool find_id(const wire_values *w, int id, int *place) {
  for (size_t i = 0; i < w->n; i++)
    if (w->ids[i] == id) {
      *place = (int)i;
      return true;
    }
  return false;
}

static shoal_status add_feed(program_segment *s, const shoal_value *v, shoal_tensor t, program_feed source) {
  for (size_t i = 0; i < s->n_feeds; i++)
    if (s->feeds[i].value == v) return NULL; /* the first that has the numbers counts */
  TRY(mem_grow((void **)&s->feeds, &s->cap_feeds, s->n_feeds + 1, sizeof *s->feeds));
  TRY(mem_grow((void **)&s->sources, &s->cap_sources, s->n_feeds + 1, sizeof *s->sources));
  s->sources[s->n_feeds] = source;
  s->feeds[s->n_feeds++] = (shoal_feed){(shoal_value *)v, t};
  return NULL;
}

static shoal_status add_received(program *p, program_segment *s, const shoal_value *v) {
  for (size_t i = 0; i < s->n_messages; i++) {
    int place;
    const program_in *in = &p->in[s->messages[i]];
    if (find_id(&in->values, value_id(v), &place))
      return add_feed(s, v, in->values.tensors[place], (program_feed){FROM_MESSAGE, s->messages[i], place});
  }
  return nonsense();
}

static int place_of_fetch(const program_segment *s, const shoal_value *v) {
  for (size_t i = 0; i < s->n_fetches; i++)
    if (s->fetches[i] == v) return (int)i;
  return -1;
}

static shoal_status add_carried(program *p, program_segment *s, proto_reader r, const shoal_graph *g) {
  const shoal_value *v;
  shoal_shape shape;
  TRY(read_value(g, r, &v, &shape));
  for (size_t i = 0; i + 1 < p->n_segments; i++) {
    int place = place_of_fetch(&p->segments[i], v);
    if (place >= 0)
      return add_feed(s, v, shoal_tensor_view(v->dtype, shape, NULL), (program_feed){FROM_SEGMENT, (int)i, place});
  }
  return nonsense();
}

static shoal_status read_send(program_segment *s, const shoal_graph *g, proto_reader r) {
  TRY(mem_grow((void **)&s->sends, &s->cap_sends, s->n_sends + 1, sizeof *s->sends));
  program_send *send = &s->sends[s->n_sends++];
  while (proto_next(&r)) {
    if (r.field == SEND_NUMBER) send->number = (uint32_t)r.number;
    if (r.field == SEND_TO) send->to = (int)r.number;
    if (r.field != SEND_VALUE) continue;
    const shoal_value *v;
    TRY(value_named(g, r.number, &v));
    TRY(mem_grow((void **)&send->values, &send->cap_values, send->n + 1, sizeof *send->values));
    send->values[send->n] = place_of_fetch(s, v);
    if (send->values[send->n++] < 0) return nonsense();
  }
  send->parts = calloc(2 * send->n + 1, sizeof *send->parts);
  if (!send->parts) return status_no_memory();
  return r.wrong ? nonsense() : NULL;
}

/* Fields in the order in which they were written: messages, what is fed, what is fetched, what is sent. */
static shoal_status read_segment(program *p, const shoal_graph *g, proto_reader r) {
  TRY(mem_grow((void **)&p->segments, &p->cap_segments, p->n_segments + 1, sizeof *p->segments));
  program_segment *s = &p->segments[p->n_segments++];
  const shoal_value *v;
  shoal_shape shape;
  int place;
  while (proto_next(&r)) {
    switch (r.field) {
      case SEGMENT_MESSAGE:
        if (r.number >= p->n_in) return nonsense();
        TRY(mem_grow((void **)&s->messages, &s->cap_messages, s->n_messages + 1, sizeof *s->messages));
        s->messages[s->n_messages++] = (int)r.number;
        break;
      case SEGMENT_RECEIVED:
        TRY(value_named(g, r.number, &v));
        TRY(add_received(p, s, v));
        break;
      case SEGMENT_CARRIED: TRY(add_carried(p, s, proto_inside(&r), g)); break;
      case SEGMENT_SHAPE:
        TRY(read_value(g, proto_inside(&r), &v, &shape));
        TRY(add_feed(s, v, shoal_tensor_view(v->dtype, shape, NULL), (program_feed){.from = FROM_NOBODY}));
        break;
      case SEGMENT_FEED:
        TRY(value_named(g, r.number, &v));
        if (!find_id(&p->feeds, value_id(v), &place)) return nonsense();
        TRY(add_feed(s, v, p->feeds.tensors[place], (program_feed){FROM_CLIENT, 0, place}));
        break;
      case SEGMENT_FETCH:
        TRY(value_named(g, r.number, &v));
        TRY(mem_grow((void **)&s->fetches, &s->cap_fetches, s->n_fetches + 1, sizeof *s->fetches));
        s->fetches[s->n_fetches++] = (shoal_value *)v;
        break;
      case SEGMENT_SEND: TRY(read_send(s, g, proto_inside(&r))); break;
      default: break;
    }
  }
  s->fetched = calloc(s->n_fetches + 1, sizeof *s->fetched);
  if (!s->fetched) return status_no_memory();
  return r.wrong ? nonsense() : NULL;
}

static shoal_status read_all(program *p, const shoal_graph *g, proto_reader r) {
  bool allocated = false;
  while (proto_next(&r)) {
    if (r.field == PROGRAM_IN) TRY(read_in(p, g, proto_inside(&r)));
    if (r.field == PROGRAM_FEED && allocated) return nonsense();
    if (r.field == PROGRAM_FEED) TRY(read_wire_value(g, proto_inside(&r), &p->feeds));
    if (r.field == PROGRAM_RESULT) TRY(read_wire_value(g, proto_inside(&r), &p->results));
    if (r.field != PROGRAM_SEGMENT) continue;
    if (!allocated) TRY(allocate(p, &p->feeds));
    allocated = true;
    TRY(read_segment(p, g, proto_inside(&r)));
  }
  if (!allocated) TRY(allocate(p, &p->feeds)); /* it has nothing to run, and may be fed nevertheless */
  return r.wrong ? nonsense() : NULL;
}

/* Each result is what some segment fetches. */
static shoal_status find_results(program *p, const shoal_graph *g) {
  p->result_segment = calloc(p->results.n + 1, sizeof *p->result_segment);
  p->result_place = calloc(p->results.n + 1, sizeof *p->result_place);
  p->result_parts = calloc(2 * p->results.n + 1, sizeof *p->result_parts);
  if (!p->result_segment || !p->result_place || !p->result_parts) return status_no_memory();
  for (size_t i = 0; i < p->results.n; i++) {
    const shoal_value *v = partition_value(g, p->results.ids[i]);
    int place = -1;
    for (size_t s = p->n_segments; s-- > 0 && place < 0;) { /* the latest: variables after their updates */
      place = place_of_fetch(&p->segments[s], v);
      p->result_segment[i] = (int)s;
    }
    if (place < 0) return nonsense();
    p->result_place[i] = place;
  }
  return NULL;
}

static bool has_numbers(const program_segment *s, const plan_value *v) {
  const plan_value *root = &s->plan->values[v->root];
  return root->store != STORE_FEED || s->sources[root->feed].from != FROM_NOBODY;
}

/* Of some values only the shape was told: nothing may read their numbers. */
static shoal_status check_reads(const program_segment *s) {
  const plan *p = s->plan;
  for (size_t i = 0; i < p->n_nodes; i++) {
    const plan_node *n = &p->nodes[i];
    if (n->dead || (n->op->flags & OP_WAITS)) continue;
    for (int k = 0; k < n->ins; k++)
      if (!op_shape_only(n->op, k) && !has_numbers(s, &p->values[n->in[k]])) return nonsense();
  }
  for (int i = 0; i < p->n_fetches; i++)
    if (!has_numbers(s, &p->values[p->fetch_of[i]])) return nonsense();
  for (int i = 0; i < p->n_feeds; i++)
    if (p->feed_offsets[i] >= 0 && s->sources[p->feed_offsets[i]].from == FROM_NOBODY) return nonsense();
  return NULL;
}

static shoal_status make_plans(program *p, shoal_session *session) {
  for (size_t i = 0; i < p->n_segments; i++) {
    program_segment *s = &p->segments[i];
    plan_request request = {.session = session,
                            .fetches = s->fetches,
                            .n_fetches = (int)s->n_fetches,
                            .feeds = s->feeds,
                            .n_feeds = (int)s->n_feeds,
                            .reference = session->reference};
    TRY(plan_create(&request, &s->plan));
    TRY(check_reads(s));
    for (size_t k = 0; k < s->plan->n_nodes; k++)
      s->changes |= !s->plan->nodes[k].dead && s->plan->nodes[k].op->updates;
  }
  return NULL;
}

shoal_status program_create(shoal_session *s, const void *payload, size_t n, program **out) {
  program *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->budget = s->budget;
  shoal_status status = read_all(p, s->graph, proto_read(payload, n));
  if (!status) status = find_results(p, s->graph);
  if (!status) status = make_plans(p, s);
  if (status) {
    program_destroy(p);
    return status;
  }
  *out = p;
  return NULL;
}

void program_destroy(program *p) {
  if (!p) return;
  mem_refund(p->budget, p->charged);
  for (size_t i = 0; i < p->n_segments; i++) {
    program_segment *s = &p->segments[i];
    for (size_t k = 0; k < s->n_sends; k++) {
      free(s->sends[k].values);
      free(s->sends[k].parts);
    }
    plan_destroy(s->plan);
    free(s->messages);
    free(s->feeds);
    free(s->sources);
    free(s->fetches);
    free(s->fetched);
    free(s->sends);
  }
  for (size_t i = 0; i < p->n_in; i++) wire_values_fini(&p->in[i].values);
  wire_values_fini(&p->feeds);
  wire_values_fini(&p->results);
  free(p->in);
  free(p->result_segment);
  free(p->result_place);
  free(p->result_parts);
  free(p->segments);
  free(p);
}

/* ---- running */

static shoal_status take(wire_values *w, const void *payload, size_t n) {
  if (n != w->bytes) return status_make(SHOAL_ERR_PEER, "got values of %zu bytes, expected %zu", n, w->bytes);
  if (n) memcpy(w->block, payload, n);
  return NULL;
}

shoal_status program_take(program *p, uint32_t number, uint64_t run, const void *payload, size_t n) {
  for (size_t i = 0; i < p->n_in; i++) {
    if (p->in[i].number != number) continue;
    TRY(take(&p->in[i].values, payload, n));
    p->in[i].arrived = run;
    return NULL;
  }
  return status_make(SHOAL_ERR_PEER, "message %u is not expected", number);
}

shoal_status program_take_feeds(program *p, const void *payload, size_t n) { return take(&p->feeds, payload, n); }

const program_in *program_awaits(const program *p, size_t segment, uint64_t run) {
  const program_segment *s = &p->segments[segment];
  for (size_t i = 0; i < s->n_messages; i++)
    if (p->in[s->messages[i]].arrived != run) return &p->in[s->messages[i]];
  return NULL;
}

shoal_status program_run(program *p, size_t segment) {
  program_segment *s = &p->segments[segment];
  for (size_t i = 0; i < s->n_feeds; i++) {
    if (s->sources[i].from != FROM_SEGMENT) continue;
    const shoal_tensor *carried = &p->segments[s->sources[i].holder].fetched[s->sources[i].place];
    if (!shoal_shape_equal(&carried->shape, &s->feeds[i].tensor.shape)) return nonsense();
    s->feeds[i].tensor.data = carried->data;
  }
  return plan_run(s->plan, s->feeds, s->fetched);
}

int program_parts(program *p, size_t segment, size_t send, const net_part **parts) {
  program_segment *s = &p->segments[segment];
  program_send *out = &s->sends[send];
  int n = 0;
  for (size_t i = 0; i < out->n; i++) n += wire_part(&s->fetched[out->values[i]], out->parts + n);
  *parts = out->parts;
  return n;
}

int program_results(program *p, const net_part **parts) {
  int n = 0;
  for (size_t i = 0; i < p->results.n; i++)
    n += wire_part(&p->segments[p->result_segment[i]].fetched[p->result_place[i]], p->result_parts + n);
  *parts = p->result_parts;
  return n;
}
