"""Where the command is: tasks of a local cluster are processes of it."""
from __future__ import annotations

import os
import pathlib
import shutil
from typing import Optional


def find() -> Optional[str]:
    """$SHOAL_BIN, the one inside this package, or the one in PATH."""
    inside = pathlib.Path(__file__).resolve().parent / "bin" / "shoal-program"
    return os.environ.get("SHOAL_BIN") or (str(inside) if inside.exists() else shutil.which("shoal"))
