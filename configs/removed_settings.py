"""Removed settings of earlier versions: at a default they are left out, otherwise checkpoints load with a report."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from utils.log import logger


@dataclass(frozen=True)
class Removed:
    """A removed setting: the defaults that it has had, and the remedy or the reason for whoever set it."""

    defaults: tuple[object, ...]
    successor: str

    def is_default(self, value: object) -> bool:
        """Return whether a value, as written in YAML or in a checkpoint, is a former default."""
        return str(value).lower() in [str(default).lower() for default in self.defaults]


_FROM_CACHE = "is read from torch's cache, TORCH_HOME/hub/checkpoints; copy the file there by that name"
_OF_ALL = "holds for all networks"
REMOVED = {
    "data.cache_gib": Removed((16.0,), "a cache leaves a tenth of its disk free, or half of the shared memory"),
    "data.feature_folder": Removed(
        ("{split}_feat",), "maps of features lie in {split}_feat of data.root, which may be a link"
    ),
    "data.prefetch": Removed((2,), "each of data.workers has 2 batches ready"),
    "discriminator.init": Removed(("normal",), f"init.distribution {_OF_ALL}"),
    "discriminator.init_gain": Removed((0.02,), f"init.gain {_OF_ALL}"),
    "generator.init": Removed(("normal",), f"init.distribution {_OF_ALL}"),
    "generator.init_gain": Removed((0.02,), f"init.gain {_OF_ALL}"),
    "log.gradient_norms": Removed((False,), "optimizer.max_gradient_norm reports norms; 1e9 does not clip them"),
    "log.histograms": Removed((False,), "distributions of weights are no longer shown"),
    "loss.vgg_weights": Removed((None, "null"), f"vgg19-dcbb9e9d.pth {_FROM_CACHE}"),
    "loss.vgg_kept_gib": Removed((0.0,), "features of targets are no longer kept"),
    "metrics.alexnet_weights": Removed((None, "null"), f"alexnet-owt-7be5be79.pth {_FROM_CACHE}"),
    "metrics.inception_weights": Removed((None, "null"), f"weights-inception-2015-12-05-6726825d.pth {_FROM_CACHE}"),
    "optimizer.plateau_epochs": Removed((5,), "optimizer.decay=plateau waits 5 epochs for progress, as pix2pix"),
    "optimizer.step_in_backward": Removed((False, True), "train.activation_checkpointing=true saves memory"),
    "run.peer_timeout_s": Removed((1800.0,), "processes wait three times data.timeout_s for each other"),
    "train.async_upload": Removed((True,), "batches always have a stream of their own on a GPU"),
    "train.cuda_graph": Removed((False,), "train.compile=true fuses the generator's kernels"),
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
        elif not REMOVED[name].is_default(value):
            _report(f"{origin}: {name} has no effect any more: {REMOVED[name].successor}")
    return kept


@cache  # a checkpoint's settings are read several times in a run
def _report(line: str) -> None:
    logger.info(line)
