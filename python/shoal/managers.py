"""Trainings inside other systems' processes: what such a system must provide is a Manager.

`train` makes parameter servers and workers of the processes a manager runs, hands out addresses and keys over the manager's own
channel, and brings the model back.
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import pickle
import socket
import tarfile
import tempfile
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from .cluster import Cluster, make_keys
from .data import Files
from .history import History
from .models import Model
from .runs import Run, job_of, take_part
from .strategies import ParameterServer, serve_parameters


class Task:
    """One of the processes that a manager runs at the same time. host: by which the others reach it."""
    index = 0
    host = "127.0.0.1"

    def exchange(self, text: str) -> Sequence[str]:
        """Each task gives a text, and all get those of all, in their order."""
        raise NotImplementedError


class Manager:
    """What a system that runs processes must be able to do."""

    def run(self, tasks: int, main: Callable[[Task], Any]) -> list[Any]:
        """main(task) in so many processes at the same time; their results in order. When one fails, the others are ended, and its
        error is raised."""
        raise NotImplementedError


Keys = dict[str, bytes]


def new_keys() -> Keys:
    """Keys of a cluster, as the content of files."""
    with tempfile.TemporaryDirectory() as folder:
        make_keys(folder, "server")
        make_keys(folder, "client")
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@contextlib.contextmanager
def keys_folder(keys: Keys) -> Iterator[str]:
    """A folder with them, readable by this user alone, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in keys.items():
            path = pathlib.Path(folder) / name
            path.touch(mode=0o600)
            path.write_bytes(content)
        yield folder


def free_address(host: str) -> str:
    """HOST:PORT that nobody listens at."""
    with socket.socket() as s:
        s.bind((host, 0))
        return f"{host}:{s.getsockname()[1]}"


class _Job:
    """What each process does; goes there as a pickle. The first `servers` tasks are parameter servers."""

    def __init__(self, servers: int, keys: Keys) -> None:
        self.servers, self.keys = servers, keys

    def __call__(self, task: Task) -> Any:
        addresses = list(task.exchange(free_address(task.host)))
        tasks = {"ps": addresses[:self.servers], "worker": addresses[self.servers:]}
        server = task.index < self.servers
        name = f"ps:{task.index}" if server else f"worker:{task.index - self.servers}"
        with keys_folder(self.keys) as folder:
            return self.take_part(tasks, name, folder)

    def take_part(self, tasks: dict[str, list[str]], name: str, keys: str) -> Any:
        """What the task of that name returns."""
        raise NotImplementedError


class _Fit(_Job):
    """Fits a model that the program has made."""

    def __init__(self, servers: int, model: Model, files: Files, strategy: dict[str, Any], fit: dict[str, Any]) -> None:
        super().__init__(servers, new_keys())
        self.model, self.files, self.strategy, self.fit = pickle.dumps(model), files, strategy, fit

    def take_part(self, tasks: dict[str, list[str]], name: str, keys: str) -> Any:
        cluster = Cluster(tasks, name)
        common = {"keys": keys, "deadline": self.strategy.get("deadline", 0), "heartbeat": self.strategy.get("heartbeat", 0)}
        if name.startswith("ps:"):
            serve_parameters(cluster, **common)
            return None
        model: Model = pickle.loads(self.model)
        history = model.fit(self.files, strategy=ParameterServer(cluster=cluster, **{**self.strategy, **common}), verbose=False, **self.fit)
        return (pickle.dumps(model), history) if name == "worker:0" else None


class _Run(_Job):
    """Runs `shoal train` as a task of the cluster; worker 0 sends the run's folder."""

    def __init__(self, servers: int, model: str, settings: dict[str, Any]) -> None:
        super().__init__(servers, new_keys())
        self.model, self.settings = model, settings
        self.text = pathlib.Path(model).read_text(encoding="utf-8") if model.endswith(".json") else None

    def take_part(self, tasks: dict[str, list[str]], name: str, keys: str) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder)
            (here / "cluster.json").write_text(json.dumps(tasks), encoding="utf-8")
            model = self.model
            if self.text is not None:
                model = str(here / pathlib.Path(model).name)
                pathlib.Path(model).write_text(self.text, encoding="utf-8")
            out = {"run_dir": here / "run"} if name == "worker:0" else {}
            job, _keep = job_of(model, {**self.settings, "cluster": here / "cluster.json", "task": name, "keys": keys, "quiet": True, **out})
            take_part(job)
            if not out:
                return None
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz") as archive:
                archive.add(here / "run", arcname=".")
            return packed.getvalue()


def _checked(workers: int, servers: int) -> int:
    if workers < 1 or servers < 1:
        raise ValueError(f"workers and servers must be at least 1, not {workers} and {servers}")
    return workers + servers


def train(manager: Manager, model: Model, files: Files, *, workers: int, servers: int = 1, strategy: Optional[dict[str, Any]] = None,
          **fit: Any) -> tuple[Model, History]:
    """Fits the model in workers + servers processes of the manager, on files that all of them can read.

    strategy: mode and the other settings of ParameterServer. fit: epochs, batch_size and the others of Model.fit.
    """
    tasks = _checked(workers, servers)
    trained, history = manager.run(tasks, _Fit(servers, model, files, strategy or {}, fit))[servers]
    return pickle.loads(trained), history


def run(manager: Manager, model: str, *, workers: int, servers: int = 1, run_dir: "str | os.PathLike[str]", **settings: Any) -> Run:
    """`shoal train MODEL` in workers + servers processes of the manager, with its flags as arguments; data is read by each of them.

    model: a name or a model file of this machine. The run's folder, with the model and the report, comes to run_dir here.
    """
    tasks, folder = _checked(workers, servers), pathlib.Path(run_dir)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"run_dir {folder} is not empty")
    packed = manager.run(tasks, _Run(servers, model, settings))[servers]
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
    return Run(folder)


def train_on(manager: Manager, data: Any, model: "Union[Model, str]", *, workers: int, servers: int,
             run_dir: "Optional[str | os.PathLike[str]]" = None, **settings: Any) -> "Union[tuple[Model, History], Run]":
    """train or, of a model by name or file, run; run_dir None: a new folder for temporary files. data: a path, or Files."""
    if isinstance(model, str):
        return run(manager, model, workers=workers, servers=servers, data=data,
                   run_dir=tempfile.mkdtemp(prefix="shoal-run-") if run_dir is None else run_dir, **settings)
    return train(manager, model, data if isinstance(data, Files) else Files(data), workers=workers, servers=servers, **settings)


class LocalManager(Manager):
    """Processes of this machine, by multiprocessing: to try a job before it goes to a cluster."""

    def run(self, tasks: int, main: Callable[[Task], Any]) -> list[Any]:
        import multiprocessing

        context = multiprocessing.get_context("spawn")
        with context.Manager() as shared, context.Pool(tasks) as pool:
            texts, barrier = shared.dict(), shared.Barrier(tasks)
            calls = [pool.apply_async(_local_main, (main, i, tasks, texts, barrier)) for i in range(tasks)]
            results: dict[int, Any] = {}
            while len(results) < tasks:
                for i, call in enumerate(calls):
                    if i not in results and call.ready():
                        results[i] = call.get()  # raises what it raised; leaving the pool ends the others
                calls[0].wait(0.05)
            return [results[i] for i in range(tasks)]


class _LocalTask(Task):
    def __init__(self, index: int, count: int, texts: Any, barrier: Any) -> None:
        self.index, self.count, self.texts, self.barrier = index, count, texts, barrier

    def exchange(self, text: str) -> Sequence[str]:
        self.texts[self.index] = text
        self.barrier.wait(60)
        return [self.texts[i] for i in range(self.count)]


def _local_main(main: Callable[[Task], Any], index: int, count: int, texts: Any, barrier: Any) -> Any:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return main(_LocalTask(index, count, texts, barrier))
