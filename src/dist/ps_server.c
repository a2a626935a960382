#include "dist/ps_server.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "dist/ps_protocol.h"
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#define LOOK_SECONDS 0.2   /* how often the server looks whether it is asked to stop */
#define CLOSING_SECONDS 2.0 /* for the last answers to be read */
#define MOST_SLOTS 8
#define STANDARD_BLOCK ((int64_t)1 << 22) /* elements: 16 MB */
#define MOST_BLOCKS 12 /* each has a plan, and a session keeps 16 */
#define STRIP 1024 /* elements summed at a time: the sums stay in the first cache */

enum { NO_VECTOR = -1, PARAMETERS = 0 };

typedef enum { ABSENT, PRESENT, DONE, GONE } worker_state;

typedef struct {
  worker_state state;
  int64_t steps;    /* gradients that came */
  bool waits;       /* `held` has to be answered ... */
  bool keeps;       /* ... and released */
  net_message held; /* a PUSH (together: with its gradient) or a PULL before START */
  ps_head head;     /* of the held PUSH */
  char *report;     /* NULL: none yet */
} worker;

/* A part of the vector with an update of its own, so that the mean of the gradients needs room for one part only. */
typedef struct {
  int64_t first, count; /* elements */
  shoal_value *gradient, *update;
  float *vectors[1 + MOST_SLOTS]; /* [count] each: parameters, slots; the session's */
} block;

typedef struct {
  const ps_server_options *options;
  net_server *net;
  shoal_graph *graph;
  shoal_session *session;
  shoal_value *rate;
  block *blocks;
  int n_blocks, n_vectors;
  net_part *parts;  /* [1 + n_blocks]: room for an answer */
  int64_t *counter; /* the optimizer's, the session's; NULL: none */
  float *sum;       /* [elements of the largest block], together with several workers */
  worker *workers;
  bool start_asked, started, stopping, quit;
  net_message start_message; /* whom to answer once all are here */
  int64_t round; /* rounds done before START */
  ps_head head;  /* what the last update has come to */
  int64_t first_update;
  double start, last_update, last_message;
  ps_server_result result;
} server;

/* ---- the small graph that updates */

/* Adds block k to the graph: its variable first, then what the optimizer keeps for it. */
static shoal_status build_block(server *s, int k) {
  const ps_server_options *o = s->options;
  block *b = &s->blocks[k];
  shoal_graph *g = s->graph;
  b->first = o->elements * k / s->n_blocks;
  b->count = o->elements * (k + 1) / s->n_blocks - b->first;
  shoal_shape shape = SHOAL_SHAPE(b->count);
  shoal_value *parameters = shoal_variable(g, "parameters", shoal_fill(g, SHOAL_F32, shape, 0));
  b->gradient = shoal_placeholder(g, "gradient", SHOAL_F32, shape);
  TRY(shoal_graph_status(g));
  return o->build(o->optimizer, g, parameters, b->gradient, s->rate, &b->update);
}

/* Finds the memory of the variables that nodes first .. last - 1 of the graph made for block b. */
static shoal_status find_vectors(server *s, block *b, size_t first, size_t last) {
  shoal_shape shape = SHOAL_SHAPE(b->count);
  int n = 0;
  for (size_t i = first; i < last; i++) {
    const node *v = s->graph->nodes[i];
    if (!v->initial) continue;
    shoal_tensor t;
    TRY(shoal_session_variable(s->session, &v->out[0], &t));
    if (t.dtype == SHOAL_I64 && t.shape.rank == 0 && !s->counter)
      s->counter = t.data;
    else if (t.dtype == SHOAL_F32 && shoal_shape_equal(&t.shape, &shape) && n <= MOST_SLOTS)
      b->vectors[n++] = t.data;
    else
      return status_make(SHOAL_ERR_INTERNAL, "the optimizer keeps '%s', which a parameter server cannot hold", v->name);
  }
  s->n_vectors = n;
  return NULL;
}

static shoal_status build(server *s) {
  const ps_server_options *o = s->options;
  int64_t most = o->block > 0 ? o->block : STANDARD_BLOCK;
  s->n_blocks = (int)MIN_OF((o->elements + most - 1) / most, MOST_BLOCKS);
  s->blocks = calloc((size_t)s->n_blocks, sizeof *s->blocks);
  s->parts = calloc((size_t)s->n_blocks + 1, sizeof *s->parts);
  size_t *ends = calloc((size_t)s->n_blocks + 1, sizeof *ends);
  shoal_status status = s->blocks && s->parts && ends ? shoal_graph_create(&s->graph) : status_no_memory();
  if (!status) {
    s->rate = shoal_placeholder(s->graph, "rate", SHOAL_F32, SHOAL_SCALAR);
    ends[0] = s->graph->count;
  }
  for (int k = 0; k < s->n_blocks && !status; k++) {
    status = build_block(s, k);
    ends[k + 1] = s->graph->count;
  }
  shoal_session_options session = {.threads = 1, .kernels = o->kernels};
  if (!status) status = shoal_session_create(s->graph, &session, &s->session);
  for (int k = 0; k < s->n_blocks && !status; k++) status = find_vectors(s, &s->blocks[k], ends[k], ends[k + 1]);
  free(ends);
  return status;
}

/* ---- answers */

/* which: the vector to send along, NO_VECTOR: none. */
static shoal_status answer(server *s, const net_message *m, uint64_t number, int which, uint16_t flags) {
  net_header h = {.kind = m->header.kind,
                  .flags = flags,
                  .from = m->header.from,
                  .generation = m->header.generation,
                  .step = (uint64_t)s->head.updates,
                  .number = number};
  s->head.counter = s->counter ? *s->counter : 0;
  s->head.running = 0;
  for (int w = 0; w < s->options->workers; w++)
    s->head.running += s->workers[w].state == ABSENT || s->workers[w].state == PRESENT;
  int n = 0;
  s->parts[n++] = (net_part){&s->head, sizeof s->head};
  for (int k = 0; k < s->n_blocks && which != NO_VECTOR; k++)
    s->parts[n++] = (net_part){s->blocks[k].vectors[which], (size_t)s->blocks[k].count * sizeof(float)};
  return net_answer(s->net, m->peer, &h, s->parts, n);
}

/* The job cannot go on with this worker; the server can. */
static shoal_status refuse(server *s, const net_message *m, const char *why) {
  net_header h = {.kind = m->header.kind, .flags = PS_REFUSED, .from = m->header.from, .step = m->header.step};
  net_part part = {why, strlen(why)};
  return net_answer(s->net, m->peer, &h, &part, 1);
}

/* Answers what the worker waits for. */
static shoal_status release(server *s, worker *w, uint16_t flags) {
  if (!w->waits) return NULL;
  w->waits = false;
  net_message m = w->held;
  uint64_t number = m.header.kind == PS_PULL ? (uint64_t)s->round : 0;
  shoal_status status = answer(s, &m, number, PARAMETERS, flags);
  if (w->keeps) net_release_server(s->net, &m);
  w->keeps = false;
  return status;
}

static shoal_status release_all(server *s, uint16_t flags) {
  for (int w = 0; w < s->options->workers; w++) TRY(release(s, &s->workers[w], flags));
  return NULL;
}

/* ---- updates */

/* gradient [b->count]: borrowed. */
static shoal_status apply_block(server *s, const block *b, const float *gradient, float rate) {
  shoal_feed feeds[] = {{b->gradient, shoal_tensor_view(SHOAL_F32, SHOAL_SHAPE(b->count), (void *)gradient)},
                        {s->rate, shoal_tensor_view(SHOAL_F32, SHOAL_SCALAR, &rate)}};
  return shoal_session_run(s->session, feeds, 2, &b->update, 1, NULL);
}

static void count_gradient(server *s, int from, const net_message *m) {
  ps_server_result *r = &s->result;
  int64_t behind = MAX_OF(s->head.updates - (int64_t)m->header.step, 0);
  r->gradients[from]++;
  r->examples[from] += (int64_t)m->header.number;
  r->staleness[MIN_OF(behind, PS_STALENESS_MOST - 1)]++;
  r->stalest = MAX_OF(r->stalest, behind);
  r->staleness_sum += (double)behind;
}

static const float *gradient_of(const net_message *m) { return (const float *)(m->payload + sizeof(ps_head)); }

/* The mean over the workers' gradients of a block, in the workers' order. One gradient needs no mean. */
static const float *combine(server *s, const block *b, double examples) {
  const ps_server_options *o = s->options;
  const float *only = NULL;
  int used = 0;
  for (int w = 0; w < o->workers; w++)
    if (s->workers[w].held.header.number) {
      only = gradient_of(&s->workers[w].held) + b->first;
      used++;
    }
  if (used == 1) return only;
  for (int64_t at = 0; at < b->count; at += STRIP) {
    int64_t n = MIN_OF(STRIP, b->count - at);
    float *to = s->sum + at;
    memset(to, 0, (size_t)n * sizeof *to);
    for (int w = 0; w < o->workers; w++) {
      const net_message *m = &s->workers[w].held;
      if (!m->header.number) continue;
      float weight = (float)((double)m->header.number / examples);
      const float *from = gradient_of(m) + b->first + at;
      for (int64_t i = 0; i < n; i++) to[i] += weight * from[i];
    }
  }
  return s->sum;
}

/* One update: by the gradient [elements], or when that is NULL by the mean over those that are held. */
static shoal_status apply(server *s, const float *gradient, double examples) {
  float rate = (float)s->options->rate_at(s->options->optimizer, s->head.updates);
  int64_t count = s->counter ? *s->counter : 0;
  for (int k = 0; k < s->n_blocks; k++) {
    const block *b = &s->blocks[k];
    if (s->counter) *s->counter = count; /* each block's update counts, but it is one */
    TRY(status_wrap(apply_block(s, b, gradient ? gradient + b->first : combine(s, b, examples), rate), "update %lld",
                    (long long)s->head.updates));
  }
  s->head.rate = rate;
  s->head.updates++;
  s->last_update = clock_seconds();
  return NULL;
}

static bool round_is_complete(const server *s) {
  for (int w = 0; w < s->options->workers; w++)
    if (!s->workers[w].waits || s->workers[w].held.header.kind != PS_PUSH) return false;
  return true;
}

/* All gradients of a step are there. */
static shoal_status take_round(server *s) {
  int64_t examples = 0;
  double loss = 0, hits = 0;
  for (int w = 0; w < s->options->workers; w++) {
    worker *k = &s->workers[w];
    examples += (int64_t)k->held.header.number;
    loss += k->head.loss;
    hits += k->head.hits;
    if (k->held.header.number) count_gradient(s, w, &k->held);
  }
  if (!examples) return status_make(SHOAL_ERR_PEER, "step %lld: no worker has any rows", (long long)s->head.updates);
  TRY(apply(s, NULL, (double)examples));
  s->head.loss = loss;
  s->head.hits = hits;
  s->head.examples = examples;
  s->head.all_examples += examples;
  return release_all(s, 0);
}

/* The slowest that still has steps to make. */
static int64_t slowest(const server *s) {
  int64_t least = INT64_MAX;
  for (int w = 0; w < s->options->workers; w++) {
    const worker *k = &s->workers[w];
    if (k->state == ABSENT || k->state == PRESENT) least = MIN_OF(least, k->steps);
  }
  return least;
}

/* Those that no longer run too far ahead go on. */
static shoal_status let_go(server *s) {
  if (s->options->staleness < 0 || s->options->together) return NULL;
  int64_t least = slowest(s);
  for (int w = 0; w < s->options->workers; w++) {
    worker *k = &s->workers[w];
    if (k->waits && k->held.header.kind == PS_PUSH && (least == INT64_MAX || k->steps - least <= s->options->staleness))
      TRY(release(s, k, 0));
  }
  return NULL;
}

/* ---- messages. Each of these takes *m: it is released, or held. */

static shoal_status on_push(server *s, net_message *m, bool *held) {
  const ps_server_options *o = s->options;
  int from = (int)m->header.from;
  worker *w = &s->workers[from];
  if (s->stopping) return answer(s, m, 0, PARAMETERS, PS_STOPPED);
  size_t expected = sizeof(ps_head) + (m->header.number ? (size_t)o->elements * sizeof(float) : 0);
  if (m->bytes != expected) return refuse(s, m, "the gradient does not have the size of the parameters");
  if (!s->started || w->waits || w->state != PRESENT) return refuse(s, m, "a gradient out of turn");
  if (o->together && (int64_t)m->header.step != s->head.updates)
    return refuse(s, m, "a gradient of another step than the one under way");
  memcpy(&w->head, m->payload, sizeof w->head);
  w->steps++;
  if (o->together) {
    w->held = *m;
    w->waits = w->keeps = *held = true;
    return round_is_complete(s) ? take_round(s) : NULL;
  }
  count_gradient(s, from, m);
  TRY(apply(s, gradient_of(m), 0));
  s->head.loss = w->head.loss;
  s->head.hits = w->head.hits;
  s->head.examples = (int64_t)m->header.number;
  s->head.all_examples += (int64_t)m->header.number;
  if (o->staleness < 0) return answer(s, m, 0, PARAMETERS, 0);
  w->held = *m; /* its gradient is used up: only whom to answer counts */
  w->waits = true;
  return let_go(s);
}

/* Nobody gets ahead of those that are still reading their data. */
static shoal_status start_when_all_are_here(server *s) {
  if (!s->start_asked || s->started) return NULL;
  for (int w = 0; w < s->options->workers; w++)
    if (s->workers[w].state == ABSENT) return NULL;
  s->started = true;
  s->start = s->last_update = clock_seconds();
  TRY(answer(s, &s->start_message, 0, NO_VECTOR, 0));
  return release_all(s, 0);
}

static shoal_status on_hello(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  const char *mine = s->options->settings;
  if (w->state != ABSENT) return refuse(s, m, "another task has that worker's place already");
  if (m->bytes != strlen(mine) || memcmp(m->payload, mine, m->bytes)) {
    text why = {0};
    text_add(&why, "its settings are '%.*s', the server's are '%s'", (int)MIN_OF(m->bytes, 400),
             (const char *)m->payload, mine);
    shoal_status status = refuse(s, m, why.failed ? "its settings differ" : why.data);
    text_fini(&why);
    return status;
  }
  w->state = PRESENT;
  TRY(answer(s, m, 0, NO_VECTOR, 0));
  return start_when_all_are_here(s);
}

static shoal_status on_set(server *s, const net_message *m) {
  uint64_t which = m->header.number;
  size_t bytes = (size_t)s->options->elements * sizeof(float);
  if (m->header.from != 0 || s->start_asked)
    return refuse(s, m, "only worker 0 brings parameters, and only before START");
  if (which >= (uint64_t)s->n_vectors || m->bytes != sizeof(ps_head) + bytes)
    return refuse(s, m, "no vector of that number and size is kept");
  for (int k = 0; k < s->n_blocks; k++) {
    const block *b = &s->blocks[k];
    memcpy(b->vectors[which], gradient_of(m) + b->first, (size_t)b->count * sizeof(float));
  }
  return answer(s, m, 0, NO_VECTOR, 0);
}

static shoal_status on_start(server *s, const net_message *m) {
  ps_head head;
  if (m->header.from != 0 || s->start_asked || m->bytes != sizeof head) return refuse(s, m, "START out of turn");
  memcpy(&head, m->payload, sizeof head);
  if (s->counter) *s->counter = head.counter;
  s->round = (int64_t)m->header.step;
  s->head.updates = s->first_update = (int64_t)m->header.number;
  s->start_message = *m;
  s->start_asked = true;
  return start_when_all_are_here(s);
}

static shoal_status on_pull(server *s, net_message *m, bool *held) {
  if (s->started) return answer(s, m, (uint64_t)s->round, PARAMETERS, 0);
  worker *w = &s->workers[m->header.from];
  if (w->waits) return refuse(s, m, "a PULL out of turn");
  w->held = *m;
  w->waits = w->keeps = *held = true;
  return NULL;
}

static shoal_status on_done(server *s, const net_message *m) {
  s->workers[m->header.from].state = DONE;
  TRY(answer(s, m, 0, NO_VECTOR, 0));
  return let_go(s);
}

static shoal_status on_gone(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  bool early = w->state == PRESENT;
  w->state = w->state == ABSENT ? ABSENT : GONE;
  if (!early) return NULL;
  if (w->keeps) net_release_server(s->net, &w->held);
  w->waits = w->keeps = false;
  if (s->options->together || m->header.from == 0)
    return status_make(SHOAL_ERR_PEER, "worker/%u went away after %lld steps", m->header.from, (long long)w->steps);
  return let_go(s);
}

static shoal_status on_report(server *s, const net_message *m) {
  worker *w = &s->workers[m->header.from];
  if (m->bytes > PS_REPORT_MOST) return refuse(s, m, "the report is too long");
  free(w->report);
  w->report = strndup((const char *)m->payload, m->bytes);
  return w->report ? answer(s, m, 0, NO_VECTOR, 0) : status_no_memory();
}

static void complete_result(server *s) {
  s->result.updates = s->head.updates - s->first_update;
  s->result.seconds = s->started ? s->last_update - s->start : 0;
  if (s->net) net_server_stats(s->net, &s->result.net);
}

static shoal_status on_collect(server *s, const net_message *m) {
  const ps_server_options *o = s->options;
  char *own = NULL;
  const char *words = "";
  if (m->header.number < (uint64_t)o->workers && s->workers[m->header.number].report)
    words = s->workers[m->header.number].report;
  if (m->header.number == (uint64_t)o->workers && o->describe) {
    complete_result(s);
    own = o->describe(o->describer, &s->result);
    words = own && strlen(own) <= PS_REPORT_MOST ? own : "";
  }
  net_header h = {.kind = PS_COLLECT, .from = m->header.from};
  net_part part = {words, strlen(words)};
  shoal_status status = net_answer(s->net, m->peer, &h, &part, 1);
  free(own);
  return status;
}

static shoal_status handle(server *s, net_message *m, bool *held) {
  if (m->header.from >= (uint32_t)s->options->workers) {
    if (m->header.kind == NET_GONE) return NULL;
    return refuse(s, m, "the cluster has no such worker");
  }
  if (m->header.kind == NET_GONE) return on_gone(s, m);
  if (m->header.kind != PS_HELLO && s->workers[m->header.from].state == ABSENT)
    return refuse(s, m, "HELLO has to come first");
  switch (m->header.kind) {
    case PS_HELLO: return on_hello(s, m);
    case PS_SET: return on_set(s, m);
    case PS_START: return on_start(s, m);
    case PS_PULL: return on_pull(s, m, held);
    case PS_PUSH: return on_push(s, m, held);
    case PS_GET:
      if (m->header.number >= (uint64_t)s->n_vectors) return refuse(s, m, "no vector of that number is kept");
      return answer(s, m, m->header.number, (int)m->header.number, 0);
    case PS_STOP:
      s->stopping = true;
      TRY(answer(s, m, 0, NO_VECTOR, 0));
      return s->started ? release_all(s, PS_STOPPED) : NULL;
    case PS_DONE: return on_done(s, m);
    case PS_REPORT: return on_report(s, m);
    case PS_COLLECT: return on_collect(s, m);
    case PS_QUIT:
      s->quit = m->header.from == 0;
      return answer(s, m, 0, NO_VECTOR, 0);
    default: return refuse(s, m, "a message of a kind that is not known");
  }
}

/* ---- the whole */

/* "worker/1, worker/2": those whose message would let the job go on. */
static void name_awaited(const server *s, text *out) {
  for (int w = 0; w < s->options->workers; w++) {
    const worker *k = &s->workers[w];
    if ((k->state == ABSENT || k->state == PRESENT) && !k->waits)
      text_add(out, "%sworker/%d", out->length ? ", " : "", w);
  }
}

static shoal_status too_long(const server *s) {
  text names = {0};
  name_awaited(s, &names);
  shoal_status status = status_make(SHOAL_ERR_PEER, "no message in %g s; awaited: %s", s->options->patience,
                                    names.data ? names.data : "QUIT from worker/0");
  text_fini(&names);
  return status;
}

static shoal_status serve(server *s) {
  s->last_message = clock_seconds();
  while (!s->quit) {
    net_message m;
    bool got = false, held = false;
    TRY(net_receive(s->net, LOOK_SECONDS, &m, &got));
    if (!got) {
      if (s->options->stop && __atomic_load_n(s->options->stop, __ATOMIC_RELAXED))
        return status_make(SHOAL_ERR_CANCELLED, "asked to stop");
      if (clock_seconds() - s->last_message > s->options->patience) return too_long(s);
      continue;
    }
    shoal_status status = handle(s, &m, &held);
    if (!held) net_release_server(s->net, &m);
    TRY(status);
    s->last_message = clock_seconds();
  }
  return NULL;
}

/* So that nobody finds the server gone before having read its last answer. */
static void see_off(server *s) {
  double end = clock_seconds() + CLOSING_SECONDS;
  int present = 0;
  for (int w = 0; w < s->options->workers; w++) present += s->workers[w].state == DONE;
  while (present > 0 && clock_seconds() < end) {
    net_message m;
    bool got = false;
    shoal_status status = net_receive(s->net, LOOK_SECONDS, &m, &got);
    if (status) {
      shoal_status_free(status);
      return;
    }
    if (!got) continue;
    if (m.header.kind == NET_GONE && m.header.from < (uint32_t)s->options->workers) {
      present -= s->workers[m.header.from].state == DONE;
      s->workers[m.header.from].state = GONE;
    }
    net_release_server(s->net, &m);
  }
}

static shoal_status set_up(server *s) {
  const ps_server_options *o = s->options;
  size_t workers = (size_t)o->workers;
  s->workers = calloc(workers, sizeof *s->workers);
  s->result.gradients = calloc(workers, sizeof *s->result.gradients);
  s->result.examples = calloc(workers, sizeof *s->result.examples);
  if (!s->workers || !s->result.gradients || !s->result.examples) return status_no_memory();
  TRY(build(s));
  if (o->together && o->workers > 1) {
    int64_t largest = (o->elements + s->n_blocks - 1) / s->n_blocks;
    TRY(mem_aligned((size_t)largest * sizeof(float), (void **)&s->sum));
  }
  net_options net = o->net;
  net.largest = ps_largest((size_t)o->elements, strlen(o->settings));
  return net_listen(o->address, &net, &s->net);
}

shoal_status ps_server_run(const ps_server_options *options, ps_server_result *out) {
  server s = {.options = options};
  shoal_status status = set_up(&s);
  if (!status) status = serve(&s);
  if (!status) see_off(&s);
  complete_result(&s);
  net_server_close(s.net);
  for (int w = 0; s.workers && w < options->workers; w++) free(s.workers[w].report);
  shoal_session_destroy(s.session);
  shoal_graph_destroy(s.graph);
  free(s.workers);
  free(s.sum);
  free(s.blocks);
  free(s.parts);
  if (status) {
    free(s.result.gradients);
    free(s.result.examples);
    return status_wrap(status, "%s (%s)", options->name, options->address);
  }
  *out = s.result;
  return NULL;
}
