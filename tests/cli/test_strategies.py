"""Five different models under every strategy: the same bits wherever --deterministic promises them, and all of them learn."""
import json
import shutil

from support import Case, main

DENSE = {"type": "dense", "units": "$classes", "activation": "softmax"}
MODELS = {
    "perceptron": [{"type": "flatten"}, {"type": "dense", "units": 32, "activation": "gelu"}, {"type": "dropout", "rate": 0.1},
                   DENSE],
    "residual": [  # with batch normalisation, twice in a branch
        {"name": "first", "type": "conv2d", "filters": 6, "kernel_size": 3, "strides": 4, "padding": "same", "use_bias": False},
        {"type": "batch_normalization"}, {"type": "relu"},
        {"type": "conv2d", "filters": 6, "kernel_size": 3, "padding": "same"}, {"name": "last", "type": "batch_normalization"},
        {"type": "add", "inputs": ["first", "last"]}, {"type": "flatten"}, DENSE],
    "recurrent": [{"type": "reshape", "target_shape": [28, 28]}, {"type": "bidirectional", "layer": {"type": "lstm", "units": 8}},
                  DENSE],
    "attentive": [
        {"type": "reshape", "target_shape": [14, 56]}, {"name": "words", "type": "dense", "units": 16},
        {"name": "placed", "type": "position_embedding"}, {"type": "multi_head_attention", "num_heads": 2, "key_dim": 8},
        {"type": "add", "inputs": ["placed", "multi_head_attention"]}, {"type": "layer_normalization"}, {"type": "flatten"}, DENSE],
    "separable": [{"type": "separable_conv2d", "filters": 8, "kernel_size": 3, "strides": 3, "activation": "silu"},
                  {"type": "group_normalization", "groups": 4}, {"type": "gaussian_noise", "stddev": 0.05},
                  {"type": "max_pooling2d", "pool_size": 2}, {"type": "flatten"}, DENSE],
}


class Strategies(Case):
    def test_five_models_under_every_strategy(self):
        ways = [("single", ["--strategy", "single", "--batch-size", "24"])]
        together = ["--global-batch", "24", "--strategy"]
        ways += [(f"mirrored{n}", [*together, "mirrored", "--workers", str(n)]) for n in (2, 4)]
        ways += [("ps3", [*together, "ps", "--workers", "3", "--ps", "2"])]
        if shutil.which("mpirun"):
            ways += [("allreduce2", [*together, "allreduce", "--workers", "2"])]
        else:
            print("skipped: allreduce, no mpirun")
        for name, layers in MODELS.items():
            model = {"shoal_model": 1, "name": name, "layers": layers, "training": {"optimizer": "adam", "lr": 0.005}}
            (self.folder / f"{name}.json").write_text(json.dumps(model))
            common = ["train", f"{name}.json", "--data", self.data, "--epochs", "6", "--quiet"]
            bits = {}
            for way, words in ways:
                run = f"{name}-{way}"
                self.shoal(*common, *words, "--deterministic", "--run-dir", run)
                bits[way] = (self.folder / run / "model.safetensors").read_bytes()
                self.assertGreater(self.summary(run)["test_accuracy"], 0.7, run)
            self.assertEqual(len(set(bits.values())), 1, f"{name}: {sorted(bits)}")
            run = f"{name}-async"
            self.shoal(*common, "--workers", "2", "--ps", "1", "--mode", "async", "--batch-size", "24", "--threads", "1",
                       "--run-dir", run)
            self.assertGreater(self.summary(run)["test_accuracy"], 0.35, run)  # as stale as the machine is busy; chance is 0.25

    def test_one_to_four_workers(self):
        """The same bits for 1 to 4 workers of each strategy, batch normalisation included."""
        name = "residual"
        model = {"shoal_model": 1, "name": name, "layers": MODELS[name], "training": {"optimizer": "adam", "lr": 0.005}}
        (self.folder / f"{name}.json").write_text(json.dumps(model))
        bits = {}
        for strategy in ("mirrored", "ps", "allreduce"):
            for workers in (1, 2, 3, 4):
                run = f"{strategy}-{workers}"
                self.shoal("train", f"{name}.json", "--data", self.data, "--epochs", "1", "--global-batch", "24", "--strategy", strategy,
                           "--workers", workers, "--deterministic", "--no-checkpoints", "--quiet", "--run-dir", run)
                bits[run] = (self.folder / run / "model.safetensors").read_bytes()
        self.assertEqual(len(set(bits.values())), 1, sorted(bits))

    def test_weighted_rows_and_accumulated_gradients(self):
        """Batches of 8 rows, three an update, are the update of 24 rows, wherever they are computed."""
        rows = "".join(f"{i % 7 - 3},{i % 5 - 2},{i % 3},{i % 4 / 2},{'yes' if (i % 7 - 3) * (i % 3 - 1) > i % 5 - 2 else 'no'}\n"
                       for i in range(240))
        (self.folder / "rows.csv").write_text("a,b,c,w,label\n" + rows)
        model = {"shoal_model": 1, "layers": [{"type": "dense", "units": 12, "activation": "tanh"}, DENSE],
                 "training": {"optimizer": "adam", "lr": 0.02}}
        (self.folder / "small.json").write_text(json.dumps(model))
        common = ["train", "small.json", "--data", "rows.csv", "--test-data", "rows.csv", "--epochs", "3", "--quiet", "--no-checkpoints"]
        weighted, parts = ["--columns", "label=label,weight=w"], ["--global-batch", "8", "--accumulate", "3"]
        ways = {f"{strategy}-{workers}": ["--strategy", strategy, "--workers", workers]
                for strategy, workers in (("mirrored", 1), ("mirrored", 3), ("ps", 2), ("allreduce", 2), ("allreduce", 3))}
        bits, losses = {}, {}
        for way, words in ways.items():
            for exact in (True, False):
                run = f"{way}-{exact}"
                own = ["--batch-size", "4", "--accumulate", "3"] if way == "ps-2" and not exact else parts
                self.shoal(*common, *weighted, *own, *words, *(["--deterministic"] if exact else []), "--run-dir", run)
                losses[run] = self.summary(run)["test_loss"]
                if exact:
                    bits[run] = (self.folder / run / "model.safetensors").read_bytes()
        self.shoal(*common, *weighted, "--global-batch", "24", "--strategy", "mirrored", "--workers", "2", "--deterministic", "--run-dir", "whole")
        bits["whole"] = (self.folder / "whole" / "model.safetensors").read_bytes()
        self.assertEqual(len(set(bits.values())), 1, sorted(bits))
        for run, loss in losses.items():
            self.assertAlmostEqual(loss, self.summary("whole")["test_loss"], places=4, msg=run)
        self.shoal(*common, "--columns", "label=label,skip=w", *parts, *ways["allreduce-2"], "--deterministic", "--run-dir", "plain")
        self.assertNotEqual((self.folder / "plain" / "model.safetensors").read_bytes(), bits["whole"])  # weights do something


main()
