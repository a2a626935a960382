/* Settings that contradict each other. */
#include "run/job.h"

#include "base/mem.h"
#include "dist/wire_format.h"
#include "observe/tracking.h"
#include "train/loss.h"
#include "train/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b) { return !strcmp(a, b); }

/* Settings that not every strategy takes. */
static const struct strategy_setting {
  const char *name, *strategies; /* the latter: one after the other */
} strategy_settings[] = {{"ps", "ps"},
                         {"server-threads", "ps"},
                         {"replicas", "ps"},
                         {"mode", "ps"},
                         {"staleness", "ps"},
                         {"in-flight", "ps"},
                         {"cache-rows", "ps"},
                         {"cache-staleness", "ps"},
                         {"transport", "ps allreduce"},
                         {"transfer", "ps"},
                         {"keys", "ps allreduce"},
                         {"evaluator", "ps"},
                         {"follow-logs", "ps"},
                         {"backup-workers", "ps"},
                         {"heartbeat", "ps allreduce"},
                         {"max-restarts", "ps allreduce"},
                         {"deadline", "ps allreduce"},
                         {"wire", "allreduce ps"},
                         {"compress", "allreduce ps"},
                         {"compress-rank", "allreduce"},
                         {"local-steps", "allreduce ps"},
                         {"outer-lr", "allreduce ps"},
                         {"outer-momentum", "allreduce ps"},
                         {"check-replicas", "allreduce"},
                         {"global-batch", "allreduce mirrored ps"}};

static bool suits(const struct strategy_setting *s, const char *strategy, const shoal_model_kind *kind) {
  const char *found = strstr(s->strategies, strategy);
  size_t length = strlen(strategy);
  if (kind->sparse && is(s->name, "mode")) return true; /* threads that race, or not */
  return found && (!found[length] || found[length] == ' ');
}

bool shoal_job_setting_suits(const char *name, const char *strategy, const shoal_model_kind *kind) {
  for (size_t i = 0; i < COUNT_OF(strategy_settings); i++)
    if (is(strategy_settings[i].name, name)) return suits(&strategy_settings[i], strategy, kind);
  return true;
}

static shoal_status check_strategy_settings(const shoal_job *f, const shoal_job *asked, const shoal_model_kind *kind) {
  for (size_t i = 0; i < COUNT_OF(strategy_settings); i++) {
    const struct strategy_setting *s = &strategy_settings[i];
    if (!job_said(asked, s->name) || suits(s, f->strategy, kind)) continue;
    return status_make(SHOAL_ERR_ARGUMENT, "`%s` does not apply to the strategy %s; add `strategy` %.*s", s->name,
                       f->strategy, (int)strcspn(s->strategies, " "), s->strategies);
  }
  return NULL;
}

/* How gradients travel to parameter servers. */
static shoal_status check_server_compression(const shoal_job *f, const shoal_model_kind *kind) {
  const bool formatted = !is(f->wire, "f32"), chosen = is(f->compress, "auto");
  if (is(f->compress, "powersgd"))
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "`compress` powersgd takes two exchanges a step of matrices, and parameter servers hold vectors: "
        "use `wire` topk, or `strategy` allreduce");
  if (kind->sparse && (formatted || chosen || f->local_steps > 1))
    return status_make(SHOAL_ERR_ARGUMENT, "`%s` does not apply to the model %s: only what a batch touches travels",
                       formatted ? "wire"
                       : chosen  ? "compress"
                                 : "local_steps",
                       kind->name);
  if (f->deterministic && formatted)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "`wire` %s rounds parts of a sum that depend on the workers, so `deterministic` cannot be: leave one out",
        f->wire);
  if (f->local_steps > 1 && (f->in_flight > 1 || f->accumulate > 1))
    return status_make(SHOAL_ERR_ARGUMENT, "`local_steps` and `%s` contradict each other; leave one out",
                       f->in_flight > 1 ? "in_flight" : "accumulate");
  return NULL;
}

/* How gradients travel. */
static shoal_status check_compression(const shoal_job *f, const shoal_job *asked) {
  const bool factors = is(f->compress, "powersgd"), chosen = is(f->compress, "auto");
  if (f->deterministic && (wire_format_find(f->wire)->feedback || factors || chosen))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`%s` %s keeps what it leaves out on each worker, so `deterministic` cannot be: leave one out",
                       factors || chosen ? "compress" : "wire", factors || chosen ? f->compress : f->wire);
  if (f->deterministic && f->local_steps > 1)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "`local_steps` %lld depends on the number of workers, so `deterministic` cannot be: leave one out",
        (long long)f->local_steps);
  if (chosen && job_said(asked, "wire"))
    return status_make(SHOAL_ERR_ARGUMENT, "`compress` auto chooses the `wire` format itself; leave one of them out");
  if (job_said(asked, "compress-rank") && !factors && !chosen)
    return status_make(SHOAL_ERR_ARGUMENT, "`compress_rank` does not apply; add `compress` powersgd");
  if (chosen && f->local_steps > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "`compress` auto and `local_steps` contradict each other; leave one out");
  for (int i = 0; i < 2 && f->local_steps == 1; i++) {
    const char *name = i ? "outer-momentum" : "outer-lr";
    if (job_said(asked, name)) return status_make(SHOAL_ERR_ARGUMENT, "`%s` does not apply; add `local_steps` H", name);
  }
  return NULL;
}

static shoal_status check_cluster(const shoal_job *f, const shoal_job *asked, const shoal_model_kind *kind) {
  TRY(check_strategy_settings(f, asked, kind));
  if (is(f->strategy, "single") && f->workers > 1)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`workers` %lld: the strategy single is one process; use `strategy` ps, "
                       "allreduce or mirrored",
                       (long long)f->workers);
  if (kind->sparse && f->accumulate > 1)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "`accumulate` %lld: gradients are accumulated of dense rows; for sparse rows, raise `batch_size`",
        (long long)f->accumulate);
  if (job_said(asked, "global-batch") && job_said(asked, "batch-size") && f->batch_size * f->workers != f->global_batch)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`batch_size` %lld on %lld workers is not `global_batch` %lld; leave one of "
                       "them out",
                       (long long)f->batch_size, (long long)f->workers, (long long)f->global_batch);
  if (job_is_mirrored(f) && job_said(asked, "threads") && f->threads != f->workers)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`threads` %lld: the strategy mirrored has one thread per worker; leave it "
                       "out, or raise `workers`",
                       (long long)f->threads);
  TRY(check_compression(f, asked));
  if (job_is_cluster(f)) TRY(check_server_compression(f, kind));
  const char *foreign = job_is_cluster(f) ? "mpi" : "zmq";
  if (job_said(asked, "transport") && is(f->transport, foreign))
    return status_make(SHOAL_ERR_ARGUMENT, "`transport` %s does not apply to the strategy %s", foreign, f->strategy);
  if (f->keys && !f->cluster && !is(f->transport, "tls") && !is(f->transport, "zmq") && !getenv("TF_CONFIG"))
    return status_make(SHOAL_ERR_ARGUMENT, "`keys` does not apply to tasks that talk through %s; add `transport` tls",
                       is(f->transport, "mpi") ? "MPI" : "shared memory");
  if (!job_is_cluster(f)) return NULL;
  if (f->stream && f->deterministic && !kind->sparse)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`deterministic` with parameter servers needs the rows in memory; leave "
                       "`stream` out, or use another `strategy`");
  if (f->deterministic && (!job_is_sync(f) || f->backup_workers))
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "`deterministic` is for `mode` sync without `backup_workers`: otherwise the result depends on timing");
  if (job_said(asked, "global-batch") && !f->deterministic)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`global_batch` is cut among the workers of parameter servers with "
                       "`deterministic` only; give `batch_size`, of each worker");
  if (f->ps * (1 + f->replicas) > SERVERS_MAX)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`ps` %lld with `replicas` %lld: at most %d servers and backups are possible", (long long)f->ps,
                       (long long)f->replicas, SERVERS_MAX);
  if (f->evaluator && f->no_checkpoints)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`evaluator` and `no_checkpoints` contradict each other: it tests checkpoints");
  if (f->backup_workers && !job_is_sync(f))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`backup_workers` does not apply to `mode` async, where no step waits for a slow worker");
  if (f->backup_workers >= f->workers)
    return status_make(SHOAL_ERR_ARGUMENT, "`backup_workers` %lld: with %lld workers at most %lld is possible",
                       (long long)f->backup_workers, (long long)f->workers, (long long)f->workers - 1);
  if (f->staleness >= 0 && job_is_sync(f))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`staleness` does not apply to `mode` sync, where all workers step together; "
                       "add `mode` async");
  if (f->cache_staleness && !f->cache_rows)
    return status_make(SHOAL_ERR_ARGUMENT, "`cache_staleness` is of rows that workers keep: add `cache_rows` N");
  if (f->cache_rows && is(f->transfer, "dense"))
    return status_make(SHOAL_ERR_ARGUMENT, "`transfer` dense moves all rows: leave out `cache_rows`");
  if (f->in_flight > 1 && (job_is_sync(f) || f->staleness == 0))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`in_flight` %lld does not apply to %s, where each step waits for the answer to "
                       "the last one",
                       (long long)f->in_flight, job_is_sync(f) ? "`mode` sync" : "`staleness` 0");
  return NULL;
}

static shoal_status check_ids(const shoal_job *f, const shoal_job *asked) {
  static const char *const only_ids[] = {"ids-memory", "admit", "evict-after"};
  for (size_t i = 0; !f->growing_ids && i < COUNT_OF(only_ids); i++)
    if (job_said(asked, only_ids[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "`%s` is for tables of growing ids: add `growing_ids`", only_ids[i]);
  if (!f->growing_ids) return NULL;
  if (f->features)
    return status_make(SHOAL_ERR_ARGUMENT, "`growing_ids` has no number of features: leave out `features`");
  if (is(f->strategy, "single") && !job_is_sync(f))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`growing_ids` in a single process is without `mode` async: leave it out, or add `ps` N");
  if (f->replicas)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "backups of servers do not hold growing ids: leave out `replicas`; a lost server is replaced "
                       "from the last checkpoint");
  if (is(f->transfer, "dense"))
    return status_make(SHOAL_ERR_ARGUMENT, "`growing_ids` have no end that `transfer` dense could move: leave it out");
  return NULL;
}

static shoal_status check_sparse(const shoal_job *f, const shoal_job *asked, const shoal_model_kind *kind) {
  static const char *const only_sparse[] = {"features",   "bias",  "eval-every",  "transfer",   "growing-ids",
                                            "ids-memory", "admit", "evict-after", "cache-rows", "cache-staleness"};
  static const char *const only_dense[] = {
      "transform", "input",      "validation-split", "validation-data", "top-k",     "activation",
      "pool",      "histograms", "evaluator",        "backup-workers",  "in-flight", "average-weights"};
  const char *const *others = kind->sparse ? only_dense : only_sparse;
  size_t n = kind->sparse ? sizeof only_dense / sizeof *only_dense : sizeof only_sparse / sizeof *only_sparse;
  for (size_t i = 0; i < n; i++)
    if (job_said(asked, others[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "`%s` does not apply to the model %s", others[i], kind->name);
  if (!kind->sparse) return NULL;
  TRY(check_ids(f, asked));
  if (f->classes && f->classes != 2)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`classes` %lld: %s has two classes, labelled 0 and 1, or -1 and 1; "
                       "leave it out",
                       (long long)f->classes, kind->name);
  if (!is(f->strategy, "single") && !is(f->strategy, "ps"))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s supports a single process or parameter servers; leave out "
                       "`strategy` %s",
                       kind->name, f->strategy);
  if (f->deterministic && (!job_is_cluster(f) || is(f->transfer, "dense")))
    return status_make(SHOAL_ERR_ARGUMENT, "`deterministic` is for tables on parameter servers: %s",
                       job_is_cluster(f) ? "leave out `transfer` dense" : "add `ps` N, or leave it out");
  if (f->deterministic && f->on_bad_row && is(f->on_bad_row, "skip"))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`deterministic` cuts steps by the rows of the files, so bad ones cannot be skipped: leave out "
                       "`on_bad_row` skip");
  if (is(f->transfer, "dense") && f->l2 > 0)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`transfer` dense does not know which features a batch touches, which `l2` needs");
  if (f->no_fusion && !job_is_sync(f))
    return status_make(SHOAL_ERR_ARGUMENT, "`mode` async needs the fused operator; leave out `no_fusion`");
  return NULL;
}

bool job_is_regression(const shoal_model_kind *kind) { return kind->outputs > 1 || loss_takes_targets(kind->loss); }

static shoal_status check_regression(const shoal_job *f, const shoal_job *asked, const shoal_model_kind *kind) {
  static const char *const only_classes[] = {"classes", "top-k", "class-weight"};
  const bool numbers = job_is_regression(kind);
  for (size_t i = 0; numbers && i < COUNT_OF(only_classes); i++)
    if (job_said(asked, only_classes[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "`%s` does not apply to the model %s, which is a regression model",
                         only_classes[i], kind->name);
  if (f->loss && kind->outputs > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "`loss` does not apply to the model %s, whose outputs have each its own",
                       kind->name);
  if (f->loss && loss_takes_targets(f->loss) != numbers)
    return status_make(SHOAL_ERR_ARGUMENT, "`loss` %s does not apply to the model %s, which %s", f->loss, kind->name,
                       numbers ? "is a regression model" : "is a classifier");
  return NULL;
}

/* "28x28x1". */
static shoal_status read_input(const char *words, shoal_shape *out) {
  shoal_shape s = {0};
  bool good = true;
  const char *at = words;
  while (good && s.rank < 4) {
    char *end;
    const long long side = strtoll(at, &end, 10);
    good = end != at && *at >= '1' && *at <= '9' && side <= INT32_MAX && (!*end || *end == 'x');
    s.dim[s.rank++] = side;
    if (!*end) break;
    at = end + 1;
  }
  double count = 1;
  for (int i = 0; i < s.rank; i++) count *= (double)s.dim[i];
  if (!good || s.rank > 3 || count > INT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "`input`: expected a number of features or a shape like 32x32x3, not '%s'",
                       words);
  *out = s;
  return NULL;
}

shoal_shape job_input(const shoal_job *f, const shoal_model_kind *kind) {
  shoal_shape s = kind->input;
  if (f->input) shoal_status_free(read_input(f->input, &s));
  return s;
}

shoal_status job_check(const shoal_job *f, const shoal_job *asked, const shoal_model_kind *kind) {
  bool decays = is(f->schedule, "staircase") || is(f->schedule, "exponential");
  if (job_said(asked, "momentum") && !is(f->optimizer, "momentum") && !is(f->optimizer, "rmsprop") &&
      !is(f->optimizer, "lars"))
    return status_make(SHOAL_ERR_ARGUMENT, "`momentum` does not apply to the optimizer %s; add `optimizer` momentum",
                       f->optimizer);
  if (job_said(asked, "nesterov") && !is(f->optimizer, "momentum"))
    return status_make(SHOAL_ERR_ARGUMENT, "`nesterov` does not apply to the optimizer %s; add `optimizer` momentum",
                       f->optimizer);
  if (job_said(asked, "decay-factor") && !decays)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`decay_factor` does not apply to the schedule %s; add `schedule` staircase or exponential",
                       f->schedule);
  if (job_said(asked, "decay-every") && !decays && !is(f->schedule, "cosine"))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`decay_every` does not apply to the schedule %s; it is for staircase, exponential and cosine",
                       f->schedule);
  if (job_said(asked, "final-lr") && !is(f->schedule, "cosine"))
    return status_make(SHOAL_ERR_ARGUMENT, "`final_lr` does not apply to the schedule %s; add `schedule` cosine",
                       f->schedule);
  if (is(f->schedule, "piecewise") != (f->pieces != NULL))
    return status_make(SHOAL_ERR_ARGUMENT, "`schedule` piecewise and `pieces` STEP:RATE,... go together");
  if (f->patience && f->validation_split == 0 && !f->validation_data)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`patience` needs `validation_split`, e.g. `validation_split` 0.1, or "
                       "`validation_data`");
  if (f->patience && f->average > 0)
    return status_make(
        SHOAL_ERR_ARGUMENT,
        "`patience` takes the weights of the best epoch, `average_weights` the averages of all; leave one "
        "out");
  if (f->validation_data && f->validation_split > 0)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`validation_data` and `validation_split` contradict each other; leave one "
                       "out");
  if (f->stream && f->validation_split > 0)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`validation_split` needs the rows in memory; leave `stream` out, or give "
                       "`validation_data`");
  if (f->resume && !f->run_dir)
    return status_make(SHOAL_ERR_ARGUMENT, "`resume` needs `run_dir` DIR, the folder of the run to continue");
  if (f->resume && f->no_checkpoints)
    return status_make(SHOAL_ERR_ARGUMENT, "`resume` and `no_checkpoints` contradict each other");
  if (!f->data) return status_make(SHOAL_ERR_ARGUMENT, "no data: set `data` to a file, a folder or a glob");
  if (f->l1 > 0 && !is(f->optimizer, "ftrl"))
    return status_make(SHOAL_ERR_ARGUMENT, "`l1` does not apply to the optimizer %s; add `optimizer` ftrl",
                       f->optimizer);
  if (f->sink) TRY(tracking_check(f->sink));
  shoal_shape input;
  if (f->input) TRY(read_input(f->input, &input));
  const shoal_model_options options = job_model_options(f, 0);
  if (model_file_of(kind)) TRY(model_file_check(model_file_of(kind), &options));
  TRY(check_sparse(f, asked, kind));
  TRY(check_regression(f, asked, kind));
  TRY(check_cluster(f, asked, kind));
  const shoal_optimizer_options optimizer = job_optimizer(f);
  if (job_is_cluster(f)) TRY(optimizer_check_servers(&optimizer, (int)f->ps));
  if (f->scale_lr && !job_is_sync(f))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`scale_lr` does not apply to `mode` async, where the batch of an update does "
                       "not grow with the workers");
  if (f->lr == 0) return status_make(SHOAL_ERR_ARGUMENT, "`lr`: with a rate of 0 nothing is learned");
  return NULL;
}
