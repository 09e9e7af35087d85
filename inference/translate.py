"""The work of test.py: from a request to images, a contact sheet, a gallery and metrics, or to a video."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from configs import build
from configs.data_facts import DataFacts
from data.batch import DataError
from data.files.size_guard import pixels_allowed
from data.folder import VIDEO_SUFFIXES
from inference.image_store import image_store
from inference.inputs import build_input, has_targets, with_listed_inputs
from inference.load import LoadedGenerator
from inference.no_data import NoDataRule
from inference.origin import origin
from inference.output_folder import OutputFolder, default_output
from inference.outputs import Results
from inference.predictor import Predictor
from inference.request import Request
from inference.requested_predictor import (
    describe_sizes,
    load_generator_together,
    original_inputs,
    pixels_of_one_size,
    prepare_device,
    requested_predictor,
    with_clusters,
)
from inference.sample_translator import SampleTranslator
from inference.sampling import encode_style
from inference.set_measures import SetMeasures, open_reals
from inference.source_values import SourceValues, report_parts
from metrics.evaluator import Evaluator
from utils.distributed import LONGEST_WAIT_S, World, joined_world
from utils.log import log_to_console, logger


def translate(request: Request) -> None:
    """Translate the images, or the video, of a request and write the results.

    Raises:
        UserError, OSError: A file, a folder or a setting cannot be used.
    """
    world_of_device = joined_world(request.compute.device, timeout_s=LONGEST_WAIT_S, option="--device ")
    with world_of_device as world, pixels_allowed(request.compute.max_pixels):
        log_to_console(is_main=world.is_main)
        request = replace(request, input=with_listed_inputs(request.input, world))
        given, drawing, video = request.input, request.drawing, video_of(request.input.paths)
        prepare_device(world.device, is_of_one_size=not request.keeps_sizes)
        original = original_inputs(
            drawing.clusters, has_instances=given.instances is not None, has_feature_maps=given.feature_maps is not None
        )
        loaded = with_clusters(load_generator_together(request.generator, original, world), drawing)
        request = request.of_training(loaded.config.data.preprocess)
        if video:
            from inference.video import translate_video  # PyAV takes a tenth of a second

            translate_video(video, loaded, request, world)
            return
        style = encode_style(loaded, drawing.style)
        layout = build_input(loaded, given)
        folder = OutputFolder(
            request.output.path or default_output(loaded, given), layout, image_store(loaded.data_facts)
        )
        folder.prepare(request.output.existing)
        count_pixels = partial(pixels_of_one_size, layout, keeps_sizes=request.keeps_sizes)
        with folder.locked() if world.is_main else nullcontext():
            logger.info(f"sizes        {describe_sizes(loaded.config, keeps_sizes=request.keeps_sizes)}")
            predictor = requested_predictor(loaded, request, world.device, folder.path, count_pixels, style)
            with pixels_allowed(request.compute.max_pixels, mapped_in=folder.path if predictor.tiles else None):
                translate_all(loaded, predictor, folder, request, world)


def translate_all(
    loaded: LoadedGenerator, predictor: Predictor, folder: OutputFolder, request: Request, world: World
) -> None:
    """Write an image for each sample into a folder, with a contact sheet, a gallery and, for targets, metrics.json.

    Without pairs, all translations of a split together are measured against the images of its target domain.

    request: Without paths, the layout is a split of the data set.
    world: Processes that share the samples; each takes every n-th.

    Raises:
        DataError: Some samples cannot be read; all others are translated before. Or the existing images are to be kept
            and have another origin.
    """
    given, existing, keeps_sizes = request.input, request.output.existing, request.keeps_sizes
    split = None if given.paths else given.split or loaded.config.data.test_split
    config, facts, layout = loaded.reading_config, loaded.data_facts, folder.layout
    made_by: dict[str, Any] = {}
    with world.main_first():
        if world.is_main:
            made_by = origin(loaded, predictor, request, split, [str(each) for each in layout.folders])
            folder.record(made_by, existing)
    preprocessing, are_pairs = build.build_preprocessing(config), has_targets(layout)
    reals = open_reals(loaded, split) if split and not are_pairs else None
    n_images = max(len(layout), len(reals or ()))
    evaluator = build.build_evaluator(config, predictor.device, n_images) if are_pairs or reals else Evaluator()
    sets = SetMeasures(evaluator, build.source_evaluator(config, evaluator), reals) if reals else None
    results = Results(folder, evaluator, predictor, facts.legend(evaluator.label_colors), sets)
    if world.is_main and not layout.n_classes and "source" not in facts.storage:
        report_parts(layout)
    values = SourceValues(facts.ranges.get(facts.source_images), facts.source_images)
    no_data = no_data_rule(facts, given.nodata)
    translator = SampleTranslator(layout, predictor, preprocessing, results, values, keeps_sizes, no_data)
    indices: Sequence[int] = range(world.rank, len(layout), world.size)
    if existing == "keep":
        indices = [i for i in indices if not (folder.image(layout.names[i]).exists() and translator.keep(i))]
    hidden = None if world.is_main else True  # None: hidden if standard error is no terminal
    with tqdm(total=len(indices), unit="image", disable=hidden, dynamic_ncols=True) as progress:
        for n_done in translator.translate(indices, request.compute.batch_size):
            progress.update(n_done)
    if sets:
        sets.add_reals(preprocessing, world, translator.problems, keeps_sizes=keeps_sizes)
    values.warn(world)
    run = " ".join(filter(None, [loaded.name, loaded.named_direction]))
    results.finish(world, f"{run}: {folder.path.name}", made_by)
    problems = [problem for of_process in world.gather(translator.problems) for problem in of_process]
    if problems and world.is_main:
        raise DataError(*problems)


def no_data_rule(facts: DataFacts, value: float | None) -> NoDataRule:
    """Return how pixels without data are found in sources; value: the option --nodata, or None."""
    dtype = torch.uint8 if facts.conditioning.target_is_rgb else facts.target_dtype
    images = facts.source_images if facts.has_source_images else None
    return NoDataRule(value, images, facts.ranges.get(facts.source_images), dtype)


def video_of(paths: Sequence[Path]) -> Path | None:
    """Return the video among the paths of --input, or None.

    Raises:
        DataError: It is one of several paths, or PyAV is not installed.
    """
    video = next((path for path in paths if path.suffix.lower() in VIDEO_SUFFIXES and not path.is_dir()), None)
    if video and len(paths) > 1:
        raise DataError(f"--input: {video} is one of {len(paths)} inputs. Translate each video by itself.")
    if video and find_spec("av") is None:
        install = 'python -m pip install --editable ".[video]"'
        raise DataError(f"--input {video}: reading video needs av, which is not installed. Install it with {install}.")
    return video
