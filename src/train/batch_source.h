/* Where the training loop's batches come from: data in memory, or a stream that a pipeline reads; walked through from
 * the beginning to the end by every worker alike, or handed out (leased) batch by batch: of a stream, a shard of it or, with
 * `plan.batches.parts`, a part of each round. One row of the table in batch_source.c each.
 *
 * Invariant: which rows a batch has depends on the settings, the data and the place alone, so a training that is
 * resumed goes on with the very next row. */
#ifndef SHOAL_TRAIN_BATCH_SOURCE_H
#define SHOAL_TRAIN_BATCH_SOURCE_H

#include "train/strategy.h"

typedef struct batch_source batch_source;

typedef struct {
  /* The batch for a training that stands at `place`; *out stays the source's until it is asked for another one. *more
   * false: there is none, and there will be none. */
  shoal_status (*next)(batch_source *s, const strategy_place *place, train_batch *out, bool *more);
  void (*destroy)(batch_source *s);
} batch_source_kind;

struct batch_source {
  const batch_source_kind *kind;
  shoal_pipeline *pipeline; /* of a stream, if it is open */
  bool walked;         /* a stream that is read from its beginning to its end: its position belongs into a checkpoint */
  train_batch example; /* what batches are like, to make plans; its features and labels have no numbers, of a stream */
  double wait_seconds; /* for input, so far */
};

typedef struct {
  const shoal_model *model;
  /* Data in memory: */
  const shoal_dataset *data;
  int64_t rows;         /* of it that are trained on */
  const int32_t *split; /* which these are, [rows]; NULL: the first ones */
  int64_t usable;       /* of them in an epoch */
  bool shuffled;
  int64_t epochs;     /* 0: no end by them */
  int64_t steps;      /* updates at most */
  int64_t round;      /* rows of a step */
  strategy_plan plan; /* leased */
  /* A stream: */
  void *context;
  /* Opens a shard of it (0 where none are leased) at a position; NULL: at its beginning. */
  shoal_status (*open)(void *context, int64_t shard, const char *position, shoal_pipeline **out);
  const char
      *position; /* of a run that is resumed; NULL: from the beginning. Of rounds it is looked at whenever the stream
                           is opened, and may change until then */
  shoal_dtype features; /* of its rows, if they are dense */
  int64_t epochs_done;  /* of a run that is resumed */
} batch_source_options;

/* Of a stream that is walked: where the batch of that step begins, which is the one read last or the next; otherwise an empty
 * text. */
void batch_source_start(const batch_source *s, int64_t step, char out[SHOAL_POSITION_TEXT]);
/* The same: goes on from there; an empty text: from the beginning. epochs: done. */
SHOAL_CHECKED shoal_status batch_source_go_to(batch_source *s, const char *position, int64_t epochs);
/* Of a stream that is walked, or cut into rounds: where it stands, for a checkpoint; otherwise an empty text. */
void batch_source_position(const batch_source *s, char out[SHOAL_POSITION_TEXT]);

/* Rows [first, first + n) of sparse ones as a batch of their own. offsets: room for n + 1. */
shoal_batch batch_cut(const shoal_batch *b, int64_t first, int64_t n, int64_t *offsets);

SHOAL_CHECKED shoal_status batch_source_create(const batch_source_options *options, bool leased, batch_source **out);

#endif
