/* Fake data as a data set in memory: however many rows, the image is there once. */
#include "data/dataset.h"
#include "data/format.h"

#include <stdlib.h>
#include <string.h>

/* Takes the image and label over from a block of one row. */
static shoal_status take_row(rows_block *row, int64_t count, shoal_dataset *d) {
  const rows_schema *s = &row->schema;
  shoal_shape shape = {.rank = s->shape.rank + 1, .dim = {count}};
  memcpy(shape.dim + 1, s->shape.dim, (size_t)s->shape.rank * sizeof *shape.dim);
  d->index = calloc((size_t)count + 1, sizeof *d->index); /* all rows are row 0 */
  if (!d->index) return status_no_memory();
  d->classes = s->classes;
  d->scale = s->scale;
  d->features = shoal_tensor_view(s->dtype, shape, row->features);
  d->labels = shoal_tensor_view(SHOAL_I32, SHOAL_SHAPE(count), row->labels);
  d->features.rows = d->labels.rows = d->index;
  row->features = row->labels = NULL;
  return NULL;
}

static shoal_status read_first(const format *f, file_reader *reader, shoal_dataset *d) {
  rows_schema schema;
  rows_block row;
  int64_t got = 0, more = 0;
  f->schema(reader, &schema);
  rows_init(&row, &schema);
  shoal_status status = f->read(reader, 1, &row, &got);
  if (!status) status = f->skip(reader, INT32_MAX - 1, &more);
  if (!status && !got) status = status_make(SHOAL_ERR_INPUT, "%s: no rows found", reader->path);
  if (!status) status = take_row(&row, got + more, d);
  rows_fini(&row);
  return status;
}

shoal_status dataset_fake(const char *description, shoal_dataset **out) {
  const format *f = format_find("fake");
  file_reader *reader;
  TRY(f->open(description, &(format_options){0}, &reader));
  shoal_dataset *d = calloc(1, sizeof *d);
  shoal_status status = d ? read_first(f, reader, d) : status_no_memory();
  f->close(reader);
  if (status)
    shoal_dataset_destroy(d);
  else
    *out = d;
  return status;
}
