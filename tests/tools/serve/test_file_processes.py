"""Files are read in processes that can be killed, and a request waits undecoded for its turn."""

import asyncio
import errno
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

import pytest

from data.batch import DataError, Sample
from inference.tiling import Window
from tests.jpegs import jpeg
from tests.runs import wait_until
from tests.tools.serve.services import FORM, Hold, ask, form, png, serving
from tools.serve.file_processes import FileProcesses, file_processes
from tools.serve.request_files import RequestFiles, Upload

BODY = form(source=png(32, 32), instances=png(32, 32))


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


def test_a_call_that_takes_too_long_or_ends_its_process_is_an_error_of_the_file() -> None:
    async def main(processes: FileProcesses) -> int:
        with pytest.raises(DataError, match=r"takes more than 0\.2 s"):
            await processes.call(0.2, time.sleep, 60)
        with pytest.raises(DataError, match="ends the decoder"):
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


def test_requests_wait_undecoded_while_two_batches_are_decoded(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold, read, original = Hold(monkeypatch), list[str](), RequestFiles.read

    def recorded(reader: RequestFiles, files: Mapping[str, Upload], name: str) -> tuple[Sample, Window]:
        read.append(name)
        return original(reader, files, name)

    monkeypatch.setattr(RequestFiles, "read", recorded)
    with serving("--checkpoint", tiny_run, "--max-pixels", "1024") as server, ThreadPoolExecutor(12) as threads:
        answers = [threads.submit(ask, server, "/translate", BODY, FORM) for _ in range(12)]
        wait_until(lambda: hold.n_read >= 2)
        time.sleep(0.3)
        assert 2 <= len(read) <= 5  # two batches, and those that were read meanwhile
        hold.opened.set()
        assert {answer.result().status for answer in answers} == {200}


def test_a_full_disk_is_one_line(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(RequestFiles, "written", lambda *_: fail(errno.ENOSPC))
    with serving("--checkpoint", tiny_run) as server:
        answer = ask(server, "/translate", BODY, FORM)
    assert answer[:2] == (507, b"the disk of the server is full: try again later\n")
    assert "temporary files: No space left on device. Free space there" in caplog.text
    assert "Traceback" not in caplog.text


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


@pytest.mark.parametrize(("seconds", "status"), [(60, 200), (0, 503)])
def test_a_stop_answers_what_has_begun_and_refuses_it_after_the_drain(
    tiny_run: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, status: int
) -> None:
    hold = Hold(monkeypatch)
    with ThreadPoolExecutor(4) as threads:
        with serving("--checkpoint", tiny_run, "--drain-s", seconds) as server:
            answers = [threads.submit(ask, server, "/translate", BODY, FORM) for _ in range(3)]
            wait_until(lambda: hold.n_read == 3)
            if seconds:
                Timer(0.3, hold.opened.set).start()
        assert [answer.result().status for answer in answers] == [status] * 3
        hold.opened.set()


def test_reload_translates_with_the_newest_checkpoint(tiny_run: Path, tmp_path: Path) -> None:
    link = tmp_path / "tiny"
    link.symlink_to(tiny_run)
    with serving("--checkpoint", link) as server:
        link.unlink()
        refused = ask(server, "/reload", b"")
        assert (refused.status, refused.body.count(b"\n")) == (409, 1)
        assert b"The service goes on as before." in refused.body
        assert ask(server, "/translate", BODY, FORM).status == 200
        link.symlink_to(tiny_run)
        assert ask(server, "/reload", b"").status == 200
        assert ask(server, "/translate", BODY, FORM).status == 200
