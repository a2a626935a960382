#include "data/parquet_footer.h"

#include "base/mem.h"
#include "data/thrift.h"

#include <string.h>

enum {
  COLUMNS_MAX = 1 << 16,
  REPEATED = 2,
  OPTIONAL = 1,
  DECIMAL = 5,
  UINT_FIRST = 11,
  UINT_LAST = 14,
  DIGITS_MAX = 18
};

static shoal_status damaged(const char *name) {
  return status_make(SHOAL_ERR_INPUT, "%s: the footer of this Parquet file is damaged: write the file again", name);
}

typedef struct {
  parquet_column column;
  int64_t children, repetition, converted, scale;
  bool has_type;
} element;

static shoal_status read_element(thrift *t, const char *name, element *e) {
  *e = (element){.converted = -1};
  for (thrift_field f = {0}; thrift_next(t, &f);) {
    const uint8_t *bytes;
    size_t n;
    switch (f.id) {
      case 1: {
        const int64_t type = thrift_int(t);
        if (type < 0 || type >= PARQUET_TYPES) return damaged(name);
        e->column.type = (parquet_type)type;
        e->has_type = true;
        break;
      }
      case 2: e->column.length = (int32_t)thrift_int(t); break;
      case 3: e->repetition = thrift_int(t); break;
      case 4:
        n = thrift_binary(t, &bytes);
        free(e->column.name);
        if (!(e->column.name = n ? strndup((const char *)bytes, n) : strdup(""))) return status_no_memory();
        break;
      case 5: e->children = thrift_int(t); break;
      case 6: e->converted = thrift_int(t); break;
      case 7: e->scale = thrift_int(t); break;
      default: thrift_skip(t, f.type, false, 0);
    }
  }
  return t->failed || !e->column.name ? damaged(name) : NULL;
}

/* What the column's values mean, and whether they can be read. */
static shoal_status take_column(const char *name, element *e, parquet_column *out) {
  parquet_column *c = &e->column;
  if (e->children || e->repetition == REPEATED)
    return status_make(SHOAL_ERR_INPUT,
                       "%s: column '%s' holds lists or structs; only flat columns are read: leave it out when the file "
                       "is written",
                       name, c->name);
  if (!e->has_type) return damaged(name);
  const bool whole = c->type == PARQUET_INT32 || c->type == PARQUET_INT64, decimal = e->converted == DECIMAL;
  if (c->type == PARQUET_INT96 || (decimal && !whole))
    return status_make(SHOAL_ERR_INPUT, "%s: column '%s' holds %s; write it as numbers or text", name, c->name,
                       decimal ? "decimals of many digits" : "times of 96 bits");
  if ((c->type == PARQUET_FIXED_BYTES && (c->length < 0 || c->length > 1 << 20)) ||
      (decimal && (e->scale < 0 || e->scale > DIGITS_MAX)))
    return damaged(name);
  c->optional = e->repetition == OPTIONAL;
  c->is_unsigned = whole && e->converted >= UINT_FIRST && e->converted <= UINT_LAST;
  c->decimal_digits = decimal ? (int)e->scale : 0;
  *out = *c;
  c->name = NULL;
  return NULL;
}

static shoal_status read_schema(thrift *t, const char *name, parquet_footer *out) {
  thrift_type type;
  const uint64_t n = thrift_list(t, &type);
  element e;
  if (type != THRIFT_STRUCT || !n || n > COLUMNS_MAX) return damaged(name);
  shoal_status status = read_element(t, name, &e); /* the root: its children are the columns */
  free(e.column.name);
  TRY(status);
  if (e.children < 1) return damaged(name);
  if (!(out->columns = calloc((size_t)n, sizeof *out->columns))) return status_no_memory();
  for (uint64_t i = 1; i < n; i++) {
    status = read_element(t, name, &e);
    if (!status) status = take_column(name, &e, &out->columns[out->n_columns]);
    free(e.column.name);
    TRY(status);
    out->n_columns++;
  }
  return out->n_columns ? NULL : damaged(name);
}

static void read_chunk_data(thrift *t, parquet_chunk *c, int64_t *type) {
  int64_t data = -1, dictionary = -1, bytes = -1;
  *type = -1;
  for (thrift_field f = {0}; thrift_next(t, &f);) {
    switch (f.id) {
      case 1: *type = thrift_int(t); break;
      case 4: c->codec = (int32_t)thrift_int(t); break;
      case 5: c->values = thrift_int(t); break;
      case 7: bytes = thrift_int(t); break;
      case 9: data = thrift_int(t); break;
      case 11: dictionary = thrift_int(t); break;
      default: thrift_skip(t, f.type, false, 0);
    }
  }
  const int64_t first = dictionary > 0 && dictionary < data ? dictionary : data;
  t->failed |= first < 0 || bytes < 0 || c->values < 0;
  c->offset = (uint64_t)first;
  c->bytes = (uint64_t)bytes;
}

static void read_chunk(thrift *t, parquet_chunk *c, int64_t *type) {
  bool found = false;
  for (thrift_field f = {0}; thrift_next(t, &f);) {
    if (f.id == 3 && f.type == THRIFT_STRUCT) {
      read_chunk_data(t, c, type);
      found = true;
    } else {
      thrift_skip(t, f.type, false, 0);
    }
  }
  t->failed |= !found;
}

static shoal_status read_group(thrift *t, const char *name, const parquet_footer *file, uint64_t file_size,
                               parquet_group *out) {
  thrift_type of;
  out->rows = -1;
  for (thrift_field f = {0}; thrift_next(t, &f);) {
    if (f.id == 1 && f.type == THRIFT_LIST && !out->chunks) {
      if (thrift_list(t, &of) != file->n_columns || of != THRIFT_STRUCT) return damaged(name);
      if (!(out->chunks = calloc(file->n_columns, sizeof *out->chunks))) return status_no_memory();
      for (size_t i = 0; i < file->n_columns; i++) {
        int64_t type = -1;
        read_chunk(t, &out->chunks[i], &type);
        if (t->failed || type != (int64_t)file->columns[i].type) return damaged(name);
      }
    } else if (f.id == 3) {
      out->rows = thrift_int(t);
    } else {
      thrift_skip(t, f.type, false, 0);
    }
  }
  if (t->failed || out->rows < 0 || !out->chunks) return damaged(name);
  for (size_t i = 0; i < file->n_columns; i++) {
    const parquet_chunk *c = &out->chunks[i];
    if (c->values != out->rows || c->offset > file_size || c->bytes > file_size - c->offset) return damaged(name);
  }
  return NULL;
}

static shoal_status read_groups(thrift *t, const char *name, uint64_t file_size, parquet_footer *out) {
  thrift_type of;
  const uint64_t n = thrift_list(t, &of);
  if (t->failed || (n && of != THRIFT_STRUCT) || out->groups) return damaged(name);
  if (!(out->groups = calloc((size_t)n + 1, sizeof *out->groups))) return status_no_memory();
  for (; out->n_groups < n; out->n_groups++) {
    shoal_status status = read_group(t, name, out, file_size, &out->groups[out->n_groups]);
    if (status) {
      free(out->groups[out->n_groups].chunks);
      return status;
    }
  }
  return NULL;
}

static shoal_status read_all(thrift *t, uint64_t file_size, const char *name, parquet_footer *out) {
  for (thrift_field f = {0}; thrift_next(t, &f);) {
    if (f.id == 2 && f.type == THRIFT_LIST && !out->columns)
      TRY(read_schema(t, name, out));
    else if (f.id == 4 && f.type == THRIFT_LIST && out->columns)
      TRY(read_groups(t, name, file_size, out));
    else
      thrift_skip(t, f.type, false, 0);
  }
  return t->failed || !out->n_columns || !out->groups ? damaged(name) : NULL;
}

shoal_status parquet_footer_read(const uint8_t *bytes, size_t n, uint64_t file_size, const char *name,
                                 parquet_footer *out) {
  thrift t = {bytes, bytes + n, false};
  *out = (parquet_footer){0};
  shoal_status status = read_all(&t, file_size, name, out);
  if (status) parquet_footer_fini(out);
  return status;
}

void parquet_footer_fini(parquet_footer *f) {
  for (size_t i = 0; i < f->n_columns; i++) free(f->columns[i].name);
  for (size_t i = 0; i < f->n_groups; i++) free(f->groups[i].chunks);
  free(f->columns);
  free(f->groups);
  *f = (parquet_footer){0};
}
