"""Models from and for other programs: Keras, ONNX."""
from __future__ import annotations

import ctypes
import json
import os
import weakref
from typing import Any, Mapping, Union

import numpy as np

from . import native
from ._library import take_text
from .arrays import Array, numbers, shape_tuple, tensor, view
from .models import Model
from .native import lib

Path = Union[str, "os.PathLike[str]"]


class Network:
    """What a file of another program holds: named inputs and outputs, and all that is between them. It predicts."""

    def __init__(self, path: Path) -> None:
        out = ctypes.c_void_p()
        lib.shoal_network_load(os.fsencode(path), ctypes.byref(out))
        assert out.value is not None
        self.handle = out.value
        self._finalizer = weakref.finalize(self, lib.shoal_network_destroy, out.value)

    def _ports(self, count: int, name: Any, shape: Any) -> dict[str, tuple[Any, ...]]:
        sizes = {name(self.handle, i).decode(): shape_tuple(shape(self.handle, i)) for i in range(count)}
        return {k: tuple(None if s == native.SHOAL_UNKNOWN else s for s in v) for k, v in sizes.items()}

    @property
    def inputs(self) -> dict[str, tuple[Any, ...]]:
        """Names and shapes, the batch first, which is None."""
        return self._ports(lib.shoal_network_inputs(self.handle), lib.shoal_network_input_name, lib.shoal_network_input_shape)

    @property
    def outputs(self) -> dict[str, tuple[Any, ...]]:
        """The same."""
        return self._ports(lib.shoal_network_outputs(self.handle), lib.shoal_network_output_name, lib.shoal_network_output_shape)

    @property
    def notes(self) -> list[str]:
        """What was left out of the file."""
        lines: list[str] = lib.shoal_network_notes(self.handle).decode().splitlines()
        return lines

    def predict(self, x: Any) -> "Union[Array, dict[str, Array]]":
        """x: an array, a list of them in the order of the inputs, or a dict by their names. Of several outputs: a dict."""
        names = list(self.inputs)
        if isinstance(x, Mapping):
            if set(x) != set(names):
                raise ValueError(f"x must have an array for each of {', '.join(names)}, but has {', '.join(map(str, x)) or 'none'}")
            x = [x[name] for name in names]
        given = [x] if len(names) == 1 and not isinstance(x, list) else list(x)
        if len(given) != len(names):
            raise ValueError(f"x must have an array for each of {', '.join(names)}, but has {len(given)}")
        arrays = [np.ascontiguousarray(numbers(a, f"x[{name!r}]"), np.float32) for a, name in zip(given, names)]
        results = list(self.outputs)
        tensors, out = (native.shoal_tensor * len(arrays))(*map(tensor, arrays)), (native.shoal_tensor * len(results))()
        lib.shoal_network_run(self.handle, tensors, out)
        found = {name: view(t).copy() for name, t in zip(results, out)}
        return found if len(found) > 1 else found[results[0]]

    def save(self, path: Path) -> None:
        """In the format that the ending names."""
        lib.shoal_network_export(self.handle, os.fsencode(path), None)

    def __repr__(self) -> str:
        return f"<Network {self.inputs} -> {self.outputs}>"


def keras_model(path: Path) -> Model:
    """A model of Keras, `.keras` or what model.to_json() gives, with the weights of the file if it has some, its loss and its optimizer."""
    kind, out = ctypes.POINTER(native.shoal_model_kind)(), ctypes.c_void_p()
    lib.shoal_model_kind_import(os.fsencode(path), ctypes.byref(kind), None)
    try:
        lib.shoal_model_kind_text(kind, ctypes.byref(out))
    finally:
        lib.shoal_model_kind_destroy(kind)
    model = Model.from_config(json.loads(take_text(out.value)))
    if os.fspath(path).endswith(".keras"):
        lib.shoal_model_import_weights(model.handle, os.fsencode(path))
    return model
