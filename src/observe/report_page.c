#include "observe/report_page.h"

#include "base/mem.h"
#include "base/options.h"
#include "shoal/observe.h"
#include "shoal/version.h"

#define POINTS 4000 /* of a curve, when nothing is asked for */
#define POINTS_LEAST 100
#define POINTS_ALL 40000 /* of all runs together: some megabytes of text */

shoal_status report_page_check(void) {
  if (!report_page_built.missing) return NULL;
  return status_make(SHOAL_ERR_SYSTEM,
                     "this build of shoal has no page, because %s; with node and npm installed: touch "
                     "web/package-lock.json, then build again",
                     report_page_built.missing);
}

static shoal_status write_runs(report_set *s, int points, text *out) {
  bool first = true;
  text_add(out, ",\"runs\":[");
  for (size_t i = 0; i < s->count; i++) {
    report_run *r = s->runs[i];
    if (!r->is_run) continue;
    if (!first) text_add_bytes(out, ",", 1);
    first = false;
    TRY(report_run_write(s, r, &(report_range){.points = points}, out));
    report_metrics_fini(&r->metrics); /* not looked at again */
    report_metrics_fini(&r->tests);
  }
  text_add(out, "],\"sweeps\":[");
  first = true;
  for (size_t i = 0; i < s->count; i++) {
    if (!s->runs[i]->is_sweep) continue;
    if (!first) text_add_bytes(out, ",", 1);
    first = false;
    TRY(report_sweep_write(s->runs[i], out));
  }
  text_add(out, "],\"traces\":{");
  first = true;
  for (size_t i = 0; i < s->count; i++) {
    if (s->runs[i]->files[REPORT_TRACE].size <= 0) continue;
    text_add(out, "%s\"%d\":", first ? "" : ",", s->runs[i]->id);
    first = false;
    TRY(report_trace_write(s->runs[i], out));
  }
  text_add(out, "}");
  return NULL;
}

shoal_status shoal_report_write(const shoal_report_options *given, shoal_report_result *result) {
  shoal_report_options own;
  const shoal_report_options *options = &own;
  TRY(OPTIONS_TAKE(&own, given));
  TRY(report_page_check());
  if (options->n_folders < 1) return status_make(SHOAL_ERR_ARGUMENT, "no runs to show: name their folders");
  report_set set = {0};
  text page = {0};
  shoal_status status = NULL;
  for (int i = 0; i < options->n_folders && !status; i++) status = report_set_add(&set, options->folders[i]);
  int runs = 0;
  for (size_t i = 0; i < set.count; i++) runs += set.runs[i]->is_run;
  if (!status) status = report_page_write(&set, options->points ? options->points : POINTS, shoal_version(), &page);
  if (!status) status = text_write_file(&page, options->path);
  if (!status && result) *result = (shoal_report_result){.runs = runs, .bytes = page.length};
  text_fini(&page);
  report_set_fini(&set);
  return status;
}

shoal_status report_page_write(report_set *s, int points, const char *version, text *out) {
  TRY(report_page_check());
  int each = s->count ? POINTS_ALL / (int)s->count : points;
  points = MAX_OF(MIN_OF(points, each), POINTS_LEAST);
  text_add_bytes(out, (const char *)report_page_built.head, report_page_built.head_length);
  text_add(out, "{\"live\":false,\"version\":");
  report_write_string(out, version);
  TRY(write_runs(s, points, out));
  text_add_bytes(out, "}", 1);
  text_add_bytes(out, (const char *)report_page_built.tail, report_page_built.tail_length);
  return out->failed ? status_no_memory() : NULL;
}
