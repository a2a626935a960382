#include "data/line_file.h"

#include "base/mem.h"

#include <string.h>

shoal_status line_file_open(const format *kind, const char *path, const uint8_t *bytes, size_t n,
                            const rows_schema *schema, line_file **out) {
  line_file *f = calloc(1, sizeof *f);
  if (!f) return status_no_memory();
  f->base.format = kind;
  f->base.path = strdup(path);
  f->schema = *schema;
  shoal_status status = f->base.path ? NULL : status_no_memory();
  if (!status) status = bytes ? stream_open_memory(bytes, n, path, &f->lines.in) : stream_open(path, &f->lines.in);
  if (status) {
    line_file_close(&f->base);
    return status;
  }
  *out = f;
  return NULL;
}

shoal_status line_file_next(line_file *f, line_row holds_row, const uint8_t **line, size_t *n) {
  f->base.can_go_on = false;
  do TRY(status_wrap(lines_next(&f->lines, line, n), "%s", f->base.path));
  while (*line && !holds_row(*line, *n));
  return NULL;
}

shoal_status line_file_bad(line_file *f, size_t at, const char *message, ...) {
  va_list args;
  va_start(args, message);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, message, args);
  va_end(args);
  f->base.can_go_on = true;
  f->row++;
  return lines_blame(&f->lines, f->base.path, at, status);
}

shoal_status line_file_skip(line_file *f, line_row holds_row, int64_t rows, int64_t *got) {
  int64_t done = 0;
  for (; done < rows; done++) {
    const uint8_t *line;
    size_t n;
    TRY(line_file_next(f, holds_row, &line, &n));
    if (!line) break;
  }
  f->row += done;
  *got = done;
  return NULL;
}

void line_file_schema(const file_reader *reader, rows_schema *out) { *out = ((const line_file *)reader)->schema; }

void line_file_tell(const file_reader *reader, file_position *out) {
  const line_file *f = (const line_file *)reader;
  *out = (file_position){f->row, f->lines.next};
}

shoal_status line_file_seek(file_reader *reader, const file_position *to) {
  line_file *f = (line_file *)reader;
  TRY(lines_seek(&f->lines, to->offset));
  f->row = to->record;
  return NULL;
}

void line_file_close(file_reader *reader) {
  line_file *f = (line_file *)reader;
  if (!f) return;
  stream_close(f->lines.in);
  class_names_fini(&f->pair);
  free(f->base.path);
  free(f);
}
