#include "net/keys.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#define PATH_ROOM 4096

bool keys_valid(const char *key) {
  static const char z85[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  return key && strlen(key) == KEYS_TEXT - 1 && strspn(key, z85) == KEYS_TEXT - 1;
}

shoal_status keys_make(keys_pair *out) {
  keys_pair pair;
  if (zmq_curve_keypair(pair.public_key, pair.secret_key))
    return status_make(SHOAL_ERR_SYSTEM, "libzmq was built without CURVE; install one that has it");
  *out = pair;
  return NULL;
}

static shoal_status write_new(const char *path, const char *key, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s: is there already; keys are not overwritten: remove it, or choose "
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
                       "%s: is there already; keys are not overwritten: remove it, or choose "
                       "another folder or name",
                       public);
  TRY(write_new(secret, pair->secret_key, 0600));
  shoal_status status = write_new(public, pair->public_key, 0644);
  if (status) unlink(secret);
  return status;
}

shoal_status shoal_keys_make(const char *dir, const char *name) {
  keys_pair pair;
  TRY(keys_make(&pair));
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
  if (n == KEYS_TEXT && line[n - 1] == '\n') line[n - 1] = 0;
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
  if (zmq_curve_public(pair.public_key, pair.secret_key))
    return status_make(SHOAL_ERR_INPUT, "%s: this is no secret key", path);
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
