"""Models made of layers. Each is described as a model file has it (docs/model-files.md), which the library builds."""
from __future__ import annotations

import ctypes
import itertools
import json
import os
import tempfile
import weakref
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from . import layers as layers_module
from . import native, optimizers
from .arrays import Array, features, shape_struct, shape_tuple, targets
from .fitted import Fitted
from .layer import Input, Layer, Output
from .native import lib
from .processes import guard
from .settings import LOSSES, Settings

Config = dict[str, Any]
OneOrMore = Union[Output, Sequence[Output]]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


class _Names:
    """Of inputs and layers: their own, or their type, with a number where it is taken."""

    def __init__(self) -> None:
        self.of: dict[int, str] = {}

    def give(self, to: object, name: Optional[str], stem: str = "") -> str:
        if id(to) in self.of:
            return self.of[id(to)]
        taken = set(self.of.values())
        if name in taken:
            raise ValueError(f"two layers are called {name!r}")
        tries = (f"{stem}_{i}" if i else stem for i in itertools.count())
        return self.of.setdefault(id(to), name or next(word for word in tries if word not in taken))


def _reached(outputs: Sequence[Output]) -> list[Output]:
    """All that these depend on, each behind what it uses."""
    found: dict[int, Output] = {}
    waiting = list(outputs)
    while waiting:
        value = waiting.pop()
        if not isinstance(value, Output):
            raise TypeError(f"outputs must be what layers give, not {type(value).__name__}")
        if id(value) not in found:
            found[id(value)] = value
            waiting += value.inputs
    return sorted(found.values(), key=lambda value: value.serial)


def describe(inputs: Sequence[Input], outputs: Sequence[Output]) -> Config:
    """Layers that were applied to each other, as a model file."""
    names, results = _Names(), {}
    for one in inputs:
        if not isinstance(one, Input):
            raise TypeError(f"inputs must be shoal.Input, not {type(one).__name__}")
        results[id(one)] = names.give(one, one.name, "input")
    calls = _reached(outputs)
    for value in calls:
        if isinstance(value, Input) and id(value) not in results:
            raise ValueError(f"the outputs depend on {value!r}, which is not among inputs")
        if value.layer.name:
            names.give(value.layer, value.layer.name)
    entries: dict[str, Config] = {}
    for value in calls:
        if isinstance(value, Input):
            continue
        name = names.give(value.layer, None, value.layer.type)
        entry = entries.setdefault(name, {**value.layer.config(), "name": name, "inputs": []})
        results[id(value)] = f"{name}:{len(entry['inputs'])}" if entry["inputs"] else name
        entry["inputs"].append([results[id(i)] for i in value.inputs])
    for entry in entries.values():
        if len(entry["inputs"]) == 1:
            entry["inputs"] = entry["inputs"][0]
    return {"shoal_model": 1, "inputs": [{**one.config(), "name": results[id(one)]} for one in inputs], "layers": list(entries.values()),
            "outputs": [{"layer": results[id(o)]} for o in outputs]}


class Model(Fitted):
    """Layers applied to each other: Model(inputs, outputs), each one or a list. With several inputs, x is a list of arrays in
    their order, or a dict by their names; with several outputs, so is y, and what predict gives is a dict."""

    def __init__(self, inputs: "Union[Input, Sequence[Input]]", outputs: OneOrMore) -> None:
        self._begin(describe(_list(inputs), _list(outputs)))

    def _begin(self, config: Config, classes: int = 0, parameters: Optional[str] = None) -> None:
        Fitted.__init__(self)
        self._config, self._classes, self._set = config, classes, parameters
        self._shape: Optional[tuple[int, ...]] = None  # of rows, where the description does not say
        self.settings = Settings.of_file(config)
        self._finalizer: Optional[Any] = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, classes: int = 0, parameters: Optional[Mapping[str, Any]] = None) -> "Model":
        """Of a description, as model files have it. classes: what $classes stands for; parameters: other values than usual."""
        model = Model.__new__(Model)
        words = ",".join(f"{k}={json.dumps(v) if not isinstance(v, str) else v}" for k, v in (parameters or {}).items())
        model._begin(dict(config), classes, words or None)
        return model

    def config(self) -> Config:
        """As model files have it."""
        loss = self.settings.loss
        return {**self._config, **({"loss": loss} if loss and len(self._config.get("outputs", [1])) == 1 else {})}

    @property
    def input_names(self) -> list[str]:
        """What the inputs are called."""
        return [one.get("name", "input") for one in self._config.get("inputs", [{}])]

    @property
    def output_names(self) -> list[str]:
        """What the outputs are called: as their layers, unless the description says."""
        return [one.get("name") or one["layer"] if isinstance(one, dict) else one for one in self._config.get("outputs", ["output"])]

    def compile(self, optimizer: Union[str, optimizers.Optimizer] = "adam", loss: "Union[str, Mapping[str, str], Sequence[str], None]" = None,
                metrics: Sequence[str] = (), *, loss_weights: "Union[Mapping[str, float], Sequence[float], None]" = None, **more: Any) -> None:
        """How it learns. Of several outputs loss and loss_weights are lists in their order, or dicts by their names. more: l2, seed, threads
        (0: one a processor), kernels, race, label_smoothing. Weights that are there stay."""
        if len(self.output_names) > 1:
            self._set_outputs("loss", LOSSES, loss)
            self._set_outputs("weight", {}, loss_weights)
            loss = None
        elif loss is not None and not isinstance(loss, str):
            raise TypeError(f"loss must be a name, not {type(loss).__name__}: the model has one output")
        settings = Settings(optimizer, loss or self._config.get("loss"), metrics, **more)
        before, self.settings = self.settings, settings
        if self._native:
            try:
                self._rebuild()
            except BaseException:
                self.settings = before
                raise

    def _set_outputs(self, key: str, words: Mapping[str, str], values: Any) -> None:
        """A loss or a weight of each output, of several."""
        names = self.output_names
        given = self._in_order(values, key, names) if isinstance(values, (Mapping, list, tuple)) else [values] * len(names)
        entries = [dict(one) if isinstance(one, dict) else {"layer": one} for one in self._config["outputs"]]
        for entry, value in zip(entries, given):
            if value is not None:
                entry[key] = words.get(value, value)
        self._config = {**self._config, "outputs": entries}

    @staticmethod
    def _in_order(values: Any, name: str, names: Sequence[str]) -> list[Any]:
        """Of a list, or a dict by names."""
        if isinstance(values, Mapping):
            if set(values) != set(names):
                raise ValueError(f"{name} must have one for each of {', '.join(names)}, but has {', '.join(map(str, values)) or 'none'}")
            return [values[one] for one in names]
        if len(values) != len(names):
            raise ValueError(f"{name} must have one for each of {', '.join(names)}, but has {len(values)}")
        return list(values)

    # ---- the library's model
    def _known(self) -> bool:
        """Whether the shape of an example is."""
        inputs = self._config.get("inputs", [])
        return self._shape is not None or bool(inputs and all("shape" in one for one in inputs))

    @property
    def handle(self) -> int:
        if not self._native and self._known():
            self._build(None, None)
        return super().handle

    def _ready(self, rows: Any, strategy: Optional[int] = None, schedule: Any = None) -> int:
        if not self._known():
            self._shape = rows.shape()
            if rows.sparse:
                self._config = {**self._config, "inputs": [{"shape": list(self._shape), "sparse": True}]}
        if not self._native:
            if not self._classes and '"$classes"' in json.dumps(self._config["layers"]):
                self._classes = rows.classes()
            self._build(strategy, schedule)
        elif strategy is not None:
            raise ValueError("a model of sparse rows that has weights already cannot be given to parameter servers: make it anew")
        elif schedule is not None:
            self._rebuild(strategy, schedule)
        return self.handle

    def _build(self, strategy: Optional[int], schedule: Any) -> None:
        kind, out = ctypes.POINTER(native.shoal_model_kind)(), ctypes.c_void_p()
        lib.shoal_model_kind_parse(json.dumps(self._config).encode(), ctypes.byref(kind))
        try:
            options = native.shoal_model_options(size=ctypes.sizeof(native.shoal_model_options), classes=self._classes,
                                                 set=self._set.encode() if self._set else None)
            lib.shoal_model_kind_build(kind, shape_struct(self._shape) if self._shape else None, options, ctypes.byref(out))
        finally:
            lib.shoal_model_kind_destroy(kind)
        handle = out.value
        assert handle is not None
        try:
            lib.shoal_model_compile(handle, self.settings.struct(strategy, schedule))
        except BaseException:
            lib.shoal_model_destroy(handle)
            raise
        self._native = handle
        self._finalizer = weakref.finalize(self, _destroy, handle, os.getpid())
        guard(self, lib.shoal_model_session(handle), new=True)

    def _drop(self) -> None:
        if self._finalizer:
            self._finalizer()
        self._native = 0

    def _rebuild(self, strategy: Optional[int] = None, schedule: Any = None) -> None:
        """The same with other settings and the weights there are."""
        weights, before, finalizer = self.get_weights(), self._native, self._finalizer
        self._build(strategy, schedule)
        if finalizer and before:
            finalizer()
        self.set_weights(weights)

    def _bring_home(self) -> "Optional[Callable[[], None]]":
        folder = tempfile.TemporaryDirectory()
        path = os.path.join(folder.name, "weights.safetensors")
        self.save_weights(path)

        def take() -> None:
            self._drop()
            self._build(None, None)
            self.load_weights(path)
            folder.cleanup()

        return take

    # ---- rows of several inputs
    def _packed(self, x: Any, name: str) -> Any:
        """All numbers of a row side by side, in the order of the inputs."""
        inputs = self._config.get("inputs", [])
        if len(inputs) < 2 or isinstance(x, np.ndarray) or not isinstance(x, (Mapping, list, tuple)):
            return x
        titles = self.input_names
        x = self._in_order(x, name, titles)
        words = self._words()
        columns: list[Array] = []
        for one, title, value in zip(inputs, titles, x):
            array = features(value, f"{name}[{title!r}]")
            if columns and len(array) != len(columns[0]):
                raise ValueError(f"{name}[{title!r}] has {len(array)} rows, but {titles[0]} {len(columns[0])}")
            if array.size != len(array) * int(np.prod(one["shape"])):
                raise ValueError(f"{name}[{title!r}] has rows of {array.shape[1:]}, but the input takes {tuple(one['shape'])}")
            flat = array.reshape(len(array), -1)
            columns.append(np.float32(1 / 255) * flat if array.dtype == np.uint8 and title not in words else flat)
        return np.ascontiguousarray(np.concatenate(columns, axis=1), np.float32)

    def _packed_labels(self, y: Any, name: str) -> Any:
        """Those of several outputs side by side: a class is one number."""
        names = self.output_names
        if len(names) < 2 or not isinstance(y, (Mapping, list, tuple)):
            return y
        columns = [targets(value, f"{name}[{one!r}]") for value, one in zip(self._in_order(y, name, names), names)]
        for one, column in zip(names, columns):
            if len(column) != len(columns[0]):
                raise ValueError(f"{name}[{one!r}] has {len(column)} rows, but {names[0]} {len(columns[0])}")
        return np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)

    def predict(self, x: Any) -> Any:
        found = self._predict(x)
        names = self.output_names
        if len(names) < 2:
            return found
        network = ctypes.c_void_p()
        lib.shoal_network_of(self.handle, ctypes.byref(network))
        shapes = [shape_tuple(lib.shoal_network_output_shape(network.value, i))[1:] for i in range(len(names))]
        lib.shoal_network_destroy(network.value)
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = np.split(found, ends[:-1], axis=1)
        return {one: part.reshape(len(part), *shape) for one, part, shape in zip(names, parts, shapes)}

    def _words(self) -> set[str]:
        """Inputs that are numbers of words: bytes stand for themselves."""
        said = {one["name"] for one in self._config["inputs"] if one.get("dtype") == "int"}
        for layer in self._config["layers"]:
            if layer.get("type") in ("embedding", "category_encoding"):
                said |= {name for name in layer.get("inputs", []) if isinstance(name, str)}
        return said

    # ---- files and pickles
    def save(self, path: "str | os.PathLike[str]") -> None:
        """To a folder: model.json, the layers, and weights.safetensors. Otherwise by the path's ending: .keras and .onnx for other
        programs, .safetensors the weights alone, .json the layers alone."""
        name = os.fspath(path)
        if self._save_file(name):
            return
        description = name if name.endswith(".json") else os.path.join(name, "model.json")
        if description != name:
            os.makedirs(name, exist_ok=True)
            self.save_weights(os.path.join(name, "weights.safetensors"))
        with open(description, "w", encoding="utf-8") as file:
            json.dump(self._whole(), file, indent=1)
            file.write("\n")

    def _whole(self) -> Config:
        """Also where the shape was seen only in the rows."""
        config = self.config()
        if self._shape and not any("shape" in one for one in config.get("inputs", [])):
            config["inputs"] = [{"shape": list(self._shape)}]
        return config

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self._whole(), "settings": self.settings, "weights": self.get_weights() if self._native else None,
                "classes": self._classes, "set": self._set}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._begin(state["config"], state["classes"], state["set"])
        self.settings = state["settings"]
        if state["weights"] is not None:
            self.set_weights(state["weights"])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._config['layers'])} layers>"


class Sequential(Model):
    """Layers in a row: Sequential([Input((28, 28, 1)), Flatten(), Dense(10, "softmax")]).

    Without an Input the shape is that of the first rows it sees.
    """

    def __init__(self, layers: Sequence[Layer] = ()) -> None:
        self._begin({"shoal_model": 1, "layers": []})
        self.layers: list[Layer] = []
        for layer in layers:
            self.add(layer)

    def add(self, layer: Layer) -> None:
        """One more layer."""
        if not isinstance(layer, Layer):
            raise TypeError(f"a layer is expected, not {type(layer).__name__}")
        if self._native:
            raise RuntimeError("layers are added before the model is fitted, tested or used")
        if isinstance(layer, Input):
            if self.layers or "inputs" in self._config:
                raise ValueError("Input is the first layer, and there is one")
            self._config["inputs"] = [layer.config()]
        else:
            self.layers.append(layer)
            self._config["layers"].append(layer.config())

    @staticmethod
    def is_row(config: Mapping[str, Any]) -> bool:
        """Whether a description is one: nothing but layers, one after the other."""
        plain = set(config) <= {"shoal_model", "name", "summary", "inputs", "layers", "loss"} and len(config.get("inputs", [])) < 2
        known = layers_module.types()
        return plain and all("inputs" not in one and "repeat" not in one and one.get("type") in known for one in config["layers"]) and \
            "$" not in json.dumps(config["layers"])

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **more: Any) -> "Model":
        """What config() described."""
        model = cls([layers_module.from_config(layer) for layer in config["layers"]])
        if config.get("inputs"):
            model._config["inputs"] = [dict(one) for one in config["inputs"]]
        if config.get("loss"):
            model.settings = Settings(loss=config["loss"])
        return model

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.layers = [layers_module.from_config(layer) for layer in self._config["layers"]]

    def __repr__(self) -> str:
        first = [f"Input({tuple(one['shape'])}{', sparse=True' if one.get('sparse') else ''})" for one in self._config.get("inputs", [])]
        return f"Sequential([{', '.join(first + [repr(layer) for layer in self.layers])}])"


def _destroy(handle: int, process: int) -> None:
    # In a process made by fork the model's threads are not there, and nobody may wait for them.
    if os.getpid() == process:
        lib.shoal_model_destroy(handle)
