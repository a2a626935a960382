"""Trainings inside the workers of Dask (dask.distributed).

    model, history = shoal.dask.train("rows/*.csv", model, workers=2, servers=1, client=client, epochs=3)

Each task takes a worker of Dask for as long as the training lasts, one after the other in the order of their addresses; keys and
addresses travel over Dask's own channel.
"""
from __future__ import annotations

import importlib
import os
import uuid
from typing import Any, Callable, Optional, Sequence, Union
from urllib.parse import urlsplit

from . import managers
from .data import Files
from .history import History
from .models import Model
from .runs import Run

SECONDS = 120  # that a task waits for the others to begin


def _distributed() -> Any:
    return importlib.import_module("distributed")


class DaskManager(managers.Manager):
    """The workers of a client; None: the one that is there."""

    def __init__(self, client: Any = None) -> None:
        self.client = client or _distributed().get_client()

    def run(self, tasks: int, main: Callable[[managers.Task], Any]) -> list[Any]:
        dask = _distributed()
        places = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        if len(places) < tasks:
            raise ValueError(f"workers and servers are {tasks} tasks at the same time, but Dask has {len(places)} workers")
        name = f"shoal-{uuid.uuid4().hex}"
        told, answer = dask.Queue(name, client=self.client), dask.Variable(name, client=self.client)
        futures = [self.client.submit(_member, main, i, tasks, name, workers=[places[i]], pure=False, retries=0, key=f"{name}-{i}")
                   for i in range(tasks)]
        try:
            for done in dask.as_completed(futures):
                done.result()  # raises what it raised
            return [future.result() for future in futures]
        finally:
            self.client.cancel(futures, force=True)
            told.close()
            answer.delete()


class _DaskTask(managers.Task):
    def __init__(self, index: int, count: int, name: str) -> None:
        self.index, self.count, self.name = index, count, name
        self.host = urlsplit(_distributed().get_worker().address).hostname or self.host

    def exchange(self, text: str) -> Sequence[str]:
        dask = _distributed()
        told, answer = dask.Queue(self.name), dask.Variable(self.name)
        told.put((self.index, text))
        if self.index == 0:
            texts = dict(told.get(timeout=SECONDS) for _ in range(self.count))
            answer.set([texts[i] for i in range(self.count)])
        found: Sequence[str] = answer.get(timeout=SECONDS)
        return found


def _member(main: Callable[[managers.Task], Any], index: int, count: int, name: str) -> Any:
    return main(_DaskTask(index, count, name))


def train(data: "Union[str, os.PathLike[str], Files]", model: "Union[Model, str]", *, workers: int, servers: int = 1, client: Any = None,
          run_dir: "Optional[str | os.PathLike[str]]" = None, **settings: Any) -> "Union[tuple[Model, History], Run]":
    """Trains in workers + servers workers of Dask; returns (model, history), or of a model by name or file its Run.

    data: files that all of them can read. settings: of a Model those of fit and strategy={...}, otherwise those of `shoal train`.
    """
    return managers.train_on(DaskManager(client), data, model, workers=workers, servers=servers, run_dir=run_dir, **settings)
