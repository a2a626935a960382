/* What the kernel knows about this process and this machine, read from /proc. What cannot be read stays 0. */
#ifndef SHOAL_OBSERVE_PROC_H
#define SHOAL_OBSERVE_PROC_H

#include <stddef.h>
#include <stdint.h>

#define PROC_CORES_MAX 1024
#define PROC_INTERFACES_MAX 32
#define PROC_NAME 16 /* of an interface, as the kernel limits it */

/* So far, of this process: all its threads. */
typedef struct {
  double user_seconds, system_seconds;
  int64_t rss_bytes, rss_peak_bytes; /* now; ever */
  int threads;
  int64_t disk_read_bytes, disk_written_bytes; /* by the storage, not the page cache */
} proc_self;

typedef struct {
  double user, system, idle; /* seconds since the machine started; user with nice, idle with waiting for the disk */
} proc_core;

typedef struct {
  char name[PROC_NAME];
  int64_t sent_bytes, received_bytes; /* since it is up */
} proc_interface;

typedef struct {
  proc_core all; /* sum over the cores */
  proc_core cores[PROC_CORES_MAX];
  int n_cores;
  int64_t memory_bytes, memory_free_bytes; /* free: that programs can have */
  proc_interface interfaces[PROC_INTERFACES_MAX];
  int n_interfaces;
  int64_t disk_read_bytes, disk_written_bytes; /* over whole disks, since the machine started */
} proc_host;

void proc_read_self(proc_self *out);
void proc_read_host(proc_host *out);

#endif
