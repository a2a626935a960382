#!/usr/bin/env python3
"""That the campaign sees a job that hangs: one that writes on and on, and makes no step."""
import json
import pathlib
import tempfile
import unittest
import unittest.mock

import campaign


class Member:
    """A process that never ends."""

    def poll(self):
        return None


class Hangs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.job = campaign.Job.__new__(campaign.Job)
        self.job.run = pathlib.Path(folder.name)
        self.job.members = {"launcher": Member()}
        self.job.t = campaign.draw(1, False)
        self.job.t.faults = []
        self.path = self.job.run / "metrics.jsonl"
        self.job.reported = campaign.Progress(self.path)

    def say(self, step, rows, task="worker/0", kind="step"):
        with open(self.path, "a") as f:
            f.write(json.dumps({"kind": kind, "task": task, "step": step, "examples": rows}) + "\n")

    def test_lines_are_no_progress(self):
        self.say(5, 50)
        self.say(7, 70, "worker/1")
        before = self.job.progress()
        for _ in range(3):
            self.say(7, 70)
            self.assertEqual(self.job.progress()[0][0], (7, 70))
        self.say(7, 70, kind="epoch")
        self.assertEqual(self.job.progress(), before)
        self.assertFalse(self.job.wait(seconds=0.2))

    def test_steps_are(self):
        before = self.job.progress()
        for step in range(1, 4):
            self.say(step, 10 * step)
            now = self.job.progress()
            self.assertNotEqual(now, before)
            before = now

    def test_a_restart_is_once(self):
        self.say(9, 90)
        before = self.job.progress()
        self.say(3, 30)
        after = self.job.progress()
        self.assertNotEqual(before, after)
        self.say(4, 40)
        self.assertEqual(self.job.progress(), after)

    def test_a_line_that_is_cut_off(self):
        self.say(1, 10)
        with open(self.path, "a") as f:
            f.write('{"kind": "step", "ta')
        before = self.job.progress()
        with open(self.path, "a") as f:
            f.write('sk": "worker/0", "step": 2, "examples": 20}\n')
        self.assertNotEqual(self.job.progress(), before)

    def test_no_trial_lasts_for_ever(self):
        self.assertFalse(self.job.wait(seconds=100, most=0.2))


class Words(unittest.TestCase):
    def test_a_crash_of_mpirun_is_not_ours(self):
        crash = "[vm:{0}] Signal: Segmentation fault (11)\n[vm:{0}] [ 1] libpmix.so.2(+0x7)[0x1]\n[vm:{0}] [10] {1}(+0x11)[0x5]\n"
        said = crash.format(23, "mpirun") + "shoal train: not all ranks have begun\n"
        self.assertIsNone(campaign.BAD_WORDS.search(campaign.own_words(said)))
        self.assertIn("not all ranks", campaign.own_words(said))
        self.assertIsNotNone(campaign.BAD_WORDS.search(campaign.own_words(said + crash.format(24, "build/shoal"))))


class Elastic(unittest.TestCase):
    """Whether a job may end with the rank that a fault has hit."""

    def survives(self, mode, what, rank, training=True):
        with tempfile.TemporaryDirectory() as folder:
            t = campaign.draw(1, False)
            t.mode, t.described, t.workers = mode, False, 2
            t.faults = [campaign.Fault(what, "rank", training, 0, 0)]
            job = campaign.Job(t, unittest.mock.Mock(flags=lambda _: ([], 0, 0)), pathlib.Path(folder))
            job.victim = lambda role, r: (f"rank:{rank}", 1)
            job.send = lambda pid, number: None
            job.inject(t.faults[0], None)
            job.statuses = lambda: {"launcher": 1}
            job.said = lambda: "shoal train: rank 1 has ended"
            campaign.Judge(job, None).ending()
            return [kind for kind, _ in t.problems] == ["elastic"]

    def test_a_rank_is_replaced(self):
        for what in ("kill", "stop", "pause"):
            self.assertTrue(self.survives("elastic", what, 0))
            self.assertFalse(self.survives("allreduce", what, 0)) # by MPI
        self.assertTrue(self.survives("elastic", "term", 1))
        self.assertFalse(self.survives("elastic", "term", 0)) # which stops all
        self.assertFalse(self.survives("elastic", "kill", 1, training=False))


class Leftovers(unittest.TestCase):
    def test_only_a_second_signal_ends_at_once(self):
        t = campaign.draw(1, False)
        t.described = False
        for signals, at_once in ((["term"], False), (["int", "pause"], False), (["int", "int"], True), (["term", "int"], True)):
            job = campaign.Job(t, unittest.mock.Mock(flags=lambda _: ([], 0, 0)), pathlib.Path("."))
            for what in signals:
                job.note_signal("launcher", what)
                job.note_signal("worker:1", what) # whose files the command takes away
            self.assertEqual(job.at_once, at_once, signals)


if __name__ == "__main__":
    unittest.main()
