/* The table of layer types: how each is described, checked and made. A type is one row in the array of its family's file;
 * layer_types.c lists the families.
 *
 * A layer keeps its description: the JSON object of its attributes, checked against the row and with defaults filled in
 * (layer_config.c). What makes its nodes reads them by name. */
#ifndef SHOAL_TRAIN_LAYER_H
#define SHOAL_TRAIN_LAYER_H

#include "graph/graph.h"
#include "train/model.h"

/* What an attribute may hold. */
typedef enum {
  LAYER_INT,         /* a whole number from `least` to `most` */
  LAYER_NUMBER,      /* a number from `least` to `most` */
  LAYER_BOOL,        /* true or false */
  LAYER_CHOICE,      /* one of `choices` */
  LAYER_SIZES,       /* a whole number above 0, or one for each axis: 3, [3, 5] */
  LAYER_SHAPE,       /* a list of whole numbers; -1 or null: what is left */
  LAYER_AXES,        /* a whole number or a list of them */
  LAYER_MARGINS,     /* at the edges: 1, [1, 2] by axis, [[1, 1], [0, 2]] by axis and edge */
  LAYER_PADDING,     /* "valid", "same", "causal", or margins of zeros */
  LAYER_ACTIVATION,  /* a name of the table in activations.c */
  LAYER_INITIALIZER, /* a name, a number (all the same), or {"type": NAME, ...}: initializer.h */
  LAYER_NUMBERS,     /* a number or a list of them, nested or not */
  LAYER_TEXT,        /* any text */
  LAYER_LAYER        /* the description of another layer: {"type": ..., ...} */
} layer_attr_kind;

typedef struct {
  const char *name; /* NULL ends a list */
  layer_attr_kind kind;
  const char *standard;       /* the default, as JSON ("null": none, and null may be given); NULL: it must be given */
  double least, most;         /* numbers; both 0: any */
  const char *const *choices; /* LAYER_CHOICE, ended by NULL */
} layer_attr;

/* ATTR("units", INT, NULL, 1, 1e8): a whole number from 1 to 1e8 that must be given. */
#define ATTR(name_, kind_, ...) \
  { .name = name_, .kind = LAYER_##kind_, .standard = __VA_ARGS__ }

/* What a layer is applied to, and the mask of its result. Masks are bool [batch, steps], false where a sequence has no
 * element; NULL: all are there. */
typedef struct {
  shoal_value *const *x;
  shoal_value *const *masks;
  int n;
  shoal_value *mask; /* of the result: begins as that of the first input that has one */
} layer_io;

#define LAYER_INPUTS_MAX 64 /* of a layer that takes any number */

struct layer_kind {
  const char *name;
  const char *summary;     /* a few words for lists */
  const layer_attr *attrs; /* NULL: none */
  int inputs_min, inputs_max;
  /* Adds the nodes; makes the weights the first time. Errors stick to the graph. */
  shoal_value *(*apply)(branch *b, layer *l, layer_io *io);
};

/* The families: arrays ended by a row without a name. */
extern const layer_kind layers_core[], layers_window[], layers_norm[], layers_sequence[], layers_shape[],
    layers_merge[], layers_product[], layers_noise[], layers_wrap[], layers_sparse[], layers_graph[];

/* The row called `name`, or NULL. */
const layer_kind *layer_kind_find(const char *name);
/* The same; ARGUMENT error with the nearest name. */
SHOAL_CHECKED shoal_status layer_kind_lookup(const char *name, const layer_kind **out);
/* Row i of all, NULL past the end. */
const layer_kind *layer_kind_at(int i);

/* *out, a new object: `given` (borrowed; NULL: nothing) with the defaults of what it leaves out. ARGUMENT error: an
 * attribute the type does not have (with the nearest), one that must be given, one that is out of range. */
SHOAL_CHECKED shoal_status layer_config_check(const layer_kind *kind, const json_t *given, json_t **out);
/* Attributes of a checked description. */
int64_t layer_int(const layer *l, const char *name);
double layer_number(const layer *l, const char *name);
bool layer_flag(const layer *l, const char *name);
const char *layer_text(const layer *l, const char *name); /* NULL: null */
bool layer_is(const layer *l, const char *name, const char *text);
bool layer_has(const layer *l, const char *name); /* it is not null */
/* One number for both axes, or one each. null: `standard`. */
void layer_sizes(const layer *l, const char *name, int64_t standard, int64_t out[2]);
/* Numbers of a list, or one; -1 for null. */
shoal_shape layer_shape(const layer *l, const char *name);
void layer_margins(const json_t *margins, int64_t before[2], int64_t after[2]);
/* The numbers of a list, nested or not; returns how many there are, of which the first `room` are written. */
size_t layer_numbers(const json_t *list, float *out, size_t room);

/* Makes the layer's weight of that name, or gives the one made before: "LAYER/NAME" whatever the scope. NULL on failure.
 * The first starts as the attribute `initializer` says and counts for the L2 term; the second starts with all elements
 * alike, and does not; the third is not trained. */
shoal_value *layer_kernel(branch *b, layer *l, const char *name, const char *initializer, shoal_shape shape,
                          double fan_in, double fan_out);
shoal_value *layer_filled(branch *b, layer *l, const char *name, shoal_shape shape, double fill);
/* A table with a row for each feature, as the first above; one that is kept elsewhere begins with zeros here. */
shoal_value *layer_table(branch *b, layer *l, const char *name, const char *initializer, shoal_shape shape);
shoal_value *layer_state(branch *b, layer *l, const char *name, shoal_shape shape, double fill);
/* x with the layer's bias, unless use_bias is false; starts as bias_initializer says. */
shoal_value *layer_add_bias(branch *b, layer *l, shoal_value *x, int64_t units);
shoal_value *layer_bias(branch *b, layer *l, const char *name, int64_t units);
shoal_value *layer_bias_shaped(branch *b, layer *l, const char *name, shoal_shape shape, double fan);
/* A training step adds `change` to a weight made by layer_state. */
void layer_change(branch *b, shoal_value *state, shoal_value *change);

/* Refuses an input of less than `least` or more than `most` dimensions, batch included, and says what is expected. */
bool layer_takes(branch *b, const layer *l, const shoal_value *x, int least, int most, const char *expected);
/* Refuses the layer's input for a reason of its own; returns NULL. */
void *layer_refuse(branch *b, const layer *l, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A layer inside this one, of the attribute `name`: "LAYER/inner". Made the first time. */
layer *layer_inner(branch *b, layer *l, int i, const char *name, const json_t *description);
/* Applies a layer inside another: its activation included. */
shoal_value *layer_apply_inner(branch *b, layer *l, layer_io *io);

/* Applies an activation by its name; the name is known to be right. */
shoal_value *activation_apply(shoal_graph *g, const char *name, shoal_value *x);
SHOAL_CHECKED shoal_status activation_check(const char *name);

/* The attributes that layers with kernels share. */
#define LAYER_KERNEL_ATTRS                                                         \
  ATTR("use_bias", BOOL, "true"), ATTR("kernel_initializer", INITIALIZER, "null"), \
      ATTR("bias_initializer", INITIALIZER, "0")

#endif
