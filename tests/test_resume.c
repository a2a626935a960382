/* Checkpoints and resuming: children that are killed at odd moments, a disk that is full, settings that changed. */
#include "train_data.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static const shoal_compile_options options = {.optimizer = {.name = "adam"},
                                              .schedule = {.name = "cosine", .rate = 0.01, .every = 200},
                                              .seed = 11,
                                              .threads = 1};

#define EPOCHS 6
#define BATCH 9
#define EXAMPLES 150 /* of which 120 are trained on: 14 steps an epoch, the last with 3 examples */

static void pause_seconds(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static shoal_fit_options fit_options(const char *dir) {
  return (shoal_fit_options){.epochs = EPOCHS,
                             .batch_size = BATCH,
                             .validation_split = 0.2,
                             .patience = 50,
                             .keep_best = dir != NULL,
                             .checkpoint_dir = dir,
                             .checkpoint_every = 1,
                             .resume = dir != NULL,
                             .settings = "model=corners optimizer=adam"};
}

/* Slows training down, so that a kill finds it at work: a whole run takes longer than any child is left alive. */
#define STEP_SECONDS 0.002
static bool slow_step(void *context, const shoal_progress *p) {
  pause_seconds(STEP_SECONDS);
  return false;
}

/* Trains in a child of its own, which is killed after so many seconds (0: never). True when it came to its end. */
static bool train_in_child(const shoal_dataset *data, const char *dir, double kill_after) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    shoal_model *m = model_make_corners(&options);
    shoal_fit_options fit = fit_options(dir);
    fit.callbacks = (shoal_callbacks){.on_step = slow_step, .every_steps = 1};
    shoal_status status = shoal_model_fit(m, data, &fit, NULL);
    if (status) fprintf(stderr, "child: %s\n", shoal_status_message(status));
    _exit(status ? 1 : 0);
  }
  if (kill_after > 0) {
    pause_seconds(kill_after);
    kill(child, SIGKILL);
  }
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  if (WIFEXITED(how)) assert_int_equal(WEXITSTATUS(how), 0);
  return WIFEXITED(how);
}

static void killed_and_resumed(void **state) {
  shoal_dataset data;
  data_make_corners(EXAMPLES, 1, &data);
  shoal_model *whole = model_make_corners(&options), *parts = model_make_corners(&options);
  shoal_fit_result expected, have;
  shoal_fit_options fit = fit_options(NULL);
  fit.keep_best = false;
  assert_ok(shoal_model_fit(whole, &data, &fit, &expected));
  assert_int_equal(expected.steps, EPOCHS * 14);

  char dir[FILES_PATH];
  files_make_folder(dir);
  random_stream s = random_stream_make((uint64_t)getpid(), 0); /* different moments each time */
  int kills = 0;
  while (kills < 8 && !train_in_child(&data, dir, 0.02 + 0.1 * random_uniform_at(&s, (uint64_t)kills))) kills++;
  assert_true(kills > 0);
  assert_true(train_in_child(&data, dir, 0));

  /* The child's last checkpoint, read by a run with nothing left to do. */
  fit = fit_options(dir);
  assert_ok(shoal_model_fit(parts, &data, &fit, &have));
  assert_int_equal(have.run_examples, 0);
  assert_int_equal(have.resumed_from, expected.steps);
  assert_same_bits(whole, parts);
  assert_true(have.final_loss == expected.final_loss && have.train_accuracy == expected.train_accuracy);
  assert_true(have.validation_loss == expected.validation_loss);
  assert_int_equal(have.steps, expected.steps);
  assert_int_equal(have.examples, expected.examples);

  /* Going on from there is the same as having gone on at once: the optimizer's slots came back, too. */
  shoal_model *longer = model_make_corners(&options);
  shoal_fit_options more = fit_options(NULL);
  more.keep_best = false;
  more.epochs = fit.epochs = EPOCHS + 1;
  assert_ok(shoal_model_fit(longer, &data, &more, &expected));
  assert_ok(shoal_model_fit(parts, &data, &fit, &have));
  assert_same_bits(longer, parts);
  assert_true(have.final_loss == expected.final_loss);
  shoal_model_destroy(whole);
  shoal_model_destroy(parts);
  shoal_model_destroy(longer);
  files_remove_folder(dir);
  data_free(&data);
}

/* Stops in the middle of an epoch, and goes on with another model object. */
static bool stop_at_20(void *context, const shoal_progress *p) { return p->step == 20; }

static void stopped_and_resumed(void **state) {
  shoal_dataset data;
  data_make_corners(EXAMPLES, 1, &data);
  char dir[FILES_PATH];
  files_make_folder(dir);
  shoal_model *whole = model_make_corners(&options), *first = model_make_corners(&options);
  shoal_model *second = model_make_corners(&options);
  shoal_fit_options plain = fit_options(NULL), fit = fit_options(dir);
  plain.keep_best = false;
  fit.checkpoint_every = 0; /* at each epoch's end, and when stopped */
  shoal_fit_result a, b, c;
  assert_ok(shoal_model_fit(whole, &data, &plain, &a));
  fit.callbacks = (shoal_callbacks){.on_step = stop_at_20, .every_steps = 1};
  assert_ok(shoal_model_fit(first, &data, &fit, &b));
  assert_true(b.stopped && b.steps == 20);
  fit.callbacks = (shoal_callbacks){0};
  assert_ok(shoal_model_fit(second, &data, &fit, &c));
  assert_int_equal(c.resumed_from, 20);
  assert_int_equal(c.run_examples, a.examples - b.examples);
  assert_same_bits(whole, second);
  assert_true(a.final_loss == c.final_loss);
  assert_int_equal(files_count(dir), 4); /* the last three and the best */
  shoal_model_destroy(whole);
  shoal_model_destroy(first);
  shoal_model_destroy(second);
  files_remove_folder(dir);
  data_free(&data);
}

static void other_settings_refused(void **state) {
  shoal_dataset data;
  data_make_corners(EXAMPLES, 1, &data);
  char dir[FILES_PATH];
  files_make_folder(dir);
  shoal_model *m = model_make_corners(&options);
  shoal_fit_options fit = fit_options(dir);
  fit.epochs = 1;
  assert_ok(shoal_model_fit(m, &data, &fit, NULL));
  fit.batch_size = 10;
  assert_fails(shoal_model_fit(m, &data, &fit, NULL), SHOAL_ERR_ARGUMENT, "batch_size=9 then, batch_size=10 now");
  fit.batch_size = BATCH;
  fit.settings = "model=corners optimizer=sgd";
  assert_fails(shoal_model_fit(m, &data, &fit, NULL), SHOAL_ERR_ARGUMENT, "optimizer=adam then, optimizer=sgd now");
  fit.settings = "model=corners optimizer=adam l2=1";
  assert_fails(shoal_model_fit(m, &data, &fit, NULL), SHOAL_ERR_ARGUMENT, "l2=1 now, not then");
  fit.settings = "optimizer=adam\n model=corners"; /* the same in another order */
  assert_ok(shoal_model_fit(m, &data, &fit, NULL));

  /* Without `resume` the folder's old checkpoints give way. */
  fit.resume = false;
  fit.batch_size = 60;
  assert_ok(shoal_model_fit(m, &data, &fit, NULL));
  assert_int_equal(files_count(dir), 3); /* two steps, the best */
  shoal_model_destroy(m);
  files_remove_folder(dir);
  data_free(&data);
}

static void weights_alone_do_not_resume(void **state) {
  shoal_dataset data;
  data_make_corners(EXAMPLES, 1, &data);
  char dir[FILES_PATH], path[FILES_PATH + 64];
  files_make_folder(dir);
  shoal_model *m = model_make_corners(&options);
  snprintf(path, sizeof path, "%s/step-000000000007.safetensors", dir);
  assert_ok(shoal_model_save(m, path));
  shoal_fit_options fit = fit_options(dir);
  assert_fails(shoal_model_fit(m, &data, &fit, NULL), SHOAL_ERR_INPUT, "weights alone");
  shoal_model_destroy(m);
  files_remove_folder(dir);
  data_free(&data);
}

typedef struct {
  int notes;
  char last[1024];
} notes;

static void on_note(void *context, const char *line) {
  notes *n = context;
  n->notes++;
  snprintf(n->last, sizeof n->last, "%s", line);
}

/* In a child: files may grow to `limit` bytes only, as on a disk that is full. Training must come to its end all the
 * same, with a warning, and the checkpoint that was there before must stay as it is. */
static int train_on_full_disk(const shoal_dataset *data, const char *dir) {
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = {500, 500};
  if (setrlimit(RLIMIT_FSIZE, &limit)) return 2;
  shoal_model *m = model_make_corners(&options);
  notes n = {0};
  shoal_fit_options fit = fit_options(dir);
  fit.epochs = 3;
  fit.checkpoint_every = 0;
  fit.callbacks = (shoal_callbacks){.context = &n, .on_note = on_note};
  shoal_fit_result r;
  shoal_status status = shoal_model_fit(m, data, &fit, &r);
  if (status || r.epochs != 3 || r.resumed_from != 14) return 3;
  return strstr(n.last, "training goes on") ? 0 : 4;
}

static void full_disk(void **state) {
  shoal_dataset data;
  data_make_corners(EXAMPLES, 1, &data);
  char dir[FILES_PATH], path[FILES_PATH + 64];
  files_make_folder(dir);
  shoal_model *m = model_make_corners(&options);
  shoal_fit_options fit = fit_options(dir);
  fit.epochs = 1;
  fit.checkpoint_every = 0;
  fit.keep_best = false;
  assert_ok(shoal_model_fit(m, &data, &fit, NULL));
  snprintf(path, sizeof path, "%s/step-000000000014.safetensors", dir);
  size_t n, k;
  uint8_t *before = files_read(path, &n);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) _exit(train_on_full_disk(&data, dir));
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  assert_int_equal(WEXITSTATUS(how), 0);
  uint8_t *after = files_read(path, &k);
  assert_int_equal(n, k);
  assert_memory_equal(before, after, n);
  assert_int_equal(files_count(dir), 1);
  free(before);
  free(after);
  shoal_model_destroy(m);
  files_remove_folder(dir);
  data_free(&data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_and_resumed),
      cmocka_unit_test(stopped_and_resumed),
      cmocka_unit_test(other_settings_refused),
      cmocka_unit_test(weights_alone_do_not_resume),
      cmocka_unit_test(full_disk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
