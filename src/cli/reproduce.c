/* shoal reproduce: an experiment that was reported elsewhere, run here, and both results side by side. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run_list.h"
#include "cli/say.h"
#include "cli/table.h"

typedef struct {
  const char *run_dir;
  bool list, dry_run, json;
} reproduce_flags;

#define AT(field) offsetof(reproduce_flags, field)
static const flag_row reproduce_table[] = {
    {"run-dir", FLAG_TEXT, AT(run_dir), "DIR", "folder of the runs; a folder that has some of them is continued",
     "runs/reproduce-ID", .complete = COMPLETE_DIRECTORY},
    {"list", FLAG_BOOL, AT(list), NULL, "list the experiments", .marks = 0},
    {"json", FLAG_BOOL, AT(json), NULL, "print the comparison, or the list, as a JSON array", .marks = 0},
    {"dry-run", FLAG_BOOL, AT(dry_run), NULL, "only list the commands", .marks = 0},
    {0},
};

typedef struct {
  const shoal_experiment *what;
  shoal_run_list *runs;
  interrupt *signals;
} reproduction;

static const char *id_at(int i) {
  const shoal_experiment *e = shoal_experiment_at(i);
  return e ? shoal_experiment_id(e) : NULL;
}

static void list_experiments(bool as_json) {
  const shoal_experiment *e;
  json_t *all = as_json ? json_array() : NULL;
  for (int i = 0; as_json && (e = shoal_experiment_at(i)); i++)
    json_array_append_new(all,
                          json_pack("{s:s, s:s}", "id", shoal_experiment_id(e), "title", shoal_experiment_title(e)));
  if (as_json) {
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
    return;
  }
  for (int i = 0; (e = shoal_experiment_at(i)); i++)
    say_indented(stdout, 7, "  %-3s  %s\n", shoal_experiment_id(e), shoal_experiment_title(e));
}

static shoal_status find(const flags_parsed *parsed, const shoal_experiment **out) {
  if (parsed->count != 1)
    return status_make(SHOAL_ERR_ARGUMENT, "which experiment? '%s reproduce --list' lists them", called());
  shoal_status status = shoal_experiment_find(parsed->words[0], out);
  if (!status) return NULL;
  shoal_status told = status_make(shoal_status_code(status), "%s; '%s reproduce --list' lists them",
                                  shoal_status_message(status), called());
  shoal_status_free(status);
  return told;
}

static shoal_status plan(reproduction *r, const char *run_dir) {
  char name[64];
  snprintf(name, sizeof name, "runs/reproduce-%s", shoal_experiment_id(r->what));
  return shoal_experiment_runs(r->what, run_dir ? run_dir : name, &r->runs);
}

/* Data that the runs need, once. */
static shoal_status prepare(const reproduction *r, bool quiet) {
  if (!shoal_experiment_lacks_data(r->what, r->runs)) return NULL;
  if (!quiet) puts("Making the data ...");
  fflush(stdout);
  return shoal_experiment_make_data(
      r->what, r->runs, &(shoal_run_list_options){.program = OWN_PROGRAM, .stop = interrupt_flag(r->signals)});
}

static shoal_status show_comparison(const reproduction *r, bool json) {
  shoal_result_table *t = NULL;
  const char *note = shoal_experiment_note(r->what);
  shoal_status status = shoal_experiment_compare(r->what, r->runs, &t);
  if (json) return table_print_json(status, t);
  putchar('\n');
  TRY(table_print(stdout, status, t, NULL));
  if (note) say(stdout, "\n%s\n", note);
  say(stdout, "\nThe comparison is in %s/comparison.md and comparison.csv.\n", shoal_run_list_folder(r->runs));
  run_list_report(r->runs);
  return NULL;
}

static shoal_status reproduce(reproduction *r, const reproduce_flags *f, int *exit_status) {
  shoal_run_list_outcome outcome;
  char count[COUNTED_TEXT];
  TRY(plan(r, f->run_dir));
  if (f->dry_run) {
    run_list_print(r->runs);
    return NULL;
  }
  TRY(interrupt_create("Stopping after this step; press Ctrl-C again to end at once.",
                       "Ended at once; runs that are finished are kept.", &r->signals));
  const char *id = shoal_experiment_id(r->what), *folder = shoal_run_list_folder(r->runs);
  counted_text((int64_t)shoal_run_list_count(r->runs), "run", count);
  if (!f->json) say(stdout, "%s: %s, %s in %s\n", id, shoal_experiment_title(r->what), count, folder);
  TRY(prepare(r, f->json));
  TRY(run_list_go(r->runs, interrupt_flag(r->signals), f->json, &outcome));
  TRY(show_comparison(r, f->json));
  *exit_status = run_list_exit_status(&outcome, interrupt_flag(r->signals));
  if (*exit_status == EXIT_GOOD || f->json) return NULL;
  putchar('\n');
  say_command(stdout, "To continue:", "%s reproduce %s --run-dir %s", called(), id, folder);
  return NULL;
}

static int run_reproduce(int argc, char **argv) {
  reproduce_flags f = {0};
  flags_parsed parsed;
  reproduction r = {0};
  int exit_status = EXIT_GOOD;
  shoal_status status = flags_parse(reproduce_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_reproduce, stdout);
    return EXIT_GOOD;
  }
  if (!status && f.list) {
    list_experiments(f.json);
    return EXIT_GOOD;
  }
  if (!status) status = find(&parsed, &r.what);
  if (!status) status = reproduce(&r, &f, &exit_status);
  if (status) exit_status = command_fail(&command_reproduce, status);
  shoal_run_list_destroy(r.runs);
  interrupt_destroy(r.signals);
  return exit_status;
}

const command command_reproduce = {
    .name = "reproduce",
    .arguments = "ID",
    .summary = "run an experiment that was reported and compare with it",
    .details =
        "Runs the experiment, prints its figures beside the reported ones, and leaves\n"
        "comparison.md, comparison.csv and report.html. Started again it goes on where\n"
        "it stopped. --list names the experiments.\n"
        "\n"
        "Examples:\n"
        "  shoal reproduce A5\n"
        "  shoal reproduce B1 --dry-run\n",
    .flags = reproduce_table,
    .word_at = id_at,
    .run = run_reproduce,
};
