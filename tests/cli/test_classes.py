"""Classes by name: one dictionary a job, for shards, test rows, workers, streams, resumed runs and predictions."""
import json
import random
import shutil
import struct
import unittest
import zlib

import support

NAMES = ["cat", "dog", "emu", "fox"]


def write_rows(path, rows, seed, order=NAMES, label=True):
    """784 numbers a row, of which 28 tell the class; the first rows show the classes in the given order."""
    numbers = random.Random(seed)
    words = list(order) + [numbers.choice(order) for _ in range(rows - len(order))]
    lines = []
    for word in words:
        at = 28 * NAMES.index(word) + 28
        fields = ["0"] * 784
        for i in range(at, at + 28):
            fields[i] = f"{numbers.random():.2f}"
        lines.append(",".join(fields + [word] * label))
    path.write_text("\n".join(lines) + "\n")
    return words


class Words(support.Case):
    def setUp(self):
        super().setUp()
        write_rows(self.folder / "a.csv", 150, 1, ["fox", "dog", "cat"])
        write_rows(self.folder / "b.csv", 150, 2, ["emu", "cat"])
        write_rows(self.folder / "test.csv", 120, 3, ["dog", "emu", "cat", "fox"])

    def learn(self, run, *flags, data="a.csv,b.csv", expect=0):
        return self.shoal("train", "softmax", "--data", data, "--test-data", "test.csv", "--epochs", 4, "--run-dir",
                          run, *support.FEW, *flags, expect=expect)

    def summary(self, run):
        return json.loads((self.folder / run / "summary.json").read_text())

    def test_shards_and_test_rows(self):
        self.learn("run")
        self.assertGreater(self.summary("run")["test_accuracy"], 0.98)
        self.assertEqual(json.loads((self.folder / "run" / "settings.json").read_text())["class_names"], NAMES)
        for file in ["run/model.safetensors", *(self.folder / "run" / "checkpoints").glob("*.safetensors")]:
            raw = (self.folder / file).read_bytes()
            header = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
            self.assertEqual(json.loads(header["__metadata__"]["class_names"]), NAMES)
        # The same, streamed and with workers.
        mirrored = ["--strategy", "mirrored", "--workers", 2, "--threads", 2]
        for run, flags in (("stream", ["--stream"]), ("ps", ["--workers", 2]), ("mirrored", mirrored)):
            self.learn(run, *flags)
            self.assertGreater(self.summary(run)["test_accuracy"], 0.98, run)

    def test_resume_keeps_them(self):
        self.learn("run", "--epochs", 1)
        # The files now lack the first class, and begin with another.
        write_rows(self.folder / "a.csv", 150, 1, ["emu", "dog"])
        write_rows(self.folder / "b.csv", 150, 2, ["fox", "dog"])
        self.shoal("train", "softmax", "--resume", "--run-dir", "run", "--epochs", 3, *support.FEW)
        self.assertGreater(self.summary("run")["test_accuracy"], 0.98)
        # A class that was not there is refused.
        (self.folder / "b.csv").write_text((self.folder / "b.csv").read_text().replace("fox", "gnu"))
        _, error = self.shoal("train", "softmax", "--resume", "--run-dir", "run", "--epochs", 4, *support.FEW, expect=1)
        self.assertIn("'gnu' is not among the 4 classes: cat, dog, emu, fox", error)

    def test_unknown_word(self):
        lines = (self.folder / "test.csv").read_text().splitlines()
        lines[7] = lines[7].rsplit(",", 1)[0] + ",gnu"
        (self.folder / "test.csv").write_text("\n".join(lines) + "\n")
        for flags in ([], ["--workers", 2]):
            _, error = self.learn("run", *flags, expect=1)
            self.assertIn("test.csv: record 7 at byte", error)
            self.assertIn("column 784: 'gnu' is not among the 4 classes: cat, dog, emu, fox", error)
            shutil.rmtree(self.folder / "run", ignore_errors=True)

    def test_used_by_name(self):
        self.learn("run", data="b.csv,a.csv")
        # Explicit data is all of it, whatever it is called.
        result = json.loads(self.shoal("eval", "run", "--data", "a.csv", "--json")[0])
        self.assertEqual((result["examples"], result["class_names"]), (150, NAMES))
        counts = result["confusion"]
        self.assertEqual(sum(map(sum, counts)), 150)
        self.assertAlmostEqual(sum(counts[i][i] for i in range(4)) / 150, result["accuracy"], places=9)
        self.assertEqual(sum(counts[NAMES.index("emu")]), 0)  # there is none in a.csv
        kept = self.summary("run")
        self.assertEqual((sum(map(sum, kept["test_confusion"])), kept["class_names"]), (120, NAMES))
        out, _ = self.shoal("eval", "run")
        self.assertRegex(out, r"class +cat +dog +emu +fox +right")
        # Rows without labels; a file outside of the run.
        words = write_rows(self.folder / "new.csv", 30, 4, ["emu", "fox", "cat", "dog"], label=False)
        shutil.copy(self.folder / "run/model.safetensors", self.folder / "alone.safetensors")
        for target in (["run"], ["alone.safetensors", "--model", "softmax"]):
            lines = self.shoal("predict", *target, "new.csv")[0].splitlines()
            self.assertEqual([line.split()[1] for line in lines], words)
        rows = json.loads(self.shoal("predict", "run", "test.csv", "--json")[0])
        self.assertEqual(len(rows), 120)
        for r in rows:
            self.assertEqual((r["class_name"], r["label_name"]), (NAMES[r["class"]], NAMES[r["label"]]))
        found = json.loads(self.shoal("data", "inspect", "a.csv,b.csv", "--json")[0])
        self.assertEqual((found["class_names"], sum(found["labels"].values())), (NAMES, 300))
        self.assertEqual(list(found["labels"]), NAMES)
        self.assertRegex(self.shoal("data", "inspect", "a.csv,b.csv")[0], r"cat +\d+ +[\d.]+ %")

    def test_class_weights(self):
        """Of two overlapping classes the rare one is found when it counts more; the figures are those of the counts."""
        numbers = random.Random(3)
        lines = ["a,b,kind"]
        for i in range(600):
            mean = 0 if i % 20 else 1
            lines.append(f"{numbers.gauss(mean, 1):.3f},{numbers.gauss(mean, 1):.3f},{'rare' if mean else 'often'}")
        (self.folder / "uneven.csv").write_text("\n".join(lines) + "\n")
        recall = {}
        for weights in (None, "balanced", "1,19"):
            flags = ["--class-weight", weights] if weights else []
            self.shoal("train", "softmax", "--data", "uneven.csv", "--test-data", "uneven.csv", "--columns", "label=kind", "--epochs",
                       15, "--label-smoothing", 0.05, "--run-dir", f"run-{weights}", *flags, *support.FEW)
            s = self.summary(f"run-{weights}")
            (_, false), (missed, true) = s["test_confusion"]
            recall[weights] = true / (true + missed)
            self.assertAlmostEqual(s["test_recall"], recall[weights])
            self.assertAlmostEqual(s["test_precision"], true / max(true + false, 1))
            self.assertAlmostEqual(s["test_f1"], 2 * true / (2 * true + missed + false))
        self.assertGreater(recall["balanced"], recall[None] + 0.4)
        self.assertAlmostEqual(recall["balanced"], recall["1,19"], delta=0.04)  # 19 times as many
        for weights, words in (("1,2,3", "3 numbers for 2 classes"), ("1,much", "a number of at least 0")):
            _, error = self.shoal("train", "softmax", "--data", "uneven.csv", "--columns", "label=kind", "--class-weight", weights,
                                  "--run-dir", "none", expect=2)
            self.assertIn(words, error)

    def test_averaged_weights(self):
        """What is tested, saved and used at the end are the averages, also after a resume and with servers."""
        for run, flags in (("alone", []), ("served", ["--workers", 2, "--batch-size", 10])):
            for more in (["--epochs", 3], ["--resume", "--epochs", 4]):
                train = ["--data", "a.csv,b.csv", "--test-data", "test.csv", "--average-weights", 0.9, "--lr", 0.01, *flags]
                self.shoal("train", "softmax", *([] if "--resume" in more else train), *more, "--run-dir", run, *support.FEW)
                result = json.loads(self.shoal("eval", run, "--json")[0])
                self.assertAlmostEqual(self.summary(run)["test_loss"], result["loss"], places=6)
                last = max((self.folder / run / "checkpoints").glob("step-*.safetensors"), key=lambda p: p.stat().st_mtime)
                raw = json.loads(self.shoal("eval", str(last), "--model", "softmax", "--data", "test.csv", "--json")[0])
                self.assertLess(raw["loss"], result["loss"])  # at a low rate averages lag behind

    def test_one_hot(self):
        numbers = random.Random(9)
        for name, order in (("train", NAMES), ("other", NAMES[::-1])):
            lines = [",".join([f"x{i}" for i in range(784)] + order)]
            for _ in range(150):
                word = numbers.choice(NAMES)
                values = ["0"] * 784
                values[NAMES.index(word)] = "1"
                lines.append(",".join(values + [str(int(word == other)) for other in order]))
            (self.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        self.shoal("train", "softmax", "--data", "train.csv", "--test-data", "other.csv", "--columns",
                   "label=cat|dog|emu|fox", "--epochs", 30, "--run-dir", "run", *support.FEW)
        self.assertEqual(self.summary("run")["test_accuracy"], 1.0)
        self.assertEqual(self.summary("run")["class_names"], NAMES)

    def test_classes_given(self):
        self.learn("run", "--columns", "classes=fox|emu|dog|cat")
        self.assertGreater(self.summary("run")["test_accuracy"], 0.98)
        self.assertEqual(json.loads((self.folder / "run" / "settings.json").read_text())["class_names"], NAMES[::-1])


def write_picture(path, label, numbers):
    """A PNG of 28x28 grey pixels: a bright bar at the height of its class, and noise."""
    rows = [bytearray(numbers.choices((0, 0, 0, 60), k=28)) for _ in range(28)]
    for row in rows[5 * label + 4:5 * label + 7]:
        row[4:24] = bytes([200]) * 20
    parts = [(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)),
             (b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
              for kind, body in parts]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


class Folders(support.Case):
    def setUp(self):
        super().setUp()
        numbers = random.Random(5)
        for part, count in (("train", 30), ("test", 20)):
            for label, name in enumerate(NAMES):
                (self.folder / "animals" / part / name).mkdir(parents=True)
                for i in range(count):
                    write_picture(self.folder / "animals" / part / name / f"{i}.png", label, numbers)

    def test_class_missing_in_test(self):
        test = self.folder / "animals/test"
        shutil.rmtree(test / "cat")
        self.shoal("train", "softmax", "--data", "animals", "--epochs", 10, "--run-dir", "run", *support.FEW)
        self.assertGreater(json.loads((self.folder / "run/summary.json").read_text())["test_accuracy"], 0.98)
        out, _ = self.shoal("eval", "run", "--json")
        self.assertGreater(json.loads(out)["accuracy"], 0.98)
        (test / "dog").rename(test / "zebra")
        _, error = self.shoal("eval", "run", expect=1)
        self.assertIn("test/zebra: 'zebra' is not among the 4 classes: cat, dog, emu, fox", error)

    def test_validation_split(self):
        # The last rows are the last class: a split by position would validate on what was never trained on.
        for run, flags in (("one", ["--batch-size", 40]), ("two", ["--workers", 2, "--batch-size", 20])):
            self.shoal("train", "softmax", "--data", "animals", "--epochs", 12, "--validation-split", 0.25,
                       "--patience", 5, "--run-dir", run, *support.FEW, *flags)
            result = json.loads((self.folder / run / "summary.json").read_text())
            self.assertGreater(result["validation_accuracy"], 0.98)
            self.assertEqual((result["status"], result["epochs"]), ("finished", 12))
            self.shoal("train", "softmax", "--resume", "--run-dir", run, "--epochs", 14, *support.FEW)
            result = json.loads((self.folder / run / "summary.json").read_text())
            self.assertGreater(result["validation_accuracy"], 0.98)


if __name__ == "__main__":
    unittest.main()
