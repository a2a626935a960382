/* What ranks of a simulation send, and what compressing it costs: the formats and factors of a real job, timed here. */
#include "base/clock.h"
#include "base/mem.h"
#include "dist/wire_format.h"
#include "run/simulation.h"
#include "run/units.h"
#include "train/compress.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { SAMPLE = 4096 * WIRE_GRAIN }; /* numbers that formats are timed with, and factors of a model that is not known */
enum { TIMES = 3 };                  /* the fastest of so many counts */
enum { STANDARD_RANK = 4 };

static float *make_numbers(int64_t n) {
  float *to = malloc((size_t)n * sizeof *to);
  for (int64_t i = 0; to && i < n; i++) to[i] = (float)(i * 2654435761 % 1000003) * 1e-6F - 0.5F;
  return to;
}

/* ---- wire formats */

typedef struct {
  double encode, decode; /* seconds, of a number */
} coding;

static shoal_status time_format(const wire_format *f, coding *out) {
  float *numbers = make_numbers(SAMPLE), *back = malloc(SAMPLE * sizeof *back);
  void *code = malloc((size_t)f->bytes(SAMPLE));
  coding best = {DBL_MAX, DBL_MAX};
  for (int i = 0; numbers && back && code && i < TIMES; i++) {
    const double begun = clock_seconds();
    f->encode(numbers, code, SAMPLE);
    const double coded = clock_seconds();
    f->decode(code, back, SAMPLE);
    best = (coding){MIN_OF(best.encode, coded - begun), MIN_OF(best.decode, clock_seconds() - coded)};
  }
  const bool good = numbers && back && code;
  free(numbers);
  free(back);
  free(code);
  if (!good) return status_no_memory();
  *out = (coding){best.encode / SAMPLE, best.decode / SAMPLE};
  return NULL;
}

/* As dist/collective.c does: all are encoded, and with feedback decoded to see what is left out; then others' numbers of the
 * own part are decoded, their sum is encoded, and all sums are decoded. */
static shoal_status cost_format(simulation *s, const wire_format *f) {
  const double n = s->parameters, part = n / s->workers;
  coding c;
  TRY(time_format(f, &c));
  s->coding[0] = n * (c.encode + (f->feedback ? c.decode : 0));
  s->coding[1] = (n - part) * c.decode + part * c.encode + n * c.decode;
  return NULL;
}

/* ---- PowerSGD */

static int rank_of(const simulation *s) {
  return s->options->compress_rank ? (int)s->options->compress_rank : STANDARD_RANK;
}

static shoal_status time_factors(low_rank *l, int tensors, int64_t count, double seconds[SIMULATED_EXCHANGES + 1]) {
  int64_t n[SIMULATED_EXCHANGES] = {0};
  for (int i = 0; i < tensors; i++) {
    n[0] += low_rank_first_count(l, i);
    n[1] += low_rank_second_count(l, i);
  }
  float *gradients = make_numbers(count), *first = calloc((size_t)n[0] + 1, sizeof *first),
        *second = calloc((size_t)n[1] + 1, sizeof *second);
  const bool good = gradients && first && second;
  for (int i = 0; i <= SIMULATED_EXCHANGES; i++) seconds[i] = DBL_MAX;
  for (int i = 0; good && i < TIMES; i++) {
    double at[SIMULATED_EXCHANGES + 2] = {clock_seconds()};
    low_rank_first(l, gradients, first);
    at[1] = clock_seconds();
    low_rank_second(l, first, second);
    at[2] = clock_seconds();
    low_rank_finish(l, first, second, gradients);
    at[3] = clock_seconds();
    for (int k = 0; k <= SIMULATED_EXCHANGES; k++) seconds[k] = MIN_OF(seconds[k], at[k + 1] - at[k]);
  }
  free(gradients);
  free(first);
  free(second);
  return good ? NULL : status_no_memory();
}

/* Of the model's tensors; where they are not known, of one square matrix, a smaller one of which is timed. */
static shoal_status factor(simulation *s, bool timed) {
  const double side = sqrt(s->parameters), small = floor(sqrt(MIN_OF(s->parameters, (double)SAMPLE)));
  const low_rank_shape square = {(int64_t)small, (int64_t)small}, *shapes = s->shapes ? s->shapes : &square;
  const int tensors = s->shapes ? s->tensors : 1;
  int64_t count = 0;
  low_rank *l;
  TRY(low_rank_create(shapes, tensors, rank_of(s), 1, &l));
  s->numbers[0] = s->numbers[1] = 0;
  for (int i = 0; i < tensors; i++) {
    s->numbers[0] += (double)low_rank_first_count(l, i);
    s->numbers[1] += (double)low_rank_second_count(l, i);
    count += shapes[i].rows * shapes[i].columns;
  }
  if (!s->shapes && s->numbers[1] > 0) s->numbers[0] = s->numbers[1] = side * rank_of(s);
  if (!s->shapes && s->numbers[1] == 0) s->numbers[0] = s->parameters;
  shoal_status status = timed ? time_factors(l, tensors, count, s->coding) : NULL;
  for (int k = 0; timed && !status && k <= SIMULATED_EXCHANGES; k++) s->coding[k] *= s->parameters / (double)count;
  low_rank_destroy(l);
  return status;
}

/* ---- all of it */

shoal_status simulate_compress(simulation *s) {
  const shoal_simulate_options *o = s->options;
  const char *name = s->way ? s->way : o->wire ? o->wire : "f32";
  const wire_format *f = wire_format_find(name);
  const bool factors = !strcmp(name, compress_way(COMPRESS_POWERSGD)), timed = s->way && !o->coding;
  double million = 0;
  if (!f && !factors) return status_make(SHOAL_ERR_ARGUMENT, "`wire_format`: there is no '%s'", name);
  if (o->coding && strcmp(o->coding, "0") != 0 && !units_time(o->coding, &million))
    return status_make(SHOAL_ERR_ARGUMENT, "`coding_cost`: expected a time such as 2ms, not '%s'", o->coding);
  s->way = name;
  s->numbers[0] = s->parameters;
  s->numbers[1] = 0;
  memset(s->coding, 0, sizeof s->coding);
  if (!f) f = wire_format_find("f32");
  s->wire = (double)f->bytes(1 << 20) / (1 << 20);
  if (factors || f->encode) s->coding[0] = million / 1e6 * s->parameters;
  if (factors) return factor(s, timed);
  return timed && f->encode ? cost_format(s, f) : NULL;
}
