/* How much memory and time a parameter server takes for a large model: large_model [MEGABYTES [STEPS [ADDRESS]]]
 *
 * One server and two workers, processes over shared memory (or that address), train dense layers of that size with
 * plain SGD for a few steps. Prints the server's peak as a multiple of the parameters; fails at LIMIT. No test of every
 * commit: it takes gigabytes. */
#include "train/ps.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INPUT = 64, ROWS = 32, CLASSES = 4 };
#define LIMIT 3.5

static void demand(shoal_status status) {
  if (!status) return;
  fprintf(stderr, "large_model: %s\n", shoal_status_message(status));
  _exit(1);
}

/* Two dense layers as square as can be, which hold nearly all parameters. */
static void model_make(int width, shoal_model **out) {
  demand(shoal_model_create(SHOAL_SHAPE(INPUT), out));
  shoal_model_dense(*out, width, "relu");
  shoal_model_dense(*out, width, "relu");
  shoal_model_dense(*out, width, "relu");
  shoal_model_dense(*out, CLASSES, "softmax");
  demand(shoal_model_compile(*out, &(shoal_compile_options){.schedule = {.rate = 0.01}, .seed = 1, .threads = 1}));
}

static void be_worker(const ps_options *base, int index, int width, int steps) {
  static float features[ROWS * INPUT];
  static int32_t labels[ROWS];
  for (int i = 0; i < ROWS * INPUT; i++) features[i] = (float)(i % 17) / 17;
  for (int i = 0; i < ROWS; i++) labels[i] = i % CLASSES;
  shoal_dataset data = {.features = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(ROWS, INPUT), features),
                        .labels = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(ROWS), labels),
                        .classes = CLASSES};
  ps_options o = *base;
  shoal_model *m;
  shoal_strategy *s;
  o.worker = index;
  model_make(width, &m);
  demand(ps_strategy_create(&o, m, &s));
  demand(shoal_model_fit(m, &data, &(shoal_fit_options){.steps = steps, .batch_size = 8, .strategy = s}, NULL));
  demand(ps_strategy_close(s));
  _exit(0);
}

static void be_server(const ps_options *o, int width, long megabytes) {
  ps_server_result result;
  struct rusage use;
  double bytes =
      4.0 * ((INPUT + 1.0 + 2.0 * (width + 1) + CLASSES) * width + CLASSES); /* of three layers and the last */
  getrusage(RUSAGE_SELF, &use);
  double before = (double)use.ru_maxrss * 1024;
  const ps_server_options server = {.address = o->addresses[0], .terms = o->terms, .task = o->task};
  demand(ps_serve(&server, &result));
  getrusage(RUSAGE_SELF, &use);
  double peak = (double)use.ru_maxrss * 1024;
  printf(
      "%.0f MB of parameters, %lld updates, %.3f s each: the server's peak is %.0f MB, %.2f times that (%.2f before it "
      "served)\n",
      bytes / 1e6, (long long)result.updates, result.seconds / (double)result.updates, peak / 1e6, peak / bytes,
      before / bytes);
  fflush(stdout);
  _exit(peak / bytes < LIMIT ? 0 : 1);
}

int main(int argc, char **argv) {
  long megabytes = argc > 1 ? atol(argv[1]) : 400;
  int steps = argc > 2 ? atoi(argv[2]) : 5, width = 16;
  while ((2.0 * width * width) * 4 < (double)megabytes * 1e6) width += 16;
  char name[64];
  snprintf(name, sizeof name, "shm:/shoal-large-%d", (int)getpid());
  const char *address = argc > 3 ? argv[3] : name;
  ps_options o = {.terms = {.workers = 2, .servers = 1, .sync = true, .staleness = -1},
                  .task = {.net = {.job = 5}, .deadline = 120},
                  .addresses = &address};
  for (int i = 0; i < 3; i++) {
    if (fork()) continue;
    if (i == 0) be_server(&o, width, megabytes);
    be_worker(&o, i - 1, width, steps);
  }
  int failed = 0, status;
  while (wait(&status) > 0) failed |= status;
  return failed != 0;
}
