"""Functions of a program that calls `train`: they follow the run, and may end it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

Callback = Callable[[int, dict[str, float]], object]
"""Gets the step and its own copy of figures by name. The result True ends the run. Other results have no effect."""


@dataclass
class Callbacks:
    """Functions of the caller, which the main process calls. Their random numbers do not change the training.

    on_report: Called every log.every_steps with the scalars of a report by tag.
    on_validation: Called every log.images_every_steps with the figures of the validation samples by name.
    error: Exception of a function, also SystemExit. The run ends as if it had returned True, and `train` raises it.
    """

    on_report: Callback | None = None
    on_validation: Callback | None = None
    error: BaseException | None = None

    def call(self, name: str, step: int, figures: Mapping[str, float]) -> str | None:
        """Call the function of a name, if there is one. Return why the run must end, or None if it continues."""
        callback: Callback | None = getattr(self, name)
        if callback is None or self.error:
            return None
        own_gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        try:
            with torch.random.fork_rng(own_gpus):
                result = callback(step, dict(figures))
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - `train` raises it after saving
            self.error = error
            return f"{name} raised {type(error).__name__}"
        return f"{name} returned True" if isinstance(result, bool | np.bool_) and result else None
