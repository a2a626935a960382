#include "run/simulation.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/options.h"
#include "base/text.h"
#include "dist/wire_format.h"
#include "net/wire.h"
#include "observe/verdict.h"
#include "run/settings.h"
#include "run/units.h"
#include "train/compress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PACKET 1448.0 /* bytes of a packet that are ours ... */
#define HEADERS 66.0  /* ... and those that are not */

static const char *const *modes(void) {
  static const char *const names[] = {"sync", "async", "allreduce", NULL};
  return names;
}

static const char *const *compressions(void) {
  static const char *const names[] = {"none", "powersgd", "auto", NULL};
  return names;
}

#define AT(field) offsetof(shoal_simulate_options, field)
#define INT SHOAL_SETTING_INT
#define NUMBER SHOAL_SETTING_NUMBER
#define TEXT SHOAL_SETTING_TEXT
#define CHOICE SHOAL_SETTING_CHOICE
#define KEPT SHOAL_SETTING_KEPT
static const shoal_setting table[] = {
    {"workers", INT, AT(workers), "N", "workers, or ranks", "1", 1, 10000, .marks = KEPT},
    {"ps", INT, AT(ps), "N", "parameter servers", "1", 1, 1000, .marks = KEPT},
    {"mode", CHOICE, AT(mode), "MODE", "how gradients are put together", "sync", .choices = modes, .marks = KEPT},
    {"steps", INT, AT(steps), "N", "steps of each worker", "100", 1, 1e9, .marks = KEPT},
    {"rate", TEXT, AT(rate), "RATE", "of each host's link, each way: 10gbit", "not limited", .marks = KEPT},
    {"delay", TEXT, AT(delay), "TIME", "from host to host, one way: 50us", "none", .marks = KEPT},
    {"parameters", NUMBER, AT(parameters), "N", "of the model", "1e6, or those of --model", 1, 1e12, .marks = KEPT},
    {"compute", TEXT, AT(compute), "TIME", "for a step: 20ms", "none, or as --model takes here", .marks = KEPT},
    {"model", TEXT, AT(model), "MODEL", "take the parameters of a model, and the time of its step on one thread here",
     "none", .marks = KEPT},
    {"batch-size", INT, AT(batch_size), "N", "rows of that step", "the model's", 1, 1e6, .marks = KEPT},
    {"sigma", NUMBER, AT(sigma), "X", "computing takes e^(X z) times as long, z normal", "0", 0, 5, .marks = KEPT},
    {"slow-share", NUMBER, AT(slow_share), "X", "share of steps that are slow by chance", "0", 0, 1, .marks = KEPT},
    {"slow-workers", INT, AT(slow_workers), "N", "workers whose steps are all slow", "0", 0, 10000, .marks = KEPT},
    {"slow-factor", NUMBER, AT(slow_factor), "X", "how many times as long slow steps take", "10", 1, 1e6,
     .marks = KEPT},
    {"backup-workers", INT, AT(backup_workers), "N", "sync: gradients that a step can do without", "0", 0, 10000,
     .marks = KEPT},
    {"staleness", INT, AT(staleness), "N", "async: steps that a worker may be ahead of the slowest", "any", 1, 1e9,
     .marks = KEPT},
    {"in-flight", INT, AT(in_flight), "N", "async: gradients of a worker without answer", "1", 1, 2, .marks = KEPT},
    {"wire-format", CHOICE, AT(wire), "FORMAT", "all-reduce: how gradients travel", "f32", .choices = wire_format_names,
     .marks = KEPT},
    {"compress", CHOICE, AT(compress), "HOW",
     "all-reduce: powersgd: gradients travel as low-rank factors; auto: in the way with the shortest step", "none",
     .choices = compressions, .marks = KEPT},
    {"compress-rank", INT, AT(compress_rank), "R", "powersgd: rank of the factors", "4", 1, 64, .marks = KEPT},
    {"failures", TEXT, AT(failures), "TIME", "mean time between failures of each worker but the first", "none",
     .marks = KEPT},
    {"restart", TEXT, AT(restart), "TIME", "until a worker that failed is back", "1s", .marks = KEPT},
    {"message-cost", TEXT, AT(message), "TIME", "of a processor, for each message sent or received", "5us",
     .marks = KEPT},
    {"megabyte-cost", TEXT, AT(megabyte), "TIME", "the same, for each 10^6 bytes", "0.2ms", .marks = KEPT},
    {"update-cost", TEXT, AT(update), "TIME", "of a server or rank, for each update of 10^6 parameters", "1ms",
     .marks = KEPT},
    {"coding-cost", TEXT, AT(coding), "TIME", "of a rank, to encode and decode 10^6 parameters of a step",
     "none, or as it takes here with --compress", .marks = KEPT},
    {"seed", INT, AT(seed), "N", "of slow steps and failures", "0", 0, 1e15, .marks = KEPT},
    {"run-dir", TEXT, AT(run_dir), "DIR", "write settings.json, metrics.jsonl and summary.json there", "nowhere",
     .complete = SHOAL_COMPLETE_DIRECTORY},
    {"json", SHOAL_SETTING_BOOL, AT(json), NULL, "print summary.json in place of lines", .marks = 0},
    {0},
};

const shoal_setting *shoal_simulate_settings(void) { return table; }

/* ---- what is asked for */

typedef struct {
  const char *name, *words, *standard; /* standard NULL: 0 */
  double *to;
} given_time;

static shoal_status read_times(const given_time *times, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const char *words = times[i].words ? times[i].words : times[i].standard;
    *times[i].to = 0;
    if (!words || !strcmp(words, "0")) continue;
    if (!units_time(words, times[i].to))
      return status_make(SHOAL_ERR_ARGUMENT, "`%s`: expected a time such as 50us or 20ms, not '%s'", times[i].name,
                         words);
  }
  return NULL;
}

static bool asks_for(const simulation *s, const char *compress) {
  return s->options->compress && !strcmp(s->options->compress, compress);
}

static shoal_status check_compress(const simulation *s) {
  const shoal_simulate_options *o = s->options;
  const bool asked = o->compress && !asks_for(s, "none");
  if (asked && !asks_for(s, "powersgd") && !asks_for(s, "auto"))
    return status_make(SHOAL_ERR_ARGUMENT, "`compress`: expected none, powersgd or auto, not '%s'", o->compress);
  if (asked && !s->allreduce) return status_make(SHOAL_ERR_ARGUMENT, "`compress` is for `mode` allreduce");
  if (asked && o->wire)
    return status_make(SHOAL_ERR_ARGUMENT, "`compress` and `wire_format` contradict each other; leave one out");
  if (o->compress_rank < 0 || o->compress_rank > 64)
    return status_make(SHOAL_ERR_ARGUMENT, "`compress_rank` goes from 1 to 64");
  return NULL;
}

static shoal_status check(const simulation *s) {
  const shoal_simulate_options *o = s->options;
  if (s->workers < 1 || s->workers > 10000 || s->servers < 0 || s->servers > 1000 || s->steps < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "expected up to 10,000 workers and 1,000 servers, and steps");
  if (s->allreduce && o->ps) return status_make(SHOAL_ERR_ARGUMENT, "`ps`: an all-reduce has no servers");
  if (!s->allreduce && o->wire && strcmp(o->wire, "f32"))
    return status_make(SHOAL_ERR_ARGUMENT, "`wire_format` is for `mode` allreduce");
  TRY(check_compress(s));
  if (o->backup_workers && (!s->sync || o->backup_workers >= s->workers))
    return status_make(SHOAL_ERR_ARGUMENT, "`backup_workers` is for `mode` sync, and below the number of workers");
  if ((o->staleness || o->in_flight > 1) && (s->sync || s->allreduce))
    return status_make(SHOAL_ERR_ARGUMENT, "`staleness` and `in_flight` are for `mode` async");
  if (o->failures && s->allreduce) return status_make(SHOAL_ERR_ARGUMENT, "`failures` is for parameter servers");
  if (!(o->sigma >= 0 && o->sigma <= 5) || !(o->slow_share >= 0 && o->slow_share <= 1))
    return status_make(SHOAL_ERR_ARGUMENT, "`sigma` goes from 0 to 5, `slow_share` from 0 to 1");
  return NULL;
}

static shoal_status read_options(const shoal_simulate_options *o, simulation *s) {
  const char *mode = o->mode ? o->mode : "sync";
  double rate = 0, megabyte, update;
  s->options = o;
  s->allreduce = !strcmp(mode, "allreduce");
  s->sync = !strcmp(mode, "sync");
  if (!s->allreduce && !s->sync && strcmp(mode, "async"))
    return status_make(SHOAL_ERR_ARGUMENT, "`mode`: expected sync, async or allreduce, not '%s'", mode);
  s->workers = (int)(o->workers ? o->workers : 1);
  s->servers = s->allreduce ? 0 : (int)(o->ps ? o->ps : 1);
  s->steps = o->steps ? o->steps : 100;
  if (o->rate && !units_rate(o->rate, &rate))
    return status_make(SHOAL_ERR_ARGUMENT, "`rate`: expected a rate such as 10gbit, not '%s'", o->rate);
  s->rate = rate / 8;
  const given_time times[] = {{"delay", o->delay, NULL, &s->delay},
                              {"compute", o->compute, NULL, &s->compute},
                              {"failures", o->failures, NULL, &s->failures},
                              {"restart", o->restart, "1s", &s->restart},
                              {"message_cost", o->message, "5us", &s->message},
                              {"megabyte_cost", o->megabyte, "0.2ms", &megabyte},
                              {"update_cost", o->update, "1ms", &update}};
  TRY(read_times(times, COUNT_OF(times)));
  s->byte = megabyte / 1e6;
  s->update = update / 1e6;
  s->parameters = o->parameters;
  TRY(check(s));
  if (o->model) TRY(simulate_model(o->model, o->batch_size, s));
  if (!s->parameters) s->parameters = 1e6;
  if (asks_for(s, "powersgd")) s->way = compress_way(COMPRESS_POWERSGD);
  return NULL;
}

/* ---- what tasks ask for */

double simulation_frame(double bytes) {
  const double all = WIRE_HEADER + bytes;
  return all + HEADERS * ceil(all / PACKET);
}

double simulation_compute(const simulation *s, int worker, int64_t step) {
  const shoal_simulate_options *o = s->options;
  double factor = 1;
  if (o->sigma > 0 || o->slow_share > 0) {
    const random_stream luck = random_stream_make((uint64_t)o->seed, random_mix(1, (uint64_t)worker));
    if (o->sigma > 0) factor = exp(o->sigma * random_normal_at(&luck, 2 * (uint64_t)step));
    if (random_uniform_at(&luck, 2 * (uint64_t)step + 1) < o->slow_share)
      factor *= o->slow_factor ? o->slow_factor : 10;
  }
  if (worker >= s->workers - o->slow_workers) factor *= o->slow_factor ? o->slow_factor : 10;
  return s->compute * factor;
}

void simulation_note_step(simulation *s, double seconds) {
  if (s->n_steps < s->room) s->step_seconds[s->n_steps++] = seconds;
}

void simulation_note_update(simulation *s) {
  if (s->n_updates < s->room) s->updated_at[s->n_updates++] = clock_seconds();
}

void simulation_fail(simulation *s, shoal_status status) {
  if (s->error)
    shoal_status_free(status);
  else
    s->error = status;
  sim_stop(s->sim);
}

/* ---- what came of it */

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double busier(const sim_stats *one, double seconds) {
  return seconds > 0 ? MAX_OF(one->sending_seconds, one->receiving_seconds) / seconds : 0;
}

static void judge(const simulation *s, double seconds, shoal_simulate_result *out) {
  const int n = s->workers + s->servers;
  verdict_task *tasks = calloc((size_t)s->workers + (size_t)s->servers, sizeof *tasks);
  if (!tasks) return;
  for (int i = 0; i < n; i++) {
    verdict_task *t = &tasks[i];
    *t = (verdict_task){.server = i >= s->workers, .seconds = seconds, .host = -1, .threads = 1, .gradients = -1};
    snprintf(t->name, sizeof t->name, "%s/%d", t->server ? "ps" : "worker", t->server ? i - s->workers : i);
    if (t->server) {
      sim_stats stats;
      sim_stats_read(s->sim, s->server_hosts[i - s->workers], &stats);
      t->busy_seconds = MIN_OF(stats.working_seconds, seconds);
      t->served = s->n_updates * (s->sync ? s->workers : 1);
      continue;
    }
    const simulated_worker *w = &s->all[i];
    t->seconds = w->ended - w->began;
    t->steps = t->gradients = w->steps;
    t->times = (shoal_times){.compute = w->compute, .network = w->network, .barrier = w->barrier, .server = w->server};
  }
  const verdict_facts facts = {
      .tasks = tasks,
      .n_tasks = n,
      .workers = s->workers,
      .servers = s->servers,
      .sync = s->sync || s->allreduce,
      .next_threads = 1,
      .batch = 1,
      .seconds = seconds,
      .examples_per_second = out->steps_per_second * (s->sync || s->allreduce ? s->workers : 1)};
  verdict_make(&facts, &out->verdict);
  free(tasks);
}

static void add_up(simulation *s, shoal_simulate_result *out) {
  double computing = 0, network = 0, barrier = 0, server = 0, own = 0, began = INFINITY, ended = 0;
  sim_stats stats;
  for (int w = 0; w < s->workers; w++) {
    const simulated_worker *k = &s->all[w];
    computing += k->compute;
    network += k->network;
    barrier += k->barrier;
    server += k->server;
    out->late += k->late;
    out->failures += k->failures;
    own += (double)k->steps / (k->ended - k->began);
    began = MIN_OF(began, k->began);
    ended = MAX_OF(ended, k->ended);
  }
  const double all = computing + network + barrier + server, seconds = ended - began;
  out->updates = s->n_updates;
  out->seconds = s->n_updates > 1 ? s->updated_at[s->n_updates - 1] - s->updated_at[0] : seconds;
  out->steps_per_second = (double)MAX_OF(s->n_updates - 1, 1) / out->seconds;
  out->worker_steps_per_second = own / s->workers;
  if (all > 0) {
    out->compute = computing / all;
    out->network = network / all;
    out->barrier = barrier / all;
    out->server = server / all;
  }
  qsort(s->step_seconds, (size_t)s->n_steps, sizeof *s->step_seconds, ascending);
  for (int64_t i = 0; i < s->n_steps; i++) out->step_mean += s->step_seconds[i] / (double)s->n_steps;
  if (s->n_steps) {
    out->step_p50 = s->step_seconds[s->n_steps / 2];
    out->step_p99 = s->step_seconds[s->n_steps * 99 / 100];
  }
  out->staleness_mean = s->stale ? s->staleness_sum / (double)s->stale : 0;
  out->stalest = s->stalest;
  for (int i = 0; i < s->workers + s->servers; i++) {
    const bool is_server = i >= s->workers;
    sim_stats_read(s->sim, is_server ? s->server_hosts[i - s->workers] : s->all[i].host, &stats);
    out->sent_bytes += stats.sent_bytes;
    out->messages += stats.sent_messages;
    double *link = is_server ? &out->server_link : &out->worker_link;
    *link = MAX_OF(*link, MIN_OF(busier(&stats, seconds), 1));
    if (is_server) out->server_busy = MAX_OF(out->server_busy, MIN_OF(stats.working_seconds / seconds, 1));
  }
  out->step_compute = s->compute;
  out->parameters = s->parameters;
  out->way = s->way;
  judge(s, seconds, out);
}

static void forget_tasks(simulation *s) {
  sim_destroy(s->sim);
  free(s->all);
  free(s->server_hosts);
  free(s->step_seconds);
  free(s->updated_at);
}

static shoal_status run(simulation *s, shoal_simulate_result *out) {
  const double begun = clock_seconds();
  if (s->allreduce) TRY(simulate_compress(s));
  s->room = s->steps * s->workers;
  s->all = calloc((size_t)s->workers, sizeof *s->all);
  s->server_hosts = calloc((size_t)s->servers + 1, sizeof *s->server_hosts);
  s->step_seconds = calloc((size_t)s->room, sizeof *s->step_seconds);
  s->updated_at = calloc((size_t)s->room, sizeof *s->updated_at);
  if (!s->all || !s->server_hosts || !s->step_seconds || !s->updated_at) return status_no_memory();
  for (int w = 0; w < s->workers; w++) s->all[w] = (simulated_worker){.of = s, .index = w};
  shoal_status status = s->allreduce ? simulate_ranks(s) : simulate_ps(s);
  if (s->error) {
    shoal_status_free(status);
    return s->error;
  }
  TRY(status);
  add_up(s, out);
  out->real_seconds = clock_seconds() - begun;
  return NULL;
}

/* Each way in turn, as ranks of a real job do in their first steps; s takes the one that they would go on with. */
static shoal_status choose_way(simulation *s, shoal_simulate_result *out) {
  for (int w = 0; w < COMPRESS_WAYS; w++) {
    simulation one = *s;
    shoal_simulate_result result = {0};
    one.way = compress_way(w);
    shoal_status status = run(&one, &result);
    forget_tasks(&one);
    TRY(status);
    out->way_seconds[w] = result.step_mean;
  }
  s->way = compress_way(compress_fastest(out->way_seconds));
  return NULL;
}

shoal_status shoal_simulate(const shoal_simulate_options *options, shoal_simulate_result *out) {
  shoal_simulate_options own;
  simulation s = {0};
  shoal_simulate_result result = {0};
  TRY(OPTIONS_TAKE(&own, options));
  shoal_status status = read_options(&own, &s);
  if (!status && asks_for(&s, "auto")) status = choose_way(&s, &result);
  if (!status) status = run(&s, &result);
  if (!status && own.run_dir) status = simulate_write(&s, &result);
  forget_tasks(&s);
  free(s.shapes);
  if (!status) *out = result;
  return status;
}
