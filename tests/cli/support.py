"""Shared by the tests of the command: runs the real binary, makes small data sets."""
import gzip
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SHOAL = os.environ["SHOAL_BIN"]
ROOT = pathlib.Path(os.environ["SHOAL_ROOT"])
SECONDS = 240  # no single run of the command may take longer
FEW = ["--threads", "1"]


def write_idx(path, shape, data):
    with gzip.GzipFile(path, "wb", compresslevel=1, mtime=0) as f:
        f.write(struct.pack(">BBBB", 0, 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + data)


def make_data(folder, rows=512, test_rows=128):
    """Ten classes, each a bright bar at its own height, with noise: easy to learn, quick to read."""
    folder.mkdir(parents=True)
    numbers = random.Random(7)
    for prefix, n in (("train", rows), ("t10k", test_rows)):
        labels = bytes(numbers.randrange(10) for _ in range(n))
        pixels = bytearray()
        for label in labels:
            image = bytearray(numbers.choices((0, 0, 0, 0, 60), k=784))
            for row in (2 * label + 4, 2 * label + 5):
                image[28 * row + 4:28 * row + 24] = bytes([200]) * 20
            pixels += image
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", (n, 28, 28), bytes(pixels))
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", (n,), labels)


def has_begun(run):
    """Whether the run in that folder has made steps."""
    path = run / "metrics.jsonl"
    return path.exists() and any(f'"kind":"{kind}"' in path.read_text() for kind in ("step", "epoch"))


def children(pid):
    """The processes it has started and that are still there."""
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Case(unittest.TestCase):
    """A test with a folder of its own, in which the command runs."""
    PATIENCE = 30  # seconds

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="shoal-cli-"))
        cls.data = cls.shared / "bars"
        make_data(cls.data)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.shared))

    def environment(self, **more):
        return {**os.environ, "SHOAL_DATA": str(ROOT / "data"), **more}

    def shoal(self, *arguments, expect=0, **options):
        """Runs the command; returns (standard output, standard error)."""
        done = subprocess.run([SHOAL, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              timeout=SECONDS, env=self.environment(**options.pop("env", {})), **options)
        what = f"shoal {' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}"
        self.assertEqual(done.returncode, expect, what)
        return done.stdout, done.stderr

    def in_background(self, *arguments, **options):
        """The command in the background, ended with the test."""
        process = subprocess.Popen([SHOAL, *map(str, arguments)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=self.environment(), **options)
        self.addCleanup(self.put_away, process)
        return process

    def put_away(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def wait_for(self, condition, what, process=None, seconds=None):
        """process: must not end meanwhile."""
        seconds = seconds or self.PATIENCE
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            if process and process.poll() is not None:
                out, err = process.communicate()
                self.fail(f"{what}: the job ended with {process.returncode} before: {out}\n{err}")
            time.sleep(0.005)
        self.fail(f"{what}: not within {seconds} s")

    def train(self, model, run, *flags, expect=0, **options):
        return self.shoal("train", model, "--data", self.data, "--run-dir", run, *FEW, *flags, expect=expect, **options)

    def summary(self, run):
        def no_constant(name):
            raise AssertionError(f"summary.json holds {name}, which is not valid JSON")
        return json.loads((self.folder / run / "summary.json").read_text(), parse_constant=no_constant)


def main():
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
