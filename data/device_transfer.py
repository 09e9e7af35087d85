"""Batches on their way to the device."""

import torch

from data.batch import Batch


class DeviceTransfer:
    """Copies batches to a device.

    has_stream: to a GPU in a stream of its own, while that still computes the step before.
    """

    def __init__(self, device: torch.device, *, has_stream: bool = True) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if has_stream and device.type == "cuda" else None

    def __call__(self, batch: Batch) -> Batch:
        """The batch on the device, ready for what is computed next there; uint8 as it was read."""
        if self._stream is None:
            return batch.to(self._device)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = batch.to(self._device)
        computing.wait_stream(self._stream)
        copied.record_stream(computing)  # its memory is the other stream's, which would use it again too soon
        return copied
