/* shoal eval: how well a trained model does on data. */
#include "cli/command.h"
#include "cli/say.h"
#include "cli/table.h"
#include "cli/trained_flags.h"

typedef struct {
  shoal_trained_options model;
  const char *split;
  bool json, confusion;
} eval_flags;

static const flag_row eval_table[] = {
    TRAINED_FLAGS(offsetof(eval_flags, model)),
    {"split", FLAG_CHOICE, offsetof(eval_flags, split), "NAME", "which split of the data", "test",
     .choices = trained_split_names},
    {"top-k", FLAG_INT, offsetof(eval_flags, model.top_k), "K", "also report top-K accuracy", .least = 1, .most = 1e6},
    {"confusion", FLAG_BOOL, offsetof(eval_flags, confusion), NULL,
     "print the confusion matrix even for more than 20 classes", .marks = 0},
    {"json", FLAG_BOOL, offsetof(eval_flags, json), NULL, "print one JSON object", .marks = 0},
    {0},
};

static shoal_status print_text(shoal_trained *t, const shoal_test_result *r) {
  char count[COUNTED_TEXT];
  shoal_result_table *table = NULL;
  printf("%s\n\n", shoal_trained_weights(t));
  shoal_status status = shoal_test_result_table(t, r, &table);
  TRY(table_print(stdout, status, table, NULL));
  const char *name;
  double value;
  for (int i = 0; shoal_model_figure(shoal_trained_model(t), i, &name, &value); i++)
    printf("%s%-32s %.4f\n", i ? "" : "\n", name, value);
  if (r->confusion.counts) {
    puts("\nConfusion matrix (rows: actual class, columns: predicted class):\n");
    status = shoal_confusion_table(&r->confusion, shoal_model_class_names(shoal_trained_model(t)), &table);
    TRY(table_print(stdout, status, table, NULL));
  }
  if (r->scores.unknown_entries)
    say(stdout, "\nIgnored: %s with a feature index that the model does not have.\n",
        counted_text(r->scores.unknown_entries, "value", count));
  return NULL;
}

static shoal_status eval(command_call *call) {
  const eval_flags *f = call->flags;
  shoal_trained *t;
  shoal_test_result r;
  TRY(shoal_trained_open(call->words->words[0], &f->model, &t));
  shoal_status status = shoal_trained_evaluate(t, f->split, f->confusion, &r);
  if (!status) {
    char *json = NULL;
    if (f->json) status = shoal_test_result_json(t, &r, &json);
    status = f->json ? json_print(status, json) : print_text(t, &r);
    shoal_test_result_free(&r);
  }
  shoal_trained_close(t);
  return status;
}

const command command_eval = {
    .name = "eval",
    .arguments = "RUN_DIR|FILE",
    .summary = "evaluate a trained model on data",
    .details =
        "Takes a run folder (its final weights or, if it has not finished, its newest\n"
        "checkpoint) or a safetensors file. The model and its settings come from the\n"
        "run.\n"
        "\n"
        "Examples:\n"
        "  shoal eval runs/first\n"
        "  shoal eval runs/first --data more.csv\n"
        "  shoal eval runs/first/checkpoints/best.safetensors --split train --json\n",
    .flags = eval_table,
    .fields = sizeof(eval_flags),
    .words_min = 1,
    .words_max = 1,
    .expected = "one run folder or safetensors file",
    .action = eval,
};
