/* The rows a job trains or tests on: in memory when they fit, else read while it runs. */
#ifndef SHOAL_RUN_ROWS_H
#define SHOAL_RUN_ROWS_H

#include "run/confusion.h"
#include "run/job.h"

/* What training rows taught, to be used for all others. Borrowed. */
typedef struct {
  const char *const *class_names; /* NULL: found in the data */
  const char *preprocessing;      /* NULL: learned from the data */
} job_learned;
job_learned job_learned_of(const shoal_model *m);

/* Where a job's rows come from. */
typedef struct {
  shoal_dataset *data;            /* in memory; or NULL, and then they are streamed: */
  shoal_pipeline_options stream;  /* its texts live as long as this */
  char *files, *transform;        /* owned, or NULL */
  char *lookups;                  /* owned; NULL: the model takes no words */
  const char *const *class_names; /* owned; NULL: classes are numbers */
  char *preprocessing;            /* owned; NULL: there is none */
  int classes;                    /* 0: labels are numbers to be predicted */
  bool targets;                   /* they are */
  shoal_shape input;              /* of an example, as the model is to take it */
  bool follows; /* then the model's own shape gives way to that of the rows, where its layers allow it */
} job_rows;

/* Which rows, and what for. */
typedef struct {
  const char *split;    /* "train", "test", "validation" */
  job_learned known;    /* what the training rows taught */
  bool follows;         /* they are trained on: the model's input follows them, unless f->input is said */
  bool may_stream;      /* rows that are too large for memory, or with `stream`, are not loaded */
  bool scored;          /* by a trained model: entries of sparse rows that it does not know are left out */
  bool labels_optional; /* a row without a label has -1; they are not loaded either */
} job_rows_options;

/* Finds the rows of a split and, unless they are to be streamed, loads them. Images are made to fit the model. */
SHOAL_CHECKED shoal_status job_open_rows(const shoal_job *f, const shoal_model_kind *kind,
                                         const job_rows_options *options, job_rows *out);
void job_close_rows(job_rows *rows);
/* Sparse rows: how many features there are when nobody said: one more than the largest index in both files. The click
 * log, and TFRecord files whose indices go beyond a million, have the model's own number. test: may have no files. */
SHOAL_CHECKED shoal_status job_find_features(const shoal_model_kind *kind, const job_rows *train, const job_rows *test,
                                             int64_t *out);
/* On all rows, in memory or streamed. counts (may be NULL): also how classes are taken for each other, where it was
 * begun. */
SHOAL_CHECKED shoal_status job_evaluate(shoal_model *m, const job_rows *rows, shoal_confusion *counts,
                                        shoal_evaluation *out);
/* Has the data rows of this split? */
bool job_has_split(const shoal_job *f, const char *split);

#endif
