#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Thread_local clock_simulated *clock_here;

void clock_sleep(double seconds) {
  if (clock_here) {
    clock_here->pass(clock_here, seconds);
    return;
  }
  const struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&t, NULL);
}

void clock_name(char out[CLOCK_NAME]) {
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  out[0] = 0;
  if (!f) return;
  if (fgets(out, CLOCK_NAME, f)) out[strcspn(out, "\n")] = 0;
  fclose(f);
  /* Containers may have clocks of their own. */
  size_t n = strlen(out);
  ssize_t more = readlink("/proc/self/ns/time", out + n, CLOCK_NAME - 1 - n);
  out[n + (more > 0 ? (size_t)more : 0)] = 0;
}
