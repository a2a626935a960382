/* shoal dash: the page of runs, live. */
#include "cli/command.h"
#include "cli/say.h"
#include "shoal/observe.h"

#include <sys/stat.h>
#include <unistd.h>

#define LOOK_MICROSECONDS 50000 /* for Ctrl-C */

typedef struct {
  const char *address, *token;
  int64_t port;
} dash_flags;

static const flag_row dash_table[] = {
    {"port", FLAG_INT, offsetof(dash_flags, port), "N", "port to listen on; 0: any free port", "6080", .least = 0,
     .most = 65535},
    {"address", FLAG_TEXT, offsetof(dash_flags, address), "ADDRESS",
     "address to listen on; other than loopback needs --token", "127.0.0.1", .marks = 0},
    {"token", FLAG_TEXT, offsetof(dash_flags, token), "TEXT",
     "token that every request must carry, as ?token= or as a bearer token", "none", .marks = 0},
    {0},
};

static void announce(const dash_flags *f, const char *folder, int port) {
  bool v6 = strchr(f->address, ':') != NULL;
  say(stdout, "Serving %s at  http://%s%s%s:%d/%s%s\n", folder, v6 ? "[" : "", f->address, v6 ? "]" : "", port,
      f->token ? "?token=" : "", f->token ? f->token : "");
  puts("Ctrl-C ends it.");
  fflush(stdout);
}

static shoal_status dash(command_call *call) {
  const dash_flags *f = call->flags;
  const char *folder = call->words->count ? call->words->words[0] : "runs";
  struct stat st;
  if (call->words->count && (stat(folder, &st) || !S_ISDIR(st.st_mode)))
    return status_make(SHOAL_ERR_ARGUMENT, "%s is not a folder", folder);
  shoal_dashboard *d;
  shoal_dashboard_options options = {.folder = folder, .address = f->address, .port = (int)f->port, .token = f->token};
  TRY(shoal_dashboard_create(&options, &d));
  announce(f, folder, shoal_dashboard_port(d));
  while (!__atomic_load_n(call->stop, __ATOMIC_ACQUIRE)) usleep(LOOK_MICROSECONDS);
  shoal_dashboard_destroy(d);
  call->ended_by_signal = true;
  return NULL;
}

const command command_dash = {
    .name = "dash",
    .arguments = "[DIR]",
    .summary = "show the runs in a folder in the browser, live",
    .details =
        "Serves the page of 'shoal report' for all runs below DIR (default: runs)\n"
        "and keeps it up to date while they train. It answers this machine only, unless\n"
        "--token and --address say otherwise, and follows no symbolic links.\n"
        "\n"
        "Examples:\n"
        "  shoal dash\n"
        "  shoal dash runs/sweep-1 --port 0\n",
    .flags = dash_table,
    .fields = sizeof(dash_flags),
    .defaults = &(const dash_flags){.address = "127.0.0.1", .port = 6080},
    .words_max = 1,
    .expected = "at most one folder",
    .stopping = "Stopping.",
    .killed = "Killed.",
    .action = dash,
};
