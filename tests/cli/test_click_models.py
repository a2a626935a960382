"""Models of click logs: trained, tested, resumed; what they learn beyond single features; rows they refuse."""
import json
import random

import support

FEATURES = 4000
MODELS = {"lr": (), "fm": (), "wide-deep": ("--set", "hidden=16"), "dlrm": (), "ffm": ("--accumulator", 0.1),
          # The few rows here would be known by heart after an epoch.
          "deepfm": ("--set", "hidden=16", "--accumulator", 0.1),
          "dcn-v2": ("--set", "hidden=16", "--lr", 0.05, "--accumulator", 0.1)}


class ClickModels(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        maker = cls("test_all_models")
        maker.folder = cls.shared
        maker.shoal("data", "generate", "criteo", "--rows", 3000, "--files", 3, "--features", FEATURES, "--as", "tsv", "--out",
                    "log", "--quiet")
        cls.train = ",".join(str(cls.shared / "log" / f"clicks{i:02}.tsv") for i in range(2))
        cls.test = cls.shared / "log" / "clicks02.tsv"
        cls.truth = json.loads((cls.shared / "log" / "truth.json").read_text())
        # Rows whose label hangs on two words together and on neither alone.
        draw = random.Random(4)
        for name, rows in (("pairs.svm", 4000), ("more.svm", 800)):
            with open(cls.shared / name, "w") as f:
                for _ in range(rows):
                    a, b, c = draw.randrange(4), draw.randrange(4), draw.randrange(20)
                    label = 1 if (a < 2) == (b < 2) else -1
                    f.write(f"{label} {1 + a}:1 {11 + b}:1 {21 + c}:0.5\n")

    def learn(self, model, run, *flags, expect=0):
        return self.shoal("train", model, "--data", self.train, "--test-data", self.test, "--features", FEATURES,
                          "--batch-size", 50, "--run-dir", run, *MODELS[model], *flags, expect=expect)

    def test_all_models(self):
        for model in MODELS:
            self.learn(model, model, "--no-checkpoints", "--epochs", 3)
            s = self.summary(model)
            self.assertEqual(s["examples"], 6000)
            self.assertLess(s["test_loss"], self.truth["constant_log_loss"], model)
            self.assertGreater(s["test_auc"], 0.65, model)
            again = json.loads(self.shoal("eval", model, "--json")[0])
            self.assertAlmostEqual(again["loss"], s["test_loss"], places=5)
        scores = self.shoal("predict", "deepfm", self.test)[0].split("\n")
        self.assertEqual(len([line for line in scores if line.strip()]), 1000)

    def pairs(self, model, run, *flags):
        self.shoal("train", model, "--data", self.shared / "pairs.svm", "--test-data", self.shared / "more.svm", "--epochs", 8,
                   "--batch-size", 20, "--run-dir", run, *flags)
        return self.summary(run)

    def test_pairs_are_learned(self):
        """By a factorization machine, not by logistic regression; with every optimizer that has kernels of its own."""
        self.assertGreater(self.pairs("lr", "lr")["test_loss"], 0.68)
        for optimizer, rate in (("adagrad", 0.1), ("rowwise_adagrad", 0.1), ("sgd", 1), ("adam", 0.02), ("ftrl", 0.2)):
            s = self.pairs("fm", optimizer, "--optimizer", optimizer, "--lr", rate)
            self.assertLess(s["test_loss"], 0.2, optimizer)

    def test_deep_beyond_single_features(self):
        """At its own rate DeepFM learns what words say together: with sums of squares that begin at 0.1 it was worse than lr."""
        self.shoal("data", "generate", "criteo", "--interactions", "--rows", 33000, "--files", 11, "--features", 2000, "--as", "tsv",
                   "--seed", 3, "--out", "together", "--quiet")
        loss = {}
        for name, flags in (("lr", ("lr",)), ("deepfm", ("deepfm", "--set", "hidden=32")),
                            ("slow", ("deepfm", "--set", "hidden=32", "--accumulator", 0.1))):
            self.shoal("train", *flags, "--data", "together/clicks0*", "--test-data", "together/clicks10.tsv", "--features", 2000,
                       "--batch-size", 64, "--epochs", 2, "--no-checkpoints", "--run-dir", name)
            loss[name] = self.summary(name)["test_loss"]
        self.assertLess(loss["deepfm"], loss["lr"] - 0.02)
        self.assertGreater(loss["slow"], loss["lr"] - 0.01)

    def test_threads_and_resume(self):
        """The same bits after a stop; of fm, whose sums are over rows of the table alone, on one thread and two."""
        for model, threads in (("deepfm", 2), ("fm", 1)):
            self.learn(model, model, "--threads", 2, "--epochs", 2)
            self.learn(model, "cut-" + model, "--threads", threads)
            self.learn(model, "cut-" + model, "--threads", threads, "--resume", "--epochs", 2)
            weights = [(self.folder / run / "model.safetensors").read_bytes() for run in (model, "cut-" + model)]
            self.assertTrue(weights[0] == weights[1], model)

    def test_servers(self):
        """Sync, the same bits each time, and after a stop; one worker learns what a process alone does."""
        servers = ("--ps", 2, "--mode", "sync", "--shuffle-rows", 0)
        for run, flags in (("a", ("--epochs", 2)), ("b", ()), ("b", ("--resume", "--epochs", 2))):
            self.learn("deepfm", run, "--workers", 2, *servers, *flags)
        weights = [(self.folder / run / "model.safetensors").read_bytes() for run in ("a", "b")]
        self.assertTrue(weights[0] == weights[1])
        s = self.summary("a")
        self.assertEqual(s["examples"], 4000)
        again = json.loads(self.shoal("eval", "a", "--json")[0])
        self.assertAlmostEqual(again["loss"], s["test_loss"], places=5)
        for model in ("fm", "dcn-v2"):
            self.learn(model, model + "-alone", "--no-checkpoints", "--shuffle-rows", 0, "--threads", 1)
            self.learn(model, model + "-served", "--no-checkpoints", "--workers", 1, *servers, "--threads", 1)
            alone, served = self.summary(model + "-alone"), self.summary(model + "-served")
            self.assertAlmostEqual(alone["test_loss"], served["test_loss"], delta=1e-4, msg=model)
        self.learn("fm", "async", "--no-checkpoints", "--workers", 3, "--ps", 2, "--mode", "async", "--lr", 0.03)
        self.assertEqual(self.summary("async")["examples"], 2000)
        self.assertGreater(self.summary("async")["test_auc"], 0.6)

    def test_several_tables(self):
        """Two tables of different width and a dense layer, on servers in one message: as in a process alone; same bits after a stop."""
        (self.folder / "two.json").write_text(json.dumps({
            "shoal_model": 1, "name": "two", "inputs": [{"shape": [FEATURES], "sparse": True}],
            "layers": [
                {"name": "weights", "type": "embedding_bag", "units": 1, "embeddings_initializer": 0},
                {"name": "vectors", "type": "embedding_bag", "inputs": ["input"], "units": 5, "fields": 39, "log_values": True,
                 "embeddings_initializer": {"type": "table", "limit": 0.1}},
                {"name": "pairs", "type": "fm_interaction"},
                {"type": "flatten", "inputs": ["vectors"]}, {"name": "deep", "type": "dense", "units": 1},
                {"type": "add", "inputs": ["weights", "pairs", "deep"]}, {"type": "activation", "activation": "sigmoid"}],
            "training": {"epochs": 1, "optimizer": "adagrad", "lr": 0.05, "accumulator": 0.1}}))
        usual = ("train", "two.json", "--data", self.train, "--test-data", self.test, "--features", FEATURES, "--batch-size", 50,
                 "--shuffle-rows", 0, "--threads", 1)
        servers = ("--ps", 2, "--mode", "sync")
        self.shoal(*usual, "--run-dir", "alone", "--no-checkpoints", "--epochs", 2)
        self.shoal(*usual, "--run-dir", "one", "--workers", 1, *servers, "--no-checkpoints", "--epochs", 2)
        for run, flags in (("a", ("--epochs", 2)), ("b", ()), ("b", ("--resume", "--epochs", 2))):
            self.shoal(*usual, "--run-dir", run, "--workers", 2, *servers, *flags)
        weights = [(self.folder / run / "model.safetensors").read_bytes() for run in ("a", "b")]
        self.assertTrue(weights[0] == weights[1])
        self.assertAlmostEqual(self.summary("alone")["test_loss"], self.summary("one")["test_loss"], delta=1e-5)
        again = json.loads(self.shoal("eval", "a", "--json")[0])
        self.assertAlmostEqual(again["loss"], self.summary("a")["test_loss"], places=5)
        self.assertLess(self.summary("a")["test_loss"], self.truth["constant_log_loss"])

    def test_what_is_refused(self):
        svm = self.shared / "pairs.svm"
        _, err = self.shoal("train", "deepfm", "--data", svm, "--run-dir", "x", expect=2)
        self.assertIn("the rows have none", err)
        _, err = self.learn("deepfm", "y", "--set", "fields=20", expect=1)
        self.assertIn("there are 20 fields", err)
        _, err = self.learn("deepfm", "z", "--set", "width=600", expect=2)
        self.assertIn("512", err)


if __name__ == "__main__":
    support.main()
