"""Image files of all kinds that a data set may hold, each with what is to become of it."""

import io
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from data.preprocessing import Preprocessing
from tests.conftest import save_image

HEIGHT, WIDTH = 24, 32
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
IMAGE = Image.fromarray(PIXELS)
GREY = PIXELS[..., 0]
TURNED = {  # EXIF's orientation -> how the pixels then lie in the file
    1: PIXELS,
    2: PIXELS[:, ::-1],
    3: PIXELS[::-1, ::-1],
    4: PIXELS[::-1],
    5: PIXELS.transpose(1, 0, 2),
    6: np.rot90(PIXELS, 1),
    7: np.rot90(PIXELS, 2).transpose(1, 0, 2),
    8: np.rot90(PIXELS, -1),
}


@dataclass(frozen=True)
class Case:
    """A file. content: its bytes; refused: the reason printed, None where it is read; pixels: (H, W, 3) then."""

    content: bytes
    refused: str | None = None
    pixels: np.ndarray | None = None
    suffix: str = ".png"


def encoded(image: Image.Image, image_format: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=image_format, **options)
    return buffer.getvalue()


def flipped(content: bytes) -> bytes:
    """With a bit in the middle of it changed."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]


def png(width: int, height: int, depth: int, color: int, rows: bytes, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG as its chunks say it, which no encoder would write."""
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + body


def oriented(pixels: np.ndarray, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(Image.fromarray(np.ascontiguousarray(pixels)), exif=exif)


def _grey(levels: np.ndarray) -> np.ndarray:
    return np.repeat(levels[..., None], 3, axis=2).astype(np.uint8)


def _palette_with_transparency() -> bytes:
    levels = GREY // 64
    image = Image.fromarray(levels).convert("P")
    image.putpalette([level for number in range(4) for level in (number * 60, 10, 250 - number * 60)])
    image.putdata(levels.ravel().tolist())
    return encoded(image, transparency=bytes([0, 128, 255, 255]))


def _tiff(dtype: type) -> bytes:
    return encoded(Image.fromarray(GREY.astype(dtype)), "TIFF")


_PALETTE = np.array([(number * 60, 10, 250 - number * 60) for number in range(4)], dtype=np.uint8)
_NOT_READ = "cannot be read as an image: "
_DEEP = GREY.astype(np.uint16) * 256 + 77
_RGBA = np.dstack([PIXELS, GREY])
_LA = Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(GREY.T.reshape(HEIGHT, WIDTH).copy())])
_RED = Image.new("RGB", (WIDTH, HEIGHT), "red")
_TEXT_BOMB = zlib.compress(bytes(2_000_000))  # Pillow reads 1 MiB of a text

CASES = {
    "empty": Case(b"", _NOT_READ + "it is empty"),
    "garbage": Case(bytes(range(256)) * 4, _NOT_READ + "it is damaged, or its format is none of PNG, JPEG"),
    "html": Case(b"\n<!DOCTYPE html><html>404</html>", _NOT_READ + "it is an HTML"),
    "lfs pointer": Case(b"version https://git-lfs.github.com/spec/v1\noid", _NOT_READ + "it is a Git LFS pointer"),
    "gif": Case(encoded(IMAGE, "GIF"), _NOT_READ + "it is a GIF; save it as PNG"),
    "truncated png": Case(encoded(IMAGE)[:120], _NOT_READ),
    "truncated jpeg": Case(encoded(IMAGE, "JPEG")[:-300], _NOT_READ, suffix=".jpg"),
    "flipped png header": Case(encoded(IMAGE)[:20] + flipped(encoded(IMAGE)[20:24]) + encoded(IMAGE)[24:], _NOT_READ),
    "flipped jpeg": Case(flipped(encoded(IMAGE, "JPEG")), suffix=".jpg"),  # JPEG has no checksum
    "bomb": Case(png(10**6, 10**6, 1, 0, b""), r"1000000x1000000 pixels take 4e\+03 GB, more than a quarter of this"),
    "text bomb": Case(
        png(8, 8, 8, 0, bytes(9 * 8), (b"zTXt", b"k\0\0" + _TEXT_BOMB)), _NOT_READ + "Decompressed data too large"
    ),
    "cmyk": Case(encoded(_RED.convert("CMYK"), "TIFF"), None, np.array(_RED), ".tif"),
    "la": Case(encoded(_LA), None, _grey(GREY)),
    "rgba": Case(encoded(Image.fromarray(_RGBA)), None, PIXELS),
    "palette": Case(_palette_with_transparency(), None, _PALETTE[GREY // 64]),
    "1-bit": Case(encoded(Image.fromarray(GREY > 127)), None, _grey((GREY > 127) * 255)),
    "16-bit": Case(encoded(Image.fromarray(_DEEP)), None, _grey(GREY)),
    "float": Case(_tiff(np.float32), "holds floating-point numbers, expected", suffix=".tif"),
    "32-bit": Case(_tiff(np.int32), "holds 32-bit integers, expected", suffix=".tif"),
    "animated png": Case(encoded(IMAGE, save_all=True, append_images=[_RED]), None, PIXELS),
    "animated webp": Case(
        encoded(IMAGE, "WEBP", save_all=True, append_images=[_RED], lossless=True), None, PIXELS, ".webp"
    ),
    "pages": Case(encoded(IMAGE, "TIFF", save_all=True, append_images=[_RED]), None, PIXELS, ".tiff"),
    **{f"exif {number}": Case(oriented(pixels, number), None, PIXELS) for number, pixels in TURNED.items()},
    "damaged exif": Case(encoded(IMAGE, exif=b"Exif\0\0no TIFF at all"), None, PIXELS),
    "wrong extension": Case(encoded(IMAGE), None, PIXELS, ".jpg"),
    "1x1": Case(encoded(IMAGE.resize((1, 1))), "is 1x1, too small for a crop of 16x16"),
    "smaller than the crop": Case(encoded(IMAGE.resize((32, 12))), "is 32x12, too small for a crop of 16x16"),
    "unreadable": Case(encoded(IMAGE), _NOT_READ + "Permission denied"),
}


def size_of(case: Case) -> tuple[int, int]:
    """Width and height of the partner that fits a case."""
    try:
        image = Image.open(io.BytesIO(case.content))
    except (OSError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return WIDTH, HEIGHT
    return image.size if image.size in ((1, 1), (32, 12)) else (WIDTH, HEIGHT)


def write(path: Path, case: Case) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(case.suffix).write_bytes(case.content)
    return path.with_suffix(case.suffix)


def fill(folder: Path, entries: str, pixels: np.ndarray = PIXELS) -> None:
    """Make entries: `NAME` an image, `NAME->PLACE` a link, `NAME:` text, `NAME/` a folder, `NAME|` a pipe.

    `-NAME` removes one.
    """
    for entry in entries.split(" "):
        name, _, place = entry.partition("->")
        path = folder / name.strip("-:|")
        path.parent.mkdir(parents=True, exist_ok=True)
        if place:
            path.unlink(missing_ok=True)
            path.symlink_to(folder / place)
        elif name.startswith("-"):
            path.unlink()
        elif name.endswith(":"):
            path.write_text("text")
        elif name.endswith("/"):
            path.mkdir(parents=True)
        elif name.endswith("|"):
            os.mkfifo(path)
        else:
            save_image(path, pixels)


WHOLE = Preprocessing(
    mode="none", load_height=1, load_width=1, crop_height=1, crop_width=1, flip=False, size_multiple=8, min_size=8
)
