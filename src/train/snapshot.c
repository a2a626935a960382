#include "train/snapshot.h"

#include "base/mem.h"

#include <pthread.h>
#include <string.h>

struct snapshot {
  fit_saved copy;       /* entries point into `bytes` */
  checkpoint_file file; /* with a path: all numbers are in it, `copy` is not used */
  fit_state state;
  char *bytes;
  size_t capacity;
  char *dir, *settings;
  int keep;
  pthread_t thread;
  bool started; /* there is a thread to join */
  bool done;    /* it has nothing more to do */
  shoal_status status;
};

shoal_status snapshot_create(snapshot **out) {
  *out = calloc(1, sizeof **out);
  return *out ? NULL : status_no_memory();
}

bool snapshot_busy(const snapshot *s) { return s->started && !__atomic_load_n(&s->done, __ATOMIC_ACQUIRE); }

static void *write_file(void *context) {
  snapshot *s = context;
  if (!s->file.path) s->status = fit_save_begin(&s->copy, s->dir, s->settings, &s->file);
  if (!s->status) s->status = checkpoint_finish(&s->file, s->dir, s->keep, NULL);
  __atomic_store_n(&s->done, true, __ATOMIC_RELEASE);
  return NULL;
}

/* Room for what is saved; what is there is kept when it is large enough. */
static shoal_status make_room(snapshot *s, const fit_saved *saved, size_t bytes) {
  if (bytes > s->capacity) {
    free(s->bytes);
    s->bytes = NULL;
    s->capacity = 0;
    TRY(mem_aligned(bytes, (void **)&s->bytes));
    s->capacity = bytes;
  }
  fit_saved_fini(&s->copy);
  s->copy = (fit_saved){.entries = calloc((size_t)saved->n + 1, sizeof *s->copy.entries), .n = saved->n};
  return s->copy.entries ? NULL : status_no_memory();
}

static shoal_status copy_all(snapshot *s, const fit_saved *saved) {
  size_t total = 0, at = 0;
  for (int i = 0; i < saved->n; i++) total += mem_round_up(shoal_tensor_bytes(&saved->entries[i].tensor), MEM_ALIGN);
  TRY(make_room(s, saved, total));
  for (int i = 0; i < saved->n; i++) {
    const checkpoint_entry *from = &saved->entries[i];
    size_t bytes = shoal_tensor_bytes(&from->tensor);
    s->copy.entries[i] = *from;
    s->copy.entries[i].tensor.data = memcpy(s->bytes + at, from->tensor.data, bytes);
    at += mem_round_up(bytes, MEM_ALIGN);
  }
  s->copy.state = &s->state;
  s->copy.some = saved->some;
  s->copy.base = saved->base;
  s->copy.class_names = saved->class_names;
  s->copy.preprocessing = saved->preprocessing;
  return fit_saved_stream(&s->copy, saved->stream);
}

static bool in_pieces(const fit_saved *saved) {
  for (int i = 0; i < saved->n; i++)
    if (saved->entries[i].read) return true;
  return false;
}

shoal_status snapshot_start(snapshot *s, const fit_saved *saved, const char *dir, const char *settings, int keep) {
  s->state = *saved->state;
  free(s->dir);
  free(s->settings);
  s->dir = strdup(dir);
  s->settings = strdup(settings);
  if (!s->dir || !s->settings) return status_no_memory();
  s->keep = keep;
  s->done = false;
  TRY(in_pieces(saved) ? fit_save_begin(saved, dir, settings, &s->file) : copy_all(s, saved));
  int error = pthread_create(&s->thread, NULL, write_file, s);
  if (error && s->file.path) return checkpoint_finish(&s->file, dir, keep, NULL);
  if (error) return status_errno(error, "cannot start a thread that writes");
  s->started = true;
  return NULL;
}

shoal_status snapshot_wait(snapshot *s, int64_t *step) {
  *step = s->state.step;
  if (!s->started) return NULL;
  pthread_join(s->thread, NULL);
  s->started = false;
  shoal_status status = s->status;
  s->status = NULL;
  return status;
}

void snapshot_destroy(snapshot *s) {
  if (!s) return;
  int64_t step;
  shoal_status_free(snapshot_wait(s, &step));
  fit_saved_fini(&s->copy);
  free(s->bytes);
  free(s->dir);
  free(s->settings);
  free(s);
}
