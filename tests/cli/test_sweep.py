"""shoal sweep, shoal reproduce and --scale-lr."""
import csv
import signal
import subprocess
import time

import support
import test_page


class Sweep(support.Case):
    def sweep(self, folder, *flags, expect=0):
        return self.shoal("sweep", "softmax", "--data", self.data, "--run-dir", folder, "--threads", 1, *flags, expect=expect)

    def rows(self, folder):
        with open(self.folder / folder / "results.csv", newline="") as f:
            return list(csv.DictReader(f))

    def test_every_combination_once(self):
        out, _ = self.sweep("grid", "--batch-size", "16,32", "--lr", "0.1,0.5", "--epochs", 2)
        rows = self.rows("grid")
        self.assertEqual([(r["batch-size"], r["lr"]) for r in rows], [("16", "0.1"), ("16", "0.5"), ("32", "0.1"), ("32", "0.5")])
        for r in rows:
            summary = self.summary(f"grid/{r['run']}")
            self.assertEqual((summary["batch_size"], summary["learning_rate"]), (int(r["batch-size"]), float(r["lr"])))
            self.assertAlmostEqual(float(r["test_accuracy"]), summary["test_accuracy"])
            self.assertEqual(int(r["updates"]), summary["updates"])
        self.assertIn("[4/4] batch-size=32,lr=0.5", out)
        self.assertEqual(len((self.folder / "grid" / "results.md").read_text().splitlines()), 6)
        # A finished sweep is not run again, and not overwritten.
        before = [(self.folder / "grid" / r["run"] / "summary.json").stat().st_mtime_ns for r in rows]
        self.shoal("sweep", "--resume", "--run-dir", "grid")
        self.assertEqual(before, [(self.folder / "grid" / r["run"] / "summary.json").stat().st_mtime_ns for r in rows])
        self.assertIn("already contains a sweep", self.sweep("grid", "--lr", "0.1,0.2", expect=2)[1])
        self.assertIn("other settings", self.sweep("grid", "--lr", "0.1,0.2", "--resume", expect=2)[1])

    def test_repeats_have_their_own_seeds(self):
        out, _ = self.sweep("grid", "--lr", "0.01,0.5", "--epochs", 1, "--repeats", 3, "--seed", 7)
        seeds = [self.summary(f"grid/{r['run']}")["seed"] for r in self.rows("grid")]
        self.assertEqual(seeds, [7, 8, 9] * 2)
        self.assertIn("+-", out)
        if test_page.has_page():
            data, _ = test_page.page_data(self.folder / "grid" / "report.html")
            self.assertEqual(data["sweeps"][0]["sweep"]["axes"], [{"flag": "lr", "values": ["0.01", "0.5"]}])
            self.assertEqual(len(data["runs"]), 6)

    def test_one_worker_among_several_is_a_process_alone(self):
        grid = ("--workers", "1,2", "--mode", "sync,async", "--batch-size", 32, "--epochs", 1, "--lr", 0.1)
        commands = self.sweep("grid", *grid, "--dry-run")[0].splitlines()
        self.assertEqual([("--workers 2" in c, "--mode" in c) for c in commands], [(False, False)] * 2 + [(True, True)] * 2)
        out, _ = self.sweep("grid", *grid)
        ran = [self.summary(f"grid/{r['run']}") for r in self.rows("grid")]
        self.assertEqual([(s["strategy"], s["workers"], s["ps"]) for s in ran], [("single", 1, 0)] * 2 + [("ps", 2, 1)] * 2)
        # One schedule whatever the mode, and the tables say which.
        self.assertEqual([s["mode"] for s in ran[2:]], ["sync", "async"])
        self.assertEqual({s["schedule"] for s in ran} | {r["schedule"] for r in self.rows("grid")}, {"constant"})
        self.assertIn("constant", out)
        self.assertIn("--mode does not apply", self.sweep("other", "--workers", 1, "--mode", "sync,async", expect=2)[1])

    def test_flags_without_value_and_texts(self):
        out, _ = self.sweep("grid", "--optimizer", "momentum", "--nesterov=yes,no", "--format", "idx", "--dry-run", "--trace", "--columns",
                            "a,b", "--columns", "c,d")
        lines = out.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertIn("--trace 20", lines[0])
        self.assertEqual([("--nesterov" in x, "a,b" in x) for x in lines], [(True, True), (True, False), (False, True), (False, False)])
        self.assertFalse((self.folder / "grid").exists())

    def test_a_run_that_fails_does_not_end_the_others(self):
        out, _ = self.sweep("grid", "--epochs", 1, "--batch-size", 16, "--lr", "0.1,1e38", expect=1)
        self.assertIn("1 of 2 runs failed", out)
        rows = self.rows("grid")
        self.assertTrue(float(rows[0]["test_accuracy"]) > 0)
        self.assertIn("loss", rows[1]["error"])

    def test_wrong_use(self):
        for flags, words in ((("--batch-sise", "1,2"), "did you mean --batch-size"), (("--lr", "0.1,x"), "not 'x'"),
                             (("--lr", "0.1,0.1"), "twice"), (("--keys", "k"), "this machine only"),
                             (("--seed", "1,2", "--repeats", 2), "leave the list of --seed out"), (("--lr",), "needs a value")):
            self.assertIn(words, self.sweep("grid", *flags, expect=2)[1], flags)
        self.assertIn("which model", self.shoal("sweep", "--lr", "0.1", expect=2)[1])
        self.assertIn("needs --run-dir", self.shoal("sweep", "--resume", expect=2)[1])
        self.assertFalse((self.folder / "grid" / "sweep.json").exists())

    def test_ctrl_c_and_going_on(self):
        arguments = ["sweep", "softmax", "--data", str(self.data), "--run-dir", "grid", "--threads", "1", "--batch-size", "8",
                     "--seed", "1,2,3", "--steps", "60000", "--checkpoint-every", "20000"]
        process = subprocess.Popen([support.SHOAL, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment())
        second = self.folder / "grid" / "seed=2" / "metrics.jsonl"
        end = time.monotonic() + 60
        while not (second.exists() and second.stat().st_size):
            self.assertLess(time.monotonic(), end)
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertIn("shoal sweep --resume --run-dir grid", out)
        self.assertEqual(self.summary("grid/seed=2")["status"], "interrupted")
        self.assertFalse((self.folder / "grid" / "seed=3").exists())
        out, _ = self.shoal("sweep", "--resume", "--run-dir", "grid")
        self.assertIn("Done already: 1 of 3 runs.", out)
        for seed in (1, 2, 3):
            summary = self.summary(f"grid/seed={seed}")
            self.assertEqual((summary["status"], summary["steps"]), ("finished", 60000))
        self.assertIsNotNone(self.summary("grid/seed=2")["resumed_from"])

    def test_scaled_rate(self):
        flags = ("--epochs", 4, "--batch-size", 8, "--lr", 0.05)
        self.train("softmax", "scaled", *flags, "--workers", 2, "--scale-lr")
        summary = self.summary("scaled")
        self.assertEqual((summary["learning_rate"], summary["effective_learning_rate"]), (0.05, 0.1))
        self.assertAlmostEqual(summary["final_learning_rate"], 0.1)
        # It warms up: the first epoch learns less than with the whole rate, and the rest at the whole rate.
        self.train("softmax", "whole", "--epochs", 4, "--batch-size", 16, "--lr", 0.1)
        self.assertNotEqual(summary["final_loss"], self.summary("whole")["final_loss"])
        self.assertAlmostEqual(summary["final_loss"], self.summary("whole")["final_loss"], delta=0.05)
        self.train("softmax", "bare", "--epochs", 4, "--batch-size", 8, "--lr", 0.05, "--scale-lr")
        self.assertEqual(self.summary("bare")["effective_learning_rate"], 0.05)
        _, err = self.shoal("train", "softmax", "--data", self.data, "--workers", 2, "--mode", "async", "--scale-lr", expect=2)
        self.assertIn("--scale-lr does not apply to --mode async", err)


class Reproduce(support.Case):
    def test_every_experiment_is_a_command_or_refused(self):
        out, _ = self.shoal("reproduce", "--list")
        ids = [line.split()[0] for line in out.splitlines()]
        self.assertEqual(ids, ["A1", "A2", "A3", "A4", "A5", "B1", "B2", "B3", "B4", "C1", "C2", "D1", "D2", "D3", "D4", "D5", "E"])
        models = self.shoal("help")[0]
        for name, model in (("C1", "alexnet"), ("D2", "sparse-lr"), ("E", "matmul")):
            if model not in models:
                self.assertIn(f"needs the {'command shoal' if name == 'E' else 'model'} {model}",
                              self.shoal("reproduce", name, expect=2)[1])
        for name in ids[:9]:
            out, _ = self.shoal("reproduce", name, "--dry-run")
            self.assertGreaterEqual(len(out.splitlines()), 1)
        self.assertIn("did you mean B1", self.shoal("reproduce", "B11", expect=2)[1])

    def test_beside_what_was_reported(self):
        out, _ = self.shoal("reproduce", "A1", "--run-dir", "a1")
        self.assertIn("92.63 %", out)
        own = f"{100 * self.summary('a1/1-node')['test_accuracy']:.2f} %"
        for name in ("comparison.md", "comparison.csv", "comparison.json"):
            text = (self.folder / "a1" / name).read_text()
            self.assertIn(own, text)
            self.assertIn("121 s", text)
        before = (self.folder / "a1" / "1-node" / "summary.json").stat().st_mtime_ns
        self.shoal("reproduce", "A1", "--run-dir", "a1")
        self.assertEqual(before, (self.folder / "a1" / "1-node" / "summary.json").stat().st_mtime_ns)


if __name__ == "__main__":
    support.main()
