/* The man pages and the bash completion, printed from the command and flag tables when Shoal is built. */
#include "cli/command.h"
#include "shoal/models.h"
#include "shoal/version.h"

#include <ctype.h>
#include <errno.h>

/* Text for roff: a dash must not become a hyphen, a leading dot or quote is no request. */
static void roff(FILE *to, const char *s) {
  bool line_start = true;
  for (; *s; s++) {
    if (line_start && (*s == '.' || *s == '\'')) fputs("\\&", to);
    if (*s == '-')
      fputs("\\-", to);
    else if (*s == '\\')
      fputs("\\e", to);
    else
      fputc(*s, to);
    line_start = *s == '\n';
  }
}

/* A command's details: indented blocks stay as they are, the rest flows. */
static void roff_details(FILE *to, const char *s) {
  bool verbatim = false;
  while (*s) {
    const char *end = strchr(s, '\n');
    size_t length = end ? (size_t)(end - s) : strlen(s);
    char line[256];
    snprintf(line, sizeof line, "%.*s", (int)length, s);
    bool indented = line[0] == ' ';
    if (indented != verbatim && *line) {
      fputs(indented ? ".nf\n" : ".fi\n", to);
      verbatim = indented;
    }
    if (*line) {
      roff(to, line);
      fputc('\n', to);
    } else {
      fputs(".PP\n", to);
    }
    s += length + (end != NULL);
  }
  if (verbatim) fputs(".fi\n", to);
}

static void manual_flag(FILE *to, const flag_row *row) {
  fputs(".TP\n.B \\-\\-", to);
  roff(to, row->name);
  if (row->kind != FLAG_BOOL) {
    fputs(" \\fI", to);
    roff(to, row->value);
    fputs("\\fR", to);
  }
  fputc('\n', to);
  roff(to, row->help);
  if (row->kind == FLAG_CHOICE) {
    char *names = names_list(row->choices());
    fputs(": ", to);
    roff(to, names ? names : "");
    free(names);
  }
  if (row->standard) {
    fputs(" (", to);
    roff(to, row->standard);
    fputs(")", to);
  }
  fputs(".\n", to);
}

/* Commands of two words are joined by a dash in scripts and in names of pages. */
static void joined_name(FILE *to, const command *c) {
  for (const char *s = c->name; *s; s++) fputc(*s == ' ' ? '-' : *s, to);
}

static void sentence(FILE *to, const char *words) {
  const char first[] = {(char)toupper(words[0]), 0};
  roff(to, first);
  roff(to, words + 1);
  fputs(".\n", to);
}

/* shoal-train(1) */
static void manual_command(FILE *to, const command *c) {
  fputs(".TH SHOAL\\-", to);
  for (const char *s = c->name; *s; s++) fputs(*s == ' ' ? "\\-" : (char[]){(char)toupper(*s), 0}, to);
  fprintf(to, " 1 \"\" \"shoal %s\" \"User Commands\"\n.SH NAME\nshoal\\-", shoal_version());
  joined_name(to, c);
  fputs(" \\- ", to);
  roff(to, c->summary);
  fprintf(to, "\n.SH SYNOPSIS\n.B shoal %s\n", c->name);
  if (c->arguments) roff(to, c->arguments);
  fputs(c->arguments ? "\n.RI [ FLAG ...]\n.SH DESCRIPTION\n" : ".RI [ FLAG ...]\n.SH DESCRIPTION\n", to);
  sentence(to, c->summary);
  if (c->details) {
    fputs(".PP\n", to);
    roff_details(to, c->details);
  }
  fputs(".SH OPTIONS\n", to);
  for (const flag_row *row = command_flags(c); row->name; row++)
    if (!(row->marks & FLAG_HIDDEN)) manual_flag(to, row);
  fputs(".TP\n.B \\-\\-help\nexplain the command.\n", to);
  fputs(".SH SEE ALSO\n.BR shoal (1)\n", to);
}

void manual_print(FILE *to, const command *only) {
  if (only) {
    manual_command(to, only);
    return;
  }
  fprintf(to, ".TH SHOAL 1 \"\" \"shoal %s\" \"User Commands\"\n", shoal_version());
  fputs(
      ".SH NAME\nshoal \\- train models\n"
      ".SH SYNOPSIS\n.B shoal\n.I COMMAND\n.RI [ ARGUMENT ...]\n.RI [ FLAG ...]\n"
      ".SH DESCRIPTION\nShoal trains models described as dataflow graphs, evaluates them and predicts with them. "
      "Each command has a page of its own.\n"
      ".SH COMMANDS\n",
      to);
  const command *c;
  for (int i = 0; (c = command_at(i)); i++) {
    fputs(".TP\n.BR shoal\\-", to);
    for (const char *s = c->name; *s; s++) fputs(*s == ' ' ? "\\-" : (char[]){*s, 0}, to);
    fputs(" (1)\n", to);
    sentence(to, c->summary);
  }
  fputs(".SH MODELS\n", to);
  const shoal_model_kind *kind;
  for (int i = 0; (kind = shoal_model_kind_at(i)); i++) {
    fprintf(to, ".TP\n.B %s\n", kind->name);
    roff(to, kind->summary);
    fputc('\n', to);
  }
  fputs(
      ".SH ENVIRONMENT\n"
      ".TP\n.B NO_COLOR\nno colours on the terminal.\n"
      ".TP\n.B TF_CONFIG\nthe cluster this process is a task of, and which; see \\-\\-cluster.\n"
      ".TP\n.B SHOAL_DATA\na folder in which data sets are looked for by name before the usual places.\n"
      ".SH FILES\n"
      ".TP\n.I runs/NAME/summary.json\nthe result of a run.\n"
      ".TP\n.I runs/NAME/metrics.jsonl\nloss, accuracy, rate and speed through the run, one JSON object a line.\n"
      ".TP\n.I runs/NAME/settings.json\nthe flags the run was started with.\n"
      ".TP\n.I runs/NAME/model.safetensors\nthe weights at the end.\n"
      ".TP\n.I runs/NAME/logs/\nthe logs of a cluster's tasks.\n"
      ".TP\n.I runs/NAME/checkpoints/\nwhat \\-\\-resume continues from.\n"
      ".SH EXIT STATUS\n"
      "0 success; 1 the job failed; 2 wrong usage; 130 ended by Ctrl\\-C, with a checkpoint saved; "
      "143 the same for a TERM signal; with \\-\\-drain 0.\n",
      to);
}

shoal_status manual_write(const char *folder) {
  const command *c = NULL;
  int i = 0;
  do {
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/shoal%s%s.1", folder, c ? "-" : "", c ? c->name : "");
    for (char *blank = path + strlen(folder); n < (int)sizeof path && (blank = strchr(blank, ' '));) *blank = '-';
    FILE *f = n < (int)sizeof path ? fopen(path, "we") : NULL;
    if (!f) return status_errno(errno, "cannot write %s", path);
    manual_print(f, c);
    if (fclose(f)) return status_errno(errno, "cannot write %s", path);
  } while ((c = command_at(i++)));
  return NULL;
}

/* Has a command before it the same first word? */
static bool first_word_known(int i) {
  const command *c = command_at(i), *before = i ? command_at(i - 1) : NULL;
  const char *blank = strchr(c->name, ' ');
  return blank && before && !strncmp(before->name, c->name, (size_t)(blank - c->name) + 1);
}

/* The first words; for commands of two, then the second. */
static void complete_names(FILE *to) {
  const command *c;
  fputs("  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W \"", to);
  for (int i = 0; (c = command_at(i)); i++)
    if (!first_word_known(i)) fprintf(to, "%s%.*s", i ? " " : "", (int)strcspn(c->name, " "), c->name);
  fputs("\" -- \"$cur\"))\n    return\n  fi\n  case $command in\n", to);
  for (int i = 0; (c = command_at(i)); i++) {
    int length = (int)strcspn(c->name, " ");
    if (!c->name[length] || first_word_known(i)) continue;
    fprintf(to, "    %.*s)\n      if ((COMP_CWORD == 2)); then\n        COMPREPLY=($(compgen -W \"", length, c->name);
    const command *d;
    for (int k = i; (d = command_at(k)) && !strncmp(d->name, c->name, (size_t)length + 1); k++)
      fprintf(to, "%s%s", k > i ? " " : "", d->name + length + 1);
    fputs("\" -- \"$cur\"))\n        return\n      fi\n      command+=-${COMP_WORDS[2]} ;;\n", to);
  }
  fputs("  esac\n", to);
}

static void complete_value(FILE *to, const command *c, const flag_row *row) {
  fputs("    ", to);
  joined_name(to, c);
  fprintf(to, ":--%s) ", row->name);
  if (row->kind == FLAG_CHOICE) {
    fputs("COMPREPLY=($(compgen -W \"", to);
    const char *const *names = row->choices();
    for (int i = 0; names[i]; i++) fprintf(to, "%s%s", i ? " " : "", names[i]);
    fputs("\" -- \"$cur\"));", to);
  } else if (row->complete == COMPLETE_FILE) {
    fputs("COMPREPLY=($(compgen -f -- \"$cur\"));", to);
  } else if (row->complete == COMPLETE_DIRECTORY) {
    fputs("COMPREPLY=($(compgen -d -- \"$cur\"));", to);
  }
  fputs(" return ;;\n", to);
}

void completion_print(FILE *to) {
  fputs(
      "# bash completion for shoal\n_shoal() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
      "  COMPREPLY=()\n",
      to);
  complete_names(to);
  const command *c;
  fputs("  case $command:$prev in\n", to);
  for (int i = 0; (c = command_at(i)); i++)
    for (const flag_row *row = command_flags(c); row->name; row++)
      if (row->kind != FLAG_BOOL && !(row->marks & FLAG_HIDDEN)) complete_value(to, c, row);
  fputs("  esac\n  case $command:$cur in\n", to);
  for (int i = 0; (c = command_at(i)); i++) {
    fputs("    ", to);
    joined_name(to, c);
    fputs(":-*) COMPREPLY=($(compgen -W \"", to);
    for (const flag_row *row = command_flags(c); row->name; row++)
      if (!(row->marks & FLAG_HIDDEN)) fprintf(to, "--%s ", row->name);
    fputs("--help\" -- \"$cur\")) ;;\n", to);
    fputs("    ", to);
    joined_name(to, c);
    fputs(":*) COMPREPLY=($(compgen ", to);
    if (c->word_at) {
      fputs("-W \"", to);
      const char *word;
      for (int k = 0; (word = c->word_at(k)); k++) fprintf(to, "%s%s", k ? " " : "", word);
      fputs("\"", to);
    } else {
      fputs("-f", to);
    }
    fputs(" -- \"$cur\")) ;;\n", to);
  }
  fputs("  esac\n}\ncomplete -o filenames -F _shoal shoal\n", to);
}
