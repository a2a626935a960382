#include "data/class_names.h"

#include "base/mem.h"
#include "base/random.h"
#include "shoal/pipeline.h"

#include <stdio.h>
#include <string.h>

void class_names_fini(class_names *c) {
  for (int i = 0; i < c->count; i++) free(c->names[i]);
  free(c->names);
  free(c->by_name);
  *c = (class_names){0};
}

/* Where `name` is, or belongs, among by_name. */
static int place_of(const class_names *c, const char *name, bool *found) {
  int low = 0, high = c->count;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(c->names[c->by_name[middle]], name);
    if (!order) {
      *found = true;
      return middle;
    }
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *found = false;
  return low;
}

int class_names_find(const class_names *c, const char *name) {
  bool found;
  int at = place_of(c, name, &found);
  return found ? c->by_name[at] : -1;
}

shoal_status class_names_add(class_names *c, const char *name) {
  bool found;
  int at = place_of(c, name, &found);
  if (found) return NULL;
  if (c->count == CLASS_NAMES_MAX)
    return status_make(SHOAL_ERR_INPUT, "there are more than %d different names of classes", CLASS_NAMES_MAX);
  size_t need = (size_t)c->count + 1;
  TRY(mem_grow((void **)&c->names, &c->names_capacity, need + 1, sizeof *c->names)); /* zeroed: it ends with NULL */
  TRY(mem_grow((void **)&c->by_name, &c->by_name_capacity, need, sizeof *c->by_name));
  char *copy = strdup(name);
  if (!copy) return status_no_memory();
  memmove(c->by_name + at + 1, c->by_name + at, (size_t)(c->count - at) * sizeof *c->by_name);
  c->by_name[at] = c->count;
  c->names[c->count++] = copy;
  return NULL;
}

shoal_status class_names_add_all(class_names *c, const char *const *names) {
  for (; names && *names; names++) {
    if (class_names_find(c, *names) >= 0)
      return status_make(SHOAL_ERR_ARGUMENT, "the class '%s' is listed twice", *names);
    TRY(class_names_add(c, *names));
  }
  return NULL;
}

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void class_names_sort(class_names *c) {
  if (c->ordered || !c->count) return;
  qsort(c->names, (size_t)c->count, sizeof *c->names, compare);
  for (int i = 0; i < c->count; i++) c->by_name[i] = i;
}

const char *class_names_describe(const char *const *names, char out[CLASS_NAMES_TEXT]) {
  enum { ROOM_FOR_REST = 24 };
  int count = class_names_count(names), i = 0;
  size_t used = 0;
  out[0] = 0;
  for (; i < count && used + strlen(names[i]) + 2 < CLASS_NAMES_TEXT - ROOM_FOR_REST; i++)
    used += (size_t)snprintf(out + used, CLASS_NAMES_TEXT - used, "%s%s", i ? ", " : "", names[i]);
  if (i < count) snprintf(out + used, CLASS_NAMES_TEXT - used, " and %d more", count - i);
  return out;
}

/* names: [count]. */
static shoal_status pack(const char *const *names, int count, const char *const **out) {
  size_t bytes = ((size_t)count + 1) * sizeof *names;
  for (int i = 0; i < count; i++) bytes += strlen(names[i]) + 1;
  const char **block = malloc(bytes);
  if (!block) return status_no_memory();
  char *at = (char *)(block + count + 1);
  for (int i = 0; i < count; i++) {
    block[i] = at;
    at = stpcpy(at, names[i]) + 1;
  }
  block[count] = NULL;
  *out = block;
  return NULL;
}

shoal_status class_names_copy(const char *const *names, const char *const **out) {
  *out = NULL;
  return names ? pack(names, class_names_count(names), out) : NULL;
}

int class_names_count(const char *const *names) {
  int n = 0;
  while (names && names[n]) n++;
  return n;
}

uint64_t class_names_hash(const char *const *names) {
  uint64_t hash = 0;
  for (; names && *names; names++) {
    for (const char *at = *names; *at; at++) hash = random_mix(hash, (uint8_t)*at);
    hash = random_mix(hash, 256);
  }
  return hash;
}

bool class_names_equal(const char *const *a, const char *const *b) {
  if (!a || !b) return a == b;
  for (; *a && *b; a++, b++)
    if (strcmp(*a, *b)) return false;
  return !*a && !*b;
}

const char *shoal_class_name(const char *const *names, int64_t i, char number[SHOAL_CLASS_NAME_TEXT]) {
  if (i >= 0 && i < class_names_count(names)) return names[i];
  snprintf(number, SHOAL_CLASS_NAME_TEXT, "%d", (int)i);
  return number;
}

json_t *class_names_to_json(const char *const *names) {
  if (!names) return json_null();
  json_t *array = json_array();
  for (; array && *names; names++)
    if (json_array_append_new(array, json_string(*names))) {
      json_decref(array);
      return NULL;
    }
  return array;
}

shoal_status class_names_from_json(const json_t *array, const char *const **out) {
  *out = NULL;
  if (!array || json_is_null(array)) return NULL;
  size_t n = json_array_size(array);
  if (!json_is_array(array) || n > CLASS_NAMES_MAX)
    return status_make(SHOAL_ERR_INPUT, "class names: expected an array of at most %d texts", CLASS_NAMES_MAX);
  const char **names = calloc(n + 1, sizeof *names);
  if (!names) return status_no_memory();
  shoal_status status = NULL;
  for (size_t i = 0; i < n && !status; i++)
    if (!(names[i] = json_string_value(json_array_get(array, i))))
      status = status_make(SHOAL_ERR_INPUT, "class names: name %zu is not a string", i);
  if (!status) status = pack(names, (int)n, out);
  free(names);
  return status;
}
