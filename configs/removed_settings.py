"""Removed settings of earlier versions: a checkpoint that holds one loads; others take its place, or it is reported."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from utils.log import logger


@dataclass(frozen=True)
class Removed:
    """A removed setting: the defaults that it has had, and the remedy or the reason for whoever set it.

    is_merged: whether its value in a checkpoint becomes one of another setting.
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
    "augmentation.probability": Removed((1.0,), "each operation is always applied"),
    "augmentation.target": Removed((None, "null"), "each operation is always applied"),
    "data.cache_folder": Removed((_DISK_FOLDER,), "data.cache=/FOLDER names it", is_merged=True),
    "data.cache_gib": Removed((16.0,), "a cache leaves a tenth of its disk free, or half of the shared memory"),
    "data.feature_folder": Removed(("{split}_feat",), "they lie in {split}_feat of data.root, which may be a link"),
    "data.instance_classes": Removed(([],), "data.instances=[CLASS,...] lists them", is_merged=True),
    "data.prefetch": Removed((2,), "each of data.workers has 2 batches ready"),
    "data.shuffle": Removed(("full",), "each epoch permutes all samples"),
    "discriminator.init": Removed(("normal",), f"init.distribution {_ALL}"),
    "discriminator.init_gain": Removed((0.02,), f"init.gain {_ALL}"),
    "discriminator.spectral_iteration": Removed(("u_first",), f"generator.spectral_iteration {_ALL}", is_merged=True),
    "generator.init": Removed(("normal",), f"init.distribution {_ALL}"),
    "generator.init_gain": Removed((0.02,), f"init.gain {_ALL}"),
    "init.encoder": Removed((None, "null"), "it is read from the file beside init.generator, as latest_net_E.pth"),
    "log.gradient_norms": Removed((False,), "optimizer.max_gradient_norm reports norms; 1e9 does not clip them"),
    "log.histograms": Removed((False,), "distributions of weights are no longer shown"),
    "log.n_images": Removed((4,), "metrics.n_samples are measured, and the first four shown", is_merged=True),
    "log.show_channels": Removed((None, "null"), "pictures show the first three channels, or the first of fewer"),
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
    "train.freeze_discriminator": Removed(([],), "train.freeze=[discriminator.PART]", is_merged=True),
    "train.freeze_generator": Removed(([],), "train.freeze=[generator.PART]", is_merged=True),
}


def without_removed(settings: Mapping[str, object], origin: str) -> dict[str, object]:
    """Return the settings of a checkpoint without the removed ones, and with those that take their place.

    One that has no successor, and had another value than a default, is reported.
    settings: by `section.key`. A checkpoint may be damaged and hold anything. origin: names it in the report.
    """
    kept = {}
    for key, value in settings.items():
        if key not in REMOVED:
            kept[key] = value
        elif not (REMOVED[key].is_merged or REMOVED[key].is_default(value)):
            _report(f"{origin}: {key} has no effect any more: {REMOVED[key].successor}")
    return kept | dict(_successors(settings))


def _successors(settings: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the settings that take the place of removed ones, where these have effect.

    What has another type than it should is left out.
    """
    get = settings.get
    if get("data.instances") == "connected" and get("data.instance_classes"):
        yield "data.instances", get("data.instance_classes")
    folder = get("data.cache_folder")
    if get("data.cache") == "disk" and isinstance(folder, str) and folder and folder != _DISK_FOLDER:
        yield "data.cache", f"{folder.rstrip('/')}/"
    if "style.height" in settings and "style.width" in settings:
        yield "style.size", [settings["style.height"], settings["style.width"]]
    counts = [count for count in (get("log.n_images"), get("metrics.n_samples")) if type(count) is int]
    if "log.n_images" in settings and counts:
        yield "metrics.n_samples", max(counts)
    parts = {role: get(f"train.freeze_{role}") for role in ("generator", "discriminator")}
    if any(parts.values()):
        lists = {role: names for role, names in parts.items() if isinstance(names, list)}
        yield "train.freeze", [f"{role}.{part}" for role, names in lists.items() for part in names]
    orders = get("generator.spectral_iteration"), get("discriminator.spectral_iteration")
    if orders[1] and not get("generator.spectral_norm"):
        yield "generator.spectral_iteration", orders[1]
    elif orders[1] not in (None, orders[0]) and get("discriminator.spectral_norm") not in (None, "none", False):
        _report(f"discriminator.spectral_iteration was {orders[1]}: that of the generator, {orders[0]}, holds now")


@cache  # a checkpoint's settings are read several times in a run
def _report(line: str) -> None:
    logger.info(line)
