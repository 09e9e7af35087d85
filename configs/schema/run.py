"""Sections `run`, `checkpoint`, `metrics` and `log`: where a run is saved and what it records."""

from dataclasses import dataclass, field
from typing import Literal

from configs.schema.checks import Section, number, setting


def is_folder_name(name: str) -> bool:
    """Return whether all operating systems accept `name` as a folder name, even with a short suffix."""
    is_plain = bool(name.strip(".")) and name == name.strip() and name.isprintable()
    return is_plain and not set(name) & set('/\\:*?"<>|') and len(name.encode()) <= 200  # file systems allow 255


@dataclass(frozen=True)
class RunConfig(Section, prefix="run."):
    """Name, folder, seed and device of a run."""

    name: str = setting("unnamed", is_folder_name, "a name that can be a folder, up to 200 bytes")
    """Name of the run, and of its folder."""
    root: str = "runs"
    """Folder of all runs. The files of a run go to ROOT/NAME."""
    seed: int = setting(0, range(2**32).__contains__, "0 to 4294967295")
    """Seed of the initial weights, the order of the samples and their augmentation."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU if there is one, otherwise the CPU."""


@dataclass(frozen=True)
class CheckpointConfig(Section, prefix="checkpoint."):
    """When checkpoints are saved, and how many are kept."""

    every_steps: int = number(1000, least=1)
    """Number of steps between checkpoints. The last step is always saved."""
    keep: int = number(3)
    """Number of newest checkpoints to keep; 0 keeps all."""
    best: str = "auto"
    """Validation metric that chooses best.pt in the run's folder. auto: l1 with pairs, l1_shifted with
    metrics.shift_reach, l1_weighted with data.mask_folder, swd without pairs, and none if validation uses training
    samples. none: save no best.pt, which saves disk space."""


@dataclass(frozen=True)
class MetricsConfig(Section, prefix="metrics."):
    """Metrics of translated images in validation and in test.py. L1, PSNR, SSIM and MS-SSIM are always computed."""

    n_samples: int = number(4, least=1)
    """Number of samples that each validation measures. They stay in memory. The first four are shown."""
    extra: list[str] = field(default_factory=list)
    """Additional metrics: lpips, perceptual_distance, swd, fid, kid. swd, fid and kid compare sets of images.
    perceptual_distance needs the extra `perceptual`, which contains the weights. lpips downloads weights into torch's
    cache. With features=inception, fid and kid also do so, and need the package torch-fidelity. Their values are
    comparable with published values only for thousands of images."""
    features: Literal["inception", "efficientnet_lite2"] = "inception"
    """Network for fid and kid. efficientnet_lite2 needs the extra `perceptual`, which contains the weights. FID and
    KID of different networks are not comparable."""
    shift_reach: int | None = number(None, most=16)
    """Also compute L1, PSNR and SSIM with each translation at its best shift, which is at most this many pixels. The
    best shifts are recorded. checkpoint.best=auto and optimizer.decay=plateau then use the shifted L1. null: the value
    of loss.shift_reach. 0: off."""
    label_colors: str | None = setting(
        None, lambda name: name is None or name.strip(), "null, cityscapes, cmp_facades or a YAML file"
    )
    """For translations of photos into label maps: class colours, used to compute pixel accuracy and mean IoU. Values:
    cityscapes, cmp_facades, or a YAML file with lines such as road: [128, 64, 128]."""


@dataclass(frozen=True)
class LogConfig(Section, prefix="log."):
    """Reports during training, and the steps between them."""

    every_steps: int = number(100, least=1)
    """Number of steps between log lines, and between TensorBoard scalars. The values are means over these steps."""
    images_every_steps: int = number(500, least=1)
    """Number of steps between validations. Each validation computes metrics, logs images and chooses best.pt."""
    activations: str | None = None
    """Module of the generator, such as blocks.0. TensorBoard shows its output for the first sample."""
