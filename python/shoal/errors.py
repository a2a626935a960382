"""What goes wrong, by kind: the library's own messages as exceptions."""
from __future__ import annotations


class Error(Exception):
    """Any error of the library."""


class ArgumentError(Error, ValueError):
    """The call: wrong use, shapes that do not fit, an unknown name."""


class InputError(Error, ValueError):
    """The data: a file that is missing, truncated or garbage."""


class PeerError(Error, ConnectionError):
    """Another task: lost, late or speaking nonsense."""


class RefusedError(PeerError):
    """Another task that will never let this one in: other keys, another version."""


class MachineError(Error, OSError):
    """The machine: memory, disk, a system call, a library that is not installed."""


class NumericError(Error, ArithmeticError):
    """The job: a loss that is not a number."""


class CancelledError(Error):
    """Somebody asked to stop."""


class InternalError(Error, RuntimeError):
    """Shoal itself: please report it."""


class ReportedError(Error):
    """Another process of the job failed, and has said why itself."""


# In the order of shoal_code.
KINDS = (Error, ArgumentError, InputError, PeerError, RefusedError, MachineError, NumericError, CancelledError, InternalError,
         ReportedError)
