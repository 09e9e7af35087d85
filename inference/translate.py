"""From a trained generator and a folder or a split to translated images, a contact sheet and metrics."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from tqdm import tqdm

from configs import build
from configs.schema import Config
from data.batch import Batch, DataError, Sample
from data.conditioning import Conditioning
from data.layout import Layout
from data.paired_folders import PairedFolders
from data.preprocessing import Preprocessing, place
from inference.inputs import STANDARD_INPUT, ListedImages, common_folder, read_list
from inference.load import LoadedGenerator, find_checkpoint_file, load_generator
from inference.outputs import Results, prepare_output
from inference.padding import padded
from inference.predictor import FeatureSampler, Predictor, Tiles
from inference.tiling import TiledNetwork
from inference.window import Window
from metrics.evaluator import Evaluator
from models.feature_clusters import FILE_NAME, FeatureClusters
from models.feature_encoder import FeatureConditionedGenerator
from utils.checkpoint import CheckpointError, read_weights_file
from utils.compilation import compiled, what_compiling_lacks
from utils.cpu_memory import give_freed_memory_back, keep_freed_memory
from utils.distributed import World, joined_world
from utils.errors import ConfigError
from utils.log import log_to_console, logger
from utils.precision import OptLevel, choose_precision

LONGEST_WAIT_S = 24 * 3600.0  # of a process for the others, whose images may be larger
COMPILING_PAYS = 2**25  # pixels in all: on 2 cores it takes 16 s, and saves 0.06 s of each 256x256 image (bench/)


@dataclass(frozen=True)
class Request:
    """What is to be translated, and how; None and empty mean the default of test.py's option of that name."""

    checkpoint: Path | None
    input: Sequence[Path]
    instances: Path | None
    targets: Path | None
    features: Literal["sampled", "given"] | None
    clusters: Path | None
    feature_maps: Path | None
    noise: bool
    seed: int
    split: str | None
    output: Path | None
    weights: Literal["ema", "raw"]
    opt_level: OptLevel | None
    dtype: Literal["auto", "float16", "bfloat16"]
    compile: Literal["auto", "on", "off"]
    batch_size: int
    device: Literal["auto", "cpu", "cuda"]
    overrides: Sequence[str]
    size: Literal["own", "trained"] | None = None
    tile: int | None = None
    overlap: int | None = None
    tta: Literal["flip"] | None = None

    @property
    def keeps_sizes(self) -> bool:
        """Whether images are translated at their own size; by default where no size was chosen for a free input."""
        if self.size is not None:
            return self.size == "own"
        sizing = ("data.preprocess=", "data.load_", "data.crop_")
        return bool(self.input) and not any(override.startswith(sizing) for override in self.overrides)


def choose_feature_sampler(trained: LoadedGenerator, request: Request) -> FeatureSampler | None:
    """The clusters to draw instance features from; None where there are no features, or the samples give them.

    Raises:
        CheckpointError, ConfigError: the clusters' file cannot be used, or the generator takes no features.
    """
    n_features = trained.config.features.n_channels
    if n_features == 0:
        if request.features or request.clusters:
            raise ConfigError(f"{trained.file}: takes no instance features; leave --features and --clusters out")
        return None
    file = request.clusters or trained.file.parent / FILE_NAME
    if request.features == "given" or not (request.clusters or request.features or file.is_file()):
        return None
    if not file.is_file():
        raise CheckpointError(f"{file}: no such file; python -m tools.cluster_features writes it")
    clusters = load_clusters(file)
    if clusters.n_channels != n_features:
        raise CheckpointError(f"{file}: has {clusters.n_channels} features, {trained.file} takes {n_features}")
    return FeatureSampler(clusters, request.seed, has_classes=build.number_of_classes(trained.config.data) > 0)


def load_clusters(file: Path) -> FeatureClusters:
    """Read feature clusters; CheckpointError where the file holds none."""
    if file.suffix == ".npy":
        raise CheckpointError(
            f"{file}: pix2pixHD's clusters cannot be read safely; make them anew with python -m tools.cluster_features "
            "--checkpoint latest_net_E.pth --config FILE"
        )
    state = read_weights_file(file)
    try:
        return FeatureClusters.from_state(state)
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from error


def report_features(trained: LoadedGenerator, look: FeatureSampler | None, request: Request) -> None:
    """Say where instance features come from, and which options have no effect."""
    features = trained.config.features
    if look is not None:
        made = look.clusters.step
        outdated = f", made at step {made}" if made is not None and made != trained.step else ""
        logger.info(f"features     drawn from clusters by seed {look.seed}{outdated}")
    elif features.n_channels:
        logger.info("features     %s", "of the targets" if features.origin == "encoded" else "precomputed")
    conditioning = build.build_conditioning(settings_for(trained, look))
    has_noise = any(isinstance(part, nn.Dropout | nn.BatchNorm2d) for part in trained.generator.modules())
    unused = {
        "--instances": request.instances and not conditioning.needs_instances,
        "--feature-maps": request.feature_maps and conditioning.features != "precomputed",
        "--clusters": request.clusters and look is None,
        "--noise": request.noise and not has_noise,
    }
    if any(unused.values()):
        logger.info("without effect  %s", ", ".join(option for option, is_unused in unused.items() if is_unused))


def settings_for(trained: LoadedGenerator, look: FeatureSampler | None) -> Config:
    """The settings of the samples to translate; to draw a look, they need instances and no maps of features."""
    if look is None:
        return trained.config
    features = replace(trained.config.features, origin="encoded", n_downsamplings=1)
    return replace(trained.config, features=features)


def is_compiled(trained: LoadedGenerator, layout: Layout, device: torch.device, request: Request) -> bool:
    """Whether to compile the generator: as the request says, or where that was measured to pay."""
    if request.compile != "auto":
        return request.compile == "on"
    encodes = isinstance(trained.generator, FeatureConditionedGenerator)  # its work depends on the instances
    if device.type != "cpu" or encodes or request.noise or request.tile or what_compiling_lacks(device):
        return False
    try:
        sizes = {layout.read(index).source.shape[-2:] for index in {0, len(layout) // 2, len(layout) - 1}}
    except DataError:  # told when its turn comes
        return False
    if request.keeps_sizes and len(sizes) > 1:  # it would be compiled for each
        return False
    height, width = sizes.pop()
    return len(layout) * height * width >= COMPILING_PAYS


def build_predictor(
    trained: LoadedGenerator,
    look: FeatureSampler | None,
    device: torch.device,
    request: Request,
    *,
    compiles: bool = False,
) -> Predictor:
    """The generator on `device` in the precision of an opt level; O2 and O3 cast the weights once.

    Raises:
        CompilerError: it is to be compiled, and something is missing for that.
    """
    # what the original gives is in float32
    level = request.opt_level or ("O2" if trained.step is not None else "O0")
    precision = choose_precision(level, request.dtype, device)
    if precision.is_slow:
        logger.warning("float16 is slow on a CPU: --dtype auto")
    generator = trained.generator
    if look is not None and isinstance(generator, FeatureConditionedGenerator):
        generator = generator.generator
    computing = precision.cast(generator.to(device)).to(memory_format=build.memory_format(trained.config, device))
    give_freed_memory_back()  # the weights in float32
    return Predictor(
        generator=compiled(computing.eval(), device, is_final=True) if compiles else computing,
        conditioning=build.build_conditioning(settings_for(trained, look)),
        precision=precision,
        device=device,
        colors=build.class_colors(trained.config.data),
        look=look,
        noise_seed=request.seed if request.noise else None,
        flips=request.tta == "flip",
    )


def with_tiles(predictor: Predictor, config: Config, request: Request, folder: Path) -> Predictor:
    """The predictor, computing in tiles where they are asked for; what lies between goes to `folder`."""
    if request.tile is None:
        return predictor
    tile = request.tile

    def tiled(network: nn.Module) -> TiledNetwork:
        return TiledNetwork(
            network,
            tile=tile,
            size_multiple=config.size_multiple,
            min_size=config.min_size,
            overlap=request.overlap,
            folder=folder,
        )

    generator = predictor.generator
    if isinstance(generator, FeatureConditionedGenerator):
        tiles = Tiles(tiled(generator.generator), tiled(generator.encoder.network))
    else:
        tiles = Tiles(tiled(generator), encoder=None)
    report_tiles(tiles.generator, request)
    return replace(predictor, tiles=tiles)


def report_tiles(network: TiledNetwork, request: Request) -> None:
    """Say what the tiles cost."""
    if network.n_stages > 1:
        unused = "; --overlap is without effect" if request.overlap is not None else ""
        logger.info(f"tiles        {request.tile} pixels, in {network.n_stages} sweeps, from norm to norm{unused}")
    else:
        logger.info(
            f"tiles        {request.tile} pixels, and {request.overlap} around of the {network.reach} that matter"
        )


def build_input(trained: LoadedGenerator, look: FeatureSampler | None, request: Request) -> Layout:
    """What is to be translated: the folder of --input, or a split of the data set that the generator learned from.

    Raises:
        DataError: a folder is missing or empty, or lacks partners.
    """
    config = settings_for(trained, look)
    conditioning = build.build_conditioning(config)
    if not request.input and trained.step is None:
        raise DataError(f"{trained.file} tells no data set: name a folder of sources with --input DIR")
    if not request.input:
        layout = build.build_layout(config, request.split or config.data.test_split, needs_targets=False)
    else:
        if conditioning.needs_instances and request.instances is None:
            other = ", or set features.regions=labels" if look and not config.data.instance_edges else ""
            raise DataError(f"--input: this generator needs instance maps too: --instances DIR{other}")
        if conditioning.features == "precomputed" and request.feature_maps is None:
            raise DataError("--input: this generator needs features too: --clusters FILE, or maps: --feature-maps DIR")
        layout = _build_free_input(request, conditioning, config.data.ignore_id)
    has_encoder = isinstance(trained.generator, FeatureConditionedGenerator)
    if look is None and conditioning.features == "encoded" and not has_encoder:
        raise DataError("--features given: this file has no encoder; leave it out, or give maps: --feature-maps DIR")
    if look is None and conditioning.features == "encoded" and layout.read(0).target is None:
        raise DataError(
            "this generator encodes its instance features from targets, and there are none: write clusters to draw "
            f"from with python -m tools.cluster_features --checkpoint {trained.file}"
        )
    return layout


def _build_free_input(request: Request, conditioning: Conditioning, ignore_id: int | None) -> Layout:
    """A folder, or what else is listed; partners are found more easily in a folder."""
    instances = request.instances if conditioning.needs_instances else None
    features = request.feature_maps if conditioning.features == "precomputed" else None
    first, *others = request.input
    if not others and (first.is_dir() or not first.suffix):
        return PairedFolders(
            source_folder=first,
            target_folder=request.targets,
            instance_folder=instances,
            feature_folder=features,
            n_classes=conditioning.n_classes,
            ignore_id=ignore_id,
        )
    return ListedImages(
        request.input,
        target_folder=request.targets,
        instance_folder=instances,
        feature_folder=features,
        n_classes=conditioning.n_classes,
        ignore_id=ignore_id,
    )


@dataclass(frozen=True)
class Padded:
    """A sample, the same at a size that the generator takes, and where in it it lies."""

    sample: Sample
    fitting: Sample
    window: Window


def read_padded(layout: Layout, preprocessing: Preprocessing, index: int, *, keeps_size: bool) -> Padded:
    """Sample `index`, at its own size or as the preprocessing places it for testing; padded where that does not fit."""
    sample = layout.read(index)
    own_size = replace(preprocessing, mode="crop").whole
    placement = own_size(sample) if keeps_size else preprocessing.fixed(sample)
    sample = place(sample, placement, source_is_ids=layout.n_classes > 0)
    return Padded(sample, *padded(sample, preprocessing.size_multiple, preprocessing.min_size))


def read_batches(
    layout: Layout, config: Config, indices: Sequence[int], batch_size: int, problems: list[str], *, keeps_sizes: bool
) -> Iterator[list[Padded]]:
    """Samples in order; up to `batch_size` of one size together. What is wrong with the others goes to `problems`."""
    preprocessing = build.build_preprocessing(config)
    batch: list[Padded] = []
    for index in indices:
        try:
            read = read_padded(layout, preprocessing, index, keeps_size=keeps_sizes)
        except DataError as error:
            problems += error.problems
            continue
        if batch and (len(batch) == batch_size or read.fitting.source.shape != batch[0].fitting.source.shape):
            yield batch
            batch = []
        batch.append(read)
    if batch:
        yield batch


def translate_all(
    trained: LoadedGenerator,
    predictor: Predictor,
    layout: Layout,
    output: Path,
    batch_size: int,
    *,
    keeps_sizes: bool = False,
    world: World | None = None,
) -> None:
    """Write OUTPUT/NAME.png for every sample, a contact sheet, a gallery and, where targets exist, metrics.json.

    world: the processes that share the samples; each takes every n-th.

    Raises:
        DataError: some samples cannot be read; all others are translated by then.
    """
    world = world or World(0, 1, predictor.device)
    config = settings_for(trained, predictor.look)
    has_targets = _has_targets(layout)
    with world.main_first():
        evaluator = build.build_evaluator(config, predictor.device) if has_targets else Evaluator()
    results = Results(output, layout, evaluator)
    origin = origin_of(trained, predictor, layout, keeps_sizes=keeps_sizes) if has_targets and world.is_main else {}
    indices = range(world.rank, len(layout), world.size)
    problems: list[str] = []
    hidden = None if world.is_main else True  # None: where standard error is no terminal
    with tqdm(total=len(indices), unit="image", disable=hidden, dynamic_ncols=True) as progress:
        for batch in read_batches(layout, config, indices, batch_size, problems, keeps_sizes=keeps_sizes):
            fakes = predictor.translate(Batch.of([read.fitting for read in batch]))
            for read, fake in zip(batch, fakes, strict=True):
                results.add(read.sample, predictor.show_source(read.sample), read.window.cut(fake))
            progress.update(len(batch))
    results.finish(world, f"{trained.name}: {output.name}", origin)
    told = [problem for of_process in world.gather(problems) for problem in of_process]
    if told and world.is_main:
        raise DataError(*told)


def _has_targets(layout: Layout) -> bool:
    try:
        return layout.read(0).target is not None
    except DataError:  # told when its turn comes
        return True


def origin_of(trained: LoadedGenerator, predictor: Predictor, layout: Layout, *, keeps_sizes: bool) -> dict[str, Any]:
    """What metrics.json tells of a generator, of what it was given, and how it was asked."""
    data = trained.config.data
    sizes = f"load {data.load_width}x{data.load_height}, crop {data.crop_width}x{data.crop_height}"
    resizing = (
        f"data.preprocess={data.preprocess} ({sizes}), bicubic with antialiasing, label maps by nearest neighbour"
    )
    with trained.file.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "step": trained.step,
        "checkpoint": str(trained.file),
        "checkpoint_sha256": digest,
        "weights": trained.weights,
        "precision": f"{predictor.precision.opt_level} {predictor.precision.compute_dtype}".replace("torch.", ""),
        "folders": [str(folder) for folder in layout.folders],
        "resizing": "none" if keeps_sizes or data.preprocess == "none" else resizing,
        "tta": "flip" if predictor.flips else None,
        "noise_seed": predictor.noise_seed,
        "tile": predictor.tiles.generator.tile if predictor.tiles else None,
    }


def _n_features_of_original(request: Request) -> int:
    """An original's file does not say how many of its input channels are features; what is given for them does."""
    if request.clusters:
        return load_clusters(request.clusters).n_channels
    return 3 if request.feature_maps else 0


def translate(request: Request) -> None:
    """Read the generator and its input, and write what it makes of it.

    Raises:
        UserError, OSError: a file, a folder or a setting cannot be used.
    """
    with joined_world(request.device, timeout_s=LONGEST_WAIT_S) as world:
        log_to_console(is_main=world.is_main)
        if STANDARD_INPUT in request.input:  # one stream for all processes
            (listed, *_) = world.gather(read_list() if world.is_main else [])
            request = replace(request, input=[*(p for p in request.input if p != STANDARD_INPUT), *listed])
        _translate(request, world)


def _translate(request: Request, world: World) -> None:
    device = world.device
    if device.type == "cpu":
        keep_freed_memory()
    torch.backends.cudnn.benchmark = not request.keeps_sizes  # it would search anew for each size
    file = find_checkpoint_file(request.checkpoint)
    trained = load_generator(
        file,
        request.overrides,
        has_instances=request.instances is not None,
        n_features=_n_features_of_original(request),
        features_are_drawn=request.clusters is not None,
        raw_weights=request.weights == "raw",
    )
    logger.info("checkpoint   %s", file)
    if trained.step is None:
        report_original(trained)
    look = choose_feature_sampler(trained, request)
    layout = build_input(trained, look, request)
    output = request.output or default_output(trained, request)
    prepare_output(output, layout)
    report_sizes(trained.config, request)
    compiles = is_compiled(trained, layout, device, request)
    if compiles:
        logger.info("compiling    the generator, at the first images; --compile off does without")
    predictor = build_predictor(trained, look, device, request, compiles=compiles)
    report_features(trained, look, request)
    predictor = with_tiles(predictor, trained.config, request, output)
    translate_all(trained, predictor, layout, output, request.batch_size, keeps_sizes=request.keeps_sizes, world=world)


def default_output(trained: LoadedGenerator, request: Request) -> Path:
    """results/RUN/SPLIT_stepSTEP, or with the name of the input in place of the split's."""
    what = request.split or trained.config.data.test_split
    if request.input:
        (first, *others) = request.input
        what = first.resolve().stem if first.is_file() and not others else common_folder(request.input).name or "input"
    what = what.replace("/", "_")  # a split may lie deeper; its results do not
    return Path("results") / trained.name / (what if trained.step is None else f"{what}_step{trained.step}")


def report_original(trained: LoadedGenerator) -> None:
    """Say what an original's file translates."""
    n_classes, has_edges = trained.config.data.n_classes, trained.config.data.instance_edges
    source = f"label maps of {n_classes} classes" if n_classes else "RGB images"
    logger.info(f"translates   {source}{' and instance edges' if has_edges else ''}")
    if n_classes and not has_edges:
        logger.info("             if some are instance edges or features: --instances DIR, --clusters FILE")


def report_sizes(config: Config, request: Request) -> None:
    """Say that images keep their sizes, where the generator has learned from others."""
    if request.keeps_sizes and config.data.preprocess != "none":
        logger.info(f"sizes        each image's own; --size trained: as data.preprocess={config.data.preprocess} says")
