#include "dist/ps_replica.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dist/ps_state.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define CONNECT_SECONDS 0.2 /* for the connection to a member that is to become the backup */
#define AGAIN_SECONDS 0.2   /* between two tries */
#define SEND_SECONDS 0.2 /* a backup that takes nothing for so long is reported: before the primary itself is silent, */
#define SEND_RATE 200e6  /* with so many bytes a second besides */
#define ACK_SECONDS 0.01 /* between two looks at other messages while a confirmation is awaited */
#define UNCONFIRMED_MAX 16 /* pieces on their way to a backup that is filled */
#define LONG_SECONDS 0.05  /* a message that takes longer says when this member is silent */
#define CROWDED_SHARE 0.4  /* of the time that it took, at least so much */
#define RETURN_SECONDS 5.0 /* for a worker to resume, unless its steps take longer */
#define LONGEST_TIMES 3    /* then so many times its longest */
/* A connection to a backup suits records of so many bytes: of small ones it holds many, and the backup wakes up less often. */
#define RECORD_ROOM ((size_t)256 << 10)

/* What a record is: the flags of its header. */
enum { RECORD_STATE = 1, RECORD_HELD, RECORD_PIECE, RECORD_FILLED, RECORD_MESSAGE, RECORD_TICK };

/* Before the bytes of a record; of a piece a ps_piece is there instead. */
typedef struct {
  double now;        /* the primary's clock */
  uint64_t peer;     /* whose message it is; STATE: the life that is meant */
  net_header header; /* the message's */
  int64_t index;     /* HELD: which request of the worker header.from */
  int64_t unused;
} record;

_Static_assert(sizeof(record) == REPLICA_RECORD && sizeof(ps_piece) == REPLICA_RECORD, "what follows is aligned");

struct replica {
  ps_view view; /* the newest known */
  ps_role role;
  uint64_t life;
  bool left_out; /* what it holds counts no longer: it is dropped before the next message */
  double busy;   /* seconds, the longest message so far: see note_busy */
  double waited; /* of it, for the backup: it could be asked meanwhile */
  double worked; /* processor time of this process, at most 0.1 s before the message under way */
  double heard;  /* own clock: the arbiter, or the primary */
  /* of a primary */
  net_client *link;     /* to the backup; NULL: none */
  uint64_t link_life;   /* of that backup */
  uint64_t sent, acked; /* records over this link */
  bool fills;           /* it does not have everything yet */
  int64_t first;        /* the next element to send, of all vectors */
  bool awaits;          /* answers wait for its confirmations, */
  bool shares;          /* which are not needed, since what was sent lies in memory of the backup */
  uint64_t since_term;  /* and have done so since that view */
  bool cut_off;         /* but it takes nothing any more */
  uint64_t target;      /* life that is to be filled; 0: none */
  int target_member;
  double again_at;   /* own clock: when to try to connect */
  double served_at;  /* server's clock: it became primary */
  net_message *kept; /* [n_kept] from first_kept on: came while an answer waited */
  size_t n_kept, first_kept, kept_room;
  /* of a backup */
  uint64_t source;    /* the connection that it is filled through; 0: gone */
  bool filled, named; /* named: a view has it as backup */
};

static shoal_status new_life(replica *r) {
  if (getrandom(&r->life, sizeof r->life, 0) != sizeof r->life) return status_errno(errno, "no random number");
  r->life |= 1; /* 0 is none */
  return NULL;
}

shoal_status replica_create(const server *s, replica **out) {
  replica *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->view = (ps_view){.primary = -1, .backup = -1};
  r->heard = clock_seconds();
  shoal_status status = new_life(r);
  if (status)
    free(r);
  else
    *out = r;
  return status;
}

static void drop_link(replica *r) {
  net_client_abandon(r->link);
  r->link = NULL;
  r->fills = r->shares = false;
  r->sent = r->acked = 0;
}

void replica_destroy(server *s, replica *r) {
  if (!r) return;
  for (size_t i = 0; i < r->n_kept; i++) net_release_server(s->net, &r->kept[r->first_kept + i]);
  drop_link(r);
  free(r->kept);
  free(r);
}

bool replica_serves(const replica *r) { return r->role == PS_PRIMARY; }

/* ---- records, out */

/* The backup is out of reach: one that is filled is tried again; one that answers wait for is reported. */
static void lose_link(replica *r, shoal_status why) {
  shoal_status_free(why);
  drop_link(r);
  r->cut_off = r->awaits;
  r->again_at = clock_seconds() + AGAIN_SECONDS;
}

/* Takes in confirmations, waiting up to `seconds` for one. */
static void take_acks(replica *r, double seconds) {
  while (r->link && r->acked < r->sent) {
    net_message m;
    shoal_status status = net_await(r->link, seconds, &m);
    if (status) {
      const bool gone = net_client_gone(r->link);
      if (gone)
        lose_link(r, status);
      else
        shoal_status_free(status);
      return;
    }
    const bool refused = m.header.kind != PS_RECORD || m.header.flags & PS_REFUSED;
    r->acked = MAX_OF(r->acked, m.header.number);
    net_release_client(r->link, &m);
    if (refused) {
      lose_link(r, NULL);
      return;
    }
    seconds = 0;
  }
}

/* head: REPLICA_RECORD bytes. */
static void send_record(replica *r, int what, const void *head, const void *bytes, size_t n) {
  if (!r->link) return;
  net_header h = {.kind = PS_RECORD, .flags = (uint16_t)what, .step = r->shares, .number = r->sent + 1};
  const net_part parts[] = {{head, REPLICA_RECORD}, {bytes, n}};
  shoal_status status = net_send(r->link, &h, parts, n ? 2 : 1, SEND_SECONDS + (double)n / SEND_RATE);
  if (status)
    lose_link(r, status);
  else
    r->sent++;
  if (r->shares) r->acked = r->sent;
}

static void forward(server *s, const net_message *m) {
  const record head = {.now = s->now, .peer = m->peer, .header = m->header};
  send_record(s->replica, RECORD_MESSAGE, &head, m->payload, m->header.kind == NET_GONE ? 0 : m->bytes);
}

/* ---- filling a backup */

static void send_held(server *s) {
  for (int i = 0; i < s->terms.workers; i++) {
    const worker *w = &s->workers[i];
    for (int k = 0; k < w->waits; k++) {
      const request *q = &w->held[k];
      if (!q->keeps && !q->copied) continue;
      record head = {.now = s->now, .header = q->message.header, .index = k};
      head.header.from = (uint32_t)i;
      send_record(s->replica, RECORD_HELD, &head, q->message.payload, q->message.bytes);
    }
  }
}

static shoal_status begin_filling(server *s) {
  replica *r = s->replica;
  net_options net = s->options->peer_net ? *s->options->peer_net : s->options->task.net;
  text state = {0};
  net.from = (uint32_t)s->terms.workers + 1;
  TRY(ps_state_save(s, &state));
  net.largest = MAX_OF(MAX_OF(ps_largest(&s->terms), state.length) + REPLICA_RECORD, RECORD_ROOM);
  shoal_status status = net_connect(s->options->members[r->target_member], &net, CONNECT_SECONDS, &r->link);
  if (status) {
    r->link = NULL;
    lose_link(r, status);
  } else {
    const record head = {.now = s->now, .peer = r->target};
    r->link_life = r->target;
    r->fills = true;
    r->first = 0;
    send_record(r, RECORD_STATE, &head, state.data, state.length);
    send_held(s);
  }
  text_fini(&state);
  return NULL;
}

/* The next elements of all vectors, nothing between them: an update changes a parameter by its slots, so a backup that had
 * the one without the others would make another update of it. */
static void send_pieces(server *s) {
  replica *r = s->replica;
  if (r->first >= s->terms.elements) {
    const record head = {.now = s->now};
    r->fills = false;
    send_record(r, RECORD_FILLED, &head, NULL, 0);
    return;
  }
  int64_t count = 0; /* the same for all of them */
  for (int which = 0; which < ps_vectors_count(s->vectors); which++) {
    const float *from = ps_vectors_run(s->vectors, which, r->first, &count);
    count = MIN_OF(count, PS_PIECE_MAX);
    const ps_piece piece = {.which = which, .first = r->first, .count = count};
    send_record(r, RECORD_PIECE, &piece, from, (size_t)count * sizeof *from);
  }
  r->first += count;
}

/* ---- records, in */

static shoal_status refuse(server *s, const net_message *m, uint16_t flags) {
  net_header h = {.kind = m->header.kind, .flags = PS_REFUSED | flags, .from = m->header.from};
  static const char why[] = "this member is not the one that is meant";
  return net_answer(s->net, m->peer, &h, &(net_part){why, sizeof why - 1}, 1);
}

/* A gradient that waited at the primary when this backup began. */
static shoal_status take_held(server *s, const record *head, const uint8_t *bytes, size_t n) {
  if (head->header.from >= (uint32_t)s->terms.workers) return status_make(SHOAL_ERR_PEER, "a request of no worker");
  worker *w = &s->workers[head->header.from];
  if (head->index < 0 || head->index >= w->waits || n < sizeof(ps_head))
    return status_make(SHOAL_ERR_PEER, "a request that the worker has not made");
  request *q = &w->held[head->index];
  q->message.payload = bytes;
  q->message.bytes = n;
  return steps_copy_request(s, w, q);
}

static shoal_status take_piece(server *s, const net_message *m) {
  ps_piece piece;
  memcpy(&piece, m->payload, sizeof piece);
  if (piece.which < 0 || piece.which >= ps_vectors_count(s->vectors) || piece.first < 0 || piece.count < 0 ||
      piece.first > s->terms.elements - piece.count || m->bytes != sizeof piece + (size_t)piece.count * sizeof(float))
    return status_make(SHOAL_ERR_PEER, "a piece of a vector that there is not");
  ps_vectors_set(s->vectors, (int)piece.which, piece.first, piece.count, (const float *)(m->payload + sizeof piece));
  return NULL;
}

/* Does what the primary did. */
static shoal_status replay(server *s, const record *head, const net_message *m) {
  net_message inner = {.header = head->header,
                       .payload = m->payload + sizeof *head,
                       .bytes = m->bytes - sizeof *head,
                       .peer = head->peer};
  bool held = false;
  s->now = head->now;
  s->clock_ahead = head->now - clock_seconds();
  s->replays = true;
  shoal_status status = m->header.flags == RECORD_TICK ? server_look(s) : server_handle(s, &inner, &held);
  s->replays = false;
  if (m->header.flags == RECORD_MESSAGE) s->last_message = s->now;
  return status;
}

static shoal_status on_record(server *s, const net_message *m) {
  replica *r = s->replica;
  record head = {0};
  if (m->bytes < sizeof head || r->left_out) return refuse(s, m, 0);
  memcpy(&head, m->payload, sizeof head);
  const bool begins = m->header.flags == RECORD_STATE;
  if (begins ? r->role != PS_BLANK || head.peer != r->life : r->role != PS_BACKUP || m->peer != r->source)
    return refuse(s, m, 0);
  r->heard = clock_seconds();
  net_header h = {.kind = PS_RECORD, .from = m->header.from, .number = m->header.number};
  if (!m->header.step) TRY(net_answer(s->net, m->peer, &h, NULL, 0));
  const uint8_t *bytes = m->payload + sizeof head;
  const size_t n = m->bytes - sizeof head;
  switch (m->header.flags) {
    case RECORD_STATE:
      r->role = PS_BACKUP;
      r->source = m->peer;
      r->filled = r->named = false;
      return ps_state_load(s, bytes, n);
    case RECORD_HELD: return take_held(s, &head, bytes, n);
    case RECORD_PIECE: return take_piece(s, m);
    case RECORD_FILLED: r->filled = true; return NULL;
    case RECORD_MESSAGE:
    case RECORD_TICK: return replay(s, &head, m);
    default: return status_make(SHOAL_ERR_PEER, "a record of an unknown kind");
  }
}

/* ---- views */

/* What comes over the connection to the primary is lost from now on. */
static void lose_source(replica *r, bool damaged) {
  r->source = 0;
  if (r->role == PS_BACKUP && (!r->filled || damaged)) r->left_out = true;
}

/* Closes that connection, and uses what the primary has handed over. */
static shoal_status take_rest(server *s) {
  replica *r = s->replica;
  while (r->source && !r->left_out) {
    net_message m;
    bool got;
    TRY(net_take_rest(s->net, r->source, &m, &got));
    if (!got) return NULL;
    shoal_status status = NULL;
    if (m.header.kind == NET_GONE)
      lose_source(r, true);
    else
      status = on_record(s, &m);
    net_release_server(s->net, &m);
    TRY(status);
  }
  return NULL;
}

/* The workers' connections were the primary's. */
static void become_primary(server *s) {
  replica *r = s->replica;
  r->role = PS_PRIMARY;
  r->source = 0;
  s->now = s->last_message = r->served_at = server_clock(s);
  for (int i = 0; i < s->terms.workers; i++) {
    worker *w = &s->workers[i];
    if (!w->peer) continue;
    w->peer = REPLICA_UNBOUND;
    w->heard = s->now;
    for (int k = 0; k < w->waits; k++) w->held[k].message.peer = REPLICA_UNBOUND;
  }
  if (s->start_peer) s->start_peer = REPLICA_UNBOUND;
}

static shoal_status take_view(server *s, const ps_view *v) {
  replica *r = s->replica;
  const bool serves = v->primary == s->options->member && v->primary_life == r->life;
  const bool follows = v->backup == s->options->member && v->backup_life == r->life;
  r->view = *v;
  if (r->role == PS_PRIMARY && !serves) r->left_out = true;
  if (r->role == PS_BLANK && serves) {
    r->role = PS_PRIMARY;
    r->served_at = s->now;
  }
  if (r->role == PS_BACKUP && serves) {
    TRY(take_rest(s));
    if (r->left_out) return NULL;
    if (r->filled && !v->anew)
      become_primary(s);
    else
      r->left_out = true;
  }
  if (r->role == PS_BACKUP && !follows && (r->named || !r->source)) r->left_out = true;
  r->named = r->role == PS_BACKUP && follows;
  if (r->role == PS_PRIMARY && r->awaits && v->backup < 0 && v->term > r->since_term) {
    r->awaits = r->cut_off = false;
    drop_link(r);
  }
  return NULL;
}

static shoal_status on_status(server *s, const net_message *m) {
  replica *r = s->replica;
  ps_order order;
  if (m->bytes == sizeof order) {
    memcpy(&order, m->payload, sizeof order);
    r->heard = clock_seconds();
    if (order.view.term && order.view.term >= r->view.term && !r->left_out) TRY(take_view(s, &order.view));
    if (order.quit && r->role != PS_PRIMARY) s->quit = true;
    r->target = order.fill_member >= 0 && order.fill_member < PS_MEMBERS ? order.fill_life : 0;
    r->target_member = order.fill_member;
  }
  const ps_member_status status = {.life = r->life,
                                   .term = r->view.term,
                                   .awaits = r->awaits ? r->link_life : 0,
                                   .role = (int32_t)r->role,
                                   .cut_off = r->cut_off,
                                   .busy = r->busy,
                                   .updates = s->head.updates};
  net_header h = {.kind = PS_STATUS, .from = m->header.from};
  return net_answer(s->net, m->peer, &h, &(net_part){&status, sizeof status}, 1);
}

/* ---- the server's loop */

static shoal_status keep(replica *r, const net_message *m) {
  void *list = r->kept;
  if (!r->n_kept) r->first_kept = 0;
  TRY(mem_grow(&list, &r->kept_room, r->first_kept + r->n_kept + 1, sizeof *r->kept));
  r->kept = list;
  r->kept[r->first_kept + r->n_kept++] = *m;
  return NULL;
}

bool replica_take_kept(server *s, net_message *out) {
  replica *r = s->replica;
  if (!r->n_kept) return false;
  *out = r->kept[r->first_kept++];
  r->n_kept--;
  return true;
}

shoal_status replica_await_backup(server *s, bool *drops) {
  replica *r = s->replica;
  const double begun = clock_seconds();
  if (r->awaits && !r->cut_off) take_acks(r, 0);
  while (r->awaits && !r->left_out && (r->cut_off || r->acked < r->sent)) {
    const double now = clock_seconds();
    net_message m;
    bool got;
    take_acks(r, ACK_SECONDS);
    TRY(net_receive(s->net, r->cut_off ? ACK_SECONDS : 0, &m, &got));
    if (got && m.header.kind == PS_STATUS) {
      shoal_status status = on_status(s, &m);
      net_release_server(s->net, &m);
      TRY(status);
    } else if (got) {
      TRY(keep(r, &m));
    }
    if (clock_seconds() - begun > s->options->task.deadline)
      return status_make(
          SHOAL_ERR_PEER,
          "the backup has not confirmed in %g s, and worker 0 has not allowed the primary to continue without it",
          s->options->task.deadline);
    r->waited += clock_seconds() - now;
  }
  *drops = r->left_out || r->role != PS_PRIMARY;
  return NULL;
}

/* What a primary has handed over counts no longer, and it is to notice. */
static shoal_status drop_rest(server *s) {
  const uint64_t source = s->replica->source;
  net_message m;
  bool got = source != 0;
  while (got) {
    TRY(net_take_rest(s->net, source, &m, &got));
    if (got) net_release_server(s->net, &m);
  }
  return NULL;
}

/* Drops all that it holds. */
static shoal_status begin_life(server *s) {
  replica *r = s->replica;
  drop_link(r);
  TRY(drop_rest(s));
  server_reset(s);
  r->role = PS_BLANK;
  r->left_out = r->awaits = r->cut_off = r->filled = r->named = false;
  r->source = r->target = 0;
  return new_life(r);
}

shoal_status replica_work(server *s, double *wait) {
  replica *r = s->replica;
  if (r->left_out) TRY(begin_life(s));
  if (r->role != PS_PRIMARY) return NULL;
  take_acks(r, 0);
  if (r->link && !r->awaits && r->target != r->link_life) drop_link(r);
  if (!r->link && !r->awaits && r->target && s->agreed && clock_seconds() >= r->again_at) TRY(begin_filling(s));
  if (!r->link || r->awaits) return NULL;
  if (r->fills && r->sent - r->acked < UNCONFIRMED_MAX) {
    send_pieces(s);
    *wait = 0;
  } else if (r->acked < r->sent) {
    *wait = ACK_SECONDS / 10;
  } else if (!r->fills) { /* it has everything */
    r->awaits = true;
    r->shares = net_client_hand_over(r->link);
    r->since_term = r->view.term;
  }
  return NULL;
}

/* A message that took long, since `begun`. What it takes by itself is its processor time: on a crowded machine the rest is
 * that of others, and says little about the next one. */
static void note_busy(replica *r, double begun) {
  const double took = clock_seconds() - begun - r->waited;
  if (took <= r->busy || took < LONG_SECONDS) return;
  const double worked = clock_processor_seconds();
  r->busy = MAX_OF(r->busy, MAX_OF(MIN_OF(took, worked - r->worked), CROWDED_SHARE * took));
  r->worked = worked;
}

shoal_status replica_handle(server *s, net_message *m, bool *held) {
  replica *r = s->replica;
  const double begun = clock_seconds();
  if (m->header.kind == PS_STATUS) return on_status(s, m);
  shoal_status status = NULL;
  r->waited = 0;
  if (m->header.kind == PS_RECORD) {
    status = on_record(s, m);
  } else if (m->header.kind == NET_GONE && m->header.from >= (uint32_t)s->terms.workers) {
    if (m->peer == r->source) lose_source(r, m->header.flags & NET_DAMAGED);
    return NULL;
  } else if (r->role != PS_PRIMARY) {
    const bool answered = m->header.kind != PS_PIECE && m->header.kind != PS_MARK && m->header.kind != NET_GONE;
    return answered ? refuse(s, m, PS_NOT_PRIMARY) : NULL;
  } else {
    forward(s, m);
    status = server_handle(s, m, held);
    s->last_message = s->now;
  }
  note_busy(r, begun);
  return status;
}

/* Workers that did not come back after this member became primary. */
static shoal_status lose_missing(server *s) {
  const replica *r = s->replica;
  for (int i = 0; i < s->terms.workers; i++) {
    const worker *w = &s->workers[i];
    const double patience = MAX_OF(RETURN_SECONDS, LONGEST_TIMES * w->longest);
    const bool lives = i == 0 && clock_seconds() - r->heard < RETURN_SECONDS; /* the arbiter is a part of it */
    if (w->peer != REPLICA_UNBOUND || lives || s->now - r->served_at < patience) continue;
    net_message gone = {.header = {.kind = NET_GONE, .from = (uint32_t)i}, .peer = REPLICA_UNBOUND};
    bool held;
    forward(s, &gone);
    TRY(server_handle(s, &gone, &held));
  }
  return NULL;
}

shoal_status replica_look(server *s) {
  replica *r = s->replica;
  r->worked = clock_processor_seconds();
  if (r->left_out) return NULL;
  if (r->role == PS_PRIMARY) {
    const record head = {.now = s->now};
    if (r->link && net_client_gone(r->link)) lose_link(r, NULL);
    send_record(r, RECORD_TICK, &head, NULL, 0);
    TRY(lose_missing(s));
    return server_look(s);
  }
  if (clock_seconds() - r->heard <= s->options->task.deadline) return NULL;
  return status_make(SHOAL_ERR_PEER, "no message from worker 0 in %g s", s->options->task.deadline);
}
