"""TensorBoard's event files."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor
from torch.utils.tensorboard import SummaryWriter


class Board:
    """Writes scalars and images by their tags, which are paths such as `loss/G/l1`; writes nothing without a folder."""

    def __init__(self, run_folder: Path | None, first_step: int) -> None:
        """Start at `first_step`; what an interrupted run wrote of that step and later is hidden from the curves."""
        # In a run's first session too: TensorBoard takes its first mark of a start for no restart, and hides nothing.
        self._writer = SummaryWriter(str(run_folder), purge_step=first_step) if run_folder else None

    def write_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Add one point to each curve."""
        if self._writer:
            for tag, value in values.items():
                self._writer.add_scalar(tag, value, step)
            self._writer.flush()

    def write_image(self, tag: str, image: Tensor, step: int) -> None:
        """Add a (3, H, W) uint8 image."""
        if self._writer:
            self._writer.add_image(tag, image, step)
            self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        if self._writer:
            self._writer.close()
