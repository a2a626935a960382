/** @file
 * Labelled data sets in memory; and files of rows: which formats there are, what is in them, writing them in another
 * format, and data out of a seed to rehearse with. */
#ifndef SHOAL_DATA_H
#define SHOAL_DATA_H

#include "shoal/options.h"
#include "shoal/pipeline.h"
#include "shoal/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rows of features and their classes, or the numbers to be predicted for them. What shoal_dataset_load made owns its memory; a caller may also fill one with
 * tensors of its own. Read-only once made, so any number of threads may use it. */
typedef struct shoal_dataset {
  shoal_tensor features;          /**< u8 or f32 [n, ...]; images are [n, height, width, channels] */
  shoal_tensor labels;            /**< u8, i32 or i64 [n], each in [0, classes); or numbers to be predicted, f32 [n] or
                                   * [n, of each row] */
  int classes;                    /**< how many there are; 0: the labels are numbers */
  float scale;                    /**< what features are to be multiplied with: 1/255 for u8 pixels, else 1 */
  const char *const *class_names; /**< NULL: classes have no names; or those of the first classes, ended by NULL,
                                   * owned */
  const char *preprocessing; /**< what was learned to make numbers of these rows (shoal_pipeline_preprocessing), owned;
                              * NULL: nothing was */
  int32_t *index; /**< NULL; or what the rows of both tensors point to, owned: the data has fewer rows than there are */
  shoal_tensor weights; /**< f32 [n], at least 0: what each row counts in the loss of training, sum(weight loss) / rows;
                         * without data: all 1 */
} shoal_dataset;

/** `name_or_path`: a name known (shoal_dataset_names), looked for in $SHOAL_DATA/NAME, ./data/NAME, ../data/NAME beside
 * the running binary and where data was installed; or the path of a folder with IDX files (train-images-idx3-ubyte,
 * train-labels-idx1-ubyte, t10k-..., each plain or .gz). split: "train" or "test". */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_load(const char *name_or_path, const char *split,
                                                        shoal_dataset **out);
/** For what shoal_dataset_load made, once no view of it is in use. NULL is fine. */
SHOAL_API void shoal_dataset_destroy(shoal_dataset *data);
/** Rows first .. first + count - 1, not copied: *out borrows from `data` and is not to be destroyed. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_view(const shoal_dataset *data, int64_t first, int64_t count,
                                                        shoal_dataset *out);
/** Rows of the data. */
SHOAL_API int64_t shoal_dataset_rows(const shoal_dataset *data);
/** The names known, ended by NULL. */
SHOAL_API const char *const *shoal_dataset_names(void);

/** The files of a split ("train" or "test") of a data set known by name, of a folder, or of any other files that a
 * pipeline takes: *out is the caller's to free, for shoal_pipeline_options. What has no splits is all train; asking for
 * the test split of it is SHOAL_ERR_INPUT. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_files(const char *name_or_path, const char *split, char **out);
/** Reads all rows of files in any format of dense rows with classes or numbers to be predicted, in their order, through a pipeline (whose epochs,
 * shuffling and position do not count). limit: bytes; *out is NULL when features and labels would take more; 0: no limit.
 * To read test rows as the training rows were read, give the class_names and the preprocessing of those. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_read(const shoal_pipeline_options *options, int64_t limit,
                                                        shoal_dataset **out);

/* ---- what is known */
/** A format of files of rows. */
typedef struct {
  const char *name;        /**< "tfrecord" */
  const char *summary;     /**< of one that is read: what it is; of one that is written: the endings of its files */
  const char *reserved[4]; /**< 0: for fields to come */
} shoal_data_format;

/** Formats that are read, found out from the content unless one is named. False past the last. */
SHOAL_API bool shoal_data_format_at(int i, shoal_data_format *out);
/** Formats that shoal_data_convert writes. False past the last. */
SHOAL_API bool shoal_data_format_written_at(int i, shoal_data_format *out);
/** Where a data set known by name lies: *out is the caller's to free. SHOAL_ERR_INPUT says where it was looked for. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_dataset_find(const char *name, char **out);

/* ---- what is in files */
/** Called now and then by what goes through many rows. total: 0 where it is not known beforehand. False stops it:
 * SHOAL_ERR_CANCELLED. */
typedef bool (*shoal_rows_progress)(void *context, int64_t done, int64_t total);

/** Numbers that were counted. */
typedef struct {
  int64_t count; /**< 0: there were none, and the others mean nothing */
  double min;    /**< the smallest */
  double mean;   /**< of all */
  double max;    /**< the largest */
} shoal_spread;

/** What a row's features are. */
typedef enum {
  SHOAL_ROWS_DENSE,  /**< numbers of one shape */
  SHOAL_ROWS_SPARSE, /**< pairs of index and value */
  SHOAL_ROWS_ENCODED /**< bytes of an image that no transform has decoded */
} shoal_row_kind;

/** How a column of text or with missing values becomes numbers. */
typedef enum {
  SHOAL_COLUMN_NUMBER,     /**< a number; the mean stands for missing ones */
  SHOAL_COLUMN_CATEGORIES, /**< one number a word, 1 for the word that is there */
  SHOAL_COLUMN_HASHED,     /**< `width` numbers, each for the words that fall to it */
  SHOAL_COLUMN_IDS         /**< one whole number a word: its place in a vocabulary, or a hash */
} shoal_column_kind;

/** A column of a table that is more than plain numbers. */
typedef struct {
  int number;             /**< in the file, from 0 */
  const char *name;       /**< in the header line; NULL: there is none */
  shoal_column_kind kind; /**< what it became */
  int width;              /**< how many numbers a row */
  int64_t missing;        /**< values that were missing in the training rows; -1: not counted */
  double mean;            /**< numbers: of those that were there */
  const char *text;       /**< all of this in words: "Sex: 2 categories (female, male)" */
} shoal_data_column;

/** One row, as far as it is worth showing. */
typedef struct {
  int32_t label;    /**< its class */
  float target;     /**< of data with real labels */
  int64_t size;     /**< numbers of a dense row, entries of a sparse one, bytes of an encoded one */
  int64_t n_values; /**< of them in `values`: of a dense row the first 64, of a sparse one all */
  double *values;   /**< [n_values] */
  int32_t *indices; /**< [n_values] of a sparse row; else NULL */
} shoal_data_row;

/** What is in files of rows. */
typedef struct {
  const char *files;              /**< as the options named them */
  const char *format;             /**< of the first file */
  int64_t file_count;             /**< how many there are */
  int64_t file_bytes;             /**< on the disk; 0 for what is made, not read */
  int64_t rows;                   /**< good ones */
  int64_t bad_rows;               /**< passed over (skip_bad_rows) */
  shoal_row_kind kind;            /**< of their features */
  shoal_dtype dtype;              /**< dense rows: of their numbers */
  shoal_shape shape;              /**< dense rows: of one */
  int64_t features;               /**< sparse rows: size of the feature space */
  int64_t index_min;              /**< sparse rows: the smallest index ... */
  int64_t index_max;              /**< ... and the largest; -1: there was none */
  shoal_spread sizes;             /**< sparse and encoded rows: entries or bytes of a row */
  shoal_spread values;            /**< all numbers of dense rows, all values of sparse ones */
  bool real_labels;               /**< labels are numbers to be predicted: `targets` counts, the classes do not */
  shoal_spread targets;           /**< ... */
  int classes;                    /**< how many there are */
  const char *const *class_names; /**< ended by NULL; NULL: labels are numbers */
  int64_t *class_rows;            /**< [n_class_rows] rows of each class */
  int n_class_rows;               /**< up to the largest label seen, at most 65,536 */
  const char *preprocessing;      /**< what was learned to make numbers of them; NULL: nothing */
  shoal_data_column *columns;     /**< [n_columns] that are more than plain numbers */
  int n_columns;                  /**< ... */
  shoal_data_row *first;          /**< [n_first] the first rows, as many as were asked for */
  int64_t n_first;                /**< ... */
  double seconds;                 /**< that it took to read all rows */
} shoal_data_summary;

/** Reads and checks all rows once, in constant memory. Of the options, epochs, batch size, shuffling and position do
 * not count. first: how many rows to keep for showing. progress may be NULL. *out: destroy it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_data_inspect(const shoal_pipeline_options *options, int64_t first,
                                                        shoal_rows_progress progress, void *context,
                                                        shoal_data_summary **out);
/** All of it as one JSON object. path: what the user called the files. *out: the caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_data_summary_json(const shoal_data_summary *s, const char *path, char **out);
/** NULL is fine. */
SHOAL_API void shoal_data_summary_destroy(shoal_data_summary *s);

/** A value of the graph and its tensor, by a word: "NAME=FILE.npy" or "NAME=NUMBER". Numbers become the value's type;
 * SHOAL_ERR_INPUT: one that it cannot hold. out->tensor is the caller's: shoal_tensor_fini. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_feed_read(const shoal_graph *g, const char *word, shoal_feed *out);

/* ---- files of other formats */
/** Where rows go. */
typedef struct {
  size_t size;                  /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *path;             /**< of the file to write */
  const char *format;           /**< as shoal_data_format_written_at names it; NULL: by the ending of `path` */
  bool force;                   /**< replace a file that is there; otherwise that is SHOAL_ERR_ARGUMENT */
  shoal_rows_progress progress; /**< NULL: none */
  void *context;                /**< for it */
} shoal_convert_options;

/** What was written. */
typedef struct {
  const char *format;  /**< constant */
  int64_t rows;        /**< written */
  int64_t bad_rows;    /**< passed over (skip_bad_rows) */
  int64_t reserved[4]; /**< 0: for fields to come */
} shoal_convert_result;

/** Writes rows of any format that is read to one file of another. Sparse indices stay as they are; dense rows go to
 * sparse formats as their non-zero numbers, indices from 1 on. The file gets its name once it is whole. result may be
 * NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_data_convert(const shoal_pipeline_options *from,
                                                        const shoal_convert_options *to, shoal_convert_result *result);

/** Reads one array from a file of NumPy (.npy) as numbers of `dtype`, which must be able to hold them; reals are
 * rounded. *out is released with shoal_tensor_fini. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_tensor_read_npy(const char *path, shoal_dtype dtype, shoal_tensor *out);
/** Writes it; a scalar as one number in a row, truth values as bytes. Row-major data without a row index only. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_tensor_write_npy(const char *path, const shoal_tensor *tensor);

/* ---- data out of a seed */
/** Files of click logs. */
typedef enum {
  SHOAL_CRITEO_TFRECORD, /**< tfrecords00 ...: label -1/+1, index, value */
  SHOAL_CRITEO_LIBSVM,   /**< clicks00.libsvm ... */
  SHOAL_CRITEO_TSV       /**< clicks00.tsv ...: the click log itself; numbers are sixteenths, words stand for indices */
} shoal_criteo_form;

/** The smallest feature space of click logs. */
#define SHOAL_CRITEO_MIN_FEATURES 40

/** Which click log is made. */
typedef struct {
  size_t size;                  /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *out;              /**< a folder, made if it is not there */
  int64_t rows;                 /**< how many */
  int64_t features;             /**< 0: 33,762,578; else SHOAL_CRITEO_MIN_FEATURES or more */
  int files;                    /**< 0: 23; rows are shared out as evenly as they go */
  shoal_criteo_form form;       /**< of the files */
  uint64_t seed;                /**< same seed, same bytes */
  shoal_rows_progress progress; /**< NULL: none */
  void *context;                /**< for it */
  bool interactions; /**< words of two and of three fields count together, too: more than a model that adds up
                                 * features, or pairs of them, can learn */
} shoal_criteo_options;

/** What can be learned from it at best. */
typedef struct {
  double positive_share;      /**< of all rows */
  double bias;                /**< of the hidden model */
  int64_t test_rows;          /**< rows of the last file, which the rest is about */
  double test_positive_share; /**< of them */
  double test_log_loss;       /**< of the hidden model itself, nats a row */
  double test_error;          /**< share of rows on the wrong side of the hidden model */
  double constant_log_loss;   /**< of always saying test_positive_share */
  double additive_log_loss; /**< of the hidden model without its interactions, about what logistic regression reaches */
  double pairwise_log_loss; /**< without those of three fields, about what a factorization machine reaches */
  double reserved[2];       /**< 0: for fields to come */
} shoal_criteo_truth;

/** Rows shaped like the Criteo click log: indices 1-13 are numbers in [0, 1), the rest are words, one of each of 26
 * fields, frequent ones first in the field's range; 24 to 39 of both a row. A hidden model, linear unless interactions are asked
 * for, decides the labels (about 26 % positive), so what a training can reach at best is known; truth.json beside the files has it, too. Files
 * get their names only when they are whole. truth may be NULL. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_generate_criteo(const shoal_criteo_options *options,
                                                           shoal_criteo_truth *truth);

/** Files of images. */
typedef enum {
  SHOAL_IMAGES_FOLDER,   /**< OUT/class-000/00000000.png ... */
  SHOAL_IMAGES_TFRECORD, /**< OUT/images-00000-of-00001.tfrecord ..., PNG in image/encoded, image/class/label from 0 */
  SHOAL_IMAGES_NPY       /**< OUT/images.npy, u1 [rows, height, width, channels], and images-labels.npy, i4 [rows] */
} shoal_images_form;

/** Which images are made. */
typedef struct {
  size_t size;                  /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  const char *out;              /**< a folder; made when it is not there, its parent must be */
  shoal_images_form form;       /**< of the files */
  int64_t rows;                 /**< how many */
  int classes;                  /**< 1 to 1000 */
  int height;                   /**< 1 to 4096 */
  int width;                    /**< 1 to 4096 */
  int channels;                 /**< 1 or 3 */
  int files;                    /**< TFRecord: how many; row i goes to file i modulo files. 0: one */
  double noise;                 /**< standard deviation, of 0 to 255; 0: none */
  uint64_t seed;                /**< same seed, same bytes */
  shoal_rows_progress progress; /**< NULL: none */
  void *context;                /**< for it */
} shoal_images_options;

/** Labelled images of simple shapes: each class has its own shape, colour and direction of shading; place, size and
 * noise differ from image to image. Row i is of class i modulo the number of classes. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_generate_images(const shoal_images_options *options);

#ifdef __cplusplus
}
#endif
#endif
