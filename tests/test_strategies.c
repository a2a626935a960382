/* Strategies as programs make them: shoal/cluster.h. */
#include "train_data.h"

#include "shoal/cluster.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 400 };

static shoal_status make(shoal_strategy *strategy, int threads, shoal_model **out) {
  assert_ok(shoal_model_create(SHOAL_SHAPE(8, 8, 1), out));
  shoal_model_flatten(*out);
  shoal_model_dense(*out, 16, "tanh");
  shoal_model_dense(*out, 4, "softmax");
  return shoal_model_compile(
      *out, &(shoal_compile_options){.schedule = {.rate = 0.1}, .seed = 3, .threads = threads, .strategy = strategy});
}

static double loss_after(shoal_strategy *strategy, const shoal_dataset *data, int threads, int64_t batch) {
  shoal_model *m;
  shoal_fit_result r;
  shoal_evaluation e;
  assert_ok(make(strategy, threads, &m));
  assert_ok(shoal_model_fit(m, data, &(shoal_fit_options){.epochs = 3, .batch_size = batch, .strategy = strategy}, &r));
  assert_int_equal(r.examples, 3 * ROWS);
  assert_ok(shoal_model_evaluate(m, data, &e));
  shoal_model_destroy(m);
  return e.loss;
}

/* Two workers with half a batch each learn what one process does, whoever starts them; also with several threads, which
 * a copy of a process has to start anew. */
static void local_servers_equal_one_process(void **state) {
  shoal_dataset d;
  data_make_corners(ROWS, 7, &d);
  const double alone = loss_after(NULL, &d, 1, 20);
  for (int threads = 1; threads <= 2; threads++) {
    shoal_strategy *s;
    assert_ok(shoal_strategy_create_local_ps(2, 2, NULL, &s));
    const double together = loss_after(s, &d, threads, 10);
    assert_true(together > alone - 1e-4 && together < alone + 1e-4);
    shoal_strategy_destroy(s);
  }
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
  data_free(&d);
}

static void deterministic_bits(void **state) {
  shoal_dataset d;
  data_make_corners(ROWS, 7, &d);
  double first = 0;
  for (int workers = 1; workers <= 3; workers++) {
    shoal_strategy *s;
    assert_ok(shoal_strategy_create_local_ps(workers, 1, &(shoal_ps_options){.deterministic = true}, &s));
    shoal_model *m;
    shoal_evaluation e;
    assert_ok(make(s, 1, &m));
    assert_ok(shoal_model_fit(m, &d, &(shoal_fit_options){.epochs = 2, .global_batch = 24, .strategy = s}, NULL));
    assert_ok(shoal_model_evaluate(m, &d, &e));
    if (workers == 1) first = e.loss;
    assert_true(e.loss == first);
    shoal_model_destroy(m);
    shoal_strategy_destroy(s);
  }
  data_free(&d);
}

/* The first process that this one has started: ps/0. */
static pid_t first_child(void) {
  DIR *folder = opendir("/proc");
  pid_t first = 0;
  assert_non_null(folder);
  for (struct dirent *e; (e = readdir(folder));) {
    char path[300];
    int pid, parent;
    snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
    FILE *f = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
    if (f && fscanf(f, "%d (%*[^)]) %*c %d", &pid, &parent) == 2 && parent == getpid() && (!first || pid < first))
      first = pid;
    if (f) fclose(f);
  }
  closedir(folder);
  return first;
}

static bool kill_a_server(void *context, const shoal_progress *p) {
  bool *killed = context;
  if (!*killed) kill(first_child(), SIGKILL);
  *killed = true;
  return false;
}

/* A server that is killed ends the training at once, by name; nothing is left running. */
static void a_lost_server_is_named(void **state) {
  shoal_dataset d;
  shoal_strategy *s;
  shoal_model *m;
  data_make_corners(ROWS, 7, &d);
  assert_ok(shoal_strategy_create_local_ps(2, 1, &(shoal_ps_options){.deadline = 5}, &s));
  assert_ok(make(s, 1, &m));
  shoal_fit_options o = {.epochs = 500, .batch_size = 10, .strategy = s};
  bool killed = false;
  o.callbacks = (shoal_callbacks){.context = &killed, .on_step = kill_a_server, .every_steps = 5};
  shoal_status status = shoal_model_fit(m, &d, &o, NULL);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_PEER);
  assert_non_null(strstr(shoal_status_message(status), "ps/0"));
  assert_non_null(strstr(shoal_status_message(status), "was killed by signal 9"));
  shoal_status_free(status);
  shoal_model_destroy(m);
  shoal_strategy_destroy(s);
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  data_free(&d);
}

/* Rows of two numbers and a class, as text. */
static void write_rows(const char *path) {
  shoal_dataset d;
  data_make_xor(ROWS, 5, &d);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  const float *x = d.features.data; /* [ROWS, 2] */
  const int32_t *y = d.labels.data; /* [ROWS] */
  fprintf(f, "x,y,class\n");
  for (int i = 0; i < ROWS; i++) fprintf(f, "%.6f,%.6f,%d\n", x[2 * i], x[2 * i + 1], y[i]);
  fclose(f);
  data_free(&d);
}

static double streamed_loss(shoal_strategy *s, const char *path, int64_t batch) {
  const shoal_pipeline_options rows = {.files = path, .format = "csv", .columns = "label=class"};
  shoal_model *m = model_make_xor(&(shoal_compile_options){.schedule = {.rate = 0.2}, .seed = 4, .threads = 2});
  shoal_fit_result r;
  assert_ok(shoal_model_fit(
      m, NULL, &(shoal_fit_options){.epochs = 20, .batch_size = batch, .stream = &rows, .strategy = s}, &r));
  assert_int_equal(r.examples, 20 * ROWS);
  shoal_model_destroy(m);
  shoal_strategy_destroy(s);
  return r.final_loss;
}

/* Evaluated while it is read, as when it is in memory. */
static void dense_streams_are_evaluated(void **state) {
  char folder[FILES_PATH], path[FILES_PATH + 16];
  files_make_folder(folder);
  snprintf(path, sizeof path, "%s/rows.csv", folder);
  write_rows(path);
  const shoal_pipeline_options rows = {.files = path, .format = "csv", .columns = "label=class"};
  shoal_model *m = model_make_xor(&(shoal_compile_options){.seed = 4, .threads = 1, .top_k = 1});
  shoal_dataset d;
  shoal_evaluation streamed, whole;
  data_make_xor(ROWS, 5, &d);
  assert_ok(shoal_model_evaluate(m, &d, &whole));
  assert_ok(shoal_model_evaluate_stream(m, &rows, NULL, NULL, &streamed));
  assert_int_equal(streamed.examples, ROWS);
  assert_true(fabs(streamed.loss - whole.loss) < 1e-5);
  assert_true(streamed.accuracy == whole.accuracy && streamed.top_k == whole.top_k);
  data_free(&d);
  shoal_model_destroy(m);
  files_remove_folder(folder);
}

/* Dense rows that are read while training, with every strategy that a process can start by itself. The last batch of an
 * epoch is short. */
static void dense_streams(void **state) {
  char folder[FILES_PATH], path[FILES_PATH + 16];
  files_make_folder(folder);
  snprintf(path, sizeof path, "%s/rows.csv", folder);
  write_rows(path);
  const double alone = streamed_loss(NULL, path, 30);
  shoal_strategy *s;
  assert_ok(shoal_strategy_create_mirrored(2, NULL, &s));
  const double mirrored = streamed_loss(s, path, 15);
  assert_true(mirrored > alone - 1e-3 && mirrored < alone + 1e-3);
  assert_ok(shoal_strategy_create_mirrored(3, &(shoal_replica_options){.deterministic = true}, &s));
  const double fixed = streamed_loss(s, path, 10);
  assert_true(fixed > alone - 1e-3 && fixed < alone + 1e-3);
  const char *const modes[] = {"sync", "async"};
  for (int i = 0; i < 2; i++) {
    assert_ok(shoal_strategy_create_local_ps(2, 1, &(shoal_ps_options){.mode = modes[i]}, &s));
    assert_true(streamed_loss(s, path, 15) < 0.6); /* log(2) is chance */
  }
  files_remove_folder(folder);
}

/* Bytes that a feature costs a worker's step. */
static double bytes_a_feature(const shoal_pipeline_options *rows, const shoal_ps_options *options) {
  shoal_strategy *s;
  shoal_model *m;
  shoal_fit_result r;
  assert_ok(shoal_strategy_create_local_ps(1, 2, options, &s));
  assert_ok(shoal_model_create_sparse(1000, &m));
  shoal_model_sparse_dense(m, 1, true, "sigmoid");
  assert_ok(shoal_model_compile(
      m, &(shoal_compile_options){.schedule = {.rate = 0.1}, .seed = 1, .threads = 1, .strategy = s}));
  assert_ok(
      shoal_model_fit(m, NULL, &(shoal_fit_options){.epochs = 2, .batch_size = 50, .stream = rows, .strategy = s}, &r));
  assert_int_equal(r.examples, 2 * ROWS);
  shoal_model_destroy(m);
  shoal_strategy_destroy(s);
  return (double)r.exchanged_bytes / (double)r.touched_rows;
}

/* Rows of a table that the worker keeps need not come each time. */
static void hot_rows_are_kept(void **state) {
  char folder[FILES_PATH], path[FILES_PATH + 16];
  files_make_folder(folder);
  snprintf(path, sizeof path, "%s/rows.libsvm", folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  for (int i = 0; i < ROWS; i++) /* those below 200 are in each batch */
    fprintf(f, "%d %d:1 %d:1 %d:1\n", i % 2 ? 1 : -1, i % 4 * 50 + 1, i % 4 * 50 + 9, 300 + i % 600);
  fclose(f);
  const shoal_pipeline_options rows = {.files = path, .features = 1000};
  const double plain = bytes_a_feature(&rows, &(shoal_ps_options){.mode = "async"});
  const double kept =
      bytes_a_feature(&rows, &(shoal_ps_options){.mode = "async", .cache_rows = 64, .cache_staleness = 3});
  const double sync = bytes_a_feature(&rows, &(shoal_ps_options){0});
  const double sync_kept = bytes_a_feature(&rows, &(shoal_ps_options){.cache_rows = 64});
  assert_true(kept < plain);
  assert_true(sync_kept == sync);
  files_remove_folder(folder);
}

static void refuses(shoal_status status, const char *word) {
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_ARGUMENT);
  assert_non_null(strstr(shoal_status_message(status), word));
  shoal_status_free(status);
}

static void wrong_options_are_refused(void **state) {
  shoal_strategy *s;
  shoal_cluster *c;
  refuses(shoal_strategy_create_local_ps(0, 1, NULL, &s), "workers");
  refuses(shoal_strategy_create_local_ps(2, 1, &(shoal_ps_options){.mode = "asinc"}, &s), "async");
  refuses(shoal_strategy_create_local_ps(2, 1, &(shoal_ps_options){.bounded = true}, &s), "async");
  refuses(shoal_strategy_create_local_ps(2, 1, &(shoal_ps_options){.backup_workers = 2}, &s), "backup_workers");
  refuses(shoal_strategy_create_local_ps(2, 1, &(shoal_ps_options){.cache_rows = -1}, &s), "cache_rows");
  refuses(shoal_cluster_parse("{\"worker\": [\"a\"]}", "worker:0", &c), "HOST:PORT");
  const char *words = "{\"worker\": [\"127.0.0.1:2222\"], \"ps\": [\"127.0.0.1:2223\"]}";
  assert_ok(shoal_cluster_parse(words, "ps:0", &c));
  assert_int_equal(shoal_cluster_role(c), SHOAL_PS);
  assert_string_equal(shoal_cluster_address(c, SHOAL_WORKER, 0), "tcp://127.0.0.1:2222");
  assert_null(shoal_cluster_address(c, SHOAL_WORKER, 1));
  refuses(shoal_strategy_create_ps(c, NULL, &s), "ps:0");
  shoal_cluster_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(local_servers_equal_one_process),
      cmocka_unit_test(deterministic_bits),
      cmocka_unit_test(a_lost_server_is_named),
      cmocka_unit_test(dense_streams),
      cmocka_unit_test(dense_streams_are_evaluated),
      cmocka_unit_test(wrong_options_are_refused),
      cmocka_unit_test(hot_rows_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
