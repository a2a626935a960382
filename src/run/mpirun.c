#include "run/mpirun.h"

#include "base/mem.h"
#include "dist/collective.h"
#include "run/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NANOSECONDS 20000000 /* between two looks at mpirun */
#define WORDS_MAX 256

/* What mpirun is to know, by its environment: of Open MPI 4 and 5; others do not know these words and do not mind. */
static void prepare_environment(void) {
  static const char *const settings[][2] = {
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},     {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"}, {"PRTE_MCA_hwloc_default_binding_policy", "none"},
      {"OMPI_MCA_orte_execute_quiet", "1"},           {RANKS_ASKED, "1"}};
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
    if (!asked && stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
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
    return status_errno(error,
                        "the strategy allreduce starts its ranks by mpirun, which cannot be run (install "
                        "openmpi-bin, or start the ranks yourself)");
  }
  *out = child;
  return NULL;
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

static shoal_status run(const char **words, const int *stop, int *exit_status) {
  pid_t child;
  TRY(start_mpirun(words, &child));
  const int ended = watch_mpirun(child, stop);
  *exit_status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
  return NULL;
}

shoal_status mpirun_job(const shoal_job *asked, const char *program, int64_t workers, const int *stop,
                        int *exit_status) {
  collective_place none;
  if (!collective_there("mpi")) return collective_join("mpi", &none); /* says what is missing */
  char self[PATH_MAX] = "", number[24], *owned[WORDS_MAX] = {0};
  const char *words[WORDS_MAX] = {"mpirun", "-n", number, program ? program : "shoal", "train", asked->model};
  int n = 6;
  if (program && !strcmp(program, "/proc/self/exe")) { /* mpirun's own, otherwise */
    if (readlink(program, self, sizeof self - 1) < 0) return status_errno(errno, "cannot find this program");
    words[3] = self;
  }
  snprintf(number, sizeof number, "%lld", (long long)workers);
  shoal_status status = say_settings(asked, words, owned, &n);
  if (!status) status = run(words, stop, exit_status);
  for (int i = 0; i < WORDS_MAX; i++) free(owned[i]);
  return status;
}
