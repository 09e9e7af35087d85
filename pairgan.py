"""Translate images of any size with an exported generator, in three lines.

    import pairgan
    model = pairgan.load("generator.onnx")
    model("photo.jpg").save("translated.png")

python -m pairgan MODEL IN OUT takes files and folders. Needs numpy, Pillow and onnxruntime.
"""

import argparse
import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageOps

ImageLike = str | os.PathLike[str] | Image.Image | np.ndarray
Other = ImageLike | None
Images = Iterable[ImageLike] | None
Maps = dict[str, np.ndarray]

IMAGE_FORMATS = ("PNG", "JPEG", "PPM", "BMP", "TIFF", "WEBP")
MAX_PIXELS = 89_478_485  # Pillow's own limit: a file of a few bytes can expand to more than any memory holds
MAX_SIDE = 1024  # largest `size_multiple` and `min_size` of a model
OWN_CLASSES = {"synthetic_facades": 12}  # layouts whose settings do not hold the number of classes
IDS, RGB, BYTES, FEATURES, VALUES = "ids", "RGB", "uint8", "float32 in [-1, 1]", "finite values"
_TYPES: dict[str, Any] = {IDS: np.integer, RGB: np.uint8, BYTES: np.uint8, FEATURES: np.floating}

_IN_PNG = (("uint8", 3), ("uint8", 1), ("uint16", 1))  # outputs that PNG can hold
_DIGEST = b"rJ\n\x06sha256\x12@"  # the bytes before the 64 digits that end an .onnx file of tools.export


class _OneLineError(ValueError):
    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.splitlines())))


class ModelError(_OneLineError):
    """A file of a model, or a device, cannot be used; the message names thing, value and remedy in one line."""


class ImageError(_OneLineError):
    """An image cannot be translated; the message names thing, value and remedy in one line."""


@dataclass(frozen=True)
class Model:
    """A trained generator of a file. Call it with an image; `batch` takes several images.

    inputs: Type and number of channels of the maps that the model takes, by name: source, and some of instances,
        features, source_images. Images and features of tools.precompute_features are uint8, values in another unit
        and other features float32.
    output: Type and number of channels of a translation.
    n_classes: Number of classes of its label maps, whose ids are 0 to n_classes - 1; 0 for other sources.
    ignore_id: Id of pixels without a class in label maps, or None.
    size_multiple, min_size: The sides of an image are padded to multiples of the first, and at least to the second.
    step: Training step; None for an original's weights.
    direction: Direction of the translation: AtoB, or BtoA of a CycleGAN.
    settings: Settings of the run. data.source_… describes what this model takes.
    card: Model card: facts by name, as tools.export wrote them; empty in files of earlier versions.
    run: Translates checked, padded maps (N, C, H, W) by name, and returns (N, C, scale * H, scale * W).
    """

    path: Path
    device: str
    inputs: Mapping[str, tuple[str, int]]
    output: tuple[str, int]
    n_classes: int
    ignore_id: int | None
    size_multiple: int
    min_size: int
    step: int | None
    direction: str
    settings: Mapping[str, Any] = field(repr=False)
    card: Mapping[str, Any] = field(repr=False)
    run: Callable[[Maps], np.ndarray] = field(repr=False)

    def __call__(
        self, source: ImageLike, instances: Other = None, features: Other = None, source_images: Other = None
    ) -> Any:
        """Return the translation of an image, upright by EXIF; it has the sides of the image times the scale.

        It is a PIL image in RGB, or values in the unit of the training targets: an array (C, H, W), as test.py writes
        to .npy files.

        source: A path, a PIL image or an array: RGB (H, W, 3) uint8, class ids (H, W), or values in the unit of the
            training images, (C, H, W), (H, W, C) or (H, W).
        instances: Ids of instances, in the same forms as class ids.
        features: A path, a PIL image or (H, W, 3) uint8 of any size, or (H, W, C) floats in [-1, 1] if the model takes
            float32.
        source_images: Images in addition to class ids, in the same forms as values.

        Raises:
            ImageError: A map is missing, cannot be read, has another type or size, or holds an id of no class.
        """
        others = (None if maps is None else [maps] for maps in (instances, features, source_images))
        return self.batch([source], *others)[0]

    def batch(
        self, images: Iterable[Any], instances: Images = None, features: Images = None, source_images: Images = None
    ) -> list[Any]:
        """Return the translations of several images in their order.

        Images of one padded size are computed together: give as many as fit into memory.

        images, instances, features, source_images: Lists of what `__call__` takes, one entry for each image.

        Raises:
            ImageError: See `__call__`.
        """
        given = {"source": images, "instances": instances, "features": features, "source_images": source_images}
        if any(isinstance(maps, str | os.PathLike | Image.Image) for maps in given.values()):
            raise ImageError("batch takes lists of images, not one image. Call the model with it instead.")
        lists = {name: list(maps) for name, maps in given.items() if maps is not None}
        if lists.keys() != self.inputs.keys():
            raise ImageError(f"{self.path.name} takes {', '.join(self.inputs)}; given: {', '.join(lists)}. Give those.")
        n = len(lists["source"])
        if any(len(maps) != n for maps in lists.values()):
            raise ImageError(f"given: {', '.join(f'{len(lists[k])} {k}' for k in lists)}. Give one for each image.")
        groups: dict[tuple[int, int], dict[int, Maps]] = {}
        for index, maps in enumerate(zip(*lists.values(), strict=True)):
            sample = self._sample(dict(zip(lists, maps, strict=True)), f" {index}" if n > 1 else "")
            height, width = (-(-side // self.size_multiple) * self.size_multiple for side in sample["source"].shape[:2])
            sides = max(self.min_size, height), max(self.min_size, width)
            groups.setdefault(sides, {})[index] = sample
        results: dict[int, Any] = {}
        for sides, samples in groups.items():
            translated = self._translate([*samples.values()], sides)
            results |= zip(samples, translated, strict=True)
        return [results[index] for index in range(n)]

    def __reduce__(self) -> tuple[Any, ...]:
        return load, (self.path.absolute(), self.device)

    def _translate(self, samples: list[Maps], sides: tuple[int, int]) -> list[Any]:
        """Return the translations of samples, whose maps (H, W, C) are padded to the same sides."""
        scale = self.settings.get("generator", {}).get("scale", 1)
        margins = [_margins(sample["source"].shape, sides, max(1, round(1 / scale))) for sample in samples]

        def stacked(name: str) -> np.ndarray:
            padded = (np.pad(s[name], [*m, (0, 0)], mode="reflect") for s, m in zip(samples, margins, strict=True))
            return np.stack([pixels.transpose(2, 0, 1) for pixels in padded])

        try:
            translated = self.run({name: stacked(name) for name in self.inputs})
        except Exception as error:  # the errors of runtimes have no base of their own
            what = f"{len(samples)} of {sides[1]}x{sides[0]}: {_reason(error)}"
            raise ImageError(f"{what}. Give smaller images, or fewer together.") from error
        results = []
        for pixels, around in zip(translated, margins, strict=True):
            places = zip(sides, around, strict=True)
            own = [slice(int(before * scale), math.ceil((side - after) * scale)) for side, (before, after) in places]
            cut = np.ascontiguousarray(pixels[:, *own])
            results.append(Image.fromarray(cut.transpose(1, 2, 0)) if self.output == ("uint8", 3) else cut)
        return results

    def _sample(self, given: Mapping[str, ImageLike], number: str) -> Maps:
        """Return the maps of an image as (H, W, C) arrays of the model's types. number: End of names in messages."""
        sample: Maps = {}
        for name, image in given.items():
            title = os.fspath(image) if isinstance(image, str | os.PathLike) else f"{name}{number}"
            dtype, n_channels = self.inputs[name]
            pixels = self._pixels(image, name, title)
            height, width = sample.get("source", pixels).shape[:2]
            if name == "features" and dtype == "uint8":  # constant in each instance: no interpolation
                pixels = np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST))
            if (own := pixels.shape[:2]) != (height, width):
                raise ImageError(f"{title}: is {own[1]}x{own[0]}, its image {width}x{height}. Make them the same size.")
            if name == "instances" and (pixels.astype(dtype) != pixels).any():  # too large: only equality matters
                pixels = np.unique(pixels, return_inverse=True)[1]
            sample[name] = pixels.astype(dtype).reshape(height, width, n_channels)
        return sample

    def _pixels(self, image: ImageLike, name: str, title: str) -> np.ndarray:
        """Return a map as (H, W) ids or (H, W, C) other values."""
        (dtype, n_channels), data = self.inputs[name], self.settings["data"]
        holds = {1: IDS, 3: RGB}.get(n_channels, BYTES)
        if dtype == "float32":
            holds = FEATURES if name == "features" else VALUES
        pixels = _checked(image, title, holds, n_channels)
        top = max((data.get("source_range") or [0, 255])[1::2])
        if holds == VALUES and pixels.dtype == np.uint8 and top > 255:
            raise ImageError(f"{title}: holds 8 bits, the training images values up to {top:.9g}. Give such values.")
        if name != "source" or not self.n_classes:
            return pixels
        is_ignored = pixels == self.ignore_id  # nowhere for None
        if len(wrong := np.argwhere(((pixels < 0) | (pixels >= self.n_classes)) & ~is_ignored)):
            (row, column), found = wrong[0], pixels[*wrong[0]]
            allowed = f"0 to {self.n_classes - 1}" + ("" if self.ignore_id is None else f" and {self.ignore_id}")
            what = f"pixel (row {row}, column {column}) holds id {found}, allowed are {allowed}"
            raise ImageError(f"{title}: {what}. Change it, or train with data.ignore_id={found}.")
        return np.where(is_ignored, self.n_classes, pixels)


def load(path: str | os.PathLike[str], device: Literal["auto", "cpu", "cuda"] = "auto") -> Model:
    """Return the generator of a .onnx file that tools.export wrote, with its conditioning inside; it holds no code.

    device: "auto" takes a GPU if onnxruntime can use one.

    Raises:
        ModelError: The file, onnxruntime or the device cannot be used.
    """
    file = Path(path)
    if file.suffix != ".onnx" or not file.is_file():
        raise ModelError(f"{file}: is missing, or no .onnx file. Write one with python -m tools.export --format onnx.")
    try:
        content = file.read_bytes()
        before, mark, digest = content[: -64 - len(_DIGEST)], content[-64 - len(_DIGEST) : -64], content[-64:]
        if mark == _DIGEST and digest != hashlib.sha256(before).hexdigest().encode():  # earlier versions have no digest
            raise ModelError(f"{file}: has changed since its export. Copy or export it again, or remove its sha256.")
        return _load_onnx(file, device)
    except ModelError:
        raise
    except ImportError as error:
        raise ModelError(f"{file}: onnxruntime is missing: {_reason(error)}. Run pip install onnxruntime.") from error
    except Exception as error:  # onnxruntime's errors have no base of their own
        raise ModelError(f"{file}: onnxruntime cannot read it: {_reason(error)}. Export it again.") from error


def _load_onnx(file: Path, device: str) -> Model:
    import onnxruntime as ort

    names = ["CPUExecutionProvider"] if device == "cpu" else ["CUDAExecutionProvider", "CPUExecutionProvider"]
    session = ort.InferenceSession(file, providers=[name for name in names if name in ort.get_available_providers()])
    place = "cuda" if "CUDAExecutionProvider" in session.get_providers() else "cpu"  # it falls back by itself
    if device == "cuda" and place == "cpu":
        raise ModelError("device: onnxruntime cannot use a GPU. Install onnxruntime-gpu, or choose cpu.")
    facts = session.get_modelmeta().custom_metadata_map
    found = f"{facts.get('format', 'another program')} {facts.get('format_version', '')}".strip()
    if found not in [f"pairgan-generator {version}" for version in (1, 2, 3)]:
        raise ModelError(f"{file}: is of {found}, expected pairgan-generator 1 to 3. Write it with tools.export.")
    nodes = (*session.get_inputs(), *session.get_outputs())  # types such as tensor(uint8)
    inputs = {node.name: (node.type[7:-1].replace("float", "float32"), int(node.shape[1])) for node in nodes}
    output = inputs.pop("translated")
    if inputs["source"][0] == "float32" and found[-1] != "3":
        raise ModelError(f"{file}: was exported with --conditioning outside. Omit it, or use torch or onnxruntime.")
    data = (settings := json.loads(facts["config"]))["data"]
    n_colors = len({*data.get("label_colors", ())} - {"ignored"})
    n_classes = OWN_CLASSES.get(data["layout"]) or data["n_classes"] or n_colors
    multiple, least, scale = int(facts["size_multiple"]), int(facts["min_size"]), settings["generator"].get("scale", 1)
    if not (1 <= multiple <= MAX_SIDE and 1 <= least <= MAX_SIDE and 0.25 <= scale <= 4):
        raise ModelError(f"{file}: invalid size_multiple {multiple}, min_size {least}, scale {scale}. Export it again.")
    maps = (inputs, output, int(n_classes), data["ignore_id"], multiple, least, json.loads(facts["step"]))
    about = (facts.get("direction", "AtoB"), settings, json.loads(facts.get("card", "{}")))
    return Model(file, place, *maps, *about, run=lambda given: np.asarray(session.run(["translated"], given)[0]))


def _margins(own: tuple[int, ...], sides: tuple[int, int], unit: int) -> list[tuple[int, int]]:
    """Return how many rows, and columns, are added before and after: half each, before them a multiple of `unit`."""
    starts = [(side - n) // 2 // unit * unit for n, side in zip(own, sides, strict=False)]
    return [(start, side - n - start) for n, side, start in zip(own, sides, starts, strict=False)]


def _checked(image: ImageLike, title: str, holds: str, n_channels: int) -> np.ndarray:
    """Return (H, W) ids or (H, W, C) other values, read as test.py does."""
    pixels = image if isinstance(image, np.ndarray) else _read(image, title, holds)
    if holds in (BYTES, VALUES):
        pixels = pixels.transpose(1, 2, 0) if pixels.ndim == 3 and len(pixels) == n_channels else np.atleast_3d(pixels)
    types = _TYPES.get(holds, (np.integer, np.floating))
    has_shape = pixels.ndim > 1 and pixels.shape[2:] == (() if holds == IDS else (n_channels,))
    is_fit = has_shape and 0 < math.prod(pixels.shape[:2]) <= MAX_PIXELS and issubclass(pixels.dtype.type, types)
    if is_fit and holds in (FEATURES, VALUES):
        is_fit = bool(abs(pixels).max() <= 1 if holds == FEATURES else np.isfinite(pixels).all())
    if not is_fit:
        wanted = "(H, W) ids" if holds == IDS else f"(H, W, {n_channels}) {'uint8' if holds == RGB else holds}"
        what = f"holds {pixels.shape} {pixels.dtype}, expected array {wanted} of 1 to {MAX_PIXELS} pixels"
        raise ImageError(f"{title}: {what}.")
    return pixels


def _read(image: Any, title: str, holds: str) -> np.ndarray:
    """Return the pixels of a path or a PIL image."""
    try:
        if not isinstance(image, Image.Image) and Path(image).suffix.lower() == ".npy":
            return np.load(image, allow_pickle=False)
        with nullcontext(image) if isinstance(image, Image.Image) else Image.open(image, formats=IMAGE_FORMATS) as read:
            return _decoded(read, holds)
    except Exception as error:  # decoders raise all kinds of errors on damaged files
        is_refused = isinstance(error, ImageError)
        what = f"{error}" if is_refused else f"cannot be read as an image: {_reason(error)}. Check the file."
        raise ImageError(f"{title}: {what}") from error


def _decoded(image: Image.Image, holds: str) -> np.ndarray:
    """Return the pixels of an image: ids as they were saved, RGB from its high bytes, or values without conversion."""
    is_16_bit = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")  # 16-bit PGM
    is_jpeg = image.format in ("JPEG", "MPO") or image.info.get("compression") == "jpeg"
    is_fit = {
        IDS: (is_16_bit or image.mode in ("1", "L", "P", "I")) and not is_jpeg,  # JPEG changes ids
        RGB: is_16_bit or image.mode not in ("I", "F"),
    }.get(holds, image.mode not in ("1", "P", "CMYK"))
    if not is_fit:
        what = f"holds {image.mode} pixels in {image.format}, expected {holds}"
        raise ImageError(f"{what}. Save ids as grey PNG, colours as PNG of 8 or 16 bits, and values as .npy.")
    image.load()
    image = ImageOps.exif_transpose(image)
    pixels = np.asarray(image)
    if holds == IDS:
        return pixels.astype(np.int32)
    if holds != RGB:
        return pixels.astype(np.uint16) if is_16_bit else pixels
    if is_16_bit:
        image = Image.fromarray((pixels.astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    return np.array(image.convert("RGB"))


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.partition("\n")[0].split()).rstrip(".")


def _tasks(model: Model, files: Mapping[str, Path], output: Path) -> dict[Path, Mapping[str, Path]]:
    """Return the files of each result, by name of the map. files: Files of one image, or folders of several."""
    model.batch([], **{name: [] for name in files if name != "source"})  # refuses wrong maps, once for all files
    source = files["source"]
    if not source.is_dir():
        return {output: files}
    for folder in files.values():
        if output.resolve().is_relative_to(folder.resolve()) or folder.resolve().is_relative_to(output.resolve()):
            raise ImageError(f"{output}: lies within {folder}, or around it. Choose another OUT.")
    suffixes = [".npy", *(suffix for suffix, kind in Image.registered_extensions().items() if kind in IMAGE_FORMATS)]
    tasks: dict[Path, Mapping[str, Path]] = {}
    for file in sorted(source.rglob("*")):
        stem = file.relative_to(source).with_suffix("").as_posix()
        if file.suffix.lower() not in suffixes or file.is_dir() or "/." in f"/{stem}":  # hidden
            continue
        maps = {name: next(folder.glob(f"{escape(stem)}.*"), folder / stem) for name, folder in files.items()}
        result = output / (stem + (".png" if model.output in _IN_PNG else ".npy"))
        if tasks.setdefault(result, maps | {"source": file})["source"] != file:
            raise ImageError(f"{file}: another image has the same name. Keep one of them.")
    if not tasks:
        raise ImageError(f"{source}: holds no image. Name another folder.")
    return tasks


def _translate_files(model: Model, files: Mapping[str, Path], output: Path) -> None:
    """Write the translation of the maps in some files; after an error there is no new file."""
    kind = Image.registered_extensions().get(output.suffix.lower())
    if kind not in IMAGE_FORMATS and output.suffix.lower() != ".npy":
        raise ImageError(f"{output}: no name of an image. Choose one that ends in .png.")
    if output.exists() and any(file.exists() and output.samefile(file) for file in (model.path, *files.values())):
        raise ImageError(f"{output}: is also read. Choose another OUT.")
    translated = model(**files)
    if kind == "PNG" and model.output[1] == 1 and model.output in _IN_PNG:
        translated = Image.fromarray(translated[0])
    if kind and not isinstance(translated, Image.Image):
        raise ImageError(f"{output}: cannot hold {len(translated)} x {translated.dtype}. Choose one that ends in .npy.")
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.parent / f".{output.name}.writing"
    try:
        with unfinished.open("wb") as file:
            translated.save(file, kind, quality=95) if kind else np.save(file, translated)
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)


def main() -> None:
    """Translate what the command line names; exit with code 2 after an error of the user, if only of one image."""
    parser = argparse.ArgumentParser("python -m pairgan", description="Translate images with an exported generator.")
    parser.error = lambda message: parser.exit(2, f"error: {message}; see --help\n")  # type: ignore[method-assign]
    parser.add_argument("model", metavar="MODEL", help=".onnx file that tools.export wrote")
    parser.add_argument("source", metavar="IN", type=Path, help="image or label map, or a folder of them")
    parser.add_argument("output", metavar="OUT", type=Path, help="file of the result, or folder; existing are replaced")
    for name in ("instances", "features", "source-images"):
        parser.add_argument(f"--{name}", metavar="PATH", type=Path, help="another map, for a model that takes it")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    files = {name: value for name, value in vars(parser.parse_args()).items() if value}
    output, has_failed = files.pop("output"), False
    try:
        model = load(files.pop("model"), files.pop("device"))
        for result, read in _tasks(model, files, output).items():
            try:
                _translate_files(model, read, result)
            except ImageError as error:
                has_failed = True
                sys.stderr.write(f"error: {error}\n")
        if has_failed:
            parser.exit(2)
    except KeyboardInterrupt:
        parser.exit(130)
    except OSError as error:
        parser.exit(2, f"error: {ImageError(f'{output}: {_reason(error)}. Choose another OUT.')}\n")
    except (ModelError, ImageError) as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
