#include "cluster/cluster.h"

#include "base/json_read.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "cluster/slurm.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (1 << 20)

static const char *const role_names[] = {"chief", "worker", "ps", "evaluator"};

const char *cluster_role_name(cluster_role role) { return role_names[role]; }

static shoal_status find_role(const char *name, const char *where, cluster_role *out) {
  for (int i = 0; i < CLUSTER_ROLES; i++)
    if (!strcmp(role_names[i], name)) {
      *out = (cluster_role)i;
      return NULL;
    }
  const char *near = text_nearest(name, role_names, COUNT_OF(role_names));
  return status_make(SHOAL_ERR_ARGUMENT, "%s: unknown role '%s'; expected chief, worker, ps or evaluator%s%s%s", where,
                     name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* HOST:PORT, or an address with its scheme. */
static shoal_status check_address(const char *address, const char *where) {
  if (!strncmp(address, "shm:/", 5) && address[5]) return NULL;
  const bool scheme = !strncmp(address, "tcp://", 6) || !strncmp(address, "zmq://", 6);
  const char *from = scheme ? address + 6 : address, *colon = strrchr(from, ':');
  int64_t port;
  if (strstr(from, "://") || !colon || colon == from || !text_to_int(colon + 1, &port) || port < 1 || port > 65535)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: '%s' is not an address; expected HOST:PORT with a port from 1 to 65535",
                       where, address);
  return NULL;
}

static shoal_status add(cluster *c, cluster_role role, const char *address, const char *where) {
  TRY(check_address(address, where));
  char *full;
  if (asprintf(&full, "%s%s", strstr(address, ":/") ? "" : "tcp://", address) < 0) return status_no_memory();
  for (int r = 0; r < CLUSTER_ROLES; r++)
    for (int i = 0; i < c->counts[r]; i++)
      if (!strcmp(c->addresses[r][i], full)) {
        free(full);
        return status_make(SHOAL_ERR_ARGUMENT, "%s: %s is the address of both %s:%d and %s:%d", where, address,
                           role_names[r], i, role_names[role], c->counts[role]);
      }
  for (const char *p = full; *p; p++) c->id = random_mix(c->id, (uint64_t)(unsigned char)*p);
  c->id = random_mix(c->id, 1000 + (uint64_t)role);
  c->addresses[role][c->counts[role]++] = full;
  return NULL;
}

static shoal_status take_role(cluster *c, const char *name, const json_t *list, const char *where) {
  cluster_role role;
  TRY(find_role(name, where, &role));
  if (!json_is_array(list))
    return status_make(SHOAL_ERR_ARGUMENT, "%s: expected a list of addresses under \"%s\"", where, name);
  c->addresses[role] = calloc(json_array_size(list) + 1, sizeof *c->addresses[role]);
  if (!c->addresses[role]) return status_no_memory();
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *address = json_string_value(json_array_get(list, i));
    if (!address) return status_make(SHOAL_ERR_ARGUMENT, "%s: address %zu of \"%s\" is not a string", where, i, name);
    TRY(add(c, role, address, where));
  }
  return NULL;
}

static shoal_status take_cluster(cluster *c, const json_t *object, const char *where) {
  /* In a fixed order, so that the same cluster has the same number however it is written down. */
  const char *name;
  json_t *list;
  json_object_foreach ((json_t *)object, name, list) {
    cluster_role ignored;
    TRY(find_role(name, where, &ignored));
  }
  for (int r = 0; r < CLUSTER_ROLES; r++)
    if ((list = json_object_get(object, role_names[r]))) TRY(take_role(c, role_names[r], list, where));
  if (c->counts[SHOAL_CHIEF] > 1)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: %d chiefs; at most one is allowed", where, c->counts[SHOAL_CHIEF]);
  if (cluster_workers(c) < 1) return status_make(SHOAL_ERR_ARGUMENT, "%s: the cluster has no worker", where);
  return NULL;
}

static shoal_status take_task(cluster *c, const char *type, int64_t index, const char *where) {
  TRY(find_role(type, where, &c->role));
  int count = c->counts[c->role];
  if (c->role == SHOAL_EVALUATOR && !count) count = 1; /* it may stand outside */
  if (!count)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: this task is %s:%lld, but the cluster has no %s", where, type,
                       (long long)index, type);
  if (index < 0 || index >= count)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: this task is %s:%lld, but the cluster has %s:0 to %s:%d", where, type,
                       (long long)index, type, type, count - 1);
  c->index = (int)index;
  return NULL;
}

static shoal_status parse_task(cluster *c, const json_t *object, const char *where, const char *word) {
  if (word) {
    char type[32];
    const char *colon = strchr(word, ':');
    int64_t index;
    if (!colon || (size_t)(colon - word) >= sizeof type || !text_to_int(colon + 1, &index))
      return status_make(SHOAL_ERR_ARGUMENT, "--task: expected ROLE:INDEX like worker:1, not '%s'", word);
    snprintf(type, sizeof type, "%.*s", (int)(colon - word), word);
    return take_task(c, type, index, "--task");
  }
  const json_t *task = json_object_get(object, "task");
  const char *type = json_string_value(json_object_get(task, "type"));
  const json_t *index = json_object_get(task, "index");
  if (!type || !json_is_integer(index))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: which task is this? Give --task ROLE:INDEX, or \"task\": {\"type\": "
                       "\"worker\", \"index\": 0}",
                       where);
  return take_task(c, type, json_integer_value(index), where);
}

shoal_status cluster_parse(const char *words, const char *where, const char *task, cluster *out) {
  json_error_t error;
  json_t *object = json_read_words(words, JSON_REJECT_DUPLICATES, &error);
  if (!object) return status_make(SHOAL_ERR_ARGUMENT, "%s: line %d: %s", where, error.line, error.text);
  cluster c = {0};
  const json_t *inner = json_object_get(object, "cluster");
  shoal_status status = NULL;
  if (!json_is_object(inner ? inner : object))
    status = status_make(SHOAL_ERR_ARGUMENT, "%s: expected an object with a list of addresses for each role", where);
  if (!status) status = take_cluster(&c, inner ? inner : object, where);
  if (!status) status = parse_task(&c, inner ? object : NULL, where, task);
  json_decref(object);
  if (status) {
    cluster_fini(&c);
    return status;
  }
  *out = c;
  return NULL;
}

void cluster_fini(cluster *c) {
  for (int r = 0; r < CLUSTER_ROLES; r++) {
    for (int i = 0; i < c->counts[r]; i++) free(c->addresses[r][i]);
    free(c->addresses[r]);
  }
  *c = (cluster){0};
}

int cluster_workers(const cluster *c) { return c->counts[SHOAL_CHIEF] + c->counts[SHOAL_WORKER]; }

int cluster_worker(const cluster *c) {
  if (c->role == SHOAL_CHIEF) return 0;
  return c->role == SHOAL_WORKER ? c->counts[SHOAL_CHIEF] + c->index : -1;
}

/* ---- finding a description */

static shoal_status read_text(const char *path, char **out) {
  FILE *f = fopen(path, "re");
  if (!f) return status_errno(errno, "cannot read the cluster description %s", path);
  char *words = calloc(1, FILE_MAX + 1);
  size_t n = words ? fread(words, 1, FILE_MAX, f) : 0;
  fclose(f);
  if (!words) return status_no_memory();
  if (n == FILE_MAX) {
    free(words);
    return status_make(SHOAL_ERR_ARGUMENT, "%s is too large to be a cluster description", path);
  }
  *out = words;
  return NULL;
}

shoal_status cluster_find(const char *file, const char *task, int servers, bool *found, cluster *out) {
  const char *config = getenv("TF_CONFIG"), *where = file ? file : "TF_CONFIG";
  char *words = NULL;
  *found = false;
  if (file) {
    TRY(read_text(file, &words));
  } else if (config && *config) {
    words = strdup(config);
    if (!words) return status_no_memory();
  } else if (servers > 0 && slurm_step()) {
    where = "the Slurm step";
    TRY(slurm_describe(servers, &words));
  } else {
    return NULL;
  }
  shoal_status status = cluster_parse(words, where, task, out);
  free(words);
  *found = !status;
  return status;
}

/* ---- shoal/cluster.h */

/* Takes what `c` holds. */
static shoal_status to_heap(cluster *c, shoal_cluster **out) {
  shoal_cluster *copy = malloc(sizeof *copy);
  if (!copy) {
    cluster_fini(c);
    return status_no_memory();
  }
  *copy = *c;
  *out = copy;
  return NULL;
}

shoal_status shoal_cluster_parse(const char *json, const char *task, shoal_cluster **out) {
  cluster c;
  TRY(cluster_parse(json, "the cluster's description", task, &c));
  return to_heap(&c, out);
}

shoal_status shoal_cluster_read(const char *path, const char *task, shoal_cluster **out) {
  cluster c;
  bool found;
  TRY(cluster_find(path, task, 0, &found, &c));
  return to_heap(&c, out);
}

shoal_status shoal_cluster_find(const char *path, const char *task, int servers, shoal_cluster **out) {
  cluster c;
  bool found;
  TRY(cluster_find(path, task, servers, &found, &c));
  if (!found && task) return status_make(SHOAL_ERR_ARGUMENT, "`task` %s needs `cluster` FILE", task);
  *out = NULL;
  return found ? to_heap(&c, out) : NULL;
}

shoal_status shoal_cluster_from_environment(int servers, shoal_cluster **out) {
  return shoal_cluster_find(NULL, NULL, servers, out);
}

void shoal_cluster_destroy(shoal_cluster *c) {
  if (c) cluster_fini(c);
  free(c);
}

shoal_role shoal_cluster_role(const shoal_cluster *c) { return c->role; }
int shoal_cluster_index(const shoal_cluster *c) { return c->index; }
int shoal_cluster_count(const shoal_cluster *c, shoal_role role) { return c->counts[role]; }
const char *shoal_cluster_address(const shoal_cluster *c, shoal_role role, int index) {
  return index >= 0 && index < c->counts[role] ? c->addresses[role][index] : NULL;
}

uint64_t shoal_cluster_id(const shoal_cluster *c) { return c->id; }

int shoal_cluster_tasks(const shoal_cluster *c) {
  int n = 0;
  for (int r = 0; r < CLUSTER_ROLES; r++) n += c->counts[r];
  return n;
}

cluster_role cluster_role_of(const cluster *c, int task, int *index) {
  int role = 0;
  while (role < CLUSTER_ROLES - 1 && task >= c->counts[role]) task -= c->counts[role++];
  *index = task;
  return (cluster_role)role;
}

int shoal_cluster_task(const shoal_cluster *c) {
  if (c->index >= c->counts[c->role]) return -1; /* an evaluator outside of the cluster */
  int n = c->index;
  for (int r = 0; r < (int)c->role; r++) n += c->counts[r];
  return n;
}

const char *shoal_cluster_task_name(const shoal_cluster *c, int task, char buffer[SHOAL_TASK_NAME]) {
  int index;
  cluster_role role = cluster_role_of(c, task, &index);
  snprintf(buffer, SHOAL_TASK_NAME, "%s:%d", cluster_role_name(role), index);
  return buffer;
}

const char *shoal_cluster_task_address(const shoal_cluster *c, int task) {
  int index;
  cluster_role role = cluster_role_of(c, task, &index);
  return shoal_cluster_address(c, role, index);
}

const char *cluster_worker_name(bool has_chief, int worker, char out[CLUSTER_NAME]) {
  if (has_chief && worker == 0)
    snprintf(out, CLUSTER_NAME, "chief/0");
  else
    snprintf(out, CLUSTER_NAME, "worker/%d", worker - has_chief);
  return out;
}

const char *cluster_worker_address(const cluster *c, int worker) {
  int chiefs = c->counts[SHOAL_CHIEF];
  if (worker < 0 || worker >= cluster_workers(c)) return NULL;
  const char *address =
      worker < chiefs ? c->addresses[SHOAL_CHIEF][worker] : c->addresses[SHOAL_WORKER][worker - chiefs];
  return strncmp(address, "tcp://", 6) ? address : address + 6;
}
