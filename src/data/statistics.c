#include "data/statistics.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

#define ROWS_AT_ONCE 256

typedef struct {
  int64_t rows, numbers;
  double *mean, *squares; /* [numbers]; squares: of the distances from the mean, summed up */
  double *least, *most;   /* [numbers] */
} moments;

static void fini(moments *m) {
  free(m->mean);
  free(m->squares);
  free(m->least);
  free(m->most);
}

static shoal_status init(moments *m, int64_t numbers) {
  size_t n = (size_t)numbers;
  *m = (moments){0,
                 numbers,
                 calloc(n, sizeof(double)),
                 calloc(n, sizeof(double)),
                 malloc(n * sizeof(double)),
                 malloc(n * sizeof(double))};
  if (!m->mean || !m->squares || !m->least || !m->most) {
    fini(m);
    return status_no_memory();
  }
  for (int64_t i = 0; i < numbers; i++) {
    m->least[i] = INFINITY;
    m->most[i] = -INFINITY;
  }
  return NULL;
}

/* Number i of the row that was counted last. Welford's update: exact enough for any number of rows. */
static void add_number(moments *m, int64_t i, double x) {
  double distance = x - m->mean[i];
  m->mean[i] += distance / (double)m->rows;
  m->squares[i] += distance * (x - m->mean[i]);
  m->least[i] = fmin(m->least[i], x);
  m->most[i] = fmax(m->most[i], x);
}

static void add(moments *m, const rows_block *b) {
  double unit = (double)b->schema.scale;
  for (int64_t r = 0; r < b->count; r++) {
    m->rows++;
    for (int64_t i = 0; i < m->numbers; i++) {
      int64_t at = r * m->numbers + i;
      add_number(m, i,
                 unit * (b->schema.dtype == SHOAL_U8 ? ((const uint8_t *)b->features)[at]
                                                     : (double)((const float *)b->features)[at]));
    }
  }
}

static shoal_status read_through(source *s, moments *m) {
  rows_block b;
  rows_init(&b, &s->schema);
  shoal_status status = NULL;
  for (int64_t got = 1; got && !status;) {
    rows_clear(&b);
    status = source_read(s, ROWS_AT_ONCE, &b, &got);
    if (!status) add(m, &b);
  }
  rows_fini(&b);
  if (!status && !m->rows) status = status_make(SHOAL_ERR_INPUT, "%s: no rows found", s->files.paths[0]);
  return status;
}

static shoal_status to_scaling(const moments *m, const char *step, feature_scaling *out) {
  bool standard = !strcmp(step, "standardise");
  size_t n = (size_t)m->numbers;
  feature_scaling s = {strdup(step), m->numbers, malloc(n * sizeof(double)), malloc(n * sizeof(double))};
  if (!s.step || !s.shift || !s.scale) {
    feature_scaling_fini(&s);
    return status_no_memory();
  }
  for (int64_t i = 0; i < m->numbers; i++) {
    double width = standard ? sqrt(m->squares[i] / (double)m->rows) : m->most[i] - m->least[i];
    s.shift[i] = standard ? m->mean[i] : m->least[i];
    bool constant = !(width > 1e-12 * fmax(fabs(m->least[i]), fabs(m->most[i])));
    s.scale[i] = constant ? 1 : 1 / width;
  }
  *out = s;
  return NULL;
}

shoal_status statistics_learn(const source_options *options, const char *step, feature_scaling *out) {
  source_options o = *options;
  o.shard = o.shards = 0;
  o.shuffle = false;
  source s;
  TRY(source_init(&s, &o));
  int64_t numbers = shoal_shape_count(&s.schema.shape);
  moments m;
  shoal_status status = numbers > FEATURE_SCALING_MAX
                            ? status_make(SHOAL_ERR_ARGUMENT,
                                          "transform: %s keeps statistics of at most %d numbers a row, these "
                                          "have %lld",
                                          step, FEATURE_SCALING_MAX, (long long)numbers)
                            : init(&m, numbers);
  if (!status) {
    status = read_through(&s, &m);
    if (!status) status = to_scaling(&m, step, out);
    fini(&m);
  }
  source_fini(&s);
  return status;
}

shoal_status statistics_narrow(feature_scaling *s, const float *rows, const int32_t *which, int64_t n) {
  moments m;
  feature_scaling again = {0};
  TRY(init(&m, s->count));
  for (int64_t r = 0; r < n; r++) {
    m.rows++;
    for (int64_t i = 0; i < s->count; i++) add_number(&m, i, (double)rows[which[r] * s->count + i]);
  }
  shoal_status status = to_scaling(&m, s->step, &again);
  fini(&m);
  for (int64_t i = 0; i < s->count && !status; i++) { /* one after the other, as one */
    s->shift[i] += again.shift[i] / s->scale[i];
    s->scale[i] *= again.scale[i];
  }
  feature_scaling_fini(&again);
  return status;
}
