"""Frames of videos become pairs, in splits that are apart in time."""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.files.image_files import read_size
from data.files.video_file import VideoFile
from tests.reliability.command_line import CommandLine
from tests.videos import level, write_video
from tools.convert_data import __main__ as convert_data
from tools.convert_data import videos
from tools.convert_data.videos import TimeSplits

SPLITS = ("train", "val", "test")


def convert(command: CommandLine, *arguments: str | Path) -> tuple[int, str, str]:
    return command.run(convert_data.main, "from-video", *map(str, arguments))


def names(target: Path, split: str) -> list[str]:
    sources, photos = (sorted(path.stem for path in target.glob(f"{split}_{side}/*")) for side in "AB")
    assert sources == photos
    return photos


@pytest.mark.parametrize("n_frames", [1, 9, 40, 240, 10_000])
@pytest.mark.parametrize("every", [1, 7, 24])
@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.0, 0.3), (0.2, 0.0), (0.0, 0.0)])
def test_splits_are_blocks_with_unused_frames_between(n_frames: int, every: int, shares: tuple[float, float]) -> None:
    splits = TimeSplits(n_frames, every, Fraction(24), {"val": shares[0], "test": shares[1]})
    chosen = list(splits.chosen())
    order = [SPLITS.index(split) for _, split in chosen]
    assert order == sorted(order)
    for (before, one), (after, other) in pairwise(chosen):
        assert one == other or after - before >= max(2 * every, splits.gap)
    if n_frames == 10_000:
        used = [split for split, share in zip(SPLITS, (1, *shares), strict=True) if share]
        assert list(dict.fromkeys(split for _, split in chosen)) == used
        share = sum(split == "train" for _, split in chosen) * every / n_frames
        assert share == pytest.approx(1 - sum(shares), abs=0.01)


@pytest.mark.parametrize("source", ["edges", "grey", "low_resolution"])
def test_pairs_are_frames_and_their_sources(tmp_path: Path, command: CommandLine, source: str) -> None:
    clip = write_video(tmp_path / "clip.mp4", n_frames=40)
    target = tmp_path / "pairs"
    options = ("--every", "2", "--source", source, "--format", "png", "--val", "0.2", "--test", "0.2")
    code, out, _ = convert(command, clip, target, *options)
    assert code == 0
    made = {split: names(target, split) for split in SPLITS}
    assert made["train"] == [f"clip_{number:06d}" for number in range(1, 24, 2)]
    assert made["val"] == ["clip_000027", "clip_000029", "clip_000031"]
    assert made["test"] == ["clip_000035", "clip_000037", "clip_000039"]
    assert "12 pairs in train, 3 pairs in val, 3 pairs in test" in out
    photo = np.array(Image.open(target / "val_B" / "clip_000029.png"))
    assert photo.shape == (32, 48, 3)
    assert abs(int(photo[-2, -2, 0]) - level(28)) <= 2
    drawn = np.array(Image.open(target / "val_A" / "clip_000029.png"))
    assert drawn.shape == photo.shape
    assert not np.array_equal(photo, drawn)
    assert "python -m tools.convert_data source PHOTO --like" in out
    assert "python train.py --config configs/own_pairs_small.yaml" in out
    sources = tmp_path / "sources"
    arguments = ("source", str(target / "val_B"), "--like", str(target), "--output", str(sources))
    assert command.run(convert_data.main, *arguments)[0] == 0
    assert np.array_equal(np.array(Image.open(sources / "clip_000029.png")), drawn)


def test_about_one_frame_a_second_of_each_clip_by_default(tmp_path: Path, command: CommandLine) -> None:
    for name, rate in (("a.mp4", 4), ("b.mkv", 8)):
        write_video(tmp_path / name, n_frames=40, rate=rate, sound=None)
    code, _, _ = convert(command, tmp_path / "a.mp4", tmp_path / "b.mkv", tmp_path / "pairs", "--val", "0")
    assert code == 0
    # 36 frames are before the border; half of the gap of 4 and of 8 frames is cut off them
    assert names(tmp_path / "pairs", "train") == [
        *(f"a_{number:06d}" for number in range(1, 35, 4)),
        *(f"b_{number:06d}" for number in range(1, 33, 8)),
    ]


def test_nothing_is_overwritten_and_what_is_missing_is_added(
    tmp_path: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip, target = write_video(tmp_path / "clip.mp4"), tmp_path / "pairs"
    options = (clip, target, "--every", "3")
    assert convert(command, *options)[0] == 0
    (line,) = command.refusal(convert_data.main, "from-video", *map(str, options))
    assert "already exists" in line
    missing = target / "train_B" / "clip_000004.jpg"
    content, before = missing.read_bytes(), {path: path.stat().st_mtime_ns for path in target.rglob("*.*g")}
    missing.unlink()
    assert convert(command, *options, "--existing", "keep")[0] == 0
    assert missing.read_bytes() == content
    changed = {path.stem for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert changed == {"clip_000004"}
    with monkeypatch.context() as patch:
        patch.setattr(VideoFile, "frames", lambda *_: pytest.fail("decoded, although nothing is missing"))
        assert convert(command, *options, "--existing", "keep")[0] == 0
    arguments = ("from-video", *map(str, options), "--existing", "keep")
    assert "the same --val and --test as before" in command.refusal(convert_data.main, *arguments, "--test", "0.6")[0]
    assert "use the same settings" in command.refusal(convert_data.main, *arguments, "--size", "32")[0]
    assert convert(command, *options, "--existing", "replace", "--size", "32")[0] == 0
    assert read_size(missing) == (21, 32)


def test_pairs_of_other_settings_are_not_mixed(tmp_path: Path, command: CommandLine) -> None:
    clips = [write_video(tmp_path / name) for name in ("a.mp4", "b.mp4")]
    target = tmp_path / "pairs"
    assert convert(command, *clips, target, "--every", "3")[0] == 0
    arguments = ("from-video", str(clips[0]), str(target), "--every", "3", "--existing", "replace")
    (line,) = command.refusal(convert_data.main, *arguments, "--size", "32")
    assert "pairs made with other settings. Choose another TO" in line
    assert command.run(convert_data.main, *arguments)[0] == 0


def test_a_clip_that_is_too_short_is_named(tmp_path: Path, command: CommandLine) -> None:
    clip, arguments = write_video(tmp_path / "a.mp4", n_frames=2), ("--every", "1", "--val", "0.9", "--test", "0")
    (line,) = command.refusal(convert_data.main, "from-video", str(clip), str(tmp_path / "pairs"), *arguments)
    assert "2 frames, too short for --every 1" in line
    clip = write_video(tmp_path / "b.mp4", n_frames=12)
    code, out, err = convert(command, clip, tmp_path / "pairs", "--every", "12")
    assert code == 0
    assert "12 frames, none of them in val and test with --every 12" in out + err


def test_frames_wait_for_a_free_core(tmp_path: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory holds a few frames, however long the video is."""
    monkeypatch.setattr("tools.convert_data.conversion.usable_cores", lambda: 1)
    ahead: list[int] = []
    n_decoded, whole = 0, VideoFile.frames

    def counted(self: VideoFile, problems: list[str]) -> object:
        nonlocal n_decoded
        for frame in whole(self, problems):
            n_decoded += 1
            yield frame

    original = videos.PhotoPairs.of

    def noted(self: videos.PhotoPairs, photo: object) -> object:
        ahead.append(n_decoded - len(ahead))
        return original(self, photo)  # type: ignore[arg-type]

    monkeypatch.setattr(VideoFile, "frames", counted)
    monkeypatch.setattr(videos.PhotoPairs, "of", noted)
    write_video(tmp_path / "clip.mp4", n_frames=40)
    shares = ("--val", "0", "--test", "0")
    assert convert(command, tmp_path / "clip.mp4", tmp_path / "pairs", "--every", "1", *shares)[0] == 0
    assert len(ahead) == 40
    assert max(ahead) <= 4


def test_what_cannot_be_used_is_named(tmp_path: Path, command: CommandLine) -> None:
    clip = write_video(tmp_path / "clip.mp4", n_frames=47, muxing={"movflags": "faststart"})
    cut, text = tmp_path / "cut.mp4", tmp_path / "text.mp4"
    cut.write_bytes(clip.read_bytes()[: clip.stat().st_size * 6 // 10])
    text.write_text("no video " * 20)
    code, out, _ = convert(command, clip, cut, text, tmp_path / "pairs", "--every", "2")
    assert code == 2
    left_out = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert len(left_out) == 2
    assert "text.mp4: cannot be read as a video" in left_out[0]
    assert "cut.mp4: ends after" in left_out[1]
    assert "clip_000001" in names(tmp_path / "pairs", "train")
    assert "cut_000001" in names(tmp_path / "pairs", "train")
    (tmp_path / "other").mkdir()
    twin = write_video(tmp_path / "other" / "clip.mkv")
    for arguments, message in {
        (clip, twin, tmp_path / "out"): "have the same name: rename one of them",
        (text, tmp_path / "out"): "cannot be read as a video",
        (tmp_path / "none.mp4", tmp_path / "out"): "no such file",
        (clip, tmp_path / "out", "--val", "0.5", "--test", "0.5"): "nothing to train on",
        (clip, tmp_path / "out", "--every", "0"): "'0' is not a whole number from 1",
        (clip,): "the following arguments are required: TO",
    }.items():
        (line,) = command.refusal(convert_data.main, "from-video", *map(str, arguments))
        assert message in line
    assert not (tmp_path / "out").exists()
