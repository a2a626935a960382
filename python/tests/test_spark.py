"""Trainings in Spark's executors: a cluster of three on this machine, one of which is killed."""
import os
import shutil
import signal
import sys
import threading
import time
import uuid

import support

support.need("numpy", "pyspark")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    print("skipped: no Java")
    sys.exit(support.SKIP)
import numpy as np  # noqa: E402
import shoal  # noqa: E402
import shoal.spark  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from shoal import callbacks  # noqa: E402
from shoal.layers import Dense, Input  # noqa: E402

MARK = f"shoal-test-{uuid.uuid4().hex}"


def processes():
    """Those of the executors, Python's workers among them: pid and command."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"SHOAL_TEST_MARK={MARK}".encode() in file.read().split(b"\0") and int(pid) != os.getpid():
                    with open(f"/proc/{pid}/cmdline", "rb") as line:
                        found[int(pid)] = line.read().replace(b"\0", b" ").decode()
        except OSError:
            pass
    return found


def wait(until, seconds, what):
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


class Spark(support.Case):
    @classmethod
    def setUpClass(cls):
        os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1", SPARK_LOCAL_HOSTNAME="localhost")
        build = SparkSession.builder.master("local-cluster[3,1,1024]").config("spark.ui.enabled", "false")
        for name in ("PYTHONPATH", "SHOAL_LIBRARY", "SHOAL_DATA", "OMP_NUM_THREADS"):
            if name in os.environ:
                build = build.config(f"spark.executorEnv.{name}", os.environ[name])
        cls.session = build.config("spark.executorEnv.SHOAL_TEST_MARK", MARK).config("spark.network.timeout", "300s").getOrCreate()
        cls.session.sparkContext.setLogLevel("OFF")

    @classmethod
    def tearDownClass(cls):
        cls.session.stop()
        wait(lambda: not processes(), 120, "the executors' processes end")

    def test_softmax(self):
        settings = {"epochs": 3, "threads": 1}
        run = shoal.spark.train("mnist", "softmax", workers=2, servers=1, session=self.session, run_dir=self.folder / "spark", **settings)
        alone = shoal.train("softmax", data="mnist", run_dir=self.folder / "alone", quiet=True, **settings)
        print("softmax", run.summary["test_accuracy"], alone.summary["test_accuracy"])
        self.assertAlmostEqual(run.summary["test_accuracy"], alone.summary["test_accuracy"], delta=0.01)
        self.assertAlmostEqual(run.model().test()["accuracy"], run.summary["test_accuracy"], places=6)
        run.report(self.folder / "page.html")
        self.assertGreater((self.folder / "page.html").stat().st_size, 10000)

    def test_sparse(self):
        """sparse-lr, by its name and as a model of the program's own; two workers with half of the batch each."""
        shoal.data.generate_clicks(self.folder / "clicks", rows=24000, features=20000, files=6)
        train, test = str(self.folder / "clicks" / "tfrecords0[0-4]"), str(self.folder / "clicks" / "tfrecords05")
        settings = {"test_data": test, "features": 20000, "epochs": 3, "threads": 1}
        run = shoal.spark.train(train, "sparse-lr", workers=2, servers=1, session=self.session, run_dir=self.folder / "spark", batch_size=25, **settings)
        alone = shoal.train("sparse-lr", data=train, run_dir=self.folder / "alone", quiet=True, batch_size=50, **settings)
        model = shoal.Sequential([Input(20000, sparse=True), shoal.layers.SparseDense(1, "sigmoid")])
        model.compile(shoal.optimizers.Adagrad(0.3), threads=1)
        files = shoal.data.Files(train, features=20000)
        model, history = shoal.spark.train(files, model, workers=2, servers=1, session=self.session, epochs=3, batch_size=25)
        accuracy = [run.summary["test_accuracy"], alone.summary["test_accuracy"], model.evaluate(shoal.data.Files(test, features=20000))["accuracy"]]
        print("sparse", accuracy)
        self.assertAlmostEqual(accuracy[0], accuracy[1], delta=0.01)
        self.assertAlmostEqual(accuracy[2], accuracy[1], delta=0.01)
        self.assertEqual(history.epochs, 3)

    def dense(self):
        model = shoal.Sequential([Input((3,)), Dense(2, "softmax")])
        model.compile(shoal.optimizers.SGD(0.5), threads=1)
        return model

    def test_data_frame(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(900, 3))
        rows = [(int(a + b > 0), float(a), float(b), float(c)) for a, b, c in x]
        frame = self.session.createDataFrame(rows, ["clicked", "a", "b", "c"]).repartition(4)
        model, _ = shoal.spark.train(frame, self.dense(), workers=2, servers=1, label="clicked", folder=self.folder, epochs=8)
        self.assertGreater(model.evaluate(x, (x[:, 0] + x[:, 1] > 0).astype(int))["accuracy"], 0.95)
        self.assertEqual(list(self.folder.iterdir()), [])
        with self.assertRaisesRegex(ValueError, "no column 'y'"):
            shoal.spark.train(frame, self.dense(), workers=2, label="y")

    def test_a_failure_is_raised_at_once(self):
        (self.folder / "a.csv").write_text("0,x y z\n1\n")
        files = shoal.data.Files(self.folder, format="csv", columns="label=0")
        with self.assertRaises(shoal.Error):
            shoal.spark.train(files, self.dense(), workers=1, servers=1, session=self.session, strategy={"deadline": 5})

    def test_killed_executor(self):
        """Spark runs the stage again: the job comes to its end, or says why not; nothing hangs."""
        rng = np.random.default_rng(0)
        for i in range(4):
            x = rng.normal(size=(4000, 3))
            (self.folder / f"rows-{i}.csv").write_text("\n".join(f"{int(a + b > 0)},{a:.4f},{b:.4f},{c:.4f}" for a, b, c in x) + "\n")
        begun, result = self.folder / "begun", {}
        files = shoal.data.Files(self.folder / "rows-*.csv", format="csv", columns="label=0")

        def tell(step, logs, path=str(begun)):
            open(path, "w").close()

        def train():
            try:
                result["model"], result["history"] = shoal.spark.train(
                    files, self.dense(), workers=2, servers=1, session=self.session, epochs=150, batch_size=4,
                    callbacks=[callbacks.LambdaCallback(on_step=tell)], strategy={"deadline": 20})
            except Exception as error:
                result["error"] = error

        thread = threading.Thread(target=train)
        thread.start()
        wait(lambda: begun.exists() or not thread.is_alive(), 200, "training begins")
        backends = [pid for pid, line in processes().items() if "CoarseGrainedExecutorBackend" in line]
        self.assertEqual(len(backends), 3, processes())
        os.kill(backends[1], signal.SIGKILL)
        thread.join(300)
        self.assertFalse(thread.is_alive(), "it hangs")
        print("killed executor:", result)
        if "error" in result:
            self.assertIsInstance(result["error"], shoal.Error)
        else:
            self.assertGreater(result["model"].evaluate(files)["accuracy"], 0.95)


if __name__ == "__main__":
    support.main()
