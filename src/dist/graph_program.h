/* What one task does in runs of one kind: its segments as plans, and the buffers that messages are gathered in. */
#ifndef SHOAL_DIST_GRAPH_PROGRAM_H
#define SHOAL_DIST_GRAPH_PROGRAM_H

#include "dist/send_queue.h"
#include "exec/plan.h"
#include "net/transport.h"

/* Values one after the other, as they travel. */
typedef struct {
  shoal_tensor *tensors; /* [n]; data points into `block` where there is one */
  int *ids;              /* [n] value numbers */
  size_t *offsets;       /* [n] */
  size_t n, capacity, cap_ids, cap_offsets;
  size_t bytes;
  char *block; /* NULL: none */
} wire_values;

typedef struct {
  uint32_t number;
  int from;         /* task */
  uint64_t arrived; /* the run of which it holds the values; runs count from 1 */
  wire_values values;
} program_in;

typedef struct {
  uint32_t number;
  int to;
  int *values;     /* [n] places in the segment's fetches */
  net_part *parts; /* [2 n] */
  size_t n, cap_values;
} program_send;

typedef enum { FROM_MESSAGE, FROM_CLIENT, FROM_SEGMENT, FROM_NOBODY } feed_from;

typedef struct {
  feed_from from;
  int holder; /* FROM_MESSAGE: which, FROM_SEGMENT: which */
  int place;  /* in it */
} program_feed;

typedef struct {
  plan *plan;
  int *messages; /* [n_messages] in program.in */
  size_t n_messages, cap_messages;
  shoal_feed *feeds; /* [n_feeds] */
  program_feed *sources;
  size_t n_feeds, cap_feeds, cap_sources;
  shoal_value **fetches; /* [n_fetches] */
  shoal_tensor *fetched;
  size_t n_fetches, cap_fetches;
  program_send *sends;
  size_t n_sends, cap_sends;
  bool changes; /* a variable */
} program_segment;

typedef struct program {
  uint32_t number;
  program_in *in;
  size_t n_in, cap_in;
  wire_values feeds;
  wire_values results;
  int *result_segment, *result_place; /* [results.n] */
  net_part *result_parts;             /* [2 results.n] */
  program_segment *segments;
  size_t n_segments, cap_segments;
  mem_budget *budget; /* the session's */
  size_t charged;     /* to it, for values that come in */
} program;

/* payload: a program message. Makes the plans. */
SHOAL_CHECKED shoal_status program_create(shoal_session *s, const void *payload, size_t n, program **out);
void program_destroy(program *p);

/* Copies what came in message `number` of `run`. */
SHOAL_CHECKED shoal_status program_take(program *p, uint32_t number, uint64_t run, const void *payload, size_t n);
SHOAL_CHECKED shoal_status program_take_feeds(program *p, const void *payload, size_t n);
/* The first message of the segment that is not there yet; NULL: all are. */
const program_in *program_awaits(const program *p, size_t segment, uint64_t run);
SHOAL_CHECKED shoal_status program_run(program *p, size_t segment);
/* The values of a message, for net_send; *parts is the program's own. */
int program_parts(program *p, size_t segment, size_t send, const net_part **parts);
int program_results(program *p, const net_part **parts);

/* ---- values as they travel, for both sides */
SHOAL_CHECKED shoal_status wire_values_add(wire_values *w, int id, shoal_dtype dtype, const shoal_shape *shape);
SHOAL_CHECKED shoal_status wire_values_allocate(wire_values *w);
void wire_values_fini(wire_values *w);
/* One value and the filling behind it: at most two parts; returns how many. */
int wire_part(const shoal_tensor *t, net_part *parts);

#endif
