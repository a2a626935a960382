#include "cli/machine.h"

#include "base/build_info.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "kernel/cpu.h"
#include "kernel/fma.h"

#include <jansson.h>
#include <jpeglib.h>
#include <png.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

__attribute__((format(printf, 3, 4))) static machine_fact *add(machine_fact **next, const char *name,
                                                               const char *format, ...) {
  machine_fact *f = (*next)++;
  *f = (machine_fact){.name = name};
  va_list list;
  va_start(list, format);
  vsnprintf(f->value, sizeof f->value, format, list);
  va_end(list);
  return f;
}

/* The text after "key:" in a file of such lines; false when there is none. */
static bool line_of(const char *path, const char *key, char *out, size_t room) {
  FILE *f = fopen(path, "re");
  char line[512];
  bool found = false;
  while (f && !found && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, key, strlen(key)) || !colon) continue;
    colon += 1 + strspn(colon + 1, " \t");
    colon[strcspn(colon, "\n")] = 0;
    snprintf(out, room, "%s", colon);
    found = true;
  }
  if (f) fclose(f);
  return found;
}

static int64_t memory_of(const char *key) {
  char words[64];
  return line_of("/proc/meminfo", key, words, sizeof words) ? strtoll(words, NULL, 10) * 1024 : -1;
}

static void look_at_processor(machine_fact **next) {
  char model[96] = "unknown";
  struct utsname about = {0};
  uname(&about);
  line_of("/proc/cpuinfo", "model name", model, sizeof model);
  long online = sysconf(_SC_NPROCESSORS_ONLN), ours = online;
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) ours = CPU_COUNT(&set);
  add(next, "system", "%.40s, %.60s", about.release, about.nodename);
  add(next, "processor", "%s", model);
  machine_fact *f = add(next, "cores", "%ld, of which this process may use %ld", online, ours);
  if (ours < online)
    snprintf(f->wrong, sizeof f->wrong, "this process is bound to %ld of %ld cores; taskset, a container or a job "
             "scheduler does that", ours, online);
  cpu_level best = cpu_best();
  text names = {0};
#if defined(__x86_64__)
#define SET(name) if (__builtin_cpu_supports(name)) text_add(&names, "%s%s", names.length ? " " : "", name)
  SET("sse4.2");
  SET("avx");
  SET("avx2");
  SET("fma");
  SET("avx512f");
  SET("avx512bw");
  SET("avx512vnni");
  SET("avx512vbmi2");
#undef SET
#endif
  add(next, "instructions", "%s", names.data ? names.data : "those of every such processor");
  text_fini(&names);
  f = add(next, "kernels", "%s", cpu_level_name(best));
  if (best == CPU_GENERIC)
    snprintf(f->wrong, sizeof f->wrong, "no tuned kernels fit this processor; it will train several times slower than "
             "one with AVX2");
  add(next, "multiply-adds", "%.0f GF/s on one thread", fma_gflops());
}

static double copy_rate(void) {
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

static void look_at_memory(machine_fact **next) {
  int64_t all = memory_of("MemTotal"), available = memory_of("MemAvailable");
  machine_fact *f = add(next, "memory", "%.1f GB free of %.1f GB", (double)available / 1e9, (double)all / 1e9);
  if (available >= 0 && available < LITTLE_MEMORY)
    snprintf(f->wrong, sizeof f->wrong, "only %.0f MB of memory are free; MNIST with its process takes 50 MB, a task "
             "of a large model several times its parameters", (double)available / 1e6);
  add(next, "memory copy", "%.1f GB/s read and written, one thread", copy_rate() / 1e9);
  FILE *huge = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
  char words[96] = "not known to this kernel", *open, *close;
  if (huge && fgets(words, sizeof words, huge) && (open = strchr(words, '[')) && (close = strchr(open, ']'))) {
    *close = 0;
    memmove(words, open + 1, strlen(open + 1) + 1);
  }
  if (huge) fclose(huge);
  add(next, "huge pages", "%s", words);
}

static void look_at_limits(machine_fact **next) {
  struct rlimit files = {0};
  getrlimit(RLIMIT_NOFILE, &files);
  machine_fact *f = add(next, "open files", "at most %llu", (unsigned long long)files.rlim_cur);
  if (files.rlim_cur < FEW_FILES)
    snprintf(f->wrong, sizeof f->wrong, "at most %llu files may be open; a cluster needs some for each task: ulimit -n "
             "%d", (unsigned long long)files.rlim_cur, FEW_FILES);
  int fd = memfd_create("shoal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  f = add(next, "shared memory", "%s", fd >= 0 ? "yes" : "no");
  if (fd < 0)
    snprintf(f->wrong, sizeof f->wrong, "no sealed shared memory (memfd_create fails): tasks of this host have to talk "
             "by --transport zmq");
  else
    close(fd);
}

static void look_at_libraries(machine_fact **next) {
  int major, minor, patch;
  zmq_version(&major, &minor, &patch);
  bool keys = zmq_has("curve");
  machine_fact *f =
      add(next, "ZeroMQ", "%d.%d.%d, %s", major, minor, patch, keys ? "with keys (CURVE)" : "without keys");
  if (!keys)
    snprintf(f->wrong, sizeof f->wrong, "this ZeroMQ was built without CURVE: no cluster over several hosts except "
             "with --insecure");
  add(next, "libraries", "zlib %s, libpng %s, libjpeg %d, jansson %s", zlibVersion(), png_get_libpng_ver(NULL),
      JPEG_LIB_VERSION, JANSSON_VERSION);
  add(next, "optional", "%s", build_optional_libraries());
}

int machine_look(machine_fact out[MACHINE_FACTS]) {
  machine_fact *next = out;
  look_at_processor(&next);
  look_at_memory(&next);
  look_at_limits(&next);
  look_at_libraries(&next);
  return (int)(next - out);
}
