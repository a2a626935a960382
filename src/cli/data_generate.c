/* shoal data generate: rows and images out of a seed. */
#include "cli/bar.h"
#include "cli/command.h"
#include "cli/say.h"
#include "shoal/data.h"

#include <dirent.h>

typedef struct {
  const char *out, *as, *size;
  int64_t rows, features, files, seed, classes;
  double noise;
  bool force, quiet, interactions;
} generate_flags;

#define AT(f) offsetof(generate_flags, f)

static const flag_row generate_table[] = {
    {"out", FLAG_TEXT, AT(out), "DIR", "folder to write to", .complete = COMPLETE_DIRECTORY},
    {"rows", FLAG_INT, AT(rows), "N", "number of rows or images", "criteo 100,000, images 1,000", .least = 1,
     .most = 1e12},
    {"as", FLAG_TEXT, AT(as), "NAME", "criteo: tfrecord, libsvm or tsv; images: folder (of PNG), tfrecord or npy",
     "tfrecord; folder", .marks = 0},
    {"files", FLAG_INT, AT(files), "N", "number of files", "criteo 23, images 1", .least = 1, .most = 100000},
    {"seed", FLAG_INT, AT(seed), "N", "same seed, same bytes", "1", .least = 0, .most = 9e15},
    {"features", FLAG_INT, AT(features), "N", "criteo: size of the feature space", "33762578",
     .least = SHOAL_CRITEO_MIN_FEATURES, .most = 2147483647},
    {"interactions", FLAG_BOOL, AT(interactions), NULL, "criteo: words of two and of three fields count together, too",
     .marks = 0},
    {"classes", FLAG_INT, AT(classes), "N", "images: number of classes", "10", .least = 1, .most = 1000},
    {"size", FLAG_TEXT, AT(size), "HxWxC", "images: height, width and channels (1 or 3)", "64x64x3", .marks = 0},
    {"noise", FLAG_NUMBER, AT(noise), "X", "images: standard deviation of the noise, on pixels of 0 to 255", "16",
     .least = 0, .most = 255},
    {"force", FLAG_BOOL, AT(force), NULL, "write into a folder that is not empty", .marks = 0},
    {"quiet", FLAG_BOOL, AT(quiet), NULL, "print nothing but errors", .marks = 0},
    {0},
};

static const char *word_at(int i) {
  static const char *const words[] = {"criteo", "images"};
  return i < (int)COUNT_OF(words) ? words[i] : NULL;
}

static shoal_status check_out(const generate_flags *f) {
  if (!f->out) return status_make(SHOAL_ERR_ARGUMENT, "expected --out DIR, the folder to write to");
  DIR *folder = opendir(f->out);
  if (!folder) return NULL; /* made, or an error, when it is written to */
  bool holds = false;
  for (struct dirent *e; (e = readdir(folder));) holds |= strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
  closedir(folder);
  if (holds && !f->force)
    return status_make(SHOAL_ERR_ARGUMENT,
                       "%s is not empty; add --force to write into it, or choose another "
                       "--out",
                       f->out);
  return NULL;
}

/* The number of --as in a list of names ended by NULL. */
static shoal_status find_form(const char *as, const char *const *names, int *out) {
  for (*out = 0; names[*out]; ++*out)
    if (!strcmp(as ? as : names[0], names[*out])) return NULL;
  char *list = names_list(names);
  shoal_status status =
      status_make(SHOAL_ERR_ARGUMENT, "--as: unknown format '%s'; expected %s", as, list ? list : "?");
  free(list);
  return status;
}

static shoal_status criteo(const generate_flags *f, bar *progress) {
  static const char *const forms[] = {"tfrecord", "libsvm", "tsv", NULL}; /* in the order of shoal_criteo_form */
  int form;
  TRY(find_form(f->as, forms, &form));
  shoal_criteo_options o = {.out = f->out,
                            .rows = f->rows ? f->rows : 100000,
                            .features = f->features,
                            .files = (int)f->files,
                            .form = (shoal_criteo_form)form,
                            .seed = (uint64_t)f->seed,
                            .interactions = f->interactions,
                            .progress = bar_on_rows,
                            .context = progress};
  shoal_criteo_truth truth;
  TRY(shoal_generate_criteo(&o, &truth));
  bar_clear(progress);
  if (f->quiet) return NULL;
  char rows[COUNTED_TEXT];
  say(stdout, "%s written to %s, %.1f %% positive\n", counted_text(o.rows, "row", rows), f->out,
      100 * truth.positive_share);
  say(stdout,
      "The model behind the labels has an error rate of %.2f %% and a log loss of %.4f on the last file (predicting "
      "the mean: %.4f).\n",
      100 * truth.test_error, truth.test_log_loss, truth.constant_log_loss);
  if (f->interactions)
    say(stdout, "Without its interactions of three fields the log loss is %.4f, without any interactions %.4f.\n",
        truth.pairwise_log_loss, truth.additive_log_loss);
  return NULL;
}

static shoal_status images(const generate_flags *f, bar *progress) {
  static const char *const forms[] = {"folder", "tfrecord", "npy", NULL}; /* in the order of shoal_images_form */
  int form, end = -1;
  TRY(find_form(f->as, forms, &form));
  shoal_images_options o = {.out = f->out,
                            .form = (shoal_images_form)form,
                            .rows = f->rows ? f->rows : 1000,
                            .classes = f->classes ? (int)f->classes : 10,
                            .height = 64,
                            .width = 64,
                            .channels = 3,
                            .files = (int)f->files,
                            .noise = f->noise,
                            .seed = (uint64_t)f->seed,
                            .progress = bar_on_rows,
                            .context = progress};
  if (f->size && (sscanf(f->size, "%4dx%4dx%1d%n", &o.height, &o.width, &o.channels, &end) != 3 || f->size[end] ||
                  o.height < 1 || o.width < 1 || (o.channels != 1 && o.channels != 3)))
    return status_make(SHOAL_ERR_ARGUMENT, "--size: expected height, width and channels like 28x28x1, not '%s'",
                       f->size);
  TRY(shoal_generate_images(&o));
  bar_clear(progress);
  char rows[COUNTED_TEXT];
  if (!f->quiet)
    say(stdout, "%s of %d classes written to %s\n", counted_text(o.rows, "image", rows), o.classes, f->out);
  return NULL;
}

static shoal_status generate(command_call *call) {
  const generate_flags *f = call->flags;
  const char *what = call->words->words[0];
  const bool clicks = !strcmp(what, "criteo");
  if (!clicks && strcmp(what, "images"))
    return status_make(SHOAL_ERR_ARGUMENT, "'%s' cannot be generated; expected criteo or images", what);
  TRY(check_out(f));
  TRY(make_folders(f->out));
  bar progress;
  bar_init(&progress, "rows", f->quiet, call->stop);
  shoal_status status = clicks ? criteo(f, &progress) : images(f, &progress);
  bar_clear(&progress);
  return status;
}

const command command_data_generate = {
    .name = "data generate",
    .arguments = "criteo|images",
    .summary = "generate click-log rows or labelled images from a seed",
    .details =
        "criteo: rows like the Criteo click log, labelled by a known model whose scores,\n"
        "the best that training can reach, are in truth.json. images: simple shapes, one\n"
        "kind per class.\n"
        "\n"
        "Examples:\n"
        "  shoal data generate criteo --rows 1000000 --out clicks\n"
        "  shoal data generate images --rows 2000 --size 28x28x1 --as npy --out shapes\n",
    .flags = generate_table,
    .word_at = word_at,
    .fields = sizeof(generate_flags),
    .defaults = &(const generate_flags){.seed = 1, .noise = 16},
    .words_min = 1,
    .words_max = 1,
    .expected = "criteo or images, e.g. shoal data generate criteo --out DIR",
    .stopping = "Stopping; unfinished files are removed.",
    .killed = "Killed; unfinished files may be left.",
    .action = generate,
};
