"""Shared by the tests of the Python package: what is missing is said, and skipped."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(os.environ["SHOAL_ROOT"])
SKIP = 77


def need(*modules):
    """Ends the test, as skipped, where one of these is not installed."""
    for name in modules:
        try:
            __import__(name)
        except ImportError:
            print(f"skipped: {sys.executable} has no module {name}")
            sys.exit(SKIP)


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="shoal-python-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def python(self, code, expect=0, timeout=60, **more):
        """Runs code in a process of its own; returns what it prints."""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, cwd=self.folder, **more)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout


def main():
    unittest.main(argv=[sys.argv[0], "-v"])
