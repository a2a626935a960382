/* Operators that place elements axis by axis: the output's element (i, j, ...) is the input's (m(i), n(j), ...), or a
 * constant where an axis map says so. Strided slices, padding, tiles, repeats and rolls differ in the map alone; one walk
 * serves all of them, and one their gradients. */
#include "graph/ops/ops.h"
#include "graph/ops/util.h"
#include "tensor/limits.h"

#include <string.h>

/* NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(SHOAL_END == TENSOR_MAX_BYTES, "an attribute may be that large");

/* Where element i of an output axis comes from on an input axis of `extent` elements; below 0: from nowhere. */
typedef int64_t (*axis_map)(const attr_value *attr, int axis, int64_t extent, int64_t i);

typedef struct {
  const attr_value *attr;
  axis_map map;
  const shoal_shape *from, *to; /* of the operator, also in its gradient */
  int64_t step_from[SHOAL_MAX_RANK], step_to[SHOAL_MAX_RANK];
  int inner;                /* axes from here on are left as they are: */
  int64_t run;              /* so many elements one after the other */
  const shoal_tensor *fill; /* one element: what comes from nowhere */
} remap;

static bool left_alone(const remap *r, int axis) {
  int64_t d = r->from->dim[axis];
  if (d != r->to->dim[axis]) return false;
  return d == 0 || (r->map(r->attr, axis, d, 0) == 0 && r->map(r->attr, axis, d, d - 1) == d - 1);
}

static remap remap_make(const attr_value *attr, axis_map map, const shoal_shape *from, const shoal_shape *to) {
  remap r = {.attr = attr, .map = map, .from = from, .to = to, .inner = to->rank, .run = 1};
  shape_strides(from, r.step_from);
  shape_strides(to, r.step_to);
  while (r.inner > 0 && left_alone(&r, r.inner - 1)) r.run *= to->dim[--r.inner];
  return r;
}

/* ---- forward: the part of the output at y from the part of the input at x, from `axis` on; x NULL: constant */

static void fill_run(const remap *r, char *y, int64_t n) {
  size_t size = shoal_dtype_size(r->fill->dtype);
  for (int64_t i = 0; i < n; i++) memcpy(y + (size_t)i * size, r->fill->data, size);
}

static void place_axis(const remap *r, int axis, size_t size, const char *x, char *y) {
  if (axis == r->inner) {
    if (x)
      memcpy(y, x, (size_t)r->run * size);
    else
      fill_run(r, y, r->run);
    return;
  }
  int64_t extent = r->from->dim[axis];
  for (int64_t i = 0; i < r->to->dim[axis]; i++) {
    int64_t at = x ? r->map(r->attr, axis, extent, i) : -1;
    place_axis(r, axis + 1, size, at < 0 ? NULL : x + (size_t)(at * r->step_from[axis]) * size,
               y + (size_t)(i * r->step_to[axis]) * size);
  }
}

static void place(const kernel_call *call, axis_map map, double constant) {
  if (!shoal_tensor_count(&call->out[0])) return;
  uint64_t cell = 0;
  shoal_tensor fill = {.dtype = call->in[0].dtype, .data = &cell};
  shoal_tensor_set(&fill, 0, constant);
  remap r = remap_make(call->attr, map, &call->in[0].shape, &call->out[0].shape);
  r.fill = &fill;
  place_axis(&r, 0, shoal_dtype_size(fill.dtype), call->in[0].data, call->out[0].data);
}

/* ---- backward: what each output element is handed goes to where it came from */

#define COLLECT_AXIS(name, real)                                                               \
  static void name(const remap *r, int axis, const real *dy, real *dx) {                       \
    if (axis == r->inner) {                                                                    \
      for (int64_t i = 0; i < r->run; i++) dx[i] += dy[i];                                     \
      return;                                                                                  \
    }                                                                                          \
    for (int64_t i = 0; i < r->to->dim[axis]; i++) {                                           \
      int64_t at = r->map(r->attr, axis, r->from->dim[axis], i);                               \
      if (at >= 0) name(r, axis + 1, dy + i * r->step_to[axis], dx + at * r->step_from[axis]); \
    }                                                                                          \
  }
COLLECT_AXIS(collect_f32, float)
COLLECT_AXIS(collect_f64, double)

static shoal_status collect(const kernel_call *call, axis_map map) {
  remap r = remap_make(call->attr, map, &call->out[0].shape, &call->in[0].shape);
  memset(call->out[0].data, 0, shoal_tensor_bytes(&call->out[0]));
  if (!shoal_tensor_count(&call->in[0])) return NULL;
  switch (call->out[0].dtype) {
    case SHOAL_F32: collect_f32(&r, 0, call->in[0].data, call->out[0].data); return NULL;
    case SHOAL_F64: collect_f64(&r, 0, call->in[0].data, call->out[0].data); return NULL;
    default: return kernel_wrong_dtype(call);
  }
}

/* (dy, like): dy has the shape that the rule makes of `like`. */
static shoal_status grad_shape(op_shapes *s, shoal_status (*rule)(op_shapes *)) {
  shoal_shape y;
  op_shapes forward = {1, 1, &s->in[1], &s->in_dtype[1], s->attr, &y, &(shoal_dtype){0}};
  TRY(rule_float(s, 0, "dy"));
  TRY(rule_same_dtype(s));
  TRY(rule(&forward));
  if (!shapes_fit(&y, &s->in[0])) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_ARGUMENT, "dy %s must be %s", shoal_shape_text(&s->in[0], a), shoal_shape_text(&y, b));
  }
  s->out[0] = s->in[1];
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

/* One number for each axis of input 0. */
static shoal_status check_list(const op_shapes *s, int attr, const char *what) {
  if (s->attr[attr].list.rank == s->in[0].rank) return NULL;
  char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
  return status_make(SHOAL_ERR_ARGUMENT, "%s %s must have one number for each axis of %s", what,
                     shoal_shape_text(&s->attr[attr].list, a), shoal_shape_text(&s->in[0], b));
}

static op_batch batch_if(const op_shapes *s, bool first_axis_stays) {
  for (int i = 0; i < s->ins; i++)
    if (!shape_is_batched(&s->in[i])) return BATCH_WHOLE;
  return first_axis_stays ? batch_map(s) : BATCH_WHOLE;
}

/* ---- strided_slice(x; start, stop, step): as start:stop:step in Python */

enum { START, STOP, STEP };

/* The first index, and how many there are. */
static int64_t slice_first(const attr_value *attr, int axis, int64_t extent) {
  int64_t start = attr[START].list.dim[axis], step = attr[STEP].list.dim[axis];
  if (start < 0) start += extent;
  if (step > 0) return start < 0 ? 0 : start > extent ? extent : start;
  return start < 0 ? -1 : start >= extent ? extent - 1 : start;
}

static int64_t slice_count(const attr_value *attr, int axis, int64_t extent) {
  int64_t stop = attr[STOP].list.dim[axis], step = attr[STEP].list.dim[axis], first = slice_first(attr, axis, extent);
  if (stop < 0) stop += extent;
  if (step > 0) {
    stop = stop < 0 ? 0 : stop > extent ? extent : stop;
    return stop <= first ? 0 : (stop - first - 1) / step + 1;
  }
  stop = stop < -1 ? -1 : stop > extent ? extent : stop;
  return stop >= first ? 0 : (first - stop - 1) / -step + 1;
}

static shoal_status strided_slice_shape(op_shapes *s) {
  TRY(check_list(s, START, "start"));
  TRY(check_list(s, STOP, "stop"));
  TRY(check_list(s, STEP, "step"));
  s->out[0] = s->in[0];
  for (int i = 0; i < s->in[0].rank; i++) {
    if (s->attr[STEP].list.dim[i] == 0) return status_make(SHOAL_ERR_ARGUMENT, "the step along axis %d is 0", i);
    if (s->in[0].dim[i] != SHOAL_UNKNOWN) s->out[0].dim[i] = slice_count(s->attr, i, s->in[0].dim[i]);
  }
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static int64_t strided_slice_map(const attr_value *attr, int axis, int64_t extent, int64_t i) {
  return slice_first(attr, axis, extent) + i * attr[STEP].list.dim[axis];
}

static bool strided_slice_stays(const attr_value *attr) {
  return attr[START].list.dim[0] == 0 && attr[STOP].list.dim[0] == SHOAL_END && attr[STEP].list.dim[0] == 1;
}

/* ---- pad(x; before, after, mode, value) */

enum { BEFORE, AFTER, MODE, VALUE };

static shoal_status pad_shape(op_shapes *s) {
  TRY(check_list(s, BEFORE, "before"));
  TRY(check_list(s, AFTER, "after"));
  int64_t mode = s->attr[MODE].i;
  if (mode < SHOAL_PAD_CONSTANT || mode > SHOAL_PAD_EDGE)
    return status_make(SHOAL_ERR_ARGUMENT, "there is no padding of mode %lld", (long long)mode);
  s->out[0] = s->in[0];
  for (int i = 0; i < s->in[0].rank; i++) {
    int64_t before = s->attr[BEFORE].list.dim[i], after = s->attr[AFTER].list.dim[i], d = s->in[0].dim[i];
    if (before < 0 || after < 0)
      return status_make(SHOAL_ERR_ARGUMENT, "padding along axis %d must be at least 0, not %lld and %lld", i,
                         (long long)before, (long long)after);
    if (d == SHOAL_UNKNOWN) continue;
    /* What is repeated must be there. */
    int64_t most = mode == SHOAL_PAD_REFLECT ? d - 1 : mode == SHOAL_PAD_SYMMETRIC ? d : TENSOR_MAX_BYTES;
    if (mode == SHOAL_PAD_EDGE && d == 0) most = 0;
    if ((before > most || after > most) && (before || after))
      return status_make(SHOAL_ERR_ARGUMENT, "axis %d of %lld elements cannot be padded by %lld and %lld in this mode",
                         i, (long long)d, (long long)before, (long long)after);
    s->out[0].dim[i] = d + before + after;
  }
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}

static int64_t pad_map(const attr_value *attr, int axis, int64_t extent, int64_t i) {
  int64_t at = i - attr[BEFORE].list.dim[axis];
  if (at >= 0 && at < extent) return at;
  switch (attr[MODE].i) {
    case SHOAL_PAD_REFLECT: return at < 0 ? -at : 2 * extent - 2 - at;
    case SHOAL_PAD_SYMMETRIC: return at < 0 ? -at - 1 : 2 * extent - 1 - at;
    case SHOAL_PAD_EDGE: return at < 0 ? 0 : extent - 1;
    default: return -1;
  }
}

static bool pad_stays(const attr_value *attr) { return attr[BEFORE].list.dim[0] == 0 && attr[AFTER].list.dim[0] == 0; }

/* ---- tile(x; times): the whole again and again; repeat(x; times): each element again and again */

static shoal_status tile_shape(op_shapes *s) {
  TRY(check_list(s, 0, "times"));
  s->out[0] = s->in[0];
  for (int i = 0; i < s->in[0].rank; i++) {
    int64_t times = s->attr[0].list.dim[i];
    if (times < 0)
      return status_make(SHOAL_ERR_ARGUMENT, "times along axis %d must be at least 0, not %lld", i, (long long)times);
    if (s->in[0].dim[i] != SHOAL_UNKNOWN) s->out[0].dim[i] = count_times(s->in[0].dim[i], times);
  }
  s->out_dtype[0] = s->in_dtype[0];
  return NULL;
}
#define repeat_shape tile_shape

static int64_t tile_map(const attr_value *attr, int axis, int64_t extent, int64_t i) { return i % extent; }
static int64_t repeat_map(const attr_value *attr, int axis, int64_t extent, int64_t i) {
  return i / attr[0].list.dim[axis];
}
static bool tile_stays(const attr_value *attr) { return attr[0].list.dim[0] == 1; }
#define repeat_stays tile_stays

/* ---- roll(x; shift): each axis turned, so that element 0 comes to `shift` */

static shoal_status roll_shape(op_shapes *s) {
  TRY(check_list(s, 0, "shift"));
  return shape_as_input(s);
}

static int64_t roll_map(const attr_value *attr, int axis, int64_t extent, int64_t i) {
  int64_t at = (i - attr[0].list.dim[axis]) % extent;
  return at < 0 ? at + extent : at;
}

static bool roll_stays(const attr_value *attr) { return attr[0].list.dim[0] == 0; }

/* ---- rows */

#define REMAP_KERNELS(op, constant)                                                                                \
  static shoal_status op##_kernel(const kernel_call *call) {                                                       \
    place(call, op##_map, constant);                                                                               \
    return NULL;                                                                                                   \
  }                                                                                                                \
  static shoal_status op##_grad_kernel(const kernel_call *call) { return collect(call, op##_map); }                \
  static shoal_status op##_grad_shape(op_shapes *s) { return grad_shape(s, op##_shape); }                          \
  static op_batch op##_batch(const op_shapes *s) { return batch_if(s, s->in[0].rank > 0 && op##_stays(s->attr)); } \
  static void op##_gradient(op_grad_call *c) {                                                                     \
    c->dx[0].value = graph_op(c->graph, #op "_grad", (shoal_value *[]){c->dy[0], c->in[0]}, 2, c->attr);           \
  }
REMAP_KERNELS(strided_slice, 0)
REMAP_KERNELS(pad, call->attr[VALUE].f)
REMAP_KERNELS(tile, 0)
REMAP_KERNELS(repeat, 0)
REMAP_KERNELS(roll, 0)

#define REMAP_ROWS(op, cases_, grad_cases, ...)                                                                     \
  {.name = #op,                                                                                                     \
   .attrs = {__VA_ARGS__},                                                                                          \
   .ins_min = 1,                                                                                                    \
   .ins_max = 1,                                                                                                    \
   .outs = 1,                                                                                                       \
   .shape = op##_shape,                                                                                             \
   .batch = op##_batch,                                                                                             \
   .gradient = op##_gradient,                                                                                       \
   .kernel = op##_kernel,                                                                                           \
   .cost = cost_zero,                                                                                               \
   .cases = cases_},                                                                                                \
  {                                                                                                                 \
    .name = #op "_grad", .attrs = {__VA_ARGS__}, .ins_min = 2, .ins_max = 2, .outs = 1, .flags = OP_GRADIENT_ONLY,  \
    .shape_only = 2, .shape = op##_grad_shape, .batch = op##_batch, .kernel = op##_grad_kernel, .cost = cost_input, \
    .cases = grad_cases                                                                                             \
  }

static const char *const strided_slice_cases[] = {"[7,5] start=1,0 stop=6,5 step=2,1",
                                                  "[7,5] start=-1,-2 stop=-70368744177664,0 step=-3,-1",
                                                  "[?5,6] start=0,4 stop=70368744177664,1 step=1,-1",
                                                  "[?5,6] start=1,0 stop=4,6 step=2,1",
                                                  "i64[9]<9 start=8 stop=-9 step=-2",
                                                  "[3,4,2] start=0,3,0 stop=3,1,2 step=1,1,1",
                                                  "[] ",
                                                  NULL};
static const char *const strided_slice_grad_cases[] = {"[3,5] [7,5] start=1,0 stop=6,5 step=2,1",
                                                       "[?5,3] [?5,6] start=0,4 stop=70368744177664,1 step=1,-1", NULL};
static const char *const pad_cases[] = {"[3,4] before=1,0 after=2,1 value=0.5",
                                        "[?5,3,2] before=0,1,0 after=0,2,0",
                                        "[?5,4] before=2,1 after=0,0",
                                        "[4,3] before=3,2 after=2,1 mode=1",
                                        "[?5,4] before=0,4 after=0,4 mode=2",
                                        "[2,1,3] before=1,2,0 after=0,3,1 mode=3",
                                        "i32[3]<9 before=1 after=1 value=7",
                                        "[0] before=2 after=1",
                                        NULL};
static const char *const pad_grad_cases[] = {
    "[6,5] [3,4] before=1,0 after=2,1", "[9,6] [4,3] before=3,2 after=2,1 mode=1",
    "[?5,12] [?5,4] before=0,4 after=0,4 mode=2", "[3,6,4] [2,1,3] before=1,2,0 after=0,3,1 mode=3", NULL};
static const char *const times_cases[] = {"[3,2] times=2,3",     "[?5,3,2] times=1,2,1", "[?5,2] times=2,1",
                                          "u8[2,2]<9 times=1,2", "[4] times=0",          NULL};
static const char *const times_grad_cases[] = {"[6,6] [3,2] times=2,3", "[?5,6,2] [?5,3,2] times=1,2,1", NULL};
static const char *const roll_cases[] = {"[5,3] shift=2,-1", "[?5,4] shift=0,7", "i32[6]<9 shift=-8", NULL};
static const char *const roll_grad_cases[] = {"[5,3] [5,3] shift=2,-1", "[?5,4] [?5,4] shift=0,7", NULL};

#define SLICE_ATTRS \
  {"start", ATTR_LIST, 0}, {"stop", ATTR_LIST, 0}, { "step", ATTR_LIST, 0 }
#define PAD_ATTRS \
  {"before", ATTR_LIST, 0}, {"after", ATTR_LIST, 0}, {"mode", ATTR_INT, 0}, { "value", ATTR_FLOAT, 0 }

const op_row ops_remap[] = {REMAP_ROWS(strided_slice, strided_slice_cases, strided_slice_grad_cases, SLICE_ATTRS),
                            REMAP_ROWS(pad, pad_cases, pad_grad_cases, PAD_ATTRS),
                            REMAP_ROWS(tile, times_cases, times_grad_cases, {"times", ATTR_LIST, 0}),
                            REMAP_ROWS(repeat, times_cases, times_grad_cases, {"times", ATTR_LIST, 0}),
                            REMAP_ROWS(roll, roll_cases, roll_grad_cases, {"shift", ATTR_LIST, 0}),
                            {0}};

shoal_value *shoal_strided_slice(shoal_graph *g, shoal_value *x, shoal_shape start, shoal_shape stop,
                                 shoal_shape step) {
  return GRAPH_UNARY(g, "strided_slice", x, ATTR_L(start), ATTR_L(stop), ATTR_L(step));
}

shoal_value *shoal_reverse(shoal_graph *g, shoal_value *x, shoal_shape axes) {
  if (!x) return NULL;
  int rank = x->shape.rank;
  shoal_shape start = {.rank = rank}, stop = {.rank = rank}, step = {.rank = rank};
  uint32_t turned = 0;
  shoal_status status = rule_axes(&axes, rank, &turned);
  if (status) {
    graph_fail(g, status_wrap(status, "reverse"));
    return NULL;
  }
  for (int i = 0; i < rank; i++) {
    bool turn = turned >> i & 1;
    start.dim[i] = turn ? -1 : 0;
    stop.dim[i] = turn ? -SHOAL_END : SHOAL_END;
    step.dim[i] = turn ? -1 : 1;
  }
  return shoal_strided_slice(g, x, start, stop, step);
}

shoal_value *shoal_pad(shoal_graph *g, shoal_value *x, shoal_shape before, shoal_shape after, shoal_pad_mode mode,
                       double value) {
  return GRAPH_UNARY(g, "pad", x, ATTR_L(before), ATTR_L(after), ATTR_I(mode), ATTR_F(value));
}

shoal_value *shoal_tile(shoal_graph *g, shoal_value *x, shoal_shape times) {
  return GRAPH_UNARY(g, "tile", x, ATTR_L(times));
}

shoal_value *shoal_repeat(shoal_graph *g, shoal_value *x, shoal_shape times) {
  return GRAPH_UNARY(g, "repeat", x, ATTR_L(times));
}

shoal_value *shoal_roll(shoal_graph *g, shoal_value *x, shoal_shape shift) {
  return GRAPH_UNARY(g, "roll", x, ATTR_L(shift));
}
