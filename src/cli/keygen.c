/* shoal keygen: keys for tasks that talk across hosts. */
#include "cli/command.h"
#include "shoal/keys.h"

#include <stddef.h>
#include <time.h>

typedef struct {
  int64_t days;
} keygen_flags;

static const flag_row keygen_table[] = {
    {"days", FLAG_INT, offsetof(keygen_flags, days), "N", "days from now on which the keys are good for", "for ever",
     .least = 1, .most = 36500},
    {0},
};

static shoal_status keygen(const flags_parsed *words, const keygen_flags *f) {
  enum { DAY = 24 * 60 * 60 };
  static const char *const standard[] = {"server", "client"};
  if (!words->count) return status_make(SHOAL_ERR_ARGUMENT, "expected a folder to write the keys to");
  const char *dir = words->words[0];
  const bool own_names = words->count > 1;
  const int n = own_names ? words->count - 1 : 2;
  for (int i = 0; i < n; i++) {
    const char *name = own_names ? words->words[i + 1] : standard[i];
    TRY(shoal_keys_make_until(dir, name, f->days ? (int64_t)time(NULL) + f->days * DAY : 0));
    printf("%s/%s.key (secret)  %s/%s.pub\n", dir, name, dir, name);
  }
  return NULL;
}

static int run_keygen(int argc, char **argv) {
  flags_parsed parsed;
  shoal_status status;
  keygen_flags f = {0};
  if (!command_parse(&command_keygen, argc, argv, &f, &parsed, &status)) return EXIT_GOOD;
  if (!status) status = keygen(&parsed, &f);
  return status ? command_fail(&command_keygen, status) : EXIT_GOOD;
}

const command command_keygen = {
    .name = "keygen",
    .arguments = "DIR [NAME...]",
    .summary = "make keys for tasks on several hosts",
    .details =
        "Writes NAME.key (secret, readable by its owner alone) and NAME.pub for each\n"
        "name, by default server and client. Keys that are there are not overwritten. A\n"
        "server needs its own .key and the .pub files of the clients it lets in; a\n"
        "client needs its own .key and the server's .pub. Connections are encrypted by TLS\n"
        "1.3, and each side has to show the key that the other one knows.\n"
        "\n"
        "Examples:\n"
        "  shoal keygen keys\n"
        "  shoal keygen keys server worker-0 worker-1\n"
        "  shoal keygen --days 90 keys\n",
    .flags = keygen_table,
    .run = run_keygen,
};
