"""Pairs made of the frames of videos, in splits by time: neighbours never lie in two splits."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import groupby
from pathlib import Path

from data.batch import DataError
from data.files.video_file import VideoFile, require_av
from tools.convert_data.conversion import Conversion, Existing, convert_each, kept_and_to_do
from tools.convert_data.photos import PhotoPairs
from utils.log import logger
from utils.text import counted

_GAP_S = 2  # seconds between two splits, whose frames are in neither
_GAP_SHARE = Fraction(1, 20)  # of a clip: the most that a gap takes, unless every N-th frame are more


def splits_by_time(n_frames: int, every: int, rate: Fraction, shares: Mapping[str, float]) -> Iterator[tuple[int, str]]:
    """Yield the index of each frame of a clip that becomes a pair, from 0, and its split: train, then val, then test.

    Between two splits is a gap of at least `every` frames, so that one that would become a pair lies between them.

    every: take every N-th frame. rate: frames per second. shares: of val and test, in [0, 1]; train has the rest.
    """
    gap = max(every, round(min(_GAP_S * rate, _GAP_SHARE * n_frames)))
    split, start, share = "train", 0, 1 - sum(shares.values())
    for following, its_share in [*((name, share) for name, share in shares.items() if share > 0), ("", 0.0)]:
        end = round(share * n_frames) - gap // 2 if following else n_frames
        yield from ((index, split) for index in range(0, n_frames, every) if start <= index < end)
        split, start, share = following, end + gap, share + its_share


def from_videos(
    paths: Sequence[Path],
    target: Path,
    existing: Existing,
    problems: list[str],
    *,
    pairs: PhotoPairs,
    shares: Mapping[str, float],
    every: int | None,
) -> Counter[str]:
    """Make a pair of every N-th frame of each video; return the number of pairs of each split, those kept included.

    A pair is named CLIP_000123 by the number of its frame, from 1.
    every: None takes about one frame a second.
    problems: gets those of videos that are damaged or cannot be read.

    Raises:
        DataError: av is not installed, no video can be read, two have the same name, a frame is present in another
            split, a clip is too short, a file exists, or pairs that stay in `target` are of other settings.
        OSError: a file cannot be written.
    """
    require_av(str(paths[0]))
    clips = _opened(paths, problems)
    places = dict[Conversion, tuple[VideoFile, int]]()
    for clip, video in clips.items():
        for index, split in _chosen(video, every or max(1, round(video.rate)), shares):
            name = f"{clip}_{index + 1:06d}"
            files = pairs.files(target, split, name)
            places[Conversion(name, split, files, tuple)] = video, index  # made when it is decoded
    pairs.check_present(target, {conversion.name: conversion.split for conversion in places}, existing)
    counts, to_do = kept_and_to_do([*places], existing)
    return counts + convert_each(_decoded(to_do, places, pairs, problems), len(to_do), problems)


def _opened(paths: Sequence[Path], problems: list[str]) -> dict[str, VideoFile]:
    """Return the videos by name; raise DataError where two have the same, or none can be read."""
    clips: dict[str, VideoFile] = {}
    for path in paths:
        try:
            video = VideoFile(path)
        except DataError as error:
            problems += error.problems
            continue
        if (other := clips.setdefault(path.stem, video)) is not video:
            raise DataError(f"{path} and {other.path} have the same name: rename one of them")
    if not clips:
        raise DataError(*problems)
    return clips


def _chosen(video: VideoFile, every: int, shares: Mapping[str, float]) -> list[tuple[int, str]]:
    """Return the indices of the frames that become pairs, with their splits; warn of a split that is empty.

    Raises:
        DataError: there is none to train on.
    """
    n_frames = video.count_frames()
    chosen = list(splits_by_time(n_frames, every, video.rate, shares))
    splits, length = {split for _, split in chosen}, f"{video.path}: {counted(n_frames, 'frame')}"
    if "train" not in splits:
        raise DataError(f"{length}, too short for --every {every}. Choose a smaller one, or leave the clip out.")
    if empty := [split for split, share in shares.items() if share > 0 and split not in splits]:
        logger.warning("%s, none of them in %s with --every %d", length, " and ".join(empty), every)
    return chosen


def _decoded(
    to_do: Sequence[Conversion],
    places: Mapping[Conversion, tuple[VideoFile, int]],
    pairs: PhotoPairs,
    problems: list[str],
) -> Iterator[Conversion]:
    """Decode the videos one after the other, and yield the conversions of their frames, whose indices `places` has."""
    for video, of_video in groupby(to_do, lambda conversion: places[conversion][0]):
        wanted = {places[conversion][1]: conversion for conversion in of_video}
        for index, frame in enumerate(video.frames(problems)):
            if index in wanted:
                yield replace(wanted[index], make=partial(pairs.of, frame.image))
