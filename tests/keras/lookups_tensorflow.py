"""Words and numbers looked up by the real TensorFlow: archives with StringLookup, Hashing and IntegerLookup that it has made.

usage: lookups_tensorflow.py SHOAL

TensorFlow adapts the layers, predicts rows, and saves the model; shoal takes the archive over (`shoal train` with a rate that changes
nothing) and predicts the same rows of a CSV file, words and all. Equal to 1e-4 of the largest number. Prints a line a model, and fails if
one is off. Says so and ends well without TensorFlow.
"""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

try:
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers
except ImportError as e:
    print(f"skipped: {e.name} is not there, so no words were looked up by TensorFlow")
    sys.exit(0)

from rows import off  # noqa: E402

TOLERANCE = 1e-4
ROWS = 60
rng = np.random.default_rng(1)
COLUMNS = {"city": rng.choice(["Oslo", "Rome", "Paris", "Bern", "Riga"], ROWS), "kind": rng.choice(["a b", "c,d", "\u00e9"], ROWS),
           "code": rng.integers(3, 9, ROWS) * 100, "size": rng.normal(0, 1, ROWS).astype("float32")}
KNOWN = 8  # rows that the vocabularies are from: some words are unknown


def words(lookup):
    city, kind = keras.Input((1,), dtype="string", name="city"), keras.Input((1,), dtype="string", name="kind")
    size = keras.Input((1,), name="size")
    each = [layers.Flatten()(layers.Embedding(12, 4)(lookup(city))), layers.Flatten()(layers.Embedding(7, 3)(layers.Hashing(7)(kind)))]
    return keras.Model([city, kind, size], layers.Dense(1)(layers.Concatenate()([*each, size])))


def adapted_words():
    lookup = layers.StringLookup()
    lookup.adapt(COLUMNS["city"][:KNOWN])
    return words(lookup)


def masked_words():
    lookup = layers.StringLookup(num_oov_indices=2, mask_token="")
    lookup.adapt(COLUMNS["city"][:KNOWN])
    return words(lookup)


def given_words():
    return words(layers.StringLookup(vocabulary=["Rome", "Oslo"]))


def numbers(lookup):
    code, size = keras.Input((1,), dtype="int64", name="code"), keras.Input((1,), name="size")
    each = [layers.Flatten()(layers.Embedding(12, 4)(lookup(code))), size]
    return keras.Model([code, size], layers.Dense(1)(layers.Concatenate()(each)))


def adapted_numbers():
    lookup = layers.IntegerLookup()
    lookup.adapt(COLUMNS["code"][:KNOWN])
    return numbers(lookup)


def given_numbers():
    return numbers(layers.IntegerLookup(vocabulary=[300, 500]))


def compare(shoal, make, work):
    keras.utils.set_random_seed(1)
    m = make()
    names = [i.name for i in m.inputs]
    m.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    m.save(work / "model.keras")
    want = m.predict([tf.constant(COLUMNS[n][:, None]) for n in names], verbose=0, batch_size=ROWS)
    with open(work / "rows.csv", "w", newline="") as f:
        csv.writer(f).writerows([[*names, "y"], *zip(*(COLUMNS[n] for n in names), range(ROWS))])
    common = ["--columns", "target=y"]
    for call in (["train", "model.keras", "--data", "rows.csv", "--lr", "1e-30", "--steps", "1", "--run-dir", "run", "--quiet", *common],
                 ["predict", "run", "rows.csv", "-o", "y.npy", *common]):
        done = subprocess.run([shoal, *call], capture_output=True, text=True, cwd=work)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
    return off(np.load(work / "y.npy"), want)


def main():
    shoal, bad = str(pathlib.Path(sys.argv[1]).resolve()), 0
    todo = [adapted_words, masked_words, given_words, adapted_numbers, given_numbers]
    for make in todo:
        with tempfile.TemporaryDirectory() as work:
            try:
                share = compare(shoal, make, pathlib.Path(work))
                bad += not share < TOLERANCE
                print(f"{make.__name__}: {share:.1e}{'' if share < TOLERANCE else ' OFF'}", flush=True)
            except RuntimeError as e:  # the next ones count, too
                bad += 1
                print(f"{make.__name__}: FAILED: {str(e)[:300]}", flush=True)
    print(f"{len(todo)} models with words or numbers looked up by TensorFlow {tf.__version__}, {bad} that fail")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
