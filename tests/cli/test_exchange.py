"""Models of Keras and ONNX: read, run, written; what is damaged or foreign is refused.

With SHOAL_KERAS_PYTHON=PYTHON, a Python that has keras, onnx and onnxruntime, every layer is compared with the real ones."""
import ast
import json
import os
import pathlib
import struct
import subprocess
import unittest
import zipfile

import support

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = HERE.parent / "keras" / "seeds"
KERAS = os.environ.get("SHOAL_KERAS_PYTHON")


def read_npy(path):
    """The numbers of an array, in a row, and its shape."""
    data = path.read_bytes()
    length = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    return list(struct.unpack(f"<{(len(data) - 10 - length) // 4}f", data[10 + length:])), header["shape"]


class Exchange(support.Case):
    def predict(self, name, *words, expect=0):
        out = self.folder / "y.npy"
        error = self.shoal("predict", str(name), *map(str, words), "-o", str(out), expect=expect)[1]
        return read_npy(out) if not expect else error

    def assert_close(self, got, want):
        self.assertEqual(got[1], want[1])
        for a, b in zip(got[0], want[0]):
            self.assertLess(abs(a - b), 1e-4 * max(map(abs, want[0])))

    def test_archives_of_keras_predict_what_keras_predicts(self):
        for name, inputs in {"mlp": [""], "masked": [""], "shared": ["left=", "right="]}.items():
            files = sorted(SEEDS.glob(f"{name}.in.*.npy"))
            got = self.predict(SEEDS / f"{name}.keras", *(word + str(f) for word, f in zip(inputs, files)))
            self.assert_close(got, read_npy(SEEDS / f"{name}.out.npy"))

    def test_what_is_written_is_read_again(self):
        for name, inputs in {"masked": [""], "shared": ["left=", "right="]}.items():
            files = [word + str(f) for word, f in zip(inputs, sorted(SEEDS.glob(f"{name}.in.*.npy")))]
            for again in ("again.keras", "again.onnx"):
                self.shoal("export", SEEDS / f"{name}.keras", again)
                self.assert_close(self.predict(self.folder / again, *files), read_npy(SEEDS / f"{name}.out.npy"))

    def test_damaged_onnx_is_refused(self):
        x = SEEDS / "mlp.in.keras_tensor.npy"
        self.shoal("export", SEEDS / "mlp.keras", "whole.onnx")
        whole, bad = (self.folder / "whole.onnx").read_bytes(), self.folder / "bad.onnx"
        for change in (whole[:0], whole[:50], whole[:len(whole) // 2], whole.replace(b"MatMul", b"MatMix", 1)):
            bad.write_bytes(change)
            self.predict(bad, x, expect=1)

    def test_wrong_inputs_are_named(self):
        message = self.predict(SEEDS / "shared.keras", f"left={SEEDS}/shared.in.left.npy", expect=2)
        self.assertIn("right=FILE.npy", message)
        message = self.predict(SEEDS / "shared.keras", f"middle={SEEDS}/shared.in.left.npy", expect=2)
        self.assertIn("left, right", message)
        message = self.predict(SEEDS / "mlp.keras", SEEDS / "masked.in.words.npy", expect=1)
        self.assertIn("takes [?,5], not [3,7]", message)

    def changed(self, change, seed="mlp", **members):
        """An archive with another config, or other members."""
        path = self.folder / "changed.keras"
        with zipfile.ZipFile(SEEDS / f"{seed}.keras") as z, zipfile.ZipFile(path, "w") as out:
            config = json.loads(z.read("config.json"))
            change(config)
            for name in z.namelist():
                out.writestr(name, json.dumps(config) if name == "config.json" else z.read(name))
            for name, content in members.items():
                out.writestr(name, content)
        return path

    def test_what_cannot_be_taken_over_is_refused_by_layer(self):
        x = SEEDS / "mlp.in.keras_tensor.npy"

        def dense(config):
            return next(layer for layer in config["config"]["layers"] if layer["class_name"] == "Dense")

        cases = [(lambda c: dense(c).update(class_name="Lambda"), "is a Lambda: its code is not run"),
                 (lambda c: dense(c).update(class_name="MyLayer"), "the class MyLayer is not supported"),
                 (lambda c: dense(c)["config"].update(activation="mine"), "activation=\"mine\" is not supported"),
                 (lambda c: dense(c)["config"].update(units=9), "have the shape"),
                 (lambda c: dense(c)["config"].update(units=-1), "units is -1"),
                 (lambda c: c.update(class_name="MyModel"), "a class of its own"),
                 (lambda c: c["config"].pop("layers"), "no layers are found")]
        for change, message in cases:
            self.assertIn(message, self.predict(self.changed(change), x, expect=1))

    def test_damaged_archives_are_refused(self):
        x = SEEDS / "mlp.in.keras_tensor.npy"
        whole = (SEEDS / "mlp.keras").read_bytes()
        bad = self.folder / "bad.keras"
        for part in (0, 100, len(whole) // 2, len(whole) - 30):
            bad.write_bytes(whole[:part])
            self.predict(bad, x, expect=1)
        outside = self.changed(lambda c: None, **{"../../evil": "x"})
        self.assertIn("leads out of the archive", self.predict(outside, x, expect=1))
        with zipfile.ZipFile(SEEDS / "mlp.keras") as z, zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("config.json", z.read("config.json"))
            out.writestr("model.weights.h5", bytes(40 << 20))
        self.assertIn("unpacks to more than", self.predict(bad, x, expect=1))
        with zipfile.ZipFile(bad, "w") as out:
            out.writestr("readme.txt", "nothing")
        self.assertIn("has no config.json", self.predict(bad, x, expect=1))

    def test_config_alone_is_a_model_of_random_weights(self):
        path = self.folder / "model.json"
        with zipfile.ZipFile(SEEDS / "mlp.keras") as z:
            path.write_bytes(z.read("config.json"))
        numbers, shape = self.predict(path, SEEDS / "mlp.in.keras_tensor.npy")
        self.assertEqual(shape, (3, 4))
        self.assertAlmostEqual(sum(numbers), 3, places=5)

    def test_unknown_endings_are_refused(self):
        error = self.shoal("export", str(SEEDS / "mlp.keras"), str(self.folder / "model.xyz"), expect=2)[1]
        self.assertIn("ends in", error)

    @unittest.skipUnless(KERAS, "skipped: set SHOAL_KERAS_PYTHON to a Python that has keras, onnx and onnxruntime")
    def test_against_the_real_keras_and_onnxruntime(self):
        folder = pathlib.Path(os.environ.get("SHOAL_KERAS_MODELS", self.folder / "models"))
        if not (folder / "models.json").exists():
            subprocess.run([KERAS, "-W", "ignore", str(HERE.parent / "keras" / "models.py"), str(folder)], check=True)
        subprocess.run([KERAS, "-W", "ignore", str(HERE.parent / "keras" / "compare.py"), support.SHOAL, str(folder)],
                       check=True)


if __name__ == "__main__":
    support.main()
