/* shoal matmul: the trace of a matrix product over several tasks. */
#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/machine.h"
#include "shoal/models.h"
#include "shoal/placed.h"

#define RUN_SECONDS 86400.0

typedef struct {
  int64_t n, blocks, workers, threads, seed;
  const char *cluster, *keys, *transport, *summary, *run_dir;
  bool full_product, insecure, explain, quiet, json;
} matmul_flags;

static const char *const *transports(void) {
  static const char *const names[] = {"shm", "tcp", NULL};
  return names;
}

#define AT(field) offsetof(matmul_flags, field)
static const flag_row matmul_table[] = {
    {"n", FLAG_INT, AT(n), "N", "rows of the matrix", "10000", .least = 1, .most = 1e8},
    {"blocks", FLAG_INT, AT(blocks), "D", "cut it into D x D blocks", "10", .least = 1, .most = 1000},
    {"workers", FLAG_INT, AT(workers), "N", "worker processes on this machine", "5", .least = 1, .most = 64},
    {"threads", FLAG_INT, AT(threads), "N", "threads of each worker", "processors / workers", .least = 1, .most = 1024},
    {"full-product", FLAG_BOOL, AT(full_product), NULL,
     "compute the full product of each pair of blocks, not only its diagonal", .marks = 0},
    {"seed", FLAG_INT, AT(seed), "N", "random seed of the matrix", "1", .least = 0, .most = 9e15},
    {"cluster", FLAG_TEXT, AT(cluster), "FILE", "use the workers of this cluster, which run shoal server",
     .complete = COMPLETE_FILE},
    {"keys", FLAG_TEXT, AT(keys), "DIR", "folder with client.key and server.pub", .complete = COMPLETE_DIRECTORY},
    {"insecure", FLAG_BOOL, AT(insecure), NULL, "connect to other hosts without encryption", .marks = 0},
    {"transport", FLAG_CHOICE, AT(transport), "NAME", "between local processes", "shm", .choices = transports},
    {"explain-placement", FLAG_BOOL, AT(explain), NULL, "print which task runs which node, and why, instead of running",
     .marks = 0},
    {"summary", FLAG_TEXT, AT(summary), "FILE", "also write the result there as JSON", .complete = COMPLETE_FILE},
    {"run-dir", FLAG_TEXT, AT(run_dir), "DIR", "write a run folder with summary.json, as train does",
     .complete = COMPLETE_DIRECTORY},
    {"json", FLAG_BOOL, AT(json), NULL, "print the result as one JSON object", .marks = 0},
    {"quiet", FLAG_BOOL, AT(quiet), NULL, "print errors only", .marks = 0},
    {0},
};

enum { INDENT = 18 }; /* of a line that goes on */

static void print_baseline(const shoal_square_trace_result *r) {
  char blas[96] = "no BLAS library found to compare with";
  if (r->baseline.name) snprintf(blas, sizeof blas, "%s %.1f", r->baseline.name, r->baseline.blas / 1e9);
  say_indented(stdout, INDENT,
               "  this machine    %.1f GF/s in one product of two blocks on all processors (%s): reached %.0f %% of "
               "the faster one\n",
               r->baseline.own / 1e9, blas, 100 * shoal_square_trace_share(r));
}

static void print_result(const shoal_square_trace_options *o, const shoal_square_trace_result *r) {
  char n[SHOAL_DIGITS_TEXT], workers[COUNTED_TEXT], messages[COUNTED_TEXT], bytes[COUNTED_TEXT];
  printf("tr(A A) = %.10g   (n = %s, %lld x %lld blocks, %s)\n", r->trace, shoal_group_digits(o->n, n),
         (long long)o->blocks, (long long)o->blocks, counted_text(o->workers, "worker", workers));
  printf("  time            %.2f s  (and %.2f s to start the tasks and send the graph)\n", r->seconds,
         r->start_seconds);
  printf("  blocks made     %.2f GB, %.2f GB/s\n", r->cost.made_bytes / 1e9, r->cost.made_bytes / 1e9 / r->seconds);
  say_indented(stdout, INDENT, "  arithmetic      %.3g flops, %.1f GF/s%s\n", r->cost.flops,
               r->cost.flops / 1e9 / r->seconds,
               o->full_product ? "" : " (only the diagonals of the products; --full-product multiplies whole blocks)");
  if (o->full_product) print_baseline(r);
  printf("  memory          at most %.2f GB of blocks a worker\n", r->cost.worker_bytes / 1e9);
  printf("  between tasks   %s, %s: %.1f bytes a pair of blocks\n",
         counted_text((int64_t)r->stats.messages, "message", messages),
         counted_text((int64_t)r->stats.data_bytes, "byte", bytes),
         (double)r->stats.data_bytes / (double)r->cost.pairs);
}

static shoal_status write_run(const char *path, const shoal_square_trace_options *o,
                              const shoal_square_trace_result *r) {
  char *summary;
  TRY(make_folders(path));
  if (asprintf(&summary, "%s/summary.json", path) < 0) return status_no_memory();
  shoal_status status = shoal_square_trace_write(o, r, summary);
  free(summary);
  return status;
}

static shoal_status compute(const matmul_flags *f, const shoal_square_trace_options *o,
                            const shoal_graph_servers *servers, double started) {
  const double waited = seconds_now() - started;
  shoal_square_trace_result r;
  shoal_cluster_options cluster = {
      .seed = (uint64_t)f->seed, .keys = f->keys, .insecure = f->insecure, .step_seconds = RUN_SECONDS};
  shoal_graph_servers_fill(servers, &cluster);
  TRY(shoal_square_trace_run(o, &cluster, &r));
  r.start_seconds += waited;
  char *json = NULL;
  shoal_status status = f->json ? shoal_square_trace_json(o, &r, &json) : NULL;
  if (f->json) TRY(json_print(status, json));
  if (!f->quiet && !f->json) print_result(o, &r);
  if (f->run_dir) TRY(write_run(f->run_dir, o, &r));
  return f->summary ? shoal_square_trace_write(o, &r, f->summary) : NULL;
}

static shoal_status explain(const shoal_square_trace_options *o) {
  shoal_task tasks[SHOAL_MAX_TASKS];
  char names[SHOAL_MAX_TASKS][32], *words = NULL;
  if (o->workers > SHOAL_MAX_TASKS)
    return status_make(SHOAL_ERR_ARGUMENT, "%d workers; at most %d can share a graph", o->workers, SHOAL_MAX_TASKS);
  for (int i = 0; i < o->workers; i++) {
    snprintf(names[i], sizeof names[i], "/job:worker/task:%d", i);
    tasks[i] = (shoal_task){.name = names[i]};
  }
  shoal_graph *g;
  shoal_value *trace;
  TRY(shoal_graph_create(&g));
  shoal_status status = shoal_square_trace_build(g, o, &trace);
  if (!status) status = shoal_placement_explain(g, tasks, o->workers, &words);
  if (words) fputs(words, stdout);
  free(words);
  shoal_graph_destroy(g);
  return status;
}

static int count_workers(const shoal_graph_servers *servers) {
  shoal_cluster_options o = {0};
  int workers = 0;
  shoal_graph_servers_fill(servers, &o);
  for (int i = 0; i < o.n_tasks; i++) workers += !strncmp(o.tasks[i].name, "/job:worker/", 12);
  return workers;
}

static shoal_status start_servers(const matmul_flags *f, const shoal_square_trace_options *o,
                                  shoal_graph_servers **out) {
  TRY(shoal_square_trace_check_memory(o));
  return shoal_graph_servers_start(
      &(shoal_local_servers_options){
          .workers = o->workers, .threads = (int)f->threads, .tcp = f->transport && !strcmp(f->transport, "tcp")},
      out);
}

static shoal_status matmul(command_call *call) {
  const matmul_flags *f = call->flags;
  const double started = seconds_now();
  shoal_graph_servers *servers = NULL;
  shoal_square_trace_options o = {
      .n = f->n, .blocks = f->blocks, .workers = (int)f->workers, .full_product = f->full_product};
  if (f->cluster) {
    TRY(shoal_graph_servers_read(f->cluster, &servers));
    o.workers = count_workers(servers);
  }
  shoal_status status = NULL;
  if (f->explain)
    status = explain(&o);
  else if (!servers)
    status = start_servers(f, &o, &servers);
  if (!status && !f->explain) status = shoal_graph_servers_explain(servers, compute(f, &o, servers, started));
  shoal_graph_servers_destroy(servers);
  return status;
}

const command command_matmul = {
    .name = "matmul",
    .summary = "compute the trace of A A for a random matrix larger than memory",
    .details =
        "A is cut into blocks, which the workers generate from the seed where they need\n"
        "them: the result does not depend on the number of workers or blocks. Only the\n"
        "two blocks of one pair are in memory at a time on each worker. tr(A_ij A_ji)\n"
        "is computed as the sum of A_ij and the transpose of A_ji multiplied element by\n"
        "element; --full-product multiplies the blocks and takes the trace, and says\n"
        "what share it reached of this machine's own product of two matrices.\n"
        "\n"
        "Examples:\n"
        "  shoal matmul --n 100000 --blocks 10 --workers 5\n"
        "  shoal matmul --n 20000 --full-product\n",
    .flags = matmul_table,
    .fields = sizeof(matmul_flags),
    .defaults = &(const matmul_flags){.n = 10000, .blocks = 10, .workers = 5, .seed = 1},
    .action = matmul,
};
