"""From a configuration to its parts."""

from pathlib import Path

import pytest
import torch

from configs import build
from configs.load import load_config


@pytest.mark.parametrize(("level", "wanted"), [("O0", "ieee"), ("O1", "tf32")])
def test_float32_is_no_tf32_at_o0(tiny_config: Path, level: str, wanted: str) -> None:
    build.prepare_device(load_config(tiny_config, [f"amp.opt_level={level}"]), torch.device("cpu"))
    assert torch.backends.cudnn.conv.fp32_precision == wanted  # type: ignore[attr-defined]
