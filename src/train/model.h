/* The inside of a model: its layers, the variables they own, and the graphs built from them.
 *
 * One set of variables, several *towers*. A tower is the graph for one type of features and one type of labels, with a
 * training branch (dropout active, batch norm by the batch's statistics) and an inference branch over the same
 * placeholders. The tower for u8 features and u8 labels is made when the model is compiled, because the session must
 * know every variable, the optimizer's slots included; others are made when such data is first seen, and share all
 * variables. */
#ifndef SHOAL_TRAIN_MODEL_H
#define SHOAL_TRAIN_MODEL_H

#include "base/id_table.h"
#include "data/safetensors.h"
#include "shoal/train.h"
#include "train/evaluation.h"
#include "train/initializer.h"
#include "train/loss.h"

typedef struct layer_kind layer_kind;
typedef struct graph_source graph_source;
typedef struct model_ids model_ids;

typedef enum {
  WEIGHT_TRAINED, /* by gradients */
  WEIGHT_STATE,   /* batch norm's moving averages: each step adds a change to them */
  WEIGHT_FROZEN   /* stays as it is */
} weight_role;

typedef struct layer {
  const layer_kind *kind;
  char *name;             /* "dense", "dense_1", ... */
  json_t *config;         /* its attributes, checked: layer.h */
  bool frozen;            /* its weights are not trained */
  int calls;              /* how often it is applied */
  struct layer *inner[2]; /* of layers around others; NULL: none */
  graph_source *source;   /* of a layer that is a graph: its nodes; NULL: none */
} layer;

typedef struct {
  shoal_value *variable;
  const layer *owner;
  weight_role role;
  bool decayed; /* counts for the L2 term */
  bool table;   /* has a row for each feature of sparse rows */
} weight;

/* A layer applied to its inputs, or an input of the model. */
struct shoal_output {
  shoal_model *model;
  layer *layer; /* NULL: an input, the `number`th one */
  int number;   /* of a layer: which of its calls */
  shoal_output **inputs;
  int n_inputs;
  shoal_shape shape;         /* of one example; known of inputs, and of all once compiled */
  bool used;                 /* by another one */
  shoal_value *value, *mask; /* while a branch is built */
  int first_node, end_node;  /* of the graph: what it added to the branch built last */
};

/* What a model gives, and what its loss is. */
typedef struct {
  shoal_output *from;
  char *name;      /* NULL: as its layer */
  char *loss_name; /* NULL: whichever suits the layer */
  double weight;   /* of its loss in the sum */
  /* below: once compiled */
  const loss_kind *loss;
  int64_t units;  /* numbers that it gives for a row */
  int64_t labels; /* numbers of a row's labels that are about it */
} model_result;

/* What is measured beside what every model has: a mean over rows. */
typedef struct {
  char *name;
  double value; /* of the last evaluation; NaN: there was none */
} model_figure;

/* What one example consists of. */
typedef struct {
  char *name;
  shoal_shape shape;
  bool integers; /* numbers of words, which bytes stand for as they are */
} model_input;

typedef struct {
  shoal_dtype features, labels;
  bool weighted;                 /* rows count differently in the loss of training */
  shoal_value *weights;          /* [batch] how much; NULL unless so */
  shoal_value *x;                /* [batch, input]; of sparse rows their offsets, [batch + 1] */
  shoal_value *indices, *values; /* [entries]; NULL unless rows are sparse */
  shoal_value *fields;           /* [entries]; NULL unless a layer asks for them */
  shoal_value *y;                /* [batch]; of a regression [batch, outputs] */
  /* training */
  shoal_value *loss;     /* mean over the batch, L2 term included */
  shoal_value *accuracy; /* share of the batch; NULL: there are no classes, as with hits below */
  shoal_value *update;
  shoal_gradient *gradients; /* of the trained weights, then the changes of the moving averages: as model_exchanged; the
                              * tower's */
  /* inference */
  shoal_value *predictions;     /* [batch, outputs]: probabilities of the classes, or the numbers to be told */
  shoal_value *scores;          /* two classes told apart by one unit: its logits, [batch]; otherwise NULL */
  shoal_value *eval_loss;       /* sum over the batch, without L2 */
  shoal_value *hits, *top_hits; /* counts in the batch; top_hits NULL: not asked for */
  shoal_value *figures;         /* [n_figures] sums over the batch; NULL: there are none */
} tower;

/* What is saved of growing ids: for a file of weights; for a checkpoint with all rows, or with those that changed. */
typedef enum { MODEL_IDS_WEIGHTS, MODEL_IDS_ALL, MODEL_IDS_CHANGED } model_ids_part;

/* Of a model whose table of weights is too large to be in this process, or grows: where it really is. */
typedef struct {
  void *context;
  /* Puts the rows that a batch touches into the session's variables; *indices: the batch's, as numbers of rows there.
   */
  shoal_status (*fetch)(void *context, const shoal_batch *b, shoal_tensor *indices);
  /* Whether the variable of that name is elsewhere, and then how it is saved. */
  bool (*entry)(void *context, const char *name, safetensors_item *out);
  /* All NULL, or its rows go by growing ids. has: whether a variable is of that table, and so not among the others that are
   * saved. items: what is saved of it, as model_ids_weights and model_ids_saved have it; valid until the table changes or
   * it is asked for again. changed: the share of rows that changed since the checkpoint of that step, which had all; 1: not
   * known. clean: all rows are in the checkpoint of that step. count: how many ids there are. */
  bool (*has)(void *context, const shoal_value *variable);
  shoal_status (*items)(void *context, model_ids_part part, safetensors_item *out, int *n);
  double (*changed)(void *context, int64_t step);
  shoal_status (*clean)(void *context, int64_t step);
  shoal_status (*count)(void *context, id_table_counts *out);
  void (*detach)(void *context); /* the model is about to go */
} model_elsewhere;

struct shoal_model {
  shoal_shape input; /* of one example */
  bool sparse;       /* examples are sparse rows: `input` is the size of the feature space, or of a small table: */
  int64_t features;  /* above 0: the session's table has `input` rows, enough for a batch; the feature space so many */
  bool grows;        /* the same, but features are ids without end: the table is elsewhere */
  const model_elsewhere *elsewhere; /* NULL: all is in the session. Borrowed */
  model_ids *ids;                   /* of growing ids (model_ids.h); NULL: it has none. Owned */
  model_input *inputs;              /* the first is `input` above */
  size_t n_inputs, cap_inputs;
  layer **layers;
  size_t n_layers, cap_layers;
  shoal_output **calls; /* inputs, and layers applied, each behind those it uses */
  size_t n_calls, cap_calls;
  model_result *results; /* none: the last call is the only one */
  size_t n_results, cap_results;
  weight *weights; /* in the order in which they were made: that of the calls */
  size_t n_weights, cap_weights;
  json_t *start, *bias; /* initializers for layers to come, of shoal_model_initializer; NULL: each layer's own */
  shoal_status error;   /* first one */
  shoal_graph *graph;
  bool compiled;
  /* below: once compiled */
  shoal_compile_options options; /* its text and arrays are copies, freed with the model */
  shoal_value *rate;             /* placeholder, scalar */
  shoal_session *session;
  tower **towers;
  size_t n_towers, cap_towers;
  const loss_kind *loss;
  int64_t classes;               /* 0: a regression */
  int64_t outputs;               /* numbers predicted for a row: one a class, or those of all outputs */
  int64_t targets;               /* numbers that a row is labelled with; of classes 1 */
  shoal_own_metric *own_metrics; /* [options.own_metric_count] copies */
  graph_source *source;          /* NULL: it is of layers */
  uint64_t n_branches;           /* built so far */
  model_figure *figures;
  size_t n_figures, cap_figures;
  const char *const *class_names; /* owned; NULL: none are known */
  char *preprocessing;            /* owned; NULL: there is none */
};

/* What a layer sees while a branch of a tower is built. */
typedef struct {
  shoal_model *model;
  const tower *tower;
  bool training;
  uint64_t number; /* among all of the model, from 1 */
  struct state_change {
    shoal_value *state, *change;
  } * changes; /* what a training step adds to moving averages */
  size_t n_changes, cap_changes;
} branch;

/* Sets the call's value from those of its inputs, by adding its layer's nodes; makes the layer's variables the first time.
 * loss: an activation that it computes, too, is left to it; NULL: none is. Errors stick to the graph. */
void call_apply(branch *b, shoal_output *c, const loss_kind *loss);
const char *layer_activation(const layer *l); /* "" if it has none */
/* Numbers that are trained, of a layer and those inside it; NULL: of all. */
int64_t model_count_parameters(const shoal_model *m, const layer *l);
void layer_destroy(layer *l);
/* A layer with these attributes (borrowed; NULL: none) at the end of the model's list. name: must be new; NULL: `stem`,
 * or that with _1, _2 ... behind it. */
SHOAL_CHECKED shoal_status model_add_layer(shoal_model *m, const char *type, const char *name, const char *stem,
                                           const json_t *attributes, layer **out);
/* Applies it to inputs, which are this model's. */
SHOAL_CHECKED shoal_status model_call(shoal_model *m, layer *l, shoal_output *const *inputs, int n, shoal_output **out);
/* An input more; the first one is made with the model. */
SHOAL_CHECKED shoal_status model_add_input(shoal_model *m, const char *name, shoal_shape shape, shoal_output **out);
/* What the first input is called, or a further one. */
SHOAL_CHECKED shoal_status model_set_input(shoal_model *m, int i, const char *name, shoal_shape shape, bool integers);
/* A result of the model. name, loss: NULL: as its layer; whichever suits it. */
SHOAL_CHECKED shoal_status model_add_result(shoal_model *m, shoal_output *from, const char *name, const char *loss,
                                            double share);
/* The layer applied last, or the first input. */
static inline shoal_output *model_last(const shoal_model *m) { return m->calls[m->n_calls - 1]; }
/* What the loss is about. */
static inline shoal_output *model_end(const shoal_model *m) {
  return m->n_results ? m->results[0].from : model_last(m);
}
/* Keeps `status` if it is the first error; takes it. */
void model_fail(shoal_model *m, shoal_status status);

/* NULL, or why the model cannot be used yet. */
SHOAL_CHECKED shoal_status model_ready(const shoal_model *m);
/* The tower for such data, made if need be. */
SHOAL_CHECKED shoal_status model_tower(shoal_model *m, shoal_dtype features, shoal_dtype labels, bool weighted,
                                       tower **out);
/* The same whatever the labels, for predictions. */
SHOAL_CHECKED shoal_status model_any_tower(shoal_model *m, shoal_dtype features, tower **out);
/* Classes 0 and 1, told apart by one unit. */
static inline bool model_is_binary(const shoal_model *m) { return m->loss->one_unit; }
/* The layers' variables in their order; *out is the caller's to free. */
SHOAL_CHECKED shoal_status model_weights(const shoal_model *m, bool trained_only, shoal_value ***out, int *n);
/* What workers exchange in a step: the trained weights (as above, n_trained), then the moving averages, n in all. */
SHOAL_CHECKED shoal_status model_exchanged(const shoal_model *m, shoal_value ***out, int *n_trained, int *n);
/* Examples as the model takes them, with labels that fit; at least one. */
SHOAL_CHECKED shoal_status model_check_features(const shoal_model *m, const shoal_tensor *features);
SHOAL_CHECKED shoal_status model_check_data(const shoal_model *m, const shoal_dataset *data);
/* The names of some data's classes, or NULL: become the model's where it has none; are an INPUT error where they differ
 * from the model's. */
SHOAL_CHECKED shoal_status model_adopt_class_names(shoal_model *m, const char *const *names);
SHOAL_CHECKED shoal_status model_check_class_names(const shoal_model *m, const char *const *names);
/* In the metadata of a safetensors file; *out is one block, the caller's to free, NULL: there are none. */
SHOAL_CHECKED shoal_status model_names_write(const char *const *names, json_t *metadata);
/* What was learned from the data, when the model has nothing of that kind; NULL is fine. */
SHOAL_CHECKED shoal_status model_adopt_preprocessing(shoal_model *m, const char *learned);
SHOAL_CHECKED shoal_status model_preprocessing_write(const char *learned, json_t *metadata);
/* Borrowed from the metadata; NULL: none. */
const char *model_preprocessing_read(const json_t *metadata);
SHOAL_CHECKED shoal_status model_names_read(const json_t *metadata, const char *const **out);
/* Before compiling: the session is to have a table of so many rows only, which a strategy fills for each batch. */
void model_grow_elsewhere(shoal_model *m);
void model_shrink_table(shoal_model *m, int64_t rows);
/* Of a model of sparse rows: the size of the feature space. */
/* Its features are ids without end, here or elsewhere. */
static inline bool model_has_ids(const shoal_model *m) { return m->ids || m->grows; }
static inline int64_t model_features(const shoal_model *m) { return m->features ? m->features : m->input.dim[0]; }
/* A variable as it is saved. */
SHOAL_CHECKED shoal_status model_entry(shoal_model *m, shoal_value *variable, safetensors_item *out);
/* The same of all weights, in the order of the layers; the caller frees the list. */
SHOAL_CHECKED shoal_status model_entries(shoal_model *m, safetensors_item **out, int *n);
/* The weights of a file alone, without the names of classes and the preprocessing that it has. */
SHOAL_CHECKED shoal_status weights_load(shoal_model *m, const char *path);
/* A batch of sparse rows as feeds of the tower; returns how many. */
#define TOWER_FEEDS_MAX 6
/* Whether a layer asks for the fields of sparse rows, and what to say where there are none. */
bool model_needs_fields(const shoal_model *m);
/* Fields of an entry are below it; 0: none are asked for. */
int model_fields_end(const shoal_model *m);
#define MODEL_NO_FIELDS                                                                                            \
  "the model goes by the fields of its features, but the rows have none: give a click log (label, 13 numbers, 26 " \
  "words),"                                                                                                        \
  " or TFRecord files with a feature 'field'"
int tower_feed_sparse(const tower *t, const shoal_batch *b, shoal_feed feeds[TOWER_FEEDS_MAX]);
/* Labels as the tower takes them: [n] targets are [n, 1]. */
static inline shoal_tensor tower_labels(const tower *t, shoal_tensor labels) {
  if (labels.shape.rank == 1 && shoal_value_shape(t->y).rank == 2) labels.shape = SHOAL_SHAPE(labels.shape.dim[0], 1);
  return labels;
}
/* Rows [first, first + n) as a view; with `order`, rows order[first] ... instead. */
shoal_tensor model_rows(const shoal_tensor *t, const int32_t *order, int64_t first, int64_t n);
/* Evaluates rows [first, first + n). */
SHOAL_CHECKED shoal_status model_evaluate_rows(shoal_model *m, const shoal_tensor *features, const shoal_tensor *labels,
                                               int64_t first, int64_t n, shoal_evaluation *out);

#endif
