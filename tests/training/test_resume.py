"""Where a run starts from."""

from pathlib import Path
from typing import Any

import pytest
import torch

from training.resume import find_checkpoint_together
from utils.checkpoint import CheckpointError
from utils.distributed import World


class SecondMachine(World):
    """The second of two processes, to which the first sends a path of its own machine."""

    def gather(self, value: Any) -> list[Any]:
        return [Path("/runs/tiny/checkpoint-00000004.pt"), value]


def test_a_checkpoint_that_only_one_machine_sees_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"run\.root has to be the same folder on all"):
        find_checkpoint_together(tmp_path, "auto", SecondMachine(1, 2, torch.device("cpu")))
