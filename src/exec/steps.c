/* Many steps in one call: see session_run_steps. */
#include "exec/plan.h"

#include "base/mem.h"

#include <math.h>

#define FEEDS_MAX 16
#define FETCHES_MAX 16

typedef enum { WHOLE, BY_ROWS, OFFSETS, ENTRIES, BY_STEPS } cut;

/* How a run's feeds are cut into steps. */
typedef struct {
  const shoal_feed *feeds;
  int n;
  cut how[FEEDS_MAX];
  const int64_t *offsets; /* NULL: no rows are ragged */
  int64_t rows, step_rows;
} cutter;

static shoal_status plan_cut(const shoal_feed *feeds, int n, int64_t step_rows, cutter *out) {
  if (n > FEEDS_MAX) return status_make(SHOAL_ERR_ARGUMENT, "at most %d feeds can be cut into steps", FEEDS_MAX);
  cutter c = {.feeds = feeds, .n = n, .rows = -1, .step_rows = step_rows};
  for (int i = 0; i < n; i++) {
    const shoal_shape *shape = &feeds[i].value->shape, *fed = &feeds[i].tensor.shape;
    c.how[i] = feeds[i].value->maker->offsets                  ? ENTRIES
               : shape->rank && shape->dim[0] == SHOAL_UNKNOWN ? BY_ROWS
               : !shape->rank && fed->rank == 1                ? BY_STEPS
                                                               : WHOLE;
  }
  for (int i = 0; i < n; i++)
    for (int k = 0; c.how[i] == ENTRIES && k < n; k++)
      if (feeds[k].value == feeds[i].value->maker->offsets) {
        c.how[k] = OFFSETS;
        c.offsets = feeds[k].tensor.data;
      }
  for (int i = 0; i < n; i++) {
    int64_t rows = c.how[i] == BY_ROWS   ? feeds[i].tensor.shape.dim[0]
                   : c.how[i] == OFFSETS ? feeds[i].tensor.shape.dim[0] - 1
                                         : c.rows;
    if (c.rows >= 0 && rows != c.rows)
      return status_make(SHOAL_ERR_ARGUMENT, "'%s' has %lld rows, the feeds before it %lld",
                         shoal_value_name(feeds[i].value), (long long)rows, (long long)c.rows);
    c.rows = rows;
  }
  if (c.rows < 1 || step_rows < 1) return status_make(SHOAL_ERR_ARGUMENT, "no feed has rows to be cut into steps");
  *out = c;
  return NULL;
}

/* The feeds of rows [first, first + step_rows) alone. */
static int64_t feeds_of(const cutter *c, int64_t first, shoal_feed *out) {
  const int64_t rows = MIN_OF(c->step_rows, c->rows - first);
  for (int i = 0; i < c->n; i++) {
    out[i] = c->feeds[i];
    shoal_tensor *t = &out[i].tensor;
    const size_t size = shoal_dtype_size(t->dtype);
    size_t row = size;
    for (int k = 1; k < t->shape.rank; k++) row *= (size_t)t->shape.dim[k];
    switch (c->how[i]) {
      case WHOLE: break;
      case BY_ROWS:
        if (t->rows)
          t->rows += first;
        else
          t->data = (char *)t->data + (size_t)first * row;
        t->shape.dim[0] = rows;
        break;
      case OFFSETS:
        t->data = (char *)t->data + (size_t)first * size;
        t->shape.dim[0] = rows + 1;
        break;
      case ENTRIES:
        t->data = (char *)t->data + (size_t)(c->offsets[first] - c->offsets[0]) * size;
        t->shape.dim[0] = c->offsets[first + rows] - c->offsets[first];
        break;
      case BY_STEPS:
        t->data = (char *)t->data + (size_t)(first / c->step_rows) * size;
        t->shape = SHOAL_SCALAR;
        break;
    }
  }
  return rows;
}

/* The first row of the step with most entries: a plan for it has room for all. */
static int64_t largest_step(const cutter *c) {
  int64_t most = -1, at = 0;
  for (int64_t i = 0; c->offsets && i < c->rows; i += c->step_rows) {
    int64_t entries = c->offsets[MIN_OF(i + c->step_rows, c->rows)] - c->offsets[i];
    if (entries > most) {
      most = entries;
      at = i;
    }
  }
  return at;
}

static double scalar_of(const shoal_tensor *t) { return t->shape.rank || !t->data ? NAN : shoal_tensor_get(t, 0); }

static shoal_status one_by_one(shoal_session *s, const cutter *c, shoal_value *const *fetches, int n_fetches,
                               double *means) {
  shoal_feed feeds[FEEDS_MAX];
  shoal_tensor got[FETCHES_MAX];
  for (int i = 0; i < n_fetches; i++) means[i] = 0;
  for (int64_t first = 0; first < c->rows; first += c->step_rows) {
    int64_t rows = feeds_of(c, first, feeds);
    TRY(shoal_session_run(s, feeds, c->n, fetches, n_fetches, got));
    for (int i = 0; i < n_fetches; i++) means[i] += scalar_of(&got[i]) * (double)rows / (double)c->rows;
  }
  return NULL;
}

shoal_status session_run_steps(shoal_session *s, const shoal_feed *feeds, int n_feeds, shoal_value *const *fetches,
                               int n_fetches, int64_t step_rows, double *means) {
  cutter c;
  TRY(plan_cut(feeds, n_feeds, step_rows, &c));
  if (n_fetches > FETCHES_MAX) return status_make(SHOAL_ERR_ARGUMENT, "at most %d fetches", FETCHES_MAX);
  shoal_feed part[FEEDS_MAX];
  feeds_of(&c, largest_step(&c), part);
  plan_request request = {.session = s,
                          .fetches = fetches,
                          .n_fetches = n_fetches,
                          .feeds = part,
                          .n_feeds = n_feeds,
                          .reference = s->reference};
  plan *p;
  TRY(session_plan(s, &request, &p));
  if (!plan_makes_steps(p)) return one_by_one(s, &c, fetches, n_fetches, means);
  shoal_tensor got[FETCHES_MAX];
  TRY(plan_run_steps(p, feeds, step_rows, got));
  s->step += (uint64_t)((c.rows + step_rows - 1) / step_rows);
  for (int i = 0; i < n_fetches; i++) means[i] = scalar_of(&got[i]);
  return NULL;
}
