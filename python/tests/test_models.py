"""Layers, fit, evaluate, predict, save: from arrays, data sets, files, functions, under every strategy."""
import os
import pickle

import support

support.need("numpy")
import numpy as np  # noqa: E402
import shoal  # noqa: E402
from shoal import callbacks, layers  # noqa: E402
from shoal.layers import Dense, Input  # noqa: E402


def bars(n=600, seed=0):
    """Ten classes, each a bright bar at its own height, with noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    x = rng.integers(0, 60, (n, 28, 28, 1), dtype=np.uint8)
    for i, label in enumerate(y):
        x[i, 2 * label + 4:2 * label + 6, 4:24] = 200
    return x, y


def softmax(**more):
    model = shoal.Sequential([layers.Flatten(), Dense(10, "softmax")])
    model.compile(shoal.optimizers.SGD(0.5), metrics=["accuracy"], threads=1, **more)
    return model


class Fit(support.Case):
    @classmethod
    def setUpClass(cls):
        cls.x, cls.y = bars()

    def test_lenet(self):
        model = shoal.Sequential([
            Input((28, 28, 1)), layers.Conv2D(6, 5, padding="same", activation="relu"), layers.MaxPooling2D(),
            layers.Conv2D(16, 5, activation="relu"), layers.MaxPooling2D(), layers.Flatten(), Dense(120, "relu"), Dense(84, "relu"),
            Dense(10, "softmax")])
        model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy", "top_2"])
        self.assertEqual(model.parameters, 61706)
        self.assertIn("61706", model.describe())
        history = model.fit(self.x, self.y, epochs=3, batch_size=32, validation_data=bars(200, 1))
        self.assertGreater(history["val_accuracy"][-1], 0.95)
        self.assertEqual(len(history["loss"]), 3)
        scores = model.evaluate(*bars(200, 2))
        self.assertGreater(scores["accuracy"], 0.95)
        self.assertGreaterEqual(scores["top_k"], scores["accuracy"])
        p = model.predict(self.x[:7])
        self.assertEqual((p.shape, p.dtype), ((7, 10), np.float32))
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
        self.assertEqual(model.predict(self.x[:0]).shape, (0, 10))

    def test_arrays_are_not_copied(self):
        from shoal import arrays
        for array in (self.x, self.x.astype(np.float32)):
            self.assertIs(arrays.features(array, "x"), array)
        self.assertIs(arrays.labels(self.y, "y"), self.y)
        data = shoal.data.load("mnist", "test")
        self.assertFalse(data.x.flags.owndata)
        part = shoal.data.load("mnist", "test").x[5]
        self.assertEqual(int(part.sum()), int(data.x[5].sum()))  # the rows stay as long as a part of them is used

    def test_same_seed_same_numbers(self):
        a, b, c = softmax(seed=3), softmax(seed=3), softmax(seed=4)
        for model in (a, b, c):
            model.fit(self.x, self.y)
        np.testing.assert_array_equal(a.predict(self.x[:9]), b.predict(self.x[:9]))
        self.assertFalse(np.array_equal(a.predict(self.x[:9]), c.predict(self.x[:9])))

    def test_strategies(self):
        for strategy in (shoal.ParameterServer(workers=2, servers=1), shoal.Mirrored(workers=2),
                         shoal.ParameterServer(workers=2, servers=1, mode="async", staleness=4)):
            model = softmax()
            model.fit(self.x, self.y, epochs=4, strategy=strategy)
            self.assertGreater(model.evaluate(self.x, self.y)["accuracy"], 0.9, strategy)

    def test_regression(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(300, 3))
        model = shoal.Sequential([Dense(1)])
        model.compile(shoal.optimizers.Adam(0.05), loss="mean_squared_error", metrics=["r2"])
        model.fit(x, x @ [1, 2, 3] + 1, epochs=30)
        self.assertGreater(model.evaluate(x, x @ [1, 2, 3] + 1)["r2"], 0.99)
        self.assertEqual(model.predict(x).shape, (300, 1))

    def test_batches_of_a_function(self):
        def batches():
            for i in range(0, 600, 60):
                yield self.x[i:i + 60], self.y[i:i + 60]
        for source in (batches, list(batches()).__iter__()):
            model = softmax()
            model.fit(source, epochs=3)
            self.assertGreater(model.evaluate(batches)["accuracy"], 0.9)

        def broken():
            yield self.x[:10], self.y[:10]
            raise KeyError("the disk is gone")
        with self.assertRaisesRegex(KeyError, "the disk is gone"):
            softmax().fit(broken)

    def test_weights_of_rows_and_accumulated_gradients(self):
        weight = np.tile([0.0, 2.0, 1.0], 200)
        doubled = np.repeat(np.arange(600), weight.astype(int))
        fits = {"doubled": lambda m: m.fit(self.x[doubled], self.y[doubled], epochs=2, batch_size=600),
                "weighted": lambda m: m.fit(self.x, self.y, epochs=2, batch_size=600, sample_weight=weight),
                "accumulated": lambda m: m.fit(self.x, self.y, epochs=2, batch_size=100, accumulate=6, sample_weight=weight),
                "batches": lambda m: m.fit(lambda: iter([(self.x, self.y, weight)]), epochs=2, batch_size=600)}
        seen = {}
        for name, fit in fits.items():
            model = shoal.Sequential([Input((28, 28, 1)), layers.Flatten(), Dense(10, "softmax")])
            model.compile(shoal.optimizers.SGD(0.1), threads=1, seed=3)
            fit(model)
            seen[name] = model.get_weights()
        for name, weights in seen.items():
            for key, value in weights.items():
                np.testing.assert_allclose(value, seen["doubled"][key], atol=2e-5, err_msg=f"{name} {key}")
        with self.assertRaisesRegex(ValueError, "sample_weight has the shape"):
            softmax().fit(self.x, self.y, epochs=1, sample_weight=weight[:5])
        with self.assertRaisesRegex(ValueError, "accumulate"):
            softmax().fit(self.x, self.y, epochs=1, accumulate=0)

    def test_files(self):
        path = self.folder / "rows.csv"
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(400, 3))
        path.write_text("a,b,c,label\n" + "".join(f"{a:.4f},{b:.4f},{c:.4f},{int(a + b > 0)}\n" for a, b, c in rows))
        files = shoal.data.Files(path, columns="label=label")
        self.assertEqual(files.count()["rows"], 400)
        model = shoal.Sequential([Dense(2, "softmax")])
        model.compile(shoal.optimizers.SGD(0.5))
        model.fit(files, epochs=10)
        self.assertGreater(model.evaluate(files)["accuracy"], 0.95)
        self.assertEqual(sum(len(y) for _, y in files), 400)
        self.assertEqual(files.read().x.shape, (400, 3))

    def test_wrong_input_names_the_argument(self):
        model = softmax()
        cases = [(ValueError, "y has 2 rows", lambda: model.fit(self.x, [1, 2])), (TypeError, "x must be", lambda: model.fit(["a"], [1])),
                 (ValueError, "y is missing", lambda: model.fit(self.x)), (ValueError, "y must hold whole", lambda: model.fit(self.x, self.y / 3)),
                 (shoal.ArgumentError, "the features are", lambda: model.fit(self.x[:, :9], self.y)),
                 (shoal.InputError, "nowhere", lambda: shoal.data.load("/nowhere")), (shoal.InputError, "nowhere", lambda: shoal.load("/nowhere")),
                 (ValueError, "'adma' is not one of", lambda: model.compile("adma")), (ValueError, "loss", lambda: model.compile(loss="x")),
                 (ValueError, "metric", lambda: model.compile(metrics=["x"])), (TypeError, "callbacks", lambda: model.fit(self.x, self.y, callbacks=[1])),
                 (TypeError, "epochs", lambda: model.fit(self.x, self.y, epochs=2.5)),
                 (TypeError, "batch_size", lambda: model.fit(self.x, self.y, batch_size="8")),
                 (ValueError, "batch_size", lambda: model.fit(self.x, self.y, batch_size=0)),
                 (TypeError, "strategy", lambda: model.fit(self.x, self.y, strategy="ps")),
                 (TypeError, "learning_rate", lambda: model.compile(shoal.optimizers.SGD("fast"))),
                 (TypeError, "optimizer", lambda: model.compile(3)),
                 (ValueError, "x is no array", lambda: model.fit([[1, 2], [3]], [0, 1])), (TypeError, "seed", lambda: model.compile("sgd", seed="a")),
                 (shoal.ArgumentError, "learning rate", lambda: model.compile(shoal.optimizers.SGD(-1)))]
        model.fit(self.x, self.y)
        before = model.predict(self.x[:3])
        for kind, words, call in cases:
            with self.assertRaisesRegex(kind, words):
                call()
        np.testing.assert_array_equal(model.predict(self.x[:3]), before)  # it is as it was
        self.assertTrue(issubclass(shoal.InputError, ValueError) and issubclass(shoal.MachineError, OSError))
        with self.assertRaises(shoal.NumericError):
            other = shoal.Sequential([Dense(2, "softmax")])
            other.compile(shoal.optimizers.SGD(1e30))
            other.fit(np.full((64, 3), 1e20, np.float32), np.arange(64) % 2, epochs=20)


class Told(support.Case):
    def test_callbacks(self):
        x, y = bars()
        seen = []

        class Mine(callbacks.Callback):
            def on_train_begin(self):
                seen.append("begin")

            def on_epoch_end(self, epoch, logs):
                seen.append(epoch)
                return epoch == 2

            def on_train_end(self):
                seen.append("end")

        history = softmax().fit(x, y, epochs=9, callbacks=[Mine()])
        self.assertEqual(seen, ["begin", 0, 1, 2, "end"])
        self.assertEqual((history.epochs, history.stopped), (3, "asked"))

        def fails(epoch, logs):
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            softmax().fit(x, y, epochs=9, callbacks=[callbacks.LambdaCallback(fails)])

    def test_early_stopping(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(200, 20)), rng.integers(0, 2, 200)  # nothing to learn: validation gets worse
        model = shoal.Sequential([Dense(32, "relu"), Dense(2, "softmax")])
        model.compile(shoal.optimizers.Adam(0.01))
        early = callbacks.EarlyStopping(patience=3, restore_best_weights=True)
        history = model.fit(x[:100], y[:100], epochs=100, validation_data=(x[100:], y[100:]), callbacks=[early])
        self.assertLess(history.epochs, 60)
        self.assertAlmostEqual(model.evaluate(x[100:], y[100:])["loss"], min(history["val_loss"]), places=5)
        with self.assertRaisesRegex(ValueError, "validation data"):
            model.fit(x, y, epochs=2, callbacks=[early])

    def test_learning_rate_and_checkpoints(self):
        x, y = bars()
        keep = callbacks.Checkpoint(self.folder / "c")
        history = softmax().fit(x, y, epochs=3, callbacks=[callbacks.LearningRate(lambda e: 0.4 / (1 + e)), keep])
        np.testing.assert_allclose(history["learning_rate"], [0.4, 0.2, 0.4 / 3])
        again = softmax()
        self.assertEqual(again.fit(x, y, epochs=4, callbacks=[callbacks.LearningRate(lambda e: 0.4 / (1 + e)), keep],
                                   resume=True).steps, 4 * 19)


class Kept(support.Case):
    def test_save_load_pickle(self):
        x, y = bars()
        model = softmax()
        model.fit(x, y)
        expected = model.predict(x[:9])
        model.save(self.folder / "m")
        model.save(self.folder / "w.safetensors")
        blank = softmax()
        blank.fit(x[:32], y[:32])
        blank.load_weights(self.folder / "w.safetensors")
        for other in (shoal.load(self.folder / "m"), pickle.loads(pickle.dumps(model)), blank):
            np.testing.assert_array_equal(other.predict(x[:9]), expected)
        weights = model.get_weights()
        model.set_weights({name: 0 * w for name, w in weights.items()})
        np.testing.assert_allclose(model.predict(x[:2]), 0.1, rtol=1e-6)
        model.compile("adam")  # weights stay
        np.testing.assert_allclose(model.predict(x[:2]), 0.1, rtol=1e-6)
        with self.assertRaisesRegex(ValueError, "shape"):
            model.set_weights([w[:1] for w in weights.values()])

    def test_every_layer_is_described_and_built(self):
        images = [layers.Conv2D(4, 3, padding="same"), layers.Conv2D(4, (3, 1), dilation_rate=2), layers.DepthwiseConv2D(3), layers.SeparableConv2D(4, 3),
                  layers.Conv2DTranspose(2, 3), layers.MaxPooling2D((2, 1)), layers.AveragePooling2D(2, 1), layers.UpSampling2D(2), layers.ZeroPadding2D(1),
                  layers.Cropping2D(((1, 0), (0, 1))), layers.BatchNormalization(), layers.LayerNormalization(), layers.RMSNormalization(),
                  layers.GroupNormalization(2), layers.Activation("tanh"), layers.Dropout(0.1)]
        model = shoal.Sequential([Input((12, 12, 2)), *images, layers.GlobalAveragePooling2D(), Dense(3, "softmax")])
        again = shoal.Sequential.from_config(model.config())
        self.assertEqual(again.config(), model.config())
        self.assertEqual(again.parameters, model.parameters)
        self.assertEqual(model.predict(np.zeros((2, 12, 12, 2))).shape, (2, 3))
        for recurrent in (layers.SimpleRNN(4), layers.LSTM(4), layers.GRU(4, return_sequences=True), layers.MultiHeadAttention(2, 4), layers.Conv1D(4, 3),
                          layers.MaxPooling1D(), layers.AveragePooling1D()):
            flat = [] if isinstance(recurrent, (layers.SimpleRNN, layers.LSTM)) and not recurrent.config().get("return_sequences") else [layers.Flatten()]
            words = shoal.Sequential([Input((6,)), layers.Embedding(20, 8), recurrent, *flat, Dense(2, "softmax")])
            self.assertEqual(words.predict(np.ones((3, 6))).shape, (3, 2), recurrent)
        other = shoal.Sequential([Input((8,)), layers.Reshape((2, 2, 2)), layers.GlobalMaxPooling2D(), Dense(2)])
        self.assertEqual(other.predict(np.ones((1, 8))).shape, (1, 2))

    def test_runs(self):
        run = shoal.train("softmax", data="fake:8x8x1:3:256", epochs=1, threads=1, run_dir=self.folder / "r", quiet=True)
        self.assertEqual(run.summary["model"], "softmax")
        self.assertTrue(any(m["kind"] == "epoch" for m in run.metrics))
        self.assertEqual((run.status["state"], run.status["model"], run.status["pid"]), ("finished", "softmax", None))
        self.assertEqual([str(r.folder) for r in shoal.list_runs(self.folder)], [str(run.folder)])
        with self.assertRaisesRegex(shoal.ArgumentError, "no job runs there"):
            run.stop()
        model = shoal.load(self.folder / "r")
        self.assertEqual(model.predict(np.zeros((2, 8, 8, 1), np.uint8)).shape, (2, 3))
        model.save(self.folder / "r.onnx")
        np.testing.assert_allclose(shoal.load(self.folder / "r.onnx").predict(np.ones((2, 8, 8, 1))), model.predict(np.ones((2, 8, 8, 1))), atol=1e-5)
        with self.assertRaisesRegex(ValueError, "must end in"):
            model.save(self.folder / "r.png")
        with self.assertRaisesRegex(shoal.ArgumentError, "batch"):
            shoal.train("softmax", batch_sise=3)

    def test_shown(self):
        x, y = bars(64)
        model = softmax()
        history = model.fit(x, y, verbose=True)
        self.assertIn("<table>", model._repr_html_())
        self.assertIn("accuracy", history._repr_html_())
        try:
            self.assertEqual(list(history.frame().columns), list(history))
        except ImportError:
            print("skipped: no pandas")


if __name__ == "__main__":
    os.environ.setdefault("SHOAL_DATA", str(support.ROOT / "data"))
    support.main()
