/* The weights of the epoch that validated best: kept in memory while training goes on, and taken when it ends. */
#include "train/fit_loop.h"

#include <string.h>
#include <unistd.h>

#define BEST_FILE "best.safetensors"

static shoal_status make_room(fit_loop *l, const checkpoint_entry *now, int n) {
  if (l->best) return NULL;
  l->best = calloc((size_t)n + 1, sizeof *l->best);
  if (!l->best) return status_no_memory();
  for (; l->best_count < n; l->best_count++) {
    const shoal_tensor *t = &now[l->best_count].tensor;
    TRY(shoal_tensor_create(t->dtype, t->shape, &l->best[l->best_count]));
  }
  return NULL;
}

shoal_status fit_best_keep(fit_loop *l) {
  checkpoint_entry *now;
  int n;
  TRY(model_entries(l->model, &now, &n));
  shoal_status status = make_room(l, now, n);
  for (int i = 0; i < n && !status; i++)
    memcpy(l->best[i].data, now[i].tensor.data, shoal_tensor_bytes(&now[i].tensor));
  free(now);
  return status;
}

/* A run that was resumed has them in its folder. */
static shoal_status restore_file(fit_loop *l, bool *restored) {
  char *path;
  if (!l->options->checkpoint_dir || !l->options->keep_best) return NULL;
  if (asprintf(&path, "%s/" BEST_FILE, l->options->checkpoint_dir) < 0) return status_no_memory();
  *restored = access(path, R_OK) == 0;
  shoal_status status = *restored ? shoal_model_load(l->model, path) : NULL;
  free(path);
  return status;
}

shoal_status fit_best_restore(fit_loop *l, bool *restored) {
  *restored = l->best != NULL;
  if (!l->best) return restore_file(l, restored);
  checkpoint_entry *now;
  int n;
  TRY(model_entries(l->model, &now, &n));
  for (int i = 0; i < n; i++) memcpy(now[i].tensor.data, l->best[i].data, shoal_tensor_bytes(&l->best[i]));
  free(now);
  return NULL;
}

void fit_best_fini(fit_loop *l) {
  for (int i = 0; i < l->best_count; i++) shoal_tensor_fini(&l->best[i]);
  free(l->best);
}
