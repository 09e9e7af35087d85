"""The samples that a run is trained on, and those of its validations."""

from dataclasses import dataclass

from configs import build
from configs.schema import Config
from configs.splits import HELD_BACK, TRAIN, divided, validation_split
from data.groups import groups_of, shared_beginnings, suggested_setting
from data.layout import Layout
from data.subset import smallest_share
from utils.errors import ConfigError
from utils.text import counted

USUAL_SHARE = 0.05  # of train.validation_share


@dataclass(frozen=True)
class Splits:
    """The training samples, and where those of the validations come from.

    validation: name of their split: TRAIN where they are trained on too, HELD_BACK where train.validation_share keeps
        them out of training.
    held_back: those samples; None in the other cases.
    """

    train: Layout
    validation: str
    held_back: Layout | None = None

    def open_validation(self, config: Config) -> Layout:
        """Return the layout that the validation samples are read from.

        Raises:
            DataError: a folder of the validation split is missing, or a file has no partner.
        """
        if self.validation == TRAIN:
            return self.train
        return self.held_back or build.build_layout(config, self.validation, needs_targets=True)


def open_splits(config: Config) -> Splits:
    """Return the splits of a run.

    Raises:
        DataError: a folder is missing or empty, or a file has no partner.
        ConfigError: train.validation_share holds back no sample, or all; or train.validation_group finds no group.
    """
    train, share = build.build_layout(config, TRAIN, needs_targets=True), config.train.validation_share
    own, group = validation_split(config), config.train.validation_group
    if own or not share:
        return Splits(train, own or TRAIN)
    rest, held_back = divided(config, train)
    if not len(rest) or not len(held_back):
        which, remedy = ("every", "lower it")
        if not len(held_back):
            which, remedy = ("no", f"raise it to {smallest_share(train, group):g} or more")
        drawn = f"sample of {len(train)}" if group is None else f"group of {len(set(groups_of(train.names, group)))}"
        raise ConfigError(f"train.validation_share is {share:g}, which holds back {which} {drawn}: {remedy}")
    return Splits(rest, HELD_BACK, held_back)


def describe_validation(config: Config, splits: Splits, n_samples: int) -> list[str]:
    """Return lines of the plan: the validation samples, and what to know of them."""
    share, best = config.train.validation_share, config.checkpoint.best
    line = f"validation     {counted(n_samples, 'sample')} of {splits.validation}"
    if splits.held_back:
        return [
            f"validation     {n_samples} of {counted(len(splits.held_back), 'training sample')} held back by "
            f"train.validation_share={share:g}{_groups(config, splits.train, splits.held_back)}",
            *([] if config.train.validation_group else _shared(splits.train, splits.held_back)),
        ]
    if splits.validation != TRAIN:
        return [f"{line}; train.validation_share has no effect" if share else line]
    usual = max(USUAL_SHARE, smallest_share(splits.train))
    remedy = f"add a split val, or hold samples back: train.validation_share={usual:g}"
    if config.data.validation_split:
        remedy = "name another data.validation_split, or leave it out"
    return [
        f"{line}, which are trained on: {remedy}",
        *([f"warning        checkpoint.best={best} chooses by training samples"] if best != "none" else []),
    ]


def _groups(config: Config, train: Layout, held_back: Layout) -> str:
    """Return how many groups are held back, of how many; empty without train.validation_group."""
    pattern = config.train.validation_group
    if pattern is None:
        return ""
    held, rest = (len(set(groups_of(layout.names, pattern))) for layout in (held_back, train))
    each = ": each sample is one" if held + rest == len(held_back) + len(train) else ""
    return f", {held} of {held + rest} groups of train.validation_group={pattern}{each}"


def _shared(train: Layout, held_back: Layout) -> list[str]:
    """Return a warning where names of both sides begin alike, as the slices of a patient do."""
    shared = shared_beginnings(train.names, held_back.names)
    if not shared:
        return []
    (ours, theirs), *others = shared
    more = f", and {counted(len(others), 'other beginning')}" if others else ""
    return [
        f"warning        training and held-back names begin alike: {ours} and {theirs}{more}; if these are of one "
        f"patient or scene, {suggested_setting(ours)} keeps them on one side"
    ]
