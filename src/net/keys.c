#include "net/keys.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_ROOM 4096

/* ---- text: Z85 has four bytes, the highest first, in five digits */

static const char z85[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
static const char ends[] = " expires ";
static const char date_form[] = "%Y-%m-%dT%H:%M:%SZ";
enum { BASE = 85, DIGITS = 5, WORD = 4 };

static void encode(const uint8_t key[KEYS_BYTES], int64_t expires, char out[KEYS_TEXT]) {
  for (size_t i = 0; i < KEYS_BYTES / WORD; i++) {
    uint32_t word =
        (uint32_t)key[4 * i] << 24 | (uint32_t)key[4 * i + 1] << 16 | (uint32_t)key[4 * i + 2] << 8 | key[4 * i + 3];
    for (int k = DIGITS - 1; k >= 0; k--, word /= BASE) out[DIGITS * i + (size_t)k] = z85[word % BASE];
  }
  char *to = out + KEYS_CHARS;
  *to = 0;
  struct tm date;
  time_t time = (time_t)expires;
  if (!expires || !gmtime_r(&time, &date)) return;
  to = stpcpy(to, ends);
  if (!strftime(to, (size_t)(out + KEYS_TEXT - to), date_form, &date)) out[KEYS_CHARS] = 0;
}

/* Five digits as a number; false: they are none, or stand for more than four bytes. */
static bool decode_word(const char *digits, uint32_t *out) {
  uint64_t word = 0;
  for (int k = 0; k < DIGITS; k++) {
    const char *at = digits[k] ? strchr(z85, digits[k]) : NULL;
    if (!at) return false;
    word = word * BASE + (uint64_t)(at - z85);
  }
  *out = (uint32_t)word;
  return word <= UINT32_MAX;
}

static bool read_date(const char *text, int64_t *out) {
  struct tm date = {0};
  const char *end = strptime(text, date_form, &date);
  if (!end || *end) return false;
  *out = (int64_t)timegm(&date);
  return *out > 0;
}

bool keys_valid(const char *key) {
  if (!key || strnlen(key, KEYS_TEXT) == KEYS_TEXT) return false;
  uint32_t word;
  for (int i = 0; i < KEYS_CHARS; i += DIGITS)
    if (!decode_word(key + i, &word)) return false;
  int64_t date;
  const char *rest = key + KEYS_CHARS;
  return !*rest || (!strncmp(rest, ends, strlen(ends)) && read_date(rest + strlen(ends), &date));
}

void keys_decode(const char *key, uint8_t out[KEYS_BYTES]) {
  for (size_t i = 0; i < KEYS_BYTES / WORD; i++) {
    uint32_t word = 0;
    (void)decode_word(key + DIGITS * i, &word);
    for (int k = 0; k < WORD; k++) out[WORD * i + (size_t)k] = (uint8_t)(word >> 8 * (WORD - 1 - k));
  }
}

int64_t keys_expiry(const char *key) {
  int64_t date = 0;
  if (key[KEYS_CHARS] && !read_date(key + KEYS_CHARS + strlen(ends), &date)) return 1; /* long ago */
  return date;
}

bool keys_expired(const char *key) {
  const int64_t date = keys_expiry(key);
  return date && (int64_t)time(NULL) >= date;
}

/* ---- pairs */

static shoal_status public_of(const uint8_t secret[KEYS_BYTES], uint8_t out[KEYS_BYTES]) {
  EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, KEYS_BYTES);
  size_t n = KEYS_BYTES;
  const bool good = key && EVP_PKEY_get_raw_public_key(key, out, &n) == 1 && n == KEYS_BYTES;
  EVP_PKEY_free(key);
  return good ? NULL : status_make(SHOAL_ERR_SYSTEM, "OpenSSL makes no key of X25519");
}

shoal_status keys_make(int64_t expires, keys_pair *out) {
  uint8_t secret[KEYS_BYTES], public[KEYS_BYTES];
  if (RAND_priv_bytes(secret, sizeof secret) != 1)
    return status_make(SHOAL_ERR_SYSTEM, "OpenSSL has no random numbers for a key");
  shoal_status status = public_of(secret, public);
  if (!status) {
    encode(secret, expires, out->secret_key);
    encode(public, expires, out->public_key);
  }
  explicit_bzero(secret, sizeof secret);
  return status;
}

/* ---- files */

static shoal_status write_new(const char *path, const char *key, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: already exists; keys are not overwritten: remove it, or choose "
                       "another folder or name",
                       path);
  if (fd < 0) return status_errno(errno, "%s", path);
  char line[KEYS_TEXT + 1];
  int n = snprintf(line, sizeof line, "%s\n", key);
  bool good = write(fd, line, (size_t)n) == n && !fsync(fd);
  int error = errno;
  if (close(fd) && good) {
    good = false;
    error = errno;
  }
  if (good) return NULL;
  unlink(path);
  return status_errno(error, "%s", path);
}

shoal_status keys_write(const char *dir, const char *name, const keys_pair *pair) {
  char secret[PATH_ROOM], public[PATH_ROOM];
  if (!*name || strchr(name, '/') || name[0] == '.')
    return status_make(SHOAL_ERR_ARGUMENT, "a key's name must be a plain file name, not '%s'", name);
  if (snprintf(secret, sizeof secret, "%s/%s.key", dir, name) >= (int)sizeof secret ||
      snprintf(public, sizeof public, "%s/%s.pub", dir, name) >= (int)sizeof public)
    return status_make(SHOAL_ERR_ARGUMENT, "%s: the path is too long", dir);
  if (mkdir(dir, 0700) && errno != EEXIST) return status_errno(errno, "%s", dir);
  if (!access(public, F_OK))
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: already exists; keys are not overwritten: remove it, or choose "
                       "another folder or name",
                       public);
  TRY(write_new(secret, pair->secret_key, 0600));
  shoal_status status = write_new(public, pair->public_key, 0644);
  if (status) unlink(secret);
  return status;
}

shoal_status shoal_keys_make(const char *dir, const char *name) { return shoal_keys_make_until(dir, name, 0); }

shoal_status shoal_keys_make_until(const char *dir, const char *name, int64_t expires) {
  keys_pair pair;
  TRY(keys_make(expires, &pair));
  shoal_status status = keys_write(dir, name, &pair);
  explicit_bzero(&pair, sizeof pair);
  return status;
}

static shoal_status read_key(const char *path, bool secret, char out[KEYS_TEXT]) {
  FILE *file = fopen(path, "re");
  if (!file) return status_make(SHOAL_ERR_INPUT, "%s: %s; `shoal keygen` makes keys", path, strerror(errno));
  struct stat about;
  char line[KEYS_TEXT + 2] = {0};
  size_t n = fread(line, 1, sizeof line, file);
  bool open_to_others = secret && (fstat(fileno(file), &about) || (about.st_mode & 077));
  fclose(file);
  if (n && line[n - 1] == '\n') line[n - 1] = 0;
  if (open_to_others)
    return status_make(SHOAL_ERR_INPUT, "%s: others may read this secret key; chmod 600 it, or make a new one", path);
  if (n > KEYS_TEXT || !keys_valid(line))
    return status_make(SHOAL_ERR_INPUT, "%s: expected a key of 40 characters as `shoal keygen` writes them", path);
  memcpy(out, line, KEYS_TEXT);
  return NULL;
}

shoal_status keys_read_pair(const char *path, keys_pair *out) {
  keys_pair pair;
  TRY(read_key(path, true, pair.secret_key));
  uint8_t secret[KEYS_BYTES], public[KEYS_BYTES];
  keys_decode(pair.secret_key, secret);
  shoal_status status = public_of(secret, public);
  explicit_bzero(secret, sizeof secret);
  if (status) return status_wrap(status, "%s", path);
  encode(public, keys_expiry(pair.secret_key), pair.public_key);
  *out = pair;
  return NULL;
}

shoal_status keys_read_public(const char *path, char out[KEYS_TEXT]) { return read_key(path, false, out); }

static int is_public(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 4 && !strcmp(e->d_name + n - 4, ".pub");
}

shoal_status keys_read_folder(const char *dir, keys_list *out) {
  struct dirent **entries;
  int n = scandir(dir, &entries, is_public, alphasort);
  if (n < 0) return status_make(SHOAL_ERR_INPUT, "%s: %s; expected a folder of keys", dir, strerror(errno));
  keys_list list = {.keys = calloc((size_t)n + 1, sizeof *list.keys)};
  shoal_status status = list.keys ? NULL : status_no_memory();
  if (!status && !n) status = status_make(SHOAL_ERR_INPUT, "%s: no public keys (*.pub) in this folder", dir);
  for (int i = 0; i < n; i++) {
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
    free(entries[i]);
    if (status) continue;
    char *key = malloc(KEYS_TEXT);
    status = key ? keys_read_public(path, key) : status_no_memory();
    if (status)
      free(key);
    else
      list.keys[list.count++] = key;
  }
  free(entries);
  if (status)
    keys_list_fini(&list);
  else
    *out = list;
  return status;
}

void keys_list_fini(keys_list *l) {
  for (size_t i = 0; i < l->count; i++) free(l->keys[i]);
  free(l->keys);
  *l = (keys_list){0};
}
