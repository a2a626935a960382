/* A table on the servers, of which a worker asks for the rows it needs: rule 12 of ps_protocol.h. */
#include "dist/ps_client_internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

/* A table is one variable, and each server has one slice of it. */
shoal_status client_cut_table(ps_client *c) {
  const placement *place = c->options.place;
  c->ends = calloc((size_t)place->servers, sizeof *c->ends);
  if (!c->ends) return status_no_memory();
  for (int s = 0; s < place->servers; s++) {
    const placement_slice *slice = &place->slices[place->begin[s]];
    const int64_t most = MIN_OF(c->options.terms.touched, slice->count);
    ps_table_end *end = &c->ends[s];
    *end = (ps_table_end){.first = slice->first, .count = slice->count, .n_asked = -1};
    end->asked = calloc((size_t)most + 1, sizeof *end->asked);
    end->code = calloc(1, sparse_keys_max(most) + 1);
    if (!end->asked || !end->code) return status_no_memory();
    if (place->begin[s + 1] - place->begin[s] != 1 || (s && end->first != end[-1].first + end[-1].count))
      return status_make(SHOAL_ERR_INTERNAL, "the table's rows are not on the servers in order");
  }
  return NULL;
}

void client_free_table(ps_client *c) {
  for (int s = 0; c->ends && s < client_servers(c); s++) {
    free(c->ends[s].asked);
    free(c->ends[s].code);
  }
  free(c->ends);
}

/* ---- rows */

static int64_t width_of(const ps_client *c) { return c->options.terms.width; }

/* Keys [0, n) from `begin` on that are the server's. */
static void find_own(const ps_client *c, int server, ps_keys keys) {
  ps_table_end *end = &c->ends[server];
  int64_t bounds[2]; /* the first key that is not below the server's first row, and behind its last */
  for (int k = 0; k < 2; k++) {
    int64_t low = 0, high = keys.n, row = end->first + (k ? end->count : 0);
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (keys.keys[middle] < row)
        low = middle + 1;
      else
        high = middle;
    }
    bounds[k] = low;
  }
  end->begin = bounds[0];
  end->n = bounds[1] - bounds[0];
}

/* Head, gradients and the server's share of the keys. kept: those keys are what the server knows this worker by. */
static shoal_status send_keys(ps_client *c, int server, net_header h, ps_head *head, const float *gradients,
                              ps_keys keys, bool kept) {
  ps_table_end *end = &c->ends[server];
  find_own(c, server, keys);
  const int32_t *own = keys.keys + end->begin;
  int n = 1;
  if (gradients) c->parts[n++] = (net_part){gradients, (size_t)(head->gradients * width_of(c)) * sizeof *gradients};
  if (kept && end->n == end->n_asked && !memcmp(own, end->asked, (size_t)end->n * sizeof *own)) {
    head->keys = PS_SAME;
  } else {
    head->keys = end->n;
    c->parts[n++] = (net_part){end->code, sparse_keys_encode(own, end->n, (int32_t)end->first, end->code)};
  }
  if (kept) {
    memcpy(end->asked, own, (size_t)end->n * sizeof *own);
    end->n_asked = end->n;
  }
  c->parts[0] = (net_part){head, sizeof *head};
  return client_send_parts(c, server, h, n);
}

/* values [keys, width] */
static ps_cargo cargo_of(const ps_client *c, int server, float *values) {
  const ps_table_end *end = &c->ends[server];
  return (ps_cargo){.values = values + end->begin * width_of(c), .n = end->n * width_of(c)};
}

shoal_status ps_client_push_rows(ps_client *c, const float *gradients, ps_keys next, float *values, ps_head *head,
                                 ps_answer *out) {
  int64_t at = 0; /* gradients of servers with smaller rows */
  for (int s = 0; s < client_servers(c); s++) at += c->ends[s].n_asked;
  for (int s = client_servers(c) - 1; s >= 0; s--) {
    at -= c->ends[s].n_asked;
    head->gradients = head->examples ? c->ends[s].n_asked : 0;
    net_header h = {.kind = PS_PUSH, .step = c->versions[s], .number = (uint64_t)head->examples};
    TRY(send_keys(c, s, h, head, head->examples ? gradients + at * width_of(c) : NULL, next, true));
  }
  double since = clock_seconds();
  for (int s = 0; s < client_servers(c); s++) {
    ps_cargo cargo = cargo_of(c, s, values);
    TRY(client_take(c, s, PS_PUSH, &cargo, since, out));
  }
  return NULL;
}

shoal_status ps_client_rows(ps_client *c, ps_keys keys, bool keep, float *values) {
  ps_head head = {0};
  for (int s = 0; s < client_servers(c); s++) {
    if (keep) c->ends[s].n_asked = -1; /* so that they are sent */
    TRY(send_keys(c, s, (net_header){.kind = PS_ROWS, .number = keep}, &head, NULL, keys, keep));
  }
  for (int s = 0; s < client_servers(c); s++) {
    ps_head got;
    net_header answer;
    ps_cargo cargo = cargo_of(c, s, values);
    TRY(client_receive(c, s, PS_ROWS, &cargo, &got, &answer));
  }
  return NULL;
}

/* The server with that element, and how many of `count` from it on can go in one message. *own: which of its elements it
 * is. */
static int server_with(const ps_client *c, int64_t element, int64_t count, int64_t *own, int64_t *out) {
  const int64_t width = width_of(c), row = element / width;
  int s = 0;
  while (s + 1 < client_servers(c) && (row < c->ends[s].first || row >= c->ends[s].first + c->ends[s].count)) s++;
  *own = element - c->ends[s].first * width;
  *out = MIN_OF(MIN_OF(count, PS_PIECE_MAX), c->ends[s].count * width - *own);
  return s;
}

shoal_status ps_client_read(ps_client *c, int which, int64_t first, int64_t count, float *values) {
  for (int64_t n; count > 0; first += n, count -= n, values += n) {
    int64_t own;
    int s = server_with(c, first, count, &own, &n);
    ps_piece piece = {.which = which, .first = own, .count = n};
    ps_head head;
    net_header answer;
    c->parts[0] = (net_part){&piece, sizeof piece};
    TRY(client_send_parts(c, s, (net_header){.kind = PS_READ}, 1));
    TRY(client_receive(c, s, PS_READ, &(ps_cargo){.values = values, .n = n}, &head, &answer));
  }
  return NULL;
}

shoal_status ps_client_write(ps_client *c, int which, int64_t first, int64_t count, const float *values) {
  for (int64_t n; count > 0; first += n, count -= n, values += n) {
    int64_t own;
    int s = server_with(c, first, count, &own, &n);
    ps_piece piece = {.which = which, .first = own, .count = n};
    ps_head head;
    net_header answer;
    c->parts[0] = (net_part){&piece, sizeof piece};
    c->parts[1] = (net_part){values, (size_t)n * sizeof *values};
    TRY(client_send_parts(c, s, (net_header){.kind = PS_WRITE}, 2));
    TRY(client_receive(c, s, PS_WRITE, &(ps_cargo){0}, &head, &answer));
  }
  return NULL;
}
