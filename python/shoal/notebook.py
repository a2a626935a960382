"""What people see: a line on a terminal, a bar in a notebook, tables."""
from __future__ import annotations

import html
import sys
import time
from typing import Any, Optional, Sequence, Union

from .callbacks import Callback, Logs


def in_notebook() -> bool:
    """Whether this runs in a kernel of Jupyter."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return running is not None and type(running).__name__ == "ZMQInteractiveShell"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As HTML."""
    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag} style='text-align:left'>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"
    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


class Progress(Callback):
    """A line that is written over and over, or a bar in a notebook."""

    @staticmethod
    def create(verbose: Union[bool, int, None], epochs: int) -> "Optional[Progress]":
        """None where nobody watches."""
        wanted = (in_notebook() or sys.stderr.isatty()) if verbose is None else bool(verbose)
        return Progress(epochs) if wanted else None

    def __init__(self, epochs: int) -> None:
        self.epochs, self.began, self.epoch = epochs, time.monotonic(), 0
        self.display: Any = None

    def on_train_begin(self) -> Optional[bool]:
        self.began, self.epoch = time.monotonic(), 0
        if in_notebook():
            import IPython.display as shown

            self.display = shown.display(shown.HTML(self.bar("")), display_id=True)  # type: ignore[no-untyped-call,unused-ignore]
        return None

    def words(self, logs: Logs) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in logs.items())

    def bar(self, words: str) -> str:
        return f"<progress value='{self.epoch}' max='{max(self.epochs, 1)}'></progress> {html.escape(words)}"

    def show(self, words: str, end: str = "") -> None:
        words = f"epoch {self.epoch}/{self.epochs}: {words}, {time.monotonic() - self.began:.1f} s"
        if self.display is not None:
            import IPython.display as shown

            self.display.update(shown.HTML(self.bar(words)))  # type: ignore[no-untyped-call,unused-ignore]
        else:
            sys.stderr.write(("\r\x1b[K" if sys.stderr.isatty() else "") + words + end)
            sys.stderr.flush()

    def on_step(self, step: int, logs: Logs) -> Optional[bool]:
        if self.display is not None or sys.stderr.isatty():
            self.show(self.words(logs))
        return None

    def on_epoch_end(self, epoch: int, logs: Logs) -> Optional[bool]:
        self.epoch = epoch + 1
        self.show(self.words(logs), "\n")
        return None
