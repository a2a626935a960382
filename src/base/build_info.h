/* What was decided when this Shoal was built. Only build_info.c depends on it, so another prefix compiles one file. */
#ifndef SHOAL_BASE_BUILD_INFO_H
#define SHOAL_BASE_BUILD_INFO_H

#include "shoal/version.h"

/* Where `make install` puts data sets and plug-ins. */
const char *build_data_dir(void);
const char *build_plugin_dir(void);
/* The optional libraries, as `shoal doctor` lists them: "libmicrohttpd 0.9.75", "without libmicrohttpd". */
const char *build_optional_libraries(void);

#endif
