"""Models that are described by a file: trained under every strategy, tested, resumed; what is wrong with one is said."""
import json
import shutil

from support import FEW, ROOT, Case, main

MODEL = {
    "shoal_model": 1,
    "comment": "two branches that meet again",
    "parameters": {"hidden": 16, "activation": "relu"},
    "blocks": {
        "branch": {
            "parameters": {"size": 3},
            "layers": [
                {"type": "conv2d", "filters": 4, "kernel_size": "$size", "strides": 2, "padding": "same"},
                {"type": "batch_normalization"},
                {"type": "activation", "activation": "$activation"}
            ]
        }
    },
    "layers": [
        {"name": "left", "type": "branch"},
        {"name": "right", "type": "branch", "size": 5, "inputs": "input"},
        {"type": "concatenate", "inputs": ["left", "right"]},
        {"type": "average_pooling2d", "pool_size": 2},
        {"type": "flatten"},
        {"type": "dense", "units": "$hidden", "activation": "$activation"},
        {"type": "dropout", "rate": 0.1},
        {"type": "dense", "units": "$classes", "activation": "softmax"}
    ],
    "training": {"epochs": 2, "batch_size": 32, "lr": 0.01, "optimizer": "adam"}
}


class Files(Case):
    def write(self, model=None, name="two.json"):
        (self.folder / name).write_text(json.dumps(MODEL if model is None else model))
        return name

    def test_train_and_use(self):
        file = self.write()
        self.shoal("train", file, "--data", self.data, "--run-dir", "a", "--quiet", *FEW)
        first = self.summary("a")
        self.assertEqual(first["model"], "two")
        self.assertGreater(first["test_accuracy"], 0.9)
        (self.folder / file).unlink()  # the run has it
        self.assertIn("accuracy", self.shoal("eval", "a")[0])
        self.assertEqual(len(self.shoal("predict", "a", "--data", self.data)[0].splitlines()), 128)
        self.shoal("train", "two", "--resume", "--run-dir", "a", "--epochs", "3", "--quiet")
        self.assertEqual(self.summary("a")["epochs"], 3)
        self.write()
        self.shoal("train", file, "--data", self.data, "--run-dir", "b", "--set", "hidden=8,activation=tanh", "--steps",
                   "2", "--quiet", *FEW)
        kept = json.loads((self.folder / "b" / "model.json").read_text())
        self.assertEqual(kept["parameters"], {"hidden": 8, "activation": "tanh", "classes": 10})
        self.assertLess(self.summary("b")["parameters"], first["parameters"])
        self.shoal("train", "b/model.json", "--data", self.data, "--run-dir", "c", "--steps", "2", "--quiet", *FEW)
        self.assertEqual(self.weights("b"), self.weights("c"))

    def weights(self, run):
        return (self.folder / run / "model.safetensors").read_bytes()

    def test_strategies(self):
        """Bit for bit the same on any of them."""
        file = self.write()
        common = ["train", file, "--data", self.data, "--epochs", "1", "--global-batch", "64", "--deterministic", "--quiet"]
        for run, flags in (("m", ["--strategy", "mirrored", "--workers", "2"]),
                           ("p", ["--strategy", "ps", "--workers", "3", "--ps", "2"]),
                           ("a", ["--strategy", "allreduce", "--workers", "2"])):
            if run == "a" and not shutil.which("mpirun"):
                print("skipped: allreduce, no mpirun")
                continue
            self.shoal(*common, *flags, "--run-dir", run)
            self.assertEqual(self.weights(run), self.weights("m"), run)
        self.shoal("train", file, "--data", self.data, "--epochs", "1", "--workers", "2", "--mode", "async", "--quiet",
                   "--run-dir", "s", *FEW)
        self.assertGreater(self.summary("s")["test_accuracy"], 0.5)

    def test_bad_files(self):
        def layers(*list_):
            return {"shoal_model": 1, "layers": list(list_)}
        flat, dense = {"type": "flatten"}, {"type": "dense", "units": 3}
        for i, (model, words) in enumerate((
                ([], "not a model file"),
                ({"shoal_model": 9, "layers": []}, "reads 1"),
                ({"shoal_model": 1, "layer": []}, "did you mean 'layers'"),
                (layers(), "no layers"),
                (layers({"type": "dens", "units": 3}), "did you mean dense"),
                (layers({"type": "dense", "unit": 3}), "layer dense: unknown attribute 'unit': did you mean 'units'"),
                (layers({"name": "x", "type": "dense"}), "layer x: units must be given"),
                (layers({"type": "dense", "units": 0}), "units is 0; expected at least 1"),
                (layers({"type": "dense", "units": "$width"}), "unknown parameter 'width'"),
                (layers({"type": "dense", "units": 3, "kernel_initializer": "he_norml"}), "he_normal"),
                (layers({**dense, "activation": "rellu"}), "did you mean relu"),
                (layers(flat, {"type": "conv2d", "filters": 2, "kernel_size": 3}), "conv2d, applied to flatten [784]"),
                (layers(flat, {**dense, "name": "a"}, {**dense, "name": "b", "units": 4, "inputs": "flatten"},
                        {"type": "add", "inputs": ["a", "b"]}), "layer add, applied to a [3], b [4]"),
                (layers({"name": "a", "type": "add", "inputs": ["input", "b"]}, {"name": "b", **dense, "inputs": "a"}),
                 "cycle: a -> b -> a"),
                (layers({**flat, "inputs": "inpt"}), "did you mean input"),
                (layers({**flat, "name": "a"}, {**flat, "name": "a"}), "two layers are called a"),
                (layers({"type": "add", "inputs": ["input"]}), "takes 2 or more inputs, not 1"),
                (layers({"type": "normalization"}, flat, dense), "neither mean nor variance"),
                ({**layers(flat, dense), "outputs": [{"layer": "dens"}]}, "dense"),
                ({**layers(flat, dense), "loss": "mss"}, "did you mean 'mse'"),
                ({**layers(flat, dense), "training": {"optimizer": "adm"}}, "did you mean 'adam'"),
                ({**layers(flat, dense), "inputs": [{"shape": [28, 0]}]}, "sizes above 0"),
        )):
            with self.subTest(words):
                done = self.shoal("train", self.write(model, "bad.json"), "--data", self.data, "--steps", "1", "--run-dir",
                                  f"bad{i}", expect=2)[1]
                self.assertIn(words, done)
        (self.folder / "bad.json").write_text('{"shoal_model": 1,\n')
        self.assertIn("line 2", self.shoal("train", "bad.json", "--data", self.data, expect=2)[1])
        self.shoal("train", "nobody.json", "--data", self.data, expect=1)

    def test_show(self):
        text = self.shoal("model", "show", self.write(), "--input", "28x28x1")[0]
        for line in ("left/conv2d ", "concatenate ", "total "):
            self.assertIn(line, text)
        types = self.shoal("model", "layers")[0].split()
        self.assertIn("mask_value", self.shoal("model", "layers", "masking")[0])
        page = (ROOT / "docs" / "model-files.md").read_text()
        self.assertEqual([name for name in types if f"`{name}`" not in page], [])

    def test_several_inputs(self):
        rows = [(i % 7 - 3, i % 5 - 2, i % 3) for i in range(210)]
        (self.folder / "rows.csv").write_text("a,b,c,label\n" + "".join(
            f"{a},{b},{c},{'yes' if a * (c - 1) > b else 'no'}\n" for a, b, c in rows))
        model = {"shoal_model": 1, "inputs": [{"name": "ab", "shape": [2]}, {"name": "c", "shape": [1]}],
                 "layers": [{"name": "wide", "type": "dense", "units": 16, "activation": "relu", "inputs": "ab"},
                            {"name": "gate", "type": "dense", "units": 16, "activation": "tanh", "inputs": "c"},
                            {"type": "multiply", "inputs": ["wide", "gate"]}, {"type": "dense", "units": 16, "activation": "relu"},
                            {"type": "dense", "units": "$classes", "activation": "softmax"}],
                 "training": {"epochs": 40, "optimizer": "adam", "lr": 0.02}}
        self.shoal("train", self.write(model), "--data", "rows.csv", "--test-data", "rows.csv", "--run-dir", "a", "--quiet", *FEW)
        self.assertGreater(self.summary("a")["test_accuracy"], 0.9)

    def test_from_rows_to_a_page(self):
        """No file of a model, no words about columns: a model that comes with Shoal, under the name that its file has."""
        rows = [(i % 7 - 3, i % 5 - 2, ("red", "green")[i % 2]) for i in range(280)]
        (self.folder / "rows.csv").write_text("width,height,colour,ripe\n" + "".join(
            f"{a},{b},{c},{'yes' if a * b > (c == 'red') else 'no'}\n" for a, b, c in rows))
        for i, way in enumerate(([], ["--strategy", "allreduce", "--workers", "2"], ["--workers", "2", "--ps", "1"])):
            said = self.shoal("train", "mlp.json", "--data", "rows.csv", "--test-data", "rows.csv", "--report", f"page{i}.html", *way)
            self.assertIn(f"Its report is page{i}.html", "".join(said))
            self.assertIn("confusion", (self.folder / f"page{i}.html").read_text())
        self.assertIn("No such file", self.shoal("train", "mlpp.json", "--data", "rows.csv", expect=1)[1])

    def test_resume_with_another(self):
        file = self.write()
        self.shoal("train", file, "--data", self.data, "--run-dir", "a", "--steps", "2", "--quiet", *FEW)
        other = json.loads(json.dumps(MODEL))
        other["layers"][5]["units"] = 20
        self.write(other)
        done = self.shoal("train", file, "--resume", "--run-dir", "a", "--steps", "4", expect=2)[1]
        self.assertIn("its layers are not those", done)
        done = self.shoal("train", "lenet", "--resume", "--run-dir", "a", "--steps", "4", expect=2)[1]
        self.assertIn("a run of the model two", done)


main()
