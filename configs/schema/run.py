"""The run and what it records: sections `run`, `checkpoint`, `metrics` and `log`."""

from dataclasses import dataclass, field
from typing import Literal

from configs.schema.checks import Section, number, setting


def is_folder_name(name: str) -> bool:
    """Return whether all systems accept this name for a folder, also with a suffix."""
    is_plain = bool(name.strip(".")) and name == name.strip() and name.isprintable()
    return is_plain and not set(name) & set('/\\:*?"<>|') and len(name.encode()) <= 200  # a file system takes 255


@dataclass(frozen=True)
class RunConfig(Section, prefix="run."):
    """Where a run lives and what it is called."""

    name: str = setting("unnamed", is_folder_name, "a name that can be a folder, up to 200 bytes")
    """Name of the run, and of its folder."""
    root: str = "runs"
    """Folder that holds the runs; the run's files go to ROOT/NAME."""
    seed: int = setting(0, range(2**32).__contains__, "0 to 4294967295")
    """Seed of the initial weights, the order of the samples and their augmentation."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU if there is one."""


@dataclass(frozen=True)
class CheckpointConfig(Section, prefix="checkpoint."):
    """How often everything is saved."""

    every_steps: int = number(1000, least=1)
    """Steps between checkpoints; the last step is always saved."""
    keep: int = number(3)
    """Number of newest checkpoints that stay; 0 keeps all."""
    best: str = "auto"
    """Metric of the validation samples that chooses best.pt in the run's folder. auto: l1 with pairs, swd without
    pairs, and none if the validation samples are trained on. none: no best.pt, which saves the space on disk."""


@dataclass(frozen=True)
class MetricsConfig(Section, prefix="metrics."):
    """Metrics of translated images, in validation and by test.py, in addition to L1, PSNR, SSIM and MS-SSIM."""

    n_samples: int = number(4, least=1)
    """Number of validation samples that are measured each time. They stay in memory, and the first four are shown."""
    extra: list[str] = field(default_factory=list)
    """More figures: lpips, perceptual_distance, swd, fid, kid. lpips, fid and kid download a network's weights into
    torch's cache. fid and kid also need the package torch-fidelity. They are comparable with published figures only for
    thousands of images. swd, fid and kid compare the images as sets. perceptual_distance needs the extra `perceptual`
    and no download."""
    features: Literal["inception", "efficientnet_lite2"] = "inception"
    """Network of fid and kid. efficientnet_lite2 needs the extra `perceptual` and no download. Its figures are not
    comparable with published ones."""
    shift_reach: int | None = number(None, most=16)
    """Also report L1, PSNR and SSIM after the best shift of each image up to so many pixels, and the shifts. Then
    checkpoint.best=auto and optimizer.decay=plateau use this L1. null: the value of loss.shift_reach. 0: off."""
    label_colors: str | None = setting(
        None, lambda name: name is None or name.strip(), "null, cityscapes, cmp_facades or a YAML file"
    )
    """If photos are translated into label maps: the classes' colours, for pixel accuracy and mean IoU. cityscapes,
    cmp_facades, or a YAML file of lines such as road: [128, 64, 128]."""


@dataclass(frozen=True)
class LogConfig(Section, prefix="log."):
    """Reports during training, and how often they are made."""

    every_steps: int = number(100, least=1)
    """Steps between lines of the log, and between TensorBoard's scalars. Both show means over these steps."""
    images_every_steps: int = number(500, least=1)
    """Steps between validations: figures of the samples, their pictures, and the choice of best.pt."""
    activations: str | None = None
    """A module of the generator, such as blocks.0. TensorBoard shows its output for the first sample."""
