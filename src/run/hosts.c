#include "run/hosts.h"

#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "b:2", "user@c", "[::1]:2": a name with a colon is in brackets, as an address of IPv6. */
static shoal_status parse_host(const char *word, size_t length, host_slots *out) {
  char *name = strndup(word, length);
  if (!name) return status_no_memory();
  char *colon = strrchr(name, ':'), *bracket = strrchr(name, ']');
  int64_t slots = 1;
  bool good = true;
  if (colon && colon > bracket) {
    good = text_to_int(colon + 1, &slots) && slots >= 0 && slots <= 1024;
    *colon = 0;
  }
  if (bracket && name[0] == '[') { /* ssh takes the address alone */
    *bracket = 0;
    memmove(name, name + 1, strlen(name));
  }
  if (good && *name && *name != '-' && !strpbrk(name, " \t\n")) {
    *out = (host_slots){name, (int)slots};
    return NULL;
  }
  free(name);
  return status_make(SHOAL_ERR_ARGUMENT, "`hosts`: expected HOST or HOST:SLOTS, not '%.*s'", (int)length, word);
}

shoal_status host_list_parse(const char *words, host_list *out) {
  host_list l = {.hosts = calloc(HOSTS_MAX, sizeof *l.hosts)};
  shoal_status status = l.hosts ? NULL : status_no_memory();
  for (const char *s = words ? words : ""; !status; s++) {
    size_t n = strcspn(s, ",");
    if (l.count == HOSTS_MAX)
      status = status_make(SHOAL_ERR_ARGUMENT, "`hosts`: at most %d are possible", HOSTS_MAX);
    else
      status = parse_host(s, n, &l.hosts[l.count]);
    for (int i = 0; !status && i < l.count; i++)
      if (!strcmp(l.hosts[i].name, l.hosts[l.count].name)) {
        status = status_make(SHOAL_ERR_ARGUMENT, "`hosts`: %s is listed twice; write %s:2 for two workers",
                             l.hosts[i].name, l.hosts[i].name);
        free(l.hosts[l.count].name);
        break;
      }
    if (!status) l.count++;
    s += n;
    if (!*s) break;
  }
  if (status) {
    host_list_fini(&l);
    return status;
  }
  *out = l;
  return NULL;
}

void host_list_fini(host_list *l) {
  for (int i = 0; i < l->count; i++) free(l->hosts[i].name);
  free(l->hosts);
  *l = (host_list){0};
}

static void add(host_task *tasks, int *n, int *ports, const char *role, int index, int host) {
  host_task *t = &tasks[(*n)++];
  *t = (host_task){.role = role, .index = index, .host = host, .port = ports[host]++};
  snprintf(t->name, sizeof t->name, "%s/%d", role, index);
}

/* The host of the i-th server: round those without slots, if there are any. */
static int server_host(const host_list *l, int i) {
  int apart = 0, host = 0;
  for (int k = 0; k < l->count; k++) apart += !l->hosts[k].slots;
  if (!apart) return i % l->count;
  for (i %= apart; l->hosts[host].slots || i--;) host++;
  return host;
}

shoal_status host_list_place(const host_list *l, const shoal_job *job, host_task **out, int *count) {
  int64_t slots = 0;
  for (int i = 0; i < l->count; i++) slots += l->hosts[i].slots;
  const int64_t workers = job->workers ? job->workers : slots;
  const bool ranks = job->strategy && !strcmp(job->strategy, "allreduce");
  const int64_t servers = ranks ? 0 : (job->ps ? job->ps : 1) * (1 + job->replicas);
  if (workers > slots)
    return status_make(SHOAL_ERR_ARGUMENT, "`workers` %lld, but `hosts` has room for %lld: write HOST:SLOTS",
                       (long long)workers, (long long)slots);
  host_task *tasks = calloc((size_t)(workers + servers + 1), sizeof *tasks);
  int *ports = calloc((size_t)l->count, sizeof *ports), n = 0, host = 0, used = 0;
  if (!tasks || !ports) {
    free(tasks);
    free(ports);
    return status_no_memory();
  }
  for (int i = 0; i < (int)servers; i++) add(tasks, &n, ports, "ps", i, server_host(l, i));
  for (int i = 0; i < (int)workers; i++, used++) {
    while (used >= l->hosts[host].slots) host++, used = 0;
    add(tasks, &n, ports, "worker", i, host);
  }
  if (job->evaluator) add(tasks, &n, ports, "evaluator", 0, 0);
  free(ports);
  *out = tasks;
  *count = n;
  return NULL;
}
