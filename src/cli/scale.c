/* shoal scale: another number of parameter servers or workers for a job that runs. */
#include "cli/command.h"
#include "shoal/run.h"

#define SECONDS 60.0 /* for the job to look at it */

typedef struct {
  int64_t ps, workers;
} scale_flags;

static const flag_row scale_table[] = {
    {"ps", FLAG_INT, offsetof(scale_flags, ps), "N", "parameter servers to go on with", NULL, .least = 1, .most = 256},
    {"workers", FLAG_INT, offsetof(scale_flags, workers), "N", "allreduce: workers to go on with", NULL, .least = 1,
     .most = 64},
    {0},
};

static shoal_status scale(command_call *call) {
  const char *folder = call->words->words[0];
  const scale_flags *f = call->flags;
  if (!f->ps == !f->workers) return status_make(SHOAL_ERR_ARGUMENT, "expected --ps N or --workers N to go on with");
  const long long n = f->ps ? f->ps : f->workers;
  TRY(f->ps ? shoal_run_scale(folder, n, SECONDS) : shoal_run_scale_workers(folder, n, SECONDS));
  printf("%s: goes on with %lld %s%s\n", folder, n, f->ps ? "parameter server" : "worker", n == 1 ? "" : "s");
  return NULL;
}

const command command_scale = {
    .name = "scale",
    .arguments = "RUN_DIR",
    .summary = "another number of parameter servers or workers for a job that runs",
    .details =
        "New servers are started for the job, whose tasks are processes of this machine,\n"
        "and given all that the old ones hold; its workers go on with them. No update is\n"
        "lost; it stands still for as long as the parameters take, and says so. With\n"
        "--replicas all tasks are started again, from a checkpoint made for it.\n"
        "Workers of --strategy allreduce come and leave between two steps.\n"
        "\n"
        "Examples:\n"
        "  shoal scale runs/lenet-20261118-120000 --ps 3\n",
    .flags = scale_table,
    .fields = sizeof(scale_flags),
    .words_min = 1,
    .words_max = 1,
    .expected = "the folder of a run",
    .action = scale,
};
