/* The formats "csv" and "tsv": a row a line, with a label. csv_text.h has the text, csv_columns.h which column is what,
 * csv_fit.h how numbers are made of text. When nobody has numbered the words of labels and columns yet, the file is read
 * once when it is opened. */
#include "base/mem.h"
#include "data/csv_fields.h"
#include "data/format.h"
#include "data/preprocessing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DETAIL = 1024 /* longest message about a field */ };

typedef struct {
  file_reader base;
  csv_file file;
  const csv_fit *fit; /* the options', or: */
  csv_fit own_fit;
  int64_t next;
  rows_schema schema;
  const class_names *classes; /* NULL: labels are numbers; else the options', or: */
  class_names own;
  bool labels_optional;
  csv_fields_row sparse; /* the row being read, where the description has fields */
  int *hot; /* [columns] of columns that are 1 in rows of a class: the class; NULL: the label is in one column */
  bool seen_minus, seen_zero;
} csv_reader;

extern const format format_csv, format_tsv, format_parquet;

/* ---- labels */

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
  if (!csv_number(&r->file.in, field, target)) {
    snprintf(why, room, "expected a %s, found '%s'", r->file.columns.target ? "number" : "class number", field);
    return why;
  }
  *label = 0;
  if (r->file.columns.target) return NULL;
  double limit = r->schema.classes ? r->schema.classes : (double)(1 << 30);
  if (*target != truncf(*target)) {
    snprintf(why, room,
             "expected a class number, found %s: for numbers to be predicted say target= in place of label=", field);
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
  csv_file_close(&r->file);
  csv_fit_fini(&r->own_fit);
  csv_fields_close(&r->sparse);
  free(r->hot);
  class_names_fini(&r->own);
  free(base->path);
  free(r);
}

static shoal_status add_class(csv_reader *r, const char *name) {
  if (r->own.count == CLASS_NAMES_MAX && class_names_find(&r->own, name) < 0)
    return status_make(
        SHOAL_ERR_INPUT,
        "%s: the label column holds more than %d different words: name the label column with --columns label=...",
        r->base.path, CLASS_NAMES_MAX);
  return class_names_add(&r->own, name);
}

/* The words of the label column, from the line that is next to the end of the file. */
static shoal_status collect_classes(csv_reader *r, size_t column) {
  for (;;) {
    const uint8_t *at;
    size_t n, whole;
    const char *problem;
    char field[CSV_FIELD];
    TRY(csv_next_line(&r->file.in, &at, &n, &whole, &problem));
    if (!n) break;
    /* A bad line is reported when it is read. */
    if (!problem && csv_field_at(&r->file.in, at, n, column, field) && *field) TRY(add_class(r, field));
    stream_advance(r->file.in.in, whole);
  }
  class_names_sort(&r->own);
  return NULL;
}

/* Of labels in several columns, a class is called as its column. */
static shoal_status find_hot_classes(csv_reader *r, const format_options *options) {
  const csv_file *f = &r->file;
  int next = 0;
  r->hot = calloc(f->count, sizeof *r->hot);
  if (!r->hot) return status_no_memory();
  for (size_t i = 0; i < f->count; i++) {
    if (f->roles[i] != CSV_HOT) continue;
    const char *name = f->names ? f->names[i] : NULL;
    if (name && !options->names) TRY(add_class(r, name));
    r->hot[i] = name && options->names ? class_names_find(options->names, name) : next++;
    if (r->hot[i] < 0)
      return status_make(SHOAL_ERR_INPUT, "%s: the label column '%s' is none of the %d classes known", r->base.path,
                         name, options->names->count);
  }
  r->own.ordered = true;
  r->classes = !f->names ? NULL : options->names ? options->names : &r->own;
  if (!r->classes && !options->classes) r->schema.classes = next;
  return NULL;
}

/* Words or numbers, by the first row, unless the caller has said so. */
static shoal_status find_classes(csv_reader *r, const format_options *options) {
  const uint8_t *at;
  size_t n, whole, column = csv_file_label(&r->file);
  const char *problem;
  char field[CSV_FIELD];
  float number;
  TRY(csv_next_line(&r->file.in, &at, &n, &whole, &problem));
  if (!n) return csv_no_rows(&r->file);
  if (csv_file_has(&r->file, CSV_HOT)) return find_hot_classes(r, options);
  if (r->file.columns.target || (column == r->file.count && !options->names)) return NULL;
  r->classes = options->names ? options->names : &r->own;
  if (options->names) return NULL;
  for (size_t i = 0; i < r->file.columns.class_count; i++) TRY(add_class(r, r->file.columns.classes[i]));
  r->own.ordered = r->file.columns.class_count > 0;
  if (r->own.ordered) return NULL;
  if (!problem && csv_field_at(&r->file.in, at, n, column, field) && *field && !csv_number(&r->file.in, field, &number))
    return collect_classes(r, column);
  r->classes = NULL;
  return NULL;
}

static shoal_status go_to(csv_reader *r, int64_t record, uint64_t offset) {
  r->next = record;
  if (!record) return csv_file_rewind(&r->file);
  r->file.in.line = 0;
  return stream_seek(r->file.in.in, offset);
}

static csv_labels labels_of(const format_options *options) {
  return (csv_labels){.optional = options->labels_optional, .row_size = options->row_size};
}

/* The description has fields: rows are sparse. */
static shoal_status make_sparse(csv_reader *r, const format_options *options) {
  TRY(csv_fields_open(&r->file, options->features, &r->sparse));
  r->schema.kind = ROWS_SPARSE;
  r->schema.shape = SHOAL_SCALAR;
  r->schema.features = r->sparse.features;
  r->schema.fields = true;
  r->schema.fields_end = (int)r->file.columns.field_count;
  return NULL;
}

/* separator 0: found out. */
static shoal_status prepare(csv_reader *r, char separator, const format_options *options) {
  const csv_fit *given = options->learned && options->learned->table.count ? &options->learned->table : NULL;
  const csv_labels labels = labels_of(options);
  r->labels_optional = labels.optional;
  if (!given) TRY(csv_fit_learn(&r->base.path, 1, separator, options->columns, options->lookups, labels, &r->own_fit));
  r->fit = given ? given : &r->own_fit;
  TRY(csv_file_open(r->base.path, separator, options->columns, r->fit, labels, &r->file));
  r->schema = (rows_schema){.kind = ROWS_DENSE,
                            .dtype = SHOAL_F32,
                            .shape = SHOAL_SHAPE(r->fit->width),
                            .scale = 1,
                            .classes = options->classes,
                            .real_labels = r->file.columns.target,
                            .weighted = csv_file_has(&r->file, CSV_WEIGHT)};
  if (r->file.columns.field_count) TRY(make_sparse(r, options));
  TRY(find_classes(r, options));
  if (r->classes && options->classes && r->classes->count > options->classes)
    return status_make(SHOAL_ERR_INPUT, "%s: %d different labels are found, but there are %d classes", r->base.path,
                       r->classes->count, options->classes);
  if (r->classes && !options->classes) r->schema.classes = r->classes->count;
  return go_to(r, 0, 0);
}

static shoal_status open_with(const format *f, char separator, const char *path, const format_options *options,
                              file_reader **out) {
  csv_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = f;
  r->base.path = strdup(path);
  shoal_status status = r->base.path ? prepare(r, separator, options) : status_no_memory();
  if (status)
    close_reader(&r->base);
  else
    *out = &r->base;
  return status;
}

static shoal_status open_csv(const char *path, const format_options *options, file_reader **out) {
  return open_with(&format_csv, 0, path, options, out);
}

static shoal_status open_tsv(const char *path, const format_options *options, file_reader **out) {
  return open_with(&format_tsv, '\t', path, options, out);
}

static shoal_status open_parquet(const char *path, const format_options *options, file_reader **out) {
  return open_with(&format_parquet, ',', path, options, out);
}

static void schema(const file_reader *base, rows_schema *out) { *out = ((const csv_reader *)base)->schema; }
static const class_names *names(const file_reader *base) { return ((const csv_reader *)base)->classes; }

/* ---- rows */

static const char *missing_value(const csv_reader *r, size_t column, const char *field, char *why, size_t room) {
  char name[CSV_FIELD];
  if (r->file.names)
    snprintf(name, sizeof name, "%.80s", r->file.names[column]);
  else
    snprintf(name, sizeof name, "%zu", column);
  snprintf(why, room,
           "the value is missing%s%s%s: choose with --columns missing=mean (of the training rows), missing=0 (or "
           "another number) or skip=%s",
           *field ? " ('" : "", field, *field ? "')" : "", name);
  return why;
}

/* The numbers that a field becomes, x: [c->width]. NULL: it is right; else what is wrong, in why: [room]. */
static const char *put_feature(const csv_reader *r, size_t column, const char *field, float *x, char *why,
                               size_t room) {
  const csv_column *c = &r->fit->columns[r->file.learned[column]];
  memset(x, 0, (size_t)c->width * sizeof *x);
  if (c->kind == CSV_IDS) {
    const int64_t id = text_ids_of(&c->ids, field); /* one that is missing is a word, too */
    if (id < 0) snprintf(why, room, "'%s' is none of the %d words of the vocabulary", field, c->ids.words.count);
    *x = (float)id;
    return id < 0 ? why : NULL;
  }
  if (csv_is_missing(field)) {
    if (r->file.columns.missing == CSV_MISSING_ERROR) return missing_value(r, column, field, why, room);
    if (c->kind == CSV_NUMBER)
      *x = r->file.columns.missing == CSV_MISSING_MEAN ? (float)c->mean : r->file.columns.missing_value;
    return NULL;
  }
  if (c->kind == CSV_HASH) {
    x[csv_bucket(field, c->width)] = 1;
  } else if (c->kind == CSV_CATEGORIES) {
    int word = class_names_find(&c->words, field);
    if (word >= 0) x[word] = 1; /* none of the training rows had the others */
  } else if (!csv_number(&r->file.in, field, x)) {
    snprintf(why, room,
             "expected a number, found '%s': correct it, or say with --columns what the column is: "
             "categories=, hash= or skip=",
             field);
    return why;
  }
  return NULL;
}

/* One of several label columns; *label is what the columns before it said. */
static const char *to_hot_label(const csv_reader *r, const char *field, size_t column, int32_t *label) {
  float value;
  if (!csv_number(&r->file.in, field, &value) || (value != 0 && value != 1))
    return "expected 0 or 1, as one of the label's columns";
  if (value == 0) return NULL;
  if (*label >= 0) return "a column of the label before it is 1, too";
  *label = r->hot[column];
  return NULL;
}

static const char *to_weight(const csv_reader *r, const char *field, float *weight, char *why, size_t room) {
  if (csv_number(&r->file.in, field, weight) && *weight >= 0 && *weight < WEIGHT_END) return NULL;
  snprintf(why, room, "expected the row's weight, a number of at least 0, found '%s'", field);
  return why;
}

/* The cells of a row as its entries. */
static shoal_status put_entries(csv_reader *r, rows_block *into, char *why, size_t room) {
  char where[CSV_COLUMN_TEXT], detail[DETAIL];
  size_t column = 0;
  TRY(csv_fields_make(&r->sparse, &r->file, r->fit, &column, detail, sizeof detail));
  if (*detail) {
    snprintf(why, room, "%s: %s", csv_file_column(&r->file, column, where), detail);
    return NULL;
  }
  TRY(rows_reserve(into, 1, (int64_t)r->sparse.count));
  const int64_t start = into->offsets[into->count];
  for (size_t i = 0; i < r->sparse.count; i++) {
    const csv_entry *e = &r->sparse.entries[i];
    into->indices[start + (int64_t)i] = e->index;
    into->fields[start + (int64_t)i] = e->field;
    into->values[start + (int64_t)i] = e->value;
  }
  into->offsets[into->count + 1] = start + (int64_t)r->sparse.count;
  return NULL;
}

/* One line into row `into->count`, for which there is room; of sparse rows all but the entries. why: what is wrong, empty
 * when nothing is. */
static void parse_line(csv_reader *r, const uint8_t *at, size_t n, rows_block *into, char *why, size_t room) {
  csv_cursor c = csv_fields(r->file.in.separator, at, n);
  char field[CSV_FIELD], where[CSV_COLUMN_TEXT], detail[DETAIL];
  const bool sparse = r->schema.kind == ROWS_SPARSE;
  float *x = sparse ? NULL : (float *)into->features + into->count * r->schema.shape.dim[0];
  int32_t *label = &into->labels[into->count];
  size_t column = 0;
  *why = 0;
  *label = -1; /* unless there is one */
  if (into->targets) into->targets[into->count] = NAN;
  for (; column < r->file.count && csv_next_field(&c, field); column++) {
    const char *problem = NULL;
    if (r->file.roles[column] == CSV_LABEL) {
      float target;
      problem = *field ? to_label(r, field, label, &target, detail, sizeof detail) : "the label is missing";
      if (!problem && into->targets) into->targets[into->count] = target;
      if (problem) *label = -1;
      if (r->labels_optional) problem = NULL;
    } else if (r->file.roles[column] == CSV_WEIGHT) {
      problem = to_weight(r, field, &into->weights[into->count], detail, sizeof detail);
    } else if (r->file.roles[column] == CSV_HOT) {
      problem = to_hot_label(r, field, column, label);
    } else if (r->file.roles[column] == CSV_FEATURE && sparse) {
      memcpy(r->sparse.cells[column], field, sizeof field);
    } else if (r->file.roles[column] == CSV_FEATURE) {
      float *place = x + r->fit->columns[r->file.learned[column]].offset;
      problem = put_feature(r, column, field, place, detail, sizeof detail);
    }
    if (problem) {
      snprintf(why, room, "%s: %s", csv_file_column(&r->file, column, where), problem);
      return;
    }
  }
  if (column < r->file.count || c.more) {
    while (csv_next_field(&c, field)) column++;
    snprintf(why, room, "expected %zu fields as in the first line, found %zu", r->file.count, column);
  } else if (r->hot && *label < 0 && !r->labels_optional) {
    snprintf(why, room, "none of the label's columns is 1");
  }
}

static shoal_status bad_line(csv_reader *r, uint64_t offset, const char *why) {
  r->base.can_go_on = true;
  if (!r->file.in.line) return format_bad_row(&r->base, r->next, offset, "%s", why);
  return format_bad_row(&r->base, r->next, offset, "line %lld: %s", (long long)r->file.in.line, why);
}

/* Behind the line that starts at `at`. */
static void pass(csv_reader *r, const uint8_t *at, size_t whole) {
  csv_pass_line(&r->file.in, at, whole);
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
    TRY(csv_next_line(&r->file.in, &at, &n, &whole, &problem));
    if (!n) return NULL;
    TRY(rows_reserve(into, 1, 0));
    if (problem)
      snprintf(why, sizeof why, "%s: correct the line", problem);
    else
      parse_line(r, at, n, into, why, sizeof why);
    if (!*why && r->schema.kind == ROWS_SPARSE) TRY(put_entries(r, into, why, sizeof why));
    shoal_status status = *why ? bad_line(r, stream_offset(r->file.in.in), why) : NULL;
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
    TRY(csv_next_line(&r->file.in, &at, &n, &whole, &problem));
    if (!n) return NULL;
    pass(r, at, whole);
  }
  return NULL;
}

static void tell(const file_reader *base, file_position *out) {
  const csv_reader *r = (const csv_reader *)base;
  *out = (file_position){r->next, stream_offset(r->file.in.in)};
}

static shoal_status seek(file_reader *base, const file_position *to) {
  csv_reader *r = (csv_reader *)base;
  return go_to(r, to->record, to->offset);
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

enum { LOOKED_LINES = 2 };

/* The stream makes the text of a CSV file of it. */
static bool detect_parquet(const char *path, const uint8_t *head, size_t n, bool folder) {
  return !folder && is_text(head, n) && (ends_with(path, ".parquet") || ends_with(path, ".pq"));
}

/* By its name, or by what separates the first two lines; blanks alone are not enough, since any text has them. */
static bool detect_csv(const char *path, const uint8_t *head, size_t n, bool folder) {
  static const char *const endings[] = {".csv", ".csv.gz", ".data", ".dat"};
  if (folder || !is_text(head, n)) return false;
  for (size_t i = 0; i < COUNT_OF(endings); i++)
    if (ends_with(path, endings[i])) return i < 2 || csv_find_separator(head, n, LOOKED_LINES, true);
  char separator = csv_find_separator(head, n, LOOKED_LINES, false);
  return separator && separator != '\t';
}

static bool detect_tsv(const char *path, const uint8_t *head, size_t n, bool folder) {
  if (folder || !is_text(head, n)) return false;
  return ends_with(path, ".tsv") || ends_with(path, ".tsv.gz") ||
         csv_find_separator(head, n, LOOKED_LINES, false) == '\t';
}

static shoal_status fit_with(char separator, char *const *paths, size_t n, const format_options *options,
                             preprocessing *out) {
  return csv_fit_learn(paths, n, separator, options->columns, options->lookups, labels_of(options), &out->table);
}

static shoal_status fit_csv(char *const *paths, size_t n, const format_options *options, preprocessing *out) {
  return fit_with(0, paths, n, options, out);
}

static shoal_status fit_tsv(char *const *paths, size_t n, const format_options *options, preprocessing *out) {
  return fit_with('\t', paths, n, options, out);
}

static shoal_status fit_parquet(char *const *paths, size_t n, const format_options *options, preprocessing *out) {
  return fit_with(',', paths, n, options, out);
}

#define CSV_FORMAT(format_name, what, which)                                                                \
  {                                                                                                         \
    .name = format_name, .summary = what, .detect = detect_##which, .open = open_##which, .schema = schema, \
    .read = read_rows, .skip = skip, .tell = tell, .seek = seek, .close = close_reader, .names = names,     \
    .fit = fit_##which                                                                                      \
  }

const format format_csv =
    CSV_FORMAT("csv", "numbers, text and a label, separated by commas, semicolons ..., see --columns", csv);
const format format_parquet = CSV_FORMAT("parquet", "flat columns of a Parquet file, as of csv", parquet);
const format format_tsv = CSV_FORMAT("tsv", "the same, separated by tabs", tsv);
