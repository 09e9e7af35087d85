"""The sizes of images that a generator takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ImageSides:
    """The heights and widths that a generator takes: multiples of `multiple`, from `minimum` on, in pixels."""

    multiple: int
    minimum: int
