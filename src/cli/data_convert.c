/* shoal data convert: rows from any format read to one that is written. */
#include "cli/bar.h"
#include "cli/data.h"
#include "cli/interrupt.h"
#include "cli/say.h"

typedef struct {
  read_flags read;
  const char *to;
  bool force, quiet;
} convert_flags;

static const flag_row convert_table[] = {
    READ_FLAGS(offsetof(convert_flags, read)),
    {"to", FLAG_TEXT, offsetof(convert_flags, to), "NAME", "format to write: tfrecord, libsvm, csv or npy",
     "by the ending of TO", .marks = 0},
    {"force", FLAG_BOOL, offsetof(convert_flags, force), NULL, "replace a file TO", .marks = 0},
    {"quiet", FLAG_BOOL, offsetof(convert_flags, quiet), NULL, "print nothing but errors", .marks = 0},
    {0},
};

static shoal_status convert(const convert_flags *f, const char *from, const char *to, int *signal) {
  interrupt *signals;
  TRY(interrupt_create("Stopping; what is half written goes.", "Ended at once; a file TO.part may be left.", &signals));
  bar progress;
  bar_init(&progress, "rows", f->quiet, interrupt_flag(signals));
  shoal_pipeline_options read = {0};
  shoal_convert_result done;
  shoal_status status = data_read_options(&f->read, from, &read);
  if (!status)
    status = shoal_data_convert(
        &read,
        &(shoal_convert_options){
            .path = to, .format = f->to, .force = f->force, .progress = bar_on_rows, .context = &progress},
        &done);
  bar_clear(&progress);
  *signal = *interrupt_flag(signals);
  free((char *)read.files);
  interrupt_destroy(signals);
  if (!status && !f->quiet) {
    char rows[COUNTED_TEXT], bad[COUNTED_TEXT];
    say(stdout, "%s written to %s (%s)\n", counted_text(done.rows, "row", rows), to, done.format);
    if (done.bad_rows) printf("%s skipped\n", counted_text(done.bad_rows, "bad row", bad));
  }
  return status;
}

static int run_convert(int argc, char **argv) {
  convert_flags f = {0};
  flags_parsed parsed;
  shoal_status status;
  if (!command_parse(&command_data_convert, argc, argv, &f, &parsed, &status)) return EXIT_GOOD;
  if (!status && parsed.count != 2)
    status = status_make(SHOAL_ERR_ARGUMENT, "expected FROM and TO, not %d arguments", parsed.count);
  int signal = 0;
  if (!status) status = convert(&f, parsed.words[0], parsed.words[1], &signal);
  int exit_status = status ? command_fail(&command_data_convert, status) : EXIT_GOOD;
  return signal ? 128 + signal : exit_status;
}

const command command_data_convert = {
    .name = "data convert",
    .arguments = "FROM TO",
    .summary = "write rows in another format: tfrecord, libsvm, csv or npy",
    .details =
        "FROM is a file, a folder, a glob (in quotes), a list a,b,c or the name of a\n"
        "data set; TO one file, whose ending says what it becomes: .tfrecord, .libsvm,\n"
        ".csv, .npy (with the labels in NAME-labels.npy). Sparse indices stay as they\n"
        "are. Dense rows go to tfrecord and libsvm as their non-zero numbers, indices\n"
        "from 1 on. TO gets its name once it is whole, and nothing is replaced without\n"
        "--force.\n"
        "\n"
        "Examples:\n"
        "  shoal data convert 'clicks/*.tfrecord' clicks.libsvm\n"
        "  shoal data convert flowers/ flowers.npy --transform resize=64x64\n",
    .flags = convert_table,
    .run = run_convert,
};
