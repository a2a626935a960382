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
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from . import native
from ._library import take_text
from .arrays import Array
from .errors import InputError
from .exchange import Network, keras_model
from .fitted import Fitted
from .models import Model, Sequential
from .native import lib
from .program import find
from .settings import figures

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

    @property
    def status(self) -> dict[str, Any]:
        """How it stands, also while its job runs: state, step, epoch, examples_per_second, pid, host ... as `shoal status --json`."""
        found: dict[str, Any] = _listed(lib.shoal_run_status_read, self.folder)[0]
        return found

    def stop(self, *, seconds: float = 60, now: bool = False) -> None:
        """Asks its job to stop with a checkpoint, and waits for its end; now: ends it at once."""
        lib.shoal_run_stop(os.fsencode(self.folder), seconds, now)

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


def _listed(read: Any, folder: Path) -> Any:
    found, out = ctypes.POINTER(native.shoal_runs)(), ctypes.c_void_p()
    read(os.fsencode(folder), ctypes.byref(found))
    try:
        lib.shoal_runs_json(found, ctypes.byref(out))
    finally:
        lib.shoal_runs_destroy(found)
    return json.loads(take_text(out.value))


def list_runs(folder: Path = "runs") -> list[Run]:
    """The runs below a folder: those whose jobs are running first, then the youngest first."""
    return [Run(run["path"]) for run in _listed(lib.shoal_runs_read, folder)]


def report(folders: Sequence[Path], path: Path) -> None:
    """One HTML file that shows these runs, and needs nothing but a browser."""
    names = (ctypes.c_char_p * len(folders))(*[os.fsencode(f) for f in folders])
    lib.shoal_report_write(native.shoal_report_options(size=ctypes.sizeof(native.shoal_report_options), folders=names,
                                                       n_folders=len(folders), path=os.fsencode(path)), None)


class TrainedModel(Fitted):
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


def load(path: Path, *, classes: int = 0, **parameters: Any) -> "Union[Fitted, Network]":
    """A model from a file or folder: what save wrote, a model file (.json), a model of Keras (.keras) or ONNX, a run's folder, or its
    weights. classes, parameters: of a model file, what $classes is and other values than the usual ones.

    What is made of layers is a Model, and can be trained on; what has operators alone, of ONNX, is a Network.
    """
    name = pathlib.Path(path)
    if not name.exists():
        raise InputError(f"{name}: there is no such file or folder")
    description = name / "model.json" if name.is_dir() else name
    if description.suffix == ".json" and description.exists() and not (name / "settings.json").exists():
        try:
            config = json.loads(description.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{description}: {error}") from None
        if not isinstance(config, dict) or "shoal_model" not in config:
            return keras_model(description)  # what its to_json gives
        model = Sequential.from_config(config) if Sequential.is_row(config) and not parameters else \
            Model.from_config(config, classes=classes, parameters=parameters)
        if name.is_dir():
            model.load_weights(name / "weights.safetensors")
        return model
    if name.suffix == ".onnx":
        return Network(name)
    if name.suffix == ".keras":
        return keras_model(name)
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
    job, _keep = job_of(model, settings)
    return run(job)


def job_of(model: str, settings: Mapping[str, Any]) -> tuple[Any, list[bytes]]:
    """A native.shoal_job, and the texts that it points to."""
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
    return job, keep


def run(job: Any) -> Run:
    """Runs a native.shoal_job."""
    folder = take_part(job)
    if folder is None:
        raise ValueError("the job is a task of a cluster that leaves no folder: runs.take_part is for those")
    return Run(folder)


def take_part(job: Any) -> Optional[str]:
    """Runs a native.shoal_job, also as a task of a cluster: its folder; None: another task has it."""
    stop, out, program = ctypes.c_int(0), ctypes.POINTER(native.shoal_run_report)(), find()
    options = native.shoal_run_options(size=ctypes.sizeof(native.shoal_run_options), stop=ctypes.pointer(stop),
                                       program=program.encode() if program else None)
    options.listener.on_step = type(options.listener.on_step)(lambda context, p: None)  # where Ctrl-C is noticed
    try:
        with _stop_on_interrupt(stop):
            lib.shoal_run(job, options, ctypes.byref(out))
        folder = out.contents.run_dir
        return folder.decode() if folder else None
    finally:
        if out:
            lib.shoal_run_report_destroy(out)
