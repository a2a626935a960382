#include "cli/say.h"

#include "cli/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_WIDTH = 20, NAMED_INDENT = 17 };

const char *called(void) { return program_invocation_name; }

const char *counted_text(int64_t n, const char *noun, char buffer[COUNTED_TEXT]) {
  char number[SHOAL_DIGITS_TEXT];
  snprintf(buffer, COUNTED_TEXT, "%s %s%s", shoal_group_digits(n, number), noun, n == 1 ? "" : "s");
  return buffer;
}

static bool is_first_byte(char c) { return ((unsigned char)c & 0xc0) != 0x80; } /* of a character in UTF-8 */

/* Where to break a line of which `width` characters fit: an index of a blank; 0: nowhere. */
static size_t find_break(const char *line, size_t length, int width) {
  size_t between_columns = 0, between_words = 0, first = strspn(line, " ");
  int seen = 0;
  for (size_t i = 0; i < length; i++) {
    if (i > first && line[i] == ' ' && line[i - 1] != ' ') {
      between_words = i;
      if (line[i + 1] == ' ') between_columns = i;
    }
    seen += is_first_byte(line[i]);
    if (seen > width && between_words) break;
  }
  if (seen <= width) return 0;
  return 2 * between_columns > (size_t)width ? between_columns : between_words;
}

/* One line without its newline. end: what stands at the end of a line that goes on. */
static void print_line(FILE *to, const char *line, size_t length, int width, int indent, const char *end) {
  int room = width - (int)strlen(end), used = 0;
  for (size_t cut; width && (cut = find_break(line, length, room - used));) {
    fprintf(to, "%*s%.*s%s\n", used, "", (int)cut, line, end);
    for (; cut < length && line[cut] == ' ';) cut++;
    line += cut;
    length -= cut;
    used = indent < room - LEAST_WIDTH ? indent : 0;
  }
  fprintf(to, "%*s%.*s", used, "", (int)length, line);
}

static void print_lines(FILE *to, const char *words, int indent, const char *end) {
  int width = known_width(to);
  if (width && width < LEAST_WIDTH) width = LEAST_WIDTH;
  for (const char *line = words, *next; *line; line = next) {
    size_t length = strcspn(line, "\n");
    print_line(to, line, length, width, indent, end);
    if (line[length]) fputc('\n', to);
    next = line + length + (line[length] ? 1 : 0);
  }
}

static void say_list(FILE *to, int indent, const char *format, va_list list) {
  char *words;
  if (vasprintf(&words, format, list) < 0) return;
  print_lines(to, words, indent, "");
  free(words);
}

void say(FILE *to, const char *format, ...) {
  va_list list;
  va_start(list, format);
  say_list(to, 0, format, list);
  va_end(list);
}

void say_indented(FILE *to, int indent, const char *format, ...) {
  va_list list;
  va_start(list, format);
  say_list(to, indent, format, list);
  va_end(list);
}

void say_named(FILE *to, const char *name, const char *words) {
  say_indented(to, NAMED_INDENT, "  %-*s %s\n", NAMED_INDENT - 3, name, words);
}

void say_command(FILE *to, const char *what, const char *format, ...) {
  va_list list;
  char *words, *line;
  va_start(list, format);
  int n = vasprintf(&words, format, list);
  va_end(list);
  if (n < 0) return;
  int width = known_width(to);
  if (!width || (int)strlen(what) + 2 + n <= width) {
    fprintf(to, "%s  %s\n", what, words);
  } else if (asprintf(&line, "  %s", words) >= 0) {
    fprintf(to, "%s\n", what);
    print_lines(to, line, 4, " \\");
    fputc('\n', to);
    free(line);
  }
  free(words);
}
