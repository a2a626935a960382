#include "data/npy_names.h"

#include "base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char between[] = "_-.";
static const char *const row_words[] = {"x", "data", "images", "image", "features", "inputs"};
/* In the order in which they are looked for. */
static const char *const label_words[] = {"y", "labels", "label", "targets", "target"};
static const char *const test_words[] = {"test", "val", "valid", "validation"};

static bool among(const char *word, size_t n, const char *const *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strlen(words[i]) == n && !strncasecmp(word, words[i], n)) return true;
  return false;
}

#define AMONG(word, n, words) among(word, n, words, COUNT_OF(words))

/* Goes to the next word behind `at` (start with the name and *n = 0); NULL: there is none. */
static const char *next_word(const char *at, size_t *n) {
  at += *n;
  at += strspn(at, between);
  *n = strcspn(at, between);
  return *n ? at : NULL;
}

bool npy_is_labels(const char *name) {
  bool labels = false;
  size_t n = 0;
  for (const char *w = name; (w = next_word(w, &n));) {
    if (n == 1 && tolower((unsigned char)*w) == 'y') return true;
    if (AMONG(w, n, label_words))
      labels = true;
    else if (AMONG(w, n, row_words))
      labels = false;
  }
  return labels;
}

static bool has_word(const char *name, const char *const *words, size_t count) {
  size_t n = 0;
  for (const char *w = name; (w = next_word(w, &n));)
    if (among(w, n, words, count)) return true;
  return false;
}

bool npy_names_split(const char *name) {
  static const char *const train[] = {"train"};
  return has_word(name, train, 1) || has_word(name, test_words, COUNT_OF(test_words));
}

bool npy_in_split(const char *name, const char *split) {
  return has_word(name, test_words, COUNT_OF(test_words)) == !strcmp(split, "test");
}

/* NAME with its n bytes from `at` on replaced by a label's word, written like them: small or with a capital. */
static bool try_word(const char *name, const char *at, size_t n, const char *word, bool capital,
                     bool (*there)(void *context, const char *name), void *context, char out[NPY_NAME]) {
  int length = snprintf(out, NPY_NAME, "%.*s%s%s", (int)(at - name), name, word, at + n);
  if (length < 0 || length >= NPY_NAME) return false;
  if (capital) out[at - name] = (char)toupper((unsigned char)*word);
  return there(context, out);
}

bool npy_labels_of(const char *rows, bool (*there)(void *context, const char *name), void *context,
                   char out[NPY_NAME]) {
  const char *end = rows + strlen(rows);
  size_t n = 0;
  for (const char *w = rows; (w = next_word(w, &n));) {
    if (!AMONG(w, n, row_words)) continue;
    for (size_t i = 0; i < COUNT_OF(label_words); i++)
      for (int capital = 0; capital < 2; capital++)
        if (try_word(rows, w, n, label_words[i], capital, there, context, out)) return true;
  }
  for (size_t i = 0; i < COUNT_OF(label_words); i++)
    for (const char *b = between; *b; b++) {
      char word[16];
      snprintf(word, sizeof word, "%c%s", *b, label_words[i]);
      if (try_word(rows, end, 0, word, false, there, context, out)) return true;
    }
  return false;
}
