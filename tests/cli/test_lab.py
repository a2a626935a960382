"""shoal lab: hosts as network namespaces of this machine. Skips where those are not permitted."""
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import support

LATEST = 120


def namespaces_permitted():
    ip = shutil.which("ip", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    name = f"shoal-test-{os.getpid()}"
    if not ip or subprocess.run([ip, "netns", "add", name], capture_output=True).returncode:
        return False
    subprocess.run([ip, "netns", "del", name], check=True)
    return True


def namespaces(pid=""):
    folder = pathlib.Path("/run/netns")
    return sorted(p.name for p in folder.glob(f"lab{pid}*-*")) if folder.is_dir() else []


@unittest.skipUnless(namespaces_permitted(), "network namespaces are not permitted here, or iproute2 is missing")
class Lab(support.Case):
    def lab(self, *words):
        own = words.index("--")
        done = subprocess.run([support.SHOAL, "lab", *map(str, words[:own]), "--", "train", *map(str, words[own + 1:])],
                              cwd=self.folder, text=True, capture_output=True, env=self.environment(), timeout=LATEST)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def flags(self, run, *more):
        return ["softmax", "--data", self.data, "--run-dir", run, "--no-checkpoints", "--threads", 1, *more]

    def test_servers_have_hosts_of_their_own(self):
        """And the bits are those of a cluster of processes."""
        job = ["--workers", 2, "--ps", 1, "--epochs", 2, "--deterministic"]
        done = self.lab("--hosts", 3, "--", *self.flags("lab", *job))
        for line in ("-1 (10.77.0.1): worker/0", "-2 (10.77.0.2): worker/1", "-3 (10.77.0.3): ps/0"):
            self.assertIn(line, done.stderr)
        self.shoal("train", *self.flags("here", *job))
        self.assertEqual((self.folder / "lab/model.safetensors").read_bytes(),
                         (self.folder / "here/model.safetensors").read_bytes())

    def test_links_are_as_slow_as_said(self):
        """A lower limit: a machine that is busy takes longer still."""
        self.lab("--hosts", 2, "--rate", "20mbit", "--", *self.flags("slow", "--workers", 1, "--steps", 60))
        s = self.summary("slow")
        sent = next(t for t in s["tasks"] if t["role"] == "worker")["net_sent_bytes"]
        self.assertGreater(s["seconds"], 0.8 * 8 * (sent - 200000) / 20e6)

    def test_delay(self):
        self.lab("--hosts", 2, "--delay", "5ms", "--", *self.flags("late", "--workers", 1, "--steps", 40))
        self.assertGreater(self.summary("late")["seconds"], 0.9 * 40 * 2 * 0.005)

    def test_allreduce(self):
        self.lab("--hosts", 3, "--rate", "1gbit", "--", *self.flags("ranks", "--strategy", "allreduce", "--epochs", 1))
        s = self.summary("ranks")
        self.assertEqual((s["status"], s["strategy"], s["workers"]), ("finished", "allreduce", 3))

    def test_wrong_use(self):
        for flags, words in ((["--rate", "fast"], "--rate: expected a rate"), (["--delay", "5"], "--delay: expected a time"),
                             (["--hosts", "0"], "--hosts")):
            done = subprocess.run([support.SHOAL, "lab", *flags, "--", "train", "softmax"], cwd=self.folder, text=True,
                                  capture_output=True, env=self.environment(), timeout=LATEST)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)

    def test_a_killed_lab_leaves_nothing(self):
        """Its tasks end with it; its namespaces are removed by the next lab."""
        process = subprocess.Popen([support.SHOAL, "lab", "--hosts", "2", "--", "train",
                                    *map(str, self.flags("killed", "--workers", 1, "--epochs", 100000))], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment())
        self.addCleanup(process.kill)
        end = time.monotonic() + LATEST
        while not support.has_begun(self.folder / "killed") and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(len(namespaces(process.pid)), 3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        while time.monotonic() < end and self.tasks_in("killed"):
            time.sleep(0.05)
        self.assertEqual(self.tasks_in("killed"), [])
        self.lab("--hosts", 2, "--", *self.flags("next", "--workers", 1, "--steps", 2))
        self.assertEqual(namespaces(process.pid), [])

    def tasks_in(self, run):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes()
            except OSError:
                continue
            if b"--task=" in line and f"--run-dir={run}".encode() in line and str(self.folder) == os.path.realpath(path.parent / "cwd"):
                found.append(line)
        return found


if __name__ == "__main__":
    support.main()
