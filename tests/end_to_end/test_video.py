"""test.py translates a video: every frame, in order, with the times and the sound of the source, or refuses it."""

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from data.batch import Batch, DataError
from data.files.video_file import VideoFile
from inference.predictor import Predictor
from tests import processes
from tests.conftest import save_image, write_tiny_config
from tests.reliability.command_line import CommandLine
from tests.runs import translate, translation_script, untrained_run, wait_for
from tests.videos import images_of, shown, sound_packets, times_of, write_video

N_FRAMES = 12  # half a second


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that translates RGB images, with dropout."""
    folder = tmp_path_factory.mktemp("run")
    pair = np.random.default_rng(0).integers(0, 256, (32, 64, 3), dtype=np.uint8)
    save_image(folder / "set" / "train" / "x.png", pair)
    settings = ["data.layout=side_by_side", f"data.root={folder / 'set'}", "data.instance_edges=false"]
    return untrained_run(write_tiny_config(folder), *settings, "generator.dropout=true")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "clip.mp4", n_frames=N_FRAMES)


@pytest.fixture
def arguments(run_folder: Path, clip: Path) -> list[str]:
    return ["--checkpoint", str(run_folder), "--opt-level", "O0", "--input", str(clip)]


@pytest.fixture
def negative(monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """A network that makes the negative of each frame, and the list of the batches that it got."""
    batches: list[Batch] = []

    def translated(self: Predictor, batch: Batch) -> Tensor:
        batches.append(batch)
        return 255 - batch.source

    monkeypatch.setattr(Predictor, "translate", translated)
    return batches


def shown_negative(path: Path) -> list[int]:
    return shown([255 - image for image in images_of(path)])


def test_every_frame_is_translated_in_order_with_times_and_sound(
    arguments: list[str], clip: Path, tmp_path: Path, negative: list[Batch]
) -> None:
    output = tmp_path / "out" / "b.mp4"
    translate(*arguments, "--output", str(output), "--batch-size", "5")
    assert shown_negative(output) == list(range(N_FRAMES))
    assert times_of(output) == times_of(clip)
    assert VideoFile(output).rate == 24
    assert sound_packets(output) == sound_packets(clip)
    assert [path.name for path in output.parent.iterdir()] == ["b.mp4"]
    assert [len(batch.names) for batch in negative] == [5, 5, 2]
    assert {name for batch in negative for name in batch.names} == {"clip"}  # one name: one noise and one style


def test_outputs_have_a_default_and_are_not_overwritten(
    arguments: list[str], tmp_path: Path, clip: Path, negative: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    translate(*arguments)
    output = tmp_path / "results" / "tiny" / "clip_step1.mp4"
    before = output.read_bytes()
    (tmp_path / "link.mp4").symlink_to(clip)
    for path, message in {
        output: "already exists. Choose another --output, or --existing replace.",
        tmp_path / "link.mp4": "already exists",
        tmp_path: "is not a video file name. Choose one that ends in .mp4",
        tmp_path / "b.webm": "is not a video file name",
    }.items():
        with pytest.raises(DataError, match=re.escape(f"--output: {path} {message}")):
            translate(*arguments, "--output", str(path))
    with pytest.raises(DataError, match=r"link\.mp4 already exists"):
        translate(*arguments, "--output", "link.mp4", "--existing", "replace")
    assert output.read_bytes() == before
    other = write_video(tmp_path / "other.avi", n_frames=3, codec="mjpeg", pix_fmt="yuvj420p", sound="mp3")
    translate(*arguments[:-1], str(other), "--output", str(output), "--existing", "replace", "--size", "trained")
    assert shown_negative(output) == [0, 1, 2]


def test_a_signal_leaves_no_partial_video(run_folder: Path, tmp_path: Path) -> None:
    output, long = tmp_path / "out", write_video(tmp_path / "long.mp4", n_frames=45, size=(512, 512), rate=1)
    command = ["test.py", "--checkpoint", str(run_folder), "--input", str(long), "--device", "cpu"]
    process = processes.start_program([*command, "--output", str(output / "b.mp4")], tmp_path / "said")
    wait_for(output / ".b.mp4.writing")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join(processes.PATIENCE_S)
    assert process.exitcode == 128 + signal.SIGTERM
    assert len((tmp_path / "said").read_text().splitlines()[-1:]) == 1
    assert list(output.iterdir()) == []


def test_options_of_images_are_refused(arguments: list[str], command_line: CommandLine) -> None:
    for options, message in {
        "--targets x --nodata 0": "--targets, --nodata cannot be used with a video. Remove it.",
        "--feature-maps x": "--feature-maps cannot be used with a video",
        "--existing keep": "--existing keep cannot be used with a video",
        "--input other.mp4": "is one of 2 inputs. Translate each video by itself.",
    }.items():
        assert message in command_line.refusal(translation_script().main, *arguments, *options.split())[0]
