"""Who takes part in a training or a session over several machines."""
from __future__ import annotations

import ctypes
import json
import os
import weakref
from typing import Mapping, Optional, Sequence

from . import native
from .native import lib

ROLES = {"chief": native.SHOAL_CHIEF, "worker": native.SHOAL_WORKER, "ps": native.SHOAL_PS, "evaluator": native.SHOAL_EVALUATOR}


class Cluster:
    """Addresses of all tasks, and which of them this process is: Cluster({"worker": ["a:2222", "b:2222"], "ps": ["c:2222"]},
    "worker:1"). Without arguments: what TF_CONFIG or Slurm says."""

    def __init__(self, tasks: Optional[Mapping[str, Sequence[str]]] = None, task: Optional[str] = None, *,
                 path: "Optional[str | os.PathLike[str]]" = None, servers: int = 1) -> None:
        out = ctypes.c_void_p()
        word = task.encode() if task else None
        if tasks is not None:
            lib.shoal_cluster_parse(json.dumps(dict(tasks)).encode(), word, ctypes.byref(out))
        else:
            lib.shoal_cluster_find(os.fsencode(path) if path else None, word, servers, ctypes.byref(out))
        if out.value is None:
            raise ValueError("no cluster is described: give its tasks, a path, or set TF_CONFIG")
        self.handle = out.value
        self._finalizer = weakref.finalize(self, lib.shoal_cluster_destroy, out.value)

    @property
    def role(self) -> str:
        """Of this process."""
        number = lib.shoal_cluster_role(self.handle)
        return next(name for name, value in ROLES.items() if value == number)

    @property
    def index(self) -> int:
        """Of this process in its role."""
        return int(lib.shoal_cluster_index(self.handle))

    def count(self, role: str) -> int:
        """How many tasks have that role."""
        return int(lib.shoal_cluster_count(self.handle, ROLES[role]))

    @property
    def tasks(self) -> dict[str, str]:
        """Names and addresses of all."""
        name = ctypes.create_string_buffer(native.SHOAL_TASK_NAME)
        found = {}
        for i in range(lib.shoal_cluster_tasks(self.handle)):
            lib.shoal_cluster_task_name(self.handle, i, name)
            found[name.value.decode()] = lib.shoal_cluster_task_address(self.handle, i).decode()
        return found

    def probe(self, *, keys: Optional[str] = None, insecure: bool = False, seconds: float = 0) -> list[str]:
        """Whether the tasks reach each other, each of which calls this at the same time: what is wrong; empty: nothing."""
        out = ctypes.POINTER(native.shoal_probe)()
        options = native.shoal_probe_options(size=ctypes.sizeof(native.shoal_probe_options), insecure=insecure, seconds=seconds,
                                             keys=keys.encode() if keys else None)
        lib.shoal_cluster_probe(self.handle, options, ctypes.byref(out))
        problems = [out.contents.problems[i].decode() for i in range(out.contents.n_problems)]
        lib.shoal_probe_destroy(out)
        return problems

    def __repr__(self) -> str:
        return f"Cluster({self.tasks}, {self.role}:{self.index})"


def make_keys(folder: "str | os.PathLike[str]", name: str) -> None:
    """A pair of keys: FOLDER/NAME.key, readable by its owner alone, and FOLDER/NAME.pub."""
    lib.shoal_keys_make(os.fsencode(folder), name.encode())


