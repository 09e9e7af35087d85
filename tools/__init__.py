"""Command-line tools. Start a tool with python -m tools.NAME."""

import signal
import sys

from utils.signals import leave_at_once

if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # python -m tools.NAME
    signal.signal(signal.SIGINT, leave_at_once)  # during the import, Ctrl-C exits without a traceback
