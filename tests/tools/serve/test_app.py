"""The addresses of the service, its limits and its refusals."""

import errno
import gzip
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import pytest

from tests.runs import untrained_run, wait_until
from tests.tools.playground import pages
from tests.tools.serve.services import BOUNDARY, FORM, Hold, ask, form, png, serving
from tests.volumes import OF_VOLUMES, noise, save_volume
from tools.serve import gate
from tools.serve.request_files import RequestFiles
from tools.serve.web import WebServer
from utils.errors import ConfigError

TOKEN = "0123456789abcdefghij"
KEY = {"Authorization": f"Bearer {TOKEN}"}
SMALL = png(8, 8)
BODY = form(source=SMALL, instances=SMALL)
COMPRESSED = {"Content-Encoding": "gzip"}


@pytest.fixture(scope="module")
def server(tiny_run: Path) -> Iterator[WebServer]:
    limits = ("--max-bytes", "100000", "--max-pixels", "4096", "--max-waiting", "3")
    with serving("--checkpoint", tiny_run, "--opt-level", "O0", *limits) as running:
        yield running


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "LINGER_S", 60.0)  # a machine may be busy: each client here sends its body to the end


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Hold:
    return Hold(monkeypatch)


def n_waiting(server: WebServer) -> int:
    """Return the number of translations that are read, computed or wait, of at most 64."""
    service = server.config.app.app.routes[0].endpoint.__self__  # type: ignore[union-attr]
    return int(service.arguments.max_waiting - service._places._value)


def unfinished(server: WebServer, body: bytes = BODY) -> socket.socket:
    """Send a request without the end of its body."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {FORM['Content-Type']}\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-50])
    return connection


def test_the_model_and_the_addresses_are_described(server: WebServer) -> None:
    model = json.loads(ask(server, "/model").body)
    assert model["inputs"] == {"source": "class ids", "instances": "ids"}
    assert (model["source_channels"], model["source_range"]) == (1, None)
    assert (model["name"], model["step"], model["size_multiple"], model["output"]) == ("tiny", 4, 4, "image/png")
    assert model["classes"]["1"] == "wall"
    assert model["limits"]["max_pixels"] == 4096
    assert ask(server, "/health").body == b"ok\n"
    assert [ask(server, path).status for path in ("/translate", "/reload")] == [405, 405]


def test_requests_that_wait_are_translated_together_with_the_same_pixels(server: WebServer, hold: Hold) -> None:
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(ask, server, "/translate", BODY, FORM)
        hold.begun.wait(60)
        others = [threads.submit(ask, server, "/translate", BODY, FORM) for _ in range(2)]
        wait_until(lambda: hold.n_read == 3)
        assert ask(server, "/translate", BODY, FORM)[:2] == (
            503,
            b"3 other requests are in progress. Try again later.\n",
        )
        hold.opened.set()
        assert first.result().status == 200
        assert {other.result().body for other in others} == {first.result().body}
    assert hold.sizes == [1, 2]


def test_the_translation_of_a_client_that_is_gone_is_left_out(
    server: WebServer, hold: Hold, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(ask, server, "/translate", BODY, FORM)
        hold.begun.wait(60)
        with unfinished(server) as connection:
            connection.sendall(BODY[-50:])
            wait_until(lambda: n_waiting(server) == 2)
        wait_until(lambda: n_waiting(server) == 1)
        hold.opened.set()
        assert first.result().status == 200
    assert hold.sizes == [1]
    assert "a request failed" not in caplog.text


def test_a_translation_that_has_begun_is_completed_and_others_have_a_time_limit(tiny_run: Path, hold: Hold) -> None:
    with serving("--checkpoint", tiny_run, "--timeout-s", "3") as server, ThreadPoolExecutor(1) as threads:
        first = threads.submit(ask, server, "/translate", BODY, FORM)
        hold.begun.wait(60)
        with unfinished(server) as upload:
            second = ask(server, "/translate", BODY, FORM)
            assert upload.recv(99).startswith(b"HTTP/1.1 503 ")
        hold.opened.set()
        assert first.result().status == 200
    assert (second.status, second.headers["Retry-After"], hold.sizes) == (503, "1", [1])
    assert b"the translation did not begin in 3 s. Try later, or send a smaller image" in second.body


def test_requests_wait_undecoded_while_two_batches_are_decoded(tiny_run: Path, hold: Hold) -> None:
    with serving("--checkpoint", tiny_run, "--batch-size", "1") as server, ThreadPoolExecutor(5) as threads:
        answers = [threads.submit(ask, server, "/translate", BODY, FORM) for _ in range(5)]
        wait_until(lambda: n_waiting(server) == 5)
        wait_until(lambda: hold.n_read == 2)
        time.sleep(0.2)
        assert hold.n_read == 2
        hold.opened.set()
        assert {answer.result().status for answer in answers} == {200}


@pytest.mark.parametrize(("seconds", "status"), [(60, 200), (0, 503)])
def test_a_stop_answers_requests_that_have_begun_and_refuses_them_after_the_drain(
    tiny_run: Path, hold: Hold, seconds: int, status: int
) -> None:
    with ThreadPoolExecutor(2) as threads:
        with serving("--checkpoint", tiny_run, "--drain-s", seconds) as server:
            answers = [threads.submit(ask, server, "/translate", BODY, FORM) for _ in range(2)]
            wait_until(lambda: hold.n_read == 2)
            upload = unfinished(server)
            assert ask(server, "/health").status == 200  # the upload is being read
            if seconds:
                upload.sendall(BODY[-50:])
                Timer(0.3, hold.opened.set).start()
        assert [answer.result().status for answer in answers] == [status] * 2
        hold.opened.set()
    with upload:
        answer = b"".join(iter(lambda: upload.recv(65536), b""))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert answer.endswith(b"\r\n\r\nthe server is stopping. Try again later.\n") == (status == 503)


def test_uploads_that_stall_take_no_place(server: WebServer) -> None:
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(unfinished(server))
        assert ask(server, "/translate", BODY, FORM).status == 200


def test_reload_translates_with_the_newest_checkpoint(tiny_run: Path, tmp_path: Path) -> None:
    link = tmp_path / "tiny"
    link.symlink_to(tiny_run)
    with serving("--checkpoint", link) as server:
        link.unlink()
        refused = ask(server, "/reload", b"")
        assert (refused.status, refused.body.count(b"\n")) == (409, 1)
        assert b"The service keeps the previous generator." in refused.body
        assert ask(server, "/translate", BODY, FORM).status == 200
        link.symlink_to(tiny_run)
        assert ask(server, "/reload", b"").status == 200
        assert ask(server, "/translate", BODY, FORM).status == 200


def test_a_full_disk_is_one_line(
    server: WebServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RequestFiles, "write", fail)
    answer = ask(server, "/translate", BODY, FORM)
    assert answer[:2] == (507, b"the disk of the server is full. Try again later.\n")
    assert "temporary files: No space left on device. Free disk space" in caplog.text
    assert "Traceback" not in caplog.text


TWICE = form(source=SMALL).partition(f"\r\n--{BOUNDARY}--".encode())[0] + b"\r\n"  # another form follows


@pytest.mark.parametrize(
    ("sent_body", "headers", "status", "answer"),
    [
        (b"", {}, 400, "this generator needs source, instances, but the request has source. "),
        (form(source=b"a", instances=b"b").replace(b'; filename="photo.x"', b""), FORM, 400,
         "has source (no file), instances (no file). With curl: --form source=@FILE --form"),
        (TWICE + BODY, FORM, 400, "has source, source, instances. With"),
        (gzip.compress(BODY, mtime=0), FORM | COMPRESSED, 400, "the body cannot be read as multipart/form-data"),
        (form(source=png(8, 8, 77), instances=SMALL), FORM, 400, "holds id 77, allowed are 0 to 11: "),
        (form(source=png(65, 64), instances=png(65, 64)), FORM, 413, ", more than 4096 pixels"),
        (form(source=png(1, 4096), instances=png(1, 4096)), FORM, 413, "padded for the generator: 4096x"),
        (bytes(4_000_000), {}, 413, "4,000,000 bytes, but the limit is 100,000"),
        (b"x", {"Content-Type": "Multipart/Form-Data"}, 400,
         "the body cannot be read as Multipart/Form-Data: Missing boundary in multipart. With curl: --form source=@F"),
        (f"--{BOUNDARY}\r\n\xff: \r\n".encode("latin-1"), FORM, 400, "Invalid multipart data"),
        (BODY, {"Content-Type": f"{FORM['Content-Type']}; charset=undefined"}, 400, "undefined encoding"),
        (form(**{"\x1b[31m": SMALL}), FORM, 400, r"has \x1b[31m. "),
    ],
)  # fmt: skip
def test_unfit_translations_are_refused(
    server: WebServer, sent_body: bytes, headers: dict[str, str], status: int, answer: str
) -> None:
    found = ask(server, "/translate", sent_body, headers)
    assert found.status == status, found.body
    assert answer in found.body.decode()
    assert found.body.count(b"\n") == 1


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz", ".mha", ".mhd", ".nrrd", ".dcm"])
def test_a_volume_is_refused_with_the_command_that_translates_it(
    server: WebServer, tmp_path: Path, suffix: str
) -> None:
    content = bytes(128) + b"DICM" if suffix == ".dcm" else save_volume(tmp_path / f"p{suffix}", noise(0)).read_bytes()
    for body, headers in ((content, {}), (form(source=content, instances=SMALL), FORM)):
        answer = ask(server, "/translate", body, headers)
        text = b"source: is a volume or a gzip file, not an image. Run python test.py --input FILE.\n"
        assert (answer.status, answer.body) == (415, text)


def test_a_name_that_cannot_be_encoded_is_accepted(server: WebServer) -> None:
    headers = {"Content-Type": f"{FORM['Content-Type']}; charset=utf-7"}
    assert ask(server, "/translate", BODY.replace(b"photo.x", b"+2AA-.x"), headers).status == 200


def test_parameters_that_would_have_no_effect_are_refused(server: WebServer) -> None:
    for query in ("sede=3", "seed=3&seed=4"):
        assert ask(server, f"/translate?{query}", BODY, FORM).status == 400


def test_a_run_of_volumes_is_refused(tiny_config: Path) -> None:
    run_folder = untrained_run(tiny_config, *OF_VOLUMES)
    expected = r"^\S*\.pt: translates volumes, .*\. Run python test\.py --checkpoint \S*\.pt --input PATH\.$"
    for opened in (serving, pages.serving):
        with pytest.raises(ConfigError, match=expected), opened("--checkpoint", str(run_folder)):
            pass


def test_a_body_without_a_length_is_counted(server: WebServer) -> None:
    answer = ask(server, "/translate", iter([bytes(60_000)] * 50))
    assert answer.status == 413
    n_bytes, most = (int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", answer.body.decode()))
    assert 100_000 < n_bytes < 3_000_000  # refused before its end
    assert most == 100_000


def test_others_need_the_token(tiny_run: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with serving("--checkpoint", tiny_run, "--host", "0.0.0.0", "--token-file", tmp_path / "token") as server:
        elsewhere = KEY | {"Host": "translations.example"}
        assert ask(server, "/model", headers=elsewhere).status == 200
        assert ask(server, "/health").status == 200
        for wrong in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"}):
            answer = ask(server, "/model", headers=wrong)
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert ask(server, "/translate", b"x").status == 401
