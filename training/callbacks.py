"""Functions of a program that calls `train`: they follow the run, and may end it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from utils.errors import ConfigError
from utils.yaml_file import shortened

Callback = Callable[[int, dict[str, float]], object]
"""Gets the step and its own copy of figures by name. The result True ends the run; any other has no effect."""


@dataclass
class Callbacks:
    """Functions of the caller, which the main process calls. What they draw from torch does not change the training.

    on_report: gets the scalars of a report by their tags, every log.every_steps.
    on_validation: gets the figures of the validation samples by name, every log.images_every_steps.
    error: what one of them has raised, also by sys.exit. The run ends as if it had returned True; `train` raises it.
    """

    on_report: Callback | None = None
    on_validation: Callback | None = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        for name, callback in (("on_report", self.on_report), ("on_validation", self.on_validation)):
            if not (callback is None or callable(callback)):
                raise ConfigError(f"{name}: {shortened(callback)} is no function: give one of a step and figures")

    def report(self, step: int, scalars: Mapping[str, float]) -> str | None:
        """Call `on_report`; return why the run shall end, None where it shall go on."""
        return self._call(self.on_report, "on_report", step, scalars)

    def validated(self, step: int, figures: Mapping[str, float]) -> str | None:
        """Call `on_validation`; return why the run shall end, None where it shall go on."""
        return self._call(self.on_validation, "on_validation", step, figures)

    def _call(self, callback: Callback | None, name: str, step: int, figures: Mapping[str, float]) -> str | None:
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
