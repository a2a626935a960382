/* shoal run: any part of a saved graph, in this process or over a cluster. */
#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/data.h"
#include "shoal/observe.h"
#include "shoal/placed.h"

enum { VALUES_MAX = 256, SHOWN = 8 };

typedef struct {
  int64_t workers, ps, threads, steps, seed;
  const char *fetch, *cluster, *keys, *trace;
  double deadline;
  bool explain, list, json, insecure;
} run_flags;

#define AT(field) offsetof(run_flags, field)
static const flag_row run_table[] = {
    {"fetch", FLAG_TEXT, AT(fetch), "LIST",
     "names of the values to compute, separated by commas; printed, or written to FILE.npy with NAME=FILE.npy",
     .marks = 0},
    {"steps", FLAG_INT, AT(steps), "N", "run the graph N times; the last results are shown", "1", .least = 1,
     .most = 1e12},
    {"seed", FLAG_INT, AT(seed), "N", "random seed", "1", .least = 0, .most = 9e15},
    {"workers", FLAG_INT, AT(workers), "N", "number of /job:worker tasks to start as local processes",
     "0: all in this process", .least = 0, .most = 48},
    {"ps", FLAG_INT, AT(ps), "N", "number of /job:ps tasks to start", "0", .least = 0, .most = 16},
    {"threads", FLAG_INT, AT(threads), "N", "threads of each task", "processors / tasks", .least = 1, .most = 1024},
    {"cluster", FLAG_TEXT, AT(cluster), "FILE", "use the tasks of this cluster, which run shoal server",
     .complete = COMPLETE_FILE},
    {"deadline", FLAG_NUMBER, AT(deadline), "SECONDS", "time limit of a run over tasks", "600", .least = 0.1,
     .most = 1e9},
    {"keys", FLAG_TEXT, AT(keys), "DIR", "folder with client.key and server.pub", .complete = COMPLETE_DIRECTORY},
    {"insecure", FLAG_BOOL, AT(insecure), NULL, "connect to other hosts without encryption", .marks = 0},
    {"trace", FLAG_TEXT, AT(trace), "FILE",
     "write a timeline of all tasks, for 'shoal trace FILE', Perfetto or chrome://tracing", .complete = COMPLETE_FILE},
    {"list", FLAG_BOOL, AT(list), NULL, "print what can be fed and what can be fetched, instead of running",
     .marks = 0},
    {"json", FLAG_BOOL, AT(json), NULL, "print what --list lists as one JSON object", .marks = 0},
    {"explain-placement", FLAG_BOOL, AT(explain), NULL,
     "print which task would run which node, and why, instead of running", .marks = 0},
    {0},
};

typedef struct {
  shoal_graph *graph;
  shoal_feed feeds[VALUES_MAX];
  int n_feeds;
  shoal_value *fetches[VALUES_MAX];
  const char *files[VALUES_MAX]; /* NULL: printed */
  int n_fetches;
  char *words; /* of --fetch, cut up */
} job;

/* ---- feeds and fetches */

static shoal_status read_feed(job *j, const char *word) {
  if (j->n_feeds == VALUES_MAX) return status_make(SHOAL_ERR_ARGUMENT, "at most %d values can be fed", VALUES_MAX);
  shoal_feed *f = &j->feeds[j->n_feeds];
  TRY(shoal_feed_read(j->graph, word, f));
  j->n_feeds++;
  for (int i = 0; i + 1 < j->n_feeds; i++)
    if (j->feeds[i].value == f->value) return status_make(SHOAL_ERR_ARGUMENT, "'%s' is fed twice", word);
  return NULL;
}

static shoal_status read_fetches(job *j, const char *list) {
  if (!list)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "expected --fetch NAME,... : the values to compute; --list shows what there is");
  j->words = strdup(list);
  if (!j->words) return status_no_memory();
  char *rest = NULL;
  for (char *word = strtok_r(j->words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    if (j->n_fetches == VALUES_MAX)
      return status_make(SHOAL_ERR_ARGUMENT, "at most %d values can be fetched", VALUES_MAX);
    char *equals = strchr(word, '=');
    if (equals) *equals = 0;
    if (equals && !equals[1])
      return status_make(SHOAL_ERR_ARGUMENT, "--fetch %s=: expected the name of a .npy file after it", word);
    j->files[j->n_fetches] = equals ? equals + 1 : NULL;
    TRY(shoal_graph_lookup(j->graph, word, &j->fetches[j->n_fetches]));
    j->n_fetches++;
  }
  return NULL;
}

static void list_values(const char *title, const shoal_graph *g, shoal_graph_part part) {
  char words[SHOAL_SHAPE_TEXT];
  shoal_value *v = NULL;
  for (bool first = true; (v = shoal_graph_next(g, part, v)); first = false) {
    if (first) printf("%s\n", title);
    const char *device = shoal_value_device(v);
    for (int k = 0; shoal_value_output(v, k); k++) {
      const shoal_value *out = shoal_value_output(v, k);
      const shoal_shape shape = shoal_value_shape(out);
      printf(k ? "  %s:%d" : "  %s", shoal_value_name(v), k);
      printf(" %s%s%s%s\n", shoal_dtype_name(shoal_value_dtype(out)), shoal_shape_text(&shape, words),
             device ? "  " : "", device ? device : "");
    }
  }
}

static void print_tensor(const shoal_value *v, const shoal_tensor *t) {
  char shape[SHOAL_SHAPE_TEXT];
  int64_t n = shoal_tensor_count(t);
  printf("%s %s%s", shoal_value_name(v), shoal_dtype_name(t->dtype), shoal_shape_text(&t->shape, shape));
  for (int64_t i = 0; i < n && i < SHOWN; i++) printf(" %.9g", shoal_tensor_get(t, i));
  puts(n > SHOWN ? " ..." : "");
}

/* ---- running */

static shoal_status run_steps(const run_flags *f, job *j, shoal_session *s) {
  shoal_tensor out[VALUES_MAX];
  if (f->trace) TRY(shoal_session_trace_begin(s));
  double start = seconds_now();
  for (int64_t i = 0; i < f->steps; i++) TRY(shoal_session_run(s, j->feeds, j->n_feeds, j->fetches, j->n_fetches, out));
  double seconds = seconds_now() - start;
  if (f->trace) TRY(shoal_session_trace_end(s, f->trace));
  for (int i = 0; i < j->n_fetches; i++) {
    if (!j->files[i]) print_tensor(j->fetches[i], &out[i]);
    if (j->files[i]) TRY(shoal_tensor_write_npy(j->files[i], &out[i]));
  }
  shoal_cluster_stats stats;
  shoal_session_stats(s, &stats);
  char count[COUNTED_TEXT];
  if (f->steps > 1) printf("%s in %.3f s", counted_text(f->steps, "step", count), seconds);
  if (f->steps > 1 && stats.runs)
    printf(", %.0f messages and %.0f bytes between tasks a step", (double)stats.messages / (double)f->steps,
           (double)stats.data_bytes / (double)f->steps);
  if (f->steps > 1) puts("");
  return NULL;
}

static shoal_status explain(job *j, const shoal_cluster_options *o) {
  char *words;
  TRY(shoal_placement_explain(j->graph, o->tasks, o->n_tasks, &words));
  fputs(words, stdout);
  free(words);
  return NULL;
}

static shoal_status run_here(const run_flags *f, job *j) {
  shoal_session *s;
  if (f->explain) return status_make(SHOAL_ERR_ARGUMENT, "--explain-placement needs --workers, --ps or --cluster");
  TRY(shoal_session_create(j->graph, &(shoal_session_options){.threads = (int)f->threads, .seed = (uint64_t)f->seed},
                           &s));
  shoal_status status = run_steps(f, j, s);
  shoal_session_destroy(s);
  return status;
}

static shoal_status run_on(const run_flags *f, job *j, shoal_graph_servers *servers) {
  shoal_session *s;
  shoal_cluster_options o = {
      .seed = (uint64_t)f->seed, .keys = f->keys, .insecure = f->insecure, .step_seconds = f->deadline};
  shoal_graph_servers_fill(servers, &o);
  if (f->explain) return explain(j, &o);
  TRY(shoal_session_connect(j->graph, &o, &s));
  shoal_status status = run_steps(f, j, s);
  shoal_session_destroy(s);
  return status;
}

static shoal_status run_job(const run_flags *f, job *j) {
  if (!f->workers && !f->ps && !f->cluster) return run_here(f, j);
  shoal_graph_servers *servers;
  shoal_local_servers_options local = {.ps = (int)f->ps, .workers = (int)f->workers, .threads = (int)f->threads};
  TRY(f->cluster ? shoal_graph_servers_read(f->cluster, &servers) : shoal_graph_servers_start(&local, &servers));
  shoal_status status = shoal_graph_servers_explain(servers, run_on(f, j, servers));
  shoal_graph_servers_destroy(servers);
  return status;
}

static shoal_status run_graph(command_call *call) {
  const run_flags *f = call->flags;
  const flags_parsed *words = call->words;
  job j = {0};
  TRY(shoal_graph_load(words->words[0], &j.graph));
  shoal_status status = NULL;
  for (int i = 1; i < words->count && !status; i++) status = read_feed(&j, words->words[i]);
  char *json = NULL;
  if (!status && f->json && !f->list) status = status_make(SHOAL_ERR_ARGUMENT, "--json needs --list");
  if (!status && f->json) status = shoal_graph_list_json(j.graph, &json);
  if (json) status = json_print(status, json);
  if (!status && f->list && !f->json) {
    list_values("To be fed:", j.graph, SHOAL_GRAPH_PLACEHOLDERS);
    list_values("Variables:", j.graph, SHOAL_GRAPH_VARIABLES);
    list_values("Outputs (not used by any other node):", j.graph, SHOAL_GRAPH_RESULTS);
  }
  if (!status && !f->explain && !f->list) status = read_fetches(&j, f->fetch);
  if (!status && !f->list) status = run_job(f, &j);
  for (int i = 0; i < j.n_feeds; i++) shoal_tensor_fini(&j.feeds[i].tensor);
  free(j.words);
  shoal_graph_destroy(j.graph);
  return status;
}

const command command_run = {
    .name = "run",
    .arguments = "GRAPH [NAME=FILE.npy|NUMBER...]",
    .summary = "run any part of a saved graph",
    .details =
        "GRAPH is a file that shoal_graph_save wrote (TensorFlow's GraphDef with\n"
        "Shoal's operators). The arguments after it are feeds: any value by its name,\n"
        "from a .npy file or as a number. With --workers and --ps the graph runs on\n"
        "local processes, with --cluster on servers that are already running. Nodes run\n"
        "on their device; a placer decides where the others run.\n"
        "\n"
        "Examples:\n"
        "  shoal run model.pb --list\n"
        "  shoal run model.pb x=images.npy --fetch probabilities=out.npy\n"
        "  shoal run train.pb x=images.npy y=labels.npy --fetch loss,step --steps 100 \\\n"
        "    --ps 1 --workers 2\n"
        "  shoal run train.pb --ps 1 --workers 2 --explain-placement\n"
        "  shoal run train.pb x=images.npy y=labels.npy --fetch step --steps 20 \\\n"
        "    --ps 1 --workers 2 --trace trace.json && shoal trace trace.json\n",
    .flags = run_table,
    .fields = sizeof(run_flags),
    .defaults = &(const run_flags){.steps = 1, .seed = 1},
    .words_min = 1,
    .words_max = ANY_NUMBER,
    .expected = "a graph file, as shoal_graph_save writes it",
    .action = run_graph,
};
