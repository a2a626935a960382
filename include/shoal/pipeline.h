/** @file
 * Input pipelines: rows out of files of any format known, cut into shards, shuffled, decoded, batched and read ahead.
 *
 *     shoal_pipeline *p;
 *     shoal_pipeline_create(&(shoal_pipeline_options){.files = "day-*.tfrecord", .shuffle_rows = 10000, .epochs = 3,
 *                                                     .batch_size = 100}, &p);
 *     const shoal_batch *b;
 *     while (!(status = shoal_pipeline_next(p, &b)) && b) ...
 *     shoal_pipeline_destroy(p);
 *
 * What comes in which order depends on files, seed, epoch, shard, shuffle_rows and memory_limit alone; never on the
 * number of threads or the depth of the prefetching. A pipeline is used by one thread at a time. */
#ifndef SHOAL_PIPELINE_H
#define SHOAL_PIPELINE_H

#include "shoal/options.h"
#include "shoal/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rows on their way from files to batches. */
typedef struct shoal_pipeline shoal_pipeline;

/** Rows that are used together. */
typedef struct {
  int64_t count;         /**< 0 only in the last batch of an epoch, when all its rows were bad and skipped */
  shoal_tensor labels;   /**< i32 [count] */
  shoal_tensor targets;  /**< f32 [count], or [count, of each row], of data with real labels, else no data */
  shoal_tensor features; /**< dense rows: u8 or f32 [count, ...] */
  shoal_tensor offsets;  /**< sparse rows: i64 [count + 1] ... */
  shoal_tensor indices;  /**< ... i32 [entries] ... */
  shoal_tensor values;   /**< ... f32 [entries] */
  float scale;           /**< of dense features: 1/255 for u8 pixels, else 1 */
  int64_t epoch;         /**< it belongs to, from 0 */
  bool last;             /**< of its epoch */
  shoal_tensor
      fields; /**< sparse rows whose entries have fields (columns of a click log, LIBFFM): i32 [entries], from 0
                              on; else no data */
  shoal_tensor weights; /**< f32 [count] what each row counts in the loss of training; no data: all the same */
  shoal_tensor ids; /**< sparse rows with growing_ids: i64 [entries], which then count, not `indices`; else no data */
} shoal_batch;

/** Rows that a program has itself, in place of files. All of them have the types and the shape of the first. A batch
 * has labels or targets, or neither: its rows then have the label -1. Offsets count from offsets[0]. */
typedef struct {
  const shoal_batch *rows; /**< all rows, without a function; they must outlive the pipeline */
  /** The next rows, which stay until it is called again; a count of 0: there are no more. Called by a thread of the
   * pipeline's own. NULL: `rows` are all. */
  shoal_status (*next)(void *context, shoal_batch *out);
  /** The next call of `next` gives the first rows again. NULL: they can be had once. */
  shoal_status (*rewind)(void *context);
  void *context;     /**< for both */
  void *reserved[4]; /**< NULL: for fields to come */
} shoal_row_source;

/** What is read and how; zero in every field but `files` is the usual. */
typedef struct {
  size_t size;        /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *files;  /**< a file, a folder, a glob or a list a,b,c of those */
  const char *format; /**< NULL: found out from the content */
  int64_t features;   /**< sparse rows: size of the feature space; 0: the format's own or found from the data */
  int classes;        /**< 0: found from the data */
  const char *const *class_names; /**< ended by NULL: labels that are words have these numbers, and others are bad rows;
                         * NULL: the words in all files, in their order */
  const char *preprocessing; /**< what shoal_pipeline_preprocessing gave of the training rows, to be done to these, too;
                         * NULL: learned from these */
  const char *columns;       /**< CSV, TSV: which column is what; NULL: the format's standard */
  const char *fields;    /**< TFRecord: names of the features with label, index and value; NULL: "label,index,value" */
  bool labels_optional;  /**< a row without a label has the label -1 */
  int64_t row_size;      /**< with it, dense rows: numbers in a row: tells a CSV file without labels; 0: not known */
  bool ignore_unknown;   /**< sparse rows: entries with an index from `features` on are left out and counted, not bad */
  bool no_checksums;     /**< TFRecord: do not check CRCs */
  int shard;             /**< which worker this is */
  int shards;            /**< of so many; 0 or 1: all rows */
  int64_t shuffle_rows;  /**< rows mixed with each other; 0: as they stand in the files */
  uint64_t seed;         /**< the same for all workers */
  int64_t epochs;        /**< passes over the data; 0: endless */
  int64_t batch_size;    /**< 0: 32. Batches do not reach over the end of an epoch. */
  bool drop_short;       /**< drop an epoch's last batch when it is not full */
  int threads;           /**< that decode and transform; 0: as many as there are processors, at most 8 */
  const char *transform; /**< e.g. "resize=28x28,gray", "standardise"; NULL: none. Needed for encoded images of
                          * different sizes */
  int prefetch;          /**< batches ready ahead; 0: 4 */
  bool skip_bad_rows;    /**< count them and go on; more than 1 % of at least 1000 rows, or of an epoch, is an error */
  int64_t memory_limit;  /**< bytes for what is read ahead and shuffled; 0: 256 MB */
  const char *position;  /**< continue from what shoal_pipeline_position gave; NULL: from the beginning */
  const shoal_row_source
      *source;      /**< rows of the program's own, borrowed; `files` and `format` then do not count. NULL:
                                   * files */
  bool real_labels; /**< NumPy: labels are numbers to be predicted, whatever their type, and [rows, ...] of them are
                     * several a row; otherwise floats [rows] are numbers, and [rows, classes] are classes */
  const char
      *lookups;     /**< CSV, TSV, Parquet: columns of text whose words have numbers already, by a JSON object such as
                        * {"city": {"vocabulary": ["Oslo", "Rome"]}, "user": {"num_bins": 1000}}; what was learned before
                        * (preprocessing) counts more. NULL: none */
  bool growing_ids; /**< sparse rows: features have 64-bit ids and no end (LIBSVM and LIBFFM: indices as they stand;
                     * TFRecord: int64s; click logs: hashes of column and word); `features` does not count */
} shoal_pipeline_options;

/** What a pipeline has done. */
typedef struct {
  int64_t rows;            /**< handed out, this run */
  int64_t seen;            /**< rows read so far, those before a resume included */
  int64_t bad_rows;        /**< of them passed over */
  int64_t unknown_entries; /**< of sparse rows, left out with ignore_unknown, this run */
  int64_t dropped_rows;    /**< because a last batch was not full, this run */
  double wait_seconds;     /**< that shoal_pipeline_next waited for data */
  int64_t reserved[6];     /**< 0: for fields to come */
} shoal_pipeline_statistics;

/** Reads the head of the first file, starts the threads. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_pipeline_create(const shoal_pipeline_options *options, shoal_pipeline **out);
/** Ends its threads and frees it, the last batch included. NULL is fine. */
SHOAL_API void shoal_pipeline_destroy(shoal_pipeline *p);
/** *out: a batch valid until the next call, in memory that is used again; NULL after the last epoch. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_pipeline_next(shoal_pipeline *p, const shoal_batch **out);
/** Where the row after the last batch handed out is found again: a line of text, to be given to a new pipeline with the
 * same files, seed, shards, shuffle_rows and memory_limit. Returns `buffer`. */
#define SHOAL_POSITION_TEXT 1024
/** Where the row after the last batch handed out is found again: a line of text, to be given to a new pipeline with the
 * same files, seed, shards, shuffle_rows and memory_limit. Returns `buffer`. */
SHOAL_API const char *shoal_pipeline_position(const shoal_pipeline *p, char buffer[SHOAL_POSITION_TEXT]);
/** The names of the classes, ended by NULL, valid as long as the pipeline; NULL: labels are numbers. */
SHOAL_API const char *const *shoal_pipeline_class_names(const shoal_pipeline *p);
/** Room for a class's number. */
#define SHOAL_CLASS_NAME_TEXT 16
/** The name of class i, or its number, written to `number`, when it has none. names: ended by NULL; NULL: classes are
 * numbers. */
SHOAL_API const char *shoal_class_name(const char *const *names, int64_t i, char number[SHOAL_CLASS_NAME_TEXT]);
/** What was learned from the rows to make numbers of them: words of text columns, means that stand for missing values,
 * statistics of a transform. A text (JSON) to be given to the pipelines of test rows and other workers; valid as long
 * as the pipeline; NULL: there was nothing to learn. */
SHOAL_API const char *shoal_pipeline_preprocessing(const shoal_pipeline *p);
/** What it has done so far. */
SHOAL_API void shoal_pipeline_count(const shoal_pipeline *p, shoal_pipeline_statistics *out);

#ifdef __cplusplus
}
#endif
#endif
