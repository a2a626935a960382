/* The settings of a job, one row each: flags, --help, the man page, completion and settings.json all read this table. */
#include "run/job.h"

#include "base/mem.h"
#include "dist/ps_protocol.h"

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
  static const char *const names[] = {"auto", "shm", "tls", "zmq", "mpi", NULL};
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

#define AT(f) offsetof(shoal_job, f)
#define MANY 1e15
#define BOOL SHOAL_SETTING_BOOL
#define INT SHOAL_SETTING_INT
#define NUMBER SHOAL_SETTING_NUMBER
#define TEXT SHOAL_SETTING_TEXT
#define CHOICE SHOAL_SETTING_CHOICE
#define KEPT SHOAL_SETTING_KEPT
#define KEPT_SHAPES (SHOAL_SETTING_KEPT | SHOAL_SETTING_SHAPES)

const shoal_setting job_table[] = {
    {"data", TEXT, AT(data), "NAME|PATH", "data set by name, or a file, a folder, a glob or a list of files",
     "the model's own", .complete = SHOAL_COMPLETE_FILE, .marks = KEPT},
    {"test-data", TEXT, AT(test_data), "NAME|PATH", "rows to test on", "the test rows in --data",
     .complete = SHOAL_COMPLETE_FILE, .marks = KEPT},
    {"format", TEXT, AT(format), "NAME", "of the files; 'shoal data list' names them", "found out from the content",
     .marks = KEPT},
    {"columns", TEXT, AT(columns), "TEXT", "csv and tsv: which column is what, e.g. label=y,skip=id,missing=mean",
     .marks = KEPT},
    {"fields", TEXT, AT(fields), "NAMES", "tfrecord: names of the features to read, e.g. label=clk,dense=age,fare",
     .marks = KEPT},
    {"classes", INT, AT(classes), "N", "labels are 0 to N - 1", "found from the data", 1, 1e6, .marks = KEPT},
    {"features", INT, AT(features), "N", "sparse rows: indices are 0 to N - 1",
     "found from the data; click logs: 33762578", 1, INT32_MAX, .marks = KEPT_SHAPES},
    {"transform", TEXT, AT(transform), "STEPS",
     "done to each image, e.g. resize=28x28,gray, or row of numbers, e.g. standardise", "what fits the model's input",
     .marks = KEPT_SHAPES},
    {"input", TEXT, AT(input), "SHAPE", "of an example as the model takes it, e.g. 32x32x3; images are made to fit",
     "as in the data, where the layers allow it", .marks = KEPT_SHAPES},
    {"on-bad-row", CHOICE, AT(on_bad_row), "WHAT", "stop, or skip it and count (more than 1 % stops)", "stop",
     .choices = bad_row_names, .marks = KEPT},
    {"memory-limit", INT, AT(memory_limit), "MB", "data that takes more is streamed, not loaded", "1024", 1, 1e7,
     .marks = KEPT},
    {"stream", BOOL, AT(stream), NULL, "read the files while training, each epoch anew", .marks = KEPT_SHAPES},
    {"shuffle-rows", INT, AT(shuffle_rows), "N", "of a stream: rows mixed with each other; 0: the order of the files",
     "10000", 0, 2e9, .marks = KEPT_SHAPES},
    {"epochs", INT, AT(epochs), "N", "passes over the training data", "the model's own, unless --steps", 1, MANY,
     .marks = KEPT},
    {"steps", INT, AT(steps), "N", "end after so many steps", NULL, 1, MANY, .marks = KEPT},
    {"batch-size", INT, AT(batch_size), "N", "examples a step of each worker", "the model's own; fewer for few rows", 1,
     1e7, .marks = KEPT},
    {"global-batch", INT, AT(global_batch), "N",
     "mirrored, allreduce, ps --deterministic: examples a step of all workers", "--batch-size times workers", 1, 1e10,
     .marks = KEPT},
    {"eval-every", INT, AT(eval_every), "ROWS", "sparse-lr: also test after so many rows; the curve is in curve.csv",
     "at the end", 1, MANY, .marks = KEPT},
    {"lr", NUMBER, AT(lr), "X", "learning rate", "the model's own; with another --optimizer, the usual one of that", 0,
     1e38, .marks = KEPT_SHAPES},
    {"optimizer", CHOICE, AT(optimizer), "NAME", "update rule", "the model's own", .choices = shoal_optimizer_names,
     .marks = KEPT_SHAPES},
    {"momentum", NUMBER, AT(momentum), "X", "of the optimizers momentum, lars and rmsprop", "0.9, rmsprop 0", 0,
     0.999999, .marks = KEPT_SHAPES},
    {"nesterov", BOOL, AT(nesterov), NULL, "look ahead in the optimizer momentum", .marks = KEPT_SHAPES},
    {"beta1", NUMBER, AT(beta1), "X", "adam and those like it: how long the mean of gradients lasts", "the usual one",
     0, 0.9999999, .marks = KEPT_SHAPES},
    {"beta2", NUMBER, AT(beta2), "X", "... and the mean of their squares", "the usual one", 0, 0.9999999,
     .marks = KEPT_SHAPES},
    {"rho", NUMBER, AT(rho), "X", "rmsprop: how long the mean of squared gradients lasts", "0.9", 0, 0.9999999,
     .marks = KEPT_SHAPES},
    {"epsilon", NUMBER, AT(epsilon), "X", "what keeps optimizers from dividing by 0", "1e-7", 0, 1,
     .marks = KEPT_SHAPES},
    {"schedule", CHOICE, AT(schedule), "NAME", "how the learning rate changes", "the model's own",
     .choices = shoal_schedule_names, .marks = KEPT_SHAPES},
    {"decay-factor", NUMBER, AT(decay_factor), "X", "staircase and exponential: multiply the rate by this",
     "0.5, alexnet 0.9", 1e-12, 1e3, .marks = KEPT_SHAPES},
    {"decay-every", INT, AT(decay_every), "N",
     "staircase and exponential: every so many steps; cosine: over so many steps", "an epoch; cosine: the whole run", 1,
     MANY, .marks = KEPT_SHAPES},
    {"final-lr", NUMBER, AT(final_lr), "X", "cosine: the rate at the end", "0, or the model's own", 0, 1e38,
     .marks = KEPT_SHAPES},
    {"pieces", TEXT, AT(pieces), "STEP:RATE,...", "piecewise: from each step on, that rate", .marks = KEPT_SHAPES},
    {"warmup", INT, AT(warmup), "N", "steps over which the rate rises from 0", "0", 0, MANY, .marks = KEPT_SHAPES},
    {"l1", NUMBER, AT(l1), "X", "ftrl: weight of the absolute weights; makes most of them 0", "0", 0, 1e6,
     .marks = KEPT_SHAPES},
    {"scale-lr", BOOL, AT(scale_lr), NULL,
     "multiply the rate by the workers, as the batch is, after a warm-up of 5 % of the run unless --warmup says",
     .marks = KEPT_SHAPES},
    {"rate-scale", NUMBER, AT(rate_scale), "X", "what --scale-lr came to when the run began", .least = 1, .most = MANY,
     .marks = KEPT | SHOAL_SETTING_HIDDEN},
    {"l2", NUMBER, AT(l2), "X", "weight of the squared weights in the loss", "the model's own", 0, 1e6,
     .marks = KEPT_SHAPES},
    {"weight-decay", NUMBER, AT(weight_decay), "X",
     "each update shrinks every weight it touches by this share, times the rate", "adamw 0.004, others 0", 0, 1e6,
     .marks = KEPT_SHAPES},
    {"average-weights", NUMBER, AT(average), "X",
     "at the end take an average of the weights, in which each update counts 1 - X, e.g. 0.999", "not", 0, 0.9999999,
     .marks = KEPT_SHAPES},
    {"clip-value", NUMBER, AT(clip_value), "X", "take each number of a gradient into [-X, X]", "not", 0, 1e30,
     .marks = KEPT_SHAPES},
    {"clip-norm", NUMBER, AT(clip_norm), "X", "scale the gradient of a variable down to this norm", "not", 0, 1e30,
     .marks = KEPT_SHAPES},
    {"clip-global-norm", NUMBER, AT(clip_global_norm), "X", "scale all gradients down to this norm together", "not", 0,
     1e30, .marks = KEPT_SHAPES},
    {"bias-rate", NUMBER, AT(bias_rate), "X", "learning rate of biases as a multiple of --lr; sgd and momentum",
     "1, alexnet 2", 1e-6, 1e6, .marks = KEPT_SHAPES},
    {"bias", BOOL, AT(bias), NULL, "sparse-lr: add a bias", .marks = KEPT_SHAPES},
    {"activation", CHOICE, AT(activation), "NAME", "of the hidden layers", "the model's own",
     .choices = job_activation_names, .marks = KEPT_SHAPES},
    {"pool", CHOICE, AT(pool), "NAME", "pooling of the convolutional models", "the model's own",
     .choices = job_pool_names, .marks = KEPT_SHAPES},
    {"weights", TEXT, AT(weights), "FILE", "to begin with: a run's folder, a safetensors file or a model.keras",
     "random, or those in the model's file", .complete = SHOAL_COMPLETE_FILE, .marks = KEPT},
    {"set", TEXT, AT(set), "NAME=VALUE,...", "of a model file: values of its parameters", "as the file has them",
     .marks = KEPT_SHAPES},
    {"loss", CHOICE, AT(loss), "NAME",
     "what is made small; mae and huber want an --lr of about a tenth of the targets' spread", "the model's own",
     .choices = shoal_loss_names, .marks = KEPT_SHAPES},
    {"label-smoothing", NUMBER, AT(label_smoothing), "X",
     "of cross-entropies: this share of each label is spread evenly over all classes", "0", 0, 0.999999,
     .marks = KEPT_SHAPES},
    {"class-weight", TEXT, AT(class_weight), "WEIGHTS",
     "what a row counts in training by its class: balanced (rare classes count more), or numbers like 1,2.5",
     "all the same", .marks = KEPT_SHAPES},
    {"seed", INT, AT(seed), "N", "of all random numbers: same seed and threads, same result", "1", 0, 9e15,
     .marks = KEPT_SHAPES},
    {"threads", INT, AT(threads), "N", "threads that compute, of each worker; mirrored: 1", "one a processor", 1, 1024,
     .marks = KEPT},
    {"kernels", CHOICE, AT(kernels), "NAME", "which numeric code runs", "auto", .choices = job_kernel_names,
     .marks = KEPT},
    {"no-fusion", BOOL, AT(no_fusion), NULL, "run each operator by itself: slow, to compare with", .marks = KEPT},
    {"validation-split", NUMBER, AT(validation_split), "X",
     "share of the training rows, drawn from each class, held out and tested each epoch", "0", 0, 0.9,
     .marks = KEPT_SHAPES},
    {"validation-data", TEXT, AT(validation_data), "NAME|PATH",
     "rows to validate on after each epoch, in place of --validation-split; they must fit into memory",
     .complete = SHOAL_COMPLETE_FILE, .marks = KEPT},
    {"patience", INT, AT(patience), "N",
     "stop after so many epochs without a better validation loss; the best epoch's weights are taken", "never", 1, 1e9,
     .marks = KEPT},
    {"top-k", INT, AT(top_k), "K", "also report how often the class is among the K likeliest", "alexnet 5", 1, 1e6,
     .marks = KEPT},
    {"strategy", CHOICE, AT(strategy), "NAME", "how the work is spread",
     "single; ps with --workers or --ps; allreduce under mpirun", .choices = strategy_names, .marks = KEPT},
    {"workers", INT, AT(workers), "N", "processes (mirrored: threads) that compute gradients",
     "1; under mpirun, its number", 1, WORKERS_MAX, .marks = KEPT},
    {"deterministic", BOOL, AT(deterministic), NULL,
     "the same bits whatever the strategy and the number of workers, servers and threads, for the same global batch",
     .marks = KEPT_SHAPES},
    {"wire", CHOICE, AT(wire), "TYPE", "allreduce: gradients as they are, or rounded to half the bytes", "f32",
     .choices = wire_names, .marks = KEPT_SHAPES},
    {"check-replicas", INT, AT(check_replicas), "N",
     "allreduce: compare the ranks' parameters every N steps; at the end in any case", "100", 1, MANY, .marks = KEPT},
    {"ps", INT, AT(ps), "N", "parameter servers: processes that hold the parameters", "1 with the strategy ps", 1,
     SERVERS_MAX, .marks = KEPT},
    {"replicas", INT, AT(replicas), "R",
     "ps: backups of each server: 1: one more process holds the same and takes over when the server dies or stalls",
     "0", 0, PS_MEMBERS - 1, .marks = KEPT},
    {"mode", CHOICE, AT(mode), "NAME",
     "ps: all workers step together, or each gradient is applied when it arrives; sparse-lr in one process: async lets "
     "all threads update at once, without locks and not the same twice",
     "sync", .choices = mode_names, .marks = KEPT},
    {"staleness", INT, AT(staleness), "N", "async: steps a worker may be ahead of the slowest; -1: any number", "-1",
     -1, 1e9, .marks = KEPT},
    {"in-flight", INT, AT(in_flight), "N",
     "async: gradients a worker may have sent without an answer while it computes on; 2 hides the way there and back, "
     "but gradients are older",
     "1", 1, PS_FLIGHT_MAX, .marks = KEPT},
    {"transport", CHOICE, AT(transport), "NAME",
     "ps, allreduce: what carries messages between tasks of this machine: shared memory, TCP with TLS (plain without "
     "--keys), ZeroMQ (ps) or MPI (allreduce)",
     "auto: shared memory; under mpirun, MPI", .choices = transport_names, .marks = KEPT},
    {"transfer", CHOICE, AT(transfer), "WHAT",
     "ps, sparse-lr: workers and servers exchange what a batch touches, or all weights, to see what that costs",
     "sparse", .choices = transfer_names, .marks = KEPT_SHAPES},
    {"evaluator", BOOL, AT(evaluator), NULL, "ps: one more process tests each checkpoint while the others train",
     .marks = 0},
    {"follow-logs", BOOL, AT(follow_logs), NULL, "ps: show what all local tasks write to their logs, as it comes",
     .marks = 0},
    {"deadline", NUMBER, AT(deadline), "SECONDS",
     "ps, allreduce: how long a task waits for another before the job fails", "60", 0.1, 1e6, .marks = KEPT},
    {"backup-workers", INT, AT(backup_workers), "N",
     "sync: a step takes the first gradients and does without so many; late ones are dropped", "0", 0, WORKERS_MAX,
     .marks = KEPT},
    {"heartbeat", NUMBER, AT(heartbeat), "SECONDS",
     "ps: a worker that others wait for and that is silent for so long, and for thrice its longest step, is left out",
     "5", 0.1, 1e6, .marks = KEPT},
    {"max-restarts", INT, AT(max_restarts), "N",
     "ps: how often a task that was killed is started again; in a cluster described: above 0, it is waited for", "3",
     -1, 1e6, .marks = KEPT},
    {"cluster", TEXT, AT(cluster), "FILE", "be a task of the cluster described there, as in TF_CONFIG",
     "TF_CONFIG, if that is set", .complete = SHOAL_COMPLETE_FILE},
    {"task", TEXT, AT(task), "ROLE:INDEX", "which task of the cluster this is: chief:0, worker:1, ps:0 ...",
     .marks = 0},
    {"keys", TEXT, AT(keys), "DIR", "keys of the cluster, made by shoal keygen DIR",
     .complete = SHOAL_COMPLETE_DIRECTORY},
    {"insecure", BOOL, AT(insecure), NULL, "talk to other hosts without keys", .marks = 0},
    {"job", TEXT, AT(job_file), "FILE", "the cluster's description", .marks = SHOAL_SETTING_HIDDEN},
    {"run-dir", TEXT, AT(run_dir), "DIR", "where the run's files go", "runs/MODEL-DATE-TIME",
     .complete = SHOAL_COMPLETE_DIRECTORY},
    {"resume", BOOL, AT(resume), NULL, "continue the run in --run-dir, with its settings", .marks = 0},
    {"checkpoint-every", INT, AT(checkpoint_every), "N", "steps between checkpoints", "an epoch", 1, MANY,
     .marks = KEPT},
    {"keep", INT, AT(keep), "N", "checkpoints kept", "3", 1, 1e6, .marks = KEPT},
    {"no-checkpoints", BOOL, AT(no_checkpoints), NULL, "save none", .marks = KEPT},
    {"log-every", INT, AT(log_every), "N", "steps between two lines in metrics.jsonl", "about four a second", 1, MANY,
     .marks = KEPT},
    {"sample-every", NUMBER, AT(sample_every), "SECONDS", "between two samples of processor, memory, network, disk",
     "1", 0.05, 3600, .marks = KEPT},
    {"histograms", INT, AT(histograms), "N", "every N steps, weights and gradients as histograms for TensorBoard",
     "never", 1, MANY, .marks = KEPT},
    {"trace", INT, AT(trace), "[N]", "record a timeline of N steps, after the first ten, for 'shoal trace'; alone: 20",
     "never", 1, 1e6, .marks = KEPT, .bare = "20"},
    {"metrics-port", INT, AT(metrics_port), "N",
     "serve /metrics for Prometheus, /healthz and /readyz there; several tasks of this machine count on from it",
     "none", 1, 65535, .marks = KEPT},
    {"metrics-address", TEXT, AT(metrics_address), "ADDRESS",
     "for that; others than loopback need a token in SHOAL_METRICS_TOKEN", "127.0.0.1", .marks = KEPT},
    {"drain", NUMBER, AT(drain), "SECONDS",
     "a TERM signal asks a task to leave in order, for which it has so long: checkpoint, exit status 0; a parameter "
     "server has worker 0 save and end the job first",
     "exit status 143; a server ends at once", 0, 1e6, .marks = KEPT},
    {"retry-status", INT, AT(retry_status), "N",
     "exit status after failures of tasks or machines, and of a job that was drained: a new try with --resume may go "
     "on",
     "1; 0", 1, 125, .marks = 0},
    {"quiet", BOOL, AT(quiet), NULL, "print the result table only", .marks = 0},
    {0},
};
