#!/usr/bin/env python3
"""Two builds of Shoal beside each other: every figure of `make bench`, the builds taking turns, the best of the rounds.

usage: compare_builds.py OLD_BUILD NEW_BUILD [--rounds N] [--only REGEX] [--json FILE]

Tells whether a change made anything slower: a row is marked where the new build is more than 3 % behind."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "data")
TOLERANCE = 0.03


def output(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, cwd=ROOT).stdout


def bench(program, *arguments):
    """Examples or rows a second, as the program prints them."""
    return lambda build, folder: float(re.search(r"best=([\d.]+)", output(os.path.join(build, "bench", program),
                                                                          *arguments))[1])


def train(*flags, figure="examples_per_second"):
    def once(build, folder):
        run = os.path.join(folder, "run")
        subprocess.run([os.path.join(build, "shoal"), "train", *map(str, flags), "--quiet", "--run-dir", run], check=True,
                       capture_output=True, cwd=folder, env={**os.environ, "SHOAL_DATA": DATA})
        with open(os.path.join(run, "summary.json"), encoding="utf-8") as f:
            s = json.load(f)
        shutil.rmtree(run)
        return s["updates"] / s["seconds"] if figure == "updates" else s[figure]
    return once


def read_rows(kind):
    def once(build, folder):
        line = next(r for r in map(json.loads, output(os.path.join(build, "bench", "data_bench")).splitlines())
                    if r["format"] == kind)
        return line["rows_per_second"]
    return once


def placed_steps(transport, tasks):
    """Steps a second of a placed graph that computes nothing."""
    def once(build, folder):
        out = output(os.path.join(build, "bench", "step_bench"), transport)
        return 1e6 / float(re.search(rf"\w+ {tasks} min=[\d.]+ median=([\d.]+)", out)[1])
    return once


def product(build, folder):
    path = os.path.join(folder, "matmul.json")
    output(os.path.join(build, "shoal"), "matmul", "--quiet", "--summary", path, "--n", 10000, "--blocks", 5, "--workers", 5,
           "--full-product")
    with open(path, encoding="utf-8") as f:
        r = json.load(f)
    return r["flops"] / r["seconds"]


def jpeg(build, folder):
    return 1000 / json.loads(output(os.path.join(build, "bench", "jpeg_bench")))["decode_and_resize_ms"]


def all_cases():
    cases = {}
    for model, batch in (("softmax", 10), ("softmax", 200), ("lenet5", 64), ("lenet5", 512), ("alexnet", 128)):
        for threads in (1, 2):
            cases[f"{model}, batch {batch}, {threads} threads"] = bench("train_bench", model, batch, threads, 2)
    for transport in ("shm", "zmq"):
        for mode in ("async", "sync"):
            cases[f"softmax, 3 workers + 1 server, {transport}, {mode}"] = train(
                "softmax", "--batch-size", 10, "--lr", 0.1, "--workers", 3, "--ps", 1, "--threads", 1, "--no-checkpoints",
                "--transport", transport, "--mode", mode, "--epochs", 3 if transport == "shm" else 1, figure="updates")
    lenet = ["lenet", "--no-checkpoints", "--steps", 400, "--workers", 2]
    for name, flags in {"mirrored": ["--strategy", "mirrored", "--global-batch", 256],
                        "mirrored, deterministic": ["--strategy", "mirrored", "--global-batch", 256, "--deterministic"],
                        "1 server": ["--ps", 1, "--threads", 1, "--batch-size", 128],
                        "1 server, deterministic": ["--ps", 1, "--threads", 1, "--batch-size", 128, "--deterministic"],
                        "allreduce": ["--strategy", "allreduce", "--global-batch", 256, "--threads", 1]}.items():
        cases[f"lenet, 2 workers, {name}"] = train(*lenet, *flags)
    cases["alexnet, 2 ranks, batch 32"] = train("alexnet", "--no-checkpoints", "--strategy", "allreduce", "--workers", 2,
                                                "--batch-size", 32, "--threads", 1, "--steps", 6)
    for setting in (("sgd", 1, 1), ("sgd", 100, 1), ("adagrad", 1, 1), ("ftrl", 1, 1), ("sgd", 1, 2)):
        cases["sparse rows in memory, {}, batch {}, {} threads".format(*setting)] = bench("sparse_bench", *setting, 2)
    cases["sparse-lr from TFRecord"] = train("sparse-lr", "--data", "clicks/tfrecords*", "--batch-size", 100,
                                             "--shuffle-rows", 0)
    for mode in ("async", "sync"):
        cases[f"sparse-lr, 5 workers + 1 server, {mode}"] = train(
            "sparse-lr", "--data", "clicks/tfrecords0[0-4]", "--workers", 5, "--ps", 1, "--batch-size", 100, "--mode", mode,
            "--epochs", 6, "--no-checkpoints", figure="steps_per_second")  # fewer would measure how memory is cleared
    for kind in ("tfrecord", "libsvm"):
        cases[f"rows read, {kind}"] = read_rows(kind)
    cases["JPEG pictures decoded and resized"] = jpeg
    cases["blocked product, n = 10,000, 5 tasks"] = product
    for transport in ("shm", "tcp"):
        for tasks in (1, 4):
            cases[f"placed step of {tasks} tasks, {transport}"] = placed_steps(transport, tasks)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name matches this expression")
    parser.add_argument("--json")
    options = parser.parse_args()
    builds = {"old": os.path.abspath(options.old), "new": os.path.abspath(options.new)}
    rows = []
    print(f"{'per second, the best of ' + str(options.rounds):<58}{'old':>15}{'new':>15}{'new / old':>11}")
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        output(os.path.join(builds["old"], "shoal"), "data", "generate", "criteo", "--rows", 600000, "--files", 6, "--out",
               os.path.join(folder, "clicks"), "--quiet")
        for name, case in all_cases().items():
            if not re.search(options.only, name):
                continue
            best = {"old": 0.0, "new": 0.0}
            for number in range(options.rounds):
                for side in ("old", "new") if number % 2 == 0 else ("new", "old"):
                    best[side] = max(best[side], case(builds[side], folder))
            ratio = best["new"] / best["old"]
            rows.append({"case": name, **best, "ratio": ratio})
            print(f"{name:<58}{best['old']:>15,.1f}{best['new']:>15,.1f}{ratio:>11.3f}"
                  f"{'  slower' if ratio < 1 - TOLERANCE else ''}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    sys.exit(any(r["ratio"] < 1 - TOLERANCE for r in rows))


if __name__ == "__main__":
    main()
