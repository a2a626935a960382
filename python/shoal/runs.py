"""Whole jobs and what they leave behind: everything `shoal train` does, and the folders it makes."""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import tempfile
import threading
import weakref
from typing import Any, Iterator, Optional, Sequence, Union

import numpy as np

from . import native
from .arrays import Array
from .errors import InputError
from .models import Model, Sequential, figures
from .native import lib
from .program import find

Path = Union[str, "os.PathLike[str]"]


class Run:
    """The folder of a run: its summary, its metrics, its page."""

    def __init__(self, folder: Path) -> None:
        self.folder = pathlib.Path(folder)

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json: the result."""
        found: dict[str, Any] = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        return found

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """metrics.jsonl: every figure that was measured on the way."""
        with open(self.folder / "metrics.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def model(self) -> "TrainedModel":
        """The trained model."""
        return TrainedModel(self.folder)

    def report(self, path: Path) -> None:
        """Writes the page that shows it."""
        report([self.folder], path)

    def _repr_html_(self) -> str:
        """The page itself, in a frame of its own."""
        import html

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            self.report(path)
            page = pathlib.Path(path).read_text(encoding="utf-8")
        return f"<iframe srcdoc='{html.escape(page, quote=True)}' style='width:100%;height:640px;border:0'></iframe>"

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"


def report(folders: Sequence[Path], path: Path) -> None:
    """One HTML file that shows these runs, and needs nothing but a browser."""
    names = (ctypes.c_char_p * len(folders))(*[os.fsencode(f) for f in folders])
    lib.shoal_report_write(native.shoal_report_options(size=ctypes.sizeof(native.shoal_report_options), folders=names,
                                                       n_folders=len(folders), path=os.fsencode(path)), None)


class TrainedModel(Model):
    """A model made again from what its run left: a run's folder, or a file of weights."""

    def __init__(self, target: Path, **options: Any) -> None:
        o = native.shoal_trained_options(size=ctypes.sizeof(native.shoal_trained_options))
        for name, value in options.items():
            setattr(o, name, value.encode() if isinstance(value, str) else value)
        out = ctypes.c_void_p()
        lib.shoal_trained_open(os.fsencode(target), o, ctypes.byref(out))
        self.trained, self._options = out.value, o
        self._finalizer = weakref.finalize(self, lib.shoal_trained_close, out.value)
        super().__init__(lib.shoal_trained_model(out.value), self)

    def test(self, split: Optional[str] = None) -> dict[str, float]:
        """On the run's own test rows, or another split of its data."""
        result = native.shoal_test_result()
        lib.shoal_trained_evaluate(self.trained, split.encode() if split else None, False, result)
        found = figures(result.scores)
        lib.shoal_test_result_free(result)
        return found

    def predict_files(self, *files: Path) -> Array:
        """Of pictures or files of rows, read as the training rows were."""
        rows: list[Array] = []

        def take(context: Any, prediction: Any) -> None:
            p = prediction.contents
            rows.append(np.array(p.values[:p.count], np.float32))

        names = (ctypes.c_char_p * max(len(files), 1))(*[os.fsencode(f) for f in files])
        lib.shoal_trained_predict(self.trained, names, len(files), None, native.shoal_prediction_taker(take), None, None)
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)


def load(path: Path) -> Model:
    """A model from a file or folder: what Sequential.save wrote, or a run's folder, or its weights."""
    folder = pathlib.Path(path)
    if not folder.exists():
        raise InputError(f"{folder}: there is no such file or folder")
    description = folder / "model.json"
    if description.exists() and not (folder / "settings.json").exists():
        model = Sequential.from_config(json.loads(description.read_text(encoding="utf-8")))
        model.load_weights(folder / "weights.safetensors")
        return model
    return TrainedModel(path)


@contextlib.contextmanager
def _stop_on_interrupt(stop: Any) -> Iterator[None]:
    """Ctrl-C asks the job to stop; the standard handler is called afterwards."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if main else None

    def handler(number: int, frame: Any) -> None:
        stop.value = 1

    if callable(before):
        signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)
    if stop.value and callable(before):
        before(signal.SIGINT, None)


def train(model: str, **settings: Any) -> Run:
    """What `shoal train` does, with its flags as arguments: train("lenet", data="mnist", workers=3, ps=1, run_dir="runs/a").

    Leaves a run's folder. Several workers are processes of the command that comes with this package.
    """
    job = native.shoal_job()
    lib.shoal_job_init(job, ctypes.sizeof(job))
    keep = []
    for name, value in {"model": model, **settings}.items():
        if value is None or value is False:
            continue
        text = b"yes" if value is True else str(os.fspath(value) if isinstance(value, os.PathLike) else value).encode()
        keep.append(text)
        if name == "model":
            job.model = text
        else:
            lib.shoal_job_set(job, name.encode(), text)
    return run(job, keep)


def run(job: Any, keep: Any = None) -> Run:
    """Runs a native.shoal_job."""
    stop, out, program = ctypes.c_int(0), ctypes.POINTER(native.shoal_run_report)(), find()
    options = native.shoal_run_options(size=ctypes.sizeof(native.shoal_run_options), stop=ctypes.pointer(stop),
                                       program=program.encode() if program else None)
    options.listener.on_step = type(options.listener.on_step)(lambda context, p: None)  # where Ctrl-C is noticed
    try:
        with _stop_on_interrupt(stop):
            lib.shoal_run(job, options, ctypes.byref(out))
        return Run(out.contents.run_dir.decode())
    finally:
        if out:
            lib.shoal_run_report_destroy(out)
