"""Another number of parameter servers while a job trains (shoal scale): no update is lost, none is done twice."""
import pathlib
import random
import subprocess
import time

import support
from test_cluster import tasks_of


class Scale(support.Case):
    def scaled(self, name, *flags):
        """A job of one server that goes on with three, then with two."""
        folder = self.folder / name
        process = subprocess.Popen(
            [support.SHOAL, "train", *map(str, flags), "--ps", "1", "--run-dir", folder, "--threads", "1", "--quiet"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment())
        self.addCleanup(process.kill)
        end = time.monotonic() + 30
        while not (folder / "logs").exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        for servers in (3, 2): # each waits until the job trains
            self.shoal("scale", folder, "--ps", servers)
        out, _ = process.communicate(timeout=support.SECONDS)
        self.assertEqual(process.returncode, 0, out)
        self.assertEqual(tasks_of(folder), {})
        summary = self.summary(name)
        self.assertEqual((summary["status"], summary["lost_steps"]), ("finished", 0), out)
        self.assertEqual([(e["event"], e["reason"]) for e in summary["membership"] if e["task"] == "ps"],
                         [("scaled", "1 to 3"), ("scaled", "3 to 2")], out)
        self.assertEqual(len([t for t in summary["tasks"] if t["role"] == "ps"]), 2)
        self.assertIn("3 to 2 servers at step", out)
        self.assertFalse(list(folder.glob("scale*")), "the request is left behind")
        return summary

    def test_sync_has_the_same_bits(self):
        flags = ["softmax", "--data", self.data, "--workers", 2, "--batch-size", 16, "--optimizer", "momentum", "--lr", "0.001",
                 "--epochs", 1500]
        self.scaled("scaled", *flags)
        self.shoal("train", *flags, "--ps", 2, "--run-dir", "plain", "--threads", 1, "--quiet")
        models = [(self.folder / run / "model.safetensors").read_bytes() for run in ("scaled", "plain")]
        self.assertEqual(*models)

    def test_async_rows_of_a_table_each_once(self):
        rows, epochs = 4000, 60
        numbers = random.Random(5)
        path = pathlib.Path(self.folder / "rows.libsvm")
        with open(path, "w") as f:
            for _ in range(rows):
                keys = sorted(numbers.sample(range(1, 2000), 8))
                f.write(f"{numbers.randrange(2)} " + " ".join(f"{k}:1" for k in keys) + "\n")
        summary = self.scaled("async", "sparse-lr", "--data", path, "--workers", 2, "--mode", "async", "--batch-size", 20,
                              "--features", 200000, "--epochs", epochs)
        self.assertEqual(summary["examples"], rows * epochs)

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
