/* shoal serve: a trained model that scores rows over HTTP. */
#include "cli/command.h"
#include "cli/say.h"
#include "shoal/serve.h"

#include <unistd.h>

#define LOOK_MICROSECONDS 50000 /* for Ctrl-C */

typedef struct {
  const char *address, *token, *model;
  int64_t port, threads, batch_max, body_max;
  double reload_seconds;
} serve_flags;

#define AT(field) offsetof(serve_flags, field)
static const flag_row serve_table[] = {
    {"port", FLAG_INT, AT(port), "N", "port to listen on; 0: any free port", "8501", .least = 0, .most = 65535},
    {"address", FLAG_TEXT, AT(address), "ADDRESS", "address to listen on; other than loopback needs --token",
     "127.0.0.1", .marks = 0},
    {"token", FLAG_TEXT, AT(token), "TEXT", "token that every request must carry, as ?token= or as a bearer token",
     "none", .marks = 0},
    {"model", FLAG_TEXT, AT(model), "MODEL", "the model, if the file is not in a run folder", .marks = 0},
    {"threads", FLAG_INT, AT(threads), "N", "compute threads", "1", .least = 1, .most = 1024},
    {"batch-max", FLAG_INT, AT(batch_max), "N", "rows scored at once, of one request or of several", "256", .least = 1,
     .most = 65536},
    {"body-max", FLAG_INT, AT(body_max), "BYTES", "largest request body", "1048576", .least = 1, .most = 1 << 30},
    {"reload-every", FLAG_NUMBER, AT(reload_seconds), "SECONDS", "look for newer weights of the run; below 0: never",
     "1", .least = -1, .most = 86400},
    {0},
};

static void on_note(void *context, const char *line) { say(stderr, "%s\n", line); }

static void announce(const serve_flags *f, const char *target, shoal_serving *s) {
  const bool v6 = strchr(f->address, ':') != NULL;
  say(stdout, "%s is served at  http://%s%s%s:%d/v1/models/%s:predict\n", target, v6 ? "[" : "", f->address,
      v6 ? "]" : "", shoal_serving_port(s), shoal_serving_model(s));
  puts("Ctrl-C ends it.");
  fflush(stdout);
}

static shoal_status serve(command_call *call) {
  const serve_flags *f = call->flags;
  shoal_serving *s;
  const shoal_serving_options options = {.target = call->words->words[0],
                                         .model = f->model,
                                         .address = f->address,
                                         .token = f->token,
                                         .port = (int)f->port,
                                         .threads = (int)f->threads,
                                         .batch_max = f->batch_max,
                                         .body_max = f->body_max,
                                         .reload_seconds = f->reload_seconds,
                                         .on_note = on_note};
  TRY(shoal_serving_create(&options, &s));
  announce(f, options.target, s);
  while (!__atomic_load_n(call->stop, __ATOMIC_ACQUIRE)) usleep(LOOK_MICROSECONDS);
  shoal_serving_counts counts;
  char requests[COUNTED_TEXT], rows[COUNTED_TEXT];
  shoal_serving_count(s, &counts);
  say(stdout, "Served %s of %s.\n", counted_text(counts.requests, "request", requests),
      counted_text(counts.rows, "row", rows));
  shoal_serving_destroy(s);
  call->ended_by_signal = true;
  return NULL;
}

const command command_serve = {
    .name = "serve",
    .arguments = "RUN_DIR|FILE",
    .summary = "score rows over HTTP with a trained model",
    .details =
        "Rows are sent by POST to /v1/models/MODEL:predict, as to TensorFlow Serving:\n"
        "{\"instances\": [ROW, ...]} is answered by {\"predictions\": [...]}. A dense row is\n"
        "an array of numbers, a sparse one {\"indices\": [...], \"values\": [...]}. Lines of\n"
        "LIBSVM (text/plain) and binary rows (application/octet-stream) are taken, too.\n"
        "Newer weights of the run are taken over as they come, without a gap. It answers\n"
        "this machine only, unless --token and --address say otherwise.\n"
        "\n"
        "Examples:\n"
        "  shoal serve runs/clicks\n"
        "  curl -d '{\"instances\": [{\"indices\": [3, 17]}]}' \\\n"
        "    localhost:8501/v1/models/sparse-lr:predict\n",
    .flags = serve_table,
    .fields = sizeof(serve_flags),
    .defaults = &(const serve_flags){.address = "127.0.0.1",
                                     .port = 8501,
                                     .threads = 1,
                                     .batch_max = 256,
                                     .body_max = 1 << 20,
                                     .reload_seconds = 1},
    .words_min = 1,
    .words_max = 1,
    .expected = "one run folder or safetensors file",
    .stopping = "Stopping.",
    .killed = "Killed.",
    .action = serve,
};
