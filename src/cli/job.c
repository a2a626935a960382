#include "cli/job.h"

#include "base/mem.h"
#include "dist/ps_protocol.h"
#include "train/loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const *job_kernel_names(void) {
  static const char *const names[] = {"auto", "generic", "avx2", "avx512", NULL};
  return names;
}

const char *const *job_activation_names(void) {
  static const char *const names[] = {"relu", "tanh", "sigmoid", NULL};
  return names;
}

const char *const *job_pool_names(void) {
  static const char *const names[] = {"max", "avg", NULL};
  return names;
}

static const char *const *strategy_names(void) {
  static const char *const names[] = {"single", "mirrored", "allreduce", "ps", NULL};
  return names;
}

static const char *const *wire_names(void) {
  static const char *const names[] = {"f32", "bf16", NULL};
  return names;
}

static const char *const *transport_names(void) {
  static const char *const names[] = {"auto", "shm", "zmq", NULL};
  return names;
}

static const char *const *transfer_names(void) {
  static const char *const names[] = {"sparse", "dense", NULL};
  return names;
}

static const char *const *mode_names(void) {
  static const char *const names[] = {"sync", "async", NULL};
  return names;
}

static const char *const *bad_row_names(void) {
  static const char *const names[] = {"stop", "skip", NULL};
  return names;
}

#define AT(f) offsetof(job_flags, f)
#define MANY 1e15
#define KEPT_SHAPES (FLAG_KEPT | FLAG_SHAPES)

const flag_row job_table[] = {
    {"data", FLAG_TEXT, AT(data), "NAME|PATH", "data set by name, or a file, a folder, a glob or a list of files",
     "the model's own", .complete = COMPLETE_FILE, .marks = FLAG_KEPT},
    {"test-data", FLAG_TEXT, AT(test_data), "NAME|PATH", "rows to test on", "the test rows in --data",
     .complete = COMPLETE_FILE, .marks = FLAG_KEPT},
    {"format", FLAG_TEXT, AT(format), "NAME", "of the files; 'shoal data list' names them",
     "found out from the content", .marks = FLAG_KEPT},
    {"columns", FLAG_TEXT, AT(columns), "TEXT", "csv and tsv: which column is what, e.g. label=y,skip=id,missing=mean",
     .marks = FLAG_KEPT},
    {"fields", FLAG_TEXT, AT(fields), "NAMES", "tfrecord: names of the features to read, e.g. label=clk,dense=age,fare",
     .marks = FLAG_KEPT},
    {"classes", FLAG_INT, AT(classes), "N", "labels are 0 to N - 1", "found from the data", 1, 1e6,
     .marks = FLAG_KEPT},
    {"features", FLAG_INT, AT(features), "N", "sparse rows: indices are 0 to N - 1",
     "found from the data; click logs: 33762578", 1, INT32_MAX, .marks = KEPT_SHAPES},
    {"transform", FLAG_TEXT, AT(transform), "STEPS",
     "done to each image, e.g. resize=28x28,gray, or row of numbers, e.g. standardise",
     "what fits the model's input", .marks = KEPT_SHAPES},
    {"input", FLAG_TEXT, AT(input), "SHAPE",
     "of an example as the model takes it, e.g. 32x32x3; images are made to fit",
     "as in the data, where the layers allow it", .marks = KEPT_SHAPES},
    {"on-bad-row", FLAG_CHOICE, AT(on_bad_row), "WHAT", "stop, or skip it and count (more than 1 % stops)", "stop",
     .choices = bad_row_names, .marks = FLAG_KEPT},
    {"memory-limit", FLAG_INT, AT(memory_limit), "MB", "data that takes more is streamed, not loaded", "1024", 1, 1e7,
     .marks = FLAG_KEPT},
    {"stream", FLAG_BOOL, AT(stream), NULL, "read the files while training, each epoch anew", .marks = KEPT_SHAPES},
    {"shuffle-rows", FLAG_INT, AT(shuffle_rows), "N", "of a stream: rows mixed with each other; 0: the order of the files", "10000", 0, 2e9,
     .marks = KEPT_SHAPES},
    {"epochs", FLAG_INT, AT(epochs), "N", "passes over the training data", "the model's own, unless --steps", 1, MANY,
     .marks = FLAG_KEPT},
    {"steps", FLAG_INT, AT(steps), "N", "end after so many steps", NULL, 1, MANY, .marks = FLAG_KEPT},
    {"batch-size", FLAG_INT, AT(batch_size), "N", "examples a step of each worker", "the model's own", 1, 1e7,
     .marks = FLAG_KEPT},
    {"global-batch", FLAG_INT, AT(global_batch), "N", "mirrored, allreduce, ps --deterministic: examples a step of all workers",
     "--batch-size times workers", 1, 1e10, .marks = FLAG_KEPT},
    {"eval-every", FLAG_INT, AT(eval_every), "ROWS", "sparse-lr: also test after so many rows; the curve is in curve.csv",
     "at the end", 1, MANY, .marks = FLAG_KEPT},
    {"lr", FLAG_NUMBER, AT(lr), "X", "learning rate",
     "the model's own; with another --optimizer, the usual one of that", 0, 1e38, .marks = KEPT_SHAPES},
    {"optimizer", FLAG_CHOICE, AT(optimizer), "NAME", "update rule", "the model's own",
     .choices = shoal_optimizer_names, .marks = KEPT_SHAPES},
    {"momentum", FLAG_NUMBER, AT(momentum), "X", "of the optimizers momentum and rmsprop", "0.9, rmsprop 0", 0,
     0.999999, .marks = KEPT_SHAPES},
    {"nesterov", FLAG_BOOL, AT(nesterov), NULL, "look ahead in the optimizer momentum", .marks = KEPT_SHAPES},
    {"schedule", FLAG_CHOICE, AT(schedule), "NAME", "how the learning rate changes",
     "the model's own",
     .choices = shoal_schedule_names, .marks = KEPT_SHAPES},
    {"decay-factor", FLAG_NUMBER, AT(decay_factor), "X", "staircase and exponential: multiply the rate by this", "0.5, alexnet 0.9",
     1e-12, 1e3, .marks = KEPT_SHAPES},
    {"decay-every", FLAG_INT, AT(decay_every), "N",
     "staircase and exponential: every so many steps; cosine: over so many steps", "an epoch; cosine: the whole run", 1,
     MANY, .marks = KEPT_SHAPES},
    {"final-lr", FLAG_NUMBER, AT(final_lr), "X", "cosine: the rate at the end", "0, or the model's own", 0, 1e38,
     .marks = KEPT_SHAPES},
    {"pieces", FLAG_TEXT, AT(pieces), "STEP:RATE,...", "piecewise: from each step on, that rate",
     .marks = KEPT_SHAPES},
    {"warmup", FLAG_INT, AT(warmup), "N", "steps over which the rate rises from 0", "0", 0, MANY,
     .marks = KEPT_SHAPES},
    {"l1", FLAG_NUMBER, AT(l1), "X", "ftrl: weight of the absolute weights; makes most of them 0", "0", 0, 1e6,
     .marks = KEPT_SHAPES},
    {"scale-lr", FLAG_BOOL, AT(scale_lr), NULL,
     "multiply the rate by the workers, as the batch is, after a warm-up of 5 % of the run unless --warmup says",
     .marks = KEPT_SHAPES},
    {"rate-scale", FLAG_NUMBER, AT(rate_scale), "X", "what --scale-lr came to when the run began", .least = 1, .most = MANY,
     .marks = FLAG_KEPT | FLAG_HIDDEN},
    {"l2", FLAG_NUMBER, AT(l2), "X", "weight of the squared weights in the loss", "the model's own", 0, 1e6,
     .marks = KEPT_SHAPES},
    {"bias-rate", FLAG_NUMBER, AT(bias_rate), "X", "learning rate of biases as a multiple of --lr; sgd and momentum",
     "1, alexnet 2", 1e-6, 1e6, .marks = KEPT_SHAPES},
    {"bias", FLAG_BOOL, AT(bias), NULL, "sparse-lr: add a bias", .marks = KEPT_SHAPES},
    {"activation", FLAG_CHOICE, AT(activation), "NAME", "of the hidden layers", "the model's own",
     .choices = job_activation_names, .marks = KEPT_SHAPES},
    {"pool", FLAG_CHOICE, AT(pool), "NAME", "pooling of the convolutional models", "the model's own",
     .choices = job_pool_names, .marks = KEPT_SHAPES},
    {"loss", FLAG_CHOICE, AT(loss), "NAME", "of a regression: squared, absolute or Huber's error; the last two want an --lr of about a tenth of the targets' "
     "spread", "the model's own", .choices = loss_target_names,
     .marks = KEPT_SHAPES},
    {"seed", FLAG_INT, AT(seed), "N", "of all random numbers: same seed and threads, same result", "1", 0, 9e15,
     .marks = KEPT_SHAPES},
    {"threads", FLAG_INT, AT(threads), "N", "threads that compute, of each worker; mirrored: 1", "one a processor", 1,
     1024, .marks = FLAG_KEPT},
    {"kernels", FLAG_CHOICE, AT(kernels), "NAME", "which numeric code runs", "auto", .choices = job_kernel_names,
     .marks = FLAG_KEPT},
    {"no-fusion", FLAG_BOOL, AT(no_fusion), NULL, "run each operator by itself: slow, to compare with",
     .marks = FLAG_KEPT},
    {"validation-split", FLAG_NUMBER, AT(validation_split), "X",
     "share of the training rows, drawn from each class, held out and tested each epoch", "0", 0, 0.9,
     .marks = KEPT_SHAPES},
    {"patience", FLAG_INT, AT(patience), "N",
     "stop after so many epochs without a better validation loss; the best epoch's weights are taken", "never", 1,
     1e9, .marks = FLAG_KEPT},
    {"top-k", FLAG_INT, AT(top_k), "K", "also report how often the class is among the K likeliest", "alexnet 5", 1, 1e6,
     .marks = FLAG_KEPT},
    {"strategy", FLAG_CHOICE, AT(strategy), "NAME", "how the work is spread", "single; ps with --workers or --ps; allreduce under mpirun",
     .choices = strategy_names, .marks = FLAG_KEPT},
    {"workers", FLAG_INT, AT(workers), "N", "processes (mirrored: threads) that compute gradients", "1; under mpirun, its number", 1,
     WORKERS_MOST, .marks = FLAG_KEPT},
    {"deterministic", FLAG_BOOL, AT(deterministic), NULL,
     "the same bits whatever the strategy and the number of workers, servers and threads, for the same global batch",
     .marks = KEPT_SHAPES},
    {"wire", FLAG_CHOICE, AT(wire), "TYPE", "allreduce: gradients as they are, or rounded to half the bytes", "f32",
     .choices = wire_names, .marks = KEPT_SHAPES},
    {"check-replicas", FLAG_INT, AT(check_replicas), "N",
     "allreduce: compare the ranks' parameters every N steps; at the end in any case", "100", 1, MANY,
     .marks = FLAG_KEPT},
    {"ps", FLAG_INT, AT(ps), "N", "parameter servers: processes that hold the parameters", "1 with the strategy ps", 1,
     SERVERS_MOST, .marks = FLAG_KEPT},
    {"mode", FLAG_CHOICE, AT(mode), "NAME",
     "ps: all workers step together, or each gradient is applied when it arrives; sparse-lr in one process: async lets "
     "all threads update at once, without locks and not the same twice", "sync", .choices = mode_names,
     .marks = FLAG_KEPT},
    {"staleness", FLAG_INT, AT(staleness), "N", "async: steps a worker may be ahead of the slowest; -1: any number",
     "-1", -1, 1e9, .marks = FLAG_KEPT},
    {"in-flight", FLAG_INT, AT(in_flight), "N",
     "async: gradients a worker may have sent without an answer while it computes on; 2 hides the way there and back, "
     "but gradients are older", "1", 1, PS_FLIGHT_MAX, .marks = FLAG_KEPT},
    {"transport", FLAG_CHOICE, AT(transport), "NAME", "ps: what carries messages between tasks of this machine",
     "auto: shared memory", .choices = transport_names, .marks = FLAG_KEPT},
    {"transfer", FLAG_CHOICE, AT(transfer), "WHAT",
     "ps, sparse-lr: workers and servers exchange what a batch touches, or all weights, to see what that costs", "sparse",
     .choices = transfer_names, .marks = KEPT_SHAPES},
    {"evaluator", FLAG_BOOL, AT(evaluator), NULL, "ps: one more process tests each checkpoint while the others train",
     .marks = 0},
    {"follow-logs", FLAG_BOOL, AT(follow_logs), NULL, "ps: show what all local tasks write to their logs, as it comes",
     .marks = 0},
    {"deadline", FLAG_NUMBER, AT(deadline), "SECONDS", "ps: how long a task waits for another before the job fails",
     "60", 0.1, 1e6, .marks = FLAG_KEPT},
    {"backup-workers", FLAG_INT, AT(backup_workers), "N",
     "sync: a step takes the first gradients and does without so many; late ones are dropped", "0", 0, WORKERS_MOST,
     .marks = FLAG_KEPT},
    {"heartbeat", FLAG_NUMBER, AT(heartbeat), "SECONDS",
     "ps: a worker that others wait for and that is silent for so long, and for thrice its longest step, is left out",
     "5", 0.1, 1e6, .marks = FLAG_KEPT},
    {"max-restarts", FLAG_INT, AT(max_restarts), "N",
     "ps: how often a task that was killed is started again; in a cluster described: above 0, it is waited for",
     "3; 0 in a cluster described", -1, 1e6, .marks = FLAG_KEPT},
    {"cluster", FLAG_TEXT, AT(cluster), "FILE", "be a task of the cluster described there, as in TF_CONFIG",
     "TF_CONFIG, if that is set", .complete = COMPLETE_FILE},
    {"task", FLAG_TEXT, AT(task), "ROLE:INDEX", "which task of the cluster this is: chief:0, worker:1, ps:0 ...",
     .marks = 0},
    {"keys", FLAG_TEXT, AT(keys), "DIR", "keys of the cluster, made by shoal keygen DIR",
     .complete = COMPLETE_DIRECTORY},
    {"insecure", FLAG_BOOL, AT(insecure), NULL, "talk to other hosts without keys", .marks = 0},
    {"job", FLAG_TEXT, AT(job), "FILE", "the cluster's description", .marks = FLAG_HIDDEN},
    {"run-dir", FLAG_TEXT, AT(run_dir), "DIR", "where the run's files go", "runs/MODEL-DATE-TIME",
     .complete = COMPLETE_DIRECTORY},
    {"resume", FLAG_BOOL, AT(resume), NULL, "continue the run in --run-dir, with its settings", .marks = 0},
    {"checkpoint-every", FLAG_INT, AT(checkpoint_every), "N", "steps between checkpoints", "an epoch", 1, MANY,
     .marks = FLAG_KEPT},
    {"keep", FLAG_INT, AT(keep), "N", "checkpoints kept", "3", 1, 1e6, .marks = FLAG_KEPT},
    {"no-checkpoints", FLAG_BOOL, AT(no_checkpoints), NULL, "save none", .marks = FLAG_KEPT},
    {"log-every", FLAG_INT, AT(log_every), "N", "steps between two lines in metrics.jsonl", "about four a second", 1,
     MANY, .marks = FLAG_KEPT},
    {"sample-every", FLAG_NUMBER, AT(sample_every), "SECONDS", "between two samples of processor, memory, network, disk",
     "1", 0.05, 3600, .marks = FLAG_KEPT},
    {"histograms", FLAG_INT, AT(histograms), "N", "every N steps, weights and gradients as histograms for TensorBoard",
     "never", 1, MANY, .marks = FLAG_KEPT},
    {"trace", FLAG_INT, AT(trace), "[N]", "record a timeline of N steps, after the first ten, for 'shoal trace'; alone: 20",
     "never", 1, 1e6, .marks = FLAG_KEPT, .bare = "20"},
    {"quiet", FLAG_BOOL, AT(quiet), NULL, "print the result table only", .marks = 0},
    {0},
};

_Static_assert(sizeof job_table / sizeof *job_table <= FLAGS_MOST, "more flags than flags_parsed has room for");

shoal_status job_find_kind(const char *name, const shoal_model_kind **out) {
  const shoal_model_kind *kind = shoal_model_kind_find(name);
  if (kind) {
    *out = kind;
    return NULL;
  }
  const char *names[33] = {0};
  size_t n = 0;
  for (int i = 0; n < 32 && (kind = shoal_model_kind_at(i)); i++) names[n++] = kind->name;
  const char *near = text_nearest(name, names, n);
  char *list = names_list(names);
  shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "unknown model '%s'%s%s%s; it is %s", name,
                                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
                                    list ? list : "?");
  free(list);
  return status;
}

static bool is(const char *a, const char *b) { return !strcmp(a, b); }

bool job_is_ranks(const job_flags *f) { return is(f->strategy, "allreduce"); }
bool job_is_mirrored(const job_flags *f) { return is(f->strategy, "mirrored"); }

/* The model's own, whatever the mode: runs that differ in it alone can be compared. */
static void fill_schedule(job_flags *f, const flags_parsed *parsed, const shoal_model_kind *kind) {
  if (f->schedule) return;
  f->schedule = kind->schedule ? kind->schedule : "constant";
  if (!flags_given(job_table, parsed, "final-lr")) f->final_lr = f->lr * kind->final_share;
}

bool job_rate_is_rough(const job_flags *f, const shoal_model_kind *kind) {
  const bool late = job_is_cluster(f) && !job_is_together(f) && (f->workers > 1 || f->in_flight > 1);
  return late && !kind->sparse && is(f->schedule, "constant") && f->lr >= kind->rate;
}

/* Where the strategy cuts it among the workers, a run that is resumed with another number of them keeps its global
 * batch, so it goes on as it began. */
static void fill_global_batch(job_flags *f, const flags_parsed *parsed) {
  if (!job_is_ranks(f) && !job_is_mirrored(f) && !(job_is_cluster(f) && f->deterministic)) {
    if (!flags_given(job_table, parsed, "global-batch")) f->global_batch = 0;
    return;
  }
  bool batch = flags_given(job_table, parsed, "batch-size"), all = flags_given(job_table, parsed, "global-batch");
  if (!f->global_batch || (batch && !all)) f->global_batch = f->batch_size * f->workers;
  if (!batch) f->batch_size = (f->global_batch + f->workers - 1) / f->workers;
}

void job_fill(job_flags *f, const flags_parsed *parsed, const shoal_model_kind *kind) {
  bool epochs = flags_given(job_table, parsed, "epochs"), steps = flags_given(job_table, parsed, "steps");
  if (steps && !epochs) f->epochs = 0; /* what is said now counts, not what a resumed run had */
  if (epochs && !steps) f->steps = 0;
  if (!f->data) f->data = kind->data;
  if (!f->epochs && !f->steps) f->epochs = kind->epochs;
  if (!f->batch_size) f->batch_size = kind->batch_size;
  const char *optimizer = kind->optimizer ? kind->optimizer : "sgd";
  if (!f->optimizer) f->optimizer = optimizer;
  if (isnan(f->lr)) f->lr = is(f->optimizer, optimizer) ? kind->rate : shoal_optimizer_rate(f->optimizer);
  if (isnan(f->l2)) f->l2 = kind->l2;
  bool one_rate = strcmp(f->optimizer, "sgd") && strcmp(f->optimizer, "momentum");
  if (isnan(f->bias_rate)) f->bias_rate = kind->bias_rate == 0 || one_rate ? 1 : kind->bias_rate;
  if (!f->top_k) f->top_k = kind->top_k;
  if (!f->loss) f->loss = kind->loss;
  if (!f->kernels) f->kernels = "auto";
  if (!f->strategy) f->strategy = f->workers > 1 || f->ps ? "ps" : "single";
  if (!f->workers) f->workers = 1;
  fill_global_batch(f, parsed);
  if (f->rate_scale == 0) f->rate_scale = (double)f->workers; /* of a resumed run: as it was */
  if (job_is_mirrored(f) && (f->threads == 1 || !flags_given(job_table, parsed, "threads"))) f->threads = f->workers;
  if (!f->wire) f->wire = "f32";
  if (!f->check_replicas) f->check_replicas = 100;
  if (!f->ps && !strcmp(f->strategy, "ps")) f->ps = 1;
  if (!f->mode) f->mode = "sync";
  fill_schedule(f, parsed, kind);
  if (!f->transport) f->transport = "auto";
  if (!f->transfer) f->transfer = "sparse";
  if (f->deadline == 0) f->deadline = 60;
  if (f->heartbeat == 0) f->heartbeat = 5;
  if (!f->keep) f->keep = 3;
  if (f->sample_every == 0) f->sample_every = 1;
  if (!f->memory_limit) f->memory_limit = 1024;
  if (f->shuffle_rows < 0) f->shuffle_rows = 10000;
  if (f->max_restarts < 0 && !is(f->strategy, "ps")) f->max_restarts = 0; /* whoever starts tasks knows otherwise */
}

bool job_has_table(const job_flags *f, const shoal_model_kind *kind) {
  return kind->sparse && job_is_cluster(f) && is(f->transfer, "sparse");
}

bool job_is_cluster(const job_flags *f) { return is(f->strategy, "ps"); }
bool job_is_together(const job_flags *f) { return is(f->mode, "sync"); }
int64_t job_global_batch(const job_flags *f) {
  return f->global_batch ? f->global_batch : f->batch_size * (job_is_together(f) ? f->workers : 1);
}

/* Flags that not every strategy takes. */
static const struct strategy_flag {
  const char *flag, *strategies; /* the latter: one after the other */
} strategy_flags[] = {{"ps", "ps"},
                      {"mode", "ps"},
                      {"staleness", "ps"},
                      {"in-flight", "ps"},
                      {"transport", "ps"},
                      {"transfer", "ps"},
                      {"keys", "ps"},
                      {"evaluator", "ps"},
                      {"follow-logs", "ps"},
                      {"backup-workers", "ps"},
                      {"heartbeat", "ps"},
                      {"max-restarts", "ps"},
                      {"deadline", "ps allreduce"},
                      {"wire", "allreduce"},
                      {"check-replicas", "allreduce"},
                      {"global-batch", "allreduce mirrored ps"}};

static bool suits(const struct strategy_flag *s, const char *strategy, const shoal_model_kind *kind) {
  const char *found = strstr(s->strategies, strategy);
  size_t length = strlen(strategy);
  if (kind->sparse && is(s->flag, "mode")) return true; /* threads that race, or not */
  return found && (!found[length] || found[length] == ' ');
}

bool job_flag_suits(const char *flag, const char *strategy, const shoal_model_kind *kind) {
  for (size_t i = 0; i < COUNT_OF(strategy_flags); i++)
    if (is(strategy_flags[i].flag, flag)) return suits(&strategy_flags[i], strategy, kind);
  return true;
}

static shoal_status check_strategy_flags(const job_flags *f, const flags_parsed *parsed, const shoal_model_kind *kind) {
  for (size_t i = 0; i < COUNT_OF(strategy_flags); i++) {
    const struct strategy_flag *s = &strategy_flags[i];
    if (!flags_given(job_table, parsed, s->flag) || suits(s, f->strategy, kind)) continue;
    return status_make(SHOAL_ERR_ARGUMENT, "--%s means nothing to the strategy %s; add --strategy %.*s", s->flag,
                       f->strategy, (int)strcspn(s->strategies, " "), s->strategies);
  }
  return NULL;
}

double job_rate_scale(const job_flags *f) { return f->scale_lr ? f->rate_scale : 1; }

static shoal_status check_cluster(const job_flags *f, const flags_parsed *parsed, const shoal_model_kind *kind) {
  TRY(check_strategy_flags(f, parsed, kind));
  if (is(f->strategy, "single") && f->workers > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "--workers %lld: the strategy single is one process; use --strategy ps, "
                       "allreduce or mirrored", (long long)f->workers);
  if (flags_given(job_table, parsed, "global-batch") && flags_given(job_table, parsed, "batch-size") &&
      f->batch_size * f->workers != f->global_batch)
    return status_make(SHOAL_ERR_ARGUMENT, "--batch-size %lld on %lld workers is not --global-batch %lld; leave one of "
                       "them out", (long long)f->batch_size, (long long)f->workers, (long long)f->global_batch);
  if (job_is_mirrored(f) && flags_given(job_table, parsed, "threads") && f->threads != f->workers)
    return status_make(SHOAL_ERR_ARGUMENT, "--threads %lld: the strategy mirrored has one thread a worker; leave it "
                       "out, or raise --workers", (long long)f->threads);
  if (!job_is_cluster(f)) return NULL;
  if (f->stream && f->deterministic)
    return status_make(SHOAL_ERR_ARGUMENT, "--deterministic with parameter servers needs the rows in memory; leave "
                       "--stream out, or take another --strategy");
  if (f->deterministic && (!job_is_together(f) || f->backup_workers))
    return status_make(SHOAL_ERR_ARGUMENT, "--deterministic is for --mode sync without --backup-workers: otherwise it "
                       "depends on who is faster");
  if (flags_given(job_table, parsed, "global-batch") && !f->deterministic)
    return status_make(SHOAL_ERR_ARGUMENT, "--global-batch is cut among the workers of parameter servers with "
                       "--deterministic only; give --batch-size, of each worker");
  if (f->keys && !f->cluster && !is(f->transport, "zmq") && !getenv("TF_CONFIG"))
    return status_make(SHOAL_ERR_ARGUMENT, "--keys means nothing to tasks that talk through shared memory; add "
                       "--transport zmq");
  if (f->evaluator && f->no_checkpoints)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "--evaluator and --no-checkpoints contradict each other: it tests checkpoints");
  if (f->backup_workers && !job_is_together(f))
    return status_make(SHOAL_ERR_ARGUMENT, "--backup-workers means nothing to --mode async, where nobody waits for a "
                       "slow worker");
  if (f->backup_workers >= f->workers)
    return status_make(SHOAL_ERR_ARGUMENT, "--backup-workers %lld: with %lld workers at most %lld is possible",
                       (long long)f->backup_workers, (long long)f->workers, (long long)f->workers - 1);
  if (f->staleness >= 0 && job_is_together(f))
    return status_make(SHOAL_ERR_ARGUMENT, "--staleness means nothing to --mode sync, where all workers step together; "
                       "add --mode async");
  if (f->in_flight > 1 && (job_is_together(f) || f->staleness == 0))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "--in-flight %lld means nothing to %s, where each step waits for the answer to "
                       "the last one",
                       (long long)f->in_flight, job_is_together(f) ? "--mode sync" : "--staleness 0");
  return NULL;
}

static shoal_status check_sparse(const job_flags *f, const flags_parsed *parsed, const shoal_model_kind *kind) {
  static const char *const only_sparse[] = {"features", "bias", "eval-every", "transfer"};
  static const char *const only_dense[] = {"transform", "input", "validation-split", "top-k", "activation", "pool",
                                           "histograms", "deterministic", "evaluator", "backup-workers",
                                           "in-flight"};
  const char *const *others = kind->sparse ? only_dense : only_sparse;
  size_t n = kind->sparse ? sizeof only_dense / sizeof *only_dense : sizeof only_sparse / sizeof *only_sparse;
  for (size_t i = 0; i < n; i++)
    if (flags_given(job_table, parsed, others[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "--%s means nothing to the model %s", others[i], kind->name);
  if (!kind->sparse) return NULL;
  if (f->classes && f->classes != 2)
    return status_make(SHOAL_ERR_ARGUMENT, "--classes %lld: %s tells two classes apart, labelled 0 and 1, or -1 and 1; "
                       "leave it out", (long long)f->classes, kind->name);
  if (!is(f->strategy, "single") && !is(f->strategy, "ps"))
    return status_make(SHOAL_ERR_ARGUMENT, "%s is trained by one process or with parameter servers; leave out "
                       "--strategy %s", kind->name, f->strategy);
  if (is(f->transfer, "dense") && f->l2 > 0)
    return status_make(SHOAL_ERR_ARGUMENT, "--transfer dense cannot tell what a batch touches, as --l2 has to know");
  if (f->no_fusion && !job_is_together(f))
    return status_make(SHOAL_ERR_ARGUMENT, "--mode async needs the fused operator; leave out --no-fusion");
  return NULL;
}

bool job_is_regression(const shoal_model_kind *kind) { return loss_takes_targets(kind->loss); }

static shoal_status check_regression(const flags_parsed *parsed, const shoal_model_kind *kind) {
  static const char *const only_classes[] = {"classes", "top-k"}, *const only_numbers[] = {"loss"};
  const bool numbers = job_is_regression(kind);
  const char *const *others = numbers ? only_classes : only_numbers;
  for (size_t i = 0; i < (numbers ? COUNT_OF(only_classes) : COUNT_OF(only_numbers)); i++)
    if (flags_given(job_table, parsed, others[i]))
      return status_make(SHOAL_ERR_ARGUMENT, "--%s means nothing to the model %s, which %s", others[i], kind->name,
                         numbers ? "predicts numbers" : "tells classes apart");
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
    return status_make(SHOAL_ERR_ARGUMENT, "--input: expected a number of features or a shape like 32x32x3, not '%s'",
                       words);
  *out = s;
  return NULL;
}

shoal_shape job_input(const job_flags *f, const shoal_model_kind *kind) {
  shoal_shape s = kind->input;
  if (f->input) shoal_status_free(read_input(f->input, &s));
  return s;
}

shoal_status job_check(const job_flags *f, const flags_parsed *parsed, const shoal_model_kind *kind) {
  bool decays = is(f->schedule, "staircase") || is(f->schedule, "exponential");
  if (flags_given(job_table, parsed, "momentum") && !is(f->optimizer, "momentum") && !is(f->optimizer, "rmsprop"))
    return status_make(SHOAL_ERR_ARGUMENT, "--momentum means nothing to the optimizer %s; add --optimizer momentum",
                       f->optimizer);
  if (flags_given(job_table, parsed, "nesterov") && !is(f->optimizer, "momentum"))
    return status_make(SHOAL_ERR_ARGUMENT, "--nesterov means nothing to the optimizer %s; add --optimizer momentum",
                       f->optimizer);
  if (flags_given(job_table, parsed, "decay-factor") && !decays)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "--decay-factor means nothing to the schedule %s; add --schedule staircase or exponential",
                       f->schedule);
  if (flags_given(job_table, parsed, "decay-every") && !decays && !is(f->schedule, "cosine"))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "--decay-every means nothing to the schedule %s; it is for staircase, exponential and cosine",
                       f->schedule);
  if (flags_given(job_table, parsed, "final-lr") && !is(f->schedule, "cosine"))
    return status_make(SHOAL_ERR_ARGUMENT, "--final-lr means nothing to the schedule %s; add --schedule cosine",
                       f->schedule);
  if (is(f->schedule, "piecewise") != (f->pieces != NULL))
    return status_make(SHOAL_ERR_ARGUMENT, "--schedule piecewise and --pieces STEP:RATE,... go together");
  if (f->patience && f->validation_split == 0)
    return status_make(SHOAL_ERR_ARGUMENT, "--patience needs --validation-split, e.g. --validation-split 0.1");
  if (f->stream && f->validation_split > 0)
    return status_make(SHOAL_ERR_ARGUMENT, "--validation-split needs the rows in memory; leave --stream out");
  if (f->resume && !f->run_dir)
    return status_make(SHOAL_ERR_ARGUMENT, "--resume needs --run-dir DIR, the folder of the run to continue");
  if (f->resume && f->no_checkpoints)
    return status_make(SHOAL_ERR_ARGUMENT, "--resume and --no-checkpoints contradict each other");
  if (!f->data) return status_make(SHOAL_ERR_ARGUMENT, "which rows? Add --data with a file, a folder or a glob");
  if (f->l1 > 0 && !is(f->optimizer, "ftrl"))
    return status_make(SHOAL_ERR_ARGUMENT, "--l1 means nothing to the optimizer %s; add --optimizer ftrl",
                       f->optimizer);
  shoal_shape input;
  if (f->input) TRY(read_input(f->input, &input));
  TRY(check_sparse(f, parsed, kind));
  TRY(check_regression(parsed, kind));
  TRY(check_cluster(f, parsed, kind));
  if (f->scale_lr && !job_is_together(f))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "--scale-lr means nothing to --mode async, where the batch of an update does "
                       "not grow with the workers");
  if (f->lr == 0) return status_make(SHOAL_ERR_ARGUMENT, "--lr: with a rate of 0 nothing is learned");
  return NULL;
}

shoal_status job_read_pieces(const char *words, job_pieces *out) {
  job_pieces pieces = {0};
  char *copy = strdup(words), *rest = copy, *item;
  if (!copy) return status_no_memory();
  shoal_status status = NULL;
  while (!status && (item = strsep(&rest, ","))) {
    char *colon = strchr(item, ':');
    int64_t step;
    double rate;
    if (colon) *colon = 0;
    if (!colon || !text_to_int(item, &step) || !text_to_double(colon + 1, &rate) || step < 0 || !(rate > 0) ||
        !isfinite(rate) || (pieces.count && step <= pieces.boundaries[pieces.count - 1]))
      status = status_make(SHOAL_ERR_ARGUMENT,
                           "--pieces: expected rising steps with rates above 0, like 1000:0.05,2000:0.01, not '%s'",
                           words);
    else if (pieces.count == PIECES_MOST)
      status = status_make(SHOAL_ERR_ARGUMENT, "--pieces: at most %d pieces", PIECES_MOST);
    else {
      pieces.boundaries[pieces.count] = step;
      pieces.rates[pieces.count++] = rate;
    }
  }
  free(copy);
  if (!status) *out = pieces;
  return status;
}

shoal_status job_build(const shoal_model_kind *kind, const job_flags *f, int classes, shoal_model **out) {
  shoal_model *m;
  if (kind->sparse)
    TRY(shoal_model_create_sparse(f->features ? f->features : kind->input.dim[0], &m));
  else
    TRY(shoal_model_create(job_input(f, kind), &m));
  kind->build(m, &(shoal_model_options){
                     .classes = classes, .activation = f->activation, .pool = f->pool, .bias = f->bias});
  *out = m;
  return NULL;
}
