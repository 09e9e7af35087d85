"""Translate the images or the video of a request, and write all results of test.py."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from configs import build
from configs.splits import translated_split
from data.batch import Batch, DataError, Sample
from data.files.stored_image import pixels_allowed
from data.files.volume_header import volume_suffix
from data.folder import VIDEO_SUFFIXES
from data.preprocessing import Preprocessing
from inference.inputs import build_input, has_targets
from inference.load import LoadedGenerator
from inference.output_folder import OutputFolder, default_output, image_store, origin
from inference.outputs import Results, SetMeasures, open_reals
from inference.predictor import Predictor
from inference.reading import NoData, NoDataRule, PaddedSample, SourceValues, collected, read_padded, report_parts
from inference.request import Request
from inference.requested_predictor import encode_style, load_generator_together, report_sizes, requested_predictor
from inference.tiling import Window
from metrics.evaluator import Evaluator
from utils.distributed import LONGEST_WAIT_S, World, joined_world
from utils.log import log_to_console, logger
from utils.machine import memory_bytes
from utils.worker_threads import MOST_THREADS, in_order, worker_threads

_SMALL = 2**22  # pixels; smaller batches are translated without a memory estimate
_PROBE = 256  # side of the image part for the memory estimate, in pixels


def translate(request: Request) -> None:
    """Translate the images, or the video, of a request and write the results.

    Raises:
        UserError, OSError: A file, a folder or a setting cannot be used.
    """
    world_of_device = joined_world(request.device, timeout_s=LONGEST_WAIT_S, option="--device ")
    with world_of_device as world, pixels_allowed(request.max_pixels):
        log_to_console(is_main=world.is_main)
        video = video_of(request.input)
        loaded = load_generator_together(request, world)
        if loaded.config.data.has_volumes:
            from inference.volumes import translate_volumes

            translate_volumes(loaded, request, world)
            return
        _check_no_volumes(request)
        request = request.with_size(loaded.config.data.preprocess)
        style = encode_style(loaded, request.style) if request.style else None
        if video:
            from inference.video import translate_video  # importing PyAV takes a tenth of a second

            translate_video(video, loaded, request, world, style)
            return
        layout = build_input(loaded, request)
        output, store = request.output or default_output(loaded, request), image_store(loaded.data_facts)
        folder = OutputFolder(output, layout, store, has_spread=request.spread)
        folder.prepare(request.existing)
        with folder.locked() if world.is_main else nullcontext():
            report_sizes(loaded, request)
            predictor = requested_predictor(loaded, request, world.device, folder.path, style)
            with pixels_allowed(request.max_pixels, mapped_in=folder.path if predictor.tiles else None):
                translate_all(loaded, predictor, folder, request, world)


def _check_no_volumes(request: Request) -> None:
    """Raise DataError if a generator of images gets a volume, or an option that only volumes have."""
    options = {"--mask": request.mask, "--average-axes": request.average_axes, "--window": request.window}
    if given := ", ".join(option for option, value in options.items() if value):
        raise DataError(f"{given}: only generators of volumes have this option. Remove it.")
    if volume := next((path for path in request.input if volume_suffix(path.name)), None):
        raise DataError(f"--input: {volume} is a volume. Choose a generator of data.layout=paired_volumes.")


def translate_all(
    loaded: LoadedGenerator, predictor: Predictor, folder: OutputFolder, request: Request, world: World
) -> None:
    """Translate all samples of `folder`. Write images, a contact sheet, a gallery and, with targets, metrics.json.

    For a split without pairs, compare the set of translations with the images of the target domain.

    request: Options of test.py. Without --input, the samples are a split of the data set.
    world: Processes that share the samples. Each of n processes translates every n-th sample.

    Raises:
        DataError: --existing keep is refused, or some samples cannot be read. All other samples are translated first.
    """
    split = None if request.input else request.split or translated_split(loaded.config)
    config, facts, layout = loaded.reading_config, loaded.data_facts, folder.layout
    made_by: dict[str, Any] = {}
    with world.main_first():
        if world.is_main:
            made_by = origin(loaded, predictor, request, split, [str(each) for each in layout.folders])
            folder.record(made_by, request.existing)
    preprocessing, are_pairs = build.build_preprocessing(config), has_targets(layout)
    reals = open_reals(loaded, split) if split and not are_pairs else None
    n_images = max(len(layout), len(reals or ()))
    evaluator = build.build_evaluator(config, predictor.device, n_images) if are_pairs or reals else Evaluator()
    sets = SetMeasures(evaluator, build.source_evaluator(config, evaluator), reals) if reals else None
    results = Results(folder, evaluator, predictor, facts.legend(evaluator.label_colors), sets)
    if world.is_main and not layout.n_classes and "source" not in facts.storage:
        report_parts(layout)
    values = SourceValues(facts.ranges.get(facts.source_images), facts.source_images)
    no_data = NoDataRule.of(facts, request.nodata)
    translator = SampleTranslator(results, preprocessing, values, request.keeps_sizes, no_data)
    indices: Sequence[int] = range(world.rank, len(layout), world.size)
    if request.existing == "keep":
        indices = [i for i in indices if not (folder.is_written(layout.names[i]) and translator.keep(i))]
    hidden = None if world.is_main else True  # None: show progress only in a terminal
    with tqdm(total=len(indices), unit="image", disable=hidden, dynamic_ncols=True) as progress:
        for _ in translator.translate(indices, request.batch_size or 1):
            progress.update()
    if sets:
        sets.add_reals(preprocessing, world, translator.problems, keeps_sizes=request.keeps_sizes)
    values.warn(world)
    run = " ".join(filter(None, [loaded.name, loaded.named_direction]))
    results.finish(world, f"{run}: {folder.path.name}", made_by)
    problems = [problem for of_process in world.gather(translator.problems) for problem in of_process]
    if problems and world.is_main:
        raise DataError(*problems)


@dataclass(frozen=True)
class SampleTranslator:
    """Translates samples and writes the translations to `results`.

    values: Check of the sources' values.
    keeps_sizes: Whether images are translated at their own size.
    problems: Error messages about skipped samples.
    warned: Name of the image in the warning about large images. Empty before this warning.
    """

    results: Results
    preprocessing: Preprocessing
    values: SourceValues
    keeps_sizes: bool
    no_data: NoDataRule
    problems: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)

    def translate(self, indices: Sequence[int], batch_size: int) -> Iterator[None]:
        """Translate samples in batches of up to `batch_size`. Yield after each sample.

        While the generator computes, other threads read the next samples and write the last translations.
        """
        with worker_threads() as pool:
            most = 1 if self.results.predictor.tiles else MOST_THREADS + 1  # large images fill the memory
            reads = self._usable(in_order(pool, self._read, indices, most))
            translated = chain.from_iterable(map(self._translated, _batches(reads, batch_size)))
            for written in in_order(pool, lambda parts: self.results.add(*parts), translated, most):
                yield written.result()

    def keep(self, index: int) -> bool:
        """Keep the existing image of sample `index`. Return False if this image is incomplete."""
        with collected(self.problems):
            return self.results.keep(self._read(index).sample)
        return True

    def _read(self, index: int) -> PaddedSample:
        layout = self.results.folder.layout
        return read_padded(layout, self.preprocessing, index, keeps_size=self.keeps_sizes, no_data=self.no_data)

    def _usable(self, reads: Iterable[Future[PaddedSample]]) -> Iterator[PaddedSample]:
        """Yield the samples that can be read."""
        for read in reads:
            with collected(self.problems):
                yield read.result()

    def _translated(self, batch: Sequence[PaddedSample]) -> Iterator[tuple[Sample, Tensor, NoData | None]]:
        """Yield the samples of a batch with their translations. Skip a sample that needs too much memory."""
        tiles = self.results.predictor.tiles_for(*batch[0].padded.source.shape[-2:])
        if not tiles and (problem := self._lack_of_memory(batch)):
            if len(batch) > 1:
                yield from chain.from_iterable(self._translated([read]) for read in batch)
            else:
                self.problems.append(problem)
            return
        self._warn_of_statistics(batch[0].sample.name, *batch[0].sample.source.shape[-2:])
        fakes = self.results.predictor.translate(Batch.of([read.padded for read in batch]))
        for read, fake in zip(batch, fakes, strict=True):
            self.values.add(read.sample)
            self.results.add_to_baseline(read.sample)
            yield read.sample, read.window.cut(fake), read.no_data

    def _lack_of_memory(self, batch: Sequence[PaddedSample]) -> str | None:
        """Return an error message if a batch does not fit into memory, otherwise None."""
        height, width = batch[0].padded.source.shape[-2:]
        n_pixels = len(batch) * height * width
        if n_pixels <= _SMALL:
            return None
        side = max(_PROBE // (m := self.preprocessing.size_multiple) * m, m, self.preprocessing.min_size)
        window = Window(0, min(side, height), 0, min(side, width))
        part = Batch.of([batch[0].padded]).mapped(lambda image: window.cut(image).clone())  # copy only the part
        needed = n_pixels * self.results.predictor.bytes_per_pixel(part)
        there_is = bytes_of_device(self.results.predictor.device)
        if needed <= there_is:
            return None
        return (
            f"{batch[0].sample.name}: a translation of {width}x{height} pixels in one piece needs about "
            f"{needed / 1e9:.3g} GB, and {there_is / 1e9:.3g} GB are available. Add --tile 1024."
        )

    def _warn_of_statistics(self, name: str, height: int, width: int) -> None:
        """Warn once if a generator with instance norm gets an image that is much larger than the training crops."""
        rule = self.preprocessing
        is_large = rule.mode.endswith("crop") and height * width > 4 * rule.crop_height * rule.crop_width
        if self.warned or not is_large or not self.results.predictor.uses_statistics_of_images:
            return
        self.warned.append(name)
        logger.warning(
            f"{name}: {width}x{height} pixels are more than four times the training crop. Values can be wrong, "
            f"because instance norm uses statistics of the whole image. Compare with --norm-window "
            f"{2 * max(rule.crop_width, rule.crop_height)}, or train with generator.norm=batch."
        )


def bytes_of_device(device: torch.device) -> int:
    """Return the total memory of the GPU in bytes. For the CPU, return the memory of the machine or container."""
    return torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else memory_bytes()


def _batches(reads: Iterator[PaddedSample], batch_size: int) -> Iterator[list[PaddedSample]]:
    """Yield batches of up to `batch_size` consecutive samples of equal padded size."""
    for _, alike in groupby(reads, key=lambda read: read.padded.source.shape):
        while batch := list(islice(alike, batch_size)):
            yield batch


def video_of(paths: Sequence[Path]) -> Path | None:
    """Return the video among the paths of --input, or None. Raise DataError if the video cannot be translated."""
    video = next((path for path in paths if path.suffix.lower() in VIDEO_SUFFIXES and not path.is_dir()), None)
    if video and len(paths) > 1:
        raise DataError(f"--input: {video} is one of {len(paths)} inputs. Translate each video by itself.")
    if video and find_spec("av") is None:
        install = 'python -m pip install --editable ".[video]"'
        raise DataError(f"--input {video}: reading video needs av, which is not installed. Install it with {install}.")
    return video
