/* Any bytes at all as an ONNX file: a network, or an error. */
#include "exchange/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char path[64];
  int fd = memfd_create("onnx", 0);
  if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  shoal_network *net;
  shoal_status status = onnx_import(path, &net);
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
