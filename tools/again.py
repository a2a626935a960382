#!/usr/bin/env python3
"""Runs the tests that failed in a build's last `meson test` once more, one at a time.

usage: again.py BUILD_DIR [flags of meson test...]

A test that waits for real processes can miss a deadline when the machine is busy with other tests. Those that pass alone are
named, so that they get mended, and count as passed; a test that fails alone, too, has failed. More than MAX_RETRIED failures
are no accident and are not tried again. The second results are in BUILD_DIR/meson-logs/again.json.
Exits 1 when a test failed twice, or when there is no log to read.
"""
import json
import pathlib
import subprocess
import sys

MAX_RETRIED = 3


def failed_in(log):
    if not log.exists():
        sys.exit(f"{log}: not there")
    results = (json.loads(line) for line in log.read_text().splitlines())
    return [r["name"].split(" / ")[-1] for r in results if r["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")]


def main():
    build, flags = sys.argv[1], sys.argv[2:]
    names = failed_in(pathlib.Path(build) / "meson-logs" / "testlog.json")
    if not names or len(names) > MAX_RETRIED:
        return bool(names)
    status = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--num-processes", "1",
                             "--logbase", "again", *flags, *names]).returncode
    print(f"failed beside other tests: {', '.join(names)}" + ("" if status else "; alone: passed"))
    return status


if __name__ == "__main__":
    sys.exit(main())
