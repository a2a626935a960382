#include "observe/proc.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define LINE 1024
#define SECTOR 512 /* bytes; /proc/diskstats counts in these whatever the disk's own are */

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

static void read_io(proc_self *out) {
  FILE *f = fopen("/proc/self/io", "re");
  if (!f) return;
  char line[LINE];
  long long value;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "read_bytes: %lld", &value) == 1) out->disk_read_bytes = value;
    if (sscanf(line, "write_bytes: %lld", &value) == 1) out->disk_written_bytes = value;
  }
  fclose(f);
}

void proc_read_self(proc_self *out) {
  *out = (proc_self){0};
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) { /* its microseconds are finer than the ticks of /proc/self/stat */
    out->user_seconds = seconds_of(usage.ru_utime);
    out->system_seconds = seconds_of(usage.ru_stime);
    out->rss_peak_bytes = (int64_t)usage.ru_maxrss * 1024;
  }
  FILE *f = fopen("/proc/self/status", "re");
  if (f) {
    char line[LINE];
    long long value;
    while (fgets(line, sizeof line, f)) {
      if (sscanf(line, "VmRSS: %lld kB", &value) == 1) out->rss_bytes = value * 1024;
      if (sscanf(line, "Threads: %lld", &value) == 1) out->threads = (int)value;
    }
    fclose(f);
  }
  read_io(out);
}

static void read_cores(proc_host *out) {
  FILE *f = fopen("/proc/stat", "re");
  if (!f) return;
  double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
  char line[LINE];
  while (fgets(line, sizeof line, f) && !strncmp(line, "cpu", 3)) {
    /* user nice system idle iowait irq softirq steal; what runs as a guest is in user already */
    unsigned long long t[8] = {0};
    char name[PROC_NAME];
    if (sscanf(line, "%15s %llu %llu %llu %llu %llu %llu %llu %llu", name, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5],
               &t[6], &t[7]) < 5)
      continue;
    proc_core core = {.user = (double)(t[0] + t[1]) * tick,
                      .system = (double)(t[2] + t[5] + t[6] + t[7]) * tick,
                      .idle = (double)(t[3] + t[4]) * tick};
    if (!strcmp(name, "cpu"))
      out->all = core;
    else if (out->n_cores < PROC_CORES_MAX)
      out->cores[out->n_cores++] = core;
  }
  fclose(f);
}

static void read_memory(proc_host *out) {
  FILE *f = fopen("/proc/meminfo", "re");
  if (!f) return;
  char line[LINE];
  long long value;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "MemTotal: %lld kB", &value) == 1) out->memory_bytes = value * 1024;
    if (sscanf(line, "MemAvailable: %lld kB", &value) == 1) out->memory_free_bytes = value * 1024;
  }
  fclose(f);
}

static void read_interfaces(proc_host *out) {
  FILE *f = fopen("/proc/net/dev", "re");
  if (!f) return;
  char line[LINE];
  while (fgets(line, sizeof line, f) && out->n_interfaces < PROC_INTERFACES_MAX) {
    char *colon = strchr(line, ':');
    if (!colon) continue; /* the two lines of headings */
    *colon = 0;
    const char *name = line + strspn(line, " ");
    long long received, sent;
    if (strlen(name) >= PROC_NAME || sscanf(colon + 1, "%lld %*d %*d %*d %*d %*d %*d %*d %lld", &received, &sent) != 2)
      continue;
    proc_interface *i = &out->interfaces[out->n_interfaces++];
    strcpy(i->name, name);
    i->received_bytes = received;
    i->sent_bytes = sent;
  }
  fclose(f);
}

/* Whole disks have a folder of their own in /sys/block; parts of them, and what only stands for other disks, have not
 * or are left out by name. */
static bool is_disk(const char *name) {
  char path[LINE];
  if (!strncmp(name, "loop", 4) || !strncmp(name, "ram", 3) || !strncmp(name, "dm-", 3) || !strncmp(name, "md", 2))
    return false;
  snprintf(path, sizeof path, "/sys/block/%s", name);
  return access(path, F_OK) == 0;
}

static void read_disks(proc_host *out) {
  FILE *f = fopen("/proc/diskstats", "re");
  if (!f) return;
  char line[LINE], name[64];
  long long read, written;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%*d %*d %63s %*d %*d %lld %*d %*d %*d %lld", name, &read, &written) != 3 || !is_disk(name))
      continue;
    out->disk_read_bytes += read * SECTOR;
    out->disk_written_bytes += written * SECTOR;
  }
  fclose(f);
}

void proc_read_host(proc_host *out) {
  memset(out, 0, sizeof *out);
  read_cores(out);
  read_memory(out);
  read_interfaces(out);
  read_disks(out);
}
