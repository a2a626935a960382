/* LIBSVM / SVMlight text: "label index:value index:value ...", indices ascending; and LIBFFM's: "label field:index:value ...",
 * in any order.
 *
 * Indices are kept as they stand in the file, so the feature space is one larger than the largest of them. "# ..." ends
 * a line, "qid:7" is passed over, lines without a row do not count. Labels -1/+1 become 0/1, other whole numbers are
 * classes as they stand; where two classes are asked for, they may have any two numbers. A file whose first lines have a
 * fraction among the labels is one of targets. */
#include "base/mem.h"
#include "data/line_file.h"
#include "data/number.h"
#include "data/sparse.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  LOOK_BYTES = 64 * 1024, /* of the file's head that decide what the labels are */
  FIELDS_MAX = 1 << 20
};

static inline bool is_space(uint8_t c) { return c == ' ' || c == '\t'; }
/* A token ends here: a space, the end of the line, a comment, or what follows a file without a last newline. */
static inline bool is_end(const uint8_t *at, const uint8_t *end) { return at >= end || is_space(*at) || *at == '#'; }

static inline const uint8_t *skip_space(const uint8_t *at) {
  while (is_space(*at)) at++;
  return at;
}

/* NULL: the line holds no row. */
static const uint8_t *row_in(const uint8_t *line, size_t n) {
  const uint8_t *at = skip_space(line);
  return at >= line + n || *at == '#' ? NULL : at;
}

/* For messages: the word at `at`, shortened. */
typedef struct {
  char text[24];
} word;

static word word_at(const uint8_t *at, const uint8_t *end) {
  word w = {{0}};
  size_t n = 0;
  for (; at + n < end && !is_space(at[n]) && n < sizeof w.text - 1; n++)
    w.text[n] = at[n] < 0x20 || at[n] > 0x7e ? '?' : (char)at[n];
  return w;
}

/* A bad row, of which `at` is the place in its line. */
#define bad(f, line, at, ...) line_file_bad(f, (size_t)((at) - (line)), __VA_ARGS__)

static inline int64_t limit_of(const line_file *f) {
  if (f->schema.ids) return INT64_MAX;
  return f->schema.features && !f->any_index ? f->schema.features : INT32_MAX;
}

/* What an entry looks like. */
static inline const char *entry_form(const line_file *f) {
  return f->schema.fields ? "field:index:value" : "index:value";
}

/* As number_digits, which takes 18 of them. */
static bool read_index(const uint8_t **at, int64_t *out) {
  const uint8_t *p = *at;
  uint64_t number = 0;
  for (unsigned d; (d = (unsigned)*p - '0') < 10 && p - *at < 20; p++) number = number * 10 + d;
  if (p == *at || p - *at > 19 || number > INT64_MAX) return false;
  *at = p;
  *out = (int64_t)number;
  return true;
}

/* Or does the row begin with index:value? */
static bool has_label(const uint8_t *at) {
  int64_t index;
  return !(read_index(&at, &index) && *at == ':');
}

static shoal_status read_label(line_file *f, const uint8_t *line, const uint8_t **at, const uint8_t *end, float *out) {
  const uint8_t *start = *at;
  *out = -1;
  if (f->labels_optional && !has_label(start)) return NULL;
  if (!number_float(at, out) || !is_end(*at, end))
    return bad(f, line, start, "expected a number as label, found '%s'", word_at(start, end).text);
  return NULL;
}

static shoal_status to_class(line_file *f, const uint8_t *line, const uint8_t *at, float number, int32_t *out) {
  int classes = f->schema.classes;
  for (int i = 0; i < f->pair.count; i++)
    if (number == f->numbers[i]) {
      *out = i;
      return NULL;
    }
  if (f->pair.count)
    return bad(f, line, at, "the label %g is none of the two classes, %s and %s", (double)number, f->pair.names[0],
               f->pair.names[1]);
  int64_t label = fabsf(number) < 1e9f ? (int64_t)number : -2;
  if ((float)label != number)
    return bad(f, line, at,
               "expected a whole number as label, found %g: targets must show within the first %d bytes "
               "of the file",
               (double)number, LOOK_BYTES);
  if (label == -1 && (classes == 2 || !classes)) label = 0;
  if (label < 0 || (classes && label >= classes))
    return classes == 2 ? bad(f, line, at, "expected a label of 0 or 1, or -1 or 1, found %g: there are two classes",
                              (double)number)
                        : bad(f, line, at, "expected a label from 0 to %d, found %g", classes ? classes - 1 : INT32_MAX,
                              (double)number);
  *out = (int32_t)label;
  return NULL;
}

/* What is wrong with the pair at `at`; the fast loop only saw that something is. */
static shoal_status bad_pair(line_file *f, const uint8_t *line, const uint8_t *at, const uint8_t *end,
                             int64_t previous) {
  const uint8_t *p = at;
  const int64_t limit = limit_of(f);
  int64_t index, field;
  float value;
  if (f->schema.fields && (!number_digits(&p, &field) || *p++ != ':' || field >= FIELDS_MAX))
    return bad(f, line, at, "expected field:index:value with fields from 0 to %d, found '%s'", FIELDS_MAX - 1,
               word_at(at, end).text);
  if (*p == '-') return bad(f, line, at, "expected an index from 0 on, found '%s'", word_at(at, end).text);
  const uint8_t *digits = p;
  while ((unsigned)*p - '0' < 10) p++;
  if (f->schema.ids && p - digits > 18 && *p == ':' &&
      (p - digits > 19 || memcmp(digits, "9223372036854775807", 19) >= 0))
    return bad(f, line, at, "expected ids from 0 to %lld, found '%s'", (long long)INT64_MAX - 1, word_at(at, end).text);
  p = digits;
  if (!read_index(&p, &index) || *p != ':')
    return bad(f, line, at, "expected %s, found '%s'", entry_form(f), word_at(at, end).text);
  if (index >= limit)
    return bad(f, line, at, "expected indices from 0 to %lld, found %lld: check --features or the data",
               (long long)limit - 1, (long long)index);
  if (index <= previous)
    return bad(f, line, at, "expected ascending indices without duplicates, found %lld after %lld: sort the row",
               (long long)index, (long long)previous);
  p++;
  const uint8_t *number = p;
  if (!number_float(&p, &value) || !is_end(p, end))
    return bad(f, line, number, "expected a finite number as value, found '%s'", word_at(number, end).text);
  return status_make(SHOAL_ERR_INTERNAL, "%s: a good pair was refused", f->base.path);
}

/* Puts the entries of a row into the order of their indices; false: two have the same one. */
static bool sort_entries(int32_t *indices, float *values, int32_t *fields, int64_t n) {
  int64_t gap = 1;
  while (gap < n / 3) gap = 3 * gap + 1;
  for (; gap; gap /= 3)
    for (int64_t i = gap; i < n; i++) {
      const int32_t index = indices[i], field = fields[i];
      const float value = values[i];
      int64_t at = i;
      for (; at >= gap && indices[at - gap] > index; at -= gap) {
        indices[at] = indices[at - gap];
        values[at] = values[at - gap];
        fields[at] = fields[at - gap];
      }
      indices[at] = index;
      values[at] = value;
      fields[at] = field;
    }
  for (int64_t i = 1; i < n; i++)
    if (indices[i] == indices[i - 1]) return false;
  return true;
}

static shoal_status read_row(line_file *f, const uint8_t *line, const uint8_t *at, const uint8_t *end,
                             rows_block *into) {
  const uint8_t *label_at = at;
  float label;
  TRY(read_label(f, line, &at, end, &label));
  TRY(rows_reserve(into, 1, (end - at) / 4 + 1)); /* " 1:1" */
  int64_t row = into->count, start = into->offsets[row];
  into->labels[row] = 0;
  if (f->schema.real_labels)
    into->targets[row] = label;
  else if (at == label_at)
    into->labels[row] = -1; /* there is none */
  else
    TRY(to_class(f, line, label_at, label, &into->labels[row]));
  int32_t *index_at = into->indices + start;
  float *value_at = into->values + start;
  int32_t *field_at = f->schema.fields ? into->fields + start : NULL;
  int64_t *id_at = f->schema.ids ? into->ids + start : NULL;
  const int64_t limit = limit_of(f);
  const size_t most_digits = id_at ? 19 : 18;
  int64_t previous = -1, field = 0;
  bool sorted = true;
  for (;;) {
    at = skip_space(at);
    if (at >= end || *at == '#') break;
    const uint8_t *pair = at;
    if (field_at && (!number_digits(&at, &field) || *at++ != ':' || field >= FIELDS_MAX))
      return bad_pair(f, line, pair, end, previous);
    const uint8_t *index_from = at;
    uint64_t number = 0; /* may wrap round: the digits are counted */
    for (unsigned d; (d = (unsigned)*at - '0') < 10; at++) number = number * 10 + d;
    size_t digits = (size_t)(at - index_from);
    int64_t index = (int64_t)number;
    if (field_at && index <= previous) {
      sorted = false;
      previous = -1;
    }
    if (digits - 1 >= most_digits || *at != ':' || index >= limit || index <= previous) {
      if (pair[0] == 'q' && end - pair > 4 && !memcmp(pair, "qid:", 4)) {
        while (!is_end(at, end)) at++;
        continue;
      }
      return bad_pair(f, line, pair, end, previous);
    }
    at++;
    /* A single digit is by far the most frequent value. */
    if ((unsigned)*at - '0' < 10 && (is_space(at[1]) || at + 1 == end)) {
      *value_at = (float)(*at - '0');
      at++;
    } else if (!number_float(&at, value_at) || !is_end(at, end)) {
      return bad_pair(f, line, pair, end, previous);
    }
    *index_at++ = id_at ? 0 : (int32_t)index;
    if (id_at) *id_at++ = index;
    value_at++;
    if (field_at) *field_at++ = (int32_t)field;
    previous = index;
  }
  if (!sorted && !id_at &&
      !sort_entries(into->indices + start, into->values + start, into->fields + start,
                    index_at - (into->indices + start)))
    return bad(f, line, label_at, "an index is there twice in this row: add its values up");
  into->offsets[row + 1] = start + (index_at - (into->indices + start));
  return NULL;
}

static shoal_status read_rows(file_reader *reader, int64_t most, rows_block *into, int64_t *got) {
  line_file *f = (line_file *)reader;
  *got = 0;
  while (*got < most) {
    const uint8_t *line;
    size_t n;
    TRY(line_file_next(f, row_in, &line, &n));
    if (!line) break;
    TRY(read_row(f, line, row_in(line, n), line + n, into));
    into->count++;
    f->row++;
    ++*got;
  }
  return NULL;
}

static shoal_status skip_rows(file_reader *reader, int64_t rows, int64_t *got) {
  return line_file_skip((line_file *)reader, row_in, rows, got);
}

/* What the labels of the first lines are, unless the caller has said so. */
static shoal_status learn_labels(line_file *f) {
  bool minus = false, zero = false, one = false, other = false, real = false;
  while (f->lines.next < LOOK_BYTES && !f->schema.classes) {
    const uint8_t *line, *at;
    size_t n;
    float label;
    shoal_status status = lines_next(&f->lines, &line, &n);
    if (status) shoal_status_free(status); /* reading comes upon it again */
    if (status || !line) break;
    if (!(at = row_in(line, n)) || !has_label(at) || !number_float(&at, &label)) continue;
    if (label == -1)
      minus = true;
    else if (label == 0)
      zero = true;
    else if (label == 1)
      one = true;
    else if (label != truncf(label) || label < 0)
      real = true;
    else
      other = true;
  }
  f->schema.real_labels = real;
  if (!real && !other && one && (minus || zero)) f->schema.classes = 2;
  return lines_seek(&f->lines, 0);
}

/* What two classes are called whose numbers are such. */
static shoal_status name_pair(line_file *f, float low, float high) {
  const float numbers[] = {low, high};
  for (int i = 0; i < 2; i++) {
    char name[32];
    snprintf(name, sizeof name, "%.9g", (double)numbers[i]);
    f->numbers[i] = numbers[i];
    TRY(class_names_add(&f->pair, name));
  }
  f->pair.ordered = true; /* by number */
  return NULL;
}

/* Of a file that holds two classes: their labels, unless they are 0 and 1, or -1 and 1. If the first lines do not tell, all
 * are looked at. */
static shoal_status learn_pair(line_file *f) {
  float seen[2];
  int n = 0;
  bool usual = true;
  while (n <= 2) {
    if (f->lines.next >= LOOK_BYTES && usual && (n == 2 || (n == 1 && seen[0] != 1))) break;
    const uint8_t *line, *at;
    size_t length;
    float label;
    shoal_status status = lines_next(&f->lines, &line, &length);
    if (status) shoal_status_free(status); /* reading comes upon it again */
    if (status || !line) break;
    if (!(at = row_in(line, length)) || !has_label(at) || !number_float(&at, &label)) continue;
    usual &= label == -1 || label == 0 || label == 1;
    bool known = false;
    for (int i = 0; i < MIN_OF(n, 2); i++) known |= seen[i] == label;
    if (!known && n < 2) seen[n] = label;
    n += !known;
  }
  if (!usual && n == 2) TRY(name_pair(f, fminf(seen[0], seen[1]), fmaxf(seen[0], seen[1])));
  return lines_seek(&f->lines, 0);
}

/* As the caller has them, of other files. */
static shoal_status take_pair(line_file *f, const class_names *names) {
  const uint8_t *low = (const uint8_t *)names->names[0], *high = (const uint8_t *)names->names[1];
  float numbers[2];
  if (!number_float(&low, &numbers[0]) || *low || !number_float(&high, &numbers[1]) || *high) return NULL;
  return name_pair(f, numbers[0], numbers[1]);
}

static shoal_status find_pair(line_file *f, const class_names *known) {
  if (!known) return learn_pair(f);
  if (known->count == 2) return take_pair(f, known);
  return status_make(SHOAL_ERR_INPUT,
                     "%s: the files hold more than two classes (%s, %s, %s ...), but only two are supported here",
                     f->base.path, known->names[0], known->names[1], known->names[2]);
}

static const class_names *names(const file_reader *reader) {
  const line_file *f = (const line_file *)reader;
  return f->pair.count ? &f->pair : NULL;
}

/* bytes NULL: the file `path`. */
static shoal_status open_any(const format *kind, const char *path, const uint8_t *bytes, size_t n,
                             const format_options *options, file_reader **out) {
  if (options->features < 0 || options->features > INT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "expected at most %d features, found %lld", INT32_MAX,
                       (long long)options->features);
  const rows_schema schema = {.kind = ROWS_SPARSE,
                              .scale = 1,
                              .features = options->features,
                              .classes = options->classes,
                              .fields = kind == &format_libffm,
                              .ids = options->ids};
  line_file *f;
  TRY(line_file_open(kind, path, bytes, n, &schema, &f));
  f->labels_optional = options->labels_optional;
  f->any_index = options->any_index;
  shoal_status status = learn_labels(f);
  if (!status && options->classes == 2) status = find_pair(f, options->names);
  if (status)
    line_file_close(&f->base);
  else
    *out = &f->base;
  return status;
}

static shoal_status open_file(const char *path, const format_options *options, file_reader **out) {
  return open_any(&format_libsvm, path, NULL, 0, options, out);
}

static shoal_status open_ffm_file(const char *path, const format_options *options, file_reader **out) {
  return open_any(&format_libffm, path, NULL, 0, options, out);
}

shoal_status libsvm_open_memory(const uint8_t *bytes, size_t n, const char *name, const format_options *options,
                                file_reader **out) {
  return open_any(&format_libsvm, name, bytes, n, options, out);
}

shoal_status libffm_open_memory(const uint8_t *bytes, size_t n, const char *name, const format_options *options,
                                file_reader **out) {
  return open_any(&format_libffm, name, bytes, n, options, out);
}

/* The first line with a row: a number (the label, which may be missing), then at least one entry of so many numbers
 * (the first four are looked at). */
static bool looks_like(const uint8_t *head, size_t n, bool folder, int numbers) {
  uint8_t copy[4097];
  if (folder || !n || memchr(head, 0, MIN_OF(n, sizeof copy - 1))) return false;
  size_t length = MIN_OF(n, sizeof copy - 1);
  memcpy(copy, head, length);
  copy[length] = 0;
  for (const uint8_t *line = copy, *stop = copy + length; line < stop;) {
    const uint8_t *end = memchr(line, '\n', (size_t)(stop - line)), *at;
    if (!end) end = stop;
    if ((at = row_in(line, (size_t)(end - line) - (end > line && end[-1] == '\r')))) {
      float number;
      int64_t index;
      int pairs = 0;
      if (has_label(at) && (!number_float(&at, &number) || !is_space(*at))) return false;
      for (; pairs < 4; pairs++) {
        at = skip_space(at);
        if (end - at > 4 && !memcmp(at, "qid:", 4))
          while (!is_end(at, end)) at++;
        at = skip_space(at);
        if (at >= end || *at == '#' || *at == '\r') break;
        for (int i = 1; i < numbers; i++)
          if (!read_index(&at, &index) || *at++ != ':') return false;
        if (!number_float(&at, &number) || *at == ':') return false;
      }
      return pairs > 0;
    }
    line = end + 1;
  }
  return false;
}

static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  return looks_like(head, n, folder, 2);
}

static bool detect_ffm(const char *path, const uint8_t *head, size_t n, bool folder) {
  return looks_like(head, n, folder, 3);
}

const format format_libsvm = {
    .name = "libsvm",
    .summary = "LIBSVM / SVMlight text: label index:value ... (sparse)",
    .detect = detect,
    .open = open_file,
    .schema = line_file_schema,
    .read = read_rows,
    .skip = skip_rows,
    .tell = line_file_tell,
    .seek = line_file_seek,
    .close = line_file_close,
    .names = names,
};

const format format_libffm = {
    .name = "libffm",
    .summary = "LIBFFM text: label field:index:value ... (sparse, with fields)",
    .detect = detect_ffm,
    .open = open_ffm_file,
    .schema = line_file_schema,
    .read = read_rows,
    .skip = skip_rows,
    .tell = line_file_tell,
    .seek = line_file_seek,
    .close = line_file_close,
    .names = names,
};
