#!/usr/bin/env python3
"""Logistic regression by Vowpal Wabbit on rows of text, and on its own binary cache of them: rows a second.

usage: peer_vw.py ROWS.libsvm

Rows are written in Vowpal Wabbit's format beside the file before the clock starts. Best of two passes."""
import importlib.metadata
import os
import sys
import time

from vowpalwabbit import Workspace


def main():
    path = sys.argv[1] + ".vw"
    rows = 0
    with open(sys.argv[1]) as source, open(path, "w") as out:
        for line in source:
            label, entries = line.split(" ", 1)
            out.write(("1" if float(label) > 0 else "-1") + " | " + entries)
            rows += 1
    flags = f"--sgd --loss_function logistic -b 25 --quiet -d {path}"
    cached = f"{flags} --cache_file {path}.cache"

    def rate(settings):
        best = 0
        for _ in range(2):
            begun = time.perf_counter()
            Workspace(settings).finish()
            best = max(best, rows / (time.perf_counter() - begun))
        return best

    text = rate(flags)
    Workspace(cached + " -k").finish()
    print(f"text={text:.0f} cache={rate(cached):.0f} version={importlib.metadata.version('vowpalwabbit')}")
    os.remove(path)
    os.remove(path + ".cache")


main()
