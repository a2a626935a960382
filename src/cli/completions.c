/* Completion for zsh and fish, printed from the command and flag tables when Shoal is built; that for bash is in
 * manual.c. */
#include "cli/command.h"

/* Text between single quotes of a shell; the letters of `special` get a backslash before them. */
static void quoted(FILE *to, const char *s, const char *special) {
  for (; *s; s++) {
    if (*s == '\'')
      fputs("'\\''", to);
    else if (strchr(special, *s))
      fprintf(to, "\\%c", *s);
    else
      fputc(*s, to);
  }
}

static bool shown(const flag_row *row) { return !(row->marks & FLAG_HIDDEN); }

/* ---- zsh */

static void zsh_flag(FILE *to, const flag_row *row) {
  fprintf(to, " \\\n        '--%s[", row->name);
  quoted(to, row->help, "[]:\\");
  fputs("]", to);
  if (row->kind != FLAG_BOOL) {
    fputs(":", to);
    quoted(to, row->value, "[]:\\");
    fputs(":", to);
  }
  if (row->kind == FLAG_CHOICE) {
    const char *const *names = row->choices();
    fputs("(", to);
    for (int i = 0; names[i]; i++) fprintf(to, "%s%s", i ? " " : "", names[i]);
    fputs(")", to);
  } else if (row->complete == COMPLETE_FILE) {
    fputs("_files", to);
  } else if (row->complete == COMPLETE_DIRECTORY) {
    fputs("_files -/", to);
  }
  fputs("'", to);
}

static bool begins_group(int i) {
  const command *c = command_at(i), *before = i ? command_at(i - 1) : NULL;
  const char *blank = strchr(c->name, ' ');
  return blank && !(before && !strncmp(before->name, c->name, (size_t)(blank - c->name) + 1));
}

static void zsh_described(FILE *to, const char *name, int length, const char *summary) {
  fprintf(to, "\n    '%.*s:", length, name);
  quoted(to, summary, "\\");
  fputs("'", to);
}

/* The second words of commands that begin with `first`. */
static void zsh_group(FILE *to, const char *first, int length) {
  const command *c;
  fprintf(to, "    %.*s)\n      if ((CURRENT == 3)); then\n        commands=(", length, first);
  for (int i = 0; (c = command_at(i)); i++)
    if (!strncmp(c->name, first, (size_t)length + 1))
      zsh_described(to, c->name + length + 1, (int)strlen(c->name) - length - 1, c->summary);
  fputs(")\n        _describe command commands\n        return\n      fi\n      name=\"$words[2] $words[3]\" ;;\n", to);
}

void completion_print_zsh(FILE *to) {
  const command *c;
  fputs("#compdef shoal\n_shoal() {\n  local -a commands\n  commands=(", to);
  for (int i = 0; (c = command_at(i)); i++) {
    const int length = (int)strcspn(c->name, " ");
    if (!c->name[length] || begins_group(i)) zsh_described(to, c->name, length, c->name[length] ? "..." : c->summary);
  }
  fputs(
      ")\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
      "  local name=$words[2]\n  case $name in\n",
      to);
  for (int i = 0; (c = command_at(i)); i++)
    if (begins_group(i)) zsh_group(to, c->name, (int)strcspn(c->name, " "));
  fputs("  esac\n  case $name in\n", to);
  for (int i = 0; (c = command_at(i)); i++) {
    fprintf(to, "    '%s')\n      _arguments '--help[explain the command]'", c->name);
    for (const flag_row *row = command_flags(c); row->name; row++)
      if (shown(row)) zsh_flag(to, row);
    fputs(" \\\n        '*:argument:", to);
    const char *word;
    if (c->word_at) fputs("(", to);
    for (int k = 0; c->word_at && (word = c->word_at(k)); k++) fprintf(to, "%s%s", k ? " " : "", word);
    fputs(c->word_at ? ")" : "_files", to);
    fputs("' ;;\n", to);
  }
  fputs("  esac\n}\n_shoal \"$@\"\n", to);
}

/* ---- fish */

static void fish_begin(FILE *to, const char *condition, const char *word) {
  fprintf(to, "complete -c shoal -n '%s%s%s'", condition, word ? " " : "", word ? word : "");
}

void completion_print_fish(FILE *to) {
  const command *c;
  fputs("# fish completion for shoal\n", to);
  for (int i = 0; (c = command_at(i)); i++) {
    const char *blank = strchr(c->name, ' '), *last = blank ? blank + 1 : c->name;
    char first[32] = "";
    memcpy(first, c->name, strcspn(c->name, " ")); /* all are shorter */
    if (blank) {
      fish_begin(to, "__fish_use_subcommand", NULL);
      fprintf(to, " -f -a '%s'\n", first);
    }
    fish_begin(to, blank ? "__fish_seen_subcommand_from" : "__fish_use_subcommand", blank ? first : NULL);
    fprintf(to, " -f -a '%s' -d '", last);
    quoted(to, c->summary, "\\");
    fputs("'\n", to);
    const char *word;
    for (int k = 0; c->word_at && (word = c->word_at(k)); k++) {
      fish_begin(to, "__fish_seen_subcommand_from", last);
      fprintf(to, " -f -a '%s'\n", word);
    }
    for (const flag_row *row = command_flags(c); row->name; row++) {
      if (!shown(row)) continue;
      fish_begin(to, "__fish_seen_subcommand_from", last);
      fprintf(to, " -l '%s' -d '", row->name);
      quoted(to, row->help, "\\");
      fputs("'", to);
      if (row->kind == FLAG_CHOICE) {
        const char *const *names = row->choices();
        fputs(" -x -a '", to);
        for (int k = 0; names[k]; k++) fprintf(to, "%s%s", k ? " " : "", names[k]);
        fputs("'", to);
      } else if (row->kind != FLAG_BOOL) {
        fputs(row->complete == COMPLETE_NOTHING ? " -x" : " -r -F", to);
      }
      fputs("\n", to);
    }
  }
}
