/* shoal keygen: keys for tasks that talk across hosts. */
#include "cli/command.h"
#include "shoal/keys.h"

#include <time.h>

typedef struct {
  int64_t days;
} keygen_flags;

static const flag_row keygen_table[] = {
    {"days", FLAG_INT, offsetof(keygen_flags, days), "N", "days until the keys expire", "never", .least = 1,
     .most = 36500},
    {0},
};

static shoal_status keygen(command_call *call) {
  const flags_parsed *words = call->words;
  const keygen_flags *f = call->flags;
  enum { DAY = 24 * 60 * 60 };
  static const char *const standard[] = {"server", "client"};
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

const command command_keygen = {
    .name = "keygen",
    .arguments = "DIR [NAME...]",
    .summary = "make keys for tasks on several hosts",
    .details =
        "Writes NAME.key (secret, readable only by its owner) and NAME.pub for each\n"
        "name, by default server and client. Existing keys are not overwritten. A server\n"
        "needs its own .key and the .pub files of the clients it accepts; a client needs\n"
        "its own .key and the server's .pub. Connections use TLS 1.3, and both sides\n"
        "must prove that they hold the private key the other one expects.\n"
        "\n"
        "Examples:\n"
        "  shoal keygen keys\n"
        "  shoal keygen keys server worker-0 worker-1\n"
        "  shoal keygen --days 90 keys\n",
    .flags = keygen_table,
    .fields = sizeof(keygen_flags),
    .words_min = 1,
    .words_max = ANY_NUMBER,
    .expected = "a folder to write the keys to",
    .action = keygen,
};
