"""sparse-lr: trained, tested, resumed, used, exported; rows that are bad."""
import csv
import json
import math
import random
import signal
import struct
import subprocess
import time

import event_files
import support

FEATURES = 5000
FEW = ["--threads", "1", "--quiet"]


def row(label, pairs):
    return f"{label} " + " ".join(f"{i}:{v}" for i, v in pairs) + "\n"


def liblinear_scores(model, rows):
    """What liblinear's predict does with a model file: the decision value of each row."""
    lines = model.read_text().splitlines()
    head = dict(line.split(" ", 1) for line in lines[:lines.index("w")])
    w = [float(x) for x in lines[lines.index("w") + 1:]]
    features, bias = int(head["nr_feature"]), float(head["bias"])
    assert len(w) == features + (bias >= 0), (len(w), head)
    assert head["nr_class"] == "2" and head["label"].split() == ["1", "-1"], head
    scores = []
    for line in rows.read_text().splitlines():
        pairs = [pair.split(":") for pair in line.split()[1:]]
        score = sum(w[int(i) - 1] * float(v) for i, v in pairs if 1 <= int(i) <= features)
        scores.append(score + (w[features] * bias if bias >= 0 else 0))
    return scores


class Sparse(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        maker = cls("test_learns")
        maker.folder = cls.shared
        maker.shoal("data", "generate", "criteo", "--rows", 30000, "--files", 4, "--features", FEATURES, "--out", "clicks",
                    "--quiet")
        cls.clicks = cls.shared / "clicks"
        cls.truth = json.loads((cls.clicks / "truth.json").read_text())
        cls.test_file = cls.clicks / cls.truth["test_file"]
        cls.train_files = ",".join(str(p) for p in sorted(cls.clicks.glob("tfrecords*")) if p != cls.test_file)

    def learn(self, run, *flags, expect=0, data=None):
        return self.shoal("train", "sparse-lr", "--data", data or self.train_files, "--test-data", self.test_file,
                          "--features", FEATURES, "--run-dir", run, *FEW, *flags, expect=expect)

    def test_learns(self):
        for optimizer, rate in (("sgd", 0.05), ("adagrad", 0.1), ("ftrl", 0.1)):
            for batch in (1, 50):
                name = f"{optimizer}-{batch}"
                self.learn(name, "--optimizer", optimizer, "--lr", rate, "--batch-size", batch, "--bias",
                           "--no-checkpoints")
                s = self.summary(name)
                gap = (s["test_loss"] - self.truth["test_log_loss"]) / \
                    (self.truth["constant_log_loss"] - self.truth["test_log_loss"])
                self.assertLess(gap, 0.85, f"{name}: {s['test_loss']}")
                self.assertGreater(s["test_auc"], 0.6)
                self.assertAlmostEqual(s["test_error_rate"], 1 - s["test_accuracy"], places=9)
                self.assertEqual(s["examples"], 30000 - self.truth["test_rows"])
                self.assertEqual(s["updates"], math.ceil(s["examples"] / batch))

    def test_fused_is_the_operators_one_by_one(self):
        flags = ["--batch-size", 40, "--optimizer", "adagrad", "--no-checkpoints", "--kernels", "generic", "--steps", 200]
        self.learn("fused", *flags)
        self.learn("plain", *flags, "--no-fusion")
        self.assertEqual((self.folder / "fused/model.safetensors").read_bytes(),
                         (self.folder / "plain/model.safetensors").read_bytes())

    def test_curve(self):
        self.learn("curve", "--eval-every", 5000, "--no-checkpoints")
        with open(self.folder / "curve/curve.csv") as f:
            points = list(csv.DictReader(f))
        self.assertEqual([int(p["rows"]) for p in points], [5000, 10000, 15000, 20000])
        self.assertLess(float(points[-1]["test_loss"]), float(points[0]["test_loss"]))
        for p in points:
            self.assertEqual(int(p["test_rows"]), self.truth["test_rows"])
            self.assertTrue(0.4 < float(p["test_auc"]) < 1 and 0 < float(p["progressive_loss"]) < 1)
        kinds = [json.loads(line)["kind"] for line in (self.folder / "curve/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(kinds.count("eval"), len(points) + 1)

    def test_resumed_is_as_if_never_stopped(self):
        flags = ["--epochs", 3, "--checkpoint-every", 100, "--batch-size", 20, "--shuffle-rows", 3000]
        self.learn("whole", *flags)
        self.learn("cut", *flags, "--steps", 1700)
        self.learn("cut", *flags, "--resume", "--epochs", 3)
        self.assertEqual((self.folder / "whole/model.safetensors").read_bytes(),
                         (self.folder / "cut/model.safetensors").read_bytes())
        self.assertEqual(self.summary("cut")["updates"], self.summary("whole")["updates"])
        _, err = self.learn("cut", "--resume", "--lr", 0.7, expect=2)
        self.assertIn("lr", err)

    def test_large_checkpoints_are_whole_after_a_kill(self):
        """48 MB with the slots, written while training goes on; killed at an arbitrary moment."""
        run = self.folder / "large"
        command = [support.SHOAL, "train", "sparse-lr", "--data", self.train_files, "--run-dir", str(run), "--epochs",
                   "200", "--checkpoint-every", "2000", "--keep", "1", "--features", "6000000", "--threads", "1",
                   "--quiet", "--shuffle-rows", "0"]
        child = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while not list(run.glob("checkpoints/step-*.safetensors")):
                self.assertLess(time.monotonic(), deadline, "no checkpoint")
                self.assertIsNone(child.poll())
                time.sleep(0.02)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        newest = sorted(run.glob("checkpoints/step-*.safetensors"))[-1]
        out, _ = self.shoal("eval", newest, "--data", self.test_file, "--split", "train", "--json", "--model", "sparse-lr")
        self.assertEqual(json.loads(out)["examples"], self.truth["test_rows"])
        _, err = self.shoal(*command[1:], "--resume", "--epochs", "1")
        self.assertIn("resumed from step", err)

    def test_uses(self):
        self.learn("used", "--bias", "--optimizer", "ftrl", "--l1", 2, "--l2", 0.1, "--no-checkpoints")
        s = self.summary("used")
        e = json.loads(self.shoal("eval", "used", "--json")[0])
        for ours, theirs in (("loss", "test_loss"), ("accuracy", "test_accuracy"), ("auc", "test_auc")):
            self.assertAlmostEqual(e[ours], s[theirs], places=9)
        scores = [float(x) for x in self.shoal("predict", "used", self.test_file)[0].split()]
        self.assertEqual(len(scores), self.truth["test_rows"])
        again = json.loads(self.shoal("predict", "used", "--json")[0])
        self.assertTrue(len(again) == len(scores) and all(abs(a - b) < 1e-6 for a, b in zip(again, scores)))
        self.shoal("data", "convert", self.test_file, "test.libsvm", "--quiet")
        self.shoal("export", "used", "used.model")
        other = liblinear_scores(self.folder / "used.model", self.folder / "test.libsvm")
        self.assertTrue(all(abs(p - 1 / (1 + math.exp(-z))) < 1e-4 for p, z in zip(scores, other)))
        pairs = [line.split() for line in self.shoal("export", "used", "--as", "pairs")[0].splitlines()]
        self.assertEqual(pairs[-1][0], "bias")
        self.assertTrue(0 < len(pairs) - 1 < FEATURES / 2, len(pairs))  # l1 leaves most of them 0
        self.assertTrue(all(float(w) != 0 for _, w in pairs[:-1]))

    def test_libsvm(self):
        """Features are counted in both files; labels -1 and +1; an empty row is a row."""
        (self.folder / "train.libsvm").write_text("".join(
            row("+1", [(1, 1), (7, 0.5)]) + row("-1", [(2, 1)]) + "-1\n" for _ in range(50)))
        (self.folder / "test.libsvm").write_text(row("1", [(1, 2)]) + row("-1", [(2, 1), (900, 1)]))
        self.shoal("train", "sparse-lr", "--data", "train.libsvm", "--test-data", "test.libsvm", "--run-dir", "small",
                   "--epochs", 20, "--optimizer", "sgd", "--lr", 0.5, "--batch-size", 8, *FEW)
        s = self.summary("small")
        self.assertEqual((s["parameters"], s["examples"], s["test_accuracy"]), (901, 3000, 1))
        _, err = self.shoal("export", "small", "x.model")
        self.assertIn("nr_feature 7\n", (self.folder / "x.model").read_text())

    def test_bad_rows(self):
        good = row("1", [(1, 1)])
        for name, bad, words in (
                ("beyond", row("1", [(3, 1), (100, 1)]), "expected indices from 0 to 99, found 100"),
                ("unsorted", row("1", [(5, 1), (4, 1)]), "found 4 after 5"),
                ("twice", row("1", [(5, 1), (5, 1)]), "found 5 after 5"),
                ("nan", row("1", [(5, "nan")]), "finite number"),
                ("negative", row("1", [(-5, 1)]), "expected an index from 0 on"),
                ("label", row("7", [(5, 1)]), "label"),
        ):
            path = self.folder / f"{name}.libsvm"
            path.write_text(good * 3 + bad + row("-1", [(2, 1)]) + good * 1999)
            arguments = ["train", "sparse-lr", "--data", path, "--features", 100, *FEW]
            _, err = self.shoal(*arguments, "--run-dir", name, expect=1)
            self.assertIn(f"{name}.libsvm", err)
            self.assertIn("line 4", err)
            self.assertIn(words, err)
            self.shoal(*arguments, "--run-dir", f"{name}-skipped", "--on-bad-row", "skip")
            s = self.summary(f"{name}-skipped")
            self.assertEqual((s["bad_rows"], s["examples"]), (1, 2003))
        (self.folder / "zero.libsvm").write_text((row("1", [(0, 1)]) + row("-1", [(1, 1)])) * 20)
        self.shoal("train", "sparse-lr", "--data", "zero.libsvm", "--run-dir", "zero", *FEW)  # an index like others ...
        _, err = self.shoal("export", "zero", expect=1)  # ... but not to liblinear
        self.assertIn("count from 1", err)

    def test_real_sets_beside_liblinear(self):
        """liblinear, C = 1, without a bias, gets 84.99 %, 100 % and 87.6 % right."""
        folder = support.ROOT.parent / "shared" / "data" / "libsvm"
        if not folder.is_dir():
            self.skipTest(f"{folder} is not there")
        for train, test, epochs, accuracy in (("a9a", "a9a.t", 6, 0.8499),
                                              ("agaricus.txt.train", "agaricus.txt.test", 6, 1),
                                              ("rcv1_1000.libsvm", "rcv1_test_500.libsvm", 30, 0.876)):
            self.shoal("train", "sparse-lr", "--data", folder / train, "--test-data", folder / test, "--run-dir", train,
                       "--optimizer", "ftrl", "--lr", 0.3, "--l2", 1, "--batch-size", 1, "--epochs", epochs,
                       "--no-checkpoints", *FEW)
            self.assertGreater(self.summary(train)["test_accuracy"], accuracy - 0.003, train)

    def test_race(self):
        self.learn("race", "--mode", "async", "--threads", 2, "--no-checkpoints")
        self.assertLess(self.summary("race")["test_loss"], self.truth["constant_log_loss"])

    def test_usage(self):
        for flags, words in ((["--strategy", "allreduce"], "single process"), (["--l1", 1], "ftrl"), (["--pool", "max"], "--pool")):
            _, err = self.learn("never", *flags, expect=2)
            self.assertIn(words, err)
        _, err = self.shoal("train", "sparse-lr", expect=2)
        self.assertIn("--data", err)
        _, err = self.shoal("train", "softmax", "--bias", expect=2)
        self.assertIn("--bias", err)
        _, err = self.shoal("train", "sparse-lr", "--data", self.data, expect=1)
        self.assertIn("sparse rows", err)

    def test_features_follow_the_data(self):
        # Also of TFRecord files: not the click log's 33,762,578 where no index comes near them.
        for form in ("libsvm", "tfrecord"):
            self.shoal("data", "generate", "criteo", "--rows", 600, "--files", 2, "--features", FEATURES, "--as", form,
                       "--out", form, "--quiet")
            files = sorted(str(p) for p in (self.folder / form).iterdir() if p.suffix != ".json")
            self.shoal("train", "sparse-lr", "--data", files[0], "--test-data", files[1], "--run-dir", f"run-{form}",
                       *FEW)
            found = json.loads(self.shoal("data", "inspect", form, "--json")[0])
            self.assertEqual(self.summary(f"run-{form}")["parameters"], found["index"]["max"] + 1)
            self.assertLess((self.folder / f"run-{form}" / "model.safetensors").stat().st_size, 100000)

    def test_predict_what_is_new(self):
        seen = [(1, 1), (2, 1)]
        (self.folder / "train.libsvm").write_text(row(1, seen) * 50 + row(0, [(3, 1), (4, 1)]) * 50)
        self.shoal("train", "sparse-lr", "--data", "train.libsvm", "--run-dir", "run", *FEW)
        (self.folder / "known.libsvm").write_text(row(1, seen))
        known, err = self.shoal("predict", "run", "known.libsvm")
        self.assertEqual(err, "")
        # No labels, and indices that the model has never seen.
        (self.folder / "new.libsvm").write_text("1:1 2:1\n1:1 2:1 900:3 901:1\n")
        out, err = self.shoal("predict", "run", "new.libsvm")
        self.assertEqual(out, known * 2)
        self.assertIn("Ignored: 2 values with a feature index that the model does not have", err)
        # Labels are wanted by eval, where explicit data is all of it.
        (self.folder / "test.libsvm").write_text(row(1, seen + [(77, 1)]) + row(0, [(3, 1)]))
        result = json.loads(self.shoal("eval", "run", "--data", "test.libsvm", "--json")[0])
        self.assertEqual((result["examples"], result["accuracy"], result["unknown_entries"]), (2, 1.0, 1))
        self.assertEqual(result["confusion"], [[1, 0], [0, 1]])
        self.assertIn("expected a number as label", self.shoal("eval", "run", "--data", "new.libsvm", expect=1)[1])
        self.assertIn("expected a number as label",
                      self.shoal("train", "sparse-lr", "--data", "new.libsvm", "--run-dir", "no", *FEW, expect=1)[1])

    def test_three_classes(self):
        (self.folder / "three.libsvm").write_text("".join(row(k, [(k, 1)]) for k in (1, 2, 3)))
        for flags in ([], ["--classes", 3]):
            code = 2 if flags else 1
            _, err = self.shoal("train", "sparse-lr", "--data", "three.libsvm", "--run-dir", f"no-{code}", *FEW, *flags,
                                expect=code)
            self.assertIn("two classes", err)
            self.assertNotIn("give --classes", err)

    def test_two_classes_of_any_numbers(self):
        """1 and 2, one after the other, in two files; a third number is refused."""
        numbers = random.Random(4)
        rows = []
        for _ in range(400):
            x = [numbers.gauss(0, 1) for _ in range(4)]
            rows.append(([1, 2][x[0] > x[2]], [(i + 1, f"{v:.3f}") for i, v in enumerate(x)]))
        for name, labels in (("usual", (-1, 1)), ("other", (1, 2))):
            for part, some in (("a", rows[:150]), ("b", rows[150:300]), ("t", rows[300:])):
                some = sorted((labels[y - 1], pairs) for y, pairs in some)
                (self.folder / f"{name}-{part}.libsvm").write_text("".join(row(y, pairs) for y, pairs in some))
            self.shoal("train", "sparse-lr", "--data", f"{name}-a.libsvm,{name}-b.libsvm", "--test-data",
                       f"{name}-t.libsvm", "--epochs", 3, "--run-dir", name, *FEW)
        usual, other = self.summary("usual"), self.summary("other")
        self.assertEqual((usual["test_loss"], usual["test_auc"]), (other["test_loss"], other["test_auc"]))
        self.assertGreater(other["test_auc"], 0.95)
        self.assertEqual(other["class_names"], ["1", "2"])
        with open(self.folder / "other-t.libsvm", "a") as f:
            f.write("3 1:1\n")
        _, err = self.shoal("eval", "other", expect=1)
        self.assertIn("the label 3 is none of the two classes, 1 and 2", err)

    def test_ids_without_values(self):
        def field(number, body):
            return bytes([number << 3 | 2, len(body)]) + body

        def example(label, ids):
            lists = ((b"label", bytes([label])), (b"index", bytes(ids)))
            entries = b"".join(field(1, field(1, name) + field(2, field(3, field(1, body)))) for name, body in lists)
            return field(1, entries)

        def record(body):
            length = struct.pack("<Q", len(body))
            return (length + struct.pack("<I", event_files.masked(length)) + body +
                    struct.pack("<I", event_files.masked(body)))

        (self.folder / "ids.tfrecord").write_bytes(b"".join(record(example(k % 2, [1 + k % 2, 5])) for k in range(200)))
        (self.folder / "ones.libsvm").write_text("".join(row(k % 2, [(1 + k % 2, 1), (5, 1)]) for k in range(200)))
        scores = []
        for run, data in (("ids", "ids.tfrecord"), ("ones", "ones.libsvm")):
            self.shoal("train", "sparse-lr", "--data", data, "--shuffle-rows", 0, "--run-dir", run, *FEW)
            scores.append(self.shoal("predict", run, data)[0])
        self.assertEqual(scores[0], scores[1])
        self.assertEqual(len(set(scores[0].split())), 2)


if __name__ == "__main__":
    support.main()
