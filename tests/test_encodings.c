/* Text files with a byte order mark: the bytes that come out are the UTF-8 text, wherever reading starts. */
#include "read_rows.h"

#include "data/stream.h"

static const struct {
  const char *name;
  int mark; /* bytes; 2: UTF-16 */
  bool big;
} encodings[] = {{"UTF-8", 3, false}, {"UTF-16 little-endian", 2, false}, {"UTF-16 big-endian", 2, true}};

static size_t put_unit(uint8_t *out, uint32_t unit, bool big) {
  out[big] = (uint8_t)unit;
  out[!big] = (uint8_t)(unit >> 8);
  return 2;
}

/* UTF-8 text of valid characters in encoding e; the caller frees it. */
static uint8_t *encode(const char *words, size_t length, size_t e, size_t *n) {
  const uint8_t *p = (const uint8_t *)words, *end = p + length;
  uint8_t *out = malloc(2 * length + 4);
  size_t k = 0;
  bool big = encodings[e].big;
  if (encodings[e].mark == 3) {
    memcpy(out, "\xef\xbb\xbf", 3);
    memcpy(out + 3, words, length);
    *n = length + 3;
    return out;
  }
  k += put_unit(out, 0xfeff, big);
  while (p < end) {
    int more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
    uint32_t c = more ? *p & (0x3fu >> more) : *p;
    for (p++; more; more--, p++) c = c << 6 | (*p & 0x3f);
    if (c >= 0x10000) {
      k += put_unit(out + k, 0xd800 + ((c - 0x10000) >> 10), big);
      c = 0xdc00 + (c & 0x3ff);
    }
    k += put_unit(out + k, c, big);
  }
  *n = k;
  return out;
}

static void check_stream(const char *path, const char *words, size_t length) {
  stream *s;
  const uint8_t *at;
  size_t have, done = 0;
  assert_ok(stream_open(path, &s));
  for (;;) {
    assert_ok(stream_fill(s, 1000, &at, &have));
    if (!have) break;
    size_t n = have < 777 ? have : 777;
    assert_true(done + n <= length);
    assert_memory_equal(at, words + done, n);
    stream_advance(s, n);
    done += n;
  }
  assert_int_equal(done, length);
  static const size_t places[] = {0, 5, 300000, 1, 12};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (places[i] >= length) continue;
    assert_ok(stream_seek(s, places[i]));
    assert_int_equal(stream_offset(s), places[i]);
    assert_ok(stream_fill(s, 4, &at, &have));
    assert_memory_equal(at, words + places[i], have < 4 ? have : 4);
  }
  stream_close(s);
}

static void same_text(void **state) {
  static const char line[] =
      "gr\xc3\xbc\xc3\x9f"
      "e,\xe2\x82\xac 5,\xf0\x9f\x90\x9f,1\n"; /* of 1 to 4 bytes each */
  char dir[FILES_PATH], path[FILES_PATH + 16], packed[FILES_PATH + 16];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.csv", dir);
  snprintf(packed, sizeof packed, "%s/a.csv.gz", dir);
  size_t lines = 20000, length = lines * (sizeof line - 1);
  char *words = malloc(length);
  for (size_t i = 0; i < lines; i++) memcpy(words + i * (sizeof line - 1), line, sizeof line - 1);
  for (size_t e = 0; e < sizeof encodings / sizeof *encodings; e++)
    for (int small = 0; small < 2; small++) {
      size_t n, part = small ? sizeof line - 1 : length;
      uint8_t *bytes = encode(words, part, e, &n);
      files_write(path, bytes, n);
      compress_file(path, packed, 16 + MAX_WBITS);
      check_stream(path, words, part);
      check_stream(packed, words, part);
      free(bytes);
    }
  free(words);
  files_remove_folder(dir);
}

/* Every format of text, found out and read. */
static void formats_of_text(void **state) {
  static const struct {
    const char *format, *words;
  } files[] = {
      {"csv", "a,b,y\n1,2,0\n3,4,1\n"}, {"tsv", "a\tb\ty\n1\t2\t0\n3\t4\t1\n"}, {"libsvm", "+1 3:0.5 7:1\n-1 2:1\n"}};
  char dir[FILES_PATH], path[FILES_PATH + 16];
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/rows", dir);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    for (size_t e = 0; e < sizeof encodings / sizeof *encodings; e++) {
      size_t n;
      const format *f;
      rows_block plain, marked;
      files_write(path, files[i].words, strlen(files[i].words));
      read_file_rows(format_find(files[i].format), path, &(format_options){0}, &plain);
      uint8_t *bytes = encode(files[i].words, strlen(files[i].words), e, &n);
      files_write(path, bytes, n);
      assert_ok(format_detect(path, &f));
      assert_string_equal(f->name, files[i].format);
      read_file_rows(f, path, &(format_options){0}, &marked);
      assert_int_equal(marked.count, 2);
      assert_memory_equal(marked.labels, plain.labels, 2 * sizeof *plain.labels);
      rows_fini(&plain);
      rows_fini(&marked);
      free(bytes);
    }
  files_remove_folder(dir);
}

/* What only begins like a mark is left alone; half a character is an error, half a pair is replaced. */
static void no_text(void **state) {
  static const uint8_t record[] = {0xff, 0xfe, 0, 0, 0, 0, 0, 0}, big[] = {0xef, 0xbb, 0xbf, 0},
                       half[] = {0xff, 0xfe, 'a', 0, 'b'}, lonely[] = {0xfe, 0xff, 0xd8, 0, 0, 'x'};
  stream *s;
  const uint8_t *at;
  size_t have;
  assert_ok(stream_open_memory(record, sizeof record, "record", &s));
  assert_ok(stream_fill(s, 8, &at, &have));
  assert_int_equal(have, 8);
  assert_int_equal(at[0], 0xff);
  stream_close(s);
  assert_ok(stream_open_memory(big, sizeof big, "big", &s));
  assert_ok(stream_fill(s, 4, &at, &have));
  assert_int_equal(have, 4);
  stream_close(s);
  assert_ok(stream_open_memory(half, sizeof half, "half.csv", &s));
  assert_fails(stream_fill(s, 8, &at, &have), SHOAL_ERR_INPUT, "half.csv: byte 3: the UTF-16 text ends in the middle");
  stream_close(s);
  assert_ok(stream_open_memory(lonely, sizeof lonely, "lonely", &s));
  assert_ok(stream_fill(s, 8, &at, &have));
  assert_int_equal(have, 4);
  assert_memory_equal(at, "\xef\xbf\xbdx", 4);
  stream_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_text), cmocka_unit_test(formats_of_text),
                                     cmocka_unit_test(no_text)};
  return cmocka_run_group_tests_name("encodings", tests, NULL, NULL);
}
