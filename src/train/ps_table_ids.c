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
  int64_t *begins;  /* [servers + 1] of the checkpoint with all rows: where each server's begin; NULL: none was made */
  int64_t *changed; /* [3, n] of one with some: places, ids, steps they were used in; NULL: none was made */
  int64_t state[STATE]; /* of the file */
  float *piece;         /* [PS_PIECE_MAX] */
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
  free(t->begins);
  free(t->changed);
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

double ps_table_ids_changed(ps_table_ids *t, ps_client *client, int64_t step) {
  shoal_status status = count(t, client);
  bool known = !status && t->begins;
  int64_t changed = 0, all = 0;
  shoal_status_free(status); /* whoever saves all meets it again */
  for (int s = 0; known && s < t->servers; s++) {
    known = t->states[s].base == step;
    changed += t->states[s].changed;
    all += t->states[s].ids;
  }
  return known && all ? (double)changed / (double)all : 1;
}

shoal_status ps_table_ids_clean(ps_table_ids *t, ps_client *client, int64_t step) {
  TRY(count(t, client));
  int64_t *begins = realloc(t->begins, (size_t)(t->servers + 1) * sizeof *begins);
  if (!begins) return status_no_memory();
  t->begins = begins;
  begins[0] = 0;
  for (int s = 0; s < t->servers; s++) {
    begins[s + 1] = begins[s] + t->states[s].ids;
    TRY(ps_client_read_ids(client, s, PS_IDS_BASE, step, 1, &t->states[s]));
  }
  return NULL;
}

/* Rows [*row, ...) of all servers: which server's they are, and how many follow each other there. */
static int64_t find_server(const part *p, int64_t row, int *server, int64_t *first) {
  const ps_table_ids *t = p->table;
  for (*server = 0; *server < t->servers; ++*server) {
    const id_rows_state *its = &t->states[*server];
    const int64_t n = p->waiting ? its->waiting : p->which & PS_IDS_SOME ? its->changed : its->ids;
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
  if ((p.which & ~PS_IDS_SOME) < PS_IDS_VECTOR) {
    snprintf(t->extra[*n], sizeof t->extra[*n], "%s/%s", t->vectors[0], what);
    name = t->extra[*n];
  }
  out[(*n)++] = (safetensors_item){
      .name = name, .tensor = shoal_tensor_view(dtype, shape, NULL), .read = read_part, .source = own};
}

static void add_vectors(ps_table_ids *t, safetensors_item *out, int *n, int vectors, int some, int64_t rows) {
  for (int k = 0; k < vectors; k++)
    add(t, out, n, t->vectors[k],
        (part){.which = (PS_IDS_VECTOR + k) | some, .each = width_of(t, k), .file_words = (int)width_of(t, k)},
        SHOAL_F32, k && t->slot_width < t->width ? SHOAL_SHAPE(rows) : SHOAL_SHAPE(rows, t->width));
}

/* A list of numbers that is here. */
static void add_here(ps_table_ids *t, safetensors_item *out, int *n, const char *what, int64_t count,
                     int64_t *numbers) {
  snprintf(t->extra[*n], sizeof t->extra[*n], "%s/%s", t->vectors[0], what);
  out[*n] =
      (safetensors_item){.name = t->extra[*n], .tensor = shoal_tensor_view(SHOAL_I64, SHOAL_SHAPE(count), numbers)};
  ++*n;
}

/* Those that changed, of all servers. */
static shoal_status read_changed(ps_table_ids *t, int which, int64_t *out) {
  const int64_t most = PS_PIECE_MAX / 2;
  for (int s = 0; s < t->servers; out += t->states[s++].changed)
    for (int64_t at = 0, n; at < t->states[s].changed; at += n) {
      n = MIN_OF(most, t->states[s].changed - at);
      TRY(ps_client_read_ids(t->client, s, which | PS_IDS_SOME, at, n, out + at));
    }
  return NULL;
}

/* Finds t->changed, *n of them. Places become those of the file: new rows stand behind all of the base, *rows in all; free ones
 * are a chain that *free_row begins, as in base/id_table.h. */
static shoal_status find_changed(ps_table_ids *t, int64_t *n, int64_t *rows, int64_t *free_row) {
  *n = 0;
  for (int s = 0; s < t->servers; s++) *n += t->states[s].changed;
  free(t->changed);
  t->changed = malloc(3 * (size_t)*n * sizeof *t->changed + 1);
  if (!t->changed) return status_no_memory();
  int64_t *places = t->changed, *ids = places + *n, *used = ids + *n;
  TRY(read_changed(t, PS_IDS_PLACE, places));
  TRY(read_changed(t, PS_IDS, ids));
  TRY(read_changed(t, PS_IDS_USED, used));
  *rows = t->begins[t->servers];
  *free_row = -1;
  for (int64_t i = 0, s = 0, left = t->states[0].changed; i < *n; i++, left--) {
    while (!left) left = t->states[++s].changed;
    places[i] = places[i] < 0 ? (*rows)++ : t->begins[s] + places[i];
    if (used[i]) continue;
    ids[i] = *free_row;
    *free_row = places[i];
  }
  return NULL;
}

shoal_status ps_table_ids_items(ps_table_ids *t, ps_client *client, model_ids_part of, safetensors_item *out, int *n) {
  TRY(count(t, client));
  const id_rows_state all = sum(t);
  int64_t rows = all.ids, free_row = -1, some;
  *n = 0;
  if (of == MODEL_IDS_CHANGED) {
    TRY(find_changed(t, &some, &rows, &free_row));
    add_vectors(t, out, n, t->n, PS_IDS_SOME, some);
    add_here(t, out, n, "rows", some, t->changed);
    add_here(t, out, n, "ids", some, t->changed + some);
    add_here(t, out, n, "used", some, t->changed + 2 * some);
  } else {
    add_vectors(t, out, n, of == MODEL_IDS_WEIGHTS ? 1 : t->n, 0, all.ids);
    add(t, out, n, "ids", (part){.which = PS_IDS, .each = 2, .file_words = 2}, SHOAL_I64, SHOAL_SHAPE(all.ids));
  }
  if (of == MODEL_IDS_WEIGHTS) return NULL;
  if (of == MODEL_IDS_ALL)
    add(t, out, n, "used", (part){.which = PS_IDS_USED, .each = 2, .file_words = 2}, SHOAL_I64, SHOAL_SHAPE(all.ids));
  const shoal_shape waiting = SHOAL_SHAPE(all.waiting);
  add(t, out, n, "waiting", (part){.which = PS_IDS_WAITING, .each = 2, .waiting = true, .file_words = 2}, SHOAL_I64,
      waiting);
  add(t, out, n, "seen", (part){.which = PS_IDS_SEEN, .each = 2, .waiting = true, .file_words = 1}, SHOAL_I32, waiting);
  const int64_t state[STATE] = {rows, free_row, all.ids, all.admitted, all.evicted, all.step};
  memcpy(t->state, state, sizeof state);
  add_here(t, out, n, "state", STATE, t->state);
  return NULL;
}

/* ---- restoring */

/* Records on their way to each server. */
typedef struct {
  ps_table_ids *table;
  ps_client *client;
  safetensors *file;
  safetensors *changes; /* NULL, or the file with the rows of `file` that have changed since, and new ones */
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

/* Some rows of a file. */
typedef struct {
  int64_t most, n;
  int64_t *places, *ids, *used; /* [most]; places: only of a file with some */
  float *numbers;               /* [vectors][n, width] */
} row_piece;

static shoal_status piece_init(const ps_table_ids *t, int64_t most, row_piece *out) {
  *out = (row_piece){.most = most, .places = malloc(3 * (size_t)most * sizeof *out->places)};
  out->numbers = malloc((size_t)(most * first_of(t, t->n)) * sizeof *out->numbers);
  if (!out->places || !out->numbers) return status_no_memory();
  out->ids = out->places + most;
  out->used = out->ids + most;
  return NULL;
}

static void piece_fini(row_piece *p) {
  free(p->places);
  free(p->numbers);
}

/* Rows [first, first + n) of s->file. */
static shoal_status piece_read(const sending *s, int64_t first, int64_t n, bool some, row_piece *p) {
  const ps_table_ids *t = s->table;
  p->n = n;
  TRY(read_list(s, "ids", first, n, sizeof *p->ids, p->ids));
  TRY(read_list(s, "used", first, n, sizeof *p->used, p->used));
  if (some) TRY(read_list(s, "rows", first, n, sizeof *p->places, p->places));
  for (int k = 0; k < t->n; k++)
    TRY(safetensors_read_part(s->file, t->vectors[k], (uint64_t)(first * width_of(t, k)) * sizeof(float),
                              (size_t)(n * width_of(t, k)) * sizeof(float), p->numbers + n * first_of(t, k)));
  return NULL;
}

/* Row i of a piece; a free one is passed over. */
static shoal_status send_row(sending *s, const row_piece *p, int64_t i) {
  const ps_table_ids *t = s->table;
  const id_rows_record one = {p->ids[i], p->used[i]};
  char *to;
  if (!one.used) return NULL;
  TRY(next_record(s, one.id, &to));
  memcpy(to, &one, sizeof one);
  for (int k = 0; k < t->n; k++)
    memcpy(to + sizeof one + (size_t)first_of(t, k) * sizeof(float),
           p->numbers + p->n * first_of(t, k) + i * width_of(t, k), (size_t)width_of(t, k) * sizeof(float));
  return NULL;
}

/* A walk through the rows of a file with some. Those that stand for rows of the base are ascending; new ones may be in between. */
typedef struct {
  sending from; /* what is read; nothing is sent by it */
  row_piece piece;
  int64_t first, all; /* of the file: the piece's first row, and how many there are */
  int64_t at;         /* of the piece */
  int64_t base;       /* rows of the base: those from there on are new */
} change_walk;

/* The next that is new, or not; its place, or -1: there is none. */
static shoal_status next_change(change_walk *w, bool is_new, int64_t *place) {
  for (*place = -1; *place < 0; w->at++) {
    if (w->at == w->piece.n) {
      w->first += w->piece.n;
      w->at = 0;
      w->piece.n = 0;
      if (w->first == w->all) return NULL;
      TRY(piece_read(&w->from, w->first, MIN_OF(w->piece.most, w->all - w->first), true, &w->piece));
    }
    if ((w->piece.places[w->at] >= w->base) == is_new) *place = w->piece.places[w->at];
  }
  w->at--; /* it stays there until the caller goes on */
  return NULL;
}

static void begin_walk(change_walk *w) { w->first = w->at = w->piece.n = 0; }

/* All rows of s->file, those that changed as they are in the other, then new ones. w->all is 0: there is no other file. */
static shoal_status send_merged(sending *s, row_piece *p, change_walk *w) {
  int64_t place;
  begin_walk(w);
  TRY(next_change(w, false, &place));
  for (int64_t at = 0; at < w->base; at += p->n) {
    TRY(piece_read(s, at, MIN_OF(p->most, w->base - at), false, p));
    for (int64_t i = 0; i < p->n; i++) {
      if (place != at + i) {
        TRY(send_row(s, p, i));
        continue;
      }
      TRY(send_row(s, &w->piece, w->at++));
      TRY(next_change(w, false, &place));
    }
  }
  if (place >= 0) return status_make(SHOAL_ERR_INPUT, "rows that changed are not in the order of their base");
  begin_walk(w);
  TRY(next_change(w, true, &place));
  while (place >= 0) {
    TRY(send_row(s, &w->piece, w->at++));
    TRY(next_change(w, true, &place));
  }
  return NULL;
}

static shoal_status send_all_rows(sending *s) {
  row_piece p = {0};
  change_walk w = {.from = *s, .base = length_of(s, "ids")};
  w.from.file = s->changes;
  if (s->changes) w.all = length_of(&w.from, "rows");
  if (w.base < 0 || length_of(s, "used") != w.base || length_of(s, "rows") >= 0 || w.all < 0)
    return status_make(SHOAL_ERR_INPUT, "the checkpoint has not all rows of growing ids");
  shoal_status status = piece_init(s->table, s->room, &p);
  if (!status) status = piece_init(s->table, s->room, &w.piece);
  if (!status) status = send_merged(s, &p, &w);
  for (int k = 0; k < s->servers && !status; k++) status = flush(s, k);
  piece_fini(&p);
  piece_fini(&w.piece);
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

/* Takes s, which has all but room. */
static shoal_status send_list(sending s, shoal_status (*send)(sending *)) {
  shoal_status status = prepare(&s);
  if (!status) status = send(&s);
  drop(&s);
  return status;
}

shoal_status ps_table_ids_restore(ps_table_ids *t, ps_client *client, safetensors *base, safetensors *file) {
  const sending s = {.table = t, .client = client, .file = file};
  sending rows = s, waiting = s;
  rows.file = base ? base : file;
  rows.changes = base ? file : NULL;
  rows.which = PS_IDS;
  rows.each = sizeof(id_rows_record) + (size_t)first_of(t, t->n) * sizeof(float);
  waiting.which = PS_IDS_WAITING;
  waiting.each = sizeof(id_rows_record);
  int64_t state[STATE];
  TRY(send_list(rows, send_all_rows));
  TRY(send_list(waiting, send_waiting));
  TRY(read_list(&s, "state", 0, STATE, sizeof *state, state));
  for (int k = 0; k < ps_client_servers(client); k++) { /* what is counted over all stands with the first */
    const id_rows_state one = {.admitted = k ? 0 : state[3], .evicted = k ? 0 : state[4], .step = state[5]};
    TRY(ps_client_write_ids(client, k, PS_IDS_STATE, &one, 1, sizeof one));
  }
  return NULL;
}
