"""Trainings inside other systems' processes: what such a system must provide is a Manager.

`train` makes parameter servers and workers of the processes a manager runs, hands out addresses and keys over the manager's own
channel, and brings the model back.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import pickle
import socket
import tempfile
from typing import Any, Callable, Iterator, Optional, Sequence

from .cluster import Cluster, make_keys
from .data import Files
from .history import History
from .models import Sequential
from .strategies import ParameterServer, serve_parameters


class Task:
    """One of the processes that a manager runs at the same time."""
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
    """What each process does; goes there as a pickle."""

    def __init__(self, model: Sequential, files: Files, servers: int, strategy: dict[str, Any], fit: dict[str, Any], keys: Keys) -> None:
        self.model, self.files, self.servers = pickle.dumps(model), files, servers
        self.strategy, self.fit, self.keys = strategy, fit, keys

    def __call__(self, task: Task) -> Any:
        addresses = list(task.exchange(free_address(task.host)))
        tasks = {"ps": addresses[:self.servers], "worker": addresses[self.servers:]}
        server = task.index < self.servers
        name = f"ps:{task.index}" if server else f"worker:{task.index - self.servers}"
        with keys_folder(self.keys) as folder:
            cluster = Cluster(tasks, name)
            common = {"keys": folder, "deadline": self.strategy.get("deadline", 0), "heartbeat": self.strategy.get("heartbeat", 0)}
            if server:
                serve_parameters(cluster, **common)
                return None
            model: Sequential = pickle.loads(self.model)
            history = model.fit(self.files, strategy=ParameterServer(cluster=cluster, **{**self.strategy, **common}), verbose=False,
                                **self.fit)
            return (pickle.dumps(model), history) if task.index == self.servers else None


def train(manager: Manager, model: Sequential, files: Files, *, workers: int, servers: int = 1, strategy: Optional[dict[str, Any]] = None,
          **fit: Any) -> tuple[Sequential, History]:
    """Fits the model in workers + servers processes of the manager, on files that all of them can read.

    strategy: mode and the other settings of ParameterServer. fit: epochs, batch_size and the others of Model.fit.
    """
    if workers < 1 or servers < 1:
        raise ValueError(f"workers and servers must be at least 1, not {workers} and {servers}")
    job = _Job(model, files, servers, strategy or {}, fit, new_keys())
    results = manager.run(servers + workers, job)
    trained, history = results[servers]
    return pickle.loads(trained), history


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
