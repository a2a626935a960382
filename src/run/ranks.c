#include "run/ranks.h"

#include "base/clock.h"
#include "base/json_read.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "data/class_names.h"
#include "run/data_notes.h"
#include "run/membership.h"
#include "run/worker.h"
#include "train/allreduce.h"
#include "train/checkpoint.h"
#include "train/compress.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SPEAKING_SECONDS 3 /* for the rank that tells of a failure, before the others end the job */
#define EXIT_JOB_FAILED 1
#define RANKS_HEARTBEAT 5.0 /* seconds, where none were said */
#define OTHERS_FIRST 5.0    /* seconds between two deadlines for the same, where one can say more */

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
static int64_t fair_threads(const ranks *r) {
  cpu_set_t set;
  long all = sysconf(_SC_NPROCESSORS_ONLN), mine = all;
  if (!sched_getaffinity(0, sizeof set, &set)) mine = CPU_COUNT(&set);
  /* Bound to none: shared with the others here. */
  if (mine >= all) mine = all / MAX_OF(r->here ? r->here : TOLD(local_sizes, r->place.ranks), 1);
  return mine > 1 ? mine : 1;
}

bool ranks_expected(const shoal_job *f, bool *first) {
  const int own = rank_place_given(), launched = own < 0 ? TOLD(sizes, 0) : 1;
  const bool asked = f->strategy ? job_is_ranks(f) : getenv(RANKS_ASKED) != NULL;
  *first = own < 0 ? TOLD(places, 0) == 0 : own == 0;
  return launched && !(f->strategy && !asked) && (asked || launched > 1) && !getenv("TF_CONFIG") && !f->cluster;
}

/* As many as the settings say? */
static shoal_status joined(training *t, ranks *r, const char *who) {
  shoal_job *f = &t->job;
  rank_watch_reach(r->watch, RANK_JOINED);
  r->joined = true;
  f->strategy = "allreduce";
  if (job_said(&t->asked, "workers") && f->workers != r->place.ranks)
    return status_make(SHOAL_ERR_ARGUMENT, "`workers` %lld, but %s %d; leave it out", (long long)f->workers, who,
                       r->place.ranks);
  f->workers = r->place.ranks;
  return NULL;
}

static double deadline_of(const training *t) { return t->job.deadline > 0 ? t->job.deadline : JOB_DEADLINE; }

/* Without MPI. Its waits have deadlines of their own, which name who is late; the process that started the ranks knows
 * more of them, and is given time to say so first. */
static shoal_status join_own(training *t, ranks *out) {
  rank_place *p = &out->where;
  const double deadline = deadline_of(t), ours = ranks_are_ours() ? OTHERS_FIRST : 0;
  TRY(rank_watch_create(p->mesh.rank, deadline + OTHERS_FIRST - ours, &out->watch));
  rank_watch_reach(out->watch, RANK_BEGUN);
  TRY(rank_place_arm(
      p, &(rank_place_options){.keys = t->job.keys, .insecure = t->job.insecure, .patience = deadline + ours}));
  out->here = p->here;
  out->first_here = p->first_here;
  out->place = (collective_place){.rank = p->mesh.rank, .ranks = p->mesh.ranks, .id = p->mesh.rank};
  const double heartbeat = t->job.heartbeat > 0 ? t->job.heartbeat : RANKS_HEARTBEAT;
  const elastic_options options = {
      .place = p, .heartbeat = heartbeat, .patience = deadline + ours, .again = getenv(RANKS_AGAIN)};
  TRY(elastic_create(&options, &out->elastic));
  return elastic_connect(out->elastic);
}

shoal_status ranks_join_cluster(training *t, const cluster *c, ranks *out) {
  shoal_status status = rank_place_of_cluster(c, &out->where);
  out->described = true;
  if (!status) status = join_own(t, out);
  return status ? status : joined(t, out, "the cluster description has");
}

shoal_status ranks_join(training *t, ranks *out) {
  const shoal_job *f = &t->job;
  if (rank_place_given() >= 0) {
    shoal_status status = rank_place_read(&out->where);
    if (!status) status = join_own(t, out);
    return status ? status : joined(t, out, "there are");
  }
  if (f->transport && strcmp(f->transport, "auto") && strcmp(f->transport, "mpi"))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "`transport` %s: these ranks were started by mpirun or srun, and talk by MPI", f->transport);
  TRY(rank_watch_create(TOLD(places, 0), deadline_of(t), &out->watch));
  rank_watch_reach(out->watch, RANK_BEGUN);
  TRY(collective_join("mpi", &out->place));
  return joined(t, out, "the launcher has started");
}

bool ranks_are_ours(void) { return getenv(RANKS_ASKED) != NULL; }

/* ---- agreeing */

static shoal_status broadcast(ranks *r, void *bytes, int64_t count) {
  return r->elastic ? elastic_broadcast(r->elastic, bytes, count) : collective_broadcast(&r->place, bytes, count);
}

/* Words of rank 0 to all; the caller frees *out. On rank 0 `words` NULL is the message that it failed. */
static shoal_status spread(ranks *r, const char *words, char **out) {
  int64_t size = words ? (int64_t)strlen(words) + 1 : 0;
  TRY(broadcast(r, &size, sizeof size));
  *out = NULL;
  if (!size) return NULL;
  char *copy = calloc(1, (size_t)size);
  if (!copy) return status_no_memory();
  if (words) memcpy(copy, words, (size_t)size);
  shoal_status status = broadcast(r, copy, size);
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

bool ranks_came_late(const ranks *r, shoal_status status) {
  return r->elastic && r->place.rank && !r->parted && shoal_status_code(status) == SHOAL_ERR_CANCELLED;
}

shoal_status ranks_agree(ranks *r, training *t, shoal_status own) {
  const shoal_job unset = job_unset();
  char *words = NULL, *same = NULL;
  if (r->place.rank == 0 && !own) {
    json_t *o = json_pack("{s:s, s:s, s:b, s:o}", "model", t->kind->name, "run_dir", t->dir.path, "resume",
                          t->job.resume, "flags", settings_to_json(job_table, &t->job));
    own = o ? training_note_learned(t, o) : status_no_memory();
    if (!own) own = training_note_model(t, 0, o);
    words = own ? NULL : json_words(o, JSON_COMPACT);
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
  r->job = json_read_words(same, 0, NULL);
  free(same);
  const char *model, *folder;
  int resume;
  json_t *flags;
  if (!r->job || json_unpack(r->job, "{s:s, s:s, s:b, s:o}", "model", &model, "run_dir", &folder, "resume", &resume,
                             "flags", &flags))
    return status_make(SHOAL_ERR_PEER, "the message of rank 0 cannot be read");
  if (strcmp(model, t->kind->name))
    return status_make(SHOAL_ERR_ARGUMENT, "rank 0 trains %s, this rank %s", model, t->kind->name);
  if (model_file_of(t->kind)) TRY(training_take_model(t, r->job, model, "rank 0's model"));
  TRY(training_take_learned(t, r->job, "rank 0's settings"));
  bool quiet = t->job.quiet;
  t->job = unset;
  TRY(settings_from_json(job_table, flags, "rank 0's settings", &t->job));
  t->job.model = t->kind->name;
  t->job.resume = resume;
  t->job.run_dir = folder;
  t->job.quiet = quiet;
  job_fill(&t->job, &unset, t->kind);
  return run_dir_init(folder, &t->dir);
}

/* The data must be the same everywhere. */
static shoal_status load_data(ranks *r, training *b) {
  struct {
    int64_t rows, classes, good;
    uint64_t names, preprocessing; /* one number for all of it */
  } here = {0}, there;
  rank_watch_work(r->watch);
  shoal_status status = training_load(b);
  rank_watch_reach(r->watch, RANK_LOADED);
  if (!status)
    here = (typeof(here)){b->rows, b->train.classes, 1, class_names_hash(b->class_names),
                          class_names_hash((const char *const[]){b->preprocessing, NULL})};
  there = here;
  shoal_status heard = broadcast(r, &there, sizeof there);
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
    return status_make(
        SHOAL_ERR_INPUT, "%s: %s from those of rank 0: the files differ", b->job.data,
        here.names != there.names ? "the class names differ here" : "words or statistics of the columns differ here");
  return status_make(SHOAL_ERR_INPUT, "%s: %lld rows of %lld classes here, %lld rows of %lld classes where rank 0 runs",
                     b->job.data, (long long)here.rows, (long long)here.classes, (long long)there.rows,
                     (long long)there.classes);
}

/* Rank 0 knows what the user said. */
static shoal_status agree_on_batch(ranks *r, training *b) {
  if (r->place.rank == 0) training_fit_batch(b);
  int64_t batch[] = {b->job.batch_size, b->job.global_batch};
  TRY(broadcast(r, batch, sizeof batch));
  b->job.batch_size = batch[0];
  b->job.global_batch = batch[1];
  return NULL;
}

/* Ways to train that need all ranks to the end: connections that stay, at the same addresses. */
static shoal_status join_for_good(ranks *r) {
  const elastic_view *ignored;
  if (!r->elastic) return NULL;
  TRY(elastic_regroup(r->elastic, -1, &ignored));
  elastic_settle(r->elastic);
  elastic_destroy(r->elastic);
  r->elastic = NULL;
  r->where.mesh.backwards = true; /* rank 0's address was in use until now */
  return collective_join_own(&r->where.mesh, &r->place);
}

/* ---- training */

typedef struct {
  run_state *state;
  ranks *ranks;
  shoal_strategy *strategy;
  int64_t told; /* changes of who is there */
  bool trains;
} rank_run;

static bool is_first(const rank_run *t) { return t->ranks->place.rank == 0; }

static void traffic(void *context, net_stats *out) {
  const rank_run *t = context;
  collective_stats stats;
  if (t->ranks->elastic)
    allreduce_stats(t->strategy, &stats);
  else
    collective_stats_read(t->strategy->ranks, &stats);
  *out = (net_stats){.sent_bytes = (uint64_t)stats.sent_bytes, .received_bytes = (uint64_t)stats.received_bytes};
}

static int no_server(void *context, const shoal_value *variable) { return -1; }
static double no_clock(void *context, int server) { return 0; }
static shoal_status nothing_after(void *context) { return NULL; }

/* Of another rank: samples go to the file, the report to the list. */
static shoal_status take_report(const rank_run *t, metrics *log, const char *words, int rank) {
  json_t *one = json_read_words(words, 0, NULL), *line;
  size_t i;
  shoal_task_report report;
  json_array_foreach (json_object_get(one, "kept_samples"), i, line) metrics_line(log, line);
  shoal_status status = task_report_from_json(one, &report);
  json_decref(one);
  if (status) {
    shoal_status_free(status);
    return status_make(SHOAL_ERR_PEER, "the report of rank %d cannot be read", rank);
  }
  return run_state_add_task(t->state, &report);
}

/* Elastic: of those that are still there. */
static shoal_status collect(const rank_run *t, metrics *log) {
  elastic *e = t->ranks->elastic;
  for (int id = 1; id < ELASTIC_RANKS; id++) {
    char *words;
    TRY(elastic_await_report(e, id, &words));
    shoal_status status = words ? take_report(t, log, words, id) : NULL;
    free(words);
    TRY(status);
  }
  elastic_end(e);
  return NULL;
}

static shoal_status finish_elastic(const rank_run *t, task_result *own, metrics *log, const char *words) {
  const run_sink s = run_state_sink(t->state);
  if (!is_first(t) && !allreduce_has_left(t->strategy)) TRY(allreduce_await_end(t->strategy, words));
  s.on_result(s.context, own);
  return is_first(t) ? collect(t, log) : NULL;
}

/* Everybody's report to rank 0. */
static shoal_status finish(void *context, task_result *own, metrics *log, const task_trace *trace) {
  rank_run *t = context;
  const int n = t->ranks->place.ranks;
  json_t *o = task_report_to_json(&own->task, true);
  if (log->kept) json_object_set(o, "kept_samples", log->kept);
  char *words = json_words(o, JSON_COMPACT), **all = calloc((size_t)n, sizeof *all);
  json_decref(o);
  if (words && all && t->ranks->elastic) {
    shoal_status done = finish_elastic(t, own, log, words);
    free(all);
    free(words);
    return done;
  }
  shoal_status status = words && all ? collective_gather(t->strategy->ranks, words, all) : status_no_memory();
  const run_sink s = run_state_sink(t->state);
  if (!status) s.on_result(s.context, own);
  for (int r = 1; r < n && !status && is_first(t); r++) status = take_report(t, log, all[r], r);
  for (int r = 0; all && r < n; r++) free(all[r]);
  free(all);
  free(words);
  return status;
}

static const worker_link rank_link = {
    .traffic = traffic, .server_of = no_server, .clock = no_clock, .after_training = nothing_after, .finish = finish};

static shoal_status train(rank_run *t) {
  run_state *state = t->state;
  training *b = &state->base;
  const bool first = is_first(t);
  const run_sink sink = run_state_sink(state);
  if (first) {
    TRY(run_dir_take(&b->dir));
    TRY(training_note_settings(b, b->train.classes));
    TRY(metrics_repair(b->dir.metrics));
    TRY(notes_say(b, &sink));
  }
  return worker_run(
      &(worker_options){.base = b,
                        .index = t->ranks->place.rank,
                        .chief = first,
                        .has_folder = first,
                        .samples_host = first || (t->ranks->here ? t->ranks->first_here : TOLD(local_ranks, 1) == 0),
                        .graph_device = "/job:worker/task:0",
                        .rows = b->rows,
                        .last = &state->last,
                        .stop = state->options->stop,
                        .strategy = t->strategy,
                        .link = &rank_link,
                        .link_context = t,
                        .sink = &sink});
}

/* ---- when it goes wrong */

void ranks_add_advice(const training *b, text *out) {
  char *path = NULL;
  if (!b->job.no_checkpoints) shoal_status_free(checkpoint_latest(b->dir.checkpoints, &path, NULL));
  if (path)
    text_add(out,
             "; the last checkpoint is %s: to continue, on as many ranks as you like, start it with `resume` "
             "and `run_dir` %s",
             path, b->dir.path);
  else
    text_add(out, "; there is no checkpoint to resume from");
  free(path);
}

/* Another rank's failure. Takes `status`. */
static shoal_status explain(rank_run *t, shoal_status status) {
  collective *c = t->strategy ? t->strategy->ranks : NULL;
  if (shoal_status_code(status) != SHOAL_ERR_PEER || !(c || t->ranks->elastic))
    return t->ranks->place.rank ? status_wrap(status, "rank %d", t->ranks->place.rank) : status;
  /* Without MPI the process that started the ranks knows what became of rank 0, should it be that. */
  t->ranks->quiet = !t->ranks->described && (t->ranks->elastic ? !is_first(t) : !collective_speaks(c));
  if (t->strategy && t->ranks->elastic && allreduce_told(t->strategy)) t->ranks->quiet = !t->ranks->described;
  text words = {0};
  text_add(&words, "%s", shoal_status_message(status));
  ranks_add_advice(&t->state->base, &words);
  if (words.failed) return status;
  shoal_status explained = status_make(SHOAL_ERR_PEER, "%s", words.data);
  text_fini(&words);
  shoal_status_free(status);
  return explained;
}

/* A rank has died while this one computes, and there is not much time left: the launcher is about to end us all. */
static void on_peer_exit(void *context, int rank) {
  rank_run *t = context;
  const peers_rank *gone = &collective_ranks(t->strategy->ranks)[rank];
  if (t->ranks->place.rank != (rank ? 0 : 1)) return;
  text words = {0};
  text_add(&words, "shoal train: step %lld: rank %d (pid %d on %s) has ended", (long long)t->state->last.step, rank,
           gone->pid, gone->host);
  ranks_add_advice(&t->state->base, &words);
  rank_watch_reach(t->ranks->watch, RANK_TOLD);
  if (!words.failed) fprintf(stderr, "%s\n", words.data);
  _exit(EXIT_JOB_FAILED);
}

bool ranks_are_told(const ranks *r) {
  if (r->described) return false; /* each has a terminal of its own */
  return r->quiet || (r->parted && r->place.rank) || collective_told(&r->place);
}

/* ---- who has come and gone */

static void on_change(void *context) {
  rank_run *t = context;
  const elastic_history *h = elastic_changes(t->ranks->elastic);
  const run_sink sink = run_state_sink(t->state);
  if (!t->trains) rank_watch_reach(t->ranks->watch, RANK_TRAINS);
  t->trains = true;
  for (; t->told < h->n && is_first(t); t->told++) {
    const shoal_membership_event e = membership_of_rank(&h->all[t->told]);
    text line = {0};
    sink.on_membership(sink.context, &e);
    t->state->report.restarts += h->all[t->told].kind == ELASTIC_REJOINED;
    membership_describe(&e, NULL, &line);
    /* A rank 0 that was started again has been told of those before, too. */
    if (!line.failed && e.time >= (double)t->state->report.started) sink.on_note(sink.context, line.data);
    text_fini(&line);
  }
}

/* ---- the whole */

shoal_status ranks_run(run_state *state, ranks *r) {
  training *b = &state->base;
  rank_run t = {.state = state, .ranks = r};
  if (!b->job.threads) b->job.threads = fair_threads(r);
  shoal_status status = load_data(r, b);
  if (!status) status = agree_on_batch(r, b);
  if (ranks_came_late(r, status)) {
    shoal_status_free(status);
    return NULL;
  }
  TRY(status);
  rank_watch_reach(r->watch, RANK_READY);
  TRY(training_compile(b, b->train.classes, b->rows));
  if (!job_is_elastic(&b->job)) TRY(join_for_good(r));
  const local_steps_options options = {.ranks = {.place = r->elastic ? NULL : &r->place,
                                                 .elastic = r->elastic,
                                                 .id = r->place.rank,
                                                 .described = (int)b->job.workers,
                                                 .on_change = on_change,
                                                 .deterministic = b->job.deterministic,
                                                 .wire = wire_format_find(b->job.wire),
                                                 .check_every = b->job.check_replicas,
                                                 .patience = b->job.deadline,
                                                 .on_peer_exit = on_peer_exit,
                                                 .context = &t},
                                       .every = b->job.local_steps,
                                       .rate = b->job.outer_lr,
                                       .momentum = b->job.outer_momentum,
                                       .rank = (int)b->job.compress_rank,
                                       .seed = (uint64_t)b->job.seed};
  status = compress_create(b->job.compress, &options, &t.strategy);
  if (!status) status = train(&t);
  if (ranks_came_late(r, status)) {
    shoal_status_free(status);
    status = NULL;
  }
  if (status) status = explain(&t, status);
  if (status && r->elastic && t.strategy && !r->quiet) allreduce_abort(t.strategy);
  strategy_destroy(t.strategy);
  return status;
}

void ranks_leave(ranks *r, int failed) {
  if (!r->joined) {
    elastic_destroy(r->elastic);
    rank_place_fini(&r->where);
    rank_watch_destroy(r->watch);
    return;
  }
  if (failed && !r->parted) {
    /* The one that speaks has to find out first who has ended; and MPI's way to end takes it with us. */
    if (r->quiet) nanosleep(&(struct timespec){.tv_sec = SPEAKING_SECONDS}, NULL);
    fflush(stdout);
    fflush(stderr);
    if (!r->elastic && (r->place.library || !ranks_are_told(r))) collective_abort(&r->place, failed);
    if (!r->described) _exit(failed); /* the process that started all of them says the rest */
  }
  rank_watch_reach(r->watch, RANK_DONE);
  shoal_status_free(collective_leave(&r->place));
  elastic_destroy(r->elastic);
  rank_place_fini(&r->where);
  rank_watch_destroy(r->watch);
  json_decref(r->job);
}
