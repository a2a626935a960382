"""--drain: a TERM signal to any task of a cluster, or to all, is a request to leave in order: checkpoint, exit status 0."""
import json
import signal
import socket
import subprocess
import time

import support

LATEST = 120  # seconds
STEPS = ["--batch-size", "32", "--steps", "2000", "--checkpoint-every", "1000000", "--log-every", "1"]


class Drain(support.Case):
    def setUp(self):
        super().setUp()
        self.tasks = {}
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for task in self.tasks.values():
            if task.poll() is None:
                task.kill()
            task.wait()

    def describe(self):
        sockets = [socket.socket() for _ in range(4)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        at = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
        for s in sockets:
            s.close()
        (self.folder / "cluster.json").write_text(json.dumps({"cluster": {"ps": at[:1], "worker": at[1:]}}))

    def start_all(self, *flags):
        """One server and three workers, each started by itself, as in Kubernetes."""
        self.describe()
        for task in ("ps:0", "worker:0", "worker:1", "worker:2"):
            with (self.folder / f"{task}.log").open("ab") as log:
                self.tasks[task] = subprocess.Popen(
                    [support.SHOAL, "train", "softmax", "--data", self.data, "--threads", "1", "--run-dir", "run",
                     "--cluster", "cluster.json", "--task", task, "--drain", "100", *STEPS, *flags],
                    cwd=self.folder, stdout=log, stderr=log, env=self.environment())

    def wait_for_steps(self, more=0):
        before, end = self.steps(), time.monotonic() + LATEST
        while self.steps() <= before + more:
            self.assertLess(time.monotonic(), end, "no steps are made")
            if self.tasks["worker:0"].poll() is not None:
                return
            time.sleep(0.02)

    def steps(self):
        path = self.folder / "run/metrics.jsonl"
        return path.read_text().count('"kind":"step"') if path.exists() else 0

    def expect_good_ends(self, *names, status=0):
        for name in names or self.tasks:
            self.assertEqual(self.tasks[name].wait(timeout=LATEST), status,
                             f"{name}: " + (self.folder / f"{name}.log").read_text()[-2000:])

    def status(self):
        return self.summary("run")["status"]

    def resume_and_compare(self):
        """The job goes on where it was, and ends with the bits of one that nobody disturbed."""
        if self.status() != "finished":  # on a machine that stalls it may have come to its end meanwhile
            self.assertEqual(self.status(), "interrupted")
            self.start_all("--resume")
            self.expect_good_ends()
        self.assertEqual(self.status(), "finished")
        self.shoal("train", "softmax", "--data", self.data, "--threads", "1", "--workers", "3", "--ps", "1", "--run-dir",
                   "here", *STEPS)
        self.assertEqual((self.folder / "run/model.safetensors").read_bytes(),
                         (self.folder / "here/model.safetensors").read_bytes())

    def test_a_server_leaves(self):
        self.start_all()
        self.wait_for_steps()
        self.tasks["ps:0"].send_signal(signal.SIGTERM)
        self.expect_good_ends()
        if self.status() != "finished":
            self.assertIn("a task received a signal", (self.folder / "worker:0.log").read_text())
        self.resume_and_compare()

    def test_the_chief_leaves(self):
        self.start_all()
        self.wait_for_steps()
        self.tasks["worker:0"].send_signal(signal.SIGTERM)
        self.expect_good_ends()
        self.resume_and_compare()

    def test_all_leave_at_once(self):
        self.start_all()
        self.wait_for_steps()
        for task in self.tasks.values():
            task.send_signal(signal.SIGTERM)
        self.expect_good_ends()
        self.resume_and_compare()

    def test_all_are_to_be_started_again(self):
        """What a manager retries by its exit status: every task of a job that has not come to its end."""
        self.start_all("--steps", "100000000", "--retry-status", "75")
        self.wait_for_steps()
        self.tasks["ps:0"].send_signal(signal.SIGTERM)
        self.expect_good_ends(status=75)
        self.start_all("--steps", str(self.summary("run")["updates"] + 1), "--retry-status", "75", "--resume")
        self.expect_good_ends()

    def test_a_worker_leaves_alone(self):
        self.start_all("--steps", "100000000")
        self.wait_for_steps()
        self.tasks["worker:2"].send_signal(signal.SIGTERM)
        self.expect_good_ends("worker:2")
        self.wait_for_steps(more=20)
        for name in ("ps:0", "worker:0", "worker:1"):
            self.assertIsNone(self.tasks[name].poll(), name)
        self.tasks["worker:0"].send_signal(signal.SIGTERM)
        self.expect_good_ends()
        self.assertEqual(self.status(), "interrupted")

    def test_one_process(self):
        flags = ["--batch-size", "32", "--steps", "20000", "--log-every", "1"]
        process = subprocess.Popen([support.SHOAL, "train", "softmax", "--data", self.data, "--threads", "1", "--run-dir",
                                    "run", "--drain", "100", *flags], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=self.environment())
        self.tasks["worker:0"] = process
        self.wait_for_steps()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=LATEST), 0)
        self.train("softmax", "run", "--resume", *flags)
        self.train("softmax", "whole", *flags)
        self.assertEqual((self.folder / "run/model.safetensors").read_bytes(),
                         (self.folder / "whole/model.safetensors").read_bytes())

    def test_failures_that_may_pass(self):
        self.describe()
        flags = ("--cluster", "cluster.json", "--task", "worker:1", "--deadline", "0.5", "--retry-status", "75")
        self.shoal("train", "softmax", "--data", self.data, *flags, expect=75)  # nobody is there
        self.shoal("train", "softmax", "--data", self.folder / "nothing", *flags, expect=1)
        self.shoal("train", "softmax", "--data", self.data, *flags, "--lr", "x", expect=2)


if __name__ == "__main__":
    support.main()
