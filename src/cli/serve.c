/* shoal serve: a trained model that scores rows over HTTP. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "shoal/serve.h"

#include <string.h>
#include <unistd.h>

#define LOOK_MICROSECONDS 50000 /* for Ctrl-C */

typedef struct {
  const char *address, *token, *model;
  int64_t port, threads, batch_max, body_max;
  double reload_seconds;
} serve_flags;

static const flag_row serve_table[] = {
    {"port", FLAG_INT, offsetof(serve_flags, port), "N", "where it listens; 0: any that is free", "8501", .least = 0,
     .most = 65535},
    {"address", FLAG_TEXT, offsetof(serve_flags, address), "ADDRESS",
     "of this machine; others than loopback need --token", "127.0.0.1", .marks = 0},
    {"token", FLAG_TEXT, offsetof(serve_flags, token), "TEXT",
     "every request must bring it, by ?token= or as a bearer token", "none", .marks = 0},
    {"model", FLAG_TEXT, offsetof(serve_flags, model), "MODEL", "which model it is, for a file outside a run",
     .marks = 0},
    {"threads", FLAG_INT, offsetof(serve_flags, threads), "N", "that compute", "1", .least = 1, .most = 1024},
    {"batch-max", FLAG_INT, offsetof(serve_flags, batch_max), "N", "rows scored at once, of one request or of several",
     "256", .least = 1, .most = 65536},
    {"body-max", FLAG_INT, offsetof(serve_flags, body_max), "BYTES", "of a request's body", "1048576", .least = 1,
     .most = 1 << 30},
    {"reload-every", FLAG_NUMBER, offsetof(serve_flags, reload_seconds), "SECONDS",
     "look for newer weights of the run; below 0: never", "1", .least = -1, .most = 86400},
    {0},
};

static void on_note(void *context, const char *line) { say(stderr, "%s\n", line); }

static shoal_status serve(const serve_flags *f, const flags_parsed *parsed) {
  if (parsed->count != 1)
    return status_make(SHOAL_ERR_ARGUMENT, "expected one run's folder or safetensors file, got %d", parsed->count);
  interrupt *signals;
  TRY(interrupt_create("Ending.", "Ended at once.", &signals));
  shoal_serving *s = NULL;
  const shoal_serving_options options = {.target = parsed->words[0],
                                         .model = f->model,
                                         .address = f->address,
                                         .token = f->token,
                                         .port = (int)f->port,
                                         .threads = (int)f->threads,
                                         .batch_max = f->batch_max,
                                         .body_max = f->body_max,
                                         .reload_seconds = f->reload_seconds,
                                         .on_note = on_note};
  shoal_status status = shoal_serving_create(&options, &s);
  if (!status) {
    const bool v6 = strchr(f->address, ':') != NULL;
    say(stdout, "%s is served at  http://%s%s%s:%d/v1/models/%s:predict\n", parsed->words[0], v6 ? "[" : "", f->address,
        v6 ? "]" : "", shoal_serving_port(s), shoal_serving_model(s));
    puts("Ctrl-C ends it.");
    fflush(stdout);
    while (!__atomic_load_n(interrupt_flag(signals), __ATOMIC_ACQUIRE)) usleep(LOOK_MICROSECONDS);
    shoal_serving_counts counts;
    char requests[COUNTED_TEXT], rows[COUNTED_TEXT];
    shoal_serving_count(s, &counts);
    say(stdout, "Served %s of %s.\n", counted_text(counts.requests, "request", requests),
        counted_text(counts.rows, "row", rows));
  }
  shoal_serving_destroy(s);
  interrupt_destroy(signals);
  return status;
}

static int run_serve(int argc, char **argv) {
  serve_flags f = {
      .address = "127.0.0.1", .port = 8501, .threads = 1, .batch_max = 256, .body_max = 1 << 20, .reload_seconds = 1};
  flags_parsed parsed;
  shoal_status status;
  if (!command_parse(&command_serve, argc, argv, &f, &parsed, &status)) return EXIT_GOOD;
  if (!status) status = serve(&f, &parsed);
  return status ? command_fail(&command_serve, status) : EXIT_GOOD;
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
    .run = run_serve,
};
