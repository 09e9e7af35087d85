"""Warnings of peculiarities of samples that training accepts and that are mistakes more often than not."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod, sqrt
from operator import methodcaller
from statistics import median, median_low
from typing import Any, TypeVar

from data.checks.observation import Observation
from data.map_reader import is_later_source
from data.store import Blob
from utils.text import counted, exact, listed

_Entry = TypeVar("_Entry")
_BEGIN = 65536  # bytes
_LISTED_CLASSES = 12
_FEW_PICTURES = 10
_OTHER_SIDE = 2  # times as long, or as wide for their height, are the pictures of a side of another kind
_OTHER_PICTURE = 3  # likewise a picture of a side; portraits among landscapes, of 2:3 and 3:2, differ 2.25 times
_FEWEST = 3  # pairs of which most must be displaced alike
_SMALL_SHIFT = 2  # pixels, where most pairs have it
_LARGE_SHIFT = 5  # pixels, of a single pair
_OF_A_SAMPLE = {  # by the field of an observation that is not empty
    "equals_source": "{share} have a target that equals its source: {names}; check that the folders of sources and "
    "targets are the right ones",
    "is_ignored": "{share} have weights of 0 everywhere, which ignores them: {names}",
    "transparent": "{share} have transparency, which is dropped: {names}; save them on a background if the colours "
    "below it are wrong",
}


def absent_classes(splits: Mapping[str, Sequence[Observation]], names: Mapping[int, str]) -> Iterator[str]:
    """Yield a line if the label maps that are trained on lack classes.

    names: of the classes that matter, by id.
    """
    split = "train" if "train" in splits else next(iter(splits), "")
    occurring = frozenset().union(*(seen.classes for seen in splits.get(split, ())))
    absent = [name for number, name in names.items() if number not in occurring]
    if occurring and absent:
        yield (
            f"{split}: {len(absent)} of {len(names)} classes never occur: {listed(absent, _LISTED_CLASSES)}; nothing "
            "is learned of them"
        )


def split_warnings(observations: Sequence[Observation]) -> Iterator[str]:
    """Yield a line for each peculiarity of a split."""
    yield from _bit_warnings(observations)
    yield from _constant_warnings(observations)
    for field, text in _OF_A_SAMPLE.items():
        if names := [seen.name for seen in observations if getattr(seen, field)]:
            yield text.format(share=_share(names, observations), names=listed(names))
    grey = [seen.name for seen in observations if seen.side and seen.is_grey]
    if 2 * len(grey) < len(observations) and grey:
        yield f"{_share(grey, observations)} are grey, the others in colour: {listed(grey)}; leave them out"
    yield from _no_data_warnings(observations)
    of_targets = {seen.name: seen.shift for seen in observations if not seen.equals_source}
    yield from _shift_warnings(of_targets, "targets")
    of_stacks = {seen.name: seen.stack_shift for seen in observations}
    yield from _shift_warnings(of_stacks, "images of the last source folder")


def few_pictures(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each side with fewer pictures than show what they have in common."""
    for side, count in counts.items():
        if count < _FEW_PICTURES:
            yield f"{side}: {counted(count, 'picture')}, hardly enough to learn what they have in common; add some"


def different_sides(sides: Mapping[str, Sequence[Observation]]) -> Iterator[str]:
    """Yield a line for each difference, within the sides or between both, that shows of which side a picture is.

    sides: what was seen of pictures without pairs, by folder.
    """
    usual = {folder: _median_size(observations) for folder, observations in sides.items() if observations}
    for folder, size in usual.items():
        far = [seen.name for seen in sides[folder] if _is_other(_size(seen), size, _OTHER_PICTURE)]
        if far:
            share = _share(far, sides[folder])
            yield f"{folder}: {share} are of far other size or proportions than most: {listed(far)}; leave them out"
    if len(usual) < 2:
        return
    (first, size), (second, other) = usual.items()
    if _is_other(size, other, _OTHER_SIDE):
        texts = [f"{width:g}x{height:g}" for height, width in (size, other)]
        yield (
            f"{first} and {second}: images of {texts[0]} and of {texts[1]} pixels in the median; resizing blurs or "
            "stretches one side, which the networks learn too: take images of like size and proportions"
        )
    are_grey = [all(seen.is_grey for seen in sides[folder]) for folder in usual]
    if any(are_grey) and not all(are_grey):
        yield f"{first} and {second}: all images of one side are grey, those of the other are not: is that meant?"


def _size(seen: Observation) -> tuple[float, float]:
    """Return height and width of the only image of a sample."""
    return next(iter(seen.sizes.values()))


def _median_size(observations: Sequence[Observation]) -> tuple[float, float]:
    heights, widths = zip(*map(_size, observations), strict=True)
    return median(heights), median(widths)


def _is_other(size: tuple[float, float], usual: tuple[float, float], most: float) -> bool:
    """Return whether a picture is `most` times as long or as short as usual, or as wide or narrow for its height."""
    vertical, horizontal = (side / of_usual for side, of_usual in zip(size, usual, strict=True))
    return any(max(ratio, 1 / ratio) >= most for ratio in (sqrt(vertical * horizontal), vertical / horizontal))


def repeated_samples(splits: Mapping[str, Sequence[Observation]]) -> Iterator[str]:
    """Yield a line for each split, or side of one, that holds samples of the same files, by their bytes."""
    for split, observations in splits.items():
        pairs = ((seen.name, images) for seen in observations if (images := _images(seen)))
        copies = [f"{name} of {first}" for first, *others in _of_same_bytes(pairs) for name in others]
        if copies:
            yield f"{split}: {_share(copies, observations)} are copies of others: {listed(copies)}"


def _images(seen: Observation) -> list[Blob]:
    """Return the files of a sample's images; none where one of them is of a single colour, or missing."""
    images = [file for kind, file in seen.files.items() if kind in ("pair", "source", "target")]
    return images if len(images) == 2 or seen.side or "pair" in seen.files else []


def _of_same_bytes(entries: Iterable[tuple[_Entry, Sequence[Blob]]]) -> list[list[_Entry]]:
    """Return the groups of entries whose files hold the same bytes; those that differ earlier are not read whole."""
    groups = [list(entries)]
    for property_of in (methodcaller("size"), _beginning, methodcaller("digest")):
        divided: dict[tuple[Any, ...], list[tuple[_Entry, Sequence[Blob]]]] = defaultdict(list)
        for number, group in enumerate(groups):
            for entry, files in group:
                divided[number, *map(property_of, files)].append((entry, files))
        groups = [group for group in divided.values() if len(group) > 1]
    return [[entry for entry, _ in group] for group in groups]


def _beginning(blob: Blob) -> bytes:
    with blob.open() as file:
        return hashlib.sha256(file.read(_BEGIN)).digest()


def shared_files(splits: Mapping[str, Sequence[Observation]]) -> Iterator[str]:
    """Yield a line for each two splits, or sides of some, that hold the same file, by its bytes."""
    entries = (((split, file), [file]) for split in splits for seen in splits[split] for file in seen.files.values())
    shared: dict[tuple[str, str], list[tuple[Blob, Blob]]] = defaultdict(list)
    for group in _of_same_bytes(entries):
        of_splits: dict[str, Blob] = {}
        for split, file in group:
            of_splits.setdefault(split, file)
        (first, file), *others = of_splits.items()
        for other, its_file in others:
            shared[first, other].append((file, its_file))
    for (first, other), pairs in shared.items():
        file, its_file = pairs[0]
        (side,), (other_side,) = ({seen.side for seen in splits[split]} for split in (first, other))
        effect = "metrics of samples that were trained on are too good"
        if side != other_side and first[:-1] == other[:-1]:  # as trainA and trainB
            effect = "a picture of both sides teaches to change nothing; take it out of one"
        elif side != other_side:
            effect = "a picture that one side is trained on is no unseen one of the other; take it out of one"
        yield f"{first} and {other} share {counted(len(pairs), 'file')}, as {file} and {its_file}: {effect}"


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
            yield f"{_plural(kind)} have {usual[kind]} bits, those of {share} {bits}: {listed(others)}"
    if len(set(usual.values())) > 1 and 8 in usual.values() and not any(map(is_later_source, usual)):
        yield f"sources have {usual['source']} bits, targets {usual['target']}; check that neither is a preview"


def _constant_warnings(observations: Sequence[Observation]) -> Iterator[str]:
    for kind in dict.fromkeys(kind for seen in observations for kind in seen.constant):
        seen_in = [seen for seen in observations if kind in seen.constant]
        plain = [seen.name for seen in seen_in if len(seen.constant[kind]) == seen.n_channels[kind]]
        if plain:
            yield f"{_plural(kind)} of {_share(plain, observations)} are of one colour: {listed(plain)}"
        rest = [seen for seen in seen_in if seen.name not in set(plain)]
        always = set.intersection(*(set(seen.constant[kind]) for seen in rest)) if rest else set()
        for channel in sorted(always):
            yield f"channel {channel} of {_plural(kind)} is constant in every sample: it holds nothing to learn from"


def _no_data_warnings(observations: Sequence[Observation]) -> Iterator[str]:
    for kind in dict.fromkeys(kind for seen in observations for kind in seen.no_data):
        for value in sorted({seen.no_data[kind][0] for seen in observations if kind in seen.no_data}):
            those = [seen for seen in observations if kind in seen.no_data and seen.no_data[kind][0] == value]
            share = sum(seen.no_data[kind][1] for seen in those) / sum(prod(seen.sizes[kind]) for seen in those)
            remedy = f"replace it, or set data.{kind.removesuffix('_images')}_range=[LOW,HIGH] without it"
            if kind == "target" and not those[0].side:
                remedy += ", or give such pixels a weight of 0 (data.weight_folder)"
            yield (
                f"{_plural(kind)} of {_share([seen.name for seen in those], observations)} hold {exact(value)} in "
                f"{share:.1%} of their pixels, which seems to stand for no data: "
                f"{listed([seen.name for seen in those])}; {remedy}"
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
        yield f"{what} seem to be shifted in {len(far)} of {len(measured)} pairs: {listed(places)}; {hint}"


def _place(x: int, y: int) -> str:
    parts = [(x, "to the right" if x > 0 else "to the left"), (y, "down" if y > 0 else "up")]
    return " and ".join(f"{counted(abs(number), 'pixel')} {where}" for number, where in parts if number)


def _plural(kind: str) -> str:
    if is_later_source(kind):
        return f"files of source folder {kind.rpartition('_')[2]}"
    return "source images" if kind == "source_images" else f"{kind}s"


def _share(some: Sequence[str], observations: Sequence[Observation]) -> str:
    return f"{len(some)} of {len(observations)} samples"
