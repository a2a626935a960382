/* What formats with a row a line share: the file, where it stands, and errors that name the line. Their readers are a
 * line_file, or begin with one. */
#ifndef SHOAL_DATA_LINE_FILE_H
#define SHOAL_DATA_LINE_FILE_H

#include "data/format.h"
#include "data/lines.h"

typedef struct {
  file_reader base;
  line_reader lines;
  int64_t row; /* rows passed */
  rows_schema schema;
  bool labels_optional, any_index; /* as in format_options */
  class_names pair; /* of two classes whose labels are other numbers than 0 and 1, or -1 and 1; none: they are not */
  float numbers[2]; /* those */
} line_file;

/* bytes NULL: the file `path`; otherwise `bytes` (borrowed until close), of which `path` is the name. */
SHOAL_CHECKED shoal_status line_file_open(const format *kind, const char *path, const uint8_t *bytes, size_t n,
                                          const rows_schema *schema, line_file **out);
/* The next line for which `holds_row` says where its row begins (NULL: it has none). *line is NULL at the end. */
typedef const uint8_t *(*line_row)(const uint8_t *line, size_t n);
SHOAL_CHECKED shoal_status line_file_next(line_file *f, line_row holds_row, const uint8_t **line, size_t *n);
/* A bad row, `at` bytes into the line given last: "PATH: line 12 at byte 3456: MESSAGE". Reading may go on after it. */
shoal_status line_file_bad(line_file *f, size_t at, const char *message, ...) __attribute__((format(printf, 3, 4)));

/* The functions of `format` that are the same for all of them. */
SHOAL_CHECKED shoal_status line_file_skip(line_file *f, line_row holds_row, int64_t rows, int64_t *got);
void line_file_schema(const file_reader *reader, rows_schema *out);
void line_file_tell(const file_reader *reader, file_position *out);
SHOAL_CHECKED shoal_status line_file_seek(file_reader *reader, const file_position *to);
void line_file_close(file_reader *reader);

#endif
