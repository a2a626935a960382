#include "run/job_words.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static shoal_status find(const char *name, size_t length, const shoal_setting **out) {
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)length, name);
  return shoal_setting_find(shoal_job_settings(), word, out);
}

shoal_status job_words_next(job_words *w, const shoal_setting **row, const char **value) {
  *row = NULL;
  *value = NULL;
  if (w->at == w->count) return NULL;
  const char *word = w->words[w->at++];
  if (strncmp(word, "--", 2)) {
    *value = word;
    return NULL;
  }
  const char *name = word + 2, *equals = strchr(name, '=');
  TRY(find(name, equals ? (size_t)(equals - name) : strlen(name), row));
  if (equals) {
    *value = equals + 1;
    return NULL;
  }
  const char *next = w->at < w->count ? w->words[w->at] : NULL;
  int64_t ignored;
  if ((*row)->kind == SHOAL_SETTING_BOOL) return NULL;
  if ((*row)->bare && (!next || !text_to_int(next, &ignored))) {
    *value = (*row)->bare;
    return NULL;
  }
  if (!next || !strncmp(next, "--", 2))
    return status_make(SHOAL_ERR_ARGUMENT, "`%s` needs a value: `%s` %s", (*row)->name, (*row)->name, (*row)->value);
  *value = next;
  w->at++;
  return NULL;
}

shoal_status job_from_words(const char *const *words, int n, shoal_job *out) {
  const shoal_setting *row;
  const char *value;
  shoal_job_init(out, sizeof *out);
  for (job_words w = {words, n, 1}; w.at < n;) {
    TRY(job_words_next(&w, &row, &value));
    if (!row && out->model) return status_make(SHOAL_ERR_ARGUMENT, "expected one model, but also got '%s'", value);
    if (!row)
      out->model = value;
    else if (row->kind == SHOAL_SETTING_BOOL && value)
      return status_make(SHOAL_ERR_ARGUMENT, "`%s` takes no value", row->name);
    else
      TRY(shoal_setting_set(row, value, out));
  }
  return NULL;
}
