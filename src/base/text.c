#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool reserve(text *t, size_t more) {
  if (t->failed) return false;
  if (t->length + more + 1 <= t->capacity) return true;
  size_t wanted = t->capacity ? t->capacity : 64;
  while (wanted < t->length + more + 1) wanted *= 2;
  char *grown = realloc(t->data, wanted);
  if (!grown) {
    t->failed = true;
    return false;
  }
  t->data = grown;
  t->capacity = wanted;
  return true;
}

void text_add_bytes(text *t, const char *bytes, size_t length) {
  if (!reserve(t, length)) return;
  memcpy(t->data + t->length, bytes, length);
  t->length += length;
  t->data[t->length] = 0;
}

void text_add(text *t, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length >= 0 && reserve(t, (size_t)length)) {
    vsnprintf(t->data + t->length, (size_t)length + 1, format, again);
    t->length += (size_t)length;
  }
  va_end(again);
}

void text_fini(text *t) {
  free(t->data);
  *t = (text){0};
}

shoal_status shoal_text_write(const shoal_text *t, const char *path) {
  if (t->failed) return status_no_memory();
  char *temporary;
  if (asprintf(&temporary, "%s.%d.tmp", path, (int)getpid()) < 0) return status_no_memory();
  FILE *f = fopen(temporary, "we");
  bool good = f && fwrite(t->data, 1, t->length, f) == t->length;
  if (f && fclose(f)) good = false;
  if (good && rename(temporary, path)) good = false;
  shoal_status status = good ? NULL : status_errno(errno, "cannot write %s", path);
  if (!good) unlink(temporary);
  free(temporary);
  return status;
}

/* Edit distance with swaps of neighbours counted as one; words here are short. */
static size_t distance(const char *a, const char *b) {
  enum { LONGEST = 48 };
  size_t n = strlen(a), m = strlen(b);
  if (n > LONGEST || m > LONGEST) return LONGEST;
  size_t row[3][LONGEST + 1];
  for (size_t j = 0; j <= m; j++) row[0][j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t *now = row[i % 3], *before = row[(i + 2) % 3], *older = row[(i + 1) % 3];
    now[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
      if (before[j] + 1 < best) best = before[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && older[j - 2] + 1 < best)
        best = older[j - 2] + 1;
      now[j] = best;
    }
  }
  return row[n % 3][m];
}

const char *shoal_nearest_name(const char *word, const char *const *names, size_t count) {
  const char *best = NULL;
  size_t least = strlen(word) / 3 + 2;
  for (size_t i = 0; i < count; i++) {
    size_t d = distance(word, names[i]);
    if (d < least) {
      least = d;
      best = names[i];
    }
  }
  return best;
}

shoal_status status_unknown(const char *what, const char *name, const char *const *known, size_t count) {
  const char *near = shoal_nearest_name(name, known, count);
  text list = {0};
  for (size_t i = 0; i < count; i++) text_add(&list, "%s%s", i ? ", " : "", known[i]);
  shoal_status status =
      list.failed ? status_no_memory()
                  : status_make(SHOAL_ERR_ARGUMENT, "unknown %s '%s'%s%s%s Known: %s", what, name,
                                near ? ": did you mean '" : ".", near ? near : "", near ? "'?" : "", list.data);
  text_fini(&list);
  return status;
}

bool shoal_parse_int(const char *word, int64_t *out) {
  if (!*word) return false;
  char *end;
  errno = 0;
  long long value = strtoll(word, &end, 10);
  if (errno || *end || end == word) return false;
  *out = value;
  return true;
}

bool shoal_parse_double(const char *word, double *out) {
  if (!*word) return false;
  char *end;
  errno = 0;
  double value = strtod(word, &end);
  if (*end || end == word || (errno == ERANGE && fabs(value) > 1)) return false;
  *out = value;
  return true;
}

const char *shoal_group_digits(int64_t value, char buffer[SHOAL_DIGITS_TEXT]) {
  char digits[SHOAL_DIGITS_TEXT];
  int n = snprintf(digits, sizeof digits, "%lld", (long long)(value < 0 ? -value : value)), at = 0;
  if (value < 0) buffer[at++] = '-';
  for (int i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) buffer[at++] = ',';
    buffer[at++] = digits[i];
  }
  buffer[at] = 0;
  return buffer;
}

const char *shoal_size_text(int64_t bytes, char buffer[GROUPED_TEXT]) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1000 && unit < 4; unit++) value /= 1000;
  snprintf(buffer, GROUPED_TEXT, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return buffer;
}

const char *shoal_group_decimals(double value, int digits, char buffer[SHOAL_DIGITS_TEXT]) {
  char whole[SHOAL_DIGITS_TEXT], plain[SHOAL_DIGITS_TEXT];
  if (!(fabs(value) < 1e15)) { /* also NaN */
    snprintf(buffer, SHOAL_DIGITS_TEXT, "%.6g", value);
    return buffer;
  }
  snprintf(plain, sizeof plain, "%.*f", digits, value);
  const char *point = strchr(plain, '.');
  const int64_t n = strtoll(plain, NULL, 10); /* rounded: 999.9 may be 1,000 */
  if (n > -1000 && n < 1000)
    snprintf(buffer, SHOAL_DIGITS_TEXT, "%s", plain);
  else
    snprintf(buffer, SHOAL_DIGITS_TEXT, "%.21s%.10s", grouped_text(n, whole), point ? point : "");
  return buffer;
}
