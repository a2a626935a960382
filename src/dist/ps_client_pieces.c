/* A gradient goes out in pieces while the rest of it is still computed: rule 17 of ps_protocol.h. Backward begins with
 * the last layers, and a server's vector ends with them, so the end goes first. */
#include "dist/ps_client_internal.h"

#include "base/mem.h"

shoal_status client_make_pieces(ps_client *c) {
  size_t servers = (size_t)client_servers(c);
  c->ready = calloc((size_t)MAX_OF(c->options.variables, 1), sizeof *c->ready);
  c->unsent = calloc(servers, sizeof *c->unsent);
  c->slices = calloc(servers, sizeof *c->slices);
  if (!c->ready || !c->unsent || !c->slices) return status_no_memory();
  client_begin_pieces(c);
  bool large = false;
  for (int i = 0; i < client_servers(c); i++) large = large || c->options.place->elements[i] >= 2 * PS_PIECE_MIN;
  c->in_pieces = c->options.pieces && large && !c->options.terms.round && !c->options.terms.backups;
  return NULL;
}

void client_free_pieces(ps_client *c) {
  free(c->ready);
  free(c->unsent);
  free(c->slices);
}

void client_begin_pieces(ps_client *c) {
  const placement *p = c->options.place;
  for (int s = 0; s < p->servers; s++) {
    c->unsent[s] = p->elements[s];
    c->slices[s] = p->begin[s + 1];
  }
  for (int i = 0; i < c->options.variables; i++) c->ready[i] = false;
}

int client_add_parts(ps_client *c, int server, float *const *values, int64_t first, int64_t last, int n) {
  const placement *p = c->options.place;
  for (int i = p->begin[server]; i < p->begin[server + 1]; i++) {
    const placement_slice *slice = &p->slices[i];
    const int64_t from = MAX_OF(first, slice->offset), to = MIN_OF(last, slice->offset + slice->count);
    if (from >= to) continue;
    c->parts[n++] =
        (net_part){values[slice->variable] + slice->first + from - slice->offset, (size_t)(to - from) * sizeof(float)};
  }
  return n;
}

shoal_status client_send_pieces(ps_client *c, int server, float *const *gradients, int64_t first) {
  while (c->unsent[server] > first) {
    const int64_t count = MIN_OF(c->unsent[server] - first, PS_PIECE_GRADIENT), at = c->unsent[server] - count;
    net_header h = {.kind = PS_PIECE, .step = (uint64_t)at, .number = (uint64_t)count};
    int n = 1;
    if (c->wire || c->drains) {
      h.flags = client_wire_flags(c);
      c->parts[0] = client_encode(c, server, gradients, at, at + count);
    } else {
      n = client_add_parts(c, server, gradients, at, at + count, 0);
    }
    TRY(client_send_parts(c, server, h, n));
    c->unsent[server] = at;
  }
  return NULL;
}

bool ps_client_takes_pieces(const ps_client *c) { return c->in_pieces; }

shoal_status ps_client_ready(ps_client *c, float *const *gradients, int variable) {
  const placement *p = c->options.place;
  c->ready[variable] = true;
  for (int s = p->servers - 1; s >= 0; s--) {
    while (c->slices[s] > p->begin[s] && c->ready[p->slices[c->slices[s] - 1].variable]) c->slices[s]--;
    if (c->slices[s] == p->begin[s + 1]) continue;
    const int64_t first = p->slices[c->slices[s]].offset;
    if (c->unsent[s] - first >= PS_PIECE_MIN) TRY(client_send_pieces(c, s, gradients, first));
  }
  return NULL;
}
