#include "dist/sparse_rows.h"

#include "base/mem.h"
#include "dist/hot_rows.h"
#include "dist/id_rows.h"
#include "dist/sparse_tree.h"

#include <string.h>

typedef struct {
  int32_t *keys; /* [touched] */
  int64_t n;
  ps_marks marks; /* [touched] rows that the worker has, so that they are not sent */
} key_list;

typedef struct {
  key_list now, next;
} asked;

/* Rows and their gradients, ascending. */
typedef struct {
  int32_t *keys;
  float *sums; /* [n, width] */
  int64_t n;
} row_sums;

struct sparse_rows {
  const ps_terms *terms;
  id_rows *ids;   /* NULL: rows go by their number. Otherwise keys are places in the ids of an update */
  int32_t **keys; /* with `ids`: [workers] of an update's gradients */
  hot_rows *hot;
  int64_t requests, asked_rows; /* for batches to train on */
  int workers;
  int64_t rows, touched, width;
  asked *asked;       /* [workers] */
  float *values;      /* [touched, width] of an answer */
  row_sums sums[2];   /* [workers * touched] rows each, if there is more than one worker; of rounds one of them */
  sparse_part *parts; /* [workers] of a round; NULL: there are no rounds */
};

/* Pages come when they are touched: lists cost what batches really have. */
static shoal_status keys_create(int64_t n, int32_t **out) {
  *out = calloc((size_t)n + 1, sizeof **out);
  return *out ? NULL : status_no_memory();
}

static shoal_status list_create(int64_t n, key_list *out) {
  TRY(keys_create(n, &out->keys));
  out->marks.bits = calloc(ps_marks_bytes(n) + 1, sizeof *out->marks.bits);
  return out->marks.bits ? NULL : status_no_memory();
}

static void list_fini(key_list *l) {
  free(l->keys);
  free(l->marks.bits);
}

static shoal_status fill(sparse_rows *r, bool round) {
  r->asked = calloc((size_t)r->workers, sizeof *r->asked);
  r->values = calloc((size_t)(r->touched * r->width) + 1, sizeof *r->values);
  if (!r->asked || !r->values) return status_no_memory();
  for (int w = 0; w < r->workers; w++) {
    TRY(list_create(r->touched, &r->asked[w].now));
    TRY(list_create(r->touched, &r->asked[w].next));
  }
  if (round) {
    r->parts = calloc((size_t)r->workers, sizeof *r->parts);
    if (!r->parts) return status_no_memory();
  }
  const int64_t most = MIN_OF(r->workers * r->touched, r->rows);
  for (int i = 0; i < (r->parts ? 1 : 2) && (r->parts || r->workers > 1); i++) {
    TRY(keys_create(most, &r->sums[i].keys));
    r->sums[i].sums = calloc((size_t)(most * r->width) + 1, sizeof(float));
    if (!r->sums[i].sums) return status_no_memory();
  }
  return NULL;
}

shoal_status sparse_rows_create(const ps_terms *terms, const ps_vectors *v, sparse_rows **out) {
  sparse_rows *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->terms = terms;
  r->workers = terms->workers;
  r->width = terms->width;
  r->rows = terms->ids ? INT32_MAX : terms->elements / terms->width;
  r->touched = MIN_OF(terms->touched, r->rows);
  shoal_status status = fill(r, terms->round > 0);
  if (!status) status = hot_rows_create(&r->hot);
  if (!status && terms->ids) {
    r->keys = calloc((size_t)r->workers, sizeof *r->keys);
    status = r->keys ? id_rows_create(terms, v, &r->ids) : status_no_memory();
  }
  if (status)
    sparse_rows_destroy(r);
  else
    *out = r;
  return status;
}

void sparse_rows_destroy(sparse_rows *r) {
  if (!r) return;
  for (int w = 0; r->asked && w < r->workers; w++) {
    list_fini(&r->asked[w].now);
    list_fini(&r->asked[w].next);
  }
  for (int i = 0; i < 2; i++) {
    free(r->sums[i].keys);
    free(r->sums[i].sums);
  }
  id_rows_destroy(r->ids);
  hot_rows_destroy(r->hot);
  free(r->keys);
  free(r->parts);
  free(r->asked);
  free(r->values);
  free(r);
}

struct id_rows *sparse_rows_ids(const sparse_rows *r) {
  return r->ids;
}

shoal_status sparse_rows_renew(sparse_rows *r, const ps_vectors *v) {
  if (!r->ids) return NULL;
  id_rows_destroy(r->ids);
  r->ids = NULL;
  return id_rows_create(r->terms, v, &r->ids);
}

void sparse_rows_forget(sparse_rows *r, int worker) {
  asked *a = &r->asked[worker];
  a->now.n = a->next.n = a->now.marks.n = a->next.marks.n = 0;
  if (r->ids) id_rows_forget(r->ids, worker);
}

/* Rows that the worker's gradient is about. */
static int64_t given(const sparse_rows *r, int worker) {
  return r->ids ? id_rows_given(r->ids, worker) : r->asked[worker].now.n;
}

int64_t sparse_rows_asked(const sparse_rows *r, double *hot) {
  *hot = hot_rows_share(r->hot);
  return r->asked_rows;
}

/* Rows behind the last feature are asked for in every step. */
static void count_keys(sparse_rows *r, const key_list *l) {
  const ps_terms *t = r->terms;
  const int64_t features = (t->started - t->first_row + t->servers - 1) / t->servers;
  const bool counts = r->requests++ % HOT_ROWS_EVERY == 0;
  int64_t n = l->n;
  while (n && l->keys[n - 1] >= features) n--;
  r->asked_rows += n;
  for (int64_t i = 0; counts && i < n; i++) hot_rows_count(r->hot, (uint64_t)l->keys[i]);
}

static void count_ids(sparse_rows *r, int worker) {
  int64_t n;
  const uint64_t *ids = id_rows_asked(r->ids, worker, &n);
  const bool counts = r->requests++ % HOT_ROWS_EVERY == 0;
  r->asked_rows += n;
  for (int64_t i = 0; counts && i < n; i++) hot_rows_count(r->hot, ids[i]);
}

static const char *take_keys(sparse_rows *r, asked *a, const uint8_t *bytes, size_t length, int64_t n) {
  if (n == PS_SAME) {
    if (length) return "unexpected bytes after its gradients";
    memcpy(a->next.keys, a->now.keys, (size_t)a->now.n * sizeof *a->now.keys);
    a->next.n = a->now.n;
    return NULL;
  }
  if (n < 0 || n > r->touched) return "it asks for more rows than the limit of a batch";
  const char *wrong = sparse_keys_decode(bytes, length, n, r->rows, a->next.keys);
  a->next.n = wrong ? 0 : n;
  return wrong;
}

/* Rows that the worker has asked for and not been given. */
static int64_t asked_for(const sparse_rows *r, int worker) {
  int64_t n = r->asked[worker].next.n;
  if (r->ids) id_rows_asked(r->ids, worker, &n);
  return n;
}

/* All that stands behind the head. */
static const char *take_request(sparse_rows *r, int worker, const net_message *m, int vectors) {
  asked *a = &r->asked[worker];
  const uint8_t *payload = m->payload;
  const size_t bytes = m->bytes;
  ps_head head;
  if (bytes < sizeof head) return "the message is too short";
  memcpy(&head, payload, sizeof head);
  if (head.gradients != (m->header.kind == PS_PUSH && m->header.number ? given(r, worker) : 0))
    return "the number of gradients is not that of the rows it asked for";
  const size_t before = sizeof head + (size_t)(head.gradients * r->width * MAX_OF(vectors, 1)) * sizeof(float);
  if (head.marked < 0 || head.marked > r->touched) return "it marks more rows than the limit of a batch";
  const size_t marks = ps_marks_bytes(head.marked);
  if (bytes < before + marks) return "its gradients are truncated";
  const uint8_t *keys = payload + before + marks;
  const size_t length = bytes - before - marks;
  const char *wrong = r->ids ? id_rows_ask(r->ids, worker, keys, length, head.keys,
                                           m->header.kind == PS_PUSH || m->header.number & PS_OTHERS)
                             : take_keys(r, a, keys, length, head.keys);
  if (wrong) return wrong;
  if (head.marked > asked_for(r, worker)) return "it marks more rows than it asks for";
  memcpy(a->next.marks.bits, payload + before, marks);
  a->next.marks.n = head.marked;
  return NULL;
}

const char *sparse_rows_ask(sparse_rows *r, int worker, const net_message *m, int vectors) {
  const char *wrong = take_request(r, worker, m, vectors);
  const bool trains = m->header.kind == PS_PUSH || m->header.number & 1;
  if (!wrong && trains && r->ids) count_ids(r, worker);
  if (!wrong && trains && !r->ids) count_keys(r, &r->asked[worker].next);
  return wrong;
}

/* The parameters of these rows that the worker has not, in r->values. */
static net_part gather(sparse_rows *r, const key_list *list, const ps_vectors *v) {
  const float *table = ps_vectors_table(v, PS_PARAMETERS); /* [rows, width] */
  const int32_t *keys = list->keys;
  const int64_t n = list->n, width = r->width;
  float *to = r->values;
  enum { AHEAD = 32, WIDE_AHEAD = 8 };
  for (int64_t i = 0; i < n && width == 1; i++) {
    if (i + AHEAD < n) __builtin_prefetch(table + keys[i + AHEAD], 0, 2);
    *to = table[keys[i]];
    to += !ps_is_marked(&list->marks, i);
  }
  for (int64_t i = 0; i < n && width > 1; i++) {
    if (i + WIDE_AHEAD < n) sparse_rows_prefetch(table + keys[i + WIDE_AHEAD] * width, width, 0);
    if (ps_is_marked(&list->marks, i)) continue;
    memcpy(to, table + keys[i] * width, (size_t)width * sizeof *table);
    to += width;
  }
  return (net_part){r->values, (size_t)(to - r->values) * sizeof *to};
}

/* So many rows of r->values. */
static net_part rows_part(const sparse_rows *r, int64_t n) {
  return (net_part){r->values, (size_t)(n * r->width) * sizeof(float)};
}

net_part sparse_rows_repeat(sparse_rows *r, int worker, const ps_vectors *v) {
  const key_list *now = &r->asked[worker].now;
  if (r->ids) return rows_part(r, id_rows_repeat(r->ids, worker, v, &now->marks, r->values));
  return gather(r, now, v);
}

net_part sparse_rows_answer(sparse_rows *r, int worker, const ps_vectors *v, bool keep) {
  asked *a = &r->asked[worker];
  const net_part values = r->ids ? rows_part(r, id_rows_answer(r->ids, worker, v, keep, &a->next.marks, r->values))
                                 : gather(r, &a->next, v);
  if (keep) {
    key_list now = a->now;
    a->now = a->next;
    a->next = now;
  }
  a->next.n = a->next.marks.n = 0;
  return values;
}

void sparse_rows_save(const sparse_rows *r, int worker, text *out) {
  const key_list *lists[] = {&r->asked[worker].now, &r->asked[worker].next};
  for (int i = 0; i < 2; i++) {
    text_add_bytes(out, (const char *)&lists[i]->n, sizeof lists[i]->n);
    text_add_bytes(out, (const char *)lists[i]->keys, (size_t)lists[i]->n * sizeof *lists[i]->keys);
    text_add_bytes(out, (const char *)&lists[i]->marks.n, sizeof lists[i]->marks.n);
    text_add_bytes(out, (const char *)lists[i]->marks.bits, ps_marks_bytes(lists[i]->marks.n));
  }
}

static bool load(const uint8_t **from, const uint8_t *end, void *to, size_t bytes) {
  if ((size_t)(end - *from) < bytes) return false;
  memcpy(to, *from, bytes);
  *from += bytes;
  return true;
}

bool sparse_rows_load(sparse_rows *r, int worker, const uint8_t **from, const uint8_t *end) {
  key_list *lists[] = {&r->asked[worker].now, &r->asked[worker].next};
  for (int i = 0; i < 2; i++) {
    key_list *l = lists[i];
    int64_t n, marked;
    if (!load(from, end, &n, sizeof n) || n < 0 || n > r->touched) return false;
    if (!load(from, end, l->keys, (size_t)n * sizeof *l->keys)) return false;
    if (!load(from, end, &marked, sizeof marked) || marked < 0 || marked > n) return false;
    if (!load(from, end, l->marks.bits, ps_marks_bytes(marked))) return false;
    l->n = n;
    l->marks.n = marked;
  }
  return true;
}

/* The same for rows of one number, as long as both have some left: without a branch that depends on the keys. */
static void add_numbers(const row_sums *from, const int32_t *keys, const float *gradients, int64_t n, float weight,
                        row_sums *to, int64_t *left, int64_t *right) {
  int64_t i = 0, j = 0, k = 0;
  while (i < from->n && j < n) {
    const int32_t a = from->keys[i], b = keys[j];
    const float sum = from->sums[i], more = weight * gradients[j];
    to->keys[k] = MIN_OF(a, b);
    to->sums[k++] = (a <= b ? sum : 0) + (b <= a ? more : 0);
    i += a <= b;
    j += b <= a;
  }
  to->n = k;
  *left = i;
  *right = j;
}

/* to = from + weight * (keys, gradients [n, width]); rows that only one of both has are those alone. */
static void add_rows(const row_sums *from, const int32_t *keys, const float *gradients, int64_t n, int64_t width,
                     float weight, row_sums *to) {
  int64_t i = 0, j = 0, k = 0;
  if (width == 1) {
    add_numbers(from, keys, gradients, n, weight, to, &i, &j);
    k = to->n;
  }
  for (; i < from->n || j < n; k++) {
    const bool left = j == n || (i < from->n && from->keys[i] <= keys[j]);
    const bool right = i == from->n || (j < n && keys[j] <= from->keys[i]);
    const float *sum = from->sums + i * width, *more = gradients + j * width;
    float *restrict out = to->sums + k * width;
    to->keys[k] = left ? from->keys[i] : keys[j];
    if (left && right)
      for (int64_t c = 0; c < width; c++) out[c] = sum[c] + weight * more[c];
    else if (left)
      memcpy(out, sum, (size_t)width * sizeof *out);
    else
      for (int64_t c = 0; c < width; c++) out[c] = weight * more[c];
    i += left;
    j += right;
  }
  to->n = k;
}

/* Of growing ids: which ones the gradients are about together. */
static void join_ids(sparse_rows *r, const ps_gradient *gradients, int n) {
  for (int g = 0; g < n; g++) {
    key_list *now = &r->asked[gradients[g].worker].now;
    r->keys[g] = now->keys;
    now->n = id_rows_given(r->ids, gradients[g].worker);
  }
  id_rows_join(r->ids, gradients, n, r->keys);
}

/* Of rows keys [n], which are all there are of the ids, by gradients [n, width]. */
static shoal_status update(sparse_rows *r, ps_vectors *v, const int32_t *keys, const float *gradients, int64_t n,
                           int64_t step, double rate) {
  if (!n) return NULL;
  return r->ids ? id_rows_update(r->ids, v, gradients, step, rate) : ps_vectors_apply_rows(v, keys, gradients, n, rate);
}

/* Of a round: what each worker's part has come to. */
static shoal_status apply_round(sparse_rows *r, ps_vectors *v, const ps_gradient *gradients, int n, int64_t step,
                                double rate, bool *uneven) {
  row_sums *all = &r->sums[0];
  for (int g = 0; g < n; g++) {
    const key_list *keys = &r->asked[gradients[g].worker].now;
    r->parts[g] = (sparse_part){.keys = keys->keys, .n = keys->n, .gradient = &gradients[g]};
  }
  all->n = sparse_tree_sum(r->parts, n, r->width, all->keys, all->sums, uneven);
  return update(r, v, all->keys, all->sums, all->n, step, rate);
}

shoal_status sparse_rows_apply(sparse_rows *r, ps_vectors *v, const ps_gradient *gradients, int n, int64_t step,
                               double rate, bool *uneven) {
  if (r->ids) join_ids(r, gradients, n);
  if (r->parts) return apply_round(r, v, gradients, n, step, rate, uneven);
  if (n == 1) {
    const key_list *keys = &r->asked[gradients[0].worker].now;
    return update(r, v, keys->keys, gradients[0].values, keys->n, step, rate);
  }
  double examples = 0;
  for (int g = 0; g < n; g++) examples += (double)gradients[g].examples;
  r->sums[0].n = 0;
  for (int g = 0; g < n; g++) {
    const key_list *keys = &r->asked[gradients[g].worker].now;
    add_rows(&r->sums[g % 2], keys->keys, gradients[g].values, keys->n, r->width,
             (float)((double)gradients[g].examples / examples), &r->sums[(g + 1) % 2]);
  }
  const row_sums *all = &r->sums[n % 2];
  return update(r, v, all->keys, all->sums, all->n, step, rate);
}
