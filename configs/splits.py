"""Splits by name: those of the data set, and the samples that train.validation_share holds back from training."""

from configs import build
from configs.schema import Config
from data.batch import DataError
from data.held_back import hold_back
from data.layout import Layout

TRAIN = "train"
HELD_BACK = "held_back"


def validation_split(config: Config) -> str | None:
    """Return the data set's split for validation; None where it has none."""
    return config.data.validation_split or ("val" if build.has_split(config.data, "val") else None)


def has_split(config: Config, split: str) -> bool:
    """Return whether there are samples of a split: a folder of the data set, or HELD_BACK."""
    holds_back = split == HELD_BACK and config.train.validation_share > 0 and validation_split(config) is None
    return holds_back or build.has_split(config.data, split)


def open_split(config: Config, split: str, *, needs_targets: bool, allows_missing: bool = False) -> Layout:
    """Return a split; see `build.build_layout`.

    Raises:
        DataError: there is none of that name, a folder is missing or empty, or a file has no partner.
    """
    if split != HELD_BACK or build.has_split(config.data, split):
        return build.build_layout(config, split, needs_targets=needs_targets, allows_missing=allows_missing)
    if has_split(config, split):
        train = build.build_layout(config, TRAIN, needs_targets=needs_targets, allows_missing=allows_missing)
        _, held_back = hold_back(train, config.train.validation_share, config.train.validation_group)
        if len(held_back):
            return held_back
    raise DataError(f"split {split}: no sample was held back by train.validation_share. Choose another split.")


def check_has_split(config: Config, split: str, other_choice: str = "") -> None:
    """Raise DataError, which names the splits that there are, unless there is one of that name.

    other_choice: than another --split.
    """
    if has_split(config, split):
        return
    data = config.data
    known = ["train", "val", "test", data.test_split, *filter(None, [data.validation_split]), HELD_BACK]
    names = [name for name in dict.fromkeys(known) if has_split(config, name)]
    choices = " or ".join(f"--split {name}" for name in names)
    place = f"data.root={data.root}" if data.root else data.layout
    raise DataError(f"{place}: has no split {split!r}. Choose {', or '.join(filter(None, [choices, other_choice]))}.")
