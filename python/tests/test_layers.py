"""Layers are the library's own; applied to each other they make models of several inputs; other programs' files go in and out."""
import inspect
import json
import pickle
import re

import support

support.need("numpy")
import numpy as np  # noqa: E402
import shoal  # noqa: E402
from shoal import layers  # noqa: E402
from shoal.layers import Add, Concatenate, Conv2D, Dense, Embedding, Flatten, GlobalAveragePooling2D  # noqa: E402

RNG = np.random.default_rng(0)


class Types(support.Case):
    def test_attributes_and_their_values_are_the_librarys(self):
        types = layers.types()
        self.assertGreater(len(types), 60)
        for name, kind in layers.TYPES.items():
            if name == "input":
                continue
            theirs = dict(re.findall(r"^  (\w+) +(.+)$", types[name], re.MULTILINE))
            for word, usual in kind.defaults().items():
                self.assertIn(word, theirs, name)
                if usual is inspect.Parameter.empty:
                    self.assertEqual(theirs[word], "must be given", (name, word))
                else:
                    self.assertEqual(json.loads(theirs[word]), list(usual) if isinstance(usual, tuple) else usual, (name, word))

    def test_every_type_can_be_reached(self):
        for name in layers.types():
            word = "".join(part.title() for part in name.split("_"))
            self.assertEqual(getattr(layers, word).type if name not in layers.TYPES else name, name)
        with self.assertRaises(AttributeError):
            layers.Nonsense  # noqa: B018
        with self.assertRaisesRegex(ValueError, "nonsense"):
            layers.from_config({"type": "nonsense"})

    def test_wrong_attributes_are_named(self):
        for layer, words in ((Dense(0), "units"), (Dense(3, unit=4), "unit"), (Dense(3, "rleu"), "rleu"), (Conv2D(3, 3, padding="sme"), "padding")):
            with self.assertRaisesRegex(shoal.ArgumentError, words):
                shoal.Sequential([shoal.Input((4, 4, 1)), layer]).predict(np.zeros((1, 4, 4, 1)))
        with self.assertRaisesRegex(ValueError, "name"):
            Dense(3, name="a/b")


class Applied(support.Case):
    def two_inputs(self):
        image, word = shoal.Input((6, 6, 1), name="image"), shoal.Input(3, name="word")
        seen = GlobalAveragePooling2D()(Conv2D(4, 3, activation="relu")(image))
        read = Flatten()(Embedding(10, 4)(word))
        model = shoal.Model([image, word], Dense(2, "softmax", name="end")(Concatenate()([seen, read])))
        model.compile(shoal.optimizers.Adam(0.02), threads=1)
        return model

    def test_several_inputs(self):
        image, word = RNG.normal(size=(300, 6, 6, 1)), RNG.integers(0, 10, (300, 3))
        y = (word[:, 0] > 4).astype(int)
        model = self.two_inputs()
        self.assertEqual(model.input_names, ["image", "word"])
        model.fit([image, word], y, epochs=15, validation_data=({"image": image, "word": word}, y))
        self.assertGreater(model.evaluate({"word": word, "image": image}, y)["accuracy"], 0.95)
        expected = model.predict([image, word])
        np.testing.assert_allclose(model.predict({"image": image, "word": word.astype(np.uint8)}), expected, atol=1e-6)  # words are not pixels
        for again in (pickle.loads(pickle.dumps(model)), self.saved(model, "m"), self.saved(model, "m.keras")):
            np.testing.assert_allclose(again.predict([image, word]), expected, atol=1e-6)
        cases = [("'word'", [image, word[:7]]), ("but has 1", [image]), ("image, word", {"image": image}), ("the input takes", [image[:, :3], word])]
        for words, x in cases:
            with self.assertRaisesRegex(ValueError, words):
                model.predict(x)
        model.fit(lambda: iter([([image, word], y)]), strategy=shoal.Mirrored(2))
        model.fit([image, word], y, strategy=shoal.ParameterServer(2, 1))

    def saved(self, model, name):
        model.save(self.folder / name)
        return shoal.load(self.folder / name)

    def test_shared_weights_and_sums(self):
        x = shoal.Input(4)
        shared = Dense(4, "tanh")
        model = shoal.Model(x, Dense(2, "softmax")(shared(shared(x)) + x * x - x))
        self.assertEqual(model.parameters, 4 * 4 + 4 + 4 * 2 + 2)
        w = model.get_weights()
        rows = RNG.normal(size=(5, 4)).astype(np.float32)
        h = np.tanh(np.tanh(rows @ w["dense/kernel"]) @ w["dense/kernel"]) + rows * rows - rows
        z = np.exp(h @ w["dense_1/kernel"])
        np.testing.assert_allclose(model.predict(rows), z / z.sum(1, keepdims=True), rtol=1e-4)

    def test_several_outputs(self):
        x = shoal.Input(4)
        h = Dense(16, "relu")(x)
        model = shoal.Model(x, [Dense(3, "softmax", name="kind")(h), Dense(2, name="place")(h)])
        model.compile(shoal.optimizers.Adam(0.02), loss={"kind": "sparse_categorical_crossentropy", "place": "mse"}, loss_weights=[1, 0.5], threads=1)
        rows = RNG.normal(size=(200, 4)).astype(np.float32)
        y = {"kind": rows[:, :3].argmax(axis=1), "place": rows[:, :2]}
        model.fit(rows, y, epochs=40)
        scores = model.evaluate(rows, [y["kind"], y["place"]])
        self.assertGreater(scores["kind_accuracy"], 0.9)
        self.assertLess(scores["place_loss"], 0.1)
        found = model.predict(rows)
        self.assertEqual({name: value.shape for name, value in found.items()}, {"kind": (200, 3), "place": (200, 2)})
        np.testing.assert_allclose(found["kind"].sum(axis=1), 1, rtol=1e-5)
        again = self.saved(model, "two").predict(rows)
        np.testing.assert_allclose(again["place"], found["place"], atol=1e-6)
        for words, wrong in (("kind, place", {"kind": y["kind"]}), ("has 1", [y["kind"]]), ("'place'", [y["kind"], y["place"][:5]])):
            with self.assertRaisesRegex(ValueError, words):
                model.fit(rows, wrong)

    def test_frozen_layers_stay(self):
        x = shoal.Input(4)
        model = shoal.Model(x, Dense(2, "softmax")(Dense(3, "relu", name="fixed", trainable=False)(x)))
        model.compile("sgd", threads=1)
        before = model.get_weights()
        model.fit(RNG.normal(size=(64, 4)), RNG.integers(0, 2, 64))
        after = model.get_weights()
        np.testing.assert_array_equal(before["fixed/kernel"], after["fixed/kernel"])
        self.assertFalse(np.array_equal(before["dense/kernel"], after["dense/kernel"]))

    def test_wrong_wiring_is_named(self):
        x, other = shoal.Input(4), shoal.Input(4)
        with self.assertRaisesRegex(ValueError, "not among inputs"):
            shoal.Model(x, Add()([x, other]))
        with self.assertRaisesRegex(ValueError, "'a'"):
            shoal.Model(x, Dense(2, name="a")(Dense(2, name="a")(x)))
        with self.assertRaisesRegex(TypeError, "int"):
            Dense(2)(3)
        with self.assertRaisesRegex(TypeError, "inputs must be"):
            shoal.Model(Dense(2)(x), Dense(2)(x))
        with self.assertRaisesRegex(shoal.ArgumentError, "add"):
            shoal.Model(x, Add()([x, Dense(3)(x)])).predict(np.zeros((1, 4)))


class Files(support.Case):
    def test_model_files(self):
        path = self.folder / "my.json"
        path.write_text(json.dumps({"shoal_model": 1, "parameters": {"hidden": 8}, "layers": [
            {"type": "dense", "units": "$hidden", "activation": "relu"}, {"type": "dense", "units": "$classes", "activation": "softmax"}],
            "training": {"optimizer": "adam", "lr": 0.05}}))
        x, y = RNG.normal(size=(90, 5)), np.arange(90) % 3
        model = shoal.load(path, hidden=16)
        self.assertEqual(model.settings.optimizer.learning_rate, 0.05)
        model.fit(x, y, epochs=2)
        self.assertEqual((model.parameters, model.classes), (5 * 16 + 16 + 16 * 3 + 3, 3))
        model.save(self.folder / "copy")
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x), model.predict(x))
        with self.assertRaisesRegex(shoal.ArgumentError, "hiden"):
            shoal.load(path, hiden=3).fit(x, y)
        path.write_text('{"shoal_model": 1')
        with self.assertRaisesRegex(shoal.InputError, "my.json"):
            shoal.load(path)

    def test_other_programs(self):
        model = shoal.Sequential([shoal.Input((8, 8, 1)), Conv2D(4, 3, activation="relu"), Flatten(), Dense(3, "softmax")])
        x = RNG.normal(size=(5, 8, 8, 1)).astype(np.float32)
        model.save(self.folder / "m.onnx")
        network = shoal.load(self.folder / "m.onnx")
        self.assertEqual(list(network.inputs.values()), [(None, 8, 8, 1)])
        np.testing.assert_allclose(network.predict(x), model.predict(x), atol=1e-5)
        with self.assertRaisesRegex(ValueError, "has 2"):
            network.predict([x, x])
        model.save(self.folder / "m.keras")
        kept = shoal.load(self.folder / "m.keras")
        np.testing.assert_allclose(kept.predict(x), model.predict(x), atol=1e-6)
        kept.compile("sgd", threads=1)
        kept.fit(x, [0, 1, 2, 0, 1], batch_size=2, epochs=2, strategy=shoal.ParameterServer(workers=2, servers=1))
        (self.folder / "bad.keras").write_bytes(b"PK\x03\x04 and no more")
        with self.assertRaisesRegex(shoal.InputError, "bad.keras"):
            shoal.load(self.folder / "bad.keras")


if __name__ == "__main__":
    support.main()
