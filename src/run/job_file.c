#include "run/job_file.h"

#include "base/json_read.h"
#include "net/tcp_address.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

static shoal_status random_id(uint64_t *out) {
  if (getrandom(out, sizeof *out, 0) != sizeof *out) return status_errno(errno, "no random numbers for the job's name");
  return NULL;
}

/* Where the servers of a cluster on this machine listen. */
static shoal_status make_addresses(const shoal_job *f, const char *id, json_t *list) {
  for (int i = 0; i < (int)(f->ps * (1 + f->replicas)); i++) {
    json_t *address;
    const bool tls = !strcmp(f->transport, "tls");
    if (tls || !strcmp(f->transport, "zmq")) {
      int port;
      TRY(tcp_free_port(&port));
      address = json_sprintf("%s://127.0.0.1:%d", tls ? "tcp" : "zmq", port);
    } else {
      address = json_sprintf("shm:/shoal-%s-ps-%d", id, i);
    }
    if (json_array_append_new(list, address)) return status_no_memory();
  }
  return NULL;
}

static shoal_status take_addresses(job_file *j, const shoal_job *f, const char *path) {
  const json_t *list = json_object_get(json_object_get(j->file, "cluster"), "ps");
  size_t n = json_array_size(list);
  if (n < 1 || n > SERVERS_MAX)
    return status_make(SHOAL_ERR_INPUT, "%s: expected 1 to %d addresses of parameter servers, not %zu", path,
                       SERVERS_MAX, n);
  for (size_t i = 0; i < n; i++) {
    j->addresses[i] = json_string_value(json_array_get(list, i));
    if (!j->addresses[i]) return status_make(SHOAL_ERR_INPUT, "%s: address %zu is not a string", path, i);
  }
  j->replicas = (int)f->replicas;
  j->servers = (int)n / (1 + j->replicas);
  return NULL;
}

shoal_status job_file_make(const training *t, int classes, int64_t rows, const job_file *before, job_file *out) {
  job_file j = {.classes = classes, .rows = rows};
  uint64_t fresh;
  TRY(random_id(&fresh));
  j.id = before ? before->id : fresh;
  char id[32], place[32];
  snprintf(id, sizeof id, "%016" PRIx64, j.id);
  snprintf(place, sizeof place, "%016" PRIx64, fresh);
  json_t *servers = json_array();
  shoal_status status = make_addresses(&t->job, place, servers);
  if (status) {
    json_decref(servers);
    return status;
  }
  j.file = json_pack("{s:s, s:s, s:i, s:I, s:s, s:b, s:s?, s:o, s:{s:o}}", "job", id, "model", t->kind->name, "classes",
                     classes, "rows", (json_int_t)rows, "run_dir", t->dir.path, "resume", t->job.resume, "keys",
                     t->job.keys, "flags", settings_to_json(job_table, &t->job), "cluster", "ps", servers);
  status = j.file ? take_addresses(&j, &t->job, "the job") : status_no_memory();
  if (!status) status = training_note_learned(t, j.file);
  if (!status) status = training_note_model(t, classes, j.file);
  if (status) {
    job_file_fini(&j);
    return status;
  }
  *out = j;
  return NULL;
}

shoal_status job_file_write(const job_file *j, const char *path) { return json_write_atomically(j->file, path); }

static shoal_status read_job(const char *path, training *t, job_file *j) {
  const shoal_job unset = job_unset();
  json_error_t error;
  j->file = json_read_file(path, 0, &error);
  if (!j->file) return status_make(SHOAL_ERR_INPUT, "%s: %s", path, error.text);
  const char *id, *model, *folder;
  json_int_t rows;
  int resume;
  json_t *flags;
  if (json_unpack_ex(j->file, &error, 0, "{s:s, s:s, s:i, s:I, s:s, s:b, s:o}", "job", &id, "model", &model, "classes",
                     &j->classes, "rows", &rows, "run_dir", &folder, "resume", &resume, "flags", &flags))
    return status_make(SHOAL_ERR_INPUT, "%s: %s", path, error.text);
  j->id = strtoull(id, NULL, 16);
  j->rows = rows;
  TRY(training_take_learned(t, j->file, path));
  TRY(training_take_model(t, j->file, model, path));
  t->job = job_unset();
  TRY(settings_from_json(job_table, flags, path, &t->job));
  t->job.resume = resume;
  t->job.run_dir = folder;
  t->job.keys = json_string_value(json_object_get(j->file, "keys"));
  job_fill(&t->job, &unset, t->kind);
  TRY(run_dir_init(folder, &t->dir));
  return take_addresses(j, &t->job, path);
}

shoal_status job_file_read(const char *path, training *t, job_file *out) {
  job_file j = {0};
  shoal_status status = read_job(path, t, &j);
  if (status) {
    job_file_fini(&j);
    return status;
  }
  *out = j;
  return NULL;
}

void job_file_fini(job_file *j) {
  key_ring_fini(&j->ring);
  json_decref(j->file);
  *j = (job_file){0};
}

bool job_file_has_chief(const job_file *j) { return j->members && j->members->counts[SHOAL_CHIEF] > 0; }

ps_terms job_file_terms(const job_file *j, const training *t) {
  const shoal_job *f = &t->job;
  return (ps_terms){.workers = (int)f->workers,
                    .servers = j->servers,
                    .sync = job_is_sync(f),
                    .staleness = f->staleness,
                    .in_flight = (int)f->in_flight,
                    .backups = (int)f->backup_workers,
                    .local_steps = f->local_steps > 1 ? f->local_steps : 0,
                    .round = f->deterministic ? job_global_batch(f) : 0};
}

ps_task job_file_task(const job_file *j, const training *t) {
  const shoal_job *f = &t->job;
  ps_task task = {.net = j->net,
                  .has_chief = job_file_has_chief(j),
                  .deadline = f->deadline,
                  .heartbeat = f->heartbeat,
                  .drain = f->drain,
                  .returns = f->max_restarts > 0};
  task.net.heartbeat = f->heartbeat;
  task.net.job = j->id;
  return task;
}
