#include "cluster/slurm.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_PORT 20000
#define PORTS 30000
#define TASKS_MAX 4096

static int64_t number(const char *name, int64_t otherwise) {
  const char *words = getenv(name);
  int64_t n;
  return words && text_to_int(words, &n) ? n : otherwise;
}

bool slurm_step(void) { return number("SLURM_STEP_NUM_TASKS", 0) > 1 && number("SLURM_PROCID", -1) >= 0; }

typedef struct {
  char **names;
  size_t n, capacity;
} host_list;

static shoal_status add_host(host_list *l, const char *stem, size_t length, const char *number_text) {
  TRY(mem_grow((void **)&l->names, &l->capacity, l->n + 1, sizeof *l->names));
  if (asprintf(&l->names[l->n], "%.*s%s", (int)length, stem, number_text) < 0) return status_no_memory();
  l->n++;
  return NULL;
}

/* "01-03,7" after a stem: stem01, stem02, stem03, stem7. Returns where the bracket closes, or NULL. */
static shoal_status add_range(host_list *l, const char *stem, size_t length, const char *at, const char **end) {
  *end = NULL;
  while (*at && *at != ']') {
    char *rest;
    int width = (int)strspn(at, "0123456789");
    long first = strtol(at, &rest, 10), last = first;
    if (!width) return NULL;
    if (*rest == '-') last = strtol(rest + 1, &rest, 10);
    for (long k = first; k <= last && l->n < TASKS_MAX; k++) {
      char words[32];
      snprintf(words, sizeof words, "%0*ld", width, k);
      TRY(add_host(l, stem, length, words));
    }
    if (*rest == ',') rest++;
    at = rest;
  }
  if (*at == ']') *end = at;
  return NULL;
}

/* "node[01-03,7],login" */
static shoal_status read_hosts(const char *words, host_list *l) {
  const char *at = words;
  while (*at) {
    size_t stem = strcspn(at, "[,");
    const char *end = at + stem;
    if (*end == '[') {
      TRY(add_range(l, at, stem, end + 1, &end));
      if (!end || (end[1] && end[1] != ','))
        return status_make(SHOAL_ERR_INPUT, "SLURM_STEP_NODELIST is '%s', which cannot be read", words);
      end++;
    } else if (stem) {
      TRY(add_host(l, at, stem, ""));
    }
    at = *end ? end + 1 : end;
  }
  return NULL;
}

/* "2(x3),1": whose host each task has, in blocks as srun hands them out. hosts: [tasks] positions in the list. */
static shoal_status read_tasks(const char *words, const host_list *l, int tasks, int *hosts) {
  int task = 0;
  size_t host = 0;
  for (const char *at = words; *at && task < tasks;) {
    char *rest;
    long count = strtol(at, &rest, 10), times = 1;
    if (rest == at || count < 0) break;
    if (!strncmp(rest, "(x", 2)) {
      times = strtol(rest + 2, &rest, 10);
      if (*rest == ')') rest++;
    }
    for (; times > 0 && host < l->n; times--, host++)
      for (long k = 0; k < count && task < tasks; k++) hosts[task++] = (int)host;
    at = *rest == ',' ? rest + 1 : rest;
  }
  if (task == tasks) return NULL;
  return status_make(SHOAL_ERR_INPUT, "SLURM_STEP_TASKS_PER_NODE is '%s' on %zu nodes: that is not %d tasks", words,
                     l->n, tasks);
}

static void add_addresses(text *out, const host_list *l, const int *hosts, int first, int last, int port) {
  for (int i = first; i < last; i++)
    text_add(out, "%s\"%s:%d\"", i > first ? ", " : "", l->n > 1 ? l->names[hosts[i]] : "127.0.0.1", port + i);
}

static shoal_status describe(const host_list *l, const int *hosts, int tasks, int servers, text *out) {
  const int me = (int)number("SLURM_PROCID", 0);
  /* The same for all tasks of a step, and another one for each step. */
  const int port =
      FIRST_PORT + (int)((number("SLURM_JOB_ID", 0) * 97 + number("SLURM_STEP_ID", 0) * TASKS_MAX) % PORTS);
  const char *host = getenv("SLURMD_NODENAME");
  if (me >= tasks) return status_make(SHOAL_ERR_INPUT, "SLURM_PROCID is %d of %d tasks", me, tasks);
  if (host && *host && strcmp(host, l->names[hosts[me]]))
    return status_make(SHOAL_ERR_INPUT,
                       "task %d runs on %s, not on %s, where blocks of tasks would put it: start the step "
                       "with srun --distribution=block",
                       me, host, l->names[hosts[me]]);
  text_add(out, "{\"cluster\": {\"ps\": [");
  add_addresses(out, l, hosts, 0, servers, port);
  text_add(out, "], \"worker\": [");
  add_addresses(out, l, hosts, servers, tasks, port);
  text_add(out, "]}, \"task\": {\"type\": \"%s\", \"index\": %d}}", me < servers ? "ps" : "worker",
           me < servers ? me : me - servers);
  return out->failed ? status_no_memory() : NULL;
}

shoal_status slurm_describe(int servers, char **out) {
  const int tasks = (int)number("SLURM_STEP_NUM_TASKS", 0);
  const char *nodes = getenv("SLURM_STEP_NODELIST"), *layout = getenv("SLURM_STEP_TASKS_PER_NODE");
  if (tasks > TASKS_MAX || servers >= tasks)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "srun has started %d tasks, of which --ps %d are to be servers: at least one must be a worker",
                       tasks, servers);
  if (!nodes || !layout)
    return status_make(SHOAL_ERR_INPUT,
                       "this is a Slurm step, but SLURM_STEP_NODELIST or SLURM_STEP_TASKS_PER_NODE is not "
                       "set");
  host_list l = {0};
  text words = {0};
  int *hosts = calloc((size_t)tasks, sizeof *hosts);
  shoal_status status = hosts ? read_hosts(nodes, &l) : status_no_memory();
  if (!status) status = read_tasks(layout, &l, tasks, hosts);
  if (!status) status = describe(&l, hosts, tasks, servers, &words);
  for (size_t i = 0; i < l.n; i++) free(l.names[i]);
  free(l.names);
  free(hosts);
  if (status)
    text_fini(&words);
  else
    *out = words.data;
  return status;
}
