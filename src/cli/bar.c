#include "cli/bar.h"

#include "cli/progress.h"
#include "cli/table.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRAW_SECONDS 0.1
#define WAIT_SECONDS 0.5 /* short work shows nothing */
#define BAR_CELLS 24

void bar_init(bar *b, const char *what, bool quiet, const int *stop) {
  const char *terminal = getenv("TERM");
  bool capable = isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb");
  *b = (bar){.what = what, .live = capable && !quiet, .started = seconds_now(), .stop = stop};
}

static void show(bar *b, int64_t done) {
  if (!b->live) return;
  double now = seconds_now(), seconds = now - b->started;
  if (seconds < WAIT_SECONDS || now - b->last < DRAW_SECONDS) return;
  b->last = now;
  b->drawn = true;
  char count[SHOAL_DIGITS_TEXT], speed[SHOAL_DIGITS_TEXT], left[DURATION_TEXT], cells[BAR_CELLS + 1] = "";
  double rate = (double)done / seconds, share = b->total > 0 ? (double)done / (double)b->total : 0;
  if (share > 1) share = 1;
  fputc('\r', stderr);
  if (b->total > 0) {
    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', (size_t)(share * BAR_CELLS));
    fprintf(stderr, "[%s] %3.0f %%  ", cells, 100 * share);
  }
  fprintf(stderr, "%s %s  %s/s", shoal_group_digits(done, count), b->what, shoal_group_digits((int64_t)rate, speed));
  if (b->total > done && rate > 0) fprintf(stderr, "  %s left", duration_text((double)(b->total - done) / rate, left));
  fputs("\033[K", stderr);
}

bool bar_on_rows(void *context, int64_t done, int64_t total) {
  bar *b = context;
  b->total = total;
  show(b, done);
  return !b->stop || !__atomic_load_n(b->stop, __ATOMIC_RELAXED);
}

void bar_clear(bar *b) {
  if (b->drawn) fputs("\r\033[K", stderr);
  b->drawn = false;
}
