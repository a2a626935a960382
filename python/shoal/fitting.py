"""One training: what is told to whom, and how it ends."""
from __future__ import annotations

import ctypes
import math
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Optional, Sequence

from . import native, optimizers
from .callbacks import Callback, Checkpoint, LearningRate
from .history import History
from .native import lib

if TYPE_CHECKING:
    from .fitted import Fitted


class Fit:
    """One call of fit: what is told to whom, and how it ends."""

    def __init__(self, model: "Fitted", listeners: Sequence[Callback], progress: Optional[Callback]) -> None:
        self.model, self.history = model, History()
        if isinstance(listeners, Callback):
            listeners = [listeners]
        self.listeners = [*listeners, *([progress] if progress else [])]
        for listener in self.listeners:
            if not isinstance(listener, Callback):
                raise TypeError(f"callbacks must be shoal.callbacks.Callback objects, not {type(listener).__name__}")
            listener.model = model
        self.stop = ctypes.c_int(0)
        self.error: Optional[BaseException] = None
        self.interrupted = False

    def schedule(self, rows: int, batch: int, epochs: int) -> Any:
        """Of a callback that says the rate of each epoch."""
        found = [c for c in self.listeners if isinstance(c, LearningRate)]
        if not found:
            return None
        if not rows or not epochs:
            raise ValueError("LearningRate needs data in memory and a number of epochs")
        steps = -(-rows // batch)
        return optimizers.Piecewise(found[0].rate(0), [(i * steps, found[0].rate(i)) for i in range(1, epochs)]).struct()

    def options(self, rows: Any, other: Any, handle: int) -> Any:
        o = native.shoal_fit_options(size=ctypes.sizeof(native.shoal_fit_options), stop=ctypes.pointer(self.stop))
        o.stream = rows.stream(fit=True)
        o.validation = ctypes.pointer(other.dataset(handle)) if other is not None else None
        for listener in self.listeners:
            if isinstance(listener, Checkpoint):
                o.checkpoint_dir, o.checkpoint_every = os.fsencode(listener.folder), listener.every
                o.keep, o.keep_best = listener.keep, listener.best
        o.callbacks.on_step = type(o.callbacks.on_step)(self.on_step)
        o.callbacks.on_epoch = type(o.callbacks.on_epoch)(self.on_epoch)
        o.callbacks.on_note = type(o.callbacks.on_note)(self.on_note)
        return o

    def logs(self, p: Any) -> dict[str, float]:
        named = {"loss": p.loss, "accuracy": p.accuracy, "val_loss": p.validation_loss, "val_accuracy": p.validation_accuracy,
                 "learning_rate": p.rate}
        return {name: value for name, value in named.items() if not math.isnan(value)}

    def tell(self, what: str, *arguments: Any) -> bool:
        """Everybody; an exception stops the training and comes out of fit. True: stop."""
        try:
            for listener in self.listeners:
                if getattr(listener, what)(*arguments) is True:
                    self.model.stop_training = True
        except BaseException as error:  # also KeyboardInterrupt: it must not be lost in the library
            self.error = self.error or error
        return self.model.stop_training or self.error is not None

    def on_step(self, context: Any, p: Any) -> bool:
        return self.tell("on_step", p.contents.step, self.logs(p.contents))

    def on_epoch(self, context: Any, p: Any) -> bool:
        logs = self.logs(p.contents)
        self.history.epochs = int(p.contents.epoch) + 1
        self.history.add(logs)
        return self.tell("on_epoch_end", p.contents.epoch, logs)

    def on_note(self, context: Any, line: bytes) -> None:
        self.history.notes.append(line.decode(errors="replace"))

    def on_interrupt(self, number: int, frame: Any) -> None:
        self.stop.value, self.interrupted = 1, True

    def run(self, handle: int, rows: Any, o: Any) -> History:
        self.model.stop_training = False
        result = native.shoal_fit_result()
        # Python's handlers run between two of its own instructions: here, when a callback is called. The standard one would
        # raise there; this one asks the library to stop.
        main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT) if main else None
        if callable(before):
            signal.signal(signal.SIGINT, self.on_interrupt)
        try:
            if not self.tell("on_train_begin"):
                lib.shoal_model_fit(handle, rows.dataset(handle), o, result)
                self.tell("on_train_end")
        finally:
            if callable(before):
                signal.signal(signal.SIGINT, before)
        if self.error:
            raise self.error
        if self.interrupted and callable(before):
            before(signal.SIGINT, None)
        self.finish(result)
        return self.history

    def finish(self, result: Any) -> None:
        h = self.history
        h.steps, h.examples, h.seconds = result.steps, result.run_examples, result.seconds
        h.stopped = "early" if result.stopped_early else "asked" if result.stopped else ""
