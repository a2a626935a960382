/* Runs conditions and loops.
 *
 *  1. A sub-graph's values are fed from, and copied to, the node's own: what a plan's memory holds is used up before it
 *     runs again.
 *  2. The gradient of a loop runs the loop once more, keeps the loop variables as they were before each round, and goes
 *     back over them. This memory is the only one that a run may allocate: how many rounds there will be is not known
 *     before. It is kept for the next run.
 *  3. Random operators draw new numbers in each round, and the same ones when the gradient runs it again. */
#include "exec/control.h"

#include "base/mem.h"
#include "base/random.h"
#include "graph/ops/control.h"

#include <string.h>

enum { PARTS_MAX = 3 };

typedef struct {
  shoal_session session; /* of a sub-graph: no variables, the threads of the plan around it */
  plan *plan;
  shoal_feed *feeds;     /* [n_params] */
  shoal_tensor *results; /* [n_results] */
  int n_params, n_results;
  char *aside; /* room for all results, see set_aside */
} sub_plan;

struct control {
  sub_plan parts[PARTS_MAX];
  size_t row_bytes; /* of the loop variables of one round */
  char *history;    /* [history_rows * row_bytes] */
  size_t history_rows;
  mem_budget *budget;  /* of the session */
  size_t charged;      /* to it, for the history */
  shoal_tensor *state; /* [vars] loop variables, or gradients on their way back */
  int n_state;
};

/* Each tensor of a round begins at a multiple of MEM_ALIGN. */
static size_t aligned_bytes(size_t bytes) { return mem_round_up(bytes, MEM_ALIGN); }

static void sub_fini(sub_plan *s) {
  plan_destroy(s->plan);
  free(s->feeds);
  free(s->results);
  free(s->aside);
}

void control_destroy(struct control *c) {
  if (!c) return;
  mem_refund(c->budget, c->charged);
  for (int i = 0; i < PARTS_MAX; i++) sub_fini(&c->parts[i]);
  for (int i = 0; i < c->n_state; i++) shoal_tensor_fini(&c->state[i]);
  free(c->state);
  free(c->history);
  free(c);
}

static shoal_status make_room_aside(sub_plan *s) {
  size_t bytes = 0;
  for (int i = 0; i < s->n_results; i++) {
    const plan_value *v = &s->plan->values[s->plan->fetch_of[i]];
    shoal_tensor t = shoal_tensor_view(v->dtype, v->shape, NULL);
    bytes = mem_plus(bytes, aligned_bytes(shoal_tensor_bytes(&t)));
  }
  void *room;
  TRY(plan_charge(s->plan, bytes, "the results of a sub-graph"));
  TRY(mem_aligned(mem_plus(bytes, MEM_ALIGN), &room));
  s->aside = room;
  return NULL;
}

/* A result may be what was fed, unchanged, and so lie in memory that other results are to be copied to: a loop that
 * exchanges two variables. to: [n] where result i is copied, for i < n. */
static void set_aside(sub_plan *s, const shoal_tensor *to, int n) {
  char *room = s->aside;
  for (int i = 0; i < s->n_results; i++) {
    size_t bytes = shoal_tensor_bytes(&s->results[i]);
    for (int k = 0; k < n && bytes; k++) {
      if (k == i || s->results[i].data != to[k].data) continue;
      memcpy(room, to[k].data, bytes);
      s->results[i].data = room;
    }
    room += aligned_bytes(bytes);
  }
}

/* given: [n_params] values of the plan around. */
static shoal_status sub_init(sub_plan *s, const plan *p, shoal_graph *f, const shoal_tensor *given) {
  const shoal_session *around = p->session;
  s->session = (shoal_session){.graph = f,
                               .seed = around->seed,
                               .level = around->level,
                               .reference = around->reference,
                               .threads = around->threads,
                               .print = around->print,
                               .print_sink = around->print_sink,
                               .look = around->look,
                               .look_context = around->look_context,
                               .budget = around->budget};
  s->n_params = f->n_params;
  s->n_results = f->n_results;
  s->feeds = calloc((size_t)f->n_params + 1, sizeof *s->feeds);
  s->results = calloc((size_t)f->n_results + 1, sizeof *s->results);
  if (!s->feeds || !s->results) return status_no_memory();
  for (int i = 0; i < f->n_params; i++) s->feeds[i] = (shoal_feed){f->params[i], given[i]};
  plan_request request = {.session = &s->session,
                          .fetches = f->results,
                          .n_fetches = f->n_results,
                          .feeds = s->feeds,
                          .n_feeds = f->n_params,
                          .reference = around->reference || p->check_each,
                          .check_each = p->check_each};
  TRY(plan_create(&request, &s->plan));
  return make_room_aside(s);
}

static shoal_status sub_run(sub_plan *s, uint64_t step) {
  s->session.step = step;
  if (s->session.look) TRY(s->session.look(s->session.look_context)); /* also where there is nothing to compute */
  return plan_run(s->plan, s->feeds, s->results);
}

static void copy(shoal_tensor *to, const shoal_tensor *from) {
  size_t bytes = shoal_tensor_bytes(to);
  if (bytes && to->data != from->data) memcpy(to->data, from->data, bytes);
}

/* ---- cond */

static shoal_status run_cond(const kernel_call *call) {
  struct control *c = call->nested;
  sub_plan *s = &c->parts[*(const uint8_t *)call->in[0].data ? 0 : 1];
  for (int i = 0; i < s->n_params; i++) s->feeds[i].tensor = call->in[i + 1];
  TRY(sub_run(s, call->step));
  for (int i = 0; i < call->outs; i++) copy(&call->out[i], &s->results[i]);
  return NULL;
}

/* ---- while */

enum { CONDITION, BODY, DERIVATIVE };

static uint64_t round_step(uint64_t step, int64_t round) { return random_mix(step, (uint64_t)round); }

/* Feeds loop variables and what is fixed to the condition and the body. */
static void feed_loop(struct control *c, const kernel_call *call, shoal_tensor *vars, int n_vars) {
  for (int part = CONDITION; part <= BODY; part++)
    for (int i = 0; i < c->parts[part].n_params; i++)
      c->parts[part].feeds[i].tensor = i < n_vars ? vars[i] : call->in[i];
}

static shoal_status goes_on(struct control *c, int64_t round, int64_t most, uint64_t step, bool *out) {
  TRY(sub_run(&c->parts[CONDITION], round_step(step, round)));
  *out = *(const uint8_t *)c->parts[CONDITION].results[0].data != 0;
  if (!*out || round < most) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "the loop has not ended after %lld iterations, its maximum", (long long)most);
}

static shoal_status run_while(const kernel_call *call) {
  struct control *c = call->nested;
  for (int i = 0; i < call->outs; i++) copy(&call->out[i], &call->in[i]);
  feed_loop(c, call, call->out, call->outs);
  for (int64_t round = 0;; round++) {
    bool more;
    TRY(goes_on(c, round, call->attr[WHILE_MAX].i, call->step, &more));
    if (!more) return NULL;
    TRY(sub_run(&c->parts[BODY], round_step(call->step, round)));
    set_aside(&c->parts[BODY], call->out, call->outs);
    for (int i = 0; i < call->outs; i++) copy(&call->out[i], &c->parts[BODY].results[i]);
  }
}

static bool is_real(const shoal_tensor *t) { return t->dtype == SHOAL_F32 || t->dtype == SHOAL_F64; }

/* Keeps the loop variables as they are before a round. */
static shoal_status remember(struct control *c, int64_t round, const shoal_tensor *vars, int n_vars) {
  if ((size_t)round >= c->history_rows) {
    size_t rows = MAX_OF(2 * c->history_rows, (size_t)16);
    size_t bytes = mem_times(rows, c->row_bytes);
    void *larger;
    TRY(mem_charge(c->budget, bytes, "the rounds of a loop, kept for its gradient"));
    c->charged = mem_plus(c->charged, bytes);
    TRY(mem_aligned(bytes, &larger));
    if (c->history) memcpy(larger, c->history, c->history_rows * c->row_bytes);
    free(c->history);
    mem_refund(c->budget, mem_times(c->history_rows, c->row_bytes));
    c->charged -= mem_times(c->history_rows, c->row_bytes);
    c->history = larger;
    c->history_rows = rows;
  }
  char *to = c->history + (size_t)round * c->row_bytes;
  for (int i = 0; i < n_vars; i++) {
    size_t bytes = shoal_tensor_bytes(&vars[i]);
    if (bytes) memcpy(to, vars[i].data, bytes);
    to += aligned_bytes(bytes);
  }
  return NULL;
}

static void add_to(shoal_tensor *sum, const shoal_tensor *more) {
  int64_t n = shoal_tensor_count(sum);
  if (sum->dtype == SHOAL_F32)
    for (int64_t i = 0; i < n; i++) ((float *)sum->data)[i] += ((const float *)more->data)[i];
  else
    for (int64_t i = 0; i < n; i++) ((double *)sum->data)[i] += ((const double *)more->data)[i];
}

/* One round back: gradients of the loop variables after it become those before it, in call->out. */
static shoal_status step_back(struct control *c, const kernel_call *call, int64_t round, int vars, int given) {
  sub_plan *d = &c->parts[DERIVATIVE];
  char *from = c->history + (size_t)round * c->row_bytes;
  int flow = given, out = 0;
  for (int i = 0; i < given; i++) {
    d->feeds[i].tensor = call->in[i];
    if (i >= vars) continue;
    d->feeds[i].tensor.data = from;
    from += aligned_bytes(shoal_tensor_bytes(&call->in[i]));
  }
  for (int i = 0; i < vars; i++)
    if (is_real(&call->in[i])) d->feeds[flow++].tensor = call->out[out++];
  TRY(sub_run(d, round_step(call->step, round)));
  set_aside(d, call->out, out);
  for (int i = 0; i < call->outs; i++) {
    if (i < out)
      copy(&call->out[i], &d->results[i]);
    else
      add_to(&call->out[i], &d->results[i]);
  }
  return NULL;
}

static shoal_status run_while_grad(const kernel_call *call) {
  struct control *c = call->nested;
  int vars = (int)call->attr[WHILE_VARS].i, given = c->parts[BODY].n_params, out = 0, flow = given;
  int64_t rounds = 0;
  for (int i = 0; i < vars; i++) copy(&c->state[i], &call->in[i]);
  feed_loop(c, call, c->state, vars);
  for (;; rounds++) {
    bool more;
    TRY(goes_on(c, rounds, call->attr[WHILE_MAX].i, call->step, &more));
    if (!more) break;
    TRY(remember(c, rounds, c->state, vars));
    TRY(sub_run(&c->parts[BODY], round_step(call->step, rounds)));
    set_aside(&c->parts[BODY], c->state, vars);
    for (int i = 0; i < vars; i++) copy(&c->state[i], &c->parts[BODY].results[i]);
  }
  for (int i = 0; i < vars; i++)
    if (is_real(&call->in[i])) copy(&call->out[out++], &call->in[flow++]);
  for (; out < call->outs; out++) memset(call->out[out].data, 0, shoal_tensor_bytes(&call->out[out]));
  while (rounds-- > 0) TRY(step_back(c, call, rounds, vars, given));
  return NULL;
}

/* ---- preparing */

static shoal_status prepare_loop(struct control *c, const plan *p, plan_node *n, const shoal_tensor *given) {
  bool back = !strcmp(n->op->name, "while_grad");
  int vars = (int)n->attr[back ? WHILE_VARS : WHILE_OUTPUTS].i;
  TRY(sub_init(&c->parts[CONDITION], p, n->attr[WHILE_CONDITION].graph, given));
  TRY(sub_init(&c->parts[BODY], p, n->attr[WHILE_BODY].graph, given));
  n->run = back ? run_while_grad : run_while;
  if (!back) return NULL;
  /* Its params are the body's and the gradients that flow in: just what the node is given. */
  TRY(sub_init(&c->parts[DERIVATIVE], p, n->attr[WHILE_DERIVATIVE].graph, given));
  c->state = calloc((size_t)vars + 1, sizeof *c->state);
  if (!c->state) return status_no_memory();
  for (; c->n_state < vars; c->n_state++) {
    TRY(plan_charge(c->parts[BODY].plan, shoal_tensor_bytes(&given[c->n_state]), "the variables of a loop"));
    TRY(shoal_tensor_create(given[c->n_state].dtype, given[c->n_state].shape, &c->state[c->n_state]));
    c->row_bytes = mem_plus(c->row_bytes, aligned_bytes(shoal_tensor_bytes(&given[c->n_state])));
  }
  c->budget = p->session->budget;
  return NULL;
}

shoal_status control_prepare(plan *p, plan_node *n) {
  struct control *c = n->nested = calloc(1, sizeof *c);
  shoal_tensor *given = calloc((size_t)n->ins + 1, sizeof *given);
  shoal_status status = c && given ? NULL : status_no_memory();
  for (int i = 0; i < n->ins && !status; i++)
    given[i] = shoal_tensor_view(p->values[n->in[i]].dtype, p->values[n->in[i]].shape, NULL);
  if (!status && !strcmp(n->op->name, "cond")) {
    n->run = run_cond;
    status = sub_init(&c->parts[0], p, n->attr[COND_THEN].graph, given + 1);
    if (!status) status = sub_init(&c->parts[1], p, n->attr[COND_ELSE].graph, given + 1);
  } else if (!status) {
    status = prepare_loop(c, p, n, given);
  }
  free(given);
  return status_wrap(status, "%s '%s'", n->op->name, n->origin ? n->origin->name : "");
}
