"""Build a predictor from options: the generator, its clusters and style, its precision, compilation and tiles."""

from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from configs import build
from configs.build import image_sides
from data.batch import Batch, DataError
from data.files.image_files import read_rgb
from inference.load import LoadedGenerator, load_from, load_generator
from inference.original_weights import OriginalInputs, encoder_file
from inference.predictor import Predictor
from inference.request import Request
from inference.tiling import TiledNetwork, has_instance_norm
from models.ensemble import Ensemble
from models.instance_features import FILE_NAME, FeatureClusters, FeatureConditionedGenerator
from models.latent_inputs import takes_noise, takes_style
from models.style_encoder import SIDE, StyleConditionedGenerator, inference_network
from utils.checkpoint import CheckpointError, read_weights_file
from utils.device import allow_tf32, choose_precision, compiled
from utils.distributed import World
from utils.errors import ConfigError
from utils.files import sha256_of_file, unreplaced
from utils.log import logger
from utils.machine import give_freed_memory_back, keep_freed_memory
from utils.text import counted


def load_clusters(file: Path) -> FeatureClusters:
    """Load feature clusters. Raise CheckpointError if the file cannot be read or holds no clusters."""
    if file.suffix == ".npy":
        raise CheckpointError(
            f"{file}: pix2pixHD's clusters are a pickle, which is not safe to read. Create clusters with python -m "
            "tools.cluster_features --checkpoint latest_net_E.pth --config FILE."
        )
    state = read_weights_file(file)
    try:
        return FeatureClusters.from_state(state)
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from error


def with_clusters(loaded: LoadedGenerator, request: Request) -> LoadedGenerator:
    """Return `loaded` with clusters to sample instance features from, unless samples provide the features."""
    n_features = loaded.config.features.n_channels
    if n_features == 0:
        if request.features or request.clusters:
            raise ConfigError(f"{loaded.file}: takes no instance features. Remove --features and --clusters.")
        return loaded
    file = request.clusters or loaded.file.with_name(FILE_NAME)
    if request.features == "given" or not (request.clusters or request.features or file.is_file()):
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


def load_requested_generator(request: Request, *, has_instances: bool | None = None) -> LoadedGenerator:
    """Load the generator of a request with its clusters and the SHA-256 of its file. Log the choices.

    has_instances: Whether weights of an original program take instance edges. None: only if --instances is set.

    Raises:
        CheckpointError, OriginalWeightsError, ConfigError: A file or an override cannot be used.
    """
    n_features = load_clusters(request.clusters).n_channels if request.clusters else 3 * bool(request.feature_maps)
    has_instances = request.instances is not None if has_instances is None else has_instances
    original = OriginalInputs(has_instances, n_features, features_are_drawn=request.clusters is not None)
    raw, direction = request.weights == "raw", request.direction

    def load(file: Path) -> LoadedGenerator:
        loaded = load_generator(file, request.overrides, direction=direction, original=original, raw_weights=raw)
        return replace(loaded, sha256=loaded.sha256 or sha256_of_file(file))

    file, loaded = load_from(request.checkpoint, lambda file: unreplaced(file, lambda: load(file)), direction=direction)
    logger.info("checkpoint   %s", file)
    if loaded.named_direction:
        logger.info("direction    %s", loaded.named_direction)
    data = loaded.config.data
    if loaded.step is None:
        source = f"label maps of {data.n_classes} classes" if data.n_classes else "RGB images"
        logger.info(f"translates   {source}{' and instance edges' if data.instance_edges else ''}")
    return with_clusters(loaded, request)


def load_ensemble(request: Request) -> LoadedGenerator:
    """Load all checkpoints of a request. Return the first, with a generator that averages the outputs of all.

    Raise UserError if a file cannot be used, or if the checkpoints cannot be averaged.
    """
    files = (request.checkpoint, *request.more_checkpoints)
    first, *others = members = [load_requested_generator(replace(request, checkpoint=file)) for file in files]
    if not others:
        return first
    for member in members:
        _check_averaged(first, member)
    return replace(first, generator=Ensemble([x.generator for x in members], has_spread=request.spread), others=others)


def _check_averaged(first: LoadedGenerator, member: LoadedGenerator) -> None:
    """Raise ConfigError if the outputs of a checkpoint cannot be averaged with the outputs of the first."""
    sides, own = image_sides(first.config), image_sides(member.config)
    facts, other = ({**vars(each.data_facts), "direction": each.direction} for each in (first, member))
    differing = [name for name, fact in facts.items() if fact != other[name]]
    if member.config.features.n_channels or takes_noise(member.generator) or takes_style(member.generator):
        problem = "takes features, noise or styles, which are not averaged. Name only one checkpoint."
    elif differing:
        problem = f"differs from {first.file} in {', '.join(differing)}. "
        problem += "Name checkpoints with the same data settings and direction."
    elif sides.multiple % own.multiple or sides.minimum < own.minimum:
        problem = f"needs multiples of {own.multiple} pixels, at least {own.minimum}. Name this checkpoint first."
    else:
        return
    raise ConfigError(f"--checkpoint {member.file}: {problem}")


def load_generator_together(request: Request, world: World) -> LoadedGenerator:
    """Load the same generator in all processes. The main process chooses the files."""
    loaded = load_ensemble(request) if world.is_main else None
    file, *others = world.gather([each.file for each in (loaded, *loaded.others)] if loaded else None)[0]
    return loaded or load_ensemble(replace(request, checkpoint=file, more_checkpoints=others))


@torch.inference_mode()
def encode_style(loaded: LoadedGenerator, file: Path) -> Tensor:
    """Return the mean style of an image, (1, style_channels) float32 on the CPU.

    The image is resized with antialiasing to the encoder's input, 256x256 pixels.

    Raises:
        ConfigError, DataError: The generator has no style or no encoder, or the image cannot be read.
    """
    network = loaded.generator
    if not takes_style(network):
        raise ConfigError(f"--style: {loaded.file} was trained without a style (style.channels=0). Remove the option.")
    if not isinstance(network, StyleConditionedGenerator):
        name = encoder_file(loaded.file).name
        raise ConfigError(f"--style: {loaded.file} holds no encoder. Put {name} next to it, or use --seed.")
    try:
        image = read_rgb(file)[None]
    except DataError as error:
        raise DataError(f"--style: {error}") from error
    target = loaded.conditioning.target(Batch((file.stem,), source=image, target=image))
    reduced = F.interpolate(target, size=(SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
    return network.encoder.eval()(reduced).mean


def build_predictor(
    loaded: LoadedGenerator, device: torch.device, request: Request, style: Tensor | None = None
) -> Predictor:
    """Return a predictor without tiles. Move the generator to `device`, and cast its weights for O2 and O3."""
    # The original programs compute in float32. 16-bit floats have too few levels for images of more than 8 bits.
    is_8_bit = loaded.conditioning.target_is_rgb
    level = request.opt_level or ("O2" if loaded.step is not None and is_8_bit else "O0")
    precision = choose_precision(level, request.dtype, device)
    allow_tf32(level != "O0")
    if precision.is_slow:
        logger.warning("float16 is slow on a CPU. Use --dtype auto.")
    generator = inference_network(loaded.generator)
    if loaded.clusters is not None and isinstance(generator, FeatureConditionedGenerator):
        generator = generator.generator
    generator = precision.cast(generator.to(device)).to(memory_format=build.memory_format(device))
    give_freed_memory_back()  # the float32 weights are no longer in use
    if request.compile == "on":
        # is_final lets torch treat the generator's tensors as constants, but noise and style change with each image
        is_drawn = takes_noise(generator) or takes_style(generator)
        generator = compiled(generator.eval(), device, is_final=not is_drawn)
    return Predictor(
        generator=generator,
        conditioning=loaded.conditioning,
        precision=precision,
        device=device,
        colors=loaded.data_facts.class_colors,
        clusters=loaded.clusters,
        seed=request.seed,
        style=style,
        noise=request.noise,
        target_dtype=loaded.data_facts.target_dtype,
        has_spread=request.spread,
    )


def requested_predictor(
    loaded: LoadedGenerator, request: Request, device: torch.device, folder: Path, style: Tensor | None
) -> Predictor:
    """Return the predictor of a request with its tiles, set up the device, and log the choices.

    folder: Folder of temporary files. style: Result of `encode_style`, or None.
    """
    if device.type == "cpu":
        keep_freed_memory()
    torch.backends.cudnn.benchmark = not request.keeps_sizes  # benchmarks are repeated for each image size
    predictor = build_predictor(loaded, device, request, style)
    _report_choices(loaded, predictor, request)
    generator = predictor.generator
    window = request.norm_window if has_instance_norm(generator) else None
    tile = window // 2 if window else request.tile  # the overlap adds a quarter of the window on each side
    if tile is None:
        return predictor
    if isinstance(generator, FeatureConditionedGenerator):
        raise ConfigError("--tile: features cannot be encoded in tiles. Use --features sampled, or omit --tile.")
    sides = image_sides(loaded.reading_config)
    tiles = TiledNetwork(
        generator,
        tile=tile,
        size_multiple=sides.multiple,
        min_size=sides.minimum,
        overlap=window // 4 if window else None,
        scale=loaded.config.generator.scale,
        folder=folder,
    )
    if window:
        logger.info(f"windows      {tiles.at_once} pixels, each with its own statistics, blended")
    else:
        logger.info(f"tiles        {tile} pixels, in {counted(tiles.n_segments, 'pass', 'passes')}")
    return replace(predictor, tiles=tiles)


def report_sizes(loaded: LoadedGenerator, request: Request) -> None:
    """Log the size of the translations and the option for other sizes."""
    data, size = loaded.config.data, f"the nearest multiples of {image_sides(loaded.config).multiple} pixels"
    if data.preprocess.startswith("scale_width"):
        size = f"a width of {data.load_width}"
    elif data.preprocess == "resize_and_crop":
        size = f"{data.crop_width}x{data.crop_height}"
    size += f", by data.preprocess={data.preprocess}"
    own = f"each image's own; --size trained resizes to {size}"
    resized = f"resized to {size}; --size own keeps the size of each image"
    logger.info("sizes        %s", own if request.keeps_sizes else resized)


def _report_choices(loaded: LoadedGenerator, predictor: Predictor, request: Request) -> None:
    """Log where instance features, noise and style come from. Log also the options that have no effect."""
    features, clusters, conditioning = loaded.config.features, predictor.clusters, predictor.conditioning
    if clusters is not None:
        made = "" if clusters.step in (None, loaded.step) else f" that were made at step {clusters.step}"
        logger.info(f"features     sampled with seed {predictor.seed} from clusters{made}")
    elif features.n_channels:
        logger.info("features     %s", "of the targets" if features.origin == "encoded" else "precomputed")
    if predictor.draws_latents:
        latents = "style" if takes_style(predictor.generator) else "noise"
        logger.info(f"{latents:12} sampled with seed {predictor.seed}")
    has_noise = any(isinstance(part, nn.Dropout | nn.BatchNorm2d) for part in loaded.generator.modules())
    unused = {
        "--instances": request.instances and not conditioning.needs_instances,
        "--feature-maps": request.feature_maps and conditioning.features != "precomputed",
        "--clusters": request.clusters and clusters is None,
        "--noise": request.noise and not has_noise,
        "--nodata": request.nodata is not None and not loaded.data_facts.has_source_images,
        "--norm-window": request.norm_window and not has_instance_norm(predictor.generator),
    }
    if found := [option for option, is_unused in unused.items() if is_unused]:
        logger.info("without effect  %s", ", ".join(found))
