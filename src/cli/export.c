/* shoal export: a model for other programs, by the ending of the file; the weights of a linear model as text. */
#include "cli/command.h"
#include "cli/say.h"
#include "shoal/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

typedef struct {
  shoal_trained_options model;
  const char *as, *layout;
} export_flags;

static const char *const *layout_names(void) {
  static const char *const names[] = {"shoal", "torch", NULL};
  return names;
}

static const flag_row export_table[] = {
    {"as", FLAG_CHOICE, offsetof(export_flags, as), "NAME",
     "liblinear: a model file for liblinear's predict; pairs: 'index weight' lines of the non-zero weights",
     "liblinear", .choices = shoal_linear_form_names},
    {"layout", FLAG_CHOICE, offsetof(export_flags, layout), "NAME",
     ".safetensors: shoal, or torch: names and shapes of weights as PyTorch's modules have them", "shoal",
     .choices = layout_names},
    {"model", FLAG_TEXT, offsetof(export_flags, model.model), "NAME", "the model, if the file is not in a run folder",
     "from the run's settings", .marks = 0},
    {0},
};

/* The number of the form, 0 if none is named. */
static shoal_linear_form form_of(const char *name) {
  const char *const *names = shoal_linear_form_names();
  int form = 0;
  while (name && strcmp(name, names[form])) form++; /* the flag's table has checked it */
  return (shoal_linear_form)form;
}

/* How the run was trained. */
static shoal_compile_options compiled_of(const shoal_job *job) {
  return (shoal_compile_options){.optimizer = {.name = job->optimizer,
                                               .momentum = job->momentum,
                                               .nesterov = job->nesterov,
                                               .decay = job->rho,
                                               .beta1 = job->beta1,
                                               .beta2 = job->beta2,
                                               .epsilon = job->epsilon,
                                               .accumulator = job->accumulator,
                                               .weight_decay = job->weight_decay,
                                               .clip_value = job->clip_value,
                                               .clip_norm = job->clip_norm,
                                               .clip_global_norm = job->clip_global_norm},
                                 .schedule = {.rate = job->lr},
                                 .label_smoothing = job->label_smoothing};
}

static shoal_status write_network(shoal_network *n, const char *path, const export_flags *f, const char *name,
                                  const shoal_job *job, const char *weights) {
  if (f->as)
    return status_make(SHOAL_ERR_ARGUMENT, "--as selects a text format, but the extension of %s selects another", path);
  const shoal_compile_options compile = job ? compiled_of(job) : (shoal_compile_options){0};
  return shoal_network_export(
      n, path,
      &(shoal_export_options){
          .name = name, .layout = f->layout, .compile = job ? &compile : NULL, .checkpoint = weights});
}

static shoal_status convert_file(const flags_parsed *words, const export_flags *f) {
  if (words->count != 2) return status_make(SHOAL_ERR_ARGUMENT, "expected a file to write after %s", words->words[0]);
  shoal_network *n;
  TRY(shoal_network_load(words->words[0], &n));
  if (*shoal_network_notes(n)) say(stderr, "%s", shoal_network_notes(n));
  shoal_status status = write_network(n, words->words[1], f, NULL, NULL, NULL);
  shoal_network_destroy(n);
  return status;
}

static shoal_status write_text(shoal_trained *t, const char *path, const export_flags *f) {
  const int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : STDOUT_FILENO;
  if (fd < 0) return status_errno(errno, "cannot write %s", path);
  shoal_status status = shoal_linear_write(shoal_trained_model(t), form_of(f->as), fd);
  if (path) close(fd);
  if (status && path) remove(path);
  return status_wrap(status, "%s, with its weights in %s", shoal_trained_job(t)->model, shoal_trained_weights(t));
}

static shoal_status export_run(shoal_trained *t, const char *path, const export_flags *f) {
  shoal_network *n;
  if (!path || !shoal_has_ending(path, shoal_export_endings())) return write_text(t, path, f);
  TRY(shoal_network_of(shoal_trained_model(t), &n));
  const shoal_job *job = shoal_trained_job(t);
  shoal_status status = write_network(n, path, f, job->model, job, shoal_trained_weights(t));
  shoal_network_destroy(n);
  return status;
}

static shoal_status export_model(command_call *call) {
  const flags_parsed *words = call->words;
  const export_flags *f = call->flags;
  if (shoal_has_ending(words->words[0], shoal_import_endings())) return convert_file(words, f);
  shoal_trained *t;
  TRY(shoal_trained_open(words->words[0], &f->model, &t));
  shoal_status status = export_run(t, words->count > 1 ? words->words[1] : NULL, f);
  shoal_trained_close(t);
  return status;
}

const command command_export = {
    .name = "export",
    .arguments = "RUN_DIR|FILE [TO]",
    .summary = "export a model to Keras or ONNX, or the weights of sparse-lr as text",
    .details =
        "The extension of TO selects the format: .keras, .onnx, .pb (TensorFlow),\n"
        ".safetensors (weights only) or .svg (a picture). FILE may also be a model of\n"
        "another program (.keras, .onnx, .pb).\n"
        "With any other extension the weights of sparse-lr are written as text, to TO or\n"
        "to standard output.\n"
        "\n"
        "Examples:\n"
        "  shoal export runs/first first.onnx\n"
        "  shoal export model.keras model.onnx\n"
        "  shoal export runs/first first.safetensors --layout torch\n"
        "  shoal export runs/clicks clicks.model\n"
        "  shoal export runs/clicks --as pairs | sort -gk2 | tail\n",
    .flags = export_table,
    .fields = sizeof(export_flags),
    .words_min = 1,
    .words_max = 2,
    .expected = "a run folder or a model file, and a file to write",
    .action = export_model,
};
