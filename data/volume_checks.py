"""Checks of patients' volumes: geometry, units, masks, patients in several splits, and displaced targets."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from data.checks import CLEAR_PEAK, MEASURED_SHIFTS, MIN_SIDE, contours, phase_correlation
from data.layout import Layout, Volumes
from data.map_reader import is_source
from data.validation_split import Subset
from data.volume_cache import AXES, CachedVolume
from utils.text import exact, listed

_AIR, _SOFT_TISSUE = -500, 150  # HU; air is -1000, and soft tissue is between -150 and 150
_MAX_RATIO = 1.5
_MIDDLE, _MIN_SLICES = (32, 256, 256), 8  # voxels along each axis for measuring a displacement
_BEYOND_REST = 1.1  # minimum ratio of a peak to the correlation without displacement
_FAR = (1, 2, 2)  # slices, rows, columns; minimum displacement for a warning


def describe_volumes(patients: Volumes, n_axes: int, *, has_windows: bool) -> Iterator[tuple[str, str]]:
    """Yield lines about volumes for the plan of a run, each with a heading: cache, ranges, geometry and values.

    n_axes: Number of copies of each volume in the cache, one for each axis.
    has_windows: Whether each source is scaled by its own range.
    """
    of_kind = defaultdict[str, list[CachedVolume]](list)
    for kind, volume in (item for volumes in patients.values() for item in volumes.items()):
        of_kind[kind].append(volume)
    volumes = [volume for each in of_kind.values() for volume in each]
    n_bytes = n_axes * sum(Path(volume.file).stat().st_size for volume in volumes)
    yield "cache", f"{n_bytes / 2**20:,.0f} MiB of volumes in {Path(volumes[0].file).parents[1]}"
    geometries, codes = [volume.geometry for volume in of_kind["source"]], {volume.orientation for volume in volumes}
    size, spacing = _span([each.size for each in geometries]), _span([each.spacing for each in geometries])
    yield "geometry", f"{size} voxels of {spacing} mm, stored as {', '.join(sorted(codes))}"
    ends = {kind: [[value] for v in each for value in (v.lowest, v.highest)] for kind, each in of_kind.items()}
    yield "values", ", ".join(f"{kind} {_span(each)}" for kind, each in ends.items() if kind != "mask")
    if has_windows:
        windows = [volume.window for kind in filter(is_source, of_kind) for volume in of_kind[kind]]
        low, high = (f"{exact(min(each))} to {exact(max(each))}" for each in zip(*windows, strict=True))
        yield "ranges", f"each source volume has its own; lower ends {low}, upper ends {high}"


def _span(rows: Sequence[Sequence[float]]) -> str:
    """Return the lowest and the highest number of each column, such as "64x64x40 to 64x64x48"."""
    ends = (np.min(rows, axis=0), np.max(rows, axis=0))
    return " to ".join(dict.fromkeys("x".join(f"{number:.6g}" for number in end) for end in ends))


def value_ranges(layout: Layout) -> dict[str, list[float]]:
    """Return the lowest and the highest value of all volumes, for "source" and "target" (if there are targets)."""
    ends = defaultdict[str, list[float]](list)
    for _, _, kind, volume in _volumes({"": layout}):
        ends["source" if is_source(kind) else kind] += [volume.lowest, volume.highest]
    return {kind: [min(values), max(values)] for kind, values in ends.items() if kind != "mask"}


def volume_warnings(
    splits: Mapping[str, Layout], axis: str, source_range: object, target_range: object
) -> Iterator[str]:
    """Yield warnings about the volumes of all splits. `axis` and the ranges are settings in the section `data`."""
    found, spacings = defaultdict[str, dict[str, None]](dict), dict[float, str]()
    first_split, first_volume = dict[str, str](), dict[str, tuple[str, str, str]]()
    for split, patient, kind, volume in _volumes(splits):
        if fault := _fault(kind, volume, source_range if is_source(kind) else target_range):
            found[f"{split}: {fault}"][patient] = None
        if (first := first_split.setdefault(patient, split)) != split:
            found[f"{first} and {split} share patients. Keep each patient in one split"][patient] = None
        if kind != "mask" and volume.lowest < volume.highest:
            first, name, same = first_volume.setdefault(volume.digest, (split, patient, kind))
            if (name, same) != (patient, kind):
                copies = f"{' and '.join(dict.fromkeys((first, split)))}: identical volumes. Remove the copies"
                found[copies][f"{same} of {name} is {kind} of {patient}"] = None
        spacing = zip(AXES, reversed(volume.geometry.spacing), strict=True)
        spacings |= {number: f"{split} {patient}" for name, number in spacing if axis in (name, "all")}
    yield from (f"{text} ({listed([*names])})" for text, names in found.items())
    low, high = min(spacings, default=1), max(spacings, default=1)
    if high > _MAX_RATIO * low:
        ends = f"{low:.4g} mm in {spacings[low]} and {high:.4g} mm in {spacings[high]}"
        yield f"the distance of slices is {ends}. Resample all volumes to one spacing"


def _volumes(splits: Mapping[str, Layout]) -> Iterator[tuple[str, str, str, CachedVolume]]:
    """Yield the split, the patient and the type of each volume. Sources of domain B count as targets."""
    for split, layout in splits.items():
        for is_target, side in enumerate(layout.sides):
            for patient, volumes in side.patients.items():
                for kind, volume in volumes.items():
                    yield split, patient, kind.replace("source", "target") if is_target else kind, volume


def _fault(kind: str, volume: CachedVolume, bounds: object) -> str | None:
    """Return the most important fault of a volume, and a remedy. bounds: Range in the settings."""
    if kind == "mask":
        return None if volume.highest > 0 else "the mask is empty, so no slice is used. Make a new mask"
    if volume.lowest == volume.highest:
        return f"all voxels of the {kind} are {volume.lowest:g}. Export this volume again"
    is_hu = isinstance(bounds, list) and len(bounds) == 2 and bounds[0] <= _AIR
    if is_hu and volume.lowest >= 0 and abs(volume.centre - 1024) < _SOFT_TISSUE:
        return f"the {kind} looks like HU + 1024. Subtract 1024"
    if is_hu and volume.lowest > _AIR:
        remedy = f"Store HU, or set data.{kind}_range, or swap the sides with data.direction"
        return f"the {kind} has no value below {_AIR}, but air is -1000 HU. {remedy}"
    if is_hu and volume.border == 0:
        return f"the {kind} is 0 outside the body, but air is -1000 HU. Set these voxels to -1024"
    if volume.orientation == "unknown":
        return "a file states no orientation, so left and right are unknown. Compare it with the original scan"
    return None


def middle_slices(layout: Layout) -> Layout:
    """Return a layout with the middle slice of each volume, because the other slices have the same size."""
    slices = defaultdict[str, list[int]](list)
    for index, name in enumerate(layout.names):
        slices[name.rpartition("/")[0]].append(index)
    return Subset(layout, [indices[len(indices) // 2] for indices in slices.values()])


def displaced_targets(layout: Layout) -> Iterator[str]:
    """Yield at most one warning about targets that are displaced. Measure up to MEASURED_SHIFTS patients."""
    patients = {name: volumes for name, volumes in layout.patients.items() if "target" in volumes}
    names = list(patients)[:: len(patients) // MEASURED_SHIFTS + 1]
    pairs = ((patients[name]["source"].slices(), patients[name]["target"].slices()) for name in names)
    shifts = {name: volume_displacement(*pair) for name, pair in zip(names, pairs, strict=True)}
    far = [f"{name} by {shift}" for name, shift in shifts.items() if (np.abs(shift) >= _FAR).any()]
    if far:
        found = f"in {len(far)} of {len(names)} patients, in slices, rows and columns: {listed(far)}"
        yield f"targets seem to be displaced {found}. Register them"


def volume_displacement(source: np.ndarray, target: np.ndarray) -> tuple[int, ...]:
    """Return the displacement of a target in slices, rows and columns, or zeros if it is not clear.

    source, target: Slices of equal shape, (S, H, W). Only their middle is compared; see `displacement`.
    """
    if len(source) < _MIN_SLICES or min(source.shape[1:]) < MIN_SIDE:
        return (0, 0, 0)
    sizes = zip(source.shape, _MIDDLE, strict=True)
    middle = tuple(slice(max(0, (n - most) // 2), (n + most) // 2) for n, most in sizes)
    stacks = (torch.from_numpy(np.array(volume[middle], np.float32)) for volume in (source, target))
    score = phase_correlation(*(torch.stack([contours(plane[None]) for plane in stack]) for stack in stacks)).numpy()
    if not score.max() >= max(CLEAR_PEAK, _BEYOND_REST * score[0, 0, 0]):  # also if a score is NaN
        return (0, 0, 0)
    peak = np.array(np.unravel_index(score.argmax(), score.shape))
    return tuple(np.where(peak > np.array(score.shape) // 2, peak - score.shape, peak).tolist())
