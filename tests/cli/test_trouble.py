"""Data, disks and numbers that go wrong."""
import gzip
import os
import resource
import shutil
import subprocess
import time

import support


class Trouble(support.Case):
    def test_data_that_is_not_there(self):
        _, err = self.shoal("train", "softmax", "--data", "nowhere/at/all", "--run-dir", "r", expect=1)
        self.assertIn("nowhere/at/all", err)
        self.assertFalse((self.folder / "r").exists())

    def damaged(self, name, change):
        folder = self.folder / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.data, folder)
        path = folder / name
        path.write_bytes(change(path.read_bytes()))
        _, err = self.shoal("train", "softmax", "--data", folder, "--run-dir", "r", expect=1)
        self.assertIn(name, err)
        self.assertFalse((self.folder / "r").exists())
        return err

    def test_data_that_is_garbage(self):
        images, labels = "train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
        self.damaged(images, lambda b: b[:len(b) // 2])
        self.damaged(images, lambda b: b"no picture at all")
        self.damaged(images, lambda b: b"")
        self.damaged(labels, lambda b: gzip.compress(gzip.decompress(b) + b"more"))
        self.damaged(labels, lambda b: gzip.compress(gzip.decompress(b)[:-1]))
        self.damaged(labels, lambda b: b[:40] + bytes(x ^ 255 for x in b[40:60]) + b[60:])

    def test_a_loss_that_is_no_number(self):
        _, err = self.train("lenet", "r", "--epochs", 3, "--lr", "1e30", expect=1)
        self.assertRegex(err, r"step \d+")
        self.assertIn("--lr", err)
        summary = self.summary("r")
        self.assertEqual(summary["status"], "failed")
        self.assertIn("step", summary["error"])
        self.assertIsNone(summary["test_accuracy"])

    def test_disk_full_at_a_checkpoint(self):
        """A limit on the size of files stands for a full disk: small files go through, checkpoints do not."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        self.train("softmax", "r", "--epochs", 1)
        before = {p.name: p.read_bytes() for p in (self.folder / "r" / "checkpoints").iterdir()}
        self.assertTrue(before)
        out, err = self.train("softmax", "r", "--epochs", 3, "--resume", expect=1, preexec_fn=limit)
        self.assertIn("checkpoint", err)
        self.assertIn("worker/0", out, "training goes on to its end")
        after = {p.name: p.read_bytes() for p in (self.folder / "r" / "checkpoints").iterdir()}
        self.assertEqual(before, after, "the earlier checkpoint stays, nothing half-written beside it")
        self.train("softmax", "r", "--epochs", 3, "--resume")
        self.assertEqual(self.summary("r")["epochs"], 3)

    def test_a_checkpoint_that_was_damaged(self):
        self.train("softmax", "r", "--epochs", 2)
        newest = sorted((self.folder / "r" / "checkpoints").glob("step-*.safetensors"))[-1]
        newest.write_bytes(newest.read_bytes()[:1000])
        _, err = self.train("softmax", "r", "--epochs", 3, "--resume")
        self.assertIn(newest.name, err)
        self.assertEqual(self.summary("r")["epochs"], 3)

    def test_a_folder_that_goes_away(self):
        """What was in it is lost: no success, and a word of why."""
        for epochs, flags in ((1500, []), (400, ["--workers", "2", "--ps", "1"])):
            run = self.folder / f"r{len(flags)}"
            process = subprocess.Popen(
                [support.SHOAL, "train", "softmax", "--data", self.data, "--epochs", str(epochs), "--batch-size", "16", "--threads", "1",
                 "--quiet", "--run-dir", run, *flags], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                text=True, env=self.environment())
            self.addCleanup(process.kill)
            while process.poll() is None and not support.has_begun(run):
                time.sleep(0.01)
            run.rename(self.folder / f"gone{len(flags)}")
            _, err = process.communicate(timeout=support.SECONDS)
            self.assertEqual(process.returncode, 1, err)
            self.assertIn("was removed or replaced", err)

    def test_settings_that_were_damaged(self):
        self.train("softmax", "r", "--epochs", 1)
        (self.folder / "r" / "settings.json").write_text('{"model": 3}')
        _, err = self.train("softmax", "r", "--epochs", 2, "--resume", expect=1)
        self.assertIn("settings.json", err)

    def test_a_folder_that_cannot_be_made(self):
        (self.folder / "file").write_text("")
        _, err = self.train("softmax", "file/r", expect=1)
        self.assertIn("file", err)
        _, err = self.train("softmax", "file", expect=2)
        self.assertIn("not a folder", err)

    def test_standard_output_that_is_full(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        with open("/dev/full", "w") as full:
            done = subprocess.run([support.SHOAL, "help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


support.main()
