/* shoal keygen: keys for tasks that talk across hosts. */
#include "cli/command.h"
#include "shoal/keys.h"

static const flag_row keygen_table[] = {{0}};

static shoal_status keygen(const flags_parsed *words) {
  static const char *const standard[] = {"server", "client"};
  if (!words->count) return status_make(SHOAL_ERR_ARGUMENT, "expected a folder to write the keys to");
  const char *dir = words->words[0];
  const bool own_names = words->count > 1;
  const int n = own_names ? words->count - 1 : 2;
  for (int i = 0; i < n; i++) {
    const char *name = own_names ? words->words[i + 1] : standard[i];
    TRY(shoal_keys_make(dir, name));
    printf("%s/%s.key (secret)  %s/%s.pub\n", dir, name, dir, name);
  }
  return NULL;
}

static int run_keygen(int argc, char **argv) {
  flags_parsed parsed;
  shoal_status status;
  if (!command_parse(&command_keygen, argc, argv, NULL, &parsed, &status)) return EXIT_GOOD;
  if (!status) status = keygen(&parsed);
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
        "client needs its own .key and the server's .pub.\n"
        "\n"
        "Examples:\n"
        "  shoal keygen keys\n"
        "  shoal keygen keys server worker-0 worker-1\n",
    .flags = keygen_table,
    .run = run_keygen,
};
