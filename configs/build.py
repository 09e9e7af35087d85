"""Config -> parts: the one place that turns settings into data, networks and losses, shared by the entry points."""

import hashlib
import os
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from configs.schema import Config, DataConfig
from data.batch import DataError
from data.cache import CachedLayout, SampleCache
from data.conditioning import Conditioning
from data.facades.dataset import SPLITS, SyntheticFacades
from data.facades.renderer import CLASS_COLORS, CLASS_NAMES
from data.layout import Layout
from data.paired_folders import PairedFolders
from data.preprocessing import Preprocessing
from data.side_by_side import SideBySide
from losses.adversarial import AdversarialLoss
from losses.objective import DiscriminatorObjective, GeneratorObjective
from losses.perceptual import PerceptualLoss, VGG19Features, load_vgg19_weights
from metrics.evaluator import Evaluator
from models.blocks import enable_activation_checkpointing
from models.feature_encoder import FeatureConditionedGenerator, FeatureEncoder
from models.global_generator import GlobalGenerator
from models.initialization import initialize
from models.local_enhancer import LocalEnhancer
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.pixel_discriminator import PixelDiscriminator
from models.spectral_norm import add_spectral_norm
from models.unet_generator import UnetGenerator
from utils.cores import usable_cores
from utils.cpu_memory import keep_freed_memory
from utils.errors import ConfigError
from utils.palette import label_colors

CACHE_NAME = "samples"
_SHARED_MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
_MEMORY_CACHE = f"pairgan-{os.getuid() if hasattr(os, 'getuid') else 0}"


def number_of_classes(data: DataConfig) -> int:
    """Number of classes of the source; 0 where it is an RGB image."""
    if data.layout != "synthetic_facades":
        return data.n_classes
    if data.n_classes not in (0, len(CLASS_NAMES)):
        raise ConfigError(f"data.n_classes is {data.n_classes}, synthetic_facades has {len(CLASS_NAMES)}: leave it out")
    return len(CLASS_NAMES)


def class_colors(data: DataConfig) -> Tensor:
    """(K, 3) uint8 colours that show the label maps."""
    return torch.from_numpy(CLASS_COLORS) if data.layout == "synthetic_facades" else label_colors(data.n_classes)


def build_conditioning(config: Config) -> Conditioning:
    """What the networks are given of a batch."""
    return Conditioning(
        n_classes=number_of_classes(config.data),
        instance_edges=config.data.instance_edges,
        source_channels=config.data.source_channels,
        target_channels=config.data.target_channels,
        features=config.features.origin if config.features.n_channels else "none",
        regions=config.features.regions,
    )


def prepare_device(config: Config, device: torch.device) -> None:
    """Have a GPU choose its algorithms by trial, and what a step on a CPU frees kept for the next."""
    torch.backends.cudnn.benchmark = config.train.cudnn_benchmark
    if device.type == "cpu":
        keep_freed_memory(gives_large_back=config.train.activation_checkpointing)


def memory_format(config: Config, device: torch.device) -> torch.memory_format:
    """The layout of a GPU's tensor cores is channels last; a CPU has blocked layouts of its own."""
    choice = config.train.channels_last
    is_last = choice == "always" or (choice == "auto" and device.type == "cuda")
    return torch.channels_last if is_last else torch.contiguous_format


def perceptual_memory_format(config: Config, device: torch.device) -> torch.memory_format:
    """For VGG19, which has no norms, a CPU with matrix units (AMX) wants channels last too: a step takes 1/13 less."""
    if config.train.channels_last == "auto" and device.type == "cpu" and torch.cpu._is_amx_tile_supported():
        return torch.channels_last
    return memory_format(config, device)


def has_split(data: DataConfig, split: str) -> bool:
    """Whether the data set has the sources of a split."""
    match data.layout:
        case "synthetic_facades":
            return split in SPLITS
        case "side_by_side":
            return (_existing(data.root) / split).is_dir()
        case "paired_folders":
            return _names_split(data, split) and _source_and_target_folder(data, split)[0].is_dir()


def build_layout(config: Config, split: str, *, needs_targets: bool) -> Layout:
    """One split of the data set. Where no targets are needed, they are given if they are there.

    Raises:
        DataError: a folder is missing or empty, or a file has no partner.
    """
    data = config.data
    match data.layout:
        case "synthetic_facades":
            return _build_synthetic_facades(data, config.run.seed, split)
        case "side_by_side":
            return SideBySide(folder=_existing(data.root) / split, a_to_b=data.direction == "AtoB")
        case "paired_folders":
            return _build_paired_folders(data, build_conditioning(config), split, needs_targets)


def build_preprocessing(config: Config) -> Preprocessing:
    """How samples are cut to the sizes that the generator takes."""
    data = config.data
    return Preprocessing(
        mode=data.preprocess,
        load_height=data.load_height,
        load_width=data.load_width,
        crop_height=data.crop_height,
        crop_width=data.crop_width,
        flip=data.flip,
        size_multiple=config.size_multiple,
        min_size=config.min_size,
    )


def build_training_layout(config: Config, layout: Layout, run_folder: Path) -> Layout:
    """The training split behind its cache, if there is to be one, whose folder is made."""
    folder, cached = cache_folder(config, run_folder), build_cached_layout(config, layout, run_folder)
    if folder is None or cached is None:
        return layout
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"data.cache, data.cache_folder: cannot make {folder}: {error.strerror}") from error
    return cached


def build_cached_layout(config: Config, layout: Layout, run_folder: Path) -> CachedLayout | None:
    """The training split behind its cache; None where there is to be none."""
    folder = cache_folder(config, run_folder)
    if folder is None:
        return None
    spare_share = 0.5 if config.data.cache == "memory" else 0.02
    cache = SampleCache(folder, int(config.data.cache_gib * 2**30), spare_share)
    return CachedLayout(layout, build_preprocessing(config), cache)


def cache_folder(config: Config, run_folder: Path) -> Path | None:
    """Where samples are kept; processes of one run share their memory."""
    match config.data.cache:
        case "none":
            return None
        case "disk":
            return Path(config.data.cache_folder).expanduser() / CACHE_NAME
        case "memory":
            run = hashlib.sha256(str(run_folder.resolve()).encode()).hexdigest()[:16]
            return _SHARED_MEMORY / f"{_MEMORY_CACHE}-{run}"


def memory_caches() -> list[Path]:
    """The folders of data.cache=memory that runs of this user have left behind."""
    return sorted(_SHARED_MEMORY.glob(f"{_MEMORY_CACHE}-*"))


def count_workers(data: DataConfig, processes_per_machine: int) -> int:
    """Loader processes of each training process."""
    if isinstance(data.workers, int):
        return data.workers
    return max(1, min(8, usable_cores() // (2 * processes_per_machine)))


def build_generator(config: Config) -> nn.Module:
    """The generator with initial weights from torch's global random generator, and with its encoder if it has one."""
    settings = config.generator
    generator = _make_generator(config)
    initialize(generator, settings.init, settings.init_gain)
    if settings.spectral_norm:
        generator = add_spectral_norm(generator)
    network = FeatureConditionedGenerator(generator, _build_encoder(config)) if config.has_encoder else generator
    if config.train.activation_checkpointing:
        enable_activation_checkpointing(network)
    return network


def _build_encoder(config: Config) -> FeatureEncoder:
    settings, features = config.generator, config.features
    encoder = FeatureEncoder(
        in_channels=config.data.target_channels,
        n_features=features.n_channels,
        base_channels=features.base_channels,
        n_downsamplings=features.n_downsamplings,
        norm=settings.norm,
    )
    initialize(encoder, settings.init, settings.init_gain)
    return encoder


def _make_generator(config: Config) -> nn.Module:
    settings = config.generator
    in_channels = build_conditioning(config).channels + config.features.n_channels
    match settings.name:
        case "global":
            return GlobalGenerator(
                in_channels=in_channels,
                out_channels=config.data.target_channels,
                base_channels=settings.base_channels,
                n_downsamplings=settings.n_downsamplings,
                n_blocks=settings.n_blocks,
                norm=settings.norm,
                dropout=settings.dropout,
                upsample=settings.upsample,
                padding=settings.padding,
            )
        case "local":
            return LocalEnhancer(
                in_channels=in_channels,
                out_channels=config.data.target_channels,
                base_channels=settings.base_channels,
                n_downsamplings=settings.n_downsamplings,
                n_blocks=settings.n_blocks,
                n_enhancers=settings.n_enhancers,
                n_enhancer_blocks=settings.n_enhancer_blocks,
                norm=settings.norm,
                upsample=settings.upsample,
                padding=settings.padding,
            )
        case "unet":
            return UnetGenerator(
                in_channels=in_channels,
                out_channels=config.data.target_channels,
                base_channels=settings.base_channels,
                n_downsamplings=settings.n_downsamplings,
                norm=settings.norm,
                dropout=settings.dropout,
            )


def global_part(generator: nn.Module) -> list[str]:
    """The beginnings of the names of a local generator's parameters below its finest enhancer."""
    assert isinstance(generator, FeatureConditionedGenerator | LocalEnhancer), type(generator)
    return generator.coarse_parts


def build_discriminator(config: Config) -> nn.Module:
    """The discriminator with initial weights from torch's global random generator."""
    settings, source_channels = config.discriminator, build_conditioning(config).channels
    discriminator: nn.Module
    match settings.name:
        case "multiscale_patch":
            discriminator = MultiscalePatchDiscriminator(
                source_channels=source_channels,
                image_channels=config.data.target_channels,
                base_channels=settings.base_channels,
                n_layers=settings.n_layers,
                n_scales=settings.n_scales,
                norm=settings.norm,
                padding=settings.padding,
                max_channels=settings.max_channels,
            )
        case "pixel":
            discriminator = PixelDiscriminator(
                source_channels=source_channels,
                image_channels=config.data.target_channels,
                base_channels=settings.base_channels,
                norm=settings.norm,
            )
    initialize(discriminator, settings.init, settings.init_gain)
    return add_spectral_norm(discriminator) if settings.spectral_norm else discriminator


def build_perceptual_loss(config: Config) -> PerceptualLoss | None:
    """VGG19's loss, or None where its weight is 0.

    Raises:
        WeightsError: VGG19's weights cannot be had.
    """
    settings = config.loss
    if settings.vgg == 0:
        return None
    weights = load_vgg19_weights(_optional_path(settings.vgg_weights))
    network = VGG19Features(
        weights,
        imagenet_normalization=settings.vgg_imagenet_normalization,
        recomputes=config.train.activation_checkpointing,
    )
    return PerceptualLoss(network, kept_bytes=int(settings.vgg_kept_gib * 2**30))


def build_evaluator(config: Config, device: torch.device) -> Evaluator:
    """The evaluator of translated images, with the networks of metrics.extra.

    Raises:
        WeightsError: the weights of a network cannot be had.
        ConfigError: a package for it is missing, or the file of the classes' colours cannot be used.
    """
    settings = config.metrics
    weights = {key: _optional_path(value) for key, value in vars(settings).items() if key.endswith("_weights")}
    return Evaluator.load(settings.extra, weights, settings.label_colors, device)


def build_objective(config: Config, perceptual: PerceptualLoss | None) -> GeneratorObjective:
    """The generator's weighted loss terms."""
    settings = config.loss
    weights = {
        "adversarial": settings.adversarial,
        "feature_matching": settings.feature_matching,
        "l1": settings.l1,
        "vgg": settings.vgg,
    }
    return GeneratorObjective(weights, adversarial=_build_adversarial_loss(config), perceptual=perceptual)


def build_discriminator_objective(config: Config) -> DiscriminatorObjective:
    """The discriminator's loss terms."""
    return DiscriminatorObjective(
        adversarial=_build_adversarial_loss(config),
        gradient_penalty=config.loss.gradient_penalty,
        r1=config.loss.r1,
    )


def _build_adversarial_loss(config: Config) -> AdversarialLoss:
    return AdversarialLoss(mode=config.loss.gan_mode, over_scales=config.loss.over_scales)


def _build_synthetic_facades(data: DataConfig, seed: int, split: str) -> Layout:
    counts = {
        "train": data.synthetic.train_samples,
        "val": data.synthetic.val_samples,
        "test": data.synthetic.test_samples,
    }
    if split not in counts:
        raise DataError(f"synthetic_facades has no split {split!r}, only {', '.join(counts)}")
    return SyntheticFacades(
        split=split,
        seed=seed,
        n_samples=counts[split],
        height=data.synthetic.height,
        width=data.synthetic.width,
    )


def _build_paired_folders(data: DataConfig, conditioning: Conditioning, split: str, needs_targets: bool) -> Layout:
    if not _names_split(data, split):
        raise DataError(
            f"data.source_folder={data.source_folder} has no {{split}}, so train is the only split, and there is no "
            f"{split}: name another folder with --input DIR, or choose --split train"
        )
    source, target = _source_and_target_folder(data, split)
    instances = _existing(data.root) / data.instance_folder.replace("{split}", split)
    features = _existing(data.root) / data.feature_folder.replace("{split}", split)
    return PairedFolders(
        source_folder=source,
        target_folder=target if needs_targets or target.is_dir() else None,
        instance_folder=instances if conditioning.needs_instances else None,
        feature_folder=features if conditioning.features == "precomputed" else None,
        n_classes=data.n_classes,
        ignore_id=data.ignore_id,
    )


def _names_split(data: DataConfig, split: str) -> bool:
    """Whether a split has a folder of its own; two freely named folders are the training data."""
    return split == "train" or data.source_folder is None or "{split}" in data.source_folder


def _source_and_target_folder(data: DataConfig, split: str) -> tuple[Path, Path]:
    root = _existing(data.root)
    default_source, default_target = ("{split}_label", "{split}_img") if data.n_classes else ("{split}_A", "{split}_B")
    source = root / (data.source_folder or default_source).replace("{split}", split)
    target = root / (data.target_folder or default_target).replace("{split}", split)
    return (source, target) if data.direction == "AtoB" else (target, source)


def _optional_path(setting: str | None) -> Path | None:
    return Path(setting).expanduser() if setting else None


def _existing(root: str) -> Path:
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise DataError(f"data.root: {root}: no such folder; add data.root=FOLDER to the command")
    return folder
