#include "data/csv_text.h"

#include "base/mem.h"
#include "data/number.h"

#include <string.h>
#include <strings.h>

enum {
  LINE_MAX_BYTES = 16 << 20, /* more is no line */
  LOOKED_AT = 64 * 1024,     /* bytes from which the separator is found out */
  LOOKED_LINES = 30
};

/* In the order in which they are tried: whoever separates by semicolons may have commas in numbers or words. */
static const struct {
  char separator;
  const char *name, *many;
} separators[] = {{'\t', "tab", "tabs"},
                  {';', "semicolon", "semicolons"},
                  {'|', "pipe", "pipes"},
                  {',', "comma", "commas"},
                  {' ', "blank", "blanks"}};

const char *csv_separator_name(char separator) {
  for (size_t i = 0; i < COUNT_OF(separators); i++)
    if (separators[i].separator == separator) return separators[i].many;
  return "commas";
}

char csv_separator_called(const char *name) {
  for (size_t i = 0; i < COUNT_OF(separators); i++)
    if ((name[0] == separators[i].separator && !name[1]) || !strcasecmp(name, separators[i].name) ||
        !strcasecmp(name, separators[i].many))
      return separators[i].separator;
  return !strcasecmp(name, "space") ? ' ' : 0;
}

/* ---- lines */

/* The end of the line (or record, with quoted line ends) that starts at `at`: its length without LF, or have when there
 * is none in `have` bytes. *open: a quote was left open. */
static size_t line_length(const uint8_t *at, size_t have, bool *open) {
  *open = false;
  const uint8_t *end = memchr(at, '\n', have);
  size_t n = end ? (size_t)(end - at) : have;
  if (!memchr(at, '"', n)) return n;
  bool quoted = false;
  for (n = 0; n < have; n++) {
    if (at[n] == '"')
      quoted = !quoted;
    else if (at[n] == '\n' && !quoted)
      return n;
  }
  *open = quoted;
  return have;
}

shoal_status csv_next_line(csv_text *t, const uint8_t **at, size_t *n, size_t *whole, const char **problem) {
  size_t need = 1;
  *problem = NULL;
  for (;;) {
    size_t have;
    bool open;
    TRY(stream_fill(t->in, need, at, &have));
    if (!have) {
      *n = *whole = 0;
      return NULL;
    }
    size_t length = line_length(*at, have, &open);
    bool ended = length < have, last = !ended && have < need;
    if (!ended && !last && have < LINE_MAX_BYTES) {
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
    stream_advance(t->in, *whole);
    if (t->line) t->line++;
    need = 1;
  }
}

void csv_pass_line(csv_text *t, const uint8_t *at, size_t whole) {
  if (t->line)
    for (const uint8_t *p = at; (p = memchr(p, '\n', whole - (size_t)(p - at))); p++) t->line++;
  stream_advance(t->in, whole);
}

/* ---- fields */

csv_cursor csv_fields(char separator, const uint8_t *line, size_t n) {
  while (separator == ' ' && n && line[n - 1] == ' ') n--;
  return (csv_cursor){line, line + n, separator, true};
}

/* Bytes of the UTF-8 character at p; 0: it is none. */
static size_t utf8_length(const uint8_t *p) {
  size_t n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
      (*p == 0xf4 && p[1] > 0x8f))
    return 0;
  return n;
}

/* A field that is no UTF-8 is taken for Latin-1, so that words can be kept as text. n: its length. */
static void as_utf8(char field[CSV_FIELD], size_t n) {
  const uint8_t *p = (const uint8_t *)field;
  size_t step;
  while (*p && (step = utf8_length(p))) p += step;
  if (!*p) return;
  char latin[CSV_FIELD];
  memcpy(latin, field, n + 1);
  size_t to = 0;
  for (size_t i = 0; i < n && to + 2 < CSV_FIELD; i++) {
    uint8_t b = (uint8_t)latin[i];
    if (b >= 0x80) {
      field[to++] = (char)(0xc0 | b >> 6);
      b = 0x80 | (b & 0x3f);
    }
    field[to++] = (char)b;
  }
  field[to] = 0;
}

static bool is_ascii(const char *bytes, size_t n) {
  uint8_t all = 0;
  for (size_t i = 0; i < n; i++) all |= (uint8_t)bytes[i];
  return all < 0x80;
}

bool csv_next_field(csv_cursor *c, char out[CSV_FIELD]) {
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
      if (n < CSV_FIELD - 1) out[n++] = (char)*p;
    }
    while (p < c->end && *p != (uint8_t)c->separator) p++;
  } else {
    const uint8_t *stop = memchr(p, c->separator, (size_t)(c->end - p));
    const uint8_t *field_end = stop ? stop : c->end;
    while (field_end > p && field_end[-1] == ' ') field_end--;
    n = MIN_OF((size_t)(field_end - p), (size_t)CSV_FIELD - 1);
    memcpy(out, p, n);
    p = stop ? stop : c->end;
  }
  out[n] = 0;
  if (!is_ascii(out, n)) as_utf8(out, n);
  c->more = p < c->end;
  c->next = p + c->more;
  return true;
}

bool csv_field_at(const csv_text *t, const uint8_t *line, size_t n, size_t column, char out[CSV_FIELD]) {
  csv_cursor c = csv_fields(t->separator, line, n);
  for (size_t i = 0; csv_next_field(&c, out); i++)
    if (i == column) return true;
  return false;
}

size_t csv_count_fields(char separator, const uint8_t *line, size_t n) {
  csv_cursor c = csv_fields(separator, line, n);
  char field[CSV_FIELD];
  size_t count = 0;
  while (count <= CSV_COLUMNS_MAX && csv_next_field(&c, field)) count++;
  return count;
}

bool csv_number(const csv_text *t, const char *field, float *out) {
  char copy[CSV_FIELD];
  const char *comma = t->separator == ';' ? strchr(field, ',') : NULL;
  if (comma && !strchr(field, '.')) {
    memcpy(copy, field, strlen(field) + 1);
    copy[comma - field] = '.';
    field = copy;
  }
  const uint8_t *at = (const uint8_t *)field;
  float value;
  if (!number_float(&at, &value) || *at) return false;
  *out = value;
  return true;
}

bool csv_is_missing(const char *field) {
  static const char *const words[] = {"NA", "N/A", "#N/A", "<NA>", "NaN", "-NaN", "null", "None", "nil", "?"};
  if (!*field) return true;
  for (size_t i = 0; i < COUNT_OF(words); i++)
    if (!strcasecmp(field, words[i])) return true;
  return false;
}

/* ---- the separator */

/* Fields of each of the first lines; 0: they differ, or there are none. whole: `head` ends where the text does. */
static size_t even_fields(const uint8_t *head, size_t n, int lines, char separator, bool whole) {
  size_t fields = 0;
  while (n && lines > 0) {
    bool open;
    size_t length = line_length(head, n, &open), used = length;
    if (length == n && !whole) break; /* cut */
    if (used && head[used - 1] == '\r') used--;
    if (used) {
      size_t found = csv_count_fields(separator, head, used);
      if (fields && found != fields) return 0;
      fields = found;
      lines--;
    }
    length += length < n;
    head += length;
    n -= length;
  }
  return fields;
}

static char find_even(const uint8_t *head, size_t n, int lines, bool blanks, bool whole) {
  for (size_t i = 0; i < COUNT_OF(separators); i++) {
    if (separators[i].separator == ' ' && !blanks) continue;
    if (even_fields(head, n, lines, separators[i].separator, whole) > 1) return separators[i].separator;
  }
  return 0;
}

char csv_find_separator(const uint8_t *head, size_t n, int lines, bool blanks) {
  return find_even(head, n, lines, blanks, !memchr(head, '\n', n));
}

shoal_status csv_text_open(const char *path, char separator, csv_text *out) {
  csv_text t = {.separator = separator, .line = 1};
  TRY(stream_open(path, &t.in));
  if (!separator) {
    const uint8_t *at;
    size_t have;
    shoal_status status = stream_fill(t.in, LOOKED_AT, &at, &have);
    if (status) { /* met again by whoever reads on */
      bool damaged = shoal_status_code(status) == SHOAL_ERR_INPUT;
      if (damaged) shoal_status_free(status);
      if (!damaged || (status = stream_fill(t.in, 1, &at, &have))) {
        csv_text_close(&t);
        return status;
      }
    }
    bool whole = have < LOOKED_AT;
    size_t n = MIN_OF(have, (size_t)LOOKED_AT);
    t.separator = find_even(at, n, LOOKED_LINES, true, whole);
    /* Lines that differ: by the first one. */
    if (!t.separator) t.separator = find_even(at, n, 1, false, whole);
    if (!t.separator) t.separator = ',';
  }
  *out = t;
  return NULL;
}

void csv_text_close(csv_text *t) {
  stream_close(t->in);
  *t = (csv_text){0};
}
