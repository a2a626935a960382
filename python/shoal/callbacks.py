"""Who is told while a model is fitted."""
from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    from .fitted import Fitted

Logs = dict[str, float]


class Callback:
    """To be derived from. Setting model.stop_training, or returning True, ends the training cleanly."""
    model: "Fitted"

    def on_train_begin(self) -> Optional[bool]:
        """Before the first step."""

    def on_step(self, step: int, logs: Logs) -> Optional[bool]:
        """About four times a second; `step` are finished ones, the loss is the mean since the last call."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> Optional[bool]:
        """After each epoch, which count from 0, with what was measured."""

    def on_train_end(self) -> Optional[bool]:
        """After the last step, also of a training that was stopped."""


class LambdaCallback(Callback):
    """Functions for the same occasions."""

    def __init__(self, on_epoch_end: Optional[Callable[[int, Logs], Any]] = None,
                 on_step: Optional[Callable[[int, Logs], Any]] = None) -> None:
        self._epoch, self._step = on_epoch_end, on_step

    def on_epoch_end(self, epoch: int, logs: Logs) -> Optional[bool]:
        return self._epoch(epoch, logs) is True if self._epoch else None

    def on_step(self, step: int, logs: Logs) -> Optional[bool]:
        return self._step(step, logs) is True if self._step else None


class EarlyStopping(Callback):
    """Stops after `patience` epochs in which `monitor` did not become better by more than min_delta.

    mode: "min" or "max"; "auto": an accuracy should rise, all else fall.
    """

    def __init__(self, monitor: str = "val_loss", patience: int = 0, min_delta: float = 0.0, mode: str = "auto",
                 restore_best_weights: bool = False) -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f'mode must be "auto", "min" or "max", not {mode!r}')
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self.sign = -1.0 if mode == "max" or (mode == "auto" and ("acc" in monitor or "r2" in monitor)) else 1.0
        self.restore_best_weights = restore_best_weights
        self.best, self.best_epoch = math.inf, -1
        self.weights: Optional[dict[str, Any]] = None

    def on_train_begin(self) -> Optional[bool]:
        self.best, self.best_epoch, self.weights = math.inf, -1, None
        return None

    def on_epoch_end(self, epoch: int, logs: Logs) -> Optional[bool]:
        if self.monitor not in logs:
            raise ValueError(f"EarlyStopping: there is no {self.monitor!r} among {', '.join(logs)}"
                             + ("; give fit validation data" if self.monitor.startswith("val_") else ""))
        value = self.sign * logs[self.monitor]
        if value < self.best - self.min_delta:
            self.best, self.best_epoch = value, epoch
            self.weights = self.model.get_weights() if self.restore_best_weights else None
        return epoch - self.best_epoch >= max(self.patience, 1)

    def on_train_end(self) -> Optional[bool]:
        if self.weights is not None:
            self.model.set_weights(self.weights)
        return None


class Checkpoint(Callback):
    """Keeps the newest checkpoints in a folder, from which fit(resume=True) goes on with the same numbers.

    every: steps between two; 0: after each epoch. best: also best.safetensors, by validation loss.
    """

    def __init__(self, folder: "str | os.PathLike[str]", every: int = 0, keep: int = 3, best: bool = False) -> None:
        self.folder, self.every, self.keep, self.best = os.fspath(folder), every, keep, best


class LearningRate(Callback):
    """The learning rate of each epoch, by a function of its number, from 0 on."""

    def __init__(self, rate: Callable[[int], float]) -> None:
        self.rate = rate
