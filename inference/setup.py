"""From a request to a predictor: the generator, its precision, feature sampler, compilation and tiles."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from configs import build
from configs.image_sides import image_sides
from configs.stored_images import target_dtype
from data.batch import DataError
from data.layout import Layout
from inference.feature_sampler import FeatureSampler, load_clusters, sample_config
from inference.load import LoadedGenerator, load_from, load_generator
from inference.predictor import Predictor, Tiles
from inference.request import Request
from inference.style_image import StyleImage
from inference.tiling import TiledNetwork
from models.feature_clusters import FILE_NAME
from models.feature_encoder import FeatureConditionedGenerator
from models.latent_inputs import takes_noise, takes_style
from models.style_encoder import predicting_part
from utils.atomic_file import unreplaced
from utils.checkpoint import CheckpointError
from utils.compilation import compiled, what_compiling_lacks
from utils.cpu_memory import give_freed_memory_back, keep_freed_memory
from utils.digest import sha256_of_file
from utils.distributed import World
from utils.errors import ConfigError
from utils.log import logger
from utils.precision import allow_tf32, choose_precision

MIN_PIXELS_TO_COMPILE = 2**25  # of all images; for fewer, compiling takes longer than it saves (bench/inference.py)


def prepare_device(device: torch.device, request: Request) -> None:
    """Set up the memory allocator of a CPU and the choice of algorithms of a GPU."""
    if device.type == "cpu":
        keep_freed_memory()
    torch.backends.cudnn.benchmark = not request.keeps_sizes  # the search is repeated for each size


def load_generator_together(request: Request, world: World) -> LoadedGenerator:
    """Return what `load_requested_generator` of the main process does, on each: a training may save meanwhile."""
    loaded = load_requested_generator(request) if world.is_main else None
    file = world.gather(loaded.file if loaded else None)[0]
    return loaded or load_requested_generator(replace(request, checkpoint=file))


def load_requested_generator(request: Request) -> LoadedGenerator:
    """Read the generator of --checkpoint, with the SHA-256 of its file, and report that.

    Raises:
        CheckpointError, OriginalWeightsError, ConfigError: the file or an override cannot be used.
    """
    load = partial(
        load_generator,
        overrides=request.overrides,
        has_instances=request.instances is not None,
        n_features=_n_features_of_original(request),
        features_are_drawn=request.clusters is not None,
        raw_weights=request.weights == "raw",
    )

    def load_with_digest(file: Path) -> LoadedGenerator:
        return unreplaced(file, lambda: replace(load(file), sha256=sha256_of_file(file)))

    file, loaded = load_from(request.checkpoint, load_with_digest)
    logger.info("checkpoint   %s", file)
    if loaded.step is None:
        _report_original(loaded)
    return loaded


def _n_features_of_original(request: Request) -> int:
    """Return how many input channels of an original are features; its file does not hold it, the given features do."""
    if request.clusters:
        return load_clusters(request.clusters).n_channels
    return 3 if request.feature_maps else 0


def _report_original(loaded: LoadedGenerator) -> None:
    """Report the kind of images that an original's file translates."""
    data = loaded.config.data
    source = f"label maps of {data.n_classes} classes" if data.n_classes else "RGB images"
    logger.info(f"translates   {source}{' and instance edges' if data.instance_edges else ''}")
    if data.n_classes and not data.instance_edges:
        logger.info("             if some channels are edges or features, add --instances DIR or --clusters FILE")


def choose_feature_sampler(loaded: LoadedGenerator, request: Request) -> FeatureSampler | None:
    """Return the sampler of instance features; None without features, or where the samples provide them.

    Raises:
        CheckpointError, ConfigError: the file of clusters cannot be used, or the generator takes no features.
    """
    config = loaded.config
    n_features = config.features.n_channels
    if n_features == 0:
        if request.features or request.clusters:
            raise ConfigError(f"{loaded.file}: takes no instance features. Remove --features and --clusters.")
        return None
    file = request.clusters or loaded.file.parent / FILE_NAME
    if request.features == "given" or not (request.clusters or request.features or file.is_file()):
        return None
    if not file.is_file():
        raise CheckpointError(f"{file}: no such file. Create it with python -m tools.cluster_features.")
    clusters = load_clusters(file)
    if clusters.n_channels != n_features:
        raise CheckpointError(
            f"{file}: has {clusters.n_channels} features, {loaded.file} takes {n_features}. Create clusters for this "
            "generator with python -m tools.cluster_features."
        )
    return FeatureSampler(clusters, request.seed, has_classes=build.number_of_classes(config.data) > 0)


def should_compile(
    loaded: LoadedGenerator, count_pixels: Callable[[], int], device: torch.device, request: Request
) -> bool:
    """Return whether to compile the generator: as --compile says, or where the images are many and of one size.

    count_pixels: returns the number of pixels of all images, 0 if they differ in size; called only where it matters.
    """
    if request.compile != "auto":
        return request.compile == "on"
    encodes = isinstance(loaded.generator, FeatureConditionedGenerator)  # its work depends on the instances
    if device.type != "cpu" or encodes or request.noise or request.tile or what_compiling_lacks(device):
        return False
    return count_pixels() >= MIN_PIXELS_TO_COMPILE


def pixels_of_one_size(layout: Layout, request: Request) -> int:
    """Return the number of pixels of all samples; 0 if they differ in size, or cannot be read."""
    try:
        sizes = {layout.read(index).source.shape[-2:] for index in {0, len(layout) // 2, len(layout) - 1}}
    except DataError:  # reported when the sample's turn comes
        return 0
    if request.keeps_sizes and len(sizes) > 1:  # the generator would be compiled for each size
        return 0
    height, width = sizes.pop()
    return len(layout) * int(height) * int(width)


def build_predictor(
    loaded: LoadedGenerator,
    feature_sampler: FeatureSampler | None,
    device: torch.device,
    request: Request,
    *,
    style: StyleImage | None = None,
    compiles: bool = False,
) -> Predictor:
    """Return a predictor with the generator on `device`; O2 and O3 cast its weights once.

    Raises:
        CompilerError: the generator is to be compiled, and this machine lacks what that needs.
    """
    # the originals compute in float32, and half precision has fewer levels than images of more than 8 bits
    is_8_bit = build.build_conditioning(loaded.config).target_is_rgb
    level = request.opt_level or ("O2" if loaded.step is not None and is_8_bit else "O0")
    precision = choose_precision(level, request.dtype, device)
    allow_tf32(level != "O0")
    if precision.is_slow:
        logger.warning("float16 is slow on a CPU. Use --dtype auto.")
    if compiles:
        logger.info("compiling    the generator with the first images; --compile off disables it")
    config = sample_config(loaded.config, feature_sampler)
    generator = predicting_part(loaded.generator)
    if feature_sampler is not None and isinstance(generator, FeatureConditionedGenerator):
        generator = generator.generator
    generator = precision.cast(generator.to(device)).to(memory_format=build.memory_format(config, device))
    give_freed_memory_back()  # the weights in float32
    # noise and styles change from image to image, and with them a tensor of the generator
    is_drawn = takes_noise(generator) or takes_style(generator)
    return Predictor(
        generator=compiled(generator.eval(), device, is_final=not is_drawn) if compiles else generator,
        conditioning=build.build_conditioning(config),
        precision=precision,
        device=device,
        colors=build.class_colors(config.data),
        feature_sampler=feature_sampler,
        seed=request.seed,
        style=style,
        noise_seed=request.seed if request.noise else None,
        flips=request.tta == "flip",
        target_dtype=target_dtype(config.data),
        show_channels=config.log.show_channels,
    )


def report_sizes(loaded: LoadedGenerator, request: Request) -> None:
    """Report that images keep their sizes, where the training had others."""
    data = loaded.config.data
    if request.keeps_sizes and data.preprocess != "none":
        logger.info(f"sizes        each image's own; --size trained applies data.preprocess={data.preprocess}")


def report_features(loaded: LoadedGenerator, predictor: Predictor, request: Request) -> None:
    """Report the source of instance features, noise and style, and the options without effect."""
    features, feature_sampler = loaded.config.features, predictor.feature_sampler
    if feature_sampler is not None:
        step = feature_sampler.step
        outdated = f", made at step {step}" if step is not None and step != loaded.step else ""
        logger.info(f"features     drawn from clusters by seed {feature_sampler.seed}{outdated}")
    elif features.n_channels:
        logger.info("features     %s", "of the targets" if features.origin == "encoded" else "precomputed")
    conditioning = predictor.conditioning
    if predictor.has_noise_channels:
        logger.info(f"noise        drawn by seed {predictor.seed}")
    if predictor.style:
        logger.info(f"style        of {predictor.style.file}")
    elif predictor.draws_style:
        logger.info(f"style        drawn by seed {predictor.seed}; --style IMAGE takes that of an image")
    has_noise = any(isinstance(part, nn.Dropout | nn.BatchNorm2d) for part in loaded.generator.modules())
    unused = {
        "--instances": request.instances and not conditioning.needs_instances,
        "--feature-maps": request.feature_maps and conditioning.features != "precomputed",
        "--clusters": request.clusters and feature_sampler is None,
        "--noise": request.noise and not has_noise,
    }
    if any(unused.values()):
        logger.info("without effect  %s", ", ".join(option for option, is_unused in unused.items() if is_unused))


def with_tiles(predictor: Predictor, loaded: LoadedGenerator, request: Request, folder: Path) -> Predictor:
    """Return the predictor with the tiles of --tile, whose temporary files are in `folder`; unchanged without it."""
    if request.tile is None:
        return predictor
    tile = request.tile
    sides = image_sides(sample_config(loaded.config, predictor.feature_sampler))

    def tiled(network: nn.Module) -> TiledNetwork:
        return TiledNetwork(
            network,
            tile=tile,
            size_multiple=sides.multiple,
            min_size=sides.minimum,
            overlap=request.overlap,
            folder=folder,
            scale=loaded.config.generator.scale,
        )

    generator = predictor.generator
    if isinstance(generator, FeatureConditionedGenerator):
        encoder = generator.encoder
        tiles = Tiles(tiled(generator.generator), tiled(encoder.network))
    else:
        tiles = Tiles(tiled(generator), encoder=None)
    _report_tiles(tiles.generator, request)
    return replace(predictor, tiles=tiles)


def _report_tiles(network: TiledNetwork, request: Request) -> None:
    """Report how many sweeps the tiles take, or how far they overlap."""
    if network.n_stages > 1:
        unused = "; --overlap has no effect" if request.overlap is not None else ""
        logger.info(f"tiles        {request.tile} pixels, in {network.n_stages} sweeps, cut at the norms{unused}")
    else:
        logger.info(f"tiles        {request.tile} pixels, overlapping by {request.overlap} of {network.reach} in reach")
