"""Requests for a video that test.py refuses, in one line each."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from inference import video
from inference.request import Request
from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.runs import translate, translation_script
from tests.videos import train_on_images, write_video
from utils.distributed import World


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_on_images(tmp_path_factory.mktemp("run"))


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "clip.mp4", n_frames=2)


@pytest.fixture
def arguments(run_folder: Path, clip: Path) -> list[str]:
    return ["--checkpoint", str(run_folder), "--input", str(clip)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--targets", "x"], "--targets does not apply to a video. Remove it."),
        (["--instances", "x"], "--instances does not apply to a video"),
        (["--side", "A"], "--side A does not apply to a video"),
        (["--features", "sampled"], "--features does not apply to a video"),
        (["--existing", "keep"], "Keep its translated frames with --frames DIR."),
        (["--input", "other.mp4"], "is one of 2 inputs. Translate each video by itself."),
        (["--noise", "--batch-size", "2"], "--noise takes one image at a time"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_of_images_are_refused(
    arguments: list[str],
    options: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (line,) = CommandLine(monkeypatch, capsys).refusal(translation_script().main, *arguments, *options)
    assert message in line


def test_frames_are_of_a_video(run_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    save_image(tmp_path / "a.png", np.zeros((32, 32, 3), np.uint8))
    command = ["--checkpoint", str(run_folder), "--frames", str(tmp_path / "frames")]
    with pytest.raises(DataError, match=r"--frames: keeps the frames of a video\. Name a video with --input"):
        translate(*command, "--input", str(tmp_path / "a.png"))
    with pytest.raises(SystemExit, match="2"):
        translate(*command)
    assert "--frames needs --input" in capfd.readouterr().err


def test_networks_of_label_maps_translate_no_video(tiny_run: Path, clip: Path) -> None:
    with pytest.raises(DataError, match=r"translates label maps, which a video cannot hold: .* folder of images"):
        translate("--checkpoint", str(tiny_run), "--input", str(clip))


def test_one_process_translates_a_video(arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    request = Request.of(vars(translation_script().parse_arguments(arguments)))
    with pytest.raises(DataError, match=r"one process translates a video\. Start test.py without"):
        video.translate_video(request.input.paths[0], request, World(0, 2, torch.device("cpu")))


def test_without_the_package_av_one_line_names_the_command(
    arguments: list[str], clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    (line,) = CommandLine(monkeypatch, capsys).refusal(translation_script().main, *arguments)
    assert line == (
        f"error: --input {clip}: reading video needs av, which is not installed: "
        'python -m pip install --editable ".[video]"'
    )
