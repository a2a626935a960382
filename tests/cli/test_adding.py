"""Adding one of a kind takes no more than CONTRIBUTING.md says: one of each is added to a copy of the tree, which is then
built and used. The operator is the one of docs/tutorials/operator.md, added by following that page."""
import os
import pathlib
import re
import shutil
import subprocess

import support
import tutorial

PAGE = support.ROOT / "docs" / "tutorials" / "operator.md"

READER = r"""
/* The format "dots": the word DOTS, then records of a label and four bytes. */
#include "base/mem.h"
#include "data/format.h"
#include "data/stream.h"

#include <string.h>

enum { HEAD = 4, RECORD = 5 };

typedef struct {
  file_reader base;
  stream *bytes;
  int64_t next;
} dots_reader;

extern const format format_dots;

static bool detect(const char *path, const uint8_t *head, size_t n, bool folder) {
  return n >= HEAD && !memcmp(head, "DOTS", HEAD);
}

static void close_reader(file_reader *base) {
  dots_reader *r = (dots_reader *)base;
  if (!r) return;
  stream_close(r->bytes);
  free(base->path);
  free(r);
}

static shoal_status seek(file_reader *base, const file_position *to) {
  dots_reader *r = (dots_reader *)base;
  r->next = to->record;
  return stream_seek(r->bytes, HEAD + (uint64_t)to->record * RECORD);
}

static shoal_status open_reader(const char *path, const format_options *options, file_reader **out) {
  dots_reader *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->base.format = &format_dots;
  r->base.path = strdup(path);
  shoal_status status = r->base.path ? stream_open(path, &r->bytes) : status_no_memory();
  if (!status) status = seek(&r->base, &(file_position){0});
  if (status) close_reader(&r->base);
  else *out = &r->base;
  return status;
}

static void schema(const file_reader *base, rows_schema *out) {
  *out = (rows_schema){.kind = ROWS_DENSE, .dtype = SHOAL_U8, .shape = SHOAL_SHAPE(4), .scale = 1.0f / 255,
                       .classes = 2};
}

static shoal_status read_rows(file_reader *base, int64_t most, rows_block *into, int64_t *got) {
  dots_reader *r = (dots_reader *)base;
  for (*got = 0; *got < most; ++*got, r->next++) {
    const uint8_t *at;
    size_t have;
    TRY(stream_fill(r->bytes, RECORD, &at, &have));
    if (have < RECORD) return NULL;
    TRY(rows_reserve(into, 1, 0));
    into->labels[into->count] = at[0];
    memcpy((uint8_t *)into->features + (size_t)into->count++ * 4, at + 1, 4);
    stream_advance(r->bytes, RECORD);
  }
  return NULL;
}

static shoal_status skip(file_reader *base, int64_t rows, int64_t *got) {
  dots_reader *r = (dots_reader *)base;
  uint64_t passed;
  TRY(stream_skip(r->bytes, (uint64_t)rows * RECORD, &passed));
  r->next += *got = (int64_t)(passed / RECORD);
  return NULL;
}

static void tell(const file_reader *base, file_position *out) {
  *out = (file_position){((const dots_reader *)base)->next, 0};
}

const format format_dots = {.name = "dots", .summary = "dots", .detect = detect, .open = open_reader, .schema = schema,
                            .read = read_rows, .skip = skip, .tell = tell, .seek = seek, .close = close_reader};
"""

MODEL = """{
  "shoal_model": 1, "name": "tiny", "summary": "a small one", "parameters": {"classes": 2, "activation": "tanh"},
  "inputs": [{"shape": [4], "accepts": "any"}],
  "layers": [{"type": "flatten"}, {"type": "thrice"}, {"type": "dense", "units": 3, "activation": "$activation"},
             {"type": "dense", "units": "$classes", "activation": "softmax"}],
  "training": {"batch_size": 10, "epochs": 1, "lr": 0.1}
}
"""

OPTIMIZER = """
static const optimizer_row plain = {.apply = "apply_sgd", .rate = 0.02, .attributes = sgd_attributes};
"""

SCHEDULE = """
static double halved_at(const shoal_schedule *s, int64_t step) { return s->rate / 2; }
"""

LOSS = """
static shoal_value *quartic_rows(shoal_graph *g, shoal_value *outputs, shoal_value *targets, shoal_value **right) {
  *right = NULL;
  return mean_of_row(g, shoal_square(g, shoal_square(g, shoal_sub(g, outputs, targets))));
}

static const loss_kind loss_quartic = {.targets = true, .rows = quartic_rows};
"""

LAYER = """
static shoal_value *thrice_apply(branch *b, layer *l, layer_io *io) { return shoal_scale(b->model->graph, io->x[0], 3); }
"""

TRANSPORT = """
#include "net/endpoint.h"

static shoal_status nowhere(const char *address, const net_options *options, net_server **out) {
  return status_make(SHOAL_ERR_ARGUMENT, "pigeons do not listen");
}

const transport transport_pigeon = {.scheme = "pigeon:", .form = "pigeon:NAME", .listen = nowhere};
"""

STRATEGY = """
#include "shoal/cluster.h"
#include "train/local.h"

shoal_status shoal_strategy_create_lonely(shoal_strategy **out) { return local_create(out); }
"""


def new(text):
    """The whole of a new file."""
    return lambda old: text.lstrip()


def after(pattern, line):
    """`line` after the first match."""
    def change(old):
        found = re.search(pattern, old)
        return old[:found.end()] + line + old[found.end():]
    return change


def both(first, second):
    return lambda old: second(first(old))


def build_list(source, neighbour):
    """A name more in a folder's meson.build."""
    return after(rf"'{neighbour}'", f", '{source}'")


# kind -> file -> what is done to it. These are all files that are touched.
KINDS = {
    "an optimizer": {"src/train/optimizer.c": both(after(r"\n(?=#define OPTIMIZERS)", OPTIMIZER),
                                                   after(r"#define OPTIMIZERS\(X\)", " X(plain)"))},
    "a schedule": {"src/train/schedule.c": both(after(r"\n(?=#define SCHEDULES)", SCHEDULE),
                                                after(r"#define SCHEDULES\(X\)", " X(halved, halved_at, NULL)"))},
    "a loss": {"src/train/loss.c": both(after(r"\n(?=/\* ---- the table)", LOSS),
                                        after(r"#define TARGET_LOSSES\(X\)", " X(quartic)"))},
    "a metric": {"include/shoal/train.h": after(r"double r2; [^\n]*\n", "  double mse; /**< mean squared error */\n"),
                 "src/train/evaluation.h": after(r"#define METRICS\(METRIC\)", ' METRIC(mse, "MSE", false)'),
                 "src/train/target_sums.c": after(r"out->rmse = [^\n]*\n", "  out->mse = squared / numbers;\n")},
    "a format that is read": {"src/data/dots.c": new(READER), "src/data/meson.build": build_list("dots.c", "csv.c"),
                              "src/data/format.c": after(r"#define FORMATS\(ROW\)", " ROW(format_dots)")},
    "a model": {"models/tiny.json": new(MODEL), "models/meson.build": build_list("tiny.json", "lenet.json")},
    "a type of layer": {"src/train/layers_merge.c": both(
        after(r"\n(?=const layer_kind layers_merge)", LAYER),
        after(r"layers_merge\[\] = \{", '{"thrice", "three times its input", NULL, 1, 1, thrice_apply},'))},
    "a transport": {"src/net/pigeon.c": new(TRANSPORT), "src/net/meson.build": build_list("pigeon.c", "transport.c"),
                    "src/net/endpoint.h": after(r"extern const transport transport_shm", ", transport_pigeon"),
                    "src/net/transport.c": after(r"transports\[\] = \{", "&transport_pigeon, ")},
    "a strategy": {"src/train/lonely.c": new(STRATEGY), "src/train/meson.build": build_list("lonely.c", "local.c"),
                   "include/shoal/cluster.h": after(r"/\* ---- all \*/", "\nSHOAL_API SHOAL_CHECKED shoal_status "
                                                    "shoal_strategy_create_lonely(shoal_strategy **out);")},
}


def promised():
    """kind -> files that CONTRIBUTING.md names for it, NAME standing for any name."""
    text = (support.ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| to add |"):].split("\n\n")[0]
    return {cells[0].strip(): re.findall(r"`((?:src|include|models)/[^`]*)`", "".join(cells[1:]))
            for cells in (line.strip("|").split("|") for line in table.splitlines()[2:])}


def stands_for(pattern, path):
    return re.fullmatch(re.escape(pattern).replace("NAME", r"\w+").replace(r"\*", r"\w+"), path) is not None


class Adding(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tree = cls.shared / "tree"
        cls.tree.mkdir()
        for name in ("bench", "completion", "examples", "include", "models", "python", "share", "src", "tests", "tools", "web", "meson.build",
                     "meson_options.txt"):
            copy = shutil.copytree if (support.ROOT / name).is_dir() else shutil.copy2
            copy(support.ROOT / name, cls.tree / name)
        (cls.tree / "data").symlink_to(support.ROOT / "data")
        # Without optimization and debug information: it is built once, and the compiler's cache knows it next time.
        cls.run_in_tree("meson", "setup", "build", "-Doptimization=0", "-Ddebug=false")

    @classmethod
    def run_in_tree(cls, *words):
        done = subprocess.run(words, cwd=cls.tree, capture_output=True, text=True, timeout=support.SECONDS)
        assert not done.returncode, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    def change(self, kind):
        rules = promised()[kind]
        for path, how in KINDS[kind].items():
            self.assertTrue(any(stands_for(r, path) for r in rules), f"{kind}: CONTRIBUTING.md does not say {path}")
            file = self.tree / path
            old = file.read_text() if file.exists() else ""
            file.write_text(how(old))

    def test_each_kind(self):
        self.assertEqual(sorted([*KINDS, "an operator"]), sorted(promised()))
        for kind in KINDS:
            self.change(kind)
        blocks = [b for b in tutorial.read(PAGE) if "tree" in b.words]
        touched = [b.words["file"] for b in blocks if "file" in b.words]
        touched += [p for b in blocks if b.language == "diff" for p in re.findall(r"^\+\+\+ b/(\S+)", b.text, re.MULTILINE)]
        for path in touched:
            self.assertTrue(any(stands_for(r, path) for r in promised()["an operator"]), path)
        tutorial.follow(self, blocks, lambda block: self.tree, dict(os.environ))
        self.run_in_tree("ninja", "-C", "build", "shoal")
        self.use()

    def use(self):
        """What was added is there."""
        binary = self.tree / "build" / "shoal"

        def shoal(*words, status=0):
            done = subprocess.run([binary, *words], cwd=self.folder, capture_output=True, text=True, timeout=support.SECONDS)
            self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}\n{done.stderr}")
            return done.stdout + done.stderr

        rows = bytes(b for i in range(64) for b in (i % 2, 200 * (i % 2), 7, i, 255 - i))
        (self.folder / "some.dots").write_bytes(b"DOTS" + rows)
        self.assertRegex(shoal("data", "inspect", "some.dots"), r"format +dots\n(.*\n)*rows +64\n")
        shoal("train", "tiny", "--data", "some.dots", "--optimizer", "plain", "--schedule", "halved", "--threads", "1",
              "--run-dir", "run")
        settings = (self.folder / "run" / "settings.json").read_text()
        for word in ("tiny", "plain", "halved"):
            self.assertIn(f'"{word}"', settings)
        self.assertIn("plain", shoal("train", "--help"))
        (self.folder / "line.csv").write_text("x,y\n" + "".join(f"{i},{2 * i + i % 3}\n" for i in range(60)))
        shoal("train", "linear", "--data", "line.csv", "--test-data", "line.csv", "--columns", "target=y", "--loss", "quartic",
              "--batch-size", "32", "--lr", "0.0001", "--epochs", "2", "--threads", "1", "--run-dir", "line")
        result = self.summary("line")
        self.assertEqual(result["loss"], "quartic")
        self.assertAlmostEqual(result["test_mse"], result["test_rmse"] ** 2, delta=0.001 * result["test_mse"])
        self.assertIn("MSE", shoal("eval", "line"))
        self.assertIn('"mse"', shoal("eval", "line", "--json"))
        self.assertIn("pigeons do not listen", shoal("server", "--address", "pigeon:x", "--insecure", status=2))
        symbols = self.run_in_tree("nm", "-A", "--defined-only", "build/libshoal-core.a")
        self.assertIn("shoal_strategy_create_lonely", symbols)


support.main()
