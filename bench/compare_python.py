#!/usr/bin/env python3
"""`model.fit` on NumPy arrays beside `shoal train`: the same model, batch, threads and epochs, taking turns, the best of the rounds.

usage: compare_python.py BUILD [--rounds N] [--python PROGRAM]

PROGRAM is a Python that has NumPy. Met: at least 97 % of the command's examples a second. On a busy machine: chrt -f 10."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOAL = 0.97
CASES = [("softmax", 200, 1, 100), ("softmax", 200, 2, 150), ("lenet", 64, 1, 3), ("lenet", 64, 2, 4)]  # model, batch, threads, epochs
FIT = """
import sys, shoal
name, batch, threads, epochs = sys.argv[1], *map(int, sys.argv[2:5])
rows = shoal.data.load("mnist")
model = shoal.load(f"{sys.argv[5]}/models/{name}.json")
model.compile(model.settings.optimizer, threads=threads)
print(model.fit(rows.x, rows.y, epochs=epochs, batch_size=batch, verbose=False).examples_per_second)
"""


def command(build, environment, name, batch, threads, epochs):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([build / "shoal", "train", name, "--batch-size", str(batch), "--threads", str(threads), "--epochs", str(epochs), "--schedule",
                        "constant", "--no-checkpoints", "--quiet", "--run-dir", f"{folder}/run"], check=True, capture_output=True, env=environment)
        return json.loads(pathlib.Path(folder, "run", "summary.json").read_text(encoding="utf-8"))["examples_per_second"]


def fit(python, environment, *case):
    done = subprocess.run([python, "-c", FIT, *map(str, case), ROOT], check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    a = parser.parse_args()
    pythons = [p for p in (a.python, "/usr/bin/python3") if subprocess.run([p, "-c", "import numpy"], capture_output=True, check=False).returncode == 0]
    if not pythons:
        print(f"model.fit beside shoal train: skipped, {a.python} has no NumPy")
        return
    build = a.build.resolve()
    environment = {**os.environ, "SHOAL_DATA": str(ROOT / "data"), "PYTHONPATH": str(build / "python"), "SHOAL_LIBRARY": str(build / "libshoal.so")}
    print(f"{'model':<10} {'batch':>5} {'threads':>7} {'shoal train':>12} {'model.fit':>12} {'share':>6}")
    for case in CASES:
        best = [0.0, 0.0]
        for _ in range(a.rounds):
            best[0] = max(best[0], command(build, environment, *case))
            best[1] = max(best[1], fit(pythons[0], environment, *case))
        share = best[1] / best[0]
        print(f"{case[0]:<10} {case[1]:>5} {case[2]:>7} {best[0]:>12,.0f} {best[1]:>12,.0f} {share:>6.3f} {'met' if share >= GOAL else 'missed'}", flush=True)


if __name__ == "__main__":
    main()
