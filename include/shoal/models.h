/** @file
 * The models Shoal knows by name: what `shoal train NAME` trains. */
#ifndef SHOAL_MODELS_H
#define SHOAL_MODELS_H

#include "shoal/machine.h"
#include "shoal/options.h"
#include "shoal/placed.h"
#include "shoal/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What can be changed about a known model. */
typedef struct {
  size_t size;            /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  int classes;            /**< 0: the model's own */
  const char *activation; /**< NULL: the model's own */
  const char *pool;       /**< "max", "avg"; NULL: the model's own */
  bool bias;              /**< models that go without one: add one */
  const char *set;        /**< of a model file: values of its parameters, "hidden=128,activation=tanh"; NULL: none */
} shoal_model_options;

/** Which examples a model's layers take beside those of its own shape. */
typedef enum {
  SHOAL_INPUT_FIXED, /**< none */
  SHOAL_INPUT_IMAGE, /**< images, height x width x channels, whose sides are not below input_min */
  SHOAL_INPUT_ANY    /**< dense rows of any shape */
} shoal_input_rule;

/** A model known by name. */
typedef struct {
  const char *name;            /**< as in `shoal train NAME` */
  const char *summary;         /**< one line for --help */
  const char *data;            /**< standard data set; NULL: none, it must be named */
  int64_t batch_size;          /**< standard settings */
  int64_t epochs;              /**< ... */
  double rate;                 /**< learning rate */
  const char *schedule;        /**< NULL: "constant"; "cosine" goes over the whole run ... */
  double final_share;          /**< ... down to this share of the rate */
  double decay_factor;         /**< "staircase": what the rate is multiplied with each epoch; 0: 0.5 */
  const char *optimizer;       /**< NULL: "sgd" */
  double l2;                   /**< as in shoal_compile_options */
  double bias_rate;            /**< as in shoal_compile_options */
  int top_k;                   /**< 0: not reported */
  int classes;                 /**< when neither data nor user says */
  shoal_shape input;           /**< one example, when neither data nor user says */
  shoal_input_rule input_rule; /**< which other examples it takes */
  int64_t input_min;           /**< SHOAL_INPUT_IMAGE: the smallest side */
  const char *transform; /**< what is done to images that have the input's shape, e.g. "standardise"; to rows of numbers
                          * where input_rule is SHOAL_INPUT_ANY; NULL: nothing */
  bool sparse;           /**< examples are sparse rows; `input` is the size of the feature space unless told
                          * otherwise */
  /** Adds the layers. Errors stick to the model. Of a model file: shoal_model_kind_build does it. */
  void (*build)(shoal_model *m, const shoal_model_options *options);
  const char *loss; /**< as in shoal_compile_options; of a regression it has to be named */
  int outputs; /**< that it is trained for: above 1, rows are labelled with numbers for all of them, side by side; 0: one */
} shoal_model_kind;

/** The model of that name, or of a file: "my.json" (docs/model-files.md). SHOAL_ERR_ARGUMENT: what is wrong with it, by the layer's name. *out: destroy
 * it with shoal_model_kind_destroy, after the jobs and models that use it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_kind_load(const char *name, shoal_model_kind **out);
/** The same from the text of a model file. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_kind_parse(const char *text, shoal_model_kind **out);
/** The text of the model file behind a kind that was loaded, imported or parsed; the caller frees *out. SHOAL_ERR_ARGUMENT: the
 * kind is a program's own, and has none. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_kind_text(const shoal_model_kind *kind, char **out);
/** What shoal_model_kind_load or shoal_model_kind_parse made. NULL is fine. */
SHOAL_API void shoal_model_kind_destroy(shoal_model_kind *kind);
/** A model of that kind, to be compiled: for examples of `input` (of sparse rows, so many features), or of its own shape if
 * that is NULL. options may be NULL. SHOAL_ERR_ARGUMENT: a parameter that the model does not have; what is wrong with its
 * layers comes out when it is compiled. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_kind_build(const shoal_model_kind *kind, const shoal_shape *input,
                                                            const shoal_model_options *options, shoal_model **out);
SHOAL_API const shoal_model_kind *shoal_model_kind_find(const char *name); /**< NULL: none */
SHOAL_API const shoal_model_kind *shoal_model_kind_at(int i);              /**< NULL past the end */

/* ---- the trace of A A for a random matrix A that fits on no machine, as a graph over several tasks
 *
 * A [n, n], uniform in [0, 1), is cut into blocks x blocks pieces. tr(A A) is the sum over i, j of tr(A_ij A_ji), and
 * tr(A_ij A_ji) = tr(A_ji A_ij), so each pair of blocks i < j counts twice and is computed once. Both blocks of a pair
 * are made where they are used, out of the seed and their place in A, and are gone when the next pair is made. Each
 * worker adds up its own traces; one number of each travels. */
/** How the matrix is cut and spread. */
typedef struct {
  size_t size;       /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  int64_t n;         /**< rows of the matrix */
  int64_t blocks;    /**< in each direction, 1 to n */
  int workers;       /**< tasks /job:worker/task:0 ... that compute */
  bool full_product; /**< multiply the blocks and take the trace of the product, instead of its diagonal alone */
} shoal_square_trace_options;

/** What it takes. */
typedef struct {
  int64_t pairs;       /**< of blocks */
  double worker_bytes; /**< a worker needs at most */
  double flops;        /**< in all */
  double made_bytes;   /**< of blocks, in all */
  double reserved[4];  /**< 0: for fields to come */
} shoal_square_trace_cost;

/** Adds it to a graph. *trace: f64 scalar on the first worker. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_square_trace_build(shoal_graph *g, const shoal_square_trace_options *options,
                                                              shoal_value **trace);
/** What it will take, before anything is made. */
SHOAL_API shoal_square_trace_cost shoal_square_trace_predict(const shoal_square_trace_options *options);
/** Whether all workers fit into the memory that this machine has available. SHOAL_ERR_SYSTEM: they do not; the message
 * names a number of blocks that would. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_square_trace_check_memory(const shoal_square_trace_options *options);

/** What came of it. */
typedef struct {
  double trace;                 /**< of A A */
  double seconds;               /**< that computing took */
  double start_seconds;         /**< to connect and send the graph */
  shoal_square_trace_cost cost; /**< what it took */
  shoal_cluster_stats stats;    /**< what went between the tasks */
  shoal_gemm_baseline baseline; /**< full_product: how fast this machine multiplies two blocks */
  double reserved[4];           /**< 0: for fields to come */
} shoal_square_trace_result;

/** Builds the graph and runs it over the servers of `cluster`. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_square_trace_run(const shoal_square_trace_options *options,
                                                            const shoal_cluster_options *cluster,
                                                            shoal_square_trace_result *out);
/** full_product: the rate that was reached, as a share of this machine's own product of two blocks. */
SHOAL_API double shoal_square_trace_share(const shoal_square_trace_result *r);
/** Writes all of it to a file as one JSON object. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_square_trace_json(const shoal_square_trace_options *options,
                                                             const shoal_square_trace_result *result, char **out);
/** The same to a file. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_square_trace_write(const shoal_square_trace_options *options,
                                                              const shoal_square_trace_result *r, const char *path);

#ifdef __cplusplus
}
#endif
#endif
