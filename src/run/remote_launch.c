/* shoal_launch: a job on several hosts. */
#include "base/build_info.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/options.h"
#include "run/hosts.h"
#include "run/job.h"
#include "run/remote_host.h"
#include "run/settings.h"
#include "shoal/keys.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECT_SECONDS 10.0
#define COPY_SECONDS 120.0   /* more, where a program is copied first */
#define PREPARE_SECONDS 10.0 /* for addresses and ports */
#define CAUSE_SECONDS 1.0    /* between a failure and its report: the cause may come after its effects */
#define END_SECONDS 30.0     /* for the others, once worker 0 has ended */
#define STOP_SECONDS 40.0    /* for a checkpoint */
#define HANG_UP_SECONDS 8.0  /* for agents to end their tasks */
#define LOOK_MS 20

typedef struct {
  shoal_launch_options options;
  const shoal_job *job;
  host_list list;
  remote_host *hosts; /* [list.count] */
  host_task *tasks;
  int n_tasks, chief; /* worker 0's number among the tasks */
  int first_port, last_port;
  bool ranks;                                     /* all-reduce */
  double pinged, stopped_at, chief_at, failed_at; /* clock; 0: not yet */
} launcher;

static bool asked_to_stop(const launcher *l) {
  return l->options.stop && __atomic_load_n(l->options.stop, __ATOMIC_ACQUIRE);
}

static void note(const launcher *l, const char *words) {
  if (l->options.on_note) l->options.on_note(l->options.context, words);
}

static host_task *find_task(launcher *l, const char *name) {
  for (int i = 0; name && i < l->n_tasks; i++)
    if (!strcmp(l->tasks[i].name, name)) return &l->tasks[i];
  return NULL;
}

/* ---- what agents say */

static void take_hello(remote_host *h, const json_t *body) {
  const char *version = json_string_value(json_object_get(body, "version"));
  snprintf(h->version, sizeof h->version, "%s", version ? version : "?");
  if (!strcmp(h->version, shoal_version()) || h->why[0]) return;
  snprintf(h->why, sizeof h->why,
           "it has version %s of Shoal, and this is %s: install the same everywhere, or use `copy`", h->version,
           shoal_version());
}

static void take_ready(remote_host *h, const json_t *body) {
  const char *address = json_string_value(json_object_get(body, "address"));
  const json_t *ports = json_object_get(body, "ports");
  h->n_ports = (int)json_array_size(ports);
  h->ports = calloc((size_t)h->n_ports + 1, sizeof *h->ports);
  h->address = address ? strdup(address) : NULL;
  if (!h->ports || !h->address || h->n_ports != h->tasks) {
    snprintf(h->why, sizeof h->why, "its agent has not said where its tasks listen");
    return;
  }
  for (int i = 0; i < h->n_ports; i++) h->ports[i] = (int)json_integer_value(json_array_get(ports, (size_t)i));
}

static void take_end(launcher *l, const json_t *body) {
  host_task *t = find_task(l, json_string_value(json_object_get(body, "task")));
  if (!t || t->ended) return;
  t->ended = true;
  t->status = (int)json_integer_value(json_object_get(body, "status"));
  if (t == &l->tasks[l->chief]) l->chief_at = clock_seconds();
}

static void take_log(const launcher *l, const remote_host *h, const json_t *body) {
  const char *task = json_string_value(json_object_get(body, "task")),
             *line = json_string_value(json_object_get(body, "line"));
  if (task && line && l->options.on_log) l->options.on_log(l->options.context, task, h->name, line);
}

/* All that has come from all hosts; pings them. Then a little wait. */
static void look(launcher *l) {
  for (int i = 0; i < l->list.count; i++) {
    remote_host *h = &l->hosts[i];
    json_t *message, *body;
    for (remote_host_look(h, &message); message; remote_host_look(h, &message)) {
      if ((body = remote_body(message, "hello"))) take_hello(h, body);
      if ((body = remote_body(message, "ready"))) take_ready(h, body);
      if ((body = remote_body(message, "log"))) take_log(l, h, body);
      if ((body = remote_body(message, "ended"))) take_end(l, body);
      json_decref(message);
    }
  }
  const double now = clock_seconds();
  const bool ping = now - l->pinged > PING_SECONDS;
  if (ping) l->pinged = now;
  for (int i = 0; ping && i < l->list.count; i++)
    if (l->hosts[i].version[0] && l->hosts[i].line.out >= 0) remote_host_send(&l->hosts[i], "ping", json_object());
  poll(NULL, 0, LOOK_MS);
}

/* ---- reaching all of them */

/* Names all hosts with something wrong; NULL: there are none. */
static shoal_status wrong_hosts(const launcher *l) {
  text words = {0};
  for (int i = 0; i < l->list.count; i++)
    if (l->hosts[i].why[0])
      text_add(&words, "%shost %s: %s", words.length ? "; " : "", l->hosts[i].name, l->hosts[i].why);
  if (!words.length) return NULL;
  shoal_status status = words.failed ? status_no_memory() : status_make(SHOAL_ERR_PEER, "%s", words.data);
  text_fini(&words);
  return status;
}

typedef bool host_is(const remote_host *h);
static bool said_hello(const remote_host *h) { return h->version[0]; }
static bool said_ready(const remote_host *h) { return h->address; }

/* Until all hosts are as asked for, or something is wrong with each that is not. */
static shoal_status await(launcher *l, host_is *as, double seconds, const char *what) {
  const double end = clock_seconds() + seconds;
  for (;;) {
    bool all = true;
    look(l);
    for (int i = 0; i < l->list.count; i++) all = all && (as(&l->hosts[i]) || l->hosts[i].why[0]);
    if (all) return wrong_hosts(l);
    if (asked_to_stop(l)) return status_make(SHOAL_ERR_CANCELLED, "stopped before all hosts were there");
    if (clock_seconds() < end) continue;
    for (int i = 0; i < l->list.count; i++)
      if (!as(&l->hosts[i]) && !l->hosts[i].why[0])
        snprintf(l->hosts[i].why, sizeof l->hosts[i].why, "%s within %g s", what, seconds);
  }
}

static shoal_status parse_ports(launcher *l) {
  const char *words = l->options.ports;
  char end;
  if (!words) return NULL;
  if (sscanf(words, "%d-%d%c", &l->first_port, &l->last_port, &end) == 2 && l->first_port > 0 &&
      l->first_port <= l->last_port && l->last_port < 65536)
    return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "`ports`: expected FIRST-LAST, such as 20000-20100, not '%s'", words);
}

static shoal_status reach(launcher *l) {
  for (int i = 0; i < l->list.count; i++)
    TRY(status_wrap(remote_host_start(&l->hosts[i], l->list.hosts[i].name, &l->options), "host %s",
                    l->list.hosts[i].name));
  for (int i = 0; i < l->n_tasks; i++) l->hosts[l->tasks[i].host].tasks++;
  /* ssh gives up a second before, with words of its own. */
  TRY(await(l, said_hello, l->options.connect_seconds + (l->options.copy ? COPY_SECONDS : 0), "no answer through ssh"));
  for (int i = 0; i < l->list.count; i++)
    remote_host_send(&l->hosts[i], "prepare",
                     json_pack("{s:i, s:s?, s:i, s:i}", "tasks", l->hosts[i].tasks, "interface", l->options.interface,
                               "first", l->first_port, "last", l->last_port));
  return await(l, said_ready, PREPARE_SECONDS, "it has not said where its tasks can listen");
}

static bool is_loopback(const char *address) { return !strncmp(address, "127.", 4) || !strcmp(address, "::1"); }

/* A host that was reached through a tunnel or by its own loopback cannot be reached by the others so. */
static shoal_status check_addresses(const launcher *l) {
  const remote_host *local = NULL, *far = NULL;
  for (int i = 0; i < l->list.count; i++) *(is_loopback(l->hosts[i].address) ? &local : &far) = &l->hosts[i];
  if (!local || !far) return NULL;
  return status_make(SHOAL_ERR_PEER,
                     "host %s was reached at %s, where host %s (%s) cannot reach it: say `interface`, or give it by "
                     "another name",
                     local->name, local->address, far->name, far->address);
}

/* ---- starting */

static json_t *cluster_json(const launcher *l) {
  json_t *roles = json_object();
  for (int i = 0; i < l->n_tasks; i++) {
    const host_task *t = &l->tasks[i];
    const remote_host *h = &l->hosts[t->host];
    json_t *list = json_object_get(roles, t->role);
    if (!list) {
      list = json_array();
      json_object_set_new(roles, t->role, list);
    }
    const bool v6 = strchr(h->address, ':');
    json_array_append_new(list, json_sprintf("%s%s%s:%d", v6 ? "[" : "", h->address, v6 ? "]" : "", h->ports[t->port]));
  }
  return json_pack("{s:o}", "cluster", roles);
}

/* "train", the model and the flags that say what was said, but for those that the launch says itself. */
static shoal_status task_words(const launcher *l, const host_task *t, json_t *out) {
  static const char *const own[] = {"workers", "ps", "cluster", "task", "keys", "job-file", "follow-logs"};
  const shoal_job unset = job_unset();
  json_array_append_new(out, json_string("train"));
  json_array_append_new(out, json_string(l->job->model));
  json_array_append_new(out, json_sprintf("--task=%s:%d", t->role, t->index));
  for (const shoal_setting *row = shoal_job_settings(); row->name; row++) {
    bool skip = !setting_is_said(row, l->job, &unset);
    for (size_t i = 0; i < COUNT_OF(own); i++) skip = skip || !strcmp(own[i], row->name);
    if (skip) continue;
    shoal_job own_port = *l->job; /* tasks of one host count on */
    if (own_port.metrics_port) own_port.metrics_port += t->port;
    char *value = setting_to_text(row, &own_port);
    if (!value) return status_no_memory();
    json_array_append_new(out, row->kind == SHOAL_SETTING_BOOL ? json_sprintf("--%s", row->name)
                                                               : json_sprintf("--%s=%s", row->name, value));
    free(value);
  }
  return NULL;
}

static shoal_status read_key(const char *dir, const char *name, json_t *keys) {
  char path[PATH_MAX], words[4096];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "re");
  if (!f) return status_make(SHOAL_ERR_SYSTEM, "cannot read the key %s", path);
  words[fread(words, 1, sizeof words - 1, f)] = 0;
  fclose(f);
  return json_object_set_new(keys, name, json_string(words)) ? status_no_memory() : NULL;
}

/* Keys for this job alone: those of clients, and those of servers. */
static shoal_status make_keys(json_t *clients, json_t *servers) {
  static const char *const names[] = {"server.key", "server.pub", "client.key", "client.pub"};
  char dir[] = "/tmp/shoal-keys-XXXXXX", path[64];
  if (!mkdtemp(dir)) return status_make(SHOAL_ERR_SYSTEM, "cannot create a folder in /tmp for the keys");
  shoal_status status = shoal_keys_make(dir, "server");
  if (!status) status = shoal_keys_make(dir, "client");
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    if (!status) status = read_key(dir, names[i], servers);
    if (!status && i) status = read_key(dir, names[i], clients); /* server.key goes where servers are */
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    unlink(path);
  }
  rmdir(dir);
  return status;
}

static shoal_status start_host(launcher *l, int host, const char *folder, json_t *clients, json_t *servers) {
  json_t *tasks = json_array();
  bool serves = false; /* somebody connects to it: each rank lets in those behind it */
  int workers = 0;
  for (int i = 0; i < l->n_tasks; i++) {
    const host_task *t = &l->tasks[i];
    if (t->host != host) continue;
    json_t *words = json_array();
    shoal_status status = task_words(l, t, words);
    json_array_append_new(
        tasks, json_pack("{s:s, s:o, s:b}", "name", t->name, "argv", words, "worker", !strcmp(t->role, "worker")));
    if (status) {
      json_decref(tasks);
      return status;
    }
    serves = serves || !strcmp(t->role, "ps") || l->ranks;
    workers += !strcmp(t->role, "worker");
  }
  remote_host_send(&l->hosts[host], "start",
                   json_pack("{s:s, s:o, s:O, s:o, s:i}", "folder", folder, "cluster", cluster_json(l), "keys",
                             serves ? servers : clients, "tasks", tasks, "threads", l->job->threads ? 0 : workers));
  return NULL;
}

static void announce(const launcher *l) {
  for (int i = 0; i < l->list.count; i++) {
    text words = {0};
    text_add(&words, "%s (%s):", l->hosts[i].name, l->hosts[i].address);
    for (int k = 0; k < l->n_tasks; k++)
      if (l->tasks[k].host == i) text_add(&words, " %s", l->tasks[k].name);
    if (!words.failed) note(l, words.data);
    text_fini(&words);
  }
}

static shoal_status start(launcher *l) {
  char own[PATH_MAX];
  const char *folder = l->options.folder ? l->options.folder : getcwd(own, sizeof own);
  if (!folder) return status_make(SHOAL_ERR_SYSTEM, "cannot tell the folder this process is in");
  json_t *clients = json_object(), *servers = json_object();
  shoal_status status = l->job->insecure ? NULL : make_keys(clients, servers);
  if (!l->job->quiet) announce(l);
  for (int i = 0; !status && i < l->list.count; i++) status = start_host(l, i, folder, clients, servers);
  json_decref(clients);
  json_decref(servers);
  return status;
}

/* ---- watching */

static bool failed(const host_task *t) { return t->ended && t->status; }

static shoal_status failure_of(const launcher *l, const host_task *t) {
  const char *host = l->hosts[t->host].name;
  if (WIFSIGNALED(t->status))
    return status_make(SHOAL_ERR_PEER, "%s on host %s was killed by signal %d (%s)", t->name, host, WTERMSIG(t->status),
                       strsignal(WTERMSIG(t->status)));
  return status_make(SHOAL_ERR_PEER, "%s on host %s failed with exit status %d; its log above says why", t->name, host,
                     WEXITSTATUS(t->status));
}

/* A lost host first, then who was killed, then who failed by himself: the rest are consequences. */
static shoal_status cause(const launcher *l) {
  TRY(wrong_hosts(l));
  const host_task *first = NULL;
  for (int i = 0; i < l->n_tasks; i++) {
    const host_task *t = &l->tasks[i];
    if (failed(t) && (!first || (WIFSIGNALED(t->status) && !WIFSIGNALED(first->status)))) first = t;
  }
  return first ? failure_of(l, first) : NULL;
}

static bool something_failed(const launcher *l) {
  for (int i = 0; i < l->list.count; i++)
    if (l->hosts[i].why[0]) return true;
  const host_task *chief = &l->tasks[l->chief];
  if (chief->ended) return failed(chief) && !l->stopped_at; /* what comes after its good end takes nothing from it */
  for (int i = 0; i < l->n_tasks; i++)
    if (failed(&l->tasks[i])) return true;
  return false;
}

static bool all_ended(const launcher *l) {
  for (int i = 0; i < l->n_tasks; i++)
    if (!l->tasks[i].ended) return false;
  return true;
}

static shoal_status watch(launcher *l) {
  while (!all_ended(l) || l->failed_at) {
    look(l);
    const double now = clock_seconds();
    if (!l->failed_at && something_failed(l)) l->failed_at = now;
    if (l->failed_at && now - l->failed_at > CAUSE_SECONDS) return cause(l);
    if (!l->stopped_at && asked_to_stop(l)) {
      l->stopped_at = now;
      remote_host_send(&l->hosts[l->tasks[l->chief].host], "stop", json_pack("{s:s}", "task", l->tasks[l->chief].name));
    }
    if (l->chief_at && now - l->chief_at > END_SECONDS) {
      note(l, "some tasks have not ended after worker/0: they are ended");
      return NULL;
    }
    if (l->stopped_at && now - l->stopped_at > STOP_SECONDS)
      return status_make(SHOAL_ERR_PEER, "the job did not end within %g s of being asked to stop", STOP_SECONDS);
  }
  return NULL;
}

/* Agents end their tasks when they are hung up on; what those still say is heard. */
static void end_all(launcher *l) {
  const double end = clock_seconds() + HANG_UP_SECONDS;
  for (int i = 0; i < l->list.count; i++) remote_host_hang_up(&l->hosts[i]);
  for (bool all = false; !all && clock_seconds() < end;) {
    look(l);
    all = true;
    for (int i = 0; i < l->list.count; i++) all = all && (!l->hosts[i].ssh || l->hosts[i].ended);
  }
  for (int i = 0; i < l->list.count; i++) remote_host_fini(&l->hosts[i]);
}

/* ---- the whole */

static shoal_status check_job(const shoal_job *job, const shoal_launch_options *o) {
  if (!o->hosts) return status_make(SHOAL_ERR_ARGUMENT, "`hosts` is missing: which hosts, such as a,b:2");
  if (!job->model) return status_make(SHOAL_ERR_ARGUMENT, "which model?");
  if (job->strategy && strcmp(job->strategy, "ps") && strcmp(job->strategy, "allreduce"))
    return status_make(SHOAL_ERR_ARGUMENT, "`strategy` %s: only ps and allreduce run on several hosts", job->strategy);
  if (job->cluster || job->task)
    return status_make(SHOAL_ERR_ARGUMENT, "`%s` is not for a job that is launched: `hosts` says who takes part",
                       job->cluster ? "cluster" : "task");
  if (job->keys)
    return status_make(SHOAL_ERR_ARGUMENT, "`keys`: a launch makes keys of its own for each job; leave it out");
  return NULL;
}

static shoal_status prepare(launcher *l) {
  TRY(check_job(l->job, &l->options));
  TRY(parse_ports(l));
  l->ranks = l->job->strategy && !strcmp(l->job->strategy, "allreduce");
  if (l->options.connect_seconds <= 0) l->options.connect_seconds = CONNECT_SECONDS;
  TRY(host_list_parse(l->options.hosts, &l->list));
  TRY(host_list_place(&l->list, l->job, &l->tasks, &l->n_tasks));
  while (strcmp(l->tasks[l->chief].name, "worker/0")) l->chief++;
  l->hosts = calloc((size_t)l->list.count, sizeof *l->hosts);
  for (int i = 0; l->hosts && i < l->list.count; i++)
    l->hosts[i] = (remote_host){.errors = -1, .copy = -1, .line = {.in = -1, .out = -1}};
  return l->hosts ? NULL : status_no_memory();
}

static int exit_status_of(const host_task *t) {
  return WIFSIGNALED(t->status) ? 128 + WTERMSIG(t->status) : WEXITSTATUS(t->status);
}

shoal_status shoal_launch(const shoal_job *job, const shoal_launch_options *options, int *exit_status) {
  launcher l = {.job = job};
  TRY(OPTIONS_TAKE(&l.options, options));
  sigset_t pipe_only, before, pending;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_only, &before); /* a lost connection shows where it is written to */
  shoal_status status = prepare(&l);
  if (!status) status = reach(&l);
  if (!status) status = check_addresses(&l);
  if (!status) status = start(&l);
  if (!status) status = watch(&l);
  if (l.hosts) end_all(&l);
  if (!status && l.tasks) *exit_status = exit_status_of(&l.tasks[l.chief]);
  free(l.hosts);
  free(l.tasks);
  host_list_fini(&l.list);
  sigpending(&pending);
  if (sigismember(&pending, SIGPIPE) && !sigismember(&before, SIGPIPE))
    sigtimedwait(&pipe_only, NULL, &(struct timespec){0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}
