"""Rows: in memory, in files, from a function; what models are fitted to, tested on and asked about."""
from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Union

import numpy as np

from . import native, optimizers
from ._library import take_text
from .arrays import Array, features, labels, shape_tuple, targets, tensor, view
from .native import lib

Path = Union[str, "os.PathLike[str]"]


def is_sparse(x: Any) -> bool:
    """Whether it is a sparse matrix of SciPy."""
    return hasattr(x, "tocsr") and hasattr(x, "nnz")


# ---- data sets in memory


class Dataset:
    """Rows in memory that the library has read. x and y are views of them, not copies."""

    def __init__(self, pointer: Any) -> None:
        self.struct = pointer.contents
        self._finalizer = weakref.finalize(self, lib.shoal_dataset_destroy, pointer)

    def _array(self, t: Any) -> Array:
        if t.rows:  # fewer rows than lie in memory: which, is said by an index
            n = t.shape.dim[0]
            index = np.ctypeslib.as_array(t.rows, (n,))
            whole = native.shoal_tensor.from_buffer_copy(t)
            whole.shape.dim[0] = int(index.max()) + 1 if n else 0
            return np.asarray(view(whole)[index])
        return view(t, self)

    @property
    def x(self) -> Array:
        """[rows, ...] uint8 or float32"""
        return self._array(self.struct.features)

    @property
    def y(self) -> Array:
        """[rows] classes, or numbers to be predicted"""
        return self._array(self.struct.labels)

    @property
    def classes(self) -> int:
        """How many there are; 0: y are numbers."""
        return int(self.struct.classes)

    @property
    def class_names(self) -> Optional[list[str]]:
        """What they are called; None: they are numbers."""
        return optimizers.names(self.struct.class_names) if self.struct.class_names else None

    def __len__(self) -> int:
        return int(lib.shoal_dataset_rows(self.struct))

    def __repr__(self) -> str:
        return f"<Dataset of {len(self)} rows {shape_tuple(self.struct.features.shape)[1:]}, {self.classes or 'no'} classes>"


def load(name: Path, split: str = "train") -> Dataset:
    """A data set known by name, such as "mnist" (looked for in $SHOAL_DATA and ./data), or a folder of IDX files."""
    out = ctypes.POINTER(native.shoal_dataset)()
    lib.shoal_dataset_load(os.fsencode(name), split.encode(), ctypes.byref(out))
    return Dataset(out)


def names() -> list[str]:
    """Of the data sets that are known."""
    return optimizers.names(lib.shoal_dataset_names())


def formats() -> dict[str, str]:
    """Of files that are read: name and what it is."""
    found: dict[str, str] = {}
    row = native.shoal_data_format()
    while lib.shoal_data_format_at(len(found), row):
        found[row.name.decode()] = row.summary.decode()
    return found


def files_of(name: Path, split: str = "train") -> str:
    """The files of a split of a data set known by name, or of a folder: for Files."""
    out = ctypes.c_void_p()
    lib.shoal_dataset_files(os.fsencode(name), split.encode(), ctypes.byref(out))
    return take_text(out.value)


def generate_clicks(folder: Path, rows: int = 100000, *, features: int = 0, files: int = 0, seed: int = 1) -> dict[str, float]:
    """Rows shaped like the Criteo click log (33,762,578 features unless said otherwise), as TFRecord files tfrecords00, ... whose labels a
    hidden model decides. Returns what it reaches on those of the last file: test_log_loss, test_error and others."""
    truth = native.shoal_criteo_truth()
    lib.shoal_generate_criteo(native.shoal_criteo_options(size=ctypes.sizeof(native.shoal_criteo_options), out=os.fsencode(folder), rows=rows,
                                                          features=features, files=files, seed=seed), truth)
    return {name: float(getattr(truth, name)) for name, *_ in truth._fields_ if name != "reserved"}


def generate_images(folder: Path, rows: int = 1000, *, classes: int = 10, size: tuple[int, int, int] = (64, 64, 3), noise: float = 16.0,
                    seed: int = 1) -> None:
    """Labelled images of simple shapes: a folder of PNG files a class."""
    lib.shoal_generate_images(native.shoal_images_options(
        size=ctypes.sizeof(native.shoal_images_options), out=os.fsencode(folder), form=native.SHOAL_IMAGES_FOLDER, rows=rows, classes=classes,
        height=size[0], width=size[1], channels=size[2], noise=noise, seed=seed))


# ---- files


class Files:
    """Rows of files in any format that Shoal reads, one batch at a time: a file, a folder, a glob, or a list of those.

    features: of sparse rows, the size of the feature space. columns: CSV, which column is what. transform: done to each
    row, e.g. "resize=28x28,gray". shuffle_rows: rows mixed with each other. Iterating gives (x, y) for each batch: copies.
    """

    def __init__(self, files: Union[Path, Sequence[Path]], *, format: Optional[str] = None, features: int = 0, classes: int = 0,
                 columns: Optional[str] = None, fields: Optional[str] = None, transform: Optional[str] = None,
                 shuffle_rows: int = 10000, seed: int = 1, batch_size: int = 32, skip_bad_rows: bool = False,
                 preprocessing: Optional[str] = None, threads: int = 0, shard: int = 0, shards: int = 0) -> None:
        several = isinstance(files, (list, tuple))
        self.files = ",".join(os.fspath(f) for f in files) if several else os.fspath(files)  # type: ignore[union-attr,arg-type]
        self.texts = {"format": format, "columns": columns, "fields": fields, "transform": transform,
                      "preprocessing": preprocessing}
        self.numbers = {"features": features, "classes": classes, "shuffle_rows": shuffle_rows, "seed": seed,
                        "batch_size": batch_size, "skip_bad_rows": skip_bad_rows, "threads": threads, "shard": shard,
                        "shards": shards}

    def options(self, **more: Any) -> Any:
        """For the library."""
        o = native.shoal_pipeline_options(size=ctypes.sizeof(native.shoal_pipeline_options), files=os.fsencode(self.files))
        for name, value in self.texts.items():
            setattr(o, name, None if value is None else value.encode())
        for name, value in {**self.numbers, **more}.items():
            setattr(o, name, value)
        return o

    def __iter__(self) -> Iterator[tuple[Any, Array]]:
        return Batches(self.options(epochs=1))

    def read(self, limit: int = 0) -> Dataset:
        """All dense rows into memory; limit: bytes, above which it is a MemoryError."""
        out = ctypes.POINTER(native.shoal_dataset)()
        lib.shoal_dataset_read(self.options(), limit, ctypes.byref(out))
        if not out:
            raise MemoryError(f"{self.files}: the rows take more than {limit} bytes")
        return Dataset(out)

    def first(self) -> tuple[Any, Array]:
        """The first batch."""
        for batch in Batches(self.options(epochs=1, shuffle_rows=0, prefetch=1)):
            return batch
        raise ValueError(f"{self.files}: there are no rows")

    def count(self) -> dict[str, Any]:
        """Goes through all rows once and tells what they are."""
        out = ctypes.POINTER(native.shoal_data_summary)()
        lib.shoal_data_inspect(self.options(), 0, native.shoal_rows_progress(), None, ctypes.byref(out))
        s = out.contents
        found = {"format": s.format.decode(), "rows": s.rows, "bad_rows": s.bad_rows, "classes": s.classes,
                 "sparse": s.kind == native.SHOAL_ROWS_SPARSE, "features": s.features, "shape": shape_tuple(s.shape),
                 "index_max": s.index_max, "seconds": s.seconds}
        lib.shoal_data_summary_destroy(out)
        return found

    def __repr__(self) -> str:
        return f"Files({self.files!r})"


class Batches(Iterator["tuple[Any, Array]"]):
    """(x, y) for each batch of a pipeline; sparse rows as SciPy's CSR where SciPy is there, else (offsets, indices, values)."""

    def __init__(self, options: Any) -> None:
        out = ctypes.c_void_p()
        lib.shoal_pipeline_create(options, ctypes.byref(out))
        self.handle, self.options = out.value or 0, options
        self._finalizer = weakref.finalize(self, _close_pipeline, self.handle, os.getpid())

    def __next__(self) -> tuple[Any, Array]:
        out = ctypes.POINTER(native.shoal_batch)()
        lib.shoal_pipeline_next(self.handle, ctypes.byref(out))
        if not out:
            raise StopIteration
        b = out.contents
        y = view(b.targets if b.targets.data else b.labels).copy()
        if not b.offsets.data:
            return view(b.features).copy(), y
        offsets, indices, values = view(b.offsets).copy(), view(b.indices).copy(), view(b.values).copy()
        try:
            from scipy.sparse import csr_matrix
        except ImportError:
            return (offsets, indices, values), y
        width = int(self.options.features) or (int(indices.max()) + 1 if len(indices) else 1)
        return csr_matrix((values, indices, offsets), shape=(len(y), width)), y


def _close_pipeline(handle: int, process: int) -> None:
    if os.getpid() == process:
        lib.shoal_pipeline_destroy(handle)


# ---- what fit, evaluate and predict are given


class Rows:
    """Rows as the library takes them: a data set in memory, or what a pipeline reads."""
    sparse = False
    count = 0                                # 0: not known

    def __enter__(self) -> "Rows":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def shape(self) -> tuple[int, ...]:
        """Of one example."""
        raise NotImplementedError

    def classes(self) -> int:
        """How many there are; 0: not known."""
        return 0

    def dataset(self, model: int) -> Any:
        """None: it is a stream."""
        return None

    def stream(self, fit: bool = False) -> Any:
        """None: it is a data set."""
        return None

    def weigh(self, sample_weight: Any) -> None:
        """What each row counts in the loss of training."""
        raise ValueError("sample_weight is for arrays: batches of a function may be (x, y, weights), and of files a column says it, "
                         "Files(..., columns=\"weight=NAME\")")

    def _weights(self, sample_weight: Any) -> Any:
        array = targets(sample_weight, "sample_weight")
        if array.shape != (self.count,):
            raise ValueError(f"sample_weight has the shape {array.shape}, but there are {self.count} rows")
        return tensor(array)


class ArrayRows(Rows):
    """Arrays of NumPy, or a data set of the library."""

    def __init__(self, x: Any, y: Any, x_name: str, y_name: str) -> None:
        self.y, self.y_name, self.names, self.preprocessing = y, y_name, None, None
        self.keep = x
        if isinstance(x, Dataset):
            s = x.struct
            self.features, self.labels = s.features, s.labels
            self.names, self.preprocessing = s.class_names, s.preprocessing
        else:
            if y is None:
                raise ValueError(f"{y_name} is missing: what the rows of {x_name} are labelled with")
            self.features, self.labels = tensor(features(x, x_name)), None
        self.count = int(self.features.shape.dim[0])
        self.weights = x.struct.weights if isinstance(x, Dataset) else None

    def weigh(self, sample_weight: Any) -> None:
        self.weights = self._weights(sample_weight)

    def shape(self) -> tuple[int, ...]:
        return shape_tuple(self.features.shape)[1:] or (1,)

    def classes(self) -> int:
        if isinstance(self.keep, Dataset):
            return self.keep.classes
        return int(labels(self.y, self.y_name).max(initial=0)) + 1

    def dataset(self, model: int) -> Any:
        classes = int(lib.shoal_model_classes(model))
        out = native.shoal_dataset(classes=classes, class_names=self.names, preprocessing=self.preprocessing)
        out.features, y = self.features, self.labels
        input_shape = shape_tuple(lib.shoal_model_input(model))
        have = shape_tuple(self.features.shape)
        if have[1:] != input_shape and int(np.prod(have[1:])) == int(np.prod(input_shape)):
            out.features.shape.rank = 1 + len(input_shape)
            out.features.shape.dim[1:1 + len(input_shape)] = input_shape
        if y is None:
            array = labels(self.y, self.y_name) if classes else targets(self.y, self.y_name)
            if len(array) != self.count:
                raise ValueError(f"{self.y_name} has {len(array)} rows, but there are {self.count} examples")
            y = tensor(array)
        out.labels = y
        if self.weights is not None:
            out.weights = self.weights
        out.keep = (self.features, y, self.weights, self)
        return out


class FileRows(Rows):
    """Files."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._first: Any = None

    def first(self) -> Any:
        self._first = self._first or self.files.first()
        return self._first

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        x, _ = self.first()
        return is_sparse(x) or isinstance(x, tuple)

    def shape(self) -> tuple[int, ...]:
        x, _ = self.first()
        if not self.sparse:
            return tuple(x.shape[1:])
        if not self.files.numbers["features"]:
            raise ValueError("of sparse rows the number of features must be known: Files(..., features=N), or Input(N, sparse=True)")
        return (int(self.files.numbers["features"]),)

    def stream(self, fit: bool = False) -> Any:
        return ctypes.pointer(self.files.options()) if fit else self.files.options()


class SparseRows(Rows):
    """A sparse matrix: CSR of float32 with 32-bit indices is read where it is; others are converted first."""
    sparse = True

    def __init__(self, x: Any, y: Any, x_name: str, y_name: str) -> None:
        csr = x.tocsr()
        if not csr.has_sorted_indices or not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        if csr.shape[1] > 2 ** 31 - 1:
            raise ValueError(f"{x_name} has {csr.shape[1]} columns; at most {2 ** 31 - 1} are possible")
        self.width, self.count = int(csr.shape[1]), int(csr.shape[0])
        self.parts = (np.ascontiguousarray(csr.indptr, np.int64), np.ascontiguousarray(csr.indices, np.int32),
                      np.ascontiguousarray(csr.data, np.float32))
        self.batch = native.shoal_batch(count=self.count, scale=1.0)
        self.batch.offsets, self.batch.indices, self.batch.values = (tensor(p) for p in self.parts)
        self.labelled = y is not None
        if y is not None:
            self.labels = np.ascontiguousarray(labels(y, y_name), np.int32)
            if len(self.labels) != self.count:
                raise ValueError(f"{y_name} has {len(self.labels)} rows, but {x_name} {self.count}")
            self.batch.labels = tensor(self.labels)
        self.source = native.shoal_row_source(rows=ctypes.pointer(self.batch))

    def weigh(self, sample_weight: Any) -> None:
        self.weights = self._weights(sample_weight)
        self.batch.weights = self.weights

    def shape(self) -> tuple[int, ...]:
        return (self.width,)

    def stream(self, fit: bool = False) -> Any:
        o = native.shoal_pipeline_options(size=ctypes.sizeof(native.shoal_pipeline_options), source=ctypes.pointer(self.source),
                                          features=self.width, shuffle_rows=max(1, min(self.count, 1 << 20)),
                                          labels_optional=not self.labelled)
        return ctypes.pointer(o) if fit else o


class FunctionRows(Rows):
    """Batches (x, y), or (x, y, weights of the rows), of a function that returns an iterator, or of something that can be iterated
    again and again."""

    def __init__(self, make: Any, pack: Callable[[Any, str], Any]) -> None:
        self.pack = pack
        if isinstance(make, Iterator):
            batches = _Kept(make)
            make = batches
        self.make: Callable[[], Iterable[Any]] = make if callable(make) else lambda: make
        self.iterator: Any = iter(self.make())
        self.error: Optional[BaseException] = None
        self.held: Any = None
        self.source = native.shoal_row_source()
        self.source.next = type(self.source.next)(self._next)
        self.source.rewind = type(self.source.rewind)(self._rewind)

    def __exit__(self, *error: object) -> None:
        if self.error:
            raise self.error

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        return is_sparse(self._first()[0])

    def _first(self) -> Any:
        for batch in self.make():
            return self.pack(batch[0], "x"), batch[1]
        raise ValueError("x gives no batches")

    def shape(self) -> tuple[int, ...]:
        return tuple(self._first()[0].shape[1:])

    def _fill(self, x: Any, y: Any, out: Any) -> None:
        if is_sparse(x):
            rows = SparseRows(x, y, "x", "y")
            out.offsets, out.indices, out.values, out.labels = (rows.batch.offsets, rows.batch.indices, rows.batch.values,
                                                                rows.batch.labels)
            out.count, self.held = rows.count, rows
            return
        array = features(x, "x")
        numbers = np.asarray(y)
        real = numbers.dtype.kind == "f"
        y_array = targets(y, "y") if real else np.ascontiguousarray(labels(y, "y"), np.int32)
        out.count, out.features, self.held = len(array), tensor(array), (array, y_array)
        if real:
            out.targets = tensor(y_array)
        else:
            out.labels = tensor(y_array)

    def _guarded(self, do: Callable[[], None]) -> Optional[int]:
        try:
            do()
        except BaseException as error:
            self.error = error
            made: Optional[int] = lib.shoal_status_make(native.SHOAL_ERR_INPUT, b"%s", str(error).encode())
            return made
        return None

    def _next(self, context: Any, out: Any) -> Optional[int]:
        def do() -> None:
            batch = next(self.iterator, None)
            if batch is not None:
                self._fill(self.pack(batch[0], "x"), batch[1], out.contents)
                if len(batch) > 2:
                    out.contents.weights = self.weights = tensor(targets(batch[2], "weights"))
        return self._guarded(do)

    def _rewind(self, context: Any) -> Optional[int]:
        def do() -> None:
            self.iterator = iter(self.make())
        return self._guarded(do)

    def stream(self, fit: bool = False) -> Any:
        o = native.shoal_pipeline_options(size=ctypes.sizeof(native.shoal_pipeline_options), source=ctypes.pointer(self.source))
        return ctypes.pointer(o) if fit else o


class _Kept:
    """A generator that can be gone through again: its batches are kept."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self.iterator = iterator
        self.batches: list[Any] = []

    def __call__(self) -> Iterator[Any]:
        at = 0
        while True:
            if at == len(self.batches):
                batch = next(self.iterator, None)
                if batch is None:
                    return
                self.batches.append(batch)
            yield self.batches[at]
            at += 1


class _NoRows(Rows):
    def __enter__(self) -> Any:
        return None


def rows_of(x: Any, y: Any, x_name: str, y_name: str, pack: Callable[[Any, str], Any]) -> Rows:
    """Whatever it is. pack: makes one array of the arrays of several inputs."""
    if x is None:
        return _NoRows()
    x = pack(x, x_name)
    if isinstance(x, Files):
        return FileRows(x)
    if is_sparse(x):
        return SparseRows(x, y, x_name, y_name)
    if isinstance(x, (Dataset, np.ndarray)) or y is not None:
        return ArrayRows(x, y, x_name, y_name)
    if callable(x) or isinstance(x, Iterator) or (hasattr(x, "__iter__") and not isinstance(x, (list, tuple))):
        return FunctionRows(x, pack)
    return ArrayRows(x, y, x_name, y_name)
