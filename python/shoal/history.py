"""What a training came to."""
from __future__ import annotations

from typing import Any, Iterator, Mapping


class History(Mapping[str, "list[float]"]):
    """A list for each figure, one number an epoch: history["val_accuracy"][-1].

    Beside it: seconds and examples_per_second of the training itself, epochs, steps, and stopped: "" (it came to its end),
    "early" or "asked".
    """

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epochs = 0
        self.steps = 0
        self.examples = 0
        self.seconds = 0.0
        self.stopped = ""
        self.notes: list[str] = []

    @property
    def examples_per_second(self) -> float:
        """While training, without evaluation."""
        return self.examples / self.seconds if self.seconds > 0 else 0.0

    def add(self, logs: Mapping[str, float]) -> None:
        """The figures of an epoch."""
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)

    def frame(self) -> Any:
        """As a data frame of pandas, a row an epoch."""
        import pandas

        return pandas.DataFrame(self.history, index=range(1, 1 + max(map(len, self.history.values()), default=0)))

    def __getitem__(self, name: str) -> list[float]:
        return self.history[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.history)

    def __len__(self) -> int:
        return len(self.history)

    def __repr__(self) -> str:
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values in self.history.items() if values)
        return f"<History of {self.epochs} epochs, {self.seconds:.1f} s: {last}>"

    def _repr_html_(self) -> str:
        from .notebook import table

        rows = [[str(i + 1), *(f"{v[i]:.4g}" for v in self.history.values())] for i in range(self.epochs)]
        return table(["epoch", *self.history], rows)
