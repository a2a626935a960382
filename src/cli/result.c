#include "cli/result.h"

#include "cli/flags.h"
#include "cli/say.h"
#include "cli/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sentences */

static void print_verdict(const shoal_verdict *v, FILE *to) {
  say(to, "\n%s\n", v->text);
  if (*v->next_text) say(to, "%s\n", v->next_text);
  for (int i = 0; i < v->n_warnings; i++) say(to, "note: %s\n", v->warnings[i].text);
}

static void print_notes(const shoal_run_report *r, FILE *to) {
  text notes = {0};
  shoal_run_report_notes(r, &notes);
  char *words = notes.data ? flags_in_words(notes.data) : NULL, *rest = NULL;
  for (char *line = words ? strtok_r(words, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
    say(to, "\n%s\n", line);
  free(words);
  text_fini(&notes);
}

void result_print(const shoal_run_report *r, FILE *to) {
  shoal_result_table *t = NULL;
  fputc('\n', to);
  shoal_status status = shoal_run_report_table(r, &t);
  shoal_status_free(table_print(to, status, t, NULL)); /* the summary has it all the same */
  fputc('\n', to);
  status = shoal_run_report_task_table(r, &t);
  shoal_status_free(table_print(to, status, t, NULL));
  print_notes(r, to);
  if (!r->job.quiet) print_verdict(&r->verdict, to);
}

void result_print_task(const shoal_task_report *t, FILE *to) {
  char a[COUNTED_TEXT], b[COUNTED_TEXT], figures[SHOAL_EVALUATION_TEXT];
  const bool tests = t->evaluations >= 0;
  const shoal_evaluation test = {.accuracy = tests ? t->last_accuracy : t->test_accuracy,
                                 .rmse = tests ? t->last_rmse : t->test_rmse,
                                 .r2 = tests ? NAN : t->test_r2};
  if (tests)
    fprintf(to, "%s: %s tested, last %s\n", t->name, counted_text(t->evaluations, "checkpoint", a),
            shoal_evaluation_text(&test, figures));
  else if (t->updates >= 0)
    fprintf(to, "%s: %s applied\n", t->name, counted_text(t->updates, "update", a));
  else if (t->steps < 0)
    fprintf(to, "%s: ended as a backup\n", t->name);
  else
    fprintf(to, "%s: %s, %s, test %s\n", t->name, counted_text(t->steps, "step", a),
            counted_text(t->examples, "example", b), shoal_evaluation_text(&test, figures));
}
