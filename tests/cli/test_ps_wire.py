"""Fewer bytes between workers and parameter servers: wire formats and local steps, by the real command."""
import os
import random
import signal
import subprocess
import time

import support
import test_replicas
from test_cluster import tasks_of


class Bytes(support.Case):
    def ps(self, run, *flags, model="softmax", **options):
        return self.train(model, run, "--workers", 2, "--ps", 1, "--batch-size", 16, *flags, **options)

    def traffic(self, run):
        """Bytes of all workers, sent and received."""
        workers = [t for t in self.summary(run)["tasks"] if t["role"] == "worker"]
        return sum(t["net_sent_bytes"] for t in workers), sum(t["net_received_bytes"] for t in workers)

    def test_formats_over_tls(self):
        """As good as f32, with the bytes that each format promises, encrypted or not."""
        self.shoal("keygen", "keys")
        shares = {"f32": 1, "bf16": 0.5, "fp16": 0.5, "int8": 0.25 + 1 / 256, "topk": 24 / 1024}
        for mode in ("sync", "async"):
            steps = []
            for wire, share in shares.items():
                run = f"{mode}-{wire}"
                keys = ["--keys", "keys"] if wire in ("f32", "int8") else []
                self.ps(run, "--mode", mode, "--epochs", 6, "--wire", wire, "--transport", "tls", "--no-checkpoints", *keys)
                s = self.summary(run)
                steps.append(s["steps"])
                self.assertGreater(s["test_accuracy"], self.summary(f"{mode}-f32")["test_accuracy"] - 0.02, run)
                gradients = steps[0] * (2 if mode == "sync" else 1)
                for sent, whole in zip(self.traffic(run), (2, 5)):  # the upload; the first parameters and the last
                    self.assertLess(sent, gradients * (7850 * 4 * share * 1.01 + 350) + whole * 7850 * 4 + 20000, run)
            self.assertEqual(len(set(steps)), 1)

    def test_local_steps(self):
        """One exchange in so many steps; each row of an epoch once."""
        for mode in ("sync", "async"):
            for momentum in (0, 0.5):
                run = f"{mode}-{momentum}"
                self.ps(run, "--mode", mode, "--epochs", 8, "--local-steps", 4, "--outer-momentum", momentum)
                s = self.summary(run)
                self.assertEqual(s["examples"], 8 * 512)
                self.assertEqual(s["steps"], 8 * 512 // 64 // (2 if mode == "sync" else 1))
                self.assertGreater(s["test_accuracy"], 0.95, run)

    def test_the_best_format_is_chosen(self):
        _, err = self.ps("chosen", "--epochs", 3, "--compress", "auto")
        self.assertRegex(err, r"compress auto: (f32|bf16|int8|topk), [\d.]+ ms a step, ")

    def test_streamed_and_resumed(self):
        """What was left out begins with zeros again, as do the servers' momentum and the slots of others; rows do not."""
        for run, flags in {"topk": ["--wire", "topk"], "local": ["--local-steps", 2, "--outer-momentum", 0.5]}.items():
            for mode in ("sync", "async"):
                name = f"{run}-{mode}"
                stream = ["--stream"] if mode == "async" else []
                self.ps(name, "--mode", mode, "--epochs", 2, "--checkpoint-every", 5, *stream, *flags)
                self.ps(name, "--epochs", 5, "--resume")
                self.assertEqual(self.summary(name)["examples"], 5 * 512, name)
                self.assertGreater(self.summary(name)["test_accuracy"], 0.9, name)

    def test_a_killed_worker_and_more_servers(self):
        for run, flags in {"topk": ["--wire", "topk"], "int8": ["--wire", "int8", "--mode", "async"],
                           "local": ["--local-steps", 4, "--outer-momentum", 0.5]}.items():
            folder = self.folder / run
            process = subprocess.Popen(
                [support.SHOAL, "train", "softmax", "--data", self.data, "--run-dir", folder, "--workers", "2", "--ps", "1",
                 "--batch-size", "16", "--epochs", "150", "--threads", "1", "--log-every", "5", "--quiet", *map(str, flags)],
                cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment())
            self.addCleanup(process.kill)
            end = time.monotonic() + 30
            while not support.has_begun(folder) and process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            os.kill(tasks_of(folder)["worker:1"], signal.SIGKILL)
            self.shoal("scale", folder, "--ps", 2)
            out, _ = process.communicate(timeout=support.SECONDS)
            self.assertEqual(process.returncode, 0, out)
            s = self.summary(run)
            self.assertEqual(s["examples"], 150 * 512)
            self.assertEqual(len([t for t in s["tasks"] if t["role"] == "ps"]), 2)
            self.assertGreater(s["test_accuracy"], 0.95, run)

    def test_wrong_flags(self):
        for number, (flags, words) in enumerate((
                (["--compress", "powersgd"], "use --wire topk"), (["--wire", "int8", "--deterministic"], "leave one out"),
                (["--wire", "bf16", "--deterministic"], "leave one out"),
                (["--local-steps", 2, "--deterministic"], "leave one out"),
                (["--local-steps", 2, "--mode", "async", "--in-flight", 2], "leave one out"),
                (["--local-steps", 2, "--accumulate", 2], "leave one out"),
                (["--local-steps", 2, "--compress", "auto"], "leave one out"),
                (["--compress", "auto", "--wire", "bf16"], "chooses the --wire"),
                (["--compress-rank", 2], "does not apply"), (["--outer-momentum", 0.9], "add --local-steps"))):
            with self.subTest(flags=flags):
                _, err = self.ps(f"wrong{number}", *flags, expect=2)
                self.assertIn(words, err)
        _, err = self.ps("sparse", "--wire", "topk", model="sparse-lr", expect=2)
        self.assertIn("only what a batch touches travels", err)


class Replicated(test_replicas.Replicas):
    """A backup that takes over sends whole parameters first, since it does not know what workers have."""
    test_sync_has_the_same_bits = test_async_rows_of_a_table_each_once = None

    def test_servers_are_replaced(self):
        for mode in ("sync", "async"):
            s = self.replicated(mode, "softmax", "--data", self.data, "--workers", 2, "--mode", mode, "--batch-size", 16,
                                "--wire", "topk" if mode == "sync" else "int8", "--epochs", 250)
            self.assertEqual(s["examples"], 250 * 512)
            self.assertGreater(s["test_accuracy"], 0.95)


if __name__ == "__main__":
    support.main()
