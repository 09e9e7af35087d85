"""The meaning of the samples of a TIFF page: grey levels, colours, palette indices and transparency."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from PIL import Image

JPEG = (6, 7)  # compressions
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _CMYK, _YCBCR = 0, 1, 2, 3, 5, 6
_PHOTOMETRIC, _INK_SET = 262, 332  # tags
_FAX = (2, 3, 4)  # compressions
_PREMULTIPLIED, _STRAIGHT = 1, 2
_ALPHA = (_PREMULTIPLIED, _STRAIGHT, 999)  # values of ExtraSamples; a program writes the last one for _STRAIGHT
_STORED_COLORS = {_WHITE_IS_ZERO: 1, _BLACK_IS_ZERO: 1, _RGB: 3, _PALETTE: 1, _CMYK: 4, _YCBCR: 3}
_NAMES = {0: "grey", 1: "grey", 2: "RGB", 3: "palette", 4: "mask", 5: "CMYK", 6: "YCbCr", 8: "CIELab", 9: "ICC Lab"}


@dataclass(frozen=True)
class TiffColors:
    """The meaning of the samples of a page.

    Pixels are grey or RGB: 0 is black, palettes and CMYK are converted, fewer than 8 bits are scaled to 255, and
    premultiplied colours are divided by their alpha.

    photometric: Value of the tag PhotometricInterpretation.
    n_samples: Samples of a pixel.
    bits: Bits of a sample. dtype: Its type, or None if NumPy has no such type.
    extra: ExtraSamples, a value for each sample beyond the colours.
    palette: Colours by index, (K, 3) uint8, or None.
    is_supported: Whether `pixels` can convert these colours.
    """

    photometric: int
    n_samples: int
    bits: Any
    dtype: np.dtype | None
    extra: tuple[int, ...]
    palette: np.ndarray | None
    is_supported: bool

    @classmethod
    def of(cls, page: Any) -> Self:
        """Return the meaning of the samples of a page of tifffile."""
        photometric, n_samples = _photometric(page), int(page.samplesperpixel)
        n_extra, extra = max(0, n_samples - _STORED_COLORS.get(photometric, n_samples)), tuple(page.extrasamples)
        if photometric == _RGB and n_extra == 1 and not extra:
            extra = (_STRAIGHT,)
        palette = None
        if photometric == _PALETTE and page.colormap is not None:
            colors = np.asarray(page.colormap).T
            palette = (colors >> 8 if colors.max() > 255 else colors).astype(np.uint8)  # some programs write bytes
        all_extra = (*extra, *(0,) * n_extra)[:n_extra]
        is_known = photometric in _STORED_COLORS and not (
            (photometric == _CMYK and page.tags.valueof(_INK_SET, 1) != 1)
            or (photometric == _YCBCR and page.compression not in JPEG)
        )
        return cls(photometric, n_samples, page.bitspersample, page.dtype, all_extra, palette, is_known)

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
        return 3 if self.photometric in (_PALETTE, _CMYK) else self.n_stored

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
    def are_pixels(self) -> bool:
        """Whether samples are pixels without a conversion."""
        is_converted = self.photometric in (_WHITE_IS_ZERO, _PALETTE, _CMYK) or _PREMULTIPLIED in self.extra
        return not is_converted and self.bits >= 8

    def problem(self) -> str | None:
        """Return why the samples are not supported, with the remedy, or None."""
        if not self.is_supported:
            return f"holds {self.name} pixels. Save it as grey or RGB."
        if self.dtype is None or isinstance(self.bits, tuple):
            return f"holds samples of {self.bits} bits of an unknown type. Save integers or floats."
        if self.dtype.kind not in "buif":
            return f"holds {self.dtype.name}, expected integers or floats"
        is_unsigned = self.dtype.kind in "bu"
        fits = {
            _WHITE_IS_ZERO: is_unsigned,
            _PALETTE: is_unsigned and self.palette is not None,
            _CMYK: is_unsigned and self.bits == 8,
            _YCBCR: is_unsigned and self.bits == 8,
        }
        if self.n_samples < self.n_stored or not fits.get(self.photometric, True):
            return f"holds {self.name} pixels of {self.n_samples} samples, {self.dtype.name}. Save it as grey or RGB."
        return None

    def with_black_as_zero(self, samples: np.ndarray) -> np.ndarray:
        """Return the levels of samples, (C, h, W); pages of one sample may be stacked."""
        if self.photometric != _WHITE_IS_ZERO:
            return samples
        levels = samples.copy()
        levels[:: self.n_samples] ^= levels.dtype.type(2**self.bits - 1)  # alpha keeps its levels
        return levels

    def pixels(self, samples: np.ndarray) -> np.ndarray:
        """Return the pixels of samples, (C, h, W)."""
        levels = self.with_black_as_zero(samples)
        scaled = levels
        if self.bits < 8:
            scaled = (levels.astype(np.uint16) * 255 // (2**self.bits - 1)).astype(np.uint8)
        if self.palette is not None:
            scaled = np.concatenate([self.palette[levels[0].astype(np.intp)].transpose(2, 0, 1), scaled[1:]])
        elif self.photometric == _CMYK:
            inks = levels[: self.n_stored].transpose(1, 2, 0)
            image = Image.frombytes("CMYK", (inks.shape[1], inks.shape[0]), inks.tobytes()).convert("RGB")
            scaled = np.concatenate([np.asarray(image).transpose(2, 0, 1), scaled[self.n_stored :]])
        if _PREMULTIPLIED not in self.extra:
            return scaled
        highest = 1.0 if scaled.dtype.kind == "f" else 2.0 ** max(self.bits, 8) - 1
        alpha = scaled[self.n_colors + self.extra.index(_PREMULTIPLIED)]
        colors = scaled[: self.n_colors] * highest / np.where(alpha > 0, alpha, np.inf)  # rounded down, as by libtiff
        pixels = scaled.copy()
        pixels[: self.n_colors] = colors.clip(None, highest)
        return pixels


def _photometric(page: Any) -> int:
    """Return the photometric interpretation of a page. Without the tag, it is assumed as libtiff assumes it."""
    if _PHOTOMETRIC in page.tags or page.compression in JPEG:
        return int(page.photometric)
    if page.compression in _FAX:
        return _WHITE_IS_ZERO
    return _RGB if page.samplesperpixel == 3 else _BLACK_IS_ZERO
