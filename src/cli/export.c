/* shoal export: a model for other programs, by the ending of the file; the weights of a linear model as text. */
#include "cli/command.h"
#include "cli/predict_network.h"
#include "cli/say.h"
#include "shoal/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  shoal_trained_options model;
  const char *as;
} export_flags;

static const char *const *form_names(void) {
  static const char *const names[] = {"liblinear", "pairs", NULL};
  return names;
}

static const flag_row export_table[] = {
    {"as", FLAG_CHOICE, offsetof(export_flags, as), "NAME",
     "liblinear: a model file for its predict; pairs: 'index weight' lines of those that are not 0", "liblinear",
     .choices = form_names},
    {"model", FLAG_TEXT, offsetof(export_flags, model.model), "NAME",
     "which model it is, when the file lies outside a run", "from the run's settings", .marks = 0},
    {0},
};

typedef struct {
  const float *w; /* [features] */
  int64_t features;
  const float *bias;        /* [1], or NULL */
  const char *const *names; /* of the classes; NULL: they are -1 and 1 */
  int64_t last;             /* largest feature whose weight is not 0; 0: none */
} linear_model;

static shoal_status find_weights(shoal_trained *t, linear_model *out) {
  shoal_model *model = shoal_trained_model(t);
  linear_model m = {.names = shoal_model_class_names(model)};
  shoal_graph *g = shoal_model_graph(model);
  shoal_value *kernel = shoal_graph_find(g, "sparse_dense/kernel"), *bias = shoal_graph_find(g, "sparse_dense/bias");
  if (!kernel)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s is no linear model of sparse rows; its weights are in %s, as safetensors",
                       shoal_trained_job(t)->model, shoal_trained_weights(t));
  shoal_tensor values;
  TRY(shoal_session_variable(shoal_model_session(model), kernel, &values));
  m.w = values.data;
  m.features = values.shape.dim[0];
  if (bias) {
    TRY(shoal_session_variable(shoal_model_session(model), bias, &values));
    m.bias = values.data;
  }
  for (int64_t i = 1; i < m.features; i++)
    if (m.w[i] != 0) m.last = i;
  *out = m;
  return NULL;
}

/* Features of that format count from 1; every one up to the last has its line. Class 1 comes first. */
static shoal_status write_liblinear(const linear_model *m, FILE *to) {
  if (m->w[0] != 0)
    return status_make(SHOAL_ERR_INPUT,
                       "feature 0 has the weight %g, but liblinear's features count from 1: use --as "
                       "pairs",
                       (double)m->w[0]);
  fprintf(to, "solver_type L2R_LR\nnr_class 2\nlabel %s %s\nnr_feature %lld\nbias %d\nw\n",
          m->names ? m->names[1] : "1", m->names ? m->names[0] : "-1", (long long)m->last, m->bias ? 1 : -1);
  for (int64_t i = 1; i <= m->last; i++)
    if (m->w[i] == 0)
      fputs("0 \n", to);
    else
      fprintf(to, "%.9g \n", (double)m->w[i]);
  if (m->bias) fprintf(to, "%.9g \n", (double)*m->bias);
  return NULL;
}

static shoal_status write_pairs(const linear_model *m, FILE *to) {
  for (int64_t i = 0; i < m->features; i++)
    if (m->w[i] != 0) fprintf(to, "%lld %.9g\n", (long long)i, (double)m->w[i]);
  if (m->bias) fprintf(to, "bias %.9g\n", (double)*m->bias);
  return NULL;
}

static shoal_status export_to(const linear_model *m, const export_flags *f, const char *path) {
  FILE *to = path ? fopen(path, "we") : stdout;
  if (!to) return status_errno(errno, "cannot write %s", path);
  shoal_status status = f->as && !strcmp(f->as, "pairs") ? write_pairs(m, to) : write_liblinear(m, to);
  bool good = !ferror(to) && (path ? fclose(to) == 0 : fflush(to) == 0);
  if (!status && !good) status = status_errno(errno, "cannot write %s", path ? path : "to standard output");
  if (status && path) remove(path);
  return status;
}

static shoal_status write_network(shoal_network *n, const char *path, const export_flags *f, const char *name) {
  if (f->as) return status_make(SHOAL_ERR_ARGUMENT, "--as is about text; the ending of %s says what is written", path);
  return shoal_network_export(n, path, &(shoal_export_options){.name = name});
}

static shoal_status convert_file(const flags_parsed *words, const export_flags *f) {
  if (words->count != 2) return status_make(SHOAL_ERR_ARGUMENT, "expected a file to write behind %s", words->words[0]);
  shoal_network *n;
  TRY(shoal_network_load(words->words[0], &n));
  if (*shoal_network_notes(n)) say(stderr, "%s", shoal_network_notes(n));
  shoal_status status = write_network(n, words->words[1], f, NULL);
  shoal_network_destroy(n);
  return status;
}

static shoal_status export_run(shoal_trained *t, const char *path, const export_flags *f) {
  linear_model m;
  if (path && path_has_ending(path, shoal_export_endings())) {
    shoal_network *n;
    TRY(shoal_network_of(shoal_trained_model(t), &n));
    shoal_status status = write_network(n, path, f, shoal_trained_job(t)->model);
    shoal_network_destroy(n);
    return status;
  }
  TRY(find_weights(t, &m));
  return export_to(&m, f, path);
}

static shoal_status export_model(const flags_parsed *words, const export_flags *f) {
  if (words->count < 1 || words->count > 2)
    return status_make(SHOAL_ERR_ARGUMENT, "expected a run's folder or the file of a model, and a file to write");
  if (path_has_ending(words->words[0], shoal_import_endings())) return convert_file(words, f);
  shoal_trained *t;
  TRY(shoal_trained_open(words->words[0], &f->model, &t));
  shoal_status status = export_run(t, words->count > 1 ? words->words[1] : NULL, f);
  shoal_trained_close(t);
  return status;
}

static int run_export(int argc, char **argv) {
  export_flags f = {0};
  flags_parsed parsed;
  shoal_status status = flags_parse(export_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_export, stdout);
    return EXIT_GOOD;
  }
  if (!status) status = export_model(&parsed, &f);
  return status ? command_fail(&command_export, status) : EXIT_GOOD;
}

const command command_export = {
    .name = "export",
    .arguments = "RUN_DIR|FILE [TO]",
    .summary = "a model for other programs: Keras, ONNX, or the weights of sparse-lr as text",
    .details =
        "The ending of TO says what is written: .keras or .onnx. FILE may also be a model\n"
        "of another program (.keras). With any other ending the weights of sparse-lr are\n"
        "written as text, to TO or to standard output.\n"
        "\n"
        "Examples:\n"
        "  shoal export runs/first first.onnx\n"
        "  shoal export model.keras model.onnx\n"
        "  shoal export runs/clicks clicks.model\n"
        "  shoal export runs/clicks --as pairs | sort -gk2 | tail\n",
    .flags = export_table,
    .run = run_export,
};
