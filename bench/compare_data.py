#!/usr/bin/env python3
"""How fast Shoal reads rows, on one processor with the files in the page cache, beside scikit-learn where it is there.

usage: compare_data.py BUILD_DIR

Generated click logs are read whole by `shoal data inspect`, which checks and counts every row; and by the readers alone
(data_bench). scikit-learn is looked for in $SHOAL_PEER_PYTHON, python3 and /usr/bin/python3."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def find_sklearn():
    for python in (os.environ.get("SHOAL_PEER_PYTHON"), shutil.which("python3"), "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import sklearn"], capture_output=True).returncode == 0:
            return python
    return None


def one_processor():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def inspect(shoal, path):
    """Best rows/s and MB/s of three runs of the whole command, start to end, and the peak memory in MB."""
    best, memory, report = 1e9, 0, None
    for _ in range(3):
        start = time.perf_counter()
        child = subprocess.Popen([shoal, "data", "inspect", path, "--json", "--quiet"], stdout=subprocess.PIPE,
                                 preexec_fn=one_processor)
        report = json.loads(child.stdout.read())
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"inspect failed on {path}")
        best = min(best, time.perf_counter() - start)
        memory = max(memory, usage.ru_maxrss / 1024)
    return report["rows"] / best, report["bytes"] / best / 1e6, memory


def main():
    build = sys.argv[1]
    shoal = os.path.join(build, "shoal")
    python = find_sklearn()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'read by':<24} {'format':<10} {'rows/s':>12} {'MB/s':>8} {'memory':>8} {'goal':>18}")
        ours = {}
        for kind, rows, goal in (("tfrecord", 1000000, "1,500,000 rows/s"), ("libsvm", 200000, "300 MB/s")):
            out = os.path.join(folder, kind)
            subprocess.run([shoal, "data", "generate", "criteo", "--rows", str(rows), "--files", "1", "--as", kind,
                            "--out", out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            ours[kind] = inspect(shoal, out)
            print(f"{'shoal data inspect':<24} {kind:<10} {ours[kind][0]:>12,.0f} {ours[kind][1]:>8.0f} "
                  f"{ours[kind][2]:>5.0f} MB {goal:>18}")
        done = subprocess.run([os.path.join(build, "bench", "data_bench")], capture_output=True, text=True,
                              preexec_fn=one_processor, check=True)
        for line in done.stdout.splitlines():
            r = json.loads(line)
            print(f"{'the reader alone':<24} {r['format']:<10} {r['rows_per_second']:>12,.0f} "
                  f"{r['megabytes_per_second']:>8.0f} {r['peak_rss_megabytes']:>5.0f} MB")
        if python:
            text = next(os.path.join(folder, "libsvm", f) for f in sorted(os.listdir(os.path.join(folder, "libsvm")))
                        if f.endswith(".libsvm"))
            peer = subprocess.run([python, os.path.join(HERE, "peer_svmlight.py"), text], capture_output=True,
                                  text=True, preexec_fn=one_processor, check=True)
            fields = dict(field.split("=", 1) for field in peer.stdout.split()[3:])
            print(f"{'scikit-learn ' + fields['version']:<24} {'libsvm':<10} {float(fields['rows_per_second']):>12,.0f} "
                  f"{float(fields['megabytes_per_second']):>8.0f}")
            print(f"\nShoal reads LIBSVM text {ours['libsvm'][0] / float(fields['rows_per_second']):.1f} times as fast as "
                  "scikit-learn (goal: 5).")
        else:
            print("\nscikit-learn is not installed; Shoal alone.")
    done = subprocess.run([os.path.join(build, "bench", "jpeg_bench")], capture_output=True, text=True,
                          preexec_fn=one_processor, check=True)
    r = json.loads(done.stdout)
    print(f"JPEG decoded and resized to 256x256: {r['decode_and_resize_ms']:.2f} ms a picture, {r['ratio']:.2f} times "
          f"libjpeg-turbo's decoding alone, {r['decode_alone_ms']:.2f} ms (goal: at most 1.2).")


main()
