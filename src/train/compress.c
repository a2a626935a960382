#include "train/compress.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"

#include <float.h>
#include <string.h>

enum { WARM = 1, TIMED = 3 }; /* steps of a trial: plans and connections are made in the first */
#define WAITING_MIN 0.1       /* share of a step that messages must take for others to be tried */
#define GAIN_MIN 0.95         /* another way must take less than this of f32's step */

static const char *const ways[] = {"f32", "bf16", "int8", "topk", "powersgd"};
enum { WAYS = COMPRESS_WAYS };
_Static_assert(COUNT_OF(ways) == WAYS, "those that the header counts");

const char *compress_way(int way) { return ways[way]; }

int compress_fastest(const double seconds[COMPRESS_WAYS]) {
  int best = 0;
  for (int w = 1; w < WAYS; w++)
    if (seconds[w] < seconds[best]) best = w;
  return seconds[best] < GAIN_MIN * seconds[0] ? best : 0;
}

typedef struct {
  shoal_strategy base;
  local_steps_options options;
  collective_place joined; /* where the caller has not */
  shoal_strategy *inner;   /* of the way under way */
  int now;                 /* that way */
  float *carried;          /* [elements] what the one before has left out; NULL: nothing */
  const strategy_setup *setup;
  int way, step;                        /* of the trial; way WAYS: it is decided */
  double began, seconds[WAYS], waiting; /* of the fastest timed step; of its messages, with f32 */
  strategy_place place;
} compress_auto;

static bool is_powersgd(int way) { return !wire_format_find(ways[way]); }

static shoal_status create_inner(compress_auto *s, int way) {
  local_steps_options o = s->options;
  o.ranks.wire = wire_format_find(ways[way]);
  if (!is_powersgd(way)) return allreduce_create(&o.ranks, &s->inner);
  return local_steps_create(&o, &s->inner);
}

/* What the way under way has left out goes out with the first step of the next one. */
static shoal_status carry_left(compress_auto *s) {
  float *left = NULL;
  if (s->inner)
    TRY(is_powersgd(s->now) ? local_steps_take_left(s->inner, &left) : allreduce_take_left(s->inner, &left));
  free(s->carried);
  s->options.ranks.carried = s->carried = left;
  return NULL;
}

/* All ranks do so in the same step. */
static shoal_status take_way(compress_auto *s, int way) {
  TRY(carry_left(s));
  strategy_destroy(s->inner);
  s->inner = NULL;
  TRY(create_inner(s, way));
  s->now = way;
  TRY(s->inner->kind->begin(s->inner, s->setup, &s->place));
  s->base.ranks = s->inner->ranks;
  return NULL;
}

/* ---- the trials */

static void say(const compress_auto *s, int best) {
  text line = {0};
  text_add(&line, "compress auto: %s, %.3g ms a step, ", ways[best], 1e3 * s->seconds[best]);
  if (!s->way)
    text_add(&line, "%.0f %% of it waiting for messages: no compression would pay", 100 * s->waiting / s->seconds[0]);
  else
    text_add(&line, "against");
  const char *separator = " ";
  for (int w = 0; w < WAYS && s->way; w++) {
    if (w == best) continue;
    text_add(&line, "%s%.3g ms with %s", separator, 1e3 * s->seconds[w], ways[w]);
    separator = ", ";
  }
  if (!line.failed) strategy_note(s->setup, line.data);
  text_fini(&line);
}

/* After a trial: the next one, or the way to go on with. */
static shoal_status next_way(compress_auto *s) {
  struct {
    int32_t way, decided;
  } next = {s->way + 1, s->way + 1 == WAYS || (!s->way && s->waiting < WAITING_MIN * s->seconds[0])};
  if (next.decided) next.way = s->way ? compress_fastest(s->seconds) : 0;
  TRY(collective_broadcast(s->options.ranks.place, &next, sizeof next));
  if (next.decided && !s->base.worker) say(s, next.way);
  if (next.way != s->way) TRY(take_way(s, next.way));
  s->way = next.decided ? WAYS : next.way;
  s->step = 0;
  return NULL;
}

static shoal_status count_trial(compress_auto *s, const strategy_outcome *out) {
  const double took = clock_seconds() - s->began, waited = out->network_seconds + out->barrier_seconds;
  if (s->step >= WARM && took < s->seconds[s->way]) {
    s->seconds[s->way] = took;
    if (!s->way) s->waiting = waited;
  }
  return ++s->step == WARM + TIMED ? next_way(s) : NULL;
}

/* ---- the interface */

static shoal_status begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place) {
  compress_auto *s = (compress_auto *)base;
  s->setup = setup;
  s->way = s->step = 0;
  for (int w = 0; w < WAYS; w++) s->seconds[w] = DBL_MAX;
  s->place = *place;
  strategy_destroy(s->inner); /* of a training before */
  s->inner = NULL;
  TRY(take_way(s, 0));
  *place = s->place;
  return NULL;
}

static shoal_status compute_batch(shoal_strategy *base, const train_batch *b) {
  compress_auto *s = (compress_auto *)base;
  s->began = clock_seconds();
  return s->inner->kind->compute(s->inner, b);
}

static shoal_status exchange(shoal_strategy *base, const train_batch *next, strategy_outcome *out) {
  compress_auto *s = (compress_auto *)base;
  TRY(s->inner->kind->exchange(s->inner, next, out));
  if (out->stop) return NULL;
  s->place = out->place;
  return s->way < WAYS ? count_trial(s, out) : NULL;
}

static shoal_status gather(shoal_strategy *base) {
  shoal_strategy *inner = ((compress_auto *)base)->inner;
  return inner->kind->gather(inner);
}

static shoal_status end(shoal_strategy *base, bool early, strategy_outcome *out) {
  shoal_strategy *inner = ((compress_auto *)base)->inner;
  return inner->kind->end(inner, early, out);
}

static shoal_status follow_chief(shoal_strategy *base) {
  shoal_strategy *inner = ((compress_auto *)base)->inner;
  return inner->kind->follow_chief(inner);
}

static void destroy(shoal_strategy *base) {
  compress_auto *s = (compress_auto *)base;
  strategy_destroy(s->inner);
  free(s->carried);
  shoal_status_free(collective_leave(&s->joined));
  free(s);
}

static const strategy_kind kind = {.name = "allreduce",
                                   .begin = begin,
                                   .compute = compute_batch,
                                   .exchange = exchange,
                                   .gather = gather,
                                   .end = end,
                                   .follow_chief = follow_chief,
                                   .destroy = destroy};

static shoal_status auto_create(const local_steps_options *options, shoal_strategy **out) {
  compress_auto *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->options = *options;
  shoal_status status = allreduce_join(&kind, &s->options.ranks, &s->joined, &s->base);
  if (status)
    free(s);
  else
    *out = &s->base;
  return status;
}

shoal_status compress_create(const char *how, const local_steps_options *options, shoal_strategy **out) {
  local_steps_options o = *options;
  if (!strcmp(how, "auto")) return auto_create(&o, out);
  if (!strcmp(how, "powersgd")) return local_steps_create(&o, out);
  if (strcmp(how, "none"))
    return status_make(SHOAL_ERR_ARGUMENT, "the compression is '%s'; none, powersgd or auto is expected", how);
  o.rank = 0;
  return o.every > 1 ? local_steps_create(&o, out) : allreduce_create(&o.ranks, out);
}
