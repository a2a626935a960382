#include "run/remote_host.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_MAX 4096
#define COPY_PIECE (1 << 16)
#define WORDS_MAX 64

static void wrong(remote_host *h, const char *words) {
  if (!h->why[0]) snprintf(h->why, sizeof h->why, "%s", words);
}

/* ---- starting ssh */

/* What the login shell on the host is to run. A program that is copied comes first through the same pipe. */
static shoal_status remote_command(const shoal_launch_options *o, int64_t copied, text *out) {
  if (o->copy)
    text_add(out,
             "f=$(mktemp \"${TMPDIR:-/tmp}/shoal-XXXXXX\") && head -c %lld >\"$f\" && chmod 700 \"$f\" && "
             "exec \"$f\" launch --agent --copied",
             (long long)copied);
  else
    text_add(out, "exec %s launch --agent", o->program ? o->program : "shoal");
  return out->failed ? status_no_memory() : NULL;
}

/* The words of `ssh`, the flags that keep a launch from waiting for a person or for ever, the host and the command. The
 * user's own flags come first, and the first counts. */
static shoal_status ssh_words(char *words, const char *name, const char *command, const char *wait, char **argv) {
  static const char *const own[] = {"-T",
                                    "-o",
                                    "BatchMode=yes",
                                    "-o",
                                    "ServerAliveInterval=3",
                                    "-o",
                                    "ServerAliveCountMax=3",
                                    "-o",
                                    "ControlMaster=no",
                                    "-o",
                                    "ControlPath=none"};
  int n = 0;
  char *rest = NULL;
  for (char *s = strtok_r(words, " \t", &rest); s; s = strtok_r(NULL, " \t", &rest)) {
    if (n == WORDS_MAX) return status_make(SHOAL_ERR_ARGUMENT, "`ssh`: more than %d words", WORDS_MAX);
    argv[n++] = s;
  }
  if (!n) return status_make(SHOAL_ERR_ARGUMENT, "`ssh` is empty");
  for (size_t i = 0; i < COUNT_OF(own); i++) argv[n++] = (char *)own[i]; /* exec does not change them */
  argv[n++] = (char *)"-o";
  argv[n++] = (char *)wait;
  argv[n++] = (char *)"--";
  argv[n++] = (char *)name;
  argv[n++] = (char *)command;
  argv[n] = NULL;
  return NULL;
}

/* A network namespace of this machine in place of a host. */
static void namespace_words(const char *name, const char *command, char **argv) {
  const char *const words[] = {"ip", "netns", "exec", name, "sh", "-c", command, NULL};
  for (size_t i = 0; i < COUNT_OF(words); i++) argv[i] = (char *)words[i]; /* exec does not change them */
}

/* In the child: a process group of its own, so that a Ctrl-C is the launcher's to take, and an end with the launcher. */
static void become_ssh(pid_t parent, const int fds[3], char **argv) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (int i = 0; i < 3; i++) {
    int fd = fcntl(fds[i], F_DUPFD, 10);
    if (fd < 0 || dup2(fd, i) < 0) _exit(127);
    close(fd);
  }
  execvp(argv[0], argv);
  dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

static shoal_status spawn(remote_host *h, char **argv) {
  int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
  pid_t pid = -1, parent = getpid();
  if (!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC) && !pipe2(err, O_CLOEXEC)) pid = fork();
  const int error = errno;
  if (pid == 0) become_ssh(parent, (const int[]){in[0], out[1], err[1]}, argv);
  const int theirs[] = {in[0], out[1], err[1]}, ours[] = {in[1], out[0], err[0]};
  for (int i = 0; i < 3; i++) {
    if (theirs[i] >= 0) close(theirs[i]);
    if (pid < 0 && ours[i] >= 0) close(ours[i]);
  }
  if (pid < 0) return status_errno(error, "cannot start %s", argv[0]);
  h->ssh = pid;
  h->errors = err[0];
  fcntl(h->errors, F_SETFL, O_NONBLOCK);
  remote_channel_init(&h->line, out[0], in[1]);
  return NULL;
}

static shoal_status open_copy(remote_host *h, const char *path, int64_t *size) {
  struct stat st;
  if (!path) return NULL;
  h->copy = open(path, O_RDONLY | O_CLOEXEC);
  h->pending = malloc(COPY_PIECE);
  if (!h->pending) return status_no_memory();
  if (h->copy < 0 || fstat(h->copy, &st)) return status_errno(errno, "`copy`: %s", path);
  *size = st.st_size;
  return NULL;
}

shoal_status remote_host_start(remote_host *h, const char *name, const shoal_launch_options *o) {
  *h = (remote_host){.name = name, .errors = -1, .copy = -1, .line = {.in = -1, .out = -1}};
  char *words = strdup(o->ssh ? o->ssh : "ssh"), *argv[WORDS_MAX + 24], wait[48];
  text command = {0};
  int64_t size = 0;
  shoal_status status = words ? NULL : status_no_memory();
  snprintf(wait, sizeof wait, "ConnectTimeout=%d", (int)MAX_OF(o->connect_seconds - 1, 1));
  if (!status) status = open_copy(h, o->copy, &size);
  if (!status) status = remote_command(o, size, &command);
  if (!status && o->namespaces)
    namespace_words(name, command.data, argv);
  else if (!status)
    status = ssh_words(words, name, command.data, wait, argv);
  if (!status) status = spawn(h, argv);
  text_fini(&command);
  free(words);
  return status;
}

/* ---- what comes */

static void read_errors(remote_host *h) {
  char piece[1024];
  ssize_t n;
  while (h->errors >= 0 && (n = read(h->errors, piece, sizeof piece)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    text_add_bytes(&h->said, piece, (size_t)n);
    if (h->said.data && h->said.length > SAID_MAX) { /* the end of it says what went wrong */
      memmove(h->said.data, h->said.data + h->said.length - SAID_MAX, SAID_MAX + 1);
      h->said.length = SAID_MAX;
    }
  }
}

/* The last line that ssh or the shell there has said. */
static const char *last_words(remote_host *h) {
  char *s = h->said.data;
  size_t n = s ? h->said.length : 0;
  while (n && strchr(" \r\n", s[n - 1])) s[--n] = 0;
  char *line = s ? strrchr(s, '\n') : NULL;
  return !n ? "" : line ? line + 1 : s;
}

static void take_end(remote_host *h) {
  if (h->ended || !h->ssh || waitpid(h->ssh, &h->status, WNOHANG) != h->ssh) return;
  h->ended = true;
  read_errors(h);
  const char *last = last_words(h);
  char words[512];
  if (*last)
    snprintf(words, sizeof words, "%s", last);
  else if (WIFSIGNALED(h->status))
    snprintf(words, sizeof words, "ssh was killed by signal %d", WTERMSIG(h->status));
  else
    snprintf(words, sizeof words, "ssh ended with status %d", WEXITSTATUS(h->status));
  wrong(h, words);
}

/* As much of the program as the pipe takes. */
static void copy_on(remote_host *h) {
  while (h->copy >= 0) {
    if (h->at == h->room) {
      ssize_t n = read(h->copy, h->pending, COPY_PIECE);
      if (n <= 0) {
        close(h->copy);
        h->copy = -1;
        return;
      }
      h->at = 0;
      h->room = (size_t)n;
    }
    ssize_t n = write(h->line.out, h->pending + h->at, h->room - h->at);
    if (n < 0) return; /* full, or gone, which shows elsewhere */
    h->at += (size_t)n;
  }
}

void remote_host_look(remote_host *h, json_t **out) {
  *out = NULL;
  read_errors(h);
  copy_on(h);
  take_end(h); /* before the messages: then all it said is there */
  if (h->line.in < 0) return;
  shoal_status status = remote_channel_next(&h->line, out);
  if (status) wrong(h, shoal_status_message(status));
  shoal_status_free(status);
  const json_t *error = *out ? remote_body(*out, "error") : NULL;
  const char *words = json_string_value(json_object_get(error, "text"));
  if (words) snprintf(h->why, sizeof h->why, "%s", words);
}

void remote_host_send(remote_host *h, const char *kind, json_t *body) {
  shoal_status status = remote_channel_send(&h->line, kind, body);
  if (status) wrong(h, shoal_status_message(status));
  shoal_status_free(status);
}

void remote_host_hang_up(remote_host *h) {
  if (h->line.out >= 0) close(h->line.out);
  h->line.out = -1;
}

void remote_host_fini(remote_host *h) {
  if (h->ssh && !h->ended) {
    kill(-h->ssh, SIGKILL);
    waitpid(h->ssh, NULL, 0);
  }
  if (h->errors >= 0) close(h->errors);
  if (h->copy >= 0) close(h->copy);
  remote_channel_fini(&h->line);
  text_fini(&h->said);
  free(h->pending);
  free(h->address);
  free(h->ports);
}
