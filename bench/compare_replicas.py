#!/usr/bin/env python3
"""What replicas and determinism cost: LeNet by the strategies single, mirrored, allreduce and ps, the same global batch;
and how much of the time of AlexNet's ranks is blocked in MPI.

usage: compare_replicas.py BUILD_DIR [--rounds N] [--steps N] [--alexnet-only]

Each figure is the best of several rounds in which all take turns; the last column is beside `single` on as many threads."""
import argparse
import json
import os
import shutil
import subprocess
import tempfile

GLOBAL_BATCH = 256
WORKERS = 2
ALEXNET_BATCH, ALEXNET_STEPS, ALEXNET_BLOCKED = 32, 6, 0.10


def train(shoal, data, run, model, *flags):
    """The run's summary."""
    subprocess.run([shoal, "train", model, "--no-checkpoints", "--quiet", "--run-dir", run, *map(str, flags)],
                   check=True, capture_output=True, env={**os.environ, "SHOAL_DATA": data})
    with open(os.path.join(run, "summary.json"), encoding="utf-8") as f:
        return json.load(f)


def blocked_share(summary):
    """Of the workers' time, the mean of them."""
    times = [t["time"]["barrier_seconds"] / t["seconds"] for t in summary["tasks"] if t["role"] == "worker"]
    return sum(times) / len(times)


def compare_alexnet(shoal, data, folder, rounds):
    best, least = 0.0, 1.0
    for number in range(rounds):
        summary = train(shoal, data, os.path.join(folder, f"alexnet-{number}"), "alexnet", "--strategy", "allreduce",
                        "--workers", WORKERS, "--batch-size", ALEXNET_BATCH, "--threads", 1, "--steps", ALEXNET_STEPS)
        best = max(best, summary["examples_per_second"])
        least = min(least, blocked_share(summary))
    print(f"AlexNet, batch {ALEXNET_BATCH} a rank, {WORKERS} ranks, {ALEXNET_STEPS} steps, best of {rounds}: {best:.1f} "
          f"examples/s, blocked {100 * least:.1f} % of the time, goal below {100 * ALEXNET_BLOCKED:.0f} %: "
          f"{'met' if least < ALEXNET_BLOCKED else 'missed'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--alexnet-only", action="store_true")
    options = parser.parse_args()
    mpi = shutil.which("mpirun") and os.path.exists(os.path.join(options.build, "shoal-mpi.so"))
    shoal = os.path.abspath(os.path.join(options.build, "shoal"))
    data = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
    one = ["--threads", "1", "--batch-size", str(GLOBAL_BATCH)]
    several = ["--threads", str(WORKERS), "--batch-size", str(GLOBAL_BATCH)]
    mirrored = ["--strategy", "mirrored", "--workers", str(WORKERS), "--global-batch", str(GLOBAL_BATCH)]
    ranks = ["--strategy", "allreduce", "--workers", str(WORKERS), "--global-batch", str(GLOBAL_BATCH), "--threads", "1"]
    ps = ["--strategy", "ps", "--workers", str(WORKERS), "--ps", "1", "--threads", "1"]
    cases = {"single, 1 thread": (one, None), "single, 1 thread, deterministic": (one + ["--deterministic"], 0),
             f"single, {WORKERS} threads": (several, None),
             f"single, {WORKERS} threads, deterministic": (several + ["--deterministic"], 2),
             f"mirrored, {WORKERS} workers": (mirrored, 2),
             f"mirrored, {WORKERS} workers, deterministic": (mirrored + ["--deterministic"], 2),
             f"ps, {WORKERS} workers, 1 server": (ps + ["--batch-size", str(GLOBAL_BATCH // WORKERS)], 2),
             f"ps, {WORKERS} workers, 1 server, deterministic": (ps + ["--batch-size", str(GLOBAL_BATCH // WORKERS),
                                                                  "--deterministic"], 2)}
    if mpi:
        cases |= {f"allreduce, {WORKERS} ranks": (ranks, 2),
                  f"allreduce, {WORKERS} ranks, bf16": (ranks + ["--wire", "bf16"], 2),
                  f"allreduce, {WORKERS} ranks, deterministic": (ranks + ["--deterministic"], 2)}
    best = dict.fromkeys(cases, 0.0)
    blocked = {}
    with tempfile.TemporaryDirectory() as folder:
        if mpi:
            compare_alexnet(shoal, data, folder, min(options.rounds, 2))
        else:
            print("Without mpirun, or built without MPI: no ranks.")
        if options.alexnet_only:
            return
        print()
        for round_number in range(options.rounds):
            for number, (name, (flags, _)) in enumerate(cases.items()):
                run = os.path.join(folder, f"{round_number}-{number}")
                summary = train(shoal, data, run, "lenet", "--steps", options.steps, *flags)
                if summary["examples_per_second"] > best[name]:
                    best[name] = summary["examples_per_second"]
                    blocked[name] = blocked_share(summary) if name.startswith(("allreduce", "ps")) else None
    names = list(cases)
    print(f"LeNet, global batch {GLOBAL_BATCH}, {options.steps} steps, best of {options.rounds}")
    print(f"{'':42}{'examples/s':>12}{'blocked':>9}{'of single':>11}")
    for name, (_, beside) in cases.items():
        waits = f"{100 * blocked[name]:.0f} %" if blocked[name] is not None else "-"
        share = f"{best[name] / best[names[beside]]:.2f}" if beside is not None else "-"
        print(f"{name:42}{best[name]:>12,.0f}{waits:>9}{share:>11}")


if __name__ == "__main__":
    main()
