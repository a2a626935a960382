#include "cli/trained_flags.h"

/* The choices of a flag of train. */
static const char *const *choices_of(const char *name) {
  const shoal_setting *row;
  shoal_status status = shoal_setting_find(shoal_job_settings(), name, &row);
  shoal_status_free(status);
  return status ? NULL : row->choices();
}

const char *const *trained_activation_names(void) { return choices_of("activation"); }
const char *const *trained_pool_names(void) { return choices_of("pool"); }
const char *const *trained_kernel_names(void) { return choices_of("kernels"); }

const char *const *trained_split_names(void) {
  static const char *const names[] = {"test", "train", NULL};
  return names;
}
