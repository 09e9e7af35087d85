"""The samples that a run is trained on and validated with."""

from dataclasses import dataclass, replace

from configs.load import config_from_dict
from configs.schema import Config
from configs.splits import HELD_BACK, TRAIN, open_split, validation_split
from configs.undecided_settings import undecided_sides, with_measured_ranges
from data.held_back import hold_back, possible_shares
from data.layout import Layout
from utils.checkpoint_folder import LoadedCheckpoint
from utils.distributed import World
from utils.errors import ConfigError
from utils.text import exact


@dataclass(frozen=True)
class Splits:
    """The training samples and the samples that validation takes its own from.

    validation_name: Split of the validation samples. TRAIN: they are trained on too. HELD_BACK: train.validation_share
        keeps them out of training.
    """

    train: Layout
    validation: Layout
    validation_name: str


def open_splits(config: Config) -> Splits:
    """Return the splits of a run.

    Raises:
        DataError: A folder is missing or empty, or a file has no partner.
        ConfigError: train.validation_share holds back no sample or every sample, or train.validation_group finds no
            group.
    """
    needs_labels, share = config.loss.outside_mask > 0, config.train.validation_share
    train = open_split(config, TRAIN, needs_targets=True, needs_labels=needs_labels)
    own, group = validation_split(config), config.train.validation_group
    if own and own != TRAIN:
        return Splits(train, open_split(config, own, needs_targets=True), own)
    if own or not share:
        return Splits(train, train, TRAIN)
    rest, held_back = hold_back(train, share, group)
    if len(rest) and len(held_back):
        return Splits(rest, held_back, HELD_BACK)
    least, most = possible_shares(train, group)
    remedy = f"Set it to {exact(least)} or more, up to {exact(most)}."
    if least > most:
        remedy = "No share divides so few: set it to 0, or put images into the folders of a split val."
    which = "no" if share < least else "every"
    unit = "sample" if group is None else "group"
    raise ConfigError(f"train.validation_share is {exact(share)}, which holds back {which} {unit}. {remedy}")


def open_data(config: Config, world: World, found: LoadedCheckpoint | None) -> tuple[Config, Splits]:
    """Return the splits of a run, and the configuration with the ranges of images that are not 8-bit RGB.

    found: the checkpoint that the run resumes from. Its ranges are kept, so that a data set that has changed does not
        change the values that the networks take. A new run measures them.

    Raises:
        DataError, ConfigError: see `open_splits`; or a file cannot be used.
    """
    splits = open_splits(config)
    sides = undecided_sides(config.data, splits.train)
    if not world.gather(bool(sides))[0]:
        return config, splits
    data = config.data
    if found:
        saved = config_from_dict(found.state.get("config"), str(found.path)).data
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
