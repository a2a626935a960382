"""Optimizers and schedules of the learning rate."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence, Union

from . import native
from .arrays import number
from .native import lib


class Schedule:
    """How the learning rate goes, from `rate` on; warmup: steps over which it rises from 0."""

    def __init__(self, name: str, rate: float, warmup: int = 0, **numbers: Any) -> None:
        self.name, self.rate, self.warmup, self.numbers = name, rate, warmup, numbers

    def struct(self) -> Any:
        out = native.shoal_schedule(name=self.name.encode(), rate=self.rate, warmup=self.warmup)
        for key, value in self.numbers.items():
            if key == "pieces":
                n = len(value)
                out.boundaries = (ctypes.c_int64 * n)(*[int(b) for b, _ in value])
                out.rates = (ctypes.c_double * n)(*[float(r) for _, r in value])
                out.pieces = n
            else:
                setattr(out, key, value)
        lib.shoal_schedule_check(out)
        return out

    def __call__(self, step: int) -> float:
        """The rate of a step."""
        return float(lib.shoal_schedule_at(self.struct(), step))

    def __repr__(self) -> str:
        more = "".join(f", {k}={v!r}" for k, v in {**self.numbers, "warmup": self.warmup}.items() if v)
        return f"Schedule({self.name!r}, {self.rate!r}{more})"


def Constant(rate: float, warmup: int = 0) -> Schedule:
    """The same all the time."""
    return Schedule("constant", rate, warmup)


def Exponential(rate: float, every: int, factor: float, staircase: bool = False, warmup: int = 0) -> Schedule:
    """Times `factor` every so many steps, smoothly or at once."""
    return Schedule("staircase" if staircase else "exponential", rate, warmup, every=every, factor=factor)


def Cosine(rate: float, steps: int, final_rate: float = 0.0, warmup: int = 0) -> Schedule:
    """Down to final_rate over so many steps, as a cosine goes."""
    return Schedule("cosine", rate, warmup, every=steps, final_rate=final_rate)


def Piecewise(rate: float, pieces: Sequence[tuple[int, float]], warmup: int = 0) -> Schedule:
    """From step b on r, for each (b, r) of the pieces."""
    return Schedule("piecewise", rate, warmup, pieces=list(pieces))


Rate = Union[float, Schedule, None]


class Optimizer:
    """Which optimizer, its numbers, and its learning rate: a number, a schedule, or None, the usual one.

    Numbers of all: weight_decay; clip_value, clip_norm or clip_global_norm; average, e.g. 0.999, of the weights.
    """
    numbers: dict[str, Any]

    def __init__(self, name: str, learning_rate: Rate = None, **numbers: Any) -> None:
        if learning_rate is not None and not isinstance(learning_rate, Schedule):
            learning_rate = number(learning_rate, "learning_rate")
        self.name, self.learning_rate, self.numbers = name, learning_rate, numbers

    def struct(self) -> Any:
        return native.shoal_optimizer_options(name=self.name.encode(), **self.numbers)

    def schedule(self) -> Any:
        rate = self.learning_rate
        return rate.struct() if isinstance(rate, Schedule) else native.shoal_schedule(rate=rate or 0.0)

    def __repr__(self) -> str:
        words = [f"{k}={v!r}" for k, v in {"learning_rate": self.learning_rate, **self.numbers}.items() if v]
        return f"Optimizer({', '.join([repr(self.name), *words])})"


def SGD(learning_rate: Rate = None, momentum: float = 0.0, nesterov: bool = False) -> Optimizer:
    """Gradient descent, with momentum if asked for."""
    if momentum == 0:
        return Optimizer("sgd", learning_rate)
    return Optimizer("momentum", learning_rate, momentum=momentum, nesterov=nesterov)


def Adam(learning_rate: Rate = None, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7) -> Optimizer:
    """Adam."""
    return Optimizer("adam", learning_rate, beta1=beta_1, beta2=beta_2, epsilon=epsilon)


def Adagrad(learning_rate: Rate = None, epsilon: float = 1e-7, initial_accumulator_value: float = 0.1) -> Optimizer:
    """Adagrad."""
    return Optimizer("adagrad", learning_rate, epsilon=epsilon, accumulator=initial_accumulator_value)


def RMSprop(learning_rate: Rate = None, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7) -> Optimizer:
    """RMSprop."""
    return Optimizer("rmsprop", learning_rate, decay=rho, momentum=momentum, epsilon=epsilon)


def Ftrl(learning_rate: Rate = None, l1: float = 0.0, l2: float = 0.0, beta: float = 1.0) -> Optimizer:
    """FTRL-proximal: with l1, most weights stay exactly zero."""
    return Optimizer("ftrl", learning_rate, l1=l1, l2=l2, beta=beta)


def AdamW(learning_rate: Rate = None, weight_decay: float = 0.004, beta_1: float = 0.9, beta_2: float = 0.999, **more: Any) -> Optimizer:
    """Adam, with weights that shrink by weight_decay times the rate in each step."""
    return Optimizer("adamw", learning_rate, weight_decay=weight_decay or -1.0, beta1=beta_1, beta2=beta_2, **more)


def Nadam(learning_rate: Rate = None, beta_1: float = 0.9, beta_2: float = 0.999, **more: Any) -> Optimizer:
    """Adam with Nesterov's momentum."""
    return Optimizer("nadam", learning_rate, beta1=beta_1, beta2=beta_2, **more)


def Lion(learning_rate: Rate = None, beta_1: float = 0.9, beta_2: float = 0.99, **more: Any) -> Optimizer:
    """By the sign of the momentum."""
    return Optimizer("lion", learning_rate, beta1=beta_1, beta2=beta_2, **more)


def names(of: Any) -> list[str]:
    """A list of names that the library keeps, ended by NULL."""
    found: list[str] = []
    while of[len(found)]:
        found.append(of[len(found)].decode())
    return found


def get(optimizer: Union[str, Optimizer], learning_rate: Optional[float] = None) -> Optimizer:
    """By name, or as it is."""
    if isinstance(optimizer, Optimizer):
        return optimizer
    known = names(lib.shoal_optimizer_names())
    if not isinstance(optimizer, str):
        raise TypeError(f"optimizer must be a name or one of shoal.optimizers, not {optimizer!r}")
    if optimizer.lower() not in known:
        raise ValueError(f"optimizer {optimizer!r} is not one of {', '.join(known)}")
    return Optimizer(optimizer.lower(), learning_rate)
