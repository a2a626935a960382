"""Models: layers, and all it takes to fit them to data, to test them and to use them."""
from __future__ import annotations

import ctypes
import json
import math
import os
import re
import signal
import tempfile
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from . import data as data_module
from . import layers as layers_module
from . import native, optimizers
from ._library import take_text
from .arrays import Array, features, shape_struct, shape_tuple, tensor, view
from .callbacks import Callback, Checkpoint, LearningRate
from .history import History
from .native import lib
from .notebook import Progress, table
from .processes import guard

if TYPE_CHECKING:
    from .strategies import Strategy

LOSSES = {"sparse_categorical_crossentropy": "softmax_cross_entropy", "categorical_crossentropy": "softmax_cross_entropy",
          "binary_crossentropy": "sigmoid_cross_entropy", "mean_squared_error": "mse", "mean_absolute_error": "mae"}
Data = Any


class Settings:
    """What compile was told."""

    def __init__(self, optimizer: Union[str, optimizers.Optimizer] = "adam", loss: Optional[str] = None,
                 metrics: Sequence[str] = (), l2: float = 0.0, seed: int = 1, threads: int = 0, kernels: Optional[str] = None,
                 race: bool = False) -> None:
        self.optimizer = optimizers.get(optimizer)
        self.loss = LOSSES.get(loss, loss) if loss else None
        known = optimizers.names(lib.shoal_loss_names())
        if self.loss and self.loss not in known:
            raise ValueError(f"loss {loss!r} is not one of {', '.join([*known, *LOSSES])}")
        self.metrics, self.top_k = tuple(metrics), 0
        for name in self.metrics:
            match = re.fullmatch(r"top_(\d+)(_accuracy)?", name)
            if match:
                self.top_k = int(match[1])
            elif name not in METRICS and name not in ("acc", "accuracy"):
                raise ValueError(f"metric {name!r} is not one of {', '.join(METRICS)}, or top_5 for any number")
        self.l2, self.seed, self.threads, self.kernels, self.race = l2, seed, threads, kernels, race

    def struct(self, strategy: Optional[int], schedule: Any) -> Any:
        """For the library; the model's own learning rate unless there is a schedule."""
        return native.shoal_compile_options(
            size=ctypes.sizeof(native.shoal_compile_options), optimizer=self.optimizer.struct(),
            schedule=schedule or self.optimizer.schedule(), l2=self.l2, top_k=self.top_k, threads=self.threads, seed=self.seed,
            kernels=self.kernels.encode() if self.kernels else None, race=self.race, strategy=strategy,
            loss=self.loss.encode() if self.loss else None)


def _metrics() -> dict[str, Any]:
    found: dict[str, Any] = {}
    rows = lib.shoal_metrics()
    while rows[len(found)].name:
        row = rows[len(found)]
        found[row.name.decode()] = row
    return found


METRICS = _metrics()


def figures(evaluation: Any) -> dict[str, float]:
    """What was measured."""
    values = {name: lib.shoal_evaluation_get(evaluation, row) for name, row in METRICS.items()}
    return {name: value for name, value in values.items() if not math.isnan(value)}


class Model:
    """A model of the library. Made by Sequential, or by load."""

    def __init__(self, handle: int = 0, owner: Any = None) -> None:
        self.stop_training = False
        self._native, self._owner = handle, owner

    # ---- the library's model
    @property
    def handle(self) -> int:
        """The library's model, ready to be used by this process."""
        if not self._native:
            raise RuntimeError("the model has no weights yet: call fit, or give its input's shape")
        guard(self, lib.shoal_model_session(self._native))
        return self._native

    def _ready(self, rows: Any, strategy: Optional[int] = None, schedule: Any = None) -> int:
        """The same, for rows like these."""
        return self.handle

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one example."""
        return shape_tuple(lib.shoal_model_input(self.handle))

    @property
    def parameters(self) -> int:
        """Numbers that are learned."""
        return int(lib.shoal_model_parameters(self.handle))

    @property
    def classes(self) -> int:
        """Classes that it tells apart; 0: it predicts numbers."""
        return int(lib.shoal_model_classes(self.handle))

    @property
    def class_names(self) -> Optional[list[str]]:
        """What they are called; None: they are numbers."""
        names = lib.shoal_model_class_names(self.handle)
        return optimizers.names(names) if names else None

    def describe(self) -> str:
        """A line for each layer: its name, the shape of what it gives, its parameters."""
        return take_text(lib.shoal_model_describe(self.handle))

    def summary(self) -> None:
        """Prints that."""
        print(self.describe())

    def _repr_html_(self) -> str:
        lines = [re.split(r"\s{2,}", line.strip()) for line in self.describe().splitlines() if line.strip()]
        return table(lines[0], lines[1:])

    # ---- weights
    def get_weights(self) -> dict[str, Array]:
        """Copies of them, by name."""
        return {name: value.copy() for name, value in self._weights()}

    def set_weights(self, weights: Union[Mapping[str, Array], Sequence[Array]]) -> None:
        """By name, or all of them in the order of get_weights."""
        mine = list(self._weights())
        if not isinstance(weights, Mapping):
            if len(weights) != len(mine):
                raise ValueError(f"weights has {len(weights)} arrays, but the model {len(mine)}")
            weights = {name: array for (name, _), array in zip(mine, weights)}
        unknown = set(weights) - {name for name, _ in mine}
        if unknown:
            raise ValueError(f"weights has {', '.join(sorted(unknown))}, but the model {', '.join(n for n, _ in mine)}")
        for name, value in mine:
            if name in weights:
                new = np.asarray(weights[name])
                if new.shape != value.shape:
                    raise ValueError(f"weights[{name!r}] has the shape {new.shape}, the model's {value.shape}")
                value[...] = new

    def _weights(self) -> Iterable[tuple[str, Array]]:
        name, t, handle = ctypes.c_char_p(), native.shoal_tensor(), self.handle
        i = 0
        while lib.shoal_model_weight(handle, i, name, t):
            yield (name.value or b"").decode(), view(t)
            i += 1

    def save_weights(self, path: "str | os.PathLike[str]") -> None:
        """To a safetensors file."""
        lib.shoal_model_save(self.handle, os.fsencode(path))

    def load_weights(self, path: "str | os.PathLike[str]") -> None:
        """From a safetensors file or a checkpoint."""
        lib.shoal_model_load(self.handle, os.fsencode(path))

    # ---- training
    def fit(self, x: Data, y: Any = None, *, epochs: int = 0, batch_size: int = 32, steps: int = 0, validation_data: Data = None,
            validation_split: float = 0.0, shuffle: bool = True, callbacks: Sequence[Callback] = (),
            strategy: "Optional[Strategy]" = None, resume: bool = False, drop_short: bool = False,
            verbose: "Union[bool, int, None]" = None) -> History:
        """Fits the model to rows: arrays x and y, a data set, or files (shoal.data).

        batch_size: rows of a step, of each worker. validation_data: (x, y), or as x. verbose: whether progress is shown;
        None: on a terminal and in a notebook. Ctrl-C stops after the step under way and then raises KeyboardInterrupt.
        """
        epochs = epochs if epochs or steps else 1
        plan = _Fit(self, callbacks, Progress.create(verbose, epochs))
        with data_module.rows_of(x, y, "x", "y") as rows:
            schedule = plan.schedule(rows.count, batch_size, epochs)
            with strategy.using() if strategy else _nothing() as partners:
                handle = self._ready(rows, partners if rows.sparse else None, schedule)
                with data_module.rows_of(*_pair(validation_data), "validation_data", "validation_data") as other:
                    o = plan.options(rows, other, handle)
                    o.epochs, o.steps, o.batch_size, o.strategy = epochs, steps, batch_size, partners
                    o.validation_split, o.keep_order, o.drop_short = validation_split, not shuffle, drop_short
                    o.resume = resume
                    history = plan.run(handle, rows, o)
                    home = self._bring_home() if partners and rows.sparse else None
        if home:
            home()
        return history

    def _bring_home(self) -> "Optional[Callable[[], None]]":
        """Of weights that stayed on servers: keeps them, and returns what takes them back once the servers are gone."""
        return None

    def evaluate(self, x: Data, y: Any = None) -> dict[str, float]:
        """Loss and accuracy or, of a regression, mae, rmse and r2."""
        out = native.shoal_evaluation()
        with data_module.rows_of(x, y, "x", "y") as rows:
            handle = self._ready(rows)
            stream = rows.stream()
            if stream is not None:
                lib.shoal_model_evaluate_stream(handle, stream, native.shoal_score_taker(), None, out)
            else:
                lib.shoal_model_evaluate(handle, rows.dataset(handle), out)
        return figures(out)

    def predict(self, x: Any) -> Array:
        """[rows, classes] the probability of each class, or of a regression [rows, numbers]."""
        if data_module.is_sparse(x):
            return self._predict_sparse(x)
        array = self._shaped(features(x, "x"))
        out = np.empty((len(array), int(lib.shoal_model_outputs(self.handle))), np.float32)
        if len(array):
            lib.shoal_model_predict(self.handle, tensor(array), tensor(out))
        return out

    def _shaped(self, array: Array) -> Array:
        """Rows in the shape that the model takes, where they have as many numbers."""
        shape = self.input_shape
        if array.ndim and array.shape[1:] != shape and math.prod(array.shape[1:]) == math.prod(shape):
            return array.reshape(len(array), *shape)
        return array

    def _predict_sparse(self, x: Any) -> Array:
        scores: list[Array] = []

        def take(context: Any, values: Any, labels: Any, n: int) -> None:
            scores.append(np.array(values[:n], np.float32))

        with data_module.rows_of(x, None, "x", "y") as rows:
            handle = self._ready(rows)
            lib.shoal_model_evaluate_stream(handle, rows.stream(), native.shoal_score_taker(take), None, native.shoal_evaluation())
        positive = np.concatenate(scores) if scores else np.zeros(0, np.float32)
        return np.stack([1 - positive, positive], axis=1)


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


def _pair(value: Any) -> tuple[Any, Any]:
    return value if isinstance(value, tuple) and len(value) == 2 else (value, None)


class _Fit:
    """One call of fit: what is told to whom, and how it ends."""

    def __init__(self, model: Model, listeners: Sequence[Callback], progress: Optional[Callback]) -> None:
        self.model, self.history = model, History()
        self.listeners = [*listeners, *([progress] if progress else [])]
        for listener in self.listeners:
            if not isinstance(listener, Callback):
                raise TypeError(f"callbacks must be shoal.callbacks.Callback objects, not {type(listener).__name__}")
            listener.model = model
        self.stop = ctypes.c_int(0)
        self.error: Optional[BaseException] = None
        self.interrupted = False

    def schedule(self, rows: int, batch: int, epochs: int) -> Any:
        """Of a callback that says the rate of each epoch."""
        found = [c for c in self.listeners if isinstance(c, LearningRate)]
        if not found:
            return None
        if not rows or not epochs:
            raise ValueError("LearningRate needs data in memory and a number of epochs")
        steps = -(-rows // batch)
        return optimizers.Piecewise(found[0].rate(0), [(i * steps, found[0].rate(i)) for i in range(1, epochs)]).struct()

    def options(self, rows: Any, other: Any, handle: int) -> Any:
        o = native.shoal_fit_options(size=ctypes.sizeof(native.shoal_fit_options), stop=ctypes.pointer(self.stop))
        o.stream = rows.stream(fit=True)
        o.validation = ctypes.pointer(other.dataset(handle)) if other is not None else None
        for listener in self.listeners:
            if isinstance(listener, Checkpoint):
                o.checkpoint_dir, o.checkpoint_every = os.fsencode(listener.folder), listener.every
                o.keep, o.keep_best = listener.keep, listener.best
        o.callbacks.on_step = type(o.callbacks.on_step)(self.on_step)
        o.callbacks.on_epoch = type(o.callbacks.on_epoch)(self.on_epoch)
        o.callbacks.on_note = type(o.callbacks.on_note)(self.on_note)
        return o

    def logs(self, p: Any) -> dict[str, float]:
        named = {"loss": p.loss, "accuracy": p.accuracy, "val_loss": p.validation_loss, "val_accuracy": p.validation_accuracy,
                 "learning_rate": p.rate}
        return {name: value for name, value in named.items() if not math.isnan(value)}

    def tell(self, what: str, *arguments: Any) -> bool:
        """Everybody; an exception stops the training and comes out of fit. True: stop."""
        try:
            for listener in self.listeners:
                if getattr(listener, what)(*arguments) is True:
                    self.model.stop_training = True
        except BaseException as error:  # also KeyboardInterrupt: it must not be lost in the library
            self.error = self.error or error
        return self.model.stop_training or self.error is not None

    def on_step(self, context: Any, p: Any) -> bool:
        return self.tell("on_step", p.contents.step, self.logs(p.contents))

    def on_epoch(self, context: Any, p: Any) -> bool:
        logs = self.logs(p.contents)
        self.history.epochs = int(p.contents.epoch) + 1
        self.history.add(logs)
        return self.tell("on_epoch_end", p.contents.epoch, logs)

    def on_note(self, context: Any, line: bytes) -> None:
        self.history.notes.append(line.decode(errors="replace"))

    def on_interrupt(self, number: int, frame: Any) -> None:
        self.stop.value, self.interrupted = 1, True

    def run(self, handle: int, rows: Any, o: Any) -> History:
        self.model.stop_training = False
        result = native.shoal_fit_result()
        # Python's handlers run between two of its own instructions: here, when a callback is called. The standard one would
        # raise there; this one asks the library to stop.
        main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT) if main else None
        if callable(before):
            signal.signal(signal.SIGINT, self.on_interrupt)
        try:
            if not self.tell("on_train_begin"):
                lib.shoal_model_fit(handle, rows.dataset(handle), o, result)
                self.tell("on_train_end")
        finally:
            if callable(before):
                signal.signal(signal.SIGINT, before)
        if self.error:
            raise self.error
        if self.interrupted and callable(before):
            before(signal.SIGINT, None)
        self.finish(result)
        return self.history

    def finish(self, result: Any) -> None:
        h = self.history
        h.steps, h.examples, h.seconds = result.steps, result.run_examples, result.seconds
        h.stopped = "early" if result.stopped_early else "asked" if result.stopped else ""


class Sequential(Model):
    """Layers in a row: Sequential([Input((28, 28, 1)), Flatten(), Dense(10, "softmax")]).

    Without an Input the shape is that of the first rows it sees.
    """

    def __init__(self, layers: Sequence[layers_module.Layer] = ()) -> None:
        super().__init__()
        self.layers: list[layers_module.Layer] = []
        self.settings = Settings()
        self._input: Optional[layers_module.Input] = None
        self._finalizer: Optional[Any] = None
        for layer in layers:
            self.add(layer)

    def add(self, layer: layers_module.Layer) -> None:
        """One more layer."""
        if not isinstance(layer, layers_module.Layer):
            raise TypeError(f"a layer is expected, not {type(layer).__name__}")
        if self._native:
            raise RuntimeError("layers are added before the model is fitted, tested or used")
        if isinstance(layer, layers_module.Input):
            if self.layers or self._input:
                raise ValueError("Input is the first layer, and there is one")
            self._input = layer
        else:
            self.layers.append(layer)

    def compile(self, optimizer: Union[str, optimizers.Optimizer] = "adam", loss: Optional[str] = None,
                metrics: Sequence[str] = (), **more: Any) -> None:
        """How it learns. more: l2, seed, threads (0: one a processor), kernels, race. Weights that are there stay."""
        self.settings = Settings(optimizer, loss, metrics, **more)
        if self._native:
            self._rebuild()

    @property
    def handle(self) -> int:
        if not self._native and self._input:
            self._build(None, None)
        return super().handle

    def _ready(self, rows: Any, strategy: Optional[int] = None, schedule: Any = None) -> int:
        if not self._input:
            shape = rows.shape(self.layers)
            self._input = layers_module.Input(shape, rows.sparse)
        if not self._native:
            self._build(strategy, schedule)
        elif strategy is not None:
            raise ValueError("a model of sparse rows that has weights already cannot be given to parameter servers: make it anew")
        elif schedule is not None:
            self._rebuild(strategy, schedule)
        return self.handle

    def _build(self, strategy: Optional[int], schedule: Any) -> None:
        assert self._input is not None
        out = ctypes.c_void_p()
        if self._input.sparse:
            lib.shoal_model_create_sparse(self._input.shape[0], out)
        else:
            lib.shoal_model_create(shape_struct(self._input.shape), out)
        handle = out.value
        assert handle is not None
        try:
            for layer in self.layers:
                layer.add_to(handle)
            lib.shoal_model_compile(handle, self.settings.struct(strategy, schedule))
        except BaseException:
            lib.shoal_model_destroy(handle)
            raise
        self._native = handle
        self._finalizer = weakref.finalize(self, _destroy, handle, os.getpid())
        guard(self, lib.shoal_model_session(handle), new=True)

    def _rebuild(self, strategy: Optional[int] = None, schedule: Any = None) -> None:
        """The same with other settings and the weights there are."""
        weights = self.get_weights()
        if self._finalizer:
            self._finalizer()
        self._native = 0
        self._build(strategy, schedule)
        self.set_weights(weights)

    def _bring_home(self) -> "Optional[Callable[[], None]]":
        folder = tempfile.TemporaryDirectory()
        path = os.path.join(folder.name, "weights.safetensors")
        self.save_weights(path)

        def take() -> None:
            if self._finalizer:
                self._finalizer()
            self._native = 0
            self._build(None, None)
            self.load_weights(path)
            folder.cleanup()

        return take

    # ---- files and pickles
    def config(self) -> dict[str, Any]:
        """As model files have it."""
        first = [{"shape": list(self._input.shape), **({"sparse": True} if self._input.sparse else {})}] if self._input else []
        return {"shoal_model": 1, **({"inputs": first} if first else {}), "layers": [layer.config() for layer in self.layers],
                **({"loss": self.settings.loss} if self.settings.loss else {})}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Sequential":
        """What config() described."""
        model = cls([layers_module.from_config(layer) for layer in config["layers"]])
        for entry in config.get("inputs", []):
            model._input = layers_module.Input(entry["shape"], entry.get("sparse", False))
        if config.get("loss"):
            model.settings = Settings(loss=config["loss"])
        return model

    def save(self, path: "str | os.PathLike[str]") -> None:
        """To a folder: model.json, the layers, and weights.safetensors. A path that ends in .safetensors: the weights alone."""
        name = os.fspath(path)
        if name.endswith(".safetensors"):
            return self.save_weights(name)
        os.makedirs(name, exist_ok=True)
        self.save_weights(os.path.join(name, "weights.safetensors"))
        with open(os.path.join(name, "model.json"), "w", encoding="utf-8") as file:
            json.dump(self.config(), file, indent=1)
            file.write("\n")

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self.config(), "settings": self.settings, "weights": self.get_weights() if self._native else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        other = Sequential.from_config(state["config"])
        Sequential.__init__(self)
        self.layers, self._input, self.settings = other.layers, other._input, state["settings"]
        if state["weights"] is not None:
            self.set_weights(state["weights"])

    def __repr__(self) -> str:
        first: list[Any] = [self._input] if self._input else []
        return f"Sequential([{', '.join(map(repr, first + self.layers))}])"


def _destroy(handle: int, process: int) -> None:
    # In a process made by fork the model's threads are not there, and nobody may wait for them.
    if os.getpid() == process:
        lib.shoal_model_destroy(handle)


