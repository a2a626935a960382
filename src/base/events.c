#include "base/events.h"

#include "base/mem.h"

#include <string.h>

const char *const event_kind_names[EVENT_KINDS] = {"step", "op", "sync", "message", "wait", "server"};

shoal_status events_create(int tracks, uint32_t capacity, events **out) {
  events *e = calloc(1, sizeof *e);
  if (!e) return status_no_memory();
  e->tracks = tracks;
  e->capacity = 1;
  while (e->capacity < capacity) e->capacity *= 2;
  e->track = calloc((size_t)tracks, sizeof *e->track);
  bool good = e->track != NULL;
  for (int i = 0; i < tracks && good; i++) {
    e->track[i].spans = calloc(e->capacity, sizeof *e->track[i].spans);
    good = e->track[i].spans != NULL;
  }
  if (!good) {
    events_destroy(e);
    return status_no_memory();
  }
  *out = e;
  return NULL;
}

void events_destroy(events *e) {
  if (!e) return;
  for (int i = 0; e->track && i < e->tracks; i++) free(e->track[i].spans);
  for (uint32_t i = 0; i < e->n_labels; i++) free(e->labels[i].name);
  free(e->track);
  free(e->labels);
  free(e);
}

shoal_status events_label(events *e, const event_label *label, uint32_t *out) {
  if (e->n_labels == e->cap_labels) {
    uint32_t capacity = e->cap_labels ? 2 * e->cap_labels : 64;
    event_label *grown = realloc(e->labels, capacity * sizeof *grown);
    if (!grown) return status_no_memory();
    e->labels = grown;
    e->cap_labels = capacity;
  }
  event_label made = *label;
  made.name = strdup(label->name);
  if (!made.name) return status_no_memory();
  e->labels[e->n_labels] = made;
  *out = e->n_labels++;
  return NULL;
}
