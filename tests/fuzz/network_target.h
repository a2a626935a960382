/* Any bytes at all as a file of another program's model: a network, or an error of the input. */
#ifndef SHOAL_TESTS_NETWORK_TARGET_H
#define SHOAL_TESTS_NETWORK_TARGET_H

#include "exchange/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static int import_any(const uint8_t *bytes, size_t n, shoal_status (*import)(const char *path, shoal_network **out)) {
  char path[64];
  int fd = memfd_create("model", 0);
  if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  shoal_network *net;
  shoal_status status = import(path, &net);
  if (!status) shoal_network_destroy(net);
  const shoal_code code = shoal_status_code(status);
  if (status && code != SHOAL_ERR_INPUT && code != SHOAL_ERR_SYSTEM) {
    fprintf(stderr, "%s\n", shoal_status_message(status));
    __builtin_trap();
  }
  shoal_status_free(status);
  close(fd);
  return 0;
}

#endif
