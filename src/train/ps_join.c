/* How a worker becomes a member of a training with servers: connects, uploads what they are to begin with or takes what they have,
 * and learns where its rows begin. Again after a server was lost. */
#include "train/ps_internal.h"

#include "exec/session.h"
#include "train/ps_move.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

shoal_status ps_may_be_lost(const ps *s, shoal_status status, bool *lost) {
  *lost = status && ps_client_lost(s->client) && shoal_status_code(status) == SHOAL_ERR_PEER &&
          (s->base.recovers || ps_client_fenced(s->client));
  if (!*lost) return status;
  shoal_status_free(status);
  return NULL;
}

static void give_batch(ps *s, int64_t batch) {
  if (batch >= 0) s->next[s->n_next++] = batch;
}

void ps_note_place(ps *s, const ps_answer *a) {
  s->since.place.updates = a->head.updates;
  s->since.place.rows = a->head.rows;
  s->since.place.clock = a->head.ready;
  s->since.place.index = a->head.index;
  s->since.place.epochs = a->head.epochs;
  s->changes = a->head.changes;
  s->over = s->over || a->stopped || a->next == PS_END;
  if (!a->stopped) give_batch(s, a->next);
}

/* Of rounds, whose rows every worker reads: where to begin with them. */
static shoal_status find_round(ps *s, strategy_place *place) {
  int64_t ignored = 0;
  TRY(ps_client_find(s->client, 0, &ignored, &place->marked, s->marked));
  if (*s->marked) place->mark = s->marked;
  return NULL;
}

shoal_status ps_find_mark(ps *s, strategy_place *place) {
  place->mark = NULL;
  if (!s->is_stream || place->next < 0) return NULL;
  if (place->next == s->shard && place->index == s->index + 1) return NULL;
  TRY(ps_client_find(s->client, place->next, &place->index, &place->marked, s->marked));
  if (place->marked) place->mark = s->marked;
  return NULL;
}

int64_t ps_next_batch(ps *s) {
  if (s->over && !s->n_next) return STRATEGY_END;
  if (!s->n_next) return STRATEGY_NOTHING;
  int64_t batch = s->next[0];
  s->n_next--;
  for (int i = 0; i < s->n_next; i++) s->next[i] = s->next[i + 1];
  return batch;
}

/* Batches below it are done, of a training in which so many rows are. In the middle of a round, which is where a training stands
 * whose workers went away, the parts before are. */
static int64_t first_batch(const lease_plan *p, int64_t rows_done) {
  const int64_t position = rows_done % p->rows;
  int64_t first = rows_done / p->rows * lease_plan_epoch_batches(p);
  if (!p->parts) return first + position / p->batch;
  first += position / p->round * p->parts;
  const int64_t next = first + p->parts;
  for (; position % p->round && first < next; first++) {
    const lease_span part = lease_plan_span(p, first);
    if (part.first + part.rows > position) break;
  }
  return first;
}

ps_start ps_plan_start(const ps *s, const strategy_place *place) {
  const strategy_plan *plan = &s->setup->plan;
  const lease_plan *batches = &plan->batches;
  ps_start start = {.counter = s->counter ? *s->counter : 0,
                    .rows_done = place->rows,
                    .batch = batches->batch,
                    .rows = batches->rows,
                    .end = batches->end,
                    .end_step = plan->end_step,
                    .round = batches->round};
  if (batches->rows) start.first = first_batch(batches, place->rows);
  return start;
}

/* Worker 0 uploads all that it has. */
static shoal_status upload(ps *s, const strategy_place *place, ps_answer *answer) {
  const ps_start start = ps_plan_start(s, place);
  if (s->table) TRY(s->base.checkpoint ? ps_table_restore(s->table, s->base.checkpoint) : ps_table_upload(s->table));
  for (int k = 0; k < s->n_values; k++) TRY(ps_client_set(s->client, k, s->values[k]));
  if (s->leaves && s->base.rounds && *s->setup->position)
    TRY(ps_client_mark(s->client, 0, 0, s->setup->position)); /* before the others ask for it */
  return ps_client_start(s->client, place->updates, &start, *s->setup->stream, answer);
}

void ps_take_batches(ps *s, const ps_answer *answer) {
  if (s->table) ps_table_forget(s->table);
  s->n_sent = s->n_next = 0;
  s->over = false;
  ps_note_place(s, answer);
  if (s->in_flight > 1) give_batch(s, answer->head.also);
}

/* Connects to all servers and becomes a member of the training; *lost: a server went away meanwhile. */
static shoal_status join(ps *s, strategy_place *place, bool *lost) {
  ps_answer answer = {0};
  bool under_way = false;
  float *const *parameters = s->n_values ? s->values[0] : NULL;
  TRY(ps_follow(s));
  shoal_status status = ps_client_connect(s->client, &under_way);
  if ((*lost = status && ps_has_moved(s))) {
    shoal_status_free(status);
    return NULL;
  }
  TRY(status);
  const bool uploads = !s->base.worker && !under_way;
  if (uploads && s->moved) TRY(s->setup->restore(s->setup->context, place));
  s->moved = s->moved || !uploads;
  status = uploads ? upload(s, place, &answer) : ps_client_pull(s->client, parameters, &answer);
  TRY(ps_may_be_lost(s, status, lost));
  if (*lost) return NULL;
  shoal_status_free(s->error); /* of the training before */
  s->error = NULL;
  s->is_stream = !s->setup->plan.batches.rows;
  s->in_flight = s->is_stream ? 1 : s->options.terms.in_flight;
  s->shard = STRATEGY_NOTHING;
  s->since = (strategy_outcome){0};
  ps_take_batches(s, &answer);
  if (under_way) s->known_changes = s->changes; /* an earlier life of worker 0 has told of those */
  *place = s->since.place;
  place->next = ps_next_batch(s);
  return ps_may_be_lost(s, s->leaves && s->base.rounds ? find_round(s, place) : ps_find_mark(s, place), lost);
}

/* Servers and the other workers as copies of this process; in a copy that is a worker it returns, too. */
static shoal_status start_tasks(ps *s, shoal_model *m) {
  ps_options *o = &s->options;
  const int servers = o->terms.servers, n = servers + o->terms.workers - 1;
  uint64_t id;
  char names[PS_TASKS_MAX][32];
  const char *list[PS_TASKS_MAX];
  int task;
  if (getrandom(&id, sizeof id, 0) != sizeof id) return status_errno(errno, "no random number for the job's name");
  s->names = calloc((size_t)servers, sizeof *s->names);
  s->addresses = calloc((size_t)servers, sizeof *s->addresses);
  if (!s->names || !s->addresses) return status_no_memory();
  for (int i = 0; i < servers; i++) {
    snprintf(s->names[i], sizeof s->names[i], "shm:/shoal-%016llx-ps-%d", (unsigned long long)id, i);
    s->addresses[i] = s->names[i];
  }
  o->addresses = s->addresses;
  o->task.net.job = id;
  for (int i = 0; i < n; i++) {
    const bool server = i < servers;
    snprintf(names[i], sizeof names[i], "%s/%d", server ? "ps" : "worker", server ? i : i - servers + 1);
    list[i] = names[i];
  }
  TRY(forked_create(list, n, &task, &s->tasks));
  if (task < 0) return NULL;
  if (task < servers) {
    ps_server_result result;
    const ps_server_options server = {.index = task,
                                      .address = o->addresses[task],
                                      .terms = o->terms,
                                      .task = o->task,
                                      .kernels = m->options.kernels};
    shoal_status status = pool_after_fork(m->session->threads, true);
    shoal_session_destroy(m->session); /* so that its memory is not copied when the parent writes to it */
    m->session = NULL;
    forked_end(s->tasks, status ? status : ps_serve(&server, &result));
  }
  s->base.worker = o->worker = task - servers + 1;
  s->base.copy = s->tasks;
  return pool_after_fork(m->session->threads, false);
}

shoal_status ps_explain(ps *s, shoal_status status) {
  return status && s->tasks && !s->base.copy ? forked_explain(s->tasks, status) : status;
}

shoal_status ps_begin(shoal_strategy *base, const strategy_setup *setup, strategy_place *place) {
  ps *s = (ps *)base;
  shoal_model *m = setup->compute->model;
  bool lost = true;
  if (!s->client && s->setup)
    return status_make(SHOAL_ERR_ARGUMENT, "this strategy's training has ended: create another one");
  if (!s->client) {
    s->options.table = m->sparse && m->features > 0;
    if (m->ids) return status_make(SHOAL_ERR_ARGUMENT, "growing ids are in this process: train it without a strategy");
    if (s->options.deterministic) s->options.terms.round = setup->plan.batches.round;
    if (s->options.local) TRY(start_tasks(s, m));
    TRY(ps_open_client(s, m));
  }
  if (!s->setup) {
    s->setup = setup;
    TRY(ps_prepare(s));
  }
  while (lost) TRY(ps_explain(s, join(s, place, &lost)));
  return NULL;
}
