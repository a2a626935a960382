/* Any bytes at all, as a GraphDef that is run, as a graph server would: refused, failed, or computed, within the memory
 * that it may take, and never outside of its tensors. Placeholders are fed; everything is fetched. */
#include "exec/plan.h"
#include "graph/graphdef.h"
#include "graph/infer.h"
#include "graph/ops/control.h"

#include <string.h>

#define MEMORY ((size_t)256 << 10) /* bytes: enough for all paths, little enough to be quick */
#define ROWS 3                     /* of what is fed where the graph does not say */
enum { FEEDS_MAX = 16, FETCHES_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void no_print(void *sink, const char *line) {}

/* Rounds of all loops at most, those of loops inside loops multiplied. */
static double rounds_of(const shoal_graph *g) {
  double sum = 1;
  for (size_t i = 0; i < g->count; i++) {
    const node *n = g->nodes[i];
    double inside = 0, rounds = 1;
    for (int k = 0; k < OP_MAX_ATTRS && n->op->attrs[k].name; k++)
      if (n->op->attrs[k].kind == ATTR_GRAPH && n->attr[k].graph) inside += rounds_of(n->attr[k].graph);
    if (!strncmp(n->op->name, "while", 5)) rounds += (double)n->attr[WHILE_MAX].i;
    sum += inside * rounds;
  }
  return sum;
}

/* Numbers that are good as indices, offsets, conditions and small floats alike. */
static void fill(shoal_tensor *t) {
  int64_t count = shoal_tensor_count(t);
  for (int64_t i = 0; i < count; i++) shoal_tensor_set(t, i, (double)(i % 3) - (i % 7 == 6));
}

/* Feeds what has a shape that fits into memory. Returns how many. */
static int make_feeds(shoal_graph *g, shoal_feed feeds[FEEDS_MAX]) {
  int n = 0;
  for (size_t i = 0; i < g->count && n < FEEDS_MAX; i++) {
    node *p = g->nodes[i];
    if (strcmp(p->op->name, "placeholder")) continue;
    shoal_shape shape = p->out[0].shape;
    for (int k = 0; k < shape.rank; k++)
      if (shape.dim[k] == SHOAL_UNKNOWN) shape.dim[k] = p->offsets ? ROWS - 1 : ROWS; /* rows of 1 entry each */
    shoal_tensor t = shoal_tensor_view(p->out[0].dtype, shape, NULL);
    if (shoal_tensor_bytes(&t) > MEMORY) continue;
    if (shoal_tensor_create(t.dtype, shape, &t)) __builtin_trap();
    fill(&t);
    feeds[n++] = (shoal_feed){&p->out[0], t};
  }
  return n;
}

static void run(shoal_session *s, shoal_feed *feeds, int n_feeds, shoal_value **fetches, int n, bool reference) {
  shoal_tensor fetched[FETCHES_MAX];
  plan_request request = {
      .session = s, .fetches = fetches, .n_fetches = n, .feeds = feeds, .n_feeds = n_feeds, .reference = reference};
  plan *p;
  shoal_status status = plan_create(&request, &p);
  if (!status) {
    status = plan_run(p, feeds, fetched);
    for (int i = 0; !status && i < n; i++) { /* all of it can be read */
      const volatile uint8_t *at = fetched[i].data;
      for (size_t b = 0, bytes = shoal_tensor_bytes(&fetched[i]); b < bytes; b++) (void)at[b];
    }
    plan_destroy(p);
  }
  shoal_status_free(status);
}

static void run_all(shoal_graph *g) {
  mem_budget budget = {.limit = MEMORY};
  shoal_session *s;
  shoal_status status =
      session_create_part(g, &(shoal_session_options){.threads = 2, .kernels = "generic"}, NULL, NULL, &budget, &s);
  if (status) {
    shoal_status_free(status);
    return;
  }
  s->print = no_print;
  shoal_feed feeds[FEEDS_MAX];
  int n_feeds = make_feeds(g, feeds), n = 0;
  shoal_value *fetches[FETCHES_MAX];
  for (size_t i = g->count; i-- > 0 && n < FETCHES_MAX;) {
    node *made = g->nodes[i];
    run(s, feeds, n_feeds, (shoal_value *[]){&made->out[0]}, 1, false); /* alone: others may be refused */
    fetches[n++] = &made->out[0];
  }
  for (int reference = 0; reference < 2; reference++) run(s, feeds, n_feeds, fetches, n, reference);
  for (int i = 0; i < n_feeds; i++) shoal_tensor_fini(&feeds[i].tensor);
  shoal_session_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  shoal_graph *g;
  if (shoal_graph_create(&g)) __builtin_trap();
  shoal_status status = graphdef_read(g, bytes, n);
  if (!status && g->count <= FETCHES_MAX && rounds_of(g) < 1000) run_all(g);
  shoal_status_free(status);
  shoal_graph_destroy(g);
  return 0;
}
