"""Models of Keras and ONNX: read, run, written; what is damaged or foreign is refused.

With SHOAL_KERAS_PYTHON=PYTHON, a Python that has keras, onnx and onnxruntime, every layer is compared with the real ones."""
import ast
import json
import os
import pathlib
import struct
import subprocess
import unittest
import xml.etree.ElementTree
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


def write_npy(path, rows, kind="<f4"):
    """Rows of numbers as an array of NumPy: one number a row, or lists of them."""
    flat = [x for row in rows for x in (row if isinstance(row, (list, tuple)) else [row])]
    shape = (len(rows), len(rows[0])) if isinstance(rows[0], (list, tuple)) else (len(rows),)
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    numbers = struct.pack(f"<{len(flat)}{'f' if kind[1] == 'f' else 'i'}", *flat)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + numbers)


class Training(support.Case):
    """Models of Keras, trained here."""

    def setUp(self):
        super().setUp()
        rows = [[(i * k % 11 - 5) / 5 for k in (1, 2, 3, 4, 5)] for i in range(120)]
        write_npy(self.folder / "X.npy", rows)
        write_npy(self.folder / "y.npy", [(r[0] > 0) * 2 + (r[1] > 0) for r in rows], "<i4")

    def train(self, model, run, *words, expect=0):
        return self.shoal("train", str(model), "--data", "X.npy", "--test-data", "X.npy", "--run-dir", run, "--quiet",
                          "--threads", "1", *words, expect=expect)[1]

    def test_trains_under_every_strategy_and_goes_back(self):
        model = SEEDS / "mlp.keras"
        common = ["--epochs", "30", "--lr", "0.1", "--optimizer", "momentum"]
        self.train(model, "one", "--batch-size", "12", *common)
        first = self.summary("one")
        self.assertGreater(first["test_accuracy"], 0.8)
        self.assertFalse((self.folder / "one" / "model.keras").exists())
        for run, words in (("mirrored", ["--strategy", "mirrored", "--workers", "2", "--batch-size", "6"]),
                           ("sync", ["--workers", "2", "--ps", "1", "--batch-size", "6"]),
                           ("async", ["--workers", "2", "--ps", "1", "--mode", "async", "--batch-size", "12"])):
            self.train(model, run, *words, *common)
            self.assertGreater(self.summary(run)["test_accuracy"], 0.75, run)
        self.shoal("export", "one", "one.keras")
        write_npy(self.folder / "row.npy", [[0.5, -0.2, 0.1, 0.9, -1.0]])
        out = self.folder / "y1.npy"
        self.shoal("predict", "one.keras", "row.npy", "-o", str(out))
        probabilities = read_npy(out)[0]
        listed = json.loads(self.shoal("predict", "one", "row.npy", "--json")[0])[0]["probabilities"]
        for a, b in zip(probabilities, listed):
            self.assertAlmostEqual(a, b, places=5)
        with zipfile.ZipFile(self.folder / "one.keras") as z:
            compiled = json.loads(z.read("config.json"))["compile_config"]
        self.assertEqual(compiled["loss"], "sparse_categorical_crossentropy")
        self.assertEqual(compiled["optimizer"]["class_name"], "SGD")
        self.assertAlmostEqual(compiled["optimizer"]["config"]["momentum"], 0.9)
        # goes on with what it has learned
        self.train("one.keras", "again", "--steps", "1", "--lr", "1e-30")
        self.assertAlmostEqual(self.summary("again")["test_accuracy"], first["test_accuracy"])
        self.train("mlp", "one", "--resume", "--epochs", "31", expect=2)
        self.shoal("train", str(model), "--resume", "--run-dir", "one", "--epochs", "31", "--quiet")
        self.assertEqual(self.summary("one")["epochs"], 31)

    def test_settings_of_compile_are_taken(self):
        kept = self.train(SEEDS / "mlp.keras", "a", "--steps", "1")
        self.assertEqual(kept, "")
        flags = json.loads((self.folder / "a" / "settings.json").read_text())["flags"]
        with zipfile.ZipFile(SEEDS / "mlp.keras") as z:
            compiled = json.loads(z.read("config.json"))["compile_config"]["optimizer"]["config"]
        self.assertAlmostEqual(flags["lr"], compiled["learning_rate"], places=6)
        self.assertEqual(flags["optimizer"], "sgd")

    def test_config_alone_begins_with_random_weights(self):
        with zipfile.ZipFile(SEEDS / "mlp.keras") as z:
            (self.folder / "model.json").write_bytes(z.read("config.json"))
        self.train("model.json", "a", "--epochs", "30", "--batch-size", "12", "--lr", "0.1", "--optimizer", "momentum")
        self.assertGreater(self.summary("a")["test_accuracy"], 0.6)

    def test_weights_to_begin_with(self):
        layers = [{"type": "dense", "name": "dense", "units": 8, "activation": "relu"},
                  {"type": "dense", "name": "dense_1", "units": 6, "activation": "tanh", "use_bias": False},
                  {"type": "dense", "name": "dense_2", "units": 4, "activation": "softmax"}]
        (self.folder / "same.json").write_text(json.dumps({"shoal_model": 1, "layers": layers}))
        self.shoal("export", str(SEEDS / "mlp.keras"), "w.safetensors")
        self.train(SEEDS / "mlp.keras", "a", "--steps", "1", "--lr", "1e-30")
        self.train("same.json", "b", "--steps", "1", "--lr", "1e-30", "--weights", "w.safetensors")
        self.train("same.json", "c", "--steps", "1", "--lr", "1e-30", "--weights", "a")
        for run in "bc":
            self.assertEqual((self.folder / run / "model.safetensors").read_bytes(),
                             (self.folder / "a" / "model.safetensors").read_bytes())
        layers[1]["units"] = 7
        (self.folder / "other.json").write_text(json.dumps({"shoal_model": 1, "layers": layers}))
        for weights in ("w.safetensors", SEEDS / "mlp.keras"):
            message = self.train("other.json", "d", "--steps", "1", "--weights", str(weights), expect=1)
            for word in ("dense_1/kernel", "[8,6]", "[8,7]"):
                self.assertIn(word, message)

    def test_a_graph_trains_as_the_model_that_it_was_made_of(self):
        """Exported, read again and trained with the same batches: the same predictions."""
        write_npy(self.folder / "row.npy", [[0.5, -0.2, 0.1, 0.9, -1.0], [-0.4, 0.3, 0.8, -0.7, 0.1]])
        words = ["--epochs", "3", "--batch-size", "12", "--optimizer", "momentum", "--lr", "0.05", "--loss", "softmax_cross_entropy"]
        self.train(SEEDS / "mlp.keras", "layers", *words)
        self.shoal("predict", "layers", "row.npy", "-o", "layers.npy")
        want, shape = read_npy(self.folder / "layers.npy")
        for ending in ("onnx", "pb"):
            self.shoal("export", str(SEEDS / "mlp.keras"), f"mlp.{ending}")
            self.train(f"mlp.{ending}", ending, *words)
            self.shoal("predict", ending, "row.npy", "-o", "out.npy")
            got, own = read_npy(self.folder / "out.npy")
            self.assertEqual(own, shape)
            for a, b in zip(got, want):
                self.assertAlmostEqual(a, b, places=5)
            # the run needs its file no longer
            (self.folder / f"mlp.{ending}").unlink()
            self.shoal("train", "--resume", "--run-dir", ending, "mlp", "--epochs", "4", "--quiet")
            self.shoal("eval", ending, "--data", "X.npy")
            self.shoal("export", ending, f"again.{ending}")
            self.shoal("predict", f"again.{ending}", "row.npy", "-o", "out.npy")
        self.shoal("export", str(SEEDS / "mlp.keras"), "mlp.onnx")
        self.train("mlp.onnx", "sync", "--workers", "2", "--ps", "1", "--epochs", "3", "--batch-size", "6",
                   "--optimizer", "momentum", "--lr", "0.05")
        self.shoal("predict", "sync", "row.npy", "-o", "out.npy")
        for a, b in zip(read_npy(self.folder / "out.npy")[0], want):
            self.assertAlmostEqual(a, b, places=4)
        self.shoal("export", str(SEEDS / "shared.keras"), "shared.onnx")
        message = self.train("mlp", "other", "--steps", "1", "--weights", "shared.onnx", expect=1)
        self.assertIn("it has no weight", message)

    def test_layout_of_pytorch(self):
        self.shoal("export", str(SEEDS / "masked.keras"), "w.safetensors", "--layout", "torch")
        data = (self.folder / "w.safetensors").read_bytes()
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        for name, shape in {"embedding.weight": [11, 6], "gru.weight_ih_l0": [15, 6], "gru.bias_hh_l0": [15],
                            "bidirectional.weight_hh_l0_reverse": [12, 3], "dense.weight": [2, 6]}.items():
            self.assertEqual(header[name]["shape"], shape)
        message = self.shoal("export", str(SEEDS / "masked.keras"), "w.onnx", "--layout", "torch", expect=2)[1]
        self.assertIn(".safetensors", message)

    def test_predictions_as_files(self):
        (self.folder / "rows.csv").write_text("a,b,kind\n" + "".join(
            f"{i % 7},{i % 5}," + ('"odd, really"' if i % 2 else "even") + "\n" for i in range(70)))
        self.shoal("train", "mlp", "--data", "rows.csv", "--columns", "label=kind", "--epochs", "2", "--quiet", "--run-dir", "a")
        self.shoal("predict", "a", "rows.csv", "-o", "p.csv")
        lines = (self.folder / "p.csv").read_text().splitlines()
        self.assertEqual(lines[0], 'input,label,class,probability,even,"odd, really"')
        self.assertEqual(len(lines), 71)
        self.shoal("predict", "a", "rows.csv", "-o", "p.jsonl")
        rows = [json.loads(line) for line in (self.folder / "p.jsonl").read_text().splitlines()]
        self.assertEqual(rows[1]["label_name"], "odd, really")
        self.shoal("predict", "a", "rows.csv", "-o", "p.npy")
        numbers, shape = read_npy(self.folder / "p.npy")
        self.assertEqual(shape, (70, 2))
        self.assertAlmostEqual(numbers[0], rows[0]["probabilities"][0], places=6)
        self.assertIn(".jsonl", self.shoal("predict", "a", "rows.csv", "-o", "p.txt", expect=2)[1])

    def test_several_outputs(self):
        """Labels side by side; figures of each output."""
        rows = read_npy(self.folder / "X.npy")[0]
        rows = [rows[5 * i:5 * i + 5] for i in range(120)]
        write_npy(self.folder / "y.npy", [[r[0] - r[1], float(r[2] > 0)] for r in rows])
        layers = [{"name": "h", "type": "dense", "units": 16, "activation": "tanh"},
                  {"name": "price", "type": "dense", "units": 1, "inputs": "h"},
                  {"name": "kind", "type": "dense", "units": 2, "activation": "softmax", "inputs": "h"}]
        model = {"shoal_model": 1, "layers": layers, "training": {"optimizer": "adam", "lr": 0.02},
                 "outputs": [{"layer": "price", "loss": "mse"}, {"layer": "kind", "loss": "softmax_cross_entropy"}]}
        (self.folder / "two.json").write_text(json.dumps(model))
        self.train("two.json", "a", "--epochs", "30", "--batch-size", "10")
        self.train("two.json", "p", "--epochs", "30", "--batch-size", "5", "--workers", "2", "--ps", "1")
        for run in "ap":
            self.assertLess(self.summary(run)["test_loss"], 0.2)
        self.assertGreater(json.loads(self.shoal("eval", "a", "--json")[0])["kind_accuracy"], 0.9)
        self.assertIn("price_mae", self.shoal("eval", "a")[0])
        self.shoal("export", "a", "two.keras")
        self.shoal("predict", "two.keras", "X.npy", "-o", "y.npy")
        self.assertEqual(read_npy(self.folder / "y-kind.npy")[1], (120, 2))
        self.assertIn("each its own", self.train("two.json", "b", "--loss", "mse", expect=2))


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
        for name, inputs in {"masked": [""], "shared": ["left=", "right="], "operations": [""]}.items():
            files = [word + str(f) for word, f in zip(inputs, sorted(SEEDS.glob(f"{name}.in.*.npy")))]
            for again in ("again.keras", "again.onnx", "again.pb"):
                self.shoal("export", SEEDS / f"{name}.keras", again)
                self.assert_close(self.predict(self.folder / again, *files), read_npy(SEEDS / f"{name}.out.npy"))

    def test_damaged_graphs_are_refused(self):
        x = SEEDS / "mlp.in.keras_tensor.npy"
        for ending in ("onnx", "pb"):
            self.shoal("export", SEEDS / "mlp.keras", f"whole.{ending}")
            whole, bad = (self.folder / f"whole.{ending}").read_bytes(), self.folder / f"bad.{ending}"
            for change in (whole[:0], whole[:50], whole[:len(whole) // 2], whole.replace(b"MatMul", b"MatMix", 1)):
                bad.write_bytes(change)
                self.predict(bad, x, expect=1)
        self.assertIn("(MatMix): the operator is not supported", self.predict(bad, x, expect=1))
        bad.write_bytes(whole.replace(b"MatMul", b"While."[:-1] + b"s", 1))
        self.assertIn("(Whiles)", self.predict(bad, x, expect=1))
        bad.write_bytes(whole.replace(b"input", b"inpux"))
        self.predict(bad, x)

    def test_what_is_in_a_graph(self):
        for ending in ("onnx", "pb"):
            self.shoal("export", SEEDS / "mlp.keras", f"mlp.{ending}")
            shown = self.shoal("model", "show", f"mlp.{ending}", "--svg", "mlp.svg")[0]
            self.assertIn("matmul", shown)
            self.assertEqual(shown.split("total")[1].split()[0], str(5 * 8 + 8 + 8 * 6 + 6 * 4 + 4))
            self.assertIn("outputs: ", shown)
            self.assertIn("matmul", (self.folder / "mlp.svg").read_text())

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
                 (lambda c: dense(c)["config"].update(activation="sparsemax"), "do not sum up to 1"),
                 (lambda c: dense(c)["config"].update(units=9), "have the shape"),
                 (lambda c: dense(c)["config"].update(units=-1), "units is -1"),
                 (lambda c: c.update(class_name="MyModel"), "a custom class"),
                 (lambda c: c["config"].pop("layers"), "no layers are found")]
        for change, message in cases:
            self.assertIn(message, self.predict(self.changed(change), x, expect=1))

    def test_a_vocabulary_of_numbers_that_was_adapted(self):
        """Keras writes it to a file of lines, the number that stands for unknown ones first."""
        write_npy(self.folder / "x.npy", [[3, 7, 9, 3, 1], [7, 7, -1, 3, 9]])

        def with_lookup(vocabulary):
            def change(config):
                layers = config["config"]["layers"]
                at = next(i for i, one in enumerate(layers) if one["class_name"] == "Dense")
                layers.insert(at, {"module": "keras.layers", "class_name": "IntegerLookup", "name": "look", "config": {
                    "name": "look", "vocabulary": vocabulary, "num_oov_indices": 1, "oov_token": -1, "mask_token": None, "output_mode": "int"}})
            return change

        want = self.predict(self.changed(with_lookup([7, 3, 9])), self.folder / "x.npy")
        lines = {"assets/layers/integer_lookup/vocabulary.txt": "-1\n7\n3\n9"}
        self.assertEqual(self.predict(self.changed(with_lookup(None), **lines), self.folder / "x.npy"), want)
        other = self.predict(self.changed(with_lookup([3, 7, 9])), self.folder / "x.npy")
        self.assertNotEqual(other, want)

    def test_damaged_archives_are_refused(self):
        x = SEEDS / "mlp.in.keras_tensor.npy"
        whole = (SEEDS / "mlp.keras").read_bytes()
        bad = self.folder / "bad.keras"
        for part in (0, 100, len(whole) // 2, len(whole) - 30):
            bad.write_bytes(whole[:part])
            self.predict(bad, x, expect=1)
        outside = self.changed(lambda c: None, **{"../../evil": "x"})
        self.assertIn("points outside the archive", self.predict(outside, x, expect=1))
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

    def test_model_files_become_models_of_random_weights(self):
        (self.folder / "small.json").write_text(json.dumps({"shoal_model": 1, "inputs": [{"shape": [5]}], "layers": [
            {"type": "dense", "units": 8, "activation": "relu"}, {"type": "dense", "units": 4, "activation": "softmax"}]}))
        x = SEEDS / "mlp.in.keras_tensor.npy"
        self.shoal("export", "small.json", "small.keras")
        want = self.predict(self.folder / "small.keras", x)
        self.assertAlmostEqual(sum(want[0]), 3, places=5)
        self.shoal("export", "small.keras", "small.onnx")
        self.assert_close(self.predict(self.folder / "small.onnx", x), want)
        self.assertEqual(self.predict(self.folder / "small.json", x)[1], (3, 4))
        (self.folder / "small.json").write_text('{"shoal_model": 1, "layers": [{"type": "dens"}]}')
        self.assertIn("did you mean dense", self.predict(self.folder / "small.json", x, expect=2))

    def test_a_picture_of_the_layers(self):
        self.shoal("export", str(SEEDS / "shared.keras"), "shared.svg")
        def read(path):
            root = xml.etree.ElementTree.parse(self.folder / path).getroot()
            boxes = root.findall("{http://www.w3.org/2000/svg}rect[@class='box']")
            return boxes, [t.text or "" for t in root.findall("{http://www.w3.org/2000/svg}text")]

        boxes, texts = read("shared.svg")
        for name in ("left", "right", "tower/dense", "twice"):
            self.assertIn(name, texts)
        self.assertGreater(len(boxes), 3)
        # rows of layers without a branch are one box; parameters are told, also of layers around others
        conv = {"type": "conv2d", "filters": 4, "kernel_size": 3, "padding": "same"}
        layers = [{"name": "first", **conv}, {"name": "second", **conv}, {"type": "batch_normalization"},
                  {"name": "third", **conv}, {"name": "sum", "type": "add", "inputs": ["first", "third"]},
                  {"type": "flatten"}, {"type": "dense", "units": 3, "activation": "softmax"}]
        (self.folder / "branch.json").write_text(json.dumps({"shoal_model": 1, "inputs": [{"shape": [6, 6, 1]}], "layers": layers}))
        printed = self.shoal("model", "show", "branch.json", "--svg", "branch.svg")[0]
        boxes, texts = read("branch.svg")
        self.assertEqual(len(boxes), 3)
        total = sum(int(t.replace(",", "")) for t in texts if t.replace(",", "").isdigit())
        self.assertEqual(total, int(printed.split("total")[1].split()[0]))
        self.shoal("model", "show", str(SEEDS / "mlp.keras"), "--svg", "any.svg")
        self.assertGreater(len(read("any.svg")[1]), 4)
        self.assertIn(".svg", self.shoal("model", "show", "mlp", "--svg", "any.png", expect=2)[1])

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
