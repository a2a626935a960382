/* Ranks of an all-reduce in a simulation: the collective is that of a real job, on a vector of a few numbers a rank that
 * stands for a long one; what it is cut into is as much shorter. */
#include "base/clock.h"
#include "base/mem.h"
#include "dist/collective.h"
#include "dist/link_sim.h"
#include "run/simulation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBERS 4 /* a rank, of the vector */
#define DEADLINE 1e6
#define WINDOW 4e6

/* One of a step: PowerSGD has two. */
typedef struct {
  collective_options options;
  collective_sizes sizes;
  int64_t count;
  double scale; /* numbers that one stands for */
  int tags;     /* of messages with numbers; 0: not known yet */
} exchange;

typedef struct {
  simulation *of;
  link_sim_world world;
  exchange all[SIMULATED_EXCHANGES];
  int n;
  wire_format format;
} ranks;

static int64_t four_bytes(int64_t count) { return count * (int64_t)sizeof(float); }

static double weigh(void *context, const net_header *h, size_t bytes) {
  const simulation *s = context;
  const ranks *r = s->tasks;
  const simulated_worker *sender = sim_task(s->sim);
  const exchange *e = &r->all[sender->exchange];
  const bool numbers = h->number < (uint64_t)e->tags;
  return simulation_frame(numbers ? (double)bytes / sizeof(float) * e->scale * s->wire : (double)bytes);
}

/* Gradients become their sum: seconds of compressing go to *coded. */
static shoal_status add_up(simulated_worker *me, collective *const *c, collective_head *heads, double *coded) {
  simulation *s = me->of;
  const ranks *r = s->tasks;
  const collective_head own = {.examples = 1};
  *coded = 0;
  for (int i = 0; i < r->n; i++) {
    me->exchange = i;
    if (i) TRY(collective_begin(c[i], s->workers));
    sim_work(s->sim, s->coding[i]);
    *coded += s->coding[i];
    TRY(collective_ready(c[i], 0));
    TRY(collective_finish(c[i], &own, heads));
  }
  sim_work(s->sim, s->coding[r->n]);
  *coded += s->coding[r->n];
  me->exchange = 0;
  return NULL;
}

static shoal_status train(simulated_worker *me, collective *const *c, collective_head *heads) {
  simulation *s = me->of;
  me->began = clock_seconds();
  for (; me->steps < s->steps; me->steps++) {
    const double begun = clock_seconds(), seconds = simulation_compute(s, me->index, me->steps);
    double coded;
    TRY(collective_begin(c[0], s->workers));
    sim_work(s->sim, seconds);
    TRY(add_up(me, c, heads, &coded));
    if (!me->index) simulation_note_update(s);
    sim_work(s->sim, s->update * s->parameters);
    me->compute += seconds;
    me->compute += coded + s->update * s->parameters;
    simulation_note_step(s, clock_seconds() - begun);
    me->network += clock_seconds() - begun - seconds - (coded + s->update * s->parameters);
  }
  me->ended = clock_seconds();
  return NULL;
}

static shoal_status create_all(ranks *r, collective_place *place, collective **c) {
  for (int i = 0; i < r->n; i++) {
    TRY(collective_create(place, &r->all[i].options, &c[i]));
    r->all[i].tags = collective_tags(c[i]);
  }
  return NULL;
}

static shoal_status live(simulated_worker *me) {
  ranks *r = me->of->tasks;
  collective_place place = {0};
  collective *c[SIMULATED_EXCHANGES] = {NULL};
  TRY(collective_join_by(&link_sim, &(link_sim_start){&r->world, me->index}, &place));
  collective_head *heads = calloc((size_t)me->of->workers, sizeof *heads), none = {0};
  shoal_status status = heads ? create_all(r, &place, c) : status_no_memory();
  if (!status) status = collective_meet(c[0], &none, heads);
  if (!status) {
    if (!me->index) sim_stats_reset(me->of->sim);
    status = train(me, c, heads);
  }
  if (!status) status = collective_meet(c[0], &none, heads);
  for (int i = SIMULATED_EXCHANGES; i--;) collective_destroy(c[i]);
  shoal_status left = collective_leave(&place);
  free(heads);
  if (status) shoal_status_free(left);
  return status ? status : left;
}

static void run_rank(void *context) {
  simulated_worker *me = context;
  shoal_status status = live(me);
  if (status) simulation_fail(me->of, status);
}

static void set_up_exchange(const simulation *s, const wire_format *format, double numbers, exchange *e) {
  const collective_sizes *usual = collective_standard_sizes();
  e->count = (int64_t)MIN_OF(ceil(numbers), (double)NUMBERS * s->workers);
  e->scale = numbers / (double)e->count;
  e->sizes = (collective_sizes){.bucket_min = (int64_t)MAX_OF((double)usual->bucket_min / e->scale, 1),
                                .bucket_max = (int64_t)MAX_OF((double)usual->bucket_max / e->scale, 1),
                                .direct_max = (int64_t)((double)usual->direct_max / e->scale)};
  e->options = (collective_options){.counts = &e->count,
                                    .tensors = 1,
                                    .leaves = {s->workers, 0},
                                    .wire = format,
                                    .sizes = &e->sizes,
                                    .patience = DEADLINE};
}

static shoal_status set_up(simulation *s, ranks *r) {
  const sim_costs costs = {s->message, s->byte};
  char name[32];
  r->format = (wire_format){.name = "simulated", .grain = 1, .bytes = four_bytes};
  for (; r->n < SIMULATED_EXCHANGES && s->numbers[r->n] > 0; r->n++)
    set_up_exchange(s, &r->format, s->numbers[r->n], &r->all[r->n]);
  r->world = (link_sim_world){.ends = calloc((size_t)s->workers, sizeof *r->world.ends),
                              .hosts = calloc((size_t)s->workers, sizeof *r->world.hosts),
                              .ranks = s->workers};
  if (!r->world.ends || !r->world.hosts) return status_no_memory();
  TRY(sim_create(&(sim_options){.rate = s->rate, .delay = s->delay, .window = WINDOW, .weigh = weigh, .context = s},
                 &s->sim));
  for (int w = 0; w < s->workers; w++) {
    snprintf(name, sizeof name, "rank %d", w);
    TRY(sim_add(s->sim, name, SIMULATED_START, &costs, SIM_ANY, run_rank, &s->all[w], &s->all[w].host));
  }
  return NULL;
}

shoal_status simulate_ranks(simulation *s) {
  ranks r = {.of = s};
  s->tasks = &r;
  shoal_status status = set_up(s, &r);
  if (!status) status = sim_run(s->sim);
  free(r.world.ends);
  free(r.world.hosts);
  return status;
}
