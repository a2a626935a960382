"""Finds libshoal and turns its statuses into exceptions."""
from __future__ import annotations

import ctypes
import os
import pathlib
from typing import Any, Optional

from .errors import KINDS, InternalError, MachineError

PACKAGE = pathlib.Path(__file__).resolve().parent
_lib: Any = None


def load() -> ctypes.CDLL:
    """The library that $SHOAL_LIBRARY names, the one inside this package, or the system's."""
    global _lib
    named = os.environ.get("SHOAL_LIBRARY")
    inside = sorted(PACKAGE.glob("libshoal.so.*")) + sorted(PACKAGE.glob("libshoal.so"))
    path = named or (str(inside[0]) if inside else "libshoal.so.0")
    try:
        _lib = ctypes.CDLL(path)
    except OSError as error:
        raise MachineError(f"cannot load Shoal's library: {error}; install the package again, or set SHOAL_LIBRARY to the path of "
                           "libshoal.so") from None
    library: ctypes.CDLL = _lib
    return library


def raise_status(status: int) -> None:
    """Takes the status."""
    code, message = _lib.shoal_status_code(status), _lib.shoal_status_message(status)
    _lib.shoal_status_free(status)
    kind = KINDS[code] if code < len(KINDS) else InternalError
    raise kind(message.decode(errors="replace"))


def check(status: Optional[int], function: Any, arguments: Any) -> None:
    """After each call that returns a status."""
    if status:
        raise_status(status)


def take_text(address: Optional[int]) -> str:
    """The text that a function left to its caller, freed."""
    if not address:
        raise MemoryError
    value = ctypes.string_at(address)
    _free(address)
    return value.decode(errors="replace")


_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [ctypes.c_void_p], None
