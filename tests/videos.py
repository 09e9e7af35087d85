"""Small videos for tests, each of whose frames shows its number as a level of grey."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.conftest import save_image, write_tiny_config
from tests.runs import untrained_run

STEP = 5  # levels of grey between two frames
SOUND_RATE = 48_000


def train_on_images(folder: Path) -> Path:
    """Write a run that translates RGB images, with dropout; return its folder."""
    pair = np.random.default_rng(0).integers(0, 256, (32, 64, 3), dtype=np.uint8)
    save_image(folder / "set" / "train" / "x.png", pair)
    settings = ["data.layout=side_by_side", f"data.root={folder / 'set'}", "data.instance_edges=false"]
    return untrained_run(write_tiny_config(folder), *settings, "generator.dropout=true")


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
    muxing: dict[str, str] | None = None,
) -> Path:
    """Write a video of one tone and, in its upper left corner, a red square; `size` is (height, width)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = size
    with av.open(str(path), "w", options=muxing or {}) as output:
        video: Any = output.add_stream(codec, rate=rate, options={"crf": "4"})
        video.bit_rate = 0 if codec.startswith("lib") else 4_000_000
        video.width, video.height, video.pix_fmt = width, height, pix_fmt
        base = Fraction(1, 1000) if times_ms else Fraction(1, rate)
        video.codec_context.time_base = base
        audio: Any = output.add_stream(sound, rate=SOUND_RATE, layout="mono") if sound else None
        for number in range(n_frames):
            pixels = np.full((height, width, 3), level(number), np.uint8)
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


def level(number: int) -> int:
    """The level of grey of frame `number`, from 0."""
    return 20 + STEP * number


def has_sound(path: Path) -> bool:
    with av.open(str(path)) as container:
        return bool(container.streams.audio)


def sound_packets(path: Path) -> list[tuple[bytes, float]]:
    """The packets of the sound, with their times in seconds, rounded to milliseconds."""
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(audio=0) if packet.size]
        return [(bytes(packet), round(float((packet.pts or 0) * packet.time_base), 3)) for packet in packets]
