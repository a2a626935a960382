/* The Criteo click log: "label \t 13 whole numbers \t 26 hexadecimal words", any of them but the label may be missing.
 *
 * A row is sparse: number i is index i (1 .. 13) with the number itself as value; word c is index
 * 14 + hash(c, word) mod (features - 14) with value 1. What is missing has no entry; two words of a row that meet at an
 * index are one entry with value 2. With growing ids a word's id is the hash itself, above those of numbers. An entry's field is its column, 0 to 12 for numbers, 13 to 38 for words. */
#include "base/mem.h"
#include "base/random.h"
#include "data/line_file.h"
#include "data/number.h"
#include "data/sparse.h"

#include <string.h>

enum { COLUMNS = 1 + CRITEO_NUMBERS + CRITEO_WORDS, FIRST_WORD = CRITEO_NUMBERS + 1 };

int32_t criteo_index(int column, uint64_t word, int64_t features) {
  /* The high half of the product is a fair number below `features` without a division. */
  uint64_t hash = random_mix((uint64_t)column, word), room = (uint64_t)(features - FIRST_WORD);
  return FIRST_WORD + (int32_t)((unsigned __int128)hash * room >> 64);
}

/* A whole number with a sign or not, at most 18 digits. */
static bool read_number(const uint8_t **at, int64_t *out) {
  const uint8_t *p = *at;
  bool negative = *p == '-';
  p += negative;
  if (!number_digits(&p, out)) return false;
  if (negative) *out = -*out;
  *at = p;
  return true;
}

/* Eight hexadecimal digits at once; false when there are not eight. */
static inline bool read_eight(const uint8_t *at, uint64_t *out) {
#define EACH(byte) (0x0101010101010101ull * (byte))
  uint64_t w = (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24 |
               (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
  uint64_t lower = w | EACH(0x20);
  /* Bit 7 of each byte: at least the first of the range, and not beyond its last. */
  uint64_t digit = (w + EACH(0x80 - '0')) & ~(w + EACH(0x80 - '9' - 1));
  uint64_t letter = (lower + EACH(0x80 - 'a')) & ~(lower + EACH(0x80 - 'f' - 1));
  if ((w & EACH(0x80)) || ((digit | letter) & EACH(0x80)) != EACH(0x80)) return false;
  uint64_t v = __builtin_bswap64((w & EACH(0x0f)) + 9 * (w >> 6 & EACH(1)));
  v = (v | v >> 4) & 0x00ff00ff00ff00ffull;
  v = (v | v >> 8) & 0x0000ffff0000ffffull;
  *out = (v | v >> 16) & 0xffffffffu;
  return true;
#undef EACH
}

/* At most 16 hexadecimal digits. */
static inline bool read_word(const uint8_t **at, const uint8_t *end, uint64_t *out) {
  const uint8_t *p = *at;
  if (end - p >= 8 && (end - p == 8 || p[8] == '\t') && read_eight(p, out)) {
    *at = p + 8;
    return true;
  }
  uint64_t word = 0;
  for (; p - *at < 17; p++) {
    unsigned digit = (unsigned)*p - '0', letter = ((unsigned)*p | 0x20) - 'a';
    if (digit < 10)
      word = word << 4 | digit;
    else if (letter < 6)
      word = word << 4 | (letter + 10);
    else
      break;
  }
  if (p == *at || p - *at > 16) return false;
  *at = p;
  *out = word;
  return true;
}

typedef struct {
  int64_t label;
  int count;                /* of entries */
  int32_t indices[COLUMNS]; /* [count], numbers first, words in the order of their columns */
  float values[COLUMNS];    /* [count] */
  int32_t fields[COLUMNS];  /* [count] columns without the label's, from 0 on */
  int64_t ids[COLUMNS];     /* [count] as indices */
} click;

/* All columns but the label's? */
static bool lacks_label(const uint8_t *line, size_t n) {
  int tabs = 0;
  for (size_t i = 0; i < n && tabs < COLUMNS; i++) tabs += line[i] == '\t';
  return tabs == COLUMNS - 2;
}

/* NULL when the line is a row; else what was expected, in column *column (from 1) at byte *where of the line. labelled:
 * the label is there; otherwise it becomes -1. */
static const char *parse(const uint8_t *line, size_t n, bool labelled, int64_t features, click *out, int *column,
                         size_t *where) {
  const uint8_t *at = line, *end = line + n;
  out->count = 0;
  out->label = -1;
  for (int c = !labelled; c < COLUMNS; c++) {
    int64_t number;
    uint64_t word;
    *column = c + 1;
    *where = (size_t)(at - line);
    bool empty = at == end || *at == '\t';
    if (c == 0) {
      if (empty || !read_number(&at, &out->label) || out->label < -1 || out->label > 1)
        return "a label of 0 or 1 (or -1)";
    } else if (!empty && c <= CRITEO_NUMBERS) {
      if (!read_number(&at, &number)) return "a whole number or nothing";
      out->indices[out->count] = c;
      out->ids[out->count] = c;
      out->fields[out->count] = c - 1;
      out->values[out->count++] = (float)number;
    } else if (!empty) {
      if (!read_word(&at, end, &word)) return "a hexadecimal word or nothing";
      out->ids[out->count] = (int64_t)(random_mix((uint64_t)(c - CRITEO_NUMBERS), word) | (uint64_t)1 << 63);
      out->indices[out->count] = criteo_index(c - CRITEO_NUMBERS, word, features);
      out->fields[out->count] = c - 1;
      out->values[out->count++] = 1;
    }
    *where = (size_t)(at - line);
    if (c == COLUMNS - 1) return at == end ? NULL : "the end of the line after 40 columns";
    if (at == end || *at != '\t') return at == end ? "40 columns" : "a tab after the column";
    at++;
  }
  return NULL;
}

/* Sorts the words' entries and joins those that meet; numbers are in order. */
static void put_in_order(click *r) {
  int first = 0, kept;
  while (first < r->count && r->indices[first] < FIRST_WORD) first++;
  for (int i = first + 1; i < r->count; i++) {
    int32_t index = r->indices[i], field = r->fields[i];
    int j = i;
    for (; j > first && r->indices[j - 1] > index; j--) {
      r->indices[j] = r->indices[j - 1];
      r->fields[j] = r->fields[j - 1];
    }
    r->indices[j] = index;
    r->fields[j] = field;
  }
  kept = first;
  for (int i = first; i < r->count; i++) {
    if (i > first && r->indices[i] == r->indices[kept - 1]) {
      r->values[kept - 1] += 1;
      continue;
    }
    r->indices[kept] = r->indices[i];
    r->fields[kept] = r->fields[i];
    r->values[kept++] = 1;
  }
  r->count = kept;
}

/* Empty lines, as at the end of a file, are no rows. */
static const uint8_t *row_in(const uint8_t *line, size_t n) { return n ? line : NULL; }

static shoal_status read_rows(file_reader *reader, int64_t most, rows_block *into, int64_t *got) {
  line_file *f = (line_file *)reader;
  *got = 0;
  while (*got < most) {
    const uint8_t *line;
    size_t n, where;
    int column;
    click r;
    TRY(line_file_next(f, row_in, &line, &n));
    if (!line) break;
    const bool labelled = !f->labels_optional || !lacks_label(line, n);
    const char *expected = parse(line, n, labelled, f->schema.features, &r, &column, &where);
    if (expected)
      return line_file_bad(f, where,
                           "column %d of %d: expected %s: the layout is label, 13 whole numbers, 26 "
                           "hexadecimal words, with tabs between them",
                           column, COLUMNS, expected);
    if (!into->ids) put_in_order(&r);
    TRY(rows_reserve(into, 1, r.count));
    int64_t start = into->offsets[into->count];
    memcpy(into->indices + start, r.indices, (size_t)r.count * sizeof *r.indices);
    memcpy(into->values + start, r.values, (size_t)r.count * sizeof *r.values);
    memcpy(into->fields + start, r.fields, (size_t)r.count * sizeof *r.fields);
    if (into->ids) memcpy(into->ids + start, r.ids, (size_t)r.count * sizeof *r.ids);
    into->labels[into->count] = labelled ? r.label > 0 : -1;
    into->offsets[++into->count] = start + r.count;
    f->row++;
    ++*got;
  }
  return NULL;
}

static shoal_status skip_rows(file_reader *reader, int64_t rows, int64_t *got) {
  return line_file_skip((line_file *)reader, row_in, rows, got);
}

/* bytes NULL: the file `path`. */
static shoal_status open_any(const char *path, const uint8_t *bytes, size_t n, const format_options *options,
                             file_reader **out) {
  int64_t features = options->features ? options->features : CRITEO_FEATURES;
  if (features <= FIRST_WORD || features > INT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "expected %d to %d features, found %lld", FIRST_WORD + 1, INT32_MAX,
                       (long long)features);
  if (options->classes && options->classes != 2)
    return status_make(SHOAL_ERR_ARGUMENT, "the click log has 2 classes, not %d", options->classes);
  const rows_schema schema = {
      .kind = ROWS_SPARSE, .scale = 1, .features = features, .classes = 2, .fields = true, .ids = options->ids};
  line_file *f;
  TRY(line_file_open(&format_criteo, path, bytes, n, &schema, &f));
  f->labels_optional = options->labels_optional;
  *out = &f->base;
  return NULL;
}

static shoal_status open_file(const char *path, const format_options *options, file_reader **out) {
  return open_any(path, NULL, 0, options, out);
}

shoal_status criteo_open_memory(const uint8_t *bytes, size_t n, const char *name, const format_options *options,
                                file_reader **out) {
  return open_any(name, bytes, n, options, out);
}

/* The first line is a row, with or without its label. */
static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  const uint8_t *end = n ? memchr(head, '\n', n) : NULL;
  if (folder || !end) return false;
  click r;
  int column;
  size_t where, length = (size_t)(end - head);
  if (length && head[length - 1] == '\r') length--;
  return !parse(head, length, !lacks_label(head, length), CRITEO_FEATURES, &r, &column, &where);
}

const format format_criteo = {
    .name = "criteo",
    .summary = "the Criteo click log: label, 13 numbers, 26 hexadecimal words, tabs between (sparse, words hashed)",
    .detect = detect,
    .open = open_file,
    .schema = line_file_schema,
    .read = read_rows,
    .skip = skip_rows,
    .tell = line_file_tell,
    .seek = line_file_seek,
    .close = line_file_close,
};
