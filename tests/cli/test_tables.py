"""Tables on parameter servers: deterministic steps, the same bits on any number of workers; growing ids."""
import json
import os
import random
import shutil
import signal

import support
from test_cluster import tasks_of
from test_growing_ids import tensors

FEATURES = 4000


class Tables(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        maker = cls("test_any_number_of_workers")
        maker.folder = cls.shared
        maker.shoal("data", "generate", "criteo", "--rows", 1600, "--files", 3, "--features", FEATURES, "--as", "tsv", "--out",
                    "log", "--quiet")
        cls.train = ",".join(str(cls.shared / "log" / f"clicks{i:02}.tsv") for i in range(2))
        cls.test = cls.shared / "log" / "clicks02.tsv"
        maker.shoal("data", "generate", "criteo", "--rows", 3000, "--files", 4, "--features", FEATURES, "--out", "ids", "--quiet")
        cls.ids_train = ",".join(str(cls.shared / "ids" / f"tfrecords{i:02}") for i in range(3))
        cls.ids_test = cls.shared / "ids" / "tfrecords03"

    def command(self, model, run, *flags):
        return ("train", model, "--data", self.train, "--test-data", self.test, "--features", FEATURES, "--run-dir", run,
                "--threads", 1, *flags)

    def learn(self, model, run, *flags, expect=0):
        return self.shoal(*self.command(model, run, *flags), expect=expect)

    def weights(self, run):
        return (self.folder / run / "model.safetensors").read_bytes()

    def test_any_number_of_workers(self):
        """Also of threads and servers, and after a stop, with another number of them. Rows of a step that are no power of two
        are cut into several nodes of the tree."""
        usual = ("--deterministic", "--global-batch", 200, "--epochs", 2)
        for model, flags in (("sparse-lr", ("--bias",)), ("fm", ("--optimizer", "adam", "--lr", 0.01)),
                             ("deepfm", ("--set", "hidden=8"))):
            for workers in (1, 2, 3):
                self.learn(model, f"{model}-{workers}", *usual, *flags, "--workers", workers, "--ps", 1 + workers % 2, "--threads",
                           1 + workers // 3, "--no-checkpoints")
            self.learn(model, f"{model}-plain", "--batch-size", 200, "--epochs", 2, "--no-checkpoints", *flags)
            self.assertTrue(self.weights(f"{model}-1") == self.weights(f"{model}-2"), model)
            self.assertTrue(self.weights(f"{model}-1") == self.weights(f"{model}-3"), model)
            one, plain = (self.summary(f"{model}-{run}") for run in ("1", "plain"))
            self.assertEqual((one["updates"], one["examples"]), (plain["updates"], plain["examples"]))
            self.assertEqual(one["uneven_updates"], 0)
            self.assertAlmostEqual(one["test_loss"], plain["test_loss"], delta=1e-3)
        self.learn("fm", "parts", *usual, "--optimizer", "adam", "--lr", 0.01, "--workers", 2, "--steps", 7)
        self.shoal("train", "fm", "--resume", "--run-dir", "parts", "--workers", 3, "--epochs", 2)
        self.assertTrue(self.weights("parts") == self.weights("fm-1"))

    def test_a_worker_that_returns_changes_no_bit(self):
        flags = ("--deterministic", "--global-batch", 48, "--epochs", 60, "--quiet")
        self.learn("fm", "one", *flags, "--workers", 1, "--ps", 1)
        process = self.in_background(*self.command("fm", self.folder / "killed", *flags, "--workers", 3, "--ps", 1))
        log = self.folder / "killed" / "metrics.jsonl"
        self.wait_for(lambda: log.exists() and '"step"' in log.read_text(), "training", process)
        os.kill(tasks_of(self.folder / "killed")["worker:1"], signal.SIGKILL)
        out, err = process.communicate(timeout=support.SECONDS)
        self.assertEqual(process.returncode, 0, out + err)
        summary = self.summary("killed")
        self.assertEqual((summary["restarts"], summary["lost_workers"], summary["uneven_updates"]), (1, [], 0))
        self.assertTrue(self.weights("killed") == self.weights("one"))

    def grow(self, model, run, *flags, ids=("--growing-ids",), expect=0):
        return self.shoal("train", model, "--data", self.ids_train, "--test-data", self.ids_test, "--batch-size", 50, "--threads", 1,
                          "--run-dir", run, *ids, *flags, expect=expect)

    def rows(self, run):
        """{id: numbers}, and the other weights."""
        found, _ = tensors(self.folder / run / "model.safetensors")
        name = next((n for n in found if n + "/ids" in found), None) or next(n for n in found if found[n][0][0] == FEATURES)
        shape, numbers = found.pop(name)
        ids = found.pop(name + "/ids", ([], range(FEATURES)))[1]
        return {k: numbers[i * shape[1]:(i + 1) * shape[1]] for i, k in enumerate(ids)}, found

    def test_growing_ids(self):
        """As a table of fixed size on servers, to the bit, however many servers there are; what a process alone counts."""
        for model, flags in (("sparse-lr", ()), ("fm", ("--optimizer", "adam", "--lr", 0.01))):
            for run, more in (("grown", ()), ("one", ("--ps", 1))):
                self.grow(model, f"{run}-{model}", "--workers", 2, "--ps", 2, *flags, *more)
            self.grow(model, f"fixed-{model}", "--workers", 2, "--ps", 2, "--no-checkpoints", *flags, ids=("--features", FEATURES))
            grown, others = self.rows(f"grown-{model}")
            fixed, fixed_others = self.rows(f"fixed-{model}")
            self.assertLess(len(grown), FEATURES)
            self.assertEqual(grown, {k: fixed[k] for k in grown})
            self.assertEqual(others, fixed_others)
            self.assertEqual(self.rows(f"one-{model}"), (grown, others))
            s = self.summary(f"grown-{model}")
            self.assertEqual((s["ids"]["count"], s["ids"]["admitted"], s["ids"]["evicted"]), (len(grown), len(grown), 0))
            out = self.shoal("eval", f"grown-{model}", "--json")[0]
            self.assertAlmostEqual(json.loads(out)["loss"], s["test_loss"], places=5)
        self.assertEqual(len(self.shoal("predict", "grown-fm", self.ids_test)[0].split()), 750)
        limits = ("--ids-memory", 1, "--admit", 2, "--evict-after", 20, "--epochs", 2, "--shuffle-rows", 0)
        self.grow("fm", "alone", *limits)
        self.grow("fm", "served", *limits, "--workers", 1, "--ps", 1)
        alone, served = self.summary("alone"), self.summary("served")
        for what in ("count", "admitted", "evicted"):
            self.assertEqual(alone["ids"][what], served["ids"][what], what)
        self.assertGreater(served["ids"]["evicted"], 0)
        self.assertAlmostEqual(alone["test_loss"], served["test_loss"], delta=1e-4)

    def test_one_sum_a_row(self):
        """Row-wise Adagrad on servers: weights and sums of a process alone, one sum for each feature; the same bits after a stop,
        on other numbers of servers, and with growing ids."""
        usual = ("--optimizer", "rowwise_adagrad", "--lr", 0.05, "--batch-size", 50, "--shuffle-rows", 0)
        for model, flags in (("fm", ()), ("deepfm", ("--set", "hidden=8"))):
            found = []
            for run, more in (("alone", ()), ("served", ("--workers", 1, "--ps", 3))):
                self.learn(model, f"{model}-{run}", *usual, *flags, *more)
                checkpoint = max((self.folder / f"{model}-{run}" / "checkpoints").glob("step-*.safetensors"))
                found.append({n: t for n, t in tensors(checkpoint)[0].items() if not n.startswith("training/")})
            alone, served = found
            self.assertEqual({n: t[0] for n, t in alone.items()}, {n: t[0] for n, t in served.items()})
            self.assertIn([FEATURES], [t[0] for n, t in served.items() if n.endswith("/accumulator")])
            for name in alone:
                for a, b in zip(alone[name][1], served[name][1]):
                    self.assertAlmostEqual(a, b, delta=2e-5 + 1e-4 * abs(a), msg=name)
            for run, more in (("a", ("--ps", 2, "--epochs", 2)), ("b", ("--ps", 3, "--steps", 11))):
                self.learn(model, f"{model}-{run}", *usual, *flags, "--workers", 2, *more)
            self.shoal("train", model, "--resume", "--run-dir", f"{model}-b", "--epochs", 2, "--steps", 100000)
            self.assertTrue(self.weights(f"{model}-a") == self.weights(f"{model}-b"), model)
        usual = ("--optimizer", "rowwise_adagrad", "--lr", 0.05, "--workers", 2, "--ps", 2)
        for run, more in (("grown", ("--epochs", 2)), ("parts", ("--steps", 13))):
            self.grow("fm", run, *usual, *more)
        self.shoal("train", "fm", "--resume", "--run-dir", "parts", "--epochs", 2, "--steps", 100000)
        self.assertTrue(self.weights("grown") == self.weights("parts"))
        self.grow("fm", "fixed", *usual, "--epochs", 2, "--no-checkpoints", ids=("--features", FEATURES))
        (grown, others), (fixed, fixed_others) = self.rows("grown"), self.rows("fixed")
        self.assertEqual(grown, {k: fixed[k] for k in grown})
        self.assertEqual(others, fixed_others)
        _, err = self.learn("fm", "refused", *usual, "--replicas", 1, expect=2)
        self.assertIn("do not hold slots of whole rows", err)

    def test_hot_rows(self):
        """How uneven requests are, and how even the servers' load."""
        out, _ = self.learn("fm", "run", "--workers", 2, "--ps", 2, "--batch-size", 20, "--no-checkpoints")
        servers = [t for t in self.summary("run")["tasks"] if t["role"] == "ps"]
        asked = [t["asked_rows"] for t in servers]
        self.assertEqual(sum(asked), sum(t.get("touched_rows", 0) for t in self.summary("run")["tasks"]))
        self.assertLess(max(asked), 0.7 * sum(asked))
        for t in servers:  # of about 2,000 rows of each
            self.assertTrue(0.2 < t["hot_share"] < 1, t["hot_share"])
        self.assertIn("are the 256 hottest of each server; the busiest of 2 servers answered", out)

    def test_growing_ids_go_on(self):
        """After a stop and on any number of workers, the same bits; async, each row once."""
        limits = ("--ids-memory", 1, "--admit", 2, "--evict-after", 20)
        for run, flags in (("whole", ("--epochs", 2)), ("parts", ("--steps", 13))):
            self.grow("fm", run, *limits, "--workers", 2, "--ps", 2, *flags)
        self.shoal("train", "fm", "--resume", "--run-dir", "parts", "--epochs", 2)
        self.assertTrue(self.weights("whole") == self.weights("parts"))
        self.assertEqual(self.summary("whole")["ids"], self.summary("parts")["ids"])
        usual = ("--deterministic", "--global-batch", 96, *limits, "--epochs", 2)
        for workers in (1, 3):
            self.shoal("train", "fm", "--data", self.ids_train, "--test-data", self.ids_test, "--growing-ids", "--run-dir", f"w{workers}",
                       "--workers", workers, "--ps", 2, "--no-checkpoints", *usual)
        self.assertTrue(self.weights("w1") == self.weights("w3"))
        self.grow("fm", "async", *limits, "--workers", 3, "--ps", 2, "--mode", "async", "--lr", 0.03)
        self.assertEqual(self.summary("async")["examples"], 2250)
        counts = self.summary("async")["ids"]
        self.assertEqual(counts["count"], counts["admitted"] - counts["evicted"])

    def test_growing_ids_changed(self):
        """Most ids come in the first third only: checkpoints then have the rows alone that changed, and a run goes on with them, also with
        ids evicted since, with another number of servers, in a process alone for an evaluation, and without a damaged one."""
        draw = random.Random(6)
        with open(self.folder / "tail.svm", "w") as f:
            for i in range(4500):
                ids = [draw.randrange(10), 10 + draw.randrange(10)]
                if i % 4 == 0 if i < 300 else i < 1500:  # few of those that are the first to be evicted
                    ids += [1000 + 2 * i, 1001 + 2 * i]
                elif i >= 1500 and i % 9 == 0:
                    ids.append(20000 + i)
                f.write(f"{1 if ids[0] < 5 else -1} {' '.join(f'{k}:1' for k in ids)}\n")
        usual = ("train", "fm", "--data", "tail.svm", "--growing-ids", "--batch-size", 10, "--shuffle-rows", 0, "--keep", 50, "--epochs", 1,
                 "--threads", 1, "--workers", 2, "--checkpoint-every", 30)
        self.shoal(*usual, "--run-dir", "full", "--ps", 2, "--no-checkpoints")
        for name, flags in (("plain", ()), ("evicts", ("--evict-after", 190)), ("rowwise", ("--optimizer", "rowwise_adagrad"))):
            self.shoal(*usual, "--run-dir", f"{name}-whole", "--ps", 2, *flags)
            for damaged in (False, True):
                run = f"{name}-{damaged}"
                for _ in range(10):  # a checkpoint is left out while the one before is being written
                    shutil.rmtree(self.folder / run, ignore_errors=True)
                    self.shoal(*usual, "--run-dir", run, "--ps", 2, *flags, "--steps", 212)
                    files = sorted((self.folder / run / "checkpoints").iterdir())
                    rows, head = tensors(files[-1])
                    if "base" in head:
                        break
                self.assertIn("base", head)
                changed = next(t for n, t in rows.items() if n.endswith("/rows"))[0][0]
                self.assertLess(changed, 750)
                if name == "evicts":
                    used = next(t for n, t in rows.items() if n.endswith("/used"))[1]
                    self.assertIn(0, used)
                if damaged:
                    data = bytearray(files[-1].read_bytes())
                    data[-5] ^= 1
                    files[-1].write_bytes(data)
                else:
                    at = self.shoal("eval", files[-1], "--data", "tail.svm", "--json")[0]
                    self.assertEqual(json.loads(at)["examples"], 4500)
                err = self.shoal("train", "fm", "--resume", "--run-dir", run, "--epochs", 1, "--steps", 100000, "--ps", 1 + damaged)[1]
                self.assertEqual("passed over" in err, damaged, err)
                self.assertEqual(self.rows(run), self.rows(f"{name}-whole"), run)
                for what in ("count", "admitted", "evicted"):
                    self.assertEqual(self.summary(run)["ids"][what], self.summary(f"{name}-whole")["ids"][what])
        self.assertGreater(self.summary("evicts-whole")["ids"]["evicted"], 0)
        self.assertTrue(self.weights("full") == self.weights("plain-whole"))
        self.shoal(*usual, "--run-dir", "async", "--ps", 2, "--mode", "async", "--lr", 0.03)
        self.assertEqual(self.summary("async")["examples"], 4500)

    def test_growing_ids_of_a_lost_server(self):
        """It is replaced from the last checkpoint, with the bits of an undisturbed run, unless the run says that they are lost."""
        flags = ("--deterministic", "--workers", 2, "--ps", 2, "--epochs", 40, "--checkpoint-every", 50, "--quiet")
        self.grow("fm", "whole", *flags)
        process = self.in_background("train", "fm", "--data", self.ids_train, "--test-data", self.ids_test, "--batch-size", 50, "--threads", 1,
                             "--growing-ids", "--run-dir", self.folder / "killed", *flags)
        saved = self.folder / "killed" / "checkpoints"
        self.wait_for(lambda: list(saved.glob("step-*[1-9]0.safetensors")), "a checkpoint", process)
        os.kill(tasks_of(self.folder / "killed")["ps:1"], signal.SIGKILL)
        out, err = process.communicate(timeout=support.SECONDS)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertEqual(self.summary("killed")["restarts"], 1)
        self.assertEqual(self.summary("killed")["examples"], self.summary("whole")["examples"])
        self.assertEqual(self.summary("killed")["ids"]["count"], self.summary("whole")["ids"]["count"])
        same = self.weights("killed") == self.weights("whole")
        self.assertTrue(same or self.summary("killed")["uneven_updates"] > 0)

    def test_growing_ids_refused(self):
        for flags, why in ((("--workers", 2, "--replicas", 1), "backups of servers do not hold growing ids"),
                           (("--workers", 2, "--transfer", "dense"), "leave it out"),
                           (("--workers", 2, "--strategy", "allreduce"), "parameter servers"),
                           (("--mode", "async"), "add --ps N")):
            _, err = self.grow("fm", "refused", *flags, expect=2)
            self.assertIn(why, err)
        for flags, why in ((("--deterministic",), "is for tables on parameter servers"),
                           (("--deterministic", "--workers", 2, "--mode", "async"), "is for --mode sync"),
                           (("--deterministic", "--workers", 2, "--transfer", "dense"), "leave out --transfer dense"),
                           (("--deterministic", "--workers", 2, "--on-bad-row", "skip"), "bad ones cannot be skipped")):
            _, err = self.learn("sparse-lr", "refused", *flags, expect=2)
            self.assertIn(why, err)


if __name__ == "__main__":
    support.main()
