"""Joined pictures as pix2pix stores them, A on the left and B on the right, in place of sources."""

from contextlib import suppress
from dataclasses import replace
from typing import Literal

from torch import Tensor

from configs import build
from configs.schema import Config
from configs.stored_images import stored_forms
from data.batch import DataError, Sample
from data.files.image_files import read_size
from data.layout import Layout, Provenance
from utils.errors import UserError
from utils.log import logger
from utils.text import counted

Side = Literal["A", "B"]

TOLERANCE = 0.1  # of the aspect ratio: 16:9 is not twice 1:1


class JoinedPictures(Layout):
    """A layout whose sources are joined pictures: one half of each is the source, the other one the target.

    side: the half that is the source: A is the left one.
    """

    def __init__(self, layout: Layout, side: Side) -> None:
        self.n_classes = layout.n_classes
        self.names = layout.names
        self.folders = layout.folders
        self._layout = layout
        self.side = side

    def provenance(self, index: int) -> Provenance:
        """See Layout."""
        whole = self._layout.provenance(index)
        return Provenance(f"{whole.rule} half {self.side}", whole.files)

    def read(self, index: int) -> Sample:
        """Read sample `index` at full size.

        Raises:
            DataError: its files cannot be used, or the width of the picture is odd.
        """
        sample = self._layout.read(index)
        width = sample.source.shape[-1]
        if width % 2:
            (path, *_) = self._layout.provenance(index).files
            raise DataError(f"{path}: is {width} pixels wide, expected two halves of equal width. Add --side none.")
        source, other = self._halves(sample.source)
        return replace(
            sample,
            source=source,
            instances=None if sample.instances is None else self._halves(sample.instances)[0],
            target=other,
        )

    def _halves(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return the half of the source and the other one."""
        left, right = image.split(image.shape[-1] // 2, dim=-1)
        return (left, right) if self.side == "A" else (right, left)


def without_joined_pictures(
    layout: Layout, config: Config, side: Literal["A", "B", "none"] | None, *, has_targets: bool
) -> Layout:
    """Return the layout of --input with one half of each picture as source, and report that.

    side: A or B takes that half; none takes every picture as it is; None takes a half in runs of the layout
        side_by_side, unless every picture has the proportions of a half.
    has_targets: whether the samples have targets already.

    Raises:
        DataError: sources are label maps or not 8-bit RGB, or have targets, or the sides differ in size.
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
    chosen: Side = side or ("A" if config.data.direction == "AtoB" else "B")
    side_name = f"the {'left' if chosen == 'A' else 'right'} half"
    are_halves = [] if side else _have_proportions_of_a_half(layout, config)
    if are_halves and all(are_halves):
        logger.info("side         none: images of the proportions of one half; --side %s takes %s", chosen, side_name)
        return layout
    if has_targets:
        raise DataError("--targets: pictures of two sides bring their targets. Remove --targets, or add --side none.")
    remedy = "" if side else "; --side none takes each as a source"
    logger.info("side         %s, %s of each of %s%s", chosen, side_name, counted(len(layout), "image"), remedy)
    if any(are_halves):
        text = "%d of %s have the proportions of one half: add --side none if they are sources"
        logger.warning(text, sum(are_halves), counted(len(layout), "image"))
    return JoinedPictures(layout, chosen)


def _have_proportions_of_a_half(layout: Layout, config: Config) -> list[bool]:
    """Return, for each picture that can be read, whether it has the proportions of one half of those of the training.

    Those are of the first training sample, or as resized; empty where they are not known.
    """
    found, data = list[bool](), config.data
    try:
        height, width = build.build_layout(config, "train", needs_targets=False).read(0).source.shape[-2:]
    except (UserError, OSError):  # a data set that has moved
        if data.preprocess != "resize_and_crop":
            return found
        height, width = data.load_height, data.load_width
    trained = width / height
    for index in range(len(layout)):
        with suppress(DataError):  # reported when the sample's turn comes
            height, width = read_size(layout.provenance(index).files[0])
            found.append(abs(width / height / trained - 1) <= TOLERANCE)
    return found
