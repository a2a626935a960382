/* Training on a stream: the same rows as a run never interrupted, whenever it is killed. */
#include "data/npy.h"
#include "train_data.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define EXAMPLES 150
#define EPOCHS 5
#define BATCH 9

static const shoal_compile_options options = {
    .optimizer = {.name = "adam"}, .schedule = {.rate = 0.01}, .seed = 11, .threads = 1};

typedef struct {
  char data[FILES_PATH], run[FILES_PATH];
  char files[FILES_PATH + 32];
} scene;

/* The corners as .npy files: three of rows, with their labels beside them. */
static void make_scene(scene *s) {
  files_make_folder(s->data);
  files_make_folder(s->run);
  shoal_dataset d;
  data_make_corners(EXAMPLES, 1, &d);
  for (int f = 0; f < 3; f++) {
    char path[FILES_PATH + 64];
    npy_writer *w;
    shoal_shape row = SHOAL_SHAPE(8, 8, 1);
    snprintf(path, sizeof path, "%s/part%d.npy", s->data, f);
    assert_ok(npy_writer_open(path, SHOAL_U8, &row, &w));
    assert_ok(npy_write(w, (const uint8_t *)d.features.data + 64 * 50 * f, 50));
    assert_ok(npy_writer_close(w));
    snprintf(path, sizeof path, "%s/part%d-labels.npy", s->data, f);
    assert_ok(npy_writer_open(path, SHOAL_U8, &SHOAL_SCALAR, &w));
    assert_ok(npy_write(w, (const uint8_t *)d.labels.data + 50 * f, 50));
    assert_ok(npy_writer_close(w));
  }
  data_free(&d);
  snprintf(s->files, sizeof s->files, "%s/part?.npy", s->data);
}

static void remove_scene(scene *s) {
  files_remove_folder(s->data);
  files_remove_folder(s->run);
}

static shoal_fit_options fit_options(const shoal_pipeline_options *from, const char *dir) {
  return (shoal_fit_options){.epochs = EPOCHS,
                             .batch_size = BATCH,
                             .stream = from,
                             .checkpoint_dir = dir,
                             .checkpoint_every = 1,
                             .resume = dir != NULL};
}

static void pause_seconds(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static bool slow_step(void *context, const shoal_progress *p) {
  pause_seconds(0.003);
  return false;
}

/* True when the child came to its end before it was killed. */
static bool train_in_child(const shoal_pipeline_options *from, const char *dir, double kill_after) {
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    shoal_model *m = model_make_corners(&options);
    shoal_fit_options fit = fit_options(from, dir);
    fit.callbacks = (shoal_callbacks){.on_step = slow_step, .every_steps = 1};
    shoal_status status = shoal_model_fit(m, NULL, &fit, NULL);
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
  for (int64_t shuffle = 0; shuffle <= 64; shuffle += 32) {
    scene s;
    make_scene(&s);
    shoal_pipeline_options from = {.files = s.files, .shuffle_rows = shuffle};
    shoal_model *whole = model_make_corners(&options), *parts = model_make_corners(&options);
    shoal_fit_result expected, have;
    shoal_fit_options fit = fit_options(&from, NULL);
    assert_ok(shoal_model_fit(whole, NULL, &fit, &expected));
    assert_int_equal(expected.steps, EPOCHS * 17);
    assert_int_equal(expected.examples, EPOCHS * EXAMPLES);
    assert_int_equal(expected.epochs, EPOCHS);
    assert_true(isfinite(expected.final_loss) && expected.input_wait_seconds >= 0);

    random_stream moments = random_stream_make((uint64_t)getpid(), 0);
    int kills = 0;
    while (kills < 5 && !train_in_child(&from, s.run, 0.02 + 0.08 * random_uniform_at(&moments, (uint64_t)kills)))
      kills++;
    assert_true(kills > 0);
    assert_true(train_in_child(&from, s.run, 0));
    fit = fit_options(&from, s.run); /* nothing left to do */
    assert_ok(shoal_model_fit(parts, NULL, &fit, &have));
    assert_int_equal(have.run_examples, 0);
    assert_int_equal(have.steps, expected.steps);
    assert_int_equal(have.examples, expected.examples);
    assert_true(have.final_loss == expected.final_loss && have.train_accuracy == expected.train_accuracy);
    assert_same_bits(whole, parts);

    /* And longer. */
    shoal_model *longer = model_make_corners(&options);
    shoal_fit_options more = fit_options(&from, NULL);
    more.epochs = fit.epochs = EPOCHS + 1;
    assert_ok(shoal_model_fit(longer, NULL, &more, &expected));
    assert_ok(shoal_model_fit(parts, NULL, &fit, &have));
    assert_same_bits(longer, parts);
    shoal_model_destroy(whole);
    shoal_model_destroy(parts);
    shoal_model_destroy(longer);
    remove_scene(&s);
  }
}

/* Without shuffling a stream is the data set in memory, row for row. */
static void same_as_in_memory(void **state) {
  scene s;
  make_scene(&s);
  shoal_dataset d;
  data_make_corners(EXAMPLES, 1, &d);
  shoal_tensor labels; /* i32, as a stream has them: each pair of types has random operators of its own */
  assert_ok(shoal_tensor_create(SHOAL_I32, SHOAL_SHAPE(EXAMPLES), &labels));
  for (int64_t i = 0; i < EXAMPLES; i++) shoal_tensor_set(&labels, i, shoal_tensor_get(&d.labels, i));
  shoal_tensor_fini(&d.labels);
  d.labels = labels;
  shoal_model *a = model_make_corners(&options), *b = model_make_corners(&options);
  shoal_pipeline_options from = {.files = s.files, .shuffle_rows = 1000};
  shoal_fit_options fit = fit_options(&from, NULL);
  fit.keep_order = true;
  fit.drop_short = true;
  shoal_fit_result x, y;
  assert_ok(shoal_model_fit(a, NULL, &fit, &x));
  fit.stream = NULL;
  assert_ok(shoal_model_fit(b, &d, &fit, &y));
  assert_int_equal(x.steps, y.steps);
  assert_int_equal(x.examples, y.examples);
  assert_int_equal(x.dropped_examples, y.dropped_examples);
  assert_true(x.final_loss == y.final_loss);
  assert_same_bits(a, b);
  shoal_model_destroy(a);
  shoal_model_destroy(b);
  data_free(&d);
  remove_scene(&s);
}

static void what_does_not_fit(void **state) {
  scene s;
  make_scene(&s);
  shoal_dataset d;
  data_make_corners(EXAMPLES, 1, &d);
  shoal_pipeline_options from = {.files = s.files};
  shoal_fit_options fit = fit_options(&from, NULL);
  shoal_model *corners = model_make_corners(&options), *small = model_make_xor(&options);
  assert_fails(shoal_model_fit(corners, &d, &fit, NULL), SHOAL_ERR_ARGUMENT, "data in memory or a stream");
  assert_fails(shoal_model_fit(small, NULL, &fit, NULL), SHOAL_ERR_ARGUMENT, "rows of the stream are [8,8,1]");
  fit.validation_split = 0.5;
  assert_fails(shoal_model_fit(corners, NULL, &fit, NULL), SHOAL_ERR_ARGUMENT, "streamed cannot be split");
  fit = (shoal_fit_options){.epochs = 1};
  assert_fails(shoal_model_fit(corners, NULL, &fit, NULL), SHOAL_ERR_ARGUMENT, "data in memory or a stream");
  /* A run that was streamed is not resumed on data in memory, nor with another window. */
  fit = fit_options(&from, s.run);
  fit.epochs = 1;
  assert_ok(shoal_model_fit(corners, NULL, &fit, NULL));
  from.shuffle_rows = 5;
  assert_fails(shoal_model_fit(corners, NULL, &fit, NULL), SHOAL_ERR_ARGUMENT, "shuffle_rows=5 now");
  fit.stream = NULL;
  assert_fails(shoal_model_fit(corners, &d, &fit, NULL), SHOAL_ERR_ARGUMENT, "examples=streamed then");
  shoal_model_destroy(corners);
  shoal_model_destroy(small);
  data_free(&d);
  remove_scene(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(killed_and_resumed), cmocka_unit_test(same_as_in_memory),
                                     cmocka_unit_test(what_does_not_fit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
