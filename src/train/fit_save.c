/* Checkpoints of a run under way. */
#include "base/clock.h"
#include "train/fit_loop.h"

#define STANDARD_KEEP 3

/* Takes `status`. */
static void note_unwritten(const fit_loop *l, int64_t step, bool best, shoal_status status) {
  text line = {0};
  text_add(&line, "step %lld: %s not written, training goes on: %s", (long long)step,
           best ? "best checkpoint" : "checkpoint", shoal_status_message(status));
  fit_note(l, line.failed ? "a checkpoint was not written" : line.data);
  text_fini(&line);
  shoal_status_free(status);
}

void fit_wait_for_writer(fit_loop *l) {
  if (!l->writer) return;
  int64_t step;
  double start = clock_seconds();
  shoal_status status = snapshot_wait(l->writer, &step);
  if (status) {
    l->saved.base = -1; /* it may have been the one that others would be about */
    note_unwritten(l, step, false, status);
  }
  l->checkpoint_seconds += clock_seconds() - start;
}

/* Between two steps when it is small, otherwise while training goes on; not when the one before is still being written,
 * then it is left out. */
static shoal_status write_checkpoint(fit_loop *l) {
  const shoal_fit_options *o = l->options;
  const int keep = o->keep ? o->keep : STANDARD_KEEP;
  l->saved_step = l->state.step;
  if (!l->writer) return fit_save(&l->saved, o->checkpoint_dir, l->settings.data, keep); /* never with growing ids */
  if (snapshot_busy(l->writer)) {
    l->saved_step = -1;
    fit_note(l, "a checkpoint is left out: the one before is still being written");
    return NULL;
  }
  fit_wait_for_writer(l);
  TRY(fit_saved_refresh(&l->saved, false));
  TRY(snapshot_start(l->writer, &l->saved, o->checkpoint_dir, l->settings.data, keep));
  return fit_saved_done(&l->saved);
}

void fit_checkpoint(fit_loop *l, bool best) {
  const shoal_fit_options *o = l->options;
  const double start = clock_seconds(), before = l->checkpoint_seconds;
  shoal_status status;
  if (!is_chief(l)) return;
  uint64_t begun = fit_trace_now(l);
  if (best) fit_wait_for_writer(l); /* one at a time in a folder */
  batch_source_position(l->source, l->state.input);
  session_settle(l->model->session);
  status = l->strategy->kind->gather(l->strategy);
  if (!status) status = fit_take_gathered(l);
  if (!status && l->fresh) status = checkpoint_clear(o->checkpoint_dir);
  l->fresh = false;
  if (!status && best) status = fit_saved_refresh(&l->saved, true);
  if (!status) status = best ? fit_save_best(&l->saved, o->checkpoint_dir, l->settings.data) : write_checkpoint(l);
  if (status) note_unwritten(l, l->state.step, best, status);
  fit_trace_add(l, FIT_SAVE, begun);
  l->checkpoint_seconds = before + clock_seconds() - start;
}
