"""What entry points share: a user's error ends in one line on stderr and exit code 2."""

import sys
from collections.abc import Callable, Sequence

from utils.stop_request import Interrupted


def run_entry_point(main: Callable[[Sequence[str]], None], user_errors: tuple[type[Exception], ...]) -> int:
    """Call `main` with the command line and return the exit code.

    0; 2 after a user's error; 128 + its number after a signal that stopped a run. Any other exception is a fault of the
    application and keeps its traceback.
    """
    try:
        main(sys.argv[1:])
    except user_errors as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return 2
    except Interrupted as interruption:
        sys.stderr.write(f"{interruption}; the same command, without --resume, goes on from there\n")
        return interruption.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    return 0
