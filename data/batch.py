"""Samples and batches: shapes, dtypes and ranges of their maps; the way of a batch to the training and the device."""

import mmap
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from multiprocessing import reduction
from typing import Any, BinaryIO, Self

import torch
from torch import Tensor

from utils.errors import UserError

_LISTED = 5
HAS_MEMORY_FILES = hasattr(os, "memfd_create")  # on Linux, unless Python is built for an old C library
_ALIGNMENT = 64  # bytes
_Place = tuple[str, torch.dtype, torch.Size, int]  # name, type, shape and first byte of a map
_LARGEST_WEIGHT = {torch.uint8: 255.0, torch.uint16: 65535.0}  # counts as 1; other types hold the weights themselves


class DataError(UserError):
    """The data set cannot be used.

    problems: One or more lines that each name a file or folder and the remedy. As a text, the error lists the first.
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
        """The maps that exist by name, in the order of the fields."""
        return {name: tensor for name in MAPS if (tensor := getattr(self, name)) is not None}

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Return the same with `function` applied to each of the maps that exist."""
        mapped: dict[str, Any] = {name: function(tensor) for name, tensor in self.maps.items()}
        return replace(self, **mapped)

    def exchanged(self) -> Self:
        """Return the same with the target as source and the source as target, both images, for the way back."""
        return replace(self, source=self.maps["target"], target=self.source)


MAPS = tuple(field.name for field in fields(_Maps))


@dataclass(frozen=True)
class BadSample:
    """A sample of a side that cannot be used, and the reason."""

    side: int
    index: int
    reason: str


@dataclass(frozen=True)
class Sample(_Maps):
    """One aligned pair on the CPU, as a layout reads it.

    name: unique in its split; a relative path without suffix.
    source: (3, H, W) uint8 RGB image, or (1, H, W) class ids: uint8 for data sets of at most 255 classes, int32
        for more. The ids of K classes are 0 .. K-1; K marks an ignored pixel. Or an image as it is stored: (C, H, W)
        uint8, uint16, int16 or float32.
    instances: (1, H, W) int32 instance ids, or None.
    target: (3, H, W) uint8 RGB image, or an image as it is stored, of the source's size times the generator's scale;
        None where none exists.
    features: (3, H, W) uint8 map of precomputed instance features, or None.
    weights: (1, H, W) weights of the target's pixels as they are stored: uint8 (of 255), uint16 (of 65535), or other
        numbers as int16 or float32; or None.
    source_images: (C, H, W) images of the further source folders, whose first holds label maps; or None. Where all hold
        images, these are stacked in `source`.
    labels: (1, H, W) int32 ids of a label map beside a source that is an image, as they are stored; or None.
    replaces: Samples that cannot be used. This sample was read instead.
    """

    name: str
    replaces: tuple[BadSample, ...] = ()


@dataclass(frozen=True)
class Batch(_Maps):
    """N samples of one size: the same maps as `Sample`, with a first dimension of N."""

    names: tuple[str, ...]
    replaces: tuple[BadSample, ...] = ()

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Self:
        """Stack samples.

        Raises:
            DataError: their sizes or dtypes differ.
        """
        check_one_size([(sample.name, *sample.source.shape[-2:]) for sample in samples])
        maps: dict[str, Any] = {name: _stacked(name, samples) for name in MAPS}
        replaces = tuple(bad for sample in samples for bad in sample.replaces)
        return cls(names=tuple(sample.name for sample in samples), replaces=replaces, **maps)

    def to(self, device: torch.device) -> Self:
        """Return the batch on `device`; the copy is asynchronous where the batch is pinned."""
        return self.mapped(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """Return the batch in page-locked memory."""
        return self.mapped(Tensor.pin_memory)


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
    """Return a map of each sample as one tensor, None where all lack it; raise DataError where they do not fit."""
    maps = [tensor for sample in samples if (tensor := getattr(sample, name)) is not None]
    assert len(maps) in (0, len(samples)), f"a layout reads {name} for some samples"
    if name == "weights" and len({tensor.dtype for tensor in maps}) > 1:
        maps = [weights_to_float(tensor) for tensor in maps]
    found = {f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in maps}
    if len(found) > 1:
        raise DataError(f"maps of one batch differ ({', '.join(sorted(found))}): choose train.batch_size=1")
    return torch.stack(maps) if len(maps) > 1 else maps[0].contiguous().unsqueeze(0) if maps else None


def weights_to_float(weights: Tensor) -> Tensor:
    """Convert (…, 1, H, W) weights as they are stored to float32."""
    return weights.float() / _LARGEST_WEIGHT.get(weights.dtype, 1.0)


class SentBatch:
    """A batch on its way from a loader process to the training, in a file in memory. Needs HAS_MEMORY_FILES.

    The kernel fills pages of the file as they are written. It clears torch's shared memory first, page by page at the
    first access to each, which takes longer than the copy. The descriptor of the file follows the object through the
    connection, so the batch arrives even if its sender has ended or hangs.

    Raises:
        OSError: There is too little memory.
    """

    _names: tuple[str, ...]
    _replaces: tuple[BadSample, ...]

    def __init__(self, batch: Batch) -> None:
        if sys.platform != "linux":
            raise OSError("only Linux has files in memory; see HAS_MEMORY_FILES")
        self._names, self._replaces = batch.names, batch.replaces
        self._places: list[_Place] = []
        self._file: BinaryIO | None = open(os.memfd_create("batch"), "wb")  # noqa: PTH123, SIM115  of a descriptor
        for name, tensor in batch.maps.items():
            start = self._file.seek(-self._file.seek(0, 1) % _ALIGNMENT, 1)
            self._places.append((name, tensor.dtype, tensor.shape, start))
            self._file.write(tensor.contiguous().numpy().data)
        self._file.flush()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_file": None}

    def send(self, connection: Any) -> None:
        """Send the batch, once, through an end of `multiprocessing.Pipe`."""
        assert self._file
        with self._file as file:
            connection.send(self)
            reduction.send_handle(connection, file.fileno(), os.getppid())

    def received(self, connection: Any) -> Batch:
        """Return the batch, given the connection through which this object came."""
        descriptor = reduction.recv_handle(connection)
        try:
            content = mmap.mmap(descriptor, 0)  # the maps keep it
        finally:
            os.close(descriptor)
        maps: dict[str, Any] = {
            name: torch.frombuffer(content, dtype=dtype, count=prod(shape), offset=start).view(shape)
            for name, dtype, shape, start in self._places
        }
        return Batch(names=self._names, replaces=self._replaces, **maps)


class DeviceTransfer:
    """Copies batches to a device; to a GPU in a stream of its own, while it still computes the step before."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch on the device; the current stream waits for the copy. dtypes stay as they are."""
        if self._stream is None:
            return batch.to(self._device)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = batch.to(self._device)
        computing.wait_stream(self._stream)
        for tensor in copied.maps.values():  # the memory belongs to the other stream, which would reuse it too soon
            tensor.record_stream(computing)
        return copied
