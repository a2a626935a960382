#include "cli/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GAP = 2 };

int known_width(FILE *to) {
  struct winsize size;
  struct stat st;
  int64_t columns;
  const char *said = getenv("COLUMNS");
  if (!ioctl(fileno(to), TIOCGWINSZ, &size) && size.ws_col > 0) return size.ws_col;
  if (!said || !shoal_parse_int(said, &columns) || columns < 1 || columns > 10000) return 0;
  return fstat(fileno(to), &st) || S_ISREG(st.st_mode) ? 0 : (int)columns; /* a log is not for one terminal */
}

int terminal_width(FILE *to) {
  int width = known_width(to);
  return width ? width : 160;
}

void table_set_text(table_column *c, const char *words) { snprintf(c->cell, TABLE_CELL, "%s", words); }

void table_set_int(table_column *c, int64_t value) {
  char buffer[SHOAL_DIGITS_TEXT];
  table_set_text(c, shoal_group_digits(value, buffer));
}

void table_set_number(table_column *c, double value, int digits) {
  char buffer[SHOAL_DIGITS_TEXT];
  table_set_text(c, isfinite(value) ? shoal_group_decimals(value, digits, buffer) : "-");
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

/* The heading in one line; returns buffer. */
static const char *table_head(const table_column *c, char buffer[TABLE_CELL]) {
  snprintf(buffer, TABLE_CELL, "%s", c->head);
  for (char *p = buffer; *p; p++)
    if (*p == '\n') *p = ' ';
  return buffer;
}

static void print_upright(FILE *to, const table_column *columns, int count) {
  int widest = 0;
  for (int i = 0; i < count; i++) {
    int n = (int)strlen(columns[i].head);
    if (n > widest) widest = n;
  }
  char head[TABLE_CELL];
  for (int i = 0; i < count; i++) fprintf(to, "%-*s  %s\n", widest, table_head(&columns[i], head), columns[i].cell);
}

/* What columns 0 and [from, to) need side by side. */
static int band_width(const table_column *columns, int rows, int count, int from, int to) {
  int needed = widest_cell(columns, rows, count, 0);
  for (int i = from; i < to; i++) needed += GAP + widest_cell(columns, rows, count, i);
  return needed;
}

/* Columns 0 and [from, to) below their headings. */
static void print_band(FILE *out, const table_column *columns, int rows, int count, int from, int to) {
  bool two_lines = strchr(columns[0].head, '\n') != NULL;
  for (int i = from; i < to; i++) two_lines |= strchr(columns[i].head, '\n') != NULL;
  for (int line = two_lines ? -2 : -1; line < rows; line++)
    for (int i = 0; i < to; i = i ? i + 1 : from) {
      const table_column *c = &columns[(line < 0 ? 0 : line) * count + i];
      const char *s = c->cell;
      int length = line < 0 ? head_line(c, line + 2, &s) : (int)strlen(s);
      cell(out, c, widest_cell(columns, rows, count, i), s, length, i + 1 == to || (!i && from == to));
    }
}

static int table_width(const table_column *columns, int rows, int count) {
  return band_width(columns, rows, count, 1, count);
}

static void take_out(table_column *columns, int *spare, int rows, int *count, int column) {
  int kept = 0;
  for (int i = 0; i < rows * *count; i++)
    if (i % *count != column) columns[kept++] = columns[i];
  memmove(spare + column, spare + column + 1, (size_t)(*count - column - 1) * sizeof *spare);
  --*count;
}

/* "a, b": `list` is taken. */
static char *join(char *list, const char *word) {
  char *longer = NULL;
  if (asprintf(&longer, "%s%s%s", list ? list : "", list ? ", " : "", word) < 0) return list;
  free(list);
  return longer;
}

char *table_fit(table_column *columns, int *spare, int rows, int *count, int width) {
  char *gone = NULL, head[TABLE_CELL];
  while (rows && table_width(columns, rows, *count) > width) {
    int worst = 0;
    for (int i = 0; i < *count; i++)
      if (spare[i] > spare[worst]) worst = i;
    if (!spare[worst]) break;
    gone = join(gone, table_head(&columns[worst], head));
    take_out(columns, spare, rows, count, worst);
  }
  return gone;
}

/* The column after the last that fits beside `from`; at least one does. */
static int band_end(const table_column *columns, int rows, int count, int from, int width) {
  int end = MIN_OF(from + 1, count);
  while (end < count && band_width(columns, rows, count, from, end + 1) <= width) end++;
  return end;
}

static int count_bands(const table_column *columns, int rows, int count, int width) {
  int bands = 0;
  for (int from = 1; !bands || from < count; bands++) from = band_end(columns, rows, count, from, width);
  return bands;
}

void table_print(FILE *to, const table_column *columns, int rows, int count, int width) {
  if (!rows) return;
  if (rows == 1 && table_width(columns, rows, count) > width) {
    print_upright(to, columns, count);
    return;
  }
  /* As few bands as possible, and none much wider than the others. */
  const int bands = count_bands(columns, rows, count, width);
  while (bands > 1 && width > 1 && count_bands(columns, rows, count, width - 1) == bands) width--;
  for (int from = 1, end; from == 1 || from < count; from = end) {
    end = band_end(columns, rows, count, from, width);
    if (from > 1) fputc('\n', to);
    print_band(to, columns, rows, count, from, end);
  }
}
