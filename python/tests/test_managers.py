"""Trainings inside other systems' processes: here those of multiprocessing."""
import support

support.need("numpy")
import numpy as np  # noqa: E402
import shoal  # noqa: E402
from shoal import managers  # noqa: E402
from shoal.layers import Dense, Input  # noqa: E402


def dense():
    model = shoal.Sequential([Input((4,)), Dense(2, "softmax")])
    model.compile(shoal.optimizers.SGD(0.5), threads=1)
    return model


def write_csv(folder, files=4, rows=200):
    rng = np.random.default_rng(0)
    for i in range(files):
        x = rng.normal(size=(rows, 4))
        lines = [",".join([str(int(r[0] + r[1] > 0)), *(f"{v:.4f}" for v in r)]) for r in x]
        (folder / f"part-{i}.csv").write_text("\n".join(lines) + "\n")


class Local(support.Case):
    def test_files_over_processes(self):
        write_csv(self.folder)
        files = shoal.data.Files(self.folder, format="csv", columns="label=0")
        model, history = managers.train(managers.LocalManager(), dense(), files, workers=2, servers=1, epochs=8)
        self.assertGreater(model.evaluate(files)["accuracy"], 0.93)
        self.assertEqual(history.epochs, 8)

    def test_a_run(self):
        """`shoal train` over the processes; its folder comes here."""
        run = managers.run(managers.LocalManager(), "softmax", workers=1, servers=1, run_dir=self.folder / "run", data="fake:8x8x1:3:256", epochs=1,
                           threads=1)
        self.assertEqual((run.summary["model"], run.model().classes), ("softmax", 3))
        with self.assertRaisesRegex(ValueError, "not empty"):
            managers.run(managers.LocalManager(), "softmax", workers=1, run_dir=self.folder / "run")

    def test_a_failure_is_raised(self):
        (self.folder / "a.csv").write_text("label,a\n0,x y z\n1\n")
        with self.assertRaises(shoal.Error):
            managers.train(managers.LocalManager(), dense(), shoal.data.Files(self.folder, format="csv"), workers=1, servers=1,
                           strategy={"deadline": 5})


if __name__ == "__main__":
    support.main()
