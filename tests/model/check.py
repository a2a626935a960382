#!/usr/bin/env python3
"""Checks the protocol of replicated servers (replica.pml) by spin, over all orders of events within limits.

Each run goes through every reachable state: no answer is given by who lacks an update that was answered. That the runs come
to what they are about is checked, too: a backup takes over, who was replaced is refused, a new backup is filled and takes
over in turn; and a protocol without one of its rules is found to be wrong.

    tests/model/check.py            in seconds
    tests/model/check.py --wide     with more updates and changes of views: a minute or two, some gigabytes"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EVENTS = {"a backup takes over", "a backup that was filled later takes over", "who was left out drops what it holds",
          "who took over, or is alone, answers", "an answer with a backup that was filled later", "a new backup has everything",
          "who took over refuses a record of who was replaced", "who takes over uses what was handed over",
          "who was replaced cannot hand over a record", "who has handed over records dies"}
# What each is about, and its limits.
RUNS = {
    "a failover, and a new backup": dict(PAIR=1, UPDATES=2, TERMS=3),
    "one after the other": dict(PAIR=1, UPDATES=1, TERMS=4),
    "a death": dict(PAIR=1, DEATHS=1, UPDATES=1, TERMS=2),
    "a connection breaks": dict(PAIR=1, BREAKS=1, UPDATES=1, TERMS=3),
    "a start": dict(UPDATES=1, TERMS=2),
    "shared memory: a failover, and a new backup": dict(PAIR=1, SHARED=1, UPDATES=2, TERMS=3),
    "shared memory: one after the other": dict(PAIR=1, SHARED=1, UPDATES=1, TERMS=4),
    "shared memory: a death": dict(PAIR=1, SHARED=1, DEATHS=1, UPDATES=1, TERMS=2),
}
WIDE = {
    "one after the other": dict(PAIR=1, UPDATES=2, TERMS=4),
    "a death": dict(PAIR=1, DEATHS=1, UPDATES=1, TERMS=3),
    "a connection breaks": dict(PAIR=1, BREAKS=1, UPDATES=2, TERMS=3),
    "a start": dict(UPDATES=2, TERMS=3),
    "shared memory: one after the other": dict(PAIR=1, SHARED=1, UPDATES=2, TERMS=4),
    "shared memory: a death": dict(PAIR=1, SHARED=1, DEATHS=1, UPDATES=2, TERMS=3),
}
BROKEN = {1: "answers do not wait for the backup", 2: "who was replaced is not refused", 3: "who is in no view takes over",
          4: "what was handed over is not used", 5: "who was replaced hands over a record"}


def compiled(folder):
    subprocess.run(["spin", "-a", str(HERE / "replica.pml")], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cc", "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-DNOFAIR", "-o", "pan", "pan.c"], cwd=folder, check=True)


def run(folder, limits, *flags):
    """(faults found, events reached, states, whether all was walked through)"""
    environment = {**os.environ, **{f"MODEL_{name}": str(value) for name, value in limits.items()}}
    done = subprocess.run(["./pan", "-m1000000", *flags], cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=True)
    faults = int(re.search(r"errors: (\d+)", done.stdout).group(1))
    states = int(float(re.search(r"(\S+) states, stored", done.stdout).group(1)))
    whole = not re.search(r"depth too small|not completed|out of memory|aborted", done.stdout)
    return faults, set(re.findall(r"^reached: (.*)$", done.stdout, re.M)), states, whole


def main():
    if not shutil.which("spin") or not shutil.which("cc"):
        print("skipped: spin is not installed (tools/setup.sh)")
        sys.exit(77)
    wrong = []
    with tempfile.TemporaryDirectory(prefix="shoal-model-") as folder:
        compiled(folder)
        reached = set()
        for name, limits in (WIDE if "--wide" in sys.argv else RUNS).items():
            faults, events, states, whole = run(folder, limits)
            reached |= events
            print(f"{name}: {states} states, {faults} faults{'' if whole else ', not all of them'}", flush=True)
            if faults or not whole:
                wrong.append(f"{name}: {faults} faults" if faults else f"{name}: not all states")
        wrong += [f"never reached: {e}" for e in sorted(EVENTS - reached)]
        for number, what in BROKEN.items():
            faults, _, states, _ = run(folder, dict(PAIR=1, SHARED=int(number > 3), UPDATES=2, TERMS=3, BROKEN=number))
            print(f"without a rule ({what}): {faults} faults after {states} states", flush=True)
            if not faults:
                wrong.append(f"not found: {what}")
    print("\n".join(wrong) or "good")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
