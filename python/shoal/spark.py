"""Trainings inside Spark's executors (PySpark): Spark starts, places, restarts and ends the tasks.

    run = shoal.spark.train("clicks/*.tfrecord", "sparse-lr", workers=2, servers=1, run_dir="runs/clicks")
    model, history = shoal.spark.train(frame, model, workers=2, servers=1, label="clicked", epochs=3)

All tasks are those of one stage in barrier mode: they run at the same time, and when one is lost Spark runs all of them again, up to
spark.stage.maxConsecutiveAttempts times. What goes on from where it was needs checkpoints in a folder that all of them reach:
callbacks=[Checkpoint(folder)], resume=True. Keys are made here and go to the tasks over Spark's own channel.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from typing import Any, Callable, Optional, Sequence, Union

from . import managers
from .data import Files
from .errors import Error, InternalError, PeerError
from .history import History
from .models import Model
from .runs import Run

Path = Union[str, "os.PathLike[str]"]


class SparkManager(managers.Manager):
    """The executors of a session; None: the one that is active, or a new one."""

    def __init__(self, session: Any = None) -> None:
        from pyspark.sql import SparkSession

        self.session = session or SparkSession.builder.getOrCreate()

    def run(self, tasks: int, main: Callable[[managers.Task], Any]) -> list[Any]:
        # Behind the stage stands a shuffle: Spark runs a barrier stage again that ends in one, but none whose results go to the driver.
        context = self.session.sparkContext
        rows = context.parallelize(range(tasks), tasks).barrier().mapPartitions(_Member(main)).partitionBy(1).collect()
        results = [value for _, value in sorted(rows, key=lambda row: int(row[0]))]
        errors = [value for value in results if isinstance(value, Error)]
        if errors:  # who lost a peer is not who began it
            raise next((error for error in errors if not isinstance(error, PeerError)), errors[0])
        return results


class _Member:
    """What runs in an executor. Errors are results: Spark would run the same again, and they would come again. A process that is lost is
    Spark's own matter."""

    def __init__(self, main: Callable[[managers.Task], Any]) -> None:
        self.main = main

    def __call__(self, rows: Any) -> Any:
        task = _SparkTask()
        try:
            yield task.index, self.main(task)
        except Error as error:
            yield task.index, error
        except Exception as error:
            yield task.index, InternalError(f"task {task.index}: {type(error).__name__}: {error}")


class _SparkTask(managers.Task):
    def __init__(self) -> None:
        from pyspark import BarrierTaskContext

        self.context = BarrierTaskContext.get()
        self.index = int(self.context.partitionId())
        self.host = self.context.getTaskInfos()[self.index].address.rsplit(":", 1)[0]

    def exchange(self, text: str) -> Sequence[str]:
        return [str(word) for word in self.context.allGather(text)]


def write_frame(frame: Any, folder: Path, label: str = "label", features: Optional[Sequence[str]] = None) -> Files:
    """A data frame as files, one a partition, which workers share out among them.

    Columns of numbers become CSV; one column of vectors (pyspark.ml), sparse or dense, becomes LIBSVM. folder: of all machines.
    """
    where = pathlib.Path(folder).absolute()
    names = [name for name in frame.columns if name != label] if features is None else list(features)
    kinds = dict(frame.dtypes)
    for name in [label, *names]:
        if name not in kinds:
            raise ValueError(f"the data frame has no column {name!r}; it has {', '.join(kinds)}")
    vectors = [name for name in names if kinds[name] == "vector"]
    if vectors and len(names) > 1:
        raise ValueError(f"{vectors[0]} is a column of vectors, which must be the only feature, but there are {', '.join(names)}")
    if vectors:
        first = frame.select(vectors[0]).first()
        frame.select(frame[label].cast("double").alias("label"), frame[vectors[0]].alias("features")).write.format("libsvm").save(f"file://{where}")
        return Files(where / "part-*", format="libsvm", features=int(first[0].size) if first else 1)
    frame.select(label, *names).write.csv(f"file://{where}")
    return Files(where / "part-*.csv", format="csv", columns="label=0")


def train(data: Any, model: "Union[Model, str]", *, workers: int, servers: int = 1, session: Any = None, label: str = "label",
          features: Optional[Sequence[str]] = None, folder: Optional[Path] = None, run_dir: Optional[Path] = None,
          **settings: Any) -> "Union[tuple[Model, History], Run]":
    """Trains in workers + servers tasks of Spark; returns (model, history), or of a model by name or file its Run.

    data: files that all executors can read, as a path or shoal.data.Files, or a data frame, whose partitions the workers read: it is
    written to a new folder in `folder` (of all machines; None: of this one) and removed afterwards. settings: of a Model those of fit and
    strategy={...}, otherwise those of `shoal train`.
    """
    manager = SparkManager(session or getattr(data, "sparkSession", None))
    written = None
    try:
        if hasattr(data, "rdd") and hasattr(data, "columns"):
            if isinstance(model, str):
                raise ValueError("a data frame is for a Model; give a model by name the path of files")
            written = tempfile.mkdtemp(prefix="shoal-frame-", dir=folder)
            data = write_frame(data, pathlib.Path(written) / "rows", label, features)
        return managers.train_on(manager, data, model, workers=workers, servers=servers, run_dir=run_dir, **settings)
    finally:
        if written:
            shutil.rmtree(written, ignore_errors=True)
