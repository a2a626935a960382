/* Tracks as JSON, thinned to what a screen can show. */
#include "base/mem.h"
#include "observe/report_metrics.h"

#include <math.h>
#include <string.h>

void report_write_number(text *out, double value, bool wide) {
  if (!isfinite(value))
    text_add_bytes(out, "null", 4);
  else if (wide && value == floor(value) && fabs(value) < 1e15)
    text_add(out, "%.0f", value);
  else if (wide)
    text_add(out, "%.3f", value);
  else
    text_add(out, "%.6g", value);
}

void report_write_string(text *out, const char *value) {
  text_add_bytes(out, "\"", 1);
  for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
    if (*p < 0x20 || *p == '"' || *p == '\\' || *p == '<' || *p == '>' || *p == '&' || *p == 0x7f)
      text_add(out, "\\u%04x", *p);
    else
      text_add_bytes(out, (const char *)p, 1);
  }
  text_add_bytes(out, "\"", 1);
}

static double value_at(const report_column *c, size_t row) { return c->wide ? c->wide_at[row] : (double)c->at[row]; }

/* The rows [*begin, *end) of a range. Places only rise, so they are found by halving. */
static void find_rows(const report_track *t, const report_range *range, size_t *begin, size_t *end) {
  *begin = 0;
  *end = t->rows;
  const report_column *c = NULL;
  for (int i = 0; i < t->count && range->by; i++)
    if (t->columns[i].wide && !strcmp(t->columns[i].name, range->by)) c = &t->columns[i];
  if (!c) return;
  size_t low = 0, high = t->rows;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (c->wide_at[middle] < range->from)
      low = middle + 1;
    else
      high = middle;
  }
  *begin = low ? low - 1 : 0;
  for (high = t->rows; low < high;) {
    size_t middle = (low + high) / 2;
    if (c->wide_at[middle] <= range->to)
      low = middle + 1;
    else
      high = middle;
  }
  *end = MIN_OF(low + 1, t->rows);
}

typedef enum { MEAN, MIN, MAX } of_group;

static double of(const report_column *c, size_t from, size_t to, of_group what) {
  double sum = 0, min = INFINITY, max = -INFINITY;
  size_t n = 0;
  for (size_t i = from; i < to; i++) {
    double v = value_at(c, i);
    if (!isfinite(v)) continue;
    sum += v;
    n++;
    if (v < min) min = v;
    if (v > max) max = v;
  }
  if (!n) return NAN;
  return what == MEAN ? sum / (double)n : what == MIN ? min : max;
}

static void write_groups(const report_column *c, size_t begin, size_t rows, size_t groups, of_group what, text *out) {
  text_add_bytes(out, "[", 1);
  for (size_t g = 0; g < groups; g++) {
    size_t from = begin + g * rows / groups, to = begin + (g + 1) * rows / groups;
    if (g) text_add_bytes(out, ",", 1);
    report_write_number(out, c->wide ? value_at(c, to - 1) : of(c, from, to, what), c->wide);
  }
  text_add_bytes(out, "]", 1);
}

void report_track_write(const report_track *t, const report_range *range, text *out) {
  size_t begin, end;
  find_rows(t, range, &begin, &end);
  size_t rows = end - begin, groups = MIN_OF(rows, (size_t)range->points);
  bool thin = groups < rows;
  text_add(out, "{\"kind\":");
  report_write_string(out, t->kind);
  text_add(out, ",\"task\":");
  report_write_string(out, t->task);
  text_add(out, ",\"rows\":%lld,\"thin\":%s,\"columns\":{", (long long)t->lines, thin ? "true" : "false");
  for (int i = 0; i < t->count; i++) {
    const report_column *c = &t->columns[i];
    if (i) text_add_bytes(out, ",", 1);
    report_write_string(out, c->name);
    text_add_bytes(out, ":", 1);
    if (!thin || c->wide) {
      write_groups(c, begin, rows, groups, MEAN, out);
      continue;
    }
    text_add(out, "{\"mean\":");
    write_groups(c, begin, rows, groups, MEAN, out);
    text_add(out, ",\"least\":");
    write_groups(c, begin, rows, groups, MIN, out);
    text_add(out, ",\"most\":");
    write_groups(c, begin, rows, groups, MAX, out);
    text_add_bytes(out, "}", 1);
  }
  text_add_bytes(out, "}}", 2);
}
