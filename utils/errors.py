"""Exceptions that end a program without a traceback: errors of the user, and signals that stop a run."""

import signal
from typing import ClassVar


class UserError(Exception):
    """An error that the user can correct. Command-line programs catch this class.

    is_consequence: Whether the error only reports that another process failed. That process prints the original error.
    """

    is_consequence: ClassVar[bool] = False

    @property
    def problems(self) -> tuple[str, ...]:
        """One or more messages. Each message names the setting or file, the problem and the remedy."""
        return self.args

    def __str__(self) -> str:
        return "\n".join(self.args)


class ConfigError(UserError):
    """A setting, or a combination of settings, cannot be used."""


class Interrupted(BaseException):
    """A signal stopped the run after its state was saved.

    saved_step: Step of the saved checkpoint, or None if there was nothing to save.
    remedy: How to continue the run.
    """

    def __init__(self, signal_number: int, saved_step: int | None = None) -> None:
        name = signal.Signals(signal_number).name
        if saved_step is None:
            super().__init__(f"stopped by {name}; there was nothing to save")
            self.remedy = "repeat the command to start again"
        else:
            super().__init__(f"stopped by {name} and saved at step {saved_step}")
            self.remedy = "repeat the command without --resume to continue"
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
