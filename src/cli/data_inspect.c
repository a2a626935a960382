/* shoal data inspect: what is in files of rows. */
#include "cli/bar.h"
#include "cli/data.h"
#include "cli/table.h"

#include <math.h>

enum { SHOWN_CLASSES = 20, SHOWN_COLUMNS = 40, SHOWN_ENTRIES = 8, NAME_TEXT = 16 };

typedef struct {
  read_flags read;
  int64_t rows;
  bool json, quiet;
} inspect_flags;

static const flag_row inspect_table[] = {
    READ_FLAGS(offsetof(inspect_flags, read)),
    {"rows", FLAG_INT, offsetof(inspect_flags, rows), "N", "how many of the first rows to show", "3", .most = 1000},
    {"json", FLAG_BOOL, offsetof(inspect_flags, json), NULL, "print one JSON object", .marks = 0},
    {"quiet", FLAG_BOOL, offsetof(inspect_flags, quiet), NULL, "no progress line", .marks = 0},
    {0},
};

/* The name of class i, or its number when it has none. */
static const char *class_name(const shoal_data_summary *s, int i, char number[NAME_TEXT]) {
  int named = 0;
  while (s->class_names && named <= i && s->class_names[named]) named++;
  if (named > i) return s->class_names[i];
  snprintf(number, NAME_TEXT, "%d", i);
  return number;
}

/* ---- as JSON */

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *spread_json(const shoal_spread *s) {
  return s->count ? json_pack("{s:o, s:o, s:o}", "min", number(s->min), "mean", number(s->mean), "max", number(s->max))
                  : json_null();
}

static json_t *row_json(const shoal_data_summary *s, const shoal_data_row *r) {
  json_t *o = json_object(), *list = json_array();
  json_object_set_new(o, "label", s->real_labels ? number((double)r->target) : json_integer(r->label));
  for (int64_t k = 0; k < r->n_values; k++)
    json_array_append_new(list,
                          r->indices ? json_pack("[i, o]", r->indices[k], number(r->values[k])) : number(r->values[k]));
  if (s->kind == SHOAL_ROWS_ENCODED)
    json_object_set_new(o, "bytes", json_integer(r->size));
  else
    json_object_set(o, s->kind == SHOAL_ROWS_SPARSE ? "entries" : "values", list);
  json_decref(list);
  return o;
}

static json_t *labels_json(const shoal_data_summary *s) {
  json_t *labels = json_object();
  for (int i = 0; i < s->n_class_rows; i++) {
    char name[NAME_TEXT];
    if (s->class_rows[i]) json_object_set_new(labels, class_name(s, i, name), json_integer(s->class_rows[i]));
  }
  return labels;
}

static json_t *names_json(const char *const *names) {
  json_t *list = names ? json_array() : json_null();
  for (int i = 0; names && names[i]; i++) json_array_append_new(list, json_string(names[i]));
  return list;
}

static void add_features(json_t *o, const shoal_data_summary *s) {
  const bool dense = s->kind == SHOAL_ROWS_DENSE, sparse = s->kind == SHOAL_ROWS_SPARSE;
  json_t *shape = dense ? json_array() : json_null();
  for (int i = 0; dense && i < s->shape.rank; i++) json_array_append_new(shape, json_integer(s->shape.dim[i]));
  json_object_set_new(o, "dtype", dense ? json_string(shoal_dtype_name(s->dtype)) : json_null());
  json_object_set_new(o, "shape", shape);
  json_object_set_new(o, "features", sparse ? json_integer(s->features) : json_null());
  json_object_set_new(o, "nonzeros", sparse ? json_integer((json_int_t)s->values.count) : json_null());
  json_object_set_new(o, "nonzeros_a_row", sparse ? spread_json(&s->sizes) : json_null());
  json_object_set_new(o, "bytes_a_row", s->kind == SHOAL_ROWS_ENCODED ? spread_json(&s->sizes) : json_null());
  json_object_set_new(o, "index",
                      s->index_max >= 0
                          ? json_pack("{s:I, s:I}", "min", (json_int_t)s->index_min, "max", (json_int_t)s->index_max)
                          : json_null());
  json_object_set_new(o, "values", spread_json(&s->values));
}

static shoal_status print_json(const char *path, const shoal_data_summary *s) {
  static const char *const kinds[] = {"dense", "sparse", "encoded"}; /* in the order of shoal_row_kind */
  json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "path", path, "format", s->format, "files",
                        (json_int_t)s->file_count, "bytes", (json_int_t)s->file_bytes, "rows", (json_int_t)s->rows,
                        "bad_rows", (json_int_t)s->bad_rows, "kind", kinds[s->kind]);
  if (!o) return status_no_memory();
  json_object_set_new(o, "read_from", json_string(s->files));
  json_object_set_new(o, "classes", s->real_labels ? json_null() : json_integer(s->classes));
  json_object_set_new(o, "class_names", names_json(s->class_names));
  json_object_set_new(o, "labels", s->real_labels ? json_null() : labels_json(s));
  json_object_set_new(o, "targets", spread_json(&s->targets));
  add_features(o, s);
  json_object_set_new(o, "preprocessing", s->preprocessing ? json_loads(s->preprocessing, 0, NULL) : json_null());
  json_t *first = json_array();
  for (int64_t i = 0; i < s->n_first; i++) json_array_append_new(first, row_json(s, &s->first[i]));
  json_object_set_new(o, "first_rows", first);
  json_object_set_new(o, "seconds", number(s->seconds));
  json_object_set_new(o, "rows_per_second", number((double)s->rows / s->seconds));
  json_object_set_new(o, "bytes_per_second", number((double)s->file_bytes / s->seconds));
  json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  putchar('\n');
  json_decref(o);
  return NULL;
}

/* ---- as text */

static void print_columns(const shoal_data_summary *s) {
  for (int i = 0; i < s->n_columns && i < SHOWN_COLUMNS; i++)
    printf("%s%s\n", i ? "               " : "columns        ", s->columns[i].text);
  if (s->n_columns > SHOWN_COLUMNS) printf("               ... and %d more\n", s->n_columns - SHOWN_COLUMNS);
}

static void print_first(const shoal_data_summary *s) {
  if (s->n_first) printf("\nFirst rows:\n");
  for (int64_t i = 0; i < s->n_first; i++) {
    const shoal_data_row *r = &s->first[i];
    char name[NAME_TEXT];
    if (s->real_labels)
      printf("  label %g:", (double)r->target);
    else
      printf("  label %s:", class_name(s, r->label, name));
    int64_t k = 0;
    for (; k < r->n_values && k < SHOWN_ENTRIES; k++) {
      if (r->indices)
        printf(" %d:%.6g", r->indices[k], r->values[k]);
      else
        printf(" %.6g", r->values[k]);
    }
    if (s->kind == SHOAL_ROWS_ENCODED)
      printf(" %lld bytes", (long long)r->size);
    else if (k < r->size)
      printf(" ... (%lld)", (long long)r->size);
    putchar('\n');
  }
}

static void print_labels(const shoal_data_summary *s) {
  if (s->real_labels) {
    printf("targets        %.6g to %.6g, mean %.6g\n", s->targets.min, s->targets.max, s->targets.mean);
    return;
  }
  printf("classes        %d\n", s->classes);
  int shown = 0, widest = 5;
  for (int i = 0; s->class_names && s->class_names[i]; i++) widest = MAX_OF(widest, (int)strlen(s->class_names[i]));
  for (int i = 0; i < s->n_class_rows && shown < SHOWN_CLASSES; i++) {
    if (!s->class_rows[i]) continue;
    char count[SHOAL_DIGITS_TEXT], name[NAME_TEXT];
    printf("%s%*s  %12s  %5.2f %%\n", shown++ ? "               " : "labels         ",
           s->class_names ? -widest : widest, class_name(s, i, name), shoal_group_digits(s->class_rows[i], count),
           100 * (double)s->class_rows[i] / (double)s->rows);
  }
  if (shown == SHOWN_CLASSES && s->n_class_rows > SHOWN_CLASSES) puts("                 ...   (--json has them all)");
}

static void print_text(const char *path, const shoal_data_summary *s) {
  char a[SHOAL_DIGITS_TEXT], b[SHOAL_DIGITS_TEXT], shape[SHOAL_SHAPE_TEXT];
  table_column size = {0};
  table_set_bytes(&size, s->file_bytes);
  printf("data           %s\nformat         %s\nfiles          %lld (%s)\nrows           %s\n", path, s->format,
         (long long)s->file_count, size.cell, shoal_group_digits(s->rows, a));
  if (strcmp(path, s->files)) printf("read from      %s\n", s->files);
  if (s->bad_rows) printf("bad rows       %s, skipped\n", shoal_group_digits(s->bad_rows, a));
  if (s->kind == SHOAL_ROWS_DENSE)
    printf("row            %s %s, values %.6g to %.6g, mean %.6g\n", shoal_dtype_name(s->dtype),
           shoal_shape_text(&s->shape, shape), s->values.min, s->values.max, s->values.mean);
  if (s->kind == SHOAL_ROWS_ENCODED)
    printf("row            an encoded image, %.0f to %.0f bytes, mean %.0f\n", s->sizes.min, s->sizes.max,
           s->sizes.mean);
  if (s->kind == SHOAL_ROWS_SPARSE && s->sizes.count) {
    printf("non-zeros      %s, a row %.0f to %.0f, mean %.2f\n", shoal_group_digits(s->values.count, a), s->sizes.min,
           s->sizes.max, s->sizes.mean);
    printf("indices        %s to %s\n", shoal_group_digits(s->index_min, a), shoal_group_digits(s->index_max, b));
    printf("features       %s\n", shoal_group_digits(s->features, a));
  }
  print_labels(s);
  print_columns(s);
  printf("speed          %s rows/s, %.1f MB/s\n", shoal_group_digits((int64_t)((double)s->rows / s->seconds), a),
         1e-6 * (double)s->file_bytes / s->seconds);
  print_first(s);
}

static shoal_status inspect(const inspect_flags *f, const char *path) {
  shoal_pipeline_options o;
  shoal_data_summary *s = NULL;
  TRY(data_read_options(&f->read, path, &o));
  bar progress;
  bar_init(&progress, "rows", f->quiet || f->json, NULL);
  shoal_status status = shoal_data_inspect(&o, f->rows, bar_on_rows, &progress, &s);
  bar_clear(&progress);
  if (!status && f->json)
    status = print_json(path, s);
  else if (!status)
    print_text(path, s);
  shoal_data_summary_destroy(s);
  free((char *)o.files);
  return status;
}

static int run_inspect(int argc, char **argv) {
  inspect_flags f = {.rows = 3};
  flags_parsed parsed;
  shoal_status status;
  if (!command_parse(&command_data_inspect, argc, argv, &f, &parsed, &status)) return EXIT_GOOD;
  if (!status && parsed.count != 1)
    status = status_make(SHOAL_ERR_ARGUMENT, "expected one file, folder, glob or list a,b,c, not %d", parsed.count);
  if (!status) status = inspect(&f, parsed.words[0]);
  return status ? command_fail(&command_data_inspect, status) : EXIT_GOOD;
}

const command command_data_inspect = {
    .name = "data inspect",
    .arguments = "PATH",
    .summary = "what files of rows hold: format, rows, shapes, labels, speed",
    .details =
        "PATH is a file, a folder, a glob (in quotes), a list a,b,c or the name of a\n"
        "data set. All rows are read once, in constant memory; every one is checked.\n"
        "\n"
        "Examples:\n"
        "  shoal data inspect mnist\n"
        "  shoal data inspect 'clicks/*.tfrecord' --json\n"
        "  shoal data inspect flowers/ --transform resize=224x224\n",
    .flags = inspect_table,
    .run = run_inspect,
};
