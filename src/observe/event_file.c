#include "observe/event_file.h"

#include "base/mem.h"
#include "base/text.h"
#include "data/tfrecord.h"
#include "observe/histogram.h"
#include "base/proto.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Field numbers of TensorFlow's event.proto, summary.proto, tensor.proto and histogram.proto. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_GRAPH = 4, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_NUMBER = 2, VALUE_HISTOGRAM = 5, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_TEXT = 8, DTYPE_STRING = 7 };
enum { HISTO_MIN = 1, HISTO_MAX, HISTO_COUNT, HISTO_SUM, HISTO_SQUARES, HISTO_LIMITS, HISTO_BUCKETS };

struct event_file {
  pthread_mutex_t lock;
  sink to;
  proto event;
  bool failed;
};

static double wall_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Empties the buffer and begins an event; the lock is held until `finish`. */
static proto *begin(event_file *f, int64_t step) {
  pthread_mutex_lock(&f->lock);
  proto_clear(&f->event);
  proto_double(&f->event, EVENT_TIME, wall_seconds());
  if (step) proto_int(&f->event, EVENT_STEP, step);
  return &f->event;
}

static shoal_status finish(event_file *f) {
  shoal_status status = NULL;
  if (f->event.failed) status = status_no_memory();
  if (!status && !f->failed) status = tfrecord_append(&f->to, f->event.bytes, f->event.length);
  if (!status && !f->failed) status = sink_flush(&f->to);
  if (status) f->failed = true;
  pthread_mutex_unlock(&f->lock);
  return status;
}

shoal_status event_file_open(const char *folder, event_file **out) {
  if (mkdir(folder, 0777) && errno != EEXIST) return status_errno(errno, "cannot create the folder %s", folder);
  char host[256] = "host", *path = NULL;
  gethostname(host, sizeof host - 1);
  event_file *f = calloc(1, sizeof *f);
  if (!f) return status_no_memory();
  pthread_mutex_init(&f->lock, NULL);
  shoal_status status = NULL;
  for (int i = 0; !status; i++) { /* a name not taken: two writers of one process may share a second */
    free(path);
    if (asprintf(&path, "%s/events.out.tfevents.%lld.%s.%d.%d", folder, (long long)time(NULL), host, (int)getpid(), i) <
        0) {
      path = NULL;
      status = status_no_memory();
    } else if (access(path, F_OK)) {
      break;
    }
  }
  if (!status) status = sink_open(path, &f->to);
  free(path);
  if (status) {
    event_file_close(f);
    return status;
  }
  proto_text(begin(f, 0), EVENT_VERSION, "brain.Event:2");
  status = finish(f);
  if (status)
    event_file_close(f);
  else
    *out = f;
  return status;
}

void event_file_close(event_file *f) {
  if (!f) return;
  sink_drop(&f->to); /* every record was flushed */
  proto_fini(&f->event);
  pthread_mutex_destroy(&f->lock);
  free(f);
}

shoal_status event_file_scalars(event_file *f, int64_t step, const event_scalar *scalars, int n) {
  if (!f) return NULL;
  proto *p = begin(f, step);
  size_t summary = proto_begin(p, EVENT_SUMMARY);
  for (int i = 0; i < n; i++) {
    if (!isfinite(scalars[i].value)) continue;
    size_t value = proto_begin(p, SUMMARY_VALUE);
    proto_text(p, VALUE_TAG, scalars[i].tag);
    proto_float(p, VALUE_NUMBER, (float)scalars[i].value);
    proto_end(p, value);
  }
  proto_end(p, summary);
  return finish(f);
}

shoal_status event_file_histogram(event_file *f, int64_t step, const char *tag, const shoal_tensor *t) {
  if (!f) return NULL;
  histogram h;
  histogram_make(t->data, shoal_tensor_count(t), &h);
  proto *p = begin(f, step);
  size_t summary = proto_begin(p, EVENT_SUMMARY), value = proto_begin(p, SUMMARY_VALUE);
  proto_text(p, VALUE_TAG, tag);
  size_t inside = proto_begin(p, VALUE_HISTOGRAM);
  proto_double(p, HISTO_MIN, h.least);
  proto_double(p, HISTO_MAX, h.most);
  proto_double(p, HISTO_COUNT, (double)h.count);
  proto_double(p, HISTO_SUM, h.sum);
  proto_double(p, HISTO_SQUARES, h.squares);
  proto_doubles(p, HISTO_LIMITS, h.limits, (size_t)h.buckets);
  proto_doubles(p, HISTO_BUCKETS, h.counts, (size_t)h.buckets);
  proto_end(p, inside);
  proto_end(p, value);
  proto_end(p, summary);
  return finish(f);
}

shoal_status event_file_text(event_file *f, const char *tag, const char *words) {
  if (!f) return NULL;
  proto *p = begin(f, 0);
  size_t summary = proto_begin(p, EVENT_SUMMARY), value = proto_begin(p, SUMMARY_VALUE);
  proto_text(p, VALUE_TAG, tag);
  size_t tensor = proto_begin(p, VALUE_TENSOR);
  proto_int(p, TENSOR_DTYPE, DTYPE_STRING);
  proto_end(p, proto_begin(p, TENSOR_SHAPE)); /* a scalar */
  proto_text(p, TENSOR_TEXT, words);
  proto_end(p, tensor);
  size_t metadata = proto_begin(p, VALUE_METADATA), plugin = proto_begin(p, METADATA_PLUGIN);
  proto_text(p, PLUGIN_NAME, "text");
  proto_end(p, plugin);
  proto_end(p, metadata);
  proto_end(p, value);
  proto_end(p, summary);
  return finish(f);
}

shoal_status event_file_graph(event_file *f, const void *graph_def, size_t n) {
  if (!f) return NULL;
  proto_bytes(begin(f, 0), EVENT_GRAPH, graph_def, n);
  return finish(f);
}

shoal_status event_file_resumed(event_file *f, int64_t step) {
  if (!f) return NULL;
  proto *p = begin(f, step);
  size_t session = proto_begin(p, EVENT_SESSION);
  proto_int(p, SESSION_STATUS, SESSION_START);
  proto_end(p, session);
  return finish(f);
}
