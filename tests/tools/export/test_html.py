"""The page that carries its network: what is in it, and what cannot be exported. tests/tools/playground opens it."""

import gzip
import hashlib
import io
import json
import re
from base64 import b64decode
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.batch import DataError
from inference.load import load_generator
from tests.runs import program_main, untrained_run
from tests.volumes import OF_VOLUMES
from tools.export import html
from tools.export.format import ExportError
from tools.export.html import WASM, WEBGPU, runtime_files

CONTENT = {name: f"content of {name}".encode() for name in (*WASM, *WEBGPU)}


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use small files instead of onnxruntime-web's, an empty cache, and a program that is never written."""
    for name, content in CONTENT.items():
        monkeypatch.setitem(html.SHA256, name, hashlib.sha256(content).hexdigest())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(html, "export_program", lambda _, path, *__, **___: path.write_bytes(b"a program"))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The unpacked folder of the package."""
    folder = tmp_path / "package"
    (folder / "dist").mkdir(parents=True)
    for name, content in CONTENT.items():
        (folder / "dist" / name).write_bytes(content)
    return folder


def export(run_folder: Path, output: Path, *options: str) -> None:
    program_main("tools.export")(
        ["--checkpoint", str(run_folder), "--format", "html", "--output", str(output), *options]
    )


def parts_of(page: str) -> dict[str, bytes]:
    found = re.findall(r'id="part-([\w-]+)">([^<]+)</script>', page)
    return {name: gzip.decompress(b64decode(text)) for name, text in found}


def model_of(page: str) -> dict[str, Any]:
    match = re.search(r'id="model">(.*?)</script>', page)
    assert match is not None
    return json.loads(match[1])


def test_one_file_has_everything(tiny_run: Path, tmp_path: Path, package: Path) -> None:
    options = ("--samples", "2", "--license", "mit", "--description", "a & b")
    export(tiny_run, tmp_path / "page.html", "--web-runtime", str(package), *options)
    page = (tmp_path / "page.html").read_text()
    parts = parts_of(page)
    assert parts.keys() == {"runtime", "wasm", "generator", "sample-0", "sample-1"}
    assert (parts["runtime"], parts["wasm"]) == tuple(CONTENT[name] for name in WASM)
    assert parts["generator"] == b"a program"
    assert "http" not in page.replace("http.server", "").replace("http-equiv", "")  # nothing from a network
    for folder in (tiny_run.parent, Path.cwd()):
        assert not any(str(folder).encode() in content for content in (page.encode(), *parts.values()))
    model = model_of(page)
    assert model["samples"] == ["facade_00000", "facade_00001"]
    assert re.findall(r'(?:<footer>|"description">)(.*?)</', page) == ["a &amp; b", "Licence: mit"]
    assert (model["card"]["license"], model["card"]["data"]["samples"]) == ("mit", 5)
    assert model["sample_sizes"] == [[32, 32]] * 2
    assert (model["width"], model["file_side"]) == (32, 4096)
    assert 10**6 < model["max_pixels"] < 2**26
    assert [kind["name"] for kind in model["classes"]][:3] == ["sky", "wall", "roof"]
    ids = np.frombuffer(parts["sample-0"], "<i4", 32 * 32)
    assert 0 <= ids.min() <= ids.max() < 12
    assert list(tmp_path.glob(".*")) == []


def test_samples_can_be_left_out(tiny_run: Path, tmp_path: Path, package: Path) -> None:
    with pytest.raises(DataError, match=r"has no split 'held_back'\. Choose --split train or --split val or"):
        export(tiny_run, tmp_path / "page.html", "--split", "held_back", "--web-runtime", str(package))
    for name in ("page.html", "again.html"):
        export(tiny_run, tmp_path / name, "--samples", "0", "--web-runtime", str(package))
    page = (tmp_path / "page.html").read_text()
    assert page == (tmp_path / "again.html").read_text()
    assert '; connect-src data:"' in unescape(page)
    assert parts_of(page).keys() == {"runtime", "wasm", "generator"}
    assert model_of(page)["samples"] == []


def test_a_folder_has_files_side_by_side(tiny_run: Path, tmp_path: Path, package: Path) -> None:
    export(tiny_run, tmp_path / "page", "--folder", "--web-runtime", str(package / "dist"))
    assert {path.name for path in (tmp_path / "page").iterdir()} == {"index.html", "generator.onnx", *WEBGPU}
    page = (tmp_path / "page" / "index.html").read_text()
    assert re.findall(r'data-file="([^"]+)"', page) == [*WEBGPU, "generator.onnx"]
    assert "; connect-src data: 'self'\"" in unescape(page)
    with pytest.raises(FileExistsError):
        export(tiny_run, tmp_path / "page", "--folder", "--web-runtime", str(package))


def test_what_a_page_cannot_hold_is_refused(
    tiny_config: Path, tiny_run: Path, tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_features = untrained_run(tiny_config, "features.n_channels=3", "features.n_downsamplings=2", "run.name=features")
    of_volumes = untrained_run(tiny_config, *OF_VOLUMES, "run.name=volumes")
    monkeypatch.setattr(html, "MAX_BYTES_IN_PAGE", 1000)
    for run_folder, message in (
        (tiny_run, r"MB of weights, .* at most 0 MB\. Add --folder"),
        (of_volumes, r"translates volumes, which a page cannot show. Use --format onnx with pairgan\.py"),
        (of_features, r"takes instance features, which a page cannot show. Use --format onnx"),
    ):
        with pytest.raises(ExportError, match=message):
            export(run_folder, tmp_path / "page.html", "--web-runtime", str(package))
    assert not (tmp_path / "page.html").exists()


def test_a_wrong_runtime_is_named(tmp_path: Path, package: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given in ("missing", "empty"):
        with pytest.raises(ExportError, match=rf"{given}/{WASM[0]}\. Run npm pack"):
            runtime_files(WASM, tmp_path / given)
    (package / "dist" / WASM[1]).write_bytes(b"other")
    with pytest.raises(ExportError, match=rf"{WASM[1]} is not from onnxruntime-web@1.30.0"):
        runtime_files(WASM, package)


def test_a_failed_download_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr(html.urllib.request, "urlopen", fail)
    with pytest.raises(ExportError, match=r"cannot be downloaded \(no route\)\. .* npm pack"):
        runtime_files(WASM, None)
    assert not (tmp_path / "cache").exists()


def test_files_from_the_web_are_checked_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served, asked = dict(CONTENT), list[str]()

    def answer(url: str, timeout: float) -> io.BytesIO:
        asked.append(url)
        return io.BytesIO(served[url.rpartition("/")[2]])

    monkeypatch.setattr(html.urllib.request, "urlopen", answer)
    for _ in range(2):
        assert runtime_files(WEBGPU, None) == {name: CONTENT[name] for name in WEBGPU}
    assert len(asked) == len(WEBGPU)
    assert all(url.startswith("https://") for url in asked)
    served[WASM[0]] = b"<html>"
    with pytest.raises(ExportError, match="is not from onnxruntime-web"):
        runtime_files(WASM, None)
    assert WASM[0] not in {path.name for path in (tmp_path / "cache").rglob("*.mjs")}
    (tmp_path / "cache" / "pairgan" / "onnxruntime-web@1.30.0" / WEBGPU[0]).write_bytes(b"damaged")
    with pytest.raises(ExportError, match="Delete the file"):
        runtime_files(WEBGPU, None)


def test_a_page_needs_no_data_set(tiny_run: Path, tmp_path: Path, package: Path) -> None:
    """As after safetensors, or where the data set has moved."""
    loaded = load_generator(
        next(tiny_run.glob("checkpoint-*.pt")), ["data.layout=paired_folders", "data.n_classes=12", "data.root=missing"]
    )
    html.export_page(loaded, tmp_path / "page.html", "float32", web_runtime=package)
    model = model_of((tmp_path / "page.html").read_text())
    assert model["samples"] == []
    assert [kind["name"] for kind in model["classes"]] == [str(number) for number in range(12)]
