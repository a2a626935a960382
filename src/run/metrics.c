#include "run/metrics.h"

#include "base/json_text.h"
#include "base/text.h"
#include "run/evaluation_files.h"
#include "run/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DIGITS 13 /* of numbers: milliseconds of today, and more than a float has */

/* ---- the file */

shoal_status metrics_repair(const char *path) {
  FILE *f = fopen(path, "a+e");
  if (!f) return status_errno(errno, "cannot write %s", path);
  rewind(f);
  long end = 0, at = 0;
  for (int c; (c = getc(f)) != EOF;) {
    at++;
    if (c == '\n') end = at;
  }
  shoal_status status = NULL;
  if (end < at && ftruncate(fileno(f), end)) status = status_errno(errno, "cannot shorten %s to its whole lines", path);
  fclose(f);
  return status;
}

static bool is_chief(const metrics_options *o) { return !strcmp(o->role, "worker") && o->index == 0; }

static shoal_status open_files(metrics *m) {
  const metrics_options *o = &m->options;
  char *path, *own;
  if (asprintf(&path, "%s/metrics.jsonl", o->folder) < 0) return status_no_memory();
  m->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  shoal_status status = m->fd < 0 ? status_errno(errno, "cannot write %s", path) : NULL;
  free(path);
  TRY(status);
  if (is_chief(o)) return event_file_open(o->folder, &m->events);
  if (asprintf(&own, "%s/%s-%d", o->folder, o->role, o->index) < 0) return status_no_memory();
  status = event_file_open(own, &m->events);
  free(own);
  return status;
}

/* The token is no setting: those are kept in files. */
shoal_status metrics_serve(int port, const char *address, const char *task, exporter **out) {
  const char *token = getenv("SHOAL_METRICS_TOKEN");
  if (!port) return NULL;
  return exporter_create(
      &(exporter_options){.address = address, .port = port, .token = token && *token ? token : NULL, .task = task},
      out);
}

shoal_status metrics_open(metrics *m, const metrics_options *options) {
  *m = (metrics){.fd = -1, .options = *options};
  pthread_mutex_init(&m->lock, NULL);
  snprintf(m->task, sizeof m->task, "%s/%d", options->role, options->index);
  if (options->task) snprintf(m->task, sizeof m->task, "%s", options->task);
  m->options.task = m->task;
  shoal_status status = metrics_serve(options->metrics_port, options->metrics_address, m->task, &m->exporter);
  if (!status && !options->folder) {
    m->kept = json_array();
    if (!m->kept) status = status_no_memory();
  } else if (!status) {
    m->folder = strdup(options->folder);
    status = m->folder ? open_files(m) : status_no_memory();
  }
  if (status) metrics_close(m);
  return status;
}

void metrics_close(metrics *m) {
  if (!m->options.role) return;
  sampler_destroy(m->sampler);
  exporter_destroy(m->exporter);
  metrics_end(m, false, false);
  tracking_destroy(m->tracking);
  event_file_close(m->events);
  event_file_close(m->tests);
  if (m->fd >= 0) close(m->fd);
  free(m->folder);
  json_decref(m->kept);
  pthread_mutex_destroy(&m->lock);
  *m = (metrics){0};
}

/* Takes `status` of an event file. */
static bool is_good(metrics *m, shoal_status status) {
  if (!status) return true;
  shoal_status_free(status);
  return !__atomic_exchange_n(&m->failed, true, __ATOMIC_RELAXED) ? false : true;
}

bool metrics_line(metrics *m, const json_t *line) {
  if (m->fd < 0 || __atomic_load_n(&m->failed, __ATOMIC_RELAXED)) return true;
  char *words = line ? json_words(line, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) : NULL;
  bool good = false;
  if (words) {
    size_t length = strlen(words);
    words[length++] = '\n'; /* in place of the end */
    good = write(m->fd, words, length) == (ssize_t)length;
    free(words);
  }
  return good || __atomic_exchange_n(&m->failed, true, __ATOMIC_RELAXED);
}

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

typedef struct {
  const char *key;
  double value;
} pair;

static void add_numbers(json_t *o, const pair *pairs, size_t n) {
  for (size_t i = 0; i < n; i++) json_object_set_new(o, pairs[i].key, number(pairs[i].value));
}
#define ADD_NUMBERS(o, pairs) add_numbers(o, pairs, sizeof pairs / sizeof *pairs)

static json_t *new_line(const metrics *m, const char *kind) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return json_pack("{s:s, s:f, s:s}", "kind", kind, "time", (double)t.tv_sec + 1e-9 * (double)t.tv_nsec, "task",
                   m->task);
}

/* Takes `line`. */
static bool add_line(metrics *m, json_t *line) {
  bool good = metrics_line(m, line);
  json_decref(line);
  return good;
}

/* The same, also for the services. */
static bool add_progress(metrics *m, json_t *line) {
  if (line) tracking_add(m->tracking, line);
  return add_line(m, line);
}

char *metrics_failure(metrics *m) { return tracking_failure(m->tracking); }

void metrics_end(metrics *m, bool finished, bool stopped) { tracking_end(m->tracking, finished, stopped); }

/* ---- training */

static event_file *tests_of(metrics *m) {
  if (m->tests || !m->folder) return m->tests;
  char *folder;
  if (asprintf(&folder, "%s/eval", m->folder) < 0) return NULL;
  if (!is_good(m, event_file_open(folder, &m->tests))) m->tests = NULL;
  free(folder);
  return m->tests;
}

/* ---- for those who ask over HTTP */

static void export_progress(metrics *m, const shoal_progress *p, const net_stats *net, double speed) {
  openmetrics_values *v = exporter_lock(m->exporter);
  if (!v) return;
  v->step = (double)p->step;
  v->examples = (double)p->examples;
  v->epoch = (double)p->epoch;
  v->loss = p->loss;
  v->accuracy = p->accuracy;
  v->rate = p->rate;
  if (isfinite(speed)) v->examples_per_second = speed;
  v->staleness = p->staleness;
  v->compute = p->times.compute;
  v->network = p->times.network;
  v->barrier = p->times.barrier;
  v->server = p->times.server;
  v->input = p->times.input;
  if (net) {
    v->sent = (double)net->sent_bytes;
    v->received = (double)net->received_bytes;
  }
  exporter_unlock(m->exporter);
  exporter_set_ready(m->exporter, true);
}

static void export_test(metrics *m, const shoal_evaluation *e) {
  openmetrics_values *v = exporter_lock(m->exporter);
  if (!v) return;
  v->test_loss = e->loss;
  v->test_accuracy = e->accuracy;
  exporter_unlock(m->exporter);
}

void metrics_serving(metrics *m, const ps_server_result *so_far, int workers) {
  openmetrics_values *v = exporter_lock(m->exporter);
  if (!v) return;
  v->updates = (double)so_far->updates;
  v->gradients = 0;
  for (int i = 0; i < workers && so_far->workers; i++) v->gradients += (double)so_far->workers[i].gradients;
  v->handed_on = (double)so_far->handed_on;
  v->refused = (double)so_far->net.refused;
  v->busy = so_far->busy_seconds;
  v->sent = (double)so_far->net.sent_bytes;
  v->received = (double)so_far->net.received_bytes;
  v->has_staleness = true;
  memcpy(v->by_staleness, so_far->staleness, sizeof v->by_staleness);
  v->staleness_sum = so_far->staleness_sum;
  exporter_unlock(m->exporter);
  exporter_set_ready(m->exporter, true);
}

bool metrics_add(metrics *m, const char *kind, const shoal_progress *p, const net_stats *net) {
  if (!m->options.role) return true;
  sampler_note(m->sampler, net ? (int64_t)net->sent_bytes : 0, net ? (int64_t)net->received_bytes : 0, &p->times);
  __atomic_store_n(&m->step, p->step, __ATOMIC_RELAXED);
  double seconds = p->examples_seconds - m->last_made, own_seconds = p->seconds - m->last_seconds;
  bool rates = seconds > 0 && !m->options.resumed, good = true;
  if (m->options.resumed) {
    good = is_good(m, event_file_resumed(m->events, p->step));
    m->options.resumed = false;
    m->last_step = p->step;
  }
  double speed = rates ? (double)(p->examples - m->last_examples) / seconds : NAN;
  double steps = rates ? (double)(p->step - m->last_step) / seconds : NAN;
  double waiting = rates && own_seconds > 0 ? (p->times.input - m->last_input) / own_seconds : NAN;
  bool epoch = !strcmp(kind, "epoch");
  export_progress(m, p, net, speed);
  json_t *o = new_line(m, kind);
  json_object_set_new(o, "step", json_integer(p->step));
  json_object_set_new(o, "epoch", json_integer(p->epoch));
  json_object_set_new(o, "examples", json_integer(p->examples));
  const pair numbers[] = {{"loss", p->loss},
                          {"accuracy", p->accuracy},
                          {"examples_per_second", speed},
                          {"steps_per_second", steps},
                          {"seconds", p->seconds},
                          {"rate", p->rate},
                          {"input_wait_seconds", p->times.input},
                          {"staleness", p->staleness}};
  ADD_NUMBERS(o, numbers);
  const pair held_out[] = {{"validation_loss", p->validation_loss}, {"validation_accuracy", p->validation_accuracy}};
  if (epoch) ADD_NUMBERS(o, held_out);
  good &= add_progress(m, o);
  /* An epoch's means stand in a place of their own: its last step has its own loss. */
  const event_scalar all[] = {{epoch ? "epoch/loss" : "loss", p->loss},
                              {epoch ? "epoch/accuracy" : "accuracy", p->accuracy},
                              {"learning_rate", p->rate},
                              {"examples_per_second", speed},
                              {"global_steps_per_second", steps},
                              {"input_wait_share", waiting},
                              {"staleness", p->staleness}};
  good &= is_good(m, event_file_scalars(m->events, p->step, all, epoch ? 2 : (int)(sizeof all / sizeof *all)));
  const event_scalar test[] = {{"loss", p->validation_loss}, {"accuracy", p->validation_accuracy}};
  if (epoch && isfinite(p->validation_loss)) good &= is_good(m, event_file_scalars(tests_of(m), p->step, test, 2));
  if (rates) {
    m->last_examples = p->examples;
    m->last_step = p->step;
    m->last_seconds = p->seconds;
    m->last_made = p->examples_seconds;
    m->last_input = p->times.input;
  }
  return good;
}

bool metrics_test(metrics *m, int64_t step, const shoal_evaluation *e) {
  if (!m->options.role) return true;
  export_test(m, e);
  json_t *o = new_line(m, "eval");
  json_object_set_new(o, "split", json_string("test"));
  json_object_set_new(o, "step", json_integer(step));
  json_object_set_new(o, "examples", json_integer(e->examples));
  const pair seconds[] = {{"seconds", e->seconds}};
  ADD_NUMBERS(o, seconds);
  evaluation_to_json(o, "", e);
  bool good = add_progress(m, o);
  if (!is_chief(&m->options)) return good; /* several would write to one folder */
  return good & is_good(m, evaluation_to_events(tests_of(m), step, e));
}

bool metrics_inspect(metrics *m, const shoal_inspection *i) {
  bool good = true;
  for (int k = 0; k < i->count && m->events; k++) {
    static const char *const what[] = {"weights", "gradients"};
    const shoal_tensor *tensors[] = {&i->weights[k], &i->gradients[k]};
    for (int j = 0; j < 2; j++) {
      char *tag;
      if (!tensors[j]->data || tensors[j]->dtype != SHOAL_F32) continue;
      if (asprintf(&tag, "%s/%s", what[j], i->names[k]) < 0) return good;
      good &= is_good(m, event_file_histogram(m->events, i->step, tag, tensors[j]));
      free(tag);
    }
  }
  return good;
}

/* ---- what the run is */

/* Settings as a table in Markdown. */
static shoal_status add_settings(metrics *m, const char *model, const json_t *settings) {
  text words = {0};
  text_add(&words, "| setting | value |\n|---|---|\n| model | %s |\n", model);
  const char *key;
  json_t *value;
  json_object_foreach ((json_t *)settings, key, value) {
    if (json_is_null(value)) continue;
    char *shown = json_is_string(value) ? strdup(json_string_value(value)) : json_words(value, JSON_ENCODE_ANY);
    text_add(&words, "| %s | %s |\n", key, shown ? shown : "");
    free(shown);
  }
  shoal_status status = words.failed ? status_no_memory() : event_file_text(m->events, "settings", words.data);
  text_fini(&words);
  return status;
}

shoal_status metrics_describe(metrics *m, const char *model, const shoal_graph *g, const graph_export_options *options,
                              const char *picture, const json_t *settings) {
  if (!m->folder) return NULL;
  if (m->options.sinks) TRY(tracking_open(m->options.sinks, m->folder, model, settings, &m->tracking));
  proto def = {0};
  json_t *drawn = NULL;
  char *path = NULL;
  shoal_status status = graph_export_def(g, options, &def);
  if (!status) status = event_file_graph(m->events, def.bytes, def.length);
  if (!status) status = add_settings(m, model, settings);
  if (!status) status = graph_export_json(g, model, options, &drawn);
  if (!status && picture && json_object_set_new(drawn, "picture", json_string(picture))) status = status_no_memory();
  if (!status && asprintf(&path, "%s/graph.json", m->folder) < 0) {
    path = NULL;
    status = status_no_memory();
  }
  if (!status) status = json_write_atomically(drawn, path);
  free(path);
  json_decref(drawn);
  proto_fini(&def);
  return status;
}

/* ---- samples */

/* Takes `line`: to the file, or kept; the oldest and the newest of what is kept stay. */
static void add_sample(metrics *m, json_t *line) {
  if (m->folder) {
    add_line(m, line);
    return;
  }
  pthread_mutex_lock(&m->lock);
  json_array_append_new(m->kept, line);
  if (json_array_size(m->kept) > METRICS_KEPT_MAX)
    for (size_t i = json_array_size(m->kept) / 2; i > 0; i--) json_array_remove(m->kept, 2 * i - 1);
  pthread_mutex_unlock(&m->lock);
}

static void on_task(void *context, const sampler_task *s) {
  metrics *m = context;
  json_t *o = new_line(m, "task");
  const pair numbers[] = {{"seconds", s->seconds},
                          {"interval", s->interval},
                          {"cpu_percent", s->user_percent + s->system_percent},
                          {"cpu_user_percent", s->user_percent},
                          {"cpu_system_percent", s->system_percent},
                          {"net_sent_bytes_per_second", s->net_sent},
                          {"net_received_bytes_per_second", s->net_received},
                          {"disk_read_bytes_per_second", s->disk_read},
                          {"disk_written_bytes_per_second", s->disk_written}};
  const pair times[] = {{"compute_seconds", s->times.compute},
                        {"network_seconds", s->times.network},
                        {"barrier_seconds", s->times.barrier},
                        {"server_seconds", s->times.server},
                        {"input_seconds", s->times.input}};
  ADD_NUMBERS(o, numbers);
  json_object_set_new(o, "rss_bytes", json_integer(s->rss_bytes));
  json_object_set_new(o, "threads", json_integer(s->threads));
  if (!strcmp(m->options.role, "worker")) ADD_NUMBERS(o, times);
  add_sample(m, o);
  const event_scalar all[] = {{"resources/cpu_percent", s->user_percent + s->system_percent},
                              {"resources/memory_megabytes", (double)s->rss_bytes / 1e6},
                              {"resources/net_sent_megabytes_per_second", s->net_sent / 1e6},
                              {"resources/net_received_megabytes_per_second", s->net_received / 1e6},
                              {"resources/disk_read_megabytes_per_second", s->disk_read / 1e6},
                              {"resources/disk_written_megabytes_per_second", s->disk_written / 1e6}};
  /* A server counts no steps: its samples stand at whole seconds. */
  int64_t step = __atomic_load_n(&m->step, __ATOMIC_RELAXED);
  if (strcmp(m->options.role, "worker")) step = (int64_t)(s->seconds + 0.5);
  is_good(m, event_file_scalars(m->events, step, all, (int)(sizeof all / sizeof *all)));
}

static void on_host(void *context, const sampler_host *s) {
  metrics *m = context;
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  json_t *o = new_line(m, "host"), *cores = json_array(), *interfaces = json_object();
  json_object_set_new(o, "host", json_string(name));
  const pair numbers[] = {{"interval", s->interval},
                          {"cpu_user_percent", s->user_percent},
                          {"cpu_system_percent", s->system_percent},
                          {"cpu_idle_percent", s->idle_percent},
                          {"disk_read_bytes_per_second", s->disk_read},
                          {"disk_written_bytes_per_second", s->disk_written}};
  ADD_NUMBERS(o, numbers);
  json_object_set_new(o, "memory_used_bytes", json_integer(s->memory_used_bytes));
  json_object_set_new(o, "memory_free_bytes", json_integer(s->memory_free_bytes));
  for (int i = 0; i < s->n_cores; i++)
    json_array_append_new(cores, json_pack("[f, f]", s->cores[i][0], s->cores[i][1]));
  for (int i = 0; i < s->n_interfaces; i++)
    json_object_set_new(interfaces, s->interfaces[i].name,
                        json_pack("[f, f]", s->interfaces[i].sent, s->interfaces[i].received));
  json_object_set_new(o, "cores", cores);
  json_object_set_new(o, "interfaces", interfaces);
  add_sample(m, o);
}

shoal_status metrics_start_sampling(metrics *m) {
  return sampler_start(
      &(sampler_options){
          .every = m->options.every, .host = m->options.host, .context = m, .on_task = on_task, .on_host = on_host},
      &m->sampler);
}

void metrics_stop_sampling(metrics *m) { sampler_stop(m->sampler); }
