"""Runs the ONNX export of every model in models/ with the real onnxruntime, beside `shoal predict`.

usage: onnx_models.py SHOAL MODELS [NAME...]     all files of the folder MODELS, or those named

Each is trained for a few steps on generated rows, exported, and predicts the same rows by `shoal predict RUN x.npy`, `shoal predict
OUT.onnx x.npy` and onnxruntime: equal to 1e-4 of the largest number. Models of sparse rows have to be refused, and to say why.

Prints a line a model, and fails if one is off. Says so and ends well without onnxruntime.
"""
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 1e-4
# Models of sparse rows: an example has no fixed shape, so there is no ONNX of it (docs/exchange.md).
SPARSE = {"sparse-lr", "lr", "fm", "wide-deep", "deepfm", "dcn-v2", "dlrm", "ffm"}

try:
    import numpy as np
    import onnxruntime
except ImportError as e:
    print(f"skipped: {e.name} is not there, so no model of models/ was run by onnxruntime")
    sys.exit(0)


sys.path.insert(0, str(pathlib.Path(__file__).parent))
from rows import off, rows_for  # noqa: E402


def compare(shoal, path, work):
    def run(*words):
        done = subprocess.run([shoal, *map(str, words)], capture_output=True, text=True, cwd=work)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    features, labels = rows_for(str(path), shoal)
    np.savez(work / "rows.npz", features=features, labels=labels)
    np.save(work / "x.npy", features)
    run("train", path, "--data", work / "rows.npz", "--test-data", work / "rows.npz", "--steps", "2", "--lr", "1e-5", "--batch-size", "8", "--transform", "scale=1",
        "--run-dir", work / "run", "--quiet")
    run("export", work / "run", work / "model.onnx")
    run("predict", work / "run", work / "x.npy", "-o", work / "own.npy")
    run("predict", work / "model.onnx", work / "x.npy", "-o", work / "again.npy")
    session = onnxruntime.InferenceSession(work / "model.onnx", providers=["CPUExecutionProvider"])
    got = session.run(None, {session.get_inputs()[0].name: features})[0]
    again = np.load(work / "again.npy")
    own = np.load(work / "own.npy")
    shape = own.shape  # a row of numbers each, whatever the output's shape
    return off(got.reshape(shape), own), off(again.reshape(shape), own)


def refused(shoal, path, work):
    """What a model of sparse rows says."""
    lines = [f"{i % 2}\t" + "\t".join(str((i * k) % 9) for k in range(13)) + "\t" + "\t".join(f"{i * k:08x}" for k in range(26)) for i in range(40)]
    (work / "rows.tsv").write_text("\n".join(lines) + "\n")
    train = subprocess.run([shoal, "train", path, "--data", work / "rows.tsv", "--test-data", work / "rows.tsv", "--steps", "2", "--features", "5000", "--run-dir",
                            work / "run", "--quiet"],
                           capture_output=True, text=True, cwd=work)
    if train.returncode:
        raise RuntimeError(train.stderr.strip())
    done = subprocess.run([shoal, "export", work / "run", work / "model.onnx"], capture_output=True, text=True, cwd=work)
    if done.returncode != 2 or "sparse rows" not in done.stderr:
        raise RuntimeError(f"expected to be refused: {done.returncode} {done.stderr.strip()}")
    return done.stderr.strip()


def main():
    shoal, models, names = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    failed = []
    paths = [p for p in sorted(models.glob("*.json")) if not names or p.stem in names]
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            try:
                if path.stem in SPARSE:
                    refused(shoal, path, pathlib.Path(folder))
                    print(f"{path.stem:18} refused: sparse rows", flush=True)
                    continue
                ours, again = compare(shoal, path, pathlib.Path(folder))
                good = ours <= TOLERANCE and again <= TOLERANCE
                print(f"{path.stem:18} onnxruntime {ours:.1e}  read again {again:.1e}  {'ok' if good else 'OFF'}", flush=True)
                if not good:
                    failed.append(path.stem)
            except (RuntimeError, subprocess.CalledProcessError) as e:
                print(f"{path.stem:18} FAILED: {e}", flush=True)
                failed.append(path.stem)
    print(f"{len(paths) - len(failed)} of {len(paths)} models of {models.name}/ agree with onnxruntime {onnxruntime.__version__}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
