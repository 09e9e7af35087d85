"""Training methods."""

from collections.abc import Callable

from configs.schema import Config
from training.methods.contrastive import build_contrastive
from training.methods.cycle import build_cycle
from training.methods.method import Method
from training.methods.paired import build_paired
from utils.distributed import World

METHODS: dict[str, Callable[[Config, World], Method]] = {
    "paired": build_paired,
    "contrastive": build_contrastive,
    "cycle": build_cycle,
}
"""Functions that build a method with initial weights, by the method's name in a configuration."""
