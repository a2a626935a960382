#include "run/task.h"

#include "run/evaluator.h"
#include "run/ps_place.h"
#include "run/report_pipe.h"

#include <signal.h>
#include <string.h>

/* "worker:1" */
static shoal_status find_place(const char *name, const training *base, const char *path, bool *server, int *out) {
  const char *colon = strchr(name, ':');
  int64_t index;
  *server = !strncmp(name, "ps:", 3);
  const int64_t count = *server ? base->job.ps * (1 + base->job.replicas) : base->job.workers;
  if (!colon || (!*server && strncmp(name, "worker:", 7)) || !shoal_parse_int(colon + 1, &index) || index < 0 ||
      index >= count)
    return status_make(SHOAL_ERR_ARGUMENT, "`task` %s: %s has no such task", name, path);
  *out = (int)index;
  return NULL;
}

static shoal_status run(const shoal_job *asked, training *base, job_file *file, const evaluator_options *evaluating,
                        const run_sink *sink) {
  const char *name = asked->task ? asked->task : "";
  TRY(job_file_read(asked->job_file, base, file));
  if (!strcmp(name, "evaluator:0")) {
    evaluator_options o = *evaluating;
    o.folder = base->dir.path;
    o.threads = base->job.threads;
    o.patience = base->job.deadline;
    return evaluator_task(&o, base, sink);
  }
  if (asked->resume) base->job.resume = true; /* it died before: from a checkpoint, no matter how the job began */
  bool server;
  ps_place t = {.base = base, .job = file, .stop = evaluating->stop, .sink = sink, .job_path = asked->job_file};
  TRY(find_place(name, base, asked->job_file, &server, &t.index));
  if (base->job.keys) TRY(key_ring_read(base->job.keys, server, &file->ring, &file->net));
  return server ? ps_place_serve(&t) : ps_place_work(&t);
}

shoal_status task_run(const shoal_job *job, const int *stop, void *context,
                      void (*on_tested)(void *context, const char *file, const shoal_evaluation *e)) {
  training base = {0};
  job_file file = {0};
  const run_sink sink = report_pipe_sink();
  const evaluator_options evaluating = {.stop = stop, .context = context, .on_tested = on_tested};
  signal(SIGPIPE, SIG_IGN); /* the process that started this one may be gone */
  shoal_status status = run(job, &base, &file, &evaluating, &sink);
  if (status) report_pipe_fail(status);
  training_fini(&base);
  job_file_fini(&file);
  return status;
}
