"""Peculiarities of samples that training accepts and that are mistakes more often than not."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low

import numpy as np
from torch import Tensor

from data.batch import Sample
from data.checks.no_data import no_data
from data.checks.registration import displacement
from data.checks.transparency import channels_of_images, dropped_transparency
from data.files.image_files import read_bits
from data.layout import Layout
from data.stacked_sources import is_further
from data.store import Blob
from utils.text import counted

MEASURED_SHIFTS = 32  # samples of a split, spread over it
_BEGIN = 65536  # bytes
_LISTED = 3
_LISTED_CLASSES = 12
_FEWEST = 3  # pairs of which most must be displaced alike
_SMALL_SHIFT = 2  # pixels, where most pairs have it
_LARGE_SHIFT = 5  # pixels, of a single pair


@dataclass(frozen=True)
class Observation:
    """A sample's peculiarities, by kind: "source", "source_images", "target", or "pair" for a file of two.

    files: of images that are not of one colour, and of label maps with more than one id; none of weights.
    bits: of the channels of image files.
    constant: the channels, counted from 1, that have one value in all pixels.
    n_channels: of the images.
    no_data: the value that stands for no data in images, and how many pixels have it.
    classes: of a label map, those that occur; K for ignored pixels.
    n_pixels: of the images.
    equals_source: whether the target is its source.
    shift: pixels that the target lies to the right of and below its source; None where that is not measured or unclear.
    is_ignored: whether the weights of all pixels are 0.
    stack_shift: likewise of the last image of a stack and the first map.
    transparent: files with transparent pixels that are read as opaque.
    """

    name: str
    files: Mapping[str, Blob] = field(default_factory=dict)
    bits: Mapping[str, int] = field(default_factory=dict)
    constant: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    n_channels: Mapping[str, int] = field(default_factory=dict)
    no_data: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    classes: frozenset[int] = frozenset()
    n_pixels: Mapping[str, int] = field(default_factory=dict)
    equals_source: bool = False
    shift: tuple[int, int] | None = None
    is_ignored: bool = False
    stack_shift: tuple[int, int] | None = None
    transparent: Sequence[Blob] = ()


def observe(layout: Layout, index: int, sample: Sample) -> Observation:
    """Return the peculiarities of sample `index`, which has been read."""
    is_ids, target = layout.n_classes > 0, sample.target
    source = None if is_ids else sample.source
    images = {"source": source, "source_images": sample.source_images, "target": target}
    images_present = {kind: image for kind, image in images.items() if image is not None}
    constant = {kind: _constant_channels(image) for kind, image in images_present.items()}
    is_plain = {kind: len(constant[kind]) == len(image) for kind, image in images_present.items()}
    if is_ids:
        is_plain["source"] = len(_constant_channels(sample.source)) == 1
    is_plain["weights"] = True  # one mask often serves all splits
    files = _files_by_kind(layout, index)
    of_images = {*images_present, "pair", *filter(is_further, files)}
    bits = {kind: read_bits(file) for kind, file in files.items() if kind in of_images}
    missing = {kind: no_data(image, files.get(kind)) for kind, image in images_present.items()}
    is_stacked = any(map(is_further, files))
    compared = _standardized(sample.source) if is_stacked and not is_ids else sample.source
    last = sample.source if sample.source_images is None else sample.source_images
    is_measured = index % -(-len(layout) // MEASURED_SHIFTS) == 0
    return Observation(
        name=layout.names[index],
        files={kind: file for kind, file in files.items() if not is_plain.get(kind, all(is_plain.values()))},
        bits={kind: number for kind, number in bits.items() if number},
        constant=constant,
        n_channels={kind: len(image) for kind, image in images_present.items()},
        no_data={kind: found for kind, found in missing.items() if found},
        classes=values_of(sample.source) if is_ids else frozenset(),
        n_pixels={kind: image[0].numel() for kind, image in images_present.items()},
        equals_source=target is not None and _is_part(target, sample.source_images if is_ids else sample.source),
        shift=displacement(compared, target, source_is_ids=is_ids) if is_measured and target is not None else None,
        stack_shift=displacement(sample.source[:1], last[-1:], source_is_ids=is_ids)
        if is_measured and is_stacked
        else None,
        is_ignored=sample.weights is not None and not bool(sample.weights.any()),
        transparent=dropped_transparency(layout, index, channels_of_images(sample)),
    )


def values_of(ids: Tensor) -> frozenset[int]:
    """Return the values that occur in a map of ids."""
    pixels = ids.numpy().ravel()
    is_start = np.diff(pixels, prepend=pixels[:1]) != 0  # of runs of equal ids: few, and quick to sort
    is_start[:1] = True
    return frozenset(np.unique(pixels[is_start]).tolist())


def absent_classes(splits: Mapping[str, Sequence[Observation]], names: Sequence[str]) -> Iterator[str]:
    """Yield a line if the label maps that are trained on lack classes.

    names: of the classes, by id.
    """
    split = "train" if "train" in splits else next(iter(splits), "")
    occurring = frozenset().union(*(seen.classes for seen in splits.get(split, ())))
    absent = [name for number, name in enumerate(names) if number not in occurring]
    if occurring and absent:
        yield (
            f"{split}: {len(absent)} of {len(names)} classes never occur: {_listed(absent, _LISTED_CLASSES)}; nothing "
            "is learned of them"
        )


def split_warnings(observations: Sequence[Observation]) -> Iterator[str]:
    """Yield a line for each peculiarity of a split."""
    yield from _bit_warnings(observations)
    yield from _constant_warnings(observations)
    equal = [seen.name for seen in observations if seen.equals_source]
    if equal:
        yield (
            f"{_share(equal, observations)} have a target that equals its source: {_listed(equal)}; check that the "
            "folders of sources and targets are the right ones"
        )
    yield from _no_data_warnings(observations)
    ignored = [seen.name for seen in observations if seen.is_ignored]
    if ignored:
        yield f"{_share(ignored, observations)} have weights of 0 everywhere, which ignores them: {_listed(ignored)}"
    transparent = [seen.name for seen in observations if seen.transparent]
    if transparent:
        yield (
            f"transparency is dropped, which {_share(transparent, observations)} have: {_listed(transparent)}; save "
            "them on a background if the colours below it are wrong"
        )
    of_targets = {seen.name: seen.shift for seen in observations if not seen.equals_source}
    yield from _shift_warnings(of_targets, "targets")
    yield from _shift_warnings(
        {seen.name: seen.stack_shift for seen in observations}, "images of the last source folder"
    )


def repeated_samples(splits: Mapping[str, Sequence[Observation]]) -> Iterator[str]:
    """Yield a line for each split that holds samples whose sources and targets are the same files, by their bytes."""
    for split, observations in splits.items():
        similar: dict[tuple[tuple[int, bytes], ...], list[Observation]] = defaultdict(list)
        for seen in (seen for seen in observations if "pair" in seen.files or {"source", "target"} <= set(seen.files)):
            similar[tuple(map(_size_and_begin, _pair(seen)))].append(seen)
        of_content: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for seen in (seen for group in similar.values() if len(group) > 1 for seen in group):
            of_content[tuple(file.digest() for file in _pair(seen))].append(seen.name)
        copies = [f"{name} of {first}" for first, *others in of_content.values() for name in others]
        if copies:
            yield f"{split}: {_share(copies, observations)} are copies of others: {_listed(copies)}"


def _size_and_begin(blob: Blob) -> tuple[int, bytes]:
    """Return what most files differ in, without reading them to their ends: uncompressed ones have one size."""
    with blob.open() as file:
        return blob.size(), hashlib.sha256(file.read(_BEGIN)).digest()


def _pair(seen: Observation) -> list[Blob]:
    return [file for kind, file in seen.files.items() if kind in ("pair", "source", "target")]


def shared_files(splits: Mapping[str, Sequence[Observation]]) -> Iterator[str]:
    """Yield a line for each two splits that hold the same file, by its bytes."""
    of_size: dict[int, dict[str, list[Blob]]] = defaultdict(lambda: defaultdict(list))
    for split, observations in splits.items():
        for file in (file for seen in observations for file in seen.files.values()):
            of_size[file.size()][split].append(file)
    of_content: dict[str, dict[str, Blob]] = defaultdict(dict)
    for by_split in (by_split for by_split in of_size.values() if len(by_split) > 1):
        for split, file in ((split, file) for split, files in by_split.items() for file in files):
            of_content[file.digest()].setdefault(split, file)
    shared: dict[tuple[str, str], list[tuple[Blob, Blob]]] = defaultdict(list)
    for of_splits in of_content.values():
        (first, file), *others = of_splits.items()
        for other, its_file in others:
            shared[first, other].append((file, its_file))
    for (first, other), pairs in shared.items():
        file, its_file = pairs[0]
        yield (
            f"{first} and {other} share {counted(len(pairs), 'file')}, as {file} and {its_file}: of samples that were "
            "trained on, metrics are too good"
        )


def _files_by_kind(layout: Layout, index: int) -> dict[str, Blob]:
    origin = layout.origin(index)
    return dict(zip(origin.kinds or ["pair"], origin.files, strict=bool(origin.kinds)))


def _is_part(target: Tensor, source: Tensor | None) -> bool:
    """Return whether a target is a source image, or channels of it that follow each other."""
    if source is None:
        return False
    ours, theirs = source.numpy(), target.numpy()
    places = range(len(ours) - len(theirs) + 1)
    return any(np.array_equal(ours[place : place + len(theirs)], theirs) for place in places)


def _standardized(image: Tensor) -> Tensor:
    """Return the channels of a (C, H, W) image with one standard deviation, so that none outweighs the others."""
    values = image.float()
    return values / values.std(dim=(1, 2), keepdim=True).clamp_min(1e-6)


def _constant_channels(image: Tensor) -> tuple[int, ...]:
    pixels = image.numpy().reshape(len(image), -1)
    is_constant = pixels.min(axis=1) == pixels.max(axis=1)
    return tuple(channel for channel, constant in enumerate(is_constant, 1) if constant)


def _bit_warnings(observations: Sequence[Observation]) -> Iterator[str]:
    kinds = dict.fromkeys(kind for seen in observations for kind in seen.bits)
    usual: dict[str, int] = {}
    for kind in kinds:
        counts = Counter(seen.bits[kind] for seen in observations if kind in seen.bits)
        (usual[kind], _), *rare = counts.most_common()
        others = [seen.name for seen in observations if seen.bits.get(kind) in dict(rare)]
        if others:
            bits = " or ".join(str(number) for number, _ in rare)
            share = _share(others, observations)
            yield f"{_plural(kind)} have {usual[kind]} bits, those of {share} {bits}: {_listed(others)}"
    if len(set(usual.values())) > 1 and 8 in usual.values() and not any(map(is_further, usual)):
        yield f"sources have {usual['source']} bits, targets {usual['target']}; check that neither is a preview"


def _constant_warnings(observations: Sequence[Observation]) -> Iterator[str]:
    for kind in dict.fromkeys(kind for seen in observations for kind in seen.constant):
        seen_in = [seen for seen in observations if kind in seen.constant]
        plain = [seen.name for seen in seen_in if len(seen.constant[kind]) == seen.n_channels[kind]]
        if plain:
            yield f"{_plural(kind)} of {_share(plain, observations)} are of one colour: {_listed(plain)}"
        rest = [seen for seen in seen_in if seen.name not in set(plain)]
        always = set.intersection(*(set(seen.constant[kind]) for seen in rest)) if rest else set()
        for channel in sorted(always):
            yield f"channel {channel} of {_plural(kind)} is constant in every sample: it holds nothing to learn from"


def _no_data_warnings(observations: Sequence[Observation]) -> Iterator[str]:
    for kind in dict.fromkeys(kind for seen in observations for kind in seen.no_data):
        for value in sorted({seen.no_data[kind][0] for seen in observations if kind in seen.no_data}):
            those = [seen for seen in observations if kind in seen.no_data and seen.no_data[kind][0] == value]
            share = sum(seen.no_data[kind][1] for seen in those) / sum(seen.n_pixels[kind] for seen in those)
            remedy = f"replace it, or set data.{kind.removesuffix('_images')}_range=[LOW,HIGH] without it"
            if kind == "target":
                remedy += ", or give such pixels a weight of 0 (data.weight_folder)"
            yield (
                f"{_plural(kind)} of {_share([seen.name for seen in those], observations)} hold {value:.6g} in "
                f"{share:.1%} of their pixels, which seems to stand for no data: "
                f"{_listed([seen.name for seen in those])}; {remedy}"
            )


def _shift_warnings(shifts: Mapping[str, tuple[int, int] | None], what: str) -> Iterator[str]:
    measured = {name: shift for name, shift in shifts.items() if shift is not None}
    if not measured:
        return
    x, y = (median_low(shift[axis] for shift in measured.values()) for axis in (0, 1))
    alike = [name for name, shift in measured.items() if max(abs(shift[0] - x), abs(shift[1] - y)) <= 1]
    hint = "look at them with --show 12, and align the images"
    if max(abs(x), abs(y)) >= _SMALL_SHIFT and len(alike) >= max(_FEWEST, 0.6 * len(measured)):
        yield f"{what} seem to be shifted by {_place(x, y)} in {len(alike)} of {len(measured)} pairs: {hint}"
        return
    far = {name: shift for name, shift in measured.items() if max(map(abs, shift)) >= _LARGE_SHIFT}
    if far:
        places = [f"{name} by {_place(*shift)}" for name, shift in far.items()]
        yield f"{what} seem to be shifted in {len(far)} of {len(measured)} pairs: {_listed(places)}; {hint}"


def _place(x: int, y: int) -> str:
    parts = [(x, "to the right" if x > 0 else "to the left"), (y, "down" if y > 0 else "up")]
    return " and ".join(f"{counted(abs(number), 'pixel')} {where}" for number, where in parts if number)


def _plural(kind: str) -> str:
    if is_further(kind):
        return f"files of source folder {kind.rpartition('_')[2]}"
    return "source images" if kind == "source_images" else f"{kind}s"


def _share(some: Sequence[str], observations: Sequence[Observation]) -> str:
    return f"{len(some)} of {len(observations)} samples"


def _listed(names: Sequence[str], most: int = _LISTED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
