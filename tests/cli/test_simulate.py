"""shoal simulate: its output and files; and beside a real job in a lab, where namespaces are permitted."""
import json
import subprocess
import sys
import unittest

import support
import test_lab

sys.path.insert(0, str(support.ROOT / "tools"))
import smpi


class Simulate(support.Case):
    def simulate(self, *words):
        done = subprocess.run([support.SHOAL, "simulate", *map(str, words)], cwd=self.folder, text=True, capture_output=True,
                              env=self.environment(), timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_files(self):
        words = ["--workers", 20, "--ps", 2, "--compute", "5ms", "--sigma", 0.3, "--rate", "1gbit", "--delay", "100us", "--seed", 7]
        first, second = (json.loads(self.simulate(*words, "--json", "--run-dir", folder)) for folder in ("a", "b"))
        for one in (first, second):
            del one["real_seconds"]
        self.assertEqual(first, second)
        self.assertEqual(first["updates"], 100)
        lines = [json.loads(line) for line in (self.folder / "a/metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines], list(range(2, 101)))
        self.assertEqual(json.loads((self.folder / "b/summary.json").read_text())["steps_per_second"], first["steps_per_second"])
        self.assertIn("updates/s", self.simulate(*words))

    def test_model(self):
        r = json.loads(self.simulate("--model", "softmax", "--batch-size", 8, "--workers", 2, "--json"))
        self.assertEqual(r["parameters"], 7850)
        self.assertGreater(r["compute_seconds"], 0)

    def test_compress(self):
        """AlexNet on three hosts at 1.8 Gb/s, 3 s of computing a step: 90 % of linear with the advisor's choice. Compressing costs more here than it
        does on any machine that was measured."""
        words = ["--mode", "allreduce", "--rate", "1.8gbit", "--delay", "500us", "--steps", 5, "--parameters", 61100840, "--compute", "3s",
                 "--coding-cost", "4ms", "--json"]
        one = json.loads(self.simulate("--workers", 1, *words))["step_seconds"]["mean"]
        r = json.loads(self.simulate("--workers", 3, "--compress", "auto", *words))
        self.assertIn(r["way"], ("topk", "powersgd"))
        self.assertGreater(one / r["step_seconds"]["mean"], 0.9)
        self.assertLess(one / r["way_seconds"]["f32"], 0.7)
        self.assertIn("travel as", self.simulate("--workers", 3, "--compress", "auto", *words[:-1]))

    @unittest.skipUnless(test_lab.namespaces_permitted(), "network namespaces are not permitted here, or iproute2 is missing")
    def test_lab(self):
        """A machine that is busy is slower than the network says, so the upper limit is wide."""
        done = subprocess.run([support.SHOAL, "lab", "--hosts", "3", "--rate", "10mbit", "--delay", "1ms", "--", "train", "softmax",
                               "--data", self.data, "--workers", "2", "--ps", "1", "--steps", "40", "--batch-size", "10", "--threads", "1",
                               "--no-checkpoints", "--run-dir", "real"], cwd=self.folder, capture_output=True, text=True,
                              env=self.environment(), timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        real = self.summary("real")
        said = json.loads(self.simulate("--workers", 2, "--parameters", real["parameters"], "--rate", "10mbit", "--delay", "1ms",
                                        "--compute", "0.2ms", "--json"))
        self.assertLess(real["steps_per_second"], 1.3 * said["steps_per_second"])
        self.assertGreater(real["steps_per_second"], said["steps_per_second"] / 3)

    @unittest.skipUnless(smpi.installed(), "SimGrid is not installed here (Debian: libsimgrid-dev)")
    def test_smpi(self):
        """The all-reduce beside the same exchange of SimGrid's SMPI, whose model of the network is another one."""
        with smpi.Smpi() as other:
            for ranks, numbers, algorithm in ((4, 10 ** 6, "direct"), (8, 10 ** 5, "direct"), (8, 1000, "whole")):
                with self.subTest(ranks=ranks, numbers=numbers):
                    ours = smpi.simulated(support.SHOAL, ranks, numbers, "1.8gbit", "100us")
                    self.assertAlmostEqual(ours / other.seconds(algorithm, ranks, numbers, "1.8gbit", "100us"), 1, delta=0.1)


if __name__ == "__main__":
    support.main()
