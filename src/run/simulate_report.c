/* What a simulation leaves: as JSON, as lines, as files. */
#include "base/json_text.h"
#include "base/mem.h"
#include "base/text.h"
#include "run/run_dir.h"
#include "run/settings.h"
#include "run/simulation.h"
#include "train/compress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINES 1000 /* of metrics.jsonl, at most */

/* Of each way that was tried. */
static json_t *ways_to_json(const shoal_simulate_result *r) {
  json_t *all = json_object();
  for (int w = 0; w < COMPRESS_WAYS && r->way_seconds[0] > 0; w++)
    json_object_set_new(all, compress_way(w), json_real(r->way_seconds[w]));
  return all;
}

static json_t *to_json(const shoal_simulate_options *o, const shoal_simulate_result *r) {
  const shoal_verdict *v = &r->verdict;
  json_t *next = v->has_next ? json_pack("{s:f, s:s}", "speedup", v->speedup, "text", v->next_text) : json_null();
  json_t *verdict = json_pack("{s:s, s:s, s:o}", "bottleneck", shoal_verdict_cause_name(v->cause), "text", v->text,
                              "next_worker", next);
  return json_pack(
      "{s:b, s:o, s:I, s:f, s:f, s:f, s:{s:f, s:f, s:f}, s:{s:f, s:f, s:f, s:f}, s:{s:f, s:I}, s:I, s:I, s:f, s:I, "
      "s:{s:f, s:f}, s:f, s:f, s:f, s:f, s:s?, s:o, s:o}",
      "simulated", 1, "settings", settings_to_json(shoal_simulate_settings(), o), "updates", (json_int_t)r->updates,
      "seconds", r->seconds, "steps_per_second", r->steps_per_second, "worker_steps_per_second",
      r->worker_steps_per_second, "step_seconds", "mean", r->step_mean, "p50", r->step_p50, "p99", r->step_p99,
      "shares", "compute", r->compute, "network", r->network, "barrier", r->barrier, "server", r->server, "staleness",
      "mean", r->staleness_mean, "max", (json_int_t)r->stalest, "late_gradients", (json_int_t)r->late, "failures",
      (json_int_t)r->failures, "sent_bytes", r->sent_bytes, "messages", (json_int_t)r->messages, "link_use", "worker",
      r->worker_link, "server", r->server_link, "server_busy", r->server_busy, "compute_seconds", r->step_compute,
      "parameters", r->parameters, "real_seconds", r->real_seconds, "way", r->way, "way_seconds", ways_to_json(r),
      "verdict", verdict);
}

shoal_status shoal_simulate_json(const shoal_simulate_options *options, const shoal_simulate_result *r, char **out) {
  json_t *all = to_json(options, r);
  char *words = all ? json_words(all, JSON_INDENT(2)) : NULL;
  json_decref(all);
  const bool good = words && asprintf(out, "%s\n", words) > 0;
  free(words);
  return good ? NULL : status_no_memory();
}

shoal_status shoal_simulate_text(const shoal_simulate_options *o, const shoal_simulate_result *r, char **out) {
  text t = {0};
  text_add(&t, "%.6g updates/s, %.6g steps/s of a worker (simulated: %lld updates in %.6g s)\n", r->steps_per_second,
           r->worker_steps_per_second, (long long)r->updates, r->seconds);
  text_add(&t, "step         %.6g ms in the mean, %.6g ms median, %.6g ms p99; computing %.6g ms\n", 1e3 * r->step_mean,
           1e3 * r->step_p50, 1e3 * r->step_p99, 1e3 * r->step_compute);
  for (int w = 0; w < COMPRESS_WAYS && r->way_seconds[0] > 0; w++)
    text_add(&t, "%s %.6g ms with %s%s", w ? "," : "compress auto:", 1e3 * r->way_seconds[w], compress_way(w),
             w < COMPRESS_WAYS - 1 ? "" : "\n");
  if (r->way && strcmp(r->way, "f32") != 0) text_add(&t, "gradients    travel as %s\n", r->way);
  text_add(&t, "workers      %.1f %% computing, %.1f %% network, %.1f %% waiting for others, %.1f %% for servers\n",
           100 * r->compute, 100 * r->network, 100 * r->barrier, 100 * r->server);
  text_add(&t, "links        in use for %.1f %% of the time at a worker", 100 * r->worker_link);
  if (r->server_busy > 0)
    text_add(&t, ", %.1f %% at a server, whose processor is busy for %.1f %%", 100 * r->server_link,
             100 * r->server_busy);
  text_add(&t, "\nsent         %.6g MB in %lld messages\n", r->sent_bytes / 1e6, (long long)r->messages);
  if (r->stalest)
    text_add(&t, "staleness    %.3g in the mean, %lld at most\n", r->staleness_mean, (long long)r->stalest);
  if (r->late) text_add(&t, "late         %lld gradients\n", (long long)r->late);
  if (r->failures) text_add(&t, "failures     %lld\n", (long long)r->failures);
  text_add(&t, "%s\n", r->verdict.text);
  text_add(&t, "simulated in %.3g s\n", r->real_seconds);
  if (t.failed) {
    text_fini(&t);
    return status_no_memory();
  }
  *out = t.data;
  return NULL;
}

/* A line for each update, or for every so manieth: steps in a second since the one before. */
static void add_lines(const simulation *s, text *out) {
  const int64_t every = MAX_OF(s->n_updates / LINES, 1);
  for (int64_t i = every; i < s->n_updates; i += every) {
    const double since = s->updated_at[i] - s->updated_at[i - every];
    text_add(out, "{\"kind\": \"train\", \"step\": %lld, \"seconds\": %.9g, \"steps_per_second\": %.9g}\n",
             (long long)i + 1, s->updated_at[i] - s->updated_at[0], since > 0 ? (double)every / since : 0);
  }
}

static shoal_status write_json(const char *folder, const char *name, json_t *value) {
  char *path;
  if (!value || asprintf(&path, "%s/%s", folder, name) < 0) {
    json_decref(value);
    return status_no_memory();
  }
  shoal_status status = json_write_atomically(value, path);
  free(path);
  json_decref(value);
  return status;
}

shoal_status simulate_write(const simulation *s, const shoal_simulate_result *r) {
  const char *folder = s->options->run_dir;
  char *path;
  text lines = {0};
  if (mkdir(folder, 0777) && errno != EEXIST) return status_errno(errno, "cannot make the folder %s", folder);
  TRY(write_json(folder, "settings.json", settings_to_json(shoal_simulate_settings(), s->options)));
  TRY(write_json(folder, "summary.json", to_json(s->options, r)));
  if (asprintf(&path, "%s/metrics.jsonl", folder) < 0) return status_no_memory();
  add_lines(s, &lines);
  shoal_status status = lines.failed ? status_no_memory() : shoal_text_write(&lines, path);
  text_fini(&lines);
  free(path);
  return status;
}
