"""Translate images of any size with an exported generator, in three lines.

    import pairgan
    model = pairgan.load("generator.onnx")
    model("photo.jpg").save("translated.png")

python -m pairgan MODEL IN OUT does the same. Needs numpy, Pillow, and onnxruntime for .onnx or torch for .pt2 files.
"""

import argparse
import io
import json
import os
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import ExifTags, Image

Device = Literal["auto", "cpu", "cuda"]
ImageLike = str | os.PathLike[str] | Image.Image | np.ndarray
Images = Iterable[ImageLike]
Maps = dict[str, np.ndarray]
Run = Callable[[Maps], np.ndarray]

IMAGE_FORMATS = ("PNG", "JPEG", "PPM", "BMP", "TIFF", "WEBP")
MAX_PIXELS = 89_478_485  # Pillow's own limit: a file of a few bytes can expand to more than any memory holds
OWN_CLASSES = {"synthetic_facades": 12}  # of data sets whose settings do not hold their number
_UPRIGHT = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}  # EXIF's orientation: the Image.Transpose that undoes it
_PLAIN = re.compile(r"\w+/\w+_config\.json|weights/weight_\d+|constants/tensor_\d+|sample_inputs/model\.pt")
_TREE = r"""(?:\\"|["\s,:{}\[\]]|\d+|builtins\.(?:tuple|dict)|[a-z]+(?:_[a-z]+)*(?![\w.]))*+"""
_STRINGS = {  # by key: all that the strings of a program may hold, since torch evaluates some of them
    "expr_str": r"(?:Symbol\('\w+'|(?:Integer|Add|Mul|FloorDiv|CleanDiv|PythonMod|Max|Min)\(|-?\d+|\w+=True|[ ,)])*+",
    "guards_code": r"(?:L\['\w+'\]\.size\(\)\[\d\]|\d+|\*(?!\*)|[=!<>]=|[<>%+(), /-]|\b(?:and|or|not|Max|Min|Mod)\b)*+",
    "target": r"torch\.ops\.aten\.(?!from_file)(?:__or__|_?[a-z]\w*)\.[A-Za-z]\w*|_operator\.floordiv",
    **dict.fromkeys(("in_spec", "out_spec"), _TREE),
    **dict.fromkeys(("stack_trace", "nn_module_stack", "torch_fn", "torch_version"), r"(?s:.*)"),
}
_NAME = r"(?!torch\.|math\.|_operator\.)[A-Za-z_]\w*(?:\.\w+)*|"


class _OneLineError(ValueError):
    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class ModelError(_OneLineError):
    """A file of a model, or a device, cannot be used; the message names thing, value and remedy in one line."""


class ImageError(_OneLineError):
    """An image cannot be translated; the message names thing, value and remedy in one line."""


@dataclass(frozen=True)
class Model:
    """A trained generator of a file. Call it with an image; `batch` takes several. device: "cpu" or "cuda".

    inputs: type and number of channels of the maps that it takes by name: "source"; "instances" if it takes them;
        "features" if it takes them, uint8 as tools.precompute_features writes them, or float32.
    n_classes: of its label maps, ids 0 .. n_classes-1; 0 for RGB images. ignore_id: of pixels without a class, or None.
    size_multiple, min_size: the sides of an image are padded to multiples of the first, and at least to the second.
    step: of the training; None for weights of pix2pixHD or pix2pix. settings: of the run, by section and name.
    """

    path: Path
    device: str
    inputs: Mapping[str, tuple[str, int]]
    n_classes: int
    ignore_id: int | None
    size_multiple: int
    min_size: int
    step: int | None
    settings: Mapping[str, Any] = field(repr=False)
    _run: Run = field(repr=False)

    def __call__(
        self, source: ImageLike, instances: ImageLike | None = None, features: ImageLike | None = None
    ) -> Image.Image:
        """Return the translation of an image: RGB, of the image's size times the scale, upright by EXIF.

        source: a path, a PIL image or an array: RGB (H, W, 3) uint8, or (H, W) class ids; instances: ids in such forms.
        features: uint8: a path, a PIL image or (H, W, 3) uint8, of any size; float32: (H, W, C) floats in [-1, 1].
        Raises ImageError if one is missing, cannot be read, is of another kind or size, or holds an id of no class.
        """
        return self.batch([source], *(None if maps is None else [maps] for maps in (instances, features)))[0]

    def batch(
        self, images: Images, instances: Images | None = None, features: Images | None = None
    ) -> list[Image.Image]:
        """Return the translations of several images in their order; each argument holds what __call__ takes.

        Images of one padded size are computed together: give as many as fit into memory. Errors are those of __call__.
        """
        given = {"source": images, "instances": instances, "features": features}
        if any(isinstance(maps, str | os.PathLike | Image.Image) for maps in given.values()):
            raise ImageError("batch takes lists of images, not one image. Call the model with it instead.")
        lists = {kind: list(maps) for kind, maps in given.items() if maps is not None}
        if lists.keys() != self.inputs.keys():
            wanted = " and ".join(self.inputs)
            raise ImageError(f"{self.path.name} takes {wanted}, given: {', '.join(lists)}. Give those.")
        n = len(lists["source"])
        if {len(maps) for maps in lists.values()} != {n}:
            raise ImageError(f"given: {', '.join(f'{len(lists[k])} {k}' for k in lists)}. Give one for each image.")
        groups: dict[tuple[int, ...], list[tuple[int, Maps]]] = {}
        for index in range(n):
            sample = self._sample({k: lists[k][index] for k in lists}, f" {index}" if n > 1 else "")
            multiples = (-(-side // self.size_multiple) * self.size_multiple for side in sample["source"].shape[:2])
            groups.setdefault(tuple(max(self.min_size, side) for side in multiples), []).append((index, sample))
        unit = max(1, round(1 / (scale := self.settings.get("generator", {}).get("scale", 1))))
        results: dict[int, Image.Image] = {}
        for sides, samples in groups.items():
            try:
                translated = self._run({k: np.stack([_padded(s[k], sides, unit) for _, s in samples]) for k in lists})
            except Exception as error:  # the runtimes' have no base of their own
                what = f"{len(samples)} of {sides[1]}x{sides[0]}: {_line(error)}"
                raise ImageError(f"{what}. Give smaller images, or fewer together.") from error
            for (index, sample), pixels in zip(samples, translated, strict=True):
                places = ((n, (m - n) // 2 // unit * unit) for n, m in zip(sample["source"].shape, sides, strict=False))
                cut = (slice(int(start * scale), -int(-(start + n) * scale // 1)) for n, start in places)
                results[index] = Image.fromarray(pixels[:, *cut].transpose(1, 2, 0))
        return [results[index] for index in range(n)]

    def _sample(self, given: Mapping[str, ImageLike], end: str) -> Maps:
        """Return the (H, W, C) maps of an image by name, in the types of the inputs."""
        sample: Maps = {}
        for kind, image in given.items():
            name = os.fspath(image) if isinstance(image, str | os.PathLike) else f"{kind}{end}"
            dtype, n_channels = self.inputs[kind]
            if kind == "source" and self.settings["data"].get("label_colors") and not isinstance(image, np.ndarray):
                raise ImageError(f"{name}: give an (H, W) array of ids in label_colors' order. test.py takes files.")
            pixels = _pixels(image, name, dtype, n_channels)
            if kind == "source" and self.n_classes:
                is_ignored = pixels == self.ignore_id  # nowhere for None
                wrong = np.argwhere(((pixels < 0) | (pixels >= self.n_classes)) & ~is_ignored)
                if len(wrong):
                    (y, x), also = wrong[0], "" if self.ignore_id is None else f" and {self.ignore_id}"
                    also += f". Change it, or train with data.ignore_id={pixels[y, x]}."
                    what = f"{name}: pixel (row {y}, column {x}) holds id {pixels[y, x]}, allowed are 0 to"
                    raise ImageError(f"{what} {self.n_classes - 1}{also}")
                pixels = np.where(is_ignored, self.n_classes, pixels)
            height, width = sample.get("source", pixels).shape[:2]
            if kind == "features" and dtype == "uint8":  # constant in each instance: no interpolation
                pixels = np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST))
            if (own := pixels.shape[:2]) != (height, width):
                raise ImageError(f"{name}: is {own[1]}x{own[0]}, its image {width}x{height}. Make them the same size.")
            if kind == "instances" and (pixels.astype(dtype) != pixels).any():  # too large: only equality matters
                pixels = np.unique(pixels, return_inverse=True)[1]
            sample[kind] = pixels.astype(dtype).reshape(height, width, n_channels)
        return sample


def load(path: str | os.PathLike[str], device: Device = "auto") -> Model:
    """Return the generator of a .onnx or .pt2 file that tools.export wrote, with its conditioning inside.

    A .onnx file holds no code. A .pt2 file with pickles or libraries is refused, but torch's reader is not made for
    crafted files: take .pt2 files only from those you trust.
    device: auto takes a GPU where it works. Raises ModelError if the file, its package or the device cannot be used.
    """
    file = Path(path)
    if device not in ("auto", "cpu", "cuda"):
        raise ModelError(f"device: {device!r} is unknown. Choose auto, cpu or cuda.")
    if file.suffix not in (".onnx", ".pt2") or not file.is_file():
        raise ModelError(f"{file}: no such .onnx or .pt2 file. Write it with python -m tools.export --format onnx.")
    package, read = ("torch", _load_pt2) if file.suffix == ".pt2" else ("onnxruntime", _load_onnx)
    try:
        return read(file, device)
    except ModelError:
        raise
    except ImportError as error:
        raise ModelError(f"{file}: {package} is missing: {_line(error)}. Run pip install {package}.") from error
    except Exception as error:  # onnxruntime's have no base of their own, torch's are of many libraries
        raise ModelError(f"{file}: {package} cannot read it: {_line(error)}. Export it again.") from error


def _load_onnx(file: Path, device: Device) -> Model:
    import onnxruntime as ort

    names = ["CPUExecutionProvider"] if device == "cpu" else ["CUDAExecutionProvider", "CPUExecutionProvider"]
    session = ort.InferenceSession(file, providers=[name for name in names if name in ort.get_available_providers()])
    place = "cuda" if "CUDAExecutionProvider" in session.get_providers() else "cpu"  # it falls back by itself
    if device == "cuda" and place == "cpu":
        raise ModelError("device: onnxruntime cannot use a GPU. Install onnxruntime-gpu, or choose cpu.")
    nodes = session.get_inputs()  # of types such as tensor(uint8)
    inputs = {node.name: (node.type[7:-1].replace("float", "float32"), node.shape[1:2]) for node in nodes}
    facts = session.get_modelmeta().custom_metadata_map
    return _model(file, facts, inputs, place, lambda maps: np.asarray(session.run(["translated"], maps)[0]))


def _load_pt2(file: Path, device: Device) -> Model:
    import torch
    from torch.export.passes import move_to_device_pass

    facts = _facts_without_code(file, lambda content: torch.load(io.BytesIO(content), weights_only=True))
    program, place = torch.export.load(file), "cpu"
    if device == "cuda" or (device == "auto" and torch.cuda.is_available()):
        try:
            torch.zeros(1, device="cuda").add_(1).item()  # the GPU may be too old for torch's kernels
            program, place = move_to_device_pass(program, "cuda"), "cuda"
        except (AssertionError, RuntimeError) as error:
            if device == "cuda":
                raise ModelError(f"device: torch cannot use a GPU: {_line(error)}. Choose cpu.") from error
            warnings.warn(f"torch cannot use the GPU: {_line(error)}; using the CPU", stacklevel=3)
    network = program.module()
    run = torch.inference_mode()(lambda maps: network(**{n: torch.from_numpy(maps[n]).to(place) for n in maps}))
    values = {n.name: n.meta["val"] for n in program.graph.nodes if n.name in program.graph_signature.user_inputs}
    inputs = {name: (str(value.dtype).removeprefix("torch."), value.shape[1:2]) for name, value in values.items()}
    return _model(file, facts, inputs, place, lambda maps: np.asarray(run(maps).cpu()))


def _facts_without_code(file: Path, load_tensors: Callable[[bytes], object]) -> Mapping[str, str]:
    """Return the metadata of a .pt2 file; raise an error if torch would unpickle or load a library."""
    with zipfile.ZipFile(file) as archive:
        records = [(info.filename.partition("/")[2].lower(), info) for info in archive.infolist()]
        own = [info for name, info in records if name == "extra/pairgan.json"]
        facts: dict[str, str] = json.loads(archive.read(own[0])) if own else {}
        for name, info in records:
            may_be_code = not name or (name.startswith("data/") and not _PLAIN.fullmatch(name[len("data/") :]))
            if name.endswith("_config.json"):
                may_be_code |= any(entry["use_pickle"] for entry in json.loads(archive.read(info))["config"].values())
            may_be_code |= name.startswith("models/") and not _is_plain(json.loads(archive.read(info)))
            if may_be_code:  # without a folder: of an older format, which is pickled
                raise ModelError(f"{file}: {info.filename} may hold code. Export it again.")
            if name.endswith(".pt"):
                load_tensors(archive.read(info))
    return facts


def _is_plain(value: Any, key: str = "") -> bool:
    """Return whether all strings of a program's JSON have the forms of _STRINGS. key: the nearest one above."""
    if isinstance(value, dict):
        return all(_is_plain(name) and _is_plain(part, name) for name, part in value.items())
    if isinstance(value, list):
        return all(_is_plain(part, key) for part in value)
    return not isinstance(value, str) or re.fullmatch(_STRINGS.get(key, _NAME), value, re.ASCII) is not None


def _model(file: Path, facts: Mapping[str, str], types: Mapping[str, Any], place: str, run: Run) -> Model:
    """Return what the metadata and the inputs' types of a file describe."""
    found = f"{facts.get('format', 'another program')} {facts.get('format_version', '')}".strip()
    if found not in ("pairgan-generator 1", "pairgan-generator 2"):
        raise ModelError(f"{file}: is of {found}, expected pairgan-generator 1 or 2. Write it with tools.export.")
    inputs = {name: (dtype, int(channels)) for name, (dtype, (channels,)) in types.items()}
    if inputs["source"][0].startswith("float"):
        raise ModelError(f"{file}: was exported with --conditioning outside. Omit it, or use torch or onnxruntime.")
    settings, step = json.loads(facts["config"]), json.loads(facts["step"])
    data, multiple, least = settings["data"], int(facts["size_multiple"]), int(facts["min_size"])
    if multiple < 1 or least < 1:
        raise ModelError(f"{file}: size_multiple {multiple}, min_size {least}, expected 1 or more. Export it again.")
    n_classes = OWN_CLASSES.get(data["layout"], data["n_classes"] or len({*data.get("label_colors", ())} - {"ignored"}))
    return Model(file, place, inputs, n_classes, data["ignore_id"], multiple, least, step, settings, run)


def _padded(pixels: np.ndarray, sides: tuple[int, ...], unit: int) -> np.ndarray:
    """Return (C, height, width) of (H, W, C), reflected at the borders as often as needed, half on each side."""
    ends = [(n - 1, np.arange(m) - (m - n) // 2 // unit * unit) for n, m in zip(pixels.shape, sides, strict=False)]
    positions = (end - abs(end - places % max(2 * end, 1)) for end, places in ends)
    return np.ascontiguousarray(pixels[np.ix_(*positions)].transpose(2, 0, 1))


def _pixels(image: ImageLike, name: str, dtype: str, n_channels: int) -> np.ndarray:
    """Return (H, W, 3) uint8 RGB or (H, W) ids, read as test.py does, or (H, W, C) floats in [-1, 1]."""
    if isinstance(image, np.ndarray) or dtype == "float32":
        array, is_ids = np.asarray(image), n_channels == 1 and dtype != "float32"
        allowed = {"float32": np.floating, "uint8": np.integer if is_ids else np.uint8}.get(dtype, np.integer)
        is_fit = array.shape[2:] == (() if is_ids else (n_channels,)) and array.ndim > 1 and array.size > 0
        if not is_fit or not np.issubdtype(array.dtype, allowed) or (dtype == "float32" and not abs(array).max() <= 1):
            wanted = "(H, W) ids" if is_ids else f"(H, W, {n_channels}) {dtype}{' in [-1, 1]' * (dtype == 'float32')}"
            raise ImageError(f"{name}: {type(image).__name__} {array.shape} {array.dtype}, expected array {wanted}.")
        return array
    try:
        with nullcontext(image) if isinstance(image, Image.Image) else Image.open(image, formats=IMAGE_FORMATS) as read:
            return _decoded(read, n_channels)
    except Exception as error:  # Pillow's decoders raise all kinds on damaged files
        what = "{}." if isinstance(error, ImageError) else "cannot be read as an image: {}. Check the file."
        raise ImageError(f"{name}: {what.format(_line(error))}") from error


def _decoded(image: Image.Image, n_channels: int) -> np.ndarray:
    kind, is_ids = image.format, n_channels == 1
    if not 0 < image.width * image.height <= MAX_PIXELS:
        raise ImageError(f"has {image.width * image.height} pixels, expected 1 to {MAX_PIXELS}. Make it smaller.")
    if is_ids:  # as they were saved
        if image.mode not in ("1", "L", "P", "I", "I;16", "I;16L", "I;16B"):
            raise ImageError(f"holds {image.mode} pixels, expected an id per pixel. Save grey or palette PNG.")
        if image.format in ("JPEG", "MPO") or image.info.get("compression") == "jpeg":  # the latter in TIFF
            raise ImageError("JPEG changes ids when it compresses. Save the map as PNG.")
        decoder, _, _, options = (getattr(image, "tile", None) or [("", None, 0, "")])[0]
        raw = options if isinstance(options, tuple) else (options,)
        if raw[-1] not in (255, 65535) if "ppm" in decoder else str(raw[0]).startswith(("L;2", "L;4", "L;I")):
            raise ImageError("holds grey levels that Pillow rescales or inverts, not ids. Save it as 8- or 16-bit PNG.")
    image.load()
    with suppress(Exception):  # damaged metadata beside intact pixels; no orientation
        image = image.transpose(Image.Transpose(_UPRIGHT[image.getexif()[ExifTags.Base.Orientation].__index__()]))
    if is_ids:
        return np.asarray(image).astype(np.int32)
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PPM"):  # 16-bit PGM
        image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ImageError("holds more than 16 bits per pixel. Save it as 8- or 16-bit PNG.")
    return np.array(image.convert("RGB"))


def _line(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.partition("\n")[0].split()).rstrip(".")


def main() -> None:
    """Translate the image that the command line names; exit with code 2 after an error of the user."""
    parser = argparse.ArgumentParser("python -m pairgan", description="Translate images with an exported generator.")
    parser.error = lambda message: parser.exit(2, f"error: {message}; see --help\n")  # type: ignore[method-assign]
    parser.add_argument("model", metavar="MODEL", help=".onnx or .pt2 file that tools.export wrote")
    parser.add_argument("source", metavar="IN", help="image or label map")
    parser.add_argument("output", metavar="OUT", type=Path, help="file of the result; an existing one is replaced")
    for name in ("instance", "feature"):
        parser.add_argument(f"--{name}s", metavar="FILE", help=f"{name} map")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    given = parser.parse_args()
    output: Path = given.output
    unfinished = output.parent / f".{output.name}.writing"
    try:
        kind = Image.registered_extensions().get(output.suffix.lower())
        if kind not in IMAGE_FORMATS:
            raise ImageError(f"{output}: no name of an image. Choose one that ends in .png.")
        read = filter(None, (given.model, given.source, given.instances, given.features))
        if output.exists() and any(Path(file).exists() and output.samefile(file) for file in read):
            raise ImageError(f"{output}: is also read. Choose another OUT.")
        translated = load(given.model, given.device)(given.source, given.instances, given.features)
        output.parent.mkdir(parents=True, exist_ok=True)
        translated.save(unfinished, kind, quality=95)
        unfinished.replace(output)
    except KeyboardInterrupt:
        parser.exit(130)
    except (ModelError, ImageError, OSError) as error:
        problem = ImageError(f"{output}: {_line(error)}. Choose another OUT.") if isinstance(error, OSError) else error
        parser.exit(2, f"error: {problem}\n")
    finally:
        with suppress(OSError):
            unfinished.unlink()


if __name__ == "__main__":
    main()
