/* What a client session, graph servers and graph servers among themselves say to each other.
 *
 *  1. header.generation names the session: a number that the client drew. What names no session that is open is dropped
 *     (DATA, ABORT) or refused (the rest).
 *  2. DATA, HELLO and ABORT get no answer, all else gets one. GRAPH_FAILED in its flags: the payload is a sentence
 *     and header.number the shoal_code.
 *  3. header.step counts the runs of a session. A client has one run at a time: RUN goes to all tasks that take part,
 *     and when all have answered the next may start. So DATA of run n finds its target waiting, or idle; DATA of an
 *     earlier run is what a failed run left behind, and is dropped.
 *  4. When a task answers that it failed, the client tells the others to ABORT, and they answer at once.
 *  5. DATA goes from server to server, each of which connects to the others it will send to, and says HELLO, before it
 *     answers PREPARE. So a server knows which task of a session it has lost.
 *  6. Numbers travel as they lie in memory (little-endian), each tensor at a multiple of 64 bytes, in the order of the
 *     list that PREPARE gave. */
#ifndef SHOAL_DIST_GRAPH_PROTOCOL_H
#define SHOAL_DIST_GRAPH_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

enum {
  GRAPH_OPEN = 1, /* payload: an open message */
  GRAPH_EXTEND,   /* payload: the same with the nodes since then */
  GRAPH_PREPARE,  /* number: of the program, the same at all servers; payload: a program message */
  GRAPH_RUN,      /* number: program; payload: graph_run_head and what is fed. Answer: what is fetched; number: bytes
                     that the task has sent to others in this session */
  GRAPH_DATA,     /* number: program << 32 | message; payload: the values */
  GRAPH_ABORT,
  GRAPH_HELLO, /* from server to server: number: the sender's task in this session. No answer */
  GRAPH_CLOSE,
  GRAPH_CLOCK,  /* answer: number: the server's clock, nanoseconds */
  GRAPH_FORGET, /* number: a program that will not be run again */
  GRAPH_TRACE   /* number 1: record from now on; 0: stop. Answer to 0: a trace message */
};
enum { GRAPH_FAILED = 1 };

#define GRAPH_LARGEST ((size_t)1 << 30) /* bytes of a message */
#define GRAPH_CLIENT 0xffffffffu        /* header.from of a client; tasks have their number */
#define GRAPH_EAGER 500e-6              /* seconds of looking for the next message before sleeping */

typedef struct {
  uint64_t step;  /* of the random operators */
  double seconds; /* after which the run is given up */
  uint64_t tasks; /* that take part */
  uint64_t unused[5];
} graph_run_head;
_Static_assert(sizeof(graph_run_head) == 64, "what follows is aligned");

/* Fields of the messages, written with base/proto.h. */
enum {
  OPEN_GRAPH = 1, /* GraphDef: nodes that the server has not yet seen */
  OPEN_TASKS,     /* repeated: the task of each of them */
  OPEN_OWN,       /* which task the server is */
  OPEN_NAME,      /* repeated: "/job:worker/task:0" */
  OPEN_ADDRESS,   /* repeated */
  OPEN_SEED,
  OPEN_THREADS,
  OPEN_NO_FUSION
};
enum { TRACE_CLOCK = 1, TRACE_LABEL, TRACE_TRACK }; /* clock_name; then labels and tracks in their order */
enum { LABEL_KIND = 1, LABEL_NAME, LABEL_OP, LABEL_KERNEL, LABEL_PHASE, LABEL_FLOPS, LABEL_BYTES };
enum { TRACK_ADDED = 1, TRACK_SPANS }; /* event_span, oldest first, as they lie in memory */
enum { PROGRAM_IN = 1, PROGRAM_FEED, PROGRAM_RESULT, PROGRAM_SEGMENT };
enum { IN_NUMBER = 1, IN_FROM, IN_VALUE };
enum { VALUE_ID = 1, VALUE_DIM };
enum {
  SEGMENT_MESSAGE = 1, /* place in PROGRAM_IN */
  SEGMENT_RECEIVED,    /* value number, of those messages */
  SEGMENT_CARRIED,     /* value with shape */
  SEGMENT_SHAPE,       /* value with shape */
  SEGMENT_FEED,        /* value number, of PROGRAM_FEED */
  SEGMENT_FETCH,       /* value number */
  SEGMENT_SEND
};
enum { SEND_NUMBER = 1, SEND_TO, SEND_VALUE };

static inline size_t graph_aligned(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

#endif
