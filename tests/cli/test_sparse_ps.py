"""sparse-lr with parameter servers: bytes, memory, curves, checkpoints, whole weights, what is refused."""
import csv
import json
import os
import shutil
import signal
import subprocess
import time

import support

FEATURES = 33762578
FEW = 20000


class SparseServers(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        maker = cls("test_bytes_and_memory")
        maker.folder = cls.shared
        maker.shoal("data", "generate", "criteo", "--rows", 24000, "--files", 6, "--out", "clicks", "--quiet")
        maker.shoal("data", "generate", "criteo", "--rows", 9000, "--files", 3, "--features", FEW, "--out", "few", "--quiet")
        for name in ("clicks", "few"):
            folder = cls.shared / name
            truth = json.loads((folder / "truth.json").read_text())
            setattr(cls, name + "_truth", truth)
            setattr(cls, name + "_test", folder / truth["test_file"])
            setattr(cls, name + "_train", ",".join(str(p) for p in sorted(folder.glob("tfrecords*"))
                                                  if p.name != truth["test_file"]))

    def learn(self, run, *flags, expect=0):
        return self.shoal("train", "sparse-lr", "--data", self.few_train, "--test-data", self.few_test, "--features", FEW,
                          "--run-dir", run, *flags, expect=expect)

    def gap_left(self, summary, truth):
        """Of the way from a constant to the hidden model, the share that is not made."""
        return (summary["test_loss"] - truth["test_log_loss"]) / (truth["constant_log_loss"] - truth["test_log_loss"])

    def test_bytes_and_memory(self):
        out = self.shoal("train", "sparse-lr", "--data", self.clicks_train, "--test-data", self.clicks_test, "--workers", 5,
                         "--ps", 1, "--mode", "async", "--eval-every", 1300, "--lr", 0.1, "--run-dir", "run")[0]
        s = self.summary("run")
        self.assertEqual(s["parameters"], FEATURES)
        self.assertEqual(s["examples"], 20000)
        self.assertLess(self.gap_left(s, self.clicks_truth), 0.85)
        exchange = s["exchange"]
        self.assertLess(exchange["step_bytes"], 1.25 * 8 * exchange["touched_features"])
        self.assertIn("times as much", out)
        for task in s["tasks"]:
            most = 2 * 4 * FEATURES + (64 << 20) if task["role"] == "ps" else 80e6  # no copy of the table
            self.assertLess(task["rss_peak_bytes"], most, task["role"])
            if task["role"] == "ps":  # writing and reading the whole table, before and after training, is not counted
                self.assertLessEqual(task["busy_seconds"], task["seconds"])
        with open(self.folder / "run" / "curve.csv") as f:
            points = list(csv.DictReader(f))
        self.assertGreaterEqual(len(points), 3)  # worker 0's own share alone passes three, whoever is quicker
        self.assertLess(float(points[-1]["test_loss"]), float(points[0]["test_loss"]))
        again = self.shoal("eval", "run", "--data", self.clicks_test, "--split", "train", "--json")[0]
        self.assertAlmostEqual(json.loads(again)["loss"], s["test_loss"], places=5)

    def test_same_as_alone(self):
        """Rows of one file go to the workers in turn: the same rows in each step."""
        one = self.few_train.split(",")[0]
        flags = ("--shuffle-rows", 0, "--optimizer", "adagrad", "--bias", "--quiet", "--no-checkpoints")
        self.learn("alone", "--data", one, "--batch-size", 60, "--threads", 1, *flags)
        self.learn("shared", "--data", one, "--batch-size", 20, "--workers", 3, "--ps", 2, *flags)
        self.learn("far", "--data", one, "--batch-size", 20, "--workers", 3, "--ps", 2, "--transport", "tls", *flags)
        alone, shared, far = (self.summary(run) for run in ("alone", "shared", "far"))
        self.assertEqual(alone["updates"], shared["updates"])
        self.assertAlmostEqual(alone["test_loss"], shared["test_loss"], places=5)
        self.assertEqual(shared["test_loss"], far["test_loss"])

    def test_whole_weights(self):
        """The wasteful way learns the same and says what it costs."""
        flags = ("--workers", 2, "--ps", 1, "--shuffle-rows", 0, "--no-checkpoints", "--steps", 20)
        self.learn("sparse", *flags)
        out = self.learn("whole", "--transfer", "dense", *flags)[0]
        self.learn("far", "--transfer", "dense", "--transport", "tls", "--features", 2 * FEW, *flags) # large ones go out in pieces
        sparse, whole, far = self.summary("sparse"), self.summary("whole"), self.summary("far")
        self.assertAlmostEqual(sparse["test_loss"], whole["test_loss"], places=5)
        self.assertAlmostEqual(whole["test_loss"], far["test_loss"], places=5)
        self.assertEqual(sparse["exchange"]["touched_features"], whole["exchange"]["touched_features"])
        self.assertGreater(whole["exchange"]["step_bytes"], 2 * 4 * FEW)
        self.assertLess(4 * sparse["exchange"]["step_bytes"], whole["exchange"]["step_bytes"])
        self.assertIn("kB of their weights and gradients", out)

    def test_resume(self):
        flags = ("--workers", 2, "--ps", 2, "--batch-size", 50, "--optimizer", "ftrl", "--lr", 0.1, "--quiet")
        self.learn("whole", *flags, "--epochs", 2)
        self.learn("parts", *flags, "--steps", 40, "--checkpoint-every", 15)
        self.shoal("train", "sparse-lr", "--resume", "--run-dir", "parts", "--epochs", 2, "--quiet")
        whole, parts = self.summary("whole"), self.summary("parts")
        self.assertEqual(parts["resumed_from"], 40)
        self.assertEqual(parts["updates"], whole["updates"])
        self.assertEqual(parts["test_loss"], whole["test_loss"])
        one, other = (self.folder / run / "model.safetensors" for run in ("whole", "parts"))
        self.assertEqual(one.read_bytes(), other.read_bytes())

    def test_resume_all_features(self):
        """All features, killed after its first checkpoint: what is resumed ends as if nothing had happened."""
        flags = ("--workers", 2, "--ps", 1, "--mode", "sync", "--steps", 60, "--checkpoint-every", 20, "--quiet")
        command = ("train", "sparse-lr", "--data", self.clicks_train, "--test-data", self.clicks_test)
        self.shoal(*command, *flags, "--run-dir", "whole")
        job = subprocess.Popen([support.SHOAL, *map(str, (*command, *flags, "--run-dir", "parts"))], cwd=self.folder,
                               env=self.environment(), start_new_session=True, stdout=subprocess.DEVNULL)
        checkpoints = self.folder / "parts" / "checkpoints"
        while job.poll() is None and not list(checkpoints.glob("step-*.safetensors")):
            time.sleep(0.01)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        first = min(checkpoints.glob("step-*.safetensors"))
        for later in checkpoints.glob("step-*"):  # it may have got further
            if later != first:
                later.unlink()
        self.shoal("train", "sparse-lr", "--resume", "--run-dir", "parts", "--steps", 60, "--quiet")
        whole, parts = self.summary("whole"), self.summary("parts")
        self.assertEqual(parts["resumed_from"], 20)
        self.assertEqual(parts["parameters"], FEATURES)
        self.assertEqual(parts["test_loss"], whole["test_loss"])
        for task in parts["tasks"]:
            if task["role"] == "worker":
                self.assertLess(task["rss_peak_bytes"], 80e6)

    def test_uneven_shares(self):
        """A worker whose share is short holds nobody up, and is not left out."""
        short = self.folder / "short"
        short.mkdir()
        for name in ("a", "b"):
            shutil.copy(self.few_train.split(",")[0], short / f"{name}.tfrecord")
        self.shoal("data", "generate", "criteo", "--rows", 30, "--files", 1, "--features", FEW, "--out", "tiny", "--quiet")
        shutil.copy(self.folder / "tiny" / "tfrecords00", short / "c.tfrecord")
        for mode in ("sync", "async"):
            self.learn(mode, "--data", short, "--workers", 3, "--mode", mode, "--quiet", "--no-checkpoints", "--epochs", 2)
            s = self.summary(mode)
            self.assertEqual(s["examples"], 2 * (2 * 3000 + 30))
            self.assertEqual(sum(t.get("examples", 0) for t in s["tasks"]), s["examples"])

    def test_hot_rows_cached(self):
        """Async, rows that most batches have are not sent each time; sync, nothing changes."""
        async_ = ("--workers", 2, "--ps", 2, "--mode", "async", "--lr", 0.1, "--batch-size", 50, "--no-checkpoints")
        moved = []
        for run, flags in (("plain", ()), ("cached", ("--cache-rows", 1000, "--cache-staleness", 3)),
                           ("ids", ("--cache-rows", 1000)), ("replicas", ("--cache-rows", 1000, "--replicas", 1))):
            space = ("--growing-ids",) if run == "ids" else ("--features", FEW)
            self.shoal("train", "fm", "--data", self.few_train, "--test-data", self.few_test, *space, "--run-dir", run, *async_, *flags)
            s = self.summary(run)
            self.assertEqual(s["examples"], 6000)
            self.assertLess(s["test_loss"], 0.62, run)
            moved.append(s["exchange"]["step_bytes"] / s["exchange"]["touched_features"])
        self.assertLess(moved[1], 0.92 * moved[0])
        self.assertLess(moved[3], 0.97 * moved[0])
        for run, flags in (("a", ()), ("b", ("--cache-rows", 1000))):
            self.learn(run, "--workers", 2, "--ps", 2, "--mode", "sync", *flags)
        weights = [(self.folder / run / "model.safetensors").read_bytes() for run in ("a", "b")]
        self.assertTrue(weights[0] == weights[1])
        for flags, words in ((("--cache-staleness", 2, "--ps", 1), "add --cache-rows"), (("--cache-rows", 9), "--strategy ps"),
                             (("--cache-rows", 9, "--ps", 1, "--transfer", "dense"), "--transfer dense")):
            self.assertIn(words, self.learn("no", *flags, expect=2)[1])

    def test_refused(self):
        for flags in (("--workers", 2, "--strategy", "mirrored"), ("--workers", 3, "--backup-workers", 1),
                      ("--workers", 2, "--evaluator"), ("--transfer", "dense"),
                      ("--workers", 2, "--transfer", "dense", "--l2", 0.1)):
            self.learn("bad", *flags, expect=2)
        self.assertIn("features", self.learn("bad", "--workers", 2, "--features", 100, "--quiet", expect=1)[1])


if __name__ == "__main__":
    support.main()
