#include "dist/leases.h"

#include "base/mem.h"
#include "dist/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t lease_plan_epoch_batches(const lease_plan *p) {
  return p->parts ? (p->rows + p->round - 1) / p->round * p->parts : (p->rows + p->batch - 1) / p->batch;
}
int64_t lease_plan_epoch(const lease_plan *p, int64_t batch) { return batch / lease_plan_epoch_batches(p); }

lease_span lease_plan_span(const lease_plan *p, int64_t batch) {
  int64_t place = batch % lease_plan_epoch_batches(p);
  if (!p->parts) return (lease_span){.first = place * p->batch, .rows = MIN_OF(p->batch, p->rows - place * p->batch)};
  lease_span s = {.round = place / p->parts * p->round, .number = batch / p->parts, .part = (int)(place % p->parts)};
  s.round_rows = MIN_OF(p->round, p->rows - s.round);
  tree_share(tree_leaves(s.round_rows), s.part, p->parts, &s.first_leaf, &s.last_leaf);
  int64_t begin = MIN_OF(s.first_leaf * TREE_LEAF_ROWS, s.round_rows);
  s.first = s.round + begin;
  s.rows = MIN_OF(s.last_leaf * TREE_LEAF_ROWS, s.round_rows) - begin;
  return s;
}

int64_t lease_plan_rows(const lease_plan *p, int64_t batch) { return lease_plan_span(p, batch).rows; }

shoal_status leases_init(leases *l, const lease_plan *plan, int64_t first, int workers, int depth) {
  if (plan->batch < 1 || plan->rows < 1 || (plan->parts && plan->round < 1) || first < 0 || workers < 1 || depth < 1)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "batches of %lld of %lld rows from %lld on for %d workers with %d each: "
                       "at least one of each is expected",
                       (long long)plan->batch, (long long)plan->rows, (long long)first, workers, depth);
  leases made = {.plan = *plan, .next = first, .workers = workers, .depth = depth};
  size_t most = (size_t)workers * (size_t)depth;
  made.held = malloc(most * sizeof *made.held);
  made.returned = malloc(most * sizeof *made.returned);
  if (!made.held || !made.returned) {
    leases_fini(&made);
    return status_no_memory();
  }
  for (size_t i = 0; i < most; i++) made.held[i] = LEASE_NONE;
  *l = made;
  return NULL;
}

void leases_fini(leases *l) {
  free(l->held);
  free(l->returned);
  *l = (leases){0};
}

int64_t leases_free(const leases *l) {
  if (l->n_returned) return l->returned[0];
  return l->next < l->plan.end ? l->next : LEASE_NONE;
}

static int64_t *held_by(const leases *l, int worker) { return l->held + (size_t)worker * (size_t)l->depth; }

int64_t leases_held(const leases *l, int worker) { return held_by(l, worker)[0]; }

int64_t leases_take(leases *l, int worker) {
  int64_t batch = leases_free(l), *own = held_by(l, worker);
  int n = 0;
  while (n < l->depth && own[n] != LEASE_NONE) n++;
  if (batch == LEASE_NONE || n == l->depth) return LEASE_NONE;
  if (l->n_returned)
    memmove(l->returned, l->returned + 1, (size_t)--l->n_returned * sizeof *l->returned);
  else
    l->next++;
  return own[n] = batch;
}

int64_t leases_finish(leases *l, int worker) {
  int64_t *own = held_by(l, worker), batch = own[0];
  for (int i = 1; i < l->depth; i++) own[i - 1] = own[i];
  own[l->depth - 1] = LEASE_NONE;
  return batch;
}

/* Of the batches below `next` that are not done each is held or returned, and a worker held it: there is room. */
int64_t leases_give_back(leases *l, int worker) {
  int64_t batch = leases_finish(l, worker);
  if (batch == LEASE_NONE) return LEASE_NONE;
  int at = l->n_returned++;
  for (; at && l->returned[at - 1] > batch; at--) l->returned[at] = l->returned[at - 1];
  l->returned[at] = batch;
  return batch;
}

bool leases_over(const leases *l) {
  if (leases_free(l) != LEASE_NONE) return false;
  for (int w = 0; w < l->workers; w++)
    if (leases_held(l, w) != LEASE_NONE) return false;
  return true;
}

/* ---- as text: "next=7 undone=2,5" */

/* The first that is not done behind `after`; `next`: there is none. */
static int64_t undone_after(const leases *l, int64_t after) {
  int64_t least = l->next;
  for (int i = 0; i < l->n_returned; i++)
    if (l->returned[i] > after) least = MIN_OF(least, l->returned[i]);
  for (int i = 0; i < l->workers * l->depth; i++)
    if (l->held[i] > after) least = MIN_OF(least, l->held[i]);
  return least;
}

void leases_write(const leases *l, text *out) {
  int64_t last = LEASE_NONE;
  text_add(out, "next=%lld undone=", (long long)l->next);
  for (int64_t batch; (batch = undone_after(l, last)) < l->next; last = batch)
    text_add(out, "%s%lld", last == LEASE_NONE ? "" : ",", (long long)batch);
  text_add(out, "\n");
}

shoal_status leases_read(leases *l, const char *words) {
  long long next = -1, last = -1;
  int at = 0, n = 0;
  bool good = sscanf(words, "next=%lld undone=%n", &next, &at) == 1 && at && next >= 0;
  for (const char *rest = words + at; good && *rest && *rest != '\n';) {
    char *end;
    const long long batch = strtoll(rest, &end, 10);
    good = end != rest && n < l->workers * l->depth && batch > last && batch < next;
    if (good) l->returned[n++] = last = batch;
    rest = end + (*end == ',');
  }
  if (!good) return status_make(SHOAL_ERR_PEER, "the state of the batches cannot be read");
  l->next = next;
  l->n_returned = n;
  return NULL;
}
