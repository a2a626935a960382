"""sparse-lr on parameter servers when workers die, stall or do not return, and after a resume: each row once an epoch.

SHOAL_KILL_ROUNDS says how often each kind of task is killed in each mode (once, unless told otherwise)."""
import json
import os
import random
import re
import signal
import struct
import subprocess
import time

import support
from test_cluster import tasks_of

ROUNDS = int(os.environ.get("SHOAL_KILL_ROUNDS", "1"))
SECONDS = 60
ROWS = 8000
BATCH = 10
EPOCHS = 15
MODES = {"sync": ["--mode", "sync"], "async": ["--mode", "async"], "bounded": ["--mode", "async", "--staleness", "4"]}


def rows_saved(folder):
    """What each server has done by the newest checkpoint. All batches are of the same size."""
    with open(max((folder / "checkpoints").glob("step-*.safetensors")), "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        state = json.loads(f.read(length))["__metadata__"]
    rows = [BATCH * sum(int(n) for n in re.findall(r"^done=(\d+)", part, re.M))
            for part in state["input_shards"].split("\n\n")]
    assert rows[0] == int(state["input_examples"]) + int(state["position"])
    return rows


class StreamRecovery(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        maker = cls("test_a_worker_is_killed")
        maker.folder = cls.shared
        maker.shoal("data", "generate", "criteo", "--rows", ROWS * 6 // 5, "--files", 6, "--features", 5000, "--out", "clicks",
                    "--quiet")
        cls.truth = json.loads((cls.shared / "clicks" / "truth.json").read_text())
        cls.test_file = cls.shared / "clicks" / cls.truth["test_file"]
        cls.train_files = ",".join(str(p) for p in sorted((cls.shared / "clicks").glob("tfrecords*")) if p != cls.test_file)

    def start(self, *flags):
        return self.in_background("train", "sparse-lr", *flags)

    def begin(self, name, *flags):
        folder = self.folder / name
        return self.start("--data", self.train_files, "--test-data", self.test_file, "--features", 5000, "--run-dir", folder,
                          "--epochs", EPOCHS, "--workers", 3, "--ps", 2, "--batch-size", BATCH, "--shuffle-rows", 500,
                          "--checkpoint-every", 400, "--quiet", *flags), folder

    def end(self, process, folder, epochs=EPOCHS, before=(0, 0)):
        """It finishes, and the ledger shows each row once an epoch, on every server. before: rows that
        each had done in earlier runs."""
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(f"still running: {tasks_of(folder)}")
        self.assertEqual(process.returncode, 0, out + err)
        self.assertEqual(tasks_of(folder), {})
        s = self.summary(folder.name)
        self.assertEqual((s["status"], s["epochs"], s["examples"]), ("finished", epochs, ROWS * epochs))
        for server in (t for t in s["tasks"] if t["role"] == "ps"):
            self.assertEqual(sum(server["gradient_examples"]), ROWS * epochs - before[server["index"]], server["index"])
        return s, out

    def kill(self, victim):
        numbers = random.Random(victim)
        for i in range(ROUNDS):
            for mode, flags in MODES.items():
                delay = numbers.uniform(0, 0.5)
                with self.subTest(victim=victim, mode=mode, delay=delay):
                    process, folder = self.begin(f"{mode}-{i}", *flags, "--transport", ("shm", "tls")[i % 2])
                    self.wait_for(lambda: support.has_begun(folder), "training", process)
                    time.sleep(delay)
                    os.kill(tasks_of(folder)[victim], signal.SIGKILL)
                    s, _ = self.end(process, folder)
                    self.assertIn((s["restarts"], len(s["lost_workers"])), ((1, 0), (0, 1), (1, 1)))  # lost: all was done before it was back

    def test_a_worker_is_killed(self):
        self.kill("worker:1")

    def test_the_chief_is_killed(self):
        self.kill("worker:0")

    def test_a_worker_does_not_return(self):
        for mode, flags in MODES.items():
            with self.subTest(mode=mode):
                for attempt in range(5):  # it may have had no rows when it was killed
                    process, folder = self.begin(f"gone-{mode}-{attempt}", *flags, "--max-restarts", 0)
                    self.wait_for(lambda: support.has_begun(folder), "training", process)
                    os.kill(tasks_of(folder)["worker:2"], signal.SIGKILL)
                    s, out = self.end(process, folder)
                    self.assertEqual(s["lost_workers"], ["worker/2"])
                    self.assertIn("worker/2 was lost", out)
                    if s["handed_on_rows"]:
                        break
                self.assertGreater(s["handed_on_rows"], 0)

    def test_a_worker_stalls(self):
        """Left out by heartbeat, it begins again with what is free then."""
        for mode in ("sync", "bounded"):
            with self.subTest(mode=mode):
                process, folder = self.begin("stall-" + mode, *MODES[mode], "--heartbeat", 0.4, "--epochs", 40)
                self.wait_for(lambda: support.has_begun(folder), "training", process)
                victim = tasks_of(folder)["worker:2"]
                os.kill(victim, signal.SIGSTOP)
                time.sleep(1)
                os.kill(victim, signal.SIGCONT)
                s, _ = self.end(process, folder, epochs=40)
                self.assertEqual(s["tasks"][0]["deaths"], [0, 0, 1])

    def test_a_worker_stops_with_the_last_rows(self):
        """For good, in async mode: the others have nothing to do and ask again and again, which is no sign of its life; nor is it
        on the second server, where nobody waits for it but worker 0, for the end."""
        process, folder = self.begin("last", *MODES["async"], "--heartbeat", 0.5, "--max-restarts", 0)
        self.wait_for(lambda: support.has_begun(folder), "training", process)
        victim = tasks_of(folder)["worker:2"]
        os.kill(victim, signal.SIGSTOP)
        self.wait_for(lambda: "worker:0" not in tasks_of(folder), "the end", process, seconds=SECONDS)
        os.kill(victim, signal.SIGKILL)  # the command itself would wait for longer
        s, _ = self.end(process, folder)
        self.assertEqual((s["lost_workers"], s["tasks"][0]["deaths"]), (["worker/2"], [0, 0, 1]))

    def test_all_are_killed_and_resumed(self):
        """In the middle of an epoch: the checkpoint says which rows are done."""
        for i in range(ROUNDS):
            for mode, flags in MODES.items():
                with self.subTest(mode=mode):
                    process, folder = self.begin(f"all-{mode}-{i}", *flags)
                    self.wait_for(lambda: len(list((folder / "checkpoints").glob("*.safetensors"))) > 1, "saving", process)
                    os.kill(process.pid, signal.SIGKILL)
                    process.communicate()
                    self.wait_for_nothing(folder)
                    before = rows_saved(folder)
                    self.assertGreater(min(before), 0)
                    self.end(self.start("--resume", "--run-dir", folder, "--quiet"), folder, before=before)

    def wait_for_nothing(self, folder):
        end = time.monotonic() + 10
        while tasks_of(folder) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(tasks_of(folder), {})


if __name__ == "__main__":
    support.main()
