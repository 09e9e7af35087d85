"""Removed settings of earlier versions: a checkpoint that holds one loads; others take its place, or it is reported."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from utils.log import logger


@dataclass(frozen=True)
class Removed:
    """A removed setting: the defaults that it has had, and the remedy or the reason for whoever set it.

    is_merged: whether its value in a checkpoint becomes one of another setting (`successors`).
    """

    defaults: tuple[object, ...]
    successor: str
    is_merged: bool = False

    def is_default(self, value: object) -> bool:
        """Return whether a value, as written in YAML or in a checkpoint, is a former default."""
        return str(value).lower() in [str(default).lower() for default in self.defaults]


_FROM_CACHE = "is read from torch's cache, TORCH_HOME/hub/checkpoints; copy the file there by that name"
_DISK_FOLDER = "~/.cache/pairgan"
_ALL = "holds for all networks"
REMOVED = {
    "augmentation.probability": Removed((1.0,), "each operation is always applied; augmentation.target controls it"),
    "data.cache_folder": Removed((_DISK_FOLDER,), "data.cache=/FOLDER names it", is_merged=True),
    "data.cache_gib": Removed((16.0,), "a cache leaves a tenth of its disk free, or half of the shared memory"),
    "data.feature_folder": Removed(("{split}_feat",), "they lie in {split}_feat of data.root, which may be a link"),
    "data.instance_classes": Removed(([],), "data.instances=[CLASS,...] lists them", is_merged=True),
    "data.prefetch": Removed((2,), "each of data.workers has 2 batches ready"),
    "discriminator.init": Removed(("normal",), f"init.distribution {_ALL}"),
    "discriminator.init_gain": Removed((0.02,), f"init.gain {_ALL}"),
    "discriminator.spectral_iteration": Removed(("u_first",), f"generator.spectral_iteration {_ALL}", is_merged=True),
    "generator.init": Removed(("normal",), f"init.distribution {_ALL}"),
    "generator.init_gain": Removed((0.02,), f"init.gain {_ALL}"),
    "init.encoder": Removed((None, "null"), "it is read from the file beside init.generator, as latest_net_E.pth"),
    "log.gradient_norms": Removed((False,), "optimizer.max_gradient_norm reports norms; 1e9 does not clip them"),
    "log.histograms": Removed((False,), "distributions of weights are no longer shown"),
    "log.n_images": Removed((4,), "metrics.n_samples are measured, and the first four shown", is_merged=True),
    "loss.vgg_weights": Removed((None, "null"), f"vgg19-dcbb9e9d.pth {_FROM_CACHE}"),
    "loss.vgg_kept_gib": Removed((0.0,), "features of targets are no longer kept"),
    "metrics.alexnet_weights": Removed((None, "null"), f"alexnet-owt-7be5be79.pth {_FROM_CACHE}"),
    "metrics.inception_weights": Removed((None, "null"), f"weights-inception-2015-12-05-6726825d.pth {_FROM_CACHE}"),
    "optimizer.plateau_epochs": Removed((5,), "optimizer.decay=plateau waits 5 epochs for progress, as pix2pix"),
    "optimizer.weight_decay": Removed((0.0,), "weights are not decayed, as in the originals"),
    "optimizer.step_in_backward": Removed((False, True), "train.activation_checkpointing=true saves memory"),
    "run.peer_timeout_s": Removed((1800.0,), "processes wait three times data.timeout_s for each other"),
    "style.height": Removed((8,), "style.size=[height,width]", is_merged=True),
    "style.width": Removed((8,), "style.size=[height,width]", is_merged=True),
    "train.async_upload": Removed((True,), "batches always have a stream of their own on a GPU"),
    "train.cuda_graph": Removed((False,), "train.compile=true fuses the generator's kernels"),
    "train.freeze_discriminator": Removed(([],), "train.freeze=[discriminator.PART]", is_merged=True),
    "train.freeze_generator": Removed(([],), "train.freeze=[generator.PART]", is_merged=True),
}


def without_removed(values: object, origin: str, prefix: str = "") -> object:
    """Return nested settings without the removed ones; report those that had another value than a default.

    values: of a checkpoint, which may be damaged and hold anything. origin: names it in the report.
    """
    if not isinstance(values, Mapping):
        return values
    kept = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if name not in REMOVED:
            kept[key] = without_removed(value, origin, f"{name}.")
        elif not (REMOVED[name].is_merged or REMOVED[name].is_default(value)):
            _report(f"{origin}: {name} has no effect any more: {REMOVED[name].successor}")
    return kept


def successors(values: object) -> Iterator[tuple[str, object]]:
    """Yield the settings that take the place of removed ones, as `section.key` and value, where these have effect.

    values: of a checkpoint, which may be damaged: what has another type than it should is left out.
    """
    data, style, log, metrics = (_section(values, name) for name in ("data", "style", "log", "metrics"))
    if data.get("instances") == "connected" and data.get("instance_classes"):
        yield "data.instances", data["instance_classes"]
    folder = data.get("cache_folder")
    if data.get("cache") == "disk" and isinstance(folder, str) and folder and folder != _DISK_FOLDER:
        yield "data.cache", f"{folder.rstrip('/')}/"
    if "height" in style and "width" in style:
        yield "style.size", [style["height"], style["width"]]
    counts = [count for count in (log.get("n_images"), metrics.get("n_samples")) if type(count) is int]
    if "n_images" in log and counts:
        yield "metrics.n_samples", max(counts)
    train = _section(values, "train")
    parts = {role: train.get(f"freeze_{role}") for role in ("generator", "discriminator")}
    if any(parts.values()):
        lists = {role: names for role, names in parts.items() if isinstance(names, list)}
        yield "train.freeze", [f"{role}.{part}" for role, names in lists.items() for part in names]
    generator, discriminator = _section(values, "generator"), _section(values, "discriminator")
    orders = generator.get("spectral_iteration"), discriminator.get("spectral_iteration")
    if orders[1] and not generator.get("spectral_norm"):
        yield "generator.spectral_iteration", orders[1]
    elif orders[1] not in (None, orders[0]) and discriminator.get("spectral_norm") not in (None, "none", False):
        _report(f"discriminator.spectral_iteration was {orders[1]}: that of the generator, {orders[0]}, holds now")


def _section(values: object, name: str) -> Mapping[Any, Any]:
    section = values.get(name) if isinstance(values, Mapping) else None
    return section if isinstance(section, Mapping) else {}


@cache  # a checkpoint's settings are read several times in a run
def _report(line: str) -> None:
    logger.info(line)
