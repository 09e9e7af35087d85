"""Errors that end a program without a traceback: those of the user, and a signal that stopped a run."""

import signal
from typing import ClassVar


class UserError(Exception):
    """Something that the user can mend; every such error derives from this class, and command lines catch it.

    problems: one or more lines, each of which names the thing, its value and the remedy.
    is_consequence: whether it only reports that another process has failed, which prints its own error.
    """

    is_consequence: ClassVar[bool] = False

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems; the text of the error has a line for each."""
        return self.args

    def __str__(self) -> str:
        return "\n".join(self.args)


class ConfigError(UserError):
    """A setting, or a combination of settings, cannot be used."""


class Interrupted(BaseException):
    """A signal stopped the run; its work is saved.

    saved_step: the step of the run's checkpoint; None where nothing was made that could be saved.
    remedy: how the run is continued.
    """

    def __init__(self, signal_number: int, saved_step: int | None = None) -> None:
        name = signal.Signals(signal_number).name
        if saved_step is None:
            super().__init__(f"stopped by {name}; there was nothing to save")
            self.remedy = "the same command starts it again"
        else:
            super().__init__(f"stopped by {name} and saved at step {saved_step}")
            self.remedy = "the same command, without --resume, continues from there"
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
