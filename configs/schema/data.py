"""Section `data`: the data set and its preprocessing."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import lt
from typing import TYPE_CHECKING, Any, Literal, Self

from configs.schema.checks import MOST_FRACTION, Section, interval, number, numbers, require, setting
from utils.errors import ConfigError
from utils.label_colors import LabelColors
from utils.limits import MAX_CHANNELS, MOST_ELASTIC, OF_VOLUME
from utils.yaml_file import shortened

if TYPE_CHECKING:
    from data.layout import RegisteredLayout

DIRECTIONS = ("AtoB", "BtoA")
RGB_CHANNELS = (1, 3)  # grey and RGB
_TYPES = ("uint8", "uint16", "int16", "float32")
_PNG_CHANNELS = {"uint8": (1, 2, 3, 4), "uint16": (1, 3, 4)}
TARGET_FILES = ("uint8.png", "uint16.png", *(f"{kind}.{suffix}" for suffix in ("tif", "npy") for kind in _TYPES))
VOLUME_FILES = tuple(f"{kind}.{suffix}" for kind in ("int16", "float32") for suffix in ("nii.gz", "mha", "nrrd"))
SIZED_BY_CROP = ("resize_and_crop", "scale_width_and_crop", "crop")
LayoutName = Literal[
    "synthetic_facades",
    "paired_folders",
    "side_by_side",
    "unpaired_folders",
    "paired_volumes",
    "unpaired_volumes",
    "synthetic_day_night",
]
_OF_SCALED = [0.0, 1.0]  # range of the sources with OF_VOLUME
_MOST_NEIGHBOURS = 16
_ARE_CHANNELS = range(1, MAX_CHANNELS + 1).__contains__


@dataclass(frozen=True)
class DataConfig(Section, prefix="data."):
    """The data set, and how its images are resized, cropped and augmented."""

    layout: LayoutName = "synthetic_facades"
    """Layout of the data set on disk. unpaired_folders: any number of images of two domains, without pairs.
    paired_volumes, unpaired_volumes: slices of NIfTI, MetaImage, NRRD or DICOM volumes. The two synthetic layouts need
    no files, because the program creates their images. synthetic_facades: label maps and photos of house fronts.
    synthetic_day_night: house fronts by day, and other fronts on winter nights. Only val and test have pairs."""
    root: str = ""
    """Folder with the images, or with the tar files and the index that tools.convert_data to-shards writes."""
    source_folder: Any = None
    """Folder of the sources below root. `{split}` becomes train, val or test. Default: {split}_label if n_classes is
    set, otherwise {split}_A; unpaired_folders also reads {split}A. For a list of folders, such as
    [{split}_rgb,{split}_depth], the images are stacked along the channels. If n_classes or label_colors is set, the
    first folder of the list holds the label maps."""
    target_folder: str | None = None
    """Folder of the targets. Default: {split}_img if n_classes is set, otherwise {split}_B."""
    weight_folder: str | None = None
    """paired_folders: folder of pixel weights for the targets, such as {split}_weight. They apply to the losses l1,
    feature_matching and perceptual, and to some metrics. Weight 0 ignores a pixel. In 8- and 16-bit files, the highest
    possible value means weight 1. Float files hold the weights themselves. null: equal weights."""
    mask_folder: str | None = None
    """Layouts of volumes: folder of the masks, such as {split}_mask. Values above 0 are inside the mask. Only slices
    that touch the mask are used. Voxels outside the mask have weight 0, as with weight_folder. null: no masks."""
    axis: Literal["axial", "coronal", "sagittal", "all"] = "axial"
    """Layouts of volumes: axis of the slices. all: slices along each of the three axes."""
    neighbours: int = number(0, most=_MOST_NEIGHBOURS)
    """paired_volumes: number of slices before and after each slice that are added to its source as channels."""
    direction: Literal["AtoB", "BtoA"] = "AtoB"
    """Direction of the translation, if sources are images."""
    n_classes: int = number(0)
    """Number of classes of the label maps, with ids 0 to n_classes-1. 0: sources are images, unless label_colors or the
    layout synthetic_facades defines classes."""
    label_colors: dict[str, Any] = field(default_factory=dict)
    """paired_folders: the colours of the classes, if label maps hold colours. Values: cityscapes, cmp_facades, or a
    YAML file with lines such as road: [128, 64, 128]. tools.convert_data colors-to-ids writes such a file. Checkpoints
    store the lines, not the file name. {} or null: label maps hold ids."""
    source_channels: int = setting(3, _ARE_CHANNELS, f"1 to {MAX_CHANNELS}")
    """Number of source channels. 8-bit images: 3 for RGB, 1 for grey. Other images: the number of channels in the
    files, up to 64. Several source folders: the sum over all folders."""
    target_channels: int = setting(3, _ARE_CHANNELS, f"1 to {MAX_CHANNELS}")
    """Number of target channels."""
    source_range: Any = None
    """Source values that are mapped to -1 and 1: [low,high] for all channels, or [low,high,low,high,…] with a pair for
    each channel. Values outside are clamped. Files with more than 8 bits need this setting. train.py and check_data
    suggest measured values. Default: 0 and 255. volume: percentiles 0.1 and 99.9 of each volume, for MRI."""
    target_range: list[float] | None = None
    """Target values that are mapped to -1 and 1."""
    target_files: str | None = None
    """Data type and format of the images that test.py writes, such as uint16.png, if targets are not 8-bit RGB. Types:
    uint8, uint16, int16, float32. Formats: png, tif, npy. Default: float32.tif with target_range, otherwise uint8.png.
    Volumes: int16 or float32 in nii.gz, mha or nrrd. Default: source's format, int16 (float32 for range [0,1])."""
    ignore_id: int | None = number(None)
    """Id of pixels without a class, 255 in many data sets. Such pixels are 0 in every one-hot channel."""
    instance_edges: bool = False
    """Add a channel with the edges between instances to the source. This needs instance maps."""
    instances: Any = "{split}_inst"
    """paired_folders: folder of the instance maps, for instance_edges and encoded features. connected: each connected
    region of a class in the label map is an instance. A list of class ids, or of names from label_colors, such as
    [car,rider]: only these classes are divided into connected regions; each other class is one instance. instance_edges
    ignores the list."""
    preprocess: Literal["resize_and_crop", "scale_width", "scale_width_and_crop", "crop", "none"] = "scale_width"
    """resize_and_crop: resize to load_width x load_height, then crop at random. scale_width: resize to load_width and
    keep the aspect ratio. scale_width_and_crop: the same as scale_width, then crop at random. crop: crop at random
    without resizing. none: use the whole image, resized only to the nearest size that the generator accepts."""
    load_width: int = number(1024, least=1)
    """Width after resizing, in pixels."""
    load_height: int = number(512, least=1)
    """Height after resizing, in pixels. Only resize_and_crop uses it."""
    crop_width: int = number(512, least=1)
    """Width of the crop, in pixels."""
    crop_height: int = number(512, least=1)
    """Height of the crop, in pixels."""
    flip: bool = True
    """Mirror half of the training samples, left to right."""
    quarter_turns: bool = False
    """Turn training samples by 0, 90, 180 or 270 degrees; by 0 or 180 if they are not square."""
    rotation_degrees: list[float] = interval(-180, 180)
    """Rotate training samples counter-clockwise by a random angle in [lowest,highest], such as [-10,10]. Reflections
    fill the borders. []: off."""
    zoom: list[float] = interval(0.5, 2)
    """Magnify training samples by a random factor in [lowest,highest], such as [0.8,1.25]. The limits are 0.5 and 2. A
    factor is as likely as its inverse. Factors below 1 show more of the image. []: off."""
    elastic: list[float] = interval(0, MOST_ELASTIC)
    """Deform training samples smoothly. The largest displacement is random in [lowest,highest], such as [0,0.06]. Its
    unit is the shorter side of the crop. The limits are 0 and 0.12. []: off."""
    validation_split: str | None = None
    """Split for validation during training. Default: val if it exists, otherwise the samples that
    train.validation_share selects, otherwise training samples."""
    workers: int | str = setting(
        "auto", lambda n: n == "auto" or (isinstance(n, int) and n >= 0), "a number of at least 0, or auto"
    )
    """Number of loader processes per training process. 0: load in the training process. auto: one loader for every two
    CPU cores of the training process, at most 8."""
    cache: str = setting(
        "none",
        lambda place: place in ("none", "memory", "disk") or not {*place}.isdisjoint("/\\"),
        "none, memory, disk or a folder such as /scratch/cache",
    )
    """Cache decoded and resized samples as uint8. memory: in shared memory until the run ends. disk: in
    ~/.cache/pairgan, also for later runs. A folder such as /scratch/cache: as disk, but in this folder. A sample is
    decoded again if its bytes change. Half of the shared memory, or a tenth of the disk, stays free. train.py prints
    the space needed. To empty the cache, delete its subfolder samples. Volumes: none and memory mean disk."""
    on_bad_sample: Literal["error", "skip"] = "error"
    """Action for a training or validation sample that cannot be used. error: end the run. skip: log it once and use
    another (volumes: leave out the patient). The run still ends if more than 10 samples and more than 1 % are bad."""
    timeout_s: float = number(600.0)
    """Time limit for loading a batch, in seconds. If a loader process needs longer, the run ends. 0: no limit. Under
    torchrun, processes wait up to three times as long for each other, so validation and saving must take less than
    that."""
    synthetic_samples: list[int] = numbers("[train,val,test]", [1000, 16, 32], least=1)
    """Synthetic layouts: number of samples in the splits train, val and test."""
    synthetic_size: list[int] = numbers("[height,width]", [128, 128], least=32)
    """Synthetic layouts: height and width of a sample, in pixels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_label_maps(self)
        if self.source_range != OF_VOLUME:
            _check_range(self, "source_range", self.source_range, self.source_channels)
        _check_range(self, "target_range", self.target_range, self.target_channels)
        files, known = self.target_files, (*TARGET_FILES, *VOLUME_FILES)
        self.require(files is None or files in known, "target_files", f"one of {', '.join(known)}")
        expected = f"tif or npy, because this PNG format cannot hold {self.target_channels} channels"
        self.require(files is None or fits_file(files, self.target_channels), "target_files", expected)
        for side in {"resize_and_crop": ("width", "height"), "scale_width_and_crop": ("width",)}.get(
            self.preprocess, ()
        ):
            crop, loaded = getattr(self, f"crop_{side}"), getattr(self, f"load_{side}")
            self.require(crop <= loaded, f"crop_{side}", f"no more than data.load_{side} {loaded}")

    @property
    def _layout(self) -> "type[RegisteredLayout]":
        from data import LAYOUTS  # imports torch, which would delay the report of wrong settings

        return LAYOUTS[self.layout]

    @property
    def reversed(self) -> Self:
        """The same data with sources and targets exchanged. Its `target_files` can store the former sources."""
        is_plain = self.has_volumes or (self.source_range is None and self.source_channels in RGB_CHANNELS)
        of_target = f"float32.{'nii.gz' if self.has_volumes else 'tif'}" if self.source_range else "uint8.tif"
        return replace(
            self,
            direction="AtoB" if self.direction == "BtoA" else "BtoA",
            source_folder=None if self.is_stacked else self.source_folder,
            source_channels=self.target_channels,
            source_range=self.target_range,
            target_channels=self.source_channels,
            target_range=self.source_bounds,
            target_files=None if is_plain and self.source_range != OF_VOLUME else of_target,
        )

    @property
    def has_volumes(self) -> bool:
        """Whether samples are slices of volumes."""
        return self._layout.has_volumes

    @property
    def n_source_channels(self) -> int:
        """Number of source channels of a sample. Neighbouring slices are further channels."""
        return self.source_channels * (2 * self.neighbours + 1)

    @property
    def source_bounds(self) -> list[float] | None:
        """Values of the sources that are mapped to -1 and 1. Volumes with their own range are scaled to [0, 1]."""
        return _OF_SCALED if self.source_range == OF_VOLUME else self.source_range

    @property
    def has_labels(self) -> bool:
        """Whether sources are label maps. If there are several source folders, only the first one has label maps."""
        return self.n_classes > 0 or bool(self.label_colors) or self._layout.own_classes is not None

    @property
    def is_stacked(self) -> bool:
        """Whether sources are in several folders."""
        return "source" in self._layout.file_maps and isinstance(self.source_folder, list)

    @property
    def has_weight_maps(self) -> bool:
        """Whether files hold pixel weights for the targets."""
        folders = {"weights": self.weight_folder, "mask": self.mask_folder}
        return any(folder for kind, folder in folders.items() if kind in self._layout.file_maps)

    @property
    def source_images(self) -> str:
        """Name of the map with the source images: "source", or "source_images" next to label maps."""
        return "source_images" if self.is_stacked and self.has_labels else "source"

    @property
    def makes_instances(self) -> bool:
        """Whether instance maps are made from label maps."""
        is_made = self.instances == "connected" or isinstance(self.instances, list)
        return is_made and "instances" in self._layout.file_maps

    @property
    def colors(self) -> LabelColors | None:
        """Names and colours of the classes in label_colors; None if label_colors is empty."""
        key = "data.label_colors"
        return LabelColors.of(self.label_colors, key, key) if self.label_colors else None


def _check_range(data: DataConfig, key: str, bounds: Sequence[float] | None, n_channels: int) -> None:
    if bounds is not None:
        expected = f"[low,high], or low and high of each of {n_channels} channels, with low < high"
        are_numbers = all(abs(bound) <= MOST_FRACTION for bound in bounds)
        fits = are_numbers and len(bounds) in {2, 2 * n_channels}
        data.require(fits and all(map(lt, bounds[::2], bounds[1::2])), key, expected)


def _check_label_maps(data: DataConfig) -> None:
    colors, n_classes = data.colors, data.n_classes
    if colors is not None:
        expected = f"0 or {colors.n_classes}, the number of classes of data.label_colors"
        data.require(n_classes in (0, colors.n_classes), "n_classes", expected)
    names = () if colors is None else colors.names
    total = n_classes or len(names)
    chosen = data.instances if isinstance(data.instances, list) else []
    unknown = [name for name in chosen if name not in names and not _is_id(name, total)]
    expected = f"ids from 0 to {total - 1}{' or names of data.label_colors' if names else ''}"
    require(not (unknown and total), "data.instances", unknown, expected)


def _is_id(text: str, n_classes: int) -> bool:
    return text.isdecimal() and str(int(text)) == text and int(text) < n_classes


def read_source_folder(value: object, key: str) -> str | list[str] | None:
    """Return one folder as a string, several folders as a list. Accept the string "[A,B]" from the command line.

    Raises:
        ConfigError: the value does not name folders.
    """
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        value = [name.strip().strip("\"'") for name in value[1:-1].split(",")] if value[1:-1].strip() else []
    if value is None:
        return None
    given = value if isinstance(value, list) else [value]
    names = [str(name) for name in given if isinstance(name, str | int | float)]  # 2024 in YAML is a number
    if not names or len(names) < len(given) or (isinstance(value, list) and not all(name.strip() for name in names)):
        raise ConfigError(f"{key} is {value}, expected a folder, or several such as [{{split}}_rgb,{{split}}_depth]")
    return names if len(names) > 1 else names[0]


def read_source_range(value: object, key: str) -> list[float] | str | None:
    """Return a range as a list of numbers, "volume" or None. Raise ConfigError for other values."""
    with suppress(TypeError, ValueError):
        if value is None or value == OF_VOLUME or isinstance(value, list):
            return [float(bound) for bound in value] if isinstance(value, list) else value
    raise ConfigError(f"{key} is {shortened(value)}, expected a list of numbers such as [0,4095], volume or null")


def read_instances(value: object, key: str) -> str | list[str]:
    """Return a folder, "connected" or a list of classes, all as strings. Raise ConfigError for other values."""
    if isinstance(value, list) and value and all(isinstance(name, str | int) for name in value):
        return [str(name) for name in value]
    if isinstance(value, str | int) and value != "":
        return "{split}_inst" if value == "files" else str(value)
    expected = "a folder, connected, or a list of classes such as [car,rider]"
    raise ConfigError(f"{key} is {shortened(value)}, expected {expected}")


def fits_file(files: str, n_channels: int) -> bool:
    """Return whether `files`, a value of data.target_files, can store images with `n_channels` channels."""
    kind, _, suffix = files.partition(".")
    return suffix != "png" or n_channels in _PNG_CHANNELS[kind]
