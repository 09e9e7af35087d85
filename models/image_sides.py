"""The sizes of images that a generator takes."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class ImageSides:
    """The heights and widths that a generator takes: multiples of `multiple`, at least `minimum`, in pixels."""

    multiple: int
    minimum: int

    def check(self, images: Tensor) -> None:
        """Raise ValueError if (N, C, H, W) images have other sides; tracing makes it a guard of the program."""
        for side in images.shape[2:]:
            if side % self.multiple or side < self.minimum:
                raise ValueError(
                    f"a side of {side} pixels, expected a multiple of {self.multiple}, at least {self.minimum}"
                )
