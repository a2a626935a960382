"""shoal train linear: numbers to be predicted, under every strategy, against the exact solution."""
import json
import math
import pathlib
import random
import shutil

import support

FEATURES = ["size", "age", "rooms", "far"]
HAS_MPI = shutil.which("mpirun") and (pathlib.Path(support.SHOAL).parent / "shoal-mpi.so").exists()


def make_rows(count, seed):
    """Houses: the price is a linear function of columns of very different sizes, and noise."""
    r = random.Random(seed)
    rows = []
    for _ in range(count):
        x = [r.uniform(30, 200), r.uniform(0, 90), float(r.randint(1, 6)), r.gauss(4000, 1500)]
        rows.append((x, round(50 + 3.1 * x[0] - 0.8 * x[1] + 20 * x[2] - 0.01 * x[3] + r.gauss(0, 40), 1)))
    return rows


def write_rows(path, rows, labels=True):
    lines = [FEATURES + ["price"] * labels] + [x + [y] * labels for x, y in rows]
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))


def least_squares(rows):
    """The normal equations, by elimination: a weight a feature, and the bias."""
    n = len(FEATURES) + 1
    a = [[0.0] * (n + 1) for _ in range(n)]
    for x, y in rows:
        x = x + [1.0]
        for i in range(n):
            for k in range(n):
                a[i][k] += x[i] * x[k]
            a[i][n] += x[i] * y
    for i in range(n):
        best = max(range(i, n), key=lambda r: abs(a[r][i]))
        a[i], a[best] = a[best], a[i]
        for r in range(n):
            if r != i:
                factor = a[r][i] / a[i][i]
                a[r] = [u - factor * v for u, v in zip(a[r], a[i])]
    return [a[i][n] / a[i][i] for i in range(n)]


def figures(rows, weights):
    mean = sum(y for _, y in rows) / len(rows)
    errors = [sum(w * v for w, v in zip(weights, x + [1.0])) - y for x, y in rows]
    squared = sum(e * e for e in errors)
    return {"mae": sum(map(abs, errors)) / len(rows), "rmse": math.sqrt(squared / len(rows)),
            "r2": 1 - squared / sum((y - mean) ** 2 for _, y in rows)}


class Regression(support.Case):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(support.tempfile.mkdtemp(prefix="shoal-cli-"))
        cls.data = cls.shared / "houses"
        cls.data.mkdir()
        train, test = make_rows(400, 1), make_rows(150, 2)
        write_rows(cls.data / "train.csv", train)
        write_rows(cls.data / "test.csv", test)
        cls.exact = figures(test, least_squares(train))

    def linear(self, run, *flags):
        """Trains; nothing that is said speaks of accuracy."""
        out, err = self.train("linear", run, "--columns", "target=price", *flags)
        self.assertNotIn("ccuracy", out + err)
        return out + err, self.summary(run)

    def test_agrees_with_least_squares(self):
        out, s = self.linear("run")
        self.assertEqual((s["test_accuracy"], s["test_confusion"], s["loss"]), (None, None, "mse"))
        self.assertAlmostEqual(s["test_r2"], self.exact["r2"], delta=0.01)
        for key in ("rmse", "mae"):
            self.assertAlmostEqual(s["test_" + key] / self.exact[key], 1, delta=0.02)
        self.assertAlmostEqual(s["test_loss"] / s["test_rmse"] ** 2, 1, places=4)
        self.assertIn(f"RMSE {s['test_rmse']:.5g}, R2 {s['test_r2']:.4f}", out)
        shown, _ = self.shoal("eval", "run")
        self.assertIn("R2", shown)
        self.assertNotIn("ccuracy", shown)
        evaluated = json.loads(self.shoal("eval", "run", "--json")[0])
        for key in ("loss", "mae", "rmse", "r2"):
            self.assertAlmostEqual(evaluated[key] / s["test_" + key], 1, places=5)
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        self.assertAlmostEqual([x["r2"] for x in lines if x["kind"] == "eval"][-1], s["test_r2"])

    def test_predicts_numbers(self):
        self.linear("run", "--epochs", 20)
        rows = make_rows(3, 5)
        write_rows(self.folder / "new.csv", rows, labels=False)
        write_rows(self.folder / "known.csv", rows)
        values = [x["value"] for x in json.loads(self.shoal("predict", "run", "new.csv", "--json")[0])]
        lines = self.shoal("predict", "run", "new.csv")[0].splitlines()
        self.assertEqual(lines, [f"{i}: {v:.6g}" for i, v in enumerate(values)])
        lines = self.shoal("predict", "run", "known.csv")[0].splitlines()
        self.assertEqual(lines, [f"{i}: {v:.6g}  (label: {y:.6g})" for i, (v, (_, y)) in enumerate(zip(values, rows))])
        for v, (_, y) in zip(values, rows):
            self.assertAlmostEqual(v, y, delta=200)

    mpi = False

    def environment(self, **more):
        """Open MPI leaves memory behind, which a build with ASan would tell of."""
        return super().environment(**({"ASAN_OPTIONS": "detect_leaks=0"} if self.mpi else {}), **more)

    def test_every_strategy(self):
        few = ["--epochs", 10, "--lr", 0.05]
        alone = self.linear("single", *few)[1]
        half = ["--workers", 2, "--batch-size", 16]
        ways = {"mirrored": [*half, "--strategy", "mirrored"], "ps": [*half, "--ps", 2],
                "async": [*half, "--mode", "async"], "stale": [*half, "--mode", "async", "--staleness", 1],
                "streamed": ["--stream"], "streamed-ps": [*half, "--stream"]}
        if HAS_MPI:
            ways["allreduce"] = [*half, "--strategy", "allreduce"]
        for run, flags in ways.items():
            with self.subTest(run):
                self.mpi = run == "allreduce"
                s = self.linear(run, *few, *flags)[1]
                near = 1e-4 if run in ("mirrored", "allreduce", "ps") else 0.02
                self.assertAlmostEqual(s["test_r2"], alone["test_r2"], delta=near)

    def test_deterministic(self):
        ways = [["--strategy", "mirrored"], ["--strategy", "mirrored", "--workers", 3], ["--workers", 2, "--ps", 2],
                ["--workers", 4]]  # more workers than parts of 16 rows
        if HAS_MPI:
            ways.append(["--strategy", "allreduce", "--workers", 2])
        weights = set()
        for i, flags in enumerate(ways):
            self.mpi = "allreduce" in flags
            self.shoal("train", "linear", "--data", self.data, "--columns", "target=price", "--run-dir", i, "--epochs", 3,
                       "--deterministic", "--global-batch", 48, *flags)
            weights.add((self.folder / f"{i}/model.safetensors").read_bytes())
        self.assertEqual(len(weights), 1)

    def test_stops_early(self):
        out, s = self.linear("run", "--validation-split", 0.2, "--patience", 4, "--epochs", 400, "--schedule", "constant")
        self.assertEqual((s["status"], s["validation_accuracy"]), ("stopped early", None))
        self.assertIn("stopped early after epoch", out)

    def test_sweep_compares_errors(self):
        out, _ = self.shoal("sweep", "linear", "--data", self.data, "--columns", "target=price", "--epochs", 5, "--lr",
                            "0.01,0.02", "--run-dir", "sweep", env={"COLUMNS": "200"})
        self.assertIn("R2", out)
        self.assertNotIn("ccuracy", out)
        self.assertIn("test_r2", (self.folder / "sweep/results.csv").read_text())

    def test_whole_numbers_are_wondered_at(self):
        """Without target= whole numbers are classes."""
        rows = [(x, round(y)) for x, y in make_rows(300, 7)]
        write_rows(self.folder / "whole.csv", [(x, max(y, 0)) for x, y in rows])
        _, err = self.shoal("train", "softmax", "--data", "whole.csv", "--columns", "label=price", "--transform",
                            "standardise", "--epochs", 1, "--run-dir", "run")
        self.assertIn("train the model linear, with --columns target=COLUMN", err)

    def test_classes_and_numbers_are_told_apart(self):
        for flags, words in ((["softmax", "--data", self.data, "--columns", "target=price"], "use the model linear"),
                             (["linear", "--data", "mnist"], "--columns target=COLUMN"),
                             (["linear", "--data", self.data, "--classes", 3], "is a regression model"),
                             (["softmax", "--loss", "mae"], "is a classifier")):
            self.assertIn(words, self.shoal("train", *flags, expect=2)[1])


if __name__ == "__main__":
    support.main()
