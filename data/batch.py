"""Samples and batches: shapes, dtypes and ranges of their maps, and the transfer of a batch to the device."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from utils.errors import UserError

_LISTED = 5
_LARGEST_WEIGHT = {torch.uint8: 255.0, torch.uint16: 65535.0}  # stored value of weight 1; other types hold weights


class DataError(UserError):
    """The data set cannot be used.

    problems: One or more lines that each name a file or folder and the remedy. The error's text lists the first ones.
    """

    def __str__(self) -> str:
        n_left = len(self.args) - _LISTED
        more = [f"and {n_left} more: python -m tools.check_data lists all"] if n_left > 0 else []
        return "; ".join([*self.args[:_LISTED], *more])


class LoadingError(DataError):
    """Loading failed, and not because of a sample: memory, a process that died or hangs, a bug in this program."""


@dataclass(frozen=True, kw_only=True)
class _Maps:
    """The maps of a sample or a batch. Some may be None; see Sample."""

    source: Tensor
    instances: Tensor | None = None
    target: Tensor | None = None
    features: Tensor | None = None
    weights: Tensor | None = None
    source_images: Tensor | None = None
    labels: Tensor | None = None

    @property
    def maps(self) -> dict[str, Tensor]:
        """The maps that exist, by name."""
        return {name: tensor for name in MAPS if (tensor := getattr(self, name)) is not None}

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Return a copy with `function` applied to each map."""
        mapped: dict[str, Any] = {name: function(tensor) for name, tensor in self.maps.items()}
        return replace(self, **mapped)

    def exchanged(self) -> Self:
        """Return a copy with source and target exchanged, for the translation back. Both must be images."""
        return replace(self, source=self.maps["target"], target=self.source)


MAPS = tuple(field.name for field in fields(_Maps))


@dataclass(frozen=True)
class BadSample:
    """A sample of a domain (side 0 or 1) that cannot be used, and the reason."""

    side: int
    index: int
    reason: str


@dataclass(frozen=True)
class Sample(_Maps):
    """One pair on the CPU, as a layout reads it.

    name: Relative path without suffix, unique in the split.
    source: RGB image, (3, H, W) uint8. Or class ids, (1, H, W), uint8 for up to 255 classes, otherwise int32: 0 .. K-1,
        and K for ignored pixels. Or a stored image, (C, H, W) uint8, uint16, int16 or float32.
    instances: Instance ids, (1, H, W) int32.
    target: RGB or stored image like `source`, of the source's size times the generator's scale.
    features: Precomputed instance features, (3, H, W) uint8.
    weights: Weights of the target's pixels, (1, H, W): uint8 (of 255), uint16 (of 65535), int16 or float32.
    source_images: Images of the other source folders if the first one holds label maps, (C, H, W). If all folders hold
        images, `source` is their stack.
    labels: Stored ids of a label map in addition to a source that is an image, (1, H, W) int32.
    replaces: Samples that cannot be used. This sample was read instead.
    """

    name: str
    replaces: tuple[BadSample, ...] = ()


@dataclass(frozen=True)
class Batch(_Maps):
    """N samples of one size: the maps of `Sample` with a first dimension of N."""

    names: tuple[str, ...]
    replaces: tuple[BadSample, ...] = ()

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Self:
        """Stack samples; raise DataError if their sizes or dtypes differ."""
        check_one_size([(sample.name, *sample.source.shape[-2:]) for sample in samples])
        maps: dict[str, Any] = {name: _stacked(name, samples) for name in MAPS}
        replaces = tuple(bad for sample in samples for bad in sample.replaces)
        return cls(names=tuple(sample.name for sample in samples), replaces=replaces, **maps)

    def to(self, device: torch.device) -> Self:
        """Return the batch on `device`. The copy is asynchronous if the batch is pinned."""
        return self.mapped(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Return the batch in page-locked memory."""
        return self.mapped(Tensor.pin_memory)

    def __reduce__(self) -> Any:
        """Pickle maps as arrays. Torch would send them through shared memory, and containers have only 64 MB of it."""
        return _batch, (self.names, self.replaces, {name: tensor.numpy() for name, tensor in self.maps.items()})


def _batch(names: tuple[str, ...], replaces: tuple[BadSample, ...], arrays: Mapping[str, np.ndarray]) -> Batch:
    maps: dict[str, Any] = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Batch(names=names, replaces=replaces, **maps)


def check_one_size(samples: Sequence[tuple[str, int, int]]) -> None:
    """Raise DataError unless samples, given as (name, height, width), can be stacked."""
    for sample in samples:
        if sample[1:] != samples[0][1:]:
            sizes = ", ".join(f"{name} {width}x{height}" for name, height, width in (samples[0], sample))
            raise DataError(
                f"one batch holds images of different sizes ({sizes}): choose a data.preprocess that makes "
                "them equal (resize_and_crop, scale_width_and_crop, crop) or train.batch_size=1"
            )


def _stacked(name: str, samples: Sequence[Sample]) -> Tensor | None:
    """Return a map of all samples as one tensor, or None if they lack it; raise DataError if shapes differ."""
    maps = [tensor for sample in samples if (tensor := getattr(sample, name)) is not None]
    assert len(maps) in (0, len(samples)), f"a layout reads {name} for some samples"
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
    """Copies batches to a device. A GPU copies in a separate stream while it still computes the previous step."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch on the device with unchanged dtypes; the current stream waits for the copy."""
        if self._stream is None:
            return batch.to(self._device)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = batch.to(self._device)
        computing.wait_stream(self._stream)
        for tensor in copied.maps.values():  # the memory belongs to the other stream, which would reuse it too soon
            tensor.record_stream(computing)
        return copied
