#include "cli/data_notes.h"
#include "cli/ranks.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"
#include "data/class_names.h"
#include "train/allreduce.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ASKED "SHOAL_RANKS" /* set for ranks that this program has started: a resumed run is told its strategy so */

#define LOOK_NANOSECONDS 20000000 /* between two looks at mpirun */
#define SPEAKING_SECONDS 3  /* for the rank that tells of a failure, before the others end the job */

/* ---- whose work it is */

/* What launchers tell a process of its place; the first that is set counts. */
static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS"};
static const char *const places[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};
static const char *const local_sizes[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"};
static const char *const local_ranks[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};

static int told(const char *const *names, size_t n, int otherwise) {
  for (size_t i = 0; i < n; i++) {
    const char *words = getenv(names[i]);
    if (words && *words) return atoi(words); /* "2(x3)" is 2 */
  }
  return otherwise;
}
#define TOLD(names, otherwise) told(names, COUNT_OF(names), otherwise)

/* Threads of a rank that was told nothing: its share of the processors it may use. */
static int64_t fair_threads(int processes) {
  cpu_set_t set;
  long all = sysconf(_SC_NPROCESSORS_ONLN), mine = all;
  if (!sched_getaffinity(0, sizeof set, &set)) mine = CPU_COUNT(&set);
  if (mine >= all)
    mine = all / MAX_OF(TOLD(local_sizes, processes), 1); /* bound to none: shared with the others here */
  return mine > 1 ? mine : 1;
}

bool ranks_expected(const job_flags *f, bool *first) {
  const int launched = TOLD(sizes, 0);
  const bool asked = f->strategy ? job_is_ranks(f) : getenv(ASKED) != NULL;
  *first = TOLD(places, 0) == 0;
  return launched && !(f->strategy && !asked) && (asked || launched > 1) && !getenv("TF_CONFIG") && !f->cluster;
}

shoal_status ranks_join(training *t, const flags_parsed *parsed, ranks *out) {
  job_flags *f = &t->flags;
  TRY(collective_join("mpi", &out->place));
  out->joined = true;
  f->strategy = "allreduce";
  if (flags_given(job_table, parsed, "workers") && f->workers != out->place.ranks)
    return status_make(SHOAL_ERR_ARGUMENT, "--workers %lld, but the launcher has started %d; leave the flag out",
                       (long long)f->workers, out->place.ranks);
  f->workers = out->place.ranks;
  return NULL;
}

/* What mpirun is to know, by its environment: of Open MPI 4 and 5; others do not know these words and do not mind. */
static void prepare_environment(void) {
  static const char *const settings[][2] = {{"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                            {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
                                            {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                            {"PRTE_MCA_hwloc_default_binding_policy", "none"},
                                            {"OMPI_MCA_orte_execute_quiet", "1"},
                                            {ASKED, "1"}};
  for (size_t i = 0; i < COUNT_OF(settings); i++) setenv(settings[i][0], settings[i][1], 0);
  if (geteuid()) return;
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

/* In the child: a group of its own, so that Ctrl-C reaches only us; gone when we are. */
static void become_mpirun(const char **words, int failure) {
  sigset_t none;
  sigemptyset(&none);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  prepare_environment();
  execvp(words[0], (char *const *)words);
  int error = errno;
  ssize_t ignored = write(failure, &error, sizeof error);
  (void)ignored; /* the parent sees the exit status at least */
  _exit(127);
}

/* Waits for mpirun; passes on that somebody asks to stop. SIGUSR1 is what mpirun hands on to all ranks. */
static int watch_mpirun(pid_t child, const int *stop) {
  bool asked = false;
  int status = 0;
  for (;;) {
    pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return status;
    if (!asked && __atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
      kill(child, SIGUSR1);
      asked = true;
    }
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NANOSECONDS}, NULL);
  }
}

static shoal_status start_mpirun(const char **words, pid_t *out) {
  int pipes[2], error = 0;
  if (pipe2(pipes, O_CLOEXEC)) return status_errno(errno, "cannot make a pipe");
  pid_t child = fork();
  if (child == 0) become_mpirun(words, pipes[1]);
  close(pipes[1]);
  ssize_t n = child > 0 ? read(pipes[0], &error, sizeof error) : 0;
  close(pipes[0]);
  if (child < 0) return status_errno(errno, "cannot start a process");
  if (n == sizeof error) {
    waitpid(child, NULL, 0);
    return status_errno(error, "the strategy allreduce starts its ranks by mpirun, which cannot be run (install "
                        "openmpi-bin, or start the ranks yourself)");
  }
  *out = child;
  return NULL;
}

shoal_status ranks_launch(const training *t, char *const *argv, const int *stop, int *exit_status) {
  collective_place none;
  if (!collective_there("mpi")) return collective_join("mpi", &none); /* says what is missing */
  char self[PATH_MAX] = "", number[24];
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return status_errno(errno, "cannot find this program");
  snprintf(number, sizeof number, "%lld", (long long)t->flags.workers);
  const char *first[] = {"mpirun", "-n", number, self, "train"};
  size_t n = 0;
  while (argv[n]) n++;
  const char **words = calloc(n + COUNT_OF(first) + 1, sizeof *words);
  if (!words) return status_no_memory();
  memcpy(words, first, sizeof first);
  memcpy(words + COUNT_OF(first), argv, n * sizeof *words);
  pid_t child;
  shoal_status status = start_mpirun(words, &child);
  free(words);
  if (status) return status;
  int ended = watch_mpirun(child, stop), asked = __atomic_load_n(stop, __ATOMIC_ACQUIRE);
  const int code = WIFEXITED(ended) ? WEXITSTATUS(ended) : EXIT_JOB_FAILED;
  *exit_status = !code ? (asked ? 128 + asked : EXIT_GOOD) : code == EXIT_WRONG_USE ? code : EXIT_JOB_FAILED;
  return NULL;
}

bool ranks_are_ours(void) { return getenv(ASKED) != NULL; }

/* ---- agreeing */

/* Words of rank 0 to all; the caller frees *out. On rank 0 `words` NULL is the message that it failed. */
static shoal_status spread(ranks *r, const char *words, char **out) {
  int64_t size = words ? (int64_t)strlen(words) + 1 : 0;
  TRY(collective_broadcast(&r->place, &size, sizeof size));
  *out = NULL;
  if (!size) return NULL;
  char *copy = calloc(1, (size_t)size);
  if (!copy) return status_no_memory();
  if (words) memcpy(copy, words, (size_t)size);
  shoal_status status = collective_broadcast(&r->place, copy, size);
  if (status)
    free(copy);
  else
    *out = copy;
  return status;
}

/* Rank 0 has told why. */
static shoal_status silent(ranks *r) {
  r->parted = true;
  return status_make(SHOAL_ERR_CANCELLED, "rank 0 has failed");
}

shoal_status ranks_agree(ranks *r, training *t, shoal_status own) {
  static const flags_parsed nothing_given;
  char *words = NULL, *same = NULL;
  if (r->place.rank == 0 && !own) {
    json_t *o = json_pack("{s:s, s:s, s:b, s:o}", "model", t->kind->name, "run_dir", t->dir.path, "resume",
                          t->flags.resume, "flags", flags_to_json(job_table, &t->flags));
    own = o ? training_note_learned(t, o) : status_no_memory();
    words = own ? NULL : json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (!own && !words) own = status_no_memory();
  }
  shoal_status status = spread(r, words, &same);
  free(words);
  if (own) {
    r->parted = !status;
    shoal_status_free(status);
    free(same);
    return own;
  }
  if (status) return status;
  if (!same) return silent(r);
  if (r->place.rank == 0) {
    free(same);
    return NULL;
  }
  r->job = json_loads(same, 0, NULL);
  free(same);
  const char *model, *folder;
  int resume;
  json_t *flags;
  if (!r->job || json_unpack(r->job, "{s:s, s:s, s:b, s:o}", "model", &model, "run_dir", &folder, "resume", &resume,
                             "flags", &flags))
    return status_make(SHOAL_ERR_PEER, "what rank 0 says cannot be read");
  if (strcmp(model, t->kind->name))
    return status_make(SHOAL_ERR_ARGUMENT, "rank 0 trains %s, this rank %s", model, t->kind->name);
  TRY(training_take_learned(t, r->job, "rank 0's settings"));
  bool quiet = t->flags.quiet;
  t->flags = JOB_FLAGS_NONE_GIVEN;
  TRY(flags_from_json(job_table, flags, "rank 0's settings", &nothing_given, &t->flags));
  t->flags.resume = resume;
  t->flags.run_dir = folder;
  t->flags.quiet = quiet;
  job_fill(&t->flags, &nothing_given, t->kind);
  return run_dir_init(folder, &t->dir);
}

/* The data must be the same everywhere. */
static shoal_status load_data(ranks *r, training *b) {
  struct {
    int64_t rows, classes, good;
    uint64_t names, preprocessing; /* one number for all of it */
  } here = {0}, there;
  shoal_status status = training_load(b);
  if (!status) here = (typeof(here)){b->rows, b->train.classes, 1, class_names_hash(b->class_names),
                                     class_names_hash((const char *const[]){b->preprocessing, NULL})};
  there = here;
  shoal_status heard = collective_broadcast(&r->place, &there, sizeof there);
  if (!heard && !there.good && r->place.rank) heard = silent(r);
  if (!heard && status && r->place.rank == 0) r->parted = true;
  if (status && heard) { /* what all lack, rank 0 tells */
    shoal_status_free(r->parted ? status : heard);
    return r->parted ? heard : status;
  }
  TRY(status ? status : heard);
  bool same = here.rows == there.rows && here.classes == there.classes;
  if (same && here.names == there.names && here.preprocessing == there.preprocessing) return NULL;
  if (same)
    return status_make(SHOAL_ERR_INPUT, "%s: %s than where rank 0 runs: the files differ", b->flags.data,
                       here.names != there.names ? "the classes here are called otherwise"
                                                 : "words or statistics of the columns here are others");
  return status_make(SHOAL_ERR_INPUT, "%s: %lld rows of %lld classes here, %lld rows of %lld classes where rank 0 runs",
                     b->flags.data, (long long)here.rows, (long long)here.classes, (long long)there.rows,
                     (long long)there.classes);
}

/* ---- training */

typedef struct {
  crew *crew;
  ranks *ranks;
  metrics log;
  shoal_strategy *strategy;
} rank_run;

static bool is_first(const rank_run *t) { return t->ranks->place.rank == 0; }

static void warn_unwritten(rank_run *t, bool good) {
  if (!good && is_first(t)) progress_note(t->crew->screen, METRICS_WARNING);
}

static void add_metrics(rank_run *t, const char *kind, const shoal_progress *p) {
  collective_stats stats;
  collective_stats_read(allreduce_collective(t->strategy), &stats);
  net_stats net = {.sent_bytes = (uint64_t)stats.sent_bytes, .received_bytes = (uint64_t)stats.received_bytes};
  warn_unwritten(t, metrics_add(&t->log, kind, p, &net));
}

static bool on_step(void *context, const shoal_progress *p) {
  rank_run *t = context;
  add_metrics(t, "step", p);
  *t->crew->last = *p;
  if (is_first(t)) progress_step(t->crew->screen, p);
  return false;
}

static bool on_epoch(void *context, const shoal_progress *p) {
  rank_run *t = context;
  add_metrics(t, "epoch", p);
  *t->crew->last = *p;
  if (p->test.examples) warn_unwritten(t, metrics_test(&t->log, p->step, &p->test));
  if (is_first(t)) progress_epoch(t->crew->screen, p);
  return false;
}

static void on_inspect(void *context, const shoal_inspection *i) {
  rank_run *t = context;
  warn_unwritten(t, metrics_inspect(&t->log, i));
}

static void on_note(void *context, const char *line) {
  rank_run *t = context;
  progress_note(t->crew->screen, line);
}

static void announce(const rank_run *t) {
  const training *b = t->crew->base;
  const run_report *r = t->crew->report;
  char rows[COUNTED_TEXT], parameters[COUNTED_TEXT], count[COUNTED_TEXT], batch[GROUPED_TEXT], threads[COUNTED_TEXT];
  say(stdout, "%s: %s, %s of %s, %s with batch %s and %s, all-reduce in %s\n", b->kind->name,
      counted_text(r->parameters, "parameter", parameters), counted_text(b->rows, "training row", rows), b->flags.data,
      counted_text(t->ranks->place.ranks, "rank", count), grouped_text(b->flags.batch_size, batch),
      counted_text(r->threads, "thread", threads), b->flags.wire);
  fflush(stdout);
}

static shoal_status open_run(rank_run *t) {
  training *b = t->crew->base;
  const bool first = is_first(t);
  if (first) {
    TRY(run_dir_make(&b->dir));
    TRY(training_note_settings(b, b->train.classes));
    TRY(metrics_repair(b->dir.metrics));
  }
  metrics_options o = {.folder = first ? b->dir.path : NULL,
                       .role = "worker",
                       .index = t->ranks->place.rank,
                       .host = first || TOLD(local_ranks, 1) == 0};
  TRY(training_open_metrics(b, &o, first ? &(graph_export_options){.device = "/job:worker/task:0"} : NULL, &t->log));
  t->crew->report->parameters = shoal_model_parameters(b->model);
  t->crew->report->threads = shoal_model_threads(b->model);
  if (first && !b->flags.quiet) announce(t);
  return first ? notes_say(b, t->crew->screen) : NULL;
}

static json_t *own_report(rank_run *t, const shoal_fit_result *fit, const shoal_evaluation *test) {
  collective_stats stats;
  collective_stats_read(allreduce_collective(t->strategy), &stats);
  task_report report = {.role = "worker",
                        .index = t->ranks->place.rank,
                        .pid = getpid(),
                        .seconds = fit->seconds,
                        .net_sent_bytes = stats.sent_bytes,
                        .net_received_bytes = stats.received_bytes,
                        .steps = fit->worker_steps,
                        .examples = fit->worker_examples,
                        .times = fit->times,
                        .test = *test};
  sampler_read(t->log.sampler, &report.use);
  json_t *o = task_json(&report);
  if (t->log.kept) json_object_set(o, "kept_samples", t->log.kept);
  return o;
}

/* Everybody's report to rank 0. Takes `own`. */
static shoal_status collect(rank_run *t, json_t *own) {
  const int n = t->ranks->place.ranks;
  char *words = json_dumps(own, JSON_COMPACT), **all = calloc((size_t)n, sizeof *all);
  json_decref(own);
  shoal_status status = words && all ? collective_gather(allreduce_collective(t->strategy), words, all)
                                     : status_no_memory();
  json_t *list = json_array();
  for (int r = 0; r < n && !status && is_first(t); r++) {
    json_t *one = json_loads(all[r], 0, NULL), *line;
    size_t i;
    json_array_foreach(json_object_get(one, "kept_samples"), i, line) metrics_line(&t->log, line);
    json_object_del(one, "kept_samples");
    if (!one || json_array_append_new(list, one))
      status = status_make(SHOAL_ERR_PEER, "the report of rank %d cannot be read", r);
  }
  for (int r = 0; all && r < n; r++) free(all[r]);
  free(all);
  free(words);
  t->crew->report->tasks = list;
  return status;
}

static shoal_status train(rank_run *t) {
  training *b = t->crew->base;
  run_report *report = t->crew->report;
  shoal_fit_options fit;
  TRY(training_options(b, &fit));
  fit.strategy = t->strategy;
  fit.stop = t->crew->stop;
  fit.callbacks.context = t;
  fit.callbacks.on_step = on_step;
  fit.callbacks.on_epoch = on_epoch;
  fit.test = b->test.data;
  if (is_first(t)) {
    fit.callbacks.on_note = on_note;
    fit.callbacks.on_inspect = on_inspect;
  }
  report->startup_seconds = clock_seconds() - t->crew->started;
  TRY(metrics_start_sampling(&t->log));
  TRY(shoal_model_fit(b->model, b->train.data, &fit, &report->fit));
  metrics_stop_sampling(&t->log);
  progress_clear(t->crew->screen);
  const shoal_progress *last = t->crew->last;
  const bool tested = last->test.examples && last->step == report->fit.updates && !report->fit.restored;
  if (tested) report->test = last->test; /* of these weights, after the last epoch */
  if (b->test.data) TRY(training_test(b, tested, &report->test, &report->confusion));
  if (is_first(t)) {
    if (!tested) warn_unwritten(t, metrics_test(&t->log, report->fit.updates, &report->test));
    TRY(shoal_model_save(b->model, b->dir.weights));
  }
  return collect(t, own_report(t, &report->fit, &report->test));
}

/* ---- when it goes wrong */

/* "; resume from ..." */
static void add_advice(const rank_run *t, text *out) {
  const training *b = t->crew->base;
  char *path = NULL;
  if (!b->flags.no_checkpoints) shoal_status_free(checkpoint_latest(b->dir.checkpoints, &path, NULL));
  if (path)
    text_add(out, "; the last checkpoint is %s: to continue, on as many ranks as you like, start it with --resume "
             "--run-dir %s", path, b->dir.path);
  else
    text_add(out, "; there is no checkpoint to resume from");
  free(path);
}

/* Another rank's failure. Takes `status`. */
static shoal_status explain(rank_run *t, shoal_status status) {
  collective *c = t->strategy ? allreduce_collective(t->strategy) : NULL;
  if (shoal_status_code(status) != SHOAL_ERR_PEER || !c)
    return t->ranks->place.rank ? status_wrap(status, "rank %d", t->ranks->place.rank) : status;
  t->ranks->quiet = !collective_speaks(c);
  text words = {0};
  text_add(&words, "%s", shoal_status_message(status));
  add_advice(t, &words);
  if (words.failed) return status;
  shoal_status explained = status_make(SHOAL_ERR_PEER, "%s", words.data);
  text_fini(&words);
  shoal_status_free(status);
  return explained;
}

/* A rank has died while this one computes, and there is not much time left: the launcher is about to end us all. */
static void on_peer_exit(void *context, int rank) {
  rank_run *t = context;
  const peers_rank *gone = &collective_ranks(allreduce_collective(t->strategy))[rank];
  if (t->ranks->place.rank != (rank ? 0 : 1)) return;
  text words = {0};
  text_add(&words, "shoal train: step %lld: rank %d (pid %d on %s) has ended", (long long)t->crew->last->step, rank,
           gone->pid, gone->host);
  add_advice(t, &words);
  if (!words.failed) fprintf(stderr, "%s\n", words.data);
  _exit(EXIT_JOB_FAILED);
}

bool ranks_are_told(const ranks *r) { return r->quiet || (r->parted && r->place.rank); }

/* ---- the whole */

shoal_status ranks_run(crew *c, ranks *r) {
  training *b = c->base;
  rank_run t = {.crew = c, .ranks = r};
  if (!b->flags.threads) b->flags.threads = fair_threads(r->place.ranks);
  TRY(load_data(r, b));
  TRY(training_compile(b, b->train.classes, b->rows));
  const allreduce_options options = {.place = &r->place,
                                     .deterministic = b->flags.deterministic,
                                     .bf16 = !strcmp(b->flags.wire, "bf16"),
                                     .check_every = b->flags.check_replicas,
                                     .patience = b->flags.deadline,
                                     .on_peer_exit = on_peer_exit,
                                     .context = &t};
  shoal_status status = open_run(&t);
  if (!status) status = allreduce_create(&options, &t.strategy);
  if (!status) status = train(&t);
  if (status) status = explain(&t, status);
  strategy_destroy(t.strategy);
  metrics_close(&t.log);
  return status;
}

void ranks_leave(ranks *r, int failed) {
  if (!r->joined) return;
  if (failed && !r->parted) {
    if (r->quiet) nanosleep(&(struct timespec){.tv_sec = SPEAKING_SECONDS}, NULL);
    fflush(stdout);
    fflush(stderr);
    collective_abort(&r->place, failed);
  }
  shoal_status_free(collective_leave(&r->place));
  json_decref(r->job);
}
