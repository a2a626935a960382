/* shoal eval: how well a trained model does on data. */
#include "cli/command.h"
#include "cli/saved.h"
#include "cli/say.h"
#include "cli/table.h"
#include "data/class_names.h"

#include <math.h>

typedef struct {
  saved_options saved;
  const char *split;
  bool json, confusion;
} eval_flags;

static const char *const *split_names(void) {
  static const char *const names[] = {"test", "train", NULL};
  return names;
}

static const flag_row eval_table[] = {
    SAVED_FLAGS(offsetof(eval_flags, saved)),
    {.name = "split", .kind = FLAG_CHOICE, .offset = offsetof(eval_flags, split), .value = "NAME",
     .help = "which rows of the data", .standard = "test", .choices = split_names},
    {.name = "top-k", .kind = FLAG_INT, .offset = offsetof(eval_flags, saved.top_k), .value = "K",
     .help = "also report how often the class is among the K likeliest", .least = 1, .most = 1e6},
    {.name = "confusion", .kind = FLAG_BOOL, .offset = offsetof(eval_flags, confusion),
     .help = "how often each class is taken for each other one, also of more than 20 classes"},
    {.name = "json", .kind = FLAG_BOOL, .offset = offsetof(eval_flags, json), .help = "print one JSON object"},
    {0},
};

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static shoal_status print_json(const saved_model *s, const char *split, const shoal_evaluation *e,
                               const confusion *counts) {
  json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "model", s->kind->name,
                        "weights", s->weights, "data", s->job.data, "split", split, "examples", (json_int_t)e->examples,
                        "loss", number(e->loss), "accuracy", number(e->accuracy), "top_k", number(e->top_k), "auc",
                        number(e->auc), "seconds", number(e->seconds), "unknown_entries",
                        (json_int_t)e->unknown_entries, "class_names",
                        class_names_to_json(shoal_model_class_names(s->model)), "confusion", confusion_json(counts), "mae",
                        number(e->mae), "rmse", number(e->rmse), "r2", number(e->r2));
  if (!o) return status_no_memory();
  json_dumpf(o, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(o);
  return NULL;
}

static void print_table(const saved_model *s, const char *split, const shoal_evaluation *e) {
  enum { MODEL, DATA, ROWS, LOSS, FIGURES, COLUMNS = FIGURES + 3 };
  char top_k[32];
  table_column c[COLUMNS] = {
      [MODEL] = {"model", true, ""},   [DATA] = {"data", true, ""},
      [ROWS] = {"examples", false, ""}, [LOSS] = {"loss", false, ""},
  };
  int n = FIGURES;
  table_set_text(&c[MODEL], s->kind->name);
  const char *data = !strcmp(split, "test") && s->job.test_data ? s->job.test_data : s->job.data;
  snprintf(c[DATA].cell, TABLE_CELL, "%.40s, %s", data, split);
  table_set_int(&c[ROWS], e->examples);
  table_set_number(&c[LOSS], e->loss, 4);
  if (!s->classes) {
    const struct {
      const char *head;
      double value;
    } errors[] = {{"MAE", e->mae}, {"RMSE", e->rmse}, {"R2", e->r2}};
    for (int i = 0; i < 3; i++, n++) {
      c[n].head = errors[i].head;
      table_set_number(&c[n], errors[i].value, 4);
    }
  } else {
    c[n].head = "accuracy";
    table_set_share(&c[n++], e->accuracy);
  }
  if (isfinite(e->top_k)) {
    snprintf(top_k, sizeof top_k, "top %lld", (long long)s->job.top_k);
    c[n].head = top_k;
    table_set_share(&c[n++], e->top_k);
  } else if (isfinite(e->auc)) {
    c[n].head = "AUC";
    table_set_number(&c[n++], e->auc, 4);
  }
  printf("%s\n\n", s->weights);
  table_print(stdout, c, 1, n, terminal_width(stdout));
}

static shoal_status print_text(const saved_model *s, const char *split, const shoal_evaluation *e,
                               const confusion *counts) {
  char count[COUNTED_TEXT];
  print_table(s, split, e);
  if (counts->counts) TRY(confusion_print(counts, shoal_model_class_names(s->model), stdout));
  if (e->unknown_entries)
    say(stdout, "\nLeft out: %s of the rows with an index that the model does not know.\n",
        counted_text(e->unknown_entries, "value", count));
  return NULL;
}

static shoal_status eval(const char *target, const eval_flags *f) {
  saved_model s;
  TRY(saved_model_load(target, &f->saved, &s));
  const char *split = saved_split(&s, &f->saved, f->split);
  job_rows rows = {0};
  shoal_evaluation e;
  confusion counts = {0};
  shoal_status status = NULL;
  const job_rows_options which = {
      .split = split, .known = job_learned_of(s.model), .scored = true};
  TRY_GOTO(status, job_open_rows(&s.job, s.kind, &which, &rows), done);
  if (s.classes && (s.classes <= CONFUSION_CLASSES || f->confusion)) TRY_GOTO(status, confusion_init(&counts, s.classes), done);
  TRY_GOTO(status, job_evaluate(s.model, &rows, &counts, &e), done);
  if (!f->split && !strcmp(split, "train")) split = "all";
  status = f->json ? print_json(&s, split, &e, &counts) : print_text(&s, split, &e, &counts);
done:
  confusion_fini(&counts);
  job_close_rows(&rows);
  saved_model_fini(&s);
  return status;
}

static int run_eval(int argc, char **argv) {
  eval_flags f = {0};
  flags_parsed parsed;
  shoal_status status = flags_parse(eval_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_eval, stdout);
    return EXIT_GOOD;
  }
  if (!status && parsed.count != 1)
    status = status_make(SHOAL_ERR_ARGUMENT, "expected one run's folder or one safetensors file, not %d", parsed.count);
  if (!status) status = eval(parsed.words[0], &f);
  return status ? command_fail(&command_eval, status) : EXIT_GOOD;
}

const command command_eval = {
    .name = "eval",
    .arguments = "RUN_DIR|FILE",
    .summary = "loss and accuracy, or errors of a regression, of a trained model on data",
    .details = "Takes the folder of a run (its final weights or, while it is not finished, its\n"
               "newest checkpoint) or one safetensors file. The model and its settings come\n"
               "from the run.\n"
               "\n"
               "Examples:\n"
               "  shoal eval runs/first\n"
               "  shoal eval runs/first --data more.csv\n"
               "  shoal eval runs/first/checkpoints/best.safetensors --split train --json\n",
    .flags = eval_table,
    .run = run_eval,
};
