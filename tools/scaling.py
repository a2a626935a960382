#!/usr/bin/env python3
"""Figures of docs/scaling.md: simulated jobs beside real ones in a lab, beside published ones, and up to 1,000 workers; and
what the reports' clusters of five hosts at 1.8 Gb/s come to in a lab.

usage: scaling.py {published,curves,clicks,alexnet} SHOAL
       scaling.py {lab,lenet} SHOAL MNIST [MODE of lab]
"""
import json
import math
import os
import subprocess
import sys
import tempfile


def simulate(shoal, **flags):
    words = [f"--{k.replace('_', '-')}={v}" for k, v in flags.items() if v is not None]
    return json.loads(subprocess.run([shoal, "simulate", "--json", *words], check=True, stdout=subprocess.PIPE).stdout)


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def real(shoal, data, model, mode, tasks, rate, delay, steps):
    """Steps a second of a job of so many processes, and what a step computes."""
    ranks = mode == "allreduce"
    how = ["--strategy", "allreduce"] if ranks else ["--ps", "1", "--mode", mode]
    with tempfile.TemporaryDirectory() as folder:
        workers = tasks if ranks else tasks - 1
        total = steps * (workers if mode == "async" else 1)
        done = subprocess.run([shoal, "lab", "--hosts", str(tasks), "--rate", rate, "--delay", delay, "--", "train", model, "--data", data,
                               "--workers", str(workers), *how, "--steps", str(total), "--batch-size", "10", "--threads", "1",
                               "--no-checkpoints", "--log-every", "10", "--run-dir", folder + "/run"], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        with open(folder + "/run/summary.json") as f:
            s = json.load(f)
    computing = [t["time"]["compute_seconds"] / t["steps"] for t in s["tasks"] if t["role"] == "worker" and t["steps"]]
    return s["steps_per_second"], sorted(computing)[len(computing) // 2], s["parameters"]


def lab(shoal, data, only=None):
    row("mode", "model", "processes", "real steps/s", "simulated", "difference")
    row("---", "---", "---", "---", "---", "---")
    worst = 0
    for mode in [only] if only else ["sync", "async", "allreduce"]:
        for model, rate in (("softmax", "10mbit"), ("lenet", "100mbit")):
            for tasks in (2, 3, 5, 8):
                got, compute, parameters = real(shoal, data, model, mode, tasks, rate, "1ms", 60 if tasks < 5 else 40)
                said = simulate(shoal, mode=mode, workers=tasks if mode == "allreduce" else tasks - 1, steps=60, rate=rate, delay="1ms",
                                parameters=parameters, compute=f"{1e6 * compute:.3f}us")["steps_per_second"]
                worst = max(worst, abs(said / got - 1))
                row(mode, model, tasks, f"{got:.2f}", f"{said:.2f}", f"{100 * (said / got - 1):+.0f} %")
    print(f"\nThe largest difference is {100 * worst:.0f} %.")


def published(shoal):
    """TensorFlow's null steps (Abadi et al., OSDI 2016, figures 6 and 8): 16 servers."""
    print("Null steps, ms:\n")
    row("workers", "scalar, published", "simulated", "dense 100 MB, published", "simulated")
    row("---", "---", "---", "---", "---")
    for workers, scalar, dense in ((1, 1.8, 147), (100, 8.8, 613)):
        costs = dict(ps=16, workers=workers, steps=20, rate="9.6gbit", delay="150us", update_cost="0")
        small = simulate(shoal, parameters=16, message_cost="42us", megabyte_cost="0", **costs)
        large = simulate(shoal, parameters=25e6, message_cost="42us", megabyte_cost="0.2ms", **costs)
        row(workers, scalar, f"{1e3 * small['step_seconds']['p50']:.2f}", dense, f"{1e3 * large['step_seconds']['p50']:.0f}")
    print("\nBackup workers, 50 that count:\n")
    row("backups", "step, s", "speed a worker in use")
    row("---", "---", "---")
    for backups in range(7):
        r = simulate(shoal, workers=50 + backups, ps=1, steps=200, parameters=1000, compute="1.2s", sigma=0.03, slow_share=0.03,
                     slow_factor=1.5, backup_workers=backups or None)
        step = 1 / r["steps_per_second"]
        if not backups:
            base = step
        row(backups, f"{step:.3f}", f"{base / step * 50 / (50 + backups):.3f}")


COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def fit(points):
    """t = a + b n by least squares, in relative terms."""
    w = [1 / t ** 2 for _, t in points]
    s, sn, snn = sum(w), sum(x * n for x, (n, _) in zip(w, points)), sum(x * n * n for x, (n, _) in zip(w, points))
    st, snt = sum(x * t for x, (_, t) in zip(w, points)), sum(x * n * t for x, (n, t) in zip(w, points))
    b = (s * snt - sn * st) / (s * snn - sn * sn)
    return (st - b * sn) / s, b


def curves(shoal):
    row("mode", *COUNTS, "law, ms a step", "half of linear at")
    row(*["---"] * (len(COUNTS) + 3))
    for name, flags in (("sync, 1 server", dict(mode="sync", ps=1)), ("sync, 10 servers", dict(mode="sync", ps=10)),
                        ("sync, 100 servers", dict(mode="sync", ps=100)), ("async, 10 servers", dict(mode="async", ps=10)),
                        ("all-reduce", dict(mode="allreduce")), ("all-reduce, bf16", dict(mode="allreduce", wire_format="bf16"))):
        points, speeds = [], []
        for n in COUNTS:
            if flags["mode"] == "allreduce" and n == 1:
                points.append((n, 0.1))
                speeds.append(10.0)
                continue
            r = simulate(shoal, workers=n, steps=4 if n >= 200 else 10, rate="10gbit", delay="50us", parameters=5e6, compute="100ms", **flags)
            speed = r["steps_per_second"] * (1 if flags["mode"] == "async" else n)
            speeds.append(speed)
            points.append((n, n / speed))
        a, b = fit(points)
        half = a / b if b > 1e-9 else math.inf
        row(name, *(f"{s:.0f}" for s in speeds), f"{1e3 * a:.0f} + {1e3 * b:.2f} n", f"{half:.0f}" if half < 1e5 else "beyond")


LINKS = ("--rate", "1.8gbit", "--delay", "500us")


def in_lab(shoal, hosts, *words, run):
    """Trains in a lab; returns the summary, and all that was said."""
    done = subprocess.run([shoal, "lab", "--hosts", str(hosts), *LINKS, "--", "train", *words, "--threads", "1", "--run-dir", run],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    with open(run + "/summary.json") as f:
        return json.load(f), done.stdout + done.stderr


def clicks(shoal):
    """D1, D2 and D3: five hosts, a worker on each, the server on the first; then more workers on as much work each."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([shoal, "data", "generate", "criteo", "--rows", "50000", "--out", folder + "/data", "--quiet"], check=True)
        data = ["sparse-lr", "--data", f"{folder}/data/tfrecords[01]*,{folder}/data/tfrecords2[01]", "--test-data",
                folder + "/data/tfrecords22", "--ps", "1", "--batch-size", "100", "--no-checkpoints"]
        row("run", "a step", "updates/s", "sent by a worker and step", "test error")
        row("---", "---", "---", "---", "---")
        for name, mode, flags in (("D1", "sync", ["--transfer", "dense", "--steps", "10"]), ("D2", "sync", ["--epochs", "1"]),
                                  ("D3", "async", ["--epochs", "3"])):
            s, _ = in_lab(shoal, 5, *data, "--workers", "5", "--mode", mode, *flags, run=f"{folder}/{name}")
            workers = [t for t in s["tasks"] if t["role"] == "worker"]
            a_step = 1 / s["steps_per_second"] * (5 if mode == "async" else 1)
            row(name, f"{1e3 * a_step:.2f} ms", f"{s['steps_per_second']:.1f}",
                f"{sum(t['net_sent_bytes'] for t in workers) / sum(t['steps'] for t in workers) / 1e3:.1f} KB",
                f"{100 * (1 - s['test_accuracy']):.2f} %")
        print()
        row("workers", "real rows/s", "of linear", "simulated rows/s", "of linear")
        row("---", "---", "---", "---", "---")
        base = said_base = None
        for n in (1, 2, 4, 8):
            real_speed = None
            if n <= 2:
                s, _ = in_lab(shoal, n + 1, *data, "--workers", str(n), "--mode", "async", "--steps", str(600 * n), run=f"{folder}/n{n}")
                real_speed = s["examples_per_second"]
                worker = next(t for t in s["tasks"] if t["role"] == "worker")
                if n == 1:
                    base = real_speed
                    compute = worker["time"]["compute_seconds"] / worker["steps"]
                    numbers = worker["net_sent_bytes"] / worker["steps"] / 4
            said = 100 * simulate(shoal, mode="async", workers=n, steps=500, rate="1.8gbit", delay="500us", compute=f"{1e6 * compute:.1f}us",
                                  parameters=round(numbers))["steps_per_second"]
            said_base = said_base or said
            row(n, f"{real_speed:.0f}" if real_speed else "", f"{real_speed / base / n:.2f}" if real_speed else "", f"{said:.0f}",
                f"{said / said_base / n:.2f}")


def lenet(shoal, data):
    """What the advisor's choice costs: three hosts, six epochs."""
    row("compression", "test accuracy", "examples/s", "sent by a rank", "what was said")
    row("---", "---", "---", "---", "---")
    for choice in ([], ["--compress", "auto"]):
        with tempfile.TemporaryDirectory() as folder:
            s, said = in_lab(shoal, 3, "lenet", "--data", data, "--strategy", "allreduce", "--workers", "3", "--epochs", "6", "--batch-size", "64",
                             "--no-checkpoints", *choice, run=folder + "/run")
        words = "; ".join(line.strip() for line in said.splitlines() if "compress" in line.lower() and "--" not in line)
        row("auto" if choice else "none", f"{100 * s['test_accuracy']:.2f} %", f"{s['examples_per_second']:.0f}",
            f"{s['tasks'][0]['net_sent_bytes'] / 1e6:.0f} MB", words)


def alexnet(shoal):
    """What the advisor chooses for AlexNet on three hosts, and what a step comes to where each computes 128 images in 3 s."""
    with tempfile.TemporaryDirectory() as folder:
        _, said = in_lab(shoal, 3, "alexnet", "--data", "fake", "--strategy", "allreduce", "--workers", "3", "--steps", "24", "--batch-size", "8",
                         "--compress", "auto", "--deadline", "600", "--no-checkpoints", run=folder + "/run")
    print("\n".join(line for line in said.splitlines() if "compress" in line.lower()) + "\n")
    flags = dict(mode="allreduce", rate="1.8gbit", delay="500us", steps=5, model="alexnet", compute="3s")
    one = simulate(shoal, workers=1, **flags)["step_seconds"]["mean"]
    r = simulate(shoal, workers=3, compress="auto", **flags)
    row("gradients travel as", "a step", "of linear")
    row("---", "---", "---")
    for way, seconds in r["way_seconds"].items():
        row(way + (" (chosen)" if way == r["way"] else ""), f"{seconds:.2f} s", f"{100 * one / seconds:.0f} %")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("lab", "published", "curves", "clicks", "lenet", "alexnet"):
        sys.exit(__doc__)
    tool = os.path.abspath(sys.argv[2])
    {"lab": lambda: lab(tool, *sys.argv[3:5]), "published": lambda: published(tool), "curves": lambda: curves(tool),
     "clicks": lambda: clicks(tool), "lenet": lambda: lenet(tool, sys.argv[3]), "alexnet": lambda: alexnet(tool)}[sys.argv[1]]()
