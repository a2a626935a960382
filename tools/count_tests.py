#!/usr/bin/env python3
"""Adds up Meson's test logs and prints 'N passed, N failed' on the last line.

usage: count_tests.py BUILD_DIR...
Exits 1 when a test failed, or when there is no log to read.
"""
import json
import pathlib
import sys


def main():
    passed = failed = skipped = 0
    for build in sys.argv[1:]:
        log = pathlib.Path(build) / "meson-logs" / "testlog.json"
        if not log.exists():
            print(f"{log}: not there")
            failed += 1
            continue
        again = log.with_name("again.json")  # of those that were run a second time: tools/again.py
        results = {}
        for line in (log.read_text() + (again.read_text() if again.exists() else "")).splitlines():
            entry = json.loads(line)
            results[entry["name"]] = entry["result"]
        for result in results.values():
            if result in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif result == "SKIP":
                skipped += 1
            else:
                failed += 1
    if skipped:
        print(f"({skipped} skipped)")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
