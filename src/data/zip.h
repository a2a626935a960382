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

/* NULL: no such member. */
const zip_member *zip_find(const zip_archive *z, const char *name);
/* A member's bytes in memory, with a NUL behind them; the caller frees them. More than `limit` of them are refused
 * before they are there: a member may be packed so well that a small file fills any memory. */
SHOAL_CHECKED shoal_status zip_read(const char *path, const zip_member *member, size_t limit, uint8_t **bytes,
                                    size_t *n);

typedef struct {
  const char *name;
  const void *bytes;
  size_t n;
} zip_item;
/* An archive of these members, stored as they are, under a final name only when it is whole. */
SHOAL_CHECKED shoal_status zip_write(const char *path, const zip_item *items, size_t n);

#endif
