/* Lines of separated fields: the text of a CSV or TSV file.
 *
 * Fields may stand in double quotes, in which "" is a quote and the separator and line ends are ordinary; lines end
 * with LF or CR LF; empty lines count for nothing. Where fields are separated by blanks, any number of them counts as
 * one. Where semicolons separate, numbers may have a comma for a point. */
#ifndef SHOAL_DATA_CSV_TEXT_H
#define SHOAL_DATA_CSV_TEXT_H

#include "data/stream.h"

enum {
  CSV_FIELD = 256, /* longest number or word, bytes, with its NUL */
  CSV_COLUMNS_MAX = 1 << 20
};

typedef struct {
  stream *in;
  char separator;
  int64_t line; /* the next one, from 1; 0: not known, after a seek */
} csv_text;

/* separator 0: found out from the first lines. */
SHOAL_CHECKED shoal_status csv_text_open(const char *path, char separator, csv_text *out);
void csv_text_close(csv_text *t);

/* The next line that is not empty: *at, *n without its end, and *whole with it. *n is 0 only at the end of the file.
 * A line that never ends, or a quote: *n is set, *whole is what to pass over to go on, *problem says what it is. */
SHOAL_CHECKED shoal_status csv_next_line(csv_text *t, const uint8_t **at, size_t *n, size_t *whole,
                                         const char **problem);
/* Behind the line that was given last. */
void csv_pass_line(csv_text *t, const uint8_t *at, size_t whole);

typedef struct {
  const uint8_t *next, *end;
  char separator;
  bool more; /* there is a field at `next`, perhaps an empty one */
} csv_cursor;

csv_cursor csv_fields(char separator, const uint8_t *line, size_t n);
/* Copies the next field, without quotes and blanks around it, NUL-terminated; what is longer than the room is cut.
 * False when there is none. */
bool csv_next_field(csv_cursor *c, char out[CSV_FIELD]);
/* Field number `column`; false when the line has fewer. */
bool csv_field_at(const csv_text *t, const uint8_t *line, size_t n, size_t column, char out[CSV_FIELD]);
/* At most CSV_COLUMNS_MAX + 1. */
size_t csv_count_fields(char separator, const uint8_t *line, size_t n);

/* The whole field as a number, finite. */
bool csv_number(const csv_text *t, const char *field, float *out);
/* Does the field stand for a value that is not there: empty, NA, N/A, #N/A, <NA>, NaN, null, None, nil or "?"? Upper or
 * lower case. */
bool csv_is_missing(const char *field);

/* What separates the fields of the first `lines` lines: what gives each of them the same number, more than one, of
 * fields; 0: nothing does. blanks: also blanks. */
char csv_find_separator(const uint8_t *head, size_t n, int lines, bool blanks);
/* "commas" */
const char *csv_separator_name(char separator);
/* ',' for ",", "comma" and "commas"; 0: not known. */
char csv_separator_called(const char *name);

#endif
