"""The sound of a video, copied into another one: as it is where the file can hold it, otherwise encoded again."""

import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from data.files.video_file import open_video

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import OutputContainer
    from av.packet import Packet

_LAYOUTS = {1: "mono", 2: "stereo", 4: "quad", 6: "5.1", 8: "7.1"}  # by the number of channels
_RATE = 48_000  # samples per second, of sound that is encoded again; Opus takes no other rate of music


class SoundCopy:
    """Copies the sound tracks of a video file to an output, beside its frames.

    encoder: encodes tracks that the output cannot hold as they are.
    problems: gets a line for a track that cannot be read to its end, or not be written.
    """

    def __init__(self, path: Path, output: "OutputContainer", encoder: str, problems: list[str]) -> None:
        self._path, self._output, self._encoder, self._problems = path, output, encoder, problems
        self._input = open_video(path)
        self._tracks: dict[int, _Copied | _Encoded] = {}
        self._packets: Iterator[Packet[AudioStream]] = iter(())
        self._next: Packet[AudioStream] | None = None

    def close(self) -> None:
        """Close the source."""
        self._input.close()

    @property
    def description(self) -> str:
        """The sound of the output, such as "sound copied (aac)"."""
        names = ", ".join(track.description for track in self._tracks.values())
        return f"sound {names}" if names else "no sound"

    def add_streams(self) -> None:
        """Add a stream to the output for each track; after that of the video, which players expect first."""
        streams = list(filter(_can_be_read, self._input.streams.audio))
        for stream in streams:
            track: _Copied | _Encoded
            if _can_hold(self._output, stream, None):
                track = _Copied(stream, self._output)
            elif _can_hold(self._output, stream, self._encoder):
                track = _Encoded(stream, self._output, self._encoder)
            else:
                name = stream.codec_context.codec.canonical_name
                self._problems.append(
                    f"{self._path}: its sound ({name}) cannot be written to this format, and left out"
                )
                continue
            self._tracks[stream.index] = track
        if streams := [stream for stream in streams if stream.index in self._tracks]:
            self._packets = self._demuxed(streams)
            self._next = next(self._packets, None)

    def copy_until(self, time_s: Fraction | None) -> None:
        """Write the sound up to a time in seconds; None: to its end."""
        while self._next is not None and (time_s is None or _time(self._next) <= time_s):
            self._output.mux(self._tracks[self._next.stream.index].converted(self._next))
            self._next = next(self._packets, None)
        if time_s is None:
            for track in self._tracks.values():
                self._output.mux(track.rest())

    def _demuxed(self, streams: "Sequence[AudioStream]") -> "Iterator[Packet[AudioStream]]":
        from av import FFmpegError

        try:
            for packet in self._input.demux(*streams):
                if packet.size:
                    yield packet  # type: ignore[misc]  # of one of the streams
        except FFmpegError:
            self._problems.append(f"{self._path}: is damaged, and its sound cannot be read to its end")


def _can_be_read(stream: Any) -> bool:
    """Return whether av knows the codec of a track; the types of av do not say that there may be none."""
    return stream.codec_context is not None


def _can_hold(output: "OutputContainer", stream: "AudioStream", encoder: str | None) -> bool:
    """Return whether the format of an output takes a track, as it is or encoded again, by a header in memory."""
    import av

    trial = av.open(io.BytesIO(), "w", format=output.format.name)
    try:
        if encoder:
            _encoding(stream, trial, encoder)
        else:
            trial.add_stream_from_template(stream)
        trial.start_encoding()
    except (ValueError, av.FFmpegError):
        return False
    finally:
        with suppress(ValueError, av.FFmpegError):
            trial.close()
    return True


def _encoding(stream: "AudioStream", output: "OutputContainer", encoder: str) -> "AudioStream":
    """Return a new stream of an output that encodes the sound of another one."""
    layout = stream.codec_context.layout.name
    if encoder == "libopus" or "channel" in layout:  # takes few layouts; "1 channels": the file names none
        layout = _LAYOUTS.get(stream.codec_context.layout.nb_channels, "stereo")
    return cast("AudioStream", output.add_stream(encoder, rate=_RATE, layout=layout))


def _time(packet: "Packet[AudioStream]") -> Fraction:
    """Return the time at which a packet is read, in seconds."""
    stamp = packet.dts if packet.dts is not None else packet.pts
    return (stamp or 0) * packet.time_base


class _Copied:
    """A track whose packets are written as they are."""

    def __init__(self, stream: "AudioStream", output: "OutputContainer") -> None:
        self._stream = output.add_stream_from_template(stream)
        self._stream.metadata.update(_language(stream))
        self.description = f"copied ({stream.codec_context.codec.canonical_name})"

    def converted(self, packet: "Packet[AudioStream]") -> "list[Packet[AudioStream]]":
        """Return a packet as the output takes it."""
        packet.stream = self._stream
        return [packet]

    def rest(self) -> "list[Packet[AudioStream]]":
        """Return what is held back at the end: nothing."""
        return []


class _Encoded:
    """A track that is decoded and encoded again."""

    def __init__(self, stream: "AudioStream", output: "OutputContainer", encoder: str) -> None:
        from av import AudioResampler

        self._stream = _encoding(stream, output, encoder)
        self._stream.metadata.update(_language(stream))
        context = self._stream.codec_context
        self._resampler = AudioResampler(context.format.name, context.layout.name, _RATE)
        self.description = f"encoded again ({stream.codec_context.codec.canonical_name} to {encoder})"

    def converted(self, packet: "Packet[AudioStream]") -> "list[Packet[AudioStream]]":
        """Return the packets that follow from one of the source; those that cannot be decoded are left out."""
        from av import FFmpegError

        try:
            frames = packet.decode()
        except FFmpegError:
            return []
        resampled = [part for frame in frames for part in self._resampler.resample(frame)]
        return [made for part in resampled for made in self._stream.encode(part)]

    def rest(self) -> "list[Packet[AudioStream]]":
        """Return what resampler and encoder hold back at the end."""
        parts = self._resampler.resample(None)
        return [made for part in (*parts, None) for made in self._stream.encode(part)]


def _language(stream: "AudioStream") -> dict[str, str]:
    return {name: value for name, value in stream.metadata.items() if name in ("language", "title")}
