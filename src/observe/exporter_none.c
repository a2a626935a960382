/* Instead of the server, in a build without libmicrohttpd. */
#include "observe/exporter.h"

shoal_status exporter_create(const exporter_options *options, exporter **out) {
  return status_make(SHOAL_ERR_SYSTEM,
                     "`metrics_port`: this build of shoal cannot serve metrics: libmicrohttpd was not found; install "
                     "libmicrohttpd-dev and build again");
}

int exporter_port(const exporter *e) { return 0; }
openmetrics_values *exporter_lock(exporter *e) { return NULL; }
void exporter_unlock(exporter *e) {}
void exporter_set_ready(exporter *e, bool ready) {}
void exporter_destroy(exporter *e) {}
