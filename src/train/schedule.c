/* Learning-rate schedules: one row each. */
#include "base/mem.h"
#include "base/text.h"
#include "shoal/train.h"

#include <math.h>
#include <string.h>

typedef struct {
  const char *name;
  /* Steps from `warmup` on; `step` counts from the start of training. */
  double (*at)(const shoal_schedule *s, int64_t step);
  shoal_status (*check)(const shoal_schedule *s); /* NULL: nothing beyond what all need */
} schedule_row;

static double constant_at(const shoal_schedule *s, int64_t step) { return s->rate; }

static double staircase_at(const shoal_schedule *s, int64_t step) {
  const int64_t stairs = (step - s->warmup) / s->every;
  return s->rate * pow(s->factor, (double)stairs);
}

static double exponential_at(const shoal_schedule *s, int64_t step) {
  return s->rate * pow(s->factor, (double)(step - s->warmup) / (double)s->every);
}

static shoal_status check_decay(const shoal_schedule *s) {
  if (s->every <= 0)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "every is %lld: give the number of steps after which the rate is multiplied "
                       "by factor",
                       (long long)s->every);
  if (!(s->factor > 0) || !isfinite(s->factor))
    return status_make(SHOAL_ERR_ARGUMENT, "factor is %g: expected a number above 0, e.g. 0.9", s->factor);
  return NULL;
}

static double cosine_at(const shoal_schedule *s, int64_t step) {
  double done = (double)(step - s->warmup) / (double)s->every;
  if (done >= 1) return s->final_rate;
  return s->final_rate + (s->rate - s->final_rate) * 0.5 * (1 + cos(M_PI * done));
}

static shoal_status check_cosine(const shoal_schedule *s) {
  if (s->every <= 0)
    return status_make(SHOAL_ERR_ARGUMENT, "every is %lld: give the number of steps from rate down to final_rate",
                       (long long)s->every);
  if (!(s->final_rate >= 0) || !isfinite(s->final_rate))
    return status_make(SHOAL_ERR_ARGUMENT, "final_rate is %g: expected a number of at least 0", s->final_rate);
  return NULL;
}

static double piecewise_at(const shoal_schedule *s, int64_t step) {
  double rate = s->rate;
  for (int i = 0; i < s->pieces && step >= s->boundaries[i]; i++) rate = s->rates[i];
  return rate;
}

static shoal_status check_piecewise(const shoal_schedule *s) {
  if (s->pieces < 1 || !s->boundaries || !s->rates)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "boundaries, rates and pieces must be given: from step boundaries[i] on the "
                       "rate is rates[i]");
  for (int i = 0; i < s->pieces; i++) {
    if (i && s->boundaries[i] <= s->boundaries[i - 1])
      return status_make(SHOAL_ERR_ARGUMENT, "boundaries[%d] = %lld does not come after boundaries[%d] = %lld", i,
                         (long long)s->boundaries[i], i - 1, (long long)s->boundaries[i - 1]);
    if (!(s->rates[i] >= 0) || !isfinite(s->rates[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "rates[%d] is %g: expected a number of at least 0", i, s->rates[i]);
  }
  return NULL;
}

#define SCHEDULES(X)                          \
  X(constant, constant_at, NULL)              \
  X(staircase, staircase_at, check_decay)     \
  X(exponential, exponential_at, check_decay) \
  X(cosine, cosine_at, check_cosine)          \
  X(piecewise, piecewise_at, check_piecewise)

#define AS_ROW(name, at, check) {#name, at, check},
#define AS_NAME(name, at, check) #name,
static const schedule_row schedules[] = {SCHEDULES(AS_ROW)};
static const char *const names[] = {SCHEDULES(AS_NAME) NULL};

const char *const *shoal_schedule_names(void) { return names; }

static const schedule_row *find(const shoal_schedule *s) {
  if (!s->name) return &schedules[0];
  for (size_t i = 0; i < COUNT_OF(schedules); i++)
    if (!strcmp(schedules[i].name, s->name)) return &schedules[i];
  return NULL;
}

double shoal_schedule_at(const shoal_schedule *s, int64_t step) {
  const schedule_row *row = find(s);
  if (!row) return NAN;
  /* Step 0 gets the first share, so that no step is spent on a rate of 0; step `warmup` is the first at full rate. */
  if (step < s->warmup) return s->rate * (double)(step + 1) / (double)(s->warmup + 1);
  return row->at(s, step);
}

shoal_status shoal_schedule_check(const shoal_schedule *s) {
  const schedule_row *row = find(s);
  if (!row) return status_unknown("schedule", s->name, names, COUNT_OF(schedules));
  if (!(s->rate >= 0) || !isfinite(s->rate))
    return status_make(SHOAL_ERR_ARGUMENT, "the learning rate is %g: expected a number of at least 0, e.g. 0.1",
                       s->rate);
  if (s->warmup < 0)
    return status_make(SHOAL_ERR_ARGUMENT, "warmup is %lld: expected a number of steps, 0 for none",
                       (long long)s->warmup);
  return row->check ? status_wrap(row->check(s), "schedule %s", row->name) : NULL;
}
