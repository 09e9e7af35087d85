"""How networks are trained; each way is listed here by its name in a configuration."""

from collections.abc import Callable

from configs.schema import Config
from training.methods.method import Method
from training.methods.paired import build_paired
from utils.distributed import World

METHODS: dict[str, Callable[[Config, World], Method]] = {"paired": build_paired}
"""By name: what builds the method with initial weights, on the device of the world."""
