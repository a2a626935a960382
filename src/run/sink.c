#include "run/sink.h"

void task_result_fini(task_result *r) {
  task_report_fini(&r->task);
  confusion_fini(&r->confusion);
}
