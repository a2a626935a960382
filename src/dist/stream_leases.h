/* Which worker reads which shard of a stream, and how far each shard is.
 *
 * The files are cut into shards (shoal_pipeline_options.shard), as many as the job has workers. A shard's batches are
 * numbered from 0 over all epochs; nobody knows beforehand how many there are.
 *
 * 1. A shard is free, one worker has it, or it is at its end. Its batches are done in their order, so `done` says which
 *    ones are: each is done once, whoever dies.
 * 2. A worker has at most one shard and keeps it while all others have theirs. Without one it gets the shard of its own
 *    number or else the one that is most epochs behind.
 * 3. A free shard also goes to a worker that has just ended an epoch of another one, if the free one is behind that.
 *    So when a worker does not return the others take turns, and all shards stay about one epoch apart.
 * 4. A mark says where a batch is found in the files (shoal_pipeline_position), so that nobody has to read a shard from
 *    its beginning. It counts once all batches before it are done.
 *
 * 5. Every server keeps one, also those that hand out nothing. When a worker dies some of them may have had its last
 *    gradient and others not. Who goes on with the shard begins with the batch that any server lacks; the others
 *    recognise it.
 *
 * One thread uses it. Nothing is allocated after stream_leases_init. */
#ifndef SHOAL_DIST_STREAM_LEASES_H
#define SHOAL_DIST_STREAM_LEASES_H

#include "base/text.h"
#include "dist/leases.h"
#include "shoal/pipeline.h"

/* Bytes of a shard's line in the text of all of them, at most. */
#define STREAM_LINE_MAX (SHOAL_POSITION_TEXT + 96)

typedef struct {
  int64_t index; /* of the batch; 0: none */
  char text[SHOAL_POSITION_TEXT];
} stream_mark;

typedef struct {
  int64_t done;                  /* batches */
  int64_t epochs;                /* finished */
  int holder;                    /* worker, or LEASE_NONE */
  int lost_by;                   /* worker that had it and went away in the epoch under way, or LEASE_NONE */
  bool epoch_ends;               /* with the last batch that was done */
  stream_mark older, mark, next; /* next: of a batch that is not reached yet */
} stream_shard;

/* A batch of a shard. */
typedef struct {
  int64_t shard, index;
  int64_t rows;   /* 0: there is none left, which the shard's holder has found out */
  int64_t epochs; /* that the shard has finished with it */
} stream_batch;

typedef struct {
  stream_shard *shards; /* [n] */
  int n;
  int64_t epochs; /* to do; 0: endless */
} stream_leases;

/* words: as stream_leases_write gave it, of the training that is continued; empty: from the beginning. */
SHOAL_CHECKED shoal_status stream_leases_init(stream_leases *l, int shards, int64_t epochs, const char *words);
void stream_leases_fini(stream_leases *l);
void stream_leases_write(const stream_leases *l, text *out);

/* The worker's shard, or LEASE_NONE. */
int stream_leases_held(const stream_leases *l, int worker);
/* The shard to go on with, which may be another than before; LEASE_NONE: none is free. */
int stream_leases_take(stream_leases *l, int worker);
/* Whether a worker without a shard would get one. */
bool stream_leases_has_free(const stream_leases *l);
/* The worker has gone, or is late: its shard is free. */
void stream_leases_give_back(stream_leases *l, int worker);

/* Whether the batch has not been done yet. */
bool stream_leases_is_new(const stream_leases *l, const stream_batch *b);
/* It is done. Returns how many of its rows another worker has had before, which went away. */
int64_t stream_leases_finish(stream_leases *l, const stream_batch *b);
/* Where batch `index` of the shard is found, which is the one after the next to be done; others are ignored. */
void stream_leases_mark(stream_leases *l, int64_t shard, int64_t index, const char *words, size_t length);
/* The last place that is known of a batch up to `index`, which may be one that was done last; NULL: none. */
const stream_mark *stream_leases_find(const stream_leases *l, int64_t shard, int64_t index);

/* All shards are at their end. */
bool stream_leases_over(const stream_leases *l);
/* Epochs that all shards have finished. */
int64_t stream_leases_epochs(const stream_leases *l);

#endif
