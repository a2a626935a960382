/* JSON texts: read as jansson reads them, and without its assertion when memory runs out. */
#include "base/json_read.h"
#include "base/random.h"
#include "files.h"

#include <locale.h>
#include <stdbool.h>

static const char *const texts[] = {
    "{}",
    "[]",
    " [1, -2, 0, -0, 9223372036854775807, -9223372036854775808] ",
    "{\"a\": 1.5, \"b\": [true, false, null], \"c\": {\"d\": \"e\"}, \"long enough to grow\": 0.12345678901234567}",
    "[0.1, 1e5, 1E+2, 2.5e-7, 123456789012345678901234567890.0, 1e-400]",
    "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\", \"caf\xc3\xa9 \xe2\x82\xac "
    "\xf0\x9f\x98\x80\"]",
    "{\"a\": 1, \"a\": 2}",
    "[[[[[[1]]]], 2], {\"x\": [{}]}]\n",
    "[0.30000000000000004440892098500626161694526672363281250000000000000000000000000000000001]",
};

static const char *const wrong[] = {
    "",
    " ",
    "1",
    "\"a\"",
    "nul",
    "[",
    "{",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "{\"a\":1,}",
    "{a:1}",
    "{1:2}",
    "[01]",
    "[-]",
    "[+1]",
    "[.5]",
    "[1.]",
    "[1.e2]",
    "[1e]",
    "[1e+]",
    "[0x10]",
    "[9223372036854775808]",
    "[-9223372036854775809]",
    "[1e400]",
    "[NaN]",
    "[Infinity]",
    "[tru]",
    "[truex]",
    "[True]",
    "[\"a]",
    "[\"a\\\"]",
    "[\"\\x\"]",
    "[\"\\u12\"]",
    "[\"\\u12g4\"]",
    "[\"\\u0000\"]",
    "{\"\\u0000\": 1}",
    "[\"\\ud800\"]",
    "[\"\\ud800\\u0041\"]",
    "[\"\\udc00\"]",
    "[\"a\nb\"]",
    "[\"\t\"]",
    "[\"\xff\"]",
    "[\"\xc0\x80\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"\xf4\x90\x80\x80\"]",
    "[\"\xe2\x82\"]",
    "[1] 2",
    "[1]]",
    "\xef\xbb\xbf[]",
    "[1 2]",
    "{\"a\" 1}",
    "'a'",
    "[1]\v",
};

/* The text is read from a block that is as large as it is: a sanitizer sees who reads on. */
static void assert_same(const char *bytes, size_t n, size_t flags) {
  char *copy = malloc(n ? n : 1);
  assert_non_null(copy);
  memcpy(copy, bytes, n);
  json_t *theirs = json_loadb(bytes, n, flags, NULL), *ours = json_read(copy, n, flags, NULL);
  free(copy);
  if (!theirs != !ours || (theirs && !json_equal(theirs, ours)))
    fail_msg("%.*s: %s here, %s there", (int)n, bytes, ours ? "read" : "refused", theirs ? "read" : "refused");
  json_decref(theirs);
  json_decref(ours);
}

static void reads(void **state) {
  for (size_t flags = 0; flags <= JSON_DECODE_ANY; flags += JSON_DECODE_ANY)
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
      assert_same(texts[i], strlen(texts[i]), flags);
      assert_same(texts[i], strlen(texts[i]), flags | JSON_REJECT_DUPLICATES);
    }
  json_t *word = json_read_words("\"word\"", JSON_DECODE_ANY, NULL);
  assert_string_equal(json_string_value(word), "word");
  json_decref(word);
  assert_null(json_read_words(NULL, 0, NULL));
  assert_same("[1]\0", 4, 0);
}

static void refuses(void **state) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    json_error_t error = {0};
    assert_same(wrong[i], strlen(wrong[i]), 0);
    assert_same(wrong[i], strlen(wrong[i]), JSON_DECODE_ANY);
    assert_null(json_read_words(wrong[i], 0, &error));
    assert_true(*error.text && error.line >= 1);
  }
}

static void says_where(void **state) {
  static const struct {
    const char *words, *said;
    int line, column, position;
  } cases[] = {
      {"{\"a\": 1,\n \"b\": tru}", "no value near 'tru}'", 2, 6, 15},
      {"{\"a\": 1,\n \"a\": 2}", "a duplicate key near '\"a\":'", 2, 1, 10},
      {"[1, 2", "']' or ',' expected at the end of the text", 1, 5, 5},
      {"[1] x", "the end of the text expected near 'x'", 1, 4, 4},
      {"[\"\x01\"]", "a control character in a string", 1, 2, 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    json_error_t error;
    assert_null(json_read_words(cases[i].words, JSON_REJECT_DUPLICATES, &error));
    assert_string_equal(error.text, cases[i].said);
    assert_int_equal(error.line, cases[i].line);
    assert_int_equal(error.column, cases[i].column);
    assert_int_equal(error.position, cases[i].position);
  }
}

/* Brackets in each other are counted: whatever a file has, the stack is large enough. */
static void deep(void **state) {
  char words[5000];
  for (int n = 2047; n <= 2049; n++) {
    memset(words, '[', (size_t)n);
    memset(words + n, ']', (size_t)n);
    assert_same(words, 2 * (size_t)n, 0);
  }
  memset(words, '[', sizeof words);
  assert_same(words, sizeof words, 0);
}

/* Texts that are nearly right: bytes are changed, removed, doubled. */
static void random_texts(void **state) {
  static const char likely[] = "{}[]:,\"\\/u0123456789abcdefE+-.truefalsn \n\x01\x80\xc3\xa9\xed\xf0";
  const random_stream stream = random_stream_make(1, 1);
  uint64_t drawn = 0;
  for (int turn = 0; turn < 40000; turn++) {
    char words[256];
    const char *from = texts[turn % (sizeof texts / sizeof *texts)];
    size_t n = strlen(from);
    memcpy(words, from, n);
    for (uint64_t changes = 1 + random_below(&stream, drawn++, 3); changes && n > 1; changes--) {
      const size_t at = random_below(&stream, drawn++, n), kind = random_below(&stream, drawn++, 3);
      if (kind == 0) words[at] = likely[random_below(&stream, drawn++, sizeof likely - 1)];
      if (kind == 1) memmove(words + at, words + at + 1, --n - at);
      if (kind == 2 && n < sizeof words) memmove(words + at + 1, words + at, n++ - at);
    }
    assert_same(words, n, turn % 2 ? JSON_REJECT_DUPLICATES : 0);
  }
}

/* Whatever allocation is the first that fails, alone or with all later ones: NULL and its reason, and nothing is left. jansson's
 * own reader ends the process there, or loses a character. */
static long granted, held;
static bool lasting;
static void *scarce(size_t n) {
  granted--;
  if (granted == -1 || (lasting && granted < 0)) return NULL;
  held++;
  return malloc(n);
}
static void give_back(void *p) {
  held -= p != NULL;
  free(p);
}

static void memory_runs_out(void **state) {
  json_t *whole = json_loads(texts[3], 0, NULL);
  json_set_alloc_funcs(scarce, give_back);
  for (int turn = 0; turn < 2; turn++) {
    long n = 0;
    lasting = turn;
    for (bool done = false; !done; n++) {
      json_error_t error;
      granted = n;
      json_t *got = json_read_words(texts[3], 0, &error);
      if (!got) assert_string_equal(error.text, "out of memory");
      done = granted >= 0;
      assert_int_equal(got != NULL, done);
      if (got) assert_true(json_equal(got, whole));
      json_decref(got);
      assert_int_equal(held, 0);
    }
    assert_in_range(n, 10, 200);
  }
  json_set_alloc_funcs(malloc, free);
  json_decref(whole);
}

static void files_and_streams(void **state) {
  char dir[FILES_PATH], path[FILES_PATH + 16];
  json_error_t error;
  files_make_folder(dir);
  snprintf(path, sizeof path, "%s/a.json", dir);
  assert_null(json_read_file(path, 0, &error));
  assert_string_equal(error.text, "cannot be read: No such file or directory");
  assert_null(json_read_file(dir, 0, &error));
  assert_string_equal(error.text, "cannot be read: Is a directory");
  char *large = malloc(100001);
  memset(large, ' ', 100000);
  large[0] = '[', large[99999] = ']';
  files_write(path, large, 100000);
  free(large);
  json_t *list = json_read_file(path, 0, &error);
  assert_true(json_is_array(list));
  json_decref(list);
  files_write(path, "", 0);
  assert_null(json_read_file(path, 0, &error));
  assert_string_equal(error.text, "'[' or '{' expected at the end of the text");
  files_remove_folder(dir);
}

int main(void) {
  setlocale(LC_ALL, ""); /* the point of numbers is that of JSON in any language */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads),
      cmocka_unit_test(refuses),
      cmocka_unit_test(says_where),
      cmocka_unit_test(deep),
      cmocka_unit_test(random_texts),
      cmocka_unit_test(memory_runs_out),
      cmocka_unit_test(files_and_streams),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
