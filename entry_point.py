"""What entry points share: a user's error ends in one line on stderr and exit code 2.

Imports nothing that takes long, so that --help answers at once.
"""

import sys
from collections.abc import Callable, Sequence


def user_errors() -> tuple[type[Exception], ...]:
    """What the user can mend: an entry point tells it in one line."""
    from configs.schema import ConfigError
    from data.batch import DataError
    from losses.perceptual import WeightsError
    from models.original_names import OriginalWeightsError
    from utils.checkpoint import CheckpointError
    from utils.compilation import CompilerError
    from utils.distributed import DeviceError, PeerLostError

    return (
        ConfigError,
        DataError,
        CheckpointError,
        CompilerError,
        OriginalWeightsError,
        WeightsError,
        DeviceError,
        PeerLostError,
        OSError,
    )


def run_entry_point(main: Callable[[Sequence[str]], None]) -> int:
    """Call `main` with the command line and return the exit code.

    0; 2 after a user's error; 128 + its number after a signal that stopped a run. Any other exception is a fault of the
    application and keeps its traceback.
    """
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except Exception as error:
        from utils.stop_request import Interrupted

        if isinstance(error, Interrupted):
            sys.stderr.write(f"{error}; the same command, without --resume, goes on from there\n")
            return error.exit_code
        if not isinstance(error, user_errors()):
            raise
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return 2
    return 0
