"""The meaning of the samples of a TIFF page: grey levels, colours, palette indices and transparency."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from PIL import Image

WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
PHOTOMETRIC, _COLOR_MAP, _INK_SET = 262, 320, 332  # tags
FAX, JPEG = (2, 3, 4), (6, 7)  # compressions
PREMULTIPLIED, STRAIGHT = 1, 2
_ALPHA = (PREMULTIPLIED, STRAIGHT, 999)  # values of ExtraSamples; a program writes the last one and means STRAIGHT
_STORED_COLORS = {WHITE_IS_ZERO: 1, BLACK_IS_ZERO: 1, RGB: 3, PALETTE: 1, CMYK: 4, YCBCR: 3}
_NAMES = {
    **dict.fromkeys((WHITE_IS_ZERO, BLACK_IS_ZERO), "grey"),
    RGB: "RGB",
    PALETTE: "palette",
    4: "mask",
    CMYK: "CMYK",
    YCBCR: "YCbCr",
    8: "CIELab",
    9: "ICC Lab",
    10: "ITU Lab",
    32803: "colour filter array",
}


@dataclass(frozen=True)
class TiffColors:
    """The meaning of the samples of a page.

    Levels are samples with 0 as black. Pixels are grey or RGB: palettes and CMYK are converted, fewer than 8 bits are
    scaled to 255, and premultiplied colours are divided by their alpha.

    photometric: Value of the tag PhotometricInterpretation.
    n_samples: Samples of a pixel.
    bits: Bits of a sample. dtype: Its type, or None if NumPy has no such type.
    extra: ExtraSamples, a value for each sample beyond the colours.
    palette: Colours by index, (K, 3) uint8, or None.
    """

    photometric: int
    n_samples: int
    bits: Any
    dtype: np.dtype | None
    extra: tuple[int, ...]
    palette: np.ndarray | None
    has_other_inks: bool

    @classmethod
    def of(cls, page: Any) -> Self:
        """Return the meaning of the samples of a page of tifffile."""
        photometric, n_samples = _photometric(page), int(page.samplesperpixel)
        n_extra, extra = max(0, n_samples - _STORED_COLORS.get(photometric, n_samples)), tuple(page.extrasamples)
        if photometric == RGB and n_extra == 1 and not extra:
            extra = (STRAIGHT,)
        palette = None
        if photometric == PALETTE and page.colormap is not None:
            colors = np.asarray(page.colormap).T
            palette = (colors >> 8 if colors.max() > 255 else colors).astype(np.uint8)  # some programs write bytes
        has_other_inks = photometric == CMYK and page.tags.valueof(_INK_SET, 1) != 1
        all_extra = (*extra, *(0,) * n_extra)[:n_extra]
        return cls(photometric, n_samples, page.bitspersample, page.dtype, all_extra, palette, has_other_inks)

    @property
    def name(self) -> str:
        """The name of the photometric interpretation, for messages."""
        return _NAMES.get(self.photometric, f"PhotometricInterpretation {self.photometric}")

    @property
    def n_stored(self) -> int:
        """Samples of a pixel without the extra samples."""
        return _STORED_COLORS[self.photometric]

    @property
    def n_colors(self) -> int:
        """Channels of the pixels without the extra samples."""
        return 3 if self.photometric in (PALETTE, CMYK) else self.n_stored

    @property
    def alpha(self) -> int | None:
        """The channel of the pixels that is transparency, or None."""
        return next((self.n_colors + place for place, kind in enumerate(self.extra) if kind in _ALPHA), None)

    @property
    def is_photo(self) -> bool:
        """Whether pixels are grey or RGB of up to 8 bits, with no other channel but transparency."""
        has_only_alpha = len(self.extra) == (self.alpha is not None)
        return self.dtype is not None and self.dtype.kind in "bu" and self.bits <= 8 and has_only_alpha

    @property
    def pixel_type(self) -> np.dtype:
        """Type of the pixels."""
        assert self.dtype is not None
        return np.dtype(np.uint8) if self.n_colors != self.n_stored or self.bits < 8 else self.dtype

    def problem(self) -> str | None:
        """Return why the samples are not supported, with the remedy, or None."""
        if self.photometric not in _STORED_COLORS or self.has_other_inks:
            return f"holds {self.name} pixels. Save it as grey or RGB."
        if self.dtype is None or isinstance(self.bits, tuple):
            return f"holds samples of {self.bits} bits of an unknown type. Save integers or floats."
        if self.dtype.kind not in "buif":
            return f"holds {self.dtype.name}, expected integers or floats"
        if self.n_samples < self.n_stored:
            return f"has {self.n_samples} channels of {self.name} pixels. Create it again."
        is_unsigned = self.dtype.kind in "bu"
        if self.photometric == WHITE_IS_ZERO and not is_unsigned:
            return f"holds {self.dtype.name} values in which 0 is white. Save them with 0 as black."
        if self.photometric == PALETTE and not (is_unsigned and self.palette is not None):
            return (
                f"has {self.dtype.name} pixels and {'a' if self.palette is not None else 'no'} palette. Save it as RGB."
            )
        if self.photometric in (CMYK, YCBCR) and not (is_unsigned and self.bits == 8):
            return f"holds {self.name} pixels of {self.bits} bits. Save it as RGB."
        return None

    def with_black_as_zero(self, samples: np.ndarray) -> np.ndarray:
        """Return the levels of samples, (C, h, W); pages of one sample may be stacked."""
        if self.photometric != WHITE_IS_ZERO:
            return samples
        levels = samples.copy()
        levels[:: self.n_samples] ^= levels.dtype.type(2**self.bits - 1)  # alpha keeps its levels
        return levels

    def pixels(self, levels: np.ndarray, *, is_divided: bool) -> np.ndarray:
        """Return the pixels of levels, (C, h, W).

        is_divided: Whether premultiplied colours have been divided before.
        """
        scaled = levels
        if self.bits < 8:
            scaled = (levels.astype(np.uint16) * 255 // (2**self.bits - 1)).astype(np.uint8)
        if self.palette is not None:
            scaled = np.concatenate([self.palette[levels[0].astype(np.intp)].transpose(2, 0, 1), scaled[1:]])
        elif self.photometric == CMYK:
            inks = levels[: self.n_stored].transpose(1, 2, 0)
            image = Image.frombytes("CMYK", (inks.shape[1], inks.shape[0]), inks.tobytes()).convert("RGB")
            scaled = np.concatenate([np.asarray(image).transpose(2, 0, 1), scaled[self.n_stored :]])
        if PREMULTIPLIED not in self.extra or is_divided:
            return scaled
        highest = 1.0 if self.pixel_type.kind == "f" else 2.0 ** max(self.bits, 8) - 1
        alpha = scaled[self.n_colors + self.extra.index(PREMULTIPLIED)]
        colors = scaled[: self.n_colors] * highest / np.where(alpha > 0, alpha, np.inf)  # rounded down, as by libtiff
        pixels = scaled.copy()
        pixels[: self.n_colors] = colors.clip(None, highest)
        return pixels


def _photometric(page: Any) -> int:
    """Return the photometric interpretation of a page. Without the tag, it is assumed as libtiff assumes it."""
    if PHOTOMETRIC in page.tags or page.compression in JPEG:
        return int(page.photometric)
    if page.compression in FAX:
        return WHITE_IS_ZERO
    return RGB if page.samplesperpixel == 3 else BLACK_IS_ZERO
