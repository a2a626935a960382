/* TFRecord files, tf.train.Examples, and rows out of both; streams and checksums below them. */
#include "read_rows.h"

#include "base/crc32c.h"
#include "data/example.h"
#include "data/sparse.h"
#include "data/tfrecord.h"

#include <math.h>

static const format_options plain = {0};

static void checksums(void **state) {
  assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
  uint8_t zeros[32] = {0}, bytes[5000], copy[5000];
  assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aau);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * i * 31 + i / 7);
  for (size_t n = 0; n < sizeof bytes; n += n < 2000 ? 1 : 37) {
    const uint32_t expected = crc32c_portable(7, bytes + n % 3, n - n % 3);
    assert_int_equal(crc32c(7, bytes + n % 3, n - n % 3), expected);
    memset(copy, 0, sizeof copy);
    assert_int_equal(crc32c_copy(7, copy, bytes + n % 3, n - n % 3), expected);
    assert_memory_equal(copy, bytes + n % 3, n - n % 3);
    for (size_t i = n - n % 3; i < sizeof copy; i++) assert_int_equal(copy[i], 0);
  }
  assert_int_equal(crc32c(crc32c(0, bytes, 1234), bytes + 1234, 3766), crc32c(0, bytes, 5000));
}

/* Counted with another program. */
static void real_files(void **state) {
  int64_t rows = 0, positive = 0, entries = 0, index_sum = 0;
  int32_t least = INT32_MAX, largest = 0;
  double sum = 0;
  for (int file = 0; file < 23; file++) {
    char path[FILES_PATH], name[64];
    snprintf(name, sizeof name, "criteo/tfrecords%02d", file);
    shared_path(name, path);
    rows_block b;
    read_file_rows(&format_tfrecord, path, &(format_options){.features = CRITEO_FEATURES}, &b);
    assert_int_equal(b.schema.classes, 2);
    for (int64_t i = 0; i < b.count; i++) {
      int64_t from = b.offsets[i], to = b.offsets[i + 1];
      assert_true(to - from >= 24 && to - from <= 39);
      positive += b.labels[i];
      for (int64_t e = from; e < to; e++) {
        if (e > from) assert_true(b.indices[e] > b.indices[e - 1]);
        if (b.indices[e] < least) least = b.indices[e];
        if (b.indices[e] > largest) largest = b.indices[e];
        index_sum += b.indices[e];
        sum += b.values[e];
      }
    }
    rows += b.count;
    entries += b.offsets[b.count];
    rows_fini(&b);
    if (file == 7) check_positions(&format_tfrecord, path, &plain);
  }
  assert_int_equal(rows, 230);
  assert_int_equal(positive, 61);
  assert_int_equal(entries, 7692);
  assert_int_equal(index_sum, 97803302530);
  assert_int_equal(least, 1);
  assert_int_equal(largest, 33761144);
  assert_true(fabs(sum - 5351.4137) < 0.01);
}

static void other_schemas(void **state) {
  char path[FILES_PATH];
  rows_block b;
  file_reader *r;
  shared_path("tfrecord/fuxictr_tiny_train.tfrecord", path);
  assert_fails(format_tfrecord.open(path, &plain, &r), SHOAL_ERR_INPUT, "userid int64 x 1");
  read_file_rows(&format_tfrecord, path, &(format_options){.fields = "label=clk,dense=userid,brand,pid"}, &b);
  assert_int_equal(b.count, 100);
  assert_int_equal(b.schema.kind, ROWS_DENSE);
  assert_int_equal(b.schema.shape.dim[0], 3);
  rows_fini(&b);
  shared_path("tfrecord/nnstudy_demo_mnist_train.tfrecords", path);
  static const char *const fields[] = {"dense=img_raw", NULL};
  for (int i = 0; i < 2; i++) {
    read_file_rows(&format_tfrecord, path, &(format_options){.fields = fields[i]}, &b);
    assert_int_equal(b.count, 1835);
    assert_int_equal(b.schema.dtype, SHOAL_U8);
    shoal_shape expected = SHOAL_SHAPE(28, 28, 1);
    assert_true(shoal_shape_equal(&b.schema.shape, &expected));
    rows_fini(&b);
  }
}

/* ---- records made here */

/* A file in memory. */
typedef struct {
  char dir[FILES_PATH], path[FILES_PATH + 16];
  sink to;
} making;

static void begin(making *m) {
  files_make_folder(m->dir);
  snprintf(m->path, sizeof m->path, "%s/records", m->dir);
  assert_ok(sink_open(m->path, &m->to));
}

static uint8_t *finish(making *m, size_t *n) {
  assert_ok(sink_close(&m->to));
  uint8_t *bytes = files_read(m->path, n);
  files_remove_folder(m->dir);
  return bytes;
}

static void add(sink *to, const int64_t *indices, size_t n, const float *values, size_t values_n, int64_t label) {
  example_writer w = {0};
  const uint8_t *record;
  size_t size;
  example_clear(&w);
  example_add_floats(&w, "value", values, values_n);
  example_add_ints(&w, "label", &label, 1);
  example_add_bytes(&w, "note", "hello", 5);
  example_add_ints(&w, "index", indices, n);
  assert_ok(example_finish(&w, &record, &size));
  assert_ok(tfrecord_append(to, record, size));
  example_writer_fini(&w);
}

static shoal_status read_bytes(const uint8_t *bytes, size_t n, const format_options *options, rows_block *b,
                               int64_t *got, bool *can_go_on) {
  file_reader *r;
  rows_schema schema = {0};
  *got = 0;
  *can_go_on = false;
  rows_init(b, &schema);
  /* exactly as large as it is, so that a sanitizer sees a read past the end */
  uint8_t *copy = malloc(n ? n : 1);
  memcpy(copy, bytes, n);
  shoal_status status = tfrecord_rows_open_memory(copy, n, "memory", options, &r);
  if (!status) {
    format_tfrecord.schema(r, &schema);
    rows_init(b, &schema);
    status = format_tfrecord.read(r, 100000, b, got);
    *can_go_on = r->can_go_on;
    format_tfrecord.close(r);
  }
  free(copy);
  return status;
}

static uint8_t *three_records(size_t *n) {
  making m;
  begin(&m);
  add(&m.to, (int64_t[]){0, 5, 127, 128, 16384, 2097152, 33762577}, 7, (float[]){1, 2, 3, 4, 5, 6, 7}, 7, -1);
  add(&m.to, (int64_t[]){3}, 1, (float[]){-0.5f}, 1, 1);
  add(&m.to, NULL, 0, NULL, 0, 0);
  return finish(&m, n);
}

/* CRC-32C finds every single flipped byte; the rows before it are still given. */
static void every_byte(void **state) {
  size_t n;
  uint8_t *bytes = three_records(&n);
  rows_block b;
  int64_t got;
  bool more;
  assert_ok(read_bytes(bytes, n, &plain, &b, &got, &more));
  assert_int_equal(got, 3);
  static const int32_t indices[] = {0, 5, 127, 128, 16384, 2097152, 33762577, 3};
  static const int64_t offsets[] = {0, 7, 8, 8};
  static const int32_t labels[] = {0, 1, 0};
  assert_memory_equal(b.indices, indices, sizeof indices);
  assert_memory_equal(b.offsets, offsets, sizeof offsets);
  assert_memory_equal(b.labels, labels, sizeof labels);
  assert_true(b.values[6] == 7 && b.values[7] == -0.5f);
  rows_fini(&b);
  for (size_t i = 0; i < n; i++)
    for (int how = 0; how < 3; how++) {
      uint8_t kept = bytes[i];
      bytes[i] = how == 0 ? kept ^ 1 : how == 1 ? kept ^ 0x80 : (uint8_t)~kept;
      shoal_status status = read_bytes(bytes, n, &plain, &b, &got, &more);
      if (!status) fail_msg("byte %zu was changed without an error", i);
      assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
      assert_non_null(strstr(shoal_status_message(status), "memory: record "));
      shoal_status_free(status);
      rows_fini(&b);
      bytes[i] = kept;
    }
  free(bytes);
}

static void every_length(void **state) {
  size_t n;
  uint8_t *bytes = three_records(&n);
  int whole = 0;
  for (size_t cut = 0; cut < n; cut++) {
    rows_block b;
    int64_t got;
    bool more;
    shoal_status status = read_bytes(bytes, cut, &plain, &b, &got, &more);
    if (!status)
      whole++;
    else {
      assert_false(more);
      assert_non_null(strstr(shoal_status_message(status), "it is cut short"));
      shoal_status_free(status);
    }
    rows_fini(&b);
  }
  assert_int_equal(whole, 3); /* behind 0, 1 and 2 records */
  free(bytes);
}

static void wrong_checksum_goes_on(void **state) {
  size_t n;
  uint8_t *bytes = three_records(&n);
  bytes[30] ^= 4;
  file_reader *r;
  rows_block b;
  rows_schema schema;
  int64_t got;
  assert_ok(tfrecord_rows_open_memory(bytes, n, "memory", &plain, &r));
  format_tfrecord.schema(r, &schema);
  rows_init(&b, &schema);
  assert_fails(format_tfrecord.read(r, 9, &b, &got), SHOAL_ERR_INPUT,
               "memory: record 0 at byte 0: expected the checksum");
  assert_true(r->can_go_on);
  assert_ok(format_tfrecord.read(r, 9, &b, &got));
  assert_int_equal(got, 2);
  rows_fini(&b);
  format_tfrecord.close(r);
  free(bytes);
}

static void bad_rows(void **state) {
  static const struct {
    int64_t indices[3];
    float values[3];
    size_t n, values_n;
    int64_t label;
    const char *message;
  } cases[] = {{{1, -1, 3}, {1, 1, 1}, 3, 3, 1, "record 1 at byte 88: expected indices from 0 to 99, found -1"},
               {{1, 2, 100}, {1, 1, 1}, 3, 3, 1, "found 100: check --features"},
               {{1, 2, INT64_MAX}, {1, 1, 1}, 3, 3, 1, "found 9223372036854775807"},
               {{1, 2, 1ll << 32}, {1, 1, 1}, 3, 3, 1, "found 4294967296"},
               {{1, 3, 2}, {1, 1, 1}, 3, 3, 1, "expected ascending indices without duplicates, found 2 after 3"},
               {{1, 3, 3}, {1, 1, 1}, 3, 3, 1, "found 3 after 3"},
               {{1, 2, 3}, {1, 1, 1}, 3, 2, 1, "found 2 in 'value' and 3 in 'index'"},
               {{1, 2, 3}, {1, NAN, 1}, 3, 3, 1, "not a finite number"},
               {{1, 2, 3}, {1, 1, -INFINITY}, 3, 3, 1, "not a finite number"},
               {{1, 2, 3}, {1, 1, 1}, 3, 3, 2, "expected a label of 0 or 1, or -1 or 1, found 2"},
               {{1, 2, 3}, {1, 1, 1}, 3, 3, -2, "found -2"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    making m;
    size_t n;
    rows_block b;
    int64_t got;
    bool more;
    begin(&m);
    add(&m.to, (int64_t[]){1}, 1, (float[]){1}, 1, 1);
    add(&m.to, cases[i].indices, cases[i].n, cases[i].values, cases[i].values_n, cases[i].label);
    uint8_t *bytes = finish(&m, &n);
    assert_fails(read_bytes(bytes, n, &(format_options){.features = 100}, &b, &got, &more), SHOAL_ERR_INPUT,
                 cases[i].message);
    assert_int_equal(got, 1);
    assert_true(more);
    rows_fini(&b);
    free(bytes);
  }
}

static void options(void **state) {
  size_t n;
  uint8_t *bytes = three_records(&n);
  rows_block b;
  int64_t got;
  bool more;
  assert_fails(read_bytes(bytes, n, &(format_options){.fields = "a,b"}, &b, &got, &more), SHOAL_ERR_ARGUMENT, "three");
  assert_fails(read_bytes(bytes, n, &(format_options){.fields = "a=b"}, &b, &got, &more), SHOAL_ERR_ARGUMENT,
               "key 'a'");
  assert_fails(read_bytes(bytes, n, &(format_options){.fields = "label=a,b"}, &b, &got, &more), SHOAL_ERR_ARGUMENT,
               "belongs to no key");
  assert_fails(read_bytes(bytes, n, &(format_options){.fields = "label=,dense=b"}, &b, &got, &more), SHOAL_ERR_ARGUMENT,
               "empty");
  assert_fails(read_bytes(bytes, n, &(format_options){.fields = "clk,index,value"}, &b, &got, &more), SHOAL_ERR_INPUT,
               "expected a feature 'clk', found value float x 7, label int64 x 1, note bytes x 1, index int64 x 7");
  assert_ok(read_bytes(bytes, n, &(format_options){.fields = "label,index,value"}, &b, &got, &more));
  rows_fini(&b);
  /* Without checksums a wrong one is not seen. */
  bytes[n - 1] ^= 1;
  assert_ok(read_bytes(bytes, n, &(format_options){.no_checksums = true}, &b, &got, &more));
  assert_int_equal(got, 3);
  rows_fini(&b);
  free(bytes);
}

/* A list that is not packed, a field nobody knows, two maps: all legal. */
static void other_wire_forms(void **state) {
  example_writer w = {0};
  float two[] = {1, 2};
  int64_t one = 1;
  const uint8_t *made;
  size_t n;
  example_clear(&w);
  example_add_floats(&w, "value", two, 2);
  example_add_ints(&w, "label", &one, 1);
  assert_ok(example_finish(&w, &made, &n));
  /* A second map behind the first is merged with it. */
  static const uint8_t index_map[] = {0x12, 1,   0,   0x0a, 17, 0x0a, 15, 0x0a, 5, 'i',  'n',
                                      'd',  'e', 'x', 0x12, 6,  0x1a, 4,  0x08, 3, 0x08, 9};
  uint8_t all[256];
  memcpy(all, made, n);
  memcpy(all + n, index_map, sizeof index_map);
  making m;
  begin(&m);
  assert_ok(tfrecord_append(&m.to, all, n + sizeof index_map));
  size_t size;
  uint8_t *bytes = finish(&m, &size);
  rows_block b;
  int64_t got;
  bool more;
  assert_ok(read_bytes(bytes, size, &plain, &b, &got, &more));
  assert_int_equal(got, 1);
  assert_int_equal(b.offsets[1], 2);
  assert_int_equal(b.indices[0], 3);
  assert_int_equal(b.indices[1], 9);
  rows_fini(&b);
  free(bytes);
  example_writer_fini(&w);
}

/* The fast way through packed indices gives what the plain one does, for lists of all lengths and widths. */
static void ascending(void **state) {
  uint64_t seed = 5;
  for (int round = 0; round < 2000; round++) {
    int64_t values[200], again[200];
    int32_t fast[2000];
    size_t n = (size_t)round % 200, size;
    int64_t at = -1;
    for (size_t i = 0; i < n; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      at += 1 + (int64_t)((seed >> 33) % (1ull << (seed >> 60) * (round % 3)));
      values[i] = at;
    }
    example_writer w = {0};
    const uint8_t *record;
    example_clear(&w);
    example_add_ints(&w, "index", values, n);
    assert_ok(example_finish(&w, &record, &size));
    uint8_t *copy = calloc(1, size + STREAM_SLACK);
    memcpy(copy, record, size);
    example_feature f;
    const char *problem;
    assert_int_equal(example_find(copy, size, "index", &f, &problem), EXAMPLE_FEATURE);
    assert_int_equal(example_ints(&f, again, 200), n);
    assert_memory_equal(values, again, n * sizeof *values);
    if (n && at < INT32_MAX) {
      assert_int_equal(example_ascending(&f, at + 1, fast, 2000), n);
      for (size_t i = 0; i < n; i++) assert_int_equal(fast[i], values[i]);
      assert_int_equal(example_ascending(&f, at, fast, 2000), -1);
    }
    free(copy);
    example_writer_fini(&w);
  }
}

static void damaged_compression(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 16], packed[FILES_PATH + 16];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/plain", dir);
  snprintf(packed, sizeof packed, "%s/packed", dir);
  making m;
  begin(&m);
  for (int i = 0; i < 3000; i++)
    add(&m.to, (int64_t[]){i, 1 + 8 * i, 100000 + i}, 3, (float[]){1, (float)i, 3}, 3, i % 2);
  size_t n, packed_n;
  uint8_t *bytes = finish(&m, &n);
  files_write(path, bytes, n);
  compress_file(path, packed, MAX_WBITS + 16);
  uint8_t *zipped = files_read(packed, &packed_n);
  rows_block b;
  int64_t got;
  bool more;
  assert_fails(read_bytes(zipped, packed_n - 5, &plain, &b, &got, &more), SHOAL_ERR_INPUT, "it is cut short");
  rows_fini(&b);
  zipped[packed_n / 2] ^= 0xff;
  zipped[packed_n / 2 + 1] ^= 0xff;
  shoal_status status = read_bytes(zipped, packed_n, &plain, &b, &got, &more);
  assert_non_null(status);
  assert_int_equal(shoal_status_code(status), SHOAL_ERR_INPUT);
  assert_true(got > 0); /* the rows before the damage */
  shoal_status_free(status);
  rows_fini(&b);
  zipped[packed_n / 2] ^= 0xff;
  zipped[packed_n / 2 + 1] ^= 0xff;
  zipped[packed_n - 8] ^= 1; /* the checksum at the end */
  assert_fails(read_bytes(zipped, packed_n, &plain, &b, &got, &more), SHOAL_ERR_INPUT, "incorrect data check");
  assert_int_equal(b.count, 3000);
  rows_fini(&b);
  free(zipped);
  free(bytes);
  check_positions(&format_tfrecord, path, &plain);
  files_remove_folder(dir);
}

static size_t pack(const char *words, int window, uint8_t *out, size_t room) {
  z_stream z = {.next_in = (Bytef *)words, .avail_in = (uInt)strlen(words), .next_out = out, .avail_out = (uInt)room};
  assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  return z.total_out;
}

static void streams(void **state) {
  uint8_t packed[500];
  stream *s;
  const uint8_t *at;
  size_t have, n = pack("hello, ", MAX_WBITS + 16, packed, 200);
  n += pack("world", MAX_WBITS + 16, packed + n, 200);
  /* Two members are one text. */
  assert_ok(stream_open_memory(packed, n, "two", &s));
  assert_true(stream_compressed(s));
  assert_ok(stream_fill(s, 100, &at, &have));
  assert_int_equal(have, 12);
  assert_memory_equal(at, "hello, world", 12);
  stream_advance(s, 12);
  assert_int_equal(stream_offset(s), 12);
  assert_ok(stream_seek(s, 7));
  assert_ok(stream_fill(s, 5, &at, &have));
  assert_memory_equal(at, "world", 5);
  assert_ok(stream_seek(s, 0));
  assert_fails(stream_seek(s, 13), SHOAL_ERR_INPUT, "the file ends at byte 12");
  stream_close(s);
  /* Junk behind them is not. */
  packed[n] = 'x';
  assert_ok(stream_open_memory(packed, n + 1, "junk", &s));
  assert_ok(stream_fill(s, 12, &at, &have));
  assert_int_equal(have, 12);
  assert_fails(stream_fill(s, 13, &at, &have), SHOAL_ERR_INPUT, "junk: byte 12 after decompression");
  stream_close(s);
  /* What only looks like zlib is plain. */
  static const char *const texts[] = {"x^2,y\n1,2\n", "80,1\n", "x\x01", "x\x01\0\0\0\0\0\0abcd", "", "x"};
  static const size_t sizes[] = {10, 5, 2, 12, 0, 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    assert_ok(stream_open_memory((const uint8_t *)texts[i], sizes[i], "text", &s));
    assert_false(stream_compressed(s));
    assert_int_equal(stream_size(s), sizes[i]);
    assert_ok(stream_fill(s, 100, &at, &have));
    assert_int_equal(have, sizes[i]);
    assert_memory_equal(at, texts[i], sizes[i]);
    stream_close(s);
  }
}

/* Absurd lengths cost no memory. */
static void absurd_length(void **state) {
  uint8_t head[32] = {0xff, 0xff, 0xff, 0x7f};
  uint32_t crc = crc32c_mask(crc32c(0, head, 8));
  memcpy(head + 8, &crc, 4);
  rows_block b;
  int64_t got;
  bool more;
  assert_fails(read_bytes(head, sizeof head, &plain, &b, &got, &more), SHOAL_ERR_INPUT, "it is cut short");
  head[7] = 0x70;
  crc = crc32c_mask(crc32c(0, head, 8));
  memcpy(head + 8, &crc, 4);
  assert_fails(read_bytes(head, sizeof head, &plain, &b, &got, &more), SHOAL_ERR_INPUT, "more than the 2147483647");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(checksums),
                                     cmocka_unit_test(real_files),
                                     cmocka_unit_test(other_schemas),
                                     cmocka_unit_test(every_byte),
                                     cmocka_unit_test(every_length),
                                     cmocka_unit_test(wrong_checksum_goes_on),
                                     cmocka_unit_test(bad_rows),
                                     cmocka_unit_test(options),
                                     cmocka_unit_test(other_wire_forms),
                                     cmocka_unit_test(ascending),
                                     cmocka_unit_test(damaged_compression),
                                     cmocka_unit_test(streams),
                                     cmocka_unit_test(absurd_length)};
  return cmocka_run_group_tests_name("tfrecord", tests, NULL, NULL);
}
