/* Event files, as TensorBoard reads them: TFRecords of Event messages.
 *
 * One writer a folder. Any thread may add; each call writes one whole record and hands it to the system, so that a
 * TensorBoard that looks on sees it. A file that cannot be written any more says so once and is then left alone. */
#ifndef SHOAL_OBSERVE_EVENT_FILE_H
#define SHOAL_OBSERVE_EVENT_FILE_H

#include "base/status.h"
#include "shoal/tensor.h"

#include <stdint.h>

typedef struct event_file event_file;

typedef struct {
  const char *tag; /* "loss" */
  double value;    /* not finite: left out */
} event_scalar;

/* Makes the folder (the one above it must be there) and in it events.out.tfevents.TIME.HOST.PID.N. */
SHOAL_CHECKED shoal_status event_file_open(const char *folder, event_file **out);
void event_file_close(event_file *f); /* NULL is fine */

/* The calls below do nothing for NULL. */
SHOAL_CHECKED shoal_status event_file_scalars(event_file *f, int64_t step, const event_scalar *scalars, int n);
/* Of the numbers of a dense f32 tensor. */
SHOAL_CHECKED shoal_status event_file_histogram(event_file *f, int64_t step, const char *tag, const shoal_tensor *t);
/* Markdown. */
SHOAL_CHECKED shoal_status event_file_text(event_file *f, const char *tag, const char *words);
/* A serialised GraphDef. */
SHOAL_CHECKED shoal_status event_file_graph(event_file *f, const void *graph_def, size_t n);
/* A run continues from this step: TensorBoard forgets what earlier files say about later ones. */
SHOAL_CHECKED shoal_status event_file_resumed(event_file *f, int64_t step);

#endif
