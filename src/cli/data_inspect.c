/* shoal data inspect: what is in files of rows. */
#include "cli/bar.h"
#include "cli/data.h"
#include "cli/table.h"

enum { SHOWN_CLASSES = 20, SHOWN_COLUMNS = 40, SHOWN_ENTRIES = 8 };

typedef struct {
  read_flags read;
  int64_t rows;
  bool json, quiet;
} inspect_flags;

static const flag_row inspect_table[] = {
    READ_FLAGS(offsetof(inspect_flags, read)),
    {"rows", FLAG_INT, offsetof(inspect_flags, rows), "N", "number of first rows to show", "3", .most = 1000},
    {"json", FLAG_BOOL, offsetof(inspect_flags, json), NULL, "print one JSON object", .marks = 0},
    {"quiet", FLAG_BOOL, offsetof(inspect_flags, quiet), NULL, "no progress line", .marks = 0},
    {0},
};

static void print_columns(const shoal_data_summary *s) {
  for (int i = 0; i < s->n_columns && i < SHOWN_COLUMNS; i++)
    printf("%s%s\n", i ? "               " : "columns        ", s->columns[i].text);
  if (s->n_columns > SHOWN_COLUMNS) printf("               ... and %d more\n", s->n_columns - SHOWN_COLUMNS);
}

static void print_first(const shoal_data_summary *s) {
  if (s->n_first) printf("\nFirst rows:\n");
  for (int64_t i = 0; i < s->n_first; i++) {
    const shoal_data_row *r = &s->first[i];
    char name[SHOAL_CLASS_NAME_TEXT];
    if (s->real_labels)
      printf("  label %g:", (double)r->target);
    else
      printf("  label %s:", shoal_class_name(s->class_names, r->label, name));
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
    char count[SHOAL_DIGITS_TEXT], name[SHOAL_CLASS_NAME_TEXT];
    printf("%s%*s  %12s  %5.2f %%\n", shown++ ? "               " : "labels         ",
           s->class_names ? -widest : widest, shoal_class_name(s->class_names, i, name),
           shoal_group_digits(s->class_rows[i], count), 100 * (double)s->class_rows[i] / (double)s->rows);
  }
  if (shown == SHOWN_CLASSES && s->n_class_rows > SHOWN_CLASSES) puts("                 ...   (--json has them all)");
}

static void print_text(const char *path, const shoal_data_summary *s) {
  char size[SHOAL_DIGITS_TEXT], a[SHOAL_DIGITS_TEXT], b[SHOAL_DIGITS_TEXT], shape[SHOAL_SHAPE_TEXT];
  printf("data           %s\nformat         %s\nfiles          %lld (%s)\nrows           %s\n", path, s->format,
         (long long)s->file_count, shoal_size_text(s->file_bytes, size), shoal_group_digits(s->rows, a));
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

static shoal_status inspect(command_call *call) {
  const inspect_flags *f = call->flags;
  const char *path = call->words->words[0];
  shoal_pipeline_options o;
  shoal_data_summary *s = NULL;
  TRY(data_read_options(&f->read, path, &o));
  bar progress;
  bar_init(&progress, "rows", f->quiet || f->json, NULL);
  shoal_status status = shoal_data_inspect(&o, f->rows, bar_on_rows, &progress, &s);
  bar_clear(&progress);
  char *json = NULL;
  if (!status && f->json) {
    status = shoal_data_summary_json(s, path, &json);
    status = json_print(status, json);
  } else if (!status) {
    print_text(path, s);
  }
  shoal_data_summary_destroy(s);
  free((char *)o.files);
  return status;
}

const command command_data_inspect = {
    .name = "data inspect",
    .arguments = "PATH",
    .summary = "show what data files contain: format, rows, shapes, labels, read speed",
    .details =
        "PATH is a file, a folder, a glob (in quotes), a list a,b,c or the name of a\n"
        "data set. All rows are read and checked once, in constant memory.\n"
        "\n"
        "Examples:\n"
        "  shoal data inspect mnist\n"
        "  shoal data inspect 'clicks/*.tfrecord' --json\n"
        "  shoal data inspect flowers/ --transform resize=224x224\n",
    .flags = inspect_table,
    .fields = sizeof(inspect_flags),
    .defaults = &(const inspect_flags){.rows = 3},
    .words_min = 1,
    .words_max = 1,
    .expected = "one file, folder, glob or list a,b,c",
    .action = inspect,
};
