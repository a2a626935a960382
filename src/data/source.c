#include "data/source.h"

#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"

#include <string.h>

#define FILE_ORDER_STREAM 0x66696c6573ull /* names the random numbers that shuffle the files */

/* ---- files */

/* Files in this shard. */
static int64_t shard_files(const source *s) {
  int64_t n = (int64_t)s->files.count;
  return s->by_row ? n : (n - s->shard + s->shards - 1) / s->shards;
}

/* File number i of the shard in the epoch under way. */
static const char *shard_path(const source *s, int64_t i) {
  return s->files.paths[s->order[s->by_row ? i : s->shard + i * s->shards]];
}

static shoal_status open_file(const source *s, const char *path, file_reader **out) {
  const format *f = s->forced;
  if (!f) TRY(format_detect(path, &f));
  return f->open(path, &s->options, out);
}

static void close_reader(source *s) {
  if (s->reader) s->reader->format->close(s->reader);
  s->reader = NULL;
}

static const char *kind_name(rows_kind kind) {
  return kind == ROWS_DENSE ? "dense" : kind == ROWS_SPARSE ? "sparse" : "encoded";
}

/* Rows of all files go into the same blocks. */
static shoal_status check_schema(const source *s, const file_reader *r) {
  rows_schema have;
  r->format->schema(r, &have);
  const rows_schema *want = &s->schema;
  const char *first = s->files.paths[0];
  if (have.real_labels && want->real_labels && rows_targets(&have) != rows_targets(want))
    return status_make(SHOAL_ERR_INPUT, "%s: rows have %lld numbers to be predicted, but those of %s have %lld",
                       r->path, (long long)rows_targets(&have), first, (long long)rows_targets(want));
  if (have.kind != want->kind || have.real_labels != want->real_labels)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: %s rows with %s, but %s has %s rows with %s: read files of one kind at a "
                       "time",
                       r->path, kind_name(have.kind), have.real_labels ? "numbers" : "classes", first,
                       kind_name(want->kind), want->real_labels ? "numbers" : "classes");
  if (have.weighted != want->weighted)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: its rows have %s, but those of %s have %s: read files of one kind at a time", r->path,
                       have.weighted ? "weights" : "no weights", first, want->weighted ? "some" : "none");
  if (have.fields != want->fields)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: its entries have %s, but those of %s have %s: read files of one kind at a time", r->path,
                       have.fields ? "fields" : "no fields", first, want->fields ? "some" : "none");
  if (have.kind == ROWS_DENSE && (have.dtype != want->dtype || !shoal_shape_equal(&have.shape, &want->shape))) {
    char a[SHOAL_SHAPE_TEXT], b[SHOAL_SHAPE_TEXT];
    return status_make(SHOAL_ERR_INPUT, "%s: rows are %s%s, but those of %s are %s%s: read files of one shape", r->path,
                       shoal_dtype_name(have.dtype), shoal_shape_text(&have.shape, a), first,
                       shoal_dtype_name(want->dtype), shoal_shape_text(&want->shape, b));
  }
  return NULL;
}

/* Opens the next file; *open false: there is none. */
static shoal_status open_next(source *s, bool *open) {
  *open = false;
  if (s->position.file >= shard_files(s)) return NULL;
  file_reader *reader;
  TRY(open_file(s, shard_path(s, s->position.file), &reader));
  shoal_status status = check_schema(s, reader);
  const file_position *at = &s->position.at;
  if (!status && (at->record || at->offset)) status = reader->format->seek(reader, at);
  if (status) {
    reader->format->close(reader);
    return status;
  }
  s->reader = reader;
  *open = true;
  return NULL;
}

static void end_file(source *s) {
  if (s->by_row) {
    file_position end;
    s->reader->format->tell(s->reader, &end);
    s->position.base += end.record;
  }
  close_reader(s);
  s->position.file++;
  s->position.at = (file_position){0};
}

/* ---- rows */

static shoal_status too_bad(const source *s, shoal_status last) {
  return status_make(SHOAL_ERR_INPUT, "%lld of %lld rows are bad, more than 1 %%, so the run stops; the last one: %s",
                     (long long)s->position.bad, (long long)s->position.seen,
                     last ? shoal_status_message(last) : "passed over before");
}

/* A bad row is passed over when that is wanted and possible. Takes `status`. */
static shoal_status pass_over(source *s, shoal_status status) {
  if (!s->skip_bad || shoal_status_code(status) != SHOAL_ERR_INPUT) return status;
  if (!s->reader->can_go_on)
    return status_wrap(status, "the rows after this one cannot be found, so it cannot be skipped");
  s->position.seen++;
  s->position.bad++;
  shoal_status stop = NULL;
  if (s->position.seen >= BAD_ROWS_FROM && source_too_bad(s->position.seen, s->position.bad)) stop = too_bad(s, status);
  shoal_status_free(status);
  return stop;
}

static shoal_status skip_rows(source *s, int64_t rows, int64_t *got) {
  int64_t done = 0;
  while (done < rows) {
    int64_t n = 0;
    shoal_status status = s->reader->format->skip(s->reader, rows - done, &n);
    done += n;
    if (status) {
      if (!s->skip_bad || shoal_status_code(status) != SHOAL_ERR_INPUT || !s->reader->can_go_on) return status;
      shoal_status_free(status); /* another worker's row: that one counts it */
      done++;
    } else if (!n) {
      break;
    }
  }
  *got = done;
  return NULL;
}

/* One row, the next that is this worker's. *got 0: the file is over. */
static shoal_status read_dealt(source *s, rows_block *into, int64_t *got) {
  *got = 0;
  file_position at;
  s->reader->format->tell(s->reader, &at);
  int64_t ahead = (s->shard - (s->position.base + at.record) % s->shards + s->shards) % s->shards, skipped;
  TRY(skip_rows(s, ahead, &skipped));
  return skipped < ahead ? NULL : s->reader->format->read(s->reader, 1, into, got);
}

shoal_status source_read(source *s, int64_t most, rows_block *into, int64_t *got) {
  *got = 0;
  while (*got < most) {
    bool open = s->reader != NULL;
    if (!open) TRY(open_next(s, &open));
    if (!open) break;
    int64_t n = 0;
    shoal_status status =
        s->by_row ? read_dealt(s, into, &n) : s->reader->format->read(s->reader, most - *got, into, &n);
    s->position.seen += n;
    *got += n;
    if (status)
      TRY(pass_over(s, status));
    else if (!n)
      end_file(s);
  }
  if (*got < most && source_too_bad(s->position.seen, s->position.bad)) return too_bad(s, NULL);
  return NULL;
}

shoal_status source_count(source *s, int64_t *rows) {
  int64_t all = 0;
  for (;;) {
    bool open = s->reader != NULL;
    if (!open) TRY(open_next(s, &open));
    if (!open) break;
    int64_t n;
    TRY(skip_rows(s, INT64_MAX, &n));
    all += n;
    end_file(s);
  }
  *rows = !s->by_row ? all : (all - s->shard + s->shards - 1) / s->shards;
  return NULL;
}

static bool same_bytes(const rows_block *a, int64_t i, const rows_block *b, int64_t k) {
  int64_t n = a->offsets[i + 1] - a->offsets[i];
  return n == b->offsets[k + 1] - b->offsets[k] &&
         !memcmp(a->bytes + a->offsets[i], b->bytes + b->offsets[k], (size_t)n);
}

/* In one file; *found false: not there. */
static shoal_status find_in_file(file_reader *r, const rows_block *b, int64_t i, rows_block *one, text *out,
                                 bool *found) {
  for (;;) {
    file_position at;
    int64_t got = 0;
    r->format->tell(r, &at);
    rows_clear(one);
    shoal_status status = r->format->read(r, 1, one, &got);
    if (status && r->can_go_on) {
      shoal_status_free(status);
      continue;
    }
    TRY(status);
    if (!got) return NULL;
    if (!same_bytes(one, 0, b, i)) continue;
    const char *name = r->format->row_name ? r->format->row_name(r, at.record) : NULL;
    text_add(out, "%s%s%s: record %lld at byte %llu", r->path, name ? "/" : "", name ? name : "", (long long)at.record,
             (unsigned long long)at.offset);
    *found = true;
    return NULL;
  }
}

shoal_status source_find_row(const source *s, const rows_block *b, int64_t i, text *out) {
  bool found = false;
  rows_block one;
  rows_init(&one, &s->schema);
  shoal_status status = NULL;
  for (size_t f = 0; b->schema.kind == ROWS_BYTES && f < s->files.count && !found && !status; f++) {
    file_reader *r;
    status = open_file(s, s->files.paths[f], &r);
    if (status) break;
    status = find_in_file(r, b, i, &one, out, &found);
    r->format->close(r);
  }
  rows_fini(&one);
  return status;
}

/* ---- places */

static void order_files(source *s) {
  if (s->shuffle) {
    random_stream stream = random_stream_make(s->seed, random_mix(FILE_ORDER_STREAM, (uint64_t)s->position.epoch));
    random_permutation(&stream, s->order, (int64_t)s->files.count);
  } else {
    for (size_t i = 0; i < s->files.count; i++) s->order[i] = (int32_t)i;
  }
}

void source_begin(source *s, int64_t epoch) {
  close_reader(s);
  s->position = (source_position){.epoch = epoch, .seen = s->position.seen, .bad = s->position.bad};
  order_files(s);
}

void source_tell(const source *s, source_position *out) {
  *out = s->position;
  if (s->reader) s->reader->format->tell(s->reader, &out->at);
}

shoal_status source_seek(source *s, const source_position *to) {
  close_reader(s);
  if (to->epoch < 0 || to->file < 0 || to->file > shard_files(s) || to->at.record < 0 || to->base < 0)
    return status_make(SHOAL_ERR_INPUT, "position: epoch %lld, file %lld, record %lld cannot be; there are %lld files",
                       (long long)to->epoch, (long long)to->file, (long long)to->at.record, (long long)shard_files(s));
  s->position = *to;
  order_files(s);
  return NULL; /* the file is opened, and its place found, when a row is read */
}

const char *source_path(const source *s) { return s->reader ? s->reader->path : ""; }

/* ---- the whole */

static shoal_status find_format(const char *name, const format **out) {
  const format *f = format_find(name);
  if (f) {
    *out = f;
    return NULL;
  }
  const char *names[64];
  size_t n = 0;
  text list = {0};
  for (; n < COUNT_OF(names) && format_at(n); n++) {
    names[n] = format_at(n)->name;
    text_add(&list, "%s%s", n ? ", " : "", names[n]);
  }
  const char *nearest = text_nearest(name, names, n);
  shoal_status status = status_make(SHOAL_ERR_ARGUMENT, "unknown format '%s'%s%s%s; known are %s", name,
                                    nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "",
                                    list.data ? list.data : "none");
  text_fini(&list);
  return status;
}

/* Adds the names of the classes in file i; *named false: its format has none. */
static shoal_status add_names(source *s, size_t i, bool *named) {
  file_reader *r;
  TRY(open_file(s, s->files.paths[i], &r));
  *named = r->format->names != NULL;
  const class_names *found = *named ? r->format->names(r) : NULL;
  shoal_status status = NULL;
  for (int k = 0; found && k < found->count && !status; k++) status = class_names_add(&s->names, found->names[k]);
  if (found) s->names.ordered |= found->ordered;
  r->format->close(r);
  return status_wrap(status, "%s", s->files.paths[i]);
}

/* One dictionary for all files: the caller's, or what they hold. */
static shoal_status find_names(source *s, const char *const *given) {
  bool named = !given;
  if (given) TRY(class_names_add_all(&s->names, given));
  for (size_t i = 0; i < s->files.count && named; i++) TRY(add_names(s, i, &named));
  if (!given) class_names_sort(&s->names);
  if (s->names.count) s->options.names = &s->names;
  return NULL;
}

/* One way to make numbers of columns for all files: the caller's, or what they hold. */
static shoal_status find_columns(source *s) {
  if (s->options.learned) return NULL;
  const format *f = s->forced;
  if (!f) TRY(format_detect(s->files.paths[0], &f));
  if (!f->fit) return NULL;
  TRY(f->fit(s->files.paths, s->files.count, &s->options, &s->learned));
  s->options.learned = &s->learned;
  return NULL;
}

static shoal_status start(source *s, const source_options *o) {
  if (o->options.source) {
    s->forced = &format_memory;
    TRY(files_add(&s->files, "rows in memory"));
  } else {
    if (o->format) TRY(find_format(o->format, &s->forced));
    TRY(files_find(o->files, s->forced, &s->files));
  }
  if (s->files.count > INT32_MAX) return status_make(SHOAL_ERR_ARGUMENT, "more than %d files", INT32_MAX);
  s->by_row = s->files.count < (size_t)s->shards;
  s->order = calloc(s->files.count, sizeof *s->order);
  if (!s->order) return status_no_memory();
  TRY(find_columns(s));
  TRY(find_names(s, o->names));
  file_reader *first;
  TRY(open_file(s, s->files.paths[0], &first));
  first->format->schema(first, &s->schema);
  s->first_format = first->format;
  first->format->close(first);
  source_begin(s, 0);
  return NULL;
}

shoal_status source_init(source *s, const source_options *o) {
  *s = (source){.options = o->options,
                .shard = o->shard,
                .shards = o->shards ? o->shards : 1,
                .shuffle = o->shuffle,
                .skip_bad = o->skip_bad,
                .seed = o->seed};
  if (s->shards < 1 || s->shard < 0 || s->shard >= s->shards)
    return status_make(SHOAL_ERR_ARGUMENT, "shard %d of %d: shards count from 0 to one less than there are", o->shard,
                       o->shards);
  shoal_status status = start(s, o);
  if (status) source_fini(s);
  return status;
}

void source_fini(source *s) {
  close_reader(s);
  files_fini(&s->files);
  class_names_fini(&s->names);
  preprocessing_fini(&s->learned);
  free(s->order);
  *s = (source){0};
}
