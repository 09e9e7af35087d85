"""Videos are read frame by frame and written with the times and the sound of their source."""

import struct
from fractions import Fraction
from pathlib import Path

import av
import pytest

from data.batch import DataError
from data.files.video_file import VideoFile, write_video
from tests import videos
from tests.videos import images_of, shown, sound_packets, times_of

UNEVEN_MS = [number * 40 + (number % 3) * 7 for number in range(24)]


def copied(source: Path, output: Path) -> Path:
    video = VideoFile(source)
    write_video(output, output.suffix, video, video.frames())
    assert video.problems == []
    return output


@pytest.mark.parametrize(
    ("names", "times_ms"),
    [("a.mp4 b.mp4", UNEVEN_MS), ("a.mp4 b.mkv", UNEVEN_MS), ("a.avi b.mov", []), ("a.webm b.m4v", [])],
)
def test_frames_times_rate_and_sound_are_kept(tmp_path: Path, names: str, times_ms: list[int]) -> None:
    name, name_of_copy = names.split()
    options = {"a.webm": {"codec": "libvpx-vp9", "sound": "libopus"}}
    options["a.avi"] = {"codec": "mjpeg", "sound": "pcm_s16le", "pix_fmt": "yuvj420p"}
    source = videos.write_video(tmp_path / name, times_ms=times_ms, **options.get(name, {}))  # type: ignore[arg-type]
    output = copied(source, tmp_path / name_of_copy)
    assert shown(images_of(source)) == shown(images_of(output)) == list(range(24))
    # Matroska rounds times to milliseconds, none of them negative. Then sound and frames are shifted alike
    before, after = ([time - times[0] for time in times] for times in (times_of(source), times_of(output)))
    shift_s = times_of(output)[0] - times_of(source)[0]
    wanted = [time / 1000 for time in times_ms] or [number / 24 for number in range(24)]
    assert (before, after) == (pytest.approx(wanted, abs=1e-3), pytest.approx(wanted, abs=1e-3))
    assert float(VideoFile(output).rate) == pytest.approx(float(VideoFile(source).rate), rel=2e-3 if times_ms else 0)
    sound, kept = sound_packets(source), sound_packets(output)
    assert sound
    assert b"".join(content for content, _ in kept) == b"".join(content for content, _ in sound)
    times = [[time for _, time in packets] for packets in (kept, sound)]
    if name != "a.avi":  # MOV divides PCM into other packets
        assert [time - shift_s for time in times[0]] == pytest.approx(times[1], abs=3e-3)


def test_a_constant_rate_survives_the_rounded_times_of_matroska(tmp_path: Path) -> None:
    output = copied(videos.write_video(tmp_path / "a.mkv", rate=30, n_frames=25, sound=None), tmp_path / "b.mp4")
    assert (VideoFile(output).rate, sound_packets(output)) == (30, [])


@pytest.mark.parametrize(("sound", "source", "output"), [("libopus", "a.webm", "b.mov"), ("pcm_u8", "a.avi", "b.mp4")])
def test_sound_that_the_format_cannot_hold_is_an_error(tmp_path: Path, sound: str, source: str, output: str) -> None:
    clip = videos.write_video(tmp_path / source, sound=sound, codec="libvpx" if source == "a.webm" else "mpeg4")
    with pytest.raises(DataError, match=r"cannot hold its sound\. Name an --output that ends in \.mkv\.$"):
        copied(clip, tmp_path / output)
    assert len(sound_packets(copied(clip, tmp_path / "kept.mkv"))) == len(sound_packets(clip))


@pytest.mark.parametrize(
    ("matrix", "corner"), [([0, 1, -1, 0], (0, -1)), ([0, -1, 1, 0], (-1, 0)), ([-1, 0, 0, -1], (-1, -1))]
)
def test_frames_are_upright(tmp_path: Path, matrix: list[int], corner: tuple[int, int]) -> None:
    path = videos.write_video(tmp_path / "a.mp4", n_frames=2, pixel_aspect=Fraction(2))
    content = bytearray(path.read_bytes())
    place = content.index(b"tkhd") + 4 + 40  # version and flags, times, id, layer, volume
    a, b, c, d = (number << 16 for number in matrix)
    content[place : place + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    image = images_of(copied(path, tmp_path / "b.mp4"))[0]
    assert image.shape[1:] == ((48, 32) if matrix[1] else (32, 48))
    red, green, _ = image[:, corner[0], corner[1]].tolist()  # the upper left corner before
    assert red > 180 > 80 > green
    assert VideoFile(tmp_path / "b.mp4").pixel_aspect == (Fraction(1, 2) if matrix[1] else 2)


@pytest.mark.parametrize(("size", "is_hd"), [((576, 1024), False), ((640, 640), True)])
def test_large_frames_without_named_colours_have_bt709(tmp_path: Path, size: tuple[int, int], is_hd: bool) -> None:
    image = images_of(videos.write_video(tmp_path / "a.mp4", n_frames=1, size=size, sound=None))[0]
    assert (abs(image[1, 8, 8].int() - 30) > 8) == is_hd  # the file holds BT.601


def test_truncated_and_damaged_files_are_read_and_reported(tmp_path: Path) -> None:
    path = videos.write_video(tmp_path / "a.mp4", n_frames=47, muxing={"movflags": "faststart"})
    content = path.read_bytes()
    with av.open(str(path)) as container:
        place, size = [(packet.pos or 0, packet.size) for packet in container.demux(video=0) if packet.size][5]
    for damaged, message in {
        content[: len(content) * 6 // 10]: "of 2.0 s, the rest is missing",
        content[:place] + bytes(size) + content[place + size :]: "damaged or left out",
    }.items():
        path.write_bytes(damaged)
        video = VideoFile(path)
        numbers = shown([image for _, image in video.frames()])
        assert 10 < len(numbers) <= 47
        assert message in "; ".join(video.problems)


def test_what_is_no_video_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.mp4").write_text("no video " * 100)
    (tmp_path / "list.mkv").write_text("ffconcat version 1.0\nfile 'a.mkv'\n")
    content = videos.write_video(tmp_path / "blank.mp4", sound=None).read_bytes()
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    (tmp_path / "blank.mp4").write_bytes(content[:start] + bytes(end - start) + content[end:])
    reasons = {"text": "Invalid data", "list": "Invalid", "none": "No such file", "blank": "holds no frame"}
    for name, reason in reasons.items():
        file = tmp_path / f"{name}{'.mkv' if name == 'list' else '.mp4'}"
        with pytest.raises(DataError, match=rf"{file}: .*{reason}.*\. Name another file\.$"):
            list(VideoFile(file).frames())
    monkeypatch.chdir(tmp_path)
    videos.write_video(Path("a.mkv")).rename("http:a.mkv")  # names are no addresses
    assert len(images_of(copied(Path("http:a.mkv"), Path("tee:b.mkv")))) == 24
