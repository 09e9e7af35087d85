"""Files are read in processes that can be killed, and a request waits undecoded for its turn."""

import asyncio
import errno
import os
import time
from pathlib import Path

import pytest

from data.batch import DataError
from tests.jpegs import jpeg
from tests.tools.serve.services import FORM, ask, form, png, serving
from tools.serve.file_processes import FileProcesses, file_processes

BODY = form(source=png(32, 32), instances=png(32, 32))


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


def test_a_call_that_takes_too_long_or_ends_its_process_is_an_error_of_the_file() -> None:
    async def main(processes: FileProcesses) -> int:
        with pytest.raises(DataError, match=r"takes more than 0\.2 s"):
            await processes.call(0.2, time.sleep, 60)
        with pytest.raises(DataError, match="crashes the decoder"):
            await processes.call(60, os._exit, 1)
        with pytest.raises(OSError, match="No space"):
            await processes.call(60, fail, errno.ENOSPC)
        return await processes.call(60, max, 1, 2)

    with file_processes(2**24) as processes:
        assert asyncio.run(main(processes)) == 2


def test_a_cancelled_call_kills_its_process_and_leaves_room() -> None:
    async def main() -> int:
        processes = FileProcesses(1, 2**24)
        slow = asyncio.create_task(processes.call(None, time.sleep, 60))
        waiting = [asyncio.create_task(processes.call(None, len, bytes(9))) for _ in range(3)]
        await asyncio.sleep(0.2)
        for task in (slow, *waiting[:2]):
            task.cancel()
        result = await waiting[2]
        processes.close()
        return result

    assert asyncio.run(main()) == 9


def test_only_small_png_files_are_read_without_a_process(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise DataError("another process")

    monkeypatch.setattr(FileProcesses, "call", refuse)
    with serving("--checkpoint", tiny_run, "--max-pixels", "1024") as server:
        assert ask(server, "/translate", BODY, FORM).status == 200
        assert ask(server, "/translate", form(source=png(33, 32), instances=png(33, 32)), FORM).status == 413
        for other in (jpeg(), png(32, 32) + bytes(2**16), b"BM", b"II*\0"):
            answer = ask(server, "/translate", form(source=png(32, 32), instances=other), FORM)
            assert answer[:2] == (400, b"another process\n")
