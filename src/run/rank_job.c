#include "run/rank_job.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "dist/collective.h"
#include "dist/rank_place.h"
#include "run/rank_roster.h"
#include "run/rank_watch.h"
#include "run/scale.h"
#include "run/settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_SECONDS 0.02   /* between two looks at mpirun */
#define GRACE_SECONDS 3.0   /* for mpirun to end its ranks when it is asked to */
#define MARGIN_SECONDS 2.0  /* for processes to start, beyond the deadline */
#define LEFT_SECONDS 5.0    /* for mpirun to notice that all its ranks have ended */
#define DONE_SECONDS 2.0    /* for ranks to end once rank 0 has */
#define REQUEST_SECONDS 0.1 /* between two looks at the folder, and at whether rank 0 is stopped */
#define EXIT_BY_SIGNAL 128
#define FILES_MIN 128 /* open files that mpirun surely gets by with */
#define WORDS_MAX 256

typedef struct {
  pid_t *children; /* [n] the ranks, or mpirun alone; 0: it has ended */
  int n;
  bool own; /* they are the ranks */
  /* then: */
  const rank_job_options *options;
  const char **words;
  const char *socket;
  char *addresses;   /* of all, those included that came later */
  int *restarts;     /* [n] */
  bool trained;      /* rank 0 has begun to train, perhaps before it was started again */
  double stopped_at; /* clock: rank 0 was seen to be stopped; 0: it was not */
  double chief_at;   /* clock: rank 0 has ended for good; 0: it has not */
  int chief;         /* how, as from waitpid */

  int bad;       /* how the first one ended that did not end well; as from waitpid */
  double bad_at; /* when; 0: none has */
  rank_roster *roster;
  double deadline;
  const int *stop;
  bool asked; /* to stop, and so are the ranks */
} rank_job;

/* ---- where the ranks of a machine share memory: Open MPI leaves files behind when ranks are killed */

#define SHARED "/dev/shm"
#define SHARED_PREFIX "shoal-ranks-"

static void remove_folder(const char *path) {
  DIR *folder = opendir(path);
  for (const struct dirent *e; folder && (e = readdir(folder));)
    if (e->d_name[0] != '.') unlinkat(dirfd(folder), e->d_name, 0);
  if (folder) closedir(folder);
  rmdir(path);
}

/* Folders whose makers were killed. */
static void remove_orphaned(void) {
  DIR *all = opendir(SHARED);
  char path[PATH_MAX];
  for (const struct dirent *e; all && (e = readdir(all));) {
    int pid;
    if (sscanf(e->d_name, SHARED_PREFIX "%d", &pid) != 1 || !kill(pid, 0) || errno != ESRCH) continue;
    snprintf(path, sizeof path, SHARED "/%s", e->d_name);
    remove_folder(path);
  }
  if (all) closedir(all);
}

/* "": there is none, and Open MPI takes the place it always takes. */
static void make_shared(char path[PATH_MAX]) {
  remove_orphaned();
  snprintf(path, PATH_MAX, SHARED "/" SHARED_PREFIX "%d", (int)getpid());
  if (mkdir(path, 0700) && errno != EEXIST) path[0] = 0;
}

/* What mpirun is to know, by its environment: of Open MPI 4 and 5; others do not know these words and do not mind. */
static void prepare_environment(const char *shared) {
  static const char *const settings[][2] = {{"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                            {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
                                            {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                            {"PRTE_MCA_hwloc_default_binding_policy", "none"},
                                            {"OMPI_MCA_orte_execute_quiet", "1"}};
  for (size_t i = 0; i < COUNT_OF(settings); i++) setenv(settings[i][0], settings[i][1], 0);
  if (*shared) setenv("OMPI_MCA_btl_vader_backing_directory", shared, 0);
  if (geteuid()) return;
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

/* mpirun hangs where it has too few. */
static void raise_open_files(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= FILES_MIN) return;
  files.rlim_cur = MIN_OF(files.rlim_max, FILES_MIN);
  setrlimit(RLIMIT_NOFILE, &files);
}

/* In the child: a group of its own, so that Ctrl-C reaches only us. */
static void become(const char **words, const char *socket, int failure) {
  sigset_t none;
  sigemptyset(&none);
  setpgid(0, 0);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  setenv(RANKS_ASKED, socket, 1);
  execvp(words[0], (char *const *)words);
  int error = errno;
  ssize_t ignored = write(failure, &error, sizeof error);
  (void)ignored; /* the parent sees the exit status at least */
  _exit(127);
}

/* In the child; gone when we are. */
static void become_mpirun(const char **words, const char *socket, const char *shared, int failure) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prepare_environment(shared);
  raise_open_files();
  become(words, socket, failure);
}

/* Whether all children have ended, and how. */
static bool has_ended(rank_job *j, int *status) {
  bool all = true;
  for (int i = 0; i < j->n; i++) {
    int how = 0;
    if (!j->children[i]) continue;
    const pid_t ended = waitpid(j->children[i], &how, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) {
      all = false;
      continue;
    }
    j->children[i] = 0;
    if (!how || j->bad_at) continue;
    j->bad = how;
    j->bad_at = clock_seconds();
  }
  *status = j->bad;
  return all;
}

/* group: and those it has started. */
static void signal_children(const rank_job *j, int number, bool group) {
  for (int i = 0; i < j->n; i++)
    if (j->children[i]) kill(group ? -j->children[i] : j->children[i], number);
}

/* Ends mpirun and its ranks, stopped ones, too. Ranks may be in groups of their own. Our own ranks have had their time:
 * asked to end they would take their last step first. */
static int end_all(rank_job *j) {
  int status = 0;
  if (!j->own) {
    signal_children(j, SIGTERM, false);
    signal_children(j, SIGCONT, false);
  }
  const double until = clock_seconds() + (j->own ? 0 : GRACE_SECONDS);
  while (!has_ended(j, &status)) {
    if (clock_seconds() >= until) signal_children(j, SIGKILL, true);
    rank_roster_hear(j->roster, LOOK_SECONDS);
  }
  rank_roster_kill(j->roster);
  return status;
}

/* "; the limit of open files is 32 ..." where that may be why. */
static void add_limits(text *words) {
  struct rlimit files;
  if (!getrlimit(RLIMIT_NOFILE, &files) && files.rlim_max < FILES_MIN)
    text_add(words, "; mpirun may open %lld files (ulimit -n), which is few", (long long)files.rlim_max);
}

static shoal_status made(text *words) {
  shoal_status status = words->failed ? status_no_memory() : status_make(SHOAL_ERR_PEER, "%s", words->data);
  text_fini(words);
  return status;
}

/* Some rank does not come. */
static shoal_status name_late(const rank_job *j) {
  text words = {0}, who = {0};
  int waited;
  rank_roster_add_late(j->roster, &who, &waited);
  if (waited >= 0)
    text_add(&words, "rank %d has waited %g s (`deadline`) for %s", waited, j->deadline, who.failed ? "?" : who.data);
  else
    text_add(&words, "not all ranks have begun within %g s (`deadline`): %s", j->deadline, who.failed ? "?" : who.data);
  text_fini(&who);
  add_limits(&words);
  return made(&words);
}

/* The job has failed and no rank has said why. */
static shoal_status name_ended(const rank_job *j, int status) {
  if (j->asked) return status_make(SHOAL_ERR_CANCELLED, "Stopped before training had begun.");
  text words = {0};
  if (rank_roster_add_ended(j->roster, &words))
    text_add(&words, " has ended and named no cause: killed, out of memory%s",
             j->own ? " (see above)" : ", or by an error of MPI itself (see above)");
  else if (j->own)
    text_add(&words, "a rank has ended with status %d", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  else if (WIFSIGNALED(status)) /* mpirun itself */
    text_add(&words, "mpirun was ended by signal %d", WTERMSIG(status));
  else if (WEXITSTATUS(status) > 128) /* that of a rank which had not said yet that it was there */
    text_add(&words, "a rank was ended by signal %d (status %d of mpirun)", WEXITSTATUS(status) - 128,
             WEXITSTATUS(status));
  else
    text_add(&words, "mpirun has ended with status %d", WEXITSTATUS(status));
  if (!rank_roster_all_begun(j->roster)) text_add(&words, " before all ranks had begun");
  add_limits(&words);
  return made(&words);
}

/* mpirun has ended, or was ended since its ranks had. */
static shoal_status judge_end(const rank_job *j, int status) {
  const bool good = WIFEXITED(status) && !WEXITSTATUS(status);
  const bool told = rank_roster_told(j->roster) && (WIFEXITED(status) || j->own);
  return good || told ? NULL : name_ended(j, status);
}

/* Waits for all; passes on that somebody asks to stop. SIGUSR1 is what mpirun hands on to all ranks. */
static shoal_status watch(rank_job *j, int *status) {
  const double begun = clock_seconds();
  double alive = begun; /* a rank was, then */
  while (!has_ended(j, status)) {
    if (!j->asked && j->stop && __atomic_load_n(j->stop, __ATOMIC_ACQUIRE)) {
      signal_children(j, SIGUSR1, false);
      j->asked = true;
    }
    rank_roster_hear(j->roster, LOOK_SECONDS);
    const double now = clock_seconds();
    if (!rank_roster_all_ended(j->roster)) alive = now;
    if (now - alive > LEFT_SECONDS) { /* mpirun does not notice */
      *status = end_all(j);
      if (rank_roster_done(j->roster)) *status = 0;
      return judge_end(j, *status);
    }
    const bool late = !rank_roster_all_begun(j->roster) && now - begun > j->deadline + MARGIN_SECONDS;
    if (!late && !rank_roster_late(j->roster)) continue;
    shoal_status named = rank_roster_done(j->roster) ? NULL : name_late(j);
    *status = end_all(j);
    if (!named) *status = 0; /* the result is whole; only some rank does not end */
    return named;
  }
  rank_roster_hear(j->roster, 0);
  rank_roster_kill(j->roster);
  return judge_end(j, *status);
}

/* In the child: as become_mpirun. */
static void become_rank(const char **words, const char *socket, const char *place, bool again, pid_t parent,
                        int failure) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127); /* it died before it was watched */
  setenv(RANK_PLACE, place, 1);
  if (again) setenv(RANKS_AGAIN, "1", 1);
  become(words, socket, failure);
}

/* Starts one process; `place` NULL: mpirun. */
static shoal_status start(const char **words, const char *socket, const char *shared, const char *place, bool again,
                          pid_t *out) {
  int pipes[2], error = 0;
  const pid_t parent = getpid();
  if (pipe2(pipes, O_CLOEXEC)) return status_errno(errno, "cannot create a pipe");
  pid_t child = fork();
  if (child == 0 && place) become_rank(words, socket, place, again, parent, pipes[1]);
  if (child == 0) become_mpirun(words, socket, shared, pipes[1]);
  close(pipes[1]);
  ssize_t n = child > 0 ? read(pipes[0], &error, sizeof error) : 0;
  close(pipes[0]);
  if (child < 0) return status_errno(errno, "cannot start a process");
  if (n == sizeof error) {
    waitpid(child, NULL, 0);
    if (place) return status_errno(error, "%s cannot be run", words[0]);
    return status_errno(error,
                        "`transport` mpi starts its ranks by mpirun, which cannot be run (install "
                        "openmpi-bin, or start the ranks yourself)");
  }
  *out = child;
  return NULL;
}

/* ---- ranks of our own, which come and go */

static shoal_status start_rank(rank_job *j, int rank, bool again) {
  char *place;
  TRY(rank_roster_expect(j->roster, rank));
  if (asprintf(&place, "%d %lld%s", rank, (long long)j->options->workers, j->addresses) < 0) return status_no_memory();
  shoal_status status = start(j->words, j->socket, NULL, place, again, &j->children[rank]);
  free(place);
  return status;
}

static void say(const rank_job *j, text *line) {
  if (!line->failed && j->options->note) j->options->note(j->options->context, line->data);
  text_fini(line);
}

/* A rank was killed. If the job can go on, it does; rank 0 it cannot be without. */
static shoal_status take_loss(rank_job *j, int rank, pid_t pid, int how) {
  const int number = WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how) - EXIT_BY_SIGNAL;
  const bool again =
      WIFSIGNALED(how) && j->restarts[rank] < j->options->max_restarts && !j->asked && !j->bad_at && !j->chief_at;
  const bool without = rank && j->trained;
  if (!again && !without) {
    if (!j->bad_at) j->bad_at = clock_seconds();
    j->bad = how;
    return NULL;
  }
  if (j->chief_at) return NULL; /* all is done */
  text line = {0};
  text_add(&line, "worker/%d (pid %d) was killed by signal %d (%s): ", rank, (int)pid, number, strsignal(number));
  if (again)
    text_add(&line, "it is started again (%d of %lld)", j->restarts[rank] + 1, (long long)j->options->max_restarts);
  else
    text_add(&line, "the job goes on without it");
  say(j, &line);
  if (!again) return NULL;
  j->restarts[rank]++;
  return start_rank(j, rank, true);
}

static shoal_status look_at_ranks(rank_job *j) {
  j->trained = j->trained || rank_roster_trains(j->roster);
  for (int i = 0; i < j->n; i++) {
    int how = 0;
    const pid_t pid = j->children[i];
    if (!pid) continue;
    const pid_t ended = waitpid(pid, &how, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
    j->children[i] = 0;
    rank_roster_hear(j->roster, 0);
    if (WIFSIGNALED(how) || WEXITSTATUS(how) > EXIT_BY_SIGNAL) { /* one that is asked to leave twice does so at once */
      TRY(take_loss(j, i, pid, how));
    } else if (how && !j->bad_at) {
      j->bad = how;
      j->bad_at = clock_seconds();
    }
    if (i == 0 && !j->children[0]) {
      j->chief_at = clock_seconds();
      j->chief = how;
    }
  }
  return NULL;
}

static int running(const rank_job *j) {
  int n = 0;
  for (int i = 0; i < j->n; i++) n += j->children[i] != 0;
  return n;
}

/* Nobody goes on without rank 0: one that is stopped is killed, and started again like any other that was. */
static void kill_stopped(rank_job *j, double now) {
  if (!j->children[0] || !rank_roster_stopped(j->roster, 0))
    j->stopped_at = 0;
  else if (j->stopped_at == 0)
    j->stopped_at = now;
  if (j->stopped_at == 0 || now - j->stopped_at < j->options->heartbeat) return;
  text line = {0};
  text_add(&line, "worker/0 (pid %d) has been stopped for %g s: it is killed", (int)j->children[0],
           j->options->heartbeat);
  say(j, &line);
  kill(j->children[0], SIGKILL);
  j->stopped_at = 0;
}

/* A rank more, in the first place that is free. */
static shoal_status add_rank(rank_job *j) {
  int rank = 0;
  while (rank < j->n && j->children[rank]) rank++;
  if (rank == j->n) {
    pid_t *children = realloc(j->children, (size_t)(j->n + 1) * sizeof *children);
    if (children) j->children = children;
    int *restarts = realloc(j->restarts, (size_t)(j->n + 1) * sizeof *restarts);
    if (restarts) j->restarts = restarts;
    if (!children || !restarts) return status_no_memory();
    TRY(rank_place_extend(j->options->transport, rank, j->socket, &j->addresses));
    j->children[j->n] = 0;
    j->restarts[j->n++] = 0;
  }
  return start_rank(j, rank, true);
}

/* Somebody asks for another number of ranks. */
static shoal_status look_for_request(rank_job *j) {
  int64_t wanted;
  if (!rank_roster_trains(j->roster) || !scale_take(j->options->dir, SCALE_WORKERS, &wanted)) return NULL;
  const char *wrong = scale_workers_objection(wanted);
  text line = {0};
  if (wrong)
    text_add(&line, "not %lld workers: %s", (long long)wanted, wrong);
  else
    text_add(&line, "from %d to %lld workers", running(j), (long long)wanted);
  say(j, &line);
  if (wrong) return NULL;
  while (running(j) < wanted) TRY(add_rank(j));
  int more = running(j) - (int)wanted;
  for (int i = j->n - 1; i > 0 && more > 0; i--)
    if (j->children[i]) {
      kill(j->children[i], SIGTERM);
      more--;
    }
  return NULL;
}

/* Waits for all. */
static shoal_status watch_own(rank_job *j, int *status) {
  const double begun = clock_seconds();
  for (double now = begun, looked = 0; running(j); now = clock_seconds()) {
    if (!j->asked && j->options->stop && __atomic_load_n(j->options->stop, __ATOMIC_ACQUIRE) && j->children[0]) {
      kill(j->children[0], SIGUSR1); /* which has the others stop */
      j->asked = true;
    }
    rank_roster_hear(j->roster, LOOK_SECONDS);
    TRY(look_at_ranks(j));
    if (now - looked > REQUEST_SECONDS && !j->chief_at && !j->bad_at && !j->asked) {
      looked = now;
      kill_stopped(j, now);
      TRY(look_for_request(j));
    }
    /* All is said, or the others do not notice. */
    const bool over = j->bad_at && (rank_roster_has_told(j->roster) || now - j->bad_at > LEFT_SECONDS);
    const bool left = j->chief_at && now - j->chief_at > DONE_SECONDS; /* who is stopped, or came too late */
    const bool late = !rank_roster_all_begun(j->roster) && !rank_roster_trains(j->roster) &&
                      now - begun > j->deadline + MARGIN_SECONDS;
    if (!over && !left && !late && !(rank_roster_late(j->roster) && !rank_roster_trains(j->roster))) continue;
    shoal_status named = over || left || rank_roster_done(j->roster) ? NULL : name_late(j);
    *status = named ? 1 : j->bad_at ? j->bad : j->chief;
    end_all(j);
    return named ? named : judge_end(j, *status);
  }
  rank_roster_hear(j->roster, 0);
  *status = j->bad_at ? j->bad : j->chief;
  return judge_end(j, *status);
}

/* "train MODEL --batch-size 64 ...": the settings as they were said. Values are owned by the caller. */
static shoal_status say_settings(const shoal_job *job, const char **words, char **owned, int *n) {
  const shoal_job unset = job_unset();
  int kept = 0;
  for (const shoal_setting *row = job_table; row->name; row++) {
    if (!setting_is_said(row, job, &unset)) continue;
    if (*n + 2 >= WORDS_MAX) return status_make(SHOAL_ERR_INTERNAL, "more settings than words for mpirun");
    char *value = NULL, *flag;
    if (asprintf(&flag, "--%s", row->name) < 0) return status_no_memory();
    words[(*n)++] = owned[kept++] = flag;
    if (row->kind == SHOAL_SETTING_BOOL) continue;
    if (!(value = setting_to_text(row, job))) return status_no_memory();
    words[(*n)++] = owned[kept++] = value;
  }
  return NULL;
}

static shoal_status start_all(rank_job *j, const rank_job_options *o, const char *shared) {
  j->n = j->own ? (int)o->workers : 1;
  j->children = calloc((size_t)j->n, sizeof *j->children);
  j->restarts = calloc((size_t)j->n, sizeof *j->restarts);
  if (!j->children || !j->restarts) return status_no_memory();
  if (!j->own) return start(j->words, j->socket, shared, NULL, false, &j->children[0]);
  TRY(rank_place_make(o->transport, o->workers, j->socket, &j->addresses));
  for (int r = 0; r < j->n; r++) TRY(start_rank(j, r, false));
  return NULL;
}

static shoal_status run(rank_job *j, const rank_job_options *o, const char **words, int *exit_status) {
  char socket[RANK_ROSTER_NAME], shared[PATH_MAX] = "";
  int ended = 0;
  TRY(rank_roster_create(o->workers, &j->roster, socket));
  if (!j->own) make_shared(shared);
  j->words = words;
  j->socket = socket;
  shoal_status status = start_all(j, o, shared);
  if (!status) status = j->own ? watch_own(j, &ended) : watch(j, &ended);
  if (j->children) end_all(j);
  if (*shared) remove_folder(shared);
  rank_roster_destroy(j->roster);
  free(j->children);
  free(j->restarts);
  free(j->addresses);
  *exit_status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
  return status;
}

shoal_status rank_job_run(const shoal_job *asked, const rank_job_options *o, int *exit_status) {
  enum { MPIRUN_WORDS = 3 };
  const bool own = strcmp(o->transport, "mpi") != 0;
  collective_place none;
  if (!own && !collective_there("mpi")) return collective_join("mpi", &none); /* says what is missing */
  char self[PATH_MAX] = "", number[24], *owned[WORDS_MAX] = {0};
  const char *words[WORDS_MAX] = {"mpirun", "-n", number, o->program ? o->program : "shoal", "train", asked->model};
  int n = 6;
  if (o->program && !strcmp(o->program, "/proc/self/exe")) { /* mpirun's own, otherwise */
    if (readlink(o->program, self, sizeof self - 1) < 0) return status_errno(errno, "cannot find this program");
    words[MPIRUN_WORDS] = self;
  }
  snprintf(number, sizeof number, "%lld", (long long)o->workers);
  shoal_status status = say_settings(asked, words, owned, &n);
  rank_job j = {.own = own, .options = o, .deadline = o->deadline, .stop = o->stop};
  if (!status) status = run(&j, o, own ? words + MPIRUN_WORDS : words, exit_status);
  for (int i = 0; i < WORDS_MAX; i++) free(owned[i]);
  return status;
}
