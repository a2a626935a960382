#include "data/parquet.h"

#include "base/mem.h"
#include "base/text.h"
#include "data/parquet_pages.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "PAR1"
enum { TAIL = 8, FOOTER_MAX = 1 << 28, ROWS_AT_ONCE_BYTES = 64 * 1024 };

struct parquet_text {
  int fd;
  const uint8_t *bytes;
  uint64_t size;
  parquet_bytes file;
  parquet_footer footer;
  parquet_cursor *cursors; /* [columns] */
  bool named;              /* the line of names is out */
  size_t group;
  int64_t row; /* of the group */
  text line;   /* rows made, of which `taken` bytes were handed out */
  size_t taken;
};

bool parquet_begins(const uint8_t *head, size_t n) { return n >= 4 && !memcmp(head, MAGIC, 4); }

static shoal_status read_at(void *context, uint64_t offset, size_t n, uint8_t *out) {
  const parquet_text *p = context;
  if (offset > p->size || n > p->size - offset)
    return status_make(SHOAL_ERR_INPUT, "%s: byte %llu: the file ends before its data", p->file.name,
                       (unsigned long long)offset);
  if (p->fd < 0) {
    if (n) memcpy(out, p->bytes + offset, n);
    return NULL;
  }
  for (size_t done = 0; done < n;) {
    const ssize_t got = pread(p->fd, out + done, n - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return status_make(got ? SHOAL_ERR_SYSTEM : SHOAL_ERR_INPUT, "%s: byte %llu: cannot read: %s", p->file.name,
                         (unsigned long long)(offset + done), got ? strerror(errno) : "the file ends");
    done += (size_t)got;
  }
  return NULL;
}

static shoal_status read_footer(parquet_text *p) {
  uint8_t tail[TAIL];
  if (p->size < 4 + TAIL)
    return status_make(SHOAL_ERR_INPUT, "%s: a Parquet file of %llu bytes is cut short", p->file.name,
                       (unsigned long long)p->size);
  TRY(read_at(p, p->size - TAIL, TAIL, tail));
  const uint32_t n = (uint32_t)tail[0] | (uint32_t)tail[1] << 8 | (uint32_t)tail[2] << 16 | (uint32_t)tail[3] << 24;
  if (memcmp(tail + 4, MAGIC, 4) || n > FOOTER_MAX || n > p->size - 4 - TAIL)
    return status_make(SHOAL_ERR_INPUT, "%s: this Parquet file does not end as one, it is cut short: fetch it again",
                       p->file.name);
  uint8_t *bytes = malloc((size_t)n + 1);
  if (!bytes) return status_no_memory();
  shoal_status status = read_at(p, p->size - TAIL - n, n, bytes);
  if (!status) status = parquet_footer_read(bytes, n, p->size, p->file.name, &p->footer);
  free(bytes);
  return status;
}

shoal_status parquet_text_open(int fd, const uint8_t *bytes, uint64_t size, const char *name, parquet_text **out) {
  parquet_text *p = calloc(1, sizeof *p);
  if (!p) return status_no_memory();
  p->fd = fd;
  p->bytes = bytes;
  p->size = size;
  p->file = (parquet_bytes){read_at, p, name};
  shoal_status status = read_footer(p);
  if (!status && !(p->cursors = calloc(p->footer.n_columns, sizeof *p->cursors))) status = status_no_memory();
  if (status) {
    parquet_text_close(p);
    return status;
  }
  parquet_text_rewind(p);
  *out = p;
  return NULL;
}

void parquet_text_rewind(parquet_text *p) {
  p->named = false;
  p->group = 0;
  p->row = 0;
  p->line.length = p->taken = 0;
}

void parquet_text_close(parquet_text *p) {
  if (!p) return;
  for (size_t i = 0; p->cursors && i < p->footer.n_columns; i++) parquet_cursor_fini(&p->cursors[i]);
  free(p->cursors);
  parquet_footer_fini(&p->footer);
  text_fini(&p->line);
  free(p);
}

/* ---- text */

/* In quotes where it needs them. Ends of lines become blanks: a row is a line. */
static void add_words(text *to, const uint8_t *at, size_t n) {
  bool plain = n > 0 && at[0] != ' ' && at[n - 1] != ' ';
  for (size_t i = 0; plain && i < n; i++) plain = at[i] >= ' ' && !strchr(",\";|'", at[i]);
  if (plain) {
    text_add_bytes(to, (const char *)at, n);
    return;
  }
  if (!n) return;
  text_add_bytes(to, "\"", 1);
  for (size_t i = 0; i < n; i++) {
    const char c = at[i] < ' ' ? ' ' : (char)at[i];
    if (c == '"') text_add_bytes(to, "\"", 1);
    text_add_bytes(to, &c, 1);
  }
  text_add_bytes(to, "\"", 1);
}

static void add_whole(text *to, const parquet_column *c, int64_t value) {
  if (c->decimal_digits)
    text_add(to, "%.17g", (double)value / pow(10, c->decimal_digits));
  else if (c->is_unsigned)
    text_add(to, "%" PRIu64, c->type == PARQUET_INT32 ? (uint64_t)(uint32_t)value : (uint64_t)value);
  else
    text_add(to, "%" PRId64, value);
}

static void add_value(text *to, const parquet_column *c, const parquet_slice *v) {
  int32_t i32;
  int64_t i64;
  float f32;
  double f64;
  if (!v->at) return;
  switch (c->type) {
    case PARQUET_BOOLEAN: text_add(to, "%d", *v->at); break;
    case PARQUET_INT32:
      memcpy(&i32, v->at, sizeof i32);
      add_whole(to, c, i32);
      break;
    case PARQUET_INT64:
      memcpy(&i64, v->at, sizeof i64);
      add_whole(to, c, i64);
      break;
    case PARQUET_FLOAT:
      memcpy(&f32, v->at, sizeof f32);
      text_add(to, "%.9g", (double)f32);
      break;
    case PARQUET_DOUBLE:
      memcpy(&f64, v->at, sizeof f64);
      text_add(to, "%.17g", f64);
      break;
    default: add_words(to, v->at, v->n);
  }
}

static shoal_status add_row(parquet_text *p) {
  const parquet_group *group = &p->footer.groups[p->group];
  for (size_t i = 0; i < p->footer.n_columns; i++) {
    parquet_slice value;
    if (!p->row) parquet_cursor_begin(&p->cursors[i], &p->file, &p->footer.columns[i], &group->chunks[i]);
    TRY(parquet_cursor_next(&p->cursors[i], &value));
    if (i) text_add_bytes(&p->line, ",", 1);
    add_value(&p->line, &p->footer.columns[i], &value);
  }
  text_add_bytes(&p->line, "\n", 1);
  p->row++;
  return NULL;
}

static shoal_status make_text(parquet_text *p) {
  p->line.length = p->taken = 0;
  if (!p->named) {
    for (size_t i = 0; i < p->footer.n_columns; i++) {
      if (i) text_add_bytes(&p->line, ",", 1);
      const char *name = p->footer.columns[i].name;
      add_words(&p->line, (const uint8_t *)name, strlen(name));
    }
    text_add_bytes(&p->line, "\n", 1);
    p->named = true;
  }
  while (p->line.length < ROWS_AT_ONCE_BYTES && p->group < p->footer.n_groups) {
    if (p->row < p->footer.groups[p->group].rows) {
      TRY(add_row(p));
    } else {
      p->group++;
      p->row = 0;
    }
  }
  return p->line.failed ? status_no_memory() : NULL;
}

shoal_status parquet_text_read(parquet_text *p, uint8_t *out, size_t n, size_t *got) {
  if (p->taken == p->line.length) TRY(make_text(p));
  *got = MIN_OF(n, p->line.length - p->taken);
  if (*got) memcpy(out, p->line.data + p->taken, *got);
  p->taken += *got;
  return NULL;
}
