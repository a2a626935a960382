/* ZIP archives: what is in them and where, for streams over their members. Stored and deflated members, ZIP64 too; no
 * encryption, no archive in several parts. */
#ifndef SHOAL_DATA_ZIP_H
#define SHOAL_DATA_ZIP_H

#include "data/stream.h"

typedef struct {
  char *name; /* owned */
  stream_part part;
} zip_member;

typedef struct {
  zip_member *members;
  size_t count;
} zip_archive;

enum { ZIP_MEMBERS_MAX = 1 << 16 };

/* Does a file with these first bytes begin like one? */
static inline bool zip_detect(const uint8_t *head, size_t n) {
  return n >= 4 && head[0] == 'P' && head[1] == 'K' && head[2] == 3 && head[3] == 4;
}

/* Reads the directory at the end of the file. INPUT error that names the byte when it is no archive, damaged, or packed
 * in a way that is not known. */
SHOAL_CHECKED shoal_status zip_open(const char *path, zip_archive *out);
void zip_close(zip_archive *z);

#endif
