/* shoal simulate: a job on a cluster that is not there. */
#include "cli/command.h"
#include "cli/table.h"
#include "shoal/simulate.h"

static shoal_status simulate(command_call *call) {
  const shoal_simulate_options *o = call->flags;
  shoal_simulate_result r;
  char *words = NULL;
  TRY(shoal_simulate(o, &r));
  shoal_status status = o->json ? shoal_simulate_json(o, &r, &words) : shoal_simulate_text(o, &r, &words);
  return json_print(status, words);
}

const command command_simulate = {
    .name = "simulate",
    .summary = "predict how a job would run on a cluster that you describe",
    .details =
        "Servers, workers and ranks are those of a real job, thousands of them in this\n"
        "process; the network, the clock and the time for computing are simulated.\n"
        "docs/scaling.md says what is modelled, and how near it comes to real clusters.\n"
        "\n"
        "Examples:\n"
        "  shoal simulate --workers 1000 --ps 100 --rate 10gbit --compute 20ms\n"
        "  shoal simulate --workers 50 --backup-workers 4 --compute 2s --sigma 0.3\n"
        "  shoal simulate --mode allreduce --workers 64 --model lenet --rate 1.8gbit\n",
    .flag_table = shoal_simulate_settings,
    .fields = sizeof(shoal_simulate_options),
    .action = simulate,
};
