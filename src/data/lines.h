/* The lines of a text, with where they are; "\n" and "\r\n" end them. */
#ifndef SHOAL_DATA_LINES_H
#define SHOAL_DATA_LINES_H

#include "data/stream.h"

typedef struct {
  stream *in;
  uint64_t offset; /* of the line given last */
  uint64_t next;   /* of the one after it */
  int64_t number;  /* lines up to and with the one given last; -1: not known, after a seek */
} line_reader;

/* *line: the next line without its end, *n bytes, valid until the next call; NULL at the end of the file. line[n] can
 * be read and is '\r', '\n' or 0. A line of more than 256 MiB is an INPUT error. */
SHOAL_CHECKED shoal_status lines_next(line_reader *r, const uint8_t **line, size_t *n);
/* Starts at a line's first byte. */
SHOAL_CHECKED shoal_status lines_seek(line_reader *r, uint64_t offset);
/* The number of the line given last, from 1; after a seek it is counted once, from the start of the file. */
SHOAL_CHECKED shoal_status lines_number(line_reader *r, int64_t *out);

/* Puts "PATH: line 12 at byte 3456: " before an error about the line given last, `at` bytes into it. Takes `status`. */
SHOAL_CHECKED shoal_status lines_blame(line_reader *r, const char *path, size_t at, shoal_status status);

#endif
