"""Processes that read the files of requests, because a decoder can be stopped only with its process."""

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
PRELOADED = ["tools.serve.request_files"]
"""Modules that every process shares."""
N_PROCESSES = 4  # each holds an image in the memory
_LEAST_MEMORY = 2**31  # bytes of a process; torch and its libraries take a part
_context: Any = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")


class FileProcesses:
    """Calls functions, each call in a process that computes with one thread.

    n_processes: Number of calls at the same time; further calls wait.
    max_pixels: Largest image that a process reads.
    """

    def __init__(self, n_processes: int, max_pixels: int) -> None:
        self._options = max_pixels, max(_LEAST_MEMORY, memory_bytes() // (2 * n_processes))
        self._free = asyncio.Semaphore(n_processes)
        self._threads = ThreadPoolExecutor(n_processes, "files")  # each waits for a process

    async def call(self, seconds: float | None, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Return the result of `function(*arguments)`. The process is killed if the call is cancelled.

        Raises:
            DataError: The call takes more than `seconds`, or its process has died.
            Exception: An error of the function. If it is no UserError, OSError or MemoryError, it is a RuntimeError
                with the traceback as its text.
        """
        loop = asyncio.get_running_loop()
        async with self._free:
            process = await loop.run_in_executor(self._threads, _Process, *self._options)
            try:
                async with asyncio.timeout(seconds):
                    result, error = await loop.run_in_executor(self._threads, process.call, function, arguments)
            except (TimeoutError, EOFError, ConnectionError) as failure:
                how = f"takes more than {seconds:g} s" if isinstance(failure, TimeoutError) else "ends the decoder"
                raise DataError(f"reading the files of this request {how}: save the image again, as PNG") from failure
            finally:
                process.kill()
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the threads; calls have ended or were cancelled before."""
        self._threads.shutdown()


@contextmanager
def file_processes(max_pixels: int) -> Iterator[FileProcesses]:
    """Provide processes for the files of requests."""
    if _context.get_start_method() == "forkserver":
        from multiprocessing import forkserver

        _context.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()  # imports torch meanwhile
    with closing(FileProcesses(N_PROCESSES, max_pixels)) as processes:
        yield processes


class _Process:
    """A process and the pipe to it."""

    def __init__(self, max_pixels: int, most_memory: int) -> None:
        self._connection, other = _context.Pipe()
        process = _context.Process(target=_work, args=(other, max_pixels, most_memory), daemon=True)
        process.start()
        other.close()  # so that the end of the process closes the pipe
        self.kill = process.kill

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        self._connection.send_bytes(_Pickler.dumps((function, arguments)))
        answer: tuple[Any, Exception | None] = _Pickler.loads(self._connection.recv_bytes())
        return answer


def _work(connection: Connection, max_pixels: int, most_memory: int) -> None:
    """Send back the result of a call, and its error."""
    ignore(STOPPING)  # a signal to the whole group leaves it to the server to answer what waits
    torch.set_num_threads(1)
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most_memory, most_memory))
    with suppress(EOFError, ConnectionError), pixels_allowed(max_pixels):  # the server has closed the pipe
        function, arguments = _Pickler.loads(connection.recv_bytes())
        try:
            answer = _Pickler.dumps((function(*arguments), None))
        except (UserError, OSError, MemoryError) as error:
            answer = _Pickler.dumps((None, error.with_traceback(None)))
        except Exception:  # noqa: BLE001 - not every error can be pickled
            answer = _Pickler.dumps((None, RuntimeError(traceback.format_exc())))
        connection.send_bytes(answer)


class _Pickler(ForkingPickler):
    """Sends tensors as arrays. Torch would send them in shared memory, and Docker has only 64 MB of it."""

    def reducer_override(self, value: Any) -> Any:
        return (torch.from_numpy, (value.numpy(),)) if isinstance(value, Tensor) else NotImplemented
