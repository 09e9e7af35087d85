"""Signal handling. Windows has fewer signals than Linux and macOS."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import Any, Self

from utils.errors import Interrupted

Handler = Callable[[int, FrameType | None], object]

INTERRUPTED = "interrupted\n"
RETRY_S = 0.05


def available(*names: str) -> tuple[signal.Signals, ...]:
    """Return the signals with these names that exist on this system."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


STOPPING = available("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")  # signals that ask a run to stop
END = int(signal.NSIG)  # code for a run that ends early without a signal; larger than every signal number


@contextmanager
def blocked(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Block signals in this context. Processes that start in the context must call `ignore` to unblock the signals."""
    mask = _change_mask("SIG_BLOCK", numbers)
    try:
        yield
    finally:
        _change_mask("SIG_SETMASK", mask)


def ignore(numbers: Sequence[signal.Signals]) -> None:
    """Ignore signals from now on, and unblock these signals."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
    _change_mask("SIG_UNBLOCK", numbers)


def _change_mask(how: str, numbers: Any) -> Any:
    """Change the signal mask of this thread and return the old mask. Do nothing on Windows, which has no masks."""
    if hasattr(signal, "pthread_sigmask"):
        return signal.pthread_sigmask(getattr(signal, how), numbers)
    return ()


def deferred(handle: Handler) -> Handler:
    """Return a handler that calls `handle` immediately, or after the current import.

    During an import, Python can lose an exception from a handler or turn the exception into another error.
    """

    def handle_later(number: int, frame: FrameType | None) -> None:
        outer = frame
        while outer and not outer.f_code.co_filename.startswith("<frozen importlib"):
            outer = outer.f_back
        if outer is None:
            handle(number, frame)
            return
        again = threading.Timer(RETRY_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    return handle_later


def leave_at_once(number: int, _frame: FrameType | None) -> None:
    """Exit immediately. This handler is for Ctrl-C during the slow imports at the start of a program."""
    os.write(2, INTERRUPTED.encode())
    os._exit(128 + number)


@contextmanager
def handling(handle: Handler, numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Call `handle` for these signals in the main thread. If nohup ignores a signal, the signal stays ignored."""
    is_main_thread = threading.current_thread() is threading.main_thread()  # no other thread may set handlers
    handled = [number for number in numbers if is_main_thread and signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in handled}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def handling_ctrl_c(handle: Handler) -> AbstractContextManager[None]:
    """Call `handle` on Ctrl-C. A program that a shell starts in the background may ignore Ctrl-C; then do nothing."""
    return handling(handle, [signal.SIGINT])


class GracefulStop(ExitStack):
    """A context that stores the first stop signal. A second Ctrl-C ends the process immediately.

    signal_number: Signal that was received, or None. Only the main thread receives signals.
    """

    def __init__(self) -> None:
        super().__init__()
        self.signal_number: int | None = None
        self._is_deferred = False
        self._launcher = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None

    def __enter__(self) -> Self:
        self.enter_context(handling(deferred(self._remember), STOPPING))
        return self

    def stop_between_steps(self) -> None:
        """From now on, store signals instead of raising Interrupted, so that the loop can save and stop."""
        self._is_deferred = True

    def poll(self) -> int:
        """Return the number of the received signal, SIGTERM if torchrun has died, or 0 without a signal."""
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
