/* Instead of the page, in a build without node and npm. */
#include "observe/report_page.h"

const report_page report_page_built = {.missing = "node and npm were not there when it was built"};
