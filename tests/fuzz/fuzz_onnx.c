/* Any bytes at all as an ONNX file. */
#include "network_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) { return import_any(bytes, n, onnx_import); }
