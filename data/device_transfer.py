"""Copying batches to the device."""

import torch

from data.batch import Batch


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
        copied.record_stream(computing)  # the memory belongs to the other stream, which would reuse it too soon
        return copied
