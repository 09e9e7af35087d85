"""The check of data.root before torch is imported, which takes seconds."""

from pathlib import Path

from configs.schema import DataConfig
from utils.data_root import data_root_problem
from utils.errors import ConfigError


def check_data_root(data: DataConfig) -> None:
    """Raise ConfigError where there is no folder data.root. Files and addresses are left to `data.STORES`."""
    may_be_other_store = "://" in data.root or Path(data.root).expanduser().is_file()
    if data.layout != "synthetic_facades" and not may_be_other_store and (problem := data_root_problem(data.root)):
        raise ConfigError(problem)
