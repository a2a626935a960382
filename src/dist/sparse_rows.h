/* A server's side of a table: which rows each worker has asked for, and the mean of gradients that are about different
 * rows. Nothing is allocated once it is made.
 *
 * 1. A worker has two sets of keys: `now`, whose parameters it has and its next gradient is about, and `next`, those it
 *    has asked for and will be answered. Answering makes the latter the former.
 * 2. What workers send is looked at before anything changes. */
#ifndef SHOAL_DIST_SPARSE_ROWS_H
#define SHOAL_DIST_SPARSE_ROWS_H

#include "dist/ps_protocol.h"
#include "dist/ps_vectors.h"

typedef struct sparse_rows sparse_rows;

/* A row that is soon to be read (write 0) or changed (1). */
static inline void sparse_rows_prefetch(const float *row, int64_t width, int write) {
  enum { LINE = 16 }; /* numbers */
  for (int64_t k = 0; k < width; k += LINE)
    if (write)
      __builtin_prefetch(row + k, 1, 2);
    else
      __builtin_prefetch(row + k, 0, 2);
}

/* v: made by the same terms. */
SHOAL_CHECKED shoal_status sparse_rows_create(const ps_terms *terms, const ps_vectors *v, sparse_rows **out);
void sparse_rows_destroy(sparse_rows *r);
/* Of growing ids: the table by id; NULL: rows go by their number. */
struct id_rows *sparse_rows_ids(const sparse_rows *r);
/* The vectors begin anew, and so does what is not in them. */
SHOAL_CHECKED shoal_status sparse_rows_renew(sparse_rows *r, const ps_vectors *v);
/* A worker that begins has asked for nothing. */
void sparse_rows_forget(sparse_rows *r, int worker);

/* Takes in the keys of a PUSH or ROWS, head included; a PUSH with examples must have so many vectors (of a round: its
 * nodes) with a gradient for each row asked for before. NULL, or what is wrong with them. */
SHOAL_CHECKED const char *sparse_rows_ask(sparse_rows *r, int worker, const net_message *m, int vectors);
/* Rows of features that workers have asked for to train on, and the share of the hottest ones (hot_rows.h). */
int64_t sparse_rows_asked(const sparse_rows *r, double *hot);
/* The parameters it asked for; values live until the next call. keep: it will send gradients of them. */
net_part sparse_rows_answer(sparse_rows *r, int worker, const ps_vectors *v, bool keep);
/* The parameters it was given last, as they are now. */
net_part sparse_rows_repeat(sparse_rows *r, int worker, const ps_vectors *v);
/* What a worker has asked for, as bytes, and back; false: they are none of such. */
void sparse_rows_save(const sparse_rows *r, int worker, text *out);
bool sparse_rows_load(sparse_rows *r, int worker, const uint8_t **from, const uint8_t *end);
/* One update by the mean over the gradients of n workers, weighted by their examples, in their order. Of a round: by the
 * sum over its tree; *uneven as in ps_vectors_apply. It is update number `step`, from 1 on. */
SHOAL_CHECKED shoal_status sparse_rows_apply(sparse_rows *r, ps_vectors *v, const ps_gradient *gradients, int n,
                                             int64_t step, double rate, bool *uneven);

#endif
