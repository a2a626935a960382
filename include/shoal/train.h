/** @file
 * Training: layers in a row, an optimizer, a schedule, and the loop that fits them to data.
 *
 *     shoal_model *m;
 *     shoal_model_create(SHOAL_SHAPE(28, 28, 1), &m);
 *     shoal_model_conv2d(m, 6, 5, 1, SHOAL_SAME, "relu");
 *     ...
 *     shoal_model_compile(m, &(shoal_compile_options){.optimizer = {.name = "sgd"}, .schedule = {.rate = 0.1}});
 *     shoal_model_fit(m, train, &(shoal_fit_options){.epochs = 6, .batch_size = 64}, &result);
 */
#ifndef SHOAL_TRAIN_H
#define SHOAL_TRAIN_H

#include "shoal/data.h"
#include "shoal/pipeline.h"
#include "shoal/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How the work is spread over tasks (shoal/cluster.h); NULL everywhere: this process alone. */
typedef struct shoal_strategy shoal_strategy;

/* ---- optimizers: fields left 0 take the optimizer's usual value */
/** Which optimizer, and its numbers. */
typedef struct {
  const char *name;    /**< "sgd", "momentum", "adagrad", "rmsprop", "adam", "ftrl", "adamw", "nadam", "lion", "lamb",
                       * "lars", "rowwise_adagrad" (of gradients by rows one sum of squares a row; otherwise adagrad);
                       * NULL: "sgd" */
  double momentum;     /**< momentum and lars 0.9; rmsprop 0 */
  bool nesterov;       /**< momentum */
  double decay;        /**< rmsprop 0.9 */
  double beta1;        /**< adam, adamw, nadam, lion, lamb 0.9 */
  double beta2;        /**< adam, adamw, nadam, lamb 0.999; lion 0.99 */
  double epsilon;      /**< adagrad, rowwise_adagrad, rmsprop, adam, adamw, nadam, lamb 1e-7 */
  double l1;           /**< ftrl */
  double l2;           /**< ftrl; by rows also sgd and adagrad: for the rows that an update touches */
  double beta;         /**< ftrl 1 */
  double weight_decay; /**< with each update every weight it touches shrinks by this share, times the rate; adamw 0.004,
                        * below 0: none */
  double clip_value;   /**< above 0: numbers of a gradient are taken into [-clip_value, clip_value] first */
  double clip_norm;    /**< above 0: gradients of a variable whose norm is larger are scaled down to it */
  double clip_global_norm; /**< the same of all variables together. One of the three at most */
  double
      average; /**< above 0: each update also moves an average of the weights, by 1 - average towards them, e.g. 0.999.
                   * When shoal_model_fit ends, the averages are the weights */
  double
      accumulator; /**< adagrad 0.1: what its sums of squares begin with. Gradients are means over a batch, so those of
                       * rare features are small beside 0.1 and hardly move anything; 1e-6 lets them */
  double reserved[1]; /**< 0: for fields to come */
} shoal_optimizer_options;

/** The names, ended by NULL. */
SHOAL_API const char *const *shoal_optimizer_names(void);
/** The learning rate that an optimizer usually has; NULL: "sgd". NaN: there is none of that name. */
SHOAL_API double shoal_optimizer_rate(const char *name);
/** Adds to the graph one update of all `variables` (n of them) against `loss`, with the scalar `rate`. Running *update
 * does it. Slots are variables called VARIABLE/SLOT. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_minimize(shoal_graph *g, const shoal_optimizer_options *options,
                                                    shoal_value *loss, shoal_value *const *variables, int n,
                                                    shoal_value *rate, shoal_value **update);

/* ---- learning-rate schedules */
/** How the learning rate goes. */
typedef struct {
  const char *name;          /**< "constant", "staircase", "exponential", "cosine", "piecewise"; NULL: "constant" */
  double rate;               /**< at the start, after warm-up; of a model, 0: the optimizer's usual one */
  double factor;             /**< staircase, exponential: multiply by this ... */
  int64_t every;             /**< ... every so many steps. cosine: steps from `rate` to `final_rate` */
  double final_rate;         /**< cosine */
  const int64_t *boundaries; /**< piecewise: from step boundaries[i] on ... */
  const double *rates;       /**< ... rates[i] */
  int pieces;                /**< of both */
  int64_t warmup;            /**< steps over which the rate rises linearly from 0 */
  double reserved[4];        /**< 0: for fields to come */
} shoal_schedule;

/** The names, ended by NULL. */
SHOAL_API const char *const *shoal_schedule_names(void);
/** The rate of step 0, 1, 2, ... */
SHOAL_API double shoal_schedule_at(const shoal_schedule *schedule, int64_t step);
/** SHOAL_ERR_ARGUMENT, naming the field that is wrong. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_schedule_check(const shoal_schedule *schedule);

/* ---- models; errors in the layers stick and come out at compile */
/** Layers and, once compiled, all it takes to train them. */
typedef struct shoal_model shoal_model;
/** What a layer gives when it is applied to others, or an input of a model; belongs to its model. */
typedef struct shoal_output shoal_output;

/** `input`: the shape of one example. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_create(shoal_shape input, shoal_model **out);
/** Examples are sparse rows, pairs of an index in [0, features) and a value, ascending by index: from a pipeline over
 * TFRecord, LIBSVM or Criteo files. The first layer must be shoal_model_sparse_dense. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_create_sparse(int64_t features, shoal_model **out);
/** Destroys the model with its graph and session. NULL is fine. */
SHOAL_API void shoal_model_destroy(shoal_model *m);
/** activation: NULL or "linear", "relu", "tanh", "sigmoid", "softmax" (on the last layer: the loss takes the logits),
 * "relu6", "leaky_relu" (0.2), "elu", "selu", "gelu", "gelu_tanh", "silu" or "swish", "softplus", "softsign",
 * "hard_sigmoid", "hard_swish", "hard_tanh", "mish", "exponential", "log_softmax", "celu", "glu" (half as
 * many), "hard_shrink", "log_sigmoid", "soft_shrink", "sparse_plus", "sparse_sigmoid", "sparsemax", "squareplus",
 * "tanh_shrink". A last layer of one unit with
 * "sigmoid" tells classes 0 and 1 apart; a regression's has one unit for each number that is predicted, usually without
 * an activation (shoal_compile_options.loss). */
SHOAL_API void shoal_model_dense(shoal_model *m, int units, const char *activation);
/** A dense layer on sparse rows, starting at zero. A step touches only the weights of the features in its batch. */
SHOAL_API void shoal_model_sparse_dense(shoal_model *m, int units, bool bias, const char *activation);
/** Filters of size x size over images, with biases; as shoal_conv2d. */
SHOAL_API void shoal_model_conv2d(shoal_model *m, int filters, int size, int stride, shoal_padding padding,
                                  const char *activation);
/** As shoal_max_pool. */
SHOAL_API void shoal_model_max_pool(shoal_model *m, int size, int stride, shoal_padding padding);
/** As shoal_avg_pool. */
SHOAL_API void shoal_model_avg_pool(shoal_model *m, int size, int stride, shoal_padding padding);
/** Makes one row of each example. */
SHOAL_API void shoal_model_flatten(shoal_model *m);
/** An activation by itself, as the word in shoal_model_dense. */
SHOAL_API void shoal_model_activation(shoal_model *m, const char *activation);
/** Drops with probability `rate` while training. */
SHOAL_API void shoal_model_dropout(shoal_model *m, double rate);
/** Normalizes over the batch while training (of several workers: each over its own rows), by moving averages afterwards,
 * which all workers have in common. */
SHOAL_API void shoal_model_batch_norm(shoal_model *m);
/** Normalizes each place over its channels. epsilon 0: 1e-3; so for the next two. */
SHOAL_API void shoal_model_layer_norm(shoal_model *m, double epsilon);
/** Divides by the root of the mean square over the channels. */
SHOAL_API void shoal_model_rms_norm(shoal_model *m, double epsilon);
/** Normalizes each example over groups of channels; as many groups as channels: instance norm. */
SHOAL_API void shoal_model_group_norm(shoal_model *m, int groups, double epsilon);

/* ---- layers of images [height, width, channels] and sequences [steps, channels]; o->size: of filters and windows */
/** As shoal_convolution, with biases. */
SHOAL_API void shoal_model_conv(shoal_model *m, int filters, const shoal_window *o, const char *activation);
/** As shoal_depthwise_convolution, `times` filters for each channel, with biases. */
SHOAL_API void shoal_model_depthwise_conv(shoal_model *m, int times, const shoal_window *o, const char *activation);
/** As shoal_separable_convolution, one filter for each channel, with biases. */
SHOAL_API void shoal_model_separable_conv(shoal_model *m, int filters, const shoal_window *o, const char *activation);
/** As shoal_transposed_convolution, with biases. */
SHOAL_API void shoal_model_transposed_conv(shoal_model *m, int filters, const shoal_window *o, const char *activation);
/** As shoal_pool. */
SHOAL_API void shoal_model_pool(shoal_model *m, shoal_pooling kind, const shoal_window *o);
/** As shoal_global_pool: what is left are the channels. */
SHOAL_API void shoal_model_global_pool(shoal_model *m, shoal_pooling kind);
/** As shoal_upsample, of images. */
SHOAL_API void shoal_model_upsample(shoal_model *m, int times_high, int times_wide, bool bilinear);
/** Zeros around: o->before and o->after. */
SHOAL_API void shoal_model_pad(shoal_model *m, const shoal_window *o);
/** As shoal_crop. */
SHOAL_API void shoal_model_crop(shoal_model *m, const shoal_window *o);
/** Each example in another shape of as many elements; one dimension may be SHOAL_UNKNOWN. */
SHOAL_API void shoal_model_reshape(shoal_model *m, shoal_shape shape);

/* ---- layers of sequences [steps, features] */
/** The first layer of a model whose examples are `steps` numbers of words, below `words`: a row of `width` numbers for
 * each, which is learned. */
SHOAL_API void shoal_model_embedding(shoal_model *m, int words, int width);
/** A simple recurrent layer: all states (`sequences`) or the last one. reverse: from the last step to the first; so for
 * the next two. */
SHOAL_API void shoal_model_rnn(shoal_model *m, int units, bool sequences, bool reverse);
/** As shoal_lstm. */
SHOAL_API void shoal_model_lstm(shoal_model *m, int units, bool sequences, bool reverse);
/** As shoal_gru. */
SHOAL_API void shoal_model_gru(shoal_model *m, int units, bool sequences, bool reverse);
/** Each step looks at all steps, or, causal, at those up to itself: as shoal_multi_head_attention with one input, of
 * `depth` features a head, and as many outputs as inputs. */
SHOAL_API void shoal_model_attention(shoal_model *m, int heads, int depth, bool causal);
/* ---- layers applied to each other, in any wiring without circles; what fails gives NULL, and NULL as an input gives NULL:
 * the error sticks to the model */
/** Input i of the model, NULL past the last; input 0 was made with the model, and is called "input". */
SHOAL_API shoal_output *shoal_model_input_at(shoal_model *m, int i);
/** One input more, before the first layer. Rows of a model with several inputs hold all their numbers side by side, in the
 * order of the inputs: see shoal_inputs_pack. */
SHOAL_API shoal_output *shoal_model_add_input(shoal_model *m, const char *name, shoal_shape shape);
/** A layer of a type of docs/model-files.md, applied to n inputs. attributes: a JSON object, {"units": 64}, in which "name"
 * and "trainable" may stand, too; NULL: none. */
SHOAL_API shoal_output *shoal_layer(shoal_model *m, const char *type, const char *attributes,
                                    shoal_output *const *inputs, int n);
/** The layer that gave `first`, with the same weights, applied to other inputs. */
SHOAL_API shoal_output *shoal_layer_again(shoal_output *first, shoal_output *const *inputs, int n);
/** As shoal_model_dense, applied to x. */
SHOAL_API shoal_output *shoal_layer_dense(shoal_output *x, int units, const char *activation);
/** As shoal_model_conv2d, applied to x. */
SHOAL_API shoal_output *shoal_layer_conv2d(shoal_output *x, int filters, int size, int stride, shoal_padding padding,
                                           const char *activation);
/** What the loss is about and predictions are; without it, the layer applied last. */
SHOAL_API void shoal_model_set_output(shoal_model *m, shoal_output *from);
/* ---- graphs of one's own */
/** What a model of a graph takes and gives. */
typedef struct {
  size_t size;                 /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  shoal_value *const *inputs;  /**< [n_inputs] placeholders, f32 or i32 [batch, ...], the batch SHOAL_UNKNOWN */
  int n_inputs;                /**< 1 to 64: rows of several have all their numbers side by side */
  shoal_value *const *outputs; /**< [n_outputs] what is predicted, f32 [batch, ...] */
  int n_outputs;               /**< at least 1 */
  shoal_value *labels;         /**< placeholder: classes, i32 [batch], or numbers, f32 [batch, n]; NULL: none */
  shoal_value *loss; /**< of outputs and labels, f32: a number for each row, [batch], or the mean, one; with classes
                                * the output is [batch, classes] logits. NULL: shoal_compile_options.loss */
} shoal_graph_parts;
/** A model, to be compiled, of a graph that the program has made, with any operators: the variables between inputs, outputs
 * and loss are its weights, called as there. It is copied whenever the model meets another kind of rows, so it has to outlive the
 * model and stay as it is. A dropout in it does nothing when the model predicts. SHOAL_ERR_ARGUMENT: by the value that does not fit. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_from_graph(shoal_graph *g, const shoal_graph_parts *parts,
                                                            shoal_model **out);
/** Rows of several inputs side by side: inputs [n], each f32 [rows, ...]; *out: f32 [rows, numbers], to be freed with
 * shoal_tensor_fini. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_inputs_pack(const shoal_tensor *inputs, int n, shoal_tensor *out);
/** The types of layers by name; NULL past the end. */
SHOAL_API const char *shoal_layer_type_at(int i);
/** What a type does and its attributes, with their usual values, as lines; the caller frees *out. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_layer_type_describe(const char *type, char **out);

/** For the dense and conv2d layers added from here on: "glorot_uniform" (standard), "glorot_normal", "he_uniform",
 * "he_normal", "lecun_normal", "zeros". */
SHOAL_API void shoal_model_initializer(shoal_model *m, const char *name);
/** The same, in numbers: weights from a normal distribution of this standard deviation, biases all of this value. */
SHOAL_API void shoal_model_initial(shoal_model *m, double deviation, double bias);

/** A loss or a metric of the program's own, as nodes of the graph: a number for each row, f32 [batch], of what the layers
 * give, f32 [batch, ...], and the labels as shoal_compile_options.own_targets has them (of a metric of a model with a loss by
 * name: as that loss takes them). It is called whenever a graph for a kind of batch is made, and gives the same nodes each
 * time; it does not reduce over the batch. */
typedef shoal_value *(*shoal_row_function)(void *context, shoal_graph *g, shoal_value *outputs, shoal_value *labels);
/** A metric of the program's own: the mean over the rows. */
typedef struct {
  const char *name;        /**< for shoal_model_figure */
  shoal_row_function rows; /**< what each row comes to */
  void *context;           /**< for it */
} shoal_own_metric;

/** How a model learns and computes; zero in every field is the usual. */
typedef struct {
  size_t size; /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  shoal_optimizer_options optimizer; /**< which, and its numbers */
  shoal_schedule schedule;           /**< of the learning rate */
  double l2;        /**< weight of sum(w^2)/2 over all weights (not biases) added to the loss; of sparse rows: over
                     * the weights that a step touches, in the update alone */
  double bias_rate; /**< learning rate of all that has no L2 term (biases), as a multiple of the others'; 0: 1. Other
                     * than 1 only with sgd and momentum */
  int top_k;        /**< also report top-k accuracy; 0: no */
  bool no_train_accuracy;   /**< do not measure accuracy on the batches trained on */
  int threads;              /**< as in shoal_session_options */
  uint64_t seed;            /**< of initial weights, shuffling and dropout */
  const char *kernels;      /**< as in shoal_session_options */
  bool no_fusion;           /**< as in shoal_session_options */
  bool race;                /**< sparse rows: all threads update at once, without locks. Not reproducible. */
  shoal_strategy *strategy; /**< borrowed while compiling: with parameter servers the weights of sparse features are
                             * then a table that stays there, of which workers hold what their batches touch. NULL:
                             * none */
  const char *loss;         /**< what is made small. Of classes: "softmax_cross_entropy", "sigmoid_cross_entropy" (one
                             * unit); NULL: whichever suits the last layer; "hinge" (one unit), "categorical_hinge". Of
                             * numbers to be predicted, the mean over them of: "mse", the squared error; "mae", its
                             * size; "huber", half its square up to 1 and linear from there; "poisson",
                             * output - target log(output). "cosine_similarity": minus the cosine between outputs and
                             * targets. Of probabilities to be predicted: "categorical_cross_entropy" and
                             * "kl_divergence" (they add up to 1), "binary_cross_entropy" (each by itself) */
  double
      label_smoothing; /**< of cross-entropies: this share of each label is spread evenly over all classes; 0: none */
  const double *class_weights; /**< [class_weight_count] what a row counts in the loss of training, by its class;
                                * copied. NULL: all 1 */
  int class_weight_count;      /**< of class_weights: as many as classes */
  shoal_row_function own_loss; /**< a loss of the program's own, in place of `loss`; NULL: none */
  void *own_context;           /**< for own_loss */
  bool own_targets; /**< of own_loss: labels are numbers, f32 [batch, own_labels], and the outputs are the predictions.
                     * Otherwise they are classes, i32 [batch], and the outputs, [batch, classes], are logits: their
                     * softmax is predicted */
  int64_t own_labels; /**< of own_targets: numbers that a row is labelled with; 0: as many as the output has */
  const shoal_own_metric *own_metrics; /**< [own_metric_count] what shoal_model_figure gives, too; copied */
  int own_metric_count;                /**< of own_metrics */
  bool
      growing_ids; /**< sparse rows: features are 64-bit ids, any number of them, with a row of the table each once they
                     * come (shoal_pipeline_options.growing_ids). The model's features are then how many of them a batch
                     * may have */
  int64_t ids_memory; /**< bytes that the table may take; when it is full, those ids are forgotten that were not used
                            * for the longest time. 0: as many as it takes */
  int64_t ids_admit;  /**< an id gets its row in the step that has it for this time, 1 to 255; 0: 1 */
  int64_t ids_evict_after; /**< it loses it when so many steps have not had it; 0: never */
} shoal_compile_options;

/** The names of losses, ended by NULL. */
SHOAL_API const char *const *shoal_loss_names(void);

/** Builds the graph and the session. options may be NULL. SHOAL_ERR_ARGUMENT: a layer that does not fit, by its place
 * and name. Once a model. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_compile(shoal_model *m, const shoal_compile_options *options);
/** Numbers that are learned. */
SHOAL_API int64_t shoal_model_parameters(const shoal_model *m);
/** Classes that it tells apart; 0: it predicts numbers (a regression). */
SHOAL_API int64_t shoal_model_classes(const shoal_model *m);
/** Numbers that shoal_model_predict gives for a row: a probability for each class, or of a regression what is predicted. */
SHOAL_API int64_t shoal_model_outputs(const shoal_model *m);
/** The shape of one example; of sparse rows the number of features. */
SHOAL_API shoal_shape shoal_model_input(const shoal_model *m);
/** Weight number i, moving averages included, in the order of the layers: its name, which belongs to the model, and its
 * memory, which may be written to between two calls. False: the model is not compiled, or has no more. */
SHOAL_API bool shoal_model_weight(shoal_model *m, int i, const char **name, shoal_tensor *out);
/** Whether its examples are sparse rows. */
SHOAL_API bool shoal_model_is_sparse(const shoal_model *m);
/** Threads that it computes with. */
SHOAL_API int shoal_model_threads(const shoal_model *m);
/** "layer  output shape  parameters  flops" lines (multiplications and additions for one example, without training), ended by a total; the caller frees it. NULL: no memory. */
SHOAL_API char *shoal_model_describe(const shoal_model *m);
/** The same as JSON: {"layers": [{"name", "activation", "output", "parameters", "flops"}, ...], "parameters": N}. *out: the
 * caller frees it. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_describe_json(const shoal_model *m, char **out);
/** For those who want the graph under the layers. */
SHOAL_API shoal_graph *shoal_model_graph(shoal_model *m);
/** The session that holds the weights; the model's own. */
SHOAL_API shoal_session *shoal_model_session(shoal_model *m);

/** What its classes are called, ended by NULL, copied; NULL: they are numbers. fit takes the names of its data when
 * none are set. They are saved with weights and checkpoints, come back with shoal_model_load, and data whose classes
 * are called otherwise is refused. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_set_class_names(shoal_model *m, const char *const *names);
/** Valid until they are set again; NULL: none. */
SHOAL_API const char *const *shoal_model_class_names(const shoal_model *m);

/** What was learned from the training rows to make numbers of them (shoal_pipeline_preprocessing), copied; NULL:
 * nothing. fit takes that of its data when none is set; streams are read with it. It is saved with weights and
 * checkpoints and comes back with shoal_model_load, to be given to the pipelines of other rows. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_set_preprocessing(shoal_model *m, const char *learned);
/** Valid until it is set again; NULL: none. */
SHOAL_API const char *shoal_model_preprocessing(const shoal_model *m);

/** Where the time of one process in training went so far, in seconds. */
typedef struct {
  double compute;     /**< steps, and all that is none of the below */
  double network;     /**< messages on their way to the servers and back */
  double barrier;     /**< at the servers, for gradients of the other workers */
  double server;      /**< at the servers, while they work */
  double input;       /**< for rows */
  double reserved[3]; /**< 0: for fields to come */
} shoal_times;

/** How well rows are told. */
typedef struct {
  int64_t examples;        /**< looked at */
  double loss;             /**< mean of the rows */
  double accuracy;         /**< share of rows told right, 0..1; NaN of a regression */
  double top_k;            /**< share of rows whose class is among the k likeliest; NaN when not asked for */
  double auc;              /**< of two classes: area under the ROC curve; otherwise NaN */
  double seconds;          /**< that it took */
  int64_t unknown_entries; /**< of sparse rows, left out because the model has no such feature */
  double mae;         /**< of a regression, whatever its loss: mean absolute error; otherwise NaN, also the next two */
  double rmse;        /**< root of the mean squared error */
  double r2;          /**< 1 - squared error / squared distance from the targets' mean; NaN: they are all the same */
  double precision;   /**< of rows taken for class 1, the share that is of it; of more than two classes the mean over
                       * those that occur; NaN of a regression, also the next two */
  double recall;      /**< of rows of class 1, the share taken for it; the mean likewise */
  double f1;          /**< harmonic mean of precision and recall; the mean over classes likewise */
  double reserved[3]; /**< 0: for fields to come */
} shoal_evaluation;
/** A figure of an evaluation. */
typedef struct {
  const char *name; /**< as in files: "rmse"; NULL ends a table */
  const char *head; /**< for people: "RMSE" */
  size_t offset;    /**< of its double in shoal_evaluation */
  bool share;       /**< 0..1, of rows */
} shoal_metric;
/** All of them, loss first, ended by a row without a name. */
SHOAL_API const shoal_metric *shoal_metrics(void);
/** NaN: not measured. */
SHOAL_API double shoal_evaluation_get(const shoal_evaluation *e, const shoal_metric *metric);
/** Room for what shoal_evaluation_text writes. */
#define SHOAL_EVALUATION_TEXT 64
/** "accuracy 98.12 %", or of a regression "RMSE 54.3, R2 0.481". Returns `out`. */
SHOAL_API const char *shoal_evaluation_text(const shoal_evaluation *e, char out[SHOAL_EVALUATION_TEXT]);

/** What callbacks see. */
typedef struct {
  int64_t epoch;              /**< from 0 */
  int64_t epochs;             /**< that there will be */
  int64_t step;               /**< finished ones */
  int64_t steps;              /**< all there will be, 0: not known yet */
  int64_t examples;           /**< seen so far in this run */
  double loss;                /**< mean since the last call of on_step; in on_epoch: of the epoch */
  double accuracy;            /**< the same for training accuracy; NaN when not measured */
  double rate;                /**< learning rate of the last step */
  double seconds;             /**< training time so far, evaluation not counted */
  double validation_loss;     /**< on_epoch only; NaN without validation data */
  double validation_accuracy; /**< the same */
  shoal_evaluation test;      /**< on_epoch only, with test data; otherwise examples is 0 */
  double staleness;  /**< updates between reading parameters and using the gradient: mean since the last call; NaN:
                      * none */
  shoal_times times; /**< where the time went so far */
  double examples_seconds; /**< in which `examples` and `step` were made: as `seconds`, but where other workers go on
                            * while this one evaluates or saves, that time counts, too */
} shoal_progress;

/** Weights and gradients of a step, for those who want to look at them. */
typedef struct {
  int64_t step;                  /**< updates before it */
  int count;                     /**< of the weights below */
  const char *const *names;      /**< [count] of the trained weights */
  const shoal_tensor *weights;   /**< [count] before the step */
  const shoal_tensor *gradients; /**< [count] of the mean loss over this worker's batch; data NULL: not dense */
} shoal_inspection;

/** Who is told while a model is fitted. Called by the thread that called fit; NULL: nobody. */
typedef struct {
  void *context; /**< handed to each of them */
  /** Called every `every_steps` steps (0: about four times a second). Returning true stops training cleanly. */
  bool (*on_step)(void *context, const shoal_progress *p);
  int64_t every_steps; /**< for on_step */
  /** After each epoch, with what was measured on other rows. Returning true stops training cleanly. */
  bool (*on_epoch)(void *context, const shoal_progress *p);
  void (*on_note)(void *context, const char *line); /**< warnings: a checkpoint that failed, a resume ... */
  /** Called at the first step and then every `inspect_every` steps (0: never). Computes these gradients once more. */
  void (*on_inspect)(void *context, const shoal_inspection *i);
  /** After each test pass while training on a stream: rows trained on so far, resumed part included; p->loss and
   * p->accuracy are means over the epoch so far, each row scored before it was learned. */
  void (*on_eval)(void *context, int64_t rows, const shoal_progress *p, const shoal_evaluation *e);
  int64_t inspect_every; /**< for on_inspect */
  void *reserved[6];     /**< 0: for fields to come */
} shoal_callbacks;

/** How long and on what a model is fitted. */
typedef struct {
  size_t size;          /**< of this struct as the program knows it, by SHOAL_OPTIONS; 0: as the library does */
  int64_t epochs;       /**< 0: by steps */
  int64_t steps;        /**< 0: by epochs; both: whichever ends first */
  int64_t batch_size;   /**< of each worker; 0: 32 */
  int64_t global_batch; /**< of all workers, where the strategy cuts it among them (mirrored, allreduce); 0:
                         * batch_size times workers */
  bool keep_order;      /**< do not shuffle */
  bool drop_short;      /**< drop a last batch that is not full */
  /** Train on what a pipeline reads instead of on data in memory: fit is then called with NULL for the data. Batch
   * size, epochs, seed, drop_short, classes and position are fit's own; keep_order: no shuffling. Rows must be dense,
   * with as many numbers as the model's input. Checkpoints hold the pipeline's position. */
  const shoal_pipeline_options *stream;
  const shoal_dataset *validation; /**< rows to validate on after each epoch; NULL: see validation_split */
  const shoal_dataset *test;       /**< tested after each epoch, for callbacks alone; NULL: not */
  /** Sparse rows: rows to test on while training, and after how many rows each time (0: never). */
  const shoal_pipeline_options *test_stream;
  int64_t eval_every;         /**< rows between two tests; 0: never */
  double validation_split;    /**< share of the training rows held out, of each class the same, drawn by the seed of
                               * shoal_model_compile: the same rows on every worker and after a resume; 0: none */
  int patience;               /**< stop after so many epochs without a better validation loss; 0: never */
  bool restore_best;          /**< when training ends, take the weights of the epoch with the best validation loss */
  const char *checkpoint_dir; /**< NULL: no checkpoints */
  int64_t checkpoint_every;   /**< steps; 0: at each epoch's end */
  int keep;                   /**< checkpoints kept; 0: 3 */
  bool keep_best;             /**< also best.safetensors, by validation loss */
  bool resume;                /**< continue from the newest checkpoint, if there is one */
  const char *settings;       /**< text kept in checkpoints: resuming with another is refused, saying what differs */
  shoal_strategy *strategy;   /**< borrowed */
  const int *stop;            /**< when not NULL: training stops cleanly (checkpoint included) once *stop is not 0 */
  shoal_callbacks callbacks;  /**< who is told */
  int64_t
      accumulate; /**< gradient accumulation: an update is made of the mean gradient of so many batches of batch_size
                       * (and of global_batch), computed one after the other, as if they were one batch. Not of sparse
                       * rows. 0: 1 */
} shoal_fit_options;

/** What fitting came to. */
typedef struct {
  int64_t epochs;             /**< finished */
  int64_t steps;              /**< of the whole training, resumed part included */
  int64_t updates;            /**< the same */
  int64_t examples;           /**< the same */
  int64_t run_examples;       /**< of this run alone */
  int64_t worker_steps;       /**< of this run and this worker alone */
  int64_t worker_examples;    /**< the same */
  int64_t dropped_examples;   /**< left out an epoch because the last batch was short */
  int64_t bad_rows;           /**< passed over by a stream */
  double seconds;             /**< training alone, this run */
  double examples_seconds;    /**< in which run_examples were made, see shoal_progress */
  double eval_seconds;        /**< for evaluation */
  double checkpoint_seconds;  /**< for saving */
  double input_wait_seconds;  /**< waiting for data */
  shoal_times times;          /**< of `seconds` */
  double final_loss;          /**< mean of the last epoch (or of the last 100 steps, whichever is shorter) */
  double train_accuracy;      /**< NaN: not measured */
  double validation_accuracy; /**< of the weights left; NaN: not measured */
  double validation_loss;     /**< the same */
  int64_t best_epoch;         /**< the one with the best validation loss, from 1; 0: none was validated */
  bool restored;              /**< its weights are those left, later ones were worse */
  bool stopped;               /**< by `stop` or a callback */
  bool stopped_early;         /**< by patience */
  int64_t resumed_from;       /**< step, or -1 */
  int64_t touched_rows; /**< of sparse rows with parameter servers: features touched, summed over this worker's steps */
  int64_t exchanged_bytes; /**< the same: in messages to and from servers, of steps alone */
  int64_t lost_steps;      /**< of this run, made once more because a parameter server was lost */
  int64_t ids;             /**< of growing ids: how many have a row */
  int64_t ids_admitted;    /**< the same: rows given to ids so far, in the runs before, too */
  int64_t ids_evicted;     /**< the same: and taken from them */
  int64_t ids_bytes;       /**< the same: memory of the table */
  int64_t reserved[4];     /**< 0: for fields to come */
} shoal_fit_result;

/** data: NULL when options->stream says where it comes from. A loss that is no number ends it with SHOAL_ERR_NUMERIC:
 * step, first bad operator, what to try. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_fit(shoal_model *m, const shoal_dataset *data,
                                                     const shoal_fit_options *options, shoal_fit_result *result);

/** Loss and accuracy, or of a regression mae, rmse and r2, on rows that are not learned from. The model must be
 * compiled. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_evaluate(shoal_model *m, const shoal_dataset *data,
                                                          shoal_evaluation *out);
/** Figure number i of the last shoal_model_evaluate beside those of shoal_evaluation, as a mean over its rows: of a model with
 * several outputs OUTPUT_loss and OUTPUT_accuracy or OUTPUT_mae of each, then metrics of the program's own. *name is the
 * model's. False: there are no more. */
SHOAL_API bool shoal_model_figure(const shoal_model *m, int i, const char **name, double *value);
/** Called for rows in their order, with the probability of class 1 and the label of each; -1: it has none, and does not
 * count for the result. */
typedef shoal_status (*shoal_score_taker)(void *context, const float *scores, const int32_t *labels, int64_t n);
/** A pass over the rows of a pipeline, dense or sparse as the model takes them; batch size and epochs are its own. take:
 * for models of sparse rows; NULL: nobody. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_evaluate_stream(shoal_model *m, const shoal_pipeline_options *rows,
                                                                 shoal_score_taker take, void *context,
                                                                 shoal_evaluation *out);
/** Class probabilities, or of a regression the numbers predicted: `out` must be f32 [n, shoal_model_outputs]. features: u8 or f32 [n, input shape]; u8 is scaled as in
 * training. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_predict(shoal_model *m, const shoal_tensor *features,
                                                         shoal_tensor *out);
/** The same of rows in memory, dense or sparse; labels do not count. `out`: f32 [rows->count, shoal_model_outputs]. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_predict_rows(shoal_model *m, const shoal_batch *rows,
                                                              shoal_tensor *out);
/** Weights alone, safetensors. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_save(shoal_model *m, const char *path);
/** From a weights file or a checkpoint. */
SHOAL_API SHOAL_CHECKED shoal_status shoal_model_load(shoal_model *m, const char *path);

#ifdef __cplusplus
}
#endif
#endif
