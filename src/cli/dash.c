/* shoal dash: the page of runs, live. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "shoal/observe.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MICROSECONDS 50000 /* for Ctrl-C */

typedef struct {
  const char *address, *token;
  int64_t port;
} dash_flags;

static const flag_row dash_table[] = {
    {"port", FLAG_INT, offsetof(dash_flags, port), "N", "where it listens; 0: any that is free", "6080", .least = 0,
     .most = 65535},
    {"address", FLAG_TEXT, offsetof(dash_flags, address), "ADDRESS",
     "of this machine; others than loopback need --token", "127.0.0.1", .marks = 0},
    {"token", FLAG_TEXT, offsetof(dash_flags, token), "TEXT",
     "every request must bring it, by ?token= or as a bearer token", "none", .marks = 0},
    {0},
};

static void announce(const dash_flags *f, const char *folder, int port) {
  bool v6 = strchr(f->address, ':') != NULL;
  say(stdout, "%s is shown at  http://%s%s%s:%d/%s%s\n", folder, v6 ? "[" : "", f->address, v6 ? "]" : "", port,
      f->token ? "?token=" : "", f->token ? f->token : "");
  puts("Ctrl-C ends it.");
  fflush(stdout);
}

static shoal_status serve(const dash_flags *f, const flags_parsed *parsed) {
  if (parsed->count > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "one folder at a time, but got '%s' too", parsed->words[1]);
  const char *folder = parsed->count ? parsed->words[0] : "runs";
  struct stat st;
  if (parsed->count && (stat(folder, &st) || !S_ISDIR(st.st_mode)))
    return status_make(SHOAL_ERR_ARGUMENT, "%s is no folder", folder);
  interrupt *signals;
  TRY(interrupt_create("Ending.", "Ended at once.", &signals));
  shoal_dashboard *d = NULL;
  shoal_dashboard_options options = {.folder = folder, .address = f->address, .port = (int)f->port, .token = f->token};
  shoal_status status = shoal_dashboard_create(&options, &d);
  if (!status) {
    announce(f, folder, shoal_dashboard_port(d));
    while (!__atomic_load_n(interrupt_flag(signals), __ATOMIC_ACQUIRE)) usleep(LOOK_MICROSECONDS);
  }
  shoal_dashboard_destroy(d);
  interrupt_destroy(signals);
  return status;
}

static int run_dash(int argc, char **argv) {
  dash_flags f = {.address = "127.0.0.1", .port = 6080};
  flags_parsed parsed;
  shoal_status status;
  if (!command_parse(&command_dash, argc, argv, &f, &parsed, &status)) return EXIT_GOOD;
  if (!status) status = serve(&f, &parsed);
  return status ? command_fail(&command_dash, status) : EXIT_GOOD;
}

const command command_dash = {
    .name = "dash",
    .arguments = "[DIR]",
    .summary = "show the runs in a folder in the browser, live",
    .details =
        "Serves the page of 'shoal report' for all runs below DIR (runs, when not said)\n"
        "and keeps it up to date while they train. It answers this machine only, unless\n"
        "--token and --address say otherwise, and follows no symbolic links.\n"
        "\n"
        "Examples:\n"
        "  shoal dash\n"
        "  shoal dash runs/sweep-1 --port 0\n",
    .flags = dash_table,
    .run = run_dash,
};
