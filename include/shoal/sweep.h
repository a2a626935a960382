/** @file
 * Several runs after each other, and one comparison: everything `shoal sweep` and `shoal reproduce` do.
 *
 *     const char *words[] = {"lenet", "--batch-size", "64,128", "--workers", "1,2"};
 *     shoal_sweep *s;
 *     shoal_result_table *table;
 *     shoal_sweep_create(words, 5, &(shoal_sweep_options){.run_dir = "runs/grid", .repeats = 3}, &s);
 *     shoal_sweep_begin(s);
 *     shoal_run_list_run(shoal_sweep_runs(s), NULL, NULL);       twelve processes, one after the other
 *     shoal_sweep_finish(s, &table);                             results.csv, results.md, and the table itself
 *     shoal_result_table_destroy(table);
 *     shoal_sweep_destroy(s);
 *
 * Runs are given by words, as the command `shoal` takes them. Messages name settings in backticks, as in shoal/run.h.
 * Each object is used by one thread at a time. */
#ifndef SHOAL_SWEEP_H
#define SHOAL_SWEEP_H

#include "shoal/options.h"
#include "shoal/status.h"
#include "shoal/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a list of runs */
/** Runs of the command, each a process with a folder of its own below one folder; what they print goes to
 * logs/NAME.log there. A run that is finished is not run again, one that was interrupted continues from its checkpoint:
 * the whole can be stopped and started again at any time. */
typedef struct shoal_run_list shoal_run_list;

/** One run of a list. Borrowed: valid until the list changes. */
typedef struct {
  const char *name;         /**< of its folder */
  const char *const *words; /**< [n_words] "train", "lenet", "--epochs", "3": without its folder */
  int n_words;              /**< of them */
  bool finished;            /**< it has a result */
  const char *error;        /**< why it failed; NULL: it did not */
  int64_t reserved[2];      /**< 0 */
} shoal_listed_run;

/** An empty list. folder is copied, and made by shoal_run_list_run. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_list_create(const char *folder, shoal_run_list **out);
/** NULL is fine. */
SHOAL_API void shoal_run_list_destroy(shoal_run_list *l);
/** Adds a run; both name and words are copied. A run of `train` is checked as it will be when it begins. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_list_add(shoal_run_list *l, const char *name, const char *const *words,
                                                        int n);
/** Where the runs go. Borrowed. */
SHOAL_API const char *shoal_run_list_folder(const shoal_run_list *l);
/** How many runs it has. */
SHOAL_API size_t shoal_run_list_count(const shoal_run_list *l);
/** Run i, from 0 on. */
SHOAL_API shoal_listed_run shoal_run_list_at(const shoal_run_list *l, size_t i);
/** A number of run i's summary.json by its key, e.g. "test_accuracy"; NaN: not measured, or not finished. */
SHOAL_API double shoal_run_list_number(const shoal_run_list *l, size_t i, const char *key);
/** Reads what the folder already holds of the runs. *finished: how many have a result; may be NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_list_read(shoal_run_list *l, size_t *finished);

/** How a list is run; NULL and zero in every field is the usual. */
typedef struct {
  size_t size;         /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *program; /**< as in shoal_run_options */
  const int *stop;     /**< once *stop is not 0 the run under way saves a checkpoint, and no other begins */
  void *context;       /**< handed to the functions below; each may be NULL */
  void (*on_start)(void *context, size_t i); /**< run i begins */
  void (*on_tick)(void *context, size_t i);  /**< about ten times a second while run i is under way */
  void (*on_end)(void *context, size_t i);   /**< run i has ended, with a result or with an error */
} shoal_run_list_options;

/** What came of a list. */
typedef struct {
  size_t failed;       /**< runs that ended without a result; shoal_listed_run.error says why */
  bool stopped;        /**< before all were run */
  int64_t reserved[2]; /**< 0 */
} shoal_run_list_outcome;

/** Runs what is not finished. A run that fails does not keep the others from running. outcome may be NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_run_list_run(shoal_run_list *l, const shoal_run_list_options *options,
                                                        shoal_run_list_outcome *outcome);

/* ---- sweeps */
/** Every combination of settings that were given several values, as runs of `shoal train`. */
typedef struct shoal_sweep shoal_sweep;

/** What is said of a sweep itself. */
typedef struct {
  size_t size;         /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *run_dir; /**< where the runs go; NULL: runs/sweep-MODEL-DATE-TIME */
  int64_t repeats;     /**< runs of each combination, with seeds that follow each other; 0: 1 */
  bool resume;         /**< go on with the sweep in run_dir; the words may be left out, or must be the same */
} shoal_sweep_options;

/** Reads a sweep and checks each of its runs; writes nothing. words: the model, and settings as `shoal train` takes
 * them. Commas separate values of numbers and choices, and yes,no of a setting that is on or off; any may be given
 * several times. SHOAL_ERR_ARGUMENT: what does not go together, or the folder holds a sweep already. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_sweep_create(const char *const *words, int n,
                                                        const shoal_sweep_options *options, shoal_sweep **out);
/** NULL is fine. */
SHOAL_API void shoal_sweep_destroy(shoal_sweep *s);
/** Its model. Borrowed, as the next. */
SHOAL_API const char *shoal_sweep_model(const shoal_sweep *s);
/** Its runs: the repeats of a combination follow each other, the setting given last changes fastest. */
SHOAL_API shoal_run_list *shoal_sweep_runs(shoal_sweep *s);
/** Combinations of settings. */
SHOAL_API int shoal_sweep_combinations(const shoal_sweep *s);
/** The value of a setting, e.g. "batch-size", in a combination; NULL: it was not said. */
SHOAL_API const char *shoal_sweep_value(const shoal_sweep *s, int combination, const char *setting);
/** Makes the folder and writes sweep.json there: what was asked for, and which run stands for which combination. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_sweep_begin(const shoal_sweep *s);

/** A figure over the repeats of a combination. */
typedef struct {
  double mean;   /**< NaN: not measured */
  double spread; /**< the standard deviation; NaN: of fewer than two */
} shoal_figure;

/** A number of summary.json, e.g. "test_accuracy", over the finished runs of a combination. */
SHOAL_API shoal_figure shoal_sweep_figure(const shoal_sweep *s, int combination, const char *key);
/** Writes results.csv, a line a run, and results.md, a line a combination. *out: what the latter has; the caller's to
 * destroy. Runs that have not finished show dashes. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_sweep_finish(const shoal_sweep *s, shoal_result_table **out);

/* ---- experiments */
/** Runs that were reported of earlier systems, with what was reported of them. */
typedef struct shoal_experiment shoal_experiment;

/** Experiment i of the list; NULL past the end. */
SHOAL_API const shoal_experiment *shoal_experiment_at(int i);
/** By its id, in letters of any case. SHOAL_ERR_ARGUMENT: unknown, with the nearest. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_experiment_find(const char *id, const shoal_experiment **out);
/** "A1" */
SHOAL_API const char *shoal_experiment_id(const shoal_experiment *e);
/** In a few words. */
SHOAL_API const char *shoal_experiment_title(const shoal_experiment *e);
/** What one must know to compare; NULL: nothing. */
SHOAL_API const char *shoal_experiment_note(const shoal_experiment *e);
/** Its runs, below `folder`. The caller's to destroy. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_experiment_runs(const shoal_experiment *e, const char *folder,
                                                           shoal_run_list **out);
/** Whether its runs need data that is not in their folder yet. */
SHOAL_API bool shoal_experiment_lacks_data(const shoal_experiment *e, const shoal_run_list *runs);
/** Makes that data, by a process as options say. SHOAL_ERR_CANCELLED: it was stopped. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_experiment_make_data(const shoal_experiment *e, const shoal_run_list *runs,
                                                                const shoal_run_list_options *options);
/** Writes comparison.md, .csv and .json: what the runs came to beside what was reported. *out: the same; the caller's
 * to destroy. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_experiment_compare(const shoal_experiment *e, const shoal_run_list *runs,
                                                              shoal_result_table **out);

#ifdef __cplusplus
}
#endif
#endif
