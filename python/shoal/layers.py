"""Layers: what a model is made of. Each is a type and its attributes, called as in Keras."""
from __future__ import annotations

import inspect
from typing import Any, Optional, Sequence, Union

from . import native
from .arrays import Shape, shape_struct
from .native import lib

Size = Union[int, Sequence[int]]


def _text(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else value.encode()


def _pair(value: Size, name: str, dimensions: int) -> tuple[int, int]:
    sizes = (value,) * dimensions if isinstance(value, int) else tuple(value)
    if len(sizes) != dimensions:
        raise ValueError(f"{name} must be a number or {dimensions} of them, not {value!r}")
    return (sizes[0], sizes[1] if dimensions == 2 else 0)


def _padding(value: str) -> int:
    try:
        return {"valid": native.SHOAL_VALID, "same": native.SHOAL_SAME}[value.lower()]
    except KeyError:
        raise ValueError(f'padding must be "valid" or "same", not {value!r}') from None


class Layer:
    """A layer: its type, as model files call it, and its attributes."""
    type = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._names = [p for p in inspect.signature(cls.__init__).parameters if p != "self"]

    _names: list[str] = []

    def attributes(self) -> dict[str, Any]:
        """As they were given."""
        return {name: getattr(self, name) for name in self._names}

    def config(self) -> dict[str, Any]:
        """As model files have it."""
        return {"type": self.type, **{k: v for k, v in self.attributes().items() if v is not None}}

    def add_to(self, model: int) -> None:
        """Adds it to the library's model."""
        raise NotImplementedError

    def __repr__(self) -> str:
        defaults = {p.name: p.default for p in inspect.signature(type(self).__init__).parameters.values()}
        words = [f"{k}={v!r}" for k, v in self.attributes().items() if v != defaults[k]]
        return f"{type(self).__name__}({', '.join(words)})"


class Input(Layer):
    """The shape of one example; sparse: pairs of an index below shape[0] and a value."""
    type = "input"

    def __init__(self, shape: Shape, sparse: bool = False) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.sparse = sparse


class Dense(Layer):
    """All inputs to all units. kernel_initializer: "glorot_uniform", "he_normal", "zeros", ..."""
    type = "dense"

    def __init__(self, units: int, activation: Optional[str] = None, kernel_initializer: Optional[str] = None) -> None:
        self.units, self.activation, self.kernel_initializer = units, activation, kernel_initializer

    def add_to(self, model: int) -> None:
        lib.shoal_model_initializer(model, (self.kernel_initializer or "glorot_uniform").encode())
        lib.shoal_model_dense(model, self.units, _text(self.activation))


class SparseDense(Layer):
    """A dense layer on sparse rows, starting at zero: a step touches only the weights of the features in its batch."""
    type = "sparse_dense"

    def __init__(self, units: int, activation: Optional[str] = None, use_bias: bool = True) -> None:
        self.units, self.activation, self.use_bias = units, activation, use_bias

    def add_to(self, model: int) -> None:
        lib.shoal_model_sparse_dense(model, self.units, self.use_bias, _text(self.activation))


class _Convolution(Layer):
    dimensions = 2
    function = ""

    def __init__(self, filters: int, kernel_size: Size, strides: Size = 1, padding: str = "valid", dilation_rate: Size = 1,
                 groups: int = 1, activation: Optional[str] = None, kernel_initializer: Optional[str] = None) -> None:
        self.filters, self.kernel_size, self.strides, self.padding = filters, kernel_size, strides, padding
        self.dilation_rate, self.groups, self.activation = dilation_rate, groups, activation
        self.kernel_initializer = kernel_initializer

    def window(self) -> Any:
        d = self.dimensions
        out = native.shoal_window(groups=self.groups, padding=_padding(self.padding))
        out.size[:] = _pair(self.kernel_size, "kernel_size", d)
        out.stride[:] = _pair(self.strides, "strides", d)
        out.dilation[:] = _pair(self.dilation_rate, "dilation_rate", d)
        return out

    def add_to(self, model: int) -> None:
        lib.shoal_model_initializer(model, (self.kernel_initializer or "glorot_uniform").encode())
        w, activation = self.window(), _text(self.activation)
        square = w.size[0] == w.size[1] and w.stride[0] == w.stride[1] and tuple(w.dilation) == (1, 1) and self.groups == 1
        if self.function == "shoal_model_conv" and self.dimensions == 2 and square:
            lib.shoal_model_conv2d(model, self.filters, w.size[0], w.stride[0], w.padding, activation)
        else:
            getattr(lib, self.function)(model, self.filters, w, activation)


class Conv2D(_Convolution):
    """Filters over images [height, width, channels]."""
    type, function = "conv2d", "shoal_model_conv"


class Conv1D(_Convolution):
    """Filters over sequences [steps, channels]."""
    type, function, dimensions = "conv1d", "shoal_model_conv", 1


class SeparableConv2D(_Convolution):
    """Each channel by itself, then all of them at each place."""
    type, function = "separable_conv2d", "shoal_model_separable_conv"


class Conv2DTranspose(_Convolution):
    """The transpose of a convolution: makes images larger."""
    type, function = "conv2d_transpose", "shoal_model_transposed_conv"


class DepthwiseConv2D(Layer):
    """depth_multiplier filters for each channel by itself."""
    type = "depthwise_conv2d"

    def __init__(self, kernel_size: Size, strides: Size = 1, padding: str = "valid", depth_multiplier: int = 1,
                 dilation_rate: Size = 1, activation: Optional[str] = None) -> None:
        self.kernel_size, self.strides, self.padding = kernel_size, strides, padding
        self.depth_multiplier, self.dilation_rate, self.activation = depth_multiplier, dilation_rate, activation

    def add_to(self, model: int) -> None:
        w = Conv2D(1, self.kernel_size, self.strides, self.padding, self.dilation_rate).window()
        lib.shoal_model_depthwise_conv(model, self.depth_multiplier, w, _text(self.activation))


class _Pooling(Layer):
    kind, dimensions = native.SHOAL_POOL_MAX, 2

    def __init__(self, pool_size: Size = 2, strides: Optional[Size] = None, padding: str = "valid") -> None:
        self.pool_size, self.strides, self.padding = pool_size, strides, padding

    def add_to(self, model: int) -> None:
        size = _pair(self.pool_size, "pool_size", self.dimensions)
        stride = size if self.strides is None else _pair(self.strides, "strides", self.dimensions)
        padding = _padding(self.padding)
        if self.dimensions == 2 and size[0] == size[1] and stride[0] == stride[1]:
            function = lib.shoal_model_max_pool if self.kind == native.SHOAL_POOL_MAX else lib.shoal_model_avg_pool
            function(model, size[0], stride[0], padding)
        else:
            w = native.shoal_window(padding=padding)
            w.size[:], w.stride[:] = size, stride
            lib.shoal_model_pool(model, self.kind, w)


class MaxPooling2D(_Pooling):
    """The largest of each window."""
    type = "max_pooling2d"


class AveragePooling2D(_Pooling):
    """The mean of each window."""
    type, kind = "average_pooling2d", native.SHOAL_POOL_AVG


class MaxPooling1D(_Pooling):
    """The largest of each window, over sequences."""
    type, dimensions = "max_pooling1d", 1


class AveragePooling1D(_Pooling):
    """The mean of each window, over sequences."""
    type, kind, dimensions = "average_pooling1d", native.SHOAL_POOL_AVG, 1


class GlobalMaxPooling2D(Layer):
    """The largest over all places: what is left are the channels. Of sequences, too."""
    type, kind = "global_max_pooling2d", native.SHOAL_POOL_MAX

    def __init__(self) -> None:
        pass

    def add_to(self, model: int) -> None:
        lib.shoal_model_global_pool(model, self.kind)


class GlobalAveragePooling2D(GlobalMaxPooling2D):
    """The mean over all places."""
    type, kind = "global_average_pooling2d", native.SHOAL_POOL_AVG

    def __init__(self) -> None:
        pass


class UpSampling2D(Layer):
    """Images so many times as large."""
    type = "up_sampling2d"

    def __init__(self, size: Size = 2, interpolation: str = "nearest") -> None:
        self.size, self.interpolation = size, interpolation

    def add_to(self, model: int) -> None:
        if self.interpolation not in ("nearest", "bilinear"):
            raise ValueError(f'interpolation must be "nearest" or "bilinear", not {self.interpolation!r}')
        lib.shoal_model_upsample(model, *_pair(self.size, "size", 2), self.interpolation == "bilinear")


class _Border(Layer):
    function, name = "", ""

    def border(self, value: Any) -> Any:
        """A number, (high, wide), or ((top, bottom), (left, right))."""
        rows, columns = (value, value) if isinstance(value, int) else tuple(value)
        sides = [(v, v) if isinstance(v, int) else tuple(v) for v in (rows, columns)]
        w = native.shoal_window()
        w.before[:], w.after[:] = (sides[0][0], sides[1][0]), (sides[0][1], sides[1][1])
        return w


class ZeroPadding2D(_Border):
    """Zeros around images."""
    type = "zero_padding2d"

    def __init__(self, padding: Any = 1) -> None:
        self.padding = padding

    def add_to(self, model: int) -> None:
        lib.shoal_model_pad(model, self.border(self.padding))


class Cropping2D(_Border):
    """Images without their edges."""
    type = "cropping2d"

    def __init__(self, cropping: Any = 0) -> None:
        self.cropping = cropping

    def add_to(self, model: int) -> None:
        lib.shoal_model_crop(model, self.border(self.cropping))


class Flatten(Layer):
    """One row of each example."""
    type = "flatten"

    def __init__(self) -> None:
        pass

    def add_to(self, model: int) -> None:
        lib.shoal_model_flatten(model)


class Reshape(Layer):
    """Each example in another shape of as many elements; one size may be -1."""
    type = "reshape"

    def __init__(self, target_shape: Sequence[int]) -> None:
        self.target_shape = tuple(target_shape)

    def add_to(self, model: int) -> None:
        lib.shoal_model_reshape(model, shape_struct(self.target_shape))


class Activation(Layer):
    """An activation by itself."""
    type = "activation"

    def __init__(self, activation: str) -> None:
        self.activation = activation

    def add_to(self, model: int) -> None:
        lib.shoal_model_activation(model, self.activation.encode())


class Dropout(Layer):
    """Drops with probability `rate` while training."""
    type = "dropout"

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def add_to(self, model: int) -> None:
        lib.shoal_model_dropout(model, self.rate)


class BatchNormalization(Layer):
    """Over the batch while training, by moving averages afterwards."""
    type = "batch_normalization"

    def __init__(self) -> None:
        pass

    def add_to(self, model: int) -> None:
        lib.shoal_model_batch_norm(model)


class LayerNormalization(Layer):
    """Each place over its channels."""
    type = "layer_normalization"

    def __init__(self, epsilon: float = 1e-3) -> None:
        self.epsilon = epsilon

    def add_to(self, model: int) -> None:
        lib.shoal_model_layer_norm(model, self.epsilon)


class RMSNormalization(Layer):
    """Divides by the root of the mean square over the channels."""
    type = "rms_normalization"

    def __init__(self, epsilon: float = 1e-3) -> None:
        self.epsilon = epsilon

    def add_to(self, model: int) -> None:
        lib.shoal_model_rms_norm(model, self.epsilon)


class GroupNormalization(Layer):
    """Each example over groups of channels."""
    type = "group_normalization"

    def __init__(self, groups: int = 32, epsilon: float = 1e-3) -> None:
        self.groups, self.epsilon = groups, epsilon

    def add_to(self, model: int) -> None:
        lib.shoal_model_group_norm(model, self.groups, self.epsilon)


class Embedding(Layer):
    """The first layer of a model of numbers of words: output_dim learned numbers for each of input_dim words."""
    type = "embedding"

    def __init__(self, input_dim: int, output_dim: int) -> None:
        self.input_dim, self.output_dim = input_dim, output_dim

    def add_to(self, model: int) -> None:
        lib.shoal_model_embedding(model, self.input_dim, self.output_dim)


class _Recurrent(Layer):
    function = ""

    def __init__(self, units: int, return_sequences: bool = False, go_backwards: bool = False) -> None:
        self.units, self.return_sequences, self.go_backwards = units, return_sequences, go_backwards

    def add_to(self, model: int) -> None:
        getattr(lib, self.function)(model, self.units, self.return_sequences, self.go_backwards)


class SimpleRNN(_Recurrent):
    """h = tanh(x w + h u + b)."""
    type, function = "simple_rnn", "shoal_model_rnn"


class LSTM(_Recurrent):
    """Long short-term memory."""
    type, function = "lstm", "shoal_model_lstm"


class GRU(_Recurrent):
    """A gated recurrent unit; the reset gate comes after the product, as in cuDNN."""
    type, function = "gru", "shoal_model_gru"


class SelfAttention(Layer):
    """Each step looks at all steps or, causal, at those up to itself."""
    type = "self_attention"

    def __init__(self, num_heads: int, key_dim: int, causal: bool = False) -> None:
        self.num_heads, self.key_dim, self.causal = num_heads, key_dim, causal

    def add_to(self, model: int) -> None:
        lib.shoal_model_attention(model, self.num_heads, self.key_dim, self.causal)


def _kinds(base: "type[Layer]") -> "list[type[Layer]]":
    found = []
    for kind in base.__subclasses__():
        found += ([kind] if kind.type else []) + _kinds(kind)
    return found


TYPES = {kind.type: kind for kind in _kinds(Layer)}


def from_config(config: dict[str, Any]) -> Layer:
    """The layer that config() described."""
    words = {k: v for k, v in config.items() if k not in ("type", "name", "comment")}
    kind = TYPES.get(config.get("type", ""))
    if kind is None:
        raise ValueError(f"unknown layer type {config.get('type')!r}; known are {', '.join(TYPES)}")
    return kind(**words)
