#include "cli/exchange.h"

#include "base/text.h"
#include "cli/say.h"
#include "cli/table.h"

/* Of a step of one worker; the means over all steps. */
typedef struct {
  double touched; /* features */
  double bytes;   /* to and from the servers */
  double whole;   /* bytes if all weights went each way */
} exchange;

static bool find(const run_report *r, exchange *out) {
  double steps = 0, touched = 0, bytes = 0;
  size_t i;
  json_t *task;
  json_array_foreach(r->tasks, i, task) {
    const json_t *rows = json_object_get(task, "touched_rows");
    if (!rows) continue;
    touched += json_number_value(rows);
    steps += json_number_value(json_object_get(task, "steps"));
    bytes += json_number_value(json_object_get(task, "exchanged_bytes"));
  }
  if (steps < 1 || touched < 1) return false;
  *out = (exchange){touched / steps, bytes / steps, 2.0 * sizeof(float) * (double)r->parameters};
  return true;
}

bool exchange_add(const run_report *r, json_t *summary) {
  exchange e;
  if (!find(r, &e)) return true;
  return !json_object_set_new(
      summary, "exchange",
      json_pack("{s:s, s:f, s:f, s:f, s:f}", "transfer", r->flags->transfer, "touched_features", e.touched,
                "step_bytes", e.bytes, "bytes_a_feature", e.bytes / e.touched, "whole_step_bytes", e.whole));
}

void exchange_print(const run_report *r, FILE *to) {
  exchange e;
  if (!find(r, &e)) return;
  char features[GROUPED_TEXT], all[GROUPED_TEXT], ratio[GROUPED_TEXT];
  const double least = 2 * sizeof(float) * e.touched;
  const bool wasteful = e.bytes > e.whole / 2;
  text words = {0};
  text_add(&words, "A step of a worker touches %s of %s features and moves %.1f kB, ",
           grouped_text((int64_t)e.touched, features), grouped_text(r->parameters, all), e.bytes / 1e3);
  if (wasteful)
    text_add(&words, "%s times the %.1f kB of their weights and gradients.",
             grouped_text((int64_t)(e.bytes / least), ratio), least / 1e3);
  else
    text_add(&words, "%.2f times their weights and gradients. All weights each way would be %.1f MB, %s times as much.",
             e.bytes / least, e.whole / 1e6, grouped_text((int64_t)(e.whole / e.bytes), ratio));
  if (words.data) say(to, "\n%s\n", words.data);
  text_fini(&words);
}
