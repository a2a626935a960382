/* shoal data convert: rows from any format read to one that is written. */
#include "cli/bar.h"
#include "cli/data.h"
#include "cli/say.h"

typedef struct {
  read_flags read;
  const char *to;
  bool force, quiet;
} convert_flags;

static const flag_row convert_table[] = {
    READ_FLAGS(offsetof(convert_flags, read)),
    {"to", FLAG_TEXT, offsetof(convert_flags, to), "NAME", "format to write: tfrecord, libsvm, csv or npy",
     "by the extension of TO", .marks = 0},
    {"force", FLAG_BOOL, offsetof(convert_flags, force), NULL, "overwrite an existing TO", .marks = 0},
    {"quiet", FLAG_BOOL, offsetof(convert_flags, quiet), NULL, "print nothing but errors", .marks = 0},
    {0},
};

static shoal_status convert(command_call *call) {
  const convert_flags *f = call->flags;
  const char *to = call->words->words[1];
  bar progress;
  bar_init(&progress, "rows", f->quiet, call->stop);
  shoal_pipeline_options read;
  shoal_convert_result done;
  TRY(data_read_options(&f->read, call->words->words[0], &read));
  shoal_status status = shoal_data_convert(
      &read,
      &(shoal_convert_options){
          .path = to, .format = f->to, .force = f->force, .progress = bar_on_rows, .context = &progress},
      &done);
  bar_clear(&progress);
  free((char *)read.files);
  if (!status && !f->quiet) {
    char rows[COUNTED_TEXT], bad[COUNTED_TEXT];
    say(stdout, "%s written to %s (%s)\n", counted_text(done.rows, "row", rows), to, done.format);
    if (done.bad_rows) printf("%s skipped\n", counted_text(done.bad_rows, "bad row", bad));
  }
  return status;
}

const command command_data_convert = {
    .name = "data convert",
    .arguments = "FROM TO",
    .summary = "write rows in another format: tfrecord, libsvm, csv or npy",
    .details =
        "FROM is a file, a folder, a glob (in quotes), a list a,b,c or the name of a\n"
        "data set. TO is one file; its extension selects the format: .tfrecord, .libsvm,\n"
        ".csv or .npy (with the labels in NAME-labels.npy). Sparse indices are kept.\n"
        "Dense rows are written to tfrecord and libsvm as their non-zero numbers, with\n"
        "indices from 1. TO appears only when it is complete; an existing file is\n"
        "overwritten only with --force.\n"
        "\n"
        "Examples:\n"
        "  shoal data convert 'clicks/*.tfrecord' clicks.libsvm\n"
        "  shoal data convert flowers/ flowers.npy --transform resize=64x64\n",
    .flags = convert_table,
    .fields = sizeof(convert_flags),
    .words_min = 2,
    .words_max = 2,
    .expected = "FROM and TO",
    .stopping = "Stopping; the unfinished file is removed.",
    .killed = "Killed; a file TO.part may be left.",
    .action = convert,
};
