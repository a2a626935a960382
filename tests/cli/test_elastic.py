"""All-reduce without MPI while ranks die, stall, leave and come: each row of an epoch once, the same parameters everywhere."""
import os
import random
import signal
import subprocess
import time
import unittest

import support
from test_allreduce import ranks_of

ROUNDS = int(os.environ.get("SHOAL_KILL_ROUNDS", "0"))  # of test_at_random; 0: one
FIRST = int(os.environ.get("SHOAL_KILL_FIRST", "0"))  # the number of the first: a hundred in several pieces
PAUSE = 2.0  # seconds for which the others should stand still at most
SHORT, LONG = 120, 330 # steps of a job
expected = {} # number of steps: the weights of one process


class Elastic(support.Case):
    """Processes of this machine, over shared memory."""
    flags = ["--transport", "shm"]
    seed = 1000 # of the first of the jobs at random

    def command(self, run, workers, steps, *flags):
        return [support.SHOAL, "train", "lenet", "--data", self.data, "--run-dir", self.folder / run, "--strategy", "allreduce",
                "--workers", str(workers), "--threads", "1", "--steps", str(steps), "--deterministic", "--global-batch", "192",
                "--optimizer", "momentum", "--lr", "0.02", "--check-replicas", "1",
                *self.flags, *[str(f) for f in flags]]

    def begin(self, run, workers, steps, *flags):
        """Starts a job; returns its process once it has made steps."""
        with open(self.folder / f"{run}.said", "wb") as to:
            process = subprocess.Popen(self.command(run, workers, steps, *flags), cwd=self.folder, stdout=to, stderr=to,
                                       env=self.environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until(process, run, "a step", lambda: support.has_begun(self.folder / run))
        return process

    def said(self, run):
        return (self.folder / f"{run}.said").read_text()

    def until(self, process, run, what, holds):
        """Waits for it while the job runs."""
        end = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), end, f"{what}: not within a minute")
            self.assertIsNone(process.poll(), f"it ended before {what}: {self.said(run)}")
            time.sleep(0.01)

    def weights(self, run):
        return (self.folder / run / "model.safetensors").read_bytes()

    def undisturbed(self, steps):
        """The weights of one process."""
        if steps not in expected:
            run = f"alone{steps}"
            self.shoal("train", "lenet", "--data", self.data, "--run-dir", run, "--threads", 1, "--steps", steps,
                       "--deterministic", "--batch-size", 192, "--optimizer", "momentum", "--lr", 0.02)
            expected[steps] = self.weights(run)
        return expected[steps]

    def ends(self, process, run, steps):
        """The job has ended well, and as if nothing had happened. Returns its summary and what it said."""
        process.wait(timeout=support.SECONDS)
        self.assertEqual(process.returncode, 0, self.said(run))
        self.assertEqual(ranks_of(self.folder / run), {})
        s = self.summary(run)
        self.assertEqual((s["status"], s["steps"], s["updates"]), ("finished", steps, steps))
        self.assertEqual(s["examples"], (steps // 3) * 512 + (0, 192, 384)[steps % 3])
        self.assertEqual(self.weights(run), self.undisturbed(steps), "other bits than one process")
        self.assertEqual(len({t["test_accuracy"] for t in s["tasks"]}), 1)
        return s, self.said(run)

    def signal(self, run, rank, number):
        pid = ranks_of(self.folder / run).get(rank)
        if pid is not None:
            os.kill(pid, number)
        return pid

    def changes(self, s):
        return [(m["task"], m["event"], m.get("reason")) for m in s["membership"]]

    def test_a_killed_rank_is_started_again(self):
        process = self.begin("r", 3, SHORT)
        pid = self.signal("r", 2, signal.SIGKILL)
        s, said = self.ends(process, "r", SHORT)
        self.assertIn(f"worker/2 (pid {pid}) was killed by signal 9 (Killed): it is started again (1 of 3)", said)
        self.assertEqual(self.changes(s)[0], ("worker/2", "left", "connection closed"))
        self.assertIn(("worker/2", "rejoined", None), self.changes(s))
        self.assertEqual(s["final_workers"], 3)

    def test_the_others_go_on_without_it(self):
        process = self.begin("r", 3, SHORT, "--max-restarts", 0)
        self.signal("r", 1, signal.SIGKILL)
        self.signal("r", 2, signal.SIGTERM)
        s, said = self.ends(process, "r", SHORT)
        self.assertIn("the job goes on without it", said)
        self.assertEqual(set(self.changes(s)),
                         {("worker/1", "left", "connection closed"), ("worker/2", "left", "asked to stop")})
        self.assertEqual((s["final_workers"], [t["name"] for t in s["tasks"]]), (1, ["worker/0"]))

    def test_rank_0_comes_back_and_no_step_is_lost(self):
        process = self.begin("r", 3, SHORT, "--no-checkpoints")
        self.signal("r", 0, signal.SIGKILL)
        s, _ = self.ends(process, "r", SHORT)
        self.assertEqual([c for c in self.changes(s) if c[0] == "worker/0"],
                         [("worker/0", "left", "connection closed"), ("worker/0", "rejoined", None)])

    def test_one_leaves_while_rank_0_is_away(self):
        process = self.begin("r", 3, SHORT, "--heartbeat", 1)
        self.signal("r", 0, signal.SIGSTOP)
        time.sleep(0.3)
        self.signal("r", 2, signal.SIGTERM)
        s, _ = self.ends(process, "r", SHORT)
        self.assertEqual(s["final_workers"], 2)

    def test_all_that_are_left_die(self):
        """Nobody has the variables any more but the last checkpoint; and one that left is not waited for."""
        process = self.begin("r", 3, SHORT, "--heartbeat", 1)
        self.signal("r", 1, signal.SIGTERM)
        self.until(process, "r", "one has left", lambda: "worker/1 left" in self.said("r"))
        for rank in (2, 0):
            self.signal("r", rank, signal.SIGKILL)
        s, _ = self.ends(process, "r", SHORT)
        self.assertEqual(s["final_workers"], 2)

    def test_a_stalled_rank_is_dropped_and_takes_part_again(self):
        process = self.begin("r", 3, SHORT, "--heartbeat", 1)
        pid = self.signal("r", 1, signal.SIGSTOP)
        self.until(process, "r", "the others go on", lambda: "worker/1 left" in self.said("r"))
        os.kill(pid, signal.SIGCONT)
        s, _ = self.ends(process, "r", SHORT)
        self.assertIn(("worker/1", "left", "no heartbeat"), self.changes(s))
        self.assertIn(("worker/1", "rejoined", None), self.changes(s))
        self.assertIn(pid, [t["pid"] for t in s["tasks"]])

    def test_from_2_to_5_to_3_workers(self):
        process = self.begin("r", 2, LONG)
        self.shoal("scale", "r", "--workers", 5)
        self.until(process, "r", "all have joined", lambda: self.said("r").count(" joined at step") == 3)
        out, _ = self.shoal("scale", "r", "--workers", 3)
        self.assertIn("goes on with 3 workers", out)
        s, said = self.ends(process, "r", LONG)
        self.assertIn("from 2 to 5 workers", said)
        self.assertEqual({c for c in self.changes(s) if c[1] == "joined"}, {(f"worker/{i}", "joined", None) for i in (2, 3, 4)})
        self.assertEqual(s["final_workers"], 3)
        self.assertEqual([t["name"] for t in s["tasks"]], ["worker/0", "worker/1", "worker/2"])

    def round(self, numbers, number):
        """A job of 2 to 5 workers to which something happens every now and then. Returns its longest pause."""
        run, steps = f"random{number}", LONG
        process = self.begin(run, numbers.randint(2, 5), steps, "--max-restarts", 1000, "--heartbeat", 1)
        stopped, done = [], []
        for _ in range(4):
            time.sleep(numbers.uniform(0.05, 0.8))
            if process.poll() is not None:
                break
            what = numbers.choice(("kill", "kill", "stop", "leave", "scale"))
            there = ranks_of(self.folder / run)
            rank = numbers.choice(sorted(there)) if there else None
            if rank is None or (what == "leave" and not rank):
                continue
            done.append((what, rank))
            if what == "scale":
                subprocess.run([support.SHOAL, "scale", self.folder / run, "--workers", str(numbers.randint(2, 5))],
                               cwd=self.folder, capture_output=True, timeout=60)
                continue
            try:
                os.kill(there[rank], {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "leave": signal.SIGTERM}[what])
            except ProcessLookupError:
                continue
            if what == "stop" and rank: # rank 0 is killed for that
                stopped.append(there[rank])
        for pid in stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        s, _ = self.ends(process, run, steps)
        if ROUNDS:
            print(number, done, len(s["membership"]), "changes, pause", round(s["pause_seconds_max"], 2), flush=True)
        return s["pause_seconds_max"]

    def test_at_random(self):
        pauses = sorted(self.round(random.Random(self.seed + n), n) for n in range(FIRST, FIRST + (ROUNDS or 1)))
        if ROUNDS:
            print(f"{ROUNDS} jobs: longest pause {pauses[-1]:.2f} s, median {pauses[len(pauses) // 2]:.2f} s, "
                  f"{sum(p > PAUSE for p in pauses)} above {PAUSE} s")


class TlsElastic(Elastic):
    """The same, encrypted."""
    seed = 2000
    test_one_leaves_while_rank_0_is_away = test_all_that_are_left_die = test_the_others_go_on_without_it = test_a_stalled_rank_is_dropped_and_takes_part_again = None

    @property
    def flags(self):
        folder = self.shared / "keys"
        if not folder.exists():
            self.shoal("keygen", folder)
        return ["--transport", "tls", "--keys", folder]


if __name__ == "__main__":
    support.main()
