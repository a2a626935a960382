"""Objects with threads of their own, in a process that forks: a copy has none, and gets new ones when it is used."""
from __future__ import annotations

import os
import weakref
from typing import Any

from .native import lib

_made_by: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()
_forked = False


def _in_child() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_in_child)


def guard(owner: Any, session: int, new: bool = False) -> None:
    """Before each use of a session: gives it threads where it came here by fork."""
    if new:
        _made_by[owner] = os.getpid()
    elif _forked and _made_by.get(owner) != os.getpid():
        lib.shoal_session_after_fork(session)
        _made_by[owner] = os.getpid()
