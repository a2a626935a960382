/* A table as lines of text. */
#include "base/mem.h"
#include "base/table.h"

#include <string.h>

enum { GAP = 2 }; /* blanks between columns */

/* What is laid out: a table without some of its columns. */
typedef struct {
  const shoal_result_table *table;
  int *columns; /* [count] of the table */
  int *widths;  /* [count] */
  int count;
} layout;

static const shoal_result_column *column(const layout *l, int i) { return &l->table->columns[l->columns[i]]; }

static const char *cell_at(const layout *l, int row, int i) {
  return l->table->cells[row * l->table->n_columns + l->columns[i]];
}

/* Characters, not bytes, of UTF-8. */
static int width_of(const char *s, int bytes) {
  int n = 0;
  for (int i = 0; i < bytes; i++) n += ((unsigned char)s[i] & 0xc0) != 0x80;
  return n;
}

/* Line 0 or 1 of a heading; one of a single line stands in line 1. Returns its bytes. */
static int head_line(const shoal_result_column *c, int line, const char **out) {
  const char *cut = strchr(c->head, '\n');
  if (cut && line == 0) {
    *out = c->head;
    return (int)(cut - c->head);
  }
  *out = cut ? cut + 1 : line == 1 ? c->head : "";
  return (int)strlen(*out);
}

static int column_width(const layout *l, int i) {
  int widest = 0;
  for (int line = 0; line < 2; line++) {
    const char *words;
    const int bytes = head_line(column(l, i), line, &words);
    widest = MAX_OF(widest, width_of(words, bytes));
  }
  for (int r = 0; r < l->table->n_rows; r++) {
    const char *words = cell_at(l, r, i);
    widest = MAX_OF(widest, width_of(words, (int)strlen(words)));
  }
  return widest;
}

/* What columns 0 and [from, to) need side by side. */
static int band_width(const layout *l, int from, int to) {
  int needed = l->count ? l->widths[0] : 0;
  for (int i = from; i < to; i++) needed += GAP + l->widths[i];
  return needed;
}

/* ---- leaving columns out */

static int most_spare(const layout *l) {
  int worst = 0;
  for (int i = 0; i < l->count; i++)
    if (column(l, i)->spare > column(l, worst)->spare) worst = i;
  return worst;
}

static void fit(layout *l, int width, text *gone) {
  char head[TABLE_HEAD];
  while (band_width(l, 1, l->count) > width) {
    const int worst = most_spare(l);
    if (!column(l, worst)->spare) return;
    text_add(gone, "%s%s", gone->length ? ", " : "", table_head(column(l, worst), head));
    l->count--;
    for (int i = worst; i < l->count; i++) {
      l->columns[i] = l->columns[i + 1];
      l->widths[i] = l->widths[i + 1];
    }
  }
}

/* ---- lines */

static void add_cell(const layout *l, int i, const char *words, int bytes, bool last, text *out) {
  const int pad = l->widths[i] - width_of(words, bytes);
  const bool left = column(l, i)->left;
  if (!left) text_add(out, "%*s", pad, "");
  text_add_bytes(out, words, (size_t)bytes);
  if (left && !last) text_add(out, "%*s", pad, "");
  if (last)
    text_add(out, "\n");
  else
    text_add(out, "%*s", GAP, "");
}

/* Columns 0 and [from, to) below their headings. */
static void add_band(const layout *l, int from, int to, text *out) {
  bool two_lines = strchr(column(l, 0)->head, '\n') != NULL;
  for (int i = from; i < to; i++) two_lines |= strchr(column(l, i)->head, '\n') != NULL;
  for (int line = two_lines ? -2 : -1; line < l->table->n_rows; line++)
    for (int i = 0; i < to; i = i ? i + 1 : from) {
      const char *words = line < 0 ? NULL : cell_at(l, line, i);
      const int bytes = line < 0 ? head_line(column(l, i), line + 2, &words) : (int)strlen(words);
      add_cell(l, i, words, bytes, i + 1 == to || (!i && from == to), out);
    }
}

static void add_upright(const layout *l, text *out) {
  char head[TABLE_HEAD];
  int widest = 0;
  for (int i = 0; i < l->count; i++) widest = MAX_OF(widest, (int)strlen(table_head(column(l, i), head)));
  for (int i = 0; i < l->count; i++)
    text_add(out, "%-*s  %s\n", widest, table_head(column(l, i), head), cell_at(l, 0, i));
}

/* The column after the last that fits beside `from`; at least one does. */
static int band_end(const layout *l, int from, int width) {
  int end = MIN_OF(from + 1, l->count);
  while (end < l->count && band_width(l, from, end + 1) <= width) end++;
  return end;
}

static int count_bands(const layout *l, int width) {
  int bands = 0;
  for (int from = 1; !bands || from < l->count; bands++) from = band_end(l, from, width);
  return bands;
}

static void add_table(const layout *l, int width, text *out) {
  if (l->table->n_rows == 1 && band_width(l, 1, l->count) > width) {
    add_upright(l, out);
    return;
  }
  /* As few bands as possible, and none much wider than the others. */
  const int bands = count_bands(l, width);
  while (bands > 1 && width > 1 && count_bands(l, width - 1) == bands) width--;
  for (int from = 1, end; from == 1 || from < l->count; from = end) {
    end = band_end(l, from, width);
    if (from > 1) text_add(out, "\n");
    add_band(l, from, end, out);
  }
}

shoal_status shoal_result_table_text(const shoal_result_table *t, int width, text *out, char **left_out) {
  text gone = {0};
  layout l = {.table = t,
              .columns = calloc((size_t)t->n_columns + 1, sizeof *l.columns),
              .widths = calloc((size_t)t->n_columns + 1, sizeof *l.widths),
              .count = t->n_columns};
  const bool good = l.columns && l.widths;
  for (int i = 0; good && i < l.count; i++) {
    l.columns[i] = i;
    l.widths[i] = column_width(&l, i);
  }
  if (good && t->n_rows && l.count) {
    fit(&l, width, &gone);
    add_table(&l, width, out);
  }
  free(l.columns);
  free(l.widths);
  if (!good || gone.failed || out->failed) {
    text_fini(&gone);
    return status_no_memory();
  }
  if (left_out)
    *left_out = gone.data;
  else
    text_fini(&gone);
  return NULL;
}
