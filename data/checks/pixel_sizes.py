"""Warnings about images whose pixels have different sizes, on the map or under the microscope."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from data.checks.observation import Observation
from data.files.tiff_tags import PixelSize
from utils.text import counted, listed

_Seen = Sequence[tuple[str, Observation]]  # observations with their splits


def different_pixel_sizes(splits: Mapping[str, Sequence[Observation]], resizing: str | None) -> Iterator[str]:
    """Yield a line for images of one kind with different pixel sizes, for such pairs, and for resized quantities.

    resizing: The value of data.preprocess, if it resizes images that are not 8-bit RGB; otherwise None.
    """
    seen = [(split, observation) for split, observations in splits.items() for observation in observations]
    for kind in dict.fromkeys(kind for _, observation in seen for kind in observation.pixel_sizes):
        yield from _of_kind(kind, seen)
    yield from _of_pairs(seen)
    if resizing:
        yield from _resized(seen, resizing)


def _of_kind(kind: str, seen: _Seen) -> Iterator[str]:
    """Yield a line if images of a kind have pixels of different sizes."""
    sizes = {f"{split}/{each.name}": each.pixel_sizes[kind] for split, each in seen if kind in each.pixel_sizes}
    usual, _ = Counter(sizes.values()).most_common(1)[0]
    others = {name: size for name, size in sizes.items() if not size.is_close(usual)}
    if others:
        found = listed([f"{name} with {size}" for name, size in others.items()])
        share = "most" if 2 * len(others) < len(sizes) else "some"
        yield (
            f"pixels of {kind}s have different sizes: {usual} in {share}, others in {len(others)} of "
            f"{counted(len(sizes), 'file')}: {found}; resample them to one size"
        )


def _of_pairs(seen: _Seen) -> Iterator[str]:
    """Yield a line if pixels of targets do not have the size that follows from their sources."""
    others = {}
    for split, each in seen:
        if not {"source", "target"} <= each.pixel_sizes.keys() & each.sizes.keys():
            continue
        source, target = each.pixel_sizes["source"], each.pixel_sizes["target"]
        (height, width), (new_height, new_width) = each.sizes["source"], each.sizes["target"]
        expected = PixelSize(source.across * width / new_width, source.down * height / new_height, source.unit)
        if not target.is_close(expected):
            others[f"{split}/{each.name}"] = f"{target} instead of {expected}"
    if others:
        found = listed([f"{name} with {sizes}" for name, sizes in others.items()])
        yield (
            f"by the sizes of their pixels, targets of {counted(len(others), 'pair')} do not cover the area of their "
            f"sources: {found}; cut both from one grid"
        )


def _resized(seen: _Seen, resizing: str) -> Iterator[str]:
    """Yield a line if images of different sizes are resized, so that their pixels get different sizes."""
    sizes = Counter(f"{width}x{height}" for _, each in seen for height, width in list(each.sizes.values())[:1])
    if len(sizes) > 1:
        yield (
            f"images have {len(sizes)} sizes: {listed(list(sizes))}; data.preprocess={resizing} resizes them, which "
            "changes their values and the size of their pixels: data.preprocess=crop takes pixels unchanged"
        )
