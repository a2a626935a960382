#include "data/text_ids.h"

#include "base/mem.h"

#include <endian.h>
#include <string.h>

/* ---- FarmHash's Fingerprint64 (Pike, Alakuijala): what TensorFlow's to_hash_bucket_fast takes modulo the buckets */

#define K0 0xc3a5c85c97cb3127ull
#define K1 0xb492b66fbe98f273ull
#define K2 0x9ae16a3b2f90404full

static uint64_t fetch(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, sizeof x);
  return le64toh(x);
}

static uint64_t fetch32(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return le32toh(x);
}

static uint64_t turn(uint64_t x, int bits) { return x >> bits | x << (64 - bits); }
static uint64_t fold(uint64_t x) { return x ^ x >> 47; }
static uint64_t join(uint64_t u, uint64_t v, uint64_t times) {
  return fold((v ^ fold((u ^ v) * times)) * times) * times;
}

static uint64_t up_to_16(const uint8_t *s, size_t n) {
  const uint64_t times = K2 + 2 * n;
  if (n >= 8) {
    const uint64_t a = fetch(s) + K2, b = fetch(s + n - 8);
    return join(turn(b, 37) * times + a, (turn(a, 25) + b) * times, times);
  }
  if (n >= 4) return join(n + (fetch32(s) << 3), fetch32(s + n - 4), times);
  if (!n) return K2;
  const uint32_t y = s[0] + ((uint32_t)s[n >> 1] << 8), z = (uint32_t)n + ((uint32_t)s[n - 1] << 2);
  return fold(y * K2 ^ z * K0) * K2;
}

/* What the next two begin with: two numbers of the first and the last 16 bytes. */
static uint64_t ends(const uint8_t *s, size_t n, uint64_t a, uint64_t times, uint64_t *first) {
  const uint64_t b = fetch(s + 8), c = fetch(s + n - 8) * times, d = fetch(s + n - 16) * K2;
  *first = turn(a + b, 43) + turn(c, 30) + d;
  return a + turn(b + K2, 18) + c;
}

static uint64_t up_to_64(const uint8_t *s, size_t n) {
  const uint64_t times = K2 + 2 * n, a = fetch(s) * K2;
  uint64_t y;
  const uint64_t second = ends(s, n, a, times, &y), z = join(y, second, times);
  const uint64_t e = fetch(s + 16) * times, f = fetch(s + 24);
  const uint64_t g = (y + fetch(s + n - 32)) * times, h = (z + fetch(s + n - 24)) * times;
  return join(turn(e + f, 43) + turn(g, 30) + h, e + turn(f + a, 18) + g, times);
}

typedef struct {
  uint64_t first, second;
} two;

/* 32 bytes and two seeds. */
static two mix(const uint8_t *s, uint64_t a, uint64_t b) {
  const uint64_t w = fetch(s), x = fetch(s + 8), y = fetch(s + 16), z = fetch(s + 24);
  a += w;
  b = turn(b + a + z, 21);
  const uint64_t c = a;
  a += x + y;
  b += turn(a, 44);
  return (two){a + z, b + c};
}

typedef struct {
  uint64_t x, y, z;
  two v, w;
} state;

/* 64 bytes; more: what w.second and v.first count in the last round. */
static void round_of(state *t, const uint8_t *s, uint64_t times, uint64_t more) {
  t->x = turn(t->x + t->y + t->v.first + fetch(s + 8), 37) * times;
  t->y = turn(t->y + t->v.second + fetch(s + 48), 42) * times;
  t->x ^= t->w.second * more;
  t->y += t->v.first * more + fetch(s + 40);
  t->z = turn(t->z + t->w.first, 33) * times;
  t->v = mix(s, t->v.second * times, t->x + t->w.first);
  t->w = mix(s + 32, t->z + t->w.second, t->y + fetch(s + 16));
  const uint64_t z = t->z;
  t->z = t->x;
  t->x = z;
}

uint64_t text_fingerprint(const void *bytes, size_t n) {
  const uint8_t *s = bytes;
  if (n <= 16) return up_to_16(s, n);
  if (n <= 32) {
    const uint64_t times = K2 + 2 * n;
    uint64_t first;
    const uint64_t second = ends(s, n, fetch(s) * K1, times, &first);
    return join(first, second, times);
  }
  if (n <= 64) return up_to_64(s, n);
  const uint64_t seed = 81;
  state t = {.x = seed * K2 + fetch(s), .y = seed * K1 + 113};
  t.z = fold(t.y * K2 + 113) * K2;
  const uint8_t *end = s + (n - 1) / 64 * 64, *last = s + n - 64;
  for (; s < end; s += 64) round_of(&t, s, K1, 1);
  const uint64_t times = K1 + ((t.z & 0xff) << 1);
  t.w.first += (n - 1) & 63;
  t.v.first += t.w.first;
  t.w.first += t.v.first;
  round_of(&t, last, times, 9);
  return join(join(t.v.first, t.w.first, times) + fold(t.y) * K0 + t.z, join(t.v.second, t.w.second, times) + t.x,
              times);
}

/* ---- SipHash-2-4 (Aumasson, Bernstein) */

static uint64_t left(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void sip_rounds(uint64_t v[4], int n) {
  for (int i = 0; i < n; i++) {
    v[0] += v[1];
    v[1] = left(v[1], 13) ^ v[0];
    v[0] = left(v[0], 32);
    v[2] += v[3];
    v[3] = left(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = left(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = left(v[1], 17) ^ v[2];
    v[2] = left(v[2], 32);
  }
}

uint64_t text_siphash(const uint64_t key[2], const void *bytes, size_t n) {
  const uint8_t *s = bytes;
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull, key[0] ^ 0x6c7967656e657261ull,
                   key[1] ^ 0x7465646279746573ull};
  size_t at = 0;
  for (; at + 8 <= n; at += 8) {
    const uint64_t m = fetch(s + at);
    v[3] ^= m;
    sip_rounds(v, 2);
    v[0] ^= m;
  }
  uint64_t m = (uint64_t)n << 56;
  for (size_t i = 0; at + i < n; i++) m |= (uint64_t)s[at + i] << (8 * i);
  v[3] ^= m;
  sip_rounds(v, 2);
  v[0] ^= m;
  v[2] ^= 0xff;
  sip_rounds(v, 4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- words */

void text_ids_fini(text_ids *t) {
  class_names_fini(&t->words);
  free(t->mask);
  *t = (text_ids){0};
}

int64_t text_ids_count(const text_ids *t) {
  return t->bins ? t->bins : (t->mask != NULL) + t->unknown + t->words.count;
}

int64_t text_ids_of(const text_ids *t, const char *word) {
  const size_t n = strlen(word);
  const int64_t masked = t->mask != NULL;
  if (t->mask && !strcmp(t->mask, word)) return 0;
  if (t->bins) {
    const int64_t least = masked && t->bins > 1;
    const uint64_t hash = t->salted ? text_siphash(t->salt, word, n) : text_fingerprint(word, n);
    return least + (int64_t)(hash % (uint64_t)(t->bins - least));
  }
  const int place = class_names_find(&t->words, word);
  if (place >= 0) return masked + t->unknown + place;
  if (!t->unknown) return -1;
  return masked + (t->unknown > 1 ? (int64_t)(text_fingerprint(word, n) % (uint64_t)t->unknown) : 0);
}

/* ---- JSON */

static shoal_status take_mask(const json_t *v, text_ids *t) {
  if (!v || json_is_null(v)) return NULL;
  if (!json_is_string(v)) return status_make(SHOAL_ERR_INPUT, "expected a word, or null, as the word that is 0");
  return (t->mask = strdup(json_string_value(v))) ? NULL : status_no_memory();
}

static shoal_status take_salt(const json_t *v, text_ids *t) {
  if (!v || json_is_null(v)) return NULL;
  const bool two_numbers =
      json_array_size(v) == 2 && json_is_integer(json_array_get(v, 0)) && json_is_integer(json_array_get(v, 1));
  if (!json_is_integer(v) && !two_numbers)
    return status_make(SHOAL_ERR_INPUT, "expected a whole number, or two, as the \"salt\" of a hash");
  t->salted = true;
  for (size_t i = 0; i < 2; i++) t->salt[i] = (uint64_t)json_integer_value(two_numbers ? json_array_get(v, i) : v);
  return NULL;
}

static shoal_status take_hash(const json_t *o, text_ids *t) {
  t->bins = json_integer_value(json_object_get(o, "num_bins"));
  if (t->bins < 1 || t->bins > TEXT_IDS_MAX)
    return status_make(SHOAL_ERR_INPUT, "expected \"num_bins\" from 1 to %d", TEXT_IDS_MAX);
  TRY(take_salt(json_object_get(o, "salt"), t));
  return take_mask(json_object_get(o, "mask_value"), t);
}

static shoal_status take_words(const json_t *o, text_ids *t) {
  const json_t *unknown = json_object_get(o, "num_oov_indices");
  const char *const *words = NULL;
  t->unknown = unknown ? json_integer_value(unknown) : 1;
  if ((unknown && !json_is_integer(unknown)) || t->unknown < 0 || t->unknown > TEXT_IDS_MAX / 2)
    return status_make(SHOAL_ERR_INPUT, "expected \"num_oov_indices\" from 0 to %d", TEXT_IDS_MAX / 2);
  TRY(class_names_from_json(json_object_get(o, "vocabulary"), &words));
  shoal_status status = class_names_add_all(&t->words, words);
  t->words.ordered = true;
  free((void *)words);
  if (status) return status;
  return take_mask(json_object_get(o, "mask_token"), t);
}

shoal_status text_ids_from_json(const json_t *o, text_ids *out) {
  text_ids t = {0};
  shoal_status status = json_object_get(o, "num_bins") ? take_hash(o, &t) : take_words(o, &t);
  if (status)
    text_ids_fini(&t);
  else
    *out = t;
  return status;
}

bool text_ids_to_json(const text_ids *t, json_t *o) {
  int failed = 0;
  if (t->bins) {
    failed |= json_object_set_new(o, "num_bins", json_integer(t->bins));
    if (t->salted)
      failed |= json_object_set_new(o, "salt", json_pack("[I, I]", (json_int_t)t->salt[0], (json_int_t)t->salt[1]));
    if (t->mask) failed |= json_object_set_new(o, "mask_value", json_string(t->mask));
    return !failed;
  }
  failed |= json_object_set_new(o, "vocabulary", class_names_to_json((const char *const *)t->words.names));
  failed |= json_object_set_new(o, "num_oov_indices", json_integer(t->unknown));
  if (t->mask) failed |= json_object_set_new(o, "mask_token", json_string(t->mask));
  return !failed;
}
