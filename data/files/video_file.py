"""Reading video files, frame by frame; nothing else decodes them. Imported only where there is a video, as PyAV is."""

import importlib.util
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from data.batch import DataError
from data.files.file_errors import COPY_AGAIN
from utils.text import counted

with suppress(ImportError):  # see `require_av`
    import av
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Disposition
    from av.video.reformatter import Colorspace, Interpolation
    from av.video.stream import VideoStream

_USUAL_RATE = Fraction(25)  # frames per second, where a file names none
_LEAST_CUT = Fraction(1, 2)  # seconds that are missing at the end of a file that counts as cut off
_LEAST_CUT_FRAMES = 3
_HD = (1280, 577)  # width or height from which players take the colours of a file that names none for BT.709
_TRUSTED = {"format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi", "protocol_whitelist": "file"}
_UNSPECIFIED = 2  # AVCOL_SPC_UNSPECIFIED
_FINEST = 2**30  # parts of a second: twice as many have to fit into 32 bits of H.264
_COARSE = Fraction(1, 10_000)  # seconds: Matroska rounds times to milliseconds, which hides a constant rate


def require_av(subject: str) -> None:
    """Raise DataError, which begins with `subject`, if the package av is not installed."""
    if importlib.util.find_spec("av") is None:
        install = 'python -m pip install --editable ".[video]"'
        raise DataError(f"{subject}: reading video needs av, which is not installed: {install}")


@dataclass(frozen=True)
class Frame:
    """One frame of a video.

    image: (3, H, W) uint8 RGB, upright. time_s, duration_s: of its presentation, exact.
    """

    image: Tensor
    time_s: Fraction
    duration_s: Fraction


class VideoFile:
    """A video: its properties, read once, and its frames, read as often as needed and never all in memory.

    height, width: of the upright frames, in pixels; those of the first frame.
    rate: frames per second, the mean where it varies.
    n_frames: as the file states, or as follows from its duration; None where neither is known. Not exact.
    pixel_aspect: width / height of a pixel, upright.

    Raises:
        DataError: the file is missing, is no video, or none of its frames can be decoded.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opened(path) as (container, stream):
            self.rate = stream.average_rate or stream.guessed_rate or _USUAL_RATE
            self._stored_base = stream.time_base or 1 / self.rate
            self._stated_s = _stated_duration(container, stream)
            self.n_frames = stream.frames or (round(self._stated_s * self.rate) if self._stated_s else None)
            first = next(_decoded(container, stream, path, []), None)
            if first is None:
                raise DataError(f"{path}: holds no frame that can be decoded. Name another file.")
            self._coded = (first.width, first.height)
            aspect = stream.sample_aspect_ratio or Fraction(1)
            is_on_its_side = _quarter_turns(first) % 2 == 1
            self.width, self.height = self._coded[::-1] if is_on_its_side else self._coded
            self.pixel_aspect = 1 / aspect if is_on_its_side else aspect

    @property
    def time_base(self) -> Fraction:
        """Seconds: the times of frames are multiples of it, except for unusual rates in Matroska."""
        if self._stored_base < _COARSE:
            return self._stored_base
        finest = math.lcm(self._stored_base.denominator, self.rate.numerator)
        return Fraction(1, finest) if finest <= _FINEST else self._stored_base

    def count_frames(self) -> int:
        """Return the number of coded frames, without decoding them: exact for files that are not damaged."""
        with _opened(self.path) as (container, stream):
            return sum(not packet.is_discard for packet in _packets(container, stream, self.path, []))

    def frames(self, problems: list[str]) -> Iterator[Frame]:
        """Yield the frames in the order of presentation; their times rise strictly.

        problems: gets, at the end, a line for frames that cannot be decoded, are damaged or are cut off.
        """
        with _opened(self.path) as (container, stream):
            stream.thread_type = "AUTO"
            start_s = (stream.start_time or 0) * self._stored_base
            end_s, last_s = start_s, start_s - 1
            for decoded in _decoded(container, stream, self.path, problems):
                duration_s = self._exact((decoded.duration or 0) * self._stored_base, Fraction(1)) or 1 / self.rate
                time_s = end_s if decoded.pts is None else decoded.pts * self._stored_base
                time_s = start_s + self._exact(time_s - start_s, Fraction(1, 2))
                time_s = time_s if time_s > last_s else last_s + self._stored_base
                last_s, end_s = time_s, time_s + duration_s
                yield Frame(self._upright(decoded), time_s, duration_s)
        tolerated_s = max(_LEAST_CUT, _LEAST_CUT_FRAMES / self.rate)
        if self._stated_s and self._stated_s - (end_s - start_s) > tolerated_s:
            present, stated = float(end_s - start_s), float(self._stated_s)
            problems.append(f"{self.path}: ends after {present:.1f} s of {stated:.1f} s, the rest is missing")

    def _exact(self, time_s: Fraction, error: Fraction) -> Fraction:
        """Return a stored time, or the multiple of 1 / rate of which it is a rounded one.

        error: of the rounding, at most, as a multiple of the stored time base.
        """
        nearest = round(time_s * self.rate) / self.rate
        is_rounded = self._stored_base >= _COARSE and abs(nearest - time_s) <= error * self._stored_base
        return nearest if is_rounded else time_s

    def _upright(self, frame: "av.VideoFrame") -> Tensor:
        """Return (3, H, W) uint8 RGB of the first frame's size, turned as the file asks for."""
        width, height = self._coded
        is_large = frame.width >= _HD[0] or frame.height >= _HD[1]
        is_hd = frame.colorspace == _UNSPECIFIED and is_large
        rgb = frame.reformat(
            width=width,
            height=height,
            format="rgb24",
            src_colorspace=Colorspace.ITU709 if is_hd else None,
            interpolation=Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT,
        )
        image = torch.from_numpy(rgb.to_ndarray()).permute(2, 0, 1)
        return image.rot90(_quarter_turns(frame), (1, 2)).contiguous()


def _quarter_turns(frame: "av.VideoFrame") -> int:
    """Return the turns to the left by 90 degrees that make a frame upright."""
    return round(frame.rotation / 90)


def open_video(path: Path) -> "InputContainer":
    """Return the container of a file of a known format: no list of other files, and no address of a network."""
    return av.open(f"file:{path}", container_options=_TRUSTED)


@contextmanager
def _opened(path: Path) -> Iterator[tuple["InputContainer", "VideoStream"]]:
    """Yield the container of a video file, and its first video that is no picture of a cover.

    Raises:
        DataError: the file is missing, or holds no video.
    """
    try:
        container = open_video(path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except av.FFmpegError as error:
        is_empty = path.is_file() and not path.stat().st_size
        reason = error.strerror if isinstance(error, OSError) else "it is damaged, or no video"
        reason = "it is empty" if is_empty else reason
        raise DataError(f"{path}: cannot be read as a video: {reason}; {COPY_AGAIN}") from error
    with container:
        for stream in container.streams.video:
            if not stream.disposition & Disposition.attached_pic and stream.codec_context is not None:
                yield container, stream
                return
        what = "only sound" if container.streams.audio else "no video"
        raise DataError(f"{path}: holds {what}. Name a file with pictures.")


def _stated_duration(container: "InputContainer", stream: "VideoStream") -> Fraction | None:
    """Return how many seconds of video a file states; None if it states none, or only that of all its streams."""
    if stream.duration and stream.time_base:
        return stream.duration * stream.time_base
    with suppress(ValueError):  # it states none, or in another way
        hours, minutes, seconds = stream.metadata.get("DURATION", "").split(":")  # of Matroska: 00:00:01.000000000
        return int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds.strip())
    is_alone = len(container.streams) == 1
    return Fraction(container.duration, 1_000_000) if is_alone and container.duration else None


def _packets(
    container: "InputContainer", stream: "VideoStream", path: Path, problems: list[str]
) -> Iterator["Packet[VideoStream]"]:
    """Yield the packets up to the end, or to where the file cannot be read, which is added to `problems`."""
    try:
        yield from (packet for packet in container.demux(stream) if packet.size)
    except av.FFmpegError:
        problems.append(f"{path}: is damaged, and cannot be read to its end")


def _decoded(
    container: "InputContainer", stream: "VideoStream", path: Path, problems: list[str]
) -> Iterator["av.VideoFrame"]:
    """Yield the decoded frames; those that cannot be decoded, or are damaged, are added to `problems` at the end."""
    n_undecodable = n_damaged = 0
    for packet in chain(_packets(container, stream, path, problems), [None]):  # None: the frames that are held back
        try:
            frames = stream.decode(packet)
        except av.FFmpegError:
            n_undecodable += 1
            continue
        for frame in frames:
            n_damaged += frame.is_corrupt
            yield frame
    if n_undecodable:
        problems.append(f"{path}: {counted(n_undecodable, 'frame')} cannot be decoded, and left out")
    if n_damaged:
        problems.append(f"{path}: {counted(n_damaged, 'frame')} with damage")
