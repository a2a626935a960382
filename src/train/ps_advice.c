#include "train/ps_advice.h"

#include "base/clock.h"
#include "base/mem.h"

#include <float.h>
#include <stdlib.h>

enum { WARM = 2, TIMED = 4 };      /* steps: connections are made, and the first parameters of a format come whole */
enum { SAMPLE = 64 * WIRE_GRAIN }; /* numbers that encoding is timed with */
enum { TIMES = 3 };                /* the fastest of so many counts */
#define GAIN_MIN 0.95              /* another format must take less than this of f32's step */

static const char *const names[] = {"bf16", "int8", "topk"};
enum { FORMATS = COUNT_OF(names) };

typedef enum { MEASURES, TRIES, DECIDED } stage;

struct ps_advice {
  int64_t elements;
  int gradients;
  stage stage;
  int step;                /* of the stage */
  double seconds, waiting; /* of the fastest step of the stage */
  double usual;            /* f32's */
  double predicted[FORMATS];
  int best;
  float *numbers; /* [2 * SAMPLE] */
  uint8_t *code;
};

shoal_status ps_advice_create(int64_t elements, int gradients, ps_advice **out) {
  ps_advice *a = calloc(1, sizeof *a);
  if (!a) return status_no_memory();
  a->elements = elements;
  a->gradients = gradients;
  a->seconds = DBL_MAX;
  a->numbers = malloc(2 * (size_t)SAMPLE * sizeof *a->numbers);
  a->code = malloc((size_t)SAMPLE * sizeof(float));
  if (!a->numbers || !a->code) {
    ps_advice_destroy(a);
    return status_no_memory();
  }
  for (int i = 0; i < SAMPLE; i++) a->numbers[i] = (float)(i * 2654435761U % 1000003) * 1e-6F - 0.5F;
  *out = a;
  return NULL;
}

void ps_advice_destroy(ps_advice *a) {
  if (!a) return;
  free(a->numbers);
  free(a->code);
  free(a);
}

/* Seconds that a step spends encoding and decoding: the worker its gradient, which it decodes to know what was left out,
 * and the parameters; a server all gradients and its parameters. */
static double coding_seconds(ps_advice *a, const wire_format *f) {
  double encoding = DBL_MAX, decoding = DBL_MAX;
  for (int i = 0; i < TIMES; i++) {
    const double begun = clock_seconds();
    f->encode(a->numbers, a->code, SAMPLE);
    const double coded = clock_seconds();
    f->decode(a->code, a->numbers + SAMPLE, SAMPLE);
    encoding = MIN_OF(encoding, coded - begun);
    decoding = MIN_OF(decoding, clock_seconds() - coded);
  }
  return (double)a->elements / SAMPLE * (2 * encoding + (3 + a->gradients) * decoding);
}

static void predict(ps_advice *a) {
  for (int i = 0; i < FORMATS; i++) {
    const wire_format *f = wire_format_find(names[i]);
    const double share = (double)f->bytes(a->elements) / (double)(a->elements * (int64_t)sizeof(float));
    a->predicted[i] = a->usual - a->waiting * (1 - share) + coding_seconds(a, f);
    if (a->predicted[i] < a->predicted[a->best]) a->best = i;
  }
}

static void say_predictions(const ps_advice *a, text *say) {
  for (int i = 0; i < FORMATS; i++) text_add(say, "%s%.3g ms with %s", i ? ", " : "", 1e3 * a->predicted[i], names[i]);
}

/* All steps were f32's. */
static const wire_format *decide_first(ps_advice *a, text *say) {
  a->usual = a->seconds;
  predict(a);
  if (a->predicted[a->best] < GAIN_MIN * a->usual) {
    a->stage = TRIES;
    a->step = 0;
    a->seconds = DBL_MAX;
    return wire_format_find(names[a->best]);
  }
  a->stage = DECIDED;
  text_add(say,
           "compress auto: f32, %.3g ms a step, %.0f %% of it waiting for messages: no format would pay (at best: ",
           1e3 * a->usual, 100 * a->waiting / a->usual);
  say_predictions(a, say);
  text_add(say, ")");
  return NULL;
}

/* The best one has been measured, too. */
static const wire_format *decide(ps_advice *a, text *say) {
  const bool pays = a->seconds < GAIN_MIN * a->usual;
  a->stage = DECIDED;
  text_add(say, "compress auto: %s, %.3g ms a step, ", pays ? names[a->best] : "f32",
           1e3 * (pays ? a->seconds : a->usual));
  if (pays)
    text_add(say, "against %.3g ms with f32 (at best: ", 1e3 * a->usual);
  else
    text_add(say, "since %s took %.3g ms (at best: ", names[a->best], 1e3 * a->seconds);
  say_predictions(a, say);
  text_add(say, ")");
  return pays ? wire_format_find(names[a->best]) : NULL;
}

const wire_format *ps_advice_take(ps_advice *a, const ps_advice_step *step, text *say) {
  const wire_format *now = a->stage == MEASURES ? NULL : wire_format_find(names[a->best]);
  if (a->stage == DECIDED) return a->seconds < GAIN_MIN * a->usual ? now : NULL;
  if (!step->examples) return now;
  if (a->step >= WARM && step->seconds < a->seconds) {
    a->seconds = step->seconds;
    a->waiting = step->waiting;
  }
  if (++a->step < WARM + TIMED) return now;
  return a->stage == MEASURES ? decide_first(a, say) : decide(a, say);
}
