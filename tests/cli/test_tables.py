"""Tables on parameter servers: deterministic steps, the same bits on any number of workers."""
import os
import signal
import subprocess
import time

import support
from test_cluster import tasks_of

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

    def command(self, model, run, *flags):
        return ("train", model, "--data", self.train, "--test-data", self.test, "--features", FEATURES, "--run-dir", run,
                "--threads", 1, *flags)

    def learn(self, model, run, *flags, expect=0):
        return self.shoal(*self.command(model, run, *flags), expect=expect)

    def weights(self, run):
        return (self.folder / run / "model.safetensors").read_bytes()

    def begin(self, *arguments):
        process = subprocess.Popen([support.SHOAL, *map(str, arguments)], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment())
        self.addCleanup(self.put_away, process)
        return process

    def put_away(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def wait_for(self, condition, what, process, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            if process.poll() is not None:
                self.fail(f"{what}: the job ended before: {process.communicate()}")
            time.sleep(0.01)
        self.fail(f"{what}: not within {seconds} s")

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
        process = self.begin(*self.command("fm", self.folder / "killed", *flags, "--workers", 3, "--ps", 1))
        log = self.folder / "killed" / "metrics.jsonl"
        self.wait_for(lambda: log.exists() and '"step"' in log.read_text(), "training", process)
        os.kill(tasks_of(self.folder / "killed")["worker:1"], signal.SIGKILL)
        out, err = process.communicate(timeout=support.SECONDS)
        self.assertEqual(process.returncode, 0, out + err)
        summary = self.summary("killed")
        self.assertEqual((summary["restarts"], summary["lost_workers"], summary["uneven_updates"]), (1, [], 0))
        self.assertTrue(self.weights("killed") == self.weights("one"))

    def test_what_is_refused(self):
        for flags, why in ((("--deterministic",), "is for tables on parameter servers"),
                           (("--deterministic", "--workers", 2, "--mode", "async"), "is for --mode sync"),
                           (("--deterministic", "--workers", 2, "--transfer", "dense"), "leave out --transfer dense"),
                           (("--deterministic", "--workers", 2, "--on-bad-row", "skip"), "bad ones cannot be skipped")):
            _, err = self.learn("sparse-lr", "refused", *flags, expect=2)
            self.assertIn(why, err)


if __name__ == "__main__":
    support.main()
