"""Layers: what a model is made of. Each is a type and its attributes, called as in Keras; docs/model-files.md has them all.

    Sequential([Input((28, 28, 1)), Flatten(), Dense(10, "softmax")])        # in a row

    image, age = Input((28, 28, 1), name="image"), Input(1, name="age")      # or applied to each other
    joined = Concatenate()([Flatten()(image), age])
    model = Model([image, age], Dense(2, "softmax")(joined))

Every layer also takes name=, what its weights are called by, and trainable=False: they stay as they are. What is wrong with an
attribute is said when the model is made.
"""
from __future__ import annotations

import ctypes
from typing import Any, Mapping, Optional, Sequence, Union

from ._library import take_text
from .layer import Input as Input
from .layer import Layer as Layer
from .layer import Output as Output
from .native import lib

Size = Union[int, Sequence[int]]
Margins = Union[int, Sequence[Union[int, Sequence[int]]]]
Padding = Union[str, Margins]
Initializer = Union[None, str, float, Mapping[str, Any]]
Word = Optional[str]


# ---- all inputs to all units, activations, words


class Dense(Layer):
    """Each output a weighted sum of all features."""
    type = "dense"

    def __init__(self, units: int, activation: Word = None, use_bias: bool = True, kernel_initializer: Initializer = None,
                 bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class SparseDense(Layer):
    """Dense on sparse rows, starting at zero: a step touches only the weights of the features in its batch."""
    type = "sparse_dense"

    def __init__(self, units: int, activation: Word = None, use_bias: bool = True, kernel_initializer: Initializer = 0,
                 bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class Activation(Layer):
    """A function of each element, by its name."""
    type = "activation"

    def __init__(self, activation: str, **more: Any) -> None:
        self._set(locals())


class _Plain(Layer):
    def __init__(self, **more: Any) -> None:
        self._set(locals())


class Identity(_Plain):
    """Its input."""
    type = "identity"


class ReLU(Layer):
    """max(x, 0), with a slope below and a limit above."""
    type = "relu"

    def __init__(self, max_value: Optional[float] = None, negative_slope: float = 0, threshold: float = 0, **more: Any) -> None:
        self._set(locals())


class LeakyReLU(Layer):
    """x, or a share of it below 0."""
    type = "leaky_relu"

    def __init__(self, negative_slope: float = 0.3, **more: Any) -> None:
        self._set(locals())


class ELU(Layer):
    """x, or alpha (e^x - 1) below 0."""
    type = "elu"

    def __init__(self, alpha: float = 1, **more: Any) -> None:
        self._set(locals())


class PReLU(Layer):
    """LeakyReLU whose slopes are learned."""
    type = "prelu"

    def __init__(self, shared_axes: Size = (), alpha_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class Softmax(Layer):
    """Positive, with the sum 1 along an axis."""
    type = "softmax"

    def __init__(self, axis: int = -1, **more: Any) -> None:
        self._set(locals())


class Embedding(Layer):
    """A learned vector for each number of a word."""
    type = "embedding"

    def __init__(self, input_dim: int, output_dim: int, mask_zero: bool = False, embeddings_initializer: Initializer = "uniform",
                 **more: Any) -> None:
        self._set(locals())


class PositionEmbedding(Layer):
    """A learned vector for each place of a sequence, added to it."""
    type = "position_embedding"

    def __init__(self, embeddings_initializer: Initializer = "glorot_uniform", **more: Any) -> None:
        self._set(locals())


class CategoryEncoding(Layer):
    """Whole numbers as ones among zeros."""
    type = "category_encoding"

    def __init__(self, num_tokens: int, output_mode: str = "multi_hot", **more: Any) -> None:
        self._set(locals())


# ---- windows over images [height, width, channels] and sequences [steps, channels]


class Conv2D(Layer):
    """Filters over neighbouring places of images."""
    type = "conv2d"

    def __init__(self, filters: int, kernel_size: Size, strides: Size = 1, padding: Padding = "valid", dilation_rate: Size = 1,
                 groups: int = 1, activation: Word = None, use_bias: bool = True, kernel_initializer: Initializer = None,
                 bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class Conv1D(Conv2D):
    """Filters over neighbouring steps of sequences."""
    type = "conv1d"


class Conv2DTranspose(Layer):
    """The transpose of a convolution, which makes images larger."""
    type = "conv2d_transpose"

    def __init__(self, filters: int, kernel_size: Size, strides: Size = 1, padding: Padding = "valid", dilation_rate: Size = 1,
                 groups: int = 1, output_size: Optional[Size] = None, activation: Word = None, use_bias: bool = True,
                 kernel_initializer: Initializer = None, bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class Conv1DTranspose(Conv2DTranspose):
    """The same of sequences."""
    type = "conv1d_transpose"


class DepthwiseConv2D(Layer):
    """Filters over each channel by itself."""
    type = "depthwise_conv2d"

    def __init__(self, kernel_size: Size, strides: Size = 1, padding: Padding = "valid", dilation_rate: Size = 1, depth_multiplier: int = 1,
                 activation: Word = None, use_bias: bool = True, depthwise_initializer: Initializer = None,
                 bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class DepthwiseConv1D(DepthwiseConv2D):
    """The same of sequences."""
    type = "depthwise_conv1d"


class SeparableConv2D(Layer):
    """Filters over each channel, then over all channels of a place."""
    type = "separable_conv2d"

    def __init__(self, filters: int, kernel_size: Size, strides: Size = 1, padding: Padding = "valid", dilation_rate: Size = 1,
                 depth_multiplier: int = 1, activation: Word = None, use_bias: bool = True, depthwise_initializer: Initializer = None,
                 pointwise_initializer: Initializer = None, bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class SeparableConv1D(SeparableConv2D):
    """The same of sequences."""
    type = "separable_conv1d"


class MaxPooling2D(Layer):
    """The largest of each window."""
    type = "max_pooling2d"

    def __init__(self, pool_size: Size = 2, strides: Optional[Size] = None, padding: Padding = "valid", **more: Any) -> None:
        self._set(locals())


class MaxPooling1D(MaxPooling2D):
    """The same of sequences."""
    type = "max_pooling1d"


class AveragePooling2D(MaxPooling2D):
    """The mean of each window."""
    type = "average_pooling2d"


class AveragePooling1D(MaxPooling2D):
    """The same of sequences."""
    type = "average_pooling1d"


class GlobalMaxPooling2D(Layer):
    """The largest over all places: what is left are the channels."""
    type = "global_max_pooling2d"

    def __init__(self, keepdims: bool = False, **more: Any) -> None:
        self._set(locals())


class GlobalMaxPooling1D(GlobalMaxPooling2D):
    """The same of sequences."""
    type = "global_max_pooling1d"


class GlobalAveragePooling2D(GlobalMaxPooling2D):
    """The mean over all places."""
    type = "global_average_pooling2d"


class GlobalAveragePooling1D(GlobalMaxPooling2D):
    """The same of sequences."""
    type = "global_average_pooling1d"


# ---- normalisation


class BatchNormalization(Layer):
    """Over the batch while training, by moving averages afterwards."""
    type = "batch_normalization"

    def __init__(self, momentum: float = 0.99, epsilon: float = 0.001, center: bool = True, scale: bool = True, **more: Any) -> None:
        self._set(locals())


class LayerNormalization(Layer):
    """Each place over its channels."""
    type = "layer_normalization"

    def __init__(self, axis: Size = -1, epsilon: float = 0.001, center: bool = True, scale: bool = True, **more: Any) -> None:
        self._set(locals())


class RMSNormalization(Layer):
    """By the root of the mean square of the channels."""
    type = "rms_normalization"

    def __init__(self, epsilon: float = 1e-6, **more: Any) -> None:
        self._set(locals())


class GroupNormalization(Layer):
    """Each example over groups of channels; groups -1: instance norm."""
    type = "group_normalization"

    def __init__(self, groups: int = 32, epsilon: float = 0.001, center: bool = True, scale: bool = True, **more: Any) -> None:
        self._set(locals())


class UnitNormalization(Layer):
    """To the length 1."""
    type = "unit_normalization"

    def __init__(self, axis: int = -1, **more: Any) -> None:
        self._set(locals())


class Rescaling(Layer):
    """Times a number, plus another."""
    type = "rescaling"

    def __init__(self, scale: Any, offset: Any = 0, **more: Any) -> None:
        self._set(locals())


class Normalization(Layer):
    """By given means and variances."""
    type = "normalization"

    def __init__(self, mean: Any = None, variance: Any = None, invert: bool = False, **more: Any) -> None:
        self._set(locals())


# ---- shapes


class Flatten(_Plain):
    """Each example as one row."""
    type = "flatten"


class Reshape(Layer):
    """Each example in another shape of as many elements; one size may be -1."""
    type = "reshape"

    def __init__(self, target_shape: Sequence[int], **more: Any) -> None:
        self._set(locals())


class Permute(Layer):
    """Axes in another order, which count from 1."""
    type = "permute"

    def __init__(self, dims: Sequence[int], **more: Any) -> None:
        self._set(locals())


class RepeatVector(Layer):
    """Features repeated as the steps of a sequence."""
    type = "repeat_vector"

    def __init__(self, n: int, **more: Any) -> None:
        self._set(locals())


class ZeroPadding2D(Layer):
    """Zeros around: a number, (high, wide), or ((top, bottom), (left, right))."""
    type = "zero_padding2d"

    def __init__(self, padding: Margins = 1, **more: Any) -> None:
        self._set(locals())


class ZeroPadding1D(ZeroPadding2D):
    """The same of sequences."""
    type = "zero_padding1d"


class Cropping2D(Layer):
    """Without its edges."""
    type = "cropping2d"

    def __init__(self, cropping: Margins = 1, **more: Any) -> None:
        self._set(locals())


class Cropping1D(Cropping2D):
    """The same of sequences."""
    type = "cropping1d"


class UpSampling2D(Layer):
    """Images several times as large."""
    type = "up_sampling2d"

    def __init__(self, size: Size = 2, interpolation: str = "nearest", **more: Any) -> None:
        self._set(locals())


class UpSampling1D(Layer):
    """Each step repeated."""
    type = "up_sampling1d"

    def __init__(self, size: Size = 2, **more: Any) -> None:
        self._set(locals())


class Slice(Layer):
    """A part of each example; size -1: to the end."""
    type = "slice"

    def __init__(self, start: Size, size: Size, **more: Any) -> None:
        self._set(locals())


class CumulativeSum(Layer):
    """Sums along an axis up to each element."""
    type = "cumulative_sum"

    def __init__(self, axis: int = -1, exclusive: bool = False, reverse: bool = False, **more: Any) -> None:
        self._set(locals())


class Sort(Layer):
    """Sorted along an axis."""
    type = "sort"

    def __init__(self, axis: int = -1, descending: bool = False, **more: Any) -> None:
        self._set(locals())


class TopK(Layer):
    """The largest along the last axis, largest first."""
    type = "top_k"

    def __init__(self, k: int, **more: Any) -> None:
        self._set(locals())


# ---- sequences


class SimpleRNN(Layer):
    """h = tanh(x w + h u + b)."""
    type = "simple_rnn"

    def __init__(self, units: int, activation: str = "tanh", return_sequences: bool = False, go_backwards: bool = False,
                 reverse_output: bool = True, use_bias: bool = True, kernel_initializer: Initializer = None,
                 recurrent_initializer: Initializer = None, bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class LSTM(Layer):
    """Long short-term memory."""
    type = "lstm"

    def __init__(self, units: int, activation: str = "tanh", recurrent_activation: str = "sigmoid", return_sequences: bool = False,
                 go_backwards: bool = False, reverse_output: bool = True, use_bias: bool = True, kernel_initializer: Initializer = None,
                 recurrent_initializer: Initializer = None, bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class GRU(LSTM):
    """A gated recurrent unit; the reset gate comes after the product, as in cuDNN."""
    type = "gru"


class Masking(Layer):
    """Steps that are all mask_value are not there."""
    type = "masking"

    def __init__(self, mask_value: float = 0, **more: Any) -> None:
        self._set(locals())


class MultiHeadAttention(Layer):
    """Each step looks at all steps: query, value and key, of which those that are not given are the first."""
    type = "multi_head_attention"

    def __init__(self, num_heads: int, key_dim: int, value_dim: Optional[int] = None, output_shape: Optional[int] = None,
                 use_causal_mask: bool = False, use_bias: bool = True, kernel_initializer: Initializer = None,
                 bias_initializer: Initializer = 0, **more: Any) -> None:
        self._set(locals())


class Attention(Layer):
    """The same by one head, without weights."""
    type = "attention"

    def __init__(self, use_scale: bool = False, use_causal_mask: bool = False, **more: Any) -> None:
        self._set(locals())


class Bidirectional(Layer):
    """A recurrent layer forwards, another backwards."""
    type = "bidirectional"

    def __init__(self, layer: Layer, backward_layer: Optional[Layer] = None, merge_mode: Word = "concat", **more: Any) -> None:
        self._set(locals())


class TimeDistributed(Layer):
    """A layer applied to each step of a sequence."""
    type = "time_distributed"

    def __init__(self, layer: Layer, **more: Any) -> None:
        self._set(locals())


# ---- several inputs


class Add(_Plain):
    """The sum of its inputs."""
    type = "add"


class Subtract(_Plain):
    """The first less the second."""
    type = "subtract"


class Multiply(_Plain):
    """The product of its inputs, element by element."""
    type = "multiply"


class Average(_Plain):
    """The mean of its inputs."""
    type = "average"


class Maximum(_Plain):
    """The largest of its inputs, element by element."""
    type = "maximum"


class Minimum(_Plain):
    """The smallest of its inputs, element by element."""
    type = "minimum"


class Concatenate(Layer):
    """One after the other along an axis."""
    type = "concatenate"

    def __init__(self, axis: int = -1, **more: Any) -> None:
        self._set(locals())


class Stack(Concatenate):
    """Side by side along a new axis."""
    type = "stack"


class Dot(Layer):
    """Products of vectors, or of matrices."""
    type = "dot"

    def __init__(self, axes: Size = -1, normalize: bool = False, **more: Any) -> None:
        self._set(locals())


# ---- while training


class Dropout(Layer):
    """Drops elements while training."""
    type = "dropout"

    def __init__(self, rate: float, **more: Any) -> None:
        self._set(locals())


class SpatialDropout1D(Dropout):
    """Drops whole channels while training."""
    type = "spatial_dropout1d"


class SpatialDropout2D(Dropout):
    """Drops whole channels while training."""
    type = "spatial_dropout2d"


def _kinds(base: "type[Layer]") -> "list[type[Layer]]":
    found = []
    for kind in base.__subclasses__():
        found += ([kind] if kind.type else []) + _kinds(kind)
    return found


TYPES = {kind.type: kind for kind in _kinds(Layer)}


def types() -> dict[str, str]:
    """Of layers that the library has, and what each does with which attributes."""
    found: dict[str, str] = {}
    out = ctypes.c_void_p()
    while True:
        name = lib.shoal_layer_type_at(len(found))
        if not name:
            return found
        lib.shoal_layer_type_describe(name, ctypes.byref(out))
        found[name.decode()] = take_text(out.value)


def __getattr__(name: str) -> "type[Layer]":
    """A type that has no class above: GaussianNoise is gaussian_noise."""
    for word in [] if name.startswith("_") else types():
        if word.replace("_", "") == name.lower():
            TYPES.setdefault(word, type(name, (_Plain,), {"type": word, "__doc__": types()[word]}))
            return TYPES[word]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def from_config(config: Mapping[str, Any]) -> Layer:
    """The layer that config() described."""
    word = config.get("type", "")
    if word not in TYPES:
        try:
            __getattr__(str(word).replace("_", ""))
        except AttributeError:
            raise ValueError(f"unknown layer type {word!r}; known are {', '.join(types())}") from None
    inner = {"layer", "backward_layer"}
    return TYPES[word](**{k: from_config(v) if k in inner and v else v for k, v in config.items() if k not in ("type", "inputs", "comment")})
