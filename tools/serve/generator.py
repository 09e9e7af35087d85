"""The generator of a server, which is loaded by its options as test.py loads it."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from inference.load import LoadedGenerator
from inference.predictor import Predictor
from inference.request import Request
from inference.requested_predictor import load_requested_generator, requested_predictor
from inference.sampling import encode_style
from utils.device import choose_device
from utils.errors import ConfigError
from utils.signatures import accepted


@dataclass(frozen=True)
class OpenedGenerator:
    """A generator that is ready to translate.

    loaded: The generator, with the settings for reading samples.
    styles: Styles of the images of --style, (1, style_channels) each. `predictor` has the first one.
    """

    loaded: LoadedGenerator
    predictor: Predictor
    styles: Sequence[Tensor]


def open_generator(
    arguments: argparse.Namespace, direction: str | None, folder: Path, *, gets_feature_maps: bool = False
) -> OpenedGenerator:
    """Load the generator of a direction.

    folder: Folder of temporary files.
    gets_feature_maps: Whether precomputed features may come with a source.

    Raises:
        UserError: The checkpoint cannot be used, or the generator takes instance features and has no clusters.
    """
    options = vars(arguments) | {"direction": direction, "style": next(iter(arguments.styles), None), "size": "own"}
    request = Request(**accepted(Request, options))
    device = choose_device(request.device, option="--device ")
    loaded = load_requested_generator(request, has_instances=arguments.instance_edges)
    can_get = ("none", "precomputed") if gets_feature_maps else ("none",)
    if loaded.clusters is None and loaded.conditioning.features not in can_get:
        raise ConfigError(
            f"{loaded.file}: takes instance features, which a source does not have. Create clusters to draw them from "
            f"with python -m tools.cluster_features --checkpoint {loaded.file}."
        )
    styles = [encode_style(loaded, file) for file in arguments.styles]
    predictor = requested_predictor(loaded, request, device, folder, next(iter(styles), None))
    return OpenedGenerator(replace(loaded, config=loaded.reading_config), predictor, styles)
