/* Instead of the server, in a build without libmicrohttpd. */
#include "observe/dash.h"

shoal_status dash_create(const dash_options *options, dash **out, int *port) {
  return status_make(SHOAL_ERR_SYSTEM, "this build of shoal cannot serve pages: libmicrohttpd was not there; install "
                     "libmicrohttpd-dev and build again, or use shoal report");
}

void dash_destroy(dash *d) {}
