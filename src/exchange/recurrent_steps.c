#include "exchange/recurrent_steps.h"

#include <stdlib.h>

#define IN(i) writer_of(w, n->in[i])

typedef struct {
  const char *h, *c; /* [batch, units] */
} step_state;

typedef step_state (*step_function)(graph_writer *w, const node *n, const step_format *f, const char *xt, step_state s);

static step_state rnn_step(graph_writer *w, const node *n, const step_format *f, const char *xt, step_state s) {
  const char *z = f->two(w, "Add", xt, f->two(w, "MatMul", s.h, IN(1)));
  return (step_state){f->one(w, n->attr[1].i ? "Relu" : "Tanh", z), NULL};
}

static step_state lstm_step(graph_writer *w, const node *n, const step_format *f, const char *xt, step_state s) {
  const char *gate[4];
  f->split(w, f->two(w, "Add", xt, f->two(w, "MatMul", s.h, IN(1))), 4, gate);
  const char *candidate = f->two(w, "Mul", f->one(w, "Sigmoid", gate[0]), f->one(w, "Tanh", gate[2]));
  const char *c = f->two(w, "Add", f->two(w, "Mul", f->one(w, "Sigmoid", gate[1]), s.c), candidate);
  return (step_state){f->two(w, "Mul", f->one(w, "Sigmoid", gate[3]), f->one(w, "Tanh", c)), c};
}

static step_state gru_step(graph_writer *w, const node *n, const step_format *f, const char *xt, step_state s) {
  const char *x[3], *u[3];
  f->split(w, xt, 3, x);
  f->split(w, f->two(w, "Add", f->two(w, "MatMul", s.h, IN(1)), IN(2)), 3, u);
  const char *z = f->one(w, "Sigmoid", f->two(w, "Add", x[0], u[0]));
  const char *r = f->one(w, "Sigmoid", f->two(w, "Add", x[1], u[1]));
  const char *candidate = f->one(w, "Tanh", f->two(w, "Add", x[2], f->two(w, "Mul", r, u[2])));
  const char *kept = f->two(w, "Mul", z, f->two(w, "Sub", s.h, candidate));
  return (step_state){f->two(w, "Add", candidate, kept), NULL};
}

/* state: which input the first state is, behind it that of the cells if there are any, and at the end the mask. */
static void write_steps(graph_writer *w, const node *n, const step_format *f, step_function step, int state,
                        bool cells) {
  const int64_t steps = n->in[0]->shape.dim[1];
  const shoal_dtype dtype = n->in[0]->dtype;
  const int mask = state + 1 + cells;
  const bool all_cells = cells && n->outs > 1 && writer_uses(w, &n->out[1]);
  if (steps < 1) {
    writer_fail(w, status_make(SHOAL_ERR_ARGUMENT, "'%s': the number of steps must be known", n->name));
    return;
  }
  const char **all = calloc((size_t)steps * 2, sizeof *all);
  if (!all) {
    writer_fail(w, status_no_memory());
    return;
  }
  step_state s = {IN(state), cells ? IN(state + 1) : NULL};
  for (int64_t i = 0; i < steps; i++) {
    const int64_t t = n->attr[0].i ? steps - 1 - i : i;
    step_state next = step(w, n, f, f->at(w, IN(0), dtype, t), s);
    if (n->ins > mask) {
      const char *here = f->expand(w, f->at(w, IN(mask), SHOAL_BOOL, t), SHOAL_BOOL);
      next.h = f->where(w, here, next.h, s.h);
      if (cells) next.c = f->where(w, here, next.c, s.c);
    }
    s = next;
    all[t] = f->expand(w, s.h, dtype);
    if (all_cells) all[steps + t] = f->expand(w, s.c, dtype);
  }
  writer_bind(w, &n->out[0], f->concat(w, all, (int)steps));
  if (all_cells) writer_bind(w, &n->out[1], f->concat(w, all + steps, (int)steps));
  free(all);
}

void steps_rnn(graph_writer *w, const node *n, const step_format *f) { write_steps(w, n, f, rnn_step, 2, false); }
void steps_lstm(graph_writer *w, const node *n, const step_format *f) { write_steps(w, n, f, lstm_step, 2, true); }
void steps_gru(graph_writer *w, const node *n, const step_format *f) { write_steps(w, n, f, gru_step, 3, false); }
