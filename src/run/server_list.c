#include "run/server_list.h"

#include "base/json_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

shoal_status server_list_next_path(const char *path, char **out) {
  const int stem = (int)(strlen(path) - strlen(".json"));
  return asprintf(out, "%.*s.next.json", stem > 0 ? stem : 0, path) < 0 ? status_no_memory() : NULL;
}

static ino_t inode_of(const char *path) {
  struct stat s;
  return stat(path, &s) ? 0 : s.st_ino;
}

static shoal_status read_file(server_list *l, const char *path, ps_servers *out) {
  server_file *f = calloc(1, sizeof *f);
  if (!f) return status_no_memory();
  f->file = json_read_file(path, 0, NULL);
  const json_t *list = json_object_get(json_object_get(f->file, "cluster"), "ps");
  const size_t n = json_array_size(list);
  if (n < 1 || n > SERVERS_MAX) {
    json_decref(f->file);
    free(f);
    return status_make(SHOAL_ERR_INPUT, "%s: expected 1 to %d addresses of parameter servers, not %zu", path,
                       SERVERS_MAX, n);
  }
  for (size_t i = 0; i < n; i++) f->addresses[i] = json_string_value(json_array_get(list, i));
  f->before = l->files;
  l->files = f;
  *out = (ps_servers){(int)n, f->addresses};
  return NULL;
}

shoal_status server_list_read(server_list *l) {
  l->inode = inode_of(l->path); /* first: if it changes meanwhile, it is read once more */
  return read_file(l, l->path, &l->now);
}

shoal_status server_list_open(server_list *l, const char *path) {
  *l = (server_list){.path = strdup(path)};
  shoal_status status = l->path ? server_list_next_path(path, &l->next_path) : status_no_memory();
  if (!status) status = server_list_read(l);
  if (status) server_list_close(l);
  return status;
}

void server_list_close(server_list *l) {
  free(l->path);
  free(l->next_path);
  for (server_file *f = l->files, *before; f; f = before) {
    before = f->before;
    json_decref(f->file);
    free(f);
  }
  *l = (server_list){0};
}

bool server_list_changed(const server_list *l) {
  const ino_t now = inode_of(l->path);
  return now && now != l->inode;
}

bool server_list_has_next(server_list *l) {
  if (access(l->next_path, F_OK)) return false;
  shoal_status status = read_file(l, l->next_path, &l->later);
  const bool good = !status;
  shoal_status_free(status);
  return good;
}

shoal_status server_list_settle(server_list *l) {
  if (rename(l->next_path, l->path)) return status_errno(errno, "cannot rename %s", l->next_path);
  l->inode = inode_of(l->path);
  l->now = l->later;
  return NULL;
}

void server_list_give_up(server_list *l) { unlink(l->next_path); }
