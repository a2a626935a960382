/* The seam for injected faults, in builds with -Dfaults=true alone: the linker leads every call of these functions from
 * Shoal's own code to the __wrap_ functions here (--wrap, see meson.build), and the memory that jansson takes.
 *
 * SHOAL_FAULT=N in the environment makes the N-th call of this process fail as the system would; N+ that one and all later
 * calls of the same function, as on a disk that is full and stays so. N~ counts only calls that may be interrupted or do less
 * than they were asked to, and makes the N-th of them do that, which is no failure: nothing may come of it. N! counts
 * checksums alone, and one bit of the N-th comes out wrong: what was read is damaged. SHOAL_FAULT_TASK=WORD: of the
 * processes of a job only the one whose command line has this word. SHOAL_FAULT_LOG=FILE gets two lines when the process
 * ends: how many calls there were, and the name of the one that failed. SHOAL_FAULT_SERVER=1: the process, which takes long
 * to start under ASan, runs its command again and again, see serve. tests/faults.py drives it. A build without the option has
 * none of this. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* One process, one number: the environment has it, and every thread counts. */
static _Atomic long calls;
static long failing = -1;
static enum { ONCE, LASTING, PARTLY, DAMAGE } kind;
static const char *_Atomic failed;
static char log_path[512];

/* What the library does for itself before main and while the log is written does not count. */
static _Atomic bool counting;

static bool is_chosen(const char *name) {
  if (!atomic_load_explicit(&counting, memory_order_relaxed)) return false;
  const long number = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
  const char *before = atomic_load(&failed);
  if (number != failing && !(kind == LASTING && before && !strcmp(before, name))) return false;
  atomic_store(&failed, name);
  return true;
}

static bool fails(const char *name, int error) {
  if (kind > LASTING || !is_chosen(name)) return false;
  errno = error;
  return true;
}

/* Every other such call is interrupted, the rest do half of what they could. */
typedef enum { ALL_OF_IT, INTERRUPTED, HALF } amount;
static amount partly(const char *name) {
  if (kind != PARTLY || !is_chosen(name)) return ALL_OF_IT;
  errno = EINTR;
  return failing % 2 ? INTERRUPTED : HALF;
}

/* The same for calls of `n` bytes. */
#define FAULT_BYTES(name, parameters, arguments, error) \
  extern ssize_t __real_##name parameters;              \
  extern ssize_t __wrap_##name parameters;              \
  ssize_t __wrap_##name parameters {                    \
    if (fails(#name, error)) return -1;                 \
    const amount how = partly(#name);                   \
    if (how == INTERRUPTED) return -1;                  \
    if (how == HALF && n > 1) n = n / 2;                \
    return __real_##name arguments;                     \
  }

/* FAULT(returned, name, (parameters), (arguments), failure's value, errno) */
#define FAULT(type, name, parameters, arguments, failure, error) \
  extern type __real_##name parameters;                          \
  extern type __wrap_##name parameters;                          \
  type __wrap_##name parameters {                                \
    if (fails(#name, error)) return failure;                     \
    return __real_##name arguments;                              \
  }

/* ---- memory */
FAULT(void *, malloc, (size_t n), (n), NULL, ENOMEM)
FAULT(void *, calloc, (size_t n, size_t size), (n, size), NULL, ENOMEM)
FAULT(void *, realloc, (void *p, size_t n), (p, n), NULL, ENOMEM)
FAULT(char *, strdup, (const char *s), (s), NULL, ENOMEM)
FAULT(char *, strndup, (const char *s, size_t n), (s, n), NULL, ENOMEM)
FAULT(void *, aligned_alloc, (size_t align, size_t n), (align, n), NULL, ENOMEM)
FAULT(int, posix_memalign, (void **out, size_t align, size_t n), (out, align, n), ENOMEM, ENOMEM)
FAULT(int, vasprintf, (char **out, const char *format, va_list list), (out, format, list), -1, ENOMEM)
FAULT(void *, mmap, (void *at, size_t n, int protection, int flags, int fd, off_t offset),
      (at, n, protection, flags, fd, offset), MAP_FAILED, ENOMEM)

extern int __wrap_asprintf(char **out, const char *format, ...);
int __wrap_asprintf(char **out, const char *format, ...) {
  va_list list;
  if (fails("asprintf", ENOMEM)) return -1;
  va_start(list, format);
  int n = __real_vasprintf(out, format, list);
  va_end(list);
  return n;
}

/* ---- files */
FAULT(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE)
FAULT(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL, ENOMEM)
FAULT_BYTES(read, (int fd, void *to, size_t n), (fd, to, n), EIO)
FAULT_BYTES(pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), EIO)
FAULT_BYTES(write, (int fd, const void *from, size_t n), (fd, from, n), ENOSPC)
FAULT_BYTES(pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at), ENOSPC)
FAULT_BYTES(writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), ENOSPC)
FAULT(int, fflush, (FILE * f), (f), EOF, ENOSPC)
FAULT(int, fsync, (int fd), (fd), -1, EIO)
FAULT(int, ftruncate, (int fd, off_t n), (fd, n), -1, EIO)
FAULT(int, rename, (const char *from, const char *to), (from, to), -1, EIO)
FAULT(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, EACCES)
FAULT(DIR *, opendir, (const char *path), (path), NULL, EMFILE)

extern int __real_open(const char *path, int flags, ...);
extern int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, int) : 0;
  va_end(list);
  return fails("open", EMFILE) ? -1 : __real_open(path, flags, mode);
}

/* The stream is closed all the same, as the system does it. */
extern int __real_fclose(FILE *f);
extern int __wrap_fclose(FILE *f);
int __wrap_fclose(FILE *f) {
  const bool bad = fails("fclose", ENOSPC);
  const int error = errno, result = __real_fclose(f);
  if (!bad) return result;
  errno = error;
  return EOF;
}

/* ---- sockets, processes, threads */
FAULT(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
FAULT(int, bind, (int fd, const struct sockaddr *at, socklen_t n), (fd, at, n), -1, EADDRINUSE)
FAULT(int, listen, (int fd, int most), (fd, most), -1, EADDRINUSE)
FAULT(int, connect, (int fd, const struct sockaddr *at, socklen_t n), (fd, at, n), -1, ECONNREFUSED)
FAULT_BYTES(send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags), ECONNRESET)
FAULT_BYTES(recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), ECONNRESET)
FAULT(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), -1, ECONNRESET)
FAULT(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags), -1, ECONNRESET)
FAULT(int, pipe2, (int fds[2], int flags), (fds, flags), -1, EMFILE)
FAULT(int, eventfd, (unsigned n, int flags), (n, flags), -1, EMFILE)
FAULT(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1, EMFILE)
FAULT(pid_t, fork, (void), (), -1, EAGAIN)
FAULT(int, pthread_create, (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context),
      (thread, attributes, run, context), EAGAIN, EAGAIN)

/* ---- the clock: jumps ahead, and stays there */
#define JUMP_SECONDS 100
static _Atomic long ahead;

extern int __real_clock_gettime(clockid_t clock, struct timespec *out);
extern int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out) {
  if (fails("clock_gettime", 0)) atomic_fetch_add(&ahead, JUMP_SECONDS);
  const int result = __real_clock_gettime(clock, out);
  if (!result) out->tv_sec += atomic_load_explicit(&ahead, memory_order_relaxed);
  return result;
}

/* ---- checksums */
extern uint32_t __real_crc32c(uint32_t crc, const void *bytes, size_t n);
extern uint32_t __wrap_crc32c(uint32_t crc, const void *bytes, size_t n);
uint32_t __wrap_crc32c(uint32_t crc, const void *bytes, size_t n) {
  const uint32_t right = __real_crc32c(crc, bytes, n);
  return kind == DAMAGE && is_chosen("crc32c") ? right ^ 1u << failing % 32 : right;
}

/* ---- before main and at the end */

/* Whether this process is meant. */
static bool is_meant(const char *task) {
  char words[4096];
  FILE *f = task ? __real_fopen("/proc/self/cmdline", "re") : NULL;
  if (!f) return !task;
  const size_t n = fread(words, 1, sizeof words - 1, f);
  __real_fclose(f);
  words[n] = 0;
  for (size_t at = 0; at < n; at += strlen(words + at) + 1)
    if (!strcmp(words + at, task)) return true;
  return false;
}

static void write_log(void) {
  atomic_store(&counting, false);
  FILE *f = *log_path ? __real_fopen(log_path, "we") : NULL;
  const char *name = atomic_load(&failed);
  if (!f) return;
  fprintf(f, "%ld\n%s\n", atomic_load(&calls), name ? name : "none");
  __real_fclose(f);
}

/* Standard input has lines "FOLDER FAULT": a copy of this process goes on to main in that folder, with SHOAL_FAULT=FAULT, its
 * log in FOLDER/calls and its standard error in FOLDER/said. Standard output gets its process number, and "0 STATUS", as of
 * waitpid, when it has ended. Ends with its input. */
static void serve(void) {
  char line[4096];
  ssize_t n;
  while ((n = __real_read(STDIN_FILENO, line, sizeof line - 1)) > 0) {
    line[n] = 0;
    char *fault = strrchr(line, ' ');
    if (!fault) break;
    *fault++ = 0;
    fault[strcspn(fault, "\n")] = 0;
    const pid_t pid = __real_fork();
    if (!pid) {
      const int nothing = __real_open("/dev/null", O_RDWR),
                said = chdir(line) ? -1 : __real_open("said", O_WRONLY | O_CREAT, 0666);
      if (nothing < 0 || said < 0 || dup2(nothing, 0) < 0 || dup2(nothing, 1) < 0 || dup2(said, 2) < 0) _exit(127);
      close(nothing);
      close(said);
      setenv("SHOAL_FAULT", fault, 1);
      setenv("SHOAL_FAULT_LOG", "calls", 1);
      return;
    }
    int status = 0;
    n = snprintf(line, sizeof line, "%d\n", (int)pid);
    if (pid < 0 || __real_write(STDOUT_FILENO, line, (size_t)n) != n || waitpid(pid, &status, 0) != pid) break;
    n = snprintf(line, sizeof line, "0 %d\n", status);
    if (__real_write(STDOUT_FILENO, line, (size_t)n) != n) break;
  }
  _exit(0);
}

__attribute__((constructor)) static void begin(void) {
  if (getenv("SHOAL_FAULT_SERVER")) serve();
  const char *number = getenv("SHOAL_FAULT"), *log = getenv("SHOAL_FAULT_LOG");
  char *behind = NULL;
  if (number) failing = strtol(number, &behind, 10);
  if (behind) kind = *behind == '+' ? LASTING : *behind == '~' ? PARTLY : *behind == '!' ? DAMAGE : ONCE;
  if ((!number && !log) || !is_meant(getenv("SHOAL_FAULT_TASK"))) return;
  if (log) snprintf(log_path, sizeof log_path, "%s", log);
  json_set_alloc_funcs(__wrap_malloc, free);
  atexit(write_log);
  atomic_store(&counting, true);
}
