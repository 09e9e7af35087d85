"""The samples that a run is trained on and validated with."""

from dataclasses import dataclass, replace

from configs.load import config_from_dict
from configs.schema import Config
from configs.splits import HELD_BACK, TRAIN, check_is_complete, open_split, validation_split
from data.layout import Layout
from data.validation_split import possible_shares, split_validation
from utils.checkpoint_folder import LoadedCheckpoint
from utils.errors import ConfigError
from utils.text import exact

_FORMERLY_MEASURED = ("source_range", "target_range", "target_files")


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
    rest, held_back = split_validation(train, share, group)
    if len(rest) and len(held_back):
        return Splits(rest, held_back, HELD_BACK)
    least, most = possible_shares(train, group)
    remedy = f"Set it to {exact(least)} or more, up to {exact(most)}."
    if least > most:
        remedy = "No share divides so few: set it to 0, or put images into the folders of a split val."
    which = "no" if share < least else "every"
    unit = "sample" if group is None else "group"
    raise ConfigError(f"train.validation_share is {exact(share)}, which holds back {which} {unit}. {remedy}")


def open_data(config: Config, found: LoadedCheckpoint | None) -> tuple[Config, Splits]:
    """Return the configuration and the splits of a run.

    found: The checkpoint that the run resumes from. Checkpoints of earlier versions hold ranges of values that the
        program measured; the run keeps them.

    Raises:
        DataError, ConfigError: see `open_splits`; or a range is missing for images that are not 8-bit RGB.
    """
    if found:
        saved, names = config_from_dict(found.state.get("config"), str(found.path)).data, _FORMERLY_MEASURED
        kept = {name: getattr(saved, name) for name in names if getattr(config.data, name) is None}
        config = replace(config, data=replace(config.data, **kept))
    splits = open_splits(config)
    if not found:
        check_is_complete(config, splits.train)
    return config, splits
