"""Runs that are killed, interrupted and continued."""
import os
import resource
import signal
import subprocess
import time

import support


class Resume(support.Case):
    # Long enough to be caught in the middle, short enough to be run many times.
    FLAGS = ["--epochs", 200, "--batch-size", 16, "--checkpoint-every", 50, "--optimizer", "momentum", "--lr", "0.02",
             *support.FEW]

    def start(self, run, *flags, model="softmax"):
        return subprocess.Popen([support.SHOAL, "train", model, "--data", str(self.data), "--run-dir", run,
                                 *map(str, flags)], cwd=self.folder, env=self.environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_for_checkpoint(self, run, count=1):
        folder, end = self.folder / run / "checkpoints", time.monotonic() + 60
        while len(list(folder.glob("step-*.safetensors"))) < count:
            self.assertLess(time.monotonic(), end, "no checkpoint came")
            time.sleep(0.002)

    def weights(self, run):
        return (self.folder / run / "model.safetensors").read_bytes()

    def test_killed_at_any_moment_ends_with_the_same_bits(self):
        for model, flags in (("softmax", self.FLAGS),
                             ("lenet", ["--epochs", 15, "--batch-size", 32, "--checkpoint-every", 5, *support.FEW])):
            self.train(model, f"{model}-whole", *flags)
            run, kills = f"{model}-killed", 0
            for delay in (0.0, 0.03, 0.1):
                process = self.start(run, *flags, "--resume", model=model)
                if kills == 0:
                    self.wait_for_checkpoint(run)
                time.sleep(delay)
                process.kill()
                process.communicate()
                kills += process.returncode == -signal.SIGKILL
            self.assertGreater(kills, 0)
            self.train(model, run, *flags, "--resume")
            self.assertEqual(self.weights(f"{model}-whole"), self.weights(run), model)
            for key in ("steps", "updates", "examples", "epochs", "test_accuracy"):
                self.assertEqual(self.summary(run)[key], self.summary(f"{model}-whole")[key], key)

    def test_settings_come_back(self):
        self.train("softmax", "r", "--epochs", 1, "--batch-size", 16, "--lr", 0.25, "--seed", 9)
        self.shoal("train", "softmax", "--run-dir", "r", "--resume", "--epochs", 2)
        summary = self.summary("r")
        self.assertEqual((summary["batch_size"], summary["learning_rate"], summary["seed"]), (16, 0.25, 9))
        self.assertEqual((summary["epochs"], summary["resumed_from"]), (2, 32))
        _, err = self.shoal("train", "softmax", "--run-dir", "r", "--resume", "--epochs", 3, "--lr", 0.5, expect=2)
        self.assertIn("lr", err)
        _, err = self.shoal("train", "lenet", "--run-dir", "r", "--resume", expect=2)
        self.assertIn("softmax", err)

    def test_a_resume_that_fails_leaves_the_model(self):
        """No file may grow: it fails before its first checkpoint, or, when only the small ones fit, at it."""
        def limited(bytes_):
            def prepare():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
            return prepare
        self.train("softmax", "r", "--epochs", 2, "--batch-size", 32)
        model = self.folder / "r" / "model.safetensors"
        before = model.read_bytes()
        tested, _ = self.shoal("eval", "r")
        for most in (1024, 20480):
            self.train("softmax", "r", "--resume", "--epochs", 4, expect=1, preexec_fn=limited(most))
            self.assertEqual(model.read_bytes(), before)
            self.assertEqual(self.shoal("eval", "r")[0], tested)
        self.train("softmax", "r", "--resume", "--epochs", 4)
        self.assertNotEqual(model.read_bytes(), before)

    def test_what_a_kill_in_the_middle_of_a_write_left_is_removed(self):
        self.train("softmax", "r", "--epochs", 1)
        (self.folder / "r" / "logs").mkdir()
        left = [self.folder / "r" / "summary.json.99999999.tmp", self.folder / "r" / "logs" / "job.json.99999999.tmp",
                self.folder / "r" / "checkpoints" / "step-000000000001.safetensors.tmp"]
        for path in left:
            path.write_bytes(b"half")
        self.train("softmax", "r", "--resume", "--epochs", 1)
        self.assertEqual([p for p in left if p.exists()], [])

    def test_half_a_line_in_the_metrics_is_cut_off(self):
        self.train("softmax", "r", "--epochs", 1)
        path = self.folder / "r" / "metrics.jsonl"
        whole = path.read_text()
        path.write_text(whole + '{"kind":"st')
        self.train("softmax", "r", "--epochs", 2, "--resume")
        self.assertTrue(path.read_text().startswith(whole))
        self.assertNotIn('{"kind":"st{', path.read_text())

    LONG = ["--epochs", 100000, "--batch-size", 8, "--checkpoint-every", 1000, *support.FEW]

    def test_ctrl_c_saves_and_prints_the_summary(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            run = f"r{status}"
            process = self.start(run, *self.LONG)
            self.wait_for_checkpoint(run)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, status, out + err)
            self.assertIn("Stopping", err)
            self.assertIn("test", out)
            self.assertIn("--resume", out)
            summary = self.summary(run)
            self.assertEqual(summary["status"], "interrupted")
            saved = sorted((self.folder / run / "checkpoints").glob("step-*.safetensors"))[-1].name
            self.assertEqual(int(saved[5:-12]), summary["steps"])
            self.train("softmax", run, *self.LONG[2:], "--resume", "--steps", summary["steps"] + 10)
            self.assertEqual(self.summary(run)["resumed_from"], summary["steps"])

    def test_second_ctrl_c_ends_at_once(self):
        process = self.start("r", *self.LONG)
        self.wait_for_checkpoint("r")
        process.send_signal(signal.SIGSTOP)  # so that both arrive before training can stop by itself
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=20)
        self.assertIn(process.returncode, (130, 143), out + err)
        self.assertLess(time.monotonic() - started, 10)
        self.assertIn("Killed; the last saved checkpoint is complete", err)
        self.assertNotIn("effective", out)
        # What is there is whole: the run goes on.
        self.train("softmax", "r", *self.LONG[2:], "--resume", "--epochs", 1)


support.main()
