#!/usr/bin/env python3
"""One flipped bit in a checkpoint: each must be found before anything of it is used.

flips.py [--tries 10000] [--seed N]: checkpoints of real runs (one process; parameter servers; a table on servers; growing ids,
where the newest holds the rows that changed and needs another with all of them). Each try flips one bit anywhere in one file:
`shoal eval` of it must end with exit status 1 and name the file. Every hundredth is resumed from: the run says what it passed
over, and ends with the bits it would have had."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
os.environ.setdefault("SHOAL_ROOT", str(HERE.parents[1]))
os.environ.setdefault("SHOAL_BIN", str(HERE.parents[1] / "build" / "shoal"))
sys.path.insert(0, str(HERE.parent / "cli"))
import support  # noqa: E402

RESUME_EVERY = 100


def shoal(*words):
    return subprocess.run([support.SHOAL, *map(str, words)], capture_output=True, text=True, errors="replace", timeout=120)


def base_of(path):
    """The checkpoint that this one needs, or None."""
    data = path.read_bytes()
    head = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    step = head.get("__metadata__", {}).get("base")
    return path.with_name(f"step-{int(step):012}.safetensors") if step else None


class Kind:
    """A run that was stopped in the middle, and what it gives when it goes on up to step `end`."""

    def __init__(self, base, name, words, stop, end=None):
        self.name, self.model, self.run, self.end = name, words[0], base / name, end
        more = ["--threads", "1", "--quiet", "--keep", "50"]
        for _ in range(20): # a checkpoint is left out while the one before is being written
            shutil.rmtree(self.run, ignore_errors=True)
            done = shoal("train", *words, *more, "--steps", stop, "--run-dir", self.run)
            files = sorted((self.run / "checkpoints").glob("step-*"))
            if done.returncode:
                sys.exit(f"{name}: {done.stderr}")
            if len(files) >= 2 and (name != "growing" or base_of(files[-1])):
                break
        else:
            sys.exit(f"{name}: {[f.name for f in files]}")
        needed = base_of(files[-1])
        self.newest, self.files = files[-1].name, [f.name for f in (files[-1], needed) if f]
        if end:
            whole = base / f"{name}-whole"
            shutil.copytree(self.run, whole)
            self.bits, said = self.finish(whole)
            if not self.bits:
                sys.exit(f"{name}: {said}")

    def finish(self, run):
        """(the weights, what was said)"""
        done = shoal("train", self.model, "--resume", "--run-dir", run, "--steps", self.end, "--quiet")
        return (run / "model.safetensors").read_bytes() if not done.returncode else None, done.stderr


def kinds(base):
    support.make_data(base / "bars", 256)
    shoal("data", "generate", "criteo", "--rows", 1200, "--files", 3, "--features", 2000, "--out", base / "log", "--quiet")
    clicks = ["--data", f"{base}/log/tfrecords00,{base}/log/tfrecords01", "--test-data", base / "log" / "tfrecords02"]
    draw = random.Random(6)
    with open(base / "ids.svm", "w") as f: # all ids but 20 come in the first third
        for i in range(1500):
            ids = [draw.randrange(10), 10 + draw.randrange(10)] + ([1000 + 2 * i, 1001 + 2 * i] if i < 500 else [])
            f.write(f"{1 if ids[0] < 5 else -1} {' '.join(f'{k}:1' for k in ids)}\n")
    dense = ["softmax", "--data", base / "bars", "--batch-size", 16, "--epochs", 4, "--checkpoint-every", 10]
    served = ["--workers", 2, "--ps", 2]
    return [Kind(base, "single", dense, 45, 60), Kind(base, "servers", [*dense, *served], 25),
            Kind(base, "table", ["sparse-lr", *clicks, "--features", 2000, "--batch-size", 20, "--checkpoint-every", 5, *served], 15),
            Kind(base, "growing", ["fm", "--data", base / "ids.svm", "--test-data", base / "ids.svm", "--growing-ids", "--batch-size", 20,
                                   "--shuffle-rows", 0, "--checkpoint-every", 10, "--epochs", 1], 69, 75)]


def flip(path, draw):
    data = bytearray(path.read_bytes())
    # Half of the tries in the header, which is short and has all that is said of the rest.
    head = 8 + int.from_bytes(data[:8], "little")
    at = draw.randrange(head if draw.random() < 0.5 else len(data))
    bit = draw.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {at}"


class Tries:
    def __init__(self, base, all_kinds, seed):
        self.base, self.kinds, self.seed, self.own = base, all_kinds, seed, threading.local()

    def copy(self, kind):
        """This thread's copy of the run."""
        folders = self.own.__dict__.setdefault("folders", {})
        if kind.name not in folders:
            folders[kind.name] = pathlib.Path(tempfile.mkdtemp(dir=self.base)) / "run"
            shutil.copytree(kind.run, folders[kind.name])
        return folders[kind.name]

    def one(self, n):
        """(kind, None or what is wrong)"""
        draw = random.Random(self.seed * 1000003 + n)
        kind = self.kinds[n % len(self.kinds)]
        file = draw.choice(kind.files)
        if n // len(self.kinds) % RESUME_EVERY == 0 and kind.end:
            return kind.name, self.resumed(kind, file, draw)
        run = self.copy(kind)
        path = run / "checkpoints" / file
        good = path.read_bytes()
        where = flip(path, draw)
        done = shoal("eval", run / "checkpoints" / kind.newest)
        path.write_bytes(good)
        if done.returncode == 1 and file in done.stderr:
            return kind.name, None
        return kind.name, f"{file}, {where}: exit {done.returncode}: {done.stderr[-300:]}"

    def resumed(self, kind, file, draw):
        run = pathlib.Path(tempfile.mkdtemp(dir=self.base)) / "run"
        shutil.copytree(kind.run, run)
        where = flip(run / "checkpoints" / file, draw)
        bits, said = kind.finish(run)
        shutil.rmtree(run.parent)
        if bits == kind.bits and "passed over" in said:
            return None
        return f"resumed, {file}, {where}: {'no model' if bits is None else 'other bits' if bits != kind.bits else 'not said'}: {said[-300:]}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tries", type=int, default=10000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    a = p.parse_args()
    made, missed = collections.Counter(), 0
    with tempfile.TemporaryDirectory(prefix="shoal-flips-") as base:
        tries = Tries(pathlib.Path(base), kinds(pathlib.Path(base)), a.seed)
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            for name, wrong in pool.map(tries.one, range(a.tries)):
                made[name] += 1
                if wrong:
                    missed += 1
                    print(f"{name}: {wrong}", flush=True)
    print(", ".join(f"{n} of {name}" for name, n in made.items()) + f": {missed} not found")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
