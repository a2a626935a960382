/* Options from programs that were compiled with an earlier or a later version of the headers. */
#include "files.h"

#include "shoal/shoal.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* A copy of the first `bytes` that ends where memory ends: whoever reads on is killed. */
static void *at_the_end(const void *from, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(map, MAP_FAILED);
  assert_int_equal(mprotect(map + page, page, PROT_NONE), 0);
  memcpy(map + page - bytes, from, bytes);
  return map + page - bytes;
}

/* The options of a program whose struct ended before `field`. */
#define OLDER(type, field, ...) at_the_end(&(type){.size = offsetof(type, field), __VA_ARGS__}, offsetof(type, field))

static shoal_model *small_model(const shoal_compile_options *options) {
  shoal_model *m;
  assert_ok(shoal_model_create(SHOAL_SHAPE(2), &m));
  shoal_model_dense(m, 2, "softmax");
  assert_ok(shoal_model_compile(m, options));
  return m;
}

static shoal_dataset four_rows(void) {
  static float features[] = {0, 1, 1, 0, 0, 1, 1, 0};
  static int32_t labels[] = {0, 1, 0, 1};
  return (shoal_dataset){.features = {.dtype = SHOAL_F32, .shape = SHOAL_SHAPE(4, 2), .data = features},
                         .labels = {.dtype = SHOAL_I32, .shape = SHOAL_SHAPE(4), .data = labels},
                         .classes = 2,
                         .scale = 1};
}

static void older_programs(void **state) {
  shoal_dataset data = four_rows();
  shoal_model *m = small_model(OLDER(shoal_compile_options, strategy, .threads = 1));
  shoal_fit_result result;
  assert_ok(shoal_model_fit(m, &data, OLDER(shoal_fit_options, callbacks, .epochs = 3, .batch_size = 2), &result));
  assert_int_equal(result.steps, 6);
  shoal_model_destroy(m);

  shoal_graph *g;
  shoal_session *s;
  assert_ok(shoal_graph_create(&g));
  assert_ok(shoal_session_create(g, OLDER(shoal_session_options, no_fusion, .threads = 1), &s));
  shoal_session_destroy(s);
  shoal_graph_destroy(g);

  shoal_pipeline *p;
  assert_ok(shoal_pipeline_create(OLDER(shoal_pipeline_options, position, .files = "fake:2x2x1:2"), &p));
  shoal_pipeline_destroy(p);
  shoal_dataset *read;
  assert_ok(shoal_dataset_read(OLDER(shoal_pipeline_options, position, .files = "fake:2x2x1:2:8"), 0, &read));
  shoal_dataset_destroy(read);
}

static void strategies_of_older_programs(void **state) {
  shoal_strategy *s;
  assert_ok(shoal_strategy_create_mirrored(2, OLDER(shoal_replica_options, deadline, .deterministic = true), &s));
  shoal_strategy_destroy(s);
  assert_ok(shoal_strategy_create_local_ps(2, 1, OLDER(shoal_ps_options, insecure, .mode = "sync"), &s));
  shoal_strategy_destroy(s);
  shoal_cluster_options none = {.size = offsetof(shoal_cluster_options, step_seconds)};
  shoal_graph *g;
  shoal_session *over = NULL;
  assert_ok(shoal_graph_create(&g));
  assert_fails(shoal_session_connect(g, at_the_end(&none, none.size), &over), SHOAL_ERR_ARGUMENT, "task");
  shoal_graph_destroy(g);
  shoal_server_options server = {.size = offsetof(shoal_server_options, client_memory), .address = "nowhere"};
  assert_fails(shoal_server_run(at_the_end(&server, server.size)), SHOAL_ERR_ARGUMENT, "nowhere");
}

/* A struct with one more field than this library's. */
typedef struct {
  shoal_fit_options known;
  int64_t later;
} later_options;

static void later_programs(void **state) {
  shoal_dataset data = four_rows();
  shoal_model *m = small_model(NULL);
  later_options o = {.known = {.size = sizeof o, .epochs = 1}};
  assert_ok(shoal_model_fit(m, &data, &o.known, NULL)); /* which does not use it */
  o.later = 1;
  assert_fails(shoal_model_fit(m, &data, &o.known, NULL), SHOAL_ERR_ARGUMENT, "this version of Shoal does not have");
  o.known.size = 3;
  assert_fails(shoal_model_fit(m, &data, &o.known, NULL), SHOAL_ERR_ARGUMENT, "size is 3");
  shoal_model_destroy(m);
}

static void macro_says_the_size(void **state) {
  shoal_dataset data = four_rows();
  shoal_model *m = small_model(&SHOAL_OPTIONS(shoal_compile_options, .threads = 1));
  shoal_fit_result result;
  assert_ok(shoal_model_fit(m, &data, &SHOAL_OPTIONS(shoal_fit_options, .steps = 2), &result));
  assert_int_equal(result.steps, 2);
  shoal_model_destroy(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(older_programs),
      cmocka_unit_test(strategies_of_older_programs),
      cmocka_unit_test(later_programs),
      cmocka_unit_test(macro_says_the_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
