"""The multiprocessing context of loader processes, in which a process that dies leaves no lock taken."""

import ctypes
import multiprocessing
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawValue
from typing import Any, cast


class LockFreeEvent:
    """A flag in shared memory: of multiprocessing.Event, the part that a DataLoader uses.

    A multiprocessing.Event has a lock, which a process takes whenever it reads the flag. One that is killed then, as
    by the kernel where memory is full, leaves the lock taken: all that read the flag later wait without end.
    """

    def __init__(self) -> None:
        self._flag = RawValue(ctypes.c_bool, False)

    def set(self) -> None:
        """Set the flag."""
        self._flag.value = True

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return bool(self._flag.value)


def worker_context(processes: list[BaseProcess]) -> BaseContext:
    """Return the default context of multiprocessing, with LockFreeEvent as its events.

    processes: to which each process that is made is appended. One that ends at once is missing from
        multiprocessing.active_children.
    """
    context: Any = type(cast(Any, multiprocessing.get_context()))()
    process_class = context.Process

    def recorded(*arguments: Any, **settings: Any) -> BaseProcess:
        process: BaseProcess = process_class(*arguments, **settings)
        processes.append(process)
        return process

    vars(context).update(Event=LockFreeEvent, Process=recorded)
    return cast(BaseContext, context)
