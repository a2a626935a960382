/* shoal model show, shoal model layers. */
#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"
#include "shoal/exchange.h"

typedef struct {
  const char *set, *input, *svg;
  bool json;
} show_flags;

#define AT(field) offsetof(show_flags, field)
static const flag_row show_table[] = {
    {"set", FLAG_TEXT, AT(set), "NAME=VALUE,...", "values of its parameters", "as the file has them", .marks = 0},
    {"input", FLAG_TEXT, AT(input), "SHAPE", "of an example, e.g. 32x32x3", "the model's own", .marks = 0},
    {"svg", FLAG_TEXT, AT(svg), "FILE", "also draw it, to this file (.svg)", "none", .complete = COMPLETE_FILE},
    {"json", FLAG_BOOL, AT(json), NULL, "print one JSON object", .marks = 0},
    {0},
};

/* "28x28x1"; NULL: not said. */
static shoal_status read_shape(const char *words, shoal_shape *out) {
  shoal_shape s = {0};
  for (const char *at = words; at && s.rank < SHOAL_MAX_RANK - 1;) {
    char *end;
    s.dim[s.rank++] = strtoll(at, &end, 10);
    if (end == at || s.dim[s.rank - 1] < 1 || (*end && *end != 'x')) break;
    at = *end ? end + 1 : NULL;
    if (!at) {
      *out = s;
      return NULL;
    }
  }
  return words ? status_make(SHOAL_ERR_ARGUMENT, "--input: expected a shape like 32x32x3, not '%s'", words) : NULL;
}

/* A graph of operators. */
static shoal_status show_network(const char *path, const show_flags *f) {
  shoal_network *n;
  if (f->set || f->input)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: --set and --input are for models of layers", path);
  TRY(shoal_network_load(path, &n));
  char *words = shoal_network_describe(n);
  if (words) fputs(words, stdout);
  shoal_status status = words ? NULL : status_no_memory();
  if (!status && f->svg) status = shoal_network_export(n, f->svg, NULL);
  shoal_network_destroy(n);
  free(words);
  return status;
}

static shoal_status show(command_call *call) {
  const show_flags *f = call->flags;
  const shoal_model_options options = {.set = f->set};
  const char *name = call->words->words[0];
  shoal_model_kind *kind;
  shoal_model *m = NULL;
  if (f->svg && !shoal_has_ending(f->svg, (const char *const[]){".svg", NULL}))
    return status_make(SHOAL_ERR_ARGUMENT, "--svg: expected a file that ends in .svg, not '%s'", f->svg);
  if (!f->json && shoal_has_ending(name, (const char *const[]){".onnx", ".pb", NULL})) return show_network(name, f);
  TRY(shoal_model_kind_import(name, &kind, NULL));
  char *words = NULL;
  shoal_shape input = kind->input;
  shoal_status status = read_shape(f->input, &input);
  if (!status) status = shoal_model_kind_build(kind, &input, &options, &m);
  if (!status) status = shoal_model_compile(m, &(shoal_compile_options){.threads = 1, .loss = kind->loss});
  if (!status && f->json) {
    status = shoal_model_describe_json(m, &words);
    status = json_print(status, words);
    words = NULL;
  } else if (!status && !(words = shoal_model_describe(m))) {
    status = status_no_memory();
  } else if (!status) {
    printf("%s%s%s\n", kind->name, *kind->summary ? ": " : "", kind->summary);
    fputs(words, stdout);
  }
  if (!status && f->svg) status = shoal_model_draw(m, f->svg);
  free(words);
  shoal_model_destroy(m);
  shoal_model_kind_destroy(kind);
  return status;
}

const command command_model_show = {
    .name = "model show",
    .arguments = "NAME|FILE",
    .summary = "print a model's layers, with shapes and numbers of parameters, and draw it",
    .flags = show_table,
    .word_at = model_name_at,
    .fields = sizeof(show_flags),
    .words_min = 1,
    .words_max = 1,
    .expected = "a model: its name, or a file such as my.json, model.keras or model.onnx",
    .action = show,
};

typedef struct {
  bool json;
} layers_flags;

static const flag_row layers_table[] = {
    {"json", FLAG_BOOL, offsetof(layers_flags, json), NULL, "print the types as a JSON array", .marks = 0},
    {0},
};

static shoal_status list_layers(command_call *call) {
  const flags_parsed *words = call->words;
  if (((const layers_flags *)call->flags)->json) {
    json_t *all = json_array();
    for (int i = 0; shoal_layer_type_at(i); i++) json_array_append_new(all, json_string(shoal_layer_type_at(i)));
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
    return NULL;
  }
  for (int i = 0; !words->count && shoal_layer_type_at(i); i++) puts(shoal_layer_type_at(i));
  for (int i = 0; i < words->count; i++) {
    char *lines;
    TRY(shoal_layer_type_describe(words->words[i], &lines));
    fputs(lines, stdout);
    free(lines);
  }
  return NULL;
}

const command command_model_layers = {
    .name = "model layers",
    .arguments = "[TYPE...]",
    .summary = "list the types of layers in model files, or the attributes of some",
    .flags = layers_table,
    .fields = sizeof(layers_flags),
    .word_at = shoal_layer_type_at,
    .words_max = ANY_NUMBER,
    .action = list_layers,
};
