/* The format "image-tfrecord": TFRecord files in the layout of ImageNet and its kin, an Example an image with
 * `image/encoded` (JPEG or PNG) and `image/class/label`. Labels keep their numbers, whether they count from 0 or, as in
 * ImageNet, from 1; how many classes there are is not in the file. */
#include "base/mem.h"
#include "data/example.h"
#include "data/format.h"
#include "data/image.h"
#include "data/tfrecord.h"

#include <string.h>

#define ENCODED "image/encoded"
#define LABEL "image/class/label"

typedef struct {
  file_reader base;
  tfrecord_reader records;
  int classes;
} image_reader;

extern const format format_image_tfrecord;

static bool holds(const uint8_t *head, size_t n, const char *name) { return memmem(head, n, name, strlen(name)); }

/* One of the names stands within the first bytes, since an encoded image that comes first has its own before it. */
static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  return !folder && tfrecord_detect(head, n) && (holds(head, n, ENCODED) || holds(head, n, LABEL));
}

static void close_reader(file_reader *base) {
  image_reader *r = (image_reader *)base;
  if (!r) return;
  tfrecord_close(&r->records);
  free(base->path);
  free(r);
}

static shoal_status open_reader(const char *path, const format_options *options, file_reader **out) {
  image_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = &format_image_tfrecord;
  r->base.path = strdup(path);
  r->classes = options->classes;
  shoal_status status =
      r->base.path ? tfrecord_open(r->base.path, !options->no_checksums, &r->records) : status_no_memory();
  if (status)
    close_reader(&r->base);
  else
    *out = &r->base;
  return status;
}

static void schema(const file_reader *base, rows_schema *out) {
  *out = (rows_schema){.kind = ROWS_BYTES, .scale = 1, .classes = ((const image_reader *)base)->classes};
}

/* What a record must hold. */
typedef struct {
  const uint8_t *encoded;
  int64_t bytes, label;
} content;

/* NULL: all is there; else what is wrong. */
static const char *look_into(const uint8_t *record, size_t n, content *out) {
  example_cursor c;
  example_feature f;
  example_step found;
  bool have_image = false, have_label = false;
  example_begin(&c, record, n);
  while ((found = example_next(&c, &f)) == EXAMPLE_FEATURE) {
    if (example_named(&f, ENCODED)) {
      out->bytes = example_bytes(&f, 0, &out->encoded);
      if (out->bytes < 0) return "'" ENCODED "' holds no bytes";
      have_image = true;
    } else if (example_named(&f, LABEL)) {
      if (example_ints(&f, &out->label, 1) != 1) return "'" LABEL "' is not one int64";
      have_label = true;
    }
  }
  if (found == EXAMPLE_BAD) return c.problem;
  if (!have_image) return "'" ENCODED "' is missing";
  if (!have_label) return "'" LABEL "' is missing";
  if (!image_is_known(out->encoded, (size_t)out->bytes)) return "'" ENCODED "' is no JPEG, PNG, BMP or WebP";
  return NULL;
}

static shoal_status bad(image_reader *r, const char *problem) {
  r->base.can_go_on = true;
  return format_bad_row(&r->base, r->records.here.record, r->records.here.offset,
                        "%s; expected an Example with an "
                        "image in '" ENCODED "' and its class in '" LABEL "'",
                        problem);
}

static shoal_status append(image_reader *r, const uint8_t *record, size_t n, rows_block *into) {
  content found;
  const char *problem = look_into(record, n, &found);
  if (problem) return bad(r, problem);
  int64_t limit = r->classes ? r->classes : INT32_MAX;
  if (found.label < 0 || found.label >= limit) {
    r->base.can_go_on = true;
    return format_bad_row(&r->base, r->records.here.record, r->records.here.offset,
                          "label %lld is outside of the "
                          "classes, 0 to %lld (ImageNet's labels count from 1 and need one class more)",
                          (long long)found.label, (long long)limit - 1);
  }
  TRY(rows_reserve(into, 1, found.bytes));
  int64_t start = into->offsets[into->count];
  memcpy(into->bytes + start, found.encoded, (size_t)found.bytes);
  into->labels[into->count++] = (int32_t)found.label;
  into->offsets[into->count] = start + found.bytes;
  return NULL;
}

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  image_reader *r = (image_reader *)base;
  base->can_go_on = false;
  for (*got = 0; *got < most; ++*got) {
    const uint8_t *record;
    size_t n;
    shoal_status status = tfrecord_next(&r->records, &record, &n);
    base->can_go_on = status && r->records.can_go_on;
    if (status || !record) return status;
    TRY(append(r, record, n, into));
  }
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  return tfrecord_skip(&((image_reader *)base)->records, rows, got);
}

static void tell(const file_reader *base, file_position *out) { *out = ((const image_reader *)base)->records.next; }

static shoal_status seek(file_reader *base, const file_position *to) {
  return tfrecord_seek(&((image_reader *)base)->records, to);
}

const format format_image_tfrecord = {
    .name = "image-tfrecord",
    .summary = "TFRecord files of images: image/encoded and image/class/label (ImageNet)",
    .detect = detect,
    .open = open_reader,
    .schema = schema,
    .read = read_rows,
    .skip = skip,
    .tell = tell,
    .seek = seek,
    .close = close_reader,
};
