#include "shoal/data.h"

#include "base/mem.h"
#include "base/options.h"
#include "base/random.h"
#include "base/text.h"
#include "data/example.h"
#include "data/interactions.h"
#include "data/sink.h"
#include "data/sparse.h"
#include "data/tfrecord.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  SLOTS = CRITEO_NUMBERS + CRITEO_WORDS,
  LEAST_PRESENT = 24,
  BLOCKS = 13,         /* of 4 random words a row: SLOTS draws, SLOTS bytes of presence, one label */
  CALIBRATION = 20000, /* rows to find the bias with */
  REPORT_EVERY = 4096,
  LONGEST_ROW = 2048 /* bytes of text */
};

#define POSITIVE_SHARE 0.26

/* How many words each field has in the real log. */
static const int32_t field_sizes[CRITEO_WORDS] = {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                                                  93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                                                  2173,  4,    7046547,  18,      15,  286181, 105,     142572};
/* How often a slot is filled, of 256. */
static const uint8_t presence[SLOTS] = {140, 255, 200, 200, 248, 198, 245, 255, 245, 140, 245, 60,  200,
                                        255, 255, 247, 247, 255, 225, 255, 255, 255, 255, 255, 247, 255,
                                        255, 255, 247, 255, 255, 143, 143, 247, 60,  255, 247, 143, 143};

typedef struct {
  uint64_t seed;
  random_stream stream;
  int64_t first[CRITEO_WORDS]; /* index of each field's first word */
  int64_t size[CRITEO_WORDS];
  double log_size[CRITEO_WORDS]; /* log2(size + 1) */
  double bias;
  interactions *together; /* owned; NULL: none */
} model;

/* What is known of a row's logit by models that know less than the hidden one. */
enum { ADDITIVE, PAIRWISE, LEVELS };

typedef struct {
  int count;
  bool positive;
  double logit;         /* of the hidden model, bias included */
  double known[LEVELS]; /* parts of it: without interactions, without those of three fields */
  int32_t indices[SLOTS];
  int8_t sixteenths[SLOTS]; /* value of a number; 16 for a word */
  int8_t slots[SLOTS];      /* which column */
} click;

/* Every field gets the size it has in the log, or as much as there is for each when that is less. */
static void share_out(model *m, int64_t features) {
  int64_t room = features - CRITEO_NUMBERS - 1, low = 1, high = INT32_MAX;
  while (low < high) { /* the largest level at which the fields fit */
    int64_t level = (low + high + 1) / 2, sum = 0;
    for (int i = 0; i < CRITEO_WORDS; i++) sum += MIN_OF((int64_t)field_sizes[i], level);
    if (sum <= room)
      low = level;
    else
      high = level - 1;
  }
  int largest = 0;
  int64_t sum = 0;
  for (int i = 0; i < CRITEO_WORDS; i++) {
    m->size[i] = MIN_OF((int64_t)field_sizes[i], low);
    sum += m->size[i];
    if (field_sizes[i] > field_sizes[largest]) largest = i;
  }
  m->size[largest] += room - sum;
  int64_t next = CRITEO_NUMBERS + 1;
  for (int i = 0; i < CRITEO_WORDS; i++) {
    m->first[i] = next;
    m->log_size[i] = log2((double)m->size[i] + 1);
    next += m->size[i];
  }
}

/* The hidden model: near normal (a sum of four uniforms), drawn from the index alone. */
static double weight(const model *m, int32_t index) {
  uint64_t bits = random_mix(m->seed ^ 0x5ee0da1aull, (uint64_t)index);
  double sum = (double)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) / 65536 - 2;
  return sum * 1.7320508 * (index <= CRITEO_NUMBERS ? 1.0 : 0.3);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Row `at` of the data set; the bias is taken as it stands. */
static void make_row(const model *m, uint64_t at, click *row) {
  uint32_t draws[BLOCKS * 4];
  for (int i = 0; i < BLOCKS; i++) random_block(&m->stream, at * BLOCKS + (uint64_t)i, draws + 4 * i);
  uint8_t bytes[SLOTS + 1];
  memcpy(bytes, draws + SLOTS, sizeof bytes);
  uint64_t filled = 0;
  int count = 0;
  for (int s = 0; s < SLOTS; s++) {
    uint64_t here = bytes[s] < presence[s] || presence[s] == 255;
    filled |= here << s;
    count += (int)here;
  }
  for (int s = SLOTS - 1; count < LEAST_PRESENT; s--) {
    count += !(filled >> s & 1);
    filled |= 1ull << s;
  }
  int32_t words[CRITEO_WORDS];
  memset(words, -1, sizeof words);
  row->count = 0;
  row->logit = m->bias;
  for (int s = 0; s < SLOTS; s++) {
    if (!(filled >> s & 1)) continue;
    double u = (double)draws[s] * 0x1p-32;
    int32_t index = s + 1;
    int8_t value = 16;
    if (s < CRITEO_NUMBERS) {
      value = (int8_t)(u * u * u * 16); /* mostly small, as counts are */
    } else {
      /* Uniform in the logarithm of the rank: the n-th word is drawn about 1/n as often as the first. */
      int field = s - CRITEO_NUMBERS;
      int64_t rank = (int64_t)exp2(u * m->log_size[field]) - 1;
      words[field] = (int32_t)MIN_OF(rank, m->size[field] - 1);
      index = (int32_t)m->first[field] + words[field];
    }
    row->indices[row->count] = index;
    row->sixteenths[row->count] = value;
    row->slots[row->count++] = (int8_t)s;
    row->logit += weight(m, index) * value / 16;
  }
  row->known[ADDITIVE] = row->logit;
  if (m->together) row->logit += interactions_of_pairs(m->together, words);
  row->known[PAIRWISE] = row->logit;
  if (m->together) row->logit += interactions_of_triples(m->together, words);
  row->positive = (double)draws[BLOCKS * 4 - 1] * 0x1p-32 < sigmoid(row->logit);
}

/* The bias at which POSITIVE_SHARE of rows are positive, by bisection over rows outside of the data set. */
static shoal_status calibrate(model *m) {
  double *logits = malloc(CALIBRATION * sizeof *logits), low = -20, high = 20;
  if (!logits) return status_no_memory();
  m->bias = 0;
  for (int i = 0; i < CALIBRATION; i++) {
    click row;
    make_row(m, (UINT64_C(1) << 58) + (uint64_t)i, &row);
    logits[i] = row.logit;
  }
  for (int round = 0; round < 40; round++) {
    double middle = (low + high) / 2, sum = 0;
    for (int i = 0; i < CALIBRATION; i++) sum += sigmoid(logits[i] + middle);
    if (sum / CALIBRATION < POSITIVE_SHARE)
      low = middle;
    else
      high = middle;
  }
  m->bias = (low + high) / 2;
  free(logits);
  return NULL;
}

/* Where a part of the logit is known, the rest blurs it: the best prediction is flatter than that part alone. Its scale
 * and shift, by Newton's method over rows outside of the data set. */
typedef struct {
  double scale, shift;
} flattening;

static flattening flatten(const model *m, int level) {
  flattening f = {1, 0};
  if (!m->together) return f;
  for (int round = 0; round < 8; round++) {
    double g0 = 0, g1 = 0, h00 = 0, h01 = 0, h11 = 0;
    for (int i = 0; i < CALIBRATION; i++) {
      click row;
      make_row(m, (UINT64_C(1) << 58) + (uint64_t)i, &row);
      const double x = row.known[level], p = sigmoid(f.scale * x + f.shift), miss = p - sigmoid(row.logit);
      g0 += miss * x;
      g1 += miss;
      h00 += p * (1 - p) * x * x;
      h01 += p * (1 - p) * x;
      h11 += p * (1 - p);
    }
    const double determinant = h00 * h11 - h01 * h01;
    if (!(determinant > 0)) break;
    f.scale -= (h11 * g0 - h01 * g1) / determinant;
    f.shift -= (h00 * g1 - h01 * g0) / determinant;
  }
  return f;
}

/* ---- forms */

static uint8_t *put_int(uint8_t *at, uint32_t number) {
  uint8_t digits[10];
  int n = 0;
  do digits[n++] = (uint8_t)('0' + number % 10);
  while (number /= 10);
  while (n) *at++ = digits[--n];
  return at;
}

static uint8_t *put_text(uint8_t *at, const char *s) {
  size_t n = strlen(s);
  memcpy(at, s, n);
  return at + n;
}

static shoal_status write_tfrecord(sink *to, example_writer *w, const click *row) {
  float values[SLOTS];
  int64_t label = row->positive ? 1 : -1;
  const uint8_t *record;
  size_t n;
  for (int i = 0; i < row->count; i++) values[i] = (float)row->sixteenths[i] / 16;
  example_clear(w);
  example_add_indices(w, "index", row->indices, (size_t)row->count);
  example_add_floats(w, "value", values, (size_t)row->count);
  example_add_ints(w, "label", &label, 1);
  TRY(example_finish(w, &record, &n));
  return tfrecord_append(to, record, n);
}

static shoal_status write_libsvm(sink *to, const click *row) {
  static const char *const sixteenths[] = {"0",     "0.0625", "0.125", "0.1875", "0.25",  "0.3125",
                                           "0.375", "0.4375", "0.5",   "0.5625", "0.625", "0.6875",
                                           "0.75",  "0.8125", "0.875", "0.9375", "1"};
  uint8_t *start, *at;
  TRY(sink_reserve(to, LONGEST_ROW, &start));
  at = put_text(start, row->positive ? "+1" : "-1");
  for (int i = 0; i < row->count; i++) {
    *at++ = ' ';
    at = put_int(at, (uint32_t)row->indices[i]);
    *at++ = ':';
    at = put_text(at, sixteenths[row->sixteenths[i]]);
  }
  *at++ = '\n';
  sink_commit(to, (size_t)(at - start));
  return NULL;
}

static shoal_status write_tsv(sink *to, const click *row) {
  uint8_t *start, *at;
  TRY(sink_reserve(to, LONGEST_ROW, &start));
  at = start;
  *at++ = row->positive ? '1' : '0';
  for (int s = 0, i = 0; s < SLOTS; s++) {
    *at++ = '\t';
    if (i == row->count || row->slots[i] != s) continue;
    if (s < CRITEO_NUMBERS) {
      at = put_int(at, (uint32_t)row->sixteenths[i]);
    } else {
      /* An odd factor makes different words of different indices. */
      uint32_t word = (uint32_t)row->indices[i] * 2654435761u;
      for (int shift = 28; shift >= 0; shift -= 4) *at++ = (uint8_t) "0123456789abcdef"[word >> shift & 15];
    }
    i++;
  }
  *at++ = '\n';
  sink_commit(to, (size_t)(at - start));
  return NULL;
}

/* ---- files */

static const char *const form_names[] = {"tfrecord", "libsvm", "tsv"};

typedef struct {
  const shoal_criteo_options *settings;
  model model;
  example_writer writer;
  int64_t done, positive;
  flattening flat[LEVELS];
  double loss, wrong, test_positive, known_loss[LEVELS]; /* sums over the last file */
} job;

static double log_loss(double logit, bool positive) { return log1p(exp(positive ? -logit : logit)); }

/* "DIR/tfrecords07"; hidden while it grows, so that no pattern of names finds half a file. */
static shoal_status file_name(const job *j, int file, bool growing, text *out) {
  int width = 2;
  for (int most = 100; most < j->settings->files && width < 9; most *= 10) width++;
  const char *dot = growing ? "." : "";
  if (j->settings->form == SHOAL_CRITEO_TFRECORD)
    text_add(out, "%s/%stfrecords%0*d", j->settings->out, dot, width, file);
  else
    text_add(out, "%s/%sclicks%0*d.%s", j->settings->out, dot, width, file, form_names[j->settings->form]);
  return out->failed ? status_no_memory() : NULL;
}

static shoal_status write_rows(job *j, sink *to, int64_t rows, bool last) {
  for (int64_t i = 0; i < rows; i++) {
    click row;
    make_row(&j->model, (uint64_t)j->done, &row);
    switch (j->settings->form) {
      case SHOAL_CRITEO_TFRECORD: TRY(write_tfrecord(to, &j->writer, &row)); break;
      case SHOAL_CRITEO_LIBSVM: TRY(write_libsvm(to, &row)); break;
      case SHOAL_CRITEO_TSV: TRY(write_tsv(to, &row)); break;
    }
    j->positive += row.positive;
    if (last) {
      j->loss += log_loss(row.logit, row.positive);
      for (int level = 0; level < LEVELS; level++)
        j->known_loss[level] += log_loss(j->flat[level].scale * row.known[level] + j->flat[level].shift, row.positive);
      j->wrong += (row.logit > 0) != row.positive;
      j->test_positive += row.positive;
    }
    if (++j->done % REPORT_EVERY == 0 && j->settings->progress &&
        !j->settings->progress(j->settings->context, j->done, j->settings->rows))
      return status_make(SHOAL_ERR_CANCELLED, "stopped after %lld of %lld rows", (long long)j->done,
                         (long long)j->settings->rows);
  }
  return NULL;
}

static shoal_status write_file(job *j, int file, int64_t rows) {
  text name = {0}, growing = {0};
  sink to = {.fd = -1};
  shoal_status status;
  TRY_GOTO(status, file_name(j, file, false, &name), done);
  TRY_GOTO(status, file_name(j, file, true, &growing), done);
  TRY_GOTO(status, sink_open(growing.data, &to), done);
  status = write_rows(j, &to, rows, file == j->settings->files - 1);
  if (status)
    sink_drop(&to);
  else
    status = sink_close(&to);
  if (!status && rename(growing.data, name.data)) status = status_errno(errno, "%s: cannot name the file", name.data);
  if (status) unlink(growing.data);
done:
  text_fini(&name);
  text_fini(&growing);
  return status;
}

static void fill_truth(const job *j, int64_t test_rows, shoal_criteo_truth *t) {
  *t = (shoal_criteo_truth){.bias = j->model.bias, .test_rows = test_rows};
  t->positive_share = (double)j->positive / (double)MAX_OF(j->done, 1);
  if (!test_rows) return;
  double p = j->test_positive / (double)test_rows;
  t->test_positive_share = p;
  t->test_log_loss = j->loss / (double)test_rows;
  t->test_error = j->wrong / (double)test_rows;
  t->additive_log_loss = j->known_loss[ADDITIVE] / (double)test_rows;
  t->pairwise_log_loss = j->known_loss[PAIRWISE] / (double)test_rows;
  t->constant_log_loss = p > 0 && p < 1 ? -(p * log(p) + (1 - p) * log1p(-p)) : 0;
}

static shoal_status write_truth(const job *j, const shoal_criteo_truth *t) {
  const shoal_criteo_options *s = j->settings;
  text path = {0}, body = {0}, last = {0};
  sink to;
  shoal_status status;
  TRY_GOTO(status, file_name(j, s->files - 1, false, &last), done);
  text_add(&path, "%s/truth.json", s->out);
  text_add(&body,
           "{\n  \"data\": \"criteo\",\n  \"form\": \"%s\",\n  \"seed\": %llu,\n  \"rows\": %lld,\n"
           "  \"features\": %lld,\n  \"files\": %d,\n  \"positive_share\": %.6f,\n  \"bias\": %.9g,\n"
           "  \"test_file\": \"%s\",\n  \"test_rows\": %lld,\n  \"test_positive_share\": %.6f,\n"
           "  \"test_log_loss\": %.9g,\n  \"test_error\": %.6f,\n  \"constant_log_loss\": %.9g,\n"
           "  \"interactions\": %s,\n  \"additive_log_loss\": %.9g,\n  \"pairwise_log_loss\": %.9g\n}\n",
           form_names[s->form], (unsigned long long)s->seed, (long long)s->rows, (long long)s->features, s->files,
           t->positive_share, t->bias, strrchr(last.data, '/') + 1, (long long)t->test_rows, t->test_positive_share,
           t->test_log_loss, t->test_error, t->constant_log_loss, s->interactions ? "true" : "false",
           t->additive_log_loss, t->pairwise_log_loss);
  if (path.failed || body.failed) {
    status = status_no_memory();
    goto done;
  }
  TRY_GOTO(status, sink_open(path.data, &to), done);
  status = sink_write(&to, body.data, body.length);
  if (status)
    sink_drop(&to);
  else
    status = sink_close(&to);
done:
  text_fini(&path);
  text_fini(&body);
  text_fini(&last);
  return status;
}

shoal_status shoal_generate_criteo(const shoal_criteo_options *options, shoal_criteo_truth *truth) {
  shoal_criteo_options s;
  TRY(OPTIONS_TAKE(&s, options));
  if (!s.features) s.features = CRITEO_FEATURES;
  if (!s.files) s.files = 23;
  if (s.rows < 1) return status_make(SHOAL_ERR_ARGUMENT, "expected at least 1 row, found %lld", (long long)s.rows);
  if (s.features < SHOAL_CRITEO_MIN_FEATURES || s.features > INT32_MAX)
    return status_make(SHOAL_ERR_ARGUMENT, "expected %d to %d features, found %lld", SHOAL_CRITEO_MIN_FEATURES,
                       INT32_MAX, (long long)s.features);
  if (s.files < 1 || s.files > 100000 || s.files > s.rows)
    return status_make(SHOAL_ERR_ARGUMENT, "expected 1 to %lld files, found %d", (long long)MIN_OF(s.rows, 100000),
                       s.files);
  if (mkdir(s.out, 0777) && errno != EEXIST) return status_errno(errno, "%s: cannot create the folder", s.out);
  job j = {.settings = &s};
  j.model.seed = s.seed;
  j.model.stream = random_stream_make(s.seed, 0xc717e0);
  share_out(&j.model, s.features);
  shoal_criteo_truth found;
  int64_t each = s.rows / s.files, more = s.rows % s.files, rows = 0;
  shoal_status status = NULL;
  if (s.interactions) {
    if (!(j.model.together = malloc(sizeof *j.model.together))) TRY_GOTO(status, status_no_memory(), done);
    interactions_init(j.model.together, s.seed, j.model.size);
  }
  TRY_GOTO(status, calibrate(&j.model), done);
  for (int level = 0; level < LEVELS; level++) j.flat[level] = flatten(&j.model, level);
  for (int file = 0; file < s.files; file++) {
    rows = each + (file < more);
    TRY_GOTO(status, write_file(&j, file, rows), done);
  }
  fill_truth(&j, rows, &found);
  TRY_GOTO(status, write_truth(&j, &found), done);
  if (s.progress) (void)s.progress(s.context, s.rows, s.rows);
  if (truth) *truth = found;
done:
  free(j.model.together);
  example_writer_fini(&j.writer);
  return status;
}
