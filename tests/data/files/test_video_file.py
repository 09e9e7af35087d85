"""Videos are read frame by frame and written with the times and the sound of their source."""

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from data.batch import DataError
from data.files.video_file import Frame, VideoFile
from data.files.video_writer import VideoWriter
from tests.videos import has_sound, level, sound_packets, write_video

UNEVEN_MS = [number * 40 + (number % 3) * 7 for number in range(24)]


def read_with_problems(path: Path) -> tuple[list[Frame], list[str]]:
    problems: list[str] = []
    return list(VideoFile(path).frames(problems)), problems


def read(path: Path) -> list[Frame]:
    frames, problems = read_with_problems(path)
    assert problems == []
    return frames


def numbers(frames: list[Frame]) -> list[int]:
    """The numbers that frames show in their lower right corner."""
    tones = [frame.image[:, -4:, -4:].float().mean().item() for frame in frames]
    return [round((tone - level(0)) / (level(1) - level(0))) for tone in tones]


def copied(source: Path, output: Path, problems: Sequence[str] = ()) -> str:
    """Write the frames of a video to another one, with these problems; the description of its sound."""
    video, found = VideoFile(source), list[str]()
    with VideoWriter(output, output.suffix, video, found) as writer:
        for frame in video.frames(found):
            writer.add(frame.image, frame.time_s, frame.duration_s)
    assert found == list(problems)
    return writer.sound.description


def write_rotation(path: Path, matrix: list[int]) -> None:
    """Write the four turning numbers of a track's matrix into an MP4 file, as cameras do."""
    content = bytearray(path.read_bytes())
    place = content.index(b"tkhd") + 4 + 40  # version and flags, times, id, layer, volume
    a, b, c, d = (number << 16 for number in matrix)
    content[place : place + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["a.mp4", "a.mov", "a.mkv", "a.avi", "a.m4v", "a.webm"])
def test_every_frame_is_read_in_order(tmp_path: Path, name: str) -> None:
    codecs = {"codec": "libvpx-vp9", "sound": "libopus"} if name == "a.webm" else {}
    codecs |= {"codec": "mjpeg", "pix_fmt": "yuvj420p", "sound": "pcm_s16le"} if name == "a.avi" else {}
    path = write_video(tmp_path / name, **codecs)  # type: ignore[arg-type]
    video, frames = VideoFile(path), read(path)
    assert numbers(frames) == list(range(24))
    assert (video.height, video.width, video.rate) == (32, 48, 24)
    assert video.n_frames in (24, 25)  # the header of an AVI has one too many
    assert [float(frame.time_s - frames[0].time_s) for frame in frames] == pytest.approx([n / 24 for n in range(24)])
    assert frames[0].image.dtype == torch.uint8
    assert video.count_frames() == 24


@pytest.mark.parametrize("pix_fmt", ["yuv420p10le", "yuv444p", "yuvj420p"])
def test_sources_of_other_depths_and_ranges_have_the_same_colours(tmp_path: Path, pix_fmt: str) -> None:
    frames = read(write_video(tmp_path / "a.mkv", pix_fmt=pix_fmt, n_frames=3, sound=None))
    red, tone = frames[0].image[:, 2, 2], frames[0].image[:, -2, -2]
    assert (red.int() - torch.tensor([220, 30, 30])).abs().max() < 10
    assert (tone.int() - level(0)).abs().max() <= 2


@pytest.mark.parametrize(
    ("matrix", "corner"),
    [
        ([0, 1, -1, 0], (0, -1)),  # turned clockwise, as of a telephone held upright
        ([0, -1, 1, 0], (-1, 0)),
        ([-1, 0, 0, -1], (-1, -1)),
    ],
    ids=["clockwise", "counterclockwise", "upside down"],
)
def test_frames_are_upright(tmp_path: Path, matrix: list[int], corner: tuple[int, int]) -> None:
    path = write_video(tmp_path / "a.mp4", n_frames=2)
    write_rotation(path, matrix)
    video, (frame, _) = VideoFile(path), read(path)
    sides = (48, 32) if matrix[1] else (32, 48)
    assert (video.height, video.width) == tuple(frame.image.shape[1:]) == sides
    red, green, _ = frame.image[:, corner[0], corner[1]].tolist()  # the upper left corner before
    assert red > 180 > 80 > green


@pytest.mark.parametrize("name", ["b.mp4", "b.mov", "b.mkv", "b.m4v"])
@pytest.mark.parametrize("times_ms", [[], UNEVEN_MS], ids=["constant", "uneven"])
def test_times_frames_and_sound_are_kept(tmp_path: Path, name: str, times_ms: list[int]) -> None:
    source = write_video(tmp_path / "a.mp4", times_ms=times_ms)
    assert copied(source, tmp_path / name) == "sound copied (aac)"
    before, after = read(source), read(tmp_path / name)
    assert numbers(after) == list(range(24))
    # Matroska has times in milliseconds, none of them negative; then sound and frames are shifted alike
    shift_s = float(after[0].time_s)
    tolerance_s = 1e-3 if name == "b.mkv" else 1e-9
    times = [float(frame.time_s) for frame in before]
    assert [float(frame.time_s) - shift_s for frame in after] == pytest.approx(times, abs=tolerance_s)
    assert float(after[-1].duration_s) == pytest.approx(float(before[-1].duration_s), abs=2e-3)
    sound, kept = sound_packets(source), sound_packets(tmp_path / name)
    assert [content for content, _ in kept] == [content for content, _ in sound]
    assert [time - shift_s for _, time in kept] == pytest.approx([time for _, time in sound], abs=2e-3)


def test_a_constant_rate_survives_the_rounded_times_of_matroska_and_a_video_may_have_no_sound(tmp_path: Path) -> None:
    assert copied(write_video(tmp_path / "a.mkv", sound=None), tmp_path / "b.mp4") == "no sound"
    video = VideoFile(tmp_path / "b.mp4")
    assert video.rate == 24


@pytest.mark.parametrize(
    ("sound", "source", "output"),
    [
        ("aac", "a.mp4", "b.webm"),
        ("libopus", "a.webm", "b.mov"),  # refused by the header alone, as the next two
        ("flac", "a.mkv", "b.mov"),
        ("pcm_u8", "a.avi", "b.mp4"),
    ],
)
def test_sound_that_the_format_cannot_hold_is_left_out_and_named(
    tmp_path: Path, sound: str, source: str, output: str
) -> None:
    codec = {".webm": "libvpx-vp9", ".avi": "mpeg4"}.get(Path(source).suffix, "libx264")
    clip = write_video(tmp_path / source, sound=sound, codec=codec)
    name = sound.removeprefix("lib")
    problem = f"{clip}: its sound ({name}) does not fit into this format, and is left out; an --output that ends in"
    assert copied(clip, tmp_path / output, problems=[f"{problem} .mkv holds it"]) == "no sound"
    assert not has_sound(tmp_path / output)
    assert copied(clip, tmp_path / "kept.mkv") == f"sound copied ({name})"


def test_names_are_no_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_video(tmp_path / "a.mkv")
    (tmp_path / "list.mkv").write_text("ffconcat version 1.0\nfile 'a.mkv'\n")
    with pytest.raises(DataError, match=r"list\.mkv: cannot be read as a video"):
        VideoFile(tmp_path / "list.mkv")
    monkeypatch.chdir(tmp_path)
    Path("a.mkv").rename("http:a.mkv")
    copied(Path("http:a.mkv"), Path("tee:b.mkv"))
    assert VideoFile(Path("tee:b.mkv")).count_frames() == 24


@pytest.mark.parametrize(("size", "is_hd"), [((576, 1024), False), ((640, 640), True), ((320, 1280), True)])
def test_large_frames_without_named_colours_are_of_bt709(tmp_path: Path, size: tuple[int, int], is_hd: bool) -> None:
    frame = read(write_video(tmp_path / "a.mp4", n_frames=1, size=size, sound=None))[0]
    assert (abs(frame.image[1, 8, 8].int() - 30) > 8) == is_hd  # the file holds BT.601


@pytest.mark.parametrize(("name", "size"), [("b.mp4", (34, 50)), ("b.webm", (33, 49))])
def test_odd_sides_get_a_copy_of_the_last_row_and_column_where_they_must_be_even(
    tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    source = write_video(tmp_path / "a.webm", size=(33, 49), codec="libvpx-vp9", sound="libopus")
    copied(source, tmp_path / name)
    video = VideoFile(tmp_path / name)
    assert (video.height, video.width) == size
    before, after = read(source), read(tmp_path / name)
    assert numbers(after) == list(range(24))
    difference = before[5].image.int() - after[5].image[:, :33, :49].int()
    assert difference.abs().float().mean() < 2


def test_the_shape_of_pixels_is_kept(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as output:
        stream = output.add_stream("libx264", rate=24)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(2)
        stream.encode(av.VideoFrame.from_ndarray(np.zeros((32, 48, 3), np.uint8)))
        output.mux(stream.encode(None))
    copied(tmp_path / "a.mp4", tmp_path / "b.mp4")
    assert VideoFile(tmp_path / "b.mp4").pixel_aspect == 2


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_a_file_that_is_cut_off_is_read_to_its_end_and_reported(tmp_path: Path, name: str) -> None:
    path = write_video(tmp_path / name, n_frames=47, muxing={"movflags": "faststart"} if name == "a.mp4" else {})
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    frames, problems = read_with_problems(path)
    shown = numbers(frames)
    assert shown == sorted(set(shown))
    assert shown[:10] == list(range(10))  # before the last, some may be missing: they are stored after it
    assert 10 < len(shown) < 40
    assert "s of 2.0 s, the rest is missing" in problems[-1]


def test_damage_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    with av.open(str(path)) as container:
        coded = [(packet.pos or 0, packet.size) for packet in container.demux(video=0) if packet.size]
    content, (place, size) = bytearray(path.read_bytes()), coded[5]
    content[place : place + size] = bytes(size)
    path.write_bytes(content)
    frames, problems = read_with_problems(path)
    assert problems == [f"{path}: 1 frame cannot be decoded, and left out"]
    assert [round(float(frame.time_s * 24)) for frame in frames] == [n for n in range(24) if n != 3]


def test_what_is_no_video_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video " * 100)
    (tmp_path / "empty.mp4").touch()
    content = write_video(tmp_path / "blank.mp4", sound=None).read_bytes()
    start = content.index(b"mdat")
    blank = bytes(content.index(b"moov") - start - 8)
    (tmp_path / "blank.mp4").write_bytes(content[: start + 4] + blank + content[start + 4 + len(blank) :])
    sound = write_video(tmp_path / "sound.mp4")
    with av.open(str(sound)) as source, av.open(str(tmp_path / "only.mp4"), "w") as output:
        stream = output.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.size:
                packet.stream = stream
                output.mux(packet)
    for name, message in {
        "text.mp4": r"cannot be read as a video: it is damaged, or no video; copy it again, or leave it out$",
        "empty.mp4": r"cannot be read as a video: it is empty; copy it again, or leave it out$",
        "none.mp4": r"none\.mp4: no such file$",
        "only.mp4": r"holds only sound\.",
        "blank.mp4": r"holds no frame that can be decoded\.",
    }.items():
        with pytest.raises(DataError, match=message):
            VideoFile(tmp_path / name)
