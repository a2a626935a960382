#include "cli/progress.h"

#include "cli/util.h"

#include "cli/say.h"
#include "cli/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAIN_SECONDS 10.0 /* between two plain lines inside an epoch */
#define DRAW_SECONDS 0.1
#define INDENT 2        /* of a line that goes on */
#define SLOW_BATCH 0.05 /* seconds from which on what a batch takes is worth saying */

void progress_init(progress *p, FILE *to, int64_t batch_size, bool quiet) {
  const char *terminal = getenv("TERM"), *no_colour = getenv("NO_COLOR");
  bool capable = isatty(fileno(to)) && terminal && strcmp(terminal, "dumb");
  *p = (progress){
      .to = to, .batch_size = batch_size, .quiet = quiet, .live = capable && !quiet, .last_plain = seconds_now()};
  p->colour = p->live && !(no_colour && *no_colour);
}

const char *duration_text(double seconds, char buffer[DURATION_TEXT]) {
  if (!isfinite(seconds) || seconds > 1e9) seconds = 1e9;
  long s = (long)(seconds + 0.5);
  if (s < 60)
    snprintf(buffer, DURATION_TEXT, "%ld s", s);
  else if (s < 3600)
    snprintf(buffer, DURATION_TEXT, "%ld:%02ld", s / 60, s % 60);
  else
    snprintf(buffer, DURATION_TEXT, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  return buffer;
}

/* Smoothed, so that the number can be read; over the last second or so. */
static void measure_speed(progress *p, const shoal_progress *now) {
  double seconds = now->examples_seconds - p->speed_seconds;
  if (seconds < 0.02) { /* too short to measure; before the first measurement the mean has to do */
    if (!p->speed_examples && now->examples_seconds > 0) p->speed = (double)now->examples / now->examples_seconds;
    return;
  }
  double speed = (double)(now->examples - p->speed_examples) / seconds;
  double weight = p->speed_examples ? 1 - exp(-seconds) : 1;
  p->speed += weight * (speed - p->speed);
  p->speed_examples = now->examples;
  p->speed_seconds = now->examples_seconds;
}

static const char *speed_text(double speed, char buffer[GROUPED_TEXT]) {
  if (speed >= 100) return grouped_text((int64_t)speed, buffer);
  snprintf(buffer, GROUPED_TEXT, "%.1f", speed);
  return buffer;
}

/* One piece of the line, added while it fits. Colours take no room. */
static void piece(text *line, int *room, const char *colour, const char *s) {
  int needed = (int)strlen(s) + (line->length ? 2 : 0);
  if (needed > *room) {
    *room = 0; /* a later, shorter piece must not jump the queue */
    return;
  }
  *room -= needed;
  text_add(line, "%s%s%s%s", line->length ? "  " : "", colour ? colour : "", s, colour ? "\033[0m" : "");
}

/* "epoch 2/1,000" */
static void epoch_text(const shoal_progress *now, text *out) {
  char a[GROUPED_TEXT], b[GROUPED_TEXT];
  text_add(out, "epoch %s", grouped_text(now->epoch + 1, a));
  if (now->epochs > 0) text_add(out, "/%s", grouped_text(now->epochs, b));
}

static void compose(const progress *p, const shoal_progress *now, int width, text *line) {
  const char *bold = p->colour ? "\033[1m" : NULL, *green = p->colour ? "\033[32m" : NULL;
  const char *grey = p->colour ? "\033[2m" : NULL;
  char s[96], a[GROUPED_TEXT], b[GROUPED_TEXT];
  int room = width - 1; /* the last column would make some terminals wrap */
  text epoch = {0};
  epoch_text(now, &epoch);
  if (epoch.data) piece(line, &room, bold, epoch.data);
  text_fini(&epoch);
  snprintf(s, sizeof s, "step %s%s%s", grouped_text(now->step, a), now->steps ? "/" : "",
           now->steps ? grouped_text(now->steps, b) : "");
  piece(line, &room, NULL, s);
  snprintf(s, sizeof s, "loss %.4f", now->loss);
  piece(line, &room, NULL, s);
  if (isfinite(now->accuracy)) {
    snprintf(s, sizeof s, "accuracy %.2f %%", 100 * now->accuracy);
    piece(line, &room, green, s);
  }
  if (p->speed > 0) {
    snprintf(s, sizeof s, "%s examples/s", speed_text(p->speed, a));
    piece(line, &room, NULL, s);
  }
  double seconds = p->speed > 0 ? (double)p->batch_size / p->speed : 0;
  if (seconds >= SLOW_BATCH) {
    snprintf(s, sizeof s, "%.2f s/batch", seconds);
    piece(line, &room, NULL, s);
  }
  if (p->speed > 0 && now->steps > now->step) {
    char d[DURATION_TEXT];
    snprintf(s, sizeof s, "%s left",
             duration_text((double)(now->steps - now->step) * (double)p->batch_size / p->speed, d));
    piece(line, &room, grey, s);
  }
}

void progress_clear(progress *p) {
  if (p->drawn) fputs("\r\033[K", p->to);
  p->drawn = false;
  fflush(p->to);
}

static void plain(progress *p, const shoal_progress *now) {
  text line = {0};
  compose(p, now, 200, &line);
  if (line.data) say_indented(p->to, INDENT, "%s\n", line.data);
  fflush(p->to);
  text_fini(&line);
  p->last_plain = seconds_now();
}

void progress_step(progress *p, const shoal_progress *now) {
  measure_speed(p, now);
  if (p->quiet) return;
  double time = seconds_now();
  if (!p->live) {
    if (time - p->last_plain >= PLAIN_SECONDS) plain(p, now);
    return;
  }
  if (p->drawn && time - p->last_draw < DRAW_SECONDS) return;
  text line = {0};
  compose(p, now, terminal_width(p->to), &line);
  if (line.data) fprintf(p->to, "\r%s\033[K", line.data);
  fflush(p->to);
  text_fini(&line);
  p->drawn = true;
  p->last_draw = time;
}

void progress_epoch(progress *p, const shoal_progress *now) {
  measure_speed(p, now);
  if (p->quiet) return;
  progress_clear(p);
  char speed[GROUPED_TEXT];
  text line = {0};
  epoch_text(now, &line);
  text_add(&line, "  loss %.4f", now->loss);
  if (isfinite(now->accuracy)) text_add(&line, "  accuracy %.2f %%", 100 * now->accuracy);
  if (isfinite(now->validation_loss)) text_add(&line, "  validation loss %.4f", now->validation_loss);
  if (isfinite(now->validation_accuracy))
    text_add(&line, "  validation accuracy %.2f %%", 100 * now->validation_accuracy);
  char figures[SHOAL_EVALUATION_TEXT];
  if (now->test.examples) text_add(&line, "  test %s", shoal_evaluation_text(&now->test, figures));
  text_add(&line, "  rate %.4g  %s examples/s  %.1f s", now->rate, speed_text(p->speed, speed), now->examples_seconds);
  if (line.data) say_indented(p->to, INDENT, "%s\n", line.data);
  text_fini(&line);
  fflush(p->to);
  p->last_plain = seconds_now();
}

void progress_test(progress *p, int64_t rows, const shoal_progress *now, const shoal_evaluation *e) {
  if (p->quiet) return;
  progress_clear(p);
  char seen[GROUPED_TEXT];
  say_indented(p->to, INDENT, "rows %s  progressive loss %.5f  test loss %.5f  test error %.3f %%  AUC %.5f\n",
               grouped_text(rows, seen), now->loss, e->loss, 100 * (1 - e->accuracy), e->auc);
  fflush(p->to);
}
