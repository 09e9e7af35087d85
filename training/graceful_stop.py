"""Stopping a run from outside without losing a step."""

import os
import signal
from types import FrameType, TracebackType
from typing import Self

from utils.errors import Interrupted
from utils.signals import STOPPING, deferred


class GracefulStop:
    """Remembers, inside its context, the first signal that asks to stop. A second Ctrl-C ends the process at once.

    signal_number: the signal that came, or None.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._is_deferred = False
        self._launcher = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None

    def __enter__(self) -> Self:
        wanted = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]  # nohup's stay ignored
        self._previous = {number: signal.signal(number, deferred(self._remember)) for number in wanted}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def stop_between_steps(self) -> None:
        """From now on, leave it to the loop to save and stop; before, a signal ends the run at once."""
        self._is_deferred = True

    def poll(self) -> int:
        """Return the number of the signal that came, SIGTERM where torchrun has died without its processes, or 0."""
        if self.signal_number is None and self._launcher not in (None, os.getppid()):
            self.signal_number = signal.SIGTERM
        return self.signal_number or 0

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        is_second_ctrl_c = number == self.signal_number == signal.SIGINT
        if self.signal_number is None:
            self.signal_number = number
        if not self._is_deferred:
            raise Interrupted(number)
        if is_second_ctrl_c:
            raise KeyboardInterrupt
