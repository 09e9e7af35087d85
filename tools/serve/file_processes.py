"""Processes that decode the files of requests. A decoder that hangs can be stopped only by killing its process."""

import asyncio
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

import torch
from torch import Tensor

from data.batch import DataError
from data.files.stored_image import pixels_allowed
from utils.errors import UserError
from utils.machine import memory_bytes
from utils.signals import STOPPING, ignore

_Result = TypeVar("_Result")
PRELOADED = ["tools.serve.request_files"]  # modules that the fork server imports before it forks processes
N_PROCESSES = 4  # each can hold one decoded image in memory
_LEAST_MEMORY = 2**31  # smallest memory limit of a process in bytes; torch needs a part of it
_context: Any = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")


class FileProcesses:
    """A runner that executes each call in a new process with one thread.

    n_processes: Maximum number of simultaneous calls. Further calls wait.
    max_pixels: Maximum number of pixels of an image that a process reads.
    """

    def __init__(self, n_processes: int, max_pixels: int) -> None:
        self._options = max_pixels, max(_LEAST_MEMORY, memory_bytes() // (2 * n_processes))
        self._free = asyncio.Semaphore(n_processes)
        self._threads = ThreadPoolExecutor(n_processes, "files")  # each thread waits for one process

    async def call(self, seconds: float | None, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Return the result of `function(*arguments)`. A cancelled call kills its process.

        Raises:
            DataError: The call takes more than `seconds`, or its process died.
            UserError, OSError, MemoryError: The function raised this error.
            RuntimeError: The function raised another error. The message contains the traceback.
        """
        loop = asyncio.get_running_loop()
        async with self._free:
            process = await loop.run_in_executor(self._threads, _Process, *self._options)
            try:
                async with asyncio.timeout(seconds):
                    result, error = await loop.run_in_executor(self._threads, process.call, function, arguments)
            except (TimeoutError, EOFError, ConnectionError) as failure:
                how = f"takes more than {seconds:g} s" if isinstance(failure, TimeoutError) else "crashes the decoder"
                raise DataError(f"reading the files of this request {how}. Save the image again, as PNG.") from failure
            finally:
                process.kill()
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the threads, after all calls have ended or were cancelled."""
        self._threads.shutdown()


@contextmanager
def file_processes(max_pixels: int) -> Iterator[FileProcesses]:
    """Yield a FileProcesses, and close it afterwards."""
    if _context.get_start_method() == "forkserver":
        from multiprocessing import forkserver

        _context.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()  # imports torch in the background
    with closing(FileProcesses(N_PROCESSES, max_pixels)) as processes:
        yield processes


class _Process:
    """A process for one call, connected by a pipe."""

    def __init__(self, max_pixels: int, most_memory: int) -> None:
        self._connection, other = _context.Pipe()
        process = _context.Process(target=_work, args=(other, max_pixels, most_memory), daemon=True)
        process.start()
        other.close()  # otherwise the pipe would stay open after the process ends
        self.kill = process.kill

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        self._connection.send_bytes(_Pickler.dumps((function, arguments)))
        return _Pickler.loads(self._connection.recv_bytes())


def _work(connection: Connection, max_pixels: int, most_memory: int) -> None:
    """Receive a call, run it, and send back its result or error."""
    ignore(STOPPING)  # after a signal to the process group, the server still answers waiting requests
    torch.set_num_threads(1)
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most_memory, most_memory))
    with suppress(EOFError, ConnectionError), pixels_allowed(max_pixels):  # the server can close the pipe
        function, arguments = _Pickler.loads(connection.recv_bytes())
        try:
            answer = _Pickler.dumps((function(*arguments), None))
        except (UserError, OSError, MemoryError) as error:
            answer = _Pickler.dumps((None, error.with_traceback(None)))
        except Exception:  # noqa: BLE001 - not every error can be pickled
            answer = _Pickler.dumps((None, RuntimeError(traceback.format_exc())))
        connection.send_bytes(answer)


class _Pickler(ForkingPickler):
    """A pickler that sends tensors as arrays. Torch would use shared memory, which Docker limits to 64 MB."""

    def reducer_override(self, value: Any) -> Any:
        return (torch.from_numpy, (value.numpy(),)) if isinstance(value, Tensor) else NotImplemented
