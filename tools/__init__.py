"""The smaller entry points, one job each: python -m tools.NAME."""

import signal
import sys

from utils.signals import leave_at_once

if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # Python locates the tool
    signal.signal(signal.SIGINT, leave_at_once)  # until the tool has been imported
