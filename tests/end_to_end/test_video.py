"""test.py translates a video: every frame, in order, with the times and the sound of the source, or refuses it."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import Batch, DataError
from data.files.image_files import read_rgb, write_png
from data.files.video_file import Frame, VideoFile
from inference import video
from inference.predictor import Predictor
from inference.request import Request
from inference.requested_predictor import build_predictor
from inference.translate import video_of
from tests import processes
from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.runs import translate, translation_script, wait_for, with_slow
from tests.videos import level, sound_packets, train_on_images, write_video
from utils.distributed import World

N_FRAMES = 12  # of the clip, half a second


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_on_images(tmp_path_factory.mktemp("run"))


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


def frames(path: Path) -> list[Frame]:
    problems: list[str] = []
    read = list(VideoFile(path).frames(problems))
    assert problems == []
    return read


def shown(path: Path) -> list[int]:
    """The numbers of the frames in the negative of a clip."""
    tones = [255 - frame.image[:, -4:, -4:].float().mean().item() for frame in frames(path)]
    return [round((tone - level(0)) / (level(1) - level(0))) for tone in tones]


@pytest.mark.parametrize("batch_size", ["1", "5"])
def test_every_frame_is_translated_in_order_with_times_and_sound(
    arguments: list[str],
    clip: Path,
    tmp_path: Path,
    negative: list[Batch],
    batch_size: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out" / "b.mp4"
    translate(*arguments, "--output", str(output), "--batch-size", batch_size)
    said = capfd.readouterr().out
    for text in (f"translated   {N_FRAMES} frames: ", "video        48x32, ", "sound copied (aac)"):
        assert text in said
    assert shown(output) == list(range(N_FRAMES))
    assert [frame.time_s for frame in frames(output)] == [frame.time_s for frame in frames(clip)]
    assert VideoFile(output).rate == 24
    assert sound_packets(output) == sound_packets(clip)
    assert [path.name for path in output.parent.iterdir()] == ["b.mp4"]
    sizes = [len(batch.names) for batch in negative]
    assert sizes == ([1] * N_FRAMES if batch_size == "1" else [5, 5, 2])


def test_frames_are_those_of_the_same_images(arguments: list[str], clip: Path, tmp_path: Path) -> None:
    """The network translates a frame as it translates the frame's picture; batches and tiles do not change it."""
    for number, frame in enumerate(frames(clip), start=1):
        write_png(tmp_path / "pictures" / f"{number:06d}.png", frame.image)
    pictures = ["--side", "none", "--output", str(tmp_path / "images")]
    translate(*arguments[:-1], str(tmp_path / "pictures"), *pictures)
    for options in ([], ["--batch-size", "5"], ["--tile", "16"]):
        kept = tmp_path / ("frames" + "".join(options))
        translate(*arguments, "--frames", str(kept), "--output", str(kept / "b.mkv"), *options)
        assert sorted(path.name for path in kept.iterdir()) == sorted(
            [*(f"{number:06d}.png" for number in range(1, N_FRAMES + 1)), "b.mkv", "origin.json"]
        )
        for image in kept.glob("*.png"):
            difference = read_rgb(image).int() - read_rgb(tmp_path / "images" / image.name).int()
            assert difference.abs().max() <= (1 if options else 0)


def test_all_frames_have_the_same_noise(arguments: list[str], tmp_path: Path, clip: Path) -> None:
    still = write_video(tmp_path / "still" / "clip.mp4", n_frames=1, sound=None)
    write_png(tmp_path / "frame" / "clip.png", frames(still)[0].image)
    noisy = [*arguments[:-1], str(tmp_path / "frame" / "clip.png"), "--noise", "--seed", "3"]
    translate(*noisy, "--side", "none", "--output", str(tmp_path / "image"))
    moving = [*arguments, "--noise", "--seed", "3", "--output", str(tmp_path / "b.mp4"), "--frames"]
    translate(*moving, str(tmp_path / "frames"))
    first = read_rgb(tmp_path / "image" / "clip.png")
    difference = read_rgb(tmp_path / "frames" / "000001.png").float() - first.float()
    assert difference.abs().mean() < 1  # the same noise; the frame is coded in another video
    assert json.loads((tmp_path / "frames" / "origin.json").read_text())["noise_name"] == "clip"


def test_an_interrupted_translation_is_resumed_from_its_frames(
    arguments: list[str],
    tmp_path: Path,
    clip: Path,
    negative: list[Batch],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = [*arguments, "--output", str(tmp_path / "out" / "b.mp4"), "--frames", str(tmp_path / "frames")]
    command += ["--batch-size", "4"]
    whole = VideoFile.frames

    def interrupted(self: VideoFile, problems: list[str]) -> Iterator[Frame]:
        for number, frame in enumerate(whole(self, problems)):
            if number == 10:
                raise KeyboardInterrupt
            yield frame

    with monkeypatch.context() as patch:
        patch.setattr(VideoFile, "frames", interrupted)
        with pytest.raises(KeyboardInterrupt):
            translate(*command)
    assert list((tmp_path / "out").iterdir()) == []
    names = [f"{number:06d}.png" for number in range(1, 9)]
    assert sorted(path.name for path in (tmp_path / "frames").iterdir()) == [*names, "origin.json"]
    broken = tmp_path / "frames" / names[1]
    broken.write_bytes(broken.read_bytes()[:60])
    save_image(tmp_path / "frames" / names[2], np.zeros((64, 96, 3), np.uint8))  # of other sides
    untouched = (tmp_path / "frames" / names[0]).stat().st_mtime_ns
    negative.clear()
    capfd.readouterr()
    translate(*command)
    assert sum(len(batch.names) for batch in negative) == N_FRAMES - 6
    assert (tmp_path / "frames" / names[0]).stat().st_mtime_ns == untouched
    said = capfd.readouterr().out
    assert "kept         6 existing frames\n" in said
    assert f"translated   {N_FRAMES - 6} frames: " in said
    assert shown(tmp_path / "out" / "b.mp4") == list(range(N_FRAMES))
    assert sound_packets(tmp_path / "out" / "b.mp4") == sound_packets(clip)


def test_frames_of_another_origin_are_not_mixed(
    arguments: list[str], tmp_path: Path, clip: Path, negative: list[Batch]
) -> None:
    folder = tmp_path / "frames"
    command = [*arguments, "--output", str(tmp_path / "b.mp4"), "--frames", str(folder)]
    save_image(folder / "000001.png", np.zeros((32, 48, 3), np.uint8))
    with pytest.raises(DataError, match=r"frames holds 1 frame of an origin that is not recorded\. Choose another"):
        translate(*command)
    with pytest.raises(DataError, match=r"is not recorded\. Choose another --frames\.$"):
        translate(*command, "--existing", "replace")
    assert (folder / "000001.png").exists()
    shutil.rmtree(folder)
    translate(*command)
    (tmp_path / "b.mp4").unlink()
    with pytest.raises(
        DataError, match=rf"holds {N_FRAMES} frames of another origin \(tta\)\. Choose another --frames, or"
    ):
        translate(*command, "--tta", "flip")
    write_video(clip, n_frames=10)
    with pytest.raises(DataError, match=r"another origin \(video_sha256\)"):
        translate(*command)
    negative.clear()
    translate(*command, "--existing", "replace")
    assert len(negative) == 10
    assert len(list(folder.glob("*.png"))) == 10


def test_the_output_has_the_name_of_run_and_clip_by_default(
    arguments: list[str], tmp_path: Path, negative: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    translate(*arguments)
    assert (tmp_path / "results" / "tiny" / "clip_step1.mp4").is_file()
    other = write_video(tmp_path / "other.avi", n_frames=N_FRAMES, codec="mjpeg", pix_fmt="yuvj420p", sound="mp3")
    translate(*arguments[:-1], str(other), "--size", "trained")
    assert shown(tmp_path / "results" / "tiny" / "other_step1.mp4") == list(range(N_FRAMES))


def test_files_are_not_overwritten_unless_asked_for(
    arguments: list[str], tmp_path: Path, clip: Path, negative: list[Batch]
) -> None:
    output = tmp_path / "b.mp4"
    output.write_text("mine")
    (tmp_path / "link.mp4").symlink_to(clip)
    for path, message in {
        output: r"b\.mp4 already exists\. Choose another --output, or --existing replace\.$",
        clip: r"clip\.mp4 is the input\. Choose another",
        tmp_path / "link.mp4": r"link\.mp4 is the input\. Choose another",
        tmp_path: r"is no name of a video\. Choose one that ends in \.mp4",
        tmp_path / "b.avi": r"is no name of a video\. .*; --frames DIR keeps the frames",
    }.items():
        with pytest.raises(DataError, match=message):
            translate(*arguments, "--output", str(path))
    assert output.read_text() == "mine"
    assert len(frames(clip)) == N_FRAMES
    translate(*arguments, "--output", str(output), "--existing", "replace")
    assert shown(output) == list(range(N_FRAMES))
    with pytest.raises(DataError, match=r"--frames: .*b\.mp4 is a file"):
        translate(*arguments, "--output", str(tmp_path / "c.mp4"), "--frames", str(output))


def test_a_video_that_is_cut_off_is_translated_as_far_as_it_goes(
    arguments: list[str], tmp_path: Path, negative: list[Batch]
) -> None:
    source = write_video(tmp_path / "cut.mp4", n_frames=47, muxing={"movflags": "faststart"})
    source.write_bytes(source.read_bytes()[: source.stat().st_size * 6 // 10])
    with pytest.raises(DataError, match=r"cut\.mp4: ends after .* s of 2\.0 s, the rest is missing"):
        translate(*arguments[:-1], str(source), "--output", str(tmp_path / "b.mp4"))
    assert shown(tmp_path / "b.mp4")[:10] == list(range(10))


def test_the_length_need_not_be_known(arguments: list[str], tmp_path: Path, negative: list[Batch]) -> None:
    source = write_video(
        tmp_path / "live.mkv", n_frames=N_FRAMES, muxing={"live": "1"}
    )  # as programs write that record
    assert VideoFile(source).n_frames is None
    translate(*arguments[:-1], str(source), "--output", str(tmp_path / "b.mp4"))
    assert shown(tmp_path / "b.mp4") == list(range(N_FRAMES))


def test_many_frames_are_worth_compiling(
    arguments: list[str], tmp_path: Path, negative: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[bool] = []

    def built(*positional: Any, compiles: bool, **named: Any) -> Predictor:
        compiled.append(compiles)
        return build_predictor(*positional, **named)

    monkeypatch.setattr("inference.requested_predictor.build_predictor", built)
    monkeypatch.setattr("inference.requested_predictor.what_compiling_lacks", lambda _: None)
    for least in (N_FRAMES * 32 * 48, N_FRAMES * 32 * 48 + 1):
        monkeypatch.setattr("inference.requested_predictor.MIN_PIXELS_TO_COMPILE", least)
        translate(*arguments, "--output", str(tmp_path / f"{least}.mp4"))
    assert compiled == [True, False]


# tests/end_to_end/test_existing_results.py has SIGINT
@pytest.mark.parametrize("number", with_slow([signal.SIGTERM, signal.SIGHUP], [signal.SIGINT]))
def test_an_interrupt_leaves_no_partial_video(run_folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    output, kept = tmp_path / "out", tmp_path / "frames"
    long = write_video(tmp_path / "long.mp4", n_frames=45, size=(512, 512), rate=1)
    command = ["test.py", "--checkpoint", str(run_folder), "--input", str(long), "--device", "cpu"]
    command += ["--output", str(output / "b.mp4"), "--frames", str(kept)]
    process = processes.start_program(command, tmp_path / "said")
    wait_for(kept / "000002.png")
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(processes.PATIENCE_S)
    assert process.exitcode == 128 + number
    assert (tmp_path / "said").read_text().splitlines()[-1] == "interrupted"
    assert list(output.iterdir()) == []
    assert (kept / "000002.png").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named(
    arguments: list[str], tmp_path: Path, negative: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".b.mkv.writing").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as error:
        translate(*arguments, "--output", str(tmp_path / "b.mkv"))
    assert error.value.filename == str(tmp_path / "b.mkv")
    assert not (tmp_path / "b.mkv").exists()


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
    arguments: list[str], options: list[str], message: str, command_line: CommandLine
) -> None:
    (line,) = command_line.refusal(translation_script().main, *arguments, *options)
    assert message in line


def test_frames_are_of_a_video(run_folder: Path, tmp_path: Path, command_line: CommandLine) -> None:
    save_image(tmp_path / "a.png", np.zeros((32, 32, 3), np.uint8))
    given = ["--checkpoint", str(run_folder), "--frames", str(tmp_path / "frames")]
    with pytest.raises(DataError, match=r"--frames: keeps the frames of a video\. Name a video with --input"):
        translate(*given, "--input", str(tmp_path / "a.png"))
    assert "--frames needs --input" in command_line.refusal(translation_script().main, *given)[0]


def test_a_video_is_known_by_its_name_and_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    paths = [tmp_path / name for name in ("A.MP4", "a.png", "folder.mp4")]
    requests = [Request.of(vars(translation_script().parse_arguments(["--input", str(path)]))) for path in paths]
    assert list(map(video_of, requests)) == [paths[0], None, None]


def test_networks_of_label_maps_translate_no_video(tiny_run: Path, clip: Path) -> None:
    with pytest.raises(DataError, match=r"translates label maps, which a video cannot hold: .* folder of images"):
        translate("--checkpoint", str(tiny_run), "--input", str(clip))


def test_one_process_translates_a_video(arguments: list[str]) -> None:
    request = Request.of(vars(translation_script().parse_arguments(arguments)))
    with pytest.raises(DataError, match=r"one process translates a video\. Start test.py without"):
        video.translate_video(request.input.paths[0], request, World(0, 2, torch.device("cpu")))


def test_without_the_package_av_one_line_names_the_command(
    arguments: list[str], clip: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    (line,) = command_line.refusal(translation_script().main, *arguments)
    assert line == (
        f"error: --input {clip}: reading video needs av, which is not installed: "
        'python -m pip install --editable ".[video]"'
    )
