"""Read the frames of a video, and write a video with new frames and the same sound. This module needs PyAV."""

import math
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from av.video.reformatter import ColorRange, Colorspace, Interpolation
from torch import Tensor

from data.batch import DataError
from utils.text import counted

FORMATS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska"}  # can hold H.264 and a time per frame
_H264 = {"crf": "18", "preset": "medium", "flags": "+frame_duration"}  # 18: no visible loss (ffmpeg's guide)
_COLORS = {"colorspace": "bt709", "color_primaries": "bt709", "color_trc": "bt709", "color_range": "tv"}
_TRUSTED = {"format_whitelist": "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi", "protocol_whitelist": "file"}
_BT709, _SCALER = Colorspace.ITU709, Interpolation.BICUBIC | Interpolation.ACCURATE_RND

Frame = tuple[av.VideoFrame, Tensor]  # frame with its time and duration, and its image, (3, H, W) uint8 RGB


class VideoFile:
    """An open video file.

    rate: Frames per second. If the rate varies, this is the mean.
    n_frames: Number of frames according to the file; 0 if unknown.
    n_read: Number of frames that were read so far.
    pixel_aspect: Pixel width divided by pixel height in upright frames. Use it only after the first frame was read.
    sound: Sound tracks.
    sound_packets: Packets of the sound tracks that were read but not yet written.
    problems: Messages about damage. The list is complete after all frames were read.

    Raises:
        DataError: The file is missing or is no video.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.problems, self.sound_packets = path, list[str](), deque[av.Packet]()
        try:  # "file:" prevents reading the name as a URL. The options refuse playlists.
            self._container = av.open(f"file:{path}", container_options=_TRUSTED)
        except av.FFmpegError as error:
            raise DataError(f"{path}: cannot be read as a video: {error.strerror}. Name another file.") from error
        streams: Any = self._container.streams
        self.sound = [track for track in streams.audio if track.codec_context is not None]
        pictures = [track for track in streams.video if not track.disposition & av.stream.Disposition.attached_pic]
        stream = next((track for track in pictures if track.codec_context is not None), None)
        if stream is None:
            raise DataError(f"{path}: contains no video. Name another file.")
        stream.thread_type = "AUTO"
        self.rate: Fraction = stream.average_rate or stream.guessed_rate or Fraction(25)
        self.pixel_aspect: Fraction = stream.sample_aspect_ratio or Fraction(1)
        base: Fraction = stream.time_base or 1 / self.rate
        finest = math.lcm(base.denominator, self.rate.numerator)  # Matroska rounds times to milliseconds, see `frames`
        self.time_base = Fraction(1, finest) if base > Fraction(1, 10_000) and finest <= 2**30 else base
        self._stated_s = (self._container.duration or 0) / av.time_base
        self.n_frames: int = stream.frames or round(self._stated_s * self.rate)
        self._stream, self.n_read, self._end_s, self._scale = stream, 0, 0.0, int(base / self.time_base)

    def frames(self) -> Iterator[Frame]:
        """Yield the upright frames with increasing times, all in the first frame's size. Call this only once."""
        start, step = (self._stream.start_time or 0) * self._scale, round(1 / self.rate / self.time_base)
        size, end, last = None, start, start - 1
        for frame in self._decoded():
            n_turns = round(frame.rotation / 90)  # turns are counterclockwise
            if size is None:
                size = frame.width, frame.height
                self.pixel_aspect = 1 / self.pixel_aspect if n_turns % 2 else self.pixel_aspect
            if frame.pts is not None:
                end = frame.pts * self._scale
                exact = start + round((end - start) / step) * step  # undoes the rounding of Matroska
                end = exact if 2 * abs(exact - end) <= self._scale else end
            frame.pts, frame.time_base = max(end, last + 1), self.time_base
            frame.duration = frame.duration if frame.duration and self._scale == 1 else step
            last, end = frame.pts, frame.pts + frame.duration
            self.n_read += 1
            yield frame, _rgb(frame, *size).rot90(n_turns, (1, 2)).contiguous()
        if size is None:
            raise DataError(f"{self.path}: holds no frame that can be decoded. Name another file.")
        if self._stated_s - self._end_s > 0.5:  # sound and frames end at slightly different times
            lengths = f"{self._end_s:.1f} of {self._stated_s:.1f} s"
            self.problems.append(f"{self.path}: ends after {lengths}, the rest is missing")

    def _packets(self) -> Iterator[av.Packet]:
        """Yield the packets of the video stream, and collect the sound packets."""
        try:
            for packet in self._container.demux(self._stream, *self.sound):
                self._end_s = max(self._end_s, float((packet.dts or 0) * packet.time_base))
                if packet.size and packet.stream is self._stream:
                    yield packet
                elif packet.size:
                    self.sound_packets.append(packet)
        except av.FFmpegError:
            self.problems.append(f"{self.path}: is damaged, and cannot be read to the end")

    def _decoded(self) -> Iterator[av.VideoFrame]:
        n_damaged = 0
        for packet in chain(self._packets(), [None]):  # None flushes the decoder
            try:
                for frame in self._stream.decode(packet):
                    n_damaged += frame.is_corrupt
                    yield frame
            except av.FFmpegError:
                n_damaged += 1
        if n_damaged:
            self.problems.append(f"{self.path}: {counted(n_damaged, 'frame')} damaged or left out")


def _rgb(frame: av.VideoFrame, width: int, height: int) -> Tensor:
    is_hd = frame.width >= 1280 or frame.height >= 577
    space = _BT709 if is_hd and frame.colorspace == 2 else None  # 2: unknown; players assume BT.709 for HD
    scaler = _SCALER | Interpolation.FULL_CHR_H_INT
    rgb = frame.reformat(width, height, "rgb24", src_colorspace=space, interpolation=scaler)
    return torch.from_numpy(rgb.to_ndarray()).permute(2, 0, 1)


def write_video(path: Path, suffix: str, source: VideoFile, frames: Iterator[Frame]) -> None:
    """Write a video with the frame rate and the sound of `source`.

    suffix: One of FORMATS.
    frames: Frames of `source`, each with its new image, (3, H, W) uint8. All images must have the same size.

    Raises:
        DataError: The format cannot hold the sound.
        OSError: The file cannot be written.
    """
    container = FORMATS[suffix.lower()]
    options = {"movflags": "+faststart"} if container in ("mp4", "mov") else {}
    try:
        with av.open(f"file:{path}", "w", format=container, options=options) as output:
            first = next(frames)
            stream, tracks = _started(output, source, *first[1].shape[1:])
            for coded in chain((_coded(*frame) for frame in chain([first], frames)), [None]):
                output.mux(stream.encode(coded))  # None flushes the encoder
                while source.sound_packets:
                    packet = source.sound_packets.popleft()
                    packet.stream = tracks[packet.stream.index]
                    output.mux(packet)
    except av.FFmpegError as error:  # a full disk, for example
        raise OSError(error.errno, error.strerror) from error


def _started(
    output: av.container.OutputContainer, source: VideoFile, height: int, width: int
) -> tuple[Any, dict[int, Any]]:
    """Add a video stream, then the sound tracks. Return the stream, and the tracks by their index in `source`."""
    stream: Any = output.add_stream("libx264", rate=source.rate, options=_H264 | _COLORS)
    stream.width, stream.height, stream.pix_fmt = width + width % 2, height + height % 2, "yuv420p"  # needs even sides
    context = stream.codec_context
    context.time_base, context.sample_aspect_ratio = source.time_base, source.pixel_aspect
    try:
        tracks = {track.index: output.add_stream_from_template(track) for track in source.sound}
        output.start_encoding()
    except ValueError as error:
        message = f"{source.path}: {output.format.name} cannot hold its sound. Name an --output that ends in .mkv."
        raise DataError(message) from error
    return stream, tracks


def _coded(frame: av.VideoFrame, image: Tensor) -> av.VideoFrame:
    """Return `image` as a frame with the time of `frame`. If height or width is odd, repeat the last row or column."""
    pixels = image.permute(1, 2, 0).contiguous().numpy()
    pixels = np.pad(pixels, ((0, pixels.shape[0] % 2), (0, pixels.shape[1] % 2), (0, 0)), mode="edge")
    rgb = av.VideoFrame.from_ndarray(pixels, format="rgb24")
    coded = rgb.reformat(
        format="yuv420p", dst_colorspace=_BT709, dst_color_range=ColorRange.MPEG, interpolation=_SCALER
    )
    coded.pts, coded.duration, coded.time_base = frame.pts, frame.duration, frame.time_base
    return coded
