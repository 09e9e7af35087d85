from pathlib import Path

import pytest
import torch

from configs.load import load_config
from training.update_setup import build_update
from utils.distributed import World


@pytest.mark.parametrize(("level", "wanted"), [("O0", "ieee"), ("O1", "tf32")])
def test_float32_is_no_tf32_at_o0(tiny_config: Path, level: str, wanted: str) -> None:
    build_update(load_config(tiny_config, [f"amp.opt_level={level}"]), World(0, 1, torch.device("cpu")))
    assert torch.backends.cudnn.conv.fp32_precision == wanted  # type: ignore[attr-defined]
