#!/usr/bin/env python3
"""Sparse logistic regression with 33,762,578 features: rows a second, beside scikit-learn where it is there; a factorization
machine and DeepFM beside PyTorch where it is there.

usage: compare_sparse.py BUILD_DIR

Rows in memory (sparse_bench; scikit-learn's SGDClassifier, which makes an update a row), the two taking turns; then the
whole command from TFRecord files in the page cache, alone and with parameter servers. Peers are looked for in $SHOAL_PEER_PYTHON, python3 and
/usr/bin/python3."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, ROUNDS = 2_000_000, 3
CLICK_FEATURES = 1_000_000


def find_python(module):
    for python in (os.environ.get("SHOAL_PEER_PYTHON"), shutil.which("python3"), "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    return None


def fields(line):
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def run(command):
    return fields(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def in_memory(build, python):
    bench = os.path.join(build, "bench", "sparse_bench")
    settings = [("sgd", 1, 1), ("sgd", 100, 1), ("adagrad", 1, 1), ("adagrad", 100, 1), ("ftrl", 1, 1), ("sgd", 1, 2)]
    best, loss, peer, version = {}, {}, 0, ""
    for _ in range(ROUNDS):
        for s in settings:
            got = run([bench, *map(str, s), "2"])
            best[s] = max(best.get(s, 0), float(got["best"]))
            loss[s] = got["loss"]
        if python:
            got = run([python, os.path.join(HERE, "peer_sparse_lr.py")])
            peer, version = max(peer, float(got["best"])), got["version"]
    print(f"{'rows in memory':<34} {'threads':>7} {'rows/s':>12} {'beside scikit-learn':>20}")
    for optimizer, batch, threads in settings:
        s = (optimizer, batch, threads)
        ratio = f"{best[s] / peer:.2f}" if peer else ""
        note = f" (lock-free, loss {loss[s]})" if threads > 1 else ""
        print(f"{f'{optimizer}, batch {batch}':<34} {threads:>7} {best[s]:>12,.0f} {ratio:>20}{note}")
    if peer:
        print(f"{f'scikit-learn {version} SGDClassifier':<34} {1:>7} {peer:>12,.0f}")
        print(f"\nShoal, sgd, an update a row, is {best[('sgd', 1, 1)] / peer:.2f} times as fast (goal: 2.7).")
    else:
        print("\nscikit-learn is not installed; Shoal alone.")


def from_files(build):
    shoal = os.path.join(build, "shoal")
    print(f"\n{'shoal train, from TFRecord':<34} {'threads':>7} {'rows/s':>12} {'memory':>10}")
    with tempfile.TemporaryDirectory() as folder:
        clicks = os.path.join(folder, "clicks")
        subprocess.run([shoal, "data", "generate", "criteo", "--rows", str(ROWS), "--out", clicks, "--quiet"], check=True)
        for optimizer, batch in (("sgd", 1), ("sgd", 100), ("adagrad", 100)):
            best, memory = 0, 0
            for i in range(ROUNDS):
                out = os.path.join(folder, f"{optimizer}-{batch}-{i}")
                subprocess.run([shoal, "train", "sparse-lr", "--data", os.path.join(clicks, "tfrecords*"), "--optimizer",
                                optimizer, "--batch-size", str(batch), "--shuffle-rows", "0", "--run-dir", out, "--quiet"], check=True, capture_output=True)
                with open(os.path.join(out, "summary.json")) as f:
                    s = json.load(f)
                best = max(best, s["examples_per_second"])
                memory = s["tasks"][0]["rss_peak_bytes"] / 1e6
                shutil.rmtree(out)
            print(f"{f'{optimizer}, batch {batch}':<34} {2:>7} {best:>12,.0f} {memory:>7.0f} MB")
    print("Goal: 1,000,000 rows/s on two processors, one of which reads.")


def with_servers(build):
    """Five workers and a server as processes of this machine; the modes take turns."""
    shoal = os.path.join(build, "shoal")
    cases = {"async": (["--mode", "async"], 5000), "async, staleness 4": (["--mode", "async", "--staleness", "4"], 5000),
             "sync": (["--mode", "sync"], 1000), "sync, --transfer dense": (["--transfer", "dense", "--steps", "5"], None)}
    best, last = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        clicks = os.path.join(folder, "clicks")
        subprocess.run([shoal, "data", "generate", "criteo", "--rows", "600000", "--files", "6", "--out", clicks, "--quiet"],
                       check=True)
        for _ in range(ROUNDS):
            for name, (flags, _) in cases.items():
                out = os.path.join(folder, "run")
                subprocess.run([shoal, "train", "sparse-lr", "--data", os.path.join(clicks, "tfrecords0[0-4]"), "--test-data",
                                os.path.join(clicks, "tfrecords05"), "--workers", "5", "--ps", "1", "--batch-size", "100",
                                "--run-dir", out, "--quiet", *flags], check=True, capture_output=True)
                with open(os.path.join(out, "summary.json")) as f:
                    last[name] = json.load(f)
                best[name] = max(best.get(name, 0), last[name]["steps_per_second"])
                shutil.rmtree(out)
    print(f"\n{'5 workers + 1 server, batch 100':<34} {'steps/s':>9} {'goal':>6} {'bytes a step':>13} {'of 8 a feature':>14} "
          f"{'worker':>8} {'server':>8} {'loss':>7}")
    for name, (_, goal) in cases.items():
        s, e = last[name], last[name]["exchange"]
        memory = {role: max(t["rss_peak_bytes"] for t in s["tasks"] if t["role"] == role) / 1e6 for role in ("worker", "ps")}
        print(f"{name:<34} {best[name]:>9,.1f} {goal or '-':>6} {e['step_bytes']:>13,.0f} {e['bytes_a_feature'] / 8:>14,.2f} "
              f"{memory['worker']:>5.0f} MB {memory['ps']:>5.0f} MB {s['test_loss']:>7.4f}")


def click_models(build, python):
    """Models with wide rows, from text; PyTorch's sparse tables on rows in memory take turns with them."""
    shoal = os.path.join(build, "shoal")
    cases = [("fm", 100, 300_000), ("fm", 1024, 300_000), ("deepfm", 256, 60_000), ("deepfm", 1024, 60_000)]
    best, peer = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        clicks = os.path.join(folder, "clicks")
        subprocess.run([shoal, "data", "generate", "criteo", "--rows", "400000", "--files", "4", "--features", str(CLICK_FEATURES),
                        "--as", "tsv", "--out", clicks, "--quiet"], check=True, capture_output=True)
        for _ in range(ROUNDS):
            for model, batch, rows in cases:
                out = os.path.join(folder, "run")
                subprocess.run([shoal, "train", model, "--data", os.path.join(clicks, "clicks0[0-2].tsv"), "--features",
                                str(CLICK_FEATURES), "--batch-size", str(batch), "--steps", str(rows // batch), "--no-checkpoints",
                                "--run-dir", out, "--quiet"], check=True, capture_output=True)
                with open(os.path.join(out, "summary.json")) as f:
                    best[model, batch] = max(best.get((model, batch), 0), json.load(f)["examples_per_second"])
                shutil.rmtree(out)
                if python:
                    got = run([python, os.path.join(HERE, "peer_click_torch.py"), model, str(CLICK_FEATURES), str(batch)])
                    peer[model, batch] = max(peer.get((model, batch), 0), float(got["best"]))
    print(f"\n{f'{CLICK_FEATURES:,} features x 17, Adagrad':<34} {'threads':>7} {'rows/s':>12} {'PyTorch, in memory':>20} {'ratio':>6}")
    for model, batch, _ in cases:
        beside = peer.get((model, batch))
        print(f"{f'{model}, batch {batch}, from text':<34} {2:>7} {best[model, batch]:>12,.0f} {f'{beside:,.0f}' if beside else '-':>20} "
              f"{f'{best[model, batch] / beside:.2f}' if beside else '-':>6}")
    print("Goals: fm 300,000 rows/s; deepfm 3 times PyTorch.")


in_memory(sys.argv[1], find_python("sklearn"))
from_files(sys.argv[1])
with_servers(sys.argv[1])
click_models(sys.argv[1], find_python("torch"))
