#!/usr/bin/env python3
"""Shoal beside PyTorch, in one run on this machine, and as a share of its measured multiply-add rate.

usage: compare.py BUILD_DIR [--rounds N] [--seconds S] [--models NAMES] [--json FILE]

Each figure is the best of all pieces of several rounds; the programs take turns, so that a noisy moment hits both.
PyTorch is looked for in $SHOAL_PEER_PYTHON, python3 and /usr/bin/python3; without it Shoal's own figures are shown,
and goals that are ratios stay open."""
import argparse
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# model, batch, floating-point operations an example (dense: what a program that skips nothing computes)
CONVOLUTIONS = [(62, 64, 363, 2), (30, 192, 1600, 3), (14, 384, 1728, 3), (14, 256, 3456, 3), (14, 256, 2304, 3)]
ALEXNET = sum(2 * side * side * out * taps * passes for side, out, taps, passes in CONVOLUTIONS)  # passes: conv1 has 2
ALEXNET += 3 * 2 * (9216 * 4096 + 4096 * 4096 + 4096 * 1000)
FLOPS = {"softmax": 2 * 2 * 784 * 10, "lenet5": 2_263_560, "alexnet": ALEXNET}
CASES = [("softmax", 10), ("softmax", 200), ("lenet5", 64), ("lenet5", 512), ("alexnet", 128)]
# What the ratio to PyTorch on one thread should reach; AlexNet's on two as well.
GOALS = {("softmax", 10): 25, ("softmax", 200): 4, ("lenet5", 64): 4, ("lenet5", 512): 4, ("alexnet", 128): 1.15}
# What else AlexNet is held to: share of the multiply-add rate on one thread, and memory.
ALEXNET_SHARE, ALEXNET_MB = 0.75, 3000


def find_torch():
    for python in (os.environ.get("SHOAL_PEER_PYTHON"), shutil.which("python3"), "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


def run(command):
    """The fields of the line a program prints; None if it failed."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        return None
    return dict(field.split("=", 1) for field in done.stdout.split()[3:])


def brief(number):
    return "-" if not number else f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


def verdict_of(ratio, goal):
    return "" if not goal else "open" if not ratio else "met" if ratio >= goal else "missed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--models", help="only these, with commas between them")
    parser.add_argument("--json")
    options = parser.parse_args()
    wanted = options.models.split(",") if options.models else FLOPS
    if not set(wanted) <= set(FLOPS):
        parser.error(f"--models {options.models}: there are {', '.join(FLOPS)}")
    cases = [case for case in CASES if case[0] in wanted]
    bench = os.path.join(options.build, "bench", "train_bench")
    python = find_torch()
    threads_known = [1, 2] if (os.cpu_count() or 1) > 1 else [1]

    best = {}  # (who, model, batch, threads) -> examples/s
    peak = {t: 0.0 for t in threads_known}
    memory, version = {}, None

    def keep(who, model, batch, threads, fields):
        if fields:
            key = (who, model, batch, threads)
            best[key] = max(best.get(key, 0.0), float(fields["best"]))

    for round_number in range(options.rounds):
        for threads in threads_known:
            fields = run([bench, "fma", "0", str(threads)])
            if fields:
                peak[threads] = max(peak[threads], float(fields["gflops"]))
            for model, batch in cases:
                print(f"\rround {round_number + 1} of {options.rounds}: {model}, batch {batch}, {threads} thread"
                      f"{'s' if threads > 1 else ''}    ", end="", file=sys.stderr, flush=True)
                common = [model, str(batch), str(threads), str(options.seconds)]
                fields = run([bench] + common)
                keep("shoal", model, batch, threads, fields)
                if fields:
                    memory[(model, batch, threads)] = float(fields["rss_mb"])
                if python:
                    fields = run([python, os.path.join(HERE, "peer_torch.py")] + common)
                    keep("torch", model, batch, threads, fields)
                    version = fields["version"] if fields else version
    print(file=sys.stderr)

    print("Multiply-add rate: " + ", ".join(f"{t} thread{'s' if t > 1 else ''} {peak[t]:.0f} GF/s"
                                           for t in threads_known))
    scaling = peak[2] / peak[1] if 2 in peak and peak[1] else None
    if scaling:
        print(f"Two-thread scaling of the machine: {scaling:.2f}")
    print(f"Peer: PyTorch {version}" if version else "Peer: PyTorch is not installed; Shoal alone")
    print()
    print(f"{'model':<8} {'batch':>5} {'threads':>7} {'Shoal ex/s':>12} {'steps/s':>9} {'of peak':>8} "
          f"{'PyTorch':>10} {'ratio':>6} {'goal':>5} {'':<6} {'scaling':>8} {'memory':>8}")
    rows, others = [], []
    for model, batch in cases:
        for threads in threads_known:
            ours = best.get(("shoal", model, batch, threads))
            if not ours:
                continue
            theirs = best.get(("torch", model, batch, threads))
            one = best.get(("shoal", model, batch, 1))
            share = ours * FLOPS[model] / 1e9 / peak[threads] if peak[threads] else float("nan")
            goal = GOALS.get((model, batch)) if threads == 1 or model == "alexnet" else None
            gain = ours / one if threads > 1 and one else None
            rows.append({"model": model, "batch": batch, "threads": threads, "examples_per_second": ours,
                         "share_of_peak": share, "torch": theirs, "ratio": ours / theirs if theirs else None,
                         "goal": goal, "scaling": gain, "memory_mb": memory[(model, batch, threads)]})
            ratio = ours / theirs if theirs else None
            verdict = verdict_of(ratio, goal)
            if model == "alexnet" and threads == 1:
                others = [(f"{share:.0%} of peak", share >= ALEXNET_SHARE, f"at least {ALEXNET_SHARE:.0%}"),
                          (f"{memory[(model, batch, threads)]:.0f} MB", memory[(model, batch, threads)] < ALEXNET_MB,
                           f"below {ALEXNET_MB} MB")]
            print(f"{model:<8} {batch:>5} {threads:>7} {brief(ours):>12} {brief(ours / batch):>9} {share:>8.0%} "
                  f"{brief(theirs):>10} {(f'{ratio:.2f}' if ratio < 10 else f'{ratio:.1f}') if ratio else '-':>6} "
                  f"{f'{goal}' if goal else '':>5} {verdict:<6} {f'{gain:.2f}' if gain else '':>8} "
                  f"{memory[(model, batch, threads)]:>5.0f} MB")
    for figure, met, goal in others:
        print(f"AlexNet on one thread: {figure}, goal {goal}: {'met' if met else 'missed'}")
    print("\nOf peak: the floating-point operations of the dense computation over the multiply-add rate. Softmax skips "
          "the zero\npixels of MNIST and AlexNet's convolutions need fewer products by Winograd's algorithm, so both may "
          "pass what\nthe machine could do densely; LeNet computes all.")
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"peak_gflops": peak, "scaling": scaling, "torch_version": version, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
