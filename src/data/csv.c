/* The formats "csv" and "tsv": a row a line, numbers with a label; see csv_columns.h for which column is what.
 *
 * Fields may stand in double quotes, in which "" is a quote and the separator and line ends are ordinary; lines end
 * with LF or CR LF; empty lines count for nothing. When labels are words and nobody has numbered them yet, the file is
 * read once when it is opened. */
#include "base/mem.h"
#include "data/csv_columns.h"
#include "data/format.h"
#include "data/number.h"
#include "data/stream.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  LONGEST_LINE = 16 << 20, /* bytes: more is no line */
  MOST_COLUMNS = 1 << 20,
  FIELD = 256,             /* longest number or word, bytes */
  DETAIL = 1024            /* longest message about one */
};

typedef struct {
  file_reader base;
  char separator;
  stream *bytes;
  csv_columns columns;
  size_t column_count;
  csv_role *roles;     /* [column_count] */
  char **names;        /* [column_count], or NULL without a header line */
  uint64_t first_byte; /* of the first row */
  int64_t first_line, next;
  int64_t line;        /* the next one, from 1; 0: not known, after a seek */
  rows_schema schema;
  const class_names *classes; /* NULL: labels are numbers; else the options', or: */
  class_names own;
  bool seen_minus, seen_zero;
} csv_reader;

extern const format format_csv, format_tsv;

/* ---- lines and fields */

/* The end of the line (or record, with quoted line ends) that starts at `at`: its length without LF, or have when there
 * is none in `have` bytes. *open: a quote was left open. */
static size_t line_length(const uint8_t *at, size_t have, bool *open) {
  *open = false;
  const uint8_t *end = memchr(at, '\n', have);
  size_t n = end ? (size_t)(end - at) : have;
  if (!memchr(at, '"', n)) return n;
  bool quoted = false;
  for (n = 0; n < have; n++) {
    if (at[n] == '"') quoted = !quoted;
    else if (at[n] == '\n' && !quoted) return n;
  }
  *open = quoted;
  return have;
}

/* The next line that is not empty: *at, *n without its end, and *whole with it. *n is 0 only at the end of the file.
 * A line that never ends, or a quote: *n is set, *whole is what to pass over to go on, *problem says what it is. */
static shoal_status next_line(csv_reader *r, const uint8_t **at, size_t *n, size_t *whole, const char **problem) {
  size_t need = 1;
  *problem = NULL;
  for (;;) {
    size_t have;
    bool open;
    TRY(stream_fill(r->bytes, need, at, &have));
    if (!have) {
      *n = *whole = 0;
      return NULL;
    }
    size_t length = line_length(*at, have, &open);
    bool ended = length < have, last = !ended && have < need;
    if (!ended && !last && have < LONGEST_LINE) {
      need = MAX_OF(2 * have, have + 65536); /* then it stays above `have` only at the end of the file */
      continue;
    }
    if (open || (!ended && !last)) {
      const uint8_t *end = memchr(*at, '\n', have);
      *problem = open ? "a quote is opened and not closed" : "the line has no end within 16 MB";
      *n = end ? (size_t)(end - *at) : have;
      *whole = *n + (end != NULL);
      return NULL;
    }
    *whole = length + ended;
    if (length && (*at)[length - 1] == '\r') length--;
    if (length) {
      *n = length;
      return NULL;
    }
    stream_advance(r->bytes, *whole);
    if (r->line) r->line++;
    need = 1;
  }
}

typedef struct {
  const uint8_t *next, *end;
  char separator;
  bool more; /* there is a field at `next`, perhaps an empty one */
} line_cursor;

static line_cursor cursor(const csv_reader *r, const uint8_t *at, size_t n) {
  return (line_cursor){at, at + n, r->separator, true};
}

/* Copies the next field, without quotes and blanks around it, NUL-terminated; what is longer than the room is cut.
 * False when there is none. */
static bool next_field(line_cursor *c, char out[FIELD]) {
  if (!c->more) return false;
  size_t n = 0;
  const uint8_t *p = c->next;
  while (p < c->end && *p == ' ') p++;
  if (p < c->end && *p == '"') {
    for (p++; p < c->end; p++) {
      if (*p == '"') {
        if (p + 1 == c->end || p[1] != '"') break;
        p++;
      }
      if (n < FIELD - 1) out[n++] = (char)*p;
    }
    while (p < c->end && *p != (uint8_t)c->separator) p++;
  } else {
    const uint8_t *stop = memchr(p, c->separator, (size_t)(c->end - p));
    const uint8_t *field_end = stop ? stop : c->end;
    while (field_end > p && field_end[-1] == ' ') field_end--;
    n = MIN_OF((size_t)(field_end - p), (size_t)FIELD - 1);
    memcpy(out, p, n);
    p = stop ? stop : c->end;
  }
  out[n] = 0;
  c->more = p < c->end;
  c->next = p + c->more;
  return true;
}

static size_t count_fields(const csv_reader *r, const uint8_t *at, size_t n) {
  line_cursor c = cursor(r, at, n);
  char field[FIELD];
  size_t count = 0;
  while (count <= MOST_COLUMNS && next_field(&c, field)) count++;
  return count;
}

/* The whole field as a number, finite. */
static bool to_number(const char *s, float *out) {
  const uint8_t *at = (const uint8_t *)s;
  float value;
  if (!number_float(&at, &value) || *at) return false;
  *out = value;
  return true;
}

/* ---- labels */

/* "column 4 ('species')" */
static const char *column_text(const csv_reader *r, size_t column, char out[128]) {
  if (r->names) snprintf(out, 128, "column %zu ('%.80s')", column, r->names[column]);
  else snprintf(out, 128, "column %zu", column);
  return out;
}

static const char *unknown_class(const class_names *known, const char *field, char *why, size_t room) {
  char list[CLASS_NAMES_TEXT];
  snprintf(why, room, "'%s' is not among the %d classes: %s", field, known->count,
           class_names_describe((const char *const *)known->names, list));
  return why;
}

/* The label of a row; NULL problem: it is right. why: [room]. */
static const char *to_label(csv_reader *r, const char *field, int32_t *label, float *target, char *why, size_t room) {
  if (r->classes) {
    *label = class_names_find(r->classes, field);
    *target = (float)*label;
    return *label >= 0 ? NULL : unknown_class(r->classes, field, why, room);
  }
  if (!to_number(field, target)) {
    snprintf(why, room, "expected a %s, found '%s'", r->columns.target ? "number" : "class number", field);
    return why;
  }
  *label = 0;
  if (r->columns.target) return NULL;
  double limit = r->schema.classes ? r->schema.classes : (double)(1 << 30);
  if (*target != truncf(*target)) {
    snprintf(why, room, "expected a class number, found %s: for numbers to be predicted say target= in place of label=",
             field);
    return why;
  }
  if (*target < -1 || *target >= limit) {
    snprintf(why, room, "label %s is outside of the classes, 0 to %.0f", field, limit - 1);
    return why;
  }
  bool minus = *target < 0, zero = *target == 0;
  if ((minus && r->seen_zero) || (zero && r->seen_minus)) {
    snprintf(why, room, "the file has labels -1 as well as 0: expected -1 and +1, or numbers from 0 on");
    return why;
  }
  r->seen_minus |= minus;
  r->seen_zero |= zero;
  *label = minus ? 0 : (int32_t)*target;
  *target = (float)*label;
  return NULL;
}

/* ---- opening */

static void close_reader(file_reader *base) {
  csv_reader *r = (csv_reader *)base;
  if (!r) return;
  stream_close(r->bytes);
  csv_columns_fini(&r->columns);
  for (size_t i = 0; r->names && i < r->column_count; i++) free(r->names[i]);
  free(r->names);
  free(r->roles);
  class_names_fini(&r->own);
  free(base->path);
  free(r);
}

static shoal_status no_rows(const csv_reader *r) {
  return status_make(SHOAL_ERR_INPUT, "%s: byte %llu: no row is there, expected lines of numbers separated by %s",
                     r->base.path, (unsigned long long)stream_offset(r->bytes),
                     r->separator == ',' ? "commas" : "tabs");
}

/* Decides whether the first line is a header, and takes its names. */
static shoal_status read_header(csv_reader *r) {
  const uint8_t *at;
  size_t n, whole;
  const char *problem;
  r->line = 1;
  TRY(next_line(r, &at, &n, &whole, &problem));
  if (!n) return no_rows(r);
  if (problem) return format_bad_row(&r->base, 0, stream_offset(r->bytes), "%s: is this a text file?", problem);
  r->column_count = count_fields(r, at, n);
  if (r->column_count < 2 || r->column_count > MOST_COLUMNS)
    return format_bad_row(&r->base, 0, stream_offset(r->bytes), "expected 2 to %d fields separated by %s, found %zu",
                          MOST_COLUMNS, r->separator == ',' ? "commas" : "tabs", r->column_count);
  r->roles = calloc(r->column_count, sizeof *r->roles);
  char **names = calloc(r->column_count, sizeof *names);
  if (!r->roles || !names) {
    free(names);
    return status_no_memory();
  }
  line_cursor c = cursor(r, at, n);
  char field[FIELD];
  float ignored;
  bool named = false, numbers = false, failed = false;
  for (size_t i = 0; i < r->column_count && next_field(&c, field); i++) {
    numbers |= to_number(field, &ignored);
    named |= csv_label_name(field);
    names[i] = strdup(field);
    failed |= !names[i];
  }
  bool header = r->columns.header >= 0 ? r->columns.header : named || !numbers;
  if (header && !failed) {
    r->names = names;
    stream_advance(r->bytes, whole);
    r->line++;
  } else {
    for (size_t i = 0; i < r->column_count; i++) free(names[i]);
    free(names);
  }
  r->first_byte = stream_offset(r->bytes);
  r->first_line = r->line;
  return failed ? status_no_memory() : NULL;
}

static size_t label_column(const csv_reader *r) {
  size_t i = 0;
  while (r->roles[i] != CSV_LABEL) i++;
  return i;
}

/* Field number `column`; false when the line has fewer. */
static bool field_at(const csv_reader *r, const uint8_t *at, size_t n, size_t column, char out[FIELD]) {
  line_cursor c = cursor(r, at, n);
  for (size_t i = 0; next_field(&c, out); i++)
    if (i == column) return true;
  return false;
}

static shoal_status add_class(csv_reader *r, const char *name) {
  if (r->own.count == CLASS_NAMES_MAX && class_names_find(&r->own, name) < 0)
    return status_make(SHOAL_ERR_INPUT, "%s: the label column holds more than %d different words: say which column is "
                                        "the label with --columns label=...", r->base.path, CLASS_NAMES_MAX);
  return class_names_add(&r->own, name);
}

/* The words of the label column, from the line that is next to the end of the file. */
static shoal_status collect_classes(csv_reader *r, size_t column) {
  for (;;) {
    const uint8_t *at;
    size_t n, whole;
    const char *problem;
    char field[FIELD];
    TRY(next_line(r, &at, &n, &whole, &problem));
    if (!n) break;
    /* A bad line is reported when it is read. */
    if (!problem && field_at(r, at, n, column, field) && *field) TRY(add_class(r, field));
    stream_advance(r->bytes, whole);
  }
  class_names_sort(&r->own);
  return NULL;
}

/* Words or numbers, by the first row, unless the caller has said so. */
static shoal_status find_classes(csv_reader *r, const format_options *options) {
  const uint8_t *at;
  size_t n, whole, column = label_column(r);
  const char *problem;
  char field[FIELD];
  float number;
  TRY(next_line(r, &at, &n, &whole, &problem));
  if (!n) return no_rows(r);
  if (r->columns.target) return NULL;
  r->classes = options->names ? options->names : &r->own;
  if (options->names) return NULL;
  for (size_t i = 0; i < r->columns.class_count; i++) TRY(add_class(r, r->columns.classes[i]));
  r->own.ordered = r->columns.class_count > 0;
  if (r->own.ordered) return NULL;
  if (!problem && field_at(r, at, n, column, field) && *field && !to_number(field, &number))
    return collect_classes(r, column);
  r->classes = NULL;
  return NULL;
}

static shoal_status go_to(csv_reader *r, int64_t record, uint64_t offset) {
  TRY(stream_seek(r->bytes, offset));
  r->next = record;
  r->line = record ? 0 : r->first_line;
  return NULL;
}

static shoal_status prepare(csv_reader *r, const format_options *options) {
  TRY(csv_columns_parse(options->columns, &r->columns));
  TRY(stream_open(r->base.path, &r->bytes));
  TRY(read_header(r));
  TRY(status_wrap(csv_columns_assign(&r->columns, r->names, r->column_count, r->roles), "%s", r->base.path));
  int64_t features = 0;
  for (size_t i = 0; i < r->column_count; i++) features += r->roles[i] == CSV_FEATURE;
  r->schema = (rows_schema){.kind = ROWS_DENSE, .dtype = SHOAL_F32, .shape = SHOAL_SHAPE(features), .scale = 1,
                            .classes = options->classes, .real_labels = r->columns.target};
  TRY(find_classes(r, options));
  if (r->classes && options->classes && r->classes->count > options->classes)
    return status_make(SHOAL_ERR_INPUT, "%s: %d different labels are found, but there are %d classes", r->base.path,
                       r->classes->count, options->classes);
  if (r->classes && !options->classes) r->schema.classes = r->classes->count;
  return go_to(r, 0, r->first_byte);
}

static shoal_status open_with(const format *f, char separator, const char *path, const format_options *options,
                              file_reader **out) {
  csv_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = f;
  r->separator = separator;
  r->base.path = strdup(path);
  shoal_status status = r->base.path ? prepare(r, options) : status_no_memory();
  if (status) close_reader(&r->base);
  else *out = &r->base;
  return status;
}

static shoal_status open_csv(const char *path, const format_options *options, file_reader **out) {
  return open_with(&format_csv, ',', path, options, out);
}

static shoal_status open_tsv(const char *path, const format_options *options, file_reader **out) {
  return open_with(&format_tsv, '\t', path, options, out);
}

static void schema(const file_reader *base, rows_schema *out) { *out = ((const csv_reader *)base)->schema; }
static const class_names *names(const file_reader *base) { return ((const csv_reader *)base)->classes; }

/* ---- rows */

/* One line into row `into->count`, for which there is room. why: what is wrong, empty when nothing is. */
static void parse_line(csv_reader *r, const uint8_t *at, size_t n, rows_block *into, char *why, size_t room) {
  line_cursor c = cursor(r, at, n);
  char field[FIELD], where[128];
  float *x = (float *)into->features + into->count * r->schema.shape.dim[0];
  size_t column = 0;
  *why = 0;
  for (; column < r->column_count && next_field(&c, field); column++) {
    if (r->roles[column] == CSV_SKIP) continue;
    char detail[DETAIL];
    const char *problem = NULL;
    if (r->roles[column] == CSV_LABEL) {
      int32_t label;
      float target;
      problem = *field ? to_label(r, field, &label, &target, detail, sizeof detail) : "the label is missing";
      if (!problem) into->labels[into->count] = label;
      if (!problem && into->targets) into->targets[into->count] = target;
    } else if (!*field && r->columns.has_missing) {
      *x++ = r->columns.missing;
    } else if (!*field) {
      problem = "the field is empty: say missing=0 (or another number) if that is meant";
    } else if (!to_number(field, x++)) {
      snprintf(detail, sizeof detail, "expected a number, found '%s': say skip= for columns that are none", field);
      problem = detail;
    }
    if (problem) {
      snprintf(why, room, "%s: %s", column_text(r, column, where), problem);
      return;
    }
  }
  if (column < r->column_count || c.more) {
    while (next_field(&c, field)) column++;
    snprintf(why, room, "expected %zu fields as in the first line, found %zu", r->column_count, column);
  }
}

static shoal_status bad_line(csv_reader *r, uint64_t offset, const char *why) {
  r->base.can_go_on = true;
  if (!r->line) return format_bad_row(&r->base, r->next, offset, "%s", why);
  return format_bad_row(&r->base, r->next, offset, "line %lld: %s", (long long)r->line, why);
}

/* Behind the line that starts at `at`. */
static void pass(csv_reader *r, const uint8_t *at, size_t whole) {
  if (r->line)
    for (const uint8_t *p = at; (p = memchr(p, '\n', whole - (size_t)(p - at))); p++) r->line++;
  stream_advance(r->bytes, whole);
  r->next++;
}

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  csv_reader *r = (csv_reader *)base;
  base->can_go_on = false;
  *got = 0;
  for (int64_t done = 0; done < most; done++) {
    const uint8_t *at;
    size_t n, whole;
    const char *problem;
    char why[DETAIL + 256];
    TRY(next_line(r, &at, &n, &whole, &problem));
    if (!n) return NULL;
    TRY(rows_reserve(into, 1, 0));
    if (problem) snprintf(why, sizeof why, "%s: correct the line", problem);
    else parse_line(r, at, n, into, why, sizeof why);
    shoal_status status = *why ? bad_line(r, stream_offset(r->bytes), why) : NULL;
    pass(r, at, whole);
    if (status) return status;
    into->count++;
    ++*got;
  }
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  csv_reader *r = (csv_reader *)base;
  base->can_go_on = false;
  for (*got = 0; *got < rows; ++*got) {
    const uint8_t *at;
    size_t n, whole;
    const char *problem;
    TRY(next_line(r, &at, &n, &whole, &problem));
    if (!n) return NULL;
    pass(r, at, whole);
  }
  return NULL;
}

static void tell(const file_reader *base, file_position *out) {
  const csv_reader *r = (const csv_reader *)base;
  *out = (file_position){r->next, stream_offset(r->bytes)};
}

static shoal_status seek(file_reader *base, const file_position *to) {
  csv_reader *r = (csv_reader *)base;
  return go_to(r, to->record, to->record ? to->offset : r->first_byte);
}

/* ---- detection */

static bool ends_with(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && !strcmp(path + n - m, ending);
}

static bool is_text(const uint8_t *head, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (head[i] < ' ' && head[i] != '\t' && head[i] != '\n' && head[i] != '\r') return false;
  return n > 0;
}

static size_t count_byte(const uint8_t *at, size_t n, char byte) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += at[i] == (uint8_t)byte;
  return count;
}

/* Text whose first two lines have the same number, above 0, of separators. */
static bool looks_separated(const uint8_t *head, size_t n, char separator) {
  const uint8_t *first = memchr(head, '\n', n);
  if (!first) return count_byte(head, n, separator) > 0;
  size_t in_first = count_byte(head, (size_t)(first - head), separator), left = n - (size_t)(first + 1 - head);
  const uint8_t *second = memchr(first + 1, '\n', left);
  if (!in_first || !second) return in_first > 0;
  return count_byte(first + 1, (size_t)(second - first - 1), separator) == in_first;
}

static bool detect_csv(const char *path, const uint8_t *head, size_t n, bool folder) {
  if (folder || !is_text(head, n)) return false;
  return ends_with(path, ".csv") || ends_with(path, ".csv.gz") || looks_separated(head, n, ',');
}

static bool detect_tsv(const char *path, const uint8_t *head, size_t n, bool folder) {
  if (folder || !is_text(head, n)) return false;
  return ends_with(path, ".tsv") || ends_with(path, ".tsv.gz") || looks_separated(head, n, '\t');
}

#define CSV_FORMAT(format_name, what, which)                                                                     \
  {.name = format_name, .summary = what, .detect = detect_##which, .open = open_##which, .schema = schema,       \
   .read = read_rows, .skip = skip, .tell = tell, .seek = seek, .close = close_reader, .names = names}

const format format_csv = CSV_FORMAT("csv", "numbers and a label, separated by commas, see --columns", csv);
const format format_tsv = CSV_FORMAT("tsv", "numbers and a label, separated by tabs, see --columns", tsv);
