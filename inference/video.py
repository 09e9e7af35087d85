"""Translate a video frame by frame. Keep the sound, and the time of each frame."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from torch import Tensor
from tqdm import tqdm

from configs import build
from data.batch import Batch, DataError, Sample
from data.files.video_file import FORMATS, Frame, VideoFile, write_video
from inference.load import LoadedGenerator
from inference.output_folder import create_writable, default_output, output_lock
from inference.reading import fitted
from inference.request import Request
from inference.requested_predictor import report_sizes, requested_predictor
from utils.distributed import World
from utils.files import replacing
from utils.log import logger
from utils.signals import GracefulStop
from utils.text import counted


def translate_video(path: Path, loaded: LoadedGenerator, request: Request, world: World, style: Tensor | None) -> None:
    """Translate a video and write the result, with its sound.

    Raises:
        UserError, OSError: An option, a file or the video cannot be used. Frames that can be decoded are written first.
    """
    output, video = _prepared_output(path, loaded, request, world), VideoFile(path)
    rule = build.build_preprocessing(loaded.config)
    fit = partial(fitted, preprocessing=rule, keeps_size=request.keeps_sizes, source_is_ids=False)
    with output_lock(output.with_name(f".{output.name}.lock"), output), GracefulStop():  # clean up after SIGTERM too
        report_sizes(loaded, request)
        predictor = requested_predictor(loaded, request, world.device, output.parent, style)

        def translated() -> Iterator[Frame]:
            frames = video.frames()
            while group := list(islice(frames, request.batch_size or 1)):
                fits = [fit(Sample(path.stem, source=image)) for _, image in group]  # same name: same noise and style
                fakes = predictor.translate(Batch.of([fit.padded for fit in fits]))
                images = [fit.window.cut(fake) for fit, fake in zip(fits, fakes, strict=True)]
                yield from zip([frame for frame, _ in group], images, strict=True)

        frames = tqdm(translated(), total=video.n_frames or None, unit="frame", disable=None, dynamic_ncols=True)
        with replacing(output) as unfinished:
            write_video(unfinished, output.suffix, video, iter(frames))
    logger.info("translated   %s: %s", counted(video.n_read, "frame"), output)
    if video.problems:
        raise DataError(*video.problems)


def _prepared_output(path: Path, loaded: LoadedGenerator, request: Request, world: World) -> Path:
    """Return the output file. Raise DataError if the file, an option or the generator does not support video."""
    options = ("split", "instances", "targets", "feature_maps", "nodata")
    refused = [f"--{name.replace('_', '-')}" for name in options if getattr(request, name) is not None]
    refused += ["--existing keep"] * (request.existing == "keep") + ["torchrun"] * (world.size > 1)
    refused += ["--spread"] * request.spread
    if refused:
        raise DataError(f"--input {path}: {', '.join(refused)} cannot be used with a video. Remove it.")
    needed = loaded.conditioning
    takes_more = needed.n_classes or needed.needs_instances or needed.features != "none"
    if takes_more or loaded.data_facts.page_obstacle:
        raise DataError(f"--input {path}: {loaded.file} does not translate RGB to RGB images. Name a folder of images.")
    default = default_output(loaded, request)
    suffix = path.suffix if path.suffix.lower() in FORMATS else ".mp4"
    output = request.output or default.with_name(default.name + suffix)
    if output.suffix.lower() not in FORMATS or output.is_dir():
        raise DataError(f"--output: {output} is not a video file name. Choose one that ends in {', '.join(FORMATS)}.")
    if output.exists() and (request.existing != "replace" or output.samefile(path)):
        raise DataError(f"--output: {output} already exists. Choose another --output, or --existing replace.")
    create_writable(output.parent)
    return output
