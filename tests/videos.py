"""Small videos for tests. Each frame shows its number as a level of grey."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from torch import Tensor

from data.files.video_file import VideoFile

STEP = 5  # levels of grey between two frames
SOUND_RATE = 48_000


def write_video(
    path: Path,
    *,
    n_frames: int = 24,
    size: tuple[int, int] = (32, 48),
    rate: int = 24,
    sound: str | None = "aac",
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    times_ms: Sequence[int] = (),
    pixel_aspect: Fraction = Fraction(1),
    muxing: dict[str, str] | None = None,
) -> Path:
    """Write a video of one tone and, in its upper left corner, a red square; `size` is (height, width)."""
    height, width = size
    with av.open(str(path), "w", options=muxing or {}) as output:
        video: Any = output.add_stream(codec, rate=rate, options={"crf": "4"})
        video.bit_rate = 0 if codec.startswith("lib") else 4_000_000
        video.width, video.height, video.pix_fmt = width, height, pix_fmt
        base = Fraction(1, 1000) if times_ms else Fraction(1, rate)
        video.codec_context.time_base, video.codec_context.sample_aspect_ratio = base, pixel_aspect
        audio: Any = output.add_stream(sound, rate=SOUND_RATE, layout="mono") if sound else None
        for number in range(n_frames):
            pixels = np.full((height, width, 3), 20 + STEP * number, np.uint8)
            pixels[: height // 4, : width // 4] = (220, 30, 30)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = (times_ms[number] if times_ms else number), base
            output.mux(video.encode(frame))
        output.mux(video.encode(None))
        if audio:
            _write_tone(output, audio, n_frames / rate)
    return path


def _write_tone(output: Any, stream: Any, duration_s: float) -> None:
    time = np.arange(round(SOUND_RATE * duration_s)) / SOUND_RATE
    tone = (np.sin(time * 2 * np.pi * 440) / 2).astype(np.float32)
    context = stream.codec_context
    resampler = av.AudioResampler(context.format.name, context.layout.name, SOUND_RATE, context.frame_size or 960)
    for start in range(0, len(tone), 960):
        part = av.AudioFrame.from_ndarray(tone[None, start : start + 960], format="flt", layout="mono")
        part.sample_rate, part.pts, part.time_base = SOUND_RATE, start, Fraction(1, SOUND_RATE)
        for frame in resampler.resample(part):
            output.mux(stream.encode(frame))
    output.mux(stream.encode(None))


def images_of(path: Path) -> list[Tensor]:
    """The images of an intact video, upright."""
    video = VideoFile(path)
    images = [image for _, image in video.frames()]
    assert video.problems == []
    return images


def shown(images: Sequence[Tensor]) -> list[int]:
    """The numbers that images show in their lower right corner."""
    return [round((image[:, -4:, -4:].float().mean().item() - 20) / STEP) for image in images]


def times_of(path: Path) -> list[float]:
    """The times of the frames in seconds."""
    return [float((frame.pts or 0) * (frame.time_base or 0)) for frame, _ in VideoFile(path).frames()]


def sound_packets(path: Path) -> list[tuple[bytes, float]]:
    """The packets of the sound, with their times in seconds, rounded to milliseconds."""
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(audio=0) if packet.size] if container.streams.audio else []
        return [(bytes(packet), round(float((packet.pts or 0) * packet.time_base), 3)) for packet in packets]
