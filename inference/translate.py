"""The work of test.py: from a request to images, a contact sheet, a gallery and metrics, or to a video."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from configs import build
from configs.label_maps import legend
from configs.stored_images import stored_forms, trained_forms, value_ranges
from data.batch import Batch, DataError
from data.files.size_guard import pixels_allowed
from data.layout import Layout
from inference.image_store import image_store
from inference.inputs import build_input, with_listed_inputs
from inference.large_images import LargeImages
from inference.load import LoadedGenerator
from inference.output_folder import default_output, origin_of, prepare_output, record_origin
from inference.outputs import Results
from inference.padding import read_batches, read_padded
from inference.predictor import Predictor
from inference.request import Existing, Request
from inference.requested_predictor import (
    choose_feature_sampler,
    load_generator_together,
    original_inputs,
    pixels_of_one_size,
    prepare_device,
    requested_predictor,
)
from inference.sampling import encode_style, sampled
from inference.source_values import SourceValues, warn_of_frames
from inference.video import translate_video, video_of
from metrics.evaluator import Evaluator
from utils.distributed import LONGEST_WAIT_S, World, joined_world
from utils.log import log_to_console


def translate(request: Request) -> None:
    """Translate the images, or the video, of a request and write the results.

    Raises:
        UserError, OSError: a file, a folder or a setting cannot be used.
    """
    world_of_device = joined_world(request.compute.device, timeout_s=LONGEST_WAIT_S, option="--device ")
    with world_of_device as world, pixels_allowed(request.compute.max_pixels):
        log_to_console(is_main=world.is_main)
        request = replace(request, input=with_listed_inputs(request.input, world))
        if video := video_of(request):
            translate_video(video, request, world)
            return
        given, drawing = request.input, request.drawing
        prepare_device(world.device, is_of_one_size=not request.keeps_sizes)
        has_feature_maps = given.feature_maps is not None
        original = original_inputs(
            drawing.clusters, has_instances=given.instances is not None, has_feature_maps=has_feature_maps
        )
        loaded = load_generator_together(request.generator, original, world)
        feature_sampler = choose_feature_sampler(loaded, drawing)
        style = encode_style(loaded, drawing.style)
        layout = build_input(loaded, feature_sampler, given)
        output = request.output.path or default_output(loaded, given)
        prepare_output(output, layout, request.output.existing, image_store(loaded.config).suffix)
        predictor = requested_predictor(
            loaded,
            request,
            world.device,
            output,
            lambda: pixels_of_one_size(layout, keeps_sizes=request.keeps_sizes),
            feature_sampler=feature_sampler,
            style=style,
        )
        translate_all(
            loaded,
            predictor,
            layout,
            output,
            request.compute.batch_size,
            split=None if given.paths else given.split or loaded.config.data.test_split,
            keeps_sizes=request.keeps_sizes,
            existing=request.output.existing,
            world=world,
        )


def translate_all(
    loaded: LoadedGenerator,
    predictor: Predictor,
    layout: Layout,
    output: Path,
    batch_size: int,
    *,
    split: str | None = None,
    keeps_sizes: bool = False,
    existing: Existing = "refuse",
    world: World | None = None,
) -> None:
    """Write OUTPUT/NAME.png for every sample, a contact sheet, a gallery and, where targets exist, metrics.json.

    Images that are not 8-bit RGB are in the format of the targets.

    split: of the data set, which `layout` is; None where that is another input.
    existing: "keep" translates only samples without an image.
    world: the processes that share the samples; each takes every n-th.

    Raises:
        DataError: some samples cannot be read; it is raised after all others have been translated. Or the images to
            keep are of another origin.
    """
    world = world or World(0, 1, predictor.device)
    config = sampled(loaded, predictor.feature_sampler).config
    has_targets = _has_targets(layout)
    store = image_store(config)
    origin = origin_of(loaded, predictor, layout, split=split, keeps_sizes=keeps_sizes) if world.is_main else {}
    with world.main_first():
        if world.is_main:
            record_origin(origin, output, layout, existing, store.suffix)
        evaluator = build.build_evaluator(config, predictor.device) if has_targets else Evaluator()
    swatches = legend(config.data, evaluator.label_colors)
    results = Results(output, layout, evaluator, store, predictor.show_target, predictor.weights, swatches)
    preprocessing, values = (
        build.build_preprocessing(config),
        SourceValues(value_ranges(config.data).get(config.data.source_images), config.data.source_images),
    )
    if world.is_main and not layout.n_classes and "source" not in stored_forms(config.data):
        warn_of_frames(layout)
    indices: Sequence[int] = range(world.rank, len(layout), world.size)
    problems: list[str] = []
    source_form = trained_forms(config.data).get("source")
    large = LargeImages(layout, predictor, preprocessing, results, values, source_form, keeps_sizes)
    in_parts = {index for index in indices if large.are_read_in_parts(index)}
    if existing == "keep":
        there = [index for index in indices if (output / f"{layout.names[index]}{store.suffix}").exists()]
        done = keep_all(large, there, in_parts, problems)
        indices = [index for index in indices if index not in done]
    hidden = None if world.is_main else True  # None: hidden where standard error is no terminal
    with tqdm(total=len(indices), unit="image", disable=hidden, dynamic_ncols=True) as progress:
        _translate_samples(large, indices, in_parts, batch_size, problems, progress.update)
    values.warn(world)
    results.finish(world, f"{loaded.name}: {output.name}", origin)
    all_problems = [problem for of_process in world.gather(problems) for problem in of_process]
    if all_problems and world.is_main:
        raise DataError(*all_problems)


def _translate_samples(
    large: LargeImages,
    indices: Sequence[int],
    in_parts: Collection[int],
    batch_size: int,
    problems: list[str],
    count: Callable[[int], object],
) -> None:
    """Translate samples; those that are read in parts come last.

    problems: collects the problems of samples that cannot be used. count: gets the numbers of those that are done.
    """
    layout, rule, predictor = large.layout, large.preprocessing, large.predictor
    at_once = [index for index in indices if index not in in_parts]
    for batch in read_batches(layout, rule, at_once, batch_size, problems, keeps_sizes=large.keeps_sizes):
        if large.takes(batch[0]):
            large.add_loaded(*batch)
        else:
            fakes = predictor.translate(Batch.of([read.padded for read in batch]))
            for read, fake in zip(batch, fakes, strict=True):
                large.values.add(read.sample)
                large.results.add(read.sample, predictor.show_source(read.sample), read.window.cut(fake))
        count(len(batch))
    for index in (index for index in indices if index in in_parts):
        try:
            large.add(index)
        except DataError as error:
            problems += error.problems
        count(1)


def keep_all(large: LargeImages, indices: Sequence[int], in_parts: Collection[int], problems: list[str]) -> set[int]:
    """Record samples whose images exist; return all but those with an incomplete image.

    in_parts: the samples that are read in parts.
    problems: collects the problems of samples and images that cannot be used.
    """
    done = set(indices)
    for index in indices:
        try:
            if index in in_parts:
                is_done = large.keep(index)
            else:
                read = read_padded(large.layout, large.preprocessing, index, keeps_size=large.keeps_sizes)
                is_done = large.results.keep(read.sample, large.predictor.show_source(read.sample))
            if not is_done:
                done.remove(index)
        except DataError as error:
            problems += error.problems
    return done


def _has_targets(layout: Layout) -> bool:
    if kinds := layout.origin(0).kinds:  # its file may be too large to be read
        return "target" in kinds
    try:
        return layout.read(0).target is not None
    except DataError:  # reported when the sample's turn comes
        return True
