/* Steps: who takes part, when one is complete, who computes what next. See ps_server.h and ps_protocol.h. */
#include "dist/ps_server_internal.h"

#include "base/mem.h"

#include <string.h>

#define START_SECONDS 1.0   /* those that are not there by then come later; a first synchronous start waits for all */
#define RETURN_SECONDS 10.0 /* a round waits so long for the part of a worker that went away and may return */
#define IDLE_SECONDS 0.5    /* after which a worker without a shard is answered, for it to ask again */
#define AHEAD 2             /* workers, that are brought nearer while one is looked at */
#define LONGEST_TIMES 3     /* a worker is silent only when it takes so many times its longest step */

static bool pushes(const worker *w) { return w->waits && w->held[0].message.header.kind == PS_PUSH; }
static bool pulls(const worker *w) { return w->waits && w->held[0].message.header.kind == PS_PULL; }
static int64_t version_of(const net_message *m) { return (int64_t)m->header.step; }

int steps_flight(const server *s) { return s->terms.sync || is_stream(s) ? 1 : MAX_OF(s->terms.in_flight, 1); }

/* ---- batches */

static bool is_over(const server *s) {
  if (is_stream(s)) return stream_leases_over(&s->streams) || s->head.updates >= s->plan.end_step;
  return leases_over(&s->leases) || (s->terms.sync && s->head.updates >= s->plan.end_step);
}

_Static_assert(LEASE_NONE == (int)PS_NO_BATCH, "nothing is nothing");

/* The batch for worker w, or the shard of a stream; PS_NO_BATCH or PS_END. */
static int64_t assign(server *s, int w) {
  if (!s->leads) return 0;
  if (is_over(s)) return PS_END;
  if (is_stream(s)) return stream_leases_take(&s->streams, w);
  int64_t batch = leases_free(&s->leases);
  if (batch == LEASE_NONE) return PS_NO_BATCH;
  if (s->terms.sync && lease_plan_epoch(&s->leases.plan, batch) != s->epoch) return PS_NO_BATCH;
  return leases_take(&s->leases, w);
}

/* A second one for who has just joined, if it may have several: as assign, but never PS_END. */
static int64_t assign_also(server *s, int w, int64_t first) {
  return first >= 0 && steps_flight(s) > 1 && s->leads ? leases_take(&s->leases, w) : PS_NO_BATCH;
}

static void give_back(server *s, int w) {
  if (!s->leads || !s->started) return;
  if (is_stream(s)) {
    stream_leases_give_back(&s->streams, w);
    return;
  }
  int64_t batch;
  while ((batch = leases_give_back(&s->leases, w)) != LEASE_NONE)
    s->result.handed_on += lease_plan_rows(&s->leases.plan, batch);
}

/* What a PUSH says that it is of. */
static stream_batch batch_of(const request *r) {
  return (stream_batch){.shard = r->head.shard,
                        .index = r->head.batch,
                        .rows = (int64_t)r->message.header.number,
                        .epochs = r->head.shard_epochs};
}

/* Whether the gradient is to be used: it is not empty, and the server has not had it before. */
static bool is_new(const server *s, const request *r) {
  stream_batch b = batch_of(r);
  return r->message.header.number && (!is_stream(s) || stream_leases_is_new(&s->streams, &b));
}

/* What the worker's PUSH was about is done. */
static void finish(server *s, int w, const request *r) {
  stream_batch b = batch_of(r);
  if (!is_stream(s)) {
    if (s->leads) leases_finish(&s->leases, w);
  } else if (b.shard >= 0 && b.index >= s->streams.shards[b.shard].done) {
    s->result.handed_on += stream_leases_finish(&s->streams, &b);
  }
}

/* The next round takes what is free of one epoch, the earliest. */
static void choose_epoch(server *s) {
  int64_t batch = s->leads && !is_stream(s) ? leases_free(&s->leases) : LEASE_NONE;
  if (batch != LEASE_NONE) s->epoch = lease_plan_epoch(&s->leases.plan, batch);
}

/* ---- answers */

/* Answers the oldest request. */
static shoal_status release(server *s, worker *w, int64_t number, uint16_t flags) {
  int64_t also = pulls(w) ? assign_also(s, (int)(w - s->workers), number) : PS_NO_BATCH;
  request r = w->held[0];
  w->waits--;
  s->n_waits--;
  for (int i = 0; i < w->waits; i++) w->held[i] = w->held[i + 1];
  w->since = s->now;
  shoal_status status = server_answer_held(s, &r, number, also, flags);
  if (r.keeps) net_release_server(s->net, &r.message);
  return status;
}

shoal_status steps_release_all(server *s) {
  uint16_t flags = PS_STOPPED | (s->terms.sync ? PS_LATE : 0); /* async: what is held has been applied */
  for (int w = 0; w < s->terms.workers; w++)
    while (s->workers[w].waits) TRY(release(s, &s->workers[w], PS_END, flags));
  return NULL;
}

/* The slowest member's steps; -1: there is none. */
static int64_t slowest(const server *s) {
  int64_t least = -1;
  for (int w = 0; w < s->terms.workers; w++) {
    const worker *k = &s->workers[w];
    if (k->state == MEMBER && (least < 0 || k->steps < least)) least = k->steps;
  }
  return least;
}

static void note_change(server *s, int index, ps_change_kind kind, int64_t rows) {
  s->changes[s->n_changes++ % PS_CHANGES_MAX] =
      (ps_change){.worker = index, .kind = kind, .step = s->head.updates, .rows = rows};
}

/* told: its steps by the leader's count, for the other servers. */
static void become_member(server *s, worker *w, int64_t told) {
  if (w->state == MEMBER) return;
  const bool joins = w->state == JOINING; /* otherwise it had nothing to do for a while */
  w->steps = MAX_OF(s->leads ? slowest(s) : told, 0);
  server_set_state(s, w, MEMBER);
  w->longest = 0;
  ps_worker_count *count = &s->result.workers[w - s->workers];
  bool late = joins && s->now > s->start;
  if (late) note_change(s, (int)(w - s->workers), count->joins ? PS_REJOINED : PS_JOINED, 0);
  count->joins += joins;
  count->late_joins += late;
}

/* Flags of an answer that gives the worker `number`. */
static uint16_t note_idle(server *s, worker *w, int64_t number) {
  if (number != PS_NO_BATCH || !is_stream(s) || s->terms.sync) return 0;
  server_set_state(s, w, IDLE);
  return PS_IDLE;
}

static shoal_status admit(server *s, worker *w) {
  become_member(s, w, (int64_t)w->held[0].message.header.number);
  int64_t number = assign(s, (int)(w - s->workers));
  return release(s, w, number, note_idle(s, w, number));
}

/* ---- updates */

/* Returns how many updates it is behind. */
static int64_t count_gradient(server *s, int from, const net_message *m) {
  ps_server_result *r = &s->result;
  int64_t behind = MAX_OF(s->head.updates - version_of(m), 0);
  r->workers[from].gradients++;
  r->workers[from].examples += (int64_t)m->header.number;
  r->staleness[MIN_OF(behind, PS_STALENESS_MAX - 1)]++;
  r->stalest = MAX_OF(r->stalest, behind);
  r->staleness_sum += (double)behind;
  return behind;
}

/* loss, hits: sums over `examples` rows of the n gradients. */
static shoal_status apply(server *s, int n, double loss, double hits, int64_t examples) {
  double rate = (float)s->options->rate_at(&s->terms, s->head.updates);
  bool uneven = false;
  shoal_status status =
      s->rows ? sparse_rows_apply(s->rows, s->vectors, s->gradients, n, s->head.updates + 1, rate, &uneven)
              : ps_vectors_apply(s->vectors, s->gradients, n, rate, &uneven);
  TRY(status_wrap(status, "update %lld", (long long)s->head.updates));
  s->head.rate = rate;
  s->head.loss = loss;
  s->head.hits = hits;
  s->head.examples = examples;
  s->head.rows += examples;
  s->head.used = n;
  s->head.updates++;
  s->result.uneven += uneven;
  s->result.updates++;
  s->last_update = s->now;
  s->result.step_busy_seconds = s->result.busy_seconds - s->busy_at_start; /* up to then: not with this message */
  return NULL;
}

/* ---- sync */

/* Whether a part of the round is with nobody, and who had it may come back for it. */
static bool awaits_part(const server *s) {
  int64_t there = 0, wanted = 0;
  if (!s->terms.round || !s->options->task.returns) return false;
  if (s->now - MAX_OF(s->lost, s->start) > RETURN_SECONDS) return false; /* it may also not have come yet */
  for (int w = 0; w < s->terms.workers; w++) {
    const request *r = &s->workers[w].held[0];
    if (!pushes(&s->workers[w])) continue;
    there += (int64_t)r->message.header.number;
    wanted = MAX_OF(wanted, r->head.round_rows);
  }
  return there < wanted;
}

static bool round_is_complete(const server *s) {
  const ps_terms *o = &s->terms;
  int members = 0, waiting = 0, pushed = 0, real = 0, leased = 0, told = 0;
  if (!o->backups && s->n_waits < s->n_members) return false; /* as below, without looking at each */
  for (int w = 0; w < o->workers; w++) {
    const worker *k = &s->workers[w];
    if (k->state == JOINING && !k->waits && !s->leads) return false; /* it will say from which step on it counts */
    if (k->state != MEMBER) continue;
    members++;
    waiting += k->waits;
    leased += s->leads && !is_stream(s) && leases_held(&s->leases, w) != LEASE_NONE;
    if (!pushes(k)) continue;
    pushed++;
    real += k->held[0].message.header.number > 0;
    told = MAX_OF(told, k->held[0].head.used);
  }
  if (!pushed) return false;
  if (waiting == members) return !awaits_part(s); /* otherwise nothing else can come */
  if (!o->backups) return false;
  if (!s->leads) return told && real >= told;
  /* Who has no batch at an epoch's end has come, too: else a worker that stopped with one of the last would be waited for. */
  const int idle = pushed - real;
  return real && pushed >= MIN_OF(leased + idle, o->workers - o->backups);
}

/* Those that wait for a version that is there now. */
static shoal_status admit_waiting(server *s, bool all) {
  for (int w = 0; w < s->terms.workers; w++) {
    worker *k = &s->workers[w];
    if (pulls(k) && (all || version_of(&k->held[0].message) <= s->head.updates)) TRY(admit(s, k));
  }
  return NULL;
}

/* Parts of a round stand in its order, whoever computed which. */
static void sort_parts(server *s, int n) {
  for (int i = 1; i < n; i++)
    for (int k = i; k > 0 && s->gradients[k - 1].first_leaf > s->gradients[k].first_leaf; k--) {
      ps_gradient left = s->gradients[k - 1];
      s->gradients[k - 1] = s->gradients[k];
      s->gradients[k] = left;
    }
}

static shoal_status take_round(server *s) {
  const ps_terms *o = &s->terms;
  int64_t examples = 0, uneven = s->result.uneven;
  bool mixed = false; /* a part was computed with parameters of more than one version */
  double loss = 0, hits = 0;
  int n = 0;
  for (int w = 0; w < o->workers; w++) {
    server_fetch_worker(&s->workers[w] + AHEAD);
    request *r = &s->workers[w].held[0];
    int64_t own = (int64_t)r->message.header.number;
    if (!pushes(&s->workers[w]) || !is_new(s, r)) continue;
    s->gradients[n++] = (ps_gradient){.values = r->gradient,
                                      .examples = own,
                                      .worker = w,
                                      .first_leaf = r->head.first_leaf,
                                      .last_leaf = r->head.last_leaf,
                                      .round_rows = o->round ? r->head.round_rows : 0};
    mixed = mixed || (o->round && r->head.updates != version_of(&r->message));
    examples += own;
    loss += r->head.loss;
    hits += r->head.hits;
    r->behind = count_gradient(s, w, &r->message);
  }
  if (o->round) sort_parts(s, n);
  if (n) TRY(apply(s, n, loss, hits, examples));
  if (mixed) s->result.uneven = uneven + 1;
  for (int w = 0; w < o->workers; w++) {
    if (pushes(&s->workers[w]))
      finish(s, w, &s->workers[w].held[0]);
    else
      give_back(s, w); /* too late for this step */
  }
  choose_epoch(s);
  for (int w = 0; w < o->workers; w++) {
    server_fetch_worker(&s->workers[w] + AHEAD);
    if (pushes(&s->workers[w])) TRY(release(s, &s->workers[w], assign(s, w), 0));
  }
  return admit_waiting(s, false);
}

static bool all_wait(const server *s) {
  if (s->n_waits < s->n_here) return false; /* in sync mode each has one request at most */
  for (int w = 0; w < s->terms.workers; w++) {
    const worker *k = &s->workers[w];
    if (is_here(k) && !k->waits) return false;
  }
  return true;
}

static shoal_status go_on_sync(server *s) {
  while (round_is_complete(s)) TRY(take_round(s));
  /* Those whose gradients these wait for have left. */
  return all_wait(s) ? admit_waiting(s, true) : NULL;
}

/* ---- async */

/* Whether an answer must wait for a batch: there is none now, the worker has no other to go on with, and somebody may
 * still give one back. For a shard it waits in a PULL, and not for long. */
static bool lacks_batch(const server *s, int w) {
  const worker *k = &s->workers[w];
  if (!s->leads) return false;
  if (is_stream(s))
    return pulls(k) && !is_over(s) && !stream_leases_has_free(&s->streams) &&
           s->now - k->held[0].arrived < IDLE_SECONDS;
  return leases_free(&s->leases) == LEASE_NONE && leases_held(&s->leases, w) == LEASE_NONE && !is_over(s);
}

/* Of those that wait, the slowest that may go on; NULL: none. The answer to gradient n lets a worker begin with
 * gradient n + flight, when it has made all before that. */
static worker *next_to_go(server *s) {
  int64_t bound = s->terms.staleness, least = bound < 0 ? 0 : slowest(s);
  worker *best = NULL;
  for (int w = 0; w < s->terms.workers; w++) {
    worker *k = &s->workers[w];
    if (!k->waits || lacks_batch(s, w)) continue;
    if (k->state != MEMBER) return k;
    int64_t made = k->steps - k->waits + steps_flight(s);
    if (bound >= 0 && made - least > bound) continue;
    if (!best || k->steps < best->steps) best = k;
  }
  return best;
}

static shoal_status go_on_async(server *s) {
  worker *w;
  if (s->holds) return NULL;
  while ((w = next_to_go(s))) TRY(admit(s, w));
  return NULL;
}

bool steps_all_in(const server *s) {
  for (int w = 1; w < s->terms.workers && !s->terms.sync; w++) {
    const worker *k = &s->workers[w];
    if (is_stream(s) ? k->state == MEMBER && !k->waits : leases_held(&s->leases, w) != LEASE_NONE) return false;
  }
  return true;
}

shoal_status steps_go_on(server *s) {
  if (!s->started) return NULL;
  if (s->pauses) return server_pause(s);
  return s->terms.sync ? go_on_sync(s) : go_on_async(s);
}

/* Uses the gradient of worker w's newest request. */
static shoal_status apply_one(server *s, int w, request *r) {
  const int64_t examples = (int64_t)r->message.header.number;
  s->gradients[0] = (ps_gradient){.values = r->gradient, .examples = examples, .worker = w};
  if (is_new(s, r)) {
    r->behind = count_gradient(s, w, &r->message);
    TRY(apply(s, 1, r->head.loss, r->head.hits, examples)); /* then only whom to answer counts */
  }
  finish(s, w, r);
  return NULL;
}

shoal_status steps_let_go(server *s) {
  s->holds = false;
  for (int i = 0; i < s->terms.workers; i++) {
    worker *w = &s->workers[i];
    if (!w->waits || !w->held[0].unused) continue;
    TRY(apply_one(s, i, &w->held[0]));
    w->held[0].unused = false;
  }
  return steps_go_on(s);
}

/* ---- what comes in */

/* How many vectors a gradient has; 0: it is of leaves that there are not. */
static int nodes_of(const server *s, const net_message *m) {
  ps_head head;
  if (!m->header.number || !s->terms.round) return m->header.number > 0;
  if (m->bytes < sizeof head) return 0;
  memcpy(&head, m->payload, sizeof head);
  bool good = head.round_rows > 0 && head.round_rows <= s->terms.round && head.first_leaf >= 0 &&
              head.last_leaf > head.first_leaf && head.last_leaf <= tree_leaves(head.round_rows);
  tree_node nodes[TREE_NODES_MAX];
  int n = good ? tree_nodes(head.first_leaf, head.last_leaf, nodes) : 0;
  return n <= ps_nodes_max(s->terms.round, s->terms.workers) ? n : 0;
}

/* NULL: of no format that it may be in. */
static const wire_format *format_of(const server *s, const net_message *m) {
  const wire_format *f = ps_wire_of(m->header.flags);
  return f && f->encode && (s->rows || s->terms.round) ? NULL : f;
}

/* NULL, or what is wrong with a gradient. */
static const char *check_push(const server *s, const net_message *m) {
  const worker *w = &s->workers[m->header.from];
  const wire_format *format = format_of(s, m);
  if (!format) return "a gradient in a format that this server does not take";
  size_t vector = (size_t)format->bytes(w->whole);
  int vectors = nodes_of(s, m);
  if (w->torn) return "the pieces of the gradient do not follow each other";
  if (!m->header.number && w->whole < s->terms.elements) return "pieces of an empty gradient";
  if (m->header.number && !vectors) return "a gradient of leaves that the step does not have";
  if (!s->rows && m->bytes != sizeof(ps_head) + (size_t)vectors * vector)
    return "the gradient does not have the size of the parameters";
  if (!s->started || w->waits >= steps_flight(s) || w->state != MEMBER || pulls(w))
    return "a gradient is not expected now";
  if (s->terms.sync && version_of(m) > s->head.updates) return "a gradient of a step that has not begun";
  if (!m->header.number && !s->terms.sync && !is_stream(s)) return "an empty gradient";
  return NULL;
}

/* The shard that the worker has, and the next batch of it, or one that only another server lacks. Servers that hand out
 * nothing take what comes. */
static bool is_of_shard(const server *s, const net_message *m) {
  ps_head head;
  memcpy(&head, m->payload, sizeof head);
  if (head.shard < 0) return !m->header.number;
  if (head.shard >= s->streams.n || head.batch < 0 || head.shard_epochs < 0) return false;
  if (!s->leads) return true;
  return stream_leases_held(&s->streams, (int)m->header.from) == head.shard &&
         head.batch <= s->streams.shards[head.shard].done;
}

/* Whether it is of the batch that the worker was given. */
static bool is_of_lease(const server *s, const net_message *m) {
  if (is_stream(s)) return is_of_shard(s, m);
  if (!s->leads) return true;
  int64_t batch = leases_held(&s->leases, (int)m->header.from);
  int64_t rows = batch == LEASE_NONE ? 0 : lease_plan_rows(&s->leases.plan, batch);
  return rows == (int64_t)m->header.number;
}

static shoal_status refuse_push(server *s, const net_message *m, const char *why) {
  net_header h = {.kind = PS_PUSH, .flags = PS_REFUSED, .from = m->header.from, .step = m->header.step};
  net_part part = {why, strlen(why)};
  return server_send(s, m->peer, &h, &part, 1);
}

void steps_drop_pieces(const server *s, worker *w) {
  w->whole = s->terms.elements;
  w->torn = false;
}

static shoal_status make_room(const server *s, worker *w) {
  if (w->pieces) return NULL;
  return mem_aligned((size_t)s->terms.elements * sizeof *w->pieces, (void **)&w->pieces);
}

/* So many elements of a gradient, as they came. */
static void unpack(const server *s, const wire_format *f, const uint8_t *from, int64_t count, float *to) {
  if (f->encode)
    ps_copies_decode(s->copies, f, from, count, to);
  else
    memcpy(to, from, (size_t)count * sizeof *to);
}

/* Refusals wait for the PUSH: pieces are not answered. A gradient that is held must not change. */
shoal_status steps_piece(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  const wire_format *f = format_of(s, m);
  const uint64_t first = m->header.step, count = m->header.number, whole = (uint64_t)w->whole;
  bool in_turn =
      s->started && w->state == MEMBER && !s->rows && !s->terms.round && !(s->terms.sync && w->waits) && !s->replica;
  bool fits =
      f && count > 0 && count <= whole && first == whole - count && m->bytes == (size_t)f->bytes((int64_t)count);
  w->torn = w->torn || !in_turn || !fits;
  if (w->torn) return NULL;
  TRY(make_room(s, w));
  unpack(s, f, m->payload, (int64_t)count, w->pieces + first);
  w->whole = (int64_t)first;
  return NULL;
}

/* Finds the gradient of a PUSH; *kept: it does not lie in the message. */
static shoal_status find_gradient(server *s, worker *w, request *r, bool *kept) {
  const net_message *m = &r->message;
  const wire_format *f = ps_wire_of(m->header.flags);
  const uint8_t *rest = m->payload + sizeof(ps_head);
  *kept = m->header.number && (w->whole < s->terms.elements || f->encode);
  r->gradient = (const float *)rest;
  if (!*kept) return NULL;
  TRY(make_room(s, w));
  unpack(s, f, rest, w->whole, w->pieces);
  r->gradient = w->pieces;
  return NULL;
}

shoal_status steps_copy_request(server *s, worker *w, request *r) {
  bool ignored;
  if (w->copy_room < r->message.bytes) {
    free(w->copy);
    w->copy = NULL;
    w->copy_room = 0;
    TRY(mem_aligned(r->message.bytes, (void **)&w->copy));
    w->copy_room = r->message.bytes;
  }
  memcpy(w->copy, r->message.payload, r->message.bytes);
  r->message.payload = w->copy;
  r->message.hold = NULL;
  r->copied = true;
  return find_gradient(s, w, r, &ignored);
}

/* A backup that is filled is given what is held as it came. */
static shoal_status hold_request(server *s, worker *w, request *r, bool *held) {
  bool kept;
  if (s->replays) return steps_copy_request(s, w, r);
  TRY(find_gradient(s, w, r, &kept));
  r->keeps = *held = !kept || s->replica;
  return NULL;
}

/* Field by field: most of it is the head, which need not be zeroed first. */
static void note_push(request *r, const net_message *m, double now, bool unused) {
  r->message = *m;
  memcpy(&r->head, m->payload, sizeof r->head);
  r->gradient = NULL;
  r->arrived = now;
  r->behind = 0;
  r->keeps = r->copied = false;
  r->unused = unused;
}

static shoal_status take_push(server *s, net_message *m, bool *held) {
  const ps_terms *o = &s->terms;
  int from = (int)m->header.from;
  worker *w = &s->workers[from];
  if (s->stopping) return server_answer(s, m, PS_END, PS_PARAMETERS, PS_STOPPED | PS_LATE);
  const char *wrong = check_push(s, m);
  if (!wrong && s->rows) wrong = sparse_rows_ask(s->rows, from, m, nodes_of(s, m));
  if (wrong) return refuse_push(s, m, wrong);
  if (!o->sync) s->result.lead = MAX_OF(s->result.lead, w->steps - slowest(s));
  w->steps++;
  w->longest = MAX_OF(w->longest, s->now - w->since);
  w->since = s->now;
  if (o->sync && version_of(m) < s->head.updates) {
    s->result.workers[from].late += m->header.number > 0;
    give_back(s, from);
    return server_answer(s, m, assign(s, from), PS_PARAMETERS, PS_LATE);
  }
  if (!is_of_lease(s, m)) return refuse_push(s, m, "a gradient of rows that were not assigned to this worker");
  request *r = &w->held[w->waits++];
  s->n_waits++;
  bool kept;
  note_push(r, m, s->now, s->holds);
  if (o->sync || s->holds) {
    TRY(hold_request(s, w, r, held));
  } else {
    TRY(find_gradient(s, w, r, &kept));
    TRY(apply_one(s, from, r));
  }
  return steps_go_on(s);
}

shoal_status steps_push(server *s, net_message *m, bool *held) {
  worker *w = &s->workers[m->header.from];
  shoal_status status = take_push(s, m, held);
  steps_drop_pieces(s, w);
  return status;
}

shoal_status steps_pull(server *s, worker *w) {
  if (!s->started) return steps_begin(s);
  if (s->stopping) return release(s, w, PS_END, PS_STOPPED);
  if (s->terms.sync && !s->pauses && version_of(&w->held[0].message) <= s->head.updates) TRY(admit(s, w));
  return steps_go_on(s); /* others may have waited for it to say where it stands */
}

/* ---- coming and going */

/* Batches go out in the workers' order, whoever came first: the leader waits until all have asked. */
static bool may_begin(const server *s) {
  const ps_terms *o = &s->terms;
  if (!s->start_asked || s->started) return false;
  if (!s->leads) return true;
  bool all = true;
  for (int w = 1; w < o->workers; w++) {
    const worker *k = &s->workers[w];
    if (k->state == ABSENT || (k->state == JOINING && !k->waits)) all = false;
  }
  bool first_sync = o->sync && s->generation == 1;
  double patience = s->continues || (o->round && s->options->task.returns) ? RETURN_SECONDS : START_SECONDS;
  return all || (!first_sync && s->now - s->asked > patience);
}

shoal_status steps_begin(server *s) {
  if (!may_begin(s)) return NULL;
  s->started = true;
  s->start = s->last_update = s->now;
  s->busy_at_start = s->result.busy_seconds;
  choose_epoch(s);
  worker *chief = &s->workers[0];
  if (s->start_peer) {
    net_message m = {.header = {.kind = PS_START, .from = 0}, .peer = s->start_peer};
    become_member(s, chief, 0);
    chief->since = s->now;
    int64_t number = s->stopping ? PS_END : assign(s, 0);
    s->head.also = assign_also(s, 0, number);
    TRY(server_answer(s, &m, number, NO_VECTOR, s->stopping ? PS_STOPPED : note_idle(s, chief, number)));
    s->head.also = PS_NO_BATCH;
    s->start_peer = 0;
  }
  if (s->stopping) return steps_release_all(s);
  /* Whoever asks for a version has it from a training before. */
  return s->terms.sync ? admit_waiting(s, s->leads) : go_on_async(s);
}

shoal_status steps_lose(server *s, worker *w, int why) {
  int index = (int)(w - s->workers);
  bool here = is_here(w);
  int64_t handed_on = s->result.handed_on;
  s->result.workers[index].deaths += here && why;
  server_set_state(s, w, GONE);
  s->lost = s->now;
  w->peer = 0;
  for (int i = 0; i < w->waits; i++)
    if (w->held[i].keeps) net_release_server(s->net, &w->held[i].message);
  s->n_waits -= w->waits;
  w->waits = 0;
  steps_drop_pieces(s, w);
  give_back(s, index);
  if (index == 0) s->pause_peer = 0; /* but it pauses until worker 0 is back: other servers may have taken over */
  if (!s->started && index == 0) {
    s->start_asked = false; /* whoever takes its place says START again: nothing is handed out to one that has gone */
    s->start_peer = 0;
  }
  if (!s->started) return steps_begin(s);
  if (here && why) note_change(s, index, (ps_change_kind)why, s->result.handed_on - handed_on);
  return s->holds && index == 0 ? steps_let_go(s) : steps_go_on(s);
}

void steps_leave(server *s, worker *w) {
  const int index = (int)(w - s->workers);
  const int64_t handed_on = s->result.handed_on;
  const bool early = w->state == MEMBER && s->started && !s->stopping && s->leads && !is_over(s);
  server_set_state(s, w, DONE);
  give_back(s, index);
  if (early) note_change(s, index, PS_LEFT, s->result.handed_on - handed_on);
}

shoal_status steps_find_silent(server *s) {
  double patience = s->options->task.heartbeat;
  bool awaited = false; /* somebody has waited for so long */
  if (patience <= 0 || !s->started) return NULL;
  const bool still = s->now - s->last_update > patience;
  for (int w = 0; w < s->terms.workers; w++) {
    const worker *k = &s->workers[w];
    const bool asks = k->state == IDLE || (w == 0 && k->state == DONE); /* again and again */
    if ((asks && still) || (k->waits && s->now - k->heard > patience)) awaited = true;
  }
  for (int w = 1; w < s->terms.workers && awaited; w++) {
    worker *k = &s->workers[w];
    bool computes = k->state == MEMBER && !k->waits && k->longest > 0;
    bool joins = (k->state == JOINING || k->state == IDLE) && !k->waits;
    double most = MAX_OF(patience, LONGEST_TIMES * k->longest);
    if ((computes || joins) && s->now - k->heard > most) TRY(steps_lose(s, k, PS_SILENT));
  }
  return NULL;
}
