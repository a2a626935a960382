/* Rows from any format that is read to one that is written. */
#include "base/mem.h"
#include "base/options.h"
#include "data/convert.h"
#include "data/pipeline.h"
#include "shoal/data.h"

#include <unistd.h>

#define BATCH 1024
#define BATCH_ENCODED 16

typedef struct {
  const shoal_pipeline_options *from;
  const shoal_convert_options *to;
  const row_writer_kind *kind;
  convert_options write;
  int64_t rows;
  shoal_pipeline_statistics count;
} conversion;

static shoal_status report(const conversion *c) {
  if (!c->to->progress || c->to->progress(c->to->context, c->rows, 0)) return NULL;
  return status_make(SHOAL_ERR_CANCELLED, "interrupted; nothing was written");
}

/* Sparse rows to columns: how many columns, and whether indices count from 0 or from 1, has to be known first. */
static shoal_status find_columns(conversion *c) {
  shoal_pipeline *p;
  TRY(pipeline_create_once(c->from, BATCH, BATCH_ENCODED, &p));
  int64_t most = -1, least = INT64_MAX;
  const rows_block *b;
  shoal_status status;
  while (!(status = pipeline_next(p, &b, NULL, NULL)) && b && !(status = report(c)))
    for (int64_t e = 0; e < b->offsets[b->count]; e++) {
      most = MAX_OF(most, b->indices[e]);
      least = MIN_OF(least, b->indices[e]);
    }
  shoal_pipeline_destroy(p);
  c->write.schema.features = MAX_OF(most + 1, c->from->features);
  c->write.first = least >= 1 && most >= 1;
  return status;
}

static shoal_status copy_rows(conversion *c, shoal_pipeline *p, row_writer *w) {
  for (;;) {
    const rows_block *b;
    TRY(pipeline_next(p, &b, NULL, NULL));
    if (!b) break;
    TRY(c->kind->write(w, b));
    c->rows += b->count;
    TRY(report(c));
  }
  shoal_pipeline_count(p, &c->count);
  return NULL;
}

static shoal_status convert(conversion *c, shoal_pipeline *p) {
  row_writer *w = NULL;
  pipeline_schema(p, &c->write.schema);
  if (c->write.schema.kind == ROWS_SPARSE && c->kind->dense) TRY(find_columns(c));
  TRY(c->kind->open(c->to->path, &c->write, &w));
  shoal_status status = copy_rows(c, p, w);
  if (!status) return c->kind->close(w);
  c->kind->abandon(w);
  return status;
}

shoal_status shoal_data_convert(const shoal_pipeline_options *from, const shoal_convert_options *options,
                                shoal_convert_result *result) {
  shoal_convert_options own;
  const shoal_convert_options *to = &own;
  TRY(OPTIONS_TAKE(&own, options));
  shoal_pipeline_options read;
  TRY(OPTIONS_TAKE(&read, from));
  conversion c = {.from = &read, .to = to};
  TRY(convert_find(to->format, to->path, &c.kind));
  if (!to->force && !access(to->path, F_OK))
    return status_make(SHOAL_ERR_ARGUMENT, "%s already exists; set `force` to replace it", to->path);
  shoal_pipeline *p;
  TRY(pipeline_create_once(&read, BATCH, BATCH_ENCODED, &p));
  shoal_status status = convert(&c, p);
  shoal_pipeline_destroy(p);
  if (!status && result)
    *result = (shoal_convert_result){.format = c.kind->name, .rows = c.rows, .bad_rows = c.count.bad_rows};
  return status;
}

bool shoal_data_format_written_at(int i, shoal_data_format *out) {
  const row_writer_kind *kind = i >= 0 ? convert_at((size_t)i) : NULL;
  if (kind) *out = (shoal_data_format){.name = kind->name, .summary = kind->endings};
  return kind != NULL;
}
