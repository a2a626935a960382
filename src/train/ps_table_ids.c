#include "train/ps_table_ids.h"

#include "base/mem.h"
#include "dist/id_rows.h"
#include "train/model_ids.h"

#include <stdio.h>
#include <string.h>

enum {
  NAME_TEXT = 256,
  STATE = 6 /* numbers of the state in a file: id_table_state */
};

/* One tensor of the file. */
typedef struct {
  ps_table_ids *table;
  int which;      /* as in a READ */
  int64_t each;   /* words of 4 bytes that a row has */
  bool waiting;   /* of ids without a row */
  int file_words; /* of each, in the file */
} part;

struct ps_table_ids {
  char (*extra)[NAME_TEXT]; /* [MODEL_IDS_ITEMS] of what is not a vector */
  const char **vectors;     /* [n] copies of the pointers */
  int n;
  int64_t width, slot_width; /* of the table's rows, and of its slots' */
  part parts[MODEL_IDS_ITEMS];
  /* as it was counted last */
  ps_client *client;
  int servers;
  id_rows_state *states; /* [servers] */
  int64_t state[STATE];  /* of the file */
  float *piece;          /* [PS_PIECE_MAX] */
};

static int64_t width_of(const ps_table_ids *t, int k) { return k ? t->slot_width : t->width; }
/* Numbers of a row before those of vector k. */
static int64_t first_of(const ps_table_ids *t, int k) { return k ? t->width + (k - 1) * t->slot_width : 0; }

shoal_status ps_table_ids_create(const char *const *names, int n, int64_t width, int64_t slot_width,
                                 ps_table_ids **out) {
  ps_table_ids *t = calloc(1, sizeof *t);
  if (!t) return status_no_memory();
  t->n = n;
  t->width = width;
  t->slot_width = slot_width;
  t->vectors = calloc((size_t)n, sizeof *t->vectors);
  t->extra = calloc(MODEL_IDS_ITEMS, sizeof *t->extra);
  t->piece = calloc((size_t)PS_PIECE_MAX, sizeof *t->piece);
  if (!t->vectors || !t->extra || !t->piece) {
    ps_table_ids_destroy(t);
    return status_no_memory();
  }
  memcpy(t->vectors, names, (size_t)n * sizeof *names);
  *out = t;
  return NULL;
}

void ps_table_ids_destroy(ps_table_ids *t) {
  if (!t) return;
  free(t->vectors);
  free(t->extra);
  free(t->states);
  free(t->piece);
  free(t);
}

/* ---- saving */

static shoal_status count(ps_table_ids *t, ps_client *client) {
  t->client = client;
  t->servers = ps_client_servers(client);
  id_rows_state *states = realloc(t->states, (size_t)t->servers * sizeof *states);
  if (!states) return status_no_memory();
  t->states = states;
  for (int s = 0; s < t->servers; s++) TRY(ps_client_read_ids(client, s, PS_IDS_STATE, 0, 1, &states[s]));
  return NULL;
}

static id_rows_state sum(const ps_table_ids *t) {
  id_rows_state all = {0};
  for (int s = 0; s < t->servers; s++) {
    all.ids += t->states[s].ids;
    all.admitted += t->states[s].admitted;
    all.evicted += t->states[s].evicted;
    all.waiting += t->states[s].waiting;
    all.bytes += t->states[s].bytes;
    all.step = MAX_OF(all.step, t->states[s].step);
  }
  return all;
}

shoal_status ps_table_ids_count(ps_table_ids *t, ps_client *client, id_table_counts *out) {
  TRY(count(t, client));
  const id_rows_state all = sum(t);
  *out = (id_table_counts){all.ids, all.admitted, all.evicted, all.bytes};
  return NULL;
}

/* Rows [*row, ...) of all servers: which server's they are, and how many follow each other there. */
static int64_t find_server(const part *p, int64_t row, int *server, int64_t *first) {
  const ps_table_ids *t = p->table;
  for (*server = 0; *server < t->servers; ++*server) {
    const int64_t n = p->waiting ? t->states[*server].waiting : t->states[*server].ids;
    if (row < n) {
      *first = row;
      return n - row;
    }
    row -= n;
  }
  return 0;
}

/* Of i64, the lower halves. */
static void narrow(const part *p, float *words, int64_t rows) {
  for (int64_t i = 0; p->file_words < p->each && i < rows; i++) words[i] = words[2 * i];
}

/* Pieces begin and end anywhere. */
static shoal_status read_part(void *source, uint64_t first, size_t bytes, void *into) {
  const part *p = source;
  ps_table_ids *t = p->table;
  const size_t each = (size_t)p->file_words * sizeof(float);
  const int64_t most = PS_PIECE_MAX / p->each;
  for (char *to = into; bytes;) {
    int server;
    int64_t begin = 0;
    const int64_t row = (int64_t)(first / each), there = find_server(p, row, &server, &begin);
    const size_t skip = (size_t)(first % each);
    const int64_t n = MIN_OF(MIN_OF(there, most), (int64_t)((skip + bytes + each - 1) / each));
    if (!n) return status_make(SHOAL_ERR_INTERNAL, "the servers have fewer ids than they had");
    TRY(ps_client_read_ids(t->client, server, p->which, begin, n, t->piece));
    narrow(p, t->piece, n);
    const size_t some = MIN_OF((size_t)n * each - skip, bytes);
    memcpy(to, (const char *)t->piece + skip, some);
    to += some;
    first += some;
    bytes -= some;
  }
  return NULL;
}

static void add(ps_table_ids *t, safetensors_item *out, int *n, const char *what, part p, shoal_dtype dtype,
                shoal_shape shape) {
  part *own = &t->parts[*n];
  *own = p;
  own->table = t;
  const char *name = what;
  if (p.which < PS_IDS_VECTOR) {
    snprintf(t->extra[*n], sizeof t->extra[*n], "%s/%s", t->vectors[0], what);
    name = t->extra[*n];
  }
  out[(*n)++] = (safetensors_item){
      .name = name, .tensor = shoal_tensor_view(dtype, shape, NULL), .read = read_part, .source = own};
}

shoal_status ps_table_ids_items(ps_table_ids *t, ps_client *client, bool weights, safetensors_item *out, int *n) {
  TRY(count(t, client));
  const id_rows_state all = sum(t);
  const shoal_shape rows = SHOAL_SHAPE(all.ids), waiting = SHOAL_SHAPE(all.waiting);
  *n = 0;
  for (int k = 0; k < (weights ? 1 : t->n); k++)
    add(t, out, n, t->vectors[k],
        (part){.which = PS_IDS_VECTOR + k, .each = width_of(t, k), .file_words = (int)width_of(t, k)}, SHOAL_F32,
        k && t->slot_width < t->width ? rows : SHOAL_SHAPE(all.ids, t->width));
  add(t, out, n, "ids", (part){.which = PS_IDS, .each = 2, .file_words = 2}, SHOAL_I64, rows);
  if (weights) return NULL;
  add(t, out, n, "used", (part){.which = PS_IDS_USED, .each = 2, .file_words = 2}, SHOAL_I64, rows);
  add(t, out, n, "waiting", (part){.which = PS_IDS_WAITING, .each = 2, .waiting = true, .file_words = 2}, SHOAL_I64,
      waiting);
  add(t, out, n, "seen", (part){.which = PS_IDS_SEEN, .each = 2, .waiting = true, .file_words = 1}, SHOAL_I32, waiting);
  const int64_t state[STATE] = {all.ids, -1, all.ids, all.admitted, all.evicted, all.step};
  memcpy(t->state, state, sizeof state);
  snprintf(t->extra[*n], sizeof t->extra[*n], "%s/state", t->vectors[0]);
  out[*n] =
      (safetensors_item){.name = t->extra[*n], .tensor = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(STATE), t->state)};
  ++*n;
  return NULL;
}

/* ---- restoring */

/* Records on their way to each server. */
typedef struct {
  ps_table_ids *table;
  ps_client *client;
  safetensors *file;
  int which;
  size_t each;  /* bytes of a record */
  int64_t room; /* records */
  int servers;
  char **out; /* [servers][room] */
  int64_t *n; /* [servers] */
} sending;

static void drop(sending *s) {
  for (int k = 0; s->out && k < s->servers; k++) free(s->out[k]);
  free(s->out);
  free(s->n);
}

static shoal_status prepare(sending *s) {
  s->servers = ps_client_servers(s->client);
  s->room = MAX_OF((int64_t)((size_t)PS_PIECE_MAX * sizeof(float) / s->each), 1);
  s->out = calloc((size_t)s->servers, sizeof *s->out);
  s->n = calloc((size_t)s->servers, sizeof *s->n);
  if (!s->out || !s->n) return status_no_memory();
  for (int k = 0; k < s->servers; k++)
    if (!(s->out[k] = malloc((size_t)s->room * s->each))) return status_no_memory();
  return NULL;
}

static shoal_status flush(sending *s, int server) {
  const int64_t n = s->n[server];
  s->n[server] = 0;
  return n ? ps_client_write_ids(s->client, server, s->which, s->out[server], n, (size_t)n * s->each) : NULL;
}

/* Room for one more record to the id's server. */
static shoal_status next_record(sending *s, int64_t id, char **out) {
  const int server = ps_id_server((uint64_t)id, s->servers);
  if (s->n[server] == s->room) TRY(flush(s, server));
  *out = s->out[server] + (size_t)s->n[server]++ * s->each;
  return NULL;
}

static shoal_status read_list(const sending *s, const char *what, int64_t first, int64_t n, size_t size, void *into) {
  char name[NAME_TEXT];
  snprintf(name, sizeof name, "%s/%s", s->table->vectors[0], what);
  return safetensors_read_part(s->file, name, (uint64_t)first * size, (size_t)n * size, into);
}

static int64_t length_of(const sending *s, const char *what) {
  char name[NAME_TEXT];
  snprintf(name, sizeof name, "%s/%s", s->table->vectors[0], what);
  const safetensors_entry *e = safetensors_find(s->file, name);
  return e && e->shape.rank == 1 ? e->shape.dim[0] : -1;
}

/* Rows [first, first + n) of the file; free ones are passed over. ids, used: [n]; numbers [n, all vectors]. */
static shoal_status send_rows(sending *s, int64_t first, int64_t n, int64_t *ids, int64_t *used, float *numbers) {
  const ps_table_ids *t = s->table;
  TRY(read_list(s, "ids", first, n, sizeof *ids, ids));
  TRY(read_list(s, "used", first, n, sizeof *used, used));
  for (int k = 0; k < t->n; k++)
    TRY(safetensors_read_part(s->file, t->vectors[k], (uint64_t)(first * width_of(t, k)) * sizeof(float),
                              (size_t)(n * width_of(t, k)) * sizeof(float), numbers + n * first_of(t, k)));
  for (int64_t i = 0; i < n; i++) {
    char *to;
    const id_rows_record one = {ids[i], used[i]};
    if (!used[i]) continue;
    TRY(next_record(s, ids[i], &to));
    memcpy(to, &one, sizeof one);
    for (int k = 0; k < t->n; k++)
      memcpy(to + sizeof one + (size_t)first_of(t, k) * sizeof(float),
             numbers + n * first_of(t, k) + i * width_of(t, k), (size_t)width_of(t, k) * sizeof(float));
  }
  return NULL;
}

static shoal_status send_all_rows(sending *s) {
  const ps_table_ids *t = s->table;
  const int64_t all = length_of(s, "ids"), most = s->room;
  if (all < 0 || length_of(s, "used") != all || length_of(s, "rows") >= 0)
    return status_make(SHOAL_ERR_INPUT, "the checkpoint has not all rows of growing ids");
  int64_t *ids = malloc(2 * (size_t)most * sizeof *ids);
  float *numbers = malloc((size_t)(most * first_of(t, t->n)) * sizeof *numbers);
  shoal_status status = ids && numbers ? NULL : status_no_memory();
  for (int64_t at = 0; at < all && !status; at += most)
    status = send_rows(s, at, MIN_OF(most, all - at), ids, ids + most, numbers);
  for (int k = 0; k < s->servers && !status; k++) status = flush(s, k);
  free(ids);
  free(numbers);
  return status;
}

static shoal_status send_waiting(sending *s) {
  enum { SOME = 4096 };
  const int64_t all = length_of(s, "waiting");
  int64_t ids[SOME];
  int32_t seen[SOME];
  for (int64_t at = 0; at < all; at += SOME) {
    const int64_t n = MIN_OF((int64_t)SOME, all - at);
    TRY(read_list(s, "waiting", at, n, sizeof *ids, ids));
    TRY(read_list(s, "seen", at, n, sizeof *seen, seen));
    for (int64_t i = 0; i < n; i++) {
      char *to;
      const id_rows_record one = {ids[i], seen[i]};
      TRY(next_record(s, ids[i], &to));
      memcpy(to, &one, sizeof one);
    }
  }
  for (int k = 0; k < s->servers; k++) TRY(flush(s, k));
  return NULL;
}

static shoal_status send_list(ps_table_ids *t, ps_client *client, safetensors *file, int which, size_t each,
                              shoal_status (*send)(sending *)) {
  sending s = {.table = t, .client = client, .file = file, .which = which, .each = each};
  shoal_status status = prepare(&s);
  if (!status) status = send(&s);
  drop(&s);
  return status;
}

shoal_status ps_table_ids_restore(ps_table_ids *t, ps_client *client, safetensors *file) {
  const sending s = {.table = t, .file = file};
  int64_t state[STATE];
  TRY(send_list(t, client, file, PS_IDS, sizeof(id_rows_record) + (size_t)first_of(t, t->n) * sizeof(float),
                send_all_rows));
  TRY(send_list(t, client, file, PS_IDS_WAITING, sizeof(id_rows_record), send_waiting));
  TRY(read_list(&s, "state", 0, STATE, sizeof *state, state));
  for (int k = 0; k < ps_client_servers(client); k++) { /* what is counted over all stands with the first */
    const id_rows_state one = {.admitted = k ? 0 : state[3], .evicted = k ? 0 : state[4], .step = state[5]};
    TRY(ps_client_write_ids(client, k, PS_IDS_STATE, &one, 1, sizeof one));
  }
  return NULL;
}
