"""Frames of videos become pairs, in splits that are apart in time."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.files.image_files import read_size
from data.files.video_file import Frame, VideoFile
from tests.tools.convert_data.conftest import Convert
from tests.videos import level, write_video
from tools.convert_data.photos import PhotoPairs
from tools.convert_data.videos import splits_by_time

SPLITS = ("train", "val", "test")


def names(target: Path, split: str) -> list[str]:
    sources, photos = (sorted(path.stem for path in target.glob(f"{split}_{side}/*")) for side in "AB")
    assert sources == photos
    return photos


@pytest.mark.parametrize("n_frames", [1, 9, 40, 240, 10_000])
@pytest.mark.parametrize("every", [1, 7, 24])
@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.0, 0.3), (0.2, 0.0), (0.0, 0.0)])
def test_splits_are_blocks_with_unused_frames_between(n_frames: int, every: int, shares: tuple[float, float]) -> None:
    chosen = list(splits_by_time(n_frames, every, Fraction(24), {"val": shares[0], "test": shares[1]}))
    order = [SPLITS.index(split) for _, split in chosen]
    assert order == sorted(order)
    for (before, one), (after, other) in pairwise(chosen):
        assert one == other or after - before >= max(2 * every, min(2 * 24, round(n_frames / 20)))
    if n_frames == 10_000:
        used = [split for split, share in zip(SPLITS, (1, *shares), strict=True) if share]
        assert list(dict.fromkeys(split for _, split in chosen)) == used
        share = sum(split == "train" for _, split in chosen) * every / n_frames
        assert share == pytest.approx(1 - sum(shares), abs=0.01)


def test_pairs_are_frames_and_their_sources(tmp_path: Path, convert: Convert) -> None:
    clip, target = write_video(tmp_path / "clip.mp4", n_frames=40), tmp_path / "pairs"
    options = ("--every", "2", "--source", "grey", "--format", "png", "--val", "0.2", "--test", "0.2")
    code, out = convert("from-video", clip, target, *options)
    assert code == 0
    made = {split: names(target, split) for split in SPLITS}
    assert made["train"] == [f"clip_{number:06d}" for number in range(1, 24, 2)]
    assert made["val"] == ["clip_000027", "clip_000029", "clip_000031"]
    assert made["test"] == ["clip_000035", "clip_000037", "clip_000039"]
    assert "12 pairs in train, 3 pairs in val, 3 pairs in test" in out
    photo, drawn = (np.array(Image.open(target / f"val_{side}" / "clip_000029.png")) for side in "BA")
    assert photo.shape == drawn.shape == (32, 48, 3)
    assert abs(int(photo[-2, -2, 0]) - level(28)) <= 2
    assert "python train.py --config configs/colorization.yaml" in out
    arguments = ("source", target / "val_B", "--like", target, "--output", tmp_path / "sources")
    assert convert(*arguments)[0] == 0
    assert np.array_equal(np.array(Image.open(tmp_path / "sources" / "clip_000029.png")), drawn)


def test_about_one_frame_a_second_of_each_clip_by_default(tmp_path: Path, convert: Convert) -> None:
    rates = {"a.mp4": 4, "b.mkv": 8}
    clips = [write_video(tmp_path / name, n_frames=40, rate=rate, sound=None) for name, rate in rates.items()]
    assert convert("from-video", *clips, tmp_path / "pairs", "--val", "0")[0] == 0
    # 36 frames are before the border; half of the gap of 4 and of 8 frames is cut off them
    assert names(tmp_path / "pairs", "train") == [
        *(f"a_{number:06d}" for number in range(1, 35, 4)),
        *(f"b_{number:06d}" for number in range(1, 33, 8)),
    ]


def test_nothing_is_overwritten_and_what_is_missing_is_added(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip, target = write_video(tmp_path / "clip.mp4"), tmp_path / "pairs"
    options = (clip, target, "--every", "3")
    keep = (*options, "--existing", "keep")
    assert convert("from-video", *options)[0] == 0
    assert "already exists" in convert.refusal("from-video", *options)
    missing = target / "train_B" / "clip_000004.jpg"
    content, before = missing.read_bytes(), {path: path.stat().st_mtime_ns for path in target.rglob("*.*g")}
    missing.unlink()
    assert convert("from-video", *keep)[0] == 0
    assert missing.read_bytes() == content
    changed = {path.stem for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert changed == {"clip_000004"}
    with monkeypatch.context() as patch:
        patch.setattr(VideoFile, "frames", lambda *_: pytest.fail("decoded, although nothing is missing"))
        assert convert("from-video", *keep)[0] == 0
    assert "the same --val and --test as before" in convert.refusal("from-video", *keep, "--test", "0.6")
    assert "use the same settings" in convert.refusal("from-video", *keep, "--size", "32")
    replace = (target, "--every", "3", "--existing", "replace", "--size", "32")
    assert convert("from-video", clip, *replace)[0] == 0
    assert read_size(missing) == (21, 32)
    other = write_video(tmp_path / "other.mp4")
    assert "use the same settings, or another TO" in convert.refusal("from-video", other, *replace[:-2])
    assert convert("from-video", other, *replace)[0] == 0


def test_frames_wait_for_a_free_core(tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory holds a few frames, however long the video is."""
    monkeypatch.setattr("tools.convert_data.conversion.usable_cores", lambda: 1)
    decoded, ahead = list[Frame](), list[int]()
    frames, of = VideoFile.frames, PhotoPairs.of

    def counted(self: VideoFile, problems: list[str]) -> Iterator[Frame]:
        for frame in frames(self, problems):
            decoded.append(frame)
            yield frame

    def noted(self: PhotoPairs, photo: object) -> object:
        ahead.append(len(decoded) - len(ahead))
        return of(self, photo)  # type: ignore[arg-type]

    monkeypatch.setattr(VideoFile, "frames", counted)
    monkeypatch.setattr(PhotoPairs, "of", noted)
    write_video(tmp_path / "clip.mp4", n_frames=40)
    arguments = (tmp_path / "clip.mp4", tmp_path / "pairs", "--every", "1", "--val", "0", "--test", "0")
    assert convert("from-video", *arguments)[0] == 0
    assert len(ahead) == 40
    assert max(ahead) <= 4


def test_what_cannot_be_used_is_named(tmp_path: Path, convert: Convert) -> None:
    clip = write_video(tmp_path / "clip.mp4", n_frames=47, muxing={"movflags": "faststart"})
    cut, text, out = tmp_path / "cut.mp4", tmp_path / "text.mp4", tmp_path / "out"
    cut.write_bytes(clip.read_bytes()[: clip.stat().st_size * 6 // 10])
    text.write_text("no video " * 20)
    code, printed = convert("from-video", clip, cut, text, tmp_path / "pairs", "--every", "2")
    assert code == 2
    left_out = [line for line in printed.splitlines() if line.startswith("left out: ")]
    assert len(left_out) == 2
    assert "text.mp4: cannot be read as a video" in left_out[0]
    assert "cut.mp4: ends after" in left_out[1]
    assert {"clip_000001", "cut_000001"} <= set(names(tmp_path / "pairs", "train"))
    (tmp_path / "other").mkdir()
    twin = write_video(tmp_path / "other" / "clip.mkv", n_frames=2)
    for arguments, message in {
        (clip, twin, out): "have the same name: rename one of them",
        (text, out): "cannot be read as a video",
        (tmp_path / "none.mp4", out): "no such file",
        (clip, out, "--val", "0.5", "--test", "0.5"): "nothing to train on",
        (clip, out, "--every", "0"): "'0' is not a whole number from 1",
        (clip,): "the following arguments are required: TO",
        (twin, out, "--every", "1", "--val", "0.9", "--test", "0"): "2 frames, too short for --every 1",
    }.items():
        assert message in convert.refusal("from-video", *arguments)
    assert not out.exists()
    code, printed = convert("from-video", clip, out, "--every", "47")
    assert (code, "47 frames, none of them in val and test with --every 47" in printed) == (0, True)
