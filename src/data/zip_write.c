#include "base/mem.h"
#include "base/text.h"
#include "data/zip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { VERSION = 20, DATE = (2026 - 1980) << 9 | 1 << 5 | 1 /* the same bytes each time */ };

static void put(FILE *f, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i++) putc((int)(value >> (8 * i) & 255), f);
}

/* What the header of a member and its entry in the directory share. */
static void put_facts(FILE *f, const zip_item *m, uint32_t crc) {
  put(f, 0, 2); /* flags */
  put(f, 0, 2); /* stored */
  put(f, 0, 2); /* time */
  put(f, DATE, 2);
  put(f, crc, 4);
  put(f, (uint32_t)m->n, 4);
  put(f, (uint32_t)m->n, 4);
  put(f, (uint32_t)strlen(m->name), 2);
  put(f, 0, 2); /* extra */
}

static uint32_t crc_of(const zip_item *m) { return (uint32_t)crc32_z(0, m->n ? m->bytes : (const void *)"", m->n); }

static void write_members(FILE *f, const zip_item *items, size_t n) {
  size_t at = 0, directory = 0;
  for (size_t i = 0; i < n; i++) {
    fputs("PK\3\4", f);
    put(f, VERSION, 2);
    put_facts(f, &items[i], crc_of(&items[i]));
    fputs(items[i].name, f);
    fwrite(items[i].bytes, 1, items[i].n, f);
    directory += 30 + strlen(items[i].name) + items[i].n;
  }
  size_t end = directory;
  for (size_t i = 0; i < n; i++) {
    fputs("PK\1\2", f);
    put(f, VERSION, 2);
    put(f, VERSION, 2);
    put_facts(f, &items[i], crc_of(&items[i]));
    put(f, 0, 2); /* comment */
    put(f, 0, 2); /* part of an archive in several */
    put(f, 0, 2);
    put(f, 0, 4);
    put(f, (uint32_t)at, 4);
    fputs(items[i].name, f);
    at += 30 + strlen(items[i].name) + items[i].n;
    end += 46 + strlen(items[i].name);
  }
  fputs("PK\5\6", f);
  put(f, 0, 4);
  put(f, (uint32_t)n, 2);
  put(f, (uint32_t)n, 2);
  put(f, (uint32_t)(end - directory), 4);
  put(f, (uint32_t)directory, 4);
  put(f, 0, 2);
}

shoal_status zip_write(const char *path, const zip_item *items, size_t n) {
  size_t all = 0;
  for (size_t i = 0; i < n; i++) all = mem_plus(all, items[i].n + 200);
  if (all > UINT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: a ZIP archive of more than 4 GiB is not written: use .safetensors",
                       path);
  char *temporary = NULL;
  if (asprintf(&temporary, "%s.tmp%ld", path, (long)getpid()) < 0) return status_no_memory();
  FILE *f = fopen(temporary, "wbe");
  shoal_status status = f ? NULL : status_errno(errno, "cannot write %s", path);
  if (f) {
    write_members(f, items, n);
    bool good = !ferror(f);
    if (fclose(f) || !good || rename(temporary, path)) status = status_errno(errno, "cannot write %s", path);
    if (status) remove(temporary);
  }
  free(temporary);
  return status;
}
