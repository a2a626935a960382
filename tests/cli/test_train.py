"""Training end to end: what is shown, what is left behind."""
import json
import os
import pty
import re
import select
import subprocess
import time

import support

NUMBER = (int, float)
KEYS = {
    "model": str, "strategy": str, "mode": str, "workers": int, "ps": int, "threads": int, "batch_size": int,
    "global_batch": int, "epochs": int, "steps": int, "updates": int, "examples": int, "seconds": NUMBER,
    "examples_per_second": NUMBER, "steps_per_second": NUMBER, "final_loss": NUMBER, "test_accuracy": NUMBER,
    "parameters": int, "tasks": list, "startup_seconds": NUMBER, "eval_seconds": NUMBER, "status": str,
}
TASK_KEYS = {
    "role": str, "index": int, "pid": int, "seconds": NUMBER, "cpu_percent_mean": NUMBER, "cpu_percent_peak": NUMBER,
    "rss_peak_bytes": int, "net_sent_bytes": int, "net_received_bytes": int, "disk_read_bytes": int,
    "disk_written_bytes": int, "steps": int, "examples": int, "test_accuracy": NUMBER,
}


class Train(support.Case):
    def on_terminal(self, arguments, columns=100, env=None):
        """Runs the command on a terminal of its own; returns (exit status, all that was written)."""
        parent, child = pty.openpty()
        subprocess.run(["stty", "cols", str(columns), "rows", "24"], stdin=child, check=True)
        process = subprocess.Popen([support.SHOAL, *map(str, arguments)], cwd=self.folder, stdin=child, stdout=child,
                                   stderr=child, env=self.environment(TERM="xterm", **(env or {})))
        os.close(child)
        output, end = b"", time.monotonic() + support.SECONDS
        while time.monotonic() < end:
            if select.select([parent], [], [], 1)[0]:
                try:
                    piece = os.read(parent, 65536)
                except OSError:
                    break
                if not piece:
                    break
                output += piece
        os.close(parent)
        return process.wait(timeout=10), output.decode()

    def test_mnist_piped(self):
        out, err = self.shoal("train", "softmax", "--epochs", 1, "--run-dir", "r")
        self.assertEqual(err, "")
        self.assertNotIn("\r", out)
        self.assertNotIn("\033", out)
        self.assertIn("epoch 1/1", out)
        for head in ("model", "strategy", "updates", "examples/s", "task", "worker/0"):
            self.assertIn(head, out)
        self.assertIn("shoal eval r", out)
        summary = self.summary("r")
        for key, kind in KEYS.items():
            self.assertIsInstance(summary[key], kind, key)
        for key, kind in TASK_KEYS.items():
            self.assertIsInstance(summary["tasks"][0][key], kind, key)
        self.assertEqual(len(summary["tasks"]), summary["workers"])
        self.assertEqual(summary["model"], "softmax")
        self.assertEqual(summary["strategy"], "single")
        self.assertEqual(summary["batch_size"], 200)
        self.assertEqual(summary["steps"], 300)
        self.assertEqual(summary["examples"], 60000)
        self.assertEqual(summary["parameters"], 7850)
        self.assertEqual(summary["status"], "finished")
        self.assertGreater(summary["test_accuracy"], 0.89)
        self.assertLess(summary["test_accuracy"], 1)
        lines = [json.loads(line) for line in (self.folder / "r" / "metrics.jsonl").read_text().splitlines()]
        lines = [line for line in lines if line["kind"] in ("step", "epoch")]
        epochs = [line for line in lines if line["kind"] == "epoch"]
        self.assertEqual(len(epochs), 1)
        for line in lines:
            for key in ("step", "epoch", "loss", "accuracy", "examples_per_second", "seconds", "rate"):
                self.assertIn(key, line)
        settings = json.loads((self.folder / "r" / "settings.json").read_text())
        self.assertEqual(settings["flags"]["batch-size"], 200)

    def test_terminal_shows_one_live_line(self):
        # Slow enough for several redraws.
        flags = ["train", "lenet", "--data", self.data, "--steps", 100, "--kernels", "generic", *support.FEW,
                 "--no-checkpoints", "--run-dir"]
        for columns, env in ((100, {}), (40, {"NO_COLOR": "1"})):
            status, out = self.on_terminal([*flags, f"r{columns}"], columns, env)
            self.assertEqual(status, 0, out)
            drawn = re.findall(r"\r([^\r\n]*)\033\[K", out)
            live = [re.sub(r"\033\[[0-9;]*m", "", line) for line in drawn if "epoch" in line]
            self.assertTrue(live, out)
            self.assertLessEqual(max(map(len, live)), columns - 1)
            self.assertIn("step", live[-1])
            self.assertIn("worker/0", out)
            coloured = re.search(r"\033\[[0-9;]*m", out)
            self.assertEqual(bool(coloured), not env, "colours, unless NO_COLOR is set")

    def test_quiet_prints_the_tables_only(self):
        out, err = self.train("softmax", "r", "--epochs", 2, "--quiet")
        self.assertEqual(err, "")
        self.assertNotIn("epoch 1", out)
        self.assertNotIn("The run is in", out)
        self.assertIn("softmax", out)

    def test_standard_run_folder(self):
        self.shoal("train", "softmax", "--data", self.data, "--steps", 3, *support.FEW)
        self.shoal("train", "softmax", "--data", self.data, "--steps", 3, *support.FEW)
        runs = [p.name for p in (self.folder / "runs").iterdir()]
        self.assertEqual(len(runs), 2)
        for name in runs:
            self.assertRegex(name, r"^softmax-\d{8}-\d{6}(-\d+)?$")

    def test_a_run_is_never_written_over(self):
        self.train("softmax", "r", "--steps", 3)
        before = {p: p.read_bytes() for p in (self.folder / "r").rglob("*") if p.is_file()}
        _, err = self.train("softmax", "r", "--steps", 3, expect=2)
        self.assertIn("--resume", err)
        self.assertIn("--run-dir", err)
        self.assertEqual(before, {p: p.read_bytes() for p in (self.folder / "r").rglob("*") if p.is_file()})

    def test_every_optimizer_and_schedule(self):
        for i, name in enumerate(("sgd", "momentum", "adagrad", "rmsprop", "adam", "ftrl")):
            self.train("softmax", f"o{i}", "--optimizer", name, "--lr", 0.05, "--epochs", 3, "--batch-size", 32)
            self.assertGreater(self.summary(f"o{i}")["test_accuracy"], 0.5, name)
        for i, flags in enumerate((["staircase", "--decay-factor", 0.5], ["exponential"],
                                   ["cosine", "--final-lr", 0.001, "--warmup", 5],
                                   ["piecewise", "--pieces", "10:0.1,20:0.01"])):
            self.train("softmax", f"s{i}", "--epochs", 2, "--batch-size", 32, "--schedule", *flags)
            summary = self.summary(f"s{i}")
            self.assertLess(summary["final_learning_rate"], summary["learning_rate"], flags)

    def test_usual_rates(self):
        """Of the model with its own optimizer, otherwise of the optimizer."""
        for flags, rate in (([], 0.5), (["--optimizer", "sgd"], 0.5), (["--optimizer", "adam"], 0.001),
                            (["--optimizer", "adam", "--lr", 0.25], 0.25)):
            run = f"rate{len(flags)}{rate}"
            self.train("softmax", run, "--steps", 1, "--no-checkpoints", *flags)
            self.assertEqual(self.summary(run)["learning_rate"], rate, flags)

    def test_validation_patience_and_top_k(self):
        out, err = self.train("softmax", "r", "--epochs", 50, "--validation-split", 0.25, "--patience", 2, "--lr", 100,
                              "--batch-size", 64, "--top-k", 3)
        summary = self.summary("r")
        self.assertEqual(summary["status"], "stopped early")
        self.assertLess(summary["epochs"], 50)
        self.assertGreaterEqual(summary["test_top_k"], summary["test_accuracy"])
        self.assertTrue((self.folder / "r" / "checkpoints" / "best.safetensors").exists())
        # The best epoch is told, its weights are those left, and its figures stand in the table.
        best = summary["best_epoch"]
        self.assertEqual(best, summary["epochs"] - 2)
        self.assertIn(f"stopped early after epoch {best + 2}", err)
        self.assertIn(f"the weights of epoch {best} are taken", err)
        self.assertRegex(out, r"validation\s+validation")
        lines = [json.loads(line) for line in (self.folder / "r" / "metrics.jsonl").read_text().splitlines()]
        epochs = [line for line in lines if line["kind"] == "epoch"]
        self.assertEqual(min(line["validation_loss"] for line in epochs), summary["validation_loss"])
        self.assertEqual(epochs[best - 1]["validation_loss"], summary["validation_loss"])
        # Test rows are tested after each epoch, and the weights taken once more.
        tests = [line for line in lines if line["kind"] == "eval"]
        self.assertEqual([t["step"] for t in tests], [line["step"] for line in epochs] + [summary["updates"]])
        self.assertAlmostEqual(tests[best - 1]["accuracy"], summary["test_accuracy"], places=9)
        self.assertEqual(" ".join(out.split()).count("test accuracy"), len(epochs))

    def test_lenet(self):
        self.train("lenet", "r", "--epochs", 6, "--batch-size", 32, "--activation", "relu", "--pool", "max",
                   "--optimizer", "momentum", "--lr", 0.01)
        self.assertGreater(self.summary("r")["test_accuracy"], 0.5)

    def test_same_seed_same_weights(self):
        for run, seed in (("a", 3), ("b", 3), ("c", 4)):
            self.train("softmax", run, "--epochs", 2, "--seed", seed)
        a, b, c = ((self.folder / run / "model.safetensors").read_bytes() for run in "abc")
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)


support.main()
