/* What this process uses of the machine. */
#ifndef SHOAL_CLI_RESOURCES_H
#define SHOAL_CLI_RESOURCES_H

#include <stdint.h>

typedef struct {
  double start, start_cpu; /* seconds */
  double last, last_cpu;   /* at the last sample */
  double peak;             /* CPU %, over any one sampling interval */
} resource_meter;

typedef struct {
  double cpu_percent_mean, cpu_percent_peak; /* 100: one processor kept busy */
  int64_t rss_peak_bytes;
  int64_t disk_read_bytes, disk_written_bytes; /* by the storage, not the page cache; of the process so far */
} resource_use;

void resource_meter_start(resource_meter *m);
/* To be called now and then; looks at the clock at most five times a second. */
void resource_meter_sample(resource_meter *m);
void resource_meter_read(const resource_meter *m, resource_use *out);

#endif
