#include "base/json_read.h"

#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 2048, NEAR_BYTES = 20 };

typedef struct {
  const char *begin, *at, *end;
  size_t flags;
  int depth;
  json_error_t *error;
} reader;

/* ---- errors: all return NULL */

/* Words of the text that may stand in a message. */
static int printable(const char *at, const char *end) {
  int n = 0;
  while (n < NEAR_BYTES && at + n < end && at[n] > 0x20 && at[n] < 0x7f) n++;
  return n;
}

static json_t *fail(const reader *r, const char *at, const char *why) {
  json_error_t *error = r->error;
  if (!error) return NULL;
  *error = (json_error_t){.line = 1, .position = (int)(at - r->begin)};
  for (const char *c = r->begin; c < at; c++) {
    error->column = *c == '\n' ? 0 : error->column + 1;
    error->line += *c == '\n';
  }
  const int near = printable(at, r->end);
  if (at >= r->end)
    snprintf(error->text, sizeof error->text, "%s at the end of the text", why);
  else if (near)
    snprintf(error->text, sizeof error->text, "%s near '%.*s'", why, near, at);
  else
    snprintf(error->text, sizeof error->text, "%s", why);
  return NULL;
}

static json_t *no_memory(json_error_t *error) {
  if (error) *error = (json_error_t){.line = -1, .column = -1, .text = "out of memory"};
  return NULL;
}

static json_t *or_no_memory(const reader *r, json_t *value) { return value ? value : no_memory(r->error); }

/* ---- strings */

/* Bytes of the character that begins at at; 0: no UTF-8, or a code that Unicode does not have. */
static size_t utf8_bytes(const char *at, const char *end) {
  const uint8_t first = (uint8_t)*at;
  const size_t n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (n < 2) return n;
  if ((size_t)(end - at) < n) return 0;
  uint32_t code = first & (0x7fu >> n);
  for (size_t i = 1; i < n; i++) {
    if (((uint8_t)at[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | ((uint8_t)at[i] & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code<0xe000, too_long = n> 2 && code < (n == 3 ? 0x800 : 0x10000);
  return surrogate || too_long || code > 0x10ffff ? 0 : n;
}

static size_t utf8_write(uint32_t code, char *to) {
  const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = n; i-- > 1; code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
  *to = (char)(n == 1 ? code : (0xf00u >> n & 0xf0) | code);
  return n;
}

/* The four digits of \uXXXX, which begins at at; -1: it is none. */
static int32_t hex_code(const char *at, const char *end) {
  if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
  int32_t code = 0;
  for (int i = 2; i < 6; i++) {
    const char c = at[i], letter = (char)(c | 0x20);
    if (!(c >= '0' && c <= '9') && !(letter >= 'a' && letter <= 'f')) return -1;
    code = code * 16 + (c <= '9' ? c - '0' : letter - 'a' + 10);
  }
  return code;
}

/* One escape sequence. Returns its length, 0: there is none of that kind. It is never shorter than what it stands for. */
static size_t unescape(const char *at, const char *end, char *to, size_t *written) {
  static const char letters[] = {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'},
                    meant[] = {'"', '\\', '/', '\b', '\f', '\n', '\r', '\t'};
  const char *letter = memchr(letters, at[1], sizeof letters);
  if (letter) {
    *to = meant[letter - letters];
    *written = 1;
    return 2;
  }
  int32_t code = hex_code(at, end);
  size_t n = 6;
  if (code >= 0xd800 && code < 0xdc00) {
    const int32_t low = hex_code(at + 6, end);
    if (low < 0xdc00 || low > 0xdfff) return 0;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    n = 12;
  } else if (code <= 0 || (code >= 0xdc00 && code < 0xe000)) { /* words are C strings: no zero in them */
    return 0;
  }
  *written = utf8_write((uint32_t)code, to);
  return n;
}

static json_t *unescaped(const reader *r, const char *from, const char *to) {
  char *words = malloc((size_t)(to - from));
  size_t length = 0, written;
  if (!words) return no_memory(r->error);
  while (from < to) {
    if (*from != '\\') {
      words[length++] = *from++;
      continue;
    }
    const size_t n = unescape(from, to, words + length, &written);
    if (!n) {
      free(words);
      return fail(r, from, "invalid escape");
    }
    from += n;
    length += written;
  }
  json_t *value = json_stringn_nocheck(words, length);
  free(words);
  return or_no_memory(r, value);
}

static json_t *string(reader *r) {
  const char *from = ++r->at;
  bool escaped = false;
  while (r->at < r->end && *r->at != '"') {
    const uint8_t c = (uint8_t)*r->at;
    if (c < 0x20) return fail(r, r->at, "a control character in a string");
    escaped |= c == '\\';
    const size_t n = c == '\\' ? 2 : utf8_bytes(r->at, r->end);
    if (!n) return fail(r, r->at, "bytes that are no UTF-8");
    if ((size_t)(r->end - r->at) < n) break;
    r->at += n;
  }
  if (r->at >= r->end || *r->at != '"') return fail(r, r->end, "a string without an end");
  const char *to = r->at++;
  return escaped ? unescaped(r, from, to) : or_no_memory(r, json_stringn_nocheck(from, (size_t)(to - from)));
}

/* ---- numbers */

static json_t *integer(const reader *r, const char *from, const char *to) {
  const bool negative = *from == '-';
  json_int_t value = 0;
  for (const char *c = from + negative; c < to; c++) { /* downwards where it is negative: there is one more */
    const int digit = *c - '0';
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, negative ? -digit : digit, &value))
      return fail(r, from, "too big an integer");
  }
  return or_no_memory(r, json_integer(value));
}

static json_t *real(const reader *r, const char *from, const char *to) {
  char small[64];
  const size_t n = (size_t)(to - from);
  char *copy = n < sizeof small ? small : malloc(n + 1), *point;
  if (!copy) return no_memory(r->error);
  memcpy(copy, from, n);
  copy[n] = 0;
  point = strchr(copy, '.');
  if (point) *point = *localeconv()->decimal_point; /* that of strtod */
  const double value = strtod(copy, NULL);
  if (copy != small) free(copy);
  return isinf(value) ? fail(r, from, "too big a number") : or_no_memory(r, json_real(value));
}

static const char *digits(const reader *r, const char *at) {
  while (at < r->end && *at >= '0' && *at <= '9') at++;
  return at;
}

static json_t *number(reader *r) {
  const char *from = r->at, *whole = from + (*from == '-'), *at = digits(r, whole);
  bool good = at > whole && (*whole != '0' || at == whole + 1), is_real = false;
  if (good && at < r->end && *at == '.') {
    const char *fraction = at + 1;
    at = digits(r, fraction);
    good = is_real = at > fraction;
  }
  if (good && at < r->end && (*at == 'e' || *at == 'E')) {
    const char *exponent = at + 1;
    if (exponent < r->end && (*exponent == '+' || *exponent == '-')) exponent++;
    at = digits(r, exponent);
    good = is_real = at > exponent;
  }
  if (!good) return fail(r, from, "no number");
  r->at = at;
  return is_real ? real(r, from, at) : integer(r, from, at);
}

/* ---- values */

static json_t *value(reader *r);

/* The next character that is no blank; 0: there is none. */
static char next(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
  return r->at < r->end ? *r->at : 0;
}

static bool element(reader *r, json_t *list) {
  json_t *v = value(r);
  if (v && json_array_append_new(list, v)) no_memory(r->error), v = NULL;
  return v;
}

static bool member(reader *r, json_t *object) {
  if (next(r) != '"') return fail(r, r->at, "a string expected");
  const char *at = r->at;
  json_t *key = string(r), *v = NULL;
  const char *name = json_string_value(key);
  if (name && r->flags & JSON_REJECT_DUPLICATES && json_object_get(object, name))
    fail(r, at, "a duplicate key");
  else if (name && next(r) != ':')
    fail(r, r->at, "':' expected");
  else if (name && (r->at++, v = value(r)) && json_object_set_new_nocheck(object, name, v))
    no_memory(r->error), v = NULL;
  json_decref(key);
  return v;
}

/* What stands between two brackets. Takes `all`. */
static json_t *members(reader *r, json_t *all, bool (*one)(reader *, json_t *), char last) {
  if (!all) return no_memory(r->error);
  const char *wanted = last == ']' ? "']' or ',' expected" : "'}' or ',' expected";
  r->at++;
  bool good = next(r) == last || one(r, all);
  for (char c; good && (c = next(r)) != last;) {
    good = c == ',';
    if (!good) fail(r, r->at, wanted);
    if (good) r->at++, good = one(r, all);
  }
  if (good) {
    r->at++;
    return all;
  }
  json_decref(all);
  return NULL;
}

static json_t *word(reader *r) {
  static const char *const words[] = {"true", "false", "null"};
  json_t *const values[] = {json_true(), json_false(), json_null()};
  const char *from = r->at;
  while (r->at < r->end && ((*r->at >= 'a' && *r->at <= 'z') || (*r->at >= 'A' && *r->at <= 'Z'))) r->at++;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if ((size_t)(r->at - from) == strlen(words[i]) && !memcmp(from, words[i], strlen(words[i]))) return values[i];
  return fail(r, from, "no value");
}

static json_t *value(reader *r) {
  const char c = next(r);
  if (c == '"') return string(r);
  if (c == '-' || (c >= '0' && c <= '9')) return number(r);
  if (c != '{' && c != '[') return word(r);
  if (r->depth == DEPTH_MAX) return fail(r, r->at, "too many brackets in each other");
  r->depth++;
  json_t *all = c == '{' ? members(r, json_object(), member, '}') : members(r, json_array(), element, ']');
  r->depth--;
  return all;
}

/* ---- texts and files */

json_t *json_read(const char *bytes, size_t n, size_t flags, json_error_t *error) {
  if (!bytes) return NULL;
  reader r = {.begin = bytes, .at = bytes, .end = bytes + n, .flags = flags, .error = error};
  const char first = next(&r);
  if (!(flags & JSON_DECODE_ANY) && first != '{' && first != '[') return fail(&r, r.at, "'[' or '{' expected");
  json_t *all = value(&r);
  if (!all) return NULL;
  next(&r);
  if (r.at == r.end) return all;
  json_decref(all);
  return fail(&r, r.at, "the end of the text expected");
}

json_t *json_read_words(const char *words, size_t flags, json_error_t *error) {
  return json_read(words, words ? strlen(words) : 0, flags, error);
}

static json_t *unreadable(json_error_t *error) {
  const int why = errno;
  if (!error) return NULL;
  *error = (json_error_t){.line = -1, .column = -1};
  snprintf(error->text, sizeof error->text, "cannot be read: %s", strerror(why));
  return NULL;
}

json_t *json_read_stream(FILE *f, size_t flags, json_error_t *error) {
  char bytes[4096];
  text all = {0};
  json_t *value = NULL;
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, f));) text_add_bytes(&all, bytes, n);
  if (ferror(f))
    unreadable(error);
  else if (all.failed)
    no_memory(error);
  else
    value = json_read(all.data ? all.data : "", all.length, flags, error);
  text_fini(&all);
  return value;
}

json_t *json_read_file(const char *path, size_t flags, json_error_t *error) {
  FILE *f = fopen(path, "re");
  if (!f) return unreadable(error);
  json_t *value = json_read_stream(f, flags, error);
  fclose(f);
  return value;
}
