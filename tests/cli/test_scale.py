"""Another number of parameter servers while a job trains (shoal scale): no update is lost, none is done twice."""
import pathlib
import random
import subprocess
import time

import support
from test_cluster import tasks_of


class Scale(support.Case):
    def scaled(self, name, *flags, live=True):
        """A job of one server that goes on with three, then with two. live: in the same workers."""
        folder = self.folder / name
        process = subprocess.Popen(
            [support.SHOAL, "train", *map(str, flags), "--ps", "1", "--run-dir", folder, "--threads", "1", "--quiet"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment())
        self.addCleanup(process.kill)
        end = time.monotonic() + 60
        while not support.has_begun(folder) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        workers = self.workers(process, folder)
        for servers in (3, 2): # each waits until the job trains
            self.shoal("scale", folder, "--ps", servers)
        seen = {}
        while process.poll() is None: # the pipe has room for the little that a quiet job says
            seen.update(self.workers(process, folder))
            time.sleep(0.02)
        out, _ = process.communicate(timeout=support.SECONDS)
        self.assertEqual(process.returncode, 0, out)
        self.assertEqual(tasks_of(folder), {})
        summary = self.summary(name)
        self.assertEqual((summary["status"], summary["lost_steps"]), ("finished", 0), out)
        events = [e for e in summary["membership"] if e["task"] == "ps"]
        self.assertEqual([(e["event"], e["reason"]) for e in events], [("scaled", "1 to 3"), ("scaled", "3 to 2")], out)
        print(f"{name}: pauses of {[round(e['pause_seconds'], 3) for e in events]} s")
        self.assertEqual(len([t for t in summary["tasks"] if t["role"] == "ps"]), 2)
        self.assertEqual(summary["restarts"], 0)
        self.assertIn("3 to 2 servers at step", out)
        self.assertFalse([*folder.glob("scale*"), *folder.glob("logs/job.next*")], "the request is left behind")
        if live:
            self.assertEqual({**workers, **seen}, workers, "the workers are the same processes")
            self.assertFalse(list((self.folder / name / "checkpoints").glob("*")) if "--no-checkpoints" in flags else [])
        return summary

    def workers(self, process, folder):
        """Those that the job itself has started: a sanitizer may copy one at its end."""
        try:
            own = support.children(process.pid)
        except OSError: # it has just ended
            return {}
        return {task: pid for task, pid in tasks_of(folder).items() if task.startswith("worker") and pid in own}

    def same_bits(self, *flags, epochs=700, **how):
        flags = ["softmax", "--data", self.data, "--workers", 2, "--batch-size", 16, "--optimizer", "momentum", "--lr", "0.001",
                 "--epochs", epochs, *flags]
        self.scaled("scaled", *flags, **how)
        self.shoal("train", *flags, "--ps", 2, "--run-dir", "plain", "--threads", 1, "--quiet")
        models = [(self.folder / run / "model.safetensors").read_bytes() for run in ("scaled", "plain")]
        self.assertEqual(*models)

    def test_sync_has_the_same_bits(self):
        self.same_bits("--no-checkpoints")

    def test_deterministic_has_the_same_bits(self):
        self.same_bits("--deterministic", epochs=300)

    def test_with_backups_has_the_same_bits(self):
        """There all tasks are stopped, and started again."""
        self.same_bits("--replicas", 1, epochs=500, live=False)

    def test_async_rows_each_once(self):
        epochs = 2000
        summary = self.scaled("async", "softmax", "--data", self.data, "--workers", 3, "--mode", "async", "--in-flight", 2,
                              "--batch-size", 16, "--lr", "0.01", "--epochs", epochs)
        self.assertEqual(summary["examples"], 512 * epochs)

    def test_async_rows_of_a_table_each_once(self):
        rows, epochs = 4000, 100
        numbers = random.Random(5)
        path = pathlib.Path(self.folder / "rows.libsvm")
        with open(path, "w") as f:
            for _ in range(rows):
                keys = sorted(numbers.sample(range(1, 2000), 8))
                f.write(f"{numbers.randrange(2)} " + " ".join(f"{k}:1" for k in keys) + "\n")
        summary = self.scaled("table", "sparse-lr", "--data", path, "--workers", 2, "--mode", "async", "--batch-size", 20,
                              "--features", 200000, "--epochs", epochs, "--cache-rows", 500)
        self.assertEqual(summary["examples"], rows * epochs)
        # Wide rows, and slots of whole ones: to the bit.
        flags = ["fm", "--data", path, "--workers", 2, "--batch-size", 20, "--features", 20000, "--optimizer", "rowwise_adagrad",
                 "--lr", "0.01", "--epochs", 60]
        self.scaled("rowwise", *flags)
        self.shoal("train", *flags, "--ps", 2, "--run-dir", "plain-rowwise", "--threads", 1, "--quiet")
        models = [(self.folder / run / "model.safetensors").read_bytes() for run in ("rowwise", "plain-rowwise")]
        self.assertTrue(models[0] == models[1])

    def test_what_cannot_be(self):
        _, err = self.shoal("scale", "nowhere", "--ps", 2, expect=2)
        self.assertIn("no job runs there", err)
        self.train("softmax", "over", "--epochs", 1)
        _, err = self.shoal("scale", "over", "--ps", 2, expect=2)
        self.assertIn("--resume with --ps 2", err)
        _, err = self.shoal("scale", "over", expect=2)
        self.assertIn("--ps N", err)


if __name__ == "__main__":
    support.main()
