/* A table on the servers, of which a worker asks for the rows it needs: rule 12 of ps_protocol.h. */
#include "dist/ps_client_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dist/id_rows.h"

#include <stdlib.h>
#include <string.h>

/* Row k of the table is row k / servers of server k % servers (placement_deal). */
shoal_status client_cut_table(ps_client *c) {
  const placement *place = c->options.place;
  c->ends = calloc((size_t)place->servers, sizeof *c->ends);
  if (!c->ends) return status_no_memory();
  for (int s = 0; s < place->servers; s++) {
    const placement_slice *slice = &place->slices[place->begin[s]];
    const bool ids = c->options.terms.ids;
    const int64_t most = ids ? c->options.terms.touched : MIN_OF(c->options.terms.touched, slice->count);
    ps_table_end *end = &c->ends[s];
    *end = (ps_table_end){.count = slice->count, .n_asked = -1};
    if (ids) end->asked_ids = calloc((size_t)most + 1, sizeof *end->asked_ids);
    if (!ids) end->asked = calloc((size_t)most + 1, sizeof *end->asked);
    if (!ids) end->own = calloc((size_t)most + 1, sizeof *end->own);
    end->code = calloc(1, (ids ? sparse_ids_max(most) : sparse_keys_max(most)) + 1);
    end->marks.bits = calloc(ps_marks_bytes(most) + 1, sizeof *end->marks.bits);
    if (!end->code || !end->marks.bits || (ids ? !end->asked_ids : !end->asked || !end->own)) return status_no_memory();
    if (place->begin[s + 1] - place->begin[s] != 1 || slice->first != s)
      return status_make(SHOAL_ERR_INTERNAL, "the table's rows are not dealt out to the servers");
  }
  return NULL;
}

void client_free_table(ps_client *c) {
  for (int s = 0; c->ends && s < client_servers(c); s++) {
    free(c->ends[s].asked);
    free(c->ends[s].own);
    free(c->ends[s].asked_ids);
    free(c->ends[s].code);
    free(c->ends[s].marks.bits);
  }
  free(c->ends);
}

/* ---- rows */

static int64_t width_of(const ps_client *c) { return c->options.terms.width; }

/* Finds the keys that are the server's, and its own numbers of their rows. */
static void find_own(const ps_client *c, int server, ps_keys keys) {
  ps_table_end *end = &c->ends[server];
  const int32_t servers = client_servers(c);
  int64_t bounds[2]; /* the first key that is no earlier server's, and the first of a later one */
  for (int k = 0; k < 2; k++) {
    int64_t low = 0, high = keys.n;
    while (low < high) {
      int64_t middle = (low + high) / 2;
      if (keys.keys[middle] % servers < server + k)
        low = middle + 1;
      else
        high = middle;
    }
    bounds[k] = low;
  }
  end->begin = bounds[0];
  end->n = bounds[1] - bounds[0];
  if (servers == 1) /* without dividing */
    memcpy(end->own, keys.keys, (size_t)end->n * sizeof *end->own);
  else
    for (int64_t i = 0; i < end->n; i++) end->own[i] = keys.keys[end->begin + i] / servers;
}

int64_t ps_client_others(const ps_client *c, int server) {
  const int64_t servers = client_servers(c), all = c->options.terms.other_rows;
  return MAX_OF((all - server + servers - 1) / servers, 0);
}

/* Where the server's rows are among those of all: behind those of servers before it. */
static void find_ids(const ps_client *c, int server, ps_keys keys) {
  ps_table_end *end = &c->ends[server];
  end->begin = server ? c->ends[server - 1].begin + c->ends[server - 1].n : 0;
  end->n = keys.first[server + 1] - keys.first[server] + (keys.others ? ps_client_others(c, server) : 0);
}

/* The same of keys and ids: adds the server's share to the message, unless it is what was asked for last. */
static int add_ids(ps_client *c, int server, ps_keys keys, bool kept, ps_head *head, int parts) {
  ps_table_end *end = &c->ends[server];
  const uint64_t *own = keys.ids + keys.first[server];
  const int64_t n = keys.first[server + 1] - keys.first[server];
  if (kept && end->n == end->n_asked && keys.others == end->others &&
      !memcmp(own, end->asked_ids, (size_t)n * sizeof *own)) {
    head->keys = PS_SAME;
  } else {
    head->keys = n;
    c->parts[parts++] = (net_part){end->code, sparse_ids_encode(own, n, end->code)};
  }
  if (kept) {
    memcpy(end->asked_ids, own, (size_t)n * sizeof *own);
    end->n_asked = end->n;
    end->others = keys.others;
  }
  return parts;
}

static int add_keys(ps_client *c, int server, bool kept, ps_head *head, int parts) {
  ps_table_end *end = &c->ends[server];
  const int32_t *own = end->own;
  if (kept && end->n == end->n_asked && !memcmp(own, end->asked, (size_t)end->n * sizeof *own)) {
    head->keys = PS_SAME;
  } else {
    head->keys = end->n;
    c->parts[parts++] = (net_part){end->code, sparse_keys_encode(own, end->n, 0, end->code)};
  }
  if (kept) {
    memcpy(end->asked, own, (size_t)end->n * sizeof *own);
    end->n_asked = end->n;
  }
  return parts;
}

/* Bits of the rows that are not to be sent, up to the last of them. */
static int add_marks(ps_client *c, int server, ps_keys keys, ps_head *head, int parts) {
  ps_table_end *end = &c->ends[server];
  end->marks.n = end->n_marked = 0;
  for (int64_t i = 0; keys.held && i < end->n; i++)
    if (keys.held[end->begin + i]) end->marks.n = i + 1;
  memset(end->marks.bits, 0, ps_marks_bytes(end->marks.n));
  for (int64_t i = 0; i < end->marks.n; i++) {
    const bool held = keys.held[end->begin + i];
    end->marks.bits[i / 8] |= (uint8_t)(held << i % 8);
    end->n_marked += held;
  }
  head->marked = (int32_t)end->marks.n;
  if (head->marked) c->parts[parts++] = (net_part){end->marks.bits, ps_marks_bytes(end->marks.n)};
  return parts;
}

/* The server's rows of a gradient's vectors; NULL: there is none. */
typedef struct {
  const float *const *vectors;
  int n;
  int64_t first; /* row */
} row_gradients;

/* Head, gradients, marks and the server's share of the keys. kept: those keys are what the server knows this worker by. */
static shoal_status send_keys(ps_client *c, int server, net_header h, ps_head *head, const row_gradients *gradients,
                              ps_keys keys, bool kept) {
  int n = 1;
  for (int k = 0; gradients && k < gradients->n; k++)
    c->parts[n++] = (net_part){gradients->vectors[k] + gradients->first * width_of(c),
                               (size_t)(head->gradients * width_of(c)) * sizeof **gradients->vectors};
  n = add_marks(c, server, keys, head, n);
  n = keys.ids ? add_ids(c, server, keys, kept, head, n) : add_keys(c, server, kept, head, n);
  c->parts[0] = (net_part){head, sizeof *head};
  return client_send_parts(c, server, h, n);
}

/* values [keys, width]: rows that come follow each other, as if there were no others. */
static ps_cargo cargo_of(const ps_client *c, int server, float *values) {
  const ps_table_end *end = &c->ends[server];
  return (ps_cargo){.values = values + end->begin * width_of(c), .n = (end->n - end->n_marked) * width_of(c)};
}

/* Moves them to where they belong, runs of rows from the last one on. */
static void spread(const ps_client *c, int server, float *values) {
  const ps_table_end *end = &c->ends[server];
  const int64_t width = width_of(c);
  float *rows = values + end->begin * width;
  int64_t last = end->n, left = end->n_marked; /* `left`: rows with a mark before `last` */
  while (left) {
    int64_t first = last;
    while (!ps_is_marked(&end->marks, first - 1)) first--;
    memmove(rows + first * width, rows + (first - left) * width, (size_t)((last - first) * width) * sizeof *rows);
    last = first - 1;
    left--;
  }
}

/* Before keys go to servers in any order: which are whose. */
static void find_all(const ps_client *c, ps_keys keys) {
  for (int s = 0; s < client_servers(c); s++) keys.ids ? find_ids(c, s, keys) : find_own(c, s, keys);
}

shoal_status ps_client_push_rows(ps_client *c, const float *const *gradients, ps_keys next, float *values,
                                 ps_head *head, ps_answer *out) {
  row_gradients rows = {.vectors = gradients, .n = client_vectors(c, head)}; /* first: of servers with smaller rows */
  for (int s = 0; s < client_servers(c); s++) rows.first += c->ends[s].n_asked;
  find_all(c, next);
  for (int s = client_servers(c) - 1; s >= 0; s--) {
    rows.first -= c->ends[s].n_asked;
    head->gradients = head->examples ? c->ends[s].n_asked : 0;
    const net_header h = client_push_header(c, s, head);
    TRY(send_keys(c, s, h, head, head->examples ? &rows : NULL, next, true));
  }
  double since = clock_seconds();
  for (int s = 0; s < client_servers(c); s++) {
    ps_cargo cargo = cargo_of(c, s, values);
    TRY(client_take(c, s, PS_PUSH, &cargo, since, out));
    spread(c, s, values);
  }
  return NULL;
}

shoal_status ps_client_rows(ps_client *c, ps_keys keys, bool keep, float *values) {
  ps_head head = {0};
  find_all(c, keys);
  for (int s = 0; s < client_servers(c); s++) {
    if (keep) c->ends[s].n_asked = -1; /* so that they are sent */
    const net_header h = {.kind = PS_ROWS, .number = (uint64_t)(keep | (keys.others ? PS_OTHERS : 0))};
    TRY(send_keys(c, s, h, &head, NULL, keys, keep));
  }
  for (int s = 0; s < client_servers(c); s++) {
    ps_head got;
    net_header answer;
    ps_cargo cargo = cargo_of(c, s, values);
    TRY(client_receive(c, s, PS_ROWS, &cargo, &got, &answer));
    spread(c, s, values);
  }
  return NULL;
}

/* ---- pieces */

/* Elements [first, first + n) of a server's own vector, there and back. */
static shoal_status read_piece(ps_client *c, int server, int which, int64_t first, int64_t n, float *values) {
  ps_piece piece = {.which = which, .first = first, .count = n};
  ps_head head;
  net_header answer;
  c->parts[0] = (net_part){&piece, sizeof piece};
  TRY(client_send_parts(c, server, (net_header){.kind = PS_READ}, 1));
  return client_receive(c, server, PS_READ, &(ps_cargo){.values = values, .n = n}, &head, &answer);
}

static shoal_status write_piece(ps_client *c, int server, int which, int64_t first, int64_t n, const float *values) {
  ps_piece piece = {.which = which, .first = first, .count = n};
  ps_head head;
  net_header answer;
  c->parts[0] = (net_part){&piece, sizeof piece};
  c->parts[1] = (net_part){values, (size_t)n * sizeof *values};
  TRY(client_send_parts(c, server, (net_header){.kind = PS_WRITE}, 2));
  return client_receive(c, server, PS_WRITE, &(ps_cargo){0}, &head, &answer);
}

shoal_status ps_client_read_ids(ps_client *c, int server, int which, int64_t first, int64_t count, void *values) {
  const int what = which & ~PS_IDS_SOME;
  int64_t each = what >= PS_IDS_VECTOR ? ps_vector_width(&c->options.terms, what - PS_IDS_VECTOR) : 2;
  if (what == PS_IDS_STATE || what == PS_IDS_BASE) each = 2 * ID_ROWS_STATE;
  ps_piece piece = {.which = which, .first = first, .count = count};
  ps_head head;
  net_header answer;
  c->parts[0] = (net_part){&piece, sizeof piece};
  TRY(client_send_parts(c, server, (net_header){.kind = PS_READ}, 1));
  return client_receive(c, server, PS_READ, &(ps_cargo){.values = values, .n = count * each}, &head, &answer);
}

shoal_status ps_client_write_ids(ps_client *c, int server, int which, const void *records, int64_t count,
                                 size_t bytes) {
  ps_piece piece = {.which = which, .count = count};
  ps_head head;
  net_header answer;
  c->parts[0] = (net_part){&piece, sizeof piece};
  c->parts[1] = (net_part){records, bytes};
  TRY(client_send_parts(c, server, (net_header){.kind = PS_WRITE}, 2));
  return client_receive(c, server, PS_WRITE, &(ps_cargo){0}, &head, &answer);
}

/* A stretch of a vector in which all rows have as many numbers. */
typedef struct {
  int which;
  int64_t width; /* of a row */
  int64_t base;  /* of the stretch: what rows before it lack to that width, of the whole vector */
} stretch;

/* The one that element `first` of the vector is in; *count: elements from there on that are wanted. */
static stretch find_stretch(const ps_client *c, int which, int64_t first, int64_t *count) {
  const ps_terms *t = &c->options.terms;
  const bool differ = which && t->row_slots && !t->ids; /* of ids only the other parameters' rows are read so */
  if (!differ) return (stretch){which, t->width, 0};
  if (first >= t->started) return (stretch){which, t->width, t->started * (t->width - 1)};
  *count = MIN_OF(*count, t->started - first);
  return (stretch){which, 1, 0};
}

/* Elements that are moved together: whole rows, or, where `first` is inside a row or the end is, the part of that row. */
static int64_t together(const ps_client *c, const stretch *of, int64_t first, int64_t count) {
  const int64_t width = of->width, most = PS_PIECE_MAX / width * client_servers(c), inside = first % width;
  if (inside) return MIN_OF(count, width - inside);
  return count < width ? count : MIN_OF(count / width, most) * width;
}

/* Rows of [first, first + n) that are the server's: which of them is the first (n: none is), how many there are. */
static int64_t own_rows(const ps_client *c, int server, int64_t first, int64_t n, int64_t *skip) {
  const int64_t servers = client_servers(c);
  *skip = (server - first % servers + servers) % servers;
  return *skip < n ? (n - *skip + servers - 1) / servers : 0;
}

/* Where an element is in its server's vector, if all rows had the stretch's width. */
static int64_t own_element(const ps_client *c, const stretch *of, int64_t element, int *server) {
  const int64_t row = element / of->width, servers = client_servers(c);
  *server = (int)(row % servers);
  const int64_t before = of->base ? (c->options.terms.started - *server + servers - 1) / servers * (of->width - 1) : 0;
  return row / servers * of->width + element % of->width - before;
}

/* Whole rows [first, first + n), each server's in one piece. room [PS_PIECE_MAX]. */
static shoal_status read_rows(ps_client *c, const stretch *of, int64_t first, int64_t n, float *room, float *values) {
  const int64_t width = of->width, servers = client_servers(c);
  for (int s = 0; s < servers; s++) {
    int64_t skip, own = own_rows(c, s, first, n, &skip);
    if (!own) continue;
    const int64_t at = own_element(c, of, (first + skip) * width, &s);
    TRY(read_piece(c, s, of->which, at, own * width, room));
    for (int64_t i = 0; i < own; i++)
      memcpy(values + (skip + i * servers) * width, room + i * width, (size_t)width * sizeof *values);
  }
  return NULL;
}

static shoal_status write_rows(ps_client *c, const stretch *of, int64_t first, int64_t n, float *room,
                               const float *values) {
  const int64_t width = of->width, servers = client_servers(c);
  for (int s = 0; s < servers; s++) {
    int64_t skip, own = own_rows(c, s, first, n, &skip);
    if (!own) continue;
    for (int64_t i = 0; i < own; i++)
      memcpy(room + i * width, values + (skip + i * servers) * width, (size_t)width * sizeof *values);
    const int64_t at = own_element(c, of, (first + skip) * width, &s);
    TRY(write_piece(c, s, of->which, at, own * width, room));
  }
  return NULL;
}

shoal_status ps_client_read(ps_client *c, int which, int64_t first, int64_t count, float *values) {
  float *room = malloc((size_t)PS_PIECE_MAX * sizeof *room);
  shoal_status status = room ? NULL : status_no_memory();
  for (int64_t n; count > 0 && !status; first += n, count -= n, values += n) {
    int s;
    n = count;
    const stretch of = find_stretch(c, which, first, &n);
    const int64_t at = first + of.base, own = own_element(c, &of, at, &s);
    n = together(c, &of, at, n);
    status = n % of.width || at % of.width ? read_piece(c, s, which, own, n, values)
                                           : read_rows(c, &of, at / of.width, n / of.width, room, values);
  }
  free(room);
  return status;
}

shoal_status ps_client_write(ps_client *c, int which, int64_t first, int64_t count, const float *values) {
  float *room = malloc((size_t)PS_PIECE_MAX * sizeof *room);
  shoal_status status = room ? NULL : status_no_memory();
  for (int64_t n; count > 0 && !status; first += n, count -= n, values += n) {
    int s;
    n = count;
    const stretch of = find_stretch(c, which, first, &n);
    const int64_t at = first + of.base, own = own_element(c, &of, at, &s);
    n = together(c, &of, at, n);
    status = n % of.width || at % of.width ? write_piece(c, s, which, own, n, values)
                                           : write_rows(c, &of, at / of.width, n / of.width, room, values);
  }
  free(room);
  return status;
}

int ps_client_servers(const ps_client *c) { return client_servers(c); }
