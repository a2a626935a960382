/* TFRecord files of tf.train.Examples as rows.
 *
 * Sparse rows by default: `label` (an int64, -1/+1 or 0/1), `index` (int64s, ascending) and `value` (as many floats;
 * all 1 without it);
 * --fields names others: "label,index,value". "label=clk,dense=age,fare" takes the numbers of the features named, in
 * this order, as a dense row; a single feature of bytes is an image: an encoded one, or raw u8 of the size that other
 * features say (example_image.h). Where no fields are named and there is no `index`, an image is looked for.
 * "label=clk,ids=user,brand" makes sparse rows of lists of ids: each id of each feature has a place among the
 * --features, by a hash. */
#include "base/mem.h"
#include "base/random.h"
#include "data/example_image.h"
#include "data/image.h"
#include "data/sparse.h"
#include "data/tfrecord.h"

#include <math.h>
#include <string.h>

typedef struct {
  char *name; /* owned */
  size_t length;
  int64_t count;     /* dense: numbers (or bytes) each row has of it */
  int64_t offset;    /* dense: of its first number in the row */
  example_kind kind; /* dense: in the first record */
} wanted;

typedef struct {
  file_reader base;
  tfrecord_reader in;
  rows_schema schema;
  int64_t limit; /* indices are below it */
  bool labels_optional;
  int classes; /* as the caller said */
  wanted label, index, value, field;
  bool named;    /* the user said which features */
  bool ids;      /* `dense` are lists of ids, which make a sparse row */
  wanted *dense; /* [dense_count], owned */
  size_t dense_count;
  int64_t *scratch; /* [scratch_capacity], for lists that are not as they should be */
  size_t scratch_capacity;
} tfrecord_rows;

static bool is(const example_feature *f, const wanted *w) {
  return f->name_length == w->length && !memcmp(f->name, w->name, w->length);
}

static shoal_status bad(tfrecord_rows *r, const char *message, ...) __attribute__((format(printf, 2, 3)));

/* About the record given last, which has been passed over. */
static shoal_status bad(tfrecord_rows *r, const char *message, ...) {
  va_list args;
  va_start(args, message);
  shoal_status status = status_make_v(SHOAL_ERR_INPUT, message, args);
  va_end(args);
  r->base.can_go_on = true;
  return status_wrap(status, "%s: record %lld at byte %llu", r->base.path, (long long)r->in.here.record,
                     (unsigned long long)r->in.here.offset);
}

/* ---- options */

static shoal_status set_name(wanted *w, const char *name, size_t n) {
  if (!n)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "a field's name is empty: give \"label,index,value\" or "
                       "\"label=NAME,dense=NAME,NAME\"");
  free(w->name);
  w->name = strndup(name, n);
  w->length = n;
  return w->name ? NULL : status_no_memory();
}

static shoal_status add_dense(tfrecord_rows *r, const char *name, size_t n) {
  size_t capacity = r->dense_count;
  TRY(mem_grow((void **)&r->dense, &capacity, r->dense_count + 1, sizeof *r->dense));
  return set_name(&r->dense[r->dense_count++], name, n);
}

/* "label=a,dense=b,c": a name without '=' goes on with the key before it. */
static shoal_status parse_keyed(tfrecord_rows *r, const char *fields) {
  wanted *one = NULL;
  bool dense = false;
  for (const char *at = fields; at;) {
    const char *comma = strchr(at, ','), *end = comma ? comma : at + strlen(at);
    const char *equals = memchr(at, '=', (size_t)(end - at));
    if (equals) {
      size_t n = (size_t)(equals - at);
      one = NULL;
      r->ids |= n == 3 && !memcmp(at, "ids", 3);
      dense = (n == 5 && !memcmp(at, "dense", 5)) || (n == 3 && !memcmp(at, "ids", 3));
      if (n == 5 && !memcmp(at, "label", 5)) one = &r->label;
      if (n == 5 && !memcmp(at, "index", 5)) one = &r->index;
      if (n == 5 && !memcmp(at, "value", 5)) one = &r->value;
      if (n == 5 && !memcmp(at, "field", 5)) one = &r->field;
      if (!one && !dense)
        return status_make(SHOAL_ERR_ARGUMENT,
                           "unknown key '%.*s' in the fields '%s': one of label, index, value, "
                           "field, dense, ids",
                           (int)MIN_OF(n, (size_t)100), at, fields);
      at = equals + 1;
    } else if (!dense) {
      return status_make(SHOAL_ERR_ARGUMENT,
                         "'%.*s' in the fields '%s' belongs to no key: only dense= and ids= take "
                         "several names",
                         (int)MIN_OF((size_t)(end - at), (size_t)100), at, fields);
    }
    size_t n = (size_t)(end - at);
    if (dense)
      TRY(add_dense(r, at, n));
    else
      TRY(set_name(one, at, n));
    at = comma ? comma + 1 : NULL;
  }
  return NULL;
}

static shoal_status parse_fields(tfrecord_rows *r, const char *fields) {
  wanted *places[] = {&r->label, &r->index, &r->value};
  static const char *const standard[] = {"label", "index", "value"};
  for (int i = 0; i < 3; i++) TRY(set_name(places[i], standard[i], 5));
  TRY(set_name(&r->field, "field", 5));
  if (!fields) return NULL;
  r->named = true;
  if (strchr(fields, '=')) return parse_keyed(r, fields);
  const char *at = fields;
  for (int i = 0; i < 3; i++) {
    size_t n = strcspn(at, ",");
    if ((at[n] == ',') != (i < 2))
      return status_make(SHOAL_ERR_ARGUMENT, "expected three names in the fields '%s', such as \"label,index,value\"",
                         fields);
    TRY(set_name(places[i], at, n));
    at += n + 1;
  }
  return NULL;
}

/* ---- rows */

/* Binary labels -1/+1 become 0/1. */
static shoal_status read_label(tfrecord_rows *r, const example_feature *f, int32_t *out) {
  int64_t label = 0, count;
  float number;
  if (f->kind == EXAMPLE_FLOATS) {
    count = example_floats(f, &number, 1);
    if (count == 1 && (!isfinite(number) || number != truncf(number) || fabsf(number) > 1e9f))
      return bad(r, "expected a whole number as label, found %g", (double)number);
    label = count == 1 ? (int64_t)number : 0;
  } else {
    count = example_ints(f, &label, 1);
  }
  if (count != 1)
    return bad(r, "expected one number in '%s', found %s x %lld", r->label.name, example_kind_name(f->kind),
               (long long)example_count(f));
  int classes = r->schema.classes;
  bool binary = classes == 2 || !classes;
  if (label == -1 && binary) label = 0;
  if (label < 0 || label > INT32_MAX || (classes && label >= classes)) {
    if (binary && classes)
      return bad(r,
                 "expected a label of 0 or 1, or -1 or 1, found %lld: two classes are told "
                 "apart here",
                 (long long)label);
    return bad(r, "expected a label from 0 to %d, found %lld", classes ? classes - 1 : INT32_MAX, (long long)label);
  }
  *out = (int32_t)label;
  return NULL;
}

/* Lists that the fast way refuses: not packed, or wrong, and then this says how. */
static shoal_status read_indices(tfrecord_rows *r, const example_feature *f, int32_t *out, int64_t *count) {
  int64_t n = example_ints(f, NULL, 0);
  if (n < 0) {
    if (f->kind != EXAMPLE_INTS)
      return bad(r, "expected int64s in '%s', found %s", r->index.name, example_kind_name(f->kind));
    return bad(r, "the list '%s' is malformed: the record is not a tf.train.Example or damaged", r->index.name);
  }
  TRY(mem_grow((void **)&r->scratch, &r->scratch_capacity, (size_t)n, sizeof *r->scratch));
  example_ints(f, r->scratch, (size_t)n);
  for (int64_t i = 0; i < n; i++) {
    int64_t index = r->scratch[i];
    if (index < 0 || index >= r->limit)
      return bad(r, "expected indices from 0 to %lld, found %lld: check --features or the data",
                 (long long)r->limit - 1, (long long)index);
    if (i && index <= r->scratch[i - 1])
      return bad(r, "expected ascending indices without duplicates, found %lld after %lld: sort the row",
                 (long long)index, (long long)r->scratch[i - 1]);
    out[i] = (int32_t)index;
  }
  *count = n;
  return NULL;
}

/* The same of ids, which are any numbers in any order. */
static shoal_status read_growing(tfrecord_rows *r, const example_feature *f, int64_t *out, size_t room,
                                 int64_t *count) {
  *count = f->kind == EXAMPLE_INTS ? example_ints(f, NULL, 0) : -1;
  if (*count < 0 || *count > (int64_t)room)
    return bad(r, "expected a list of int64s in '%s', found %s, or it is malformed", r->index.name,
               example_kind_name(f->kind));
  example_ints(f, out, (size_t)*count);
  return NULL;
}

static bool all_finite(const float *values, int64_t n) {
  uint32_t worst = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    bits &= 0x7f800000u;
    worst = MAX_OF(worst, bits);
  }
  return worst != 0x7f800000u;
}

static shoal_status missing(tfrecord_rows *r, const wanted *w, const uint8_t *data, size_t n) {
  text found = {0};
  shoal_status status = example_describe(data, n, &found);
  if (status) shoal_status_free(status);
  status = bad(r,
               "expected a feature '%s', found %s: name the features with --fields label=NAME and dense=NAME,... "
               "(numbers, an image) or ids=NAME,...",
               w->name, found.data ? found.data : "none");
  text_fini(&found);
  return status;
}

static shoal_status malformed(tfrecord_rows *r, const example_cursor *c) {
  return bad(r, "expected a tf.train.Example, but %s at byte %zu of the record", c->problem, example_offset(c));
}

/* The field of each entry; *count of them. */
static shoal_status read_entry_fields(tfrecord_rows *r, const example_feature *f, int32_t *to, size_t room,
                                      int64_t *count) {
  int64_t n = f->kind == EXAMPLE_INTS ? example_ints(f, NULL, 0) : -1;
  if (n < 0 || n > (int64_t)room)
    return bad(r, "expected a list of int64s in '%s', found %s, or it is malformed", r->field.name,
               example_kind_name(f->kind));
  TRY(mem_grow((void **)&r->scratch, &r->scratch_capacity, (size_t)n, sizeof *r->scratch));
  example_ints(f, r->scratch, (size_t)n);
  for (int64_t i = 0; i < n; i++) {
    if (r->scratch[i] < 0 || r->scratch[i] > INT32_MAX)
      return bad(r, "field %lld in '%s': 0 to %d is expected", (long long)r->scratch[i], r->field.name, INT32_MAX);
    to[i] = (int32_t)r->scratch[i];
  }
  *count = n;
  return NULL;
}

/* One row at into->count, not yet counted. data: a record of n bytes. */
static shoal_status read_sparse(tfrecord_rows *r, const uint8_t *data, size_t n, rows_block *into) {
  TRY(rows_reserve(into, 1, (int64_t)n)); /* an entry has more than a byte */
  int64_t start = into->offsets[into->count], indices = -1, values = -1, fields = -1;
  bool label = false;
  int32_t *index_column = into->indices + start;
  float *value_column = into->values + start;
  example_cursor c;
  example_feature f;
  example_step step;
  example_begin(&c, data, n);
  while ((step = example_next(&c, &f)) == EXAMPLE_FEATURE) {
    if (is(&f, &r->index) && into->ids) {
      TRY(read_growing(r, &f, into->ids + start, n, &indices));
      memset(index_column, 0, (size_t)indices * sizeof *index_column);
    } else if (is(&f, &r->index)) {
      indices = example_ascending(&f, r->limit, index_column, n);
      if (indices < 0) TRY(read_indices(r, &f, index_column, &indices));
    } else if (is(&f, &r->value)) {
      values = example_floats(&f, value_column, n);
      if (values < 0)
        return bad(r, "expected a list of floats in '%s', found %s, or it is malformed", r->value.name,
                   example_kind_name(f.kind));
    } else if (into->schema.fields && is(&f, &r->field)) {
      TRY(read_entry_fields(r, &f, into->fields + start, n, &fields));
    } else if (is(&f, &r->label)) {
      TRY(read_label(r, &f, &into->labels[into->count]));
      label = true;
    }
  }
  if (step == EXAMPLE_BAD) return malformed(r, &c);
  if (!label && !r->labels_optional) return missing(r, &r->label, data, n);
  if (!label) into->labels[into->count] = -1;
  if (indices < 0) return missing(r, &r->index, data, n);
  if (values <= 0)
    for (values = 0; values < indices; values++) value_column[values] = 1;
  if (indices != values)
    return bad(r, "expected as many values as indices, found %lld in '%s' and %lld in '%s'", (long long)values,
               r->value.name, (long long)indices, r->index.name);
  if (into->schema.fields && fields != indices)
    return bad(r, "expected as many fields as indices, found %lld in '%s' and %lld in '%s'",
               (long long)MAX_OF(fields, 0), r->field.name, (long long)indices, r->index.name);
  if (!all_finite(value_column, values)) return bad(r, "a value is not a finite number: fix or drop the row");
  into->offsets[into->count + 1] = start + indices;
  return NULL;
}

/* Of the same feature and id always the same. */
static uint64_t hash_of(const wanted *w, int64_t id) {
  uint64_t hash = 0;
  for (size_t i = 0; i < w->length; i++) hash = random_mix(hash, (uint8_t)w->name[i]);
  return random_mix(hash, (uint64_t)id);
}

/* The place of an id. */
static int32_t place_of(const tfrecord_rows *r, const wanted *w, int64_t id) {
  return (int32_t)(hash_of(w, id) % (uint64_t)r->limit);
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Entries of a row from `start` on, given as index and field: sorted, an index once, with how often it came as its value
 * and the first of its fields. Returns how many are left. */
static int64_t count_equal(int64_t *pairs, int64_t n, rows_block *into, int64_t start) {
  int64_t kept = start;
  if (n) qsort(pairs, (size_t)n, sizeof *pairs, ascending);
  for (int64_t i = 0; i < n; i++) {
    const int32_t index = (int32_t)(pairs[i] >> 32);
    if (kept > start && into->indices[kept - 1] == index) {
      into->values[kept - 1]++;
      continue;
    }
    into->indices[kept] = index;
    into->fields[kept] = (int32_t)pairs[i];
    into->values[kept++] = 1;
  }
  return kept - start;
}

/* The label of a record; -1 where there is none and need not be. */
static shoal_status find_label(tfrecord_rows *r, const uint8_t *data, size_t n, int32_t *out) {
  const char *problem = NULL;
  example_feature f;
  example_step step = example_find(data, n, r->label.name, &f, &problem);
  if (step == EXAMPLE_BAD) return bad(r, "expected a tf.train.Example, but %s", problem);
  if (step == EXAMPLE_END && !r->labels_optional) return missing(r, &r->label, data, n);
  *out = -1;
  return step == EXAMPLE_FEATURE ? read_label(r, &f, out) : NULL;
}

/* A row of ids, each feature a field: what a record does not have gives none. */
static shoal_status read_ids(tfrecord_rows *r, const uint8_t *data, size_t n, rows_block *into) {
  TRY(rows_reserve(into, 1, (int64_t)n)); /* an id has more than a byte */
  int64_t start = into->offsets[into->count], count = 0;
  const char *problem = NULL;
  example_feature f;
  TRY(find_label(r, data, n, &into->labels[into->count]));
  for (size_t i = 0; i < r->dense_count; i++) {
    const wanted *w = &r->dense[i];
    if (example_find(data, n, w->name, &f, &problem) != EXAMPLE_FEATURE || f.kind == EXAMPLE_NONE) continue;
    int64_t ids = f.kind == EXAMPLE_INTS ? example_ints(&f, NULL, 0) : -1;
    if (ids < 0 || count + ids > (int64_t)n)
      return bad(r, "expected a list of int64 ids in '%s', found %s, or it is malformed", w->name,
                 example_kind_name(f.kind));
    if (ids == 0) continue; /* there may be no scratch yet */
    TRY(mem_grow((void **)&r->scratch, &r->scratch_capacity, (size_t)(count + ids), sizeof *r->scratch));
    example_ints(&f, r->scratch + count, (size_t)ids);
    for (int64_t k = 0; into->ids && k < ids; k++, count++) {
      into->ids[start + count] = (int64_t)hash_of(w, r->scratch[count]);
      into->indices[start + count] = 0;
      into->fields[start + count] = (int32_t)i;
      into->values[start + count] = 1;
    }
    for (int64_t k = 0; !into->ids && k < ids; k++, count++)
      r->scratch[count] = (int64_t)place_of(r, w, r->scratch[count]) << 32 | (int64_t)i;
  }
  into->offsets[into->count + 1] = start + (into->ids ? count : count_equal(r->scratch, count, into, start));
  return NULL;
}

/* The numbers of one feature into their place in the row, to: [count]. */
static shoal_status read_numbers(tfrecord_rows *r, const wanted *w, const example_feature *f, float *to) {
  int64_t count = f->kind == EXAMPLE_FLOATS ? example_floats(f, to, (size_t)w->count) : example_count(f);
  if (count != w->count || (f->kind != EXAMPLE_FLOATS && f->kind != EXAMPLE_INTS))
    return bad(r, "expected %lld numbers in '%s', as in the first record, found %s x %lld", (long long)w->count,
               w->name, example_kind_name(f->kind), (long long)count);
  if (f->kind == EXAMPLE_INTS) {
    TRY(mem_grow((void **)&r->scratch, &r->scratch_capacity, (size_t)count, sizeof *r->scratch));
    example_ints(f, r->scratch, (size_t)count);
    for (int64_t i = 0; i < count; i++) to[i] = (float)r->scratch[i];
  }
  return all_finite(to, count) ? NULL : bad(r, "a value in '%s' is not a finite number: fix or drop the row", w->name);
}

/* An image, still encoded. */
static shoal_status read_encoded(tfrecord_rows *r, const example_feature *f, rows_block *into) {
  const uint8_t *bytes = NULL;
  int64_t length = example_bytes(f, 0, &bytes);
  if (length < 0 || !image_is_known(bytes, (size_t)length))
    return bad(r, "expected an image in '%s', as in the first record, found %s", r->dense[0].name,
               length < 0 ? example_kind_name(f->kind) : "other bytes");
  TRY(rows_reserve(into, 1, length));
  int64_t start = into->offsets[into->count];
  memcpy(into->bytes + start, bytes, (size_t)length);
  into->offsets[into->count + 1] = start + length;
  return NULL;
}

static shoal_status read_dense(tfrecord_rows *r, const uint8_t *data, size_t n, rows_block *into) {
  TRY(rows_reserve(into, 1, 0));
  bool encoded = r->schema.kind == ROWS_BYTES;
  uint8_t *row = encoded ? NULL : (uint8_t *)into->features + (size_t)into->count * rows_dense_bytes(&r->schema);
  const char *problem = NULL;
  example_feature f;
  TRY(find_label(r, data, n, &into->labels[into->count]));
  for (size_t i = 0; i < r->dense_count; i++) {
    const wanted *w = &r->dense[i];
    if (example_find(data, n, w->name, &f, &problem) != EXAMPLE_FEATURE) return missing(r, w, data, n);
    if (encoded) return read_encoded(r, &f, into);
    if (w->kind != EXAMPLE_BYTES) {
      TRY(read_numbers(r, w, &f, (float *)(void *)row + w->offset));
      continue;
    }
    const uint8_t *bytes;
    int64_t length = example_bytes(&f, 0, &bytes);
    if (length != w->count || example_count(&f) != 1)
      return bad(r, "expected %lld bytes in '%s', as in the first record, found %lld", (long long)w->count, w->name,
                 (long long)length);
    memcpy(row, bytes, (size_t)length);
  }
  return NULL;
}

/* ---- opening */

/* What a row of one feature of bytes looks like, from a record. */
static shoal_status learn_bytes(tfrecord_rows *r, const uint8_t *data, size_t n, const example_feature *f) {
  const uint8_t *bytes;
  int64_t length = example_bytes(f, 0, &bytes);
  r->schema.kind = image_is_known(bytes, (size_t)length) ? ROWS_BYTES : ROWS_DENSE;
  r->schema.dtype = SHOAL_U8;
  r->schema.scale = 1.0f / 255;
  if (r->schema.kind == ROWS_BYTES || example_image_shape(data, n, length, &r->schema.shape)) return NULL;
  char shape[SHOAL_SHAPE_TEXT];
  return bad(r,
             "'%s' holds %lld bytes, but other features say that the image is %s: expected one byte a pixel and "
             "channel",
             r->dense[0].name, (long long)length, shoal_shape_text(&r->schema.shape, shape));
}

/* What the dense row looks like, from a record. */
static shoal_status learn_dense(tfrecord_rows *r, const uint8_t *data, size_t n) {
  int64_t width = 0;
  for (size_t i = 0; i < r->dense_count; i++) {
    wanted *w = &r->dense[i];
    example_feature f;
    const char *problem = NULL;
    if (example_find(data, n, w->name, &f, &problem) != EXAMPLE_FEATURE) return missing(r, w, data, n);
    const uint8_t *bytes;
    w->kind = f.kind;
    w->offset = width;
    w->count = f.kind == EXAMPLE_BYTES ? example_bytes(&f, 0, &bytes) : example_count(&f);
    if (w->count < 1 || (f.kind == EXAMPLE_BYTES && r->dense_count > 1))
      return bad(r, "expected numbers in '%s' (bytes only alone), found %s x %lld", w->name, example_kind_name(f.kind),
                 (long long)example_count(&f));
    if (f.kind == EXAMPLE_BYTES) return learn_bytes(r, data, n, &f);
    width += w->count;
  }
  r->schema.kind = ROWS_DENSE;
  r->schema.dtype = SHOAL_F32;
  r->schema.shape = SHOAL_SHAPE(width);
  return NULL;
}

/* Takes an image for the row where nobody has said what to take, and sparse rows are not there. */
static shoal_status try_image(tfrecord_rows *r, const uint8_t *data, size_t n) {
  example_feature picture, label, index;
  const char *problem = NULL;
  if (r->named || example_find(data, n, r->index.name, &index, &problem) != EXAMPLE_END) return NULL;
  if (!example_find_image(data, n, &picture, &label) || (!label.name && !r->labels_optional)) return NULL;
  if (label.name) TRY(set_name(&r->label, label.name, label.name_length));
  TRY(add_dense(r, picture.name, picture.name_length));
  r->schema.classes = r->classes;
  return NULL;
}

/* Looks at the first good record: are the features there? */
static shoal_status look(tfrecord_rows *r) {
  const uint8_t *data = NULL;
  size_t n = 0;
  for (;;) {
    shoal_status status = tfrecord_next(&r->in, &data, &n);
    if (!status) break;
    /* Reading will come upon the damage again, and say so. */
    if (r->dense_count && !r->in.can_go_on) return status;
    bool more = r->in.can_go_on;
    shoal_status_free(status);
    if (!more) return tfrecord_seek(&r->in, &(file_position){0});
  }
  if (data) TRY(try_image(r, data, n));
  if (r->ids) return tfrecord_seek(&r->in, &(file_position){0});
  if (!data && r->dense_count)
    return status_make(SHOAL_ERR_INPUT, "%s: expected a record to learn the features from, found none", r->base.path);
  if (data && r->dense_count) {
    TRY(learn_dense(r, data, n));
  } else if (data) {
    const wanted *needed[] = {&r->index, &r->label};
    for (int i = 0; i < (r->labels_optional ? 1 : 2); i++) {
      example_feature f;
      const char *problem = NULL;
      example_step step = example_find(data, n, needed[i]->name, &f, &problem);
      if (step == EXAMPLE_BAD) return bad(r, "expected a tf.train.Example, but %s", problem);
      if (step == EXAMPLE_END) return missing(r, needed[i], data, n);
    }
    example_feature field;
    const char *problem = NULL;
    r->schema.fields = example_find(data, n, r->field.name, &field, &problem) == EXAMPLE_FEATURE;
  }
  r->base.can_go_on = false;
  return tfrecord_seek(&r->in, &(file_position){0});
}

static void close_rows(file_reader *reader) {
  tfrecord_rows *r = (tfrecord_rows *)reader;
  if (!r) return;
  tfrecord_close(&r->in);
  for (size_t i = 0; i < r->dense_count; i++) free(r->dense[i].name);
  free(r->dense);
  free(r->label.name);
  free(r->index.name);
  free(r->value.name);
  free(r->field.name);
  free(r->scratch);
  free(r->base.path);
  free(r);
}

/* bytes NULL: the file `path`. */
static shoal_status open_any(const char *path, const uint8_t *bytes, size_t n, const format_options *options,
                             file_reader **out) {
  if (options->features < 0 || options->features > INT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "expected at most %d features, found %lld", INT32_MAX,
                       (long long)options->features);
  tfrecord_rows *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = &format_tfrecord;
  r->limit = options->features && !options->any_index ? options->features : INT32_MAX;
  r->labels_optional = options->labels_optional;
  r->schema = (rows_schema){.kind = ROWS_SPARSE, .scale = 1, .features = options->features, .ids = options->ids};
  bool check = !options->no_checksums;
  shoal_status status = NULL;
  r->base.path = strdup(path);
  if (!r->base.path) {
    status = status_no_memory();
    goto failed;
  }
  TRY_GOTO(status, parse_fields(r, options->fields), failed);
  r->classes = options->classes;
  bool sparse = r->ids || !r->dense_count;
  r->schema.classes = options->classes ? options->classes : sparse ? 2 : 0;
  r->schema.fields = r->ids;
  if (r->ids && !options->features) r->limit = r->schema.features = CRITEO_FEATURES;
  if (bytes)
    TRY_GOTO(status, tfrecord_open_memory(bytes, n, r->base.path, check, &r->in), failed);
  else
    TRY_GOTO(status, tfrecord_open(r->base.path, check, &r->in), failed);
  TRY_GOTO(status, look(r), failed);
  *out = &r->base;
  return NULL;
failed:
  close_rows(&r->base);
  return status;
}

static shoal_status open_file(const char *path, const format_options *options, file_reader **out) {
  return open_any(path, NULL, 0, options, out);
}

shoal_status tfrecord_rows_open_memory(const uint8_t *bytes, size_t n, const char *name, const format_options *options,
                                       file_reader **out) {
  return open_any(name, bytes, n, options, out);
}

static void get_schema(const file_reader *reader, rows_schema *out) { *out = ((const tfrecord_rows *)reader)->schema; }

static shoal_status read_rows(file_reader *reader, int64_t most, rows_block *into, int64_t *got) {
  tfrecord_rows *r = (tfrecord_rows *)reader;
  *got = 0;
  while (*got < most) {
    const uint8_t *data = NULL;
    size_t n = 0;
    shoal_status status = tfrecord_next(&r->in, &data, &n);
    r->base.can_go_on = r->in.can_go_on;
    if (status) return status;
    if (!data) break;
    if (r->ids)
      TRY(read_ids(r, data, n, into));
    else
      TRY(r->dense_count ? read_dense(r, data, n, into) : read_sparse(r, data, n, into));
    into->count++;
    ++*got;
  }
  return NULL;
}

static shoal_status skip_rows(file_reader *reader, int64_t rows, int64_t *got) {
  tfrecord_rows *r = (tfrecord_rows *)reader;
  r->base.can_go_on = false;
  return tfrecord_skip(&r->in, rows, got);
}

static void tell(const file_reader *reader, file_position *out) { *out = ((const tfrecord_rows *)reader)->in.next; }

static shoal_status seek(file_reader *reader, const file_position *to) {
  return tfrecord_seek(&((tfrecord_rows *)reader)->in, to);
}

static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  return !folder && tfrecord_detect(head, n);
}

const format format_tfrecord = {
    .name = "tfrecord",
    .summary = "TFRecord files of tf.train.Examples: label, index, value (sparse), named numbers (dense), images",
    .detect = detect,
    .open = open_file,
    .schema = get_schema,
    .read = read_rows,
    .skip = skip_rows,
    .tell = tell,
    .seek = seek,
    .close = close_rows,
};
