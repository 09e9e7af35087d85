"""Row 17: weights that have to be downloaded, without network, from a bad server, or damaged on the disk."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.error import URLError

import pytest
import torch

import train
from losses import perceptual
from losses.perceptual import load_vgg19_weights
from tests.reliability.command_line import CommandLine
from utils import pretrained
from utils.pretrained import WeightsError

pytestmark = pytest.mark.row(17)


def test_without_network_the_weights_are_told_with_their_place_and_how_to_do_without(
    tiny_config: Path, hub: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise URLError("Name or service not known")

    monkeypatch.setattr("torch.hub.urlopen", fail)
    (message,) = CommandLine(monkeypatch, capsys).refusal(train.main, "--config", str(tiny_config), "loss.vgg=10")
    for words in ("vgg19-dcbb9e9d.pth (548 MB)", str(hub), "Name or service not known", "TORCH_HOME"):
        assert words in message
    assert message.endswith("or do without by loss.vgg=0")
    assert list(hub.iterdir()) == []


def use_server(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    url = f"http://127.0.0.1:{port}/vgg19-dcbb9e9d.pth"
    monkeypatch.setattr(perceptual, "VGG19", replace(perceptual.VGG19, url=url))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_a_server_that_falls_silent_is_waited_for_only_so_long(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained, "SILENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes the call, and says nothing
        use_server(monkeypatch, server.getsockname()[1])
        with pytest.raises(WeightsError, match=r"could not be downloaded .*timed out.* or do without by loss\.vgg=0"):
            load_vgg19_weights()
    assert socket.getdefaulttimeout() is None
    assert list(hub.iterdir()) == []


@pytest.fixture
def hasty_server() -> Iterator[int]:
    """The port of a server that hangs up after half of what it has promised."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x" * 500)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_that_breaks_off_leaves_nothing(
    hub: Path, hasty_server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_server(monkeypatch, hasty_server)
    with pytest.raises(WeightsError, match="could not be downloaded"):
        load_vgg19_weights()
    assert list(hub.iterdir()) == []


def test_a_truncated_file_of_weights_is_told_with_the_remedy(hub: Path) -> None:
    torch.save({"features.0.weight": torch.zeros(64, 3, 3, 3)}, hub / "whole.pth")
    (hub / "vgg19-dcbb9e9d.pth").write_bytes((hub / "whole.pth").read_bytes()[:1000])
    with pytest.raises(WeightsError, match=r"cannot be read as weights; delete it, and it will be downloaded again"):
        load_vgg19_weights()
