#include "data/csv_file.h"

#include "base/mem.h"
#include "data/csv_fit.h"

#include <stdio.h>
#include <string.h>

shoal_status csv_no_rows(const csv_file *f) {
  return status_make(SHOAL_ERR_INPUT, "%s: byte %llu: no rows, expected lines of fields separated by %s", f->path,
                     (unsigned long long)stream_offset(f->in.in), csv_separator_name(f->in.separator));
}

static void free_names(char **names, size_t count) {
  for (size_t i = 0; names && i < count; i++) free(names[i]);
  free(names);
}

/* Names are no numbers, and differ from each other; one of them may say that it is the label. */
static bool looks_like_header(const csv_file *f, char *const *names) {
  float ignored;
  bool numbers = false, twice = false;
  for (size_t i = 0; i < f->count; i++) {
    if (csv_label_name(names[i])) return true;
    numbers |= csv_number(&f->in, names[i], &ignored);
  }
  for (size_t i = 1; !numbers && !twice && i < MIN_OF(f->count, (size_t)1000); i++)
    for (size_t k = 0; k < i; k++) twice |= !strcmp(names[i], names[k]);
  return !numbers && !twice;
}

/* Decides whether the first line is a header, and takes its names. */
static shoal_status read_header(csv_file *f, const csv_fit *fit, csv_labels labels) {
  const uint8_t *at;
  size_t n, whole;
  const char *problem;
  TRY(csv_next_line(&f->in, &at, &n, &whole, &problem));
  unsigned long long offset = stream_offset(f->in.in);
  if (!n) return csv_no_rows(f);
  if (problem)
    return status_make(SHOAL_ERR_INPUT, "%s: record 0 at byte %llu: %s: is this a text file?", f->path, offset,
                       problem);
  f->count = csv_count_fields(f->in.separator, at, n);
  if (f->count < (labels.optional ? 1 : 2) || f->count > CSV_COLUMNS_MAX)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: record 0 at byte %llu: expected 2 to %d fields separated by %s, "
                       "found %zu: "
                       "set the separator with --columns separator=",
                       f->path, offset, CSV_COLUMNS_MAX, csv_separator_name(f->in.separator), f->count);
  f->roles = calloc(f->count, sizeof *f->roles);
  char **names = calloc(f->count, sizeof *names);
  bool failed = !f->roles || !names;
  csv_cursor c = csv_fields(f->in.separator, at, n);
  char field[CSV_FIELD];
  for (size_t i = 0; !failed && i < f->count && csv_next_field(&c, field); i++) {
    names[i] = strdup(field);
    failed = !names[i];
  }
  bool header = !failed && (f->columns.header >= 0 ? f->columns.header
                            : fit                  ? fit->columns[0].name != NULL
                                                   : looks_like_header(f, names));
  if (header) {
    f->names = names;
    csv_pass_line(&f->in, at, whole);
  } else {
    free_names(names, f->count);
  }
  f->first_byte = stream_offset(f->in.in);
  f->first_line = f->in.line;
  return failed ? status_no_memory() : NULL;
}

/* Are there names on both sides, and others, or in another order? */
static bool differ(const csv_file *f, const csv_fit *fit) {
  if (!f->names || !fit->columns[0].name) return false;
  bool same = f->count == fit->count;
  for (size_t i = 0; same && i < f->count; i++) same = !strcmp(f->names[i], fit->columns[i].name);
  return !same;
}

/* The column of that name; count: none. */
static size_t find_name(const csv_file *f, const char *name) {
  size_t i = 0;
  while (i < f->count && strcmp(f->names[i], name)) i++;
  return i;
}

static bool is_label(csv_role role) { return role == CSV_LABEL || role == CSV_HOT; }

static size_t count_labels(const csv_fit *fit) {
  size_t n = 0;
  for (size_t k = 0; k < fit->count; k++) n += is_label(fit->columns[k].role);
  return n;
}

/* Roles as they were when the fit was learned. */
static shoal_status map_columns(csv_file *f, const csv_fit *fit, csv_labels labels) {
  f->learned = malloc(f->count * sizeof *f->learned);
  if (!f->learned) return status_no_memory();
  for (size_t i = 0; i < f->count; i++) {
    f->learned[i] = fit->count;
    f->roles[i] = CSV_SKIP;
  }
  bool by_name = differ(f, fit);
  bool unlabelled = !by_name && labels.optional && f->count + count_labels(fit) == fit->count;
  if (!by_name && !unlabelled && f->count != fit->count)
    return status_make(SHOAL_ERR_INPUT, "%s: expected %zu columns, as in the training rows, found %zu", f->path,
                       fit->count, f->count);
  size_t next = 0;
  for (size_t k = 0; k < fit->count; k++) {
    const csv_role role = fit->columns[k].role;
    if (unlabelled && is_label(role)) continue;
    size_t i = by_name ? find_name(f, fit->columns[k].name) : next++;
    if (i == f->count && (role == CSV_SKIP || role == CSV_WEIGHT || (labels.optional && is_label(role)))) continue;
    if (i == f->count)
      return status_make(SHOAL_ERR_INPUT,
                         "%s: expected a column '%s', as in the training rows: see the first line of "
                         "the file",
                         f->path, fit->columns[k].name);
    f->learned[i] = k;
    f->roles[i] = role;
  }
  for (size_t i = 0; i < f->count; i++) {
    char where[CSV_COLUMN_TEXT];
    if (f->learned[i] == fit->count)
      return status_make(SHOAL_ERR_INPUT, "%s: %s is none of the %zu columns of the training rows: take it out",
                         f->path, csv_file_column(f, i, where), fit->count);
  }
  return NULL;
}

static shoal_status assign(csv_file *f, bool labelled) {
  return csv_columns_assign(&f->columns, f->names, f->count, labelled, f->roles);
}

static bool fits(const csv_file *f, csv_labels labels) {
  int64_t features = 0;
  for (size_t i = 0; i < f->count; i++) features += f->roles[i] == CSV_FEATURE;
  return !labels.row_size || features == labels.row_size;
}

/* A file without labels lacks the column that is called so, or has one column less than it takes. */
static shoal_status find_roles(csv_file *f, csv_labels labels) {
  if (labels.optional && f->columns.weight && f->names && find_name(f, f->columns.weight) == f->count)
    f->columns.weight = NULL; /* rows that are not trained on need none */
  shoal_status status = assign(f, true);
  if (!labels.optional || (!status && fits(f, labels))) return status;
  shoal_status other = assign(f, false);
  if (!other && fits(f, labels)) {
    shoal_status_free(status);
    return NULL;
  }
  shoal_status_free(other);
  return status ? status : assign(f, true);
}

static shoal_status open_file(char separator, const char *description, const csv_fit *fit, csv_labels labels,
                              csv_file *f) {
  TRY(csv_columns_parse(description, &f->columns));
  TRY(csv_text_open(f->path, separator ? separator : f->columns.separator, &f->in));
  TRY(read_header(f, fit, labels));
  return fit ? map_columns(f, fit, labels) : status_wrap(find_roles(f, labels), "%s", f->path);
}

shoal_status csv_file_open(const char *path, char separator, const char *description, const csv_fit *fit,
                           csv_labels labels, csv_file *out) {
  csv_file f = {.path = path};
  shoal_status status = open_file(separator, description, fit, labels, &f);
  if (status)
    csv_file_close(&f);
  else
    *out = f;
  return status;
}

void csv_file_close(csv_file *f) {
  csv_text_close(&f->in);
  csv_columns_fini(&f->columns);
  free_names(f->names, f->count);
  free(f->roles);
  free(f->learned);
  *f = (csv_file){0};
}

shoal_status csv_file_rewind(csv_file *f) {
  TRY(stream_seek(f->in.in, f->first_byte));
  f->in.line = f->first_line;
  return NULL;
}

size_t csv_file_label(const csv_file *f) {
  size_t i = 0;
  while (i < f->count && f->roles[i] != CSV_LABEL) i++;
  return i;
}

bool csv_file_has(const csv_file *f, csv_role role) {
  for (size_t i = 0; i < f->count; i++)
    if (f->roles[i] == role) return true;
  return false;
}

const char *csv_file_column(const csv_file *f, size_t column, char out[CSV_COLUMN_TEXT]) {
  if (f->names)
    snprintf(out, CSV_COLUMN_TEXT, "column %zu ('%.80s')", column, f->names[column]);
  else
    snprintf(out, CSV_COLUMN_TEXT, "column %zu", column);
  return out;
}
