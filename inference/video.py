"""The translation of a video: every frame in order, with the times and the sound of the source."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from torch import Tensor
from tqdm import tqdm

from configs import build
from data.batch import Batch, DataError, Sample
from data.files.image_files import read_rgb, write_png
from data.files.video_file import Frame, VideoFile, require_av
from data.files.video_writer import WRITABLE_SUFFIXES, VideoWriter
from inference.load import LoadedGenerator
from inference.original_weights import SOURCE_ALONE
from inference.output_folder import (
    as_recorded,
    create_writable,
    default_output,
    generator_origin,
    other_origin,
    output_lock,
    read_record,
    write_record,
)
from inference.padding import PaddedSample, fitted
from inference.predictor import Predictor
from inference.request import InputOptions, OutputOptions, Request
from inference.requested_predictor import load_requested_generator, prepare_device, requested_predictor
from inference.sampling import encode_style
from inference.tiling import Window
from utils.atomic_file import replacing
from utils.digest import sha256_of_file
from utils.distributed import World
from utils.log import logger
from utils.signals import INTERRUPTED, available, deferred, handling
from utils.text import counted

FRAMES_RECORD = "origin.json"
_FRAME = re.compile(r"\d{6,}\.png")


def translate_video(path: Path, request: Request, world: World) -> None:
    """Translate a video and write the result, with its sound.

    Raises:
        UserError, OSError: the video, a file, a folder or a setting cannot be used. For a video that is damaged or cut
            off, after all that can be decoded has been translated.
    """
    _check_request(path, request, world)
    require_av(f"--input {path}")
    video = VideoFile(path)
    drawing, wanted = request.drawing, request.output
    prepare_device(world.device, is_of_one_size=not request.keeps_sizes)
    loaded = load_requested_generator(request.generator, SOURCE_ALONE)
    _check_generator(path, loaded)
    style = encode_style(loaded, drawing.style)
    output = wanted.path or _default_output(path, loaded, request.input)
    _prepare_output(output, path, wanted)
    with output_lock(output.with_name(f".{output.name}.lock"), output):
        n_pixels = (video.n_frames or 0) * video.height * video.width
        predictor = requested_predictor(loaded, request, world.device, output.parent, lambda: n_pixels, style)
        if wanted.frames:
            origin = generator_origin(loaded, predictor, keeps_sizes=request.keeps_sizes)
            draws = drawing.noise or predictor.takes_seed
            origin |= {"video_sha256": sha256_of_file(path), "noise_name": path.stem if draws else None}
            prepare_frames(wanted.frames, origin, replaces=wanted.existing == "replace")
        preprocessing = build.build_preprocessing(loaded.config)

        def fit(image: Tensor) -> PaddedSample:
            sample = Sample(path.stem, source=image)  # by the video's name all have the same noise and style
            return fitted(sample, preprocessing, keeps_size=request.keeps_sizes, source_is_ids=False)

        batch_size = request.compute.batch_size
        _write(FrameTranslator(video, predictor, fit, batch_size, wanted.frames), output)


def _check_request(path: Path, request: Request, world: World) -> None:
    """Raise DataError for options that do not apply to a video."""
    given, drawing = request.input, request.drawing
    refused = {
        "--targets": given.targets,
        "--instances": given.instances,
        "--feature-maps": given.feature_maps,
        "--nodata": given.nodata is not None,
        "--features": drawing.features,
        "--clusters": drawing.clusters,
        f"--side {given.side}": given.side in ("A", "B"),
    }
    if option := next((option for option, is_given in refused.items() if is_given), None):
        raise DataError(f"--input {path}: {option} does not apply to a video. Remove it.")
    if request.output.existing == "keep":
        raise DataError(
            f"--input {path}: --existing keep does not apply to a video, which is written as a whole. Keep its "
            "translated frames with --frames DIR."
        )
    if world.size > 1:
        raise DataError(f"--input {path}: one process translates a video. Start test.py without torchrun.")


def _check_generator(path: Path, loaded: LoadedGenerator) -> None:
    """Raise DataError unless the generator needs RGB images alone."""
    conditioning, lacking = loaded.conditioning, None
    if conditioning.n_classes:
        lacking = "translates label maps, which a video cannot hold: its compression changes ids"
    elif conditioning.needs_instances or conditioning.features != "none":
        lacking = "also needs instance maps or features of each image, which a video does not hold"
    else:
        lacking = build.beyond_8_bit(loaded.config.data, conditioning)
    if lacking:
        raise DataError(f"--input {path}: {loaded.file} {lacking}. Translate a folder of images with --input DIR.")


def _default_output(path: Path, loaded: LoadedGenerator, given: InputOptions) -> Path:
    """Return results/RUN/CLIP_stepSTEP with the suffix of the input, or .mp4 where that cannot be written."""
    suffix = path.suffix if path.suffix.lower() in WRITABLE_SUFFIXES else ".mp4"
    folder = default_output(loaded, given)
    return folder.with_name(folder.name + suffix)


def _prepare_output(output: Path, path: Path, wanted: OutputOptions) -> None:
    """Create the folder of the output.

    Raises:
        DataError: the output is no file of video, is the input, or exists and has to stay.
        OSError: the folder cannot be created, or not be written to.
    """
    if output.suffix.lower() not in WRITABLE_SUFFIXES or output.is_dir():
        known = ", ".join(WRITABLE_SUFFIXES)
        keeping = "" if wanted.frames else "; --frames DIR keeps the frames"
        raise DataError(f"--output: {output} is no name of a video. Choose one that ends in {known}{keeping}.")
    if output.exists() and output.samefile(path):
        raise DataError(f"--output: {output} is the input. Choose another --output.")
    if output.exists() and wanted.existing != "replace":
        raise DataError(f"--output: {output} already exists. Choose another --output, or --existing replace.")
    create_writable(output.parent)


def prepare_frames(folder: Path, origin: Mapping[str, Any], *, replaces: bool) -> None:
    """Create the folder of translated frames, and record what makes them: all in it are of one origin.

    origin: as JSON. replaces: whether frames of another origin, if recorded, are deleted.

    Raises:
        DataError: the folder holds frames of another origin, or of one that is not recorded, and they have to stay.
        OSError: the folder cannot be written to.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"--frames: {folder} is a file. Choose another --frames.")
    folder.mkdir(parents=True, exist_ok=True)
    record = as_recorded(origin)
    present = [path for path in folder.iterdir() if _FRAME.fullmatch(path.name)]
    recorded = read_record(folder / FRAMES_RECORD) if present else record
    if recorded != record:
        if not replaces or not recorded:  # without a record they may be anything, such as photographs
            found = f"{counted(len(present), 'frame')} of {other_origin(record, recorded)}"
            remedy = "Choose another --frames, or --existing replace." if recorded else "Choose another --frames."
            raise DataError(f"--frames: {folder} holds {found}. {remedy}")
        for path in present:
            path.unlink()
    write_record(record, folder / FRAMES_RECORD)


@dataclass
class FrameTranslator:
    """Translates the frames of a video, `batch_size` together.

    fit: pads a frame for the network.
    folder: keeps the translated frames as PNG files, by their number from 1: 000001.png. Those that are there and
        intact are not translated again. None keeps none.
    n_kept: how many were there. problems: faults of the video, complete at the end.
    """

    video: VideoFile
    predictor: Predictor
    fit: Callable[[Tensor], PaddedSample]
    batch_size: int
    folder: Path | None
    n_kept: int = 0
    problems: list[str] = field(default_factory=list)

    def frames(self) -> Iterator[tuple[Frame, Tensor]]:
        """Yield each frame in order with its translation, (3, H, W) uint8."""
        numbered = enumerate(self.video.frames(self.problems), start=1)
        while group := list(islice(numbered, self.batch_size)):
            files = {number: self.folder / f"{number:06d}.png" for number, _ in group} if self.folder else {}
            fits = {number: self.fit(frame.image) for number, frame in group}
            kept = ((number, _intact(file, fits[number].window)) for number, file in files.items())
            images = {number: image for number, image in kept if image is not None}
            self.n_kept += len(images)
            if missing := [(number, fit) for number, fit in fits.items() if number not in images]:
                fakes = self.predictor.translate(Batch.of([fit.padded for _, fit in missing]))
                for (number, fit), fake in zip(missing, fakes, strict=True):
                    images[number] = fit.window.cut(fake)
                    if self.folder:
                        with replacing(files[number]) as unfinished:
                            write_png(unfinished, images[number])
            yield from ((frame, images[number]) for number, frame in group)


def _intact(file: Path, window: Window) -> Tensor | None:
    """Return an image, (3, H, W) uint8; None where there is none, an incomplete one, or one of other sides."""
    with suppress(DataError):
        image = read_rgb(file)
        return image if image.shape[1:] == (window.bottom - window.top, window.right - window.left) else None
    return None


def _end(number: int, _: object) -> NoReturn:
    """End the program at a signal, as a handler of it, so that the unfinished file is deleted, as at Ctrl-C."""
    sys.stderr.write(INTERRUPTED)
    sys.exit(128 + number)


def _write(translator: FrameTranslator, output: Path) -> None:
    """Write the translated video, and report it.

    Raises:
        DataError: the source is damaged or cut off; the video of the rest is complete.
        OSError: a file cannot be written.
    """
    video, n_frames = translator.video, 0
    with (
        handling(deferred(_end), available("SIGTERM", "SIGHUP")),
        replacing(output) as unfinished,
        VideoWriter(unfinished, output.suffix, video, translator.problems) as writer,
        # None: hidden where standard error is no terminal
        tqdm(total=video.n_frames, unit="frame", disable=None, dynamic_ncols=True) as progress,
    ):
        for frame, image in translator.frames():
            writer.add(image, frame.time_s, frame.duration_s)
            n_frames += 1
            progress.update()
    if translator.n_kept:
        logger.info("kept         %s", counted(translator.n_kept, "existing frame"))
    logger.info("translated   %s: %s", counted(n_frames - translator.n_kept, "frame"), output)
    logger.info("video        %s, %.6g frames/s, %s", writer.size, video.rate, writer.sound.description)
    if translator.problems:
        raise DataError(*translator.problems)
