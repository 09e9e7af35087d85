"""train.py with a fault in it, for processes that torchrun starts: the fault is in the variable FAULT, as JSON."""

import json
import os
import sys
from pathlib import Path

import torch.distributed.run  # noqa: F401 - so that a restart is quick too

import train
from tests.reliability.faults import Fault, inject
from utils.cli import run_entry_point

if __name__ == "__main__":
    fault = Fault(**json.loads(os.environ["FAULT"]))
    struck = Path(os.environ["FAULT_ONCE"]) if "FAULT_ONCE" in os.environ else None
    if struck is None or not struck.exists():
        inject(fault)
    if struck is not None and int(os.environ["RANK"]) == fault.rank:
        struck.touch()
    sys.exit(run_entry_point(train.main))
