#!/usr/bin/env python3
"""Many workers on one server: each start must finish, with each row used once an epoch.

crowd.py [--workers 64] [--starts 20]: in sync and async mode, over shared memory and TCP (ZeroMQ, TLS)."""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("SHOAL_ROOT", str(HERE.parents[1]))
os.environ.setdefault("SHOAL_BIN", str(HERE.parents[1] / "build" / "shoal"))
sys.path.insert(0, str(HERE.parent / "cli"))
import support  # noqa: E402

ROWS, EPOCHS, SECONDS = 512, 4, 300


def start(folder, data, workers, mode, transport):
    """(seconds, what is wrong or "")"""
    begun = time.monotonic()
    done = subprocess.run([support.SHOAL, "train", "softmax", "--data", str(data), "--workers", str(workers), "--ps", "1",
                           "--mode", mode, "--transport", transport, "--batch-size", "2", "--epochs", str(EPOCHS), "--lr", "0.05",
                           "--threads", "1", "--quiet", "--run-dir", str(folder)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, timeout=SECONDS)
    if done.returncode:
        return time.monotonic() - begun, f"exit {done.returncode}: {done.stderr[-500:]}"
    summary = json.loads((folder / "summary.json").read_text())
    if (summary["status"], summary["examples"]) != ("finished", ROWS * EPOCHS):
        return time.monotonic() - begun, f"{summary['status']}, {summary['examples']} rows"
    return time.monotonic() - begun, ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--workers", type=int, default=64)
    p.add_argument("--starts", type=int, default=20)
    a = p.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="shoal-crowd-") as base:
        base = pathlib.Path(base)
        support.make_data(base / "bars", ROWS)
        for mode, transport in itertools.product(("sync", "async"), ("shm", "zmq", "tls")):
            times = []
            for i in range(a.starts):
                seconds, wrong = start(base / f"{mode}-{transport}-{i}", base / "bars", a.workers, mode, transport)
                times.append(seconds)
                if wrong:
                    bad += 1
                    print(f"{mode} {transport} start {i}: {wrong}", flush=True)
            print(f"{a.workers} workers, {mode}, {transport}: {a.starts} starts, {min(times):.1f} to {max(times):.1f} s", flush=True)
    print(f"{bad} did not finish")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
