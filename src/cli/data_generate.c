/* shoal data generate: rows and images out of a seed. */
#include "base/mem.h"
#include "cli/bar.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "data/generate_criteo.h"
#include "data/generate_images.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct {
  const char *out, *as, *size;
  int64_t rows, features, files, seed, classes;
  double noise;
  bool force, quiet;
} generate_flags;

#define AT(f) offsetof(generate_flags, f)

static const flag_row generate_table[] = {
    {.name = "out", .kind = FLAG_TEXT, .offset = AT(out), .value = "DIR", .help = "folder to write to",
     .complete = COMPLETE_DIRECTORY},
    {.name = "rows", .kind = FLAG_INT, .offset = AT(rows), .value = "N", .help = "how many rows or images",
     .standard = "criteo 100,000, images 1,000", .least = 1, .most = 1e12},
    {.name = "as", .kind = FLAG_TEXT, .offset = AT(as), .value = "NAME",
     .help = "criteo: tfrecord, libsvm or tsv; images: folder (of PNG), tfrecord or npy",
     .standard = "tfrecord; folder"},
    {.name = "files", .kind = FLAG_INT, .offset = AT(files), .value = "N", .help = "files to spread the rows over",
     .standard = "criteo 23, images 1", .least = 1, .most = 100000},
    {.name = "seed", .kind = FLAG_INT, .offset = AT(seed), .value = "N", .help = "same seed, same bytes",
     .standard = "1", .least = 0, .most = 9e15},
    {.name = "features", .kind = FLAG_INT, .offset = AT(features), .value = "N",
     .help = "criteo: size of the feature space",
     .standard = "33762578", .least = CRITEO_LEAST_FEATURES, .most = 2147483647},
    {.name = "classes", .kind = FLAG_INT, .offset = AT(classes), .value = "N", .help = "images: how many kinds",
     .standard = "10", .least = 1, .most = 1000},
    {.name = "size", .kind = FLAG_TEXT, .offset = AT(size), .value = "HxWxC",
     .help = "images: height, width and channels (1 or 3)", .standard = "64x64x3"},
    {.name = "noise", .kind = FLAG_NUMBER, .offset = AT(noise), .value = "X",
     .help = "images: standard deviation of the pixels, of 0 to 255", .standard = "16", .least = 0, .most = 255},
    {.name = "force", .kind = FLAG_BOOL, .offset = AT(force), .help = "write into a folder that holds files already"},
    {.name = "quiet", .kind = FLAG_BOOL, .offset = AT(quiet), .help = "print nothing but errors"},
    {0},
};

static const char *word_at(int i) {
  static const char *const words[] = {"criteo", "images"};
  return i < (int)COUNT_OF(words) ? words[i] : NULL;
}

typedef struct {
  bar progress;
  const int *stop;
} watch;

static bool on_rows(void *context, int64_t done, int64_t total) {
  watch *w = context;
  w->progress.total = total;
  bar_show(&w->progress, done);
  return !*w->stop;
}

static shoal_status check_out(const generate_flags *f) {
  if (!f->out) return status_make(SHOAL_ERR_ARGUMENT, "where to? Add --out DIR");
  DIR *folder = opendir(f->out);
  if (!folder) return NULL; /* made, or an error, when it is written to */
  bool holds = false;
  for (struct dirent *e; (e = readdir(folder));) holds |= strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
  closedir(folder);
  if (holds && !f->force)
    return status_make(SHOAL_ERR_ARGUMENT, "%s holds files already; add --force to write into it, or name another "
                                           "--out", f->out);
  return NULL;
}

/* The folders above `path`; one that cannot be made shows when the data is written. */
static void make_parents(const char *path) {
  char *copy = strdup(path);
  for (char *slash = copy ? strchr(copy + 1, '/') : NULL; slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    (void)!mkdir(copy, 0777); /* it may be there already */
    *slash = '/';
  }
  free(copy);
}

static shoal_status criteo(const generate_flags *f, watch *w) {
  criteo_settings s = {.out = f->out,
                       .rows = f->rows ? f->rows : 100000,
                       .features = f->features,
                       .files = (int)f->files,
                       .seed = (uint64_t)f->seed};
  if (!criteo_form_parse(f->as ? f->as : "tfrecord", &s.form))
    return status_make(SHOAL_ERR_ARGUMENT, "--as: '%s' is not known; it is tfrecord, libsvm or tsv", f->as);
  criteo_truth truth;
  TRY(generate_criteo(&s, on_rows, w, &truth));
  bar_clear(&w->progress);
  if (f->quiet) return NULL;
  char rows[COUNTED_TEXT];
  say(stdout, "%s written to %s, %.1f %% positive\n", counted_text(s.rows, "row", rows), f->out,
      100 * truth.positive_share);
  say(stdout, "The hidden model errs on %.2f %% of the last file's rows, with a log loss of %.4f (always saying the "
      "mean: %.4f).\n", 100 * truth.test_error, truth.test_log_loss, truth.constant_log_loss);
  return NULL;
}

static shoal_status images(const generate_flags *f, watch *w) {
  images_settings s = {.out = f->out,
                       .rows = f->rows ? f->rows : 1000,
                       .classes = f->classes ? (int)f->classes : 10,
                       .height = 64,
                       .width = 64,
                       .channels = 3,
                       .files = (int)f->files,
                       .noise = f->noise,
                       .seed = (uint64_t)f->seed,
                       .progress = on_rows,
                       .context = w};
  const char *as = f->as ? f->as : "folder";
  int end = -1;
  if (f->size && (sscanf(f->size, "%4dx%4dx%1d%n", &s.height, &s.width, &s.channels, &end) != 3 || f->size[end] ||
                  s.height < 1 || s.width < 1 || (s.channels != 1 && s.channels != 3)))
    return status_make(SHOAL_ERR_ARGUMENT, "--size: expected height, width and channels like 28x28x1, not '%s'",
                       f->size);
  if (!strcmp(as, "folder")) s.form = IMAGES_FOLDER;
  else if (!strcmp(as, "tfrecord")) s.form = IMAGES_TFRECORD;
  else if (!strcmp(as, "npy")) s.form = IMAGES_NPY;
  else return status_make(SHOAL_ERR_ARGUMENT, "--as: '%s' is not known; it is folder, tfrecord or npy", as);
  TRY(generate_images(&s));
  bar_clear(&w->progress);
  char rows[COUNTED_TEXT];
  if (!f->quiet)
    say(stdout, "%s of %d classes written to %s\n", counted_text(s.rows, "image", rows), s.classes, f->out);
  return NULL;
}

static shoal_status generate(const generate_flags *f, const char *what, int *signal) {
  bool clicks = !strcmp(what, "criteo");
  if (!clicks && strcmp(what, "images"))
    return status_make(SHOAL_ERR_ARGUMENT, "'%s' cannot be generated; it is criteo or images", what);
  TRY(check_out(f));
  make_parents(f->out);
  interrupt *signals;
  TRY(interrupt_create("Stopping; what is half written goes.", "Ended at once; half-written files may be left.",
                       &signals));
  watch w = {.stop = interrupt_flag(signals)};
  bar_init(&w.progress, "rows", 0, f->quiet);
  shoal_status status = clicks ? criteo(f, &w) : images(f, &w);
  bar_clear(&w.progress);
  *signal = *w.stop;
  interrupt_destroy(signals);
  return status;
}

static int run_generate(int argc, char **argv) {
  generate_flags f = {.seed = 1, .noise = 16};
  flags_parsed parsed;
  shoal_status status = flags_parse(generate_table, argc, argv, &f, &parsed);
  if (!status && parsed.help) {
    command_print_help(&command_data_generate, stdout);
    return EXIT_GOOD;
  }
  if (!status && parsed.count != 1)
    status = status_make(SHOAL_ERR_ARGUMENT, "what? criteo or images; for example: %s data generate criteo "
                                             "--out DIR", called());
  int signal = 0;
  if (!status) status = generate(&f, parsed.words[0], &signal);
  int exit_status = status ? command_fail(&command_data_generate, status) : EXIT_GOOD;
  return signal ? 128 + signal : exit_status;
}

const command command_data_generate = {
    .name = "data generate",
    .arguments = "criteo|images",
    .summary = "make click-log rows or labelled images out of a seed",
    .details = "criteo: rows shaped like the Criteo click log, with labels by a hidden model,\n"
               "so that what a training can reach is known; truth.json says it. images: simple\n"
               "shapes, one kind a class.\n"
               "\n"
               "Examples:\n"
               "  shoal data generate criteo --rows 1000000 --out clicks\n"
               "  shoal data generate images --rows 2000 --size 28x28x1 --as npy --out shapes\n",
    .flags = generate_table,
    .word_at = word_at,
    .run = run_generate,
};
