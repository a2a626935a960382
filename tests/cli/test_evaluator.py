"""The evaluator: tests each checkpoint of a run while others train it, and ends with the job."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import support

LATEST = 20  # seconds


class Evaluator(support.Case):
    def setUp(self):
        super().setUp()
        self.tasks = []

    def tearDown(self):
        for task in self.tasks:
            if task.poll() is None:
                task.kill()
            task.communicate()

    def lines(self, run):
        return [json.loads(line) for line in (self.folder / run / "eval" / "metrics.jsonl").read_text().splitlines()]

    def check(self, run):
        """What it measured is what `shoal eval` measures of the same files."""
        lines = self.lines(run)
        steps = [line["step"] for line in lines if line["kind"] == "checkpoint"]
        self.assertTrue(steps)
        self.assertEqual(steps, sorted(set(steps)))
        for line in lines:
            path = self.folder / run / ("" if line["kind"] == "final" else "checkpoints") / line["file"]
            if not path.exists():
                continue
            found = json.loads(self.shoal("eval", path, "--json", "--threads", 1)[0])
            self.assertEqual((line["loss"], line["accuracy"]), (found["loss"], found["accuracy"]), line)
        return lines

    def test_local(self):
        self.train("softmax", "r", "--epochs", 40, "--batch-size", 16, "--workers", 2, "--keep", 100, "--evaluator")
        lines = self.check("r")
        self.assertEqual([line["kind"] for line in lines].count("final"), 1)
        self.assertEqual(len(lines), 42)  # the start, every epoch and the end
        s = self.summary("r")
        task, = [t for t in s["tasks"] if t["role"] == "evaluator"]
        self.assertEqual(task["evaluations"]["count"], 42)
        self.assertEqual(task["evaluations"]["last_accuracy"], s["test_accuracy"])
        _, err = self.train("softmax", "r", "--epochs", 42, "--workers", 2, "--evaluator", "--resume", "--follow-logs")
        self.assertRegex(err, r"(?m)^\[evaluator/0\] evaluator: step-0*672.safetensors: loss")
        self.assertEqual(self.lines("r")[-1]["kind"], "final")
        self.assertEqual(len(self.lines("r")), 42 + 3)  # what was tested before is not tested again

    def test_training_goes_on_without_it(self):
        run = self.folder / "r"
        process = subprocess.Popen(
            [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", run, "--threads", "1", "--batch-size",
             "16", "--workers", "2", "--epochs", "400", "--evaluator"], cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.environment())
        self.tasks.append(process)
        pid, end = None, time.monotonic() + LATEST
        while not pid and time.monotonic() < end:
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    words = (entry / "cmdline").read_text().split("\0")
                except OSError:
                    continue
                if "evaluator:0" in words and str(run / "logs" / "job.json") in words:
                    pid = int(entry.name)
        self.assertTrue(pid)
        os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertIn("the evaluator failed, the training goes on", out + err)
        self.assertEqual(self.summary("r")["status"], "finished")

    def start(self, task, *flags, cluster):
        config = {"cluster": cluster, "task": {"type": task.split(":")[0], "index": int(task.split(":")[1])}}
        process = subprocess.Popen(
            [support.SHOAL, "train", "softmax", "--data", self.data, "--batch-size", "16", "--threads", "1",
             *map(str, flags)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environment(TF_CONFIG=json.dumps(config)))
        self.tasks.append(process)
        return process

    def end(self, process, expect=0):
        out, err = process.communicate(timeout=LATEST)
        self.assertEqual(process.returncode, expect, out + err)
        return out, err

    def test_described(self):
        sockets = [socket.socket() for _ in range(2)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
        for s in sockets:
            s.close()
        cluster = {"worker": addresses[:1], "ps": addresses[1:]}  # the evaluator stands outside
        evaluator = self.start("evaluator:0", "--run-dir", "r", cluster=cluster)
        others = [self.start(t, "--run-dir", "r", "--epochs", 10, cluster=cluster) for t in ("ps:0", "worker:0")]
        for task in others:
            self.end(task)
        self.assertRegex(self.end(evaluator)[0], r"\d checkpoints? tested")
        self.assertEqual(self.check("r")[-1]["kind"], "final")
        _, err = self.end(self.start("evaluator:0", cluster=cluster), expect=2)
        self.assertIn("--run-dir", err)
        _, err = self.end(self.start("evaluator:0", "--run-dir", "none", "--deadline", 1, cluster=cluster), expect=1)
        self.assertIn("no progress of the run", err)


support.main()
