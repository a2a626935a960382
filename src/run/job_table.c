/* The settings of a job, one row each: flags, --help, the man page, completion and settings.json all read this table. */
#include "run/job.h"

#include "base/mem.h"
#include "dist/ps_protocol.h"
#include "dist/wire_format.h"
#include "train/ps_table.h"

const char *const *job_kernel_names(void) {
  static const char *const names[] = {"auto", "generic", "avx2", "avx512", "neon", NULL};
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

static const char *const *transport_names(void) {
  static const char *const names[] = {"auto", "shm", "tls", "zmq", "mpi", NULL};
  return names;
}

static const char *const *compress_names(void) {
  static const char *const names[] = {"none", "powersgd", "auto", NULL};
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
    {"format", TEXT, AT(format), "NAME", "file format; 'shoal data list' names them", "detected from the content",
     .marks = KEPT},
    {"columns", TEXT, AT(columns), "TEXT", "csv and tsv: roles of the columns, e.g. label=y,skip=id,missing=mean",
     .marks = KEPT},
    {"fields", TEXT, AT(fields), "NAMES", "tfrecord: names of the features to read, e.g. label=clk,dense=age,fare",
     .marks = KEPT},
    {"classes", INT, AT(classes), "N", "labels are 0 to N - 1", "taken from the data", 1, 1e6, .marks = KEPT},
    {"features", INT, AT(features), "N", "sparse rows: indices are 0 to N - 1",
     "taken from the data; click logs: 33762578", 1, INT32_MAX, .marks = KEPT_SHAPES},
    {"growing-ids", BOOL, AT(growing_ids), NULL,
     "sparse rows: features are 64-bit ids without end; each gets its row of the table when it comes",
     .marks = KEPT_SHAPES},
    {"ids-memory", INT, AT(ids_memory), "MB",
     "growing ids: memory of the table; when it is full, the ids not used for the longest time are evicted", "no limit",
     1, 1e9, .marks = KEPT_SHAPES},
    {"admit", INT, AT(admit), "N", "growing ids: an id gets its row in the Nth batch that has it", "1", 1, 255,
     .marks = KEPT_SHAPES},
    {"evict-after", INT, AT(evict_after), "N", "growing ids: evict an id that N steps have not had", "never", 1, 4e9,
     .marks = KEPT_SHAPES},
    {"transform", TEXT, AT(transform), "STEPS",
     "applied to each image, e.g. resize=28x28,gray, or row of numbers, e.g. standardise",
     "what fits the model's input", .marks = KEPT_SHAPES},
    {"input", TEXT, AT(input), "SHAPE", "shape of the model's input, e.g. 32x32x3; images are resized to it",
     "the shape of the data, if the layers allow it", .marks = KEPT_SHAPES},
    {"on-bad-row", CHOICE, AT(on_bad_row), "WHAT", "stop, or skip and count it (more than 1 % bad rows stop the run)",
     "stop", .choices = bad_row_names, .marks = KEPT},
    {"memory-limit", INT, AT(memory_limit), "MB", "data sets larger than this are streamed instead of loaded", "1024",
     1, 1e7, .marks = KEPT},
    {"stream", BOOL, AT(stream), NULL, "stream the files from disk in every epoch", .marks = KEPT_SHAPES},
    {"shuffle-rows", INT, AT(shuffle_rows), "N",
     "size of the shuffle buffer of a stream; 0: keep the order of the files", "10000", 0, 2e9, .marks = KEPT_SHAPES},
    {"epochs", INT, AT(epochs), "N", "passes over the training data", "the model's own, unless --steps", 1, MANY,
     .marks = KEPT},
    {"steps", INT, AT(steps), "N", "stop after this many steps", NULL, 1, MANY, .marks = KEPT},
    {"batch-size", INT, AT(batch_size), "N", "examples per step and worker", "the model's own; fewer for few rows", 1,
     1e7, .marks = KEPT},
    {"global-batch", INT, AT(global_batch), "N",
     "mirrored, allreduce, ps --deterministic: examples per step of all workers", "--batch-size times workers", 1, 1e10,
     .marks = KEPT},
    {"accumulate", INT, AT(accumulate), "N",
     "gradient accumulation: make an update of the mean gradient of N batches, computed one after the other", "1", 1,
     65536, .marks = KEPT},
    {"eval-every", INT, AT(eval_every), "ROWS", "sparse-lr: also test every ROWS rows; the curve goes to curve.csv",
     "at the end", 1, MANY, .marks = KEPT},
    {"lr", NUMBER, AT(lr), "X", "learning rate", "the model's own; with another --optimizer, the default of that", 0,
     1e38, .marks = KEPT_SHAPES},
    {"optimizer", CHOICE, AT(optimizer), "NAME", "update rule", "the model's own", .choices = shoal_optimizer_names,
     .marks = KEPT_SHAPES},
    {"momentum", NUMBER, AT(momentum), "X", "of the optimizers momentum, lars and rmsprop", "0.9, rmsprop 0", 0,
     0.999999, .marks = KEPT_SHAPES},
    {"nesterov", BOOL, AT(nesterov), NULL, "Nesterov momentum, for the optimizer momentum", .marks = KEPT_SHAPES},
    {"beta1", NUMBER, AT(beta1), "X", "adam and those like it: how long the mean of gradients lasts", "the usual one",
     0, 0.9999999, .marks = KEPT_SHAPES},
    {"beta2", NUMBER, AT(beta2), "X", "... and the mean of their squares", "the usual one", 0, 0.9999999,
     .marks = KEPT_SHAPES},
    {"rho", NUMBER, AT(rho), "X", "rmsprop: how long the mean of squared gradients lasts", "0.9", 0, 0.9999999,
     .marks = KEPT_SHAPES},
    {"epsilon", NUMBER, AT(epsilon), "X", "what keeps optimizers from dividing by 0", "1e-7", 0, 1,
     .marks = KEPT_SHAPES},
    {"accumulator", NUMBER, AT(accumulator), "X", "adagrad: what its sums of squares begin with",
     "0.1, or the model's own", 0, 1e6, .marks = KEPT_SHAPES},
    {"schedule", CHOICE, AT(schedule), "NAME", "how the learning rate changes", "the model's own",
     .choices = shoal_schedule_names, .marks = KEPT_SHAPES},
    {"decay-factor", NUMBER, AT(decay_factor), "X", "staircase and exponential: multiply the rate by this",
     "0.5, alexnet 0.9", 1e-12, 1e3, .marks = KEPT_SHAPES},
    {"decay-every", INT, AT(decay_every), "N",
     "staircase and exponential: steps between decays; cosine: steps of the decay", "an epoch; cosine: the whole run",
     1, MANY, .marks = KEPT_SHAPES},
    {"final-lr", NUMBER, AT(final_lr), "X", "cosine: the rate at the end", "0, or the model's own", 0, 1e38,
     .marks = KEPT_SHAPES},
    {"pieces", TEXT, AT(pieces), "STEP:RATE,...", "piecewise: from each step on, that rate", .marks = KEPT_SHAPES},
    {"warmup", INT, AT(warmup), "N", "steps over which the rate rises from 0", "0", 0, MANY, .marks = KEPT_SHAPES},
    {"l1", NUMBER, AT(l1), "X", "ftrl: L1 regularization, which makes most weights 0", "0", 0, 1e6,
     .marks = KEPT_SHAPES},
    {"scale-lr", BOOL, AT(scale_lr), NULL,
     "scale the learning rate with the number of workers; warm-up over 5 % of the run unless --warmup is given",
     .marks = KEPT_SHAPES},
    {"rate-scale", NUMBER, AT(rate_scale), "X", "what --scale-lr came to when the run began", .least = 1, .most = MANY,
     .marks = KEPT | SHOAL_SETTING_HIDDEN},
    {"l2", NUMBER, AT(l2), "X", "L2 regularization: weight of the squared weights in the loss", "the model's own", 0,
     1e6, .marks = KEPT_SHAPES},
    {"weight-decay", NUMBER, AT(weight_decay), "X",
     "decoupled weight decay: each update shrinks the weights by this share, times the rate", "adamw 0.004, others 0",
     0, 1e6, .marks = KEPT_SHAPES},
    {"average-weights", NUMBER, AT(average), "X",
     "end with an exponential moving average of the weights, with this decay, e.g. 0.999", "not", 0, 0.9999999,
     .marks = KEPT_SHAPES},
    {"clip-value", NUMBER, AT(clip_value), "X", "clip each element of a gradient to [-X, X]", "not", 0, 1e30,
     .marks = KEPT_SHAPES},
    {"clip-norm", NUMBER, AT(clip_norm), "X", "scale each gradient down to this norm", "not", 0, 1e30,
     .marks = KEPT_SHAPES},
    {"clip-global-norm", NUMBER, AT(clip_global_norm), "X", "scale all gradients together down to this norm", "not", 0,
     1e30, .marks = KEPT_SHAPES},
    {"bias-rate", NUMBER, AT(bias_rate), "X", "learning rate of biases as a multiple of --lr; sgd and momentum",
     "1, alexnet 2", 1e-6, 1e6, .marks = KEPT_SHAPES},
    {"bias", BOOL, AT(bias), NULL, "sparse-lr: add a bias", .marks = KEPT_SHAPES},
    {"activation", CHOICE, AT(activation), "NAME", "activation of the hidden layers", "the model's own",
     .choices = job_activation_names, .marks = KEPT_SHAPES},
    {"pool", CHOICE, AT(pool), "NAME", "pooling of the convolutional models", "the model's own",
     .choices = job_pool_names, .marks = KEPT_SHAPES},
    {"weights", TEXT, AT(weights), "FILE", "to begin with: a run's folder, a safetensors file or a model.keras",
     "random, or those in the model's file", .complete = SHOAL_COMPLETE_FILE, .marks = KEPT},
    {"set", TEXT, AT(set), "NAME=VALUE,...", "parameters of a model file", "the values in the file",
     .marks = KEPT_SHAPES},
    {"loss", CHOICE, AT(loss), "NAME",
     "loss function; mae and huber need an --lr of about a tenth of the spread of the targets", "the model's own",
     .choices = shoal_loss_names, .marks = KEPT_SHAPES},
    {"label-smoothing", NUMBER, AT(label_smoothing), "X",
     "for cross-entropies: share of each label that is spread evenly over all classes", "0", 0, 0.999999,
     .marks = KEPT_SHAPES},
    {"class-weight", TEXT, AT(class_weight), "WEIGHTS",
     "weights of the classes in the loss: balanced (rare classes count more), or numbers like 1,2.5", "all the same",
     .marks = KEPT_SHAPES},
    {"seed", INT, AT(seed), "N", "random seed: same seed and threads, same result", "1", 0, 9e15, .marks = KEPT_SHAPES},
    {"threads", INT, AT(threads), "N", "compute threads of each worker; mirrored: 1", "one per processor", 1, 1024,
     .marks = KEPT},
    {"kernels", CHOICE, AT(kernels), "NAME", "which kernels to use", "auto", .choices = job_kernel_names,
     .marks = KEPT},
    {"no-fusion", BOOL, AT(no_fusion), NULL, "run each operator separately: slow, for comparison", .marks = KEPT},
    {"validation-split", NUMBER, AT(validation_split), "X",
     "share of the training rows, stratified by class, held out for validation after each epoch", "0", 0, 0.9,
     .marks = KEPT_SHAPES},
    {"validation-data", TEXT, AT(validation_data), "NAME|PATH",
     "rows to validate on after each epoch, in place of --validation-split; they must fit into memory",
     .complete = SHOAL_COMPLETE_FILE, .marks = KEPT},
    {"patience", INT, AT(patience), "N",
     "early stopping: stop after N epochs without a better validation loss and restore the best weights", "never", 1,
     1e9, .marks = KEPT},
    {"top-k", INT, AT(top_k), "K", "also report top-K accuracy", "alexnet 5", 1, 1e6, .marks = KEPT},
    {"strategy", CHOICE, AT(strategy), "NAME", "distribution strategy",
     "single; ps with --workers or --ps; allreduce under mpirun", .choices = strategy_names, .marks = KEPT},
    {"workers", INT, AT(workers), "N", "processes (mirrored: threads) that compute gradients",
     "1; under mpirun, its number", 1, WORKERS_MAX, .marks = KEPT},
    {"deterministic", BOOL, AT(deterministic), NULL,
     "bit-identical results for any strategy and any number of workers, servers and threads with the same global batch",
     .marks = KEPT_SHAPES},
    {"wire", CHOICE, AT(wire), "TYPE", "allreduce, ps: number format of gradients (ps: and parameters) on the wire",
     "f32", .choices = wire_format_names, .marks = KEPT_SHAPES},
    {"compress", CHOICE, AT(compress), "HOW",
     "allreduce: powersgd: gradients travel as low-rank factors; allreduce, ps: auto: measure network and step, then "
     "choose between that (allreduce) and the formats of --wire",
     "none", .choices = compress_names, .marks = KEPT_SHAPES},
    {"compress-rank", INT, AT(compress_rank), "R", "powersgd: rank of the factors", "4", 1, 64, .marks = KEPT_SHAPES},
    {"local-steps", INT, AT(local_steps), "H",
     "allreduce, ps: local SGD: each worker makes H steps by itself, then the parameters are averaged", "1", 1, 1e6,
     .marks = KEPT_SHAPES},
    {"outer-lr", NUMBER, AT(outer_lr), "X", "local steps: learning rate of the averaged update", "1; with momentum 0.7",
     1e-6, 10, .marks = KEPT_SHAPES},
    {"outer-momentum", NUMBER, AT(outer_momentum), "X",
     "local steps: Nesterov momentum of the averaged update (DiLoCo: 0.9)", "0", 0, 0.9999, .marks = KEPT_SHAPES},
    {"check-replicas", INT, AT(check_replicas), "N",
     "allreduce: compare the ranks' parameters every N steps, and at the end", "100", 1, MANY, .marks = KEPT},
    {"ps", INT, AT(ps), "N", "parameter servers: processes that hold the parameters", "1 with the strategy ps", 1,
     SERVERS_MAX, .marks = KEPT},
    {"server-threads", INT, AT(server_threads), "N", "ps: threads of each server, for sums and updates of large models",
     "one per processor from 4 million parameters on, otherwise 1", 1, 1024, .marks = KEPT},
    {"replicas", INT, AT(replicas), "R",
     "ps: backups of each server; with 1, a second process takes over when the server dies or stalls", "0", 0,
     PS_MEMBERS - 1, .marks = KEPT},
    {"mode", CHOICE, AT(mode), "NAME",
     "ps: sync: all workers step together; async: each gradient is applied when it arrives; sparse-lr in one process: "
     "async updates without locks (Hogwild), which is not reproducible",
     "sync", .choices = mode_names, .marks = KEPT},
    {"staleness", INT, AT(staleness), "N", "async: steps a worker may be ahead of the slowest; -1: any number", "-1",
     -1, 1e9, .marks = KEPT},
    {"in-flight", INT, AT(in_flight), "N",
     "async: gradients a worker may have in flight; 2 hides the round trip, but makes gradients staler", "1", 1,
     PS_FLIGHT_MAX, .marks = KEPT},
    {"cache-rows", INT, AT(cache_rows), "N",
     "async, tables: rows that each worker keeps, those that its batches ask for most often, instead of being sent "
     "them in "
     "each step",
     "0", 0, PS_CACHE_ROWS_MAX, .marks = KEPT},
    {"cache-staleness", INT, AT(cache_staleness), "N", "--cache-rows: steps for which a worker takes a row as it is",
     "1", 1, 1e9, .marks = KEPT},
    {"transport", CHOICE, AT(transport), "NAME",
     "ps, allreduce: what carries messages between tasks of this machine: shared memory, TCP with TLS (plain without "
     "--keys), ZeroMQ (ps) or MPI (allreduce)",
     "auto: shared memory; under mpirun, MPI", .choices = transport_names, .marks = KEPT},
    {"transfer", CHOICE, AT(transfer), "WHAT",
     "ps, sparse-lr: exchange only the weights a batch touches, or all of them, for comparison", "sparse",
     .choices = transfer_names, .marks = KEPT_SHAPES},
    {"evaluator", BOOL, AT(evaluator), NULL, "ps: an extra process evaluates each checkpoint while the others train",
     .marks = 0},
    {"follow-logs", BOOL, AT(follow_logs), NULL, "ps: print the logs of all local tasks as they are written",
     .marks = 0},
    {"deadline", NUMBER, AT(deadline), "SECONDS",
     "ps, allreduce: how long a task waits for another before the job fails", "60", 0.1, 1e6, .marks = KEPT},
    {"backup-workers", INT, AT(backup_workers), "N",
     "sync: spare workers: a step uses the first gradients and drops the N latest", "0", 0, WORKERS_MAX, .marks = KEPT},
    {"heartbeat", NUMBER, AT(heartbeat), "SECONDS",
     "a worker is dropped when it is silent for this long; ps: holds up others, and three times its longest step, too",
     "5", 0.1, 1e6, .marks = KEPT},
    {"max-restarts", INT, AT(max_restarts), "N",
     "ps, allreduce: how often a killed task is restarted; ps in a described cluster, above 0: the others wait for it",
     "3", -1, 1e6, .marks = KEPT},
    {"cluster", TEXT, AT(cluster), "FILE", "run as a task of the cluster described in FILE, as in TF_CONFIG",
     "TF_CONFIG, if that is set", .complete = SHOAL_COMPLETE_FILE},
    {"task", TEXT, AT(task), "ROLE:INDEX", "the task to run as: chief:0, worker:1, ps:0 ...", .marks = 0},
    {"keys", TEXT, AT(keys), "DIR", "keys of the cluster, made by shoal keygen DIR",
     .complete = SHOAL_COMPLETE_DIRECTORY},
    {"insecure", BOOL, AT(insecure), NULL, "connect to other hosts without encryption", .marks = 0},
    {"job", TEXT, AT(job_file), "FILE", "the cluster's description", .marks = SHOAL_SETTING_HIDDEN},
    {"run-dir", TEXT, AT(run_dir), "DIR", "folder of the run", "runs/MODEL-DATE-TIME",
     .complete = SHOAL_COMPLETE_DIRECTORY},
    {"resume", BOOL, AT(resume), NULL, "continue the run in --run-dir, with its settings", .marks = 0},
    {"checkpoint-every", INT, AT(checkpoint_every), "N", "steps between checkpoints", "an epoch", 1, MANY,
     .marks = KEPT},
    {"keep", INT, AT(keep), "N", "number of checkpoints to keep", "3", 1, 1e6, .marks = KEPT},
    {"no-checkpoints", BOOL, AT(no_checkpoints), NULL, "do not save checkpoints", .marks = KEPT},
    {"log-every", INT, AT(log_every), "N", "steps between lines in metrics.jsonl", "about four a second", 1, MANY,
     .marks = KEPT},
    {"sample-every", NUMBER, AT(sample_every), "SECONDS", "interval between samples of CPU, memory, network and disk",
     "1", 0.05, 3600, .marks = KEPT},
    {"histograms", INT, AT(histograms), "N", "write histograms of weights and gradients for TensorBoard every N steps",
     "never", 1, MANY, .marks = KEPT},
    {"trace", INT, AT(trace), "[N]",
     "record a timeline of N steps after the first ten, for 'shoal trace'; without N: 20", "never", 1, 1e6,
     .marks = KEPT, .bare = "20"},
    {"metrics-port", INT, AT(metrics_port), "N",
     "serve /metrics for Prometheus, /healthz and /readyz there; several tasks of this machine count on from it",
     "none", 1, 65535, .marks = KEPT},
    {"metrics-address", TEXT, AT(metrics_address), "ADDRESS",
     "for that; others than loopback need a token in SHOAL_METRICS_TOKEN", "127.0.0.1", .marks = KEPT},
    {"sink", TEXT, AT(sink), "NAME[:TARGET],...",
     "also send metrics to mlflow:DIR, mlflow:http[s]://HOST:PORT or otlp:http[s]://HOST:PORT; without a target as "
     "MLFLOW_TRACKING_URI or OTEL_EXPORTER_OTLP_ENDPOINT says",
     "none", .marks = KEPT},
    {"drain", NUMBER, AT(drain), "SECONDS",
     "a TERM signal asks a task to leave in order, for which it has so long: checkpoint, exit status 0; a parameter "
     "server has worker 0 save and end the job first",
     "exit status 143; a server ends at once", 0, 1e6, .marks = KEPT},
    {"retry-status", INT, AT(retry_status), "N",
     "exit status after failures of tasks or machines, and of a job that was drained: a new try with --resume may go "
     "on",
     "1; 0", 1, 125, .marks = 0},
    {"on-end", TEXT, AT(on_end), "COMMAND",
     "run this when the job has ended, for at most 60 s, with SHOAL_RUN, SHOAL_STATUS and SHOAL_EXIT in its "
     "environment",
     "nothing", .marks = 0},
    {"report", TEXT, AT(report), "FILE", "also write an HTML file that shows the run, as 'shoal report' does", "none",
     .marks = 0},
    {"json", BOOL, AT(json), NULL, "print summary.json in place of tables and progress", .marks = 0},
    {"quiet", BOOL, AT(quiet), NULL, "print the result table only", .marks = 0},
    {0},
};
