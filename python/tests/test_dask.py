"""Trainings in the workers of Dask."""
import support

support.need("numpy", "dask", "distributed")
import numpy as np  # noqa: E402
import shoal  # noqa: E402
import shoal.dask  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from shoal.layers import Dense, Input  # noqa: E402


class Dask(support.Case):
    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1")
        cls.client = Client(cls.cluster)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.cluster.close()

    def test_files(self):
        rng = np.random.default_rng(0)
        for i in range(4):
            lines = [f"{int(a + b > 0)},{a:.4f},{b:.4f}" for a, b in rng.normal(size=(300, 2))]
            (self.folder / f"part-{i}.csv").write_text("\n".join(lines) + "\n")
        files = shoal.data.Files(self.folder, format="csv", columns="label=0")
        model = shoal.Sequential([Input(2), Dense(2, "softmax")])
        model.compile(shoal.optimizers.SGD(0.5), threads=1)
        model, history = shoal.dask.train(files, model, workers=2, servers=1, client=self.client, epochs=8)
        self.assertGreater(model.evaluate(files)["accuracy"], 0.95)
        self.assertEqual(history.epochs, 8)
        with self.assertRaisesRegex(ValueError, "3 workers"):
            shoal.dask.train(files, model, workers=3, servers=1, client=self.client)

    def test_a_run(self):
        run = shoal.dask.train("fake:8x8x1:3:256", "softmax", workers=2, servers=1, client=self.client, epochs=1, threads=1,
                               run_dir=self.folder / "run")
        self.assertEqual(run.summary["model"], "softmax")

    def test_a_failure_is_raised(self):
        with self.assertRaises(shoal.Error):
            shoal.dask.train(self.folder / "nothing", "softmax", workers=2, servers=1, client=self.client, deadline=5, run_dir=self.folder / "run")


if __name__ == "__main__":
    support.main()
