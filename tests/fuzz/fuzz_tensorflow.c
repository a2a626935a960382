/* Any bytes at all as a frozen GraphDef, with TensorFlow's operators or with ours. */
#include "network_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) { return import_any(bytes, n, tensorflow_import); }
