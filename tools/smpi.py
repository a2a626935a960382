#!/usr/bin/env python3
"""The simulator's all-reduce beside SimGrid's SMPI: the same exchange on a network of the same rate and delay, by another
simulator with another model of it; and other algorithms there, to see what they would bring.

usage: smpi.py SHOAL
Needs SimGrid (Debian: libsimgrid-dev).
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PAYLOAD, PACKET = 1448, 1514  # bytes of a packet that are ours, and on the wire
UNITS = {"mbit": 1e6 / 8, "gbit": 1e9 / 8, "us": 1e-6, "ms": 1e-3}
# Flows share links evenly, and nothing else slows them: what TCP, MPI and processors cost is left out on both sides.
CONFIG = ["--cfg=network/model:CM02", "--cfg=network/crosstraffic:no", "--cfg=network/latency-factor:1",
          "--cfg=network/bandwidth-factor:1", "--cfg=network/weight-S:0", "--cfg=network/TCP-gamma:1e12",
          "--cfg=smpi/simulate-computation:no", "--cfg=smpi/host-speed:1Gf", "--log=root.thres:error"]


def installed():
    return bool(shutil.which("smpicc") and shutil.which("smpirun"))


def value(words):
    for unit, factor in UNITS.items():
        if words.endswith(unit):
            return float(words[:-len(unit)]) * factor
    raise ValueError(words)


def platform(ranks, rate, delay):
    """Each host has a link each way; a message passes two of them."""
    return f"""<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="all" prefix="host" suffix="" radical="0-{ranks - 1}" speed="1Gf" bw="{value(rate) * PAYLOAD / PACKET:.3f}Bps"
           lat="{value(delay) / 2:.9f}s" sharing_policy="SPLITDUPLEX"/>
</platform>
"""


class Smpi:
    """The program, built in a folder that is removed at the end."""

    def __enter__(self):
        self.kept = tempfile.TemporaryDirectory(prefix="shoal-smpi-")
        self.folder = pathlib.Path(self.kept.name)
        subprocess.run(["smpicc", "-O2", "-o", self.folder / "smpi_allreduce", HERE / "smpi_allreduce.c"], check=True)
        return self

    def __exit__(self, *_):
        self.kept.cleanup()

    def seconds(self, algorithm, ranks, numbers, rate, delay):
        (self.folder / "platform.xml").write_text(platform(ranks, rate, delay))
        (self.folder / "hosts").write_text("".join(f"host{i}\n" for i in range(ranks)))
        done = subprocess.run(["smpirun", "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts", *CONFIG,
                               "./smpi_allreduce", algorithm, str(numbers), "10"], cwd=self.folder, text=True, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return float(done.stdout.split()[-1])


def simulated(shoal, ranks, numbers, rate, delay):
    """The same by Shoal: a step that computes nothing."""
    done = subprocess.run([shoal, "simulate", "--json", "--mode=allreduce", f"--workers={ranks}", f"--parameters={numbers}", f"--rate={rate}",
                           f"--delay={delay}", "--steps=10", "--message-cost=0", "--megabyte-cost=0", "--update-cost=0"],
                          check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["step_seconds"]["mean"]


CASES = [(2, 10 ** 6), (4, 10 ** 6), (8, 10 ** 6), (16, 10 ** 6), (8, 10 ** 5), (8, 10 ** 3)]


def main(shoal):
    rate, delay = "1.8gbit", "100us"
    print(f"All-reduces at {rate} and {delay}, ms:\n")
    print("| ranks | numbers | Shoal simulated | the same by SMPI | difference | ring | halving and doubling |")
    print("|---|---|---|---|---|---|---|")
    with Smpi() as smpi:
        for ranks, numbers in CASES:
            ours = simulated(shoal, ranks, numbers, rate, delay)
            same, *others = (smpi.seconds(a, ranks, numbers, rate, delay)
                             for a in ("whole" if numbers <= 1000 else "direct", "ring", "halving"))
            print(f"| {ranks} | {numbers:,} | {1e3 * ours:.3f} | {1e3 * same:.3f} | {100 * (ours / same - 1):+.1f} % | "
                  + " | ".join(f"{1e3 * t:.3f}" for t in others) + " |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not installed():
        sys.exit("smpi.py needs SimGrid's smpicc and smpirun (Debian: libsimgrid-dev)")
    main(os.path.abspath(sys.argv[1]))
