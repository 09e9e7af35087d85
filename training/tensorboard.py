"""TensorBoard's event files."""

import threading
from collections.abc import Callable
from pathlib import Path

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
    """Writes events into the folder of a run; a disk that fails ends the curves, not the run."""

    def __init__(self, run_folder: Path, first_step: int) -> None:
        """Start at `first_step`; what an interrupted run wrote of that step and later is hidden from the curves."""
        self._previous_hook, threading.excepthook = threading.excepthook, self._report_thread
        # In a run's first session too: TensorBoard takes its first mark of a start for no restart, and hides nothing.
        self._writer: SummaryWriter | None = SummaryWriter(str(run_folder), purge_step=first_step)
        self.write(lambda writer: writer.add_custom_scalars(LAYOUT))

    def write(self, add: Callable[[SummaryWriter], object]) -> None:
        """Call `add` with the writer of torch, and bring to the disk what it adds."""
        if self._writer is None:
            return
        try:
            add(self._writer)
            self._writer.flush()
        except OSError as error:
            self._writer = None
            logger.warning("TensorBoard's events can be written no more in this session: %s", error)

    def close(self) -> None:
        """Write what is left."""
        self.write(SummaryWriter.close)
        threading.excepthook = self._previous_hook

    def _report_thread(self, failure: threading.ExceptHookArgs) -> None:
        """Leave out the traceback of the thread that writes the events, whose OSError the next call here raises."""
        is_ours = type(failure.thread).__module__.startswith("tensorboard.")
        if not (is_ours and isinstance(failure.exc_value, OSError)):
            self._previous_hook(failure)
