"""The translation of a video: every frame in order, with the times and the sound of the source."""

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor
from tqdm import tqdm

from configs import build
from configs.schema import Config
from data.batch import Batch, DataError, Sample
from data.files.video_file import Frame, VideoFile, is_video, require_av
from data.files.video_writer import WRITABLE_SUFFIXES, VideoWriter
from data.preprocessing import Preprocessing
from inference.frame_folder import FrameFolder
from inference.load import LoadedGenerator
from inference.origin_record import generator_origin
from inference.output_folder import default_output
from inference.padding import PaddedSample, fitted
from inference.predictor import Predictor
from inference.request import Request
from inference.setup import (
    build_predictor,
    load_requested_generator,
    prepare_device,
    report_features,
    report_sizes,
    should_compile,
    with_tiles,
)
from inference.style_image import encode_style
from utils.atomic_file import replacing
from utils.digest import sha256_of_file
from utils.distributed import World
from utils.interrupts import deferred
from utils.log import logger
from utils.signals import available
from utils.text import counted


def video_of(request: Request) -> Path | None:
    """Return the video that a request translates; None where it translates images.

    Raises:
        DataError: a video is one of several inputs, or --frames is given without a video.
    """
    videos = [path for path in request.input if is_video(path)]
    if videos and len(request.input) > 1:
        raise DataError(f"--input: {videos[0]} is one of {len(request.input)} inputs. Translate each video by itself.")
    if request.frames and not videos:
        raise DataError("--frames: keeps the frames of a video. Name a video with --input, or remove --frames.")
    return videos[0] if videos else None


def translate_video(path: Path, request: Request, world: World) -> None:
    """Translate a video and write the result, with its sound.

    Raises:
        UserError, OSError: the video, a file, a folder or a setting cannot be used. For a video that is damaged or cut
            off, after all that can be decoded has been translated.
    """
    _check_request(path, request, world)
    require_av(f"--input {path}")
    video = VideoFile(path)
    prepare_device(world.device, request)
    loaded = load_requested_generator(request)
    _check_generator(path, loaded)
    style = encode_style(loaded, request.style)
    output = request.output or _default_output(loaded, request)
    _prepare_output(output, path, request)
    report_sizes(loaded, request)
    compiles = should_compile(loaded, lambda: (video.n_frames or 0) * video.height * video.width, world.device, request)
    predictor = build_predictor(loaded, None, world.device, request, style=style, compiles=compiles)
    report_features(loaded, predictor, request)
    predictor = with_tiles(predictor, loaded, request, output.parent)
    folder = None
    if request.frames:
        origin = generator_origin(loaded, predictor, keeps_sizes=request.keeps_sizes)
        draws = request.noise or predictor.takes_seed
        origin |= {"video_sha256": sha256_of_file(path), "noise_name": path.stem if draws else None}
        folder = FrameFolder(request.frames, origin, replaces=request.existing == "replace")
    preprocessing = build.build_preprocessing(loaded.config)
    translation = Translation(video, predictor, preprocessing, request.batch_size, request.keeps_sizes, folder)
    _write(translation, output)


def _check_request(path: Path, request: Request, world: World) -> None:
    """Raise DataError for options that do not apply to a video."""
    refused = {
        "--targets": request.targets,
        "--instances": request.instances,
        "--feature-maps": request.feature_maps,
        "--features": request.features,
        "--clusters": request.clusters,
        f"--side {request.side}": request.side in ("A", "B"),
    }
    if given := next((option for option, is_given in refused.items() if is_given), None):
        raise DataError(f"--input {path}: {given} does not apply to a video. Remove it.")
    if request.existing == "keep":
        raise DataError(
            f"--input {path}: --existing keep does not apply to a video, which is written as a whole. Keep its "
            "translated frames with --frames DIR."
        )
    if world.size > 1:
        raise DataError(f"--input {path}: one process translates a video. Start test.py without torchrun.")


def _check_generator(path: Path, loaded: LoadedGenerator) -> None:
    """Raise DataError unless the generator needs RGB images alone."""
    config: Config = loaded.config
    conditioning = build.build_conditioning(config)
    lacking = None
    if conditioning.n_classes:
        lacking = "translates label maps, which a video cannot hold: its compression changes ids"
    elif conditioning.needs_instances or config.features.n_channels:
        lacking = "also needs instance maps or features of each image, which a video does not hold"
    else:
        lacking = build.beyond_8_bit(config)
    if lacking:
        raise DataError(f"--input {path}: {loaded.file} {lacking}. Translate a folder of images with --input DIR.")


def _default_output(loaded: LoadedGenerator, request: Request) -> Path:
    """Return results/RUN/CLIP_stepSTEP with the suffix of the input, or .mp4 where that cannot be written."""
    (path,) = request.input
    suffix = path.suffix if path.suffix.lower() in WRITABLE_SUFFIXES else ".mp4"
    folder = default_output(loaded, request)
    return folder.with_name(folder.name + suffix)


def _prepare_output(output: Path, path: Path, request: Request) -> None:
    """Create the folder of the output.

    Raises:
        DataError: the output is no file of video, is the input, or exists and has to stay.
        OSError: the folder cannot be created, or not be written to.
    """
    if output.suffix.lower() not in WRITABLE_SUFFIXES or output.is_dir():
        known = ", ".join(WRITABLE_SUFFIXES)
        keeping = "" if request.frames else "; --frames DIR keeps the frames"
        raise DataError(f"--output: {output} is no name of a video. Choose one that ends in {known}{keeping}.")
    if output.exists() and output.samefile(path):
        raise DataError(f"--output: {output} is the input. Choose another --output.")
    if output.exists() and request.existing != "replace":
        raise DataError(f"--output: {output} already exists. Choose another --output, or --existing replace.")
    output.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(output.parent))


@dataclass
class Translation:
    """Translates the frames of a video, `batch_size` together.

    keeps_sizes: whether frames keep their size, or get that of `preprocessing`.
    folder: keeps the translated frames, and has those of an interrupted translation; None to keep none.
    n_kept: how many frames were taken from the folder. problems: faults of the video, complete at the end.
    """

    video: VideoFile
    predictor: Predictor
    preprocessing: Preprocessing
    batch_size: int
    keeps_sizes: bool
    folder: FrameFolder | None
    n_kept: int = 0
    problems: list[str] = field(default_factory=list)

    def frames(self) -> Iterator[tuple[Frame, Tensor]]:
        """Yield each frame in order with its translation, (3, H, W) uint8."""
        group: list[tuple[int, Frame]] = []
        for number, frame in enumerate(self.video.frames(self.problems), start=1):
            group.append((number, frame))
            if len(group) == self.batch_size:
                yield from self._translated(group)
                group = []
        yield from self._translated(group)

    def _translated(self, group: Sequence[tuple[int, Frame]]) -> Iterator[tuple[Frame, Tensor]]:
        """Yield the frames of a group with their translations; those in the folder are not translated again."""
        images = self._kept([number for number, _ in group])
        self.n_kept += len(images)
        missing = [(number, self._fitted(frame.image)) for number, frame in group if number not in images]
        if missing:
            fakes = self.predictor.translate(Batch.of([fit.padded for _, fit in missing]))
            for (number, fit), fake in zip(missing, fakes, strict=True):
                images[number] = fit.window.cut(fake)
                if self.folder:
                    self.folder.write(number, images[number])
        yield from ((frame, images[number]) for number, frame in group)

    def _kept(self, numbers: Sequence[int]) -> dict[int, Tensor]:
        """Return the translated frames that are in the folder, by number."""
        if self.folder is None:
            return {}
        kept = {number: self.folder.read(number, *self._size) for number in numbers}
        return {number: image for number, image in kept.items() if image is not None}

    @cached_property
    def _size(self) -> tuple[int, int]:
        """Height and width of the translated frames."""
        blank = torch.zeros(3, self.video.height, self.video.width, dtype=torch.uint8)
        window = self._fitted(blank).window
        return window.bottom - window.top, window.right - window.left

    def _fitted(self, image: Tensor) -> PaddedSample:
        """Return a frame as a sample for the network; by the video's name all have the same noise and style."""
        sample = Sample(self.video.path.stem, image, None, None)
        return fitted(sample, self.preprocessing, keeps_size=self.keeps_sizes, source_is_ids=False)


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Exit with code 128 + N after SIGTERM or SIGHUP, which then delete the unfinished file, as Ctrl-C does."""

    def end(number: int, _: object) -> NoReturn:
        sys.stderr.write("interrupted\n")
        sys.exit(128 + number)

    kinds = [kind for kind in available("SIGTERM", "SIGHUP") if signal.getsignal(kind) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        kinds = []
    for kind in kinds:  # not those that nohup ignores
        signal.signal(kind, deferred(end))
    try:
        yield
    finally:
        for kind in kinds:
            signal.signal(kind, signal.SIG_DFL)


def _write(translation: Translation, output: Path) -> None:
    """Write the translated video, and report it.

    Raises:
        DataError: the source is damaged or cut off; the video of the rest is complete.
        OSError: a file cannot be written.
    """
    video, n_frames = translation.video, 0
    with (
        _signals_as_interrupts(),
        replacing(output) as unfinished,
        VideoWriter(unfinished, output.suffix, video, translation.problems) as writer,
        # None: hidden where standard error is no terminal
        tqdm(total=video.n_frames, unit="frame", disable=None, dynamic_ncols=True) as progress,
    ):
        for frame, image in translation.frames():
            writer.add(image, frame.time_s, frame.duration_s)
            n_frames += 1
            progress.update()
    if translation.n_kept:
        logger.info("kept         %s", counted(translation.n_kept, "existing frame"))
    logger.info("translated   %s: %s", counted(n_frames - translation.n_kept, "frame"), output)
    logger.info("video        %s, %.6g frames/s, %s", writer.size, video.rate, writer.sound.description)
    if translation.problems:
        raise DataError(*translation.problems)
