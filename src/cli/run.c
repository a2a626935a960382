/* shoal run: any part of a saved graph, in this process or over a cluster. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/graph_crew.h"
#include "cli/say.h"
#include "data/npy.h"
#include "graph/graph.h"

#include <string.h>
#include <unistd.h>

enum { MOST = 256, SHOWN = 8 };

typedef struct {
  int64_t workers, ps, threads, steps, seed;
  const char *fetch, *cluster, *keys, *trace;
  bool explain, list, insecure;
} run_flags;

static const flag_row run_table[] = {
    {.name = "fetch", .kind = FLAG_TEXT, .offset = offsetof(run_flags, fetch), .value = "LIST",
     .help = "values to compute, by name, with commas: printed, or written where NAME=FILE.npy says so"},
    {.name = "steps", .kind = FLAG_INT, .offset = offsetof(run_flags, steps), .value = "N",
     .help = "run it so many times; the last results are shown", .standard = "1", .least = 1, .most = 1e12},
    {.name = "seed", .kind = FLAG_INT, .offset = offsetof(run_flags, seed), .value = "N",
     .help = "of random operators", .standard = "1", .least = 0, .most = 9e15},
    {.name = "workers", .kind = FLAG_INT, .offset = offsetof(run_flags, workers), .value = "N",
     .help = "start so many tasks /job:worker as local processes", .standard = "0: all in this process", .least = 0,
     .most = 48},
    {.name = "ps", .kind = FLAG_INT, .offset = offsetof(run_flags, ps), .value = "N",
     .help = "and so many /job:ps", .standard = "0", .least = 0, .most = 16},
    {.name = "threads", .kind = FLAG_INT, .offset = offsetof(run_flags, threads), .value = "N",
     .help = "threads of each task", .standard = "processors / tasks", .least = 1, .most = 1024},
    {.name = "cluster", .kind = FLAG_TEXT, .offset = offsetof(run_flags, cluster), .value = "FILE",
     .help = "use the tasks of this cluster, where shoal server runs", .complete = COMPLETE_FILE},
    {.name = "keys", .kind = FLAG_TEXT, .offset = offsetof(run_flags, keys), .value = "DIR",
     .help = "folder with client.key and server.pub", .complete = COMPLETE_DIRECTORY},
    {.name = "insecure", .kind = FLAG_BOOL, .offset = offsetof(run_flags, insecure),
     .help = "talk to other machines without keys"},
    {.name = "trace", .kind = FLAG_TEXT, .offset = offsetof(run_flags, trace), .value = "FILE",
     .help = "write a timeline of all tasks, for 'shoal trace FILE', Perfetto or chrome://tracing",
     .complete = COMPLETE_FILE},
    {.name = "list", .kind = FLAG_BOOL, .offset = offsetof(run_flags, list),
     .help = "print what can be fed and what can be fetched, instead of running"},
    {.name = "explain-placement", .kind = FLAG_BOOL, .offset = offsetof(run_flags, explain),
     .help = "print which task would run which node, and why, instead of running"},
    {0},
};

typedef struct {
  shoal_graph *graph;
  shoal_feed feeds[MOST];
  int n_feeds;
  shoal_value *fetches[MOST];
  const char *files[MOST]; /* NULL: printed */
  int n_fetches;
  char *words; /* of --fetch, cut up */
} job;

/* ---- feeds and fetches */

/* "the graph has no value 'los' (did you mean loss?)" */
static shoal_status no_value(const shoal_graph *g, const char *name) {
  const char **names = calloc(g->count + 1, sizeof *names);
  for (size_t i = 0; names && i < g->count; i++) names[i] = g->nodes[i]->name;
  const char *near = names ? shoal_nearest_name(name, names, g->count) : NULL;
  free(names);
  return status_make(SHOAL_ERR_ARGUMENT, "the graph has no value '%s'%s%s%s; --list shows what it has", name,
                     near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

/* NAME or NAME:OUTPUT */
static shoal_status find_value(const shoal_graph *g, char *name, shoal_value **out) {
  int64_t output = 0;
  *out = shoal_graph_find(g, name);
  char *colon = strrchr(name, ':');
  if (!*out && colon && shoal_parse_int(colon + 1, &output)) {
    *colon = 0;
    *out = shoal_value_output(shoal_graph_find(g, name), (int)output);
    *colon = ':';
  }
  return *out ? NULL : no_value(g, name);
}

/* A number that the type cannot hold is a mistake; a real one is rounded. */
static shoal_status set_element(shoal_tensor *t, int64_t i, double number, const char *what) {
  shoal_tensor_set(t, i, number);
  if (shoal_tensor_get(t, i) == number || t->dtype == SHOAL_F32 || t->dtype == SHOAL_F64) return NULL;
  return status_make(SHOAL_ERR_INPUT, "%s: %.9g at place %lld cannot be %s", what, number, (long long)i,
                     shoal_dtype_name(t->dtype));
}

/* Fills a tensor of the value's type; a scalar takes a file of one number. */
static shoal_status read_file(const char *path, const shoal_value *v, shoal_tensor *out) {
  stream *s;
  npy_header h;
  TRY(stream_open(path, &s));
  shoal_status status = npy_read_header(s, path, &h);
  shoal_tensor t = {0};
  if (!status) {
    shoal_shape shape = h.shape;
    if (!shoal_value_shape(v).rank && shoal_shape_count(&shape) == 1) shape = SHOAL_SCALAR;
    status = shoal_tensor_create(shoal_value_dtype(v), shape, &t);
  }
  int64_t done = 0, count = status ? 0 : shoal_tensor_count(&t);
  while (!status && done < count) {
    const uint8_t *at;
    size_t have, size = (size_t)h.size;
    status = stream_fill(s, MIN_OF((size_t)(count - done) * size, (size_t)1 << 16), &at, &have);
    int64_t n = status ? 0 : MIN_OF((int64_t)(have / size), count - done);
    if (!status && !n)
      status = status_make(SHOAL_ERR_INPUT, "%s ends after %lld of %lld numbers", path, (long long)done,
                           (long long)count);
    for (int64_t i = 0; i < n && !status; i++)
      status = set_element(&t, done + i, npy_element(&h, at, (size_t)i), path);
    if (n) stream_advance(s, (size_t)n * size);
    done += n;
  }
  stream_close(s);
  if (status) {
    shoal_tensor_fini(&t);
    return status;
  }
  *out = t;
  return NULL;
}

static shoal_status read_feed(job *j, const char *word) {
  const char *equals = strchr(word, '=');
  if (!equals || j->n_feeds == MOST)
    return status_make(SHOAL_ERR_ARGUMENT, "'%s': feeds are NAME=FILE.npy or NAME=NUMBER, at most %d", word, MOST);
  char *name = strndup(word, (size_t)(equals - word));
  if (!name) return status_no_memory();
  shoal_feed *f = &j->feeds[j->n_feeds];
  double number;
  shoal_status status = find_value(j->graph, name, &f->value);
  free(name);
  TRY(status);
  for (int i = 0; i < j->n_feeds; i++)
    if (j->feeds[i].value == f->value) return status_make(SHOAL_ERR_ARGUMENT, "'%s' is fed twice", word);
  if (shoal_parse_double(equals + 1, &number)) {
    shoal_tensor t;
    TRY(shoal_tensor_create(shoal_value_dtype(f->value), SHOAL_SCALAR, &t));
    status = set_element(&t, 0, number, word);
    if (status) shoal_tensor_fini(&t);
    TRY(status);
    f->tensor = t;
  } else {
    TRY(read_file(equals + 1, f->value, &f->tensor));
  }
  j->n_feeds++;
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
    if (j->n_fetches == MOST) return status_make(SHOAL_ERR_ARGUMENT, "at most %d values can be fetched", MOST);
    char *equals = strchr(word, '=');
    if (equals) *equals = 0;
    if (equals && !equals[1])
      return status_make(SHOAL_ERR_ARGUMENT, "--fetch %s=: expected the name of a .npy file behind it", word);
    j->files[j->n_fetches] = equals ? equals + 1 : NULL;
    TRY(find_value(j->graph, word, &j->fetches[j->n_fetches]));
    j->n_fetches++;
  }
  return NULL;
}

static void list_values(const char *title, const shoal_graph *g, bool (*shown)(const shoal_graph *g, const node *n)) {
  char shape[SHOAL_SHAPE_TEXT];
  bool any = false;
  for (size_t i = 0; i < g->count; i++) {
    const node *n = g->nodes[i];
    if (!shown(g, n)) continue;
    if (!any) printf("%s\n", title);
    any = true;
    for (int k = 0; k < n->outs; k++) {
      printf(k ? "  %s:%d" : "  %s", n->name, k);
      printf(" %s%s%s%s\n", shoal_dtype_name(n->out[k].dtype), shoal_shape_text(&n->out[k].shape, shape),
             n->device ? "  " : "", n->device ? n->device : "");
    }
  }
}

static bool is_placeholder(const shoal_graph *g, const node *n) {
  (void)g;
  return !strcmp(n->op->name, "placeholder");
}

static bool is_variable(const shoal_graph *g, const node *n) {
  (void)g;
  return n->initial != NULL;
}

/* Nothing in the graph uses it. */
static bool is_result(const shoal_graph *g, const node *n) {
  if (n->op->flags & OP_SOURCE) return false;
  for (size_t i = (size_t)n->id + 1; i < g->count; i++) {
    if (g->nodes[i]->initial && g->nodes[i]->initial->maker == n) return false;
    for (int k = 0; k < g->nodes[i]->ins; k++)
      if (g->nodes[i]->in[k]->maker == n) return false;
  }
  return true;
}

static void print_tensor(const shoal_value *v, const shoal_tensor *t) {
  char shape[SHOAL_SHAPE_TEXT];
  int64_t n = shoal_tensor_count(t);
  printf("%s %s%s", shoal_value_name(v), shoal_dtype_name(t->dtype), shoal_shape_text(&t->shape, shape));
  for (int64_t i = 0; i < n && i < SHOWN; i++) printf(" %.9g", shoal_tensor_get(t, i));
  puts(n > SHOWN ? " ..." : "");
}

/* NumPy's files have a first axis: a scalar is written as one number in a row. Bools are written as bytes. */
static shoal_status write_file(const char *path, const shoal_tensor *t) {
  shoal_shape row = {.rank = t->shape.rank ? t->shape.rank - 1 : 0};
  for (int i = 0; i < row.rank; i++) row.dim[i] = t->shape.dim[i + 1];
  npy_writer *w;
  TRY(npy_writer_open(path, t->dtype == SHOAL_BOOL ? SHOAL_U8 : t->dtype, &row, &w));
  shoal_status status = npy_write(w, t->data, t->shape.rank ? t->shape.dim[0] : 1);
  if (!status) return npy_writer_close(w);
  npy_writer_abandon(w);
  return status;
}

/* ---- running */

static shoal_status run_steps(const run_flags *f, job *j, shoal_session *s) {
  shoal_tensor out[MOST];
  if (f->trace) TRY(shoal_session_trace_begin(s));
  double start = clock_seconds();
  for (int64_t i = 0; i < f->steps; i++)
    TRY(shoal_session_run(s, j->feeds, j->n_feeds, j->fetches, j->n_fetches, out));
  double seconds = clock_seconds() - start;
  if (f->trace) TRY(shoal_session_trace_end(s, f->trace));
  for (int i = 0; i < j->n_fetches; i++) {
    if (!j->files[i]) print_tensor(j->fetches[i], &out[i]);
    if (j->files[i]) TRY(write_file(j->files[i], &out[i]));
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

static shoal_status explain(job *j, const graph_crew *crew) {
  char *words;
  TRY(shoal_placement_explain(j->graph, crew->tasks, crew->n, &words));
  fputs(words, stdout);
  free(words);
  return NULL;
}

static shoal_status run_job(const run_flags *f, job *j) {
  shoal_session *s;
  int tasks = (int)(f->workers + f->ps);
  if (!tasks && !f->cluster) {
    if (f->explain) return status_make(SHOAL_ERR_ARGUMENT, "--explain-placement needs --workers, --ps or --cluster");
    TRY(shoal_session_create(j->graph,
                             &(shoal_session_options){.threads = (int)f->threads, .seed = (uint64_t)f->seed}, &s));
    shoal_status status = run_steps(f, j, s);
    shoal_session_destroy(s);
    return status;
  }
  graph_crew crew;
  int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
  int threads = f->threads ? (int)f->threads : MAX_OF(1, processors / MAX_OF(tasks, 1));
  TRY(f->cluster ? graph_crew_describe(f->cluster, &crew)
                 : graph_crew_start((int)f->ps, (int)f->workers, threads, false, &crew));
  shoal_cluster_options o = {.tasks = crew.tasks,
                             .n_tasks = crew.n,
                             .job = crew.job,
                             .seed = (uint64_t)f->seed,
                             .keys = f->keys,
                             .insecure = f->insecure};
  shoal_status status = f->explain ? explain(j, &crew) : shoal_session_connect(j->graph, &o, &s);
  if (!status && !f->explain) {
    status = run_steps(f, j, s);
    shoal_session_destroy(s);
  }
  char *trouble = status ? graph_crew_trouble(&crew) : NULL;
  if (trouble) fprintf(stderr, "%s\n", trouble);
  free(trouble);
  graph_crew_end(&crew);
  return status;
}

static shoal_status run_graph(const run_flags *f, const flags_parsed *words) {
  job j = {0};
  if (!words->count)
    return status_make(SHOAL_ERR_ARGUMENT, "expected the file of a graph, as shoal_graph_save writes it");
  TRY(shoal_graph_load(words->words[0], &j.graph));
  shoal_status status = NULL;
  for (int i = 1; i < words->count && !status; i++) status = read_feed(&j, words->words[i]);
  if (!status && f->list) {
    list_values("To be fed:", j.graph, is_placeholder);
    list_values("Variables:", j.graph, is_variable);
    list_values("Results, which nothing else uses:", j.graph, is_result);
  }
  if (!status && !f->explain && !f->list) status = read_fetches(&j, f->fetch);
  if (!status && !f->list) status = run_job(f, &j);
  for (int i = 0; i < j.n_feeds; i++) shoal_tensor_fini(&j.feeds[i].tensor);
  free(j.words);
  shoal_graph_destroy(j.graph);
  return status;
}

static int run_run(int argc, char **argv) {
  run_flags f = {.steps = 1, .seed = 1};
  flags_parsed parsed;
  shoal_status status = flags_parse(run_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_run, stdout);
    return EXIT_GOOD;
  }
  if (!status) status = run_graph(&f, &parsed);
  return status ? command_fail(&command_run, status) : EXIT_GOOD;
}

const command command_run = {
    .name = "run",
    .arguments = "GRAPH [NAME=FILE.npy|NUMBER...]",
    .summary = "run any part of a saved graph",
    .details = "GRAPH is a file that shoal_graph_save wrote (TensorFlow's GraphDef with\n"
               "Shoal's operators). What stands behind it is fed: any value by its name, from\n"
               "NumPy's files or as a number. With --workers and --ps the graph runs over\n"
               "local processes, with --cluster over servers that are there already; nodes run\n"
               "where their device says, and a placer decides the rest.\n"
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
    .run = run_run,
};
