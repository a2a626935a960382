#!/usr/bin/env python3
"""Sparse logistic regression with 33,762,578 features: rows a second, beside scikit-learn and Vowpal Wabbit where they are there; a
factorization machine and DeepFM beside PyTorch where it is there. Goals, met or missed, stand at the end.

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
DEEPFM_OPERATIONS = 6 * (624 * 400 + 400 * 400 + 400 * 400 + 400)  # of a row, forward and backward: products alone


goals = []


def goal(name, got, least, unit="x", limit=None):
    """Noted for the end. limit: what the machine allows, where that is known."""
    goals.append((name, got, least, unit, limit))


def print_goals():
    print(f"\n{'goal':<64} {'least':>9} {'reached':>9}")
    for name, got, least, unit, limit in goals:
        if got is None:
            print(f"{name:<64} {least:>9,g} {'-':>9} no peer here")
            continue
        beyond = f"; the machine allows {limit:,.2f}" if limit else ""
        print(f"{name:<64} {least:>9,g} {got:>9,.{0 if got > 100 else 2}f} {unit} {'met' if got >= least else 'missed'}{beyond}")


def find_python(module):
    for python in (os.environ.get("SHOAL_PEER_PYTHON"), shutil.which("python3"), "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    return None


def fields(line):
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def run(command, **more):
    environment = {**os.environ, **more}
    return fields(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def train(shoal, folder, *flags):
    """summary.json of a run; with --trace also the operators' rows."""
    out = os.path.join(folder, "run")
    subprocess.run([shoal, "train", *flags, "--run-dir", out, "--quiet"], check=True, capture_output=True)
    with open(os.path.join(out, "summary.json")) as f:
        summary = json.load(f)
    if "--trace" in flags:
        rows = subprocess.run([shoal, "trace", out, "--json"], check=True, capture_output=True).stdout
        summary["operators"] = json.loads(rows)
    shutil.rmtree(out)
    return summary


def in_memory(build, python):
    bench = os.path.join(build, "bench", "sparse_bench")
    settings = [(optimizer, batch, 1) for optimizer in ("sgd", "adagrad", "ftrl") for batch in (1, 100, 1000)] + [("sgd", 1, 2)]
    limits = [(f"limit-{numbers}", 1, 1) for numbers in (1, 2, 4)]  # of a row: a weight and its slots, two of them with a gap
    best, loss, peer, version = {}, {}, 0, ""
    for _ in range(ROUNDS):
        for s in settings + limits:
            got = run([bench, *map(str, s), "2"])
            best[s] = max(best.get(s, 0), float(got["best"]))
            loss[s] = got.get("loss")
        if python:
            got = run([python, os.path.join(HERE, "peer_sparse_lr.py")])
            peer, version = max(peer, float(got["best"])), got["version"]
    print(f"{'rows in memory':<34} {'threads':>7} {'rows/s':>12} {'beside scikit-learn':>20}")
    for optimizer, batch, threads in settings:
        s = (optimizer, batch, threads)
        ratio = f"{best[s] / peer:.2f}" if peer else ""
        note = f" (lock-free, loss {loss[s]})" if threads > 1 else ""
        print(f"{f'{optimizer}, batch {batch}':<34} {threads:>7} {best[s]:>12,.0f} {ratio:>20}{note}")
    for s in limits:
        numbers = s[0][6:]
        print(f"{f'limit: rows of {numbers} read and written':<34} {1:>7} {best[s]:>12,.0f}")
    if peer:
        print(f"{f'scikit-learn {version} SGDClassifier':<34} {1:>7} {peer:>12,.0f}")
    else:
        print("scikit-learn is not installed; Shoal alone.")
    sgd, (one, two, four) = best["sgd", 1, 1], (best[s] for s in limits)
    goal("lr, sgd, in memory, beside scikit-learn", sgd / peer if peer else None, 2.5, limit=one / peer if peer else None)
    if not peer or sgd < 2.5 * peer:  # the goal may be met by this one instead
        goal("lr, sgd, in memory, part of the limit program", sgd / one, 0.9, "")
    goal("lr, adagrad beside sgd, in memory", best["adagrad", 1, 1] / sgd, 0.8, limit=two / sgd)
    goal("lr, ftrl beside sgd, in memory", best["ftrl", 1, 1] / sgd, 0.7, limit=four / sgd)


def from_files(build, python):
    """TFRecord files and the same rows as text, in the page cache; Vowpal Wabbit on its own text and cache of a part."""
    shoal = os.path.join(build, "shoal")
    cases = [("tfrecord", "sgd", 1), ("tfrecord", "sgd", 100), ("tfrecord", "adagrad", 100), ("libsvm", "sgd", 1)]
    best, memory, peer = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        clicks, text = os.path.join(folder, "clicks"), os.path.join(folder, "rows.libsvm")
        subprocess.run([shoal, "data", "generate", "criteo", "--rows", str(ROWS), "--out", clicks, "--quiet"], check=True)
        subprocess.run([shoal, "data", "convert", os.path.join(clicks, "tfrecords0[0-2]"), text, "--quiet"], check=True)
        for _ in range(ROUNDS):
            for kind, optimizer, batch in cases:
                data = text if kind == "libsvm" else os.path.join(clicks, "tfrecords*")
                s = train(shoal, folder, "sparse-lr", "--data", data, "--features", "33762578", "--optimizer", optimizer,
                          "--batch-size", str(batch), "--shuffle-rows", "0")
                best[kind, optimizer, batch] = max(best.get((kind, optimizer, batch), 0), s["examples_per_second"])
                memory[kind, optimizer, batch] = s["tasks"][0]["rss_peak_bytes"] / 1e6
        if python:
            peer = run([python, os.path.join(HERE, "peer_vw.py"), text])
    print(f"\n{'shoal train sparse-lr, from files':<34} {'threads':>7} {'rows/s':>12} {'memory':>10}")
    for case in cases:
        print(f"{'{}, {}, batch {}'.format(*case):<34} {2:>7} {best[case]:>12,.0f} {memory[case]:>7.0f} MB")
    for kind in ("text", "cache") if peer else ():
        version = peer["version"]
        print(f"{f'Vowpal Wabbit {version}, sgd, {kind}':<34} {2:>7} {float(peer[kind]):>12,.0f}")
    goal("lr, sgd, from TFRecord, two processors, one of which reads", best["tfrecord", "sgd", 1], 1_000_000, "rows/s")
    for kind in ("libsvm", "tfrecord"):
        vw = float(peer["text"]) if peer else None
        goal(f"lr, sgd, from {kind}, beside Vowpal Wabbit from text", best[kind, "sgd", 1] / vw if vw else None, 8)


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


def of_peak(operators):
    """Part of the FMA peak that the dense layers' products reach."""
    products = [o for o in operators if o["kind"] == "op" and o["name"].split()[0] in ("matmul", "dense_block")]
    return sum(o["flops"] for o in products) / sum(o["possible_flops"] for o in products)


def click_models(build, python):
    """Models with wide rows, from text; PyTorch's sparse tables on the same rows in memory take turns with them."""
    shoal = os.path.join(build, "shoal")
    cases = [(model, batch, threads) for model, batch in (("fm", 100), ("fm", 1024), ("deepfm", 256), ("deepfm", 1024))
             for threads in (1, 2)]
    best, peer, version = {}, {}, ""
    with tempfile.TemporaryDirectory() as folder:
        clicks = os.path.join(folder, "clicks")
        subprocess.run([shoal, "data", "generate", "criteo", "--rows", "400000", "--files", "4", "--features", str(CLICK_FEATURES),
                        "--as", "tsv", "--out", clicks, "--quiet"], check=True, capture_output=True)
        usual = ["--data", os.path.join(clicks, "clicks0[0-2].tsv"), "--features", str(CLICK_FEATURES), "--no-checkpoints"]
        for _ in range(ROUNDS):
            for case in cases:
                model, batch, threads = case
                rows = 300_000 if model == "fm" else 240_000  # packing the table, once, shall not count
                s = train(shoal, folder, model, *usual, "--batch-size", str(batch), "--threads", str(threads), "--steps",
                          str(rows // batch))
                best[case] = max(best.get(case, 0), s["examples_per_second"])
                if python:
                    got = run([python, os.path.join(HERE, "peer_click_torch.py"), model, os.path.join(clicks, "clicks00.tsv"),
                               str(CLICK_FEATURES), str(batch)], OMP_NUM_THREADS=str(threads))
                    peer[case], version = max(peer.get(case, 0), float(got["best"])), got["version"]
        s = train(shoal, folder, "deepfm", *usual, "--threads", "1", "--steps", "100", "--trace", "50")
        share = of_peak(s["operators"])
    print(f"\n{f'{CLICK_FEATURES:,} features x 17, Adagrad':<34} {'threads':>7} {'from text':>12} {f'PyTorch {version}, in memory':>32} {'ratio':>6}")
    for case in cases:
        beside = peer.get(case)
        print(f"{'{}, batch {}'.format(*case):<34} {case[2]:>7} {best[case]:>12,.0f} {f'{beside:,.0f}' if beside else '-':>32} "
              f"{f'{best[case] / beside:.2f}' if beside else '-':>6}")
    goal("fm, from text, two processors", max(best["fm", 100, 2], best["fm", 1024, 2]), 300_000, "rows/s")
    peak = float(run([os.path.join(build, "bench", "sparse_bench"), "fma", "1", "1"])["best"]) * 1e9
    for batch, threads in ((256, 1), (256, 2), (1024, 1), (1024, 2)):
        beside = peer.get(("deepfm", batch, threads))
        goal(f"deepfm, batch {batch}, {threads} threads, beside PyTorch", best["deepfm", batch, threads] / beside if beside else None,
             3, limit=peak * threads / DEEPFM_OPERATIONS / beside if beside else None)
    goal("deepfm, products of the dense layers, part of the FMA peak", share, 0.7, "")


in_memory(sys.argv[1], find_python("sklearn"))
from_files(sys.argv[1], find_python("vowpalwabbit"))
with_servers(sys.argv[1])
click_models(sys.argv[1], find_python("torch"))
print_goals()
