/* Any bytes at all as a model file: a model whose layers are there, or an error that is the file's. */
#include "models/model_file.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Errors in the layers come out when a model is compiled; here none is, since that would need memory as the file says. */
static shoal_status build(const model_file *f) {
  shoal_model *m;
  shoal_status status = shoal_model_kind_build(&f->kind, NULL, NULL, &m);
  if (!status) shoal_model_destroy(m);
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  model_file *f;
  shoal_status status = model_file_parse((const char *)bytes, n, "fuzz", "fuzz", &f);
  if (!status) {
    json_t *kept = NULL;
    status = build(f);
    if (!status) status = model_file_resolve(f, &(shoal_model_options){.classes = 3}, &kept);
    json_decref(kept);
    model_file_destroy(f);
  }
  if (status && shoal_status_code(status) != SHOAL_ERR_ARGUMENT) {
    fprintf(stderr, "%s\n", shoal_status_message(status));
    __builtin_trap();
  }
  shoal_status_free(status);
  return 0;
}
