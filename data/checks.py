"""Checks of data sets: unusable samples, pairs that are not aligned, and files that occur in several splits.

Worker processes check the samples. If a decoder crashes, the check reports the file and continues.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from statistics import median, median_low
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from data.batch import LoadingError, Sample
from data.files.image_files import read_ids
from data.folder import Blob
from data.layout import Layout, describe_sample
from data.loader import SampleKey, as_data_error
from data.map_reader import is_later_source
from data.preprocessing import Preprocessing
from data.worker_monitor import MonitoredDataset, WorkerMonitor
from utils.text import counted, listed

MEASURED_SHIFTS = 32  # largest number of samples per split whose displacement is measured
_IMAGES = ("source", "source_images", "target")
MIN_SIDE = 48  # pixels; smaller images have too few contours
_MAX_SIDE = 512  # pixels; larger images are cropped to their centre
_MAX_SHARE = 1 / 8  # largest displacement that is searched, as a fraction of height or width
CLEAR_PEAK = 12.0  # minimum height of a clear correlation peak, in standard deviations above the mean
FAINT_PEAK = 8.0  # minimum height of a faint peak; some unrelated pairs also reach it
_BEYOND_REST = 1.5  # minimum ratio of a peak to the correlation near displacement 0; below it, the result is 0
_FEWEST = 3  # minimum number of equally displaced pairs for a warning
_SMALL_SHIFT = 2  # pixels; minimum for a warning about many pairs
_LARGE_SHIFT = 5  # pixels; minimum for a warning about a single pair
_FEWEST_FAINT = 8  # minimum number of pairs for a warning about different displacements
_LARGE_REACH = 8  # pixels; with a larger loss.shift_reach, patches match by chance

Shift = tuple[int, int]
"""A displacement in pixels. The first number is positive to the right, the second number is positive downwards."""


@dataclass(frozen=True)
class Checked:
    """The result of checking a sample. If there are problems, only `index`, `problems` and `ids` are set.

    height, width: Size after preprocessing, in pixels.
    ids: Values in the label map file, including values that are not a class. Empty without a label map.
    types: Data types of the images, such as "uint16 source and uint8 target".
    files: Files that must not occur in several splits.
    shifts: Clear displacements. Possible keys are "targets" and "images of the last source folder".
    faint_shifts: Clear and faint displacements, with the same keys. None: This sample was not measured.
    """

    index: int
    problems: tuple[str, ...] = ()
    height: int = 0
    width: int = 0
    ids: frozenset[int] = frozenset()
    types: str = ""
    files: Sequence[Blob] = ()
    shifts: Mapping[str, Shift] = field(default_factory=dict)
    faint_shifts: Mapping[str, Shift] | None = None


@dataclass
class Check(MonitoredDataset):
    """Checks the samples of `layout`. WorkerMonitor loads the results like the samples of a data set.

    is_for_training: True preprocesses samples as in training, False as in validation.
    """

    layout: Layout
    preprocessing: Preprocessing
    is_for_training: bool

    def __getitem__(self, key: SampleKey) -> Checked:
        self.record(0, key.index)
        checked = self(key.index)
        self.record()
        return checked

    def __call__(self, index: int) -> Checked:
        """Read sample `index`, compute its crop, and return the result."""
        ids, file = frozenset[int](), self.layout.provenance(index).files.get("source")
        with suppress(Exception):  # `Layout.read` below reports errors, but does not return ids without a class
            ids = frozenset(np.unique(read_ids(file).numpy()).tolist()) if file and self.layout.n_classes else ids
        try:
            sample = self.layout.read(index)
            named = replace(sample, name=describe_sample(self.layout, index))
            drawn = self.preprocessing.draw(named, np.random.default_rng(0)) if self.is_for_training else None
            placement = drawn or self.preprocessing.fixed(sample)
            files = self.layout.provenance(index).files
            is_measured = index % -(-len(self.layout) // MEASURED_SHIFTS) == 0
            measure = partial(_shifts, files, sample, self.layout.n_classes > 0) if is_measured else None
            return Checked(
                index,
                height=placement.crop_height,
                width=placement.crop_width,
                ids=ids,
                types=" and ".join(f"{str(sample.maps[k].dtype)[6:]} {k}" for k in _IMAGES if k in sample.maps),
                files=_own_files(files, sample),
                shifts=measure(CLEAR_PEAK) if measure else {},
                faint_shifts=measure(FAINT_PEAK) if measure else None,
            )
        except Exception as error:  # noqa: BLE001  a bug is also reported together with the sample
            return Checked(index, as_data_error(error, describe_sample(self.layout, index)).problems, ids=ids)


def _own_files(files: Mapping[str, Blob], sample: Sample) -> list[Blob]:
    """Return the files that must not occur in several splits. Omit weights, labels, and maps with only one value."""
    plain = {kind for kind, values in sample.maps.items() if values.numpy().min() == values.numpy().max()}
    return [file for kind, file in files.items() if kind not in plain | {"weights", "labels"}]


def _shifts(files: Mapping[str, Blob], sample: Sample, source_is_ids: bool, least_peak: float) -> dict[str, Shift]:
    """Return the displacements, as in `Checked.shifts`, with a correlation peak of at least `least_peak`."""
    source, is_stacked, compared = sample.source, any(map(is_later_source, files)), {}
    if sample.target is not None:
        compared["targets"] = (source, sample.target)
        if is_stacked and not source_is_ids:  # standard deviation 1, so that all channels have the same weight
            scaled = source.float() / source.float().std(dim=(1, 2), keepdim=True).clamp_min(1e-6)
            compared["targets"] = (scaled, sample.target)
    if is_stacked:
        last = source if sample.source_images is None else sample.source_images
        compared["images of the last source folder"] = (source[:1], last[-1:])
    measure = partial(displacement, source_is_ids=source_is_ids, least_peak=least_peak)
    found = {what: measure(*images) for what, images in compared.items()}
    return {what: shift for what, shift in found.items() if shift is not None}


def check_all(check: Check, *, n_processes: int, timeout_s: float) -> Iterator[Checked]:
    """Check every sample of the layout, and yield each result immediately.

    timeout_s: Maximum time for a sample, in seconds. 0 sets no limit.
    """
    to_do = dict.fromkeys(range(len(check.layout)))
    while to_do:
        batches = [[SampleKey(epoch=0, index=index)] for index in to_do]
        monitor = WorkerMonitor(check, batches, itemgetter(0), min(n_processes, len(to_do)), timeout_s)
        try:
            with monitor:
                for checked in monitor:
                    del to_do[checked.index]
                    yield checked
        except LoadingError as error:  # the sample crashed its process, or took too long
            del to_do[monitor.lost]
            yield Checked(monitor.lost, error.problems)


def shared_files(splits: Mapping[str, Sequence[Blob]]) -> Iterator[str]:
    """Yield a warning for each pair of `splits` with identical files. A key names a split, or one domain of a split."""
    by_size, by_content = defaultdict[int, list[tuple[str, Blob]]](list), defaultdict[bytes, dict[str, Blob]](dict)
    for split, file in ((split, file) for split, files in splits.items() for file in files):
        by_size[file.size()].append((split, file))
    for split, file in (entry for group in by_size.values() if len(group) > 1 for entry in group):
        with file.open() as opened:
            by_content[hashlib.sha256(opened.read()).digest()].setdefault(split, file)
    shared = defaultdict[tuple[str, str], list[tuple[Blob, Blob]]](list)
    for (first, file), *others in (of_splits.items() for of_splits in by_content.values()):
        for other, other_file in others:
            shared[first, other].append((file, other_file))
    for (first, other), pairs in shared.items():
        files = f"{counted(len(pairs), 'file')}, such as {pairs[0][0]} and {pairs[0][1]}"
        yield f"{first} and {other} share {files}. Remove them from one of the two"


def displacement(
    source: Tensor, target: Tensor, *, source_is_ids: bool, least_peak: float = CLEAR_PEAK
) -> Shift | None:
    """Return the displacement of a target from its source, in pixels (right, down), or None if it is not clear.

    The method is phase correlation (Kuglin and Hines 1975). It compares contours, because a label map and a photo have
    nothing else in common. If one image is a line drawing, the result is accurate to 3 pixels. scikit-image's
    phase_cross_correlation is no alternative, because it also returns a displacement for unrelated images.

    source: (C, H, W) image, or (1, H, W) ids. target: (C, H, W) image. Return None if their sizes differ.
    """
    height, width = (min(side, _MAX_SIDE) for side in target.shape[-2:])
    if source.shape[-2:] != target.shape[-2:] or min(height, width) < MIN_SIDE:
        return None
    of_source = contours(_middle(source, height, width), source_is_ids)
    score = phase_correlation(of_source, contours(_middle(target, height, width)))
    far_y, far_x = int(height * _MAX_SHARE), int(width * _MAX_SHARE)
    near = score.roll((far_y, far_x), (0, 1))[: 2 * far_y + 1, : 2 * far_x + 1]
    peak, place = near.flatten().max(0)
    if not peak >= least_peak:  # also if the peak is NaN
        return None
    if peak < _BEYOND_REST * near[far_y - 1 : far_y + 2, far_x - 1 : far_x + 2].max():
        return 0, 0
    y, x = divmod(int(place), 2 * far_x + 1)
    return x - far_x, y - far_y


def phase_correlation(source: Tensor, target: Tensor) -> Tensor:
    """Return the correlation for each displacement of the target, in standard deviations above the mean.

    source, target: Strength of the contours of two images, (H, W), or volumes, (D, H, W). The result has the same
        shape. As in an FFT, index 0 stands for displacement 0, and index -1 for displacement -1.
    """
    window = torch.ones(())
    for size in source.shape:
        window = window[..., None] * torch.hann_window(size)
    of_source, of_target = (torch.fft.rfftn(window * (strength - strength.mean())) for strength in (source, target))
    cross = of_source.conj() * of_target
    correlation = torch.fft.irfftn(cross / cross.abs().sqrt().clamp_min(1e-12), s=source.shape)
    return (correlation - correlation.mean()) / correlation.std().clamp_min(1e-12)


def _middle(image: Tensor, height: int, width: int) -> Tensor:
    top, left = (image.shape[-2] - height) // 2, (image.shape[-1] - width) // 2
    return image[:, top : top + height, left : left + width]


def contours(image: Tensor, is_ids: bool = False) -> Tensor:
    """Return the strength of the contours in a (C, H, W) image or (1, H, W) ids, (H, W) float32."""
    grey = image.float() if is_ids else image.float().mean(0, keepdim=True)
    down, across = (F.pad(grey.diff(dim=d), pad)[0] for d, pad in ((1, (0, 0, 0, 1)), (2, (0, 1))))
    if is_ids:
        return ((down != 0) | (across != 0)).float()
    return torch.hypot(down, across).sqrt()


def shift_warnings(
    shifts: Mapping[str, Shift], what: str, faint: Mapping[str, Shift | None] = MappingProxyType({}), reach: int = 0
) -> Iterator[str]:
    """Yield at most one warning: equal shifts in most samples, different shifts in many, or large shifts in a few.

    shifts: Clear displacements by sample name.
    what: Name of the displaced images, for the message.
    faint: Displacement of each measured sample, or None if its peak is below FAINT_PEAK. If most are None, `faint` has
        no effect, because the images are probably unrelated.
    reach: Value of loss.shift_reach. Displacements of at most `reach` pixels in different directions are accepted.
    """
    known = {name: shift for name, shift in faint.items() if shift is not None}
    known = known if len(known) >= max(_FEWEST_FAINT, len(faint) / 2) else {}
    hint = "look at them with --show 12, and align the images"
    for seen in filter(None, (known, shifts)):
        x, y = (median_low(shift[axis] for shift in seen.values()) for axis in (0, 1))
        n_alike = sum(max(abs(shift[0] - x), abs(shift[1] - y)) <= 1 for shift in seen.values())
        if max(abs(x), abs(y)) >= _SMALL_SHIFT and n_alike >= max(_FEWEST, 0.6 * len(seen)):
            yield f"{what} seem to be shifted by {_place(x, y)} in {n_alike} of {len(seen)} pairs: {hint}"
            return
    lengths = [max(map(abs, shift)) for shift in known.values()]
    if known and median(lengths) >= _SMALL_SHIFT:
        needed = min(math.ceil(np.percentile(lengths, 90)) + 1, 16)
        remedy = f"align them, or set loss.shift_reach={needed} if images are not resized"
        remedy = "look at them with --show 12, and align them first" if needed > _LARGE_REACH else remedy
        if needed > reach:
            found = f"by {median(lengths):g} pixels (median of {len(known)} pairs), in different directions"
            yield f"{what} are shifted {found}: {remedy} (tools.convert_data align-targets)"
            return
    least = max(_LARGE_SHIFT, reach + 1 if faint else 0)
    far = [f"{name} by {_place(*shift)}" for name, shift in shifts.items() if max(map(abs, shift)) >= least]
    if far:
        yield f"{what} seem to be shifted in {len(far)} of {len(shifts)} pairs: {listed(far)}; {hint}"


def _place(x: int, y: int) -> str:
    parts = [(x, "to the right" if x > 0 else "to the left"), (y, "down" if y > 0 else "up")]
    return " and ".join(f"{counted(abs(number), 'pixel')} {where}" for number, where in parts if number)
