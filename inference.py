"""From a trained generator and a folder or a split to translated images, a contact sheet and metrics."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torchvision.transforms.v2.functional import resize

import build
from configs.schema import Config, ConfigError
from data.batch import Batch, DataError, Sample
from data.image_files import write_png
from data.layout import Layout
from data.loader import read_fixed
from data.paired_folders import PairedFolders
from models.feature_clusters import FILE_NAME, FeatureClusters
from models.feature_encoder import FeatureConditionedGenerator
from trained import Trained, find_checkpoint_file, load_trained
from translator import Look, Translator
from utils.allocator import keep_freed_memory
from utils.checkpoint import CheckpointError, read_weights_file
from utils.compilation import compiled, what_compiling_lacks
from utils.distributed import choose_device
from utils.metrics import ConstantColorFloor, ImageMetrics, image_metrics, mean_metrics
from utils.pictures import picture_table
from utils.precision import OptLevel, choose_precision
from utils.run_folder import log_to_console, logger

SHEET = "contact_sheet"
SHEET_SAMPLES = 24
SHEET_WIDTH = 1200  # pixels
COMPILING_PAYS = 2**25  # pixels in all: on 2 cores it takes 16 s, and saves 0.06 s of each 256x256 image (bench/)


@dataclass(frozen=True)
class Request:
    """What is to be translated, and how; None and empty mean the default of test.py's option of that name."""

    checkpoint: Path | None
    input: Path | None
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


def choose_look(trained: Trained, request: Request) -> Look | None:
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
    return Look(clusters, request.seed, has_classes=build.number_of_classes(trained.config.data) > 0)


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


def report_features(trained: Trained, look: Look | None, request: Request) -> None:
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


def settings_for(trained: Trained, look: Look | None) -> Config:
    """The settings of the samples to translate; to draw a look, they need instances and no maps of features."""
    if look is None:
        return trained.config
    features = replace(trained.config.features, origin="encoded", n_downsamplings=1)
    return replace(trained.config, features=features)


def is_compiled(trained: Trained, layout: Layout, device: torch.device, request: Request) -> bool:
    """Whether to compile the generator: as the request says, or where that was measured to pay."""
    if request.compile != "auto":
        return request.compile == "on"
    encodes = isinstance(trained.generator, FeatureConditionedGenerator)  # its work depends on the instances
    if device.type != "cpu" or encodes or request.noise or what_compiling_lacks(device):
        return False
    height, width = layout.read(0).source.shape[-2:]
    return len(layout) * height * width >= COMPILING_PAYS


def build_translator(
    trained: Trained, look: Look | None, device: torch.device, request: Request, *, compiles: bool = False
) -> Translator:
    """The generator on `device` in the precision of an opt level; O2 and O3 cast the weights once.

    Raises:
        CompilerError: it is to be compiled, and something is missing for that.
    """
    # what the original gives is in float32
    level = request.opt_level or ("O2" if trained.step is not None else "O0")
    precision = choose_precision(level, request.dtype, device)
    generator = trained.generator
    if look is not None and isinstance(generator, FeatureConditionedGenerator):
        generator = generator.generator
    computing = precision.computing(generator.to(device)).to(memory_format=build.memory_format(device))
    return Translator(
        generator=compiled(computing.eval(), device, is_final=True) if compiles else computing,
        conditioning=build.build_conditioning(settings_for(trained, look)),
        precision=precision,
        device=device,
        colors=build.class_colors(trained.config.data),
        look=look,
        noise_seed=request.seed if request.noise else None,
    )


def build_input(trained: Trained, look: Look | None, request: Request) -> Layout:
    """What is to be translated: the folder of --input, or a split of the data set that the generator learned from.

    Raises:
        DataError: a folder is missing or empty, or lacks partners.
    """
    config = settings_for(trained, look)
    conditioning = build.build_conditioning(config)
    if request.input is None and trained.step is None:
        raise DataError(f"{trained.file} tells no data set: name a folder of sources with --input DIR")
    if request.input is None:
        layout = build.build_layout(config, request.split or config.data.test_split, needs_targets=False)
    else:
        if conditioning.needs_instances and request.instances is None:
            other = ", or set features.regions=labels" if look and not config.data.instance_edges else ""
            raise DataError(f"--input: this generator needs instance maps too: --instances DIR{other}")
        if conditioning.features == "precomputed" and request.feature_maps is None:
            raise DataError("--input: this generator needs features too: --clusters FILE, or maps: --feature-maps DIR")
        layout = PairedFolders(
            source_folder=request.input,
            target_folder=request.targets,
            instance_folder=request.instances if conditioning.needs_instances else None,
            feature_folder=request.feature_maps if conditioning.features == "precomputed" else None,
            n_classes=conditioning.n_classes,
            ignore_id=config.data.ignore_id,
        )
    has_encoder = isinstance(trained.generator, FeatureConditionedGenerator)
    if look is None and conditioning.features == "encoded" and not has_encoder:
        raise DataError("--features given: this file has no encoder; leave it out, or give maps: --feature-maps DIR")
    if look is None and conditioning.features == "encoded" and layout.read(0).target is None:
        raise DataError(
            "this generator encodes its instance features from targets, and there are none: write clusters to draw "
            f"from with python -m tools.cluster_features --checkpoint {trained.file}"
        )
    return layout


def check_output(output: Path, layout: Layout) -> None:
    """Raise DataError where results would overwrite what they are made of, or each other."""
    written = output.resolve()
    for folder in layout.folders:
        if folder.resolve() in (written, *written.parents):
            raise DataError(f"the output {output} lies in {folder}, which is read: choose another --output")
    results = {(output / f"{name}.png").resolve() for name in layout.names}
    if overwritten := results & {path.resolve() for path in layout.files}:
        raise DataError(f"the output would overwrite {min(overwritten)}, which is read: choose another --output")
    if SHEET in layout.names:
        raise DataError(f"an input is called {SHEET}, as the contact sheet among the results: rename it")


def read_batches(layout: Layout, config: Config, batch_size: int) -> Iterator[list[Sample]]:
    """All samples in order, placed as for testing; up to `batch_size` of one size together."""
    preprocessing = build.build_preprocessing(config)
    batch: list[Sample] = []
    for index in range(len(layout)):
        sample = read_fixed(layout, preprocessing, index)
        if batch and (len(batch) == batch_size or sample.source.shape != batch[0].source.shape):
            yield batch
            batch = []
        batch.append(sample)
    yield batch


def contact_sheet(rows: Sequence[Sequence[Tensor]]) -> Tensor:
    """One (3, H, W) uint8 picture of at most SHEET_WIDTH pixels from rows of (3, h, w) uint8 images."""
    per_row = max(len(row) for row in rows)
    widest = max(SHEET_WIDTH // per_row, 1)
    thumbnails = [[_thumbnail(image, widest) for image in row] for row in rows]
    row_width = max(sum(image.shape[2] for image in row) for row in thumbnails)
    n_side_by_side = max(SHEET_WIDTH // row_width, 1)
    groups = [thumbnails[start : start + n_side_by_side] for start in range(0, len(rows), n_side_by_side)]
    return picture_table([[image for row in group for image in row] for group in groups])


def _thumbnail(image: Tensor, width: int) -> Tensor:
    if image.shape[2] <= width:
        return image
    return resize(image, [max(1, image.shape[1] * width // image.shape[2]), width], antialias=True)


def translate_all(trained: Trained, translator: Translator, layout: Layout, output: Path, batch_size: int) -> None:
    """Write OUTPUT/NAME.png for every sample, a contact sheet and, where targets exist, metrics.json."""
    metrics: dict[str, ImageMetrics] = {}
    floor = ConstantColorFloor(layout.n_classes)
    sheet: list[list[Tensor]] = []
    config = settings_for(trained, translator.look)
    for samples in read_batches(layout, config, batch_size):
        for sample, fake in zip(samples, translator.translate(Batch.of(samples)), strict=True):
            write_png(output / f"{sample.name}.png", fake)
            if sample.target is not None:
                metrics[sample.name] = image_metrics(fake, sample.target)
                floor.add(sample.source, sample.target)
            if len(sheet) < SHEET_SAMPLES:
                shown = [translator.show_source(sample), fake, sample.target]
                sheet.append([image for image in shown if image is not None])
    write_png(output / f"{SHEET}.png", contact_sheet(sheet))
    logger.info("translated   %d images: %s", len(layout), output)
    logger.info("at a glance  %s", output / f"{SHEET}.png")
    if metrics:
        report_metrics(metrics, floor.l1(), trained.step, output / "metrics.json")


def report_metrics(metrics: dict[str, ImageMetrics], floor_l1: float, step: int | None, path: Path) -> None:
    """Print the means and write them with each image's figures as JSON."""
    mean = mean_metrics(list(metrics.values()))
    below_floor = 1 - mean.l1 / floor_l1 if floor_l1 > 0 else 0.0
    report = {
        "step": step,
        "n_images": len(metrics),
        "mean": asdict(mean) | {"sharpness": mean.sharpness},
        "constant_color_floor": {"l1": floor_l1},
        "l1_below_floor": below_floor,
        "images": {name: asdict(m) | {"sharpness": m.sharpness} for name, m in metrics.items()},
    }
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    logger.info(
        f"metrics      L1 {mean.l1:.4f}  PSNR {mean.psnr:.2f} dB  SSIM {mean.ssim:.3f}  sharpness {mean.sharpness:.2f}"
    )
    comparison = f"{abs(below_floor):.1%} {'below' if below_floor >= 0 else 'ABOVE'}"
    logger.info(f"floor        L1 {floor_l1:.4f}, best constant colour per class; ours is {comparison}")
    logger.info("figures      %s", path)


def _n_features_of_original(request: Request) -> int:
    """An original's file does not say how many of its input channels are features; what is given for them does."""
    if request.clusters:
        return load_clusters(request.clusters).n_channels
    return 3 if request.feature_maps else 0


def translate(request: Request) -> None:
    """Read the generator and its input, and write what it makes of it.

    Raises:
        entry_point.user_errors(): a file, a folder or a setting cannot be used.
    """
    log_to_console(is_main=True)
    device = choose_device(request.device)
    if device.type == "cpu":
        keep_freed_memory()
    file = find_checkpoint_file(request.checkpoint)
    trained = load_trained(
        file,
        request.overrides,
        has_instances=request.instances is not None,
        n_features=_n_features_of_original(request),
        features_are_drawn=request.clusters is not None,
        raw_weights=request.weights == "raw",
    )
    logger.info("checkpoint   %s", file)
    if trained.step is None:
        n_classes, has_edges = trained.config.data.n_classes, trained.config.data.instance_edges
        source = f"label maps of {n_classes} classes" if n_classes else "RGB images"
        logger.info(f"translates   {source}{' and instance edges' if has_edges else ''}")
        if n_classes and not has_edges:
            logger.info("             if some are instance edges or features: --instances DIR, --clusters FILE")
    look = choose_look(trained, request)
    layout = build_input(trained, look, request)
    compiles = is_compiled(trained, layout, device, request)
    if compiles:
        logger.info("compiling    the generator, at the first images; --compile off does without")
    translator = build_translator(trained, look, device, request, compiles=compiles)
    report_features(trained, look, request)
    what = request.input.resolve().name if request.input else request.split or trained.config.data.test_split
    output = request.output or Path("results") / trained.name / (
        what if trained.step is None else f"{what}_step{trained.step}"
    )
    check_output(output, layout)
    translate_all(trained, translator, layout, output, request.batch_size)
