/* The machine, keys and probes between tasks, and the page of runs. */
#include "public.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_the_machine(void **state) {
  shoal_machine m;
  shoal_machine_inspect(&m);
  assert_true(m.cores >= 1 && m.usable_cores >= 1 && m.usable_cores <= m.cores);
  assert_true(m.memory_bytes > m.memory_free_bytes && m.memory_free_bytes > 0);
  assert_true(m.copy_bytes_per_second > 1e8);
  assert_true(!strcmp(m.kernels, "generic") || (!strncmp(m.kernels, "avx", 3) && m.flops > 1e9));
  assert_non_null(strstr(m.libraries, "zlib"));
  assert_true(shoal_machine_memory_free() > 0);
  shoal_gemm_baseline b;
  assert_ok(shoal_gemm_baseline_measure(128, 0.01, &b));
  assert_true(b.own > 1e8 && (b.name == NULL) == (b.blas == 0));
  assert_fails(shoal_gemm_baseline_measure(0, 0.01, &b), SHOAL_ERR_ARGUMENT, "0 rows");
}

static int free_port(void) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof a;
  assert_int_equal(bind(s, (struct sockaddr *)&a, size), 0);
  assert_int_equal(getsockname(s, (struct sockaddr *)&a, &size), 0);
  close(s);
  return ntohs(a.sin_port);
}

static void test_tasks_probe_each_other_with_keys(void **state) {
  const char *folder = test_folder(), *keys = test_path(folder, "keys"), *description = test_path(folder, "c.json");
  assert_ok(shoal_keys_make(keys, "server"));
  assert_ok(shoal_keys_make(keys, "client"));
  assert_fails(shoal_keys_make(keys, "client"), SHOAL_ERR_ARGUMENT, "keys are not overwritten");
  struct stat about;
  assert_int_equal(stat(test_path(folder, "keys/client.key"), &about), 0);
  assert_int_equal(about.st_mode & 077, 0);
  char words[256];
  snprintf(words, sizeof words, "{\"cluster\": {\"worker\": [\"127.0.0.1:%d\"], \"ps\": [\"127.0.0.1:%d\"]}}",
           free_port(), free_port());
  test_write(description, words);
  shoal_cluster *c;
  shoal_probe *p = NULL;
  shoal_probe_options options = {.keys = keys, .seconds = 20};
  pid_t server = fork();
  if (!server) {
    shoal_status status = shoal_cluster_read(description, "ps:0", &c);
    if (!status) status = shoal_cluster_probe(c, &options, &p);
    _exit(status != NULL);
  }
  assert_ok(shoal_cluster_read(description, "worker:0", &c));
  assert_ok(shoal_cluster_probe(c, &options, &p));
  assert_int_equal(p->tasks, 2);
  for (int pair = 1; pair <= 2; pair++) { /* from the worker to the server, and back */
    assert_true(p->pairs[pair].known && p->pairs[pair].answered);
    assert_true(p->pairs[pair].bandwidth > 0 && p->pairs[pair].round_trip > 0);
    assert_string_equal(p->pairs[pair].version, shoal_version());
  }
  shoal_probe_destroy(p);
  int ended;
  waitpid(server, &ended, 0);
  assert_int_equal(ended, 0);
  options.seconds = 0.3; /* nobody is there now */
  assert_ok(shoal_cluster_probe(c, &options, &p));
  assert_int_equal(p->n_problems, 1);
  assert_non_null(strstr(p->problems[0], "worker:0 does not reach ps:0"));
  shoal_probe_destroy(p);
  shoal_cluster_destroy(c);
  test_remove(folder);
}

static void get(int port, const char *path, char *answer, size_t room) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_int_equal(connect(s, (struct sockaddr *)&a, sizeof a), 0);
  char request[128];
  int n = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", path);
  assert_int_equal(write(s, request, (size_t)n), n);
  size_t have = 0;
  for (ssize_t got; have + 1 < room && (got = read(s, answer + have, room - 1 - have)) > 0;) have += (size_t)got;
  answer[have] = 0;
  close(s);
}

static void test_the_page_of_runs(void **state) {
  const char *folder = test_folder(), *run = test_path(folder, "first"), *page = test_path(folder, "page.html");
  mkdir(run, 0777);
  test_write(test_path(folder, "first/summary.json"), "{\"model\": \"lenet\", \"status\": \"finished\"}");
  test_write(test_path(folder, "first/settings.json"), "{\"model\": \"lenet\", \"flags\": {}}");
  test_write(test_path(folder, "first/metrics.jsonl"), "{\"kind\": \"step\", \"step\": 1, \"loss\": 2.5}\n");
  shoal_report_result r;
  shoal_report_options options = {.folders = &folder, .n_folders = 1, .path = page};
  shoal_status status = shoal_report_write(&options, &r);
  if (shoal_status_code(status) == SHOAL_ERR_SYSTEM) { /* a build without node or libmicrohttpd */
    shoal_status_free(status);
    test_remove(folder);
    skip();
  }
  assert_ok(status);
  assert_int_equal(r.runs, 1);
  struct stat about;
  assert_int_equal(stat(page, &about), 0);
  assert_int_equal((size_t)about.st_size, r.bytes);
  assert_fails(shoal_report_write(&(shoal_report_options){.path = page}, NULL), SHOAL_ERR_ARGUMENT, "no runs");
  shoal_dashboard *d;
  char answer[4096];
  assert_fails(shoal_dashboard_create(&(shoal_dashboard_options){.folder = folder, .address = "0.0.0.0"}, &d),
               SHOAL_ERR_ARGUMENT, "needs a token");
  assert_ok(shoal_dashboard_create(&(shoal_dashboard_options){.folder = folder, .token = "secret"}, &d));
  get(shoal_dashboard_port(d), "/api/state", answer, sizeof answer);
  assert_non_null(strstr(answer, " 401 "));
  get(shoal_dashboard_port(d), "/api/state?token=secret", answer, sizeof answer);
  assert_non_null(strstr(answer, "\"first\""));
  shoal_dashboard_destroy(d);
  test_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tasks_probe_each_other_with_keys),
      cmocka_unit_test(test_the_machine),
      cmocka_unit_test(test_the_page_of_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
