"""Errors that end a program without a traceback: what the user can mend, and a signal that stopped a run."""

import signal


class UserError(Exception):
    """Something that the user can mend; every such error derives from this class, and command lines catch it.

    problems: one or more lines, each of which names the thing, its value and the remedy.
    """

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems; the error as a text has a line for each."""
        return self.args

    def __str__(self) -> str:
        return "\n".join(self.args)


class ConfigError(UserError):
    """A setting, or several settings together, cannot be used."""


class Interrupted(BaseException):
    """A signal asked the run to stop; everything it had done is saved."""

    def __init__(self, signal_number: int, what_is_saved: str) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} {what_is_saved}")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number
