"""NumPy arrays as the library sees them: views of the same memory wherever type and order allow it."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import native

Array = npt.NDArray[Any]
DType = Union[str, type, "np.dtype[Any]"]
Shape = Union[int, Sequence[Optional[int]]]

CODES = {"float32": native.SHOAL_F32, "float64": native.SHOAL_F64, "int32": native.SHOAL_I32, "int64": native.SHOAL_I64,
         "uint8": native.SHOAL_U8, "bool": native.SHOAL_BOOL}
NAMES = {code: name for name, code in CODES.items()}
SHORT = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "u8": "uint8"}


def dtype_code(dtype: DType) -> int:
    """Of a name or a NumPy type."""
    name = np.dtype(SHORT.get(dtype, dtype) if isinstance(dtype, str) else dtype).name
    if name not in CODES:
        raise TypeError(f"dtype {name} is not one of {', '.join(CODES)}")
    return CODES[name]


def shape_struct(shape: Shape) -> Any:
    """None or -1 stands for a size that is known only when a batch is fed."""
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if len(sizes) > native.SHOAL_MAX_RANK:
        raise ValueError(f"shape {sizes} has more than {native.SHOAL_MAX_RANK} dimensions")
    out = native.shoal_shape()
    out.rank = len(sizes)
    for i, size in enumerate(sizes):
        out.dim[i] = native.SHOAL_UNKNOWN if size is None else int(size)
    return out


def shape_tuple(shape: Any) -> tuple[int, ...]:
    """The other way round."""
    return tuple(shape.dim[:shape.rank])


def tensor(array: Array) -> Any:
    """A view of it, which keeps it alive. It must be contiguous, in row-major order."""
    out = native.shoal_tensor()
    out.dtype = CODES[array.dtype.name]
    out.shape = shape_struct(array.shape)
    out.data = array.ctypes.data
    out.keep = array
    return out


def view(t: Any, owner: Any = None) -> Array:
    """The memory of a tensor as an array, which does not own it, but keeps its owner alive."""
    shape, dtype = shape_tuple(t.shape), np.dtype(NAMES[t.dtype])
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size == 0 or not t.data:
        return np.zeros(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(t.data)
    memory.owner = owner
    return np.frombuffer(memory, dtype).reshape(shape)


def whole(value: Any, name: str) -> int:
    """A whole number; `name` is the argument that a message names."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    return int(value)


def number(value: Any, name: str) -> float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def numbers(value: Any, name: str) -> Array:
    """As an array of numbers."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is no array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of numbers, not of {array.dtype}")
    return array


def features(value: Any, name: str) -> Array:
    """Rows to learn from: uint8 (pixels, which count as 0 to 1) and float32 as they are, other types as float32."""
    array = numbers(value, name)
    if array.ndim < 1:
        raise ValueError(f"{name} must have a row for each example, but is a single number")
    return np.ascontiguousarray(array if array.dtype in (np.uint8, np.float32) else array.astype(np.float32))


def targets(value: Any, name: str) -> Array:
    """Numbers to be predicted."""
    return np.ascontiguousarray(numbers(value, name), np.float32)


def labels(value: Any, name: str) -> Array:
    """Classes 0, 1, ...: one a row, or one row of zeros with a single one (one-hot)."""
    array = numbers(value, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        array = array.argmax(axis=1)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one class for each row, but its shape is {array.shape}")
    if array.dtype in (np.uint8, np.int32, np.int64):
        return np.ascontiguousarray(array)
    whole = array.astype(np.int64)
    if array.dtype.kind == "f" and not np.array_equal(whole, array):
        raise ValueError(f"{name} must hold whole numbers, the classes from 0 on; to predict numbers, compile with loss=\"mse\"")
    return whole
