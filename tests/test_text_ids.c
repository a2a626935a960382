/* Words as numbers: what Keras' documentation says of Hashing, known values of the hashes, vocabularies. */
#include "data/text_ids.h"
#include "files.h"

#include <string.h>

static int64_t id_of(const char *description, const char *word) {
  json_t *o = json_loads(description, 0, NULL);
  text_ids t, again;
  assert_non_null(o);
  assert_ok(text_ids_from_json(o, &t));
  const int64_t id = text_ids_of(&t, word);
  assert_true(id < text_ids_count(&t));
  json_t *written = json_object(); /* and what is written is read as the same */
  assert_true(text_ids_to_json(&t, written));
  assert_ok(text_ids_from_json(written, &again));
  assert_int_equal(text_ids_of(&again, word), id);
  text_ids_fini(&t);
  text_ids_fini(&again);
  json_decref(written);
  json_decref(o);
  return id;
}

/* The examples of keras.layers.Hashing. */
static void hashing_as_keras(void **state) {
  static const struct {
    const char *description;
    const char *words[5];
    int64_t ids[5];
  } cases[] = {
      {"{\"num_bins\": 3}", {"A", "B", "C", "D", "E"}, {1, 0, 1, 1, 2}},
      {"{\"num_bins\": 3, \"mask_value\": \"\"}", {"A", "B", "", "C", "D"}, {1, 1, 0, 2, 2}},
      {"{\"num_bins\": 3, \"salt\": [133, 137]}", {"A", "B", "C", "D", "E"}, {1, 2, 1, 0, 2}},
      {"{\"num_bins\": 3, \"salt\": 133}", {"A", "B", "C", "D", "E"}, {0, 0, 2, 1, 0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int k = 0; k < 5; k++)
      if (id_of(cases[i].description, cases[i].words[k]) != cases[i].ids[k])
        fail_msg("case %zu: '%s' is %lld", i, cases[i].words[k],
                 (long long)id_of(cases[i].description, cases[i].words[k]));
}

/* Test vectors of the paper on SipHash-2-4: bytes 0, 1, 2 ... under the key 0, 1 ... 15. */
static void siphash_vectors(void **state) {
  const uint64_t key[2] = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
  uint8_t bytes[15];
  for (int i = 0; i < 15; i++) bytes[i] = (uint8_t)i;
  assert_true(text_siphash(key, bytes, 15) == 0xa129ca6149be45e5ull);
  assert_true(text_siphash(key, bytes, 0) == 0x726fdb47dd0e0e31ull);
  assert_true(text_siphash(key, bytes, 8) == 0x93f5f5799a932462ull);
}

static void vocabularies(void **state) {
  const char *words = "{\"vocabulary\": [\"b\", \"a\", \"\\u00e9\"]}";
  assert_int_equal(id_of(words, "b"), 1);
  assert_int_equal(id_of(words, "a"), 2);
  assert_int_equal(id_of(words, "\xc3\xa9"), 3);
  assert_int_equal(id_of(words, "c"), 0);
  assert_int_equal(id_of("{\"vocabulary\": [\"b\"], \"mask_token\": \"\"}", ""), 0);
  assert_int_equal(id_of("{\"vocabulary\": [\"b\"], \"mask_token\": \"\"}", "x"), 1);
  assert_int_equal(id_of("{\"vocabulary\": [\"b\"], \"mask_token\": \"\"}", "b"), 2);
  assert_int_equal(id_of("{\"vocabulary\": [\"b\"], \"num_oov_indices\": 0}", "b"), 0);
  assert_int_equal(id_of("{\"vocabulary\": [\"b\"], \"num_oov_indices\": 0}", "x"), -1);
  assert_int_equal(id_of("{\"vocabulary\": [\"b\"], \"num_oov_indices\": 3}", "b"), 3);
  /* one of three, by its hash */
  assert_int_equal(id_of("{\"vocabulary\": [\"b\"], \"num_oov_indices\": 3}", "A"), id_of("{\"num_bins\": 3}", "A"));
}

/* All lengths take other ways through the fingerprint; equal words have equal numbers, others hardly ever. */
static void fingerprints_differ(void **state) {
  enum { MOST = 300 };
  char word[MOST];
  uint64_t seen[MOST];
  for (int n = 0; n < MOST; n++) {
    memset(word, 'x', sizeof word);
    seen[n] = text_fingerprint(word, (size_t)n);
    assert_true(seen[n] == text_fingerprint(word, (size_t)n));
    for (int k = 0; k < n; k++) assert_true(seen[k] != seen[n]);
    for (int k = 0; k < n; k += 7) {
      word[k] = 'y';
      assert_true(text_fingerprint(word, (size_t)n) != seen[n]);
      word[k] = 'x';
    }
  }
}

static void refused(void **state) {
  static const char *const bad[] = {"{\"num_bins\": 0}",
                                    "{\"num_bins\": 4, \"salt\": \"x\"}",
                                    "{\"num_bins\": 4, \"mask_value\": 7}",
                                    "{\"vocabulary\": [\"a\", \"a\"]}",
                                    "{\"vocabulary\": 3}",
                                    "{\"vocabulary\": [\"a\"], \"num_oov_indices\": -1}"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    json_t *o = json_loads(bad[i], 0, NULL);
    text_ids t;
    shoal_status status = text_ids_from_json(o, &t);
    if (!status) fail_msg("%s is taken", bad[i]);
    shoal_status_free(status);
    json_decref(o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hashing_as_keras),    cmocka_unit_test(siphash_vectors), cmocka_unit_test(vocabularies),
      cmocka_unit_test(fingerprints_differ), cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
