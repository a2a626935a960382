"""Trains on with shoal where the real Keras stopped, and hands over to Keras what shoal has trained.

usage: training.py SHOAL [OPTIMIZER...]

For each optimizer that both have, on the same batches: Keras trains a few steps and saves, shoal takes one more step from the archive, and
so does Keras: the same weights, to 1e-3 of the change. Shoal trains the same few steps and exports; Keras loads the archive, and its
optimizer has made as many updates and has the same slots as Keras' own, to 1e-3. Then rows with weights, and gradients that are
accumulated. Prints a line each, and fails if one is off.
"""
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
                      "--xla_cpu_multi_thread_eigen=false")
import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers, optimizers  # noqa: E402

MOST = 1e-3
BATCH, STEPS = 4, 3
# Where gradients are next to 0, rounding decides what some do: not with a larger epsilon. Keras adds Adam's before it corrects for the
# first steps, shoal (and PyTorch) after: that one is small.
OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.05),
    "nesterov": lambda: optimizers.SGD(0.05, momentum=0.8, nesterov=True, clipvalue=0.2),
    "adam": lambda: optimizers.Adam(0.01, epsilon=1e-8),
    "adamw": lambda: optimizers.AdamW(0.01, weight_decay=0.02, epsilon=1e-8),
    "nadam": lambda: optimizers.Nadam(0.01, beta_1=0.85, epsilon=1e-3),
    "lion": lambda: optimizers.Lion(0.01),
    "lamb": lambda: optimizers.Lamb(0.01, epsilon=1e-8),
    "rmsprop": lambda: optimizers.RMSprop(0.01, epsilon=1e-3),
    "rmsprop_momentum": lambda: optimizers.RMSprop(0.01, rho=0.8, momentum=0.7, epsilon=1e-3),
    "adagrad": lambda: optimizers.Adagrad(0.05),
}


def make(optimizer):
    """Weights of one axis and of two, some that are not trained, and two of ours that are one of Keras' (which matters to norms)."""
    keras.utils.set_random_seed(3)
    first = layers.Dense(4, use_bias=False) if isinstance(optimizer, optimizers.Lamb) else \
        layers.GRU(4, return_sequences=True, bias_initializer="he_normal")
    m = keras.Sequential([keras.Input((5, 3)), first, layers.BatchNormalization(), layers.Flatten(), layers.Dense(6, activation="tanh"),
                          layers.Dense(6, trainable=False), layers.Dense(2)])
    m.compile(optimizer=optimizer, loss="mse")
    return m


def weights_of(path):
    with zipfile.ZipFile(path) as z, h5py.File(io.BytesIO(z.read("model.weights.h5"))) as f:
        found = {}
        f.visititems(lambda name, o: found.update({name: np.array(o)}) if isinstance(o, h5py.Dataset) else None)
        return [v for k, v in sorted(found.items()) if not k.startswith("optimizer") and v.dtype.kind == "f"]


class Bench:
    def __init__(self, shoal, work):
        self.shoal, self.work = shoal, work
        rng = np.random.default_rng(5)
        self.x = rng.normal(0, 1, (BATCH * STEPS, 5, 3)).astype("float32")
        self.y = rng.normal(0, 1, (BATCH * STEPS, 2)).astype("float32")
        self.w = rng.uniform(0, 2, BATCH * STEPS).astype("float32")
        self.rows = self.save("all", slice(None))
        self.one = self.save("one", slice(0, BATCH))

    def save(self, name, part, **more):
        path = self.work / f"{name}.npz"
        np.savez(path, X=self.x[part], y=self.y[part], **more)
        return path

    def run(self, *words):
        done = subprocess.run([self.shoal, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def train(self, model, rows, run, *words, fresh=True):
        if fresh:
            shutil.rmtree(self.work / run, ignore_errors=True)
        self.run("train", model, "--data", rows, "--stream", "--shuffle-rows", "0", "--batch-size", BATCH, "--threads", "1", "--quiet",
                 "--run-dir", self.work / run, *words)

    def exported(self, run):
        out = self.work / "out.keras"
        self.run("export", self.work / run, out)
        return out

    def step(self, m):
        m.train_on_batch(self.x[:BATCH], self.y[:BATCH])


def off(got, want, before):
    """The largest difference, as a share of the largest change."""
    change = max(float(np.abs(b - a).max()) for a, b in zip(before, want))
    return max(float(np.abs(a - b).max()) for a, b in zip(got, want)) / change


def state(b, name):
    m = make(OPTIMIZERS[name]())
    m.save(b.work / "first.keras")
    m.fit(b.x, b.y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0)
    m.save(b.work / "begun.keras")
    slots = [np.array(v) for v in m.optimizer.variables]
    b.train(b.work / "begun.keras", b.one, "run", "--steps", "1", "--no-checkpoints")
    got = weights_of(b.exported("run"))
    b.step(m)
    m.save(b.work / "want.keras")
    share = off(got, weights_of(b.work / "want.keras"), weights_of(b.work / "begun.keras"))
    b.train(b.work / "first.keras", b.rows, "run", "--epochs", "1")
    loaded = keras.saving.load_model(b.exported("run")).optimizer
    if int(loaded.iterations) != STEPS or len(loaded.variables) != len(slots):
        raise RuntimeError(f"Keras has {int(loaded.iterations)} updates and {len(loaded.variables)} variables")
    apart = [float(np.abs(np.array(v) - want).max() / (np.abs(want).max() + 1e-9)) for v, want in zip(loaded.variables, slots)]
    return max(share, *apart)


def sample_weights(b, name):
    m = make(OPTIMIZERS[name]())
    m.save(b.work / "first.keras")
    b.train(b.work / "first.keras", b.save("weighted", slice(None), sample_weight=b.w), "run", "--epochs", "1", "--no-checkpoints")
    got = weights_of(b.exported("run"))
    m.fit(b.x, b.y, sample_weight=b.w, batch_size=BATCH, epochs=1, shuffle=False, verbose=0)
    m.save(b.work / "want.keras")
    return off(got, weights_of(b.work / "want.keras"), weights_of(b.work / "first.keras"))


def accumulated(b, name):
    """Keras' batch normalization moves its averages with each batch, ours with each update: those are left out."""
    optimizer = OPTIMIZERS[name]()
    config = {**optimizer.get_config(), "gradient_accumulation_steps": STEPS}
    m = make(type(optimizer).from_config(config))
    m.save(b.work / "first.keras")
    b.train(b.work / "first.keras", b.rows, "run", "--epochs", "1", "--no-checkpoints")
    m.fit(b.x, b.y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0)
    b.run("export", b.work / "run", b.work / "out.keras")
    ours = keras.saving.load_model(b.work / "out.keras", compile=False)
    each = [[np.array(v) for v in one.trainable_variables] for one in (ours, m)]
    before = [np.array(v) for v in keras.saving.load_model(b.work / "first.keras", compile=False).trainable_variables]
    return off(each[0], each[1], before)


def main():
    shoal = sys.argv[1]
    names = sys.argv[2:] or list(OPTIMIZERS)
    todo = [(state, name) for name in names] + [(sample_weights, "nesterov"), (accumulated, "rmsprop")][:0 if sys.argv[2:] else 2]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(shoal, pathlib.Path(folder))
        for check, name in todo:
            try:
                share = check(bench, name)
                bad += not share < MOST
                words = f"{share:.1e}{'' if share < MOST else ' OFF'}"
            except Exception as e:  # the next ones count, too
                bad += 1
                words = f"FAILED: {str(e)[:300]}"
            print(f"{check.__name__} {name}: {words}", flush=True)
    print(json.dumps({"comparisons": len(todo), "failed": bad}))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
