#include "train/fit_state.h"

#include "base/mem.h"
#include "base/text.h"
#include "data/class_names.h"
#include "graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FORMAT "2" /* of the metadata; raise it when a field changes its meaning */
#define RECENT_NAME "training/recent"
#define FEW 0.25 /* rows changed, of all: more are not worth a checkpoint without the others */

/* The fields in the metadata. Numbers are written so that reading gives the same bits. */
typedef enum { FIELD_INT, FIELD_BOOL, FIELD_REAL } field_kind;
static const struct {
  const char *name;
  field_kind kind;
  size_t offset;
} fields[] = {
    {"step", FIELD_INT, offsetof(fit_state, step)},
    {"epoch", FIELD_INT, offsetof(fit_state, epoch)},
    {"position", FIELD_INT, offsetof(fit_state, position)},
    {"seen", FIELD_INT, offsetof(fit_state, seen)},
    {"epoch_seen", FIELD_INT, offsetof(fit_state, epoch_seen)},
    {"epoch_loss", FIELD_REAL, offsetof(fit_state, epoch_loss)},
    {"epoch_hits", FIELD_REAL, offsetof(fit_state, epoch_hits)},
    {"best_accuracy", FIELD_REAL, offsetof(fit_state, best_accuracy)},
    {"best_loss", FIELD_REAL, offsetof(fit_state, best_loss)},
    {"best_epoch", FIELD_INT, offsetof(fit_state, best_epoch)},
    {"waited", FIELD_INT, offsetof(fit_state, waited)},
    {"ended", FIELD_BOOL, offsetof(fit_state, ended)},
    {"validation_loss", FIELD_REAL, offsetof(fit_state, validation_loss)},
    {"validation_accuracy", FIELD_REAL, offsetof(fit_state, validation_accuracy)},
};

/* The same for the numbers of a run that reads from a pipeline. */
static const struct {
  const char *name;
  size_t offset;
} stream_fields[] = {
    {"input_examples", offsetof(fit_state, examples)},
    {"input_epoch_steps", offsetof(fit_state, epoch_steps)},
    {"input_last_steps", offsetof(fit_state, last_steps)},
};
#define INPUT_NAME "input_position"
#define SHARDS_NAME "input_shards" /* instead of it, where several workers read */

void fit_state_init(fit_state *s) {
  *s = (fit_state){.best_accuracy = NAN, .best_loss = NAN, .validation_loss = NAN, .validation_accuracy = NAN};
}

void fit_state_recent(const fit_state *s, int64_t steps, double *loss, double *accuracy) {
  double losses = 0, hits = 0, examples = 0;
  steps = MIN_OF(MIN_OF(steps, FIT_RECENT), s->seen);
  for (int64_t i = s->seen - steps; i < s->seen; i++) {
    const double *row = s->recent[i % FIT_RECENT];
    losses += row[0];
    hits += row[1];
    examples += row[2];
  }
  *loss = examples > 0 ? losses / examples : NAN;
  *accuracy = examples > 0 ? hits / examples : NAN;
}

/* ---- what is saved */

shoal_status fit_saved_init(shoal_model *m, fit_state *state, fit_saved *out) {
  const shoal_graph *g = m->graph;
  fit_saved saved = {.state = state, .class_names = m->class_names, .preprocessing = m->preprocessing};
  saved.entries = calloc(g->count + 1 + MODEL_IDS_ITEMS, sizeof *saved.entries);
  saved.ids = m->ids;
  if (m->grows) saved.elsewhere = m->elsewhere;
  saved.base = -1;
  if (!saved.entries) return status_no_memory();
  for (size_t i = 0; i < g->count; i++) {
    if (!g->nodes[i]->initial || model_grows_in(m, &g->nodes[i]->out[0])) continue;
    shoal_status status = model_entry(m, &g->nodes[i]->out[0], &saved.entries[saved.n]);
    if (status) {
      free(saved.entries);
      return status;
    }
    saved.n++;
  }
  saved.entries[saved.n++] = (checkpoint_entry){
      .name = RECENT_NAME, .tensor = shoal_tensor_view(SHOAL_F64, SHOAL_SHAPE(FIT_RECENT, 3), state->recent)};
  saved.fixed = saved.n;
  *out = saved;
  return NULL;
}

shoal_status fit_saved_refresh(fit_saved *saved, bool all) {
  int n = 0;
  if (saved->elsewhere) {
    const model_elsewhere *e = saved->elsewhere;
    saved->some = !all && saved->base >= 0 && e->changed(e->context, saved->base) < FEW;
    TRY(e->items(e->context, saved->some ? MODEL_IDS_CHANGED : MODEL_IDS_ALL, saved->entries + saved->fixed, &n));
    saved->n = saved->fixed + n;
  }
  if (!saved->ids) return NULL;
  saved->some = !all && saved->base >= 0 && model_ids_changed(saved->ids) < FEW;
  TRY(model_ids_saved(saved->ids, saved->some, saved->entries + saved->fixed, &n));
  saved->n = saved->fixed + n;
  return NULL;
}

shoal_status fit_saved_done(fit_saved *saved) {
  if ((!saved->ids && !saved->elsewhere) || saved->some) return NULL;
  saved->base = -1;
  if (saved->ids)
    model_ids_clean(saved->ids);
  else
    TRY(saved->elsewhere->clean(saved->elsewhere->context, saved->state->step));
  saved->base = saved->state->step;
  return NULL;
}

shoal_status fit_saved_stream(fit_saved *saved, const char *stream) {
  char *copy = stream ? strdup(stream) : NULL;
  if (stream && !copy) return status_no_memory();
  free(saved->stream);
  saved->stream = copy;
  return NULL;
}

void fit_saved_fini(fit_saved *saved) {
  free(saved->entries);
  free(saved->stream);
  *saved = (fit_saved){0};
}

/* ---- metadata */

static shoal_status set_text(json_t *object, const char *name, const char *value) {
  return json_object_set_new(object, name, json_string(value)) ? status_no_memory() : NULL;
}

static shoal_status write_fields(const fit_saved *saved, const char *settings, json_t *object) {
  const fit_state *s = saved->state;
  TRY(set_text(object, "shoal_checkpoint", FORMAT));
  TRY(set_text(object, "settings", settings));
  for (size_t i = 0; i < COUNT_OF(fields); i++) {
    const void *at = (const char *)s + fields[i].offset;
    char value[64];
    switch (fields[i].kind) {
      case FIELD_INT: snprintf(value, sizeof value, "%lld", (long long)*(const int64_t *)at); break;
      case FIELD_BOOL: snprintf(value, sizeof value, "%d", *(const bool *)at); break;
      case FIELD_REAL: snprintf(value, sizeof value, "%a", *(const double *)at); break;
    }
    TRY(set_text(object, fields[i].name, value));
  }
  if (saved->some) {
    char base[32];
    snprintf(base, sizeof base, "%lld", (long long)saved->base);
    TRY(set_text(object, CHECKPOINT_BASE, base));
  }
  if (!*s->input && !saved->stream) return NULL;
  for (size_t i = 0; i < COUNT_OF(stream_fields); i++) {
    char value[32];
    snprintf(value, sizeof value, "%lld", (long long)*(const int64_t *)((const char *)s + stream_fields[i].offset));
    TRY(set_text(object, stream_fields[i].name, value));
  }
  return saved->stream ? set_text(object, SHARDS_NAME, saved->stream) : set_text(object, INPUT_NAME, s->input);
}

static shoal_status metadata_make(const fit_saved *saved, const char *settings, json_t **out) {
  json_t *object = json_object();
  if (!object) return status_no_memory();
  shoal_status status = write_fields(saved, settings, object);
  if (!status) status = model_names_write(saved->class_names, object);
  if (!status) status = model_preprocessing_write(saved->preprocessing, object);
  if (status) {
    json_decref(object);
    return status;
  }
  *out = object;
  return NULL;
}

static shoal_status get_text(const json_t *object, const char *name, const char **out) {
  *out = json_string_value(json_object_get(object, name));
  if (*out) return NULL;
  return status_make(SHOAL_ERR_INPUT, "it has no '%s': a file of weights alone cannot be resumed from", name);
}

static bool parse_field(field_kind kind, const char *value, void *at) {
  int64_t number;
  char *end;
  switch (kind) {
    case FIELD_INT: return text_to_int(value, at);
    case FIELD_BOOL:
      if (!text_to_int(value, &number) || number < 0 || number > 1) return false;
      *(bool *)at = number != 0;
      return true;
    case FIELD_REAL: /* may be nan, which text_to_double refuses */
      *(double *)at = strtod(value, &end);
      return end != value && !*end;
  }
  return false;
}

static shoal_status read_stream(const json_t *object, fit_state *s) {
  const char *position = json_string_value(json_object_get(object, INPUT_NAME));
  if (!position && !json_object_get(object, SHARDS_NAME)) return NULL;
  snprintf(s->input, sizeof s->input, "%s", position ? position : "");
  for (size_t i = 0; i < COUNT_OF(stream_fields); i++) {
    const char *value;
    TRY(get_text(object, stream_fields[i].name, &value));
    if (!text_to_int(value, (int64_t *)((char *)s + stream_fields[i].offset)))
      return status_make(SHOAL_ERR_INPUT, "'%s' is '%s', not a number", stream_fields[i].name, value);
  }
  return NULL;
}

static shoal_status read_fields(const json_t *object, fit_state *s) {
  for (size_t i = 0; i < COUNT_OF(fields); i++) {
    const char *value;
    TRY(get_text(object, fields[i].name, &value));
    if (!parse_field(fields[i].kind, value, (char *)s + fields[i].offset))
      return status_make(SHOAL_ERR_INPUT, "'%s' is '%s', not a number", fields[i].name, value);
  }
  if (s->step < 0 || s->epoch < 0 || s->position < 0 || s->seen < 0)
    return status_make(SHOAL_ERR_INPUT, "step %lld, epoch %lld, position %lld: none can be negative",
                       (long long)s->step, (long long)s->epoch, (long long)s->position);
  return read_stream(object, s);
}

/* ---- settings: words of the form name=value, separated by blanks or line ends */

#define BLANKS " \t\r\n"

/* The word of `settings` with this name (the part before '='); *length 0: none. */
static const char *find_word(const char *settings, const char *name, size_t name_length, size_t *length) {
  for (const char *w = settings + strspn(settings, BLANKS); *w; w += *length, w += strspn(w, BLANKS)) {
    *length = strcspn(w, BLANKS);
    if (strcspn(w, "=" BLANKS) == name_length && !strncmp(w, name, name_length)) return w;
  }
  *length = 0;
  return "";
}

/* Adds what stands in `a` and is different in, or missing from, `b`; with `missing_only`, only the latter. */
static void add_differences(text *out, const char *a, const char *b, const char *a_is, const char *b_is,
                            bool missing_only) {
  size_t length;
  for (const char *w = a + strspn(a, BLANKS); *w; w += length, w += strspn(w, BLANKS)) {
    length = strcspn(w, BLANKS);
    size_t other;
    const char *v = find_word(b, w, strcspn(w, "=" BLANKS), &other);
    if (other == length && !strncmp(w, v, length)) continue;
    if (other && missing_only) continue;
    text_add(out, "%s%.*s %s, ", out->length ? "; " : "", (int)length, w, a_is);
    if (other)
      text_add(out, "%.*s %s", (int)other, v, b_is);
    else
      text_add(out, "not %s", b_is);
  }
}

static shoal_status check_settings(const char *then, const char *now) {
  if (!strcmp(then, now)) return NULL;
  text differences = {0};
  add_differences(&differences, then, now, "then", "now", false);
  add_differences(&differences, now, then, "now", "then", true);
  shoal_status status = NULL;
  if (differences.failed)
    status = status_no_memory();
  else if (differences.length)
    status = status_make(SHOAL_ERR_ARGUMENT,
                         "it was made with other settings: %s. Resume with the same ones, or train "
                         "anew in another folder",
                         differences.data);
  text_fini(&differences);
  return status;
}

/* ---- saving and restoring */

shoal_status fit_save_begin(const fit_saved *saved, const char *dir, const char *settings, checkpoint_file *out) {
  json_t *metadata;
  TRY(metadata_make(saved, settings, &metadata));
  shoal_status status = checkpoint_begin(dir, (uint64_t)saved->state->step, saved->entries, saved->n, metadata, out);
  json_decref(metadata);
  return status;
}

shoal_status fit_save(const fit_saved *saved, const char *dir, const char *settings, int keep) {
  checkpoint_file file;
  TRY(fit_save_begin(saved, dir, settings, &file));
  return checkpoint_finish(&file, dir, keep, NULL);
}

shoal_status fit_save_best(const fit_saved *saved, const char *dir, const char *settings) {
  json_t *metadata;
  TRY(metadata_make(saved, settings, &metadata));
  shoal_status status = checkpoint_write_best(dir, saved->entries, saved->n, metadata, NULL);
  json_decref(metadata);
  return status;
}

static shoal_status restore_state(const json_t *metadata, const char *settings, fit_state *out) {
  const char *format, *then;
  TRY(get_text(metadata, "shoal_checkpoint", &format));
  if (strcmp(format, FORMAT))
    return status_make(SHOAL_ERR_INPUT, "its format is '%s'; this version of Shoal reads " FORMAT, format);
  TRY(get_text(metadata, "settings", &then));
  TRY(check_settings(then, settings));
  return read_fields(metadata, out);
}

/* A class that has another number now would be learned as another class. */
static shoal_status check_names(const json_t *metadata, const char *const *now) {
  const char *const *then;
  TRY(model_names_read(metadata, &then));
  bool same = !then || !now || class_names_equal(then, now);
  free((void *)then);
  return same ? NULL : status_make(SHOAL_ERR_INPUT, "its class names differ from those of the data");
}

static shoal_status restore_ids(fit_saved *saved, const char *path, const json_t *metadata) {
  char *base;
  const char *of = json_string_value(json_object_get(metadata, CHECKPOINT_BASE));
  TRY(checkpoint_base(path, &base));
  shoal_status status = model_ids_load(saved->ids, base, path);
  free(base);
  const char *step = of ? of : json_string_value(json_object_get(metadata, "step"));
  if (!status && (!step || !text_to_int(step, &saved->base)))
    status = status_make(SHOAL_ERR_INPUT, "%s: its step is no number", path);
  return status;
}

shoal_status fit_restore(fit_saved *saved, const char *path, const char *settings) {
  json_t *metadata;
  TRY(checkpoint_metadata(path, &metadata));
  fit_state state = *saved->state;
  shoal_status status = restore_state(metadata, settings, &state);
  if (!status) status = check_names(metadata, saved->class_names);
  status = status_wrap(status, "%s", path);
  if (!status) /* the recent losses, too */
    status = saved->ids || saved->elsewhere ? checkpoint_read_some(path, saved->entries, saved->fixed, NULL)
                                            : checkpoint_read(path, saved->entries, saved->n, NULL);
  if (!status && saved->ids) status = restore_ids(saved, path, metadata);
  if (!status) status = fit_saved_stream(saved, json_string_value(json_object_get(metadata, SHARDS_NAME)));
  json_decref(metadata);
  TRY(status);
  memcpy(state.recent, saved->state->recent, sizeof state.recent);
  *saved->state = state;
  return NULL;
}
