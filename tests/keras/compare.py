"""Compares shoal with the real Keras and onnxruntime on the models of models.py.

usage: compare.py SHOAL FOLDER [NAME...]

For each model: what `shoal predict` gives for the archive; what onnxruntime gives for `shoal export MODEL.keras OUT.onnx`; what
Keras gives for `shoal export MODEL.keras OUT.keras`. All equal to 1e-4 of the largest number.

Then it is trained, by `shoal train MODEL.keras` and as Keras has trained it, on the same batches with SGD: one step (the change
of each weight is its gradient), and an epoch; equal to 1e-3. Keras predicts the same with the trained model, exported.

Prints a line a model, and fails if one is off.
"""
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

os.environ.setdefault("KERAS_BACKEND", "numpy")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

TOLERANCE = 1e-4
TRAINED = 1e-3  # of gradients and of weights after an epoch
ROUNDING = 4e-7  # of a weight, in its change
CLASSES = ("sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy")


def read_safetensors(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]], "<f4").reshape(e["shape"])
            for name, e in header.items()}


def archive_weights(path):
    """As models.py keeps those of trained models."""
    with zipfile.ZipFile(path) as z, h5py.File(io.BytesIO(z.read("model.weights.h5"))) as f:
        found = {}
        f.visititems(lambda name, o: found.update({name: np.array(o)}) if isinstance(o, h5py.Dataset) else None)
        return {k.replace("/", "|"): v for k, v in found.items() if not k.startswith("optimizer") and v.dtype.kind == "f"}


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

    def predict(self, model, names=None):
        out = self.work / "y.npy"
        self.run("predict", model, *self.words(), "-o", out)
        if len(self.want) == 1:
            return [np.load(out)]
        return [np.load(self.work / f"y-{o.replace('/', '-')}.npy") for o in names or self.settings["outputs"]]

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


class Training(Comparison):
    """Weights of both programs, by the places that they have in Keras' archive."""

    def __init__(self, *words):
        super().__init__(*words)
        self.archive = self.folder / f"{self.name}.keras"
        self.first = archive_weights(self.archive)
        self.run("export", self.archive, self.work / "first.safetensors")
        ours = read_safetensors(self.work / "first.safetensors")
        self.places = {}  # of Keras' -> [ours], matched by their numbers, which are random
        for place, numbers in self.first.items():
            parts = [numbers] if self.find(ours, numbers) else list(numbers) if numbers.ndim > 1 else [numbers]
            self.places[place] = [self.find(ours, part) for part in parts]
        self.places = {place: names for place, names in self.places.items() if all(names)}
        self.write_rows()

    @staticmethod
    def find(ours, numbers):
        flat = numbers.ravel()
        return next((n for n, v in ours.items() if v.size == flat.size and np.array_equal(v.ravel(), flat)), None)

    def write_rows(self):
        rows = self.work / "rows"
        shutil.rmtree(rows, ignore_errors=True)
        rows.mkdir()
        x = list(self.inputs.values())
        packed = x[0] if len(x) == 1 else np.concatenate([a.reshape(len(a), -1) for a in x], axis=1)
        np.save(rows / "X.npy", packed.astype(np.float32))
        y = [np.load(self.folder / f"{self.name}.target.{k}.npy") for k in range(len(self.want))]
        if len(y) > 1:
            labels = np.concatenate([a.reshape(len(a), -1) for a in y], axis=1).astype(np.float32)
        else:
            labels = y[0].ravel().astype(np.int32) if self.settings["loss"][0] == "binary_crossentropy" else y[0]
        np.save(rows / "y.npy", labels)
        self.rows = rows / "X.npy"

    def trained(self, *words):
        run = self.work / "run"
        shutil.rmtree(run, ignore_errors=True)
        self.run("train", self.archive, "--data", self.rows, "--stream", "--shuffle-rows", "0", "--batch-size",
                 self.settings["batch"], "--threads", "1", "--no-checkpoints", "--quiet", "--run-dir", run, *words)
        ours = read_safetensors(run / "model.safetensors")
        return {place: np.concatenate([ours[n].ravel() for n in names]) for place, names in self.places.items()}

    def kept(self, when):
        with np.load(self.folder / f"{self.name}.{when}.npz") as f:
            return {place: f[place].ravel() for place in self.places}

    def gradients(self):
        ours, keras_ = self.trained("--steps", "1"), self.kept("step")
        worst = 0
        for place in self.places:
            first = self.first[place].ravel()
            change = keras_[place] - first
            error = np.abs(ours[place] - keras_[place]).max() - ROUNDING * np.abs(first).max()
            worst = max(worst, float(error / (np.abs(change).max() + 1e-12)))
        return worst

    def epoch(self):
        ours, keras_ = self.trained("--epochs", "1"), self.kept("epoch")
        return max(float(np.abs(ours[p] - keras_[p]).max() / np.abs(keras_[p]).max()) for p in self.places)

    def keras_predicts_trained(self):
        """What shoal's run predicts, and Keras with the run exported."""
        self.run("export", self.work / "run", self.work / "trained.keras")
        again = keras.saving.load_model(self.work / "trained.keras", compile=False)
        got = again.predict(list(self.inputs.values()), verbose=0)
        return off(self.predict(self.work / "trained.keras", again.output_names), got if isinstance(got, list) else [got])


def check(bad, words, made, checks, most):
    for one in checks:
        try:
            share = one(made)
            bad += not share < most
            words.append(f"{one.__name__} {share:.1e}{'' if share < most else ' OFF'}")
        except Exception as e:  # the next ones count, too
            bad += 1
            words.append(f"{one.__name__} FAILED: {str(e)[:300]}")
    return bad


def main():
    shoal, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    models = json.loads((folder / "models.json").read_text())
    names = sys.argv[3:] or list(models)
    predicting = [Comparison.shoal_predicts, Comparison.onnxruntime_predicts, Comparison.shoal_reads_onnx,
                  Comparison.keras_predicts]
    training = [Training.gradients, Training.epoch, Training.keras_predicts_trained]
    bad = trained = 0
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            given = (shoal, folder, name, models[name], pathlib.Path(work))
            words = []
            bad = check(bad, words, Comparison(*given), predicting, TOLERANCE)
            if models[name]["train"]:
                bad = check(bad, words, Training(*given), training, TRAINED)
                trained += 1
            print(f"{name}: " + ", ".join(words), flush=True)
    print(f"{len(names)} models, {trained} of them trained, {bad} comparisons that fail")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
