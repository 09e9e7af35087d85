"""From options to a predictor: the generator, its precision, feature sampler, compilation and tiles."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from configs import build
from configs.build import image_sides
from configs.schema import Config
from data.batch import DataError
from data.layout import Layout
from inference.load import LoadedGenerator, load_from, load_generator
from inference.original_weights import OriginalInputs
from inference.predictor import Predictor, Tiles
from inference.request import ComputeOptions, DrawingOptions, GeneratorOptions, Request
from inference.sampling import StyleImage, load_clusters
from inference.tiling import TiledNetwork, has_instance_norm
from models.instance_features import FILE_NAME, FeatureConditionedGenerator
from models.latent_inputs import takes_noise, takes_style
from models.style_encoder import inference_network
from utils.checkpoint import CheckpointError
from utils.device import compiled, what_compiling_lacks
from utils.distributed import World
from utils.errors import ConfigError
from utils.files import sha256_of_file, unreplaced
from utils.log import logger
from utils.machine import give_freed_memory_back, keep_freed_memory
from utils.precision import allow_tf32, choose_precision
from utils.text import counted

_APPLIED = (  # overrides that test.py applies
    *("data.", "generator.", "features.", "style.", "metrics.", "method.", "run."),
    *("loss.class_weights=", "loss.outside_mask=", "train.validation_"),
)
_OF_TRAINING = (  # except these
    *("data.flip=", "data.augment.", "data.on_bad_sample=", "metrics.n_samples="),
    *("data.workers=", "data.timeout_s=", "data.cache="),
)
_SIZING = ("data.preprocess=", "data.load_", "data.crop_")
MIN_PIXELS_TO_COMPILE = 2**25  # all images; for fewer, compiling takes longer than it saves (bench/inference.py)


def prepare_device(device: torch.device, *, is_of_one_size: bool) -> None:
    """Set up the memory allocator of a CPU, and let a GPU search its algorithms once if images have one size."""
    if device.type == "cpu":
        keep_freed_memory()
    torch.backends.cudnn.benchmark = is_of_one_size


def load_generator_together(options: GeneratorOptions, original: OriginalInputs, world: World) -> LoadedGenerator:
    """Return the generator that `load_requested_generator` of the main process finds, on each process."""
    loaded = load_requested_generator(options, original) if world.is_main else None
    file = world.gather(loaded.file if loaded else None)[0]
    return loaded or load_requested_generator(replace(options, checkpoint=file), original)


def load_requested_generator(options: GeneratorOptions, original: OriginalInputs) -> LoadedGenerator:
    """Read the generator of --checkpoint, with the SHA-256 of its file, and log its file and what it translates.

    Raises:
        CheckpointError, OriginalWeightsError, ConfigError: The file or an override cannot be used.
    """
    raw, way = options.weights == "raw", options.direction

    def load(file: Path) -> LoadedGenerator:
        loaded = load_generator(file, options.overrides, direction=way, original=original, raw_weights=raw)
        return replace(loaded, sha256=loaded.sha256 or sha256_of_file(file))

    file, loaded = load_from(options.checkpoint, lambda file: unreplaced(file, lambda: load(file)), direction=way)
    logger.info("checkpoint   %s", file)
    if loaded.named_direction:
        logger.info("direction    %s", loaded.named_direction)
    data = loaded.config.data
    if loaded.step is None:
        source = f"label maps of {data.n_classes} classes" if data.n_classes else "RGB images"
        logger.info(f"translates   {source}{' and instance edges' if data.instance_edges else ''}")
    return loaded


def original_inputs(
    clusters: Path | None, *, has_instances: bool = False, has_feature_maps: bool = False
) -> OriginalInputs:
    """Return the inputs of an original's generator, which its file does not hold, from the options."""
    if clusters:
        return OriginalInputs(has_instances, load_clusters(clusters).n_channels, features_are_drawn=True)
    return OriginalInputs(has_instances, n_features=3 if has_feature_maps else 0)


def with_clusters(loaded: LoadedGenerator, drawing: DrawingOptions) -> LoadedGenerator:
    """Return the generator with the clusters to draw its instance features from, unless samples provide features.

    Raises:
        CheckpointError, ConfigError: The file of clusters cannot be used, or the generator takes no features.
    """
    n_features = loaded.config.features.n_channels
    if n_features == 0:
        if drawing.features or drawing.clusters:
            raise ConfigError(f"{loaded.file}: takes no instance features. Remove --features and --clusters.")
        return loaded
    file = drawing.clusters or loaded.file.parent / FILE_NAME
    if drawing.features == "given" or not (drawing.clusters or drawing.features or file.is_file()):
        return loaded
    if not file.is_file():
        raise CheckpointError(f"{file}: no such file. Create it with python -m tools.cluster_features.")
    clusters = load_clusters(file)
    if clusters.n_channels != n_features:
        raise CheckpointError(
            f"{file}: has {clusters.n_channels} features, {loaded.file} takes {n_features}. Create clusters for this "
            "generator with python -m tools.cluster_features."
        )
    return replace(loaded, clusters=clusters)


def should_compile(
    loaded: LoadedGenerator, count_pixels: Callable[[], int], device: torch.device, request: Request
) -> bool:
    """Return whether to compile the generator: as --compile says, or for many images of one size on a CPU.

    count_pixels: Returns the number of pixels of all images, or 0 if they differ in size. It reads images.
    """
    if (chosen := request.compute.compile) != "auto":
        return chosen == "on"
    encodes = isinstance(loaded.generator, FeatureConditionedGenerator)  # shapes depend on the instances
    varies = encodes or request.drawing.noise or request.compute.tile or request.compute.norm_window
    if device.type != "cpu" or varies or what_compiling_lacks(device):
        return False
    return count_pixels() >= MIN_PIXELS_TO_COMPILE


def pixels_of_one_size(layout: Layout, *, keeps_sizes: bool) -> int:
    """Return the number of pixels of all samples; 0 if they differ in size, or cannot be read."""
    try:
        sizes = {layout.read(index).source.shape[-2:] for index in {0, len(layout) // 2, len(layout) - 1}}
    except DataError:  # reported when the sample's turn comes
        return 0
    if keeps_sizes and len(sizes) > 1:  # the generator would be compiled for each size
        return 0
    height, width = sizes.pop()
    return len(layout) * int(height) * int(width)


def build_predictor(
    loaded: LoadedGenerator,
    device: torch.device,
    compute: ComputeOptions,
    drawing: DrawingOptions,
    *,
    style: StyleImage | None = None,
    compiles: bool = False,
) -> Predictor:
    """Return a predictor with the generator on `device`; O2 and O3 cast its weights once.

    Raises:
        CompilerError: The generator is to be compiled, and this machine lacks a compiler.
    """
    # The originals compute in float32, and half precision has fewer levels than images of more than 8 bits.
    is_8_bit = loaded.conditioning.target_is_rgb
    level = compute.opt_level or ("O2" if loaded.step is not None and is_8_bit else "O0")
    precision = choose_precision(level, compute.dtype, device)
    allow_tf32(level != "O0")
    if precision.is_slow:
        logger.warning("float16 is slow on a CPU. Use --dtype auto.")
    if compiles:
        logger.info("compiling    the generator with the first images; --compile off disables it")
    generator = inference_network(loaded.generator)
    if loaded.clusters is not None and isinstance(generator, FeatureConditionedGenerator):
        generator = generator.generator
    generator = precision.cast(generator.to(device)).to(memory_format=build.memory_format(device))
    give_freed_memory_back()  # the weights in float32
    # noise and styles are tensors of the generator, which change from image to image
    is_drawn = takes_noise(generator) or takes_style(generator)
    return Predictor(
        generator=compiled(generator.eval(), device, is_final=not is_drawn) if compiles else generator,
        conditioning=loaded.conditioning,
        precision=precision,
        device=device,
        colors=loaded.data_facts.class_colors,
        clusters=loaded.clusters,
        seed=drawing.seed,
        style=style,
        noise=drawing.noise,
        flips=compute.tta == "flip",
        target_dtype=loaded.data_facts.target_dtype,
    )


def requested_predictor(
    loaded: LoadedGenerator,
    request: Request,
    device: torch.device,
    folder: Path,
    count_pixels: Callable[[], int],
    style: StyleImage | None,
) -> Predictor:
    """Return the predictor of a request, and log its choices; raise as `build_predictor`.

    folder: Folder of temporary files. count_pixels: See `should_compile`.
    """
    drawing, compute = request.drawing, request.compute
    compiles = should_compile(loaded, count_pixels, device, request)
    predictor = build_predictor(loaded, device, compute, drawing, style=style, compiles=compiles)
    _report_features(loaded, predictor)
    _report_unused_options(loaded, predictor, request)
    return with_tiles(predictor, loaded, compute, folder)


def describe_sizes(config: Config, *, keeps_sizes: bool) -> str:
    """Return which sizes images are translated at, and the option for other sizes."""
    data, rule = config.data, f"data.preprocess={config.data.preprocess}"
    resized = {
        "resize_and_crop": f"{data.crop_width}x{data.crop_height}",
        "scale_width": f"a width of {data.load_width}",
        "scale_width_and_crop": f"a width of {data.load_width}",
    }
    multiple = image_sides(config).multiple
    size = resized.get(data.preprocess, f"the nearest multiples of {multiple} pixels")
    if keeps_sizes:
        return f"each image's own; --size trained resizes to {size}, by {rule}"
    return f"resized to {size}, by {rule}; --size own keeps each image's"


def _report_features(loaded: LoadedGenerator, predictor: Predictor) -> None:
    """Log the source of instance features, noise and style."""
    features, clusters = loaded.config.features, predictor.clusters
    if clusters is not None:
        is_outdated = clusters.step not in (None, loaded.step)
        made = f", made at step {clusters.step}" if is_outdated else ""
        logger.info(f"features     drawn from clusters by seed {predictor.seed}{made}")
    elif features.n_channels:
        logger.info("features     %s", "of the targets" if features.origin == "encoded" else "precomputed")
    if predictor.has_noise_channels:
        logger.info(f"noise        drawn by seed {predictor.seed}")
    if predictor.style:
        logger.info(f"style        of {predictor.style.file}")
    elif predictor.draws_style:
        logger.info(f"style        drawn by seed {predictor.seed}; --style IMAGE takes the style of an image")


def unapplied_overrides(loaded: LoadedGenerator, request: Request) -> list[str]:
    """Return the overrides of --checkpoint's settings that change neither translations nor figures."""
    unused = _OF_TRAINING + (_SIZING if request.keeps_sizes else ())
    unused += ("data.weight_folder=",) if request.input.paths else ()
    unused += ("data.target_files=",) if loaded.data_facts.target_files is None else ()
    return [word for word in request.generator.overrides if not word.startswith(_APPLIED) or word.startswith(unused)]


def _report_unused_options(loaded: LoadedGenerator, predictor: Predictor, request: Request) -> None:
    """Log the options and overrides without effect."""
    drawing, given, data, conditioning = request.drawing, request.input, loaded.config.data, predictor.conditioning
    has_noise = any(isinstance(part, nn.Dropout | nn.BatchNorm2d) for part in loaded.generator.modules())
    unused = {
        "--instances": given.instances and not conditioning.needs_instances,
        "--feature-maps": given.feature_maps and conditioning.features != "precomputed",
        "--clusters": drawing.clusters and predictor.clusters is None,
        "--noise": drawing.noise and not has_noise,
        "--nodata": given.nodata is not None and data.has_labels and not data.is_stacked,
    }
    found = [option for option, is_unused in unused.items() if is_unused] + unapplied_overrides(loaded, request)
    if found:
        logger.info("without effect  %s", ", ".join(found))


def with_tiles(predictor: Predictor, loaded: LoadedGenerator, compute: ComputeOptions, folder: Path) -> Predictor:
    """Return the predictor with the tiles of --tile or --norm-window, or unchanged without these options.

    A window is a tile of half its side, with an overlap of a quarter on each side.

    folder: Folder of temporary files.
    """
    generator, window = predictor.generator, compute.norm_window
    if window and not has_instance_norm(generator):
        logger.info("without effect  --norm-window: the generator has no instance norm")
        window = None
    tile = window // 2 if window else compute.tile
    if tile is None:
        return predictor
    sides, scale = image_sides(loaded.reading_config), loaded.config.generator.scale
    tiled = partial(
        TiledNetwork,
        tile=tile,
        size_multiple=sides.multiple,
        min_size=sides.minimum,
        overlap=window // 4 if window else None,
        scale=scale,
        folder=folder,
    )
    if isinstance(generator, FeatureConditionedGenerator):
        tiles = Tiles(tiled(generator.generator), tiled(generator.encoder.network))
    else:
        tiles = Tiles(tiled(generator), encoder=None)
    if window:
        logger.info(f"windows      {tiles.generator.at_once} pixels, each with statistics of its own, blended")
    else:
        logger.info(f"tiles        {tile} pixels, in {counted(tiles.generator.n_segments, 'pass', 'passes')}")
    return replace(predictor, tiles=tiles)
