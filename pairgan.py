"""Translate images of any size with an exported generator, in three lines.

    import pairgan
    model = pairgan.load("generator.onnx")
    model("photo.jpg").save("translated.png")

python -m pairgan MODEL IN OUT translates files or folders. Needs numpy, Pillow and onnxruntime, and tifffile for TIFFs.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

Map = str | Path | Image.Image | np.ndarray | None  # None if the model does not take the map
Others = Iterable[Map] | None
Maps = dict[str, np.ndarray]
IMAGE_FORMATS = ("PNG", "JPEG", "PPM", "BMP", "TIFF", "WEBP")
MAX_PIXELS = 89_478_485  # Pillow's limit, because a tiny file can expand to more than the memory
HIDDEN = re.compile(  # names that begin with a dot, and folders that operating systems and NAS devices add
    r"(?i)/(\.|([#@$]recycle(\.bin)?|@(eadir|recently-snapshot)|[#~]snapshot|lost\+found|__macosx|system volume \w+)/)"
)
OWN_CLASSES = {"synthetic_facades": 12}  # number of classes, if the layout itself defines the classes
BYTES, FLOATS, VALUES = "uint8", "float32 in [-1, 1]", "finite values"
_TYPES: dict[str, Any] = {"ids": np.integer, BYTES: np.uint8, FLOATS: np.floating, VALUES: (np.integer, np.floating)}
_DIGEST = b"rJ\n\x06sha256\x12@"  # start of the last metadata entry, which holds the digest of all bytes before it
_TIFF = {254: (0, 2), 255: (0, 1), 258: (8, 16, 32, 64), 262: (1, 2), 274: (0, 1), 338: (0, 2)}  # tag: allowed values
_PILLOWS_TIFF = _TIFF | {258: (0, 1, 8, 16, 32), 262: (1, 2, 3, 5, 6), 284: (0, 1), 339: (0, 1, 3)}


class _OneLineError(ValueError):
    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.splitlines())))


class ModelError(_OneLineError):
    """A model file or a device cannot be used. The message is one line: what is wrong, and how to fix it."""


class ImageError(_OneLineError):
    """An image cannot be translated. The message is one line: what is wrong, and how to fix it."""


class Card(dict[str, Any]):
    """A model card: facts by name, written by tools.export. Files of earlier versions have an empty card."""

    def __str__(self) -> str:
        return str(self.get("markdown", ""))


@dataclass(frozen=True)
class Model:
    """A trained generator. Call the model with one image, or `batch` with several."""

    path: Path
    device: str  # cpu or cuda
    inputs: Mapping[str, tuple[str, int]]  # dtype and channels of each map; RGB images are uint8, other images float32
    output: tuple[str, int]  # dtype and channels of translations
    n_classes: int  # number of classes of label maps; 0 for images
    ignore_id: int | None  # id of pixels without a class
    size_multiple: int  # sides of images are padded to multiples of this number
    min_size: int  # least side of a padded image
    step: int | None  # training step; None for weights of the original programs
    direction: str  # AtoB or BtoA
    settings: Mapping[str, Any] = field(repr=False)  # settings of the run; data.source_… describes the input
    card: Card = field(repr=False)
    run: Callable[[Maps], np.ndarray] = field(repr=False)  # translates padded (N, C, H, W) maps

    def __call__(self, source: Any, instances: Map = None, features: Map = None, source_images: Map = None) -> Any:
        """Return the translation of an image: an RGB image, or (C, H, W) values in the unit of the training targets.

        EXIF orientation is applied. The translation's sides are the source's sides times the model's scale.
        source: Path, PIL image or array. An array holds RGB (H, W, 3) uint8, class ids (H, W), or values in the unit of
            the training images, (C, H, W), (H, W, C) or (H, W). instances, source_images: Ids or values, as for source.
        features: Path, PIL image or (H, W, 3) uint8, of any size. If `inputs` says float32, give (H, W, C) in [-1, 1].
        Volumes: source and result are (D, H, W) arrays in LPS order, data.axis first. Give several sources as a list.
        Raises ImageError if a map is missing, cannot be read, has a wrong type or size, or holds an unknown class id.
        """
        return self.batch([source], *(x if x is None else [x] for x in (instances, features, source_images)))[0]

    def batch(
        self, images: Iterable[Any], instances: Others = None, features: Others = None, source_images: Others = None
    ) -> list[Any]:
        """Return the translations of several images in their order. Each argument is a list of maps for __call__.

        Images with the same padded size are computed together. Pass only as many as fit into memory. Raises ImageError.
        """
        given = {"source": images, "instances": instances, "features": features, "source_images": source_images}
        if any(isinstance(maps, str | Path | Image.Image) for maps in given.values()):
            raise ImageError("batch takes lists of images. To translate one image, call the model itself.")
        lists = {kind: list(maps) for kind, maps in given.items() if maps is not None}
        if lists.keys() != self.inputs.keys():
            raise ImageError(f"given: {', '.join(lists)}. Give the maps of {self.path.name}: {', '.join(self.inputs)}.")
        if {len(maps) for maps in lists.values()} != {n := len(lists["source"])}:
            raise ImageError(f"given: {', '.join(f'{len(lists[k])} {k}' for k in lists)}. Give one of each per image.")
        if (data := self.settings["data"])["layout"].endswith("_volumes"):
            return [self._volume(data, x if isinstance(x, list | tuple) else [x]) for x in lists["source"]]
        images = self._translated([self._sample({k: lists[k][i] for k in lists}, f" {i}" * (n > 1)) for i in range(n)])
        return [Image.fromarray(x.transpose(1, 2, 0)) for x in images] if self.output == ("uint8", 3) else images

    def _translated(self, samples: list[Maps]) -> list[np.ndarray]:
        """Translate samples, (H, W, C) each. Pad them by repeated reflection, equally on opposite sides."""
        scale, multiple = self.settings.get("generator", {}).get("scale", 1), self.size_multiple
        unit, groups = max(1, round(1 / scale)), dict[tuple[int, ...], list[tuple[int, Maps, Any]]]()
        for index, sample in enumerate(samples):
            sides = [(n, max(self.min_size, -(-n // multiple) * multiple)) for n in sample["source"].shape[:2]]
            places = [(n, m, (m - n) // 2 // unit * unit) for n, m in sides]
            margins = [*((start, m - n - start) for n, m, start in places), (0, 0)]
            cut = [slice(int(start * scale), -int(-(start + n) * scale // 1)) for n, _, start in places]
            maps = {k: np.pad(x, margins, "reflect").transpose(2, 0, 1) for k, x in sample.items()}
            groups.setdefault(maps["source"].shape, []).append((index, maps, cut))
        results = dict[int, np.ndarray]()
        for (_, height, width), group in groups.items():
            try:
                translated = self.run({k: np.stack([maps[k] for _, maps, _ in group]) for k in self.inputs})
            except Exception as error:  # onnxruntime's errors have no common base class
                what = f"{width}x{height} pixels, batch size {len(group)}: {_line(error)}"
                raise ImageError(f"{what}. Give smaller images, or fewer at once.") from error
            for (index, _, cut), pixels in zip(group, translated, strict=True):
                results[index] = np.ascontiguousarray(pixels[:, *cut])
        return [results[index] for index in range(len(samples))]

    def _volume(self, data: Mapping[str, Any], given: Iterable[Any]) -> np.ndarray:
        volumes = [x if isinstance(x, np.ndarray) else _read(x, f"{x}", VALUES, 1) for x in given]
        reach = np.arange(-data["neighbours"], data["neighbours"] + 1)
        n, shapes = self.inputs["source"][1] // len(reach), [x.shape for x in volumes]
        is_fit = len({*shapes}) == 1 and all(x.dtype.kind in "iuf" and x.size and np.isfinite(x).all() for x in volumes)
        if not is_fit or len(shapes) != n or len(shapes[0]) != 3:
            raise ImageError(f"source: has the shapes {shapes}. Give {n} finite (D, H, W) arrays of one shape.")
        crop = (data["crop_height"], data["crop_width"]) if data["preprocess"] == "crop" else (0, 0)
        more = [max(0, side - n) for side, n in zip(crop, shapes[0][1:], strict=True)]  # pads as in training
        padded = [np.pad(x, [(0, 0), *((m // 2, m - m // 2) for m in more)], constant_values=x.min()) for x in volumes]
        scaled = np.stack([_scaled(x) if data["source_range"] == "volume" else x.astype(np.float32) for x in padded])
        places, slices = np.arange(shapes[0][0])[:, None] + reach, list[np.ndarray]()
        for part in np.split(places.clip(0, len(places) - 1), range(8, len(places), 8)):  # 8 slices at a time
            slices += self._translated([{"source": np.concatenate(scaled[:, at]).transpose(1, 2, 0)} for at in part])
        cut = [slice(m // 2, m // 2 + n) for m, n in zip(more, shapes[0][1:], strict=True)]
        return np.concatenate(slices)[:, *cut].clip(*data["target_range"]).astype(self.output[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return load, (self.path.absolute(), self.device)

    def _sample(self, given: Mapping[str, Map], end: str) -> Maps:
        sample: Maps = {}
        for kind, image in given.items():
            name = str(image) if isinstance(image, str | Path) else f"{kind}{end}"
            dtype, n_channels = self.inputs[kind]
            if kind == "source" and self.settings["data"].get("label_colors") and not isinstance(image, np.ndarray):
                raise ImageError(f"{name}: give an (H, W) array of ids in label_colors' order. For files, use test.py.")
            values = "ids" if n_channels == 1 else BYTES
            values = (FLOATS if kind == "features" else VALUES) if dtype == "float32" else values
            source_range = self.settings["data"].get("source_range") or [0, 255]
            pixels = _pixels(image, name, values, n_channels, max(source_range[1::2]))
            if kind == "source" and self.n_classes:
                is_ignored = pixels == self.ignore_id  # all False if ignore_id is None
                if len(wrong := np.argwhere(((pixels < 0) | (pixels >= self.n_classes)) & ~is_ignored)):
                    (y, x), also = wrong[0], "" if self.ignore_id is None else f" and {self.ignore_id}"
                    what = f"holds id {pixels[y, x]}, allowed are 0 to {self.n_classes - 1}{also}. Change it, or train"
                    raise ImageError(f"{name}: pixel (row {y}, column {x}) {what} with data.ignore_id={pixels[y, x]}.")
                pixels = np.where(is_ignored, self.n_classes, pixels)
            height, width = sample.get("source", pixels).shape[:2]
            if kind == "features" and dtype == "uint8":  # constant in each instance, so not interpolated
                pixels = np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST))
            if (own := pixels.shape[:2]) != (height, width):
                raise ImageError(f"{name}: is {own[1]}x{own[0]}, not {width}x{height} like its image. Resize it.")
            if kind == "instances" and (pixels.astype(dtype) != pixels).any():  # renumber ids that are too large
                pixels = np.unique(pixels, return_inverse=True)[1]
            sample[kind] = pixels.astype(dtype).reshape(height, width, n_channels)
        return sample


def load(path: str | Path, device: str = "auto") -> Model:
    """Load a generator from a .onnx file of tools.export. The file describes how to encode inputs. It holds no code.

    device: cpu, cuda, or auto for a GPU if possible. Raises ModelError if file, onnxruntime or device cannot be used.
    """
    if (file := Path(path)).suffix != ".onnx" or not file.is_file():
        raise ModelError(f"{file}: is missing or not .onnx. Write one with python -m tools.export --format onnx.")
    try:
        content: Any = np.fromfile(file, np.uint8)  # files of earlier versions have no digest
        mark, digest = np.split(content[(end := max(len(content) - len(_DIGEST) - 64, 0)) :], [len(_DIGEST)])
        if mark.tobytes() == _DIGEST and digest.tobytes() != hashlib.sha256(content[:end]).hexdigest().encode():
            raise ModelError(f"{file}: has changed since export. Copy or export it again, or remove its entry sha256.")
        return _load_onnx(file, device)
    except ModelError:
        raise
    except Exception as error:  # onnxruntime's errors have no common base class
        remedy = "Run pip install onnxruntime" if isinstance(error, ImportError) else "Export it again"
        raise ModelError(f"{file}: onnxruntime cannot read it: {_line(error)}. {remedy}.") from error


def _load_onnx(file: Path, device: str) -> Model:
    import onnxruntime as ort

    names = ["CPUExecutionProvider"] if device == "cpu" else ["CUDAExecutionProvider", "CPUExecutionProvider"]
    session = ort.InferenceSession(file, providers=[name for name in names if name in ort.get_available_providers()])
    place = "cuda" if "CUDAExecutionProvider" in session.get_providers() else "cpu"  # onnxruntime can choose the CPU
    if device not in ("auto", place):
        raise ModelError(f"device: onnxruntime cannot use {device!r}. Choose auto or cpu, or install onnxruntime-gpu.")
    facts = session.get_modelmeta().custom_metadata_map
    found = f"{facts.get('format', 'another program')} {facts.get('format_version', '')}".strip()
    if found not in [f"pairgan-generator {version}" for version in (1, 2, 3)]:
        raise ModelError(f"{file}: has format {found}, expected pairgan-generator 1 to 3. Write it with tools.export.")
    nodes = (*session.get_inputs(), *session.get_outputs())  # their types are texts such as tensor(uint8)
    inputs = {node.name: (node.type[7:-1].replace("float", "float32"), int(node.shape[1])) for node in nodes}
    output = inputs.pop("translated")
    if inputs["source"][0] == "float32" and found[-1] != "3":
        raise ModelError(f"{file}: was exported with --conditioning outside. Export it without this option.")
    settings, multiple, least = json.loads(facts["config"]), int(facts["size_multiple"]), int(facts["min_size"])
    data, scale = settings["data"], settings.get("generator", {}).get("scale", 1)
    if not (1 <= multiple <= 1024 and 1 <= least <= 1024 and 0.25 <= scale <= 4):
        raise ModelError(f"{file}: invalid size_multiple {multiple}, min_size {least}, scale {scale}. Export it again.")
    n_classes = OWN_CLASSES.get(data["layout"], data["n_classes"] or len({*data.get("label_colors", ())} - {"ignored"}))
    card = Card(json.loads(facts.get("card", "{}")))
    of_file = (multiple, least, json.loads(facts["step"]), facts.get("direction", "AtoB"), settings, card)
    run = lambda maps: np.asarray(session.run(["translated"], maps)[0])  # noqa: E731
    return Model(file, place, inputs, output, int(n_classes), data["ignore_id"], *of_file, run)


def _scaled(volume: np.ndarray) -> np.ndarray:
    """Scale the percentiles 0.1 and 99.9 to 0 and 1, as in training. Percentiles ignore the lowest value."""
    above = volume[volume > volume.min()]
    low, high = (np.float32(f"{x:.6g}") for x in np.percentile(above if above.size else volume, (0.1, 99.9)))
    return (volume.astype(np.float32) - low) / (high - low if high > low else np.float32(1))


def _pixels(image: Map, name: str, values: str, n_channels: int, highest: float) -> np.ndarray:
    """Return (H, W) ids, or (H, W, C) values of other maps, as in test.py. highest: Maximum of the training images."""
    holds = {"ids": "ids", BYTES: "RGB" if n_channels == 3 else VALUES}.get(values, values)
    pixels = image if isinstance(image, np.ndarray) else _read(image, name, holds, n_channels)
    if holds == VALUES:
        pixels = pixels.transpose(1, 2, 0) if pixels.ndim == 3 and len(pixels) == n_channels else np.atleast_3d(pixels)
    is_fit = pixels.ndim > 1 and pixels.shape[2:] == (() if values == "ids" else (n_channels,))
    is_fit = is_fit and issubclass(pixels.dtype.type, _TYPES[values]) and bool(np.isfinite(pixels).all())
    if not (is_fit and 0 < pixels.size <= MAX_PIXELS * n_channels) or (values == FLOATS and abs(pixels).max() > 1):
        wanted = f"{'(H, W) ids' if values == 'ids' else f'(H, W, {n_channels}) {values}'} of 1 to {MAX_PIXELS} pixels"
        raise ImageError(f"{name}: is an array {pixels.shape} {pixels.dtype}, expected {wanted}.")
    if values == VALUES and pixels.dtype == np.uint8 and highest > 255:
        raise ImageError(f"{name}: holds 8 bits, but training values go up to {highest:.9g}. Use the same unit.")
    return pixels


def _read(image: Any, name: str, holds: str, n_channels: int) -> np.ndarray:
    try:
        suffix = Path(image).suffix.lower() if holds == VALUES and not isinstance(image, Image.Image) else ""
        if suffix == ".npy":
            return np.load(image, allow_pickle=False)
        if suffix in (".tif", ".tiff"):
            import tifffile

            with tifffile.TiffFile(image) as file:
                series = file.series[0]
                _check_tiff({tag.code: tag.value for tag in series.keyframe.tags}, _TIFF)
                if series.size > MAX_PIXELS * n_channels or n_channels not in (1, *series.shape):
                    raise ImageError(f"has the shape {series.shape}, expected {n_channels} channels. Make it smaller")
                return series.asarray()
        with nullcontext(image) if isinstance(image, Image.Image) else Image.open(image, formats=IMAGE_FORMATS) as read:
            return _decoded(read, holds)
    except Exception as error:  # decoders raise many types of errors
        remedy = "Run pip install tifffile, or give an array" if isinstance(error, ImportError) else "Check the file"
        what = "{}." if isinstance(error, ImageError) else f"cannot be read as an image: {{}}. {remedy}."
        raise ImageError(f"{name}: {what.format(_line(error))}") from error


def _decoded(image: Image.Image, holds: str) -> np.ndarray:
    is_16_bit = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM")  # 16-bit PGM
    _check_picture(image, holds)
    image.load()
    with suppress(Exception):  # metadata can be damaged although pixels are intact
        image = ImageOps.exif_transpose(image)
    if holds == "ids":
        return np.asarray(image).astype(np.int32)
    if holds == VALUES:
        return np.asarray(image).astype(np.uint16) if is_16_bit else np.array(image)
    if is_16_bit:
        image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    return np.array(image.convert("RGB"))


def _check_picture(image: Image.Image, holds: str) -> None:
    decoder, _, _, options = (getattr(image, "tile", None) or [("", None, 0, "")])[0]
    raw, last = (options[0], options[-1]) if isinstance(options, tuple) else (options, options)
    if not 0 < image.width * image.height <= MAX_PIXELS:
        raise ImageError(f"has {image.width * image.height} pixels, expected 1 to {MAX_PIXELS}. Make it smaller")
    if decoder == "jpeg" and (f := getattr(image, "fp", None)) and not f.seek(0) and f.read().count(b"\xff\xda") > 500:
        raise ImageError("has more than 500 scans, and each takes time. Save it again")
    if tags := getattr(image, "tag_v2", None):  # a TIFF
        _check_tiff(tags, _PILLOWS_TIFF | ({339: (0, 1, 2)} if image.mode == "I" and tags.prefix == b"II" else {}))
    if holds == "ids":  # Pillow must not convert ids
        if image.mode not in ("1", "L", "P", "I", "I;16", "I;16L", "I;16B"):
            raise ImageError(f"holds {image.mode} pixels, expected an id per pixel. Save it as a grey or palette PNG")
        if image.format in ("JPEG", "MPO") or image.info.get("compression") == "jpeg":  # JPEG in a TIFF
            raise ImageError("JPEG changes ids when it compresses. Save the map as PNG")
        if last not in (255, 65535) if "ppm" in decoder else f"{raw}".startswith(("L;2", "L;4", "L;I")):
            raise ImageError("holds grey levels that Pillow rescales or inverts, not ids. Save it as 8- or 16-bit PNG")
    elif holds == "RGB" and image.mode in ("I", "F") and image.format != "PPM":
        raise ImageError("holds more than 16 bits per pixel. Save it as 8- or 16-bit PNG")
    elif holds == VALUES and (image.mode in ("1", "P", "CMYK") or f"{raw}".startswith(("LA;16", "RGB;16", "RGBA;16"))):
        raise ImageError(f"holds {raw or image.mode} pixels, which Pillow converts. Give an array, .npy or TIFF")


def _check_tiff(tags: Any, read: Mapping[int, tuple[int, ...]]) -> None:
    bad = [code for code, values in read.items() if not {*np.ravel(tags.get(code, 0))} <= {*values}]
    if bad := bad + [320] * int(np.max(tags.get(320, 256)) < 256) + [322] * (tags.get(322, 0) * tags.get(323, 0) > 4e7):
        raise ImageError(f"has unsupported values of the TIFF tags {bad}. Save it as PNG or .npy")


def _line(e: Exception) -> str:
    return " ".join((getattr(e, "strerror", None) or str(e) or type(e).__name__).partition("\n")[0].split()).rstrip(".")


def _images_in(folder: Path) -> dict[str, Path]:
    files = [f for f in sorted(folder.rglob("*")) if not HIDDEN.search(f"/{f.relative_to(folder).as_posix()}/")]
    kinds = {f: Image.registered_extensions().get(f.suffix.lower()) for f in files if f.is_file() or not f.exists()}
    found: dict[str, Path] = {}
    for file in [f for f in kinds if kinds[f] in IMAGE_FORMATS] or [f for f in kinds if f.suffix.lower() == ".npy"]:
        if (first := found.setdefault(file.relative_to(folder).with_suffix("").as_posix(), file)) != file:
            raise ImageError(f"{first} and {file.name}: would write the same result. Keep one of them.")
    if not found:
        raise ImageError(f"{folder}: {'holds no image' if folder.is_dir() else 'is missing'}. Name another folder.")
    return found


def _tasks(model: Model, files: Mapping[str, Path], output: Path) -> dict[Path, Mapping[str, Path]]:
    model.batch([], **{kind: [] for kind in files if kind != "source"})  # report a wrong map once, not for each file
    if not files["source"].is_dir() and (files["source"].exists() or output.suffix):
        return {output: files}
    for folder in files.values():
        if output.resolve().is_relative_to(folder.resolve()) or folder.resolve().is_relative_to(output.resolve()):
            raise ImageError(f"{output}: is inside {folder}, or contains it. Choose another OUT.")
    found = {kind: _images_in(folder) for kind, folder in files.items()}
    suffix = ".png" if model.output in (("uint8", 3), ("uint8", 1), ("uint16", 1)) else ".npy"
    return {output / f"{n}{suffix}": {k: found[k].get(n, files[k] / n) for k in files} for n in found["source"]}


def _translate(model: Model, files: Mapping[str, Path], output: Path) -> None:
    kind = {".npy": "NPY", **Image.registered_extensions()}.get(output.suffix.lower(), "")
    if kind not in (*IMAGE_FORMATS, "NPY"):
        raise ImageError(f"{output}: not an image file name. Choose one that ends in .png.")
    if output.exists() and any(file.exists() and output.samefile(file) for file in (model.path, *files.values())):
        raise ImageError(f"{output}: is also an input. Choose another OUT.")
    translated = model(**files)
    if kind == "PNG" and isinstance(translated, np.ndarray) and len(translated) == 1 and translated.dtype.kind == "u":
        translated = Image.fromarray(translated[0])
    if kind != "NPY" and not isinstance(translated, Image.Image):
        raise ImageError(f"{output}: cannot hold {len(translated)} {translated.dtype} channels. End OUT in .npy.")
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.parent / f".{output.name}.writing"
    try:
        with unfinished.open("wb") as file:
            np.save(file, translated) if kind == "NPY" else translated.save(file, kind, quality=95)
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)


def main() -> None:
    """Translate the files of the command line. Exit with code 2 if an argument or at least one image is wrong."""
    parser = argparse.ArgumentParser("python -m pairgan", description="Translate images with an exported generator.")
    parser.error = lambda message: parser.exit(2, f"error: {message}; see --help\n")  # type: ignore[method-assign]
    parser.add_argument("model", metavar="MODEL", help=".onnx file that tools.export wrote")
    parser.add_argument("source", metavar="IN", type=Path, help="image or label map, or a folder of them")
    parser.add_argument("output", metavar="OUT", type=Path, help="result file or folder; existing files are replaced")
    for name in ("instances", "features", "source-images"):
        parser.add_argument(f"--{name}", metavar="PATH", type=Path, help="additional map, if the model takes it")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    files = {name: value for name, value in vars(parser.parse_args()).items() if value}
    output, n_failed = files.pop("output"), 0
    try:
        model = load(files.pop("model"), files.pop("device"))
        tasks = _tasks(model, files, output)
        for number, (output, read) in enumerate(tasks.items(), 1):
            try:
                _translate(model, read, output)
            except ImageError as error:
                n_failed += 1
                what = "" if f"{read['source']}" in f"{error}" else f"{read['source']}: "
                sys.stderr.write(f"error: {what}{error}\n")
            if files["source"].is_dir() and (number == len(tasks) or sys.stderr.isatty()):
                sys.stderr.write(f"{number} of {len(tasks)}" + ("\r" if number < len(tasks) else "\n"))
        if n_failed:
            parser.exit(2)
    except KeyboardInterrupt:
        parser.exit(130)
    except (ModelError, ImageError, OSError) as error:
        problem = ImageError(f"{output}: {_line(error)}. Choose another OUT.") if isinstance(error, OSError) else error
        parser.exit(2, f"error: {problem}\n")


if __name__ == "__main__":
    main()
