/* What workers and parameter servers say to each other.
 *
 *  1. A server holds one vector of parameters and, of the same length (but see ps_terms.row_slots), the optimizer's slots; it
 *     knows no variables.
 *  2. Every request gets exactly one answer of the same kind. PS_REFUSED in its flags: the payload is a sentence, why.
 *  3. HELLO comes first; its payload are the job's terms (ps_terms.h). Those of worker 0 are what the server builds its
 *     vectors by; until then others are answered PS_EARLY and ask again. Afterwards who says others is refused. A
 *     worker's place is its connection's: a message of any other connection, e.g. of a worker that was taken for dead
 *     and lives, is answered PS_FENCED. Who gets that begins again with HELLO on a new connection.
 *  4. Worker 0 uploads the vectors (SET), then START, which names a generation and the plan of the training. A SET or
 *     START into a training under way ends that one: all other workers are fenced. Vectors of servers belong together
 *     only if their generations are the same.
 *  5. PULL makes the worker a member. It is answered when the training has started and the parameters have at least
 *     the version in header.step.
 *  6. A PUSH carries the version of the parameters its gradient was computed with (header.step) and its examples
 *     (header.number); its answer carries the fresh parameters and their version.
 *  7. Server 0, the leader, says what to compute: header.number of its answers to START, PULL and PUSH is the number of
 *     the worker's next batch, PS_NO_BATCH (sync: an empty gradient is expected) or PS_END.
 *  8. Sync: a worker is a member of a step on all servers or on none: between HELLO and PULL a server that is not
 *     the leader completes no step; the worker asks the leader first and tells the others the version it got there.
 *  9. With backup workers the leader decides whose gradients make a step. The others get theirs after that, with the
 *     number of gradients in the step (ps_head.used), and wait for so many.
 * 10. PS_STOPPED in the flags of an answer to a PUSH or PULL: no gradient will be used any more. PS_LATE: this one was
 *     not used.
 * 11. Payloads of PUSH, SET, and of the answers to all but COLLECT and CHANGES begin with a ps_head of 128 bytes; the
 *     vector follows, as f32 in the byte order of the machine: all supported ones are little-endian.
 * 12. A server may hold a table, of which a batch touches few rows. Then a vector never travels whole: a PUSH has the
 *     gradients of the rows its worker asked for last, then the keys of those it asks for now (sparse_keys.h; ps_head
 *     says how many of each), and the answer carries these rows' parameters. The first rows are asked for by ROWS.
 *     Vectors are read and written by pieces; a training that begins anew needs no SET. A row may have any width: keys
 *     and numbers of gradients in ps_head count rows, what is read and written by pieces are elements. The model's other
 *     parameters are rows behind those of the features, which every worker asks for in every step. Row k of the table is
 *     row k / n of server k % n of n; keys and pieces count a server's own rows.
 * 13. With ps_start.rows 0 rows come from a stream, and what the leader hands out are its shards (stream_leases.h):
 *     header.number of an answer is the shard to go on with, ps_head.index the batch of it that comes next. A PUSH says
 *     of which batch it is; being used and being counted as done are one act, on every server for itself. Batches of a
 *     shard come in their order, so one that a server has had already is recognised and not used again. A worker that
 *     died may have reached some servers only: who opens a shard asks all of them how far it is (FIND) and begins with
 *     the first batch that any of them lacks. A worker that finds its shard at the end without another row says so by
 *     an empty PUSH.
 * 14. With ps_start.round a step is such a round, cut along the leaves of a tree (lease_plan). A PUSH then has a vector
 *     for each node that remains of its leaves (tree_nodes), already weighted by their share of the round's rows; the
 *     sum over the whole tree is the step's gradient, whoever computed which part. Where workers return, a round waits
 *     for the part of one that went away: who returns is given it with the parameters of that round. Of a table each
 *     vector has all rows that the worker asked for, zeros where the node has none.
 * 15. Async: a worker may send its next PUSH before the answer to the last one has come, up to as many as the settings
 *     say (PS_FLIGHT_MAX; of a stream or a table: one). It is given as many batches at START or PULL (ps_head.also)
 *     and one more with each answer; PS_NO_BATCH: the one it still has is the last for now. Answers come in the order
 *     of the requests, also when one of them is STOP; others are sent when all answers have come. A gradient's step is
 *     counted from the parameters it was computed with, so the worker's own gradient before it is one it is behind.
 * 16. Async: servers compare how many gradients of each worker came (`--staleness`). One that joins later is taken to
 *     have made as many as the slowest; which that is the leader says (ps_head.steps), and the worker tells the others
 *     in header.number of its PULL. If each server had its own count, two workers could wait for each other.
 * 17. Of a large gradient the end may come before the rest, in PIECEs of elements [header.step, header.step +
 *     header.number) of the server's vector. Each ends where the one before it began, the first at the vector's end;
 *     the PUSH that follows them carries what is left, the elements before the last one. Nothing is used before that
 *     PUSH: of a worker that dies halfway nothing is. PIECEs are not answered; if one does not fit, the PUSH is
 *     refused.
 * 18. Async: a worker of a stream for which there is no shard is answered PS_IDLE: it is no member any more. It says
 *     DONE to the other servers, so that nobody waits for its steps (rule 16), and PULLs again from the leader, which
 *     answers when there is a shard, or PS_IDLE again after a while; the others are PULLed from only then.
 * 19. MARK tells the leader now and then where a batch of a shard is found; FIND asks for that, too. So who takes a
 *     shard over need not read it from its beginning. Of rounds, whose rows every worker reads, there is one such text,
 *     the last.
 * 20. HOLD, of worker 0, is answered by what a server has done of the stream. Async, until the next PUSH, PULL, STOP or
 *     DONE of worker 0 the server uses no gradient, so that the vectors read meanwhile are of the same moment. What
 *     each server said is given back to it, behind the ps_start of a training that continues this one.
 * 21. The leader counts which workers leave and come while training is under way (ps_head.changes). When that number is
 *     another than worker 0 knows, worker 0 asks what has changed (CHANGES).
 * 22. A replicated server has two members (ps_view.h); only the primary takes part in all of the above, the other answers
 *     PS_NOT_PRIMARY. The answer to HELLO then names a session (header.number). A worker whose primary went away or was
 *     replaced finds the new one (STATUS) and says RESUME there. Requests that change something (START, PULL, PUSH) are
 *     counted on both sides since HELLO: those that the server has not had are sent again, those that it has answered
 *     are answered again, with the parameters as they are now. All other requests without answer are sent again: they may
 *     be done twice. A session that the server does not know is PS_FENCED.
 * 23. The primary sends RECORDs to its backup (ps_replica.h); each is answered when it has come, before it is used.
 * 24. A server that is asked to leave and has time for it goes on serving, and says PS_DRAIN to worker 0, which then
 *     stops the training (STOP), gathers, saves and says QUIT.
 * 25. Other servers take over while training goes on (train/ps_move.h): worker 0 says HOLD with number 1, first to the
 *     leader, which answers when every gradient that it has handed out has come, then to the others until they have made
 *     as many updates. From then on nobody but worker 0 is answered; until a PUSH, PULL, STOP or DONE of worker 0, also of
 *     one that was started again. Worker 0 reads the vectors and takes them to the new servers; their START has number 1
 *     and behind the plan what the leader has said of batches or shards, so that they wait for all workers to come.
 *     Then it says QUIT with number 1 to the old ones, which fence all others: who is fenced finds out where the servers
 *     are now.
 * 26. The gradient of a PUSH or PIECE may be in another format than f32 (wire_format.h): its number stands in the header's
 *     flags from bit PS_WIRE_SHIFT on, and each message is encoded by itself. It asks for parameters in that format, too;
 *     how they come the flags of the answer say: as f32, or in a format without feedback, the parameters; in one with
 *     feedback, what is to be added to those that the worker had from this server; without a vector, there is nothing to
 *     add. Other requests carry f32. Not of a table or a round.
 * 27. Rows of a table may go by ids of 64 bits (growing ids; id_rows.h). Then keys are ids, those of a server by their
 *     hash (ps_id_server), ascending; the rows of other parameters have none: they are the first of the table, dealt out
 *     as in rule 12, and come behind those of the ids with each PUSH, and with ROWS whose number has PS_OTHERS. An id that
 *     has no row is answered with what it would begin with, or, if it would get none or nothing is to be learned, with
 *     zeros; it gets its row when its gradient is used. READ and WRITE with PS_IDS take rows by their number among those that there are.
 * 28. A worker may have numbers of some rows that are new enough for it (row_cache.h). Before the keys then stand bits, the lowest
 *     of a byte first, for the first ps_head.marked of the rows asked for: those whose bit is set are not sent. Their gradients
 *     are expected like those of the others.
 * 29. A checkpoint of growing ids may have the rows alone that changed since another one that has all, its base. Worker 0 says so by a
 *     READ of PS_IDS_BASE when it has read all; a server that begins anew knows of none. Rows that are read with PS_IDS_SOME
 *     are those that were used since, or were among the base's and are free: then PS_IDS_USED is 0. */
#ifndef SHOAL_DIST_PS_PROTOCOL_H
#define SHOAL_DIST_PS_PROTOCOL_H

#include "base/id_table.h"
#include "base/mem.h"
#include "dist/ps_terms.h"
#include "dist/ps_view.h"
#include "dist/sparse_keys.h"
#include "dist/stream_leases.h"
#include "dist/tree.h"
#include "dist/wire_format.h"

#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vectors travel in little-endian order");

enum {
  PS_HELLO = 1, /* answer: generation of the last training (0: none), PS_UNDER_WAY, step: version of the parameters */
  PS_SET,       /* number: which vector (0: parameters, k: slot k - 1); payload: head and vector */
  PS_START,     /* generation, step: updates so far; payload: a ps_start */
  PS_PULL,      /* answer: generation, head and parameters */
  PS_PUSH,
  PS_GET, /* number: as in SET */
  PS_STOP,
  PS_DONE,    /* no more gradients from this worker; answer: head only. May be repeated, to ask who still runs. What it
                   was given and has not pushed goes to others */
  PS_REPORT,  /* payload: text, what the worker has to say at the end; kept by the server */
  PS_COLLECT, /* number: a worker, or the number of workers for the server's own text; answer: the text or nothing;
                   PS_FENCED: that worker is not here */
  PS_QUIT,    /* worker 0, when all are done: the server ends; number 1: rule 25 */
  PS_ROWS,    /* payload: head and keys; answer: their parameters. number 1: the next gradient is about them */
  PS_READ,    /* payload: a ps_piece; answer: head and those elements */
  PS_WRITE,   /* payload: a ps_piece and the elements */
  PS_PIECE,   /* payload: elements of a gradient that is not whole yet, see rule 17; no answer */
  PS_MARK,    /* number: shard, step: batch; payload: text, where it is found; no answer */
  PS_FIND,    /* number: shard, step: batch; answer: step: batches of the shard that the server has had; number: a
                   marked batch at or before the one asked for, 0: there is none; payload: its text */
  PS_HOLD,    /* answer: head and text, see rules 20 and 25 */
  PS_CHANGES, /* number: changes that the worker knows of; answer: number: all so far, payload: ps_change of those
                   since, the last PS_CHANGES_MAX at most */
  PS_RESUME,  /* payload: a ps_resume; answer: number: counted requests that the server has had, rule 22 */
  PS_STATUS,  /* payload: nothing or, from the arbiter, a ps_order; answer: a ps_member_status */
  PS_RECORD   /* from the primary to its backup; number: which one, flags: what, see ps_replica.h */
};

enum { PS_FLIGHT_MAX = 2 };     /* gradients of a worker without answer */
#define PS_REPORT_MAX (1 << 16) /* bytes of a report */
#define PS_NO_BATCH ((int64_t)-1)
#define PS_END ((int64_t)-2)

enum {
  PS_REFUSED = 1,
  PS_STOPPED = 2,
  PS_FENCED = 4,
  PS_TAKEN = 8,
  PS_LATE = 16,
  PS_UNDER_WAY = 32,
  PS_IDLE = 64,         /* rule 18; to a PULL: without parameters */
  PS_EARLY = 128,       /* with PS_REFUSED, to a HELLO: worker 0 has not said its own */
  PS_NOT_PRIMARY = 256, /* with PS_REFUSED: another member serves, or none does yet */
  PS_DRAIN = 512        /* to a PUSH of worker 0: the server has to leave, see rule 24 */
};

enum { PS_WIRE_SHIFT = 12, PS_WIRE_MASK = 15 << PS_WIRE_SHIFT }; /* in flags: rule 26 */

static inline uint16_t ps_wire_flags(const wire_format *f) {
  return (uint16_t)(wire_format_number(f) << PS_WIRE_SHIFT);
}
/* NULL: there is no such format. */
static inline const wire_format *ps_wire_of(uint16_t flags) { return wire_format_at(flags >> PS_WIRE_SHIFT); }

typedef struct {
  double loss, hits; /* sums over `examples`; to the server: of this gradient, from it: of the step */
  int64_t examples;
  double rate;     /* applied last */
  int64_t updates; /* = version of the parameters; to the server, of a round: the newest that were used */
  int64_t rows;    /* done since the training's very beginning, resumed part included */
  int64_t counter; /* the optimizer's own count of updates, 0: it has none */
  int16_t running; /* workers here and not done */
  int16_t used;    /* gradients in the step; to the server: 0, or how many it is to wait for */
  union {
    int32_t changes; /* from the server: rule 21 */
    int32_t marked;  /* to the server: rows that have a bit, rule 28 */
  };
  /* From the server, seconds of its own monotonic clock: the request came; all that it waited for was there (answering
   * DONE: the last update was made); this answer went. */
  double arrived, ready, answered;
  union {
    struct {                   /* to the server */
      int64_t gradients, keys; /* of a table's rows, behind the head; keys PS_SAME: those asked for last once more */
    };
    struct {          /* from the leader, of a stream */
      int64_t epochs; /* that all shards have finished */
      int64_t index;  /* of the batch to go on with, in the shard that header.number says */
    };
  };
  union {
    struct {                         /* to the server, of a round */
      int32_t first_leaf, last_leaf; /* the gradient's leaves, [first, last) */
      int64_t round_rows;            /* and rows of the round; 0: one vector, a mean */
    };
    struct {         /* to the server, of a stream */
      int64_t shard; /* below 0: an empty gradient of a worker that has none */
      int64_t batch; /* of the shard */
    };
    struct {          /* from the server */
      int64_t also;   /* answering START and PULL: a second batch, or PS_NO_BATCH */
      int64_t behind; /* updates between this gradient's parameters and itself */
    };
  };
  union {
    int64_t steps;        /* from the server: gradients of this worker, see rule 16 */
    int64_t shard_epochs; /* to the server, of a stream: that the shard has finished with this batch */
  };
} ps_head;

/* A worker that left or came while training was under way. */
typedef enum {
  PS_DISCONNECTED = 1, /* it left: its connection ended */
  PS_SILENT,           /* it left: others have waited for it for too long */
  PS_JOINED,           /* it came for the first time */
  PS_REJOINED,         /* it came again */
  PS_LEFT,             /* it left: it was asked to, and has said DONE before the training was over */
  PS_DAMAGED           /* it left: a message of it was not what it had sent, so its connection was ended */
} ps_change_kind;

typedef struct {
  int32_t worker;
  int32_t kind; /* ps_change_kind */
  int64_t step; /* updates so far */
  int64_t rows; /* of one that left: rows it had been given, which now go to others */
} ps_change;

#define PS_CHANGES_MAX 64

/* Elements [first, first + count) of a vector, as in SET. */
typedef struct {
  int64_t which, first, count;
  int64_t unused[5];
} ps_piece;

/* Of a worker that lost its connection, rule 22. */
typedef struct {
  uint64_t session;
  int64_t sent, answered; /* counted requests since HELLO; answers to them that came */
  int64_t unused;
} ps_resume;

/* What the arbiter tells a member. */
typedef struct {
  ps_view view;
  uint64_t fill_life; /* to the primary: send all you hold to that life; 0: to none */
  int32_t fill_member;
  int32_t quit; /* the job is over */
  int64_t unused;
} ps_order;

/* Whether a request is counted (rule 22). */
static inline bool ps_counts(int kind) { return kind == PS_START || kind == PS_PULL || kind == PS_PUSH; }

#define PS_SAME ((int64_t)-1)

/* Rule 27: number of a ROWS, beside 1. */
#define PS_OTHERS 2
/* `which` of a READ: what is read of ids, first and count are rows; of a WRITE the records that id_rows.h has. */
enum {
  PS_IDS = 64, /* i64 each: the ids; the steps they were used in */
  PS_IDS_USED,
  PS_IDS_WAITING, /* i64 each: ids without a row; how often they were seen */
  PS_IDS_SEEN,
  PS_IDS_STATE,     /* i64: id_rows_state */
  PS_IDS_BASE,      /* the same; all rows are saved, under the number `first`: rule 29 */
  PS_IDS_PLACE,     /* i64 each, with PS_IDS_SOME: the row's number among those of the base; -1: it was not there */
  PS_IDS_VECTOR,    /* f32 [width] each, and those that follow: parameters, slots */
  PS_IDS_SOME = 128 /* added: of the rows that have changed since the base */
};

/* The server that an id belongs to. */
static inline int ps_id_server(uint64_t id, int servers) {
  return (int)((id_table_hash(id) & 0xffffffff) % (uint64_t)servers);
}
#define PS_WIDTH_MAX 4096               /* parameters of a table's row */
#define PS_PIECE_MAX ((int64_t)1 << 16) /* elements of a READ or WRITE */
/* Elements of a PIECE: fewer are not worth a message of their own; more would not be read where they lie by all
 * transports (1 MB with the head). */
#define PS_PIECE_MIN ((int64_t)16 << 10)
#define PS_PIECE_GRADIENT ((int64_t)255 << 10)

typedef struct {
  int64_t counter;          /* the optimizer's */
  int64_t rows_done;        /* as in ps_head */
  int64_t first;            /* batch; those below are done */
  int64_t batch, rows, end; /* as in lease_plan; rows 0: of a stream, then `end` are epochs, 0: endless */
  int64_t end_step;         /* sync, and of a stream: updates in all */
  int64_t round;            /* rows, as in lease_plan, which has a part for each worker; 0: no rounds */
} ps_start;                 /* behind it, of a training that is continued: text, see rules 20 and 25 */

/* Vectors of a PUSH at most. */
static inline int ps_nodes_max(int64_t round, int workers) {
  return round ? tree_nodes_max(tree_leaves(round) / workers + 1) : 1;
}

/* Rows of a server that are features', the others are the model's other parameters: before them of growing ids (rule 27),
 * otherwise behind them (rule 12). */
static inline int64_t ps_feature_rows(const ps_terms *t) {
  const int64_t rows = t->elements / t->width, servers = t->servers;
  if (t->ids) return rows - MAX_OF((t->other_rows - t->first_row + servers - 1) / servers, 0);
  return MIN_OF(rows, (t->started - t->first_row + servers - 1) / servers);
}
/* Numbers that vector `which` of a server has. */
static inline int64_t ps_vector_elements(const ps_terms *t, int64_t which) {
  return which && t->row_slots ? t->elements - ps_feature_rows(t) * (t->width - 1) : t->elements;
}
/* Numbers that it has for a row of features. */
static inline int64_t ps_vector_width(const ps_terms *t, int64_t which) { return which && t->row_slots ? 1 : t->width; }

/* Rule 28. */
typedef struct {
  uint8_t *bits; /* [n bits] */
  int64_t n;
} ps_marks;

static inline size_t ps_marks_bytes(int64_t n) { return ((size_t)n + 7) / 8; }
static inline bool ps_is_marked(const ps_marks *m, int64_t row) {
  return row < m->n && m->bits[row / 8] >> row % 8 & 1;
}

/* Payload bytes of the largest message under such terms. */
static inline size_t ps_largest(const ps_terms *t) {
  size_t rows = (size_t)t->touched, bytes = (size_t)t->elements * (size_t)ps_nodes_max(t->round, t->workers);
  bytes *= sizeof(float);
  if (rows)
    bytes = rows * (size_t)t->width * (size_t)ps_nodes_max(t->round, t->workers) * sizeof(float) +
            (t->ids ? sparse_ids_max((int64_t)rows) : sparse_keys_max((int64_t)rows)) + ps_marks_bytes((int64_t)rows);
  if (rows && bytes < PS_PIECE_MAX * sizeof(float)) bytes = PS_PIECE_MAX * sizeof(float);
  if (bytes < (size_t)t->workers * STREAM_LINE_MAX) bytes = (size_t)t->workers * STREAM_LINE_MAX;
  if (bytes < PS_REPORT_MAX) bytes = PS_REPORT_MAX;
  return sizeof(ps_head) + bytes;
}

_Static_assert(PS_TERMS_TEXT <= PS_REPORT_MAX, "a HELLO is never the largest message");
_Static_assert(sizeof(ps_head) == 128, "whole cache lines, so that the vector after it is aligned");
_Static_assert(sizeof(ps_resume) == 32 && sizeof(ps_order) == 64, "no holes");
_Static_assert(sizeof(ps_start) == 64 && sizeof(ps_piece) == 64 && sizeof(ps_change) == 24, "no holes");

#endif
