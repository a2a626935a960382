"""Compares shoal with the real Keras and onnxruntime on the models of models.py.

usage: compare.py SHOAL FOLDER [NAME...]

For each model: what `shoal predict` gives for the archive; what onnxruntime gives for `shoal export MODEL.keras OUT.onnx`; what
Keras gives for `shoal export MODEL.keras OUT.keras`. All equal to 1e-4 of the largest number. Prints a line a model, and fails
if one is off.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

TOLERANCE = 1e-4


def off(got, want):
    """The largest difference, as a share of the largest number; 1 for other shapes."""
    if len(got) != len(want) or any(a.shape != b.shape for a, b in zip(got, want)):
        return 1.0
    return max(float(np.abs(a - b).max() / (np.abs(b).max() + 1e-9)) for a, b in zip(got, want))


class Comparison:
    def __init__(self, shoal, folder, name, settings, work):
        self.shoal, self.folder, self.name, self.settings, self.work = shoal, folder, name, settings, work
        self.inputs = {i: np.load(folder / f"{name}.in.{i}.npy") for i in settings["inputs"]}
        self.want = [np.load(folder / f"{name}.out.{k}.npy") for k in range(len(settings["outputs"]))]

    def run(self, *words):
        done = subprocess.run([self.shoal, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def words(self):
        files = {i: self.folder / f"{self.name}.in.{i}.npy" for i in self.inputs}
        return [f"{i}={f}" for i, f in files.items()] if len(files) > 1 else list(files.values())

    def predict(self, model):
        out = self.work / "y.npy"
        self.run("predict", model, *self.words(), "-o", out)
        if len(self.want) == 1:
            return [np.load(out)]
        return [np.load(self.work / f"y-{o.replace('/', '-')}.npy") for o in self.settings["outputs"]]

    def shoal_predicts(self):
        return off(self.predict(self.folder / f"{self.name}.keras"), self.want)

    def onnxruntime_predicts(self):
        path = self.work / "model.onnx"
        self.run("export", self.folder / f"{self.name}.keras", path)
        onnx.checker.check_model(onnx.load(path), full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        feeds = {i.name: x.astype(np.float32) for i, x in zip(session.get_inputs(), self.inputs.values())}
        return off(session.run(None, feeds), self.want)

    def shoal_reads_onnx(self):
        return off(self.predict(self.work / "model.onnx"), self.want)

    def keras_predicts(self):
        path = self.work / "model.keras"
        self.run("export", self.folder / f"{self.name}.keras", path)
        got = keras.saving.load_model(path).predict(list(self.inputs.values()), verbose=0)
        return off(got if isinstance(got, list) else [got], self.want)


def main():
    shoal, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    models = json.loads((folder / "models.json").read_text())
    names = sys.argv[3:] or list(models)
    checks = [Comparison.shoal_predicts, Comparison.onnxruntime_predicts, Comparison.shoal_reads_onnx,
              Comparison.keras_predicts]
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            c = Comparison(shoal, folder, name, models[name], pathlib.Path(work))
            words = []
            for check in checks:
                try:
                    share = check(c)
                    bad += not share < TOLERANCE
                    words.append(f"{check.__name__} {share:.1e}{'' if share < TOLERANCE else ' OFF'}")
                except Exception as e:  # the next ones count, too
                    bad += 1
                    words.append(f"{check.__name__} FAILED: {str(e)[:300]}")
            print(f"{name}: " + ", ".join(words), flush=True)
    print(f"{len(names)} models, {bad} comparisons that fail")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
