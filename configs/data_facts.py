"""Facts about the source and target images of a translation direction, derived from the settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from configs.schema import DataConfig
from configs.schema.checks import require
from configs.schema.data import RGB_CHANNELS, fits_file
from data import LAYOUTS
from data.conditioning import Conditioning, ValueRange
from data.files.image_files import StoredForm
from data.map_reader import MapReader, source_kinds
from data.paired_folders import folder_patterns
from data.volume_cache import AXES
from data.volumes import Patterns, SliceRule
from utils.gallery import Swatch
from utils.label_colors import CITYSCAPES, IGNORED, LabelColors
from utils.limits import OF_VOLUME
from utils.pictures import label_colors
from utils.text import counted, exact, listed

EIGHT_BITS = (0.0, 255.0)
_UNIT = (0.0, 1.0)
_CLASS_WEIGHTS = "loss.class_weights"


@dataclass(frozen=True)
class DataFacts:
    """Facts about the sources and the targets of a direction. `configs.build.data_facts` returns them.

    n_classes: Number of classes of the label maps; 0 if sources are images.
    classes: Names and colours of the classes; None if they have no names, or if sources are images.
    ignored_id: Id of pixels without a class; None if each pixel has a class.
    source_images: Name of the map with the source images: "source", or "source_images" next to label maps.
    stack: Source folders whose images are stacked along the channels; empty if there is only one folder.
    storage: Storage formats of images that are not 8-bit RGB, by map name ("source", "source_images", "target").
    ranges: Value ranges from the settings, by map name.
    target_files: Data type and format of translated files, such as uint16.png; None for 8-bit RGB.
    file_colors: Colours of the classes in label map files; None if these files hold ids.
    divided_classes: Ids of classes whose connected regions are instances. Empty: all. None: files hold the instances.
    conditioning: Converts batches to the inputs of the networks.
    """

    n_classes: int
    classes: LabelColors | None
    ignored_id: int | None
    source_images: str
    stack: Sequence[str]
    storage: Mapping[str, StoredForm]
    ranges: Mapping[str, ValueRange]
    target_files: str | None
    file_colors: LabelColors | None
    divided_classes: frozenset[int] | None
    conditioning: Conditioning

    @property
    def class_colors(self) -> Tensor:
        """Colours of the classes for display, (K, 3) uint8."""
        return label_colors(self.n_classes) if self.classes is None else self.classes.colors[: self.n_classes]

    @property
    def has_source_images(self) -> bool:
        """Whether sources have image channels, with or without label maps."""
        return not self.n_classes or self.conditioning.source_image_channels > 0

    @property
    def reads_instances(self) -> bool:
        """Whether samples need an instance map from a file."""
        return self.conditioning.needs_instances and self.divided_classes is None

    @property
    def target_dtype(self) -> torch.dtype:
        """Data type of translated images."""
        dtype = getattr(torch, (self.target_files or "uint8.png").partition(".")[0])
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def trained_storage(self) -> dict[str, StoredForm]:
        """Storage formats for new files. They include the highest training values, to detect files in another range."""
        highest = {kind: self.bounds(kind)[1::2] for kind in self.storage}
        by_channel = {k: highest[k] * (form.n_channels // len(highest[k])) for k, form in self.storage.items()}
        return {kind: replace(form, highest=by_channel[kind]) for kind, form in self.storage.items()}

    @property
    def page_obstacle(self) -> str | None:
        """The reason why web pages and videos cannot show the images; None if they can show them."""
        if self.stack:
            return "takes sources from several folders"
        return None if self.conditioning.is_8_bit else "translates images that are not 8-bit RGB"

    def bounds(self, kind: str) -> tuple[float, ...]:
        """Return the value range of a map: (low, high), or (low, high, low, high, …) for its channels."""
        if kind not in self.ranges:
            return EIGHT_BITS
        values = self.ranges[kind]
        return tuple(bound for pair in zip(values.low, values.high, strict=True) for bound in pair)

    def map_reader(self, storage: Mapping[str, StoredForm], *, needs_instances: bool) -> MapReader:
        """Return a reader of the maps of samples. It computes instance maps only if `needs_instances` is true."""
        return MapReader(
            n_classes=self.n_classes,
            ignore_id=None if self.file_colors else self.ignored_id,
            forms=storage,
            colors=self.file_colors,
            divided_classes=self.divided_classes if needs_instances else None,
            target_scale=self.conditioning.target_scale,
        )

    def legend(self, of_pictures: LabelColors | None = None) -> list[Swatch]:
        """Return names and colours of the classes for a gallery; empty if the classes have no names.

        of_pictures: Classes of the targets, if sources are images and targets show a label map in colours.
        """
        table = self.classes or (None if self.n_classes else of_pictures)
        if table is None:
            return []
        swatches = [Swatch(name, bytes(color).hex()) for name, color in zip(table.names, table.rgb, strict=False)]
        return [*swatches, Swatch(IGNORED, "000000")] if self.classes and self.ignored_id is not None else swatches

    def describe_pixels(self) -> list[str]:
        """Return a line with the channels and value ranges of each map that is not 8-bit RGB."""
        lines = []
        for kind, form in self.storage.items():
            bounds = self.bounds(kind)
            shown = [f"{exact(low)} to {exact(high)}" for low, high in zip(bounds[::2], bounds[1::2], strict=True)]
            files = f", written as {self.target_files}" if kind == "target" and self.target_files else ""
            folders = f" of {', '.join(self.stack)}" if self.stack and kind != "target" else ""
            name = "source images" if kind == "source_images" else f"{kind}s"
            lines.append(f"{name:<15}{counted(form.n_channels, 'channel')}{folders}, values {listed(shown, 4)}{files}")
        return lines


def named_classes(data: DataConfig) -> LabelColors | None:
    """Return the classes of the layout or of data.label_colors. If 35 classes have no names, use Cityscapes' names."""
    if (known := LAYOUTS[data.layout].own_classes or data.colors) or data.n_classes != len(CITYSCAPES):
        return known
    rgb = tuple((red, green, blue) for red, green, blue in (bytes.fromhex(kind.color) for kind in CITYSCAPES))
    return LabelColors("cityscapes", tuple(kind.name for kind in CITYSCAPES), rgb)


def divided_classes(data: DataConfig) -> frozenset[int]:
    """Return the ids of the classes that are divided into connected regions; empty if all classes are divided."""
    names = () if data.colors is None else data.colors.names
    chosen = data.instances if isinstance(data.instances, list) else []
    return frozenset(names.index(name) if name in names else int(name) for name in chosen)


def number_of_classes(data: DataConfig, classes: LabelColors | None) -> int:
    """Return the number of classes of label maps; 0 if sources are images.

    Raises:
        ConfigError: data.n_classes contradicts the classes of the data set.
    """
    if classes is None:
        return data.n_classes
    expected = f"{classes.n_classes} as in data.layout={data.layout}. Leave data.n_classes out"
    require(data.n_classes in (0, classes.n_classes), "data.n_classes", data.n_classes, expected)
    return classes.n_classes


def storage_formats(data: DataConfig) -> dict[str, StoredForm]:
    """Return the storage formats by map name. 8-bit RGB images from a single folder need no storage format."""
    return {
        kind: StoredForm(n_channels, key, is_8_bit=bounds is None)
        for kind, key, n_channels, bounds in images_of(data)
        if bounds is not None or n_channels not in RGB_CHANNELS or (kind != "target" and data.is_stacked)
    }


def images_of(data: DataConfig) -> Iterator[tuple[str, str, int, list[float] | None]]:
    """Yield a tuple for each map that holds images, for example ("target", "data.target_channels", 3, value range)."""
    if not data.has_labels or data.is_stacked:
        bounds = data.source_bounds
        if bounds and len(bounds) > 2:  # one pair per source folder; all folders have equally many channels
            n_each = data.n_source_channels // data.source_channels
            bounds = [bound for start in range(0, len(bounds), 2) for bound in bounds[start : start + 2] * n_each]
        yield data.source_images, "data.source_channels", data.n_source_channels, bounds
    yield "target", "data.target_channels", data.target_channels, data.target_range


def volume_patterns(data: DataConfig) -> Patterns:
    """Return the patterns of sources, targets and masks in layouts of volumes."""
    a = [pattern or "{split}_A" for pattern in folder_patterns(data.source_folder)]
    b = [data.target_folder or "{split}_B"]
    sources, targets = (a, b) if data.direction == "AtoB" else (b, a)
    masks = {"mask": data.mask_folder} if data.mask_folder else {}
    return {**dict(zip(source_kinds(len(sources)), sources, strict=True)), "target": targets[0], **masks}


def slice_rule(data: DataConfig) -> SliceRule:
    """Return how slices of volumes become samples."""
    return SliceRule(
        axes=AXES if data.axis == "all" else (data.axis,),
        neighbours=data.neighbours,
        scales_sources=data.source_range == OF_VOLUME,
        least_sides=(data.crop_height, data.crop_width) if data.preprocess == "crop" else (0, 0),
    )


def target_files(data: DataConfig) -> str | None:
    """Return data.target_files. By default, return a format that can hold the target values; None for 8-bit RGB."""
    chosen = data.target_files
    if data.has_volumes:
        low, high = data.target_range or _UNIT
        is_integer = float(low).is_integer() and float(high).is_integer() and high - low > 1
        return chosen or f"{'int16' if is_integer else 'float32'}.nii.gz"
    if data.target_range is None and data.target_channels in RGB_CHANNELS:
        return chosen if chosen and chosen.startswith("uint8.") else None
    eight_bits = "uint8.png" if fits_file("uint8.png", data.target_channels) else "uint8.npy"
    return chosen or ("float32.tif" if data.target_range else eight_bits)


def allowing_missing(storage: Mapping[str, StoredForm]) -> dict[str, StoredForm]:
    """Return these storage formats, but allow source pixels without data."""
    return {kind: replace(form, allows_missing=kind != "target") for kind, form in storage.items()}


def class_weights(given: Mapping[str, float], n_classes: int, classes: LabelColors | None) -> dict[int, float]:
    """Return the class weights that are not 1, by class id. Pixels without a class have the id `n_classes`.

    given: Weights by class id or class name.

    Raises:
        ConfigError: a class does not exist or is named twice, or all weights are 0.
    """
    if not given:
        return {}
    require(n_classes > 0, _CLASS_WEIGHTS, given, "{}, because sources are not label maps")
    names = classes.names if classes else ()
    ids = {str(class_id): class_id for class_id in range(n_classes)} | {IGNORED: n_classes}
    ids |= {name: class_id for class_id, name in enumerate(names)}
    some = f", names such as {listed(names, 8)}" if names else ""
    unknown = [name for name in given if name not in ids]
    require(not unknown, _CLASS_WEIGHTS, unknown, f"ids from 0 to {n_classes - 1}{some}, or {IGNORED}")
    weights: dict[int, float] = {}
    for name, weight in given.items():
        require(ids[name] not in weights, _CLASS_WEIGHTS, name, "each class only once, by its id or its name")
        weights[ids[name]] = weight
    has_weight = any(weights.get(class_id) != 0 for class_id in range(n_classes))
    require(has_weight, _CLASS_WEIGHTS, given, "a class with a weight above 0")
    return {class_id: weight for class_id, weight in weights.items() if weight != 1}
