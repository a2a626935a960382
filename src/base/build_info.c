#include "base/build_info.h"

#include "base/build_config.h" /* made by Meson */

const char *shoal_version(void) { return SHOAL_VERSION; }
const char *build_data_dir(void) { return SHOAL_DATADIR; }
const char *build_plugin_dir(void) { return SHOAL_PLUGIN_DIR; }
const char *build_optional_libraries(void) { return SHOAL_OPTIONAL; }
