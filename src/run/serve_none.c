/* Instead of the server, in a build without libmicrohttpd. */
#include "base/status.h"
#include "shoal/serve.h"

shoal_status shoal_serving_create(const shoal_serving_options *options, shoal_serving **out) {
  return status_make(SHOAL_ERR_SYSTEM,
                     "this build of shoal cannot serve: libmicrohttpd was not found; install "
                     "libmicrohttpd-dev and build again");
}

int shoal_serving_port(const shoal_serving *s) { return 0; }
const char *shoal_serving_model(const shoal_serving *s) { return ""; }
void shoal_serving_count(shoal_serving *s, shoal_serving_counts *out) { *out = (shoal_serving_counts){0}; }
void shoal_serving_destroy(shoal_serving *s) {}
