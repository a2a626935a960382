"""Frozen GraphDefs between shoal and the real TensorFlow, in both directions.

usage: graphdef_tensorflow.py SHOAL MODELS [NAME...]

Out: models of the folder MODELS are trained for a few steps and exported (`shoal export RUN model.pb`); TensorFlow imports the graph and
gives the numbers of `shoal predict RUN`. In: models made by Keras on TensorFlow are frozen, and `shoal predict frozen.pb` gives TensorFlow's
numbers. Equal to 1e-4 of the largest number.

Prints a line a model, and fails if one is off. Says so and ends well without TensorFlow.
"""
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
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
except ImportError as e:
    print(f"skipped: {e.name} is not there, so no GraphDef was exchanged with TensorFlow")
    sys.exit(0)

from rows import off, rows_for  # noqa: E402

TOLERANCE = 1e-4
OUT = ["softmax", "lenet", "alexnet", "mlp", "resnet18", "autoencoder", "lstm", "char-transformer", "linear", "mlp-regression", "resnet50"]


def run(shoal, work, *words):
    done = subprocess.run([shoal, *map(str, words)], capture_output=True, text=True, cwd=work)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def graph_of(path):
    graph = tf.compat.v1.GraphDef()
    graph.ParseFromString(path.read_bytes())
    return graph


def exported(shoal, path, work):
    """What TensorFlow makes of our graph, and what we make of it again, beside our own predictions."""
    features, labels = rows_for(str(path), shoal)
    np.savez(work / "rows.npz", features=features, labels=labels)
    np.save(work / "x.npy", features)
    run(shoal, work, "train", path, "--data", work / "rows.npz", "--test-data", work / "rows.npz", "--steps", "2", "--lr", "1e-5", "--batch-size", "8",
        "--transform", "scale=1", "--run-dir", work / "run", "--quiet")
    run(shoal, work, "export", work / "run", work / "model.pb")
    run(shoal, work, "predict", work / "run", work / "x.npy", "-o", work / "own.npy")
    run(shoal, work, "predict", work / "model.pb", work / "x.npy", "-o", work / "again.npy")
    with tf.Graph().as_default() as graph:
        tf.compat.v1.import_graph_def(graph_of(work / "model.pb"), name="")
        with tf.compat.v1.Session(graph=graph) as session:
            got = session.run("output:0", {"input:0": features})
    own = np.load(work / "own.npy")
    return max(off(x.reshape(own.shape), own) for x in (got, np.load(work / "again.npy")))


def made():
    """Models of Keras that cover the operators, by name."""
    layers = keras.layers
    x = keras.Input([16, 16, 3])
    y = layers.Conv2D(8, 3, padding="same", activation="relu6")(x)
    y = layers.BatchNormalization()(y)
    y = layers.DepthwiseConv2D(3, padding="same", activation="elu")(y)
    y = layers.SeparableConv2D(12, 3, strides=2, padding="same", activation="leaky_relu")(y)
    y = layers.MaxPooling2D(2)(y)
    y = layers.Conv2DTranspose(6, 3, strides=2, padding="same", activation="selu")(y)
    y = layers.ZeroPadding2D(1)(y)
    y = layers.AveragePooling2D(2, padding="same")(y)
    y = layers.UpSampling2D(2)(y)
    z = layers.GlobalAveragePooling2D()(y)
    y = layers.Flatten()(y)
    y = layers.Dense(24, activation="softplus")(y)
    y = layers.Concatenate()([y, z])
    y = layers.Dense(10, activation="softmax")(y)
    yield "images", keras.Model(x, y)
    x = keras.Input([20])
    y = layers.Dense(16, activation="tanh")(x)
    y = layers.LayerNormalization()(y)
    y = layers.Dense(16, activation="sigmoid")(y)
    y = layers.Multiply()([y, layers.Dense(16, activation="softsign")(x)])
    y = layers.Add()([y, layers.Dense(16, activation="gelu")(x)])
    y = layers.Maximum()([y, layers.Dense(16, activation="silu")(x)])
    y = layers.Reshape([4, 4])(y)
    y = layers.Permute([2, 1])(y)
    y = layers.Flatten()(y)
    yield "rows", keras.Model(x, layers.Dense(3)(y))
    x = keras.Input([12, 8])
    y = layers.Conv1D(16, 3, padding="causal", activation="relu")(x)
    y = layers.MultiHeadAttention(2, 8)(y, y)
    y = layers.GlobalMaxPooling1D()(y)
    yield "sequences", keras.Model(x, layers.Dense(4)(y))
    a, b = keras.Input([5], name="left"), keras.Input([5], name="right")
    y = layers.Subtract()([layers.Dense(8)(a), layers.Dense(8)(b)])
    yield "two", keras.Model([a, b], layers.Dense(2, activation="softmax")(keras.ops.square(y)))


def frozen(shoal, model, work):
    signature = [tf.TensorSpec([None, *i.shape[1:]], tf.float32, name=i.name) for i in model.inputs]
    several = len(signature) > 1
    call = tf.function(lambda *x: model(list(x) if several else x[0], training=False)).get_concrete_function(*signature)
    graph = convert_variables_to_constants_v2(call).graph.as_graph_def()
    (work / "frozen.pb").write_bytes(graph.SerializeToString())
    random = np.random.default_rng(3)
    inputs = [random.normal(size=[5, *i.shape[1:]]).astype("float32") for i in model.inputs]
    want = np.array(model(inputs if several else inputs[0], training=False))
    names = [n.name for n in graph.node if n.op == "Placeholder"]
    words = []
    for name, value in zip(names, inputs):
        np.save(work / f"{name}.npy", value)
        words.append(f"{name}={work / name}.npy" if several else work / f"{name}.npy")
    run(shoal, work, "predict", work / "frozen.pb", *words, "-o", work / "y.npy")
    run(shoal, work, "model", "show", work / "frozen.pb")
    return off(np.load(work / "y.npy"), want)


def main():
    shoal, models, names = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    failed = count = 0
    tasks = [(f"{n} out", exported, models / f"{n}.json") for n in OUT] + [(f"{n} in", frozen, m) for n, m in made()]
    for title, task, what in tasks:
        if names and title.split()[0] not in names:
            continue
        count += 1
        with tempfile.TemporaryDirectory() as folder:
            try:
                worst = task(shoal, what, pathlib.Path(folder))
            except (RuntimeError, subprocess.CalledProcessError, tf.errors.OpError, ValueError) as e:
                print(f"{title:22} FAILED: {e}", flush=True)
                failed += 1
                continue
            good = worst <= TOLERANCE
            failed += not good
            print(f"{title:22} {worst:.1e}  {'ok' if good else 'OFF'}", flush=True)
    print(f"{count - failed} of {count} GraphDefs agree with TensorFlow {tf.__version__}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
