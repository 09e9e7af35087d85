"""Files read by ranges of bytes: exactly those asked for, or an error that ends the run."""

import builtins
import multiprocessing
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from data import ranges
from data.ranges import RemoteFile, StoreError
from tests.servers import RangeServer, range_server, s3_server, use_s3

CONTENT = bytes(range(100))


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses in milliseconds, and no settings of this machine's user."""
    monkeypatch.setattr(ranges, "PAUSES_S", (0.001, 0.002))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a.tar").write_bytes(CONTENT)
    return tmp_path / "served"


@pytest.fixture
def server(folder: Path) -> Iterator[RangeServer]:
    pytest.importorskip("aiohttp")
    with range_server(folder) as server:
        yield server


def test_a_local_file_gives_the_bytes_that_are_asked_for(folder: Path) -> None:
    file = RemoteFile(str(folder / "a.tar"))

    assert (file.size(), file.read(10, 20), file.read_all(100)) == (100, CONTENT[10:20], CONTENT)


def test_a_local_file_that_is_missing_short_or_too_large_is_an_error(folder: Path) -> None:
    file, missing = RemoteFile(str(folder / "a.tar")), RemoteFile(str(folder / "b.tar"))

    with pytest.raises(StoreError, match=r"a\.tar: gave 10 of 30 bytes from 90 on\. Start again"):
        file.read(90, 120)
    with pytest.raises(StoreError, match=r"a\.tar: has more than 99 bytes\."):
        file.read_all(99)
    for read in (missing.size, lambda: missing.read(0, 1)):
        with pytest.raises(StoreError, match=r"b\.tar: no such file\."):
            read()


def test_a_server_gives_the_bytes_that_are_asked_for(server: RangeServer) -> None:
    file = RemoteFile(f"{server.url}/a.tar")

    assert (file.read(10, 20), file.read_all(100), file.read_all(1000)) == (CONTENT[10:20], CONTENT, CONTENT)
    assert [asked for _, asked, _ in server.requests] == ["bytes=10-19", "bytes=0-100", "bytes=0-1000"]


@pytest.mark.parametrize(
    ("fault", "message"),
    {
        "drop": r"ServerDisconnectedError: .*",
        "stall": r"no answer within 0\.5 s",
        "truncated": r"ClientPayloadError: .*",
        "shorter": "OSError: the server answers with another range than was asked for",
        "longer": "OSError: the server answers with another range than was asked for",
        "shifted": "OSError: the server answers with another range than was asked for",
        "compressed": "OSError: the server answers with another range than was asked for",
        "500": "OSError: the server answers with status 500",
        "429": "OSError: the server answers with status 429",
    }.items(),
)
def test_a_server_that_fails_is_tried_again_and_then_ends_the_run(
    server: RangeServer, fault: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RemoteFile(f"{server.url}/a.tar")
    if fault == "stall":
        monkeypatch.setattr(ranges, "TRY_S", 0.5)

    server.faults = [fault, ""]
    assert file.read(10, 20) == CONTENT[10:20]

    monkeypatch.setattr(ranges, "PAUSES_S", (0.001,))
    server.faults = [fault]
    with pytest.raises(StoreError) as raised:
        file.read(10, 20)
    assert re.fullmatch(
        rf"http://127.0.0.1:\d+/a.tar: {message}\. Tried 2 times\. Start again when it can be read\.", str(raised.value)
    )


@pytest.mark.parametrize(
    ("fault", "message"),
    {
        "404": "no such file. Check data.root, and that it was copied whole.",
        "401": "access denied. Give credentials by a line of ~/.netrc.",
        "403": "access denied. Give credentials by a line of ~/.netrc.",
        "whole": "the server sends whole files instead of ranges. Use one that does, as nginx.",
        "http://u:secret@127.0.0.1:1/b?signature=secret": "redirects to http://127.0.0.1:1/b, which is not followed.",
    }.items(),
)
def test_what_another_try_does_not_mend_is_tried_once(server: RangeServer, fault: str, message: str) -> None:
    server.faults = [fault]

    with pytest.raises(StoreError) as raised:
        RemoteFile(f"{server.url}/a.tar").read(10, 20)
    assert str(raised.value) == f"{server.url}/a.tar: {message}"
    assert len(server.requests) == 1


def test_s3_gives_the_bytes_that_are_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server(folder.parent, monkeypatch):
        file = RemoteFile("s3://served/a.tar")

        assert (file.read(10, 20), file.read_all(100)) == (CONTENT[10:20], CONTENT)
        with pytest.raises(StoreError, match=r"^s3://served/a\.tar: gave 10 of 30 bytes from 90 on\. Tried 3 times\."):
            file.read(90, 120)
        for missing in ("s3://served/b.tar", "s3://other/a.tar"):
            with pytest.raises(StoreError, match=rf"^{missing}: no such file\. Check data\.root"):
                RemoteFile(missing).read(0, 1)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        ranges.file_system.cache_clear()
        with pytest.raises(StoreError, match=r"access denied\. Give credentials by AWS_ACCESS_KEY_ID and "):
            file.read(10, 20)


def test_s3_that_fails_is_tried_again_and_redirects_are_refused(
    server: RangeServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    use_s3(server.url, monkeypatch)
    server.root = folder.parent
    file = RemoteFile("s3://served/a.tar")

    server.faults = ["drop", "drop", "500", ""]  # aiohttp tries once more where a connection is dropped
    assert file.read(10, 20) == CONTENT[10:20]
    for fault, message in {
        "whole": r"gave 100 of 10 bytes from 10 on\. Tried 3 times\.",
        "shorter": r"gave 9 of 10 bytes from 10 on\.",
        "500": "OSError: .*Internal Server Error.* Tried 3 times",
        "403": "access denied",
        "http://127.0.0.1:1/b": "redirects to http://127.0.0.1:1/b, which is not followed",
    }.items():
        server.faults = [fault]
        with pytest.raises(StoreError, match=message):
            file.read(10, 20)


def test_no_server_is_an_error(folder: Path) -> None:
    pytest.importorskip("aiohttp")
    with range_server(folder) as server:
        pass

    with pytest.raises(StoreError, match=r"a\.tar: ClientConnectorError: Cannot connect .*\. Tried 3 times\. "):
        RemoteFile(f"{server.url}/a.tar").read(0, 1)


def test_credentials_come_from_netrc(server: RangeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    RemoteFile(f"{server.url}/a.tar").read(0, 1)

    assert server.requests[0][2] == "Basic bWU6c2VjcmV0"


def test_an_address_with_credentials_is_no_file() -> None:
    with pytest.raises(StoreError, match=r"^https://host/a: holds a password"):
        RemoteFile("https://u:secret@host/a")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def fail(name: str, *arguments: object) -> object:
        if name == "aiohttp":
            raise ImportError(name)
        return real(name, *arguments)  # type: ignore[arg-type]

    ranges.file_system.cache_clear()  # as in a new process
    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(StoreError, match=r'^https://host/a: needs other packages: python -m pip .* "\.\[remote\]"$'):
        RemoteFile("https://host/a").read(0, 1)


def test_a_forked_process_reads_by_connections_of_its_own(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "TRY_S", 5.0)
    file = RemoteFile(f"{server.url}/a.tar")
    assert file.read(0, 1) == CONTENT[:1]
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(file.read(10, 20) + file.read(20, 30)))

    process.start()

    assert receiver.poll(60)
    assert receiver.recv() == CONTENT[10:30]
    assert file.read(20, 30) == CONTENT[20:30]
    process.join()
    assert len(server.requests) == 4  # none was tried again
