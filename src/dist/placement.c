#include "dist/placement.h"

#include "base/mem.h"

#include <string.h>

#define GRAIN 16      /* elements: slices end on cache lines */
#define SMALLEST 1024 /* elements: below this a cut costs more than it evens out */

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* How many slices a variable of `count` elements gets when `fair` is a server's share. */
static int64_t slices_of(int64_t count, int64_t fair, int servers) {
  if (count <= fair || count < 2 * SMALLEST) return 1;
  return MIN_OF(MIN_OF((count + fair - 1) / fair, servers), count / SMALLEST);
}

/* Largest first; equal ones in the order of the variables. */
static int by_size(const void *a, const void *b) {
  const placement_slice *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  if (x->variable != y->variable) return x->variable < y->variable ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static int by_place(const void *a, const void *b) {
  const placement_slice *x = a, *y = b;
  if (x->server != y->server) return x->server < y->server ? -1 : 1;
  if (x->variable != y->variable) return x->variable < y->variable ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static shoal_status cut(const int64_t *counts, int n, int servers, placement *p) {
  int64_t total = 0, pieces = 0;
  for (int i = 0; i < n; i++) total += counts[i];
  int64_t fair = (total + servers - 1) / servers;
  for (int i = 0; i < n; i++) pieces += slices_of(counts[i], fair, servers);
  p->slices = calloc((size_t)pieces, sizeof *p->slices);
  if (!p->slices) return status_no_memory();
  for (int i = 0; i < n; i++) {
    int64_t k = slices_of(counts[i], fair, servers), each = round_up((counts[i] + k - 1) / k, GRAIN);
    for (int64_t first = 0; first < counts[i]; first += each)
      p->slices[p->n_slices++] =
          (placement_slice){.variable = i, .first = first, .count = MIN_OF(each, counts[i] - first)};
  }
  return NULL;
}

shoal_status placement_make(const int64_t *counts, int n, int servers, placement *out) {
  if (n < 1 || servers < 1)
    return status_make(SHOAL_ERR_ARGUMENT, "placement: %d variables on %d servers: at least one of each", n, servers);
  placement p = {.servers = servers};
  p.elements = calloc((size_t)servers, sizeof *p.elements);
  p.begin = calloc((size_t)servers + 1, sizeof *p.begin);
  shoal_status status = p.elements && p.begin ? cut(counts, n, servers, &p) : status_no_memory();
  if (status) {
    placement_fini(&p);
    return status;
  }
  qsort(p.slices, (size_t)p.n_slices, sizeof *p.slices, by_size);
  for (int i = 0; i < p.n_slices; i++) {
    int least = 0;
    for (int s = 1; s < servers; s++)
      if (p.elements[s] < p.elements[least]) least = s;
    p.slices[i].server = least;
    p.elements[least] += p.slices[i].count;
  }
  qsort(p.slices, (size_t)p.n_slices, sizeof *p.slices, by_place);
  memset(p.elements, 0, (size_t)servers * sizeof *p.elements);
  for (int i = 0; i < p.n_slices; i++) {
    placement_slice *s = &p.slices[i];
    s->offset = p.elements[s->server];
    p.elements[s->server] += s->count;
    p.begin[s->server + 1] = i + 1;
  }
  for (int s = 0; s < servers; s++) {
    p.begin[s + 1] = MAX_OF(p.begin[s + 1], p.begin[s]);
    if (p.elements[s]) continue;
    placement_fini(&p);
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%d parameter servers are more than this model has parameters for: use %d or fewer", servers, s);
  }
  *out = p;
  return NULL;
}

shoal_status placement_deal(int64_t rows, int servers, placement *out) {
  if (servers < 1 || rows < servers)
    return status_make(SHOAL_ERR_ARGUMENT, "placement: %lld rows on %d servers: use %lld or fewer", (long long)rows,
                       servers, (long long)MAX_OF(rows, 1));
  placement p = {.servers = servers, .n_slices = servers};
  p.slices = calloc((size_t)servers, sizeof *p.slices);
  p.elements = calloc((size_t)servers, sizeof *p.elements);
  p.begin = calloc((size_t)servers + 1, sizeof *p.begin);
  if (!p.slices || !p.elements || !p.begin) {
    placement_fini(&p);
    return status_no_memory();
  }
  for (int s = 0; s < servers; s++) {
    p.elements[s] = (rows - s + servers - 1) / servers;
    p.slices[s] = (placement_slice){.server = s, .first = s, .count = p.elements[s]};
    p.begin[s + 1] = s + 1;
  }
  *out = p;
  return NULL;
}

void placement_fini(placement *p) {
  free(p->slices);
  free(p->elements);
  free(p->begin);
  *p = (placement){0};
}
