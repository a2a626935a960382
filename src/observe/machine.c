#include "shoal/machine.h"

#include "base/build_info.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kernel/cpu.h"
#include "kernel/fma.h"
#include "observe/proc.h"

#include <jansson.h>
#include <jpeglib.h>
#include <png.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>
#include <zmq.h>

#define COPIED ((size_t)64 << 20) /* bytes: larger than caches */
#define COPIES 5
#define FEW_FILES 1024 /* a server needs some for each worker */
#define LITTLE_MEMORY ((int64_t)512 << 20)

__attribute__((format(printf, 2, 3))) static void complain(shoal_machine *m, const char *format, ...) {
  if (m->n_problems == SHOAL_MACHINE_PROBLEMS) return;
  va_list list;
  va_start(list, format);
  vsnprintf(m->problems[m->n_problems++], SHOAL_PROBLEM_TEXT, format, list);
  va_end(list);
}

/* ---- the processor */

static void find_model(char *out, size_t room) {
  FILE *f = fopen("/proc/cpuinfo", "re");
  char line[512];
  while (f && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(out, room, "%s", colon + 1 + strspn(colon + 1, " \t"));
    break;
  }
  if (f) fclose(f);
}

static void list_instructions(char *out, size_t room) {
#if defined(__x86_64__)
  size_t n = 0;
#define SET(name) \
  if (n < room && __builtin_cpu_supports(name)) n += (size_t)snprintf(out + n, room - n, "%s%s", n ? " " : "", name)
  SET("sse4.2");
  SET("avx");
  SET("avx2");
  SET("fma");
  SET("avx512f");
  SET("avx512bw");
  SET("avx512vnni");
  SET("avx512vbmi2");
#undef SET
#elif defined(__aarch64__)
  snprintf(out, room, "neon");
#endif
}

double shoal_machine_flops(void) { return 1e9 * fma_gflops(); }

static void look_at_processor(shoal_machine *m) {
  struct utsname about = {0};
  cpu_set_t set;
  uname(&about);
  snprintf(m->system, sizeof m->system, "%.40s, %.60s", about.release, about.nodename);
  find_model(m->processor, sizeof m->processor);
  m->cores = m->usable_cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (!sched_getaffinity(0, sizeof set, &set)) m->usable_cores = CPU_COUNT(&set);
  if (m->usable_cores < m->cores)
    complain(m, "this process is bound to %d of %d cores; taskset, a container or a job scheduler does that",
             m->usable_cores, m->cores);
  list_instructions(m->instructions, sizeof m->instructions);
  snprintf(m->kernels, sizeof m->kernels, "%s", cpu_level_name(cpu_best()));
  if (cpu_best() == CPU_GENERIC)
    complain(m, "no tuned kernels fit this processor; it will train several times slower than one with AVX2");
  m->flops = shoal_machine_flops();
}

/* ---- memory */

int64_t shoal_machine_memory_free(void) {
  proc_host host = {0};
  proc_read_host(&host);
  return host.memory_bytes ? host.memory_free_bytes : -1;
}

static double measure_copy(void) {
  uint8_t *from = NULL, *to = NULL;
  double best = 0;
  shoal_status status = mem_aligned(COPIED, (void **)&from);
  if (!status) status = mem_aligned(COPIED, (void **)&to);
  if (!status) {
    memset(from, 1, COPIED);
    memset(to, 2, COPIED);
    for (int i = 0; i < COPIES; i++) {
      double start = clock_seconds();
      memcpy(to, from, COPIED);
      __asm__ volatile("" ::"r"(to) : "memory");
      best = MAX_OF(best, 2 * (double)COPIED / (clock_seconds() - start));
    }
  }
  shoal_status_free(status);
  free(from);
  free(to);
  return best;
}

/* The word in brackets of "always [madvise] never". */
static void find_huge_pages(char *out, size_t room) {
  FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
  char words[96] = "";
  if (f && fgets(words, sizeof words, f)) {
    const char *open = strchr(words, '[');
    if (open) snprintf(out, room, "%.*s", (int)strcspn(open + 1, "]"), open + 1);
  }
  if (f) fclose(f);
}

static void look_at_memory(shoal_machine *m) {
  proc_host host = {0};
  proc_read_host(&host);
  m->memory_bytes = host.memory_bytes ? host.memory_bytes : -1;
  m->memory_free_bytes = host.memory_bytes ? host.memory_free_bytes : -1;
  if (host.memory_bytes && host.memory_free_bytes < LITTLE_MEMORY)
    complain(m,
             "only %.0f MB of memory are free; MNIST with its process takes 50 MB, a task of a large model several "
             "times its parameters",
             (double)host.memory_free_bytes / 1e6);
  m->copy_bytes_per_second = measure_copy();
  find_huge_pages(m->huge_pages, sizeof m->huge_pages);
}

/* ---- limits and libraries */

static void look_at_limits(shoal_machine *m) {
  struct rlimit files = {0};
  getrlimit(RLIMIT_NOFILE, &files);
  m->open_files = (int64_t)MIN_OF(files.rlim_cur, (rlim_t)INT64_MAX);
  if (files.rlim_cur < FEW_FILES)
    complain(m, "at most %lld files may be open; a cluster needs some for each task: ulimit -n %d",
             (long long)m->open_files, FEW_FILES);
  int fd = memfd_create("shoal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  m->shared_memory = fd >= 0;
  if (fd >= 0)
    close(fd);
  else
    complain(m, "no sealed shared memory (memfd_create fails): tasks of this host have to talk by --transport tls");
}

static void look_at_libraries(shoal_machine *m) {
  int major, minor, patch;
  zmq_version(&major, &minor, &patch);
  snprintf(m->zeromq, sizeof m->zeromq, "%d.%d.%d", major, minor, patch);
  m->curve = zmq_has("curve");
  if (!m->curve)
    complain(m, "this ZeroMQ was built without CURVE: no cluster over several hosts except with --insecure");
  snprintf(m->libraries, sizeof m->libraries, "zlib %s, libpng %s, libjpeg %d, jansson %s", zlibVersion(),
           png_get_libpng_ver(NULL), JPEG_LIB_VERSION, JANSSON_VERSION);
  snprintf(m->optional_libraries, sizeof m->optional_libraries, "%s", build_optional_libraries());
}

void shoal_machine_inspect(shoal_machine *out) {
  memset(out, 0, sizeof *out);
  look_at_processor(out);
  look_at_memory(out);
  look_at_limits(out);
  look_at_libraries(out);
}
