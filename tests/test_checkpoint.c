/* Checkpoints: kept, found, read back; and what a full disk or a kill leaves behind. */
#include "files.h"

#include "train/checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { WEIGHTS = 50000 };

typedef struct {
  float *weights; /* [250, 200] */
  int64_t step;
  checkpoint_entry entries[2];
} model;

static void model_init(model *m, float value) {
  m->weights = malloc(WEIGHTS * sizeof *m->weights);
  assert_non_null(m->weights);
  for (int i = 0; i < WEIGHTS; i++) m->weights[i] = value + (float)i;
  m->step = (int64_t)value;
  m->entries[0] = (checkpoint_entry){.name = "dense/weights",
                                     .tensor = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(250, 200), m->weights)};
  m->entries[1] = (checkpoint_entry){.name = "step", .tensor = shoal_tensor_view(SHOAL_I64, SHOAL_SCALAR, &m->step)};
}

static bool exists(const char *dir, const char *name) {
  char path[FILES_PATH * 2];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return !access(path, F_OK);
}

static void write_and_read(void **state) {
  char top[FILES_PATH], dir[FILES_PATH + 16], *path = NULL, *note = (char *)"";
  files_make_folder(top);
  snprintf(dir, sizeof dir, "%s/a", top);
  assert_ok(checkpoint_latest(dir, &path, &note)); /* no such folder: none, which is no error */
  assert_null(path);
  assert_null(note);

  model m, back;
  model_init(&m, 7);
  model_init(&back, 0);
  json_t *metadata = json_pack("{s:s, s:s}", "seed", "18446744073709551615", "epoch", "3"), *found = NULL;
  assert_ok(checkpoint_write(dir, 120, m.entries, 2, metadata, 3, &path));
  assert_non_null(strstr(path, "/a/step-000000000120.safetensors"));
  assert_int_equal(files_count(dir), 1);
  assert_ok(checkpoint_read(path, back.entries, 2, &found));
  assert_true(json_equal(metadata, found));
  json_decref(found);
  assert_memory_equal(back.weights, m.weights, WEIGHTS * sizeof *m.weights);
  assert_int_equal(back.step, 7);

  /* What does not fit is named, and nothing is written to. */
  back.step = -1;
  checkpoint_entry other[3] = {back.entries[1], back.entries[0], {.name = "bias", .tensor = back.entries[1].tensor}};
  assert_fails(checkpoint_read(path, other, 3, NULL), SHOAL_ERR_INPUT, "1 tensor is missing: 'bias'");
  assert_fails(checkpoint_read(path, other, 1, NULL), SHOAL_ERR_INPUT, "1 too many: 'dense/weights'");
  other[1].tensor.shape = SHOAL_SHAPE(200, 250);
  assert_fails(checkpoint_read(path, other, 2, NULL), SHOAL_ERR_INPUT, "f32 [250,200], but f32 [200,250]");
  assert_int_equal(back.step, -1);
  assert_ok(checkpoint_read_some(path, other, 1, NULL));
  assert_int_equal(back.step, 7);
  assert_ok(checkpoint_metadata(path, &found));
  assert_string_equal(json_string_value(json_object_get(found, "epoch")), "3");
  json_decref(found);
  free(path);

  assert_ok(checkpoint_write_best(dir, m.entries, 2, NULL, &path));
  assert_ok(checkpoint_metadata(path, &found));
  assert_int_equal(json_object_size(found), 0);
  json_decref(found);
  free(path);
  assert_ok(checkpoint_clear(dir));
  assert_int_equal(files_count(dir), 0);
  json_decref(metadata);
  free(m.weights);
  free(back.weights);
  files_remove_folder(dir);
  assert_ok(checkpoint_clear(dir));
  files_remove_folder(top);
}

static void keeps_newest(void **state) {
  char dir[FILES_PATH], *path, *note, leftover[FILES_PATH + 64];
  files_make_folder(dir);
  model m;
  model_init(&m, 1);
  snprintf(leftover, sizeof leftover, "%s/step-000000000009.safetensors.tmp", dir);
  files_write(leftover, "half", 4);
  snprintf(leftover, sizeof leftover, "%s/notes.txt", dir);
  files_write(leftover, "mine", 4);
  assert_ok(checkpoint_write_best(dir, m.entries, 2, NULL, NULL));
  for (uint64_t step = 10; step <= 60; step += 10) assert_ok(checkpoint_write(dir, step, m.entries, 2, NULL, 3, NULL));
  assert_true(exists(dir, "step-000000000040.safetensors") && exists(dir, "step-000000000050.safetensors"));
  assert_true(exists(dir, "step-000000000060.safetensors") && exists(dir, "best.safetensors"));
  assert_true(exists(dir, "notes.txt"));
  assert_int_equal(files_count(dir), 5); /* the leftover of a kill is gone, what is not ours stays */
  assert_ok(checkpoint_write(dir, 1000000000000, m.entries, 2, NULL, 0, NULL)); /* more digits; keep all */
  assert_int_equal(files_count(dir), 6);
  assert_ok(checkpoint_latest(dir, &path, &note));
  assert_non_null(strstr(path, "step-1000000000000.safetensors"));
  assert_null(note);
  free(path);
  /* A run that went back: later steps are not its own, and the one just written stays. */
  assert_ok(checkpoint_write(dir, 45, m.entries, 2, NULL, 1, NULL));
  assert_true(exists(dir, "step-000000000045.safetensors") && exists(dir, "step-000000000060.safetensors"));
  assert_false(exists(dir, "step-000000000040.safetensors"));
  free(m.weights);
  files_remove_folder(dir);
}

static void torn_is_passed_over(void **state) {
  char dir[FILES_PATH], *path = NULL, *note = NULL, torn[FILES_PATH + 64];
  files_make_folder(dir);
  model m;
  model_init(&m, 1);
  assert_ok(checkpoint_write(dir, 1, m.entries, 2, NULL, 0, NULL));
  assert_ok(checkpoint_write(dir, 2, m.entries, 2, NULL, 0, NULL));
  snprintf(torn, sizeof torn, "%s/step-000000000002.safetensors", dir);
  assert_int_equal(truncate(torn, 100000), 0);
  snprintf(torn, sizeof torn, "%s/step-000000000003.safetensors", dir);
  files_write(torn, "", 0);
  assert_ok(checkpoint_latest(dir, &path, &note));
  assert_non_null(strstr(path, "step-000000000001.safetensors"));
  assert_non_null(strstr(note, "step-000000000002.safetensors: byte 100000"));
  assert_non_null(strstr(note, "step-000000000003.safetensors"));
  free(path);
  free(note);
  assert_ok(checkpoint_latest(dir, &path, NULL));
  free(path);
  free(m.weights);
  files_remove_folder(dir);
}

/* A file that may not grow past a limit: the same short write and error that a full disk gives. */
static void disk_full(void **state) {
  char dir[FILES_PATH], *path = NULL, *note = NULL;
  files_make_folder(dir);
  model m, back;
  model_init(&m, 1);
  model_init(&back, 0);
  assert_ok(checkpoint_write(dir, 1, m.entries, 2, NULL, 1, NULL));
  m.weights[0] = 99;
  struct rlimit before, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  const rlim_t limits[] = {0, 5, 100, 4096, 100001, 200000};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    small = before;
    small.rlim_cur = limits[i];
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    shoal_status status = checkpoint_write(dir, 2, m.entries, 2, NULL, 1, &path);
    shoal_status best = checkpoint_write_best(dir, m.entries, 2, NULL, &path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(shoal_status_code(status), SHOAL_ERR_SYSTEM);
    assert_non_null(strstr(shoal_status_message(status), strerror(EFBIG)));
    assert_int_equal(shoal_status_code(best), SHOAL_ERR_SYSTEM);
    shoal_status_free(status);
    shoal_status_free(best);
    assert_null(path);
    assert_int_equal(files_count(dir), 1); /* no temporary file */
  }
  signal(SIGXFSZ, handler);
  assert_ok(checkpoint_latest(dir, &path, &note));
  assert_null(note);
  assert_ok(checkpoint_read(path, back.entries, 2, NULL));
  assert_true(back.weights[0] == 1);
  free(path);
  free(m.weights);
  free(back.weights);
  files_remove_folder(dir);
}

/* A writer killed at moments spread over its life always leaves a whole checkpoint to continue from. */
static void killed_any_moment(void **state) {
  char dir[FILES_PATH];
  files_make_folder(dir);
  model m, back;
  model_init(&m, 1);
  model_init(&back, 0);
  assert_ok(checkpoint_write(dir, 0, m.entries, 2, NULL, 2, NULL));
  for (int round = 0; round < 12; round++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
      for (uint64_t step = 1;; step++) {
        m.step = (int64_t)step;
        shoal_status_free(checkpoint_write(dir, step, m.entries, 2, NULL, 2, NULL));
      }
    }
    usleep((useconds_t)(500 + 1700 * round));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    char *path = NULL, *note = NULL;
    assert_ok(checkpoint_latest(dir, &path, &note));
    assert_non_null(path);
    assert_null(note);
    assert_ok(checkpoint_read(path, back.entries, 2, NULL));
    assert_true(files_count(dir) <= 4); /* two kept, one not yet removed, one half written */
    free(path);
    assert_ok(checkpoint_clear(dir));
    assert_ok(checkpoint_write(dir, 0, m.entries, 2, NULL, 2, NULL));
    assert_int_equal(files_count(dir), 1);
  }
  free(m.weights);
  free(back.weights);
  files_remove_folder(dir);
}

static void no_such_place(void **state) {
  model m;
  model_init(&m, 1);
  assert_fails(checkpoint_write("/proc/none/here", 1, m.entries, 2, NULL, 1, NULL), SHOAL_ERR_SYSTEM, "/proc/none");
  assert_fails(checkpoint_write("/dev/null/x", 1, m.entries, 2, NULL, 1, NULL), SHOAL_ERR_SYSTEM, "/dev/null");
  assert_fails(checkpoint_write("", 1, m.entries, 2, NULL, 1, NULL), SHOAL_ERR_ARGUMENT, "checkpoint folder is empty");
  assert_fails(checkpoint_read("/nonexistent", m.entries, 2, NULL), SHOAL_ERR_INPUT, "/nonexistent");
  free(m.weights);
}

/* A checkpoint with any bit flipped is refused, and the one before it taken. */
static void every_flipped_bit_is_found(void **state) {
  char dir[FILES_PATH], *good, *bad, *found, *note;
  files_make_folder(dir);
  float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  checkpoint_entry entry = {.name = "w", .tensor = shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(8), weights)};
  json_t *metadata = json_pack("{s:s}", "step", "2");
  assert_ok(checkpoint_write(dir, 1, &entry, 1, NULL, 0, &good));
  assert_ok(checkpoint_write(dir, 2, &entry, 1, metadata, 0, &bad));
  json_decref(metadata);
  size_t n;
  uint8_t *bytes = files_read(bad, &n);
  for (size_t bit = 0; bit < 8 * n; bit++) {
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    files_write(bad, bytes, n);
    assert_ok(checkpoint_latest(dir, &found, &note));
    if (strcmp(found, good)) fail_msg("bit %zu of byte %zu was not noticed", bit % 8, bit / 8);
    assert_non_null(strstr(note, "passed over"));
    shoal_status status = checkpoint_read(bad, &entry, 1, NULL);
    assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
    shoal_status_free(status);
    free(found);
    free(note);
    bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  files_write(bad, bytes, n);
  assert_ok(checkpoint_read(bad, &entry, 1, NULL));
  free(bytes);
  free(good);
  free(bad);
  files_remove_folder(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_flipped_bit_is_found),
      cmocka_unit_test(write_and_read),
      cmocka_unit_test(keeps_newest),
      cmocka_unit_test(torn_is_passed_over),
      cmocka_unit_test(disk_full),
      cmocka_unit_test(killed_any_moment),
      cmocka_unit_test(no_such_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
