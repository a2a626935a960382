"""Models made by the real Keras with random weights, for tests/cli/test_keras.py.

usage: models.py FOLDER [NAME...]     makes each model, or those named, in FOLDER:

  NAME.keras             the model, compiled with its loss and SGD
  NAME.in.INPUT.npy      rows for each input
  NAME.out.N.npy         what Keras predicts for them
  NAME.target.N.npy      what each output is to be, if the model can be trained without chance
  NAME.step/PATH.npy     the weights after one step on the first batch, by their path in model.weights.h5
  NAME.epoch/PATH.npy    the weights after one epoch
  models.json            which models there are, with names of inputs, outputs, loss, rate, batch size

Keras runs on whatever backend KERAS_BACKEND names.
"""
import io
import json
import os
import pathlib
import sys
import zipfile

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# compiling takes far longer than running: these models are small
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
                      "--xla_cpu_multi_thread_eigen=false")
import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers, ops  # noqa: E402

ROWS, BATCH = 12, 4
MODELS = {}


def model(**settings):
    """A function that makes a model; settings: loss, lr, integers (of inputs: name -> below), train."""
    def keep(make):
        MODELS[make.__name__] = (make, settings)
        return make
    return keep


# ---- straight rows of layers

@model(loss="sparse_categorical_crossentropy")
def mlp():
    return keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"),
                             layers.Dense(6, activation="tanh", use_bias=False),
                             layers.Dense(4, activation="softmax")])


@model(loss="binary_crossentropy")
def binary():
    return keras.Sequential([keras.Input((5,)), layers.Dense(7, activation="sigmoid"),
                             layers.Dense(1, activation="sigmoid")])


@model(loss="mse")
def regression():
    return keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="gelu"), layers.Dense(2)])


@model(loss="categorical_crossentropy")
def logits():
    m = keras.Sequential([keras.Input((3, 5)), layers.Dense(6, activation="silu"), layers.Flatten(), layers.Dense(3)])
    m.shoal_loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    return m


@model(loss="sparse_categorical_crossentropy")
def lenet():
    return keras.Sequential([
        keras.Input((14, 14, 1)), layers.Conv2D(4, 5, padding="same", activation="relu"), layers.MaxPooling2D(2),
        layers.Conv2D(6, 3, activation="tanh"), layers.AveragePooling2D(2), layers.Flatten(),
        layers.Dense(10, activation="relu"), layers.Dense(5, activation="softmax")])


@model(loss="mse")
def convolutions():
    return keras.Sequential([
        keras.Input((12, 10, 4)), layers.Conv2D(8, (3, 2), strides=(2, 1), padding="same", groups=2, activation="relu"),
        layers.Conv2D(6, 3, dilation_rate=(1, 2), padding="same", use_bias=False),
        layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same", activation="elu"),
        layers.SeparableConv2D(5, 3, padding="valid", depth_multiplier=1, activation="selu"),
        layers.Conv2DTranspose(4, 3, strides=2, padding="same"), layers.GlobalAveragePooling2D(), layers.Dense(2)])


@model(loss="mse")
def convolutions_1d():
    return keras.Sequential([
        keras.Input((16, 3)), layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu"),
        layers.SeparableConv1D(6, 3, padding="same"), layers.DepthwiseConv1D(3, padding="same"),
        layers.MaxPooling1D(2), layers.Conv1DTranspose(4, 3, strides=2, padding="valid"),
        layers.AveragePooling1D(3, strides=2, padding="same"), layers.GlobalMaxPooling1D(), layers.Dense(2)])


@model(loss="mse")
def borders():
    return keras.Sequential([
        keras.Input((6, 7, 2)), layers.ZeroPadding2D(((1, 2), (0, 3))), layers.Conv2D(3, 3),
        layers.UpSampling2D((2, 3)), layers.Cropping2D(((1, 0), (2, 1))), layers.UpSampling2D(2, interpolation="bilinear"),
        layers.MaxPooling2D((3, 2), strides=(2, 3), padding="same"), layers.GlobalMaxPooling2D(), layers.Dense(2)])


@model(loss="mse")
def borders_1d():
    return keras.Sequential([
        keras.Input((6, 3)), layers.ZeroPadding1D((1, 2)), layers.Conv1D(4, 2, strides=2), layers.UpSampling1D(3),
        layers.Cropping1D((2, 1)), layers.GlobalAveragePooling1D(), layers.RepeatVector(3), layers.Permute((2, 1)),
        layers.Reshape((2, -1)), layers.Flatten(), layers.Dense(2)])


@model(loss="mse", lr=0.02)
def norms():
    return keras.Sequential([
        keras.Input((5, 6, 4)), layers.Conv2D(8, 3), layers.BatchNormalization(), layers.Activation("relu"),
        layers.GroupNormalization(4), layers.LayerNormalization(), layers.RMSNormalization(),
        layers.BatchNormalization(momentum=0.9, epsilon=1e-2, scale=False), layers.GlobalAveragePooling2D(),
        layers.UnitNormalization(), layers.Dense(2)])


@model(loss="mse", train=False)
def noise():
    return keras.Sequential([
        keras.Input((8, 4)), layers.SpatialDropout1D(0.2), layers.Dense(6), layers.GaussianNoise(0.3),
        layers.GaussianDropout(0.2), layers.Reshape((4, 4, 3)), layers.SpatialDropout2D(0.5),
        layers.AlphaDropout(0.1), layers.Flatten(), layers.Dropout(0.4), layers.ActivityRegularization(0.0, 0.0),
        layers.Dense(3)])


ACTIVATIONS = ["relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "softsign", "hard_sigmoid",
               "hard_silu", "hard_tanh", "mish", "exponential", "log_softmax", "softmax", "tanh", "sigmoid", "linear", "celu",
               "hard_shrink", "log_sigmoid", "soft_shrink", "sparse_plus", "sparse_sigmoid", "squareplus", "tanh_shrink"]


@model(loss="mse", lr=0.01)
def activations():
    x = keras.Input((6,), name="x")
    h = layers.Dense(5)(x)
    each = [layers.Activation(name)(h) for name in ACTIVATIONS]
    each += [layers.ReLU(max_value=2.0, negative_slope=0.1, threshold=0.2)(h), layers.LeakyReLU(0.07)(h), layers.ELU(0.8)(h),
             layers.PReLU(alpha_initializer="he_normal")(h), layers.Softmax()(h)]
    return keras.Model(x, layers.Dense(2)(layers.Concatenate()(each)))


@model(loss="mse")
def einsum_dense():
    return keras.Sequential([
        keras.Input((4, 6)), layers.EinsumDense("abc,cd->abd", output_shape=(4, 5), bias_axes="d", activation="relu"),
        layers.EinsumDense("...x,xyz->...yz", output_shape=(2, 3), bias_axes="yz"),
        layers.EinsumDense("abcd,ce->abed", output_shape=(4, 4, 3), bias_axes="b"),
        layers.EinsumDense("ab...,bc->ac...", output_shape=5), layers.Flatten(), layers.Dense(2)])


@model(loss="mse", lr=0.01)
def gates():
    """Activations that are operations, with numbers of their own."""
    x = keras.Input((6,), name="x")
    h = layers.Dense(8)(x)
    each = [ops.threshold(h, 0.1, -0.5), ops.gelu(h),
            ops.gelu(h, approximate=False), ops.leaky_relu(h, negative_slope=0.15), ops.elu(h, alpha=0.7), ops.celu(h), ops.glu(h),
            ops.hard_shrink(h), ops.soft_shrink(h), ops.squareplus(h), ops.log_sigmoid(h), ops.sparse_sigmoid(h),
            ops.hard_silu(h), ops.softmax(h), ops.log_softmax(h, axis=1)]
    return keras.Model(x, layers.Dense(2)(layers.Concatenate()(each)))


# ---- graphs of layers

@model(loss="mse")
def merges():
    a, b = keras.Input((4, 6), name="a"), keras.Input((4, 6), name="b")
    p, q = layers.Dense(5)(a), layers.Dense(5, activation="tanh")(b)
    each = [layers.Add()([p, q, p]), layers.Subtract()([p, q]), layers.Multiply()([p, q]), layers.Average()([p, q]),
            layers.Maximum()([p, q]), layers.Minimum()([p, q]), layers.Concatenate(axis=-1)([p, q])]
    h = layers.Concatenate(axis=2)(each)
    d = layers.Dot(axes=(2, 2))([p, q])
    n = layers.Dot(axes=2, normalize=True)([p, q])
    h = layers.Concatenate()([layers.Flatten()(h), layers.Flatten()(d), layers.Flatten()(n)])
    return keras.Model([a, b], layers.Dense(2)(h))


@model(loss=["mse", "sparse_categorical_crossentropy"])
def two_outputs():
    a, b = keras.Input((6,), name="a"), keras.Input((5, 5, 1), name="picture")
    c = layers.GlobalMaxPooling2D()(layers.Conv2D(4, 3, activation="relu")(b))
    h = layers.Concatenate()([layers.Dense(4, activation="relu")(a), c])
    return keras.Model([a, b], [layers.Dense(1, name="price")(h), layers.Dense(3, activation="softmax", name="kind")(h)])


@model(loss="sparse_categorical_crossentropy", lr=0.05)
def residual():
    x = keras.Input((10, 10, 3))
    h = layers.Conv2D(6, 3, padding="same", use_bias=False)(x)
    for strides in (1, 2):
        skip = h if strides == 1 else layers.Conv2D(6, 1, strides=2)(h)
        h = layers.BatchNormalization()(h)
        h = layers.ReLU()(h)
        h = layers.Conv2D(6, 3, strides=strides, padding="same")(h)
        h = layers.Add()([h, skip])
    return keras.Model(x, layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling2D()(h)))


@model(loss="mse")
def shared():
    a, b = keras.Input((5,), name="left"), keras.Input((5,), name="right")
    inner = keras.Sequential([keras.Input((5,)), layers.Dense(4, activation="relu"), layers.Dense(3)], name="tower")
    one = layers.Dense(3, activation="tanh", name="twice")
    h = layers.Concatenate()([inner(a), inner(b), one(a), one(b)])
    return keras.Model([a, b], layers.Dense(1)(h))


@model(loss="mse")
def nested():
    x = keras.Input((8, 8, 2))
    i = keras.Input((8, 8, 2))
    h = layers.Conv2D(4, 3, activation="relu")(i)
    inner = keras.Model(i, layers.Concatenate()([layers.GlobalAveragePooling2D()(h), layers.GlobalMaxPooling2D()(h)]),
                        name="features")
    outer = keras.Sequential([keras.Input((8,)), layers.Dense(5, activation="relu"), layers.Dense(2)], name="head")
    return keras.Model(x, outer(inner(x)))


# ---- sequences

@model(loss="sparse_categorical_crossentropy", integers={"words": 11})
def text_lstm():
    x = keras.Input((7,), dtype="int32", name="words")
    h = layers.Embedding(11, 6)(x)
    h = layers.LSTM(5, return_sequences=True)(h)
    h = layers.LSTM(4)(h)
    return keras.Model(x, layers.Dense(3, activation="softmax")(h))


@model(loss="mse", integers={"words": 11})
def masked():
    x = keras.Input((7,), dtype="int32", name="words")
    h = layers.Embedding(11, 6, mask_zero=True)(x)
    h = layers.GRU(5, return_sequences=True)(h)
    h = layers.Bidirectional(layers.LSTM(3))(h)
    return keras.Model(x, layers.Dense(2)(h))


@model(loss="mse")
def recurrent():
    x = keras.Input((6, 4))
    h = layers.SimpleRNN(5, return_sequences=True)(x)
    h = layers.GRU(4, return_sequences=True, go_backwards=True)(h)
    h = layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode="sum")(h)
    h = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(h)
    h = layers.SimpleRNN(4, activation="relu")(h)
    return keras.Model(x, layers.Dense(2)(h))


@model(loss="mse")
def time_distributed():
    x = keras.Input((4, 6, 6, 2))
    h = layers.TimeDistributed(layers.Conv2D(3, 3, activation="relu"))(x)
    h = layers.TimeDistributed(layers.Flatten())(h)
    h = layers.TimeDistributed(layers.Dense(5))(h)
    h = layers.Masking(mask_value=0.0)(h)
    h = layers.LSTM(3)(h)
    return keras.Model(x, layers.Dense(2)(h))


@model(loss="mse")
def attention():
    x, y = keras.Input((5, 6), name="query"), keras.Input((7, 4), name="value")
    h = layers.MultiHeadAttention(2, 3)(x, x)
    h = layers.LayerNormalization()(layers.Add()([x, h]))
    h = layers.MultiHeadAttention(3, 4, value_dim=4, output_shape=(6,), use_bias=False)(h, y)
    g = layers.Attention(use_scale=True)([layers.Dense(4)(h), y])
    return keras.Model([x, y], layers.Dense(2)(layers.Flatten()(layers.Concatenate()([h, g]))))


@model(loss="sparse_categorical_crossentropy", integers={"tokens": 13}, lr=0.02)
def transformer():
    x = keras.Input((6,), dtype="int32", name="tokens")
    h = layers.Embedding(13, 8)(x)
    a = layers.MultiHeadAttention(2, 4)(h, h, use_causal_mask=True)
    h = layers.LayerNormalization(epsilon=1e-6)(h + a)
    f = layers.Dense(8)(layers.Dense(16, activation="gelu")(h))
    h = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([h, layers.Dropout(0.0)(f)]))
    return keras.Model(x, layers.Dense(13, activation="softmax")(layers.GlobalAveragePooling1D()(h)))


@model(loss="mse")
def autoencoder():
    x = keras.Input((8, 8, 1))
    h = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(x)
    h = layers.Dense(6)(layers.Flatten()(h))
    h = layers.Reshape((4, 4, 4))(layers.Dense(64, activation="relu")(h))
    h = layers.Conv2DTranspose(3, 3, strides=2, padding="same", activation="relu")(h)
    return keras.Model(x, layers.Conv2D(1, 3, padding="same", activation="sigmoid")(h))


# ---- operations of keras.ops, and layers that prepare data

@model(loss="mse", lr=0.01)
def operations():
    x = keras.Input((6, 5), name="x")
    h = layers.Dense(5)(x)
    parts = [ops.cumsum(h, axis=1), ops.sort(h, axis=-1), ops.maximum(h, x), ops.minimum(h, x), h * 2.0 + 1.0, 3.0 - h,
             ops.transpose(ops.transpose(h, (0, 2, 1)), (0, 2, 1)), h / 4.0, h - x, h * x, ops.relu(h)]
    stacked = ops.stack(parts, axis=1)
    flat = [ops.reshape(stacked, (-1, 330)), ops.reshape(ops.top_k(h, 2)[0], (-1, 12)), ops.reshape(h[:, 1:3, 2:], (-1, 6))]
    return keras.Model(x, layers.Dense(2)(ops.concatenate(flat, axis=-1)))


@model(loss="mse", lr=0.01)
def products():
    x, y = keras.Input((4, 6), name="x"), keras.Input((6, 4), name="y")
    a, b = layers.Dense(5)(x), layers.Dense(5)(ops.transpose(y, (0, 2, 1)))
    each = [ops.einsum("bij,bkj->bik", a, b), ops.matmul(x, y), ops.softmax(ops.einsum("...ij,...kj->...ik", a, b), axis=1)]
    positive = ops.greater(a, 0.1)
    each += [ops.where(positive, a, b), ops.where(positive, a, -0.5), ops.where(ops.less_equal(a, b), 2.0, a), ops.cast(positive, "float32")]
    return keras.Model([x, y], layers.Dense(2)(layers.Flatten()(layers.Concatenate()(each))))


@model(loss="mse", integers={"kind": 5})
def one_hot():
    x, k = keras.Input((3,), name="x"), keras.Input((2,), dtype="int32", name="kind")
    e = layers.Flatten()(layers.Concatenate(axis=1)([ops.one_hot(k, 5), ops.one_hot(k[:, 1:], 5)]))
    c = layers.CategoryEncoding(5, output_mode="multi_hot")(k)
    return keras.Model([x, k], layers.Dense(2)(layers.Concatenate()([x, e, c])))


@model(loss="mse", lr=0.01)
def preprocessing():
    x = keras.Input((4,), name="x")
    n = layers.Normalization()
    n.adapt(np.random.default_rng(1).normal(2, 3, (50, 4)).astype("float32"))
    h = layers.Concatenate()([n(x), layers.Rescaling(0.5, offset=-1)(x), layers.Identity()(x)])
    return keras.Model(x, layers.Dense(2)(h))


# ---- writing them down

def randomize(m, rng):
    """Other values than zeros and ones, where biases and scales begin."""
    for v in m.trainable_variables:
        a = np.array(v)
        v.assign(a + rng.normal(0, 0.1, a.shape).astype(a.dtype))
    for v in m.non_trainable_variables:
        if v.name == "moving_mean":
            v.assign(rng.normal(0, 0.2, v.shape).astype("float32"))
        if v.name == "moving_variance":
            v.assign(rng.uniform(0.5, 1.5, v.shape).astype("float32"))


def weights_of(path):
    """The numbers of an archive by path, without the optimizer's."""
    with zipfile.ZipFile(path) as z, h5py.File(io.BytesIO(z.read("model.weights.h5"))) as f:
        found = {}
        f.visititems(lambda name, o: found.update({name: np.array(o)}) if isinstance(o, h5py.Dataset) else None)
        return {k: v for k, v in found.items() if not k.startswith("optimizer") and v.dtype.kind == "f"}


def keep_weights(m, folder, name):
    m.save(folder / "trained.keras")
    np.savez(folder / f"{name}.npz", **{k.replace("/", "|"): v for k, v in weights_of(folder / "trained.keras").items()})


def targets_for(loss, shape, rng):
    if isinstance(loss, keras.losses.CategoricalCrossentropy) or loss == "categorical_crossentropy":
        return np.eye(shape[-1], dtype="float32")[rng.integers(0, shape[-1], ROWS)]
    if loss == "sparse_categorical_crossentropy":
        return rng.integers(0, shape[-1], ROWS).astype("int32")
    if loss == "binary_crossentropy":
        return rng.integers(0, 2, (ROWS, 1)).astype("float32")
    return rng.normal(0, 1, (ROWS, *shape[1:])).astype("float32")


def write(name, folder):
    make, settings = MODELS[name]
    keras.backend.clear_session()
    keras.utils.set_random_seed(sorted(MODELS).index(name) + 1)
    rng = np.random.default_rng(7)
    m = make()
    randomize(m, rng)
    loss, rate = getattr(m, "shoal_loss", settings["loss"]), settings.get("lr", 0.1)
    train = settings.get("train", True)
    integers = settings.get("integers", {})
    inputs = [rng.integers(0, integers[i.name], (ROWS, *i.shape[1:])).astype(i.dtype) if i.name in integers else
              rng.normal(0, 1, (ROWS, *i.shape[1:])).astype("float32") for i in m.inputs]
    m.compile(optimizer=keras.optimizers.SGD(rate), loss=loss)
    m.save(folder / f"{name}.keras")
    (folder / f"{name}.json").write_text(m.to_json())
    outputs = m.predict(inputs, verbose=0, batch_size=ROWS)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    for i, x in zip(m.inputs, inputs):
        np.save(folder / f"{name}.in.{i.name}.npy", x)
    for k, y in enumerate(outputs):
        np.save(folder / f"{name}.out.{k}.npy", y)
    if train:
        losses = loss if isinstance(loss, list) else [loss] * len(outputs)
        targets = [targets_for(one, y.shape, rng) for one, y in zip(losses, outputs)]
        for k, t in enumerate(targets):
            np.save(folder / f"{name}.target.{k}.npy", t)
        first = m.get_weights()
        m.fit([x[:BATCH] for x in inputs], [t[:BATCH] for t in targets], batch_size=BATCH, epochs=1, verbose=0)
        keep_weights(m, folder, f"{name}.step")
        m.set_weights(first)
        m.fit(inputs, targets, batch_size=BATCH, epochs=1, shuffle=False, verbose=0)
        keep_weights(m, folder, f"{name}.epoch")
    return {"inputs": [i.name for i in m.inputs], "outputs": list(getattr(m, "output_names", ["output"])), "train": train, "lr": rate,
            "batch": BATCH, "loss": [getattr(one, "name", one) for one in (loss if isinstance(loss, list) else [loss])]}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or list(MODELS)
    made = {name: write(name, folder) for name in names}
    (folder / "models.json").write_text(json.dumps(made, indent=1))
    print(f"{len(made)} models by Keras {keras.__version__} on {keras.backend.backend()}")


if __name__ == "__main__":
    main()
