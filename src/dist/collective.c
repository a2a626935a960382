#include "dist/collective.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const collective_sizes standard_sizes = {.bucket_min = 1 << 18, .bucket_max = 1 << 24, .direct_max = 1 << 19};
#define LATE_MAX 8 /* ranks named in a message */

#define WAIT_SECONDS 0.02                            /* of a link that wakes us: between two looks at the deadline */
enum { LOOKS = 100, NAP_LEAST = 10, NAP_MAX = 300 }; /* looks before the first nap; microseconds */

typedef enum { BUCKET_WAITS, BUCKET_SCATTERS, BUCKET_GATHERS, BUCKET_DONE } bucket_state;

typedef struct {
  int64_t start, count;
  int first, last; /* tensors [first, last) that lie in it, at least partly */
  bool direct;     /* small: every rank gets all of it from every other, and adds it up itself */
  int pending;     /* tensors that are not ready */
  bucket_state state;
  link_set *sends, *receives, *gathers;
  bool *send_use, *receive_use;  /* which messages this kind of step has */
  int *send_node, *receive_node; /* which node each is about */
  int *receive_peer;
  int n_sends, n_receives;
  void **from;     /* [ranks * nodes] the peers' numbers for the own piece, as they travel */
  uint8_t **wires; /* [nodes] the own ones; NULL with f32 */
  bool received;   /* all of `receives` are there */
  bool sent;
} bucket;

struct collective {
  collective_place *place;
  collective_options options;
  collective_sizes cut;
  peers_rank *ranks;
  int64_t *offsets; /* [tensors + 1] */
  int64_t elements;
  bucket *buckets;
  int n_buckets;
  int nodes;     /* parts a rank has at most */
  float **parts; /* [nodes] [elements] */
  const wire_format *format;
  float **decoded;      /* [ranks * nodes] [numbers of the largest piece]; NULL with f32 and bf16 */
  float *left;          /* [elements] what rounding took away from the own numbers; NULL without feedback */
  float *sum_left;      /* [elements] the same of sums that this rank makes */
  float *scratch;       /* [numbers of the largest bucket] */
  int64_t leaves;       /* of the step under way */
  int *own_nodes;       /* [ranks] nodes each rank has in it */
  tree_source *sources; /* [ranks * nodes] */
  link_set *heads;
  collective_head own, *all; /* [ranks] */
  link_set *sizes;           /* of what is gathered */
  int64_t size, *all_sizes;
  peers *peers;  /* NULL: not watched (any more) */
  bool *missing; /* [ranks] those that an error was about */
};

/* ---- helpers */

static shoal_status failed(const collective *c) {
  return status_make(SHOAL_ERR_PEER, "between the ranks: %s", c->place->why);
}
#define LINK(c, call)              \
  do {                             \
    if (!(call)) return failed(c); \
  } while (0)

static int nodes_of(const collective *c, int64_t leaves, int rank, tree_node out[TREE_NODES_MAX]) {
  int64_t first, last;
  tree_share(leaves, rank, c->place->ranks, &first, &last);
  return tree_nodes(first, last, out);
}

/* What a rank adds up. */
static void piece_of(const collective *c, const bucket *b, int rank, int64_t *first, int64_t *count) {
  int64_t last = b->count;
  *first = 0;
  if (!b->direct) pool_share(b->count, c->format->grain, rank, c->place->ranks, first, &last);
  *count = last - *first;
}

/* Of numbers of a bucket from a multiple of WIRE_GRAIN on. */
static int64_t wire_bytes(const collective *c, int64_t count) { return c->format->bytes(count); }

static void *wire(const collective *c, const bucket *b, int node, int64_t first) {
  return c->format->encode ? (void *)(b->wires[node] + wire_bytes(c, first))
                           : (void *)(c->parts[node] + b->start + first);
}

/* ---- setting up */

static shoal_status add_bucket(collective *c, size_t *capacity, int64_t start, int64_t count) {
  TRY(mem_grow((void **)&c->buckets, capacity, (size_t)c->n_buckets + 1, sizeof *c->buckets));
  bucket *b = &c->buckets[c->n_buckets++];
  *b = (bucket){.start = start, .count = count};
  b->direct = count * c->nodes * (c->place->ranks - 1) <= c->cut.direct_max;
  while (c->offsets[b->first + 1] <= start) b->first++;
  for (b->last = b->first; b->last < c->options.tensors && c->offsets[b->last] < start + count;) b->last++;
  return NULL;
}

/* From the last tensor to the first. */
static shoal_status cut_buckets(collective *c) {
  size_t capacity = 0;
  int64_t end = c->elements;
  for (int t = c->options.tensors - 1; t >= 0; t--) {
    int64_t count = end - c->offsets[t];
    if (count < c->cut.bucket_min && t > 0) continue;
    int64_t parts = (count + c->cut.bucket_max - 1) / c->cut.bucket_max;
    for (int64_t i = parts - 1; i >= 0; i--) {
      int64_t from = c->offsets[t] + count * i / parts, to = c->offsets[t] + count * (i + 1) / parts;
      if (to > from) TRY(add_bucket(c, &capacity, from, to - from));
    }
    end = c->offsets[t];
  }
  return NULL;
}

/* The messages of a bucket: to and from each peer one a node and way, then the sums. */
static shoal_status prepare_bucket(collective *c, int index) {
  bucket *b = &c->buckets[index];
  const link_table *link = c->place->link;
  const int ranks = c->place->ranks, me = c->place->rank, most = (ranks - 1) * c->nodes;
  int64_t own_first, own_count;
  piece_of(c, b, me, &own_first, &own_count);
  const size_t n = most > 0 ? (size_t)most : 1;
  b->send_use = calloc(n, sizeof *b->send_use);
  b->receive_use = calloc(n, sizeof *b->receive_use);
  b->send_node = calloc(n, sizeof *b->send_node);
  b->receive_node = calloc(n, sizeof *b->receive_node);
  b->receive_peer = calloc(n, sizeof *b->receive_peer);
  b->from = calloc((size_t)(ranks * c->nodes), sizeof *b->from);
  b->wires = calloc((size_t)c->nodes, sizeof *b->wires);
  if (!b->wires) return status_no_memory();
  for (int node = 0; node < c->nodes && c->format->encode; node++)
    TRY(mem_aligned((size_t)wire_bytes(c, b->count), (void **)&b->wires[node]));
  if (!b->send_use || !b->receive_use || !b->send_node || !b->receive_node || !b->receive_peer || !b->from)
    return status_no_memory();
  LINK(c, link->set_create(c->place->at, most, &b->sends));
  LINK(c, link->set_create(c->place->at, most, &b->receives));
  LINK(c, link->set_create(c->place->at, 2 * (ranks - 1), &b->gathers));
  for (int k = 1; k < ranks; k++) {
    int peer = (me + k) % ranks; /* not all to the same one first */
    int64_t first, count;
    piece_of(c, b, peer, &first, &count);
    for (int node = 0; node < c->nodes; node++) {
      int tag = index * (c->nodes + 1) + node;
      if (count) {
        LINK(c, link->set_send(b->sends, wire(c, b, node, first), wire_bytes(c, count), peer, tag));
        b->send_node[b->n_sends++] = node;
      }
      if (own_count) {
        void **from = &b->from[peer * c->nodes + node];
        TRY(mem_aligned((size_t)wire_bytes(c, own_count), from));
        LINK(c, link->set_receive(b->receives, *from, wire_bytes(c, own_count), peer, tag));
        b->receive_node[b->n_receives] = node;
        b->receive_peer[b->n_receives++] = peer;
      }
    }
    if (b->direct) continue;
    int tag = index * (c->nodes + 1) + c->nodes;
    if (own_count) LINK(c, link->set_send(b->gathers, wire(c, b, 0, own_first), wire_bytes(c, own_count), peer, tag));
    if (count) LINK(c, link->set_receive(b->gathers, wire(c, b, 0, first), wire_bytes(c, count), peer, tag));
  }
  return NULL;
}

/* The same few bytes from each rank to each. */
static shoal_status prepare_exchange(collective *c, const void *own, void *all, int64_t bytes, int tag,
                                     link_set **out) {
  const link_table *link = c->place->link;
  LINK(c, link->set_create(c->place->at, 2 * (c->place->ranks - 1), out));
  for (int k = 1; k < c->place->ranks; k++) {
    int peer = (c->place->rank + k) % c->place->ranks;
    LINK(c, link->set_send(*out, own, bytes, peer, tag));
    LINK(c, link->set_receive(*out, (char *)all + peer * bytes, bytes, peer, tag));
  }
  return NULL;
}

static shoal_status late(collective *c, link_set *set, double seconds) {
  int who[LATE_MAX], n = c->place->link->set_late(set, who, LATE_MAX);
  text names = {0};
  for (int i = 0; i < n; i++) c->missing[who[i]] = true;
  for (int i = 0; i < n; i++)
    text_add(&names, "%srank %d (pid %d on %s)", i ? ", " : "", c->ranks[who[i]].id, c->ranks[who[i]].pid,
             c->ranks[who[i]].host);
  shoal_status status =
      status_make(SHOAL_ERR_PEER, "no answer in %g s of %s", seconds, names.data ? names.data : "a rank");
  text_fini(&names);
  return status;
}

/* One that is waited for and has closed its connection, or -1. */
static int lost_peer(const collective *c, link_set *set) {
  const link_table *link = c->place->link;
  int who[LATE_MAX], n = link->gone ? link->set_late(set, who, LATE_MAX) : 0;
  for (int i = 0; i < n; i++)
    if (link->gone(c->place->at, who[i])) return who[i];
  return -1;
}

/* Whether waiting makes sense: nobody is gone, and it has not been for too long. */
static shoal_status check_wait(collective *c, link_set *set, double seconds) {
  int gone = c->peers ? peers_gone(c->peers) : -1;
  if (gone < 0) gone = lost_peer(c, set);
  if (gone < 0 && c->options.interrupted && c->options.interrupted(c->options.interrupter)) {
    c->place->cut = true;
    return status_make(SHOAL_ERR_PEER, "other ranks have come or gone");
  }
  if (gone >= 0) {
    c->place->cut = true;
    c->missing[gone] = true;
    return status_make(SHOAL_ERR_PEER, "rank %d (pid %d on %s) has ended", c->ranks[gone].id, c->ranks[gone].pid,
                       c->ranks[gone].host);
  }
  return seconds > c->options.patience ? late(c, set, c->options.patience) : NULL;
}

/* A nap gives the processor to the peer that is waited for, and the one who sleeps is woken before those who compute.
 */
static void pause_a_little(const collective *c, int *looks) {
  const link_table *link = c->place->link;
  if (link->wait) {
    link->wait(c->place->at, WAIT_SECONDS);
    return;
  }
  int over = ++*looks - LOOKS;
  if (over <= 0) return;
  long nap = MIN_OF(NAP_LEAST * (long)over, (long)NAP_MAX);
  nanosleep(&(struct timespec){.tv_nsec = 1000 * nap}, NULL);
}

static shoal_status let_move(collective *c) {
  const link_table *link = c->place->link;
  if (link->move) LINK(c, link->move(c->place->at));
  return NULL;
}

static shoal_status wait_for(collective *c, link_set *set) {
  double start = clock_seconds();
  for (int looks = 0;;) {
    bool done;
    TRY(let_move(c));
    LINK(c, c->place->link->set_test(set, &done));
    double waited = clock_seconds() - start;
    if (done) {
      c->place->stats.blocked_seconds += waited;
      return NULL;
    }
    TRY(check_wait(c, set, waited));
    pause_a_little(c, &looks);
  }
}

static shoal_status introduce(collective *c) {
  peers_rank me;
  peers_introduce(&me);
  me.id = c->place->id;
  for (int r = 0; r < c->place->ranks; r++) c->ranks[r].id = r; /* as long as it is not known */
  link_set *set = NULL;
  shoal_status status = prepare_exchange(c, &me, c->ranks, sizeof me, 0, &set);
  if (!status && !c->place->link->set_start(set, NULL)) status = failed(c);
  if (!status) status = wait_for(c, set);
  c->ranks[c->place->rank] = me;
  c->place->link->set_free(set);
  TRY(status);
  if (c->place->link->one_process || c->options.interrupted) return NULL;
  return peers_create(c->ranks, c->place->ranks, c->place->rank, c->options.on_peer_exit, c->options.context,
                      &c->peers);
}

static shoal_status zeroed(int64_t count, float **out) {
  TRY(mem_aligned((size_t)count * sizeof **out, (void **)out));
  memset(*out, 0, (size_t)count * sizeof **out);
  return NULL;
}

/* Room for numbers that are decoded before they are added up, and for what rounding takes away. */
static shoal_status prepare_rounding(collective *c) {
  const int sources = c->place->ranks * c->nodes;
  int64_t piece = 0, most = 0;
  if (!c->format->feedback) return NULL;
  for (int i = 0; i < c->n_buckets; i++) {
    int64_t first, count;
    piece_of(c, &c->buckets[i], c->place->rank, &first, &count);
    piece = MAX_OF(piece, count);
    most = MAX_OF(most, c->buckets[i].count);
  }
  c->decoded = calloc((size_t)sources, sizeof *c->decoded);
  if (!c->decoded) return status_no_memory();
  for (int k = 0; k < sources; k++) TRY(zeroed(piece, &c->decoded[k]));
  TRY(zeroed(c->elements, &c->left));
  TRY(zeroed(c->elements, &c->sum_left));
  return zeroed(most, &c->scratch);
}

static shoal_status create(collective *c, const collective_options *o) {
  const int ranks = c->place->ranks;
  tree_node nodes[TREE_NODES_MAX];
  c->offsets = calloc((size_t)o->tensors + 1, sizeof *c->offsets);
  c->ranks = calloc((size_t)ranks, sizeof *c->ranks);
  c->own_nodes = calloc((size_t)ranks, sizeof *c->own_nodes);
  c->all = calloc((size_t)ranks, sizeof *c->all);
  c->all_sizes = calloc((size_t)ranks, sizeof *c->all_sizes);
  c->missing = calloc((size_t)ranks, sizeof *c->missing);
  if (!c->missing || !c->offsets || !c->ranks || !c->own_nodes || !c->all || !c->all_sizes) return status_no_memory();
  for (int i = 0; i < o->tensors; i++) c->offsets[i + 1] = c->offsets[i] + o->counts[i];
  c->elements = c->offsets[o->tensors];
  c->nodes = 1;
  for (int64_t leaves = 1; leaves <= MAX_OF(o->leaves[0], o->leaves[1]); leaves++)
    for (int r = 0; r < ranks && (o->any_leaves || leaves == o->leaves[0] || leaves == o->leaves[1]); r++)
      c->nodes = MAX_OF(c->nodes, nodes_of(c, leaves, r, nodes));
  c->parts = calloc((size_t)c->nodes, sizeof *c->parts);
  c->sources = calloc((size_t)(ranks * c->nodes), sizeof *c->sources);
  if (!c->parts || !c->sources) return status_no_memory();
  for (int k = 0; k < c->nodes; k++) TRY(mem_aligned((size_t)c->elements * sizeof **c->parts, (void **)&c->parts[k]));
  TRY(introduce(c));
  TRY(cut_buckets(c));
  for (int i = 0; i < c->n_buckets; i++) TRY(prepare_bucket(c, i));
  TRY(prepare_rounding(c));
  int tag = c->n_buckets * (c->nodes + 1);
  TRY(prepare_exchange(c, &c->own, c->all, sizeof c->own, tag, &c->heads));
  return prepare_exchange(c, &c->size, c->all_sizes, sizeof c->size, tag + 1, &c->sizes);
}

shoal_status collective_create(collective_place *place, const collective_options *options, collective **out) {
  collective *c = calloc(1, sizeof *c);
  if (!c) return status_no_memory();
  c->place = place;
  c->options = *options;
  c->cut = options->sizes ? *options->sizes : standard_sizes;
  c->format = options->wire ? options->wire : wire_format_find("f32");
  shoal_status status = create(c, options);
  c->options.counts = NULL;
  if (status)
    collective_destroy(c);
  else
    *out = c;
  return status;
}

void collective_destroy(collective *c) {
  if (!c) return;
  const link_table *link = c->place->link;
  peers_destroy(c->peers);
  for (int i = 0; i < c->n_buckets; i++) {
    bucket *b = &c->buckets[i];
    link->set_free(b->sends);
    link->set_free(b->receives);
    link->set_free(b->gathers);
    for (int k = 0; b->from && k < c->place->ranks * c->nodes; k++) free(b->from[k]);
    for (int k = 0; b->wires && k < c->nodes; k++) free(b->wires[k]);
    free(b->wires);
    free(b->from);
    free(b->send_use);
    free(b->receive_use);
    free(b->send_node);
    free(b->receive_node);
    free(b->receive_peer);
  }
  free(c->buckets);
  link->set_free(c->heads);
  link->set_free(c->sizes);
  for (int k = 0; k < c->nodes; k++) {
    if (c->parts) free(c->parts[k]);
  }
  free(c->parts);
  for (int k = 0; c->decoded && k < c->place->ranks * c->nodes; k++) free(c->decoded[k]);
  free(c->decoded);
  free(c->left);
  free(c->sum_left);
  free(c->scratch);
  free(c->sources);
  free(c->offsets);
  free(c->ranks);
  free(c->own_nodes);
  free(c->all);
  free(c->all_sizes);
  free(c->missing);
  free(c);
}

static bool is_missing(const collective *c, int rank) {
  const link_table *link = c->place->link;
  return c->missing[rank] || (link->gone && rank != c->place->rank && link->gone(c->place->at, rank));
}

bool collective_speaks(const collective *c) {
  int lowest = 0;
  while (lowest < c->place->ranks && is_missing(c, lowest)) lowest++;
  return lowest == c->place->rank;
}

void collective_part_ways(collective *c) {
  peers_destroy(c->peers);
  c->peers = NULL;
}

const peers_rank *collective_ranks(const collective *c) { return c->ranks; }
float *collective_part(collective *c, int k) { return c->parts[k]; }
int collective_parts(const collective *c) { return c->nodes; }
int collective_tags(const collective *c) { return c->n_buckets * (c->nodes + 1); }
const collective_sizes *collective_standard_sizes(void) { return &standard_sizes; }
void collective_stats_read(const collective *c, collective_stats *out) { *out = c->place->stats; }

/* ---- a step */

shoal_status collective_begin(collective *c, int64_t leaves) {
  tree_node nodes[TREE_NODES_MAX];
  const int me = c->place->rank;
  c->leaves = leaves;
  for (int r = 0; r < c->place->ranks; r++) c->own_nodes[r] = nodes_of(c, leaves, r, nodes);
  for (int i = 0; i < c->n_buckets; i++) {
    bucket *b = &c->buckets[i];
    b->state = BUCKET_WAITS;
    b->pending = b->last - b->first;
    b->sent = b->received = false;
    for (int k = 0; k < b->n_sends; k++) b->send_use[k] = b->send_node[k] < c->own_nodes[me];
    for (int k = 0; k < b->n_receives; k++) b->receive_use[k] = b->receive_node[k] < c->own_nodes[b->receive_peer[k]];
    LINK(c, c->place->link->set_start(b->receives, b->receive_use));
  }
  return NULL;
}

static shoal_status send_bucket(collective *c, bucket *b) {
  for (int k = 0; c->format->encode && k < c->own_nodes[c->place->rank]; k++)
    if (c->left && !k)
      wire_format_feed(c->format, c->parts[0] + b->start, c->left + b->start, b->wires[0], b->count, c->scratch);
    else
      c->format->encode(c->parts[k] + b->start, b->wires[k], b->count);
  b->state = BUCKET_SCATTERS;
  LINK(c, c->place->link->set_start(b->sends, b->send_use));
  int64_t first, count, sent = wire_bytes(c, b->count) * (c->place->ranks - 1);
  piece_of(c, b, c->place->rank, &first, &count);
  if (!b->direct) sent = wire_bytes(c, b->count) - wire_bytes(c, count);
  c->place->stats.sent_bytes += sent * c->own_nodes[c->place->rank];
  return NULL;
}

/* Of the own numbers, and of the sums that this rank makes, which nobody else has. */
void collective_add_left(const collective *c, float *to) {
  for (int64_t i = 0; c->left && i < c->elements; i++) to[i] += c->left[i] + c->sum_left[i];
}

shoal_status collective_ready(collective *c, int tensor) {
  for (int i = 0; i < c->n_buckets; i++) {
    bucket *b = &c->buckets[i];
    if (tensor < b->first || tensor >= b->last || --b->pending) continue;
    TRY(send_bucket(c, b));
  }
  return NULL;
}

/* All ranks' numbers for the own piece are there. */
static void add_piece(collective *c, bucket *b) {
  int64_t first, count;
  piece_of(c, b, c->place->rank, &first, &count);
  const int64_t at = b->start + first;
  int n = 0;
  for (int r = 0; r < c->place->ranks; r++) {
    tree_node nodes[TREE_NODES_MAX];
    const int have = nodes_of(c, c->leaves, r, nodes);
    for (int k = 0; k < have; k++) {
      const void *data = r == c->place->rank ? wire(c, b, k, first) : b->from[r * c->nodes + k];
      if (c->decoded) {
        c->format->decode(data, c->decoded[n], count);
        data = c->decoded[n];
      }
      const bool halves = c->format->encode && !c->decoded; /* of bf16, as they are */
      c->sources[n++] =
          (tree_source){.node = nodes[k], .data = halves ? NULL : data, .halves = halves ? data : NULL, .scale = 1};
      if (r != c->place->rank) c->place->stats.received_bytes += wire_bytes(c, count);
    }
  }
  float *into[] = {c->parts[0] + at};
  tree_sum(c->sources, n, true, into, count);
  if (b->direct) return;
  if (c->sum_left)
    wire_format_feed(c->format, into[0], c->sum_left + at, wire(c, b, 0, first), count, c->scratch);
  else if (c->format->encode)
    c->format->encode(into[0], wire(c, b, 0, first), count);
  c->place->stats.sent_bytes += wire_bytes(c, count) * (c->place->ranks - 1);
  c->place->stats.received_bytes += wire_bytes(c, b->count) - wire_bytes(c, count);
}

static shoal_status move_bucket(collective *c, bucket *b) {
  const link_table *link = c->place->link;
  if (!b->received && b->state <= BUCKET_SCATTERS) LINK(c, link->set_test(b->receives, &b->received));
  if (b->state == BUCKET_SCATTERS) {
    if (!b->sent) LINK(c, link->set_test(b->sends, &b->sent));
    /* The sums come into the memory that was sent from. */
    if (!b->sent || !b->received) return NULL;
    add_piece(c, b);
    LINK(c, link->set_start(b->gathers, NULL));
    b->state = BUCKET_GATHERS;
  }
  if (b->state == BUCKET_GATHERS) {
    bool done;
    LINK(c, link->set_test(b->gathers, &done));
    if (!done) return NULL;
    if (c->format->encode && !b->direct) c->format->decode(b->wires[0], c->parts[0] + b->start, b->count);
    b->state = BUCKET_DONE;
  }
  return NULL;
}

static shoal_status move_all(collective *c) {
  TRY(let_move(c));
  for (int i = 0; i < c->n_buckets; i++)
    if (c->buckets[i].state != BUCKET_DONE) TRY(move_bucket(c, &c->buckets[i]));
  return NULL;
}

shoal_status collective_move(collective *c) {
  double start = clock_seconds();
  shoal_status status = move_all(c);
  c->place->stats.sending_seconds += clock_seconds() - start;
  return status;
}

static link_set *unfinished(const collective *c) {
  for (int i = 0; i < c->n_buckets; i++) {
    const bucket *b = &c->buckets[i];
    if (b->state == BUCKET_SCATTERS) return b->received ? b->sends : b->receives;
    if (b->state == BUCKET_GATHERS) return b->gathers;
  }
  return NULL;
}

shoal_status collective_meet(collective *c, const collective_head *own, collective_head *all) {
  c->own = *own;
  LINK(c, c->place->link->set_start(c->heads, NULL));
  TRY(wait_for(c, c->heads));
  c->all[c->place->rank] = *own;
  memcpy(all, c->all, (size_t)c->place->ranks * sizeof *all);
  return NULL;
}

shoal_status collective_finish(collective *c, const collective_head *own, collective_head *all) {
  c->own = *own;
  LINK(c, c->place->link->set_start(c->heads, NULL));
  double start = clock_seconds();
  int looks = 0;
  for (link_set *left;;) {
    TRY(move_all(c));
    if (!(left = unfinished(c))) break;
    double waited = clock_seconds() - start;
    TRY(check_wait(c, left, waited));
    pause_a_little(c, &looks);
  }
  c->place->stats.blocked_seconds += clock_seconds() - start;
  TRY(wait_for(c, c->heads));
  c->all[c->place->rank] = *own;
  memcpy(all, c->all, (size_t)c->place->ranks * sizeof *all);
  return NULL;
}

/* ---- words */

shoal_status collective_gather(collective *c, const char *words, char **out) {
  const link_table *link = c->place->link;
  const int ranks = c->place->ranks, me = c->place->rank, tag = c->n_buckets * (c->nodes + 1) + 2;
  c->size = (int64_t)strlen(words) + 1;
  LINK(c, link->set_start(c->sizes, NULL));
  TRY(wait_for(c, c->sizes));
  c->all_sizes[me] = c->size;
  link_set *set = NULL;
  LINK(c, link->set_create(c->place->at, ranks, &set));
  shoal_status status = NULL;
  for (int r = 0; r < ranks && !me && !status; r++) {
    out[r] = calloc(1, (size_t)c->all_sizes[r]);
    if (!out[r])
      status = status_no_memory();
    else if (!r)
      memcpy(out[r], words, (size_t)c->size);
    else if (!link->set_receive(set, out[r], c->all_sizes[r], r, tag))
      status = failed(c);
  }
  if (me && !status && !link->set_send(set, words, c->size, 0, tag)) status = failed(c);
  if (!status && !link->set_start(set, NULL)) status = failed(c);
  if (!status) status = wait_for(c, set);
  link->set_free(set);
  return status;
}
