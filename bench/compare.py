#!/usr/bin/env python3
"""Shoal against PyTorch, in turns on the same machine with the same threads, and against the machine's own limit.

usage: compare.py TRAIN_BENCH [THREADS [SECONDS [ROUNDS]]]
Each cell is the best of all rounds, for both sides alike. PyTorch is used where it is installed (Debian:
python3-torch); SHOAL_PEER_PYTHON names another interpreter that has it.
"""
import os
import pathlib
import re
import subprocess
import sys

CASES = [("softmax", 10), ("softmax", 200), ("lenet", 64), ("lenet5", 64), ("lenet5", 512)]
PEER = pathlib.Path(__file__).parent / "peer_torch.py"


def lenet_flops():
    """Multiplications and additions of one example, forward and backward; the first layer passes none back."""
    conv1, conv2 = 2 * 28 * 28 * 6 * 25, 2 * 10 * 10 * 16 * 25 * 6
    dense = 2 * (400 * 120 + 120 * 84 + 84 * 10)
    return 2 * conv1 + 3 * (conv2 + dense)


FLOPS = {"softmax": 2 * 2 * 784 * 10, "lenet": lenet_flops(), "lenet5": lenet_flops()}


def run(words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return {key: float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", done.stdout)}


def find_peer():
    """The command that starts an interpreter with PyTorch, or None."""
    for python in filter(None, (os.environ.get("SHOAL_PEER_PYTHON"), "python3", "/usr/bin/python3")):
        try:
            if subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
                return python
        except OSError:
            pass
    return None


def main():
    bench = sys.argv[1]
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 3
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    peer = find_peer()
    peak = run([bench, "fma", 0, threads])["gflops"]
    print(f"threads {threads}; fused multiply-adds measured: {peak:.1f} GFLOP/s", end="")
    if threads > 1:
        one = run([bench, "fma", 0, 1])["gflops"]
        print(f", {peak / one:.2f} x one thread's", end="")
    print()
    if not peer:
        print("PyTorch is not installed, so there is nobody to compare with (Debian: apt-get install python3-torch)")
    print(f"{'model':8} {'batch':>5} {'Shoal ex/s':>12} {'of FMA peak':>11} {'PyTorch ex/s':>13} {'ratio':>6} {'memory':>8}")
    for model, batch in CASES:
        own = other = memory = 0.0
        for _ in range(rounds):
            if peer:
                other = max(other, run([peer, PEER, model, batch, threads, seconds])["best"])
            result = run([bench, model, batch, threads, seconds])
            own, memory = max(own, result["best"]), max(memory, result["rss_mb"])
        share = own * FLOPS[model] / (peak * 1e9)
        versus = f"{other:13,.0f} {own / other:6.2f}" if peer else f"{'-':>13} {'-':>6}"
        print(f"{model:8} {batch:5} {own:12,.0f} {100 * share:9.1f} % {versus} {memory:5.1f} MB", flush=True)
    print("ex/s: examples trained a second, best of all pieces. lenet: tanh, average pool; lenet5: relu, max pool.\n"
          "The share counts the dense work, so skipping zeros or pooling losers can lift it beyond 100 %.")


if __name__ == "__main__":
    main()
