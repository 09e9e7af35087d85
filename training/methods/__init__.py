"""How networks are trained; each way is listed here by its name in a configuration."""

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
"""By name: what builds the method with initial weights, on the device of the world."""
