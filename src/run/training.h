/* What a process needs to train: the settings, the data and the model they describe. Shared by a run of one process and
 * the tasks of a cluster. */
#ifndef SHOAL_RUN_TRAINING_H
#define SHOAL_RUN_TRAINING_H

#include "base/events.h"
#include "run/metrics.h"
#include "run/rows.h"
#include "run/run_dir.h"

typedef struct {
  shoal_job asked; /* as the user said it */
  shoal_job job;   /* resolved */
  const shoal_model_kind *kind;
  model_file *file; /* that `kind` is in, owned; NULL: none */
  text notes;       /* lines about what a file of another program has that was left out */
  run_dir dir;
  job_rows train, test; /* test.data NULL: there are none */
  job_rows validation;  /* rows of their own, in memory; data NULL: there are none */
  const char *const
      *class_names;    /* of the whole job, owned: found in the training rows, or as a run that is resumed, or
                         * who started this task, has them. NULL: classes are numbers */
  char *preprocessing; /* of the whole job, owned, likewise; NULL: there is none */
  int64_t rows;        /* to train on; 0: streamed, and not counted */
  shoal_model *model;
  job_pieces pieces;
  char *input; /* for job.input, when the data said it */
  text shape;  /* the settings that decide what is learned, as lines */
} training;

/* Finds the class names, too, unless they are known. Rows that do not fit into memory are read while it trains. */
SHOAL_CHECKED shoal_status training_load(training *t);
/* Once the rows are loaded, where the job is as the user said it: when the model's own batch is more than half of the rows,
 * an epoch would be one update; the batch is a sixteenth of them then, unless the user says one. */
void training_fit_batch(training *t);
/* What the schedule takes when nothing is said: it depends on how long an epoch is. rows: 0: streamed, and counted if need
 * be, so the rows must be open. Called once more when the model is made, where nothing is left to fill. */
SHOAL_CHECKED shoal_status training_fill_schedule(training *t, int64_t rows);
/* The model for data with so many classes. rows: of the training data; what the schedule takes when nothing is said
 * hangs on them. */
SHOAL_CHECKED shoal_status training_compile(training *t, int classes, int64_t rows);
/* Tests the trained model, unless *out is of it already (tested). *counts: the caller's. */
SHOAL_CHECKED shoal_status training_test(const training *t, bool tested, shoal_evaluation *out,
                                         shoal_confusion *counts);
/* For shoal_model_fit, without signals, callbacks and strategy. The text in it lives as long as `t`. */
SHOAL_CHECKED shoal_status training_options(training *t, shoal_fit_options *out);
/* Where a process of this run records what it does; options->every and resumed are set here. graph: of the process that
 * also describes the model, otherwise NULL. */
SHOAL_CHECKED shoal_status training_open_metrics(training *t, const metrics_options *options,
                                                 const graph_export_options *graph, metrics *out);
/* With `trace`: the timeline of a process with so many threads, and of its model if it has one; *out NULL without. times: steps that it sees for each
 * of a worker's. The caller destroys it. */
SHOAL_CHECKED shoal_status training_open_trace(const training *t, int threads, int64_t times, events **out);
/* What the training rows taught, for other processes and later runs: "class_names" and "preprocessing" in `into`. */
SHOAL_CHECKED shoal_status training_note_learned(const training *t, json_t *into);
/* Takes it from there; `where` opens messages. */
SHOAL_CHECKED shoal_status training_take_learned(training *t, const json_t *from, const char *where);
/* The model file with the values in force, for other processes and later runs: "model_file" in `into`, unless the model is
 * known by its name. */
SHOAL_CHECKED shoal_status training_note_model(const training *t, int classes, json_t *into);
/* Takes it from there if it is there, otherwise the model called `name`. */
SHOAL_CHECKED shoal_status training_take_model(training *t, const json_t *from, const char *name, const char *where);
/* Writes the settings and the model file to the run's folder. */
SHOAL_CHECKED shoal_status training_note_settings(training *t, int classes);
/* Updates in a pass over so many rows. */
int64_t training_steps_an_epoch(const training *t, int64_t rows);
void training_fini(training *t);

#endif
