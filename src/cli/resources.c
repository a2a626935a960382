#include "cli/resources.h"

#include "base/clock.h"

#include <stdio.h>
#include <sys/resource.h>

#define SAMPLE_SECONDS 0.2 /* shorter ones make the peak a matter of the scheduler's ticks */

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void resource_meter_start(resource_meter *m) {
  double now = clock_seconds(), cpu = cpu_seconds();
  *m = (resource_meter){.start = now, .start_cpu = cpu, .last = now, .last_cpu = cpu};
}

void resource_meter_sample(resource_meter *m) {
  double now = clock_seconds();
  if (now - m->last < SAMPLE_SECONDS) return;
  double cpu = cpu_seconds(), percent = 100 * (cpu - m->last_cpu) / (now - m->last);
  if (percent > m->peak) m->peak = percent;
  m->last = now;
  m->last_cpu = cpu;
}

/* /proc/self/io may be closed to us; then the bytes stay 0. */
static void read_disk(resource_use *out) {
  FILE *f = fopen("/proc/self/io", "r");
  if (!f) return;
  char line[128];
  while (fgets(line, sizeof line, f)) {
    long long value;
    if (sscanf(line, "read_bytes: %lld", &value) == 1) out->disk_read_bytes = value;
    if (sscanf(line, "write_bytes: %lld", &value) == 1) out->disk_written_bytes = value;
  }
  fclose(f);
}

void resource_meter_read(const resource_meter *m, resource_use *out) {
  *out = (resource_use){0};
  double seconds = clock_seconds() - m->start;
  out->cpu_percent_mean = seconds > 0 ? 100 * (cpu_seconds() - m->start_cpu) / seconds : 0;
  out->cpu_percent_peak = m->peak > out->cpu_percent_mean ? m->peak : out->cpu_percent_mean;
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) out->rss_peak_bytes = (int64_t)usage.ru_maxrss * 1024;
  read_disk(out);
}
