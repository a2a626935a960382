#!/usr/bin/env python3
"""Training with parameter servers: how many steps a second the messages between processes allow.

usage: compare_ps.py BUILD_DIR [--rounds N] [--json FILE]

Softmax regression on MNIST, batch 10, three workers and one server as processes of this machine, started by the real
command and training really. A step is one update by the server: of one gradient (async) or of three (sync). async/2 has
two gradients in flight (--in-flight 2). The best of all rounds; the transports take turns, so that a noisy moment hits all
of them."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

WORKERS = 3
PARAMETERS = 4 * (784 * 10 + 10)  # bytes
# transport, mode, epochs, steps/s to be reached
CASES = [("shm", "async", 4, 30000), ("shm", "async/2", 4, 30000), ("shm", "sync", 4, 6000), ("tls", "async", 3, None),
         ("tls", "async/2", 3, None), ("tls", "sync", 3, None), ("tls+keys", "async", 3, None),
         ("tls+keys", "async/2", 3, None), ("tls+keys", "sync", 3, None), ("zmq", "async", 2, 8000),
         ("zmq", "async/2", 2, 8000), ("zmq", "sync", 2, 2500), ("zmq+keys", "async", 2, None),
         ("zmq+keys", "async/2", 2, None), ("zmq+keys", "sync", 2, None)]
# what has no number of its own: so many times as much as another one in the same run
RELATIVE = {"tls": [("zmq", 1.5)], "tls+keys": [("zmq+keys", 2.5), ("zmq", 1.5)], "zmq+keys": [("zmq", 0.5)]}


def run(shoal, folder, name, transport, mode, epochs):
    """The summary of one run; None if it failed."""
    mode, _, in_flight = mode.partition("/")
    flags = ["--transport", transport.split("+")[0], "--mode", mode, "--epochs", str(epochs)]
    flags += ["--in-flight", in_flight] if in_flight else []
    if transport.endswith("+keys"):
        flags += ["--keys", os.path.join(folder, "keys")]
    path = os.path.join(folder, name)
    done = subprocess.run([shoal, "train", "softmax", "--batch-size", "10", "--lr", "0.1", "--workers", str(WORKERS),
                           "--ps", "1", "--threads", "1", "--no-checkpoints", "--quiet", "--run-dir", path, *flags],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        return None
    with open(os.path.join(path, "summary.json")) as file:
        return json.load(file)


def bytes_a_step(summary, key):
    """The mean over the workers, in bytes; what is said before and after the training is in it, too."""
    workers = [t for t in summary["tasks"] if t["role"] == "worker"]
    return sum(t[key] / t["steps"] for t in workers) / len(workers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json")
    options = parser.parse_args()
    shoal = os.path.join(options.build, "shoal")
    best, last = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([shoal, "keygen", os.path.join(folder, "keys")], check=True, stdout=subprocess.DEVNULL)
        for round_number in range(options.rounds):
            for transport, mode, epochs, _ in CASES:
                print(f"\rround {round_number + 1} of {options.rounds}: {transport} {mode}          ", end="",
                      file=sys.stderr, flush=True)
                s = run(shoal, folder, f"{transport}-{mode.replace('/', '-')}-{round_number}", transport, mode, epochs)
                if s:
                    key = (transport, mode)
                    best[key] = max(best.get(key, 0), s["updates"] / s["seconds"])
                    last[key] = s
    print(file=sys.stderr)
    print(f"Parameter server: softmax, batch 10, {WORKERS} workers + 1 server, {PARAMETERS:,} bytes of parameters")
    print(f"{'transport':<10} {'mode':<8} {'steps/s':>9} {'goal':>8} {'':>7} {'bytes a step out':>17} {'back':>8} "
          f"{'over':>6} {'accuracy':>9}")
    rows = []
    for transport, mode, _, goal in CASES:
        key = (transport, mode)
        if key not in best:
            print(f"{transport:<10} {mode:<8} {'failed':>9}")
            continue
        if goal is None:
            goal = max(factor * best.get((other, mode), 0) for other, factor in RELATIVE[transport])
        s = last[key]
        out, back = bytes_a_step(s, "net_sent_bytes"), bytes_a_step(s, "net_received_bytes")
        over = (out + back) / (2 * PARAMETERS) - 1
        rows.append({"transport": transport, "mode": mode, "steps_per_second": best[key], "goal": goal,
                     "bytes_out": out, "bytes_back": back, "test_accuracy": s["test_accuracy"]})
        verdict = "" if not goal else "reached" if best[key] >= goal else "MISSED"
        print(f"{transport:<10} {mode:<8} {best[key]:>9,.0f} {f'{goal:,.0f}' if goal else '-':>8} {verdict:>7} "
              f"{out:>17,.0f} {back:>8,.0f} {over:>6.1%} {s['test_accuracy']:>9.2%}")
    print("\nOver: bytes above one gradient out and the parameters back, of each worker (goal: below 3 %). Goals "
          "of tls: 2.5 times\nZeroMQ with keys and 1.5 times ZeroMQ without, in the same mode and run.")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": rows}, file, indent=1)


main()
