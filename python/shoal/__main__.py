"""python -m shoal: the command."""
from __future__ import annotations

import os
import sys
from typing import NoReturn

from .program import find


def main() -> NoReturn:
    """Becomes the command."""
    path = find()
    if path is None:
        sys.exit("shoal: the command is not installed with this package, nor found in PATH; set SHOAL_BIN to its path")
    os.execv(path, ["shoal", *sys.argv[1:]])


if __name__ == "__main__":
    main()
