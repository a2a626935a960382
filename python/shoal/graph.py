"""Graphs of operators: values that are computed from others, their gradients, and sessions that run any part of them.

    with shoal.Graph() as g:
        x = shoal.placeholder("x", shape=(None, 3))
        w = shoal.variable("w", np.zeros((3, 1), np.float32))
        loss = ((x @ w - 1.0) ** 2).mean()
        step = shoal.assign(w, w - 0.1 * shoal.gradients(loss, [w])[0])
        with shoal.Session() as s:
            s.run([loss, step], {x: rows})
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import weakref
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from . import native
from ._library import raise_status, take_text
from .arrays import CODES, NAMES, Array, DType, Shape, dtype_code, shape_struct, shape_tuple, tensor, view
from .cluster import Cluster
from .native import lib
from .processes import guard

_local = threading.local()


class Graph:
    """Nodes and the values between them. `with Graph():` makes it the one that operators are added to."""

    def __init__(self, handle: int = 0) -> None:
        out = ctypes.c_void_p(handle or None)
        if not handle:
            lib.shoal_graph_create(ctypes.byref(out))
        assert out.value is not None
        self.handle = out.value
        self._finalizer = weakref.finalize(self, lib.shoal_graph_destroy, self.handle)

    def __enter__(self) -> "Graph":
        _stack().append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _stack().pop()

    @staticmethod
    def load(path: "str | os.PathLike[str]") -> "Graph":
        """From a file in TensorFlow's GraphDef format with Shoal's operators."""
        out = ctypes.c_void_p()
        lib.shoal_graph_load(os.fsencode(path), ctypes.byref(out))
        return Graph(out.value or 0)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """To such a file: structure and constants, not what variables hold."""
        lib.shoal_graph_save(self.handle, os.fsencode(path))

    def find(self, name: str) -> "Value":
        """The value of that name; NAME:1 for the second output of its node."""
        out = ctypes.c_void_p()
        lib.shoal_graph_lookup(self.handle, name.encode(), ctypes.byref(out))
        return Value(self, out.value or 0)

    def _part(self, part: int) -> "list[Value]":
        found, at = [], lib.shoal_graph_next(self.handle, part, None)
        while at:
            found.append(Value(self, at))
            at = lib.shoal_graph_next(self.handle, part, at)
        return found

    @property
    def placeholders(self) -> "list[Value]":
        """To be fed."""
        return self._part(native.SHOAL_GRAPH_PLACEHOLDERS)

    @property
    def variables(self) -> "list[Value]":
        """What a session keeps."""
        return self._part(native.SHOAL_GRAPH_VARIABLES)

    @property
    def results(self) -> "list[Value]":
        """Computed, and used by nothing else."""
        return self._part(native.SHOAL_GRAPH_RESULTS)

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Nodes made inside are called name/..."""
        lib.shoal_scope_push(self.handle, name.encode())
        try:
            yield
        finally:
            lib.shoal_scope_pop(self.handle)

    @contextlib.contextmanager
    def device(self, name: str) -> Iterator[None]:
        """Nodes made inside run there: "/job:worker/task:1"; what it leaves open, an outer scope or the placer decides."""
        lib.shoal_device_push(self.handle, name.encode())
        try:
            yield
        finally:
            lib.shoal_device_pop(self.handle)

    @contextlib.contextmanager
    def after(self, *values: "Value") -> Iterator[None]:
        """Nodes made inside run after all of these."""
        lib.shoal_control_push(self.handle, self.operands(values, None), len(values))
        try:
            yield
        finally:
            lib.shoal_control_pop(self.handle)

    def made(self, value: Optional[int], what: str) -> "Value":
        """The value, or what was wrong; the graph can be used on."""
        if not value:
            lib.shoal_graph_take_status(self.handle)
            raise RuntimeError(f"{what}: failed, and nobody said why")
        return Value(self, value)

    def operand(self, x: "Optional[Operand]", like: "Optional[Value]") -> Optional[int]:
        """A value of this graph; numbers and lists become constants of the type of `like`, arrays of their own."""
        if x is None:
            return None
        if isinstance(x, Value):
            if x.graph is not self:
                raise ValueError(f"{x.name} is a value of another graph")
            return x.handle
        if isinstance(x, (int, float)) and like is not None:
            return self.made(lib.shoal_scalar(self.handle, dtype_code(like.dtype), x), "scalar").handle
        array = np.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else np.asarray(x, like.dtype if like is not None else None)
        if array.dtype.name not in CODES:
            array = array.astype(np.float32)
        elif array.dtype == np.float64 and not isinstance(x, (np.ndarray, np.generic)) and like is None:
            array = array.astype(np.float32)
        array = np.ascontiguousarray(array) if array.ndim else array
        return self.made(lib.shoal_constant(self.handle, tensor(array)), "constant").handle

    def operands(self, values: "Sequence[Operand]", like: "Optional[Value]") -> Any:
        """An array of them."""
        return (ctypes.c_void_p * max(len(values), 1))(*[self.operand(v, like) for v in values])

    def placement(self, tasks: Mapping[str, str]) -> str:
        """Which task would run which node, and why."""
        out = ctypes.c_void_p()
        lib.shoal_placement_explain(self.handle, _tasks(tasks), len(tasks), ctypes.byref(out))
        return take_text(out.value)


def _stack() -> list[Graph]:
    if not hasattr(_local, "graphs"):
        _local.graphs = []
    graphs: list[Graph] = _local.graphs
    return graphs


def current() -> Graph:
    """The graph of the innermost `with`, or else one for this thread."""
    stack = _stack()
    if not stack:
        stack.append(Graph())
    return stack[-1]


class Value:
    """One output of a node. Arithmetic, comparisons but ==, slices and @ make new nodes."""
    __slots__ = ("__weakref__", "graph", "handle")
    __array_priority__ = 1000

    def __init__(self, graph: Graph, handle: int) -> None:
        self.graph, self.handle = graph, handle

    @property
    def name(self) -> str:
        """In its graph."""
        return str(lib.shoal_value_name(self.handle).decode())

    @property
    def shape(self) -> tuple[Optional[int], ...]:
        """None where it is known only when fed."""
        return tuple(None if d < 0 else d for d in shape_tuple(lib.shoal_value_shape(self.handle)))

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Of its elements."""
        return np.dtype(NAMES[lib.shoal_value_dtype(self.handle)])

    @property
    def device(self) -> Optional[str]:
        """Where it is to be computed."""
        name = lib.shoal_value_device(self.handle)
        return name.decode() if name else None

    @property
    def operator(self) -> str:
        """That makes it."""
        return str(lib.shoal_value_operator(self.handle).decode())

    def output(self, i: int) -> "Value":
        """Output i of the same node."""
        found = lib.shoal_value_output(self.handle, i)
        if not found:
            raise IndexError(f"{self.name} has no output {i}")
        return Value(self.graph, found)

    def __repr__(self) -> str:
        return f"<Value {self.name}: {self.dtype.name}{list(self.shape)} by {self.operator}>"

    def __hash__(self) -> int:
        return hash(self.handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and other.handle == self.handle

    def __len__(self) -> int:
        shape = self.shape
        if not shape or shape[0] is None:
            raise TypeError(f"{self.name} has no known length")
        return shape[0]

    def __bool__(self) -> bool:
        raise TypeError("a value of a graph is true or false only when it is run; see shoal.ops.where and shoal.cond")

    def __iter__(self) -> "Iterator[Value]":
        return (self[i] for i in range(len(self)))

    def __add__(self, other: "Operand") -> "Value":
        return ops.add(self, other)

    def __radd__(self, other: "Operand") -> "Value":
        return ops.add(other, self)

    def __sub__(self, other: "Operand") -> "Value":
        return ops.sub(self, other)

    def __rsub__(self, other: "Operand") -> "Value":
        return ops.sub(other, self)

    def __mul__(self, other: "Operand") -> "Value":
        return ops.mul(self, other)

    def __rmul__(self, other: "Operand") -> "Value":
        return ops.mul(other, self)

    def __truediv__(self, other: "Operand") -> "Value":
        return ops.div(self, other)

    def __rtruediv__(self, other: "Operand") -> "Value":
        return ops.div(other, self)

    def __pow__(self, other: "Operand") -> "Value":
        return ops.square(self) if isinstance(other, int) and other == 2 else ops.pow(self, other)

    def __rpow__(self, other: "Operand") -> "Value":
        return ops.pow(other, self)

    def __matmul__(self, other: "Operand") -> "Value":
        return ops.matmul(self, other)

    def __rmatmul__(self, other: "Operand") -> "Value":
        return ops.matmul(other, self)

    def __neg__(self) -> "Value":
        return ops.neg(self)

    def __abs__(self) -> "Value":
        return ops.abs(self)

    def __lt__(self, other: "Operand") -> "Value":
        return ops.less(self, other)

    def __le__(self, other: "Operand") -> "Value":
        return ops.less_equal(self, other)

    def __gt__(self, other: "Operand") -> "Value":
        return ops.greater(self, other)

    def __ge__(self, other: "Operand") -> "Value":
        return ops.greater_equal(self, other)

    def __getitem__(self, key: Any) -> "Value":
        keys = list(key) if isinstance(key, tuple) else [key]
        if any(k is Ellipsis for k in keys):
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            keys[at:at + 1] = [slice(None)] * (len(self.shape) - len(keys) + 1)
        if len(keys) > len(self.shape):
            raise IndexError(f"{self.name} has {len(self.shape)} axes, but {len(keys)} indices are given")
        out, axis = self, 0
        parts = [k if isinstance(k, slice) else slice(None) for k in keys] + [slice(None)] * (len(self.shape) - len(keys))
        if any(p != slice(None) for p in parts):
            end = native.SHOAL_END
            steps = [1 if p.step is None else p.step for p in parts]
            starts = [(0 if s > 0 else end) if p.start is None else p.start for p, s in zip(parts, steps)]
            stops = [(end if s > 0 else -end) if p.stop is None else p.stop for p, s in zip(parts, steps)]
            out = ops.strided_slice(out, starts, stops, steps)
        for k in keys:
            if isinstance(k, slice):
                axis += 1
            else:
                out = ops.index(out, axis, int(k))
        return out

    @property
    def T(self) -> "Value":
        """Its axes the other way round."""
        return ops.transpose(self, list(range(len(self.shape)))[::-1])

    def sum(self, axes: Shape = (), keep: bool = False) -> "Value":
        """Over these axes; (): over all."""
        return ops.reduce_sum(self, axes, keep)

    def mean(self, axes: Shape = (), keep: bool = False) -> "Value":
        """Over these axes; (): over all."""
        return ops.reduce_mean(self, axes, keep)

    def reshape(self, *shape: int) -> "Value":
        """One size may be -1."""
        return ops.reshape(self, shape)

    def astype(self, dtype: DType) -> "Value":
        """As another type."""
        return ops.cast(self, dtype)


Operand = Union[Value, float, int, bool, Array, Sequence[Any]]



def graph_of(*values: Any) -> tuple[Graph, Optional[Value]]:
    """The graph of the values among them, and one of the type that numbers beside them take: the first that is no bool."""
    found = [value for value in values if isinstance(value, Value)]
    if not found:
        return current(), None
    return found[0].graph, next((value for value in found if value.dtype != np.bool_), found[0])


# ---- words and structs that operators take


def _choice(value: str, name: str, choices: Mapping[str, int]) -> int:
    if value.lower() not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return choices[value.lower()]


def padding_code(value: str) -> int:
    """"valid" or "same"."""
    return _choice(value, "padding", {"valid": native.SHOAL_VALID, "same": native.SHOAL_SAME})


def pad_mode_code(value: str) -> int:
    """"constant", "reflect", "symmetric" or "edge"."""
    return _choice(value, "mode", {"constant": native.SHOAL_PAD_CONSTANT, "reflect": native.SHOAL_PAD_REFLECT,
                                   "symmetric": native.SHOAL_PAD_SYMMETRIC, "edge": native.SHOAL_PAD_EDGE})


def pooling_code(value: str) -> int:
    """"max" or "avg"."""
    return _choice(value, "kind", {"max": native.SHOAL_POOL_MAX, "avg": native.SHOAL_POOL_AVG})


class Window:
    """How windows slide over images, or over sequences by the first number of each pair."""

    def __init__(self, size: Sequence[int] = (0, 0), stride: Sequence[int] = (1, 1), dilation: Sequence[int] = (1, 1),
                 groups: int = 1, padding: str = "valid", before: Sequence[int] = (0, 0), after: Sequence[int] = (0, 0),
                 output: Sequence[int] = (0, 0)) -> None:
        self.struct = native.shoal_window(groups=groups, padding=padding_code(padding))
        for name, pair in (("size", size), ("stride", stride), ("dilation", dilation), ("before", before), ("after", after),
                           ("output", output)):
            getattr(self.struct, name)[:] = tuple(pair)


def window_struct(window: Optional[Window]) -> Any:
    """None: the usual one."""
    return (window or Window()).struct


class _Weights:
    """Values and switches by the names of the library's struct."""
    kind: Any

    def __init__(self, **fields: Any) -> None:
        known = [name for name, _ in self.kind._fields_ if name != "reserved"]
        for name in fields:
            if name not in known:
                raise TypeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(known)}")
        self.fields = fields

    def struct(self, g: Graph) -> Any:
        out = self.kind()
        for name, value in self.fields.items():
            setattr(out, name, value if isinstance(value, bool) else g.operand(value, None))
        return out


class Recurrent(_Weights):
    """Weights of a recurrent layer: w, u, bias, inner_bias, state, cell, mask; reverse and relu are switches."""
    kind = native.shoal_recurrent


class AttentionWeights(_Weights):
    """Weights of attention by several heads: q, k, v, out, and their biases."""
    kind = native.shoal_attention_weights


def recurrent_struct(g: Graph, r: Recurrent) -> Any:
    """For the library."""
    return r.struct(g)


def attention_weights_struct(g: Graph, w: AttentionWeights) -> Any:
    """For the library."""
    return w.struct(g)


# ---- sources and state


def placeholder(name: str, dtype: DType = "f32", shape: Shape = ()) -> Value:
    """What a run is fed with. None: a size that may differ from run to run."""
    g = current()
    return g.made(lib.shoal_placeholder(g.handle, name.encode(), dtype_code(dtype), shape_struct(shape)), name)


def placeholder_ragged(name: str, dtype: DType, offsets: Value) -> Value:
    """One element for each entry of rows of different lengths, whose offsets are another placeholder."""
    g = offsets.graph
    return g.made(lib.shoal_placeholder_ragged(g.handle, name.encode(), dtype_code(dtype), offsets.handle), name)


def constant(value: Any, dtype: Optional[DType] = None) -> Value:
    """A copy of it; Python's numbers are float32 or int64 unless a type is given."""
    g = current()
    if dtype is None:
        return Value(g, g.operand(value, None) or 0)
    name = NAMES[dtype_code(dtype)]
    array = np.array(value, name, order="C")
    return g.made(lib.shoal_constant(g.handle, tensor(array)), "constant")


def variable(name: str, initial: Operand) -> Value:
    """State that stays from run to run, and starts as `initial`."""
    g, like = graph_of(initial)
    return g.made(lib.shoal_variable(g.handle, name.encode(), g.operand(initial, like)), name)


def group(*values: Value) -> Value:
    """Running it runs all of them."""
    g, like = graph_of(*values)
    return g.made(lib.shoal_group(g.handle, g.operands(values, like), len(values)), "group")


def split_sizes(x: Value, sizes: Sequence[int], axis: int = 0) -> list[Value]:
    """Pieces of these sizes, one after the other along the axis."""
    g, out = x.graph, (ctypes.c_void_p * len(sizes))()
    lib.shoal_split_sizes(g.handle, x.handle, (ctypes.c_int64 * len(sizes))(*sizes), len(sizes), axis, out)
    return [g.made(piece, "split_sizes") for piece in out]


class Gradient:
    """Of something gathered: row-sparse, values[i] belongs to row indices[i]."""

    def __init__(self, values: Value, indices: Value) -> None:
        self.values, self.indices = values, indices


def gradients(y: Value, x: Sequence[Value]) -> list[Any]:
    """d sum(y) / d x for each x: a value, a Gradient where it is row-sparse, or None where y does not depend on it."""
    g, out = y.graph, (native.shoal_gradient * len(x))()
    lib.shoal_gradients(g.handle, y.handle, g.operands(x, None), len(x), out)
    found: list[Any] = []
    for one in out:
        value = Value(g, one.value) if one.value else None
        found.append(Gradient(value, Value(g, one.indices)) if value is not None and one.indices else value)
    return found


def minimize(loss: Value, variables: Sequence[Value], optimizer: Any = "sgd", rate: Optional[Operand] = None) -> Value:
    """One update of all variables against the loss; running the value does it."""
    from . import optimizers

    g, chosen, out = loss.graph, optimizers.get(optimizer), ctypes.c_void_p()
    own = chosen.learning_rate
    if isinstance(own, optimizers.Schedule):
        raise ValueError("a schedule cannot be part of a graph: feed its rate as `rate`")
    usual: float = own if own is not None else lib.shoal_optimizer_rate(chosen.name.encode())
    lib.shoal_minimize(g.handle, chosen.struct(), loss.handle, g.operands(variables, None), len(variables),
                       g.operand(usual if rate is None else rate, loss), ctypes.byref(out))
    return Value(g, out.value or 0)


class Accumulator:
    """Adds up gradients of one type and shape, and gives their mean."""

    def __init__(self, name: str, dtype: DType, shape: Shape) -> None:
        self.graph = current()
        self.struct = lib.shoal_accumulator_make(self.graph.handle, name.encode(), dtype_code(dtype), shape_struct(shape))
        self.graph.made(self.struct.control, name)

    def add(self, gradient: Value, step: Operand) -> Value:
        """One that was computed with the parameters of `step`; earlier ones than the accumulator's are dropped."""
        g = self.graph
        at = step if isinstance(step, Value) else constant(step, "i64")
        return g.made(lib.shoal_accumulate(g.handle, self.struct, gradient.handle, at.handle), "accumulate")

    def take(self, least: int = 1) -> Value:
        """The mean of what it holds, which must be `least` gradients or more."""
        return self.graph.made(lib.shoal_accumulator_take(self.graph.handle, self.struct, least), "take")

    @property
    def step(self) -> Value:
        """Its step before the run."""
        return self.graph.made(lib.shoal_accumulator_step(self.graph.handle, self.struct), "step")


class Queue:
    """First in, first out; room for `capacity` items of one type and shape."""

    def __init__(self, name: str, dtype: DType, shape: Shape, capacity: int) -> None:
        self.graph = current()
        self.struct = lib.shoal_queue_make(self.graph.handle, name.encode(), dtype_code(dtype), shape_struct(shape), capacity)
        self.graph.made(self.struct.control, name)

    def enqueue(self, item: Operand) -> Value:
        """Fails when it is full or closed."""
        g = self.graph
        return g.made(lib.shoal_enqueue(g.handle, self.struct, g.operand(item, None)), "enqueue")

    def dequeue(self) -> Value:
        """The oldest item; fails when there is none."""
        return self.graph.made(lib.shoal_dequeue(self.graph.handle, self.struct), "dequeue")

    def close(self) -> Value:
        """Nothing can be put into it any more."""
        return self.graph.made(lib.shoal_queue_close(self.graph.handle, self.struct), "close")

    @property
    def size(self) -> Value:
        """Items in it before the run."""
        return self.graph.made(lib.shoal_queue_size(self.graph.handle, self.struct), "size")


Body = Callable[..., Any]


class _Inner(Graph):
    """The graph inside a branch or a loop, which is the library's."""

    def __init__(self, handle: int) -> None:
        self.handle = handle


def _function(body: Body, errors: list[BaseException]) -> Any:
    def call(g: int, given: Any, n: int, out: Any, n_out: int, context: Any) -> None:
        try:
            with _Inner(g) as inner:
                results = body(*[Value(inner, given[i]) for i in range(n)])
                results = list(results) if isinstance(results, (list, tuple)) else [results]
                if len(results) != n_out:
                    raise ValueError(f"{getattr(body, '__name__', 'a branch')} gives {len(results)} values; expected {n_out}")
                for i, value in enumerate(results):
                    out[i] = inner.operand(value, None)
        except BaseException as error:
            errors.append(error)
    return native.shoal_function(call)


def _outputs(first: Optional[int], n: int, g: Graph, errors: list[BaseException], what: str) -> list[Value]:
    if errors:
        with contextlib.suppress(Exception):
            lib.shoal_graph_take_status(g.handle)
        raise errors[0]
    value = g.made(first, what)
    return [value.output(i) for i in range(n)]


def cond(which: Value, yes: Body, no: Body, inputs: Sequence[Operand] = (), outputs: int = 1) -> list[Value]:
    """One of two branches, functions of the inputs that give so many values of the same types and shapes."""
    g = which.graph
    errors: list[BaseException] = []
    functions = _function(yes, errors), _function(no, errors)
    made = lib.shoal_cond(g.handle, which.handle, g.operands(inputs, None), len(inputs), *functions, outputs, None)
    return _outputs(made, outputs, g, errors, "cond")


def while_loop(condition: Body, body: Body, variables: Sequence[Operand], fixed: Sequence[Operand] = (),
               most: int = 1 << 20) -> list[Value]:
    """As long as condition(*variables, *fixed) holds, the variables become body(*variables, *fixed): at most so often."""
    g, like = graph_of(*variables, *fixed)
    errors: list[BaseException] = []
    made = lib.shoal_while(g.handle, g.operands(variables, like), len(variables), g.operands(fixed, like), len(fixed),
                           _function(condition, errors), _function(body, errors), most, None)
    return _outputs(made, len(variables), g, errors, "while")


# ---- running


def _tasks(tasks: Mapping[str, str]) -> Any:
    return (native.shoal_task * max(len(tasks), 1))(*[native.shoal_task(n.encode(), a.encode()) for n, a in tasks.items()])


class Servers:
    """Graph servers on this machine, as copies of this process: Servers(ps=1, workers=2). Make them before threads."""

    def __init__(self, ps: int = 0, workers: int = 1, threads: int = 0, tcp: bool = False) -> None:
        out = ctypes.c_void_p()
        lib.shoal_graph_servers_start(native.shoal_local_servers_options(
            size=ctypes.sizeof(native.shoal_local_servers_options), ps=ps, workers=workers, threads=threads, tcp=tcp),
            ctypes.byref(out))
        self.handle = out.value
        self._finalizer = weakref.finalize(self, lib.shoal_graph_servers_destroy, out.value)

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *error: object) -> None:
        self._finalizer()


def serve_graph(address: str, *, job: int = 0, threads: int = 0, keys: Optional[str] = None, insecure: bool = False,
                stop: Any = None) -> None:
    """Serves as a graph server until it is stopped; address: "tcp://HOST:PORT"."""
    lib.shoal_server_run(native.shoal_server_options(
        size=ctypes.sizeof(native.shoal_server_options), address=address.encode(), job=job, threads=threads,
        keys=keys.encode() if keys else None, insecure=insecure, stop=stop))


class Session:
    """Holds the variables of a graph and runs parts of it: here, or on the tasks of `over` (Servers, a Cluster whose tasks are
    graph servers, or {"/job:worker/task:0": "tcp://a:2222"})."""

    def __init__(self, graph: Optional[Graph] = None, *, threads: int = 0, seed: int = 0,
                 over: "Union[Servers, Cluster, Mapping[str, str], None]" = None, keys: Optional[str] = None,
                 insecure: bool = False, fusion: bool = True) -> None:
        self.graph, self.over = graph or current(), over
        lib.shoal_graph_status(self.graph.handle)
        out = ctypes.c_void_p()
        if over is None:
            lib.shoal_session_create(self.graph.handle, native.shoal_session_options(
                size=ctypes.sizeof(native.shoal_session_options), threads=threads, seed=seed, no_fusion=not fusion),
                ctypes.byref(out))
        else:
            o = native.shoal_cluster_options(size=ctypes.sizeof(native.shoal_cluster_options), seed=seed, threads=threads,
                                             no_fusion=not fusion, keys=keys.encode() if keys else None, insecure=insecure)
            self._connect(over, o)
            lib.shoal_session_connect(self.graph.handle, o, ctypes.byref(out))
        assert out.value is not None
        self.handle = out.value
        self._finalizer = weakref.finalize(self, _destroy_session, out.value, os.getpid(), self.graph)
        guard(self, self.handle, new=True)

    def _connect(self, over: "Union[Servers, Cluster, Mapping[str, str]]", o: Any) -> None:
        if isinstance(over, Servers):
            lib.shoal_graph_servers_fill(over.handle, o)
            return
        if isinstance(over, Cluster):
            o.job = lib.shoal_cluster_id(over.handle)
            parts = {name: name.split(":") for name in over.tasks}
            over = {f"/job:{parts[name][0]}/task:{parts[name][1]}": f"tcp://{address}" for name, address in over.tasks.items()}
        self._names = _tasks(over)
        o.tasks, o.n_tasks = self._names, len(over)

    def run(self, fetches: "Union[Value, Sequence[Value]]", feeds: Optional[Mapping[Value, Any]] = None) -> Any:
        """Runs what the fetches need, once, and returns copies of them: one array, or a list as long as the fetches."""
        one = isinstance(fetches, Value)
        wanted: Sequence[Value] = [fetches] if isinstance(fetches, Value) else list(fetches)
        guard(self, self.handle)
        given = (native.shoal_feed * max(len(feeds or ()), 1))()
        keep = []
        for i, (value, data) in enumerate((feeds or {}).items()):
            array = np.asarray(data, value.dtype)
            array = np.ascontiguousarray(array) if array.ndim else array
            keep.append(array)
            given[i].value, given[i].tensor = value.handle, tensor(array)
        out = (native.shoal_tensor * max(len(wanted), 1))()
        status = _run(self.handle, given, len(feeds or ()), self.graph.operands(wanted, None), len(wanted), out)
        if status:
            if isinstance(self.over, Servers):
                lib.shoal_graph_servers_explain(self.over.handle, status)
            raise_status(status)
        results = [view(out[i]).copy() for i in range(len(wanted))]
        return results[0] if one else results

    def variable(self, v: Value) -> Array:
        """A view of its memory, which can be written to; not over a cluster."""
        out = native.shoal_tensor()
        lib.shoal_session_variable(self.handle, v.handle, out)
        return view(out)

    @property
    def step(self) -> int:
        """Runs so far: random operators draw new numbers each time. Settable."""
        return int(lib.shoal_session_step(self.handle))

    @step.setter
    def step(self, value: int) -> None:
        lib.shoal_session_set_step(self.handle, value)

    @contextlib.contextmanager
    def trace(self, path: "str | os.PathLike[str]") -> Iterator[None]:
        """What runs inside do, and when, as a file for Perfetto, chrome://tracing or `shoal trace`."""
        lib.shoal_session_trace_begin(self.handle)
        yield
        lib.shoal_session_trace_end(self.handle, os.fsencode(path))

    def statistics(self) -> dict[str, int]:
        """What runs over a cluster have sent."""
        out = native.shoal_cluster_stats()
        lib.shoal_session_stats(self.handle, out)
        return {field[0]: getattr(out, field[0]) for field in out._fields_ if field[0] != "reserved"}

    def close(self) -> None:
        """Frees it with its variables."""
        self._finalizer()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _destroy_session(handle: int, process: int, keep: Graph) -> None:
    if os.getpid() == process:
        lib.shoal_session_destroy(handle)


# The same function without the check: over servers of this machine the error may be theirs to explain.
_run = lib["shoal_session_run"]
_run.restype, _run.argtypes = ctypes.c_void_p, lib.shoal_session_run.argtypes

from . import ops  # noqa: E402  operators are made of what is above
