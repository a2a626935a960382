"""Shoal trains models, on one processor, on all of them, or on a cluster.

    model = shoal.Sequential([shoal.Input((28, 28, 1)), shoal.layers.Flatten(), shoal.layers.Dense(10, "softmax")])
    model.compile("sgd", metrics=["accuracy"])
    model.fit(x, y, epochs=2)

shoal.layers, shoal.optimizers, shoal.callbacks: what models are made of, how they learn, who is told. shoal.data: rows in
files. shoal.Graph, shoal.ops, shoal.Session: graphs of operators. shoal.train: whole jobs, as the command runs them.
"""
from __future__ import annotations

import importlib
from typing import Any

from . import callbacks, data, errors, layers, native, ops, optimizers
from .cluster import Cluster, make_keys
from .errors import (
                     ArgumentError,
                     CancelledError,
                     Error,
                     InputError,
                     InternalError,
                     MachineError,
                     NumericError,
                     PeerError,
                     RefusedError,
                     ReportedError,
)
from .exchange import Network
from .fitted import Fitted
from .graph import (
                     Accumulator,
                     AttentionWeights,
                     Graph,
                     Queue,
                     Recurrent,
                     Servers,
                     Session,
                     Value,
                     Window,
                     cond,
                     constant,
                     gradients,
                     group,
                     minimize,
                     placeholder,
                     placeholder_ragged,
                     serve_graph,
                     split_sizes,
                     variable,
                     while_loop,
)
from .history import History
from .layer import Input
from .models import Model, Sequential
from .native import lib
from .ops import assign, assign_add
from .runs import Run, list_runs, load, report, run, train
from .strategies import AllReduce, Mirrored, ParameterServer, serve_parameters

__version__: str = lib.shoal_version().decode()

__all__ = ["Accumulator", "AllReduce", "ArgumentError", "AttentionWeights", "CancelledError", "Cluster", "Error", "Fitted", "Graph", "History",
           "Input", "InputError", "InternalError", "MachineError", "Mirrored", "Model", "Network", "NumericError", "ParameterServer",
           "PeerError", "Queue", "Recurrent", "RefusedError", "ReportedError", "Run", "Sequential", "Servers", "Session", "Value",
           "Window", "assign", "assign_add", "callbacks", "cond", "constant", "data", "errors", "gradients", "group", "layers",
           "list_runs", "load", "make_keys", "minimize", "native", "ops", "optimizers", "placeholder", "placeholder_ragged", "report", "run",
           "serve_graph", "serve_parameters", "split_sizes", "train", "variable", "while_loop"]


def __getattr__(name: str) -> Any:
    """shoal.spark and its like are imported when they are asked for: they need packages of others."""
    if name in ("dask", "managers", "sklearn", "spark"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
