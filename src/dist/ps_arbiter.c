#include "dist/ps_arbiter.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_MILLISECONDS 25 /* between two questions to a member */
#define SILENT_SECONDS 0.4  /* without an answer a member is silent; it is not before BUSY_TIMES its longest message */
#define BUSY_TIMES 3
#define CONNECT_SECONDS 0.1
#define ANSWER_SECONDS 0.02 /* for the answer to a question, before the other member has its turn */
#define PATIENT_SECONDS 2.0 /* for the first member to come, when a job begins */
#define VIEW_TEXT 256

typedef struct {
  net_client *link; /* NULL: not connected */
  bool asked;       /* a question is without answer */
  double heard;     /* clock: its last answer */
  double again;     /* clock: when to try to connect */
  ps_member member;
} arbiter_member;

/* One server, with a thread of its own. */
typedef struct {
  ps_arbiter *all;
  int index;
  char *file;
  pthread_t thread;
  bool runs;
  ps_view view;
  arbiter_member members[PS_MEMBERS];
  double begun;
  _Atomic int failovers;
  _Atomic double last_heard;
} arbiter_server;

struct ps_arbiter {
  ps_arbiter_options options;
  arbiter_server *servers;
  _Atomic bool stop;
};

/* ---- what is on disk */

static void read_view(arbiter_server *s) {
  char words[VIEW_TEXT] = "";
  FILE *f = fopen(s->file, "re");
  if (!f) return;
  const size_t n = fread(words, 1, sizeof words - 1, f);
  fclose(f);
  words[n] = 0;
  if (!ps_view_read(words, &s->view)) s->view = (ps_view){.primary = -1, .backup = -1};
}

/* Whether the members are on this host: then they end with it, and the disk is for the next life of this process alone. */
static bool all_here(const arbiter_server *s) { return !strncmp(s->all->options.addresses[s->index], "shm:", 4); }

/* Under its name only when it is whole, and on disk where members may outlive this host. */
static bool write_view(const arbiter_server *s, const ps_view *v) {
  text words = {0};
  char *fresh = NULL;
  ps_view_write(v, &words);
  bool good = !words.failed && asprintf(&fresh, "%s.new", s->file) >= 0;
  int fd = good ? open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  good = good && fd >= 0 && write(fd, words.data, words.length) == (ssize_t)words.length &&
         (all_here(s) || !fdatasync(fd));
  if (fd >= 0) close(fd);
  good = good && !rename(fresh, s->file);
  free(fresh);
  text_fini(&words);
  return good;
}

/* ---- members */

static void hang_up(arbiter_member *m) {
  net_client_abandon(m->link);
  m->link = NULL;
  m->asked = false;
}

static void connect_to(arbiter_server *s, int which) {
  arbiter_member *m = &s->members[which];
  const ps_arbiter_options *o = &s->all->options;
  net_options net = o->net;
  net.from = (uint32_t)o->workers;
  net.largest = PS_REPORT_MAX;
  if (clock_seconds() < m->again) return;
  shoal_status status = net_connect(o->addresses[which * o->servers + s->index], &net, CONNECT_SECONDS, &m->link);
  if (!status) return;
  shoal_status_free(status);
  m->link = NULL;
  m->again = clock_seconds() + CONNECT_SECONDS;
}

static void ask(arbiter_server *s, arbiter_member *m, bool quit) {
  int target = -1;
  ps_member known[PS_MEMBERS] = {s->members[0].member, s->members[1].member};
  ps_order order = {.view = s->view, .quit = quit};
  order.fill_life = ps_view_to_fill(&s->view, known, &target);
  order.fill_member = target;
  const net_part part = {&order, sizeof order};
  const net_header h = {.kind = PS_STATUS};
  shoal_status status = net_send(m->link, &h, &part, 1, ANSWER_SECONDS);
  m->asked = !status;
  shoal_status_free(status);
}

static void take_answer(arbiter_member *m, double seconds) {
  net_message got;
  shoal_status status = net_await(m->link, seconds, &got);
  if (status) {
    shoal_status_free(status);
    return;
  }
  if (got.header.kind == PS_STATUS && got.bytes == sizeof m->member.said) {
    memcpy(&m->member.said, got.payload, sizeof m->member.said);
    m->member.heard = true;
    m->heard = clock_seconds();
  }
  m->asked = false;
  net_release_client(m->link, &got);
}

/* *ended: its process, or the connection, is known to have ended. */
static void look_at(arbiter_server *s, int which) {
  arbiter_member *m = &s->members[which];
  if (!m->link) connect_to(s, which);
  if (m->link && !m->asked) ask(s, m, false);
  if (m->link && m->asked) take_answer(m, ANSWER_SECONDS);
  const bool gone = m->link && net_client_gone(m->link);
  const double slack = s->all->options.slack > 0 ? s->all->options.slack : SILENT_SECONDS;
  const double patience = MAX_OF(slack, BUSY_TIMES * m->member.said.busy);
  if (gone) hang_up(m);
  m->member.silent = !m->link || clock_seconds() - m->heard > patience;
}

/* ---- views */

static void decide(arbiter_server *s) {
  const ps_member known[PS_MEMBERS] = {s->members[0].member, s->members[1].member};
  const bool patient = clock_seconds() - s->begun < PATIENT_SECONDS;
  ps_view next;
  if (!ps_view_next(&s->view, known, patient, &next)) return;
  if (!write_view(s, &next)) return; /* nobody is told of what is not on disk: it is tried again */
  if (s->view.term && next.primary == s->view.backup && next.primary_life == s->view.backup_life) {
    s->last_heard = s->members[s->view.primary].heard;
    s->failovers++;
  }
  s->view = next;
  for (int m = 0; m < PS_MEMBERS; m++) /* at once */
    if (s->members[m].link && !s->members[m].asked) ask(s, &s->members[m], false);
}

static void *run(void *context) {
  arbiter_server *s = context;
  while (!s->all->stop) {
    for (int m = 0; m < PS_MEMBERS; m++) look_at(s, m);
    decide(s);
    poll(NULL, 0, ASK_MILLISECONDS);
  }
  return NULL;
}

/* ---- */

static shoal_status begin(ps_arbiter *a, int index) {
  arbiter_server *s = &a->servers[index];
  s->all = a;
  s->index = index;
  s->view = (ps_view){.primary = -1, .backup = -1};
  s->begun = clock_seconds();
  if (asprintf(&s->file, "%s/ps-%d.view", a->options.folder, index) < 0) {
    s->file = NULL;
    return status_no_memory();
  }
  read_view(s);
  const int error = pthread_create(&s->thread, NULL, run, s);
  s->runs = !error;
  return error ? status_errno(error, "cannot start a thread") : NULL;
}

shoal_status ps_arbiter_create(const ps_arbiter_options *options, ps_arbiter **out) {
  ps_arbiter *a = calloc(1, sizeof *a);
  arbiter_server *servers = calloc((size_t)options->servers, sizeof *servers);
  if (!a || !servers) {
    free(a);
    free(servers);
    return status_no_memory();
  }
  a->options = *options;
  a->servers = servers;
  shoal_status status = NULL;
  for (int i = 0; i < options->servers && !status; i++) status = begin(a, i);
  if (status)
    ps_arbiter_destroy(a, false);
  else
    *out = a;
  return status;
}

void ps_arbiter_destroy(ps_arbiter *a, bool over) {
  if (!a) return;
  a->stop = true;
  for (int i = 0; i < a->options.servers; i++) {
    arbiter_server *s = &a->servers[i];
    if (s->runs) pthread_join(s->thread, NULL);
    for (int m = 0; m < PS_MEMBERS; m++) {
      arbiter_member *one = &s->members[m];
      if (over && !one->link) connect_to(s, m); /* it may just have come */
      if (over && one->link) ask(s, one, true);
      if (over && one->link) take_answer(one, CONNECT_SECONDS);
      hang_up(one);
    }
    if (over && s->file) unlink(s->file);
    free(s->file);
  }
  free(a->servers);
  free(a);
}

int ps_arbiter_failovers(ps_arbiter *a, int server, double *last_heard) {
  *last_heard = a->servers[server].last_heard;
  return a->servers[server].failovers;
}
