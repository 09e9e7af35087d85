"""Files are read in processes that can be killed."""

import asyncio
import os
import time

import pytest

from data.batch import DataError
from tests.tools.serve import services  # noqa: F401 - its processes are shared
from tools.serve.file_processes import FileProcesses, file_processes


def test_a_call_that_takes_too_long_or_ends_its_process_is_an_error_of_the_file() -> None:
    async def main(processes: FileProcesses) -> int:
        with pytest.raises(DataError, match=r"takes more than 0\.2 s"):
            await processes.call(0.2, time.sleep, 60)
        with pytest.raises(DataError, match="ends the decoder"):
            await processes.call(60, os._exit, 1)
        with pytest.raises(FileNotFoundError):
            await processes.call(60, os.listdir, "/nowhere")
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            await processes.call(60, divmod, 1, 0)
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
