#include "cli/util.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

shoal_status make_folders(const char *path) {
  char *copy = strdup(path);
  if (!copy) return status_no_memory();
  for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    (void)!mkdir(copy, 0777); /* it may be there; what cannot be made shows at the end */
    *slash = '/';
  }
  shoal_status status = mkdir(copy, 0777) && errno != EEXIST ? status_errno(errno, "cannot make %s", path) : NULL;
  free(copy);
  return status;
}
