"""What models can do once the library has them: fit, evaluate, predict, weights, files."""
from __future__ import annotations

import ctypes
import math
import os
import re
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from . import data as data_module
from . import native, optimizers
from ._library import take_text
from .arrays import Array, features, number, shape_tuple, tensor, view, whole
from .callbacks import Callback
from .fitting import Fit
from .history import History
from .native import lib
from .notebook import Progress, table
from .processes import guard
from .settings import figures

if TYPE_CHECKING:
    from .strategies import Strategy

Data = Any


class Fitted:
    """A model of the library, and what it can do: made from layers (Model, Sequential), or by what a run left."""

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

    def save(self, path: "str | os.PathLike[str]") -> None:
        """By the path's ending: .keras and .onnx for other programs, .safetensors the weights alone."""
        if not self._save_file(os.fspath(path)):
            endings = [*optimizers.names(lib.shoal_export_endings()), ".safetensors"]
            raise ValueError(f"path {os.fspath(path)!r} must end in {', '.join(dict.fromkeys(endings))}")

    def _save_file(self, name: str) -> bool:
        """Whether the ending says a format of one file, in which it then is."""
        if name.endswith(".safetensors"):
            self.save_weights(name)
        elif name.endswith(tuple(optimizers.names(lib.shoal_export_endings()))):
            network = ctypes.c_void_p()
            lib.shoal_network_of(self.handle, ctypes.byref(network))
            try:
                lib.shoal_network_export(network.value, os.fsencode(name), None)
            finally:
                lib.shoal_network_destroy(network.value)
        else:
            return False
        return True

    # ---- training
    def _packed(self, x: Any, name: str) -> Any:
        """Rows of several inputs as the library takes them."""
        return x

    def _packed_labels(self, y: Any, name: str) -> Any:
        """The same of labels of several outputs."""
        return y

    def _rows(self, x: Any, y: Any, x_name: str, y_name: str) -> data_module.Rows:
        return data_module.rows_of(x, self._packed_labels(y, y_name), x_name, y_name, self._packed)

    def fit(self, x: Data, y: Any = None, *, epochs: int = 0, batch_size: int = 32, steps: int = 0, validation_data: Data = None,
            validation_split: float = 0.0, shuffle: bool = True, callbacks: Sequence[Callback] = (),
            strategy: "Optional[Strategy]" = None, resume: bool = False, drop_short: bool = False,
            verbose: "Union[bool, int, None]" = None, sample_weight: Any = None, accumulate: int = 1) -> History:
        """Fits the model to rows: arrays x and y, a data set, or files (shoal.data).

        batch_size: rows of a step, of each worker; with accumulate of more than 1, a step is that many batches, computed one after the
        other. sample_weight: what each row counts in the loss, which is sum(weight * loss) / rows. validation_data: (x, y), or as x. verbose: whether progress is shown;
        None: on a terminal and in a notebook. Ctrl-C stops after the step under way and then raises KeyboardInterrupt.
        """
        epochs, steps, batch_size = whole(epochs, "epochs"), whole(steps, "steps"), whole(batch_size, "batch_size")
        accumulate = whole(accumulate, "accumulate")
        if accumulate < 1:
            raise ValueError(f"accumulate must be at least 1, not {accumulate}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        if strategy is not None and not hasattr(strategy, "using"):
            raise TypeError(f"strategy must be a shoal.ParameterServer, Mirrored or AllReduce, not {strategy!r}")
        epochs = epochs if epochs or steps else 1
        plan = Fit(self, callbacks, Progress.create(verbose, epochs))
        with self._rows(x, y, "x", "y") as rows:
            if sample_weight is not None:
                rows.weigh(sample_weight)
            schedule = plan.schedule(rows.count, batch_size * accumulate, epochs)
            with strategy.using() if strategy else _nothing() as partners:
                handle = self._ready(rows, partners if rows.sparse else None, schedule)
                with self._rows(*_pair(validation_data), "validation_data", "validation_data") as other:
                    o = plan.options(rows, other, handle)
                    o.epochs, o.steps, o.batch_size, o.strategy = epochs, steps, batch_size, partners
                    o.validation_split, o.keep_order, o.drop_short = number(validation_split, "validation_split"), not shuffle, drop_short
                    o.resume, o.accumulate = resume, accumulate
                    history = plan.run(handle, rows, o)
                    home = self._bring_home() if partners and rows.sparse else None
        if home:
            home()
        return history

    def _bring_home(self) -> "Optional[Callable[[], None]]":
        """Of weights that stayed on servers: keeps them, and returns what takes them back once the servers are gone."""
        return None

    def evaluate(self, x: Data, y: Any = None) -> dict[str, float]:
        """Loss and accuracy or, of a regression, mae, rmse and r2; of several outputs NAME_loss and so on of each."""
        out = native.shoal_evaluation()
        with self._rows(x, y, "x", "y") as rows:
            handle = self._ready(rows)
            stream = rows.stream()
            if stream is not None:
                lib.shoal_model_evaluate_stream(handle, stream, native.shoal_score_taker(), None, out)
            else:
                lib.shoal_model_evaluate(handle, rows.dataset(handle), out)
        return {**figures(out), **self._more_figures(handle)}

    def _more_figures(self, handle: int) -> dict[str, float]:
        name, value = ctypes.c_char_p(), ctypes.c_double()
        found: dict[str, float] = {}
        while lib.shoal_model_figure(handle, len(found), name, value):
            found[(name.value or b"").decode()] = value.value
        return found

    def predict(self, x: Any) -> Any:
        """[rows, classes] the probability of each class, or of a regression [rows, numbers]; of several outputs a dict of those."""
        return self._predict(x)

    def _predict(self, x: Any) -> Array:
        if data_module.is_sparse(x):
            return self._predict_sparse(x)
        array = self._shaped(features(self._packed(x, "x"), "x"))
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

        with self._rows(x, None, "x", "y") as rows:
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
