#!/usr/bin/env python3
"""That the campaign sees a job that hangs: one that writes on and on, and makes no step."""
import json
import pathlib
import tempfile
import unittest

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


if __name__ == "__main__":
    unittest.main()
