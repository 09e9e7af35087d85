"""TensorBoard's event files."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from utils.log import logger

# the tab "custom scalars": curves that are read together, in one chart; tags are regular expressions
LAYOUT = {
    "losses": {
        "generator": ["Multiline", ["loss/G/.*"]],
        "discriminator": ["Multiline", ["loss/D/.*"]],
        "what the discriminator gives": ["Multiline", ["logits/D/.*"]],
    },
    "validation": {
        "L1": ["Multiline", ["validation/l1(_weighted)?"]],
        "PSNR": ["Multiline", ["validation/psnr(_weighted)?"]],
        "SSIM": ["Multiline", ["validation/(ms_)?ssim(_weighted)?"]],
    },
    "progress": {
        "images per second": ["Multiline", ["progress/images_per_s"]],
        "scales and skipped steps": ["Multiline", ["amp/.*"]],
        "gradient norms": ["Multiline", ["gradient_norm/.*"]],
    },
}


class TensorBoardWriter:
    """Writes scalars and images by their tags, which are paths such as `loss/G/l1`; writes nothing without a folder."""

    def __init__(self, run_folder: Path | None, first_step: int) -> None:
        """Start at `first_step`; what an interrupted run wrote of that step and later is hidden from the curves."""
        self._previous_hook, threading.excepthook = threading.excepthook, self._report_thread
        # In a run's first session too: TensorBoard takes its first mark of a start for no restart, and hides nothing.
        self._writer = SummaryWriter(str(run_folder), purge_step=first_step) if run_folder else None
        with self._forgiving() as writer:
            if writer:
                writer.add_custom_scalars(LAYOUT)

    def write_scalars(self, values: Mapping[str, float], step: int) -> None:
        """Add one point to each curve."""
        with self._forgiving() as writer:
            if writer:
                for tag, value in values.items():
                    writer.add_scalar(tag, value, step)

    def write_text(self, tag: str, text: str, step: int) -> None:
        """Add a text."""
        with self._forgiving() as writer:
            if writer:
                writer.add_text(tag, text, step)

    def write_image(self, tag: str, image: Tensor, step: int) -> None:
        """Add a (3, H, W) uint8 image."""
        with self._forgiving() as writer:
            if writer:
                writer.add_image(tag, image, step)

    def close(self) -> None:
        """Write what is left."""
        with self._forgiving() as writer:
            if writer:
                writer.close()
        threading.excepthook = self._previous_hook

    def _report_thread(self, failure: threading.ExceptHookArgs) -> None:
        """Leave out the traceback of the thread that writes the events, whose OSError the next call here raises."""
        is_ours = type(failure.thread).__module__.startswith("tensorboard.")
        if not (is_ours and isinstance(failure.exc_value, OSError)):
            self._previous_hook(failure)

    @contextmanager
    def _forgiving(self) -> Iterator[SummaryWriter | None]:
        """A disk that fails ends the curves, not the run."""
        try:
            yield self._writer
            if self._writer:
                self._writer.flush()
        except OSError as error:
            self._writer = None
            logger.warning("TensorBoard's events can be written no more in this session: %s", error)
