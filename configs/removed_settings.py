"""Settings of earlier versions that are no more: a configuration that sets one is refused, a checkpoint loads."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from utils.log import logger


@dataclass(frozen=True)
class Removed:
    """A removed setting: its default, and the remedy or the reason for whoever set it."""

    default: object
    successor: str


REMOVED = {
    "loss.vgg_kept_gib": Removed(0.0, "features of targets are no longer kept"),
    "optimizer.step_in_backward": Removed(False, "train.activation_checkpointing=true saves memory"),
    "train.cuda_graph": Removed(False, "train.compile=true fuses the generator's kernels"),
}


def without_removed(values: object, origin: str, prefix: str = "") -> object:
    """Return nested settings without the removed ones; report those that had another value than their default.

    values: of a checkpoint, which may be damaged and hold anything. origin: names it in the report.
    """
    if not isinstance(values, Mapping):
        return values
    kept = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if name not in REMOVED:
            kept[key] = without_removed(value, origin, f"{name}.")
        elif value != REMOVED[name].default:
            _report(f"{origin}: {name}={value} has no effect any more: {REMOVED[name].successor}")
    return kept


@cache  # a checkpoint's settings are read several times in a run
def _report(line: str) -> None:
    logger.info(line)
