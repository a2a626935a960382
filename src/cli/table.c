#include "cli/table.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { GAP = 2 };

int terminal_width(FILE *to) {
  struct winsize size;
  if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 160;
}

const char *grouped_text(int64_t value, char buffer[GROUPED_TEXT]) {
  char digits[GROUPED_TEXT];
  int n = snprintf(digits, sizeof digits, "%lld", (long long)(value < 0 ? -value : value)), at = 0;
  if (value < 0) buffer[at++] = '-';
  for (int i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) buffer[at++] = ',';
    buffer[at++] = digits[i];
  }
  buffer[at] = 0;
  return buffer;
}

void table_set_text(table_column *c, const char *text) { snprintf(c->cell, TABLE_CELL, "%s", text); }

void table_set_int(table_column *c, int64_t value) {
  char buffer[GROUPED_TEXT];
  table_set_text(c, grouped_text(value, buffer));
}

void table_set_number(table_column *c, double value, int digits) {
  if (!isfinite(value))
    table_set_text(c, "-");
  else
    snprintf(c->cell, TABLE_CELL, "%.*f", digits, value);
}

void table_set_share(table_column *c, double value) {
  if (!isfinite(value))
    table_set_text(c, "-");
  else
    snprintf(c->cell, TABLE_CELL, "%.2f %%", 100 * value);
}

void table_set_bytes(table_column *c, int64_t bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = (double)bytes;
  int unit = 0;
  while (value >= 1000 && unit < 4) {
    value /= 1000;
    unit++;
  }
  snprintf(c->cell, TABLE_CELL, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

/* Line 0 or 1 of a heading. A heading of one line stands in line 1. Returns its length. */
static int head_line(const table_column *c, int line, const char **out) {
  const char *cut = strchr(c->head, '\n');
  if (cut && line == 0) {
    *out = c->head;
    return (int)(cut - c->head);
  }
  *out = cut ? cut + 1 : line == 1 ? c->head : "";
  return (int)strlen(*out);
}

static int column_width(const table_column *c) {
  int width = (int)strlen(c->cell);
  for (int line = 0; line < 2; line++) {
    const char *ignored;
    int n = head_line(c, line, &ignored);
    if (n > width) width = n;
  }
  return width;
}

static void cell(FILE *to, const table_column *c, int wide, const char *s, int length, bool last) {
  int pad = wide - length;
  if (!c->left) fprintf(to, "%*s", pad, "");
  fprintf(to, "%.*s", length, s);
  if (c->left && !last) fprintf(to, "%*s", pad, "");
  fputs(last ? "\n" : "  ", to);
}

/* Of column i over all rows. */
static int widest_cell(const table_column *columns, int rows, int count, int i) {
  int widest = 0;
  for (int r = 0; r < rows; r++) {
    int n = column_width(&columns[r * count + i]);
    if (n > widest) widest = n;
  }
  return widest;
}

static void print_upright(FILE *to, const table_column *columns, int count) {
  int widest = 0;
  for (int i = 0; i < count; i++) {
    int n = (int)strlen(columns[i].head);
    if (n > widest) widest = n;
  }
  for (int i = 0; i < count; i++) {
    char head[TABLE_CELL];
    snprintf(head, sizeof head, "%s", columns[i].head);
    for (char *p = head; *p; p++)
      if (*p == '\n') *p = ' ';
    fprintf(to, "%-*s  %s\n", widest, head, columns[i].cell);
  }
}

void table_print(FILE *to, const table_column *columns, int rows, int count, int width) {
  int needed = 0;
  bool two_lines = false;
  for (int i = 0; i < count; i++) {
    needed += widest_cell(columns, rows, count, i) + (i ? GAP : 0);
    if (strchr(columns[i].head, '\n')) two_lines = true;
  }
  if (needed > width) {
    for (int r = 0; r < rows; r++) {
      if (r) fputc('\n', to);
      print_upright(to, columns + r * count, count);
    }
    return;
  }
  for (int line = two_lines ? 0 : 1; line < 2; line++)
    for (int i = 0; i < count; i++) {
      const char *s;
      int length = head_line(&columns[i], line, &s);
      cell(to, &columns[i], widest_cell(columns, rows, count, i), s, length, i + 1 == count);
    }
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < count; i++) {
      const table_column *c = &columns[r * count + i];
      cell(to, c, widest_cell(columns, rows, count, i), c->cell, (int)strlen(c->cell), i + 1 == count);
    }
}
