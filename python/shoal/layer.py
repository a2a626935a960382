"""What a layer is: a type, as model files call it, with its attributes, and what it gives when it is applied to others."""
from __future__ import annotations

import inspect
import itertools
from typing import Any, Mapping, Optional, Sequence, Union

from .arrays import Shape

_serial = itertools.count()


class Output:
    """What a layer gives when it is applied to inputs, or an input of a model."""

    def __init__(self, layer: "Layer", inputs: "Sequence[Output]") -> None:
        self.layer, self.inputs = layer, tuple(inputs)
        self.serial = next(_serial)  # each is made after those it uses

    def __add__(self, other: "Output") -> "Output":
        return _named("add")([self, other])

    def __sub__(self, other: "Output") -> "Output":
        return _named("subtract")([self, other])

    def __mul__(self, other: "Output") -> "Output":
        return _named("multiply")([self, other])

    def __repr__(self) -> str:
        return f"<output of {self.layer!r}>"


class Layer:
    """A layer: its type, as model files call it, and its attributes."""
    type = ""
    name: Optional[str] = None
    trainable = True

    def _set(self, given: Mapping[str, Any]) -> None:
        """Keeps the arguments of __init__."""
        more = dict(given["more"])
        self.name, self.trainable = more.pop("name", None), bool(more.pop("trainable", True))
        if self.name is not None and (not isinstance(self.name, str) or not self.name or set(self.name) & set("/:$")):
            raise ValueError(f"name must be a text without / : $, not {self.name!r}")
        self._attributes = {**{k: given[k] for k in self.defaults()}, **more}  # the library knows whether it has those

    _attributes: dict[str, Any] = {}

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The attributes and their usual values; inspect.Parameter.empty: it must be given."""
        return {p.name: p.default for p in inspect.signature(cls.__init__).parameters.values() if p.name not in ("self", "more")}

    def _unusual(self) -> dict[str, Any]:
        usual = self.defaults()
        return {k: v for k, v in self._attributes.items() if k not in usual or (v is not usual[k] and _plain(v) != _plain(usual[k]))}

    def config(self) -> dict[str, Any]:
        """As model files have it: what is not as usual."""
        words = {k: _plain(v) for k, v in self._unusual().items()}
        frozen = {} if self.trainable else {"trainable": False}
        return {"type": self.type, **({"name": self.name} if self.name else {}), **words, **frozen}

    def __call__(self, *inputs: "Union[Output, Sequence[Output]]") -> Output:
        """Applies it, to one output or several; a second time with the same weights."""
        flat = [o for x in inputs for o in ([x] if isinstance(x, Output) else x)]
        for value in flat:
            if not isinstance(value, Output):
                raise TypeError(f"a layer is applied to outputs of layers or to Input, not to {type(value).__name__}")
        if not flat:
            raise TypeError(f"{type(self).__name__} is applied to at least one input")
        return Output(self, flat)

    def __repr__(self) -> str:
        words = [f"{k}={v!r}" for k, v in self._unusual().items()]
        words += ([f"name={self.name!r}"] if self.name else []) + ([] if self.trainable else ["trainable=False"])
        return f"{type(self).__name__}({', '.join(words)})"


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, Layer):
        return value.config()
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value  # of NumPy


class Input(Layer, Output):
    """The shape of one example; sparse: pairs of an index below shape[0] and a value."""
    type = "input"

    def __init__(self, shape: Shape, sparse: bool = False, **more: Any) -> None:
        sizes: Sequence[Any] = (shape,) if isinstance(shape, int) or hasattr(shape, "item") else tuple(shape)
        if not all(isinstance(s, int) or hasattr(s, "item") for s in sizes):
            raise ValueError(f"shape {shape!r}: the sizes of one example are numbers, without the batch")
        self.shape, self.sparse = tuple(int(s) for s in sizes), sparse
        self._set({"shape": self.shape, "sparse": sparse, "more": more})
        Output.__init__(self, self, ())

    def config(self) -> dict[str, Any]:
        named = {"name": self.name} if self.name else {}
        return {**named, "shape": list(self.shape), **({"sparse": True} if self.sparse else {})}

    def __repr__(self) -> str:
        return Layer.__repr__(self)


def _named(type_name: str) -> Layer:
    from .layers import TYPES

    return TYPES[type_name]()
