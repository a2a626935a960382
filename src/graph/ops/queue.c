/* First-in-first-out queues. One is two variables: its items [capacity, ...], a ring, and what is known about it: how
 * many items were ever taken, how many put, and how many may be put in all (without end until it is closed). */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"

#include <string.h>

enum { TAKEN, PUT, MAY_PUT, CONTROL };
enum { QUEUE_NAME };

static const char *name_of(const kernel_call *call) { return call->attr[QUEUE_NAME].s ? call->attr[QUEUE_NAME].s : ""; }

static shoal_status check_control(const op_shapes *s) {
  if (s->in_dtype[0] == SHOAL_I64 && s->in[0].rank == 1 && s->in[0].dim[0] == CONTROL) return NULL;
  char a[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "a queue's state is i64[%d], not %s%s", CONTROL,
                     shoal_dtype_name(s->in_dtype[0]), shoal_shape_text(&s->in[0], a));
}

/* The items' shape without the ring's axis. */
static shoal_status check_items(const op_shapes *s, shoal_shape *item) {
  TRY(check_control(s));
  if (s->in[1].rank < 1 || s->in[1].dim[0] < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "a queue must have room for one item at least");
  *item = (shoal_shape){.rank = s->in[1].rank - 1};
  for (int i = 0; i < item->rank; i++) item->dim[i] = s->in[1].dim[i + 1];
  s->out[0] = s->in[0];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* State that a graph from elsewhere started wrongly must not lead out of the ring. */
static shoal_status check_state(const kernel_call *call) {
  const int64_t *c = call->in[0].data;
  if (c[TAKEN] >= 0 && c[TAKEN] <= c[PUT] && c[PUT] - c[TAKEN] <= call->in[1].shape.dim[0]) return NULL;
  return status_make(SHOAL_ERR_INPUT, "queue '%s': %lld items put and %lld taken of a ring of %lld are inconsistent",
                     name_of(call), (long long)c[PUT], (long long)c[TAKEN], (long long)call->in[1].shape.dim[0]);
}

static char *item_at(const kernel_call *call, int64_t number, size_t *bytes) {
  int64_t capacity = call->in[1].shape.dim[0];
  *bytes = shoal_tensor_bytes(&call->in[1]) / (size_t)capacity;
  return (char *)call->in[1].data + (size_t)(number % capacity) * *bytes;
}

/* ---- enqueue(control, items, item) */

static shoal_status enqueue_shape(op_shapes *s) {
  shoal_shape item;
  TRY(check_items(s, &item));
  if (s->in_dtype[1] == s->in_dtype[2] && shapes_fit(&item, &s->in[2])) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "the queue holds items of %s%s, not %s%s", shoal_dtype_name(s->in_dtype[1]),
                     shoal_shape_text(&item, a), shoal_dtype_name(s->in_dtype[2]), shoal_shape_text(&s->in[2], b));
}

static shoal_status enqueue_kernel(const kernel_call *call) {
  int64_t *c = call->in[0].data;
  size_t bytes;
  TRY(check_state(call));
  if (c[PUT] >= c[MAY_PUT])
    return status_make(SHOAL_ERR_ARGUMENT, "queue '%s' is closed: nothing can be put into it", name_of(call));
  if (c[PUT] - c[TAKEN] == call->in[1].shape.dim[0])
    return status_make(SHOAL_ERR_ARGUMENT, "queue '%s' is full: it holds %lld items, as many as it has room for",
                       name_of(call), (long long)(c[PUT] - c[TAKEN]));
  char *to = item_at(call, c[PUT], &bytes);
  if (bytes) memcpy(to, call->in[2].data, bytes);
  c[PUT]++;
  show_updated(call);
  return NULL;
}

/* ---- dequeue(control, items): control, the oldest item */

static shoal_status dequeue_shape(op_shapes *s) {
  TRY(check_items(s, &s->out[1]));
  s->out_dtype[1] = s->in_dtype[1];
  return NULL;
}

static shoal_status dequeue_kernel(const kernel_call *call) {
  int64_t *c = call->in[0].data;
  size_t bytes;
  TRY(check_state(call));
  if (c[PUT] == c[TAKEN])
    return status_make(SHOAL_ERR_ARGUMENT, "queue '%s' is %sempty: %lld items were put into it and taken out",
                       name_of(call), c[PUT] >= c[MAY_PUT] ? "closed and " : "", (long long)c[PUT]);
  const char *from = item_at(call, c[TAKEN], &bytes);
  if (bytes) memcpy(call->out[1].data, from, bytes);
  c[TAKEN]++;
  show_updated(call);
  return NULL;
}

/* ---- queue_close(control) */

static shoal_status close_shape(op_shapes *s) {
  TRY(check_control(s));
  return shape_as_input(s);
}

static shoal_status close_kernel(const kernel_call *call) {
  int64_t *c = call->in[0].data;
  c[MAY_PUT] = c[PUT];
  show_updated(call);
  return NULL;
}

#define QUEUE_ROW(op, n_ins, n_outs, mask, ...)                                                                \
  {                                                                                                            \
    .name = #op, .attrs = {{"queue", ATTR_TEXT, 0}}, .ins_min = (n_ins), .ins_max = (n_ins), .outs = (n_outs), \
    .flags = OP_STATEFUL | OP_NO_GRADIENT, .updates = (mask), .cost = cost_zero, __VA_ARGS__                   \
  }

const op_row ops_queue[] = {
    QUEUE_ROW(enqueue, 3, 1, 3, .shape = enqueue_shape, .kernel = enqueue_kernel,
              .cases = (const char *const[]){"asc[3]<5 [7,2] [2] queue=tokens", "asc[3]<9 i32[9]<3 i32[]<3", NULL}),
    /* It changes the items in so far as a place becomes free: what is put in before and after keeps its order. */
    QUEUE_ROW(dequeue, 2, 2, 3, .shape = dequeue_shape, .kernel = dequeue_kernel,
              .cases = (const char *const[]){"asc[3]<5 [7,2] queue=tokens", "asc[3]<9 u8[9,2,2]<3", NULL}),
    QUEUE_ROW(queue_close, 1, 1, 1, .shape = close_shape, .kernel = close_kernel,
              .cases = (const char *const[]){"asc[3]<5", NULL}),
    {0}};

shoal_queue shoal_queue_make(shoal_graph *g, const char *name, shoal_dtype dtype, shoal_shape item, int64_t capacity) {
  int64_t start[CONTROL] = {[MAY_PUT] = INT64_MAX};
  shoal_tensor known = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(CONTROL), start);
  shoal_shape ring = {.rank = item.rank + 1, .dim = {capacity}};
  if (capacity < 1 || item.rank >= SHOAL_MAX_RANK) {
    graph_fail(g, status_make(SHOAL_ERR_ARGUMENT,
                              "queue '%s': room for %lld items with %d axes; at least 1 and at "
                              "most %d are possible",
                              name, (long long)capacity, item.rank, SHOAL_MAX_RANK - 1));
    return (shoal_queue){0};
  }
  for (int i = 0; i < item.rank; i++) ring.dim[i + 1] = item.dim[i];
  shoal_queue q = {0};
  shoal_scope_push(g, name);
  q.control = shoal_variable(g, "control", shoal_constant(g, &known));
  q.items = shoal_variable(g, "items", shoal_fill(g, dtype, ring, 0));
  shoal_scope_pop(g);
  return q;
}

shoal_value *shoal_enqueue(shoal_graph *g, const shoal_queue *q, shoal_value *item) {
  char name[STATE_OWNER];
  attr_value attrs[OP_MAX_ATTRS] = {{.s = state_owner(q->control, name)}};
  return graph_op(g, "enqueue", (shoal_value *[]){q->control, q->items, item}, 3, attrs);
}

shoal_value *shoal_dequeue(shoal_graph *g, const shoal_queue *q) {
  char name[STATE_OWNER];
  attr_value attrs[OP_MAX_ATTRS] = {{.s = state_owner(q->control, name)}};
  return shoal_value_output(graph_op(g, "dequeue", (shoal_value *[]){q->control, q->items}, 2, attrs), 1);
}

shoal_value *shoal_queue_close(shoal_graph *g, const shoal_queue *q) {
  char name[STATE_OWNER];
  return GRAPH_UNARY(g, "queue_close", q->control, {.s = state_owner(q->control, name)});
}

shoal_value *shoal_queue_size(shoal_graph *g, const shoal_queue *q) {
  shoal_value *taken = shoal_slice(g, q->control, SHOAL_SHAPE(TAKEN), SHOAL_SHAPE(1));
  shoal_value *put = shoal_slice(g, q->control, SHOAL_SHAPE(PUT), SHOAL_SHAPE(1));
  return shoal_reshape(g, shoal_sub(g, put, taken), SHOAL_SCALAR);
}
