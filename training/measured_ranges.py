"""The settings of images that are not 8-bit RGB, as a run has them: those of its checkpoint, or of its files."""

from collections.abc import Callable
from dataclasses import replace

from configs.load import config_from_dict
from configs.measured_ranges import undecided_sides, with_measured_ranges
from configs.schema import Config
from training.splits import Splits, open_splits
from utils.checkpoint_folder import LoadedCheckpoint
from utils.distributed import World

FindCheckpoint = Callable[[], LoadedCheckpoint | None]


def settle_pixels(config: Config, splits: Splits, world: World, find: FindCheckpoint) -> tuple[Config, Splits]:
    """Return the configuration with the ranges of the images, and the splits that are read with them.

    find: returns the checkpoint that the run resumes from. It is called only where the files are not 8-bit RGB; what
    it holds is kept, so that a data set that has changed does not change what the networks see.

    Raises:
        DataError: a file cannot be used.
    """
    sides = undecided_sides(config.data, splits.train)
    if not world.gather(bool(sides))[0]:
        return config, splits
    found = find()
    if found:
        saved = config_from_dict(found.state.get("config"), str(found.path)).data
        data = config.data
        data = replace(
            data,
            source_range=data.source_range or saved.source_range,
            target_range=data.target_range or saved.target_range,
            target_files=data.target_files or saved.target_files,
        )
    else:
        data = world.gather(with_measured_ranges(config, splits.train, sides).data if world.is_main else None)[0]
    config = replace(config, data=data)
    return config, open_splits(config)
