"""Samples, batches, and the transfer of a batch to a device. The tensors of a sample are called its maps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from utils.errors import UserError

_LISTED = 5
_LARGEST_WEIGHT = {torch.uint8: 255.0, torch.uint16: 65535.0}  # stored value of weight 1; default: 1


class DataError(UserError):
    """The data set cannot be used.

    problems: One or more lines. Each line names a file or folder and the remedy. `str(error)` shows the first few.
    """

    def __str__(self) -> str:
        n_left = len(self.args) - _LISTED
        more = [f"and {n_left} more: python -m tools.check_data lists all"] if n_left > 0 else []
        return "; ".join([*self.args[:_LISTED], *more])


class LoadingError(DataError):
    """Loading failed for a reason outside the data: too little memory, a process that died or hangs, or a bug."""


@dataclass(frozen=True, kw_only=True)
class _Maps:
    """The maps of a sample or a batch, described in `Sample`. All maps except `source` can be None."""

    source: Tensor
    instances: Tensor | None = None
    target: Tensor | None = None
    features: Tensor | None = None
    weights: Tensor | None = None
    source_images: Tensor | None = None
    labels: Tensor | None = None

    @property
    def maps(self) -> dict[str, Tensor]:
        """The maps that are not None, by name."""
        return {name: tensor for name in MAPS if (tensor := getattr(self, name)) is not None}

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Return a copy with `function` applied to each map."""
        mapped: dict[str, Any] = {name: function(tensor) for name, tensor in self.maps.items()}
        return replace(self, **mapped)

    def exchanged(self) -> Self:
        """Return a copy for the reverse translation, with source and target exchanged. Both must be images."""
        return replace(self, source=self.maps["target"], target=self.source)


MAPS = tuple(field.name for field in fields(_Maps))


@dataclass(frozen=True)
class BadSample:
    """A sample that cannot be used. `side` (index in `Layout.sides`) is 1 for targets of unpaired data, otherwise 0."""

    side: int
    index: int
    reason: str


@dataclass(frozen=True)
class Sample(_Maps):
    """A source and usually its target, on the CPU. Images are 8-bit RGB, or keep the channels and type of their files.

    name: Relative path without suffix, unique in the split.
    source: RGB image, (3, H, W) uint8, or image of another type, (C, H, W) uint8, uint16, int16 or float32. A label map
        of K classes has ids 0 .. K-1, and K for ignored pixels, (1, H, W) uint8 (int32 for more than 255 classes).
    instances: Instance ids, (1, H, W) int32.
    target: RGB image or image of another type. Its size is the size of the source multiplied by `generator.scale`.
    features: Precomputed instance features, (3, H, W) uint8.
    weights: Weights of target pixels, (1, H, W) uint8 (255 means 1), uint16 (65535 means 1), int16 or float32.
    source_images: Images of the other source folders, (C, H, W), if the first source folder holds label maps. If the
        first folder holds images, `source` contains the channels of all folders.
    labels: Ids in the label map of a source image, (1, H, W) int32.
    replaces: Bad samples that this sample replaces.
    """

    name: str
    replaces: tuple[BadSample, ...] = ()


@dataclass(frozen=True)
class Batch(_Maps):
    """N samples of equal size. The maps of `Sample` get a first dimension of length N."""

    names: tuple[str, ...]
    replaces: tuple[BadSample, ...] = ()

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Self:
        """Return a batch of the samples; raise DataError if their sizes or dtypes differ."""
        check_one_size([(sample.name, *sample.source.shape[-2:]) for sample in samples])
        maps: dict[str, Any] = {name: _stacked(name, samples) for name in MAPS}
        replaces = tuple(bad for sample in samples for bad in sample.replaces)
        return cls(names=tuple(sample.name for sample in samples), replaces=replaces, **maps)

    def to(self, device: torch.device) -> Self:
        """Return the batch on `device`. The copy is asynchronous if the batch is in page-locked memory."""
        return self.mapped(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Return a copy of the batch in page-locked memory."""
        return self.mapped(Tensor.pin_memory)

    def __reduce__(self) -> Any:
        """Pickle maps as NumPy arrays. Torch would use shared memory, which is often limited to 64 MB in containers."""
        return _batch, (self.names, self.replaces, {name: tensor.numpy() for name, tensor in self.maps.items()})


def _batch(names: tuple[str, ...], replaces: tuple[BadSample, ...], arrays: Mapping[str, np.ndarray]) -> Batch:
    maps: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Batch(names=names, replaces=replaces, **maps)


def check_one_size(samples: Sequence[tuple[str, int, int]]) -> None:
    """Raise DataError unless all samples have the same size. Each sample is given as (name, height, width)."""
    for sample in samples:
        if sample[1:] != samples[0][1:]:
            sizes = ", ".join(f"{name} {width}x{height}" for name, height, width in (samples[0], sample))
            raise DataError(
                f"one batch holds images of different sizes ({sizes}). Set data.preprocess to resize_and_crop, "
                "scale_width_and_crop or crop, or set train.batch_size=1"
            )


def _stacked(name: str, samples: Sequence[Sample]) -> Tensor | None:
    """Stack the map `name` of all samples, or return None if no sample has it; raise DataError if shapes differ."""
    maps = [tensor for sample in samples if (tensor := getattr(sample, name)) is not None]
    assert len(maps) in (0, len(samples)), f"only some samples have {name}"
    if name == "weights" and len({tensor.dtype for tensor in maps}) > 1:
        maps = [weights_to_float(tensor) for tensor in maps]
    found = {f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in maps}
    if len(found) > 1:
        raise DataError(f"tensors of one batch differ ({', '.join(sorted(found))}). Set train.batch_size=1.")
    return torch.stack(maps) if len(maps) > 1 else maps[0].contiguous().unsqueeze(0) if maps else None


def weights_to_float(weights: Tensor) -> Tensor:
    """Convert stored weights, (…, 1, H, W), to float32."""
    return weights.float() / _LARGEST_WEIGHT.get(weights.dtype, 1.0)


class DeviceTransfer:
    """Copies batches to a device. On a GPU, a separate CUDA stream copies during the previous training step."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, batch: Batch) -> Batch:
        """Return a copy of the batch on the device. The current CUDA stream waits for the copy."""
        if self._stream is None:
            return batch.to(self._device)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = batch.to(self._device)
        computing.wait_stream(self._stream)
        for tensor in copied.maps.values():  # otherwise the copying stream could reuse the memory too early
            tensor.record_stream(computing)
        return copied
