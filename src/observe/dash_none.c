/* Instead of the server, in a build without libmicrohttpd. */
#include "base/status.h"
#include "shoal/observe.h"

shoal_status shoal_dashboard_create(const shoal_dashboard_options *options, shoal_dashboard **out) {
  return status_make(SHOAL_ERR_SYSTEM,
                     "this build of shoal cannot serve pages: libmicrohttpd was not found; install "
                     "libmicrohttpd-dev and build again, or use shoal report");
}

int shoal_dashboard_port(const shoal_dashboard *d) { return 0; }

void shoal_dashboard_destroy(shoal_dashboard *d) {}
