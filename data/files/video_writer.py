"""Writing video files, with a copy of the sound of another one."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from torch import Tensor

from data.files.video_file import VideoFile, open_video

with suppress(ImportError):  # see `require_av`
    import av
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.packet import Packet
    from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc, Interpolation
    from av.video.stream import VideoStream

_H264 = ("libx264", {"crf": "18", "preset": "medium"})  # 18: no visible loss, by the guide of ffmpeg
_VP9 = ("libvpx-vp9", {"crf": "24", "b": "0", "row-mt": "1", "deadline": "good", "cpu-used": "4"})
_FORMATS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}  # as ffmpeg names them
WRITABLE_SUFFIXES = tuple(_FORMATS)
"""Suffixes of the files that can be written. AVI, which has no times of frames, is not among them."""


@contextmanager
def av_errors_as_os_errors(path: Path) -> Iterator[None]:
    """Raise OSError with `path` for an error of av while writing, such as that of a full disk."""
    try:
        yield
    except av.FFmpegError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


class SoundCopy:
    """Copies the sound tracks of a video file to an output, beside its frames. They are not encoded again.

    problems: gets a line for a track that cannot be read to its end, or that the output's format cannot hold.
    """

    def __init__(self, path: Path, output: "OutputContainer", problems: list[str]) -> None:
        self._path, self._output, self._problems = path, output, problems
        self._input = open_video(path)
        self._tracks: dict[int, AudioStream] = {}  # of the output, by the number of the stream in the source
        self._packets: Iterator[Packet[AudioStream]] = iter(())
        self._next: Packet[AudioStream] | None = None

    def close(self) -> None:
        """Close the source."""
        self._input.close()

    @property
    def description(self) -> str:
        """The sound of the output, such as "sound copied (aac)"."""
        codecs = ", ".join(track.codec_context.codec.canonical_name for track in self._tracks.values())
        return f"sound copied ({codecs})" if codecs else "no sound"

    def add_streams(self) -> None:
        """Add a stream to the output for each track; after that of the video, which players expect first."""
        audio: tuple[Any, ...] = self._input.streams.audio  # a codec that av does not know has no context
        streams: list[AudioStream] = [stream for stream in audio if stream.codec_context is not None]
        for stream in streams:
            if not _can_hold(self._output, stream):
                codec = stream.codec_context.codec.canonical_name
                self._problems.append(
                    f"{self._path}: its sound ({codec}) does not fit into this format, and is left out; an --output "
                    "that ends in .mkv holds it"
                )
                continue
            track = self._tracks[stream.index] = self._output.add_stream_from_template(stream)
            kept = {name: value for name, value in stream.metadata.items() if name in ("language", "title")}
            track.metadata.update(kept)
        if self._tracks:
            self._packets = self._demuxed([stream for stream in streams if stream.index in self._tracks])
            self._next = next(self._packets, None)

    def copy_until(self, time_s: Fraction | None) -> None:
        """Write the sound up to a time in seconds; None: to its end."""
        while (packet := self._next) is not None:
            stamp = packet.pts if packet.dts is None else packet.dts
            if time_s is not None and (stamp or 0) * packet.time_base > time_s:
                return
            packet.stream = self._tracks[packet.stream.index]
            self._output.mux(packet)
            self._next = next(self._packets, None)

    def _demuxed(self, streams: "list[AudioStream]") -> "Iterator[Packet[AudioStream]]":
        try:
            for packet in self._input.demux(*streams):
                if packet.size:
                    yield packet  # type: ignore[misc]  # of one of the streams
        except av.FFmpegError:
            self._problems.append(f"{self._path}: is damaged, and its sound cannot be read to its end")


def _can_hold(output: "OutputContainer", stream: "AudioStream") -> bool:
    """Return whether the format of an output takes a track as it is, by a header in memory."""
    trial = av.open(io.BytesIO(), "w", format=output.format.name)
    try:
        trial.add_stream_from_template(stream)
        trial.start_encoding()
    except (ValueError, av.FFmpegError):
        return False
    finally:
        with suppress(ValueError, av.FFmpegError):
            trial.close()
    return True


class VideoWriter:
    """Writes a video with the times, and a copy of the sound, of another one.

    The file is complete when the context is left without an error.

    path: the file to write to, of any name. suffix: one of WRITABLE_SUFFIXES, which decides its format.
    source: the video whose frame rate, shape of pixels and sound are taken.
    problems: gets a line for sound that cannot be read, or that the format cannot hold.
    """

    def __init__(self, path: Path, suffix: str, source: VideoFile, problems: list[str]) -> None:
        self._path = path
        container = _FORMATS[suffix.lower()]
        self._encoder, self._options = _VP9 if container == "webm" else _H264
        self._source = source
        self._durations: dict[int, int] = {}
        options = {"movflags": "+faststart"} if container in ("mp4", "mov") else {}
        with av_errors_as_os_errors(path):
            self._output = av.open(f"file:{path}", "w", format=container, options=options)
        self._stream: VideoStream | None = None
        self.sound = SoundCopy(source.path, self._output, problems)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        try:
            if error_type is None and self._stream is not None:
                with av_errors_as_os_errors(self._path):
                    self._mux(self._stream, None)
                    self.sound.copy_until(None)
                    self._output.close()
        finally:
            self.sound.close()
            with suppress(av.FFmpegError):  # of a file that is not kept
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
        if self._encoder == "libx264" and (image.shape[1] % 2 or image.shape[2] % 2):  # 2x2 pixels share a colour
            pixels = np.pad(pixels, ((0, image.shape[1] % 2), (0, image.shape[2] % 2), (0, 0)), mode="edge")
        with av_errors_as_os_errors(self._path):
            self._stream = self._stream or self._started(*pixels.shape[:2])
            self._encode(self._stream, pixels, time_s, duration_s)
            self.sound.copy_until(time_s)

    def _started(self, height: int, width: int) -> "VideoStream":
        """Return the stream of frames of a size; the sound's streams follow it."""
        added = self._output.add_stream(self._encoder, rate=self._source.rate, options=dict(self._options))
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

    def _mux(self, stream: "VideoStream", frame: "av.VideoFrame | None") -> None:
        """Encode a frame, or with None those that the encoder holds back, and write the packets."""
        for packet in stream.encode(frame):
            packet.duration = self._durations.pop(packet.pts or 0, 0)  # encoders do not keep it
            self._output.mux(packet)
