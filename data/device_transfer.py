"""Copying batches to the device."""

import torch

from data.batch import Batch


class DeviceTransfer:
    """Copies batches to a device.

    has_stream: whether to copy to a GPU in a separate stream, while it still computes the step before.
    """

    def __init__(self, device: torch.device, *, has_stream: bool = True) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if has_stream and device.type == "cuda" else None

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
