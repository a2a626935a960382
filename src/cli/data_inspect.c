/* shoal data inspect: what is in files of rows, in one pass and constant memory. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/bar.h"
#include "cli/data.h"
#include "cli/table.h"
#include "data/class_names.h"

#include <math.h>

#define BATCH 2048
#define BATCH_ENCODED 16  /* images are large */
#define MOST_CLASSES 65536 /* of which the histogram counts */
#define SHOWN_CLASSES 20
#define SHOWN_COLUMNS 40
#define MOST_NUMBERS 64   /* of a dense row kept for showing */
#define SHOWN_ENTRIES 8   /* of a row shown */

typedef struct {
  read_flags read;
  int64_t rows;
  bool json, quiet;
} inspect_flags;

static const flag_row inspect_table[] = {
    READ_FLAGS(offsetof(inspect_flags, read)),
    {.name = "rows", .kind = FLAG_INT, .offset = offsetof(inspect_flags, rows), .value = "N",
     .help = "how many of the first rows to show", .standard = "3", .most = 1000},
    {.name = "json", .kind = FLAG_BOOL, .offset = offsetof(inspect_flags, json), .help = "print one JSON object"},
    {.name = "quiet", .kind = FLAG_BOOL, .offset = offsetof(inspect_flags, quiet), .help = "no progress line"},
    {0},
};

/* Least, most and sum of numbers. */
typedef struct {
  double least, most, sum;
  int64_t count;
} spread;

typedef struct {
  rows_schema schema;
  int64_t rows;
  int64_t *histogram; /* [MOST_CLASSES] */
  int64_t beyond;     /* labels past it */
  int largest;        /* label seen; -1: none */
  spread lengths;     /* entries or bytes a row */
  spread values;      /* dense numbers, sparse values */
  spread targets;
  int64_t least_index, most_index;
  json_t *first; /* rows shown */
  double seconds;
  int64_t bytes;
  size_t files;
  const char *format;
  const char *const *names; /* of the classes, borrowed; NULL: labels are numbers */
  const char *read_from; /* the files, when PATH does not name them itself */
  const char *learned;   /* from the columns; NULL: nothing */
  shoal_pipeline_statistics count;
} findings;

static const spread no_spread = {INFINITY, -INFINITY, 0, 0};

static void add_floats(spread *s, const float *x, int64_t n) {
  enum { LANES = 16 };
  float low[LANES], high[LANES];
  double sum = 0;
  int64_t i = 0;
  for (int k = 0; k < LANES; k++) {
    low[k] = INFINITY;
    high[k] = -INFINITY;
  }
  for (; i + LANES <= n; i += LANES) {
    float part = 0;
    for (int k = 0; k < LANES; k++) {
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
      part += x[i + k];
    }
    sum += (double)part;
  }
  for (; i < n; i++) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
    sum += (double)x[i];
  }
  for (int k = 0; k < LANES; k++) {
    s->least = fmin(s->least, (double)low[k]);
    s->most = fmax(s->most, (double)high[k]);
  }
  s->sum += sum;
  s->count += n;
}

static void add_bytes(spread *s, const uint8_t *x, int64_t n) {
  uint8_t low = 255, high = 0;
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    sum += x[i];
  }
  if (!n) return;
  s->least = fmin(s->least, low);
  s->most = fmax(s->most, high);
  s->sum += (double)sum;
  s->count += n;
}

static void add_lengths(findings *f, const rows_block *b) {
  int64_t least = INT64_MAX, most = -1;
  for (int64_t i = 0; i < b->count; i++) {
    int64_t n = b->offsets[i + 1] - b->offsets[i];
    least = n < least ? n : least;
    most = n > most ? n : most;
  }
  if (!b->count) return;
  f->lengths.least = fmin(f->lengths.least, (double)least);
  f->lengths.most = fmax(f->lengths.most, (double)most);
  f->lengths.sum += (double)b->offsets[b->count];
  f->lengths.count += b->count;
}

static void add_indices(findings *f, const int32_t *x, int64_t n) {
  int32_t least = INT32_MAX, most = -1;
  for (int64_t i = 0; i < n; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  if (!n) return;
  f->least_index = f->most_index < 0 ? least : MIN_OF(f->least_index, least);
  f->most_index = MAX_OF(f->most_index, most);
}

static void add_labels(findings *f, const rows_block *b) {
  if (b->targets) {
    add_floats(&f->targets, b->targets, b->count);
    return;
  }
  for (int64_t i = 0; i < b->count; i++) {
    uint32_t label = (uint32_t)b->labels[i];
    if (label < MOST_CLASSES) f->histogram[label]++;
    else f->beyond++;
    if (b->labels[i] > f->largest) f->largest = b->labels[i];
  }
}

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *row_json(const rows_block *b, int64_t i) {
  json_t *o = json_object(), *list = json_array();
  json_object_set_new(o, "label", b->targets ? number((double)b->targets[i]) : json_integer(b->labels[i]));
  switch (b->schema.kind) {
    case ROWS_SPARSE:
      for (int64_t e = b->offsets[i]; e < b->offsets[i + 1]; e++)
        json_array_append_new(list, json_pack("[I, o]", (json_int_t)b->indices[e], number((double)b->values[e])));
      json_object_set_new(o, "entries", list);
      break;
    case ROWS_DENSE: {
      int64_t n = shoal_shape_count(&b->schema.shape);
      shoal_tensor all = shoal_tensor_view(b->schema.dtype, SHOAL_SHAPE(b->count * n), b->features);
      for (int64_t k = 0; k < MIN_OF(n, MOST_NUMBERS); k++)
        json_array_append_new(list, number(shoal_tensor_get(&all, i * n + k)));
      json_object_set_new(o, "values", list);
      break;
    }
    case ROWS_BYTES:
      json_decref(list);
      json_object_set_new(o, "bytes", json_integer(b->offsets[i + 1] - b->offsets[i]));
      break;
  }
  return o;
}

static void add_batch(findings *f, const rows_block *b, int64_t shown) {
  for (int64_t i = 0; i < b->count && f->rows + i < shown; i++) json_array_append_new(f->first, row_json(b, i));
  add_labels(f, b);
  if (b->schema.kind != ROWS_DENSE) add_lengths(f, b);
  if (b->schema.kind == ROWS_SPARSE) {
    add_indices(f, b->indices, b->offsets[b->count]);
    add_floats(&f->values, b->values, b->offsets[b->count]);
  } else if (b->schema.kind == ROWS_DENSE) {
    int64_t n = b->count * shoal_shape_count(&b->schema.shape);
    if (b->schema.dtype == SHOAL_U8) add_bytes(&f->values, b->features, n);
    else add_floats(&f->values, b->features, n);
  }
  f->rows += b->count;
}

static shoal_status read_through(const inspect_flags *flags, shoal_pipeline *p, findings *f) {
  bar progress;
  bar_init(&progress, "rows", 0, flags->quiet || flags->json);
  double start = clock_seconds();
  const rows_block *b;
  shoal_status status;
  while (!(status = pipeline_next(p, &b, NULL, NULL)) && b) {
    add_batch(f, b, flags->rows);
    bar_show(&progress, f->rows);
  }
  bar_clear(&progress);
  f->seconds = clock_seconds() - start;
  if (!f->bytes && f->schema.kind == ROWS_BYTES) f->bytes = (int64_t)f->lengths.sum; /* a folder has no size itself */
  shoal_pipeline_count(p, &f->count);
  return status;
}

static int classes_of(const findings *f) { return f->schema.classes ? f->schema.classes : f->largest + 1; }
static int64_t features_of(const findings *f) { return f->schema.features ? f->schema.features : f->most_index + 1; }

static json_t *spread_json(const spread *s) {
  return s->count ? json_pack("{s:o, s:o, s:o}", "min", number(s->least), "mean", number(s->sum / (double)s->count),
                              "max", number(s->most))
                  : json_null();
}

static shoal_status print_json(const char *path, const findings *f) {
  static const char *const kinds[] = {[ROWS_DENSE] = "dense", [ROWS_SPARSE] = "sparse", [ROWS_BYTES] = "encoded"};
  const rows_schema *s = &f->schema;
  json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "path", path, "format", f->format, "files",
                        (json_int_t)f->files, "bytes", (json_int_t)f->bytes, "rows", (json_int_t)f->rows, "bad_rows",
                        (json_int_t)f->count.bad_rows, "kind", kinds[s->kind]);
  if (!o) return status_no_memory();
  json_t *labels = json_object(), *shape = json_array();
  for (int i = 0; i <= f->largest && i < MOST_CLASSES; i++) {
    char name[SHOAL_CLASS_NAME_TEXT];
    if (f->histogram[i]) json_object_set_new(labels, shoal_class_name(f->names, i, name), json_integer(f->histogram[i]));
  }
  for (int i = 0; i < s->shape.rank; i++) json_array_append_new(shape, json_integer(s->shape.dim[i]));
  json_object_set_new(o, "read_from", json_string(f->read_from));
  json_object_set_new(o, "classes", s->real_labels ? json_null() : json_integer(classes_of(f)));
  json_object_set_new(o, "class_names", class_names_to_json(f->names));
  json_object_set_new(o, "labels", s->real_labels ? json_null() : json_incref(labels));
  json_object_set_new(o, "targets", spread_json(&f->targets));
  json_object_set_new(o, "dtype", s->kind == ROWS_DENSE ? json_string(shoal_dtype_name(s->dtype)) : json_null());
  json_object_set_new(o, "shape", s->kind == ROWS_DENSE ? json_incref(shape) : json_null());
  bool sparse = s->kind == ROWS_SPARSE;
  json_object_set_new(o, "features", sparse ? json_integer(features_of(f)) : json_null());
  json_object_set_new(o, "nonzeros", sparse ? json_integer((json_int_t)f->lengths.sum) : json_null());
  json_object_set_new(o, "nonzeros_a_row", sparse ? spread_json(&f->lengths) : json_null());
  json_object_set_new(o, "bytes_a_row", s->kind == ROWS_BYTES ? spread_json(&f->lengths) : json_null());
  json_object_set_new(o, "index",
                      f->most_index >= 0 ? json_pack("{s:I, s:I}", "min", (json_int_t)f->least_index, "max",
                                                     (json_int_t)f->most_index)
                                         : json_null());
  json_object_set_new(o, "values", spread_json(&f->values));
  json_object_set_new(o, "preprocessing", f->learned ? json_loads(f->learned, 0, NULL) : json_null());
  json_object_set(o, "first_rows", f->first);
  json_object_set_new(o, "seconds", number(f->seconds));
  json_object_set_new(o, "rows_per_second", number((double)f->rows / f->seconds));
  json_object_set_new(o, "bytes_per_second", number((double)f->bytes / f->seconds));
  json_decref(labels);
  json_decref(shape);
  json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  putchar('\n');
  json_decref(o);
  return NULL;
}

/* Columns of text, and those with missing values that were filled. */
static shoal_status print_columns(const char *learned) {
  text lines = {0};
  TRY(preprocessing_describe(learned, "               ", SHOWN_COLUMNS, &lines));
  if (lines.data) printf("columns        %s", lines.data + strspn(lines.data, " "));
  text_fini(&lines);
  return NULL;
}

static void print_first(const findings *f) {
  size_t shown = json_array_size(f->first);
  if (shown) printf("\nFirst rows:\n");
  for (size_t i = 0; i < shown; i++) {
    const json_t *row = json_array_get(f->first, i), *pairs = json_object_get(row, "entries");
    const json_t *values = json_object_get(row, "values"), *list = pairs ? pairs : values;
    const json_t *label = json_object_get(row, "label");
    char name[SHOAL_CLASS_NAME_TEXT];
    if (f->names) printf("  label %s:", shoal_class_name(f->names, json_integer_value(label), name));
    else printf("  label %g:", json_number_value(label));
    size_t n = json_array_size(list), k = 0;
    for (; k < n && k < SHOWN_ENTRIES; k++) {
      const json_t *e = json_array_get(list, k);
      if (pairs) printf(" %lld:%.6g", (long long)json_integer_value(json_array_get(e, 0)),
                        json_number_value(json_array_get(e, 1)));
      else printf(" %.6g", json_number_value(e));
    }
    if (list && k < n) printf(" ... (%zu%s)", n, values && n == MOST_NUMBERS ? " or more" : "");
    if (!list) printf(" %lld bytes", (long long)json_integer_value(json_object_get(row, "bytes")));
    putchar('\n');
  }
}

static void print_labels(const findings *f) {
  if (f->schema.real_labels) {
    printf("targets        %.6g to %.6g, mean %.6g\n", f->targets.least, f->targets.most,
           f->targets.sum / (double)MAX_OF(f->targets.count, 1));
    return;
  }
  printf("classes        %d\n", classes_of(f));
  int shown = 0, widest = 5;
  for (int i = 0; f->names && f->names[i]; i++) widest = MAX_OF(widest, (int)strlen(f->names[i]));
  for (int i = 0; i <= f->largest && i < MOST_CLASSES && shown < SHOWN_CLASSES; i++) {
    if (!f->histogram[i]) continue;
    char count[GROUPED_TEXT];
    char name[SHOAL_CLASS_NAME_TEXT];
    printf("%s%*s  %12s  %5.2f %%\n", shown++ ? "               " : "labels         ", f->names ? -widest : widest,
           shoal_class_name(f->names, i, name), grouped_text(f->histogram[i], count),
           100 * (double)f->histogram[i] / (double)f->rows);
  }
  if (shown == SHOWN_CLASSES && f->largest >= SHOWN_CLASSES) puts("                 ...   (--json has them all)");
}

static shoal_status print_text(const char *path, const findings *f) {
  const rows_schema *s = &f->schema;
  char a[GROUPED_TEXT], b[GROUPED_TEXT], shape[SHOAL_SHAPE_TEXT];
  table_column size = {0};
  table_set_bytes(&size, f->bytes);
  printf("data           %s\nformat         %s\nfiles          %zu (%s)\nrows           %s\n", path, f->format,
         f->files, size.cell, grouped_text(f->rows, a));
  if (strcmp(path, f->read_from)) printf("read from      %s\n", f->read_from);
  if (f->count.bad_rows) printf("bad rows       %s, skipped\n", grouped_text(f->count.bad_rows, a));
  if (s->kind == ROWS_DENSE)
    printf("row            %s %s, values %.6g to %.6g, mean %.6g\n", shoal_dtype_name(s->dtype),
           shoal_shape_text(&s->shape, shape), f->values.least, f->values.most,
           f->values.sum / (double)MAX_OF(f->values.count, 1));
  if (s->kind == ROWS_BYTES)
    printf("row            an encoded image, %.0f to %.0f bytes, mean %.0f\n", f->lengths.least, f->lengths.most,
           f->lengths.sum / (double)MAX_OF(f->lengths.count, 1));
  if (s->kind == ROWS_SPARSE && f->lengths.count) {
    printf("non-zeros      %s, a row %.0f to %.0f, mean %.2f\n", grouped_text((int64_t)f->lengths.sum, a),
           f->lengths.least, f->lengths.most, f->lengths.sum / (double)f->lengths.count);
    printf("indices        %s to %s\n", grouped_text(f->least_index, a), grouped_text(f->most_index, b));
    printf("features       %s\n", grouped_text(features_of(f), a));
  }
  print_labels(f);
  TRY(print_columns(f->learned));
  printf("speed          %s rows/s, %.1f MB/s\n", grouped_text((int64_t)((double)f->rows / f->seconds), a),
         1e-6 * (double)f->bytes / f->seconds);
  print_first(f);
  return NULL;
}

static shoal_status inspect_with(const inspect_flags *flags, const char *path, findings *f) {
  text found = {0};
  shoal_pipeline_options o;
  shoal_pipeline *p = NULL;
  shoal_status status = data_read_options(&flags->read, path, BATCH, &found, &o);
  if (!status) status = shoal_pipeline_create(&o, &p);
  if (!status) pipeline_schema(p, &f->schema);
  if (!status && (f->schema.kind == ROWS_BYTES || o.transform)) { /* smaller batches */
    shoal_pipeline_destroy(p);
    p = NULL;
    o.batch_size = BATCH_ENCODED;
    status = shoal_pipeline_create(&o, &p);
  }
  if (!status) {
    f->files = pipeline_files(p)->count;
    f->bytes = data_files_bytes(pipeline_files(p));
    f->format = pipeline_format(p)->name;
    f->names = shoal_pipeline_class_names(p);
    f->read_from = found.data;
    f->learned = shoal_pipeline_preprocessing(p);
    status = read_through(flags, p, f);
  }
  if (!status && flags->json) status = print_json(path, f);
  else if (!status) status = print_text(path, f);
  shoal_pipeline_destroy(p);
  text_fini(&found);
  return status;
}

static shoal_status inspect(const inspect_flags *flags, const char *path) {
  findings f = {.largest = -1, .most_index = -1, .lengths = no_spread, .values = no_spread, .targets = no_spread};
  f.histogram = calloc(MOST_CLASSES, sizeof *f.histogram);
  f.first = json_array();
  shoal_status status = f.histogram && f.first ? inspect_with(flags, path, &f) : status_no_memory();
  free(f.histogram);
  json_decref(f.first);
  return status;
}

static int run_inspect(int argc, char **argv) {
  inspect_flags f = {.rows = 3};
  flags_parsed parsed;
  shoal_status status = flags_parse(inspect_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_data_inspect, stdout);
    return EXIT_GOOD;
  }
  if (!status && parsed.count != 1)
    status = status_make(SHOAL_ERR_ARGUMENT, "expected one file, folder, glob or list a,b,c, not %d", parsed.count);
  if (!status) status = inspect(&f, parsed.words[0]);
  return status ? command_fail(&command_data_inspect, status) : EXIT_GOOD;
}

const command command_data_inspect = {
    .name = "data inspect",
    .arguments = "PATH",
    .summary = "what files of rows hold: format, rows, shapes, labels, speed",
    .details = "PATH is a file, a folder, a glob (in quotes), a list a,b,c or the name of a\n"
               "data set. All rows are read once, in constant memory; every one is checked.\n"
               "\n"
               "Examples:\n"
               "  shoal data inspect mnist\n"
               "  shoal data inspect 'clicks/*.tfrecord' --json\n"
               "  shoal data inspect flowers/ --transform resize=224x224\n",
    .flags = inspect_table,
    .run = run_inspect,
};
