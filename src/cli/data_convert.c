/* shoal data convert: rows from any format read to one that is written. */
#include "base/mem.h"
#include "cli/bar.h"
#include "cli/data.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "data/convert.h"

#include <unistd.h>

#define BATCH 1024
#define BATCH_ENCODED 16

typedef struct {
  read_flags read;
  const char *to;
  bool force, quiet;
} convert_flags;

static const flag_row convert_table[] = {
    READ_FLAGS(offsetof(convert_flags, read)),
    {.name = "to", .kind = FLAG_TEXT, .offset = offsetof(convert_flags, to), .value = "NAME",
     .help = "format to write: tfrecord, libsvm, csv or npy", .standard = "by the ending of TO"},
    {.name = "force", .kind = FLAG_BOOL, .offset = offsetof(convert_flags, force), .help = "replace a file TO"},
    {.name = "quiet", .kind = FLAG_BOOL, .offset = offsetof(convert_flags, quiet), .help = "print nothing but errors"},
    {0},
};

typedef struct {
  const convert_flags *flags;
  const char *to;
  const row_writer_kind *kind;
  const int *stop;
  shoal_pipeline_options read;
  convert_options write;
  int64_t rows;
  shoal_pipeline_statistics count;
} conversion;

static shoal_status cancelled(const conversion *c) {
  return *c->stop ? status_make(SHOAL_ERR_CANCELLED, "interrupted; nothing was written") : NULL;
}

/* Sparse rows to columns: how many columns, and whether indices count from 0 or from 1, has to be known first. */
static shoal_status find_columns(conversion *c) {
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&c->read, &p));
  int64_t most = -1, least = INT64_MAX;
  const rows_block *b;
  shoal_status status;
  while (!(status = pipeline_next(p, &b, NULL, NULL)) && b && !(status = cancelled(c)))
    for (int64_t e = 0; e < b->offsets[b->count]; e++) {
      most = MAX_OF(most, b->indices[e]);
      least = MIN_OF(least, b->indices[e]);
    }
  shoal_pipeline_destroy(p);
  if (c->flags->read.features) most = MAX_OF(most, c->flags->read.features - 1);
  c->write.schema.features = most + 1;
  c->write.first = least >= 1 && most >= 1;
  return status;
}

static shoal_status copy_rows(conversion *c, shoal_pipeline *p, row_writer *w) {
  bar progress;
  bar_init(&progress, "rows", 0, c->flags->quiet);
  const rows_block *b;
  shoal_status status;
  while (!(status = pipeline_next(p, &b, NULL, NULL)) && b) {
    if ((status = cancelled(c)) || (status = c->kind->write(w, b))) break;
    c->rows += b->count;
    bar_show(&progress, c->rows);
  }
  bar_clear(&progress);
  shoal_pipeline_count(p, &c->count);
  return status;
}

static shoal_status run_conversion(conversion *c) {
  shoal_pipeline *p;
  TRY(shoal_pipeline_create(&c->read, &p));
  pipeline_schema(p, &c->write.schema);
  bool spread = c->write.schema.kind == ROWS_SPARSE && c->kind->dense;
  if (spread || c->write.schema.kind == ROWS_BYTES || c->read.transform) {
    shoal_pipeline_destroy(p);
    p = NULL;
    if (c->write.schema.kind == ROWS_BYTES || c->read.transform) c->read.batch_size = BATCH_ENCODED;
    if (spread) TRY(find_columns(c));
    TRY(shoal_pipeline_create(&c->read, &p));
  }
  row_writer *w = NULL;
  shoal_status status = c->kind->open(c->to, &c->write, &w);
  if (!status) {
    status = copy_rows(c, p, w);
    if (status)
      c->kind->abandon(w);
    else
      status = c->kind->close(w);
  }
  shoal_pipeline_destroy(p);
  return status;
}

static shoal_status convert(const convert_flags *f, const char *from, const char *to, int *signal) {
  conversion c = {.flags = f, .to = to};
  TRY(convert_find(f->to, to, &c.kind));
  if (!f->force && !access(to, F_OK))
    return status_make(SHOAL_ERR_ARGUMENT, "%s is there already; add --force to replace it", to);
  interrupt *signals;
  TRY(interrupt_create("Stopping; what is half written goes.", "Ended at once; a file TO.part may be left.", &signals));
  c.stop = interrupt_flag(signals);
  text found = {0};
  shoal_status status = data_read_options(&f->read, from, BATCH, &found, &c.read);
  if (!status) status = run_conversion(&c);
  *signal = *c.stop;
  text_fini(&found);
  interrupt_destroy(signals);
  if (!status && !f->quiet) {
    char rows[COUNTED_TEXT], bad[COUNTED_TEXT];
    say(stdout, "%s written to %s (%s)\n", counted_text(c.rows, "row", rows), to, c.kind->name);
    if (c.count.bad_rows) printf("%s skipped\n", counted_text(c.count.bad_rows, "bad row", bad));
  }
  return status;
}

static int run_convert(int argc, char **argv) {
  convert_flags f = {0};
  flags_parsed parsed;
  shoal_status status = flags_parse(convert_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_data_convert, stdout);
    return EXIT_GOOD;
  }
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
    .details = "FROM is a file, a folder, a glob (in quotes), a list a,b,c or the name of a\n"
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
