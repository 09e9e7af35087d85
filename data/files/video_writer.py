"""Writing video files, with the sound of another one."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from torch import Tensor

from data.files.video_file import VideoFile
from data.files.video_sound import SoundCopy

if TYPE_CHECKING:
    from av import VideoFrame
    from av.video.stream import VideoStream


@dataclass(frozen=True)
class _Container:
    """A kind of file: ffmpeg's name of it, its encoder with options, and the encoder for sound that it cannot hold.

    even_sides: whether the encoder takes even sides only, because two by two pixels share a colour.
    """

    format: str
    encoder: str
    options: dict[str, str]
    sound_encoder: str
    even_sides: bool


_H264 = {"crf": "18", "preset": "medium"}  # 18: no visible loss, by the guide of ffmpeg
_VP9 = {"crf": "24", "b": "0", "row-mt": "1", "deadline": "good", "cpu-used": "4"}
_MP4 = _Container("mp4", "libx264", _H264, "aac", even_sides=True)
_CONTAINERS = {
    ".mp4": _MP4,
    ".m4v": _MP4,
    ".mov": _Container("mov", "libx264", _H264, "aac", even_sides=True),
    ".mkv": _Container("matroska", "libx264", _H264, "aac", even_sides=True),
    ".webm": _Container("webm", "libvpx-vp9", _VP9, "libopus", even_sides=False),
}
WRITABLE_SUFFIXES = tuple(_CONTAINERS)
"""Suffixes of the files that can be written. AVI, which has no times of frames, is not among them."""


@contextmanager
def av_errors_as_os_errors(path: Path) -> Iterator[None]:
    """Raise OSError with `path` for an error of av while writing, such as that of a full disk."""
    from av import FFmpegError

    try:
        yield
    except FFmpegError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


class VideoWriter:
    """Writes a video with the times, and a copy of the sound, of another one.

    The file is complete when the context is left without an error.

    path: the file to write to, of any name. suffix: one of WRITABLE_SUFFIXES, which decides its format.
    source: the video whose frame rate, shape of pixels and sound are taken.
    problems: gets a line for sound that cannot be read.
    """

    def __init__(self, path: Path, suffix: str, source: VideoFile, problems: list[str]) -> None:
        import av

        self._path = path
        self._kind = _CONTAINERS[suffix.lower()]
        self._source = source
        self._durations: dict[int, int] = {}
        options = {"movflags": "+faststart"} if self._kind.format in ("mp4", "mov") else {}
        with av_errors_as_os_errors(path):
            self._output = av.open(f"file:{path}", "w", format=self._kind.format, options=options)
        self._stream: VideoStream | None = None
        self.sound = SoundCopy(source.path, self._output, self._kind.sound_encoder, problems)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from av import FFmpegError

        try:
            if error is None and self._stream is not None:
                with av_errors_as_os_errors(self._path):
                    self._mux(self._stream, None)
                    self.sound.copy_until(None)
                    self._output.close()
        finally:
            self.sound.close()
            with suppress(FFmpegError):  # of a file that is not kept
                self._output.close()

    @property
    def size(self) -> str:
        """Width and height of the written frames, such as "640x480"; empty before the first one."""
        return f"{self._stream.width}x{self._stream.height}" if self._stream else ""

    def add(self, image: Tensor, time_s: Fraction, duration_s: Fraction) -> None:
        """Write the next frame, (3, H, W) uint8; the first one sets the size, and times must rise.

        Raises:
            OSError: the file cannot be written.
        """
        pixels = image.permute(1, 2, 0).contiguous().numpy()
        if self._kind.even_sides and (image.shape[1] % 2 or image.shape[2] % 2):
            pixels = np.pad(pixels, ((0, image.shape[1] % 2), (0, image.shape[2] % 2), (0, 0)), mode="edge")
        with av_errors_as_os_errors(self._path):
            self._stream = self._stream or self._started(*pixels.shape[:2])
            self._encode(self._stream, pixels, time_s, duration_s)
            self.sound.copy_until(time_s)

    def _started(self, height: int, width: int) -> "VideoStream":
        """Return the stream of frames of a size; the sound's streams follow it."""
        from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc

        options = dict(self._kind.options)
        added = self._output.add_stream(self._kind.encoder, rate=self._source.rate, options=options)
        stream = cast("VideoStream", added)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"  # which all players show
        context = stream.codec_context
        context.time_base = self._source.time_base
        context.sample_aspect_ratio = self._source.pixel_aspect
        context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
        context.color_primaries, context.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
        self.sound.add_streams()
        return stream

    def _encode(self, stream: "VideoStream", pixels: np.ndarray, time_s: Fraction, duration_s: Fraction) -> None:
        import av
        from av.video.reformatter import ColorRange, Colorspace, Interpolation

        frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(
            format="yuv420p",
            dst_colorspace=Colorspace.ITU709,
            dst_color_range=ColorRange.MPEG,
            interpolation=Interpolation.BICUBIC | Interpolation.ACCURATE_RND,
        )
        base = self._source.time_base
        frame.pts, frame.time_base = round(time_s / base), base
        self._durations[frame.pts] = round(duration_s / base)
        self._mux(stream, frame)

    def _mux(self, stream: "VideoStream", frame: "VideoFrame | None") -> None:
        """Encode a frame, or with None those that the encoder holds back, and write the packets."""
        for packet in stream.encode(frame):
            packet.duration = self._durations.pop(packet.pts or 0, 0)  # encoders do not keep it
            self._output.mux(packet)
