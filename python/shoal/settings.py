"""What compile is told, and what is measured."""
from __future__ import annotations

import ctypes
import math
import re
from typing import Any, Mapping, Optional, Sequence, Union

from . import native, optimizers
from .arrays import number, whole
from .native import lib

LOSSES = {"sparse_categorical_crossentropy": "softmax_cross_entropy", "categorical_crossentropy": "softmax_cross_entropy",
          "binary_crossentropy": "sigmoid_cross_entropy", "mean_squared_error": "mse", "mean_absolute_error": "mae"}


class Settings:
    """What compile was told."""

    def __init__(self, optimizer: Union[str, optimizers.Optimizer] = "adam", loss: Optional[str] = None,
                 metrics: Sequence[str] = (), l2: float = 0.0, seed: int = 1, threads: int = 0, kernels: Optional[str] = None,
                 race: bool = False, label_smoothing: float = 0.0) -> None:
        self.optimizer = optimizers.get(optimizer)
        self.loss = LOSSES.get(loss, loss) if loss else None
        known = optimizers.names(lib.shoal_loss_names())
        if self.loss and self.loss not in known:
            raise ValueError(f"loss {loss!r} is not one of {', '.join([*known, *LOSSES])}")
        self.metrics, self.top_k = tuple(metrics), 0
        for name in self.metrics:
            match = re.fullmatch(r"top_(\d+)(_accuracy)?", name)
            if match:
                self.top_k = int(match[1])
            elif name not in METRICS and name not in ("acc", "accuracy"):
                raise ValueError(f"metric {name!r} is not one of {', '.join(METRICS)}, or top_5 for any number")
        self.l2, self.seed, self.threads, self.kernels, self.race = number(l2, "l2"), whole(seed, "seed"), whole(threads, "threads"), kernels, race
        self.label_smoothing = number(label_smoothing, "label_smoothing")

    def struct(self, strategy: Optional[int], schedule: Any) -> Any:
        """For the library; the model's own learning rate unless there is a schedule."""
        return native.shoal_compile_options(
            size=ctypes.sizeof(native.shoal_compile_options), optimizer=self.optimizer.struct(),
            schedule=schedule or self.optimizer.schedule(), l2=self.l2, top_k=self.top_k, threads=self.threads, seed=self.seed,
            kernels=self.kernels.encode() if self.kernels else None, race=self.race, strategy=strategy,
            loss=self.loss.encode() if self.loss else None, label_smoothing=self.label_smoothing)

    @staticmethod
    def of_file(config: Mapping[str, Any]) -> "Settings":
        """What a model file says of training."""
        said = config.get("training", {})
        optimizer = optimizers.get(said.get("optimizer", "sgd" if "lr" in said else "adam"), said.get("lr"))
        outputs = config.get("outputs", [])
        losses = [config.get("loss"), *(one.get("loss") for one in outputs if isinstance(one, dict) and len(outputs) == 1)]
        metrics = [f"top_{said['top_k']}"] if said.get("top_k") else []
        return Settings(optimizer, next((loss for loss in losses if loss), None), metrics, l2=said.get("l2", 0.0))


def _metrics() -> dict[str, Any]:
    found: dict[str, Any] = {}
    rows = lib.shoal_metrics()
    while rows[len(found)].name:
        row = rows[len(found)]
        found[row.name.decode()] = row
    return found


METRICS = _metrics()


def figures(evaluation: Any) -> dict[str, float]:
    """What was measured."""
    values = {name: lib.shoal_evaluation_get(evaluation, row) for name, row in METRICS.items()}
    return {name: value for name, value in values.items() if not math.isnan(value)}
