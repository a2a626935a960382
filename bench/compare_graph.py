#!/usr/bin/env python3
"""Graphs over several tasks: experiment E beside this machine's own product of matrices, and what a step costs that
computes nothing.

usage: compare_graph.py BUILD_DIR [--rounds N] [--large]

Each figure is the best of several rounds. --large: experiment E at its full size, too."""
import argparse
import json
import os
import re
import subprocess
import tempfile

SHARE = 0.85                                # of the machine's own product, for experiment E with whole products
STEP_MICROSECONDS = {"1": 60, "4": 150}     # by tasks: the median
LARGE_SECONDS = 145                         # as reported elsewhere


def verdict(met):
    return "met" if met else "missed"


def matmul(shoal, folder, *flags):
    path = os.path.join(folder, "matmul.json")
    subprocess.run([shoal, "matmul", "--quiet", "--summary", path, *map(str, flags)], check=True)
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def compare_products(shoal, folder, rounds):
    runs = [matmul(shoal, folder, "--n", 20000, "--blocks", 10, "--workers", 5, "--full-product")
            for _ in range(rounds)]
    best = min(runs, key=lambda r: r["seconds"])
    rate = best["flops"] / best["seconds"]
    own = max(r["own_product_flops"] for r in runs)
    blas = max(r["blas_product_flops"] or 0 for r in runs)
    share = rate / max(own, blas)
    print(f"experiment E, n = 20,000, 10 x 10 blocks, 5 tasks, whole products: {best['seconds']:.2f} s, "
          f"{rate / 1e9:.0f} GF/s")
    print(f"  this machine's own product, same runs: {own / 1e9:.0f} GF/s, "
          + (f"BLAS {blas / 1e9:.0f} GF/s" if blas else "no BLAS to compare with"))
    print(f"  share of the better: {100 * share:.0f} %, goal {100 * SHARE:.0f} %: {verdict(share >= SHARE)}")


def compare_large(shoal, folder):
    got = matmul(shoal, folder, "--n", 100000, "--blocks", 10, "--workers", 5)
    print(f"experiment E, n = 100,000, 10 x 10 blocks, 5 tasks: {got['seconds']:.1f} s; reported {LARGE_SECONDS} s: "
          f"{verdict(got['seconds'] < LARGE_SECONDS)}")


def compare_steps(bench, rounds):
    print("a step that computes nothing, microseconds, the best of the rounds' medians")
    for transport in ("shm", "tcp"):
        rows = {}
        for _ in range(rounds):
            out = subprocess.run([bench, transport], check=True, capture_output=True, text=True).stdout
            for tasks, *figures in re.findall(r"\w+ (\d+) min=([\d.]+) median=([\d.]+) p90=([\d.]+) p99=([\d.]+)", out):
                figures = list(map(float, figures))
                rows[tasks] = min(rows.get(tasks, figures), figures, key=lambda f: f[1])
        for tasks, (least, median, p90, p99) in rows.items():
            goal = STEP_MICROSECONDS[tasks]
            whose = "one task" if tasks == "1" else f"each of {tasks} tasks"
            print(f"  {transport}, a number of {whose}: min {least:.0f}, median {median:.0f}, 90 % {p90:.0f}, "
                  f"99 % {p99:.0f}; goal {goal}: {verdict(median < goal)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    shoal = os.path.abspath(os.path.join(options.build, "shoal"))
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        compare_products(shoal, folder, options.rounds)
        if options.large:
            compare_large(shoal, folder)
    compare_steps(os.path.abspath(os.path.join(options.build, "bench", "step_bench")), options.rounds)


if __name__ == "__main__":
    main()
