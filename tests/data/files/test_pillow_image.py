"""kornia-rs decodes what Pillow decodes, or leaves it to Pillow."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image
from PIL.ImageFile import ImageFile
from PIL.PngImagePlugin import PngInfo

from data.files import pillow_image
from data.files.pillow_image import decode_quickly

pytest.importorskip("kornia_rs")
RNG = np.random.default_rng(0)
RGB = Image.fromarray(RNG.integers(0, 255, (9, 13, 3), np.uint8)).resize((33, 17), Image.Resampling.BICUBIC)
GREY_16 = Image.fromarray(RNG.integers(0, 65535, (17, 33)).astype(np.uint16))


def with_text(name: str) -> PngInfo:
    (info := PngInfo()).add_text(name, "x", zip=name.startswith("Raw"))
    return info


PHOTOS: dict[str, tuple[Image.Image, dict[str, Any]]] = {
    "PNG": (RGB, {"dpi": (72, 72), "pnginfo": with_text("Software")}),
    "grey PNG": (RGB.convert("L"), {}),
    "16-bit PNG": (GREY_16, {}),
    "JPEG": (RGB, {"format": "JPEG", "quality": 90, "subsampling": 0}),
    "progressive JPEG": (RGB, {"format": "JPEG", "subsampling": 2, "progressive": True}),
    "JPEG of RGB": (RGB, {"format": "JPEG", "keep_rgb": True}),
}


def encoded(image: Image.Image, **options: Any) -> bytes:
    image.save(content := io.BytesIO(), **{"format": "PNG"} | options)
    return content.getvalue()


def opened(content: bytes) -> ImageFile:
    return Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))


def quick(content: bytes) -> np.ndarray | None:
    return decode_quickly(opened(content))


def test_quick_pixels_are_those_of_pillow() -> None:
    for name, (image, options) in PHOTOS.items():
        content = encoded(image, **options)
        pixels = quick(content)
        assert pixels is not None, name
        np.testing.assert_array_equal(pixels, np.asarray(opened(content)), err_msg=name, strict=True)


TURNED = Image.Exif()
TURNED[ExifTags.Base.Orientation] = 6
LEFT: dict[str, bytes] = {
    "turned PNG": encoded(RGB, exif=TURNED),
    "turned JPEG": encoded(RGB, format="JPEG", exif=TURNED),
    "PNG with EXIF in a text": encoded(RGB, pnginfo=with_text("Raw profile type exif")),
    "PNG with XMP": encoded(RGB, pnginfo=with_text("XML:com.adobe.xmp")),
    "transparent colour": encoded(RGB, transparency=(1, 2, 3)),
    "alpha": encoded(RGB.convert("RGBA")),
    "without its end": encoded(RGB)[:-12],
    "cut off JPEG": encoded(RGB, format="JPEG")[:-40],
}


def test_other_images_are_left_to_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [name for name, content in LEFT.items() if quick(content) is not None] == []
    monkeypatch.setattr(pillow_image, "kornia", None)
    assert quick(encoded(RGB)) is None
