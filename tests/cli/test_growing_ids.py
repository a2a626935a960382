"""Tables of growing ids: what they learn beside a table of fixed size, memory, admission, eviction, checkpoints with the rows
that changed, and what is refused."""
import array
import json
import random
import shutil
import struct

import support


def tensors(path):
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + n])
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            start, end = (8 + n + at for at in t["data_offsets"])
            out[name] = (t["shape"], array.array({"F32": "f", "I64": "q", "I32": "i", "F64": "d"}[t["dtype"]], data[start:end]))
    return out, head.get("__metadata__", {})


class GrowingIds(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        maker = cls("test_as_a_fixed_table")
        maker.folder = cls.shared
        maker.shoal("data", "generate", "criteo", "--rows", 6000, "--files", 4, "--features", 4000, "--out", "log", "--quiet")
        cls.train = ",".join(str(cls.shared / "log" / f"tfrecords{i:02}") for i in range(3))
        cls.test = cls.shared / "log" / "tfrecords03"
        # Ids of 63 bits, of which some are frequent; the label hangs on those.
        draw = random.Random(5)
        for name, rows in (("wide.svm", 3000), ("more.svm", 500)):
            with open(cls.shared / name, "w") as f:
                for _ in range(rows):
                    frequent = [9000000000000000000 + draw.randrange(20) for _ in range(2)]
                    ids = sorted(set(frequent + [draw.randrange(2 ** 62) for _ in range(2)]))
                    f.write(f"{1 if any(i % 4 == 0 for i in frequent) else -1} {' '.join(f'{i}:1' for i in ids)}\n")

    def learn(self, model, run, *flags, expect=0):
        return self.shoal("train", model, "--data", self.train, "--test-data", self.test, "--batch-size", 50, "--run-dir", run,
                          *flags, expect=expect)

    def summary(self, run):
        return json.loads((self.folder / run / "summary.json").read_text())

    def test_as_a_fixed_table(self):
        """Without a limit: the same bits for every id, whatever the optimizer; ids that never came have no row."""
        for i, (model, flags) in enumerate((("sparse-lr", ()), ("fm", ("--optimizer", "adam", "--lr", 0.01)), ("fm", ("--optimizer", "ftrl")),
                             ("fm", ("--optimizer", "rowwise_adagrad", "--threads", 2)))):
            runs = f"fixed-{i}", f"grown-{i}"
            self.learn(model, runs[0], "--features", 4000, *flags)
            self.learn(model, runs[1], "--growing-ids", *flags)
            (fixed, _), (grown, _) = (tensors(self.folder / run / "model.safetensors") for run in runs)
            name = next(n for n in grown if n.endswith("/ids"))[:-len("/ids")]
            ids, width = grown.pop(name + "/ids")[1], grown[name][0][1]
            self.assertEqual(len(set(ids)), len(ids))
            self.assertLess(len(ids), 4000)
            a, b = fixed.pop(name)[1], grown.pop(name)[1]
            for k, i in enumerate(ids):
                self.assertTrue(a[i * width:(i + 1) * width] == b[k * width:(k + 1) * width], (model, flags, i))
            self.assertEqual(fixed, grown)  # all other weights
            self.assertEqual(self.summary(runs[1])["ids"]["count"], len(ids))

    def test_limits_and_resume(self):
        """The same bits after a stop, with a limit of memory, admission and eviction; the limit holds; counts add up."""
        limits = ("--growing-ids", "--ids-memory", 1, "--admit", 2, "--evict-after", 40, "--checkpoint-every", 13)
        self.learn("fm", "whole", *limits, "--epochs", 2)
        self.learn("fm", "cut", *limits, "--steps", 50)
        self.learn("fm", "cut", "--resume", "--epochs", 2, "--steps", 100000)
        weights = [(self.folder / run / "model.safetensors").read_bytes() for run in ("whole", "cut")]
        self.assertTrue(weights[0] == weights[1])
        ids = self.summary("whole")["ids"]
        self.assertEqual(ids, self.summary("cut")["ids"])
        self.assertLessEqual(ids["bytes"], 1 << 20)
        self.assertGreater(ids["evicted"], 0)
        self.assertEqual(ids["count"], ids["admitted"] - ids["evicted"])

    def wide(self, run, *flags, expect=0):
        return self.shoal("train", "lr", "--data", self.shared / "wide.svm", "--test-data", self.shared / "more.svm",
                          "--growing-ids", "--batch-size", 20, "--shuffle-rows", 0, "--run-dir", run, *flags, expect=expect)

    def test_wide_ids(self):
        """Ids beyond 32 bits; with admission those that come once take nothing. Scores and text of what was learned."""
        self.wide("all", "--epochs", 3)
        self.wide("often", "--epochs", 3, "--admit", 3, "--no-checkpoints")
        s, often = self.summary("all"), self.summary("often")
        self.assertGreater(s["ids"]["count"], 5900)
        self.assertGreater(s["test_auc"], 0.95)
        self.assertGreater(often["test_auc"], 0.95)
        self.wide("two", "--epochs", 2, "--admit", 3, "--no-checkpoints")  # those that come once have been there twice
        self.assertEqual(self.summary("two")["ids"]["count"], 20)
        again = json.loads(self.shoal("eval", "all", "--json")[0])
        self.assertAlmostEqual(again["loss"], s["test_loss"], places=5)
        self.assertGreater(again["unknown_entries"], 990)
        scores = self.shoal("predict", "all", self.shared / "more.svm")[0].split()
        self.assertEqual(len(scores), 500)
        self.shoal("export", "two", "two.txt", "--as", "pairs")
        pairs = dict(line.split() for line in (self.folder / "two.txt").read_text().splitlines() if line[0] != "b")
        self.assertEqual(set(pairs), {str(9000000000000000000 + i) for i in range(20)})
        self.assertIn("pairs", self.shoal("export", "two", "x.txt", "--as", "liblinear", expect=2)[1])

    def test_checkpoints_of_changes(self):
        """All ids but 20 come in the first third: a checkpoint then has those rows alone that changed, and is of no use
        without the one with all. A damaged one is passed over, and the run still ends with the same bits."""
        draw = random.Random(6)
        with open(self.folder / "tail.svm", "w") as f:
            for i in range(4500):
                ids = [draw.randrange(10), 10 + draw.randrange(10)] + ([1000 + 2 * i, 1001 + 2 * i] if i < 1500 else [])
                f.write(f"{1 if ids[0] < 5 else -1} {' '.join(f'{k}:1' for k in ids)}\n")
        flags = ("--growing-ids", "--batch-size", 20, "--shuffle-rows", 0, "--checkpoint-every", 30, "--keep", 50, "--epochs", 1)
        self.shoal("train", "fm", "--data", "tail.svm", "--run-dir", "whole", *flags)
        for damage in ("none", "changes", "base"):
            for _ in range(10):  # a checkpoint is left out while the one before is being written: on a busy machine, all but two
                shutil.rmtree(self.folder / damage, ignore_errors=True)
                self.shoal("train", "fm", "--data", "tail.svm", "--run-dir", damage, *flags, "--steps", 199)
                files = sorted((self.folder / damage / "checkpoints").iterdir())
                changes, (rows, head) = files[-1], tensors(files[-1])
                if "base" in head:
                    break
            self.assertIn("base", head)
            base = changes.with_name(f"step-{int(head['base']):012}.safetensors")
            name = next(n for n in rows if n.endswith("/rows"))
            self.assertLess(rows[name][0][0], 800)
            if damage != "none":
                path = {"changes": changes, "base": base}[damage]
                data = bytearray(path.read_bytes())
                data[-5] ^= 1
                path.write_bytes(data)
            err = self.shoal("train", "fm", "--resume", "--run-dir", damage, "--epochs", 1, "--steps", 100000)[1]
            self.assertEqual("passed over" in err, damage != "none", err)
            weights = [(self.folder / run / "model.safetensors").read_bytes() for run in ("whole", damage)]
            self.assertTrue(weights[0] == weights[1], damage)
        # Of those that are kept, the base is, too.
        for _ in range(10):
            shutil.rmtree(self.folder / "few", ignore_errors=True)
            self.shoal("train", "fm", "--data", "tail.svm", "--run-dir", "few", *flags, "--keep", 1)
            files = sorted((self.folder / "few" / "checkpoints").iterdir())
            if len(files) == 2:
                break
        self.assertEqual(len(files), 2, files)
        self.assertEqual(int(tensors(files[1])[1]["base"]), int(files[0].stem[5:]))
        self.assertEqual(json.loads(self.shoal("eval", files[1], "--data", "tail.svm", "--json")[0])["examples"], 4500)

    def test_refusals(self):
        for flags, words in ((("--growing-ids", "--features", 100), "leave out --features"),
                             (("--admit", 2), "add --growing-ids"),
                             (("--growing-ids", "--mode", "async", "--threads", 2), "without --mode async"),
                             (("--growing-ids", "--admit", 300), "255")):
            self.assertIn(words, self.learn("lr", "no", *flags, expect=2)[1])
        self.assertIn("does not apply", self.shoal("train", "softmax", "--growing-ids", expect=2)[1])
        self.learn("lr", "fixed", "--features", 4000, "--no-checkpoints")
        out = self.learn("lr", "grown", "--growing-ids", "--weights", "fixed", expect=1)[1]
        self.assertIn("without growing ids", out)
        for i, (line, words) in enumerate((("1 9223372036854775807:1", "expected ids from 0 to 9223372036854775806"),
                            ("1 99999999999999999999:1", "expected ids from 0"),
                            ("1 5:1 -4:1", "expected an index from 0 on"), ("1 5:1 4:1", "ascending"))):
            (self.folder / "bad.svm").write_text("-1 3:1\n" + line + "\n")
            err = self.shoal("train", "lr", "--data", "bad.svm", "--growing-ids", "--run-dir", f"bad-{i}", expect=1)[1]
            self.assertIn(words, err)
            self.assertIn("bad.svm", err)


if __name__ == "__main__":
    support.main()
