"""The generator of a server, which is loaded by its options as test.py loads it."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inference.load import LoadedGenerator
from inference.predictor import Predictor
from inference.request import ComputeOptions, DrawingOptions, GeneratorOptions, Request
from inference.requested_predictor import (
    load_requested_generator,
    original_inputs,
    prepare_device,
    requested_predictor,
    with_clusters,
)
from inference.sampling import StyleImage, encode_style
from utils.device import choose_device
from utils.errors import ConfigError
from utils.signatures import accepted


@dataclass(frozen=True)
class OpenedGenerator:
    """A generator that is ready to translate.

    loaded: The generator, with the settings for reading samples.
    takes_seed: Whether a translation depends on a seed.
    styles: Styles of the images of --style. `predictor` has the first one.
    """

    loaded: LoadedGenerator
    predictor: Predictor
    takes_seed: bool
    styles: Sequence[StyleImage]


def open_generator(
    arguments: argparse.Namespace, direction: str | None, folder: Path, *, gets_feature_maps: bool = False
) -> OpenedGenerator:
    """Load the generator of a direction.

    folder: Folder of temporary files.
    gets_feature_maps: Whether precomputed features may come with a source.

    Raises:
        UserError: The checkpoint cannot be used, or the generator takes instance features and has no clusters.
    """
    options = vars(arguments) | {"direction": direction}
    request = Request(
        generator=GeneratorOptions(**accepted(GeneratorOptions, options)),
        drawing=DrawingOptions(**accepted(DrawingOptions, options)),
        compute=ComputeOptions(**accepted(ComputeOptions, options)),
    )
    drawing, device = request.drawing, choose_device(request.compute.device, option="--device ")
    prepare_device(device, is_of_one_size=False)
    original = original_inputs(drawing.clusters, has_instances=arguments.instance_edges)
    loaded = load_requested_generator(request.generator, original)
    loaded = with_clusters(loaded, drawing)
    can_get = ("none", "precomputed") if gets_feature_maps else ("none",)
    if loaded.clusters is None and loaded.conditioning.features not in can_get:
        raise ConfigError(
            f"{loaded.file}: takes instance features, which a source does not have. Create clusters to draw them from "
            f"with python -m tools.cluster_features --checkpoint {loaded.file}."
        )
    styles = [style for file in arguments.styles if (style := encode_style(loaded, file))]
    first = styles[0] if styles else None
    predictor = requested_predictor(loaded, request, device, folder, lambda: 0, first)
    takes_seed = loaded.clusters is not None or drawing.noise or predictor.takes_seed
    return OpenedGenerator(replace(loaded, config=loaded.reading_config), predictor, takes_seed, styles)
