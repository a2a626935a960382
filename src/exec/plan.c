#include "exec/plan.h"

#include "exec/control.h"

#include "base/mem.h"
#include "base/text.h"

#include <string.h>

/* Room for entries, so that few plans serve batches of all sizes. At least 2: a rule is asked about one less, too. */
static int64_t room_for(int64_t entries) {
  int64_t room = 1024;
  while (room < entries) room *= 2;
  return room;
}

/* The feed that says where the rows of a ragged one are; -1 for others. */
static shoal_status find_offsets(const plan_request *request, int feed, int *out) {
  const shoal_value *value = request->feeds[feed].value, *offsets = value->maker->offsets;
  *out = -1;
  if (!offsets) return NULL;
  for (int i = 0; i < request->n_feeds; i++)
    if (request->feeds[i].value == offsets) *out = i;
  if (*out < 0 || request->feeds[feed].tensor.rows || request->feeds[feed].tensor.shape.rank != value->shape.rank)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "placeholder '%s' takes entries one after the other, and its offsets '%s' "
                       "beside them",
                       shoal_value_name(value), shoal_value_name(offsets));
  const shoal_tensor *t = &request->feeds[*out].tensor;
  if (t->dtype == SHOAL_I64 && t->shape.rank == 1 && t->shape.dim[0] > 0 && !t->rows) return NULL;
  return status_make(SHOAL_ERR_ARGUMENT, "placeholder '%s': offsets are i64 [rows + 1]", shoal_value_name(offsets));
}

static shoal_status copy_key(plan *p, const plan_request *request) {
  size_t feeds = (size_t)request->n_feeds, fetches = (size_t)request->n_fetches;
  p->n_feeds = request->n_feeds;
  p->n_fetches = request->n_fetches;
  p->fetches = calloc(fetches + 1, sizeof *p->fetches);
  p->fetch_of = calloc(fetches + 1, sizeof *p->fetch_of);
  p->feed_values = calloc(feeds + 1, sizeof *p->feed_values);
  p->feed_shapes = calloc(feeds + 1, sizeof *p->feed_shapes);
  p->feed_indexed = calloc(feeds + 1, sizeof *p->feed_indexed);
  p->feed_offsets = calloc(feeds + 1, sizeof *p->feed_offsets);
  if (!p->fetches || !p->fetch_of || !p->feed_values || !p->feed_shapes || !p->feed_indexed || !p->feed_offsets)
    return status_no_memory();
  if (fetches) memcpy(p->fetches, request->fetches, fetches * sizeof *p->fetches);
  for (size_t i = 0; i < feeds; i++) {
    p->feed_values[i] = request->feeds[i].value;
    p->feed_shapes[i] = request->feeds[i].tensor.shape;
    p->feed_indexed[i] = request->feeds[i].tensor.rows != NULL;
    TRY(find_offsets(request, (int)i, &p->feed_offsets[i]));
    if (p->feed_offsets[i] >= 0) p->feed_shapes[i].dim[0] = room_for(p->feed_shapes[i].dim[0]);
  }
  return NULL;
}

static bool shape_fits(const plan *p, int feed, const shoal_shape *shape) {
  if (p->feed_offsets[feed] < 0) return shoal_shape_equal(&p->feed_shapes[feed], shape);
  shoal_shape rows = *shape; /* as many as there is room for, of the same width */
  if (!rows.rank || rows.dim[0] > p->feed_shapes[feed].dim[0]) return false;
  rows.dim[0] = p->feed_shapes[feed].dim[0];
  return shoal_shape_equal(&rows, &p->feed_shapes[feed]);
}

bool plan_matches(const plan *p, const plan_request *request) {
  if (p->n_feeds != request->n_feeds || p->n_fetches != request->n_fetches) return false;
  for (int i = 0; i < p->n_fetches; i++)
    if (p->fetches[i] != request->fetches[i]) return false;
  for (int i = 0; i < p->n_feeds; i++) {
    const shoal_feed *f = &request->feeds[i];
    if (p->feed_values[i] != f->value || p->feed_indexed[i] != (f->tensor.rows != NULL) ||
        f->tensor.dtype != f->value->dtype || !shape_fits(p, i, &f->tensor.shape))
      return false;
  }
  return true;
}

static shoal_status make(plan *p, const plan_request *request) {
  bool reference = request->reference || request->check_each;
  p->session = request->session;
  p->check_each = request->check_each;
  TRY(copy_key(p, request));
  TRY(plan_build(p, request));
  if (!reference) TRY(plan_fuse(p));
  TRY(plan_choose(p, reference));
  TRY(plan_schedule(p, reference));
  TRY(plan_place(p));
  return plan_label(p);
}

shoal_status plan_charge(plan *p, size_t bytes, const char *what) {
  TRY(mem_charge(p->session->budget, bytes, what));
  p->charged += bytes;
  return NULL;
}

shoal_status plan_create(const plan_request *request, plan **out) {
  for (int i = 0; i < request->n_fetches; i++)
    if (!request->fetches[i]) return status_make(SHOAL_ERR_ARGUMENT, "fetch %d is NULL", i);
  for (int i = 0; i < request->n_feeds; i++)
    if (!request->feeds[i].value) return status_make(SHOAL_ERR_ARGUMENT, "feed %d names no value", i);
  plan *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->guard = -1;
  shoal_status status = make(p, request);
  if (status) {
    plan_destroy(p);
    return status;
  }
  *out = p;
  return NULL;
}

void plan_destroy(plan *p) {
  if (!p) return;
  if (p->session) mem_refund(p->session->budget, p->charged);
  for (size_t i = 0; i < p->n_nodes; i++) {
    control_destroy(p->nodes[i].nested);
    free(p->nodes[i].in);
    free(p->nodes[i].out);
  }
  for (size_t i = 0; i < p->n_values; i++)
    if (p->values[i].owned) shoal_tensor_fini(&p->values[i].data);
  for (int i = 0; i < p->n_threads && p->threads; i++) {
    free(p->threads[i].calls);
    free(p->threads[i].operands);
    free(p->threads[i].local);
    free(p->threads[i].scratch);
  }
  free(p->threads);
  free(p->fetches);
  free(p->fetch_of);
  free(p->feed_values);
  free(p->feed_shapes);
  free(p->feed_indexed);
  free(p->feed_offsets);
  free(p->nodes);
  free(p->values);
  free(p->order);
  free(p->controls);
  free(p->phases);
  free(p->shared);
  free(p->patches);
  free(p->phase_patches);
  free(p->operand_at);
  free(p->packed_at);
  free(p->labels);
  free(p);
}

char *plan_describe(const plan *p) {
  static const char *const stores[] = {"none", "feed", "variable", "constant", "shared", "local", "sum"};
  text t = {0};
  text_add(&t, "%d nodes in %d phases; %.1f KB shared, %.1f KB a thread\n", p->n_order, p->n_phases,
           (double)p->shared_bytes / 1e3, (double)p->local_bytes / 1e3);
  for (int i = 0; i < p->n_phases; i++) {
    const plan_phase *phase = &p->phases[i];
    if (phase->split)
      text_add(&t, "phase %d: %lld rows over %d thread%s in strips of %lld\n", i, (long long)phase->rows,
               phase->threads, phase->threads == 1 ? "" : "s", (long long)phase->strip);
    for (int at = phase->first; at < phase->first + phase->count; at++) {
      const plan_node *n = &p->nodes[p->order[at]];
      text_add(&t, "%s%-30s %-16s %s ->", phase->split ? "  " : "", n->op->name,
               n->variant ? n->variant->name : "reference", n->origin ? n->origin->name : "");
      for (int k = 0; k < n->outs; k++) {
        const plan_value *v = &p->values[n->out[k]];
        char shape[SHOAL_SHAPE_TEXT];
        text_add(&t, " %s%s %s%s", shoal_dtype_name(v->dtype), shoal_shape_text(&v->shape, shape),
                 p->values[v->root].order == LAYOUT_LANES ? "lanes " : "", stores[p->values[v->root].store]);
      }
      text_add(&t, "\n");
    }
  }
  if (t.failed) {
    text_fini(&t);
    return NULL;
  }
  return t.data;
}
