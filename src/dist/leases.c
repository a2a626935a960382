#include "dist/leases.h"

#include "base/mem.h"
#include "dist/tree.h"

#include <string.h>

int64_t lease_plan_epoch_batches(const lease_plan *p) {
  return p->parts ? (p->rows + p->round - 1) / p->round * p->parts : (p->rows + p->batch - 1) / p->batch;
}
int64_t lease_plan_epoch(const lease_plan *p, int64_t batch) { return batch / lease_plan_epoch_batches(p); }

lease_span lease_plan_span(const lease_plan *p, int64_t batch) {
  int64_t place = batch % lease_plan_epoch_batches(p);
  if (!p->parts) return (lease_span){.first = place * p->batch, .rows = MIN_OF(p->batch, p->rows - place * p->batch)};
  lease_span s = {
      .round = place / p->parts * p->round, .number = batch / p->parts, .part = (int)(place % p->parts)};
  s.round_rows = MIN_OF(p->round, p->rows - s.round);
  tree_share(tree_leaves(s.round_rows), s.part, p->parts, &s.first_leaf, &s.last_leaf);
  int64_t begin = MIN_OF(s.first_leaf * TREE_LEAF_ROWS, s.round_rows);
  s.first = s.round + begin;
  s.rows = MIN_OF(s.last_leaf * TREE_LEAF_ROWS, s.round_rows) - begin;
  return s;
}

int64_t lease_plan_rows(const lease_plan *p, int64_t batch) { return lease_plan_span(p, batch).rows; }

shoal_status leases_init(leases *l, const lease_plan *plan, int64_t first, int workers) {
  if (plan->batch < 1 || plan->rows < 1 || (plan->parts && plan->round < 1) || first < 0 || workers < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "batches of %lld of %lld rows from %lld on for %d workers: at least one of "
                       "each is expected", (long long)plan->batch, (long long)plan->rows, (long long)first, workers);
  leases made = {.plan = *plan, .next = first, .workers = workers};
  made.held = malloc((size_t)workers * sizeof *made.held);
  made.returned = malloc((size_t)workers * sizeof *made.returned);
  if (!made.held || !made.returned) {
    leases_fini(&made);
    return status_no_memory();
  }
  for (int w = 0; w < workers; w++) made.held[w] = LEASE_NONE;
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

int64_t leases_take(leases *l, int worker) {
  int64_t batch = leases_free(l);
  if (batch == LEASE_NONE || l->held[worker] != LEASE_NONE) return LEASE_NONE;
  if (l->n_returned)
    memmove(l->returned, l->returned + 1, (size_t)--l->n_returned * sizeof *l->returned);
  else
    l->next++;
  return l->held[worker] = batch;
}

int64_t leases_finish(leases *l, int worker) {
  int64_t batch = l->held[worker];
  l->held[worker] = LEASE_NONE;
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
    if (l->held[w] != LEASE_NONE) return false;
  return true;
}
