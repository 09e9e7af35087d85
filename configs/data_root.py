"""The check of data.root before torch is imported, which takes seconds."""

from configs.schema import DataConfig
from utils.data_root import data_root_problem
from utils.errors import ConfigError


def check_data_root(data: DataConfig) -> None:
    """Raise ConfigError where data.root is not the folder that the layout reads."""
    if data.layout != "synthetic_facades" and (problem := data_root_problem(data.root)):
        raise ConfigError(problem)
