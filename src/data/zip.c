#include "data/zip.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  END_BYTES = 22, /* of the record that ends an archive, without its comment */
  COMMENT_MAX = 65535,
  LOCATOR_BYTES = 20, /* of ZIP64's pointer to its own such record */
  END64_BYTES = 56,
  ENTRY_BYTES = 46, /* of an entry of the directory, without its name */
  LOCAL_BYTES = 30, /* of the header in front of a member, without its name */
  DIRECTORY_MAX = 64 << 20,
  STORED = 0,
  DEFLATED = 8
};

typedef struct {
  const char *path;
  int fd;
  uint64_t size;
} archive_file;

typedef struct {
  uint64_t offset, bytes, count;
} directory;

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

static shoal_status corrupted(const archive_file *f, uint64_t at, const char *what) {
  return status_make(SHOAL_ERR_INPUT, "%s: byte %llu: %s: the ZIP archive is corrupted or cut short, create it again",
                     f->path, (unsigned long long)at, what);
}

static shoal_status read_at(const archive_file *f, uint64_t at, uint8_t *out, size_t n) {
  if (at > f->size || n > f->size - at) return corrupted(f, at, "it points behind the end of the file");
  for (size_t done = 0; done < n;) {
    ssize_t got = pread(f->fd, out + done, n - done, (off_t)(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return status_errno(errno, "%s: cannot read", f->path);
    if (!got) return corrupted(f, at + done, "the file ends here");
    done += (size_t)got;
  }
  return NULL;
}

/* The place of the record that ends the archive: the last one that is there. */
static shoal_status find_end(const archive_file *f, uint64_t *at, uint8_t record[END_BYTES]) {
  size_t n = (size_t)MIN_OF(f->size, (uint64_t)END_BYTES + COMMENT_MAX);
  uint8_t *tail = malloc(n + 1);
  if (!tail) return status_no_memory();
  shoal_status status = read_at(f, f->size - n, tail, n);
  bool found = false;
  for (size_t i = n >= END_BYTES ? n - END_BYTES + 1 : 0; !status && !found && i-- > 0;) {
    if (memcmp(tail + i, "PK\5\6", 4)) continue;
    found = true;
    *at = f->size - n + i;
    memcpy(record, tail + i, END_BYTES);
  }
  free(tail);
  if (!status && !found) status = corrupted(f, f->size, "no end of a directory is found before it");
  return status;
}

static shoal_status find_directory(const archive_file *f, directory *out) {
  uint8_t end[END_BYTES], locator[LOCATOR_BYTES], end64[END64_BYTES];
  uint64_t at = 0;
  TRY(find_end(f, &at, end));
  directory d = {.count = u16(end + 10), .bytes = u32(end + 12), .offset = u32(end + 16)};
  if (at >= LOCATOR_BYTES) {
    TRY(read_at(f, at - LOCATOR_BYTES, locator, sizeof locator));
    if (!memcmp(locator, "PK\6\7", 4)) {
      TRY(read_at(f, u64(locator + 8), end64, sizeof end64));
      if (memcmp(end64, "PK\6\6", 4)) return corrupted(f, u64(locator + 8), "expected the end of a ZIP64 directory");
      d = (directory){.count = u64(end64 + 32), .bytes = u64(end64 + 40), .offset = u64(end64 + 48)};
    }
  }
  if (d.bytes > DIRECTORY_MAX || d.count > ZIP_MEMBERS_MAX)
    return corrupted(f, at, "the directory is larger than any that is read");
  *out = d;
  return NULL;
}

/* ZIP64's numbers for those that did not fit, in their order. extra: [n]. False: one is missing. */
static bool read_extra(const uint8_t *extra, size_t n, uint64_t *size, uint64_t *packed, uint64_t *local) {
  uint64_t *const places[] = {size, packed, local};
  size_t next = 0;
  for (size_t i = 0; i + 4 <= n;) {
    size_t length = u16(extra + i + 2), used = 0;
    if (length > n - i - 4) return false;
    for (; u16(extra + i) == 1 && next < COUNT_OF(places); next++) {
      if (*places[next] != UINT32_MAX) continue;
      if (used + 8 > length) break;
      *places[next] = u64(extra + i + 4 + used);
      used += 8;
    }
    i += 4 + length;
  }
  return *size != UINT32_MAX && *packed != UINT32_MAX && *local != UINT32_MAX;
}

/* The entry at `p`, `left` bytes before the directory ends; *took is its length. at: its place in the file. */
static shoal_status read_entry(const archive_file *f, const uint8_t *p, size_t left, uint64_t at, zip_member *out,
                               size_t *took) {
  if (left < ENTRY_BYTES || memcmp(p, "PK\1\2", 4)) return corrupted(f, at, "expected an entry of the directory");
  size_t name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
  if (left - ENTRY_BYTES < name + extra + comment) return corrupted(f, at, "an entry of the directory is cut short");
  int method = u16(p + 10);
  uint64_t packed = u32(p + 20), size = u32(p + 24), local = u32(p + 42);
  const char *word = (const char *)p + ENTRY_BYTES;
  if ((u16(p + 8) & 1) || (method != STORED && method != DEFLATED))
    return status_make(SHOAL_ERR_INPUT,
                       "%s: byte %llu: '%.*s' is %s: expected stored or deflated members, as "
                       "numpy.savez and savez_compressed write them",
                       f->path, (unsigned long long)at, (int)MIN_OF(name, (size_t)100), word,
                       u16(p + 8) & 1 ? "encrypted" : "packed in another way");
  if (!read_extra(p + ENTRY_BYTES + name, extra, &size, &packed, &local))
    return corrupted(f, at, "the sizes of a member are missing");
  uint8_t header[LOCAL_BYTES];
  TRY(read_at(f, local, header, sizeof header));
  if (memcmp(header, "PK\3\4", 4)) return corrupted(f, local, "expected the header of a member");
  uint64_t offset = local + LOCAL_BYTES + u16(header + 26) + u16(header + 28);
  if (offset > f->size || packed > f->size - offset || (method == STORED && packed != size))
    return corrupted(f, local, "a member is longer than the file");
  *out = (zip_member){strndup(word, name), {offset, packed, method == DEFLATED}};
  *took = ENTRY_BYTES + name + extra + comment;
  return out->name ? NULL : status_no_memory();
}

static shoal_status read_entries(const archive_file *f, const directory *d, const uint8_t *bytes, zip_archive *out) {
  out->members = calloc(d->count + 1, sizeof *out->members);
  if (!out->members) return status_no_memory();
  for (size_t at = 0; out->count < d->count; out->count++) {
    size_t took;
    TRY(read_entry(f, bytes + at, (size_t)d->bytes - at, d->offset + at, &out->members[out->count], &took));
    at += took;
  }
  return NULL;
}

static shoal_status read_archive(const archive_file *f, zip_archive *out) {
  directory d;
  TRY(find_directory(f, &d));
  uint8_t *bytes = malloc((size_t)d.bytes + 1);
  if (!bytes) return status_no_memory();
  shoal_status status = read_at(f, d.offset, bytes, (size_t)d.bytes);
  if (!status) status = read_entries(f, &d, bytes, out);
  free(bytes);
  return status;
}

shoal_status zip_open(const char *path, zip_archive *out) {
  archive_file f = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
  struct stat info;
  if (f.fd < 0) return status_make(SHOAL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
  zip_archive z = {0};
  shoal_status status = fstat(f.fd, &info) ? status_errno(errno, "%s: cannot find its size", path) : NULL;
  if (!status && !S_ISREG(info.st_mode))
    status = status_make(SHOAL_ERR_INPUT, "%s: is not a regular file: give the path of an archive", path);
  if (!status) {
    f.size = (uint64_t)info.st_size;
    status = read_archive(&f, &z);
  }
  close(f.fd);
  if (status)
    zip_close(&z);
  else
    *out = z;
  return status;
}

void zip_close(zip_archive *z) {
  for (size_t i = 0; i < z->count; i++) free(z->members[i].name);
  free(z->members);
  *z = (zip_archive){0};
}

const zip_member *zip_find(const zip_archive *z, const char *name) {
  for (size_t i = 0; i < z->count; i++)
    if (!strcmp(z->members[i].name, name)) return &z->members[i];
  return NULL;
}

shoal_status zip_read(const char *path, const zip_member *member, size_t limit, uint8_t **bytes, size_t *n) {
  stream *s = NULL;
  TRY(stream_open_part(path, path, &member->part, &s));
  uint8_t *all = NULL;
  size_t length = 0, capacity = 0, have;
  const uint8_t *at;
  shoal_status status = NULL;
  for (;;) {
    TRY_GOTO(status, stream_fill(s, 1, &at, &have), done);
    if (have > limit - length) {
      status = status_make(SHOAL_ERR_INPUT, "%s: '%s' unpacks to more than %zu bytes, which no valid file needs", path,
                           member->name, limit);
      goto done;
    }
    TRY_GOTO(status, mem_grow((void **)&all, &capacity, length + have + 1, 1), done);
    memcpy(all + length, at, have);
    all[length += have] = 0;
    if (!have) break;
    stream_advance(s, have);
  }
done:
  stream_close(s);
  if (status) {
    free(all);
    return status;
  }
  *bytes = all;
  *n = length;
  return NULL;
}
