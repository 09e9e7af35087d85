"""Joined pictures as pix2pix stores them, A on the left and B on the right, in place of sources."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from torch import Tensor

from configs import build
from configs.schema import Config
from configs.stored_images import stored_forms
from data.batch import DataError, Sample
from data.files.image_files import read_size
from data.layout import Layout, Origin
from utils.errors import UserError
from utils.log import logger
from utils.text import counted

Side = Literal["A", "B"]

TOLERANCE = 0.1  # of the aspect ratio: 16:9 is not twice 1:1


class JoinedPictures:
    """A layout in whose samples some sources are joined pictures: one half of each is the source.

    side: the half that is the source: A is the left one.
    joined: the indices of the joined pictures. If all are, the other halves are the targets.
    """

    def __init__(self, layout: Layout, side: Side, joined: frozenset[int]) -> None:
        self.n_classes = layout.n_classes
        self.names = layout.names
        self.folders = layout.folders
        self.files = layout.files
        self._layout = layout
        self.side = side
        self._joined = joined

    def __len__(self) -> int:
        return len(self._layout)

    def origin(self, index: int) -> Origin:
        """See Layout."""
        whole = self._layout.origin(index)
        return Origin(f"{whole.rule} half {self.side}", whole.files) if index in self._joined else whole

    def read(self, index: int) -> Sample:
        """Read sample `index` at full size.

        Raises:
            DataError: its files cannot be used, or the width of a joined picture is odd.
        """
        sample = self._layout.read(index)
        if index not in self._joined:
            return sample
        width = sample.source.shape[-1]
        if width % 2:
            (path, *_) = self._layout.origin(index).files
            raise DataError(f"{path}: is {width} pixels wide, expected two halves of equal width. Add --side none.")
        source, other = self._halves(sample.source)
        return replace(
            sample,
            source=source,
            instances=None if sample.instances is None else self._halves(sample.instances)[0],
            target=other if len(self._joined) == len(self) else None,
        )

    def _halves(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return the half of the source and the other one."""
        left, right = image.split(image.shape[-1] // 2, dim=-1)
        return (left, right) if self.side == "A" else (right, left)


def without_joined_pictures(
    layout: Layout, config: Config, side: Literal["A", "B", "none"] | None, *, has_targets: bool
) -> Layout:
    """Return the layout of --input with one half of each joined picture as source, and report that.

    side: A or B takes that half of every picture; none takes every picture as it is; None decides by the aspect ratio,
        for runs of the layout side_by_side.
    has_targets: whether the samples have targets already.

    Raises:
        DataError: the pictures may be joined, but the aspect ratio of the training is not known; or sources are label
            maps, or have targets.
    """
    if side == "none" or (side is None and config.data.layout != "side_by_side"):
        return layout
    if config.generator.scale != 1:
        raise DataError(
            f"--side {side}: sides have one size, and generator.scale={config.generator.scale:g}. Remove it."
        )
    if stored_forms(config.data):
        raise DataError(f"--side {side}: only 8-bit RGB pictures are joined. Remove --side.")
    if layout.n_classes:
        raise DataError(f"--side {side}: sources are label maps, which have no sides. Remove --side.")
    joined = range(len(layout)) if side else _recognized(layout, config)
    if not joined:
        return layout
    if has_targets:
        raise DataError("--targets: pictures of two sides bring their targets. Remove --targets, or add --side none.")
    chosen: Side = side or ("A" if config.data.direction == "AtoB" else "B")
    half = f"{chosen}, the {'left' if chosen == 'A' else 'right'} half"
    if side is None:
        half += f" of {len(joined)} of {counted(len(layout), 'image')}, twice as wide as in training; "
        half += "--side none takes each as a source"
    logger.info("side         %s", half)
    return JoinedPictures(layout, chosen, frozenset(joined))


def _recognized(layout: Layout, config: Config) -> Sequence[int]:
    """Return the indices of the pictures that are about twice as wide as those of the training.

    Raises:
        DataError: a picture may be joined, but the aspect ratio of the training is not known.
    """
    trained = _trained_aspect(config)
    joined = []
    for index in range(len(layout)):
        path = layout.origin(index).files[0]
        try:
            height, width = read_size(path)
        except DataError:  # reported when the sample's turn comes
            continue
        if width % 2 or width <= height / 2:
            continue
        if trained is None and width > height:
            raise DataError(
                f"{path}: may hold a source and its target side by side, as in training. Add --side A or B for one "
                "half, or --side none."
            )
        if trained is not None and abs(width / 2 / height / trained - 1) <= TOLERANCE:
            joined.append(index)
    return joined


def _trained_aspect(config: Config) -> float | None:
    """Return width / height of the sources of the training: of its first sample, or as resized; None if not known."""
    try:
        height, width = build.build_layout(config, "train", needs_targets=False).read(0).source.shape[-2:]
    except (UserError, OSError):  # a data set that has moved
        data = config.data
        return data.load_width / data.load_height if data.preprocess == "resize_and_crop" else None
    return float(width / height)
