"""How the work of fit is spread: fit(..., strategy=ParameterServer(workers=3, servers=1, mode="async"))."""
from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Iterator, Optional

from . import native
from .cluster import Cluster
from .native import lib


class Strategy:
    """Made anew for each training."""

    def create(self, out: Any) -> None:
        """The library's strategy."""
        raise NotImplementedError

    @contextlib.contextmanager
    def using(self) -> Iterator[int]:
        """It, for one training."""
        out = ctypes.c_void_p()
        self.create(ctypes.byref(out))
        assert out.value is not None
        try:
            yield out.value
        finally:
            lib.shoal_strategy_destroy(out.value)


class ParameterServer(Strategy):
    """Workers compute gradients, servers hold the parameters.

    Without a cluster, servers and the other workers are copies of this process for as long as the training takes, and this
    process is worker 0. mode: "sync", one step of all workers together; "async", each gradient when it arrives; staleness: of
    async, how many steps a worker may be ahead of the slowest. deadline: seconds without an answer after which a task counts
    as dead. keys: a folder of keys, needed beyond this machine. cache_rows: of async and models with a table, how many rows of
    it each worker keeps; cache_staleness: for how many of its steps, usually 1.
    """

    def __init__(self, workers: int = 1, servers: int = 1, mode: str = "sync", *, staleness: Optional[int] = None,
                 in_flight: int = 1, backup_workers: int = 0, deterministic: bool = False, deadline: float = 0,
                 heartbeat: float = 0, cluster: Optional[Cluster] = None, keys: Optional[str] = None,
                 insecure: bool = False, cache_rows: int = 0, cache_staleness: int = 0) -> None:
        if mode not in ("sync", "async"):
            raise ValueError(f'mode must be "sync" or "async", not {mode!r}')
        self.workers, self.servers, self.cluster = workers, servers, cluster
        self.options = native.shoal_ps_options(
            size=ctypes.sizeof(native.shoal_ps_options), mode=mode.encode(), bounded=staleness is not None,
            staleness=staleness or 0, in_flight=in_flight, backup_workers=backup_workers, deterministic=deterministic,
            deadline=deadline, heartbeat=heartbeat, keys=keys.encode() if keys else None, insecure=insecure,
            cache_rows=cache_rows, cache_staleness=cache_staleness)

    def create(self, out: Any) -> None:
        if self.cluster is not None:
            lib.shoal_strategy_create_ps(self.cluster.handle, self.options, out)
        else:
            lib.shoal_strategy_create_local_ps(self.workers, self.servers, self.options, out)


def serve_parameters(cluster: Cluster, *, deadline: float = 0, heartbeat: float = 0, keys: Optional[str] = None,
                     insecure: bool = False, stop: Any = None) -> None:
    """Serves parameters as the task of the cluster that this process is, until the training ends."""
    lib.shoal_serve_parameters(cluster.handle, native.shoal_ps_options(
        size=ctypes.sizeof(native.shoal_ps_options), deadline=deadline, heartbeat=heartbeat,
        keys=keys.encode() if keys else None, insecure=insecure), stop)


class Mirrored(Strategy):
    """One replica a thread of this process: the workers cut each batch among them."""

    def __init__(self, workers: int, deterministic: bool = False) -> None:
        self.workers = workers
        self.options = native.shoal_replica_options(size=ctypes.sizeof(native.shoal_replica_options), deterministic=deterministic)

    def create(self, out: Any) -> None:
        lib.shoal_strategy_create_mirrored(self.workers, self.options, out)


class AllReduce(Strategy):
    """One process a replica: joins the workers of a cluster without ps, or the ranks that mpirun or srun has started (those
    once a process). wire: how gradients travel, "f32", "bf16", "int8" or "topk"; compress: "powersgd", or "auto" to have the
    fastest chosen; local_steps: steps that each worker makes by itself between two exchanges (DiLoCo: outer_momentum 0.9)."""

    def __init__(self, deterministic: bool = False, bf16: bool = False, check_every: int = 0, deadline: float = 0, *,
                 cluster: Optional[Cluster] = None, keys: Optional[str] = None, insecure: bool = False,
                 wire: Optional[str] = None, compress: Optional[str] = None, compress_rank: int = 0, local_steps: int = 0,
                 outer_lr: float = 0, outer_momentum: float = 0, seed: int = 0) -> None:
        self.cluster = cluster  # is read when the strategy is made
        self.options = native.shoal_replica_options(size=ctypes.sizeof(native.shoal_replica_options), deterministic=deterministic,
                                                    bf16=bf16, check_every=check_every, deadline=deadline,
                                                    cluster=cluster.handle if cluster else None,
                                                    keys=keys.encode() if keys else None, insecure=insecure,
                                                    wire=wire.encode() if wire else None,
                                                    compress=compress.encode() if compress else None,
                                                    compress_rank=compress_rank, local_steps=local_steps, outer_lr=outer_lr,
                                                    outer_momentum=outer_momentum, seed=seed)

    def create(self, out: Any) -> None:
        lib.shoal_strategy_create_allreduce(self.options, out)
